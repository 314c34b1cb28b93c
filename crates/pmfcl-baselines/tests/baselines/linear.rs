//! Methods for linear models, where their promises can be checked to rounding.

use crate::support::{linear, steps};
use pmfcl_baselines::{
    Icl, Kept, Method, Network, Projection, ProjectionArguments, Random, Targets, Task,
};

fn cells(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| 2.0 * random.uniform() - 1.0).collect()
}

/// The mean squared error on a task.
fn error(method: &dyn Method, task: &Task) -> f64 {
    let Targets::Values { cells, .. } = &*task.y else { panic!("values") };
    let outputs = outputs(method, task);
    let sum: f64 = outputs.iter().zip(cells).map(|(o, y)| (o - y) * (o - y)).sum();
    sum / cells.len() as f64
}

fn outputs(method: &dyn Method, task: &Task) -> Vec<f64> {
    let width = task.x.width();
    let mut x = vec![0.0; task.x.rows() * width];
    x.chunks_exact_mut(width).enumerate().for_each(|(i, row)| task.x.write(i, row));
    method.outputs(&x, task.x.rows())
}

#[test]
fn icl_solves_all_tasks_that_share_a_minimiser() {
    // Three tasks of four rows, nine parameters an output: each leaves freedom to the next.
    let theta = cells(9 * 2, 1);
    let tasks: Vec<Task> = (0..3).map(|t| linear(&cells(4 * 8, 10 + t), 8, &theta)).collect();
    let mut icl = Icl::new(Network::new(&[8, 2], 0));
    for (t, task) in tasks.iter().enumerate() {
        icl.learn(task);
        // Directions used up: four a task, nine in all.
        assert_eq!(icl.kept(), doubles(9 * 9usize.saturating_sub(4 * (t + 1))), "task {t}");
        for past in &tasks[..=t] {
            assert!(error(&icl, past) < 1e-20);
        }
    }
    let found = icl.linear().unwrap();
    let worst = found.iter().zip(&theta).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-10, "all directions seen, so the minimiser is one: {worst}");
}

#[test]
fn icl_keeps_the_first_of_two_that_conflict() {
    let x = cells(30 * 3, 2);
    let (first, second) = (linear(&x, 3, &cells(4, 3)), linear(&x, 3, &cells(4, 4)));
    let mut icl = Icl::new(Network::new(&[3, 1], 0));
    icl.learn(&first);
    let solved = icl.linear();
    icl.learn(&second);
    assert!(error(&icl, &first) < 1e-20);
    assert!(error(&icl, &second) > 0.01);
    assert_eq!(icl.linear(), solved, "no direction is free, so nothing moves");
    assert_eq!(icl.kept(), Kept::default());
}

#[test]
fn icl_minimises_where_a_task_cannot_be_met() {
    // One input, no intercept: y = 1 and y = 3 at x = 1 meet at 2.
    let x = pmfcl_baselines::Matrix::new(vec![1.0, 1.0], 1);
    let y = Targets::Values { cells: vec![1.0, 3.0], width: 1 };
    let mut icl = Icl::new(Network::new(&[1, 1], 0).without_intercepts());
    icl.learn(&Task { x: std::sync::Arc::new(x), y: y.into() });
    assert!((icl.outputs(&[1.0], 1)[0] - 2.0).abs() < 1e-14);
}

fn doubles(numbers: usize) -> Kept {
    Kept { numbers, bytes: 8 * numbers, examples: 0 }
}

#[test]
fn projected_steps_leave_old_outputs_where_they_are() {
    let tasks: Vec<Task> =
        (0..3).map(|t| linear(&cells(4 * 10, 20 + t), 10, &cells(11 * 2, 30 + t))).collect();
    let all = ProjectionArguments { energy: 1.0 };
    let mut ogd = Projection::new(Network::new(&[10, 2], 0), steps(0.1, 2, 20), all);
    let mut then: Vec<Vec<f64>> = Vec::new();
    for (t, task) in tasks.iter().enumerate() {
        let before = error(&ogd, task);
        ogd.learn(task);
        if t < 2 {
            assert!(error(&ogd, task) < 0.5 * before, "there is room for task {t}");
        }
        for (past, then) in tasks.iter().zip(&then) {
            let now = outputs(&ogd, past);
            let moved = now.iter().zip(then).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(moved < 1e-10, "{moved:e} after task {t}");
        }
        then.push(outputs(&ogd, task));
        assert_eq!(ogd.kept(), doubles(11 * (4 * (t + 1)).min(11)));
    }
}

#[test]
fn a_share_of_the_energy_stores_fewer_directions() {
    // Rows along three axes with squared lengths 100, 10 and 1: 0.98 of the energy is in the first two.
    let x = vec![10.0, 0.0, 0.0, 0.0, 10f64.sqrt(), 0.0, 0.0, 0.0, 1.0];
    let task = linear(&x, 3, &[1.0, 2.0, 3.0, 0.0]);
    let network = Network::new(&[3, 1], 0).without_intercepts();
    let mut stored = Vec::new();
    for energy in [0.5, 0.98, 1.0] {
        let arguments = ProjectionArguments { energy };
        let mut gpm = Projection::new(network.clone(), steps(0.001, 3, 1), arguments);
        gpm.learn(&task);
        stored.push(gpm.kept().numbers / 3);
        // The same rows again: all their energy that is asked for is there.
        gpm.learn(&task);
        assert_eq!(gpm.kept().numbers / 3, stored[stored.len() - 1]);
    }
    assert_eq!(stored, [1, 2, 3]);
}
