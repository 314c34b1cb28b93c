//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../../fuzz/src/columnar.rs"]
mod columnar;
#[path = "../../../../fuzz/src/crc.rs"]
mod crc;
#[path = "../../../../fuzz/src/csv.rs"]
mod csv;
#[path = "../../../../fuzz/src/idx.rs"]
mod idx;
#[path = "../../../../fuzz/src/npy.rs"]
mod npy;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/table.rs"]
mod table;

use replay::replay;

#[test]
fn texts() {
    replay("csv", csv::run);
}

#[test]
fn arrays() {
    replay("npy", npy::run);
}

#[test]
fn images() {
    replay("idx", idx::run);
}

#[test]
fn columns() {
    replay("columnar", columnar::run);
}
