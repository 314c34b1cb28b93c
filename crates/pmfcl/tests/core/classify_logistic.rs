//! Log-loss over tasks: near joint training, bounded forgetting, and refusals where a thing is not sound.

use pmfcl::problem::{Curvature, FitOutcome, Logistic, Scheme};
use pmfcl::{
    Error, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings, TaskRows,
};

const D: usize = 20;
const SEEDS: u64 = 8;

/// Normal draws: splitmix64 through Box and Muller.
struct Normal(u64);

impl Normal {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn draw(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

struct Task {
    x: Vec<f64>,
    y: Vec<u8>,
    test_x: Vec<f64>,
    test_y: Vec<u8>,
}

/// Five binary tasks on correlated features whose parameters drift: `θ_1 ~ size·N(0, I)`,
/// `θ_{t+1} = θ_t + drift·N(0, I)`, `P(y = 1) = sigmoid(2 xᵀθ_t/√d)`.
fn stream(seed: u64, rows: usize, size: f64, drift: f64) -> Vec<Task> {
    let mut normal = Normal(seed);
    let mut theta: Vec<f64> = (0..D).map(|_| size * normal.draw()).collect();
    (0..5)
        .map(|t| {
            if t > 0 {
                theta.iter_mut().for_each(|v| *v += drift * normal.draw());
            }
            let mut rows_of = |n: usize| {
                let (mut x, mut y) = (Vec::new(), Vec::new());
                for _ in 0..n {
                    // ½I + ½·11ᵀ: a common part and a part of its own.
                    let common = normal.draw();
                    let row: Vec<f64> =
                        (0..D).map(|_| (common + normal.draw()) * 0.5_f64.sqrt()).collect();
                    let eta: f64 = row.iter().zip(&theta).map(|(a, b)| a * b).sum();
                    let p = 1.0 / (1.0 + (-2.0 * eta / (D as f64).sqrt()).exp());
                    y.push(u8::from(normal.uniform() < p));
                    x.extend(row);
                }
                (x, y)
            };
            let (x, y) = rows_of(rows);
            let (test_x, test_y) = rows_of(2000);
            Task { x, y, test_x, test_y }
        })
        .collect()
}

/// A problem and its settings.
type With = (Problem, Settings);

fn settings(scheme: Scheme, curvature: Curvature) -> With {
    let problem = Problem::Logistic(Logistic { scheme, curvature, ..Logistic::default() });
    (problem, Settings { threads: 1, ..Settings::default() })
}

fn empty((problem, settings): &With) -> Learner {
    Learner::new(problem.clone(), settings.clone()).unwrap()
}

fn learn(model: &mut Learner, name: &str, x: &[f64], y: &[u8]) -> Result<(), Error> {
    model.learn(name, TaskRows::new(rows(x), &Labels::new(y)), 1.0)
}

fn log_loss(model: &Learner, x: &[f64], y: &[u8]) -> f64 {
    model.evaluate(TaskRows::new(rows(x), &Labels::new(y))).unwrap().log_loss()
}

fn rows(x: &[f64]) -> Rows<'_> {
    Rows::new(x, D).unwrap()
}

fn learned(with: &With, tasks: &[Task]) -> Learner {
    let mut model = empty(with);
    for (t, task) in tasks.iter().enumerate() {
        learn(&mut model, &t.to_string(), &task.x, &task.y).unwrap();
    }
    model
}

/// One task of all rows: plain logistic regression under the same prior.
fn joint(tasks: &[Task]) -> Learner {
    let x: Vec<f64> = tasks.iter().flat_map(|t| t.x.clone()).collect();
    let y: Vec<u8> = tasks.iter().flat_map(|t| t.y.clone()).collect();
    let mut model = empty(&settings(Scheme::Sequential, Curvature::Sharp));
    learn(&mut model, "all", &x, &y).unwrap();
    model
}

fn test_loss(model: &Learner, tasks: &[Task]) -> f64 {
    let x: Vec<f64> = tasks.iter().flat_map(|t| t.test_x.clone()).collect();
    let y: Vec<u8> = tasks.iter().flat_map(|t| t.test_y.clone()).collect();
    log_loss(model, &x, &y)
}

/// Mean over the seeds of (parameter distance to joint ÷ its norm, test log-loss less joint's).
fn against_joint(with: &With, rows: usize, size: f64, drift: f64) -> (f64, f64) {
    let (mut distance, mut excess) = (0.0, 0.0);
    for seed in 0..SEEDS {
        let tasks = stream(seed, rows, size, drift);
        let (ours, joint) = (learned(with, &tasks), joint(&tasks));
        assert!(ours.solution().unwrap().theta.is_finite());
        let (a, b) = (&ours.solution().unwrap().theta, &joint.solution().unwrap().theta);
        distance += a.distance(b) / b.norm() / SEEDS as f64;
        excess += (test_loss(&ours, &tasks) - test_loss(&joint, &tasks)) / SEEDS as f64;
    }
    (distance, excess)
}

#[test]
fn conflicting_tasks_come_near_joint_training() {
    let sequential = against_joint(&settings(Scheme::Sequential, Curvature::Sharp), 400, 1.0, 1.0);
    let sharp = against_joint(&settings(Scheme::OneShot, Curvature::Sharp), 400, 1.0, 1.0);
    let paper = against_joint(&settings(Scheme::OneShot, Curvature::Bohning), 400, 1.0, 1.0);
    println!("distance, log-loss: sequential {sequential:?}, sharp {sharp:?}, paper {paper:?}");
    assert!(sequential.0 <= 0.2, "{sequential:?}");
    assert!(sharp.0 <= 0.35 && sharp.0 < paper.0, "{sharp:?}, paper's form {paper:?}");
}

#[test]
fn separable_tasks_stay_finite_and_near_joint_training() {
    let ours = against_joint(&settings(Scheme::Sequential, Curvature::Blend), 60, 4.0, 2.0);
    let sharp = against_joint(&settings(Scheme::OneShot, Curvature::Sharp), 60, 4.0, 2.0);
    // The paper's form: each task's own minimum, with a vanishing ridge (1e-6 on the sum) to make it exist.
    let mut vanishing = settings(Scheme::OneShot, Curvature::Bohning);
    vanishing.1.ridge = Ridge::Fixed(1e-6 / 60.0);
    let paper = against_joint(&vanishing, 60, 4.0, 2.0);
    println!("distance, log-loss: blend {ours:?}, sharp one-shot {sharp:?}, paper {paper:?}");
    assert!(ours.1 <= 0.02, "{ours:?}");
    assert!(paper.1 > 1.0, "{paper:?}");
    let tasks = stream(0, 60, 4.0, 2.0);
    let model = learned(&settings(Scheme::OneShot, Curvature::Sharp), &tasks);
    let outcomes: Vec<_> = model.tasks().unwrap().iter().map(|t| t.outcome).collect();
    assert!(outcomes.contains(&FitOutcome::Separable), "{outcomes:?}");
}

#[test]
fn the_bound_is_above_the_true_forgetting_and_sharp_is_below_bohning() {
    for scheme in [Scheme::OneShot, Scheme::Sequential] {
        for (count, size, drift) in [(400, 1.0, 1.0), (60, 4.0, 2.0)] {
            let tasks = stream(3, count, size, drift);
            let mut bounds = Vec::new();
            for curvature in [Curvature::Bohning, Curvature::Sharp, Curvature::Diagonal] {
                let model = learned(&settings(scheme, curvature), &tasks);
                let reports = model.tasks().unwrap();
                for (report, task) in reports.iter().zip(&tasks) {
                    let loss = log_loss(&model, &task.x, &task.y);
                    let bound = report.bound.unwrap();
                    assert!(report.guaranteed && report.loss.is_none());
                    assert!(
                        loss - report.min_loss.unwrap() <= bound + 1e-9,
                        "{scheme:?} {curvature:?}: {loss} − {} > {bound}",
                        report.min_loss.unwrap()
                    );
                }
                bounds.push(reports.iter().map(|r| r.bound.unwrap()).collect::<Vec<_>>());
            }
            // Sequential anchors differ with the curvature; one-shot ones do not.
            if scheme == Scheme::OneShot {
                assert!(bounds[1].iter().zip(&bounds[0]).all(|(s, b)| s <= b), "{bounds:?}");
            }
        }
    }
    let loose = learned(&settings(Scheme::OneShot, Curvature::Hessian), &stream(3, 60, 1.0, 1.0));
    assert!(loose.tasks().unwrap().iter().all(|t| !t.guaranteed));
}

#[test]
fn one_shot_does_not_depend_on_order_and_can_be_merged_and_removed() {
    let tasks = stream(1, 80, 1.0, 1.0);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let mut with = settings(Scheme::OneShot, Curvature::Sharp);
        with.1.memory = memory;
        let of = |order: &[usize]| {
            let mut model = empty(&with);
            for &t in order {
                let task = &tasks[t];
                learn(&mut model, &t.to_string(), &task.x, &task.y).unwrap();
            }
            model
        };
        let close = |a: &Learner, b: &Learner, what: &str| {
            let (a, b) = (&a.solution().unwrap().theta, &b.solution().unwrap().theta);
            assert!(a.distance(b) <= 1e-9 * b.norm(), "{what}: {}", a.distance(b));
        };
        let all = of(&[0, 1, 2, 3, 4]);
        close(&of(&[4, 2, 0, 3, 1]), &all, "order");
        let mut merged = of(&[3, 1]);
        merged.merge(&of(&[0, 4, 2])).unwrap();
        close(&merged, &all, "merge");
        let mut less = all.clone();
        let labels = Labels::new(&tasks[2].y);
        let gone = less.summarize(TaskRows::new(rows(&tasks[2].x), &labels)).unwrap();
        less.unlearn_summary("2", &gone).unwrap();
        close(&less, &of(&[0, 1, 3, 4]), "removal");
    }
}

#[test]
fn sequential_refuses_to_unlearn_and_says_why() {
    let tasks = stream(1, 80, 1.0, 1.0);
    let mut model = learned(&settings(Scheme::Sequential, Curvature::Sharp), &tasks);
    let error = model.unlearn("1").unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("sequential"), "{error}");
    model.prefer(Preference::Equal).unwrap();
    model.set_ridge(Ridge::Fixed(0.01), true).unwrap();
    assert!(model.solution().unwrap().theta.is_finite());
}

#[test]
fn a_first_sequential_task_is_plain_logistic_regression() {
    let tasks = stream(2, 200, 1.0, 1.0);
    let first = std::slice::from_ref(&tasks[0]);
    let model = learned(&settings(Scheme::Sequential, Curvature::Hessian), first);
    // At the solution the gradient of loss and prior vanishes: checked by central differences of the
    // true loss, h = 1e-4 (truncation 1e-9, rounding 1e-12/h).
    let n = 200.0;
    let theta = model.solution().unwrap().theta.column(0).to_vec();
    let loss = |theta: &[f64]| -> f64 {
        let each = tasks[0].x.chunks(D).zip(&tasks[0].y).map(|(row, y)| {
            let eta = theta[0] + row.iter().zip(&theta[1..]).map(|(a, b)| a * b).sum::<f64>();
            eta.max(0.0) + (-eta.abs()).exp().ln_1p() - f64::from(*y) * eta
        });
        each.sum()
    };
    for j in 1..=D {
        let h = 1e-4;
        let (mut up, mut down) = (theta.clone(), theta.clone());
        up[j] += h;
        down[j] -= h;
        let slope = (loss(&up) - loss(&down)) / (2.0 * h);
        let column = tasks[0].x.iter().skip(j - 1).step_by(D);
        let mean = column.clone().sum::<f64>() / n;
        let variance = column.map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        assert!((slope + variance * theta[j]).abs() < 1e-5, "{j}: {slope}");
    }
}

#[test]
fn several_classes_and_tasks_that_lack_some() {
    let tasks = stream(5, 120, 2.0, 0.5);
    let names = || ["0", "1", "2", "3"].map(String::from).to_vec();
    let labels =
        |t: usize| -> Vec<u8> { tasks[t].y.iter().map(|y| y + 2 * (t as u8 % 2)).collect() };
    for scheme in [Scheme::OneShot, Scheme::Sequential] {
        let (problem, with) = settings(scheme, Curvature::Sharp);
        let mut model = empty(&(problem.with_classes(names()).unwrap(), with));
        for t in 0..4 {
            learn(&mut model, &t.to_string(), &tasks[t].x, &labels(t)).unwrap();
        }
        assert!(model.solution().unwrap().theta.is_finite());
        let proba = model.probabilities(rows(&tasks[0].test_x)).unwrap();
        assert!(proba.chunks(4).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        for (t, task) in model.tasks().unwrap().iter().enumerate() {
            let loss = log_loss(&model, &tasks[t].x, &labels(t));
            let bound = task.bound.unwrap();
            assert!(loss - task.min_loss.unwrap() <= bound + 1e-9, "{loss} > {bound}");
        }
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let tasks = stream(1, 40, 1.0, 1.0);
    let mut model = empty(&settings(Scheme::OneShot, Curvature::Sharp));
    let one = vec![1_u8; 40];
    let error = learn(&mut model, "0", &tasks[0].x, &one).unwrap_err();
    assert!(error.to_string().contains("two classes"), "{error}");
    learn(&mut model, "0", &tasks[0].x, &tasks[0].y).unwrap();
    let before = model.solution().unwrap().clone();
    let new: Vec<u8> = tasks[1].y.iter().map(|y| y + 1).collect();
    let mut nan = tasks[1].x.clone();
    nan[25] = f64::NAN;
    let zero = vec![0.0; 40];
    let labels = Labels::new(&tasks[1].y);
    let second = TaskRows::new(rows(&tasks[1].x), &labels);
    let errors = [
        learn(&mut model, "1", &tasks[1].x, &new).unwrap_err(),
        learn(&mut model, "1", &nan, &tasks[1].y).unwrap_err(),
        model.learn("1", second.weighted(&zero[..]), 1.0).unwrap_err(),
        model.learn("0", second, 1.0).unwrap_err(),
    ];
    assert!(errors[0].to_string().contains("new class"), "{}", errors[0]);
    assert!(matches!(errors[1], Error::NotFinite { row: 1, column: 5, .. }), "{}", errors[1]);
    assert!(matches!(errors[2], Error::Weight { .. }), "{}", errors[2]);
    assert!(matches!(errors[3], Error::DuplicateTask { .. }), "{}", errors[3]);
    assert_eq!(model.solution().unwrap(), &before);
    model.learn("1", second, 1.0).unwrap();
}

/// With a single task there is nothing to bound: the model is the fit of its rows, whatever the scheme and the curvature.
#[test]
fn a_single_task_is_the_joint_fit() {
    let task = &stream(3, 300, 1.0, 0.0)[0];
    // Few rows of the second class: the intercept matters.
    let keep: Vec<usize> = (0..300).filter(|&i| task.y[i] == 0 || i % 9 == 0).collect();
    let x: Vec<f64> = keep.iter().flat_map(|&i| task.x[i * D..][..D].to_vec()).collect();
    let names: Vec<String> = keep.iter().map(|&i| task.y[i].to_string()).collect();
    let labels = Labels::new(&names);
    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), &labels);
    let of = |scheme: Scheme, curvature: Curvature| {
        let (problem, settings) = settings(scheme, curvature);
        let settings = Settings { ridge: Ridge::Auto, ..settings };
        let mut model = Learner::new(problem, settings).unwrap();
        model.learn("all", rows, 1.0).unwrap();
        model.probabilities(Rows::new(&task.test_x, D).unwrap()).unwrap()
    };
    let joint = of(Scheme::Sequential, Curvature::Hessian);
    for curvature in [Curvature::Sharp, Curvature::Bohning, Curvature::Hessian] {
        for (u, v) in joint.iter().zip(&of(Scheme::OneShot, curvature)) {
            assert!((u - v).abs() < 1e-8, "{curvature}: {u} against {v}");
        }
    }
}
