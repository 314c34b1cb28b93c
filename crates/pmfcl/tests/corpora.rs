//! What fuzzing has collected, through the same code: see `fuzz/`.

#![expect(unreachable_pub, reason = "the modules belong to another package as well")]

#[path = "../../../fuzz/src/basis.rs"]
mod basis;
#[path = "../../../fuzz/src/crc.rs"]
mod crc;
#[path = "../../../fuzz/src/summary.rs"]
mod summary;

/// Runs every file of a corpus.
fn replay(target: &str, run: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5, "no corpus of {target}");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(std::panic::catch_unwind(|| run(&bytes)).is_ok(), "{}", file.display());
    }
}

#[test]
fn summaries() {
    replay("summary", summary::run);
}

#[test]
fn bases() {
    replay("basis", basis::run);
}
