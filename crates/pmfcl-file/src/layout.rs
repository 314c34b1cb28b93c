//! The tables of the database, and how values lie in them. `docs/model-file.md` is the specification.

use pmfcl::Summary;

/// `PMFC`, in the header of the database.
pub(crate) const APPLICATION: i64 = 0x504D_4643;
/// The version of the layout, in the header of the database.
pub(crate) const VERSION: i64 = 1;
/// Small pages: little room that holds nothing.
pub(crate) const PAGE: u32 = 1024;

/// The tables. A file must have exactly these and nothing else: no view or trigger is ever run.
pub(crate) const TABLES: [(&str, &str); 4] = [
    ("digest", "CREATE TABLE digest (place INTEGER PRIMARY KEY, value BLOB NOT NULL) STRICT"),
    (
        "model",
        "CREATE TABLE model (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
    ),
    ("summary", "CREATE TABLE summary (place INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT"),
    (
        "task",
        "CREATE TABLE task (place INTEGER PRIMARY KEY, name TEXT NOT NULL, samples REAL NOT NULL, \
         rank INTEGER NOT NULL, weight REAL NOT NULL, min_loss REAL NOT NULL, bytes INTEGER NOT NULL, \
         note TEXT, moments BLOB, losses BLOB, crc INTEGER) STRICT",
    ),
];

/// Numbers as little-endian bytes.
pub(crate) fn to_bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The numbers of bytes, `None` where they are cut off.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Vec<f64>> {
    let chunks = bytes.chunks_exact(8);
    if !chunks.remainder().is_empty() {
        return None;
    }
    Some(chunks.map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect())
}

/// The check number of a summary's bytes.
pub(crate) fn check_number(bytes: &[u8]) -> i64 {
    i64::from(crc32fast::hash(bytes))
}

/// A summary's bytes and their check number.
pub(crate) fn sealed(summary: &Summary) -> (Vec<u8>, i64) {
    let bytes = summary.to_bytes();
    let check = check_number(&bytes);
    (bytes, check)
}

/// A check number over everything but the summaries, whose own are among it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seal(crc32fast::Hasher);

impl Seal {
    /// Adds a value under its name; lengths keep neighbours apart.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), value] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// As if all that went into `other` had come after what went into this.
    pub(crate) fn append(&mut self, other: &Self) {
        self.0.combine(&other.0);
    }

    /// The check number.
    pub(crate) fn value(self) -> u32 {
        self.0.finalize()
    }
}
