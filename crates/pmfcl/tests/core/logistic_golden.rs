//! Logistic and softmax numbers from an independent oracle (NumPy, float64, Newton to machine precision).

use pmfcl::problem::logistic::{Curvature, Objective, OneTask, probabilities};
use pmfcl::{Design, Penalty, Rows, Summary, Theta, solve};
use serde_json::Value;

/// The oracle's own minimizers are right to about 1e-10; ours agree to better than this.
const TOLERANCE: f64 = 1e-8;

fn load(name: &str) -> Value {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(v: &Value) -> Vec<f64> {
    match v.as_array() {
        Some(list) => list.iter().flat_map(numbers).collect(),
        None => vec![v.as_f64().unwrap()],
    }
}

struct Task {
    x: Vec<f64>,
    labels: Vec<u32>,
}

fn tasks(golden: &Value) -> Vec<Task> {
    let one = |t: &Value| Task {
        x: numbers(&t["X"]),
        labels: numbers(&t["y"]).iter().map(|y| *y as u32).collect(),
    };
    golden["tasks"].as_array().unwrap().iter().map(one).collect()
}

fn design(d: usize) -> Design {
    Design::linear(d, false).unwrap()
}

/// Largest difference, relative to the largest number but at least 1; asserted and returned.
fn close(ours: &[f64], theirs: &[f64], what: &str) -> f64 {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let scale = theirs.iter().fold(1.0_f64, |a, v| a.max(v.abs()));
    let gap = ours.iter().zip(theirs).fold(0.0_f64, |a, (o, t)| a.max((o - t).abs())) / scale;
    assert!(gap <= TOLERANCE, "{what}: {gap:e}\n{ours:?}\n{theirs:?}");
    gap
}

/// Row-major `d × K`, as the oracle has it, from columns.
fn by_rows(theta: &Theta) -> Vec<f64> {
    let (m, p) = (theta.width(), theta.targets());
    (0..m * p).map(|i| theta.column(i % p)[i / p]).collect()
}

struct Setting {
    design: Design,
    d: usize,
    classes: usize,
}

impl Setting {
    fn rows<'a>(&self, task: &'a Task) -> OneTask<'a> {
        let x = Rows::new(&task.x, self.d).unwrap();
        OneTask::new(&self.design, x, (&task.labels, self.classes), None, 1).unwrap()
    }

    fn fit(&self, task: &Task, past: Option<&Summary>, ridge: f64) -> Theta {
        let objective = Objective { scale: 1.0, past, penalty: &vec![ridge; self.d] };
        let fit = self.rows(task).minimize(&objective, None).unwrap();
        assert!(fit.converged && fit.gradient <= 1e-10 && !fit.separable, "{fit:?}");
        fit.theta
    }

    fn expand(&self, task: &Task, anchor: &Theta, curvature: Curvature) -> Summary {
        self.rows(task).expand(anchor, curvature).unwrap()
    }

    fn loss(&self, task: &Task, theta: &Theta) -> f64 {
        self.rows(task).evaluate(theta).unwrap().0
    }
}

fn pooled(parts: &[Summary]) -> Theta {
    let empty = Summary::empty(parts[0].width(), parts[0].targets());
    let sum = parts.iter().fold(empty, |sum, part| sum.merge(part).unwrap());
    solve(&sum, false, Penalty::NONE, None).unwrap().theta
}

#[test]
fn logistic_one_shot_is_the_oracles() {
    let golden = load("logistic_binary");
    let tasks = tasks(&golden);
    let setting = Setting { design: design(4), d: 4, classes: 2 };
    let minima: Vec<Theta> = tasks.iter().map(|t| setting.fit(t, None, 0.0)).collect();
    let mut worst = 0.0_f64;
    for (t, theta) in minima.iter().enumerate() {
        worst = worst.max(close(theta.cells(), &numbers(&golden["theta_min"][t]), "theta_min"));
    }
    for (name, curvature) in
        [("bohning", Curvature::Bohning), ("jj", Curvature::Sharp), ("laplace", Curvature::Hessian)]
    {
        let parts: Vec<Summary> =
            tasks.iter().zip(&minima).map(|(t, a)| setting.expand(t, a, curvature)).collect();
        for k in 1..=parts.len() {
            let theta = pooled(&parts[..k]);
            let theirs = numbers(&golden[name]["theta"][k - 1]);
            worst = worst.max(close(theta.cells(), &theirs, &format!("{name} theta {k}")));
        }
        let theta = pooled(&parts);
        let bound: Vec<f64> = parts.iter().map(|s| s.forgetting(&theta).unwrap()).collect();
        worst = worst.max(close(&bound, &numbers(&golden[name]["bound"]), name));
        let least = |t: &Task| setting.rows(t).least_loss(None).unwrap().value;
        let forgetting: Vec<f64> = tasks
            .iter()
            .zip(&minima)
            .map(|(t, own)| {
                // The certificate is below the minimum, and by less than its own gap.
                let (low, own) = (least(t), setting.loss(t, own));
                assert!(low <= own + 1e-12 && own - low <= 2e-7 * own, "{low} {own}");
                setting.loss(t, &theta) - own
            })
            .collect();
        worst = worst.max(close(&forgetting, &numbers(&golden["forgetting"][name]), name));
    }
    println!("one-shot, binary: worst difference {worst:.1e}");
}

#[test]
fn logistic_sequential_is_the_oracles() {
    let golden = load("logistic_binary");
    let tasks = tasks(&golden);
    let setting = Setting { design: design(4), d: 4, classes: 2 };
    let mut worst = 0.0_f64;
    for (name, curvature) in [
        ("online_hess", Curvature::Hessian),
        ("online_jj", Curvature::Sharp),
        ("online_mix", Curvature::Blend),
        ("online_bohning", Curvature::Bohning),
    ] {
        let mut past: Option<Summary> = None;
        for (k, task) in tasks.iter().enumerate() {
            let theta = setting.fit(task, past.as_ref(), 1.0);
            let theirs = numbers(&golden[name]["theta"][k]);
            worst = worst.max(close(theta.cells(), &theirs, &format!("{name} {k}")));
            let part = setting.expand(task, &theta, curvature);
            past = Some(past.map_or(part.clone(), |p| p.merge(&part).unwrap()));
        }
    }
    println!("sequential, binary: worst difference {worst:.1e}");
}

#[test]
fn softmax_is_the_oracles() {
    let golden = load("softmax");
    let tasks = tasks(&golden);
    let setting = Setting { design: design(4), d: 4, classes: 3 };
    let minima: Vec<Theta> = tasks.iter().map(|t| setting.fit(t, None, 0.0)).collect();
    let mut worst = 0.0_f64;
    for (t, theta) in minima.iter().enumerate() {
        let theirs = numbers(&golden["theta_min"][t]);
        worst = worst.max(close(&by_rows(theta), &theirs, "theta_min"));
    }
    let parts: Vec<Summary> =
        tasks.iter().zip(&minima).map(|(t, a)| setting.expand(t, a, Curvature::Bohning)).collect();
    let theta = pooled(&parts);
    worst = worst.max(close(&by_rows(&theta), &numbers(&golden["theta"]), "theta"));
    let bound: Vec<f64> = parts.iter().map(|s| s.forgetting(&theta).unwrap()).collect();
    worst = worst.max(close(&bound, &numbers(&golden["bound"]), "bound"));
    let forgetting: Vec<f64> = tasks
        .iter()
        .zip(&minima)
        .map(|(t, own)| setting.loss(t, &theta) - setting.loss(t, own))
        .collect();
    worst = worst.max(close(&forgetting, &numbers(&golden["forgetting"]), "forgetting"));

    // c_i of a row is what the summary of that row alone has on the diagonal: R² = c x².
    for (t, (task, anchor)) in tasks.iter().zip(&minima).enumerate() {
        let ours: Vec<f64> = (0..task.labels.len())
            .map(|i| {
                let row =
                    Task { x: task.x[4 * i..4 * i + 4].to_vec(), labels: vec![task.labels[i]] };
                let squares = setting.expand(&row, anchor, Curvature::Sharp).column_squares();
                squares[0] / (row.x[0] * row.x[0])
            })
            .collect();
        worst = worst.max(close(&ours, &numbers(&golden["pmax_curv"][t]), "pmax_curv"));
        let sums: f64 = by_rows(anchor).chunks(3).map(|r| r.iter().sum::<f64>().abs()).sum();
        assert!(sums < 1e-12, "centred");
    }
    println!("softmax: worst difference {worst:.1e}");
}

#[test]
fn logistic_probabilities_sum_to_one() {
    let eta = [0.3, -700.0, 700.0, 1.0, 2.0, 3.0];
    let (mut two, mut three) = ([0.0; 12], [0.0; 6]);
    probabilities(&eta, 2, &mut two);
    probabilities(&eta, 3, &mut three);
    for row in two.chunks(2).chain(three.chunks(3)) {
        assert!(
            (row.iter().sum::<f64>() - 1.0).abs() <= f64::EPSILON && row.iter().all(|p| *p >= 0.0)
        );
    }
}
