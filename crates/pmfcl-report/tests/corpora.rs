//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../fuzz/src/output.rs"]
mod output;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn names_in_pages_and_json() {
    replay::replay("output", output::run);
}
