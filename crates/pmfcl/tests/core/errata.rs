//! Each slip of the paper that concerns squared loss (`docs/errata.md`): the printed formula misses, the
//! corrected one hits.

use crate::support::{Table, apart, gauss, inner, learned, normal_equations, plain};
use faer::Mat;
use pmfcl::{Ridge, Settings, Theta};
use pmfcl_oracle::recursion::{Form, Recursion};
use pmfcl_oracle::{Draw, least_squares, relative_error};

/// The paper's factors of a task: `U` (n × r), `Σ`, `V` (d × r), by the linear-algebra library alone.
struct Svd {
    u: Mat<f64>,
    sigma: Vec<f64>,
    v: Mat<f64>,
}

fn svd(t: &Table) -> Svd {
    let n = t.n();
    let x = Mat::from_fn(n, t.d, |i, j| t.x[i * t.d + j]);
    let svd = x.thin_svd().unwrap();
    let sigma = (0..n.min(t.d)).map(|i| svd.S()[i]).collect();
    Svd { u: svd.U().to_owned(), sigma, v: svd.V().to_owned() }
}

impl Svd {
    /// `Vᵀθ`
    fn turned(&self, theta: &[f64]) -> Vec<f64> {
        (0..self.sigma.len())
            .map(|i| (0..theta.len()).map(|j| self.v[(j, i)] * theta[j]).sum())
            .collect()
    }

    /// `ỹ = Σ⁻¹Uᵀy`
    fn targets(&self, y: &[f64]) -> Vec<f64> {
        (0..self.sigma.len())
            .map(|i| (0..y.len()).map(|k| self.u[(k, i)] * y[k]).sum::<f64>() / self.sigma[i])
            .collect()
    }
}

fn drifting(sizes: &[usize], d: usize, draw: &mut Draw) -> Vec<Table> {
    sizes
        .iter()
        .map(|&n| {
            let truth = draw.normals(d);
            Table::linear(n, &truth, 0.1, draw)
        })
        .collect()
}

fn joint(tables: &[Table], penalty: f64) -> Vec<f64> {
    let all = Table::stack(tables.iter());
    least_squares(&all.x, all.d, &all.y, None, &vec![penalty; all.d])
}

#[test]
fn e1_the_printed_recursion_misses_joint_training() {
    let mut draw = Draw::new(1);
    let tables = drifting(&[20, 200, 40, 400], 5, &mut draw);
    let truth = joint(&tables, 0.0);
    let run = |form: Form| {
        let mut recursion = Recursion::new(5, form, 0.0);
        for t in &tables {
            recursion.learn(&t.x, &t.y);
        }
        relative_error(recursion.theta(), &truth)
    };
    assert!(run(Form::Printed) > 0.05, "printed: {}", run(Form::Printed));
    // Normal equations of condition below 10, four steps.
    assert!(run(Form::Corrected) < 1e-12, "corrected: {:e}", run(Form::Corrected));
    let ours = learned(plain(), &tables);
    assert!(relative_error(ours.solution().unwrap().theta.column(0), &truth) < 1e-13);
}

#[test]
fn e1_the_printed_recursion_is_right_only_for_tasks_of_one_size() {
    let mut draw = Draw::new(2);
    let tables = drifting(&[50, 50, 50], 5, &mut draw);
    let mut printed = Recursion::new(5, Form::Printed, 0.0);
    for t in &tables {
        printed.learn(&t.x, &t.y);
    }
    assert!(relative_error(printed.theta(), &joint(&tables, 0.0)) < 1e-12);
}

#[test]
fn e2_forgetting_carries_the_singular_values() {
    let mut draw = Draw::new(3);
    let tables = drifting(&[40, 25], 4, &mut draw);
    let learner = learned(plain(), &tables);
    let theta = learner.solution().unwrap().theta.column(0).to_vec();
    let t = &tables[0];
    let own = least_squares(&t.x, t.d, &t.y, None, &[]);
    let truth = t.loss(&Theta::from_slice(&theta)) - t.loss(&Theta::from_slice(&own));
    let f = svd(t);
    let (turned, targets) = (f.turned(&theta), f.targets(&t.y));
    let square = |weigh: bool| {
        let terms = (0..4)
            .map(|i| ((turned[i] - targets[i]) * if weigh { f.sigma[i] } else { 1.0 }).powi(2));
        terms.sum::<f64>() / (2.0 * t.n() as f64)
    };
    assert!((square(true) / truth - 1.0).abs() < 1e-11);
    assert!(square(false) < 0.2 * truth, "printed {} against {truth}", square(false));
    let ours = learner.tasks().unwrap()[0].forgetting.unwrap();
    assert!((ours / truth - 1.0).abs() < 1e-11);
}

#[test]
fn e3_the_targets_are_turned_by_the_transpose() {
    let mut draw = Draw::new(4);
    // Where U is not square, U y has no shape.
    let tall = Table::noise(9, 3, 1, &mut draw);
    assert_eq!((svd(&tall).u.nrows(), svd(&tall).u.ncols(), tall.y.len()), (9, 3, 9));
    // Where it is, U y is another vector: Σ(Vᵀθ − ỹ) no longer vanishes at the solution.
    let square = Table::noise(4, 4, 1, &mut draw);
    let (a, b): (Vec<Vec<f64>>, Vec<f64>) =
        (square.x.chunks_exact(4).map(<[f64]>::to_vec).collect(), square.y.clone());
    let solution = gauss(a, b);
    let f = svd(&square);
    let turned = f.turned(&solution);
    let printed: Vec<f64> = (0..4)
        .map(|i| (0..4).map(|k| f.u[(i, k)] * square.y[k]).sum::<f64>() / f.sigma[i])
        .collect();
    assert!(apart(&turned, &f.targets(&square.y)) < 1e-10);
    assert!(apart(&turned, &printed) > 0.1);
}

#[test]
fn e7_lambda_in_the_delta_system_is_not_ridge() {
    let mut draw = Draw::new(5);
    let (d, lambda) = (6, 0.1);
    let tables = drifting(&[8, 8, 8, 8, 8], d, &mut draw);
    let n: usize = tables.iter().map(Table::n).sum();
    let ridge = joint(&tables, lambda * n as f64);
    let mut delta = Recursion::new(d, Form::Corrected, lambda);
    for t in &tables {
        delta.learn(&t.x, &t.y);
    }
    assert!(relative_error(delta.theta(), &ridge) > 0.01, "away from ridge");
    assert!(relative_error(delta.theta(), &joint(&tables, 0.0)) > 0.01, "and from least squares");
    let ours = learned(Settings { ridge: Ridge::Fixed(lambda), ..plain() }, &tables);
    assert!(relative_error(ours.solution().unwrap().theta.column(0), &ridge) < 1e-13);
}

#[test]
fn e8_a_start_off_zero_is_not_of_minimum_norm() {
    let mut draw = Draw::new(6);
    let (n, d) = (4, 9);
    let t = Table::noise(n, d, 1, &mut draw);
    // Shortest solution of Xθ = y: Xᵀ(XXᵀ)⁻¹y; the Δ-step from θ_0 adds its part off the rows' span.
    let row = |i: usize| &t.x[i * d..(i + 1) * d];
    let outer: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| inner(row(i), row(j))).collect()).collect();
    let back = |u: &[f64]| -> Vec<f64> {
        (0..d).map(|j| (0..n).map(|i| u[i] * row(i)[j]).sum()).collect()
    };
    let shortest = back(&gauss(outer.clone(), t.y.clone()));
    let start = draw.normals(d);
    let residual: Vec<f64> = (0..n).map(|i| t.y[i] - inner(row(i), &start)).collect();
    let step = back(&gauss(outer, residual));
    let reached: Vec<f64> = start.iter().zip(&step).map(|(a, b)| a + b).collect();
    // Both fit every row …
    for theta in [&shortest, &reached] {
        assert!(t.loss(&Theta::from_slice(theta)) < 1e-24);
    }
    // … but only θ_0 = 0 gives the shortest, which is ours.
    assert!(apart(&reached, &shortest) > 0.5);
    let ours = learned(plain(), &[t]);
    assert!(apart(ours.solution().unwrap().theta.column(0), &shortest) < 1e-12);
}

#[test]
fn e9_the_papers_size_exceeds_the_rows_and_ours_does_not() {
    let mut draw = Draw::new(7);
    let (n, d) = (10, 50);
    let t = Table::noise(n, d, 1, &mut draw);
    let summary = t.summary();
    let r = summary.rank();
    assert_eq!((r, r * (d + 2), n * (d + 1), summary.numbers()), (10, 520, 510, 465));
    let full = Table::noise(120, d, 1, &mut draw).summary();
    assert_eq!((full.numbers(), d * (d + 2)), (d * (d + 3) / 2, 2600));
}

#[test]
fn e10_without_the_residual_the_loss_is_not_determined() {
    // Two tasks with the same V, Σ, ỹ: the second has noise off the span of the features.
    let x = vec![1.0, 0.0, 0.0, 2.0, 0.0, 0.0];
    let quiet = Table { x: x.clone(), y: vec![3.0, 4.0, 0.0], d: 2, p: 1 };
    let loud = Table { x, y: vec![3.0, 4.0, 5.0], d: 2, p: 1 };
    let (a, b) = (svd(&quiet), svd(&loud));
    assert!(apart(&a.targets(&quiet.y), &b.targets(&loud.y)) < 1e-15);
    let theta = Theta::from_slice(&[1.0, 1.0]);
    assert!((quiet.loss(&theta) - loud.loss(&theta)).abs() > 4.0);
    for t in [&quiet, &loud] {
        assert!((t.summary().loss(&theta).unwrap() - t.loss(&theta)).abs() < 1e-14);
    }
}

#[test]
fn e17_the_last_task_alone_fits_the_last_task_better() {
    let mut draw = Draw::new(8);
    let tables = drifting(&[40, 40, 40], 4, &mut draw);
    let joint = learned(plain(), &tables);
    let last = &tables[2];
    let (a, b) = normal_equations(last);
    let alone = last.loss(&Theta::from_slice(&gauss(a, b)));
    let shared = last.loss(&joint.solution().unwrap().theta);
    assert!(alone < 0.1 * shared, "{alone} against {shared}");
}
