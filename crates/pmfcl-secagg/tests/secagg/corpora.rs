//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/secagg.rs"]
mod secagg;

#[test]
fn messages() {
    replay::replay("secagg", secagg::run);
}
