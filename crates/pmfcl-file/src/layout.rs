//! The tables of the database, and how values lie in them. `docs/model-file.md` is the specification.

use pmfcl::{Design, Learner};

/// `PMFC`, in the header of the database.
pub(crate) const APPLICATION: i64 = 0x504D_4643;
/// The layout this program writes, in the header of the database.
pub(crate) const VERSION: i64 = 2;
/// Small pages: little room that holds nothing.
const PAGE: u32 = 1024;
/// The largest pages there are, for models whose sums take millions of bytes: a page is a call to the system.
const LARGE_PAGE: u32 = 65_536;
/// Design columns from which on pages are large: half a square of numbers takes 64 of them or more.
const WIDE: usize = 1024;

/// Bytes of a page of a new file.
pub(crate) fn page(learner: &Learner) -> u32 {
    let columns = learner.design().map_or(0, Design::width);
    if columns < WIDE { PAGE } else { LARGE_PAGE }
}

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Written by version 0.1.0; read, and migrated by the first commit.
    First,
    /// Written by this program.
    Second,
}

impl Layout {
    /// The layout of a `user_version`.
    pub(crate) fn of(version: i64) -> Option<Self> {
        match version {
            1 => Some(Self::First),
            VERSION => Some(Self::Second),
            _ => None,
        }
    }

    /// Whether these are its tables, by name. A file must have exactly these and nothing else: no view or trigger is ever run. The
    /// second layout may have a privacy ledger too.
    pub(crate) fn has<'a>(self, found: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let second = self == Self::Second;
        found.filter(|table| !second || *table != RELEASE).eq(self.tables().iter().copied())
    }

    /// The tables by name, without a ledger.
    pub(crate) fn tables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::First => &crate::layout_1::TABLES,
            Self::Second => &TABLES,
        }
    }
}

/// The table `digest`, the same in both layouts.
pub(crate) const DIGEST: (&str, &str) =
    ("digest", "CREATE TABLE digest (place INTEGER PRIMARY KEY, value BLOB NOT NULL) STRICT");
/// The table `model`, the same in both layouts.
pub(crate) const MODEL: (&str, &str) = (
    "model",
    "CREATE TABLE model (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
);
/// The table `summary`, the same in both layouts.
pub(crate) const SUMMARY: (&str, &str) =
    ("summary", "CREATE TABLE summary (place INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT");
/// The table `audit`.
pub(crate) const AUDIT: (&str, &str) = (
    "audit",
    "CREATE TABLE audit (place INTEGER PRIMARY KEY, time TEXT NOT NULL, action TEXT NOT NULL, task TEXT, \
     rows INTEGER, content BLOB) STRICT",
);
/// The table `task`.
pub(crate) const TASK: (&str, &str) = (
    "task",
    "CREATE TABLE task (place INTEGER PRIMARY KEY, name TEXT NOT NULL, samples REAL NOT NULL, rows INTEGER, \
     rank INTEGER NOT NULL, weight REAL NOT NULL, least REAL, exactness TEXT NOT NULL, outcome TEXT NOT NULL, \
     bytes INTEGER NOT NULL, counts TEXT, content BLOB, calibration BLOB, crc INTEGER) STRICT",
);

/// The table `release`, in files of layout 2 that keep a privacy ledger.
pub(crate) const RELEASE: (&str, &str) = (
    "release",
    "CREATE TABLE release (place INTEGER PRIMARY KEY, time INTEGER NOT NULL, what TEXT NOT NULL, epsilon REAL NOT NULL, \
     delta REAL NOT NULL, crc INTEGER NOT NULL) STRICT",
);

/// The tables of layout 2, by name.
pub(crate) const TABLES: [(&str, &str); 5] = [AUDIT, DIGEST, MODEL, SUMMARY, TASK];

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

/// The checksum of a summary's bytes that stands with its task.
///
/// The bytes end in their own checksum, so that of all of them is the same number for every summary, which is what the first
/// layout keeps; without the last four bytes it is the number of this summary and no other.
pub(crate) fn checksum(layout: Layout, bytes: &[u8]) -> i64 {
    let own = match layout {
        Layout::First => bytes,
        Layout::Second => &bytes[..bytes.len().saturating_sub(4)],
    };
    i64::from(crc32fast::hash(own))
}
