//! Going through a file: pieces cut off in order, decoded on any thread.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::field::Found;
use crate::remote::Remote;
use crate::{Batch, Kind, Options, Place, ReadError};

/// A stretch of rows cut off a file and not yet decoded.
pub struct Piece {
    /// Its number, from 0.
    pub index: usize,
    /// How many bytes of the file it accounts for.
    pub bytes: u64,
    /// Its first row in the file, from 0.
    pub(crate) first_row: u64,
    /// How many rows it holds.
    pub(crate) rows: usize,
    /// What the format needs to decode it.
    pub(crate) content: Box<dyn Any + Send>,
}

impl Piece {
    /// Its first row in the file, from 0.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }

    /// A row of it as a row of the file.
    pub(crate) fn place(&self, row: usize) -> Place {
        Place { row: self.first_row + row as u64 + 1, line: None }
    }

    /// How many rows it holds, before any is left out.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// One pass over a file. Several threads may take pieces from it and decode them at the same time.
pub struct Scan {
    pub(crate) pass: Box<dyn Pass>,
    pub(crate) remote: Option<Remote>,
}

impl Scan {
    /// Cuts the next piece off: cheap, in file order, `None` at the end.
    ///
    /// # Errors
    /// When reading fails or the file is broken.
    pub fn next(&self) -> Result<Option<Piece>, ReadError> {
        self.pass.next().map_err(|error| error.or_failed_request(self.remote.as_ref()))
    }

    /// Turns a piece of this scan into columns: the heavy part, for any thread.
    ///
    /// # Errors
    /// When a value is not what it should be, or missing and refused.
    pub fn decode(&self, piece: Piece) -> Result<Batch, ReadError> {
        self.pass.decode(piece).map_err(|error| error.or_failed_request(self.remote.as_ref()))
    }
}

/// How one format goes through a file.
pub(crate) trait Pass: Send + Sync {
    /// Cuts the next piece off.
    fn next(&self) -> Result<Option<Piece>, ReadError>;
    /// Decodes a piece that `next` gave.
    fn decode(&self, piece: Piece) -> Result<Batch, ReadError>;
}

/// How one format starts to go through a file.
pub(crate) trait Format: Send + Sync {
    /// A pass over the columns found.
    fn scan(&self, found: Vec<Found>) -> Result<Box<dyn Pass>, ReadError>;
}

/// Row ranges of one size over a table of known length, in order.
pub(crate) struct Ranges {
    rows: u64,
    size: u64,
    bytes: u64,
    next: AtomicU64,
}

impl Ranges {
    /// `rows` rows, `size` in each piece; `bytes` of the file are shared out evenly.
    pub(crate) fn new(rows: u64, size: usize, bytes: u64) -> Self {
        Self { rows, size: size as u64, bytes, next: AtomicU64::new(0) }
    }

    /// The next range.
    pub(crate) fn next(&self) -> Option<Piece> {
        let pieces = self.rows.div_ceil(self.size);
        let index = self
            .next
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |i| (i < pieces).then_some(i + 1))
            .ok()?;
        let first_row = index * self.size;
        let end = self.rows.min(first_row.saturating_add(self.size));
        let passed =
            |row: u64| (u128::from(self.bytes) * u128::from(row) / u128::from(self.rows)) as u64;
        Some(Piece {
            index: index as usize,
            bytes: passed(end) - passed(first_row),
            first_row,
            rows: (end - first_row) as usize,
            content: Box::new(()),
        })
    }
}

/// Numbers in a piece at most: 8 MB. Half of it costs a fifth more in handing columns from thread to
/// thread, twice of it falls out of the cache.
const CELLS: usize = 1 << 20;
/// Rows in a piece at most.
const ROWS: usize = 1 << 14;

/// How many rows make a piece where the format leaves the choice.
pub(crate) fn piece_rows(options: &Options, found: &[Found]) -> usize {
    let cells: usize = found
        .iter()
        .map(|f| if let Kind::Block { width } = f.kind { width } else { 1 })
        .fold(0, usize::saturating_add);
    options.piece_rows.unwrap_or_else(|| (CELLS / cells.max(1)).min(ROWS)).max(1)
}

/// Runs a dependency on untrusted bytes: a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .map_err(|_| "its parts contradict each other".to_string())
}
