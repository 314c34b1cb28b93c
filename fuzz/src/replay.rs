//! A corpus run once more without a fuzzer, by the tests of the crates concerned.

/// Runs every file of a corpus.
pub fn replay(target: &str, run: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5, "no corpus of {target}");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(std::panic::catch_unwind(|| run(&bytes)).is_ok(), "{}", file.display());
    }
}
