//! What a file held when a model was read from it or written to it. A writer compares before it writes, so that it never
//! overwrites what it has not seen.
//!
//! The count of commits alone would not do: a file that was removed and created again counts from 1 again. The seal is a
//! checksum of all settings and tasks, so the two together stand for the content.

use std::fmt;
use std::path::{Path, PathBuf};

use pmfcl::learner::TaskRecord;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::store::Result;

/// One state of a model file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Version {
    path: PathBuf,
    mark: Mark,
    tasks: Vec<KnownTask>,
}

/// Two files with the same mark hold the same model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Counts commits.
    pub(crate) generation: i64,
    /// The checksum over settings and tasks.
    pub(crate) seal: u32,
}

impl Mark {
    /// The mark of an open file.
    pub(crate) fn read(path: &Path, connection: &Connection) -> Result<Self> {
        let number = |key: &str| -> Result<String> {
            let value: Vec<u8> = connection
                .query_row("SELECT value FROM model WHERE key = ?1", [key], |row| row.get(0))
                .map_err(|e| FileError::sqlite(path, "read", &e))?;
            Ok(String::from_utf8_lossy(&value).into_owned())
        };
        let damaged = |what: &str| FileError::Damaged(path.to_path_buf(), what.to_owned());
        Ok(Self {
            generation: number("generation")?
                .parse()
                .map_err(|_| damaged("its count of commits"))?,
            seal: number("seal")?.parse().map_err(|_| damaged("its seal is no number"))?,
        })
    }
}

/// A task, by its name and by numbers that differ where its rows do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KnownTask {
    name: String,
    samples: u64,
    min_loss: u64,
}

impl From<&TaskRecord> for KnownTask {
    fn from(record: &TaskRecord) -> Self {
        let (samples, min_loss) = numbers(record);
        Self { name: record.name.clone(), samples, min_loss }
    }
}

/// Numbers of a task that differ where its rows do.
fn numbers(record: &TaskRecord) -> (u64, u64) {
    let least = record.head.least.value().unwrap_or(f64::NAN);
    (record.head.samples.to_bits(), least.to_bits())
}

impl Version {
    pub(crate) fn new(path: &Path, mark: Mark, records: &[TaskRecord]) -> Self {
        Self { path: whole(path), mark, tasks: records.iter().map(KnownTask::from).collect() }
    }

    /// Whether these begin with the tasks it held.
    pub(crate) fn begins(&self, records: &[TaskRecord]) -> bool {
        let same = |(task, record): (&KnownTask, &TaskRecord)| {
            task.name == record.name && (task.samples, task.min_loss) == numbers(record)
        };
        self.tasks.len() <= records.len() && self.tasks.iter().zip(records).all(same)
    }

    /// The version after a commit that left the first `same` tasks alone.
    pub(crate) fn advance(&mut self, mark: Mark, same: usize, records: &[TaskRecord]) {
        self.mark = mark;
        self.tasks.truncate(same);
        self.tasks.extend(records.iter().skip(same).map(KnownTask::from));
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Whether it was a version of this file, however its path is written.
    pub fn is_at(&self, path: &Path) -> bool {
        self.path == whole(path)
    }

    /// Whether both are versions of one file.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.path == other.path
    }

    /// Whether both are of one content, wherever they are.
    pub fn is_same(&self, other: &Self) -> bool {
        self.mark == other.mark
    }

    /// The tasks it held.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(|task| &*task.name)
    }

    /// Versions as text that [`Version::from_text`] reads; `None` where there are none, or a path is no Unicode.
    pub fn to_text(versions: &[Self]) -> Option<String> {
        if versions.is_empty() { None } else { serde_json::to_string(versions).ok() }
    }

    /// What [`Version::to_text`] wrote.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_text(text: &str) -> std::result::Result<Vec<Self>, String> {
        serde_json::from_str(text).map_err(|e| format!("these are no versions of model files: {e}"))
    }

    /// What happened from this version to a later one.
    pub(crate) fn changes(&self, later: &Self) -> Changes {
        let find = |tasks: &[KnownTask]| -> std::collections::HashMap<String, KnownTask> {
            tasks.iter().map(|task| (task.name.clone(), task.clone())).collect()
        };
        let (before, after) = (find(&self.tasks), find(&later.tasks));
        let mut changes = Changes::default();
        for task in &later.tasks {
            match before.get(&task.name) {
                None => changes.learned.push(task.name.clone()),
                Some(known) if known != task => changes.replaced.push(task.name.clone()),
                Some(_) => {}
            }
        }
        let gone = self.names().filter(|name| !after.contains_key(*name));
        changes.unlearned = gone.map(str::to_owned).collect();
        changes
    }
}

/// The path from the root, without links; as it is where there is no such file.
fn whole(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// What others did to a file since it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Tasks that are new.
    pub learned: Vec<String>,
    /// Tasks that are gone.
    pub unlearned: Vec<String>,
    /// Tasks whose name now stands for other rows.
    pub replaced: Vec<String>,
}

impl Changes {
    /// What was done where there was no file.
    pub(crate) fn since_nothing(version: &Version) -> Self {
        Self { learned: version.names().map(str::to_owned).collect(), ..Self::default() }
    }
}

/// How many names a message lists.
const LISTED: usize = 8;

/// The first names of a list, quoted.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(LISTED);
    let mut text = names.take(LISTED).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("learned", &self.learned),
            ("unlearned", &self.unlearned),
            ("exchanged", &self.replaced),
        ];
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} {}", listed(names.iter().map(String::as_str))))
            .collect();
        // The tasks are the same, so it is the preference, the ridge, or a task learned and unlearned again.
        f.write_str(if parts.is_empty() { "the same tasks, other settings" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}
