//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../../fuzz/src/basis.rs"]
mod basis;
#[path = "../../../../fuzz/src/broadcast.rs"]
mod broadcast;
#[path = "../../../../fuzz/src/crc.rs"]
mod crc;
#[path = "../../../../fuzz/src/options.rs"]
mod options;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/summary.rs"]
mod summary;
#[path = "../../../../fuzz/src/update.rs"]
mod update;

use replay::replay;

#[test]
fn summaries() {
    replay("summary", summary::run);
}

#[test]
fn bases() {
    replay("basis", basis::run);
}

#[test]
fn broadcasts() {
    replay("broadcast", broadcast::run);
}

#[test]
fn texts_of_options() {
    replay("options", options::run);
}

#[test]
fn updates() {
    replay("update", update::run);
}

/// A corpus of an older format would be refused at its first bytes and prove nothing.
#[test]
fn updates_of_the_corpus_are_of_the_present_format() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/update");
    let mut accepted = 0;
    for name in [
        "values",
        "single",
        "diagonal",
        "rank",
        "classes",
        "log-loss",
        "huber",
        "zeros",
        "zeros-diagonal",
    ] {
        let bytes = std::fs::read(format!("{folder}/{name}")).unwrap();
        let servers = update::accepted(&bytes);
        assert_eq!(servers, 1, "{name} is accepted by {servers} servers");
        accepted += servers;
    }
    assert_eq!(accepted, 9);
}
