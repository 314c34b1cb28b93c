//! The table `release`: what a privacy ledger holds, in a model file or in one of its own.
//!
//! Row 0 is the total that was agreed, and every other row one release. Rows are only ever added, and no commit of a model touches
//! them. They are no part of the model's version either: a release does not keep whoever has read the model from writing it. So
//! they have checksums of their own, each of its row and all rows before it.

use rusqlite::{Connection, OptionalExtension as _};

use crate::layout::RELEASE;
use crate::seal::Checksum;

/// A row: the total, or a release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReleaseRow {
    /// Seconds since 1970.
    pub(crate) time: i64,
    pub(crate) what: String,
    pub(crate) epsilon: f64,
    pub(crate) delta: f64,
}

/// The rows of a ledger.
#[derive(Debug, Default)]
pub(crate) struct ReleaseRows {
    pub(crate) rows: Vec<ReleaseRow>,
    /// Stands for all of them.
    sum: Checksum,
}

impl ReleaseRows {
    /// Reads all rows; `None` where there is no such table, or what is wrong with it.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Option<Result<Self, String>>> {
        let sql = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
        if connection.query_row(sql, [RELEASE.0], |_| Ok(())).optional()?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT place, time, what, epsilon, delta, crc FROM release ORDER BY place";
        let mut statement = connection.prepare(sql)?;
        let mut found = statement.query([])?;
        let mut all = Self::default();
        while let Some(row) = found.next()? {
            let place: i64 = row.get(0)?;
            let crc: i64 = row.get(5)?;
            let row = ReleaseRow {
                time: row.get(1)?,
                what: row.get(2)?,
                epsilon: row.get(3)?,
                delta: row.get(4)?,
            };
            let expected = all.next();
            if (place, crc) != (expected, all.add(row)) {
                return Ok(Some(Err(format!("row {expected} of its privacy ledger was changed"))));
            }
        }
        if all.rows.is_empty() {
            return Ok(Some(Err("its privacy ledger has no total".to_owned())));
        }
        Ok(Some(Ok(all)))
    }

    /// The place of the next row.
    fn next(&self) -> i64 {
        self.rows.len().cast_signed() as i64
    }

    /// Adds a row; the checksum that stands with it.
    fn add(&mut self, row: ReleaseRow) -> i64 {
        let mut line = row.time.to_le_bytes().to_vec();
        line.extend_from_slice(&row.epsilon.to_le_bytes());
        line.extend_from_slice(&row.delta.to_le_bytes());
        self.sum.add(&row.what, &line);
        self.rows.push(row);
        self.sum.number()
    }

    /// Writes one more row.
    #[cfg(feature = "private")]
    pub(crate) fn insert(
        &mut self,
        connection: &Connection,
        row: ReleaseRow,
    ) -> rusqlite::Result<()> {
        let (place, copy) = (self.next(), row.clone());
        let crc = self.add(row);
        let sql = "INSERT INTO release (place, time, what, epsilon, delta, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = rusqlite::params![place, copy.time, copy.what, copy.epsilon, copy.delta, crc];
        connection.execute(sql, values)?;
        Ok(())
    }
}

/// Makes the table and its first row.
#[cfg(feature = "private")]
pub(crate) fn create(connection: &Connection, total: ReleaseRow) -> rusqlite::Result<()> {
    connection.execute_batch(RELEASE.1)?;
    ReleaseRows::default().insert(connection, total)
}

/// The checksum of a whole model file no longer holds; a new one is made when it is closed.
#[cfg(feature = "private")]
pub(crate) fn drop_digest(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE digest SET value = ?1", [&crate::digest::NONE[..]]).map(|_| ())
}
