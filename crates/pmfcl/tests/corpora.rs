//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../fuzz/src/basis.rs"]
mod basis;
#[path = "../../../fuzz/src/crc.rs"]
mod crc;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/summary.rs"]
mod summary;
#[path = "../../../fuzz/src/update.rs"]
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
fn updates() {
    replay("update", update::run);
}
