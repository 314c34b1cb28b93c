//! What holds for every method, and what tells one from another, on tasks small enough to follow.

use crate::support::{classes, probe, rows, steps, values};
use pmfcl_baselines::{
    Agem, AgemArguments, Der, DerArguments, Er, ErArguments, Ewc, EwcArguments, FedAvg,
    FedAvgArguments, Icl, Joint, Kept, Last, Method, Network, Projection, ProjectionArguments, Sgd,
    Si, SiArguments, Steps, Task,
};

const ER: ErArguments = ErArguments { buffer: 12, minibatch: 4 };
const DER: DerArguments = DerArguments { buffer: 12, minibatch: 4, alpha: 0.5, beta: None };
const DERPP: DerArguments = DerArguments { beta: Some(0.5), ..DER };

/// Every method that trains any network, from the same start.
fn gradient_methods(network: &Network, steps: Steps) -> Vec<Box<dyn Method>> {
    let n = || network.clone();
    vec![
        Box::new(Sgd::new(n(), steps)),
        Box::new(Last::new(n(), steps)),
        Box::new(Er::new(n(), steps, ER)),
        Box::new(Der::new(n(), steps, DER)),
        Box::new(Der::new(n(), steps, DERPP)),
        Box::new(Si::new(n(), steps, SiArguments { c: 0.5, xi: 1.0 })),
        Box::new(Ewc::new(n(), steps, EwcArguments { lambda: 0.5, gamma: 1.0 })),
        Box::new(Agem::new(n(), steps, AgemArguments { buffer: 12, minibatch: 4 })),
        Box::new(Joint::new(n(), steps)),
    ]
}

fn predictions(method: &dyn Method, width: usize) -> Vec<u64> {
    let (x, rows) = probe(width);
    method.outputs(&x, rows).iter().map(|v| v.to_bits()).collect()
}

/// The share of rows whose class has the largest output.
fn accuracy(method: &dyn Method, task: &Task) -> f64 {
    let pmfcl_baselines::Targets::Classes { codes, count } = &*task.y else { panic!("classes") };
    let width = task.x.width();
    let mut x = vec![0.0; codes.len() * width];
    x.chunks_exact_mut(width).enumerate().for_each(|(i, row)| task.x.write(i, row));
    let outputs = method.outputs(&x, codes.len());
    let right = outputs.chunks_exact(*count).zip(codes).filter(|(row, code)| {
        (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])) == Some(**code as usize)
    });
    right.count() as f64 / codes.len() as f64
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_seed_others() {
    let tasks = [classes(60, 4, 3, 1), classes(60, 4, 3, 2)];
    let run = |seed: u64| -> Vec<Vec<u64>> {
        let steps = Steps { seed, ..steps(0.1, 8, 2) };
        let mut methods = gradient_methods(&Network::new(&[4, 6, 3], 1), steps);
        let linear = Network::new(&[4, 3], 1);
        let all = ProjectionArguments { energy: 1.0 };
        methods.push(Box::new(Projection::new(linear, steps, all)));
        methods
            .iter_mut()
            .map(|m| {
                tasks.iter().for_each(|task| m.learn(task));
                predictions(m.as_ref(), 4)
            })
            .collect()
    };
    let (first, again, other) = (run(1), run(1), run(2));
    assert_eq!(first, again);
    for (i, (a, b)) in first.iter().zip(&other).enumerate() {
        assert_ne!(a, b, "method {i}");
    }
    // No two methods are one under two names.
    for i in 0..first.len() {
        assert!(!first[i + 1..].contains(&first[i]), "method {i}");
    }
}

#[test]
fn all_learn_classes_and_values() {
    let task = classes(300, 4, 3, 1);
    for method in &mut gradient_methods(&Network::new(&[4, 8, 3], 1), steps(0.3, 10, 20)) {
        method.learn(&task);
        let accuracy = accuracy(method.as_ref(), &task);
        assert!(accuracy > 0.9, "{} has {accuracy}", method.name());
    }
    // The linear truth of one task is found to rounding, for there is no noise and no second task to hold back.
    let task = values(40, 3, 2, 1);
    for method in &mut gradient_methods(&Network::new(&[3, 2], 1), steps(0.3, 8, 400)) {
        method.learn(&task);
        let mut exact = Icl::new(Network::new(&[3, 2], 2));
        exact.learn(&task);
        let (found, truth) = (method.linear().unwrap(), exact.linear().unwrap());
        let worst = found.iter().zip(&truth).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Dark replay alone lags: it is pulled towards outputs of its own beginnings.
        let allowed = if method.name().starts_with("DER") { 0.05 } else { 1e-8 };
        assert!(worst < allowed, "{} is off by {worst:e}", method.name());
    }
}

#[test]
fn the_first_step_of_replay_is_a_plain_step() {
    let task = rows(&classes(10, 4, 3, 1), 0..10);
    let one_step = steps(0.1, 10, 1);
    let network = Network::new(&[4, 5, 3], 1);
    let mut plain = Sgd::new(network.clone(), one_step);
    let mut replays: Vec<Box<dyn Method>> = vec![
        Box::new(Er::new(network.clone(), one_step, ER)),
        Box::new(Der::new(network.clone(), one_step, DER)),
        Box::new(Der::new(network, one_step, DERPP)),
    ];
    plain.learn(&task);
    for replay in &mut replays {
        replay.learn(&task);
        assert_eq!(predictions(replay.as_ref(), 4), predictions(&plain, 4));
    }
    plain.learn(&task);
    for replay in &mut replays {
        replay.learn(&task);
        assert_ne!(predictions(replay.as_ref(), 4), predictions(&plain, 4));
    }
}

#[test]
fn replay_is_one_mean_over_batch_and_buffer() {
    // Everything seen is held and drawn: the second step of ER is a plain step on both batches together.
    let all = classes(8, 4, 3, 1);
    let (first, second) = (rows(&all, 0..4), rows(&all, 4..8));
    let one_step = steps(0.1, 8, 1);
    let network = Network::new(&[4, 3], 1);
    let mut er = Er::new(network.clone(), one_step, ErArguments { buffer: 8, minibatch: 8 });
    let mut plain = Sgd::new(network, one_step);
    er.learn(&first);
    er.learn(&second);
    plain.learn(&first);
    plain.learn(&all);
    let (a, b) = (er.linear().unwrap(), plain.linear().unwrap());
    let worst = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-15, "the sum has another order, no more: {worst:e}");
}

#[test]
fn dark_replay_pulls_towards_the_outputs_from_before_the_step() {
    // One row, one parameter: o = w·x. First step from w = 0: o = 0 is held. Second: the task's own gradient, and the
    // pull 2α(o − 0)x of the row in the buffer.
    let network = {
        let mut network = Network::new(&[1, 1], 0).without_intercepts();
        network.parameters_mut()[0] = 0.0;
        network
    };
    let task = crate::support::linear(&[2.0], 1, &[1.5, 0.0]);
    for (arguments, beta) in [(DER, 0.0), (DERPP, 0.5)] {
        let mut der = Der::new(network.clone(), steps(0.05, 1, 2), arguments);
        der.learn(&task);
        let w1 = 0.05 * 2.0 * 3.0 * 2.0;
        let slope = 2.0 * (2.0 * w1 - 3.0) * 2.0;
        let pull = 0.5 * 2.0 * (2.0 * w1 - 0.0) * 2.0;
        let w2 = w1 - 0.05 * (slope + pull + beta * slope);
        assert!((der.linear().unwrap()[0] - w2).abs() < 1e-15);
    }
}

#[test]
fn joint_does_not_depend_on_what_is_asked_on_the_way() {
    let tasks = [classes(40, 4, 3, 1), classes(50, 4, 3, 2)];
    let network = Network::new(&[4, 3], 1);
    let (mut asked, mut silent) =
        (Joint::new(network.clone(), steps(0.1, 8, 1)), Joint::new(network, steps(0.1, 8, 1)));
    for task in &tasks {
        asked.learn(task);
        assert_eq!(predictions(&asked, 4), predictions(&asked, 4));
        silent.learn(task);
    }
    assert_eq!(predictions(&asked, 4), predictions(&silent, 4));
    assert_eq!(asked.kept(), Kept { numbers: 90 * 5, bytes: 90 * (4 * 8 + 1), examples: 90 });
}

#[test]
fn last_forgets_what_came_before() {
    let (first, second) = (classes(40, 4, 3, 1), classes(50, 4, 3, 2));
    let network = Network::new(&[4, 3], 1);
    let mut last = Last::new(network.clone(), steps(0.1, 50, 1));
    last.learn(&first);
    last.learn(&second);
    // A whole batch a step: its order matters to rounding alone.
    let mut fresh = Sgd::new(network, steps(0.1, 50, 1));
    fresh.learn(&second);
    let (a, b) = (last.linear().unwrap(), fresh.linear().unwrap());
    let worst = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-14, "{worst:e}");
}

#[test]
fn what_is_held_is_counted() {
    let steps = steps(0.1, 8, 1);
    let parameters = 4 * 3 + 3;
    let row = |numbers: usize, bytes: usize| Kept {
        numbers: 12 * numbers,
        bytes: 12 * bytes,
        examples: 12,
    };
    let expected = [
        ("SGD", Kept::default()),
        ("last task", Kept::default()),
        ("ER 12", row(5, 4 * 8 + 1)),
        ("DER 12", row(7, 4 * 8 + 3 * 4)),
        ("DER++ 12", row(8, 4 * 8 + 1 + 3 * 4)),
        ("SI", Kept { numbers: 3 * parameters, bytes: 12 * parameters, examples: 0 }),
        ("oEWC", Kept { numbers: 2 * parameters, bytes: 8 * parameters, examples: 0 }),
        // One batch of eight a task.
        ("A-GEM 12", Kept { numbers: 8 * 5, bytes: 8 * (4 * 8 + 1), examples: 8 }),
        ("joint", Kept { numbers: 30 * 5, bytes: 30 * (4 * 8 + 1), examples: 30 }),
    ];
    let mut methods = gradient_methods(&Network::new(&[4, 3], 1), steps);
    for (method, (name, kept)) in methods.iter_mut().zip(expected) {
        method.learn(&classes(30, 4, 3, 1));
        assert_eq!((method.name().as_str(), method.kept()), (name, kept));
    }
    let mut er = Er::new(Network::new(&[4, 2], 1), steps, ER);
    assert_eq!(er.kept(), Kept::default());
    er.learn(&values(5, 4, 2, 1));
    assert_eq!(er.kept(), Kept { numbers: 5 * 6, bytes: 5 * 6 * 8, examples: 5 });
}

#[test]
fn one_client_is_plain_training_and_empty_clients_take_no_part() {
    let task = classes(40, 4, 3, 1);
    let network = Network::new(&[4, 5, 3], 1);
    let mut sgd = Sgd::new(network.clone(), steps(0.1, 8, 6));
    sgd.learn(&task);
    let rounds = FedAvgArguments { rounds: 3 };
    let mut fed = FedAvg::new(network, steps(0.1, 8, 2), rounds);
    let mut seen = Vec::new();
    let empty = rows(&task, 0..0);
    let trained = fed.train(&[empty, task], |round, _| seen.push(round)).clone();
    let (x, rows) = probe(4);
    assert_eq!(trained.predict(&x, rows), sgd.outputs(&x, rows));
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn the_server_weighs_clients_by_rows() {
    let all = values(40, 3, 1, 1);
    let clients = [rows(&all, 0..10), rows(&all, 10..40)];
    let network = Network::new(&[3, 1], 1);
    // One whole batch a round: the weighted mean of steps is the step on all rows.
    let mut fed = FedAvg::new(network.clone(), steps(0.1, 40, 1), FedAvgArguments { rounds: 1 });
    let trained = fed.train(&clients, |_, _| ()).linear().unwrap();
    let mut pooled = Sgd::new(network, steps(0.1, 40, 1));
    pooled.learn(&all);
    let pooled = pooled.linear().unwrap();
    let worst = trained.iter().zip(&pooled).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-15, "{worst:e}");
}
