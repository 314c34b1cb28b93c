//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../../fuzz/src/agreement.rs"]
mod agreement;
#[path = "../../../../fuzz/src/crc.rs"]
mod crc;
#[path = "../../../../fuzz/src/model.rs"]
mod model;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn models() {
    replay("model", model::run);
}

#[test]
fn values() {
    replay("values", model::values);
}

#[test]
fn agreements() {
    replay("agreement", agreement::run);
}
