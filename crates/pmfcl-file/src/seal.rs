//! The seal: a checksum over everything except the summaries, whose own are part of it.

use rusqlite::{Connection, Row};

use crate::layout::Layout;
use crate::layout_1;

/// A checksum of named values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Adds a value under its name; lengths keep neighbours apart.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), value] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// The checksum of what was added so far.
    pub(crate) fn number(&self) -> i64 {
        i64::from(self.0.clone().finalize())
    }

    /// Adds the bytes of a column, none for NULL.
    pub(crate) fn add_blob(
        &mut self,
        name: &str,
        row: &Row<'_>,
        at: usize,
    ) -> rusqlite::Result<()> {
        self.add(name, &row.get::<_, Option<Vec<u8>>>(at)?.unwrap_or_default());
        Ok(())
    }

    /// Adds the text of a column, none for NULL.
    pub(crate) fn add_text(
        &mut self,
        name: &str,
        row: &Row<'_>,
        at: usize,
    ) -> rusqlite::Result<()> {
        self.add(name, row.get::<_, Option<String>>(at)?.unwrap_or_default().as_bytes());
        Ok(())
    }
}

/// The seal of an open file.
pub(crate) fn seal(connection: &Connection, rows: &SealedRows) -> rusqlite::Result<u32> {
    let mut all = Checksum::default();
    let mut statement =
        connection.prepare("SELECT key, value FROM model WHERE key <> 'seal' ORDER BY key")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        // Where the database has it: a pool may be hundreds of megabytes.
        all.add(&row.get::<_, String>(0)?, row.get_ref(1)?.as_blob()?);
    }
    all.0.combine(&rows.tasks.0);
    all.0.combine(&rows.audit.0);
    Ok(all.0.finalize())
}

/// The part of the seal that stands for rows of `task` and `audit` already written, so that one more does not cost all before it.
#[derive(Debug, Clone)]
pub(crate) struct SealedRows {
    layout: Layout,
    tasks: Checksum,
    count: usize,
    audit: Checksum,
    audited: i64,
}

impl SealedRows {
    /// Of no rows.
    pub(crate) fn none(layout: Layout) -> Self {
        let (tasks, audit) = (Checksum::default(), Checksum::default());
        Self { layout, tasks, count: 0, audit, audited: -1 }
    }

    /// How many tasks it stands for: those in the file.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The same without the tasks, whose rows have changed.
    pub(crate) fn without_tasks(&self) -> Self {
        Self { tasks: Checksum::default(), count: 0, ..self.clone() }
    }

    /// With the rows that have come since.
    pub(crate) fn extended(mut self, connection: &Connection) -> rusqlite::Result<Self> {
        let sql = match self.layout {
            Layout::First => layout_1::SEALED,
            Layout::Second => {
                "SELECT name, samples, weight, rank, bytes, place, ifnull(crc, -1), ifnull(rows, -1), \
                 least, exactness, outcome, counts, content, calibration \
                 FROM task WHERE place >= ?1 ORDER BY place"
            }
        };
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([self.count.cast_signed()])?;
        while let Some(row) = rows.next()? {
            match self.layout {
                Layout::First => layout_1::add_task(&mut self.tasks, row)?,
                Layout::Second => add_task(&mut self.tasks, row)?,
            }
            self.count += 1;
        }
        if self.layout == Layout::Second {
            self.extend_audit(connection)?;
        }
        Ok(self)
    }

    fn extend_audit(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare(
            "SELECT place, ifnull(rows, -1), time, action, task, content FROM audit WHERE place > ?1 ORDER BY place",
        )?;
        let mut rows = statement.query([self.audited])?;
        while let Some(row) = rows.next()? {
            let mut line = Vec::new();
            self.audited = row.get(0)?;
            for number in [self.audited, row.get(1)?] {
                line.extend_from_slice(&number.to_le_bytes());
            }
            self.audit.add("audit", &line);
            self.audit.add_text("time", row, 2)?;
            self.audit.add_text("action", row, 3)?;
            self.audit.add_text("task", row, 4)?;
            self.audit.add_blob("content", row, 5)?;
        }
        Ok(())
    }
}

/// Adds a row of `task` in layout 2.
fn add_task(sum: &mut Checksum, row: &Row<'_>) -> rusqlite::Result<()> {
    let mut line = Vec::new();
    for at in 1..3 {
        line.extend_from_slice(&row.get::<_, f64>(at)?.to_le_bytes());
    }
    for at in 3..8 {
        line.extend_from_slice(&row.get::<_, i64>(at)?.to_le_bytes());
    }
    sum.add(&row.get::<_, String>(0)?, &line);
    let least: Option<f64> = row.get(8)?;
    sum.add("least", &least.map_or_else(Vec::new, |v| v.to_le_bytes().to_vec()));
    for (at, name) in [(9, "exactness"), (10, "outcome"), (11, "counts")] {
        sum.add_text(name, row, at)?;
    }
    sum.add_blob("content", row, 12)?;
    sum.add_blob("calibration", row, 13)
}
