//! The table `audit`: what was removed from a model, and when.
//!
//! Rows are only ever added. They hold the name of a task only where that was asked for: the names of tasks that were removed
//! are not kept by themselves.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::error::FileError;
use crate::store::{Access, Result, Store};

/// A row of the audit table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When, in UTC: `2026-01-31T12:30:00Z`.
    pub time: String,
    /// What was done: `unlearn task`, `unlearn rows`.
    pub action: String,
    /// To which task, where its name was to be kept.
    pub task: Option<String>,
    /// How many rows were removed.
    pub rows: Option<u64>,
    /// The hash of the rows that were removed.
    pub content: Option<[u8; 32]>,
}

/// Adds rows behind those there are.
pub(crate) fn insert(connection: &Connection, entries: &[AuditEntry]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO audit (place, time, action, task, rows, content) \
               SELECT ifnull(max(place) + 1, 0), ?1, ?2, ?3, ?4, ?5 FROM audit";
    for entry in entries {
        let rows = entry.rows.and_then(|rows| i64::try_from(rows).ok());
        let content = entry.content.map(|hash| hash.to_vec());
        connection.execute(sql, params![entry.time, entry.action, entry.task, rows, content])?;
    }
    Ok(())
}

/// The rows of the audit table of a model file.
///
/// # Errors
/// When the file cannot be opened, or is none of layout 2.
pub fn audit(path: &Path) -> Result<Vec<AuditEntry>> {
    let (store, _) = Store::open(path, Access::Read)?;
    let failed = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
    let sql = "SELECT time, action, task, rows, content FROM audit ORDER BY place";
    let mut statement = store.connection().prepare(sql).map_err(failed)?;
    let rows = statement.query_map([], |row| {
        Ok(AuditEntry {
            time: row.get(0)?,
            action: row.get(1)?,
            task: row.get(2)?,
            rows: row.get::<_, Option<i64>>(3)?.and_then(|rows| u64::try_from(rows).ok()),
            content: row.get::<_, Option<Vec<u8>>>(4)?.and_then(|hash| hash.try_into().ok()),
        })
    });
    rows.map_err(failed)?.collect::<rusqlite::Result<_>>().map_err(failed)
}
