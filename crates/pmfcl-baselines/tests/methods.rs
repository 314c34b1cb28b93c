//! What holds for every method, and what tells one from another, on tasks small enough to follow.

mod support;

use pmfcl_baselines::{Er, ErArguments, Kept, Method, Network, Sgd};
use support::{classes, rows, steps, values};

const ER: ErArguments = ErArguments { buffer: 12, minibatch: 4 };

#[test]
fn the_first_step_of_replay_is_a_plain_step() {
    let task = rows(&classes(10, 4, 3, 1), 0..10);
    let one_step = steps(0.1, 10, 1);
    let network = Network::new(&[4, 5, 3], 1);
    let (mut plain, mut replay) =
        (Sgd::new(network.clone(), one_step), Er::new(network, one_step, ER));
    plain.learn(&task);
    replay.learn(&task);
    let (x, same) = support::probe(4);
    assert_eq!(plain.outputs(&x, same), replay.outputs(&x, same));
    plain.learn(&task);
    replay.learn(&task);
    assert_ne!(plain.outputs(&x, same), replay.outputs(&x, same));
}

#[test]
fn replay_counts_what_it_holds() {
    let steps = steps(0.1, 8, 1);
    let mut er = Er::new(Network::new(&[4, 3], 1), steps, ER);
    assert_eq!(er.kept(), Kept::default());
    er.learn(&classes(30, 4, 3, 1));
    // Twelve rows of four doubles and a class of one byte.
    assert_eq!(er.kept(), Kept { numbers: 12 * 5, bytes: 12 * (4 * 8 + 1), examples: 12 });
    let mut er = Er::new(Network::new(&[4, 2], 1), steps, ER);
    er.learn(&values(5, 4, 2, 1));
    assert_eq!(er.kept(), Kept { numbers: 5 * 6, bytes: 5 * 6 * 8, examples: 5 });
}
