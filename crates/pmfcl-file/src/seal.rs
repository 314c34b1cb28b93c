//! The check number over everything but the summaries, whose own are among it.

use rusqlite::Connection;

use crate::layout::Seal;

/// The check number over all rows of `model` and `task`.
pub(crate) fn seal(connection: &Connection, tasks: &TaskSeal) -> rusqlite::Result<u32> {
    let mut seal = Seal::default();
    let mut statement =
        connection.prepare("SELECT key, value FROM model WHERE key <> 'seal' ORDER BY key")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let value: Vec<u8> = row.get(1)?;
        seal.add(&row.get::<_, String>(0)?, &value);
    }
    seal.append(&tasks.seal);
    Ok(seal.value())
}

/// The part of the seal that stands for the first `count` tasks, so that one more does not cost all before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskSeal {
    seal: Seal,
    count: i64,
}

impl TaskSeal {
    /// How many tasks it stands for: those in the file.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// With the tasks that have come since.
    pub(crate) fn extended(mut self, connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(
            "SELECT name, samples, rank, weight, min_loss, bytes, note, moments, losses, crc, place \
             FROM task WHERE place >= ?1 ORDER BY place",
        )?;
        let mut rows = statement.query([self.count])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let mut line = Vec::new();
            for i in [1, 3, 4] {
                line.extend_from_slice(&row.get::<_, f64>(i)?.to_bits().to_le_bytes());
            }
            for i in [2, 5, 10] {
                line.extend_from_slice(&row.get::<_, i64>(i)?.to_le_bytes());
            }
            line.extend_from_slice(&row.get::<_, Option<i64>>(9)?.unwrap_or(-1).to_le_bytes());
            self.seal.add(&name, &line);
            self.seal.add("note", row.get::<_, Option<String>>(6)?.unwrap_or_default().as_bytes());
            self.seal.add("moments", &row.get::<_, Option<Vec<u8>>>(7)?.unwrap_or_default());
            self.seal.add("losses", &row.get::<_, Option<Vec<u8>>>(8)?.unwrap_or_default());
            self.count += 1;
        }
        Ok(self)
    }
}
