//! The rows of the tables as a model.

use std::path::Path;

use pmfcl::classify::{ClassifierParts, TaskNote};
use pmfcl::learner::{LearnerParts, MemoryParts, TaskRecord};
use pmfcl::{
    Classifier, Design, Learner, Map, MemoryKind, Model as Solution, Outcome, Penalty, Summary,
    Theta,
};
use rusqlite::Connection;
use serde_json::Value;

use crate::error::FileError;
use crate::model::{Learned, Model};
use crate::schema::Schema;
use crate::seal::{TaskSeal, seal};
use crate::settings::{self, Found};
use crate::store::Result;
use crate::version::{Mark, Version};
use crate::{layout, verify};

/// A summary from its bytes.
pub(crate) fn thaw(path: &Path, blob: &[u8], check: Option<i64>, name: &str) -> Result<Summary> {
    let damaged = |what: String| FileError::Damaged(path.to_path_buf(), what);
    if check != Some(layout::check_number(blob)) {
        return Err(damaged(format!("the summary of task `{name}` has changed bytes")));
    }
    Summary::from_bytes(blob).map_err(|e| damaged(format!("the summary of task `{name}`: {e}")))
}

/// What a file holds, before it is made a model.
pub(crate) struct Stored {
    mark: Mark,
    pub(crate) sealed: TaskSeal,
    values: std::collections::BTreeMap<String, Vec<u8>>,
    tasks: Vec<(TaskRecord, TaskNote)>,
    /// Summaries of compact memory, which are few and always needed.
    held: Vec<Summary>,
}

impl Stored {
    pub(crate) fn read(path: &Path, connection: &Connection) -> Result<Self> {
        let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
        let damaged = |what: &str| FileError::Damaged(path.to_path_buf(), what.to_owned());
        let mut values = std::collections::BTreeMap::new();
        {
            let mut statement = connection.prepare("SELECT key, value FROM model").map_err(read)?;
            let mut rows = statement.query([]).map_err(read)?;
            while let Some(row) = rows.next().map_err(read)? {
                values.insert(row.get(0).map_err(read)?, row.get(1).map_err(read)?);
            }
        }
        let noted = values.get("seal").map(|v: &Vec<u8>| String::from_utf8_lossy(v).into_owned());
        let sealed = TaskSeal::default().extended(connection).map_err(read)?;
        if noted != Some(seal(connection, &sealed).map_err(read)?.to_string()) {
            return Err(damaged("its check number does not match: bytes were changed"));
        }
        let mut tasks = Vec::new();
        let mut checks: Vec<Option<i64>> = Vec::new();
        let mut statement = connection
            .prepare(
                "SELECT name, samples, rank, weight, min_loss, bytes, note, moments, losses, crc, place \
                 FROM task ORDER BY place",
            )
            .map_err(read)?;
        let mut rows = statement.query([]).map_err(read)?;
        while let Some(row) = rows.next().map_err(read)? {
            let size =
                |i: usize| row.get::<_, i64>(i).map(|v| usize::try_from(v).unwrap_or(usize::MAX));
            let record = || {
                Ok(TaskRecord {
                    name: row.get(0)?,
                    samples: row.get(1)?,
                    rank: size(2)?,
                    weight: row.get(3)?,
                    min_loss: row.get(4)?,
                    bytes: size(5)?,
                })
            };
            let blob = |i: usize| row.get::<_, Option<Vec<u8>>>(i).map_err(read);
            let note: Option<String> = row.get(6).map_err(read)?;
            let note = read_note(note.as_deref(), blob(7)?, blob(8)?).map_err(|e| damaged(&e))?;
            if size(10).map_err(read)? != tasks.len() {
                return Err(damaged("tasks are missing from its list"));
            }
            tasks.push((record().map_err(read)?, note));
            checks.push(row.get(9).map_err(read)?);
        }
        let mut stored =
            Self { mark: Mark::read(path, connection)?, sealed, values, tasks, held: Vec::new() };
        let found = settings::read(stored.text("settings").map_err(|e| damaged(&e))?)
            .map_err(|e| damaged(&e))?;
        let compact = match &found {
            Found::Regression(s) => s.memory,
            Found::Classification(s) => s.memory,
        } == MemoryKind::Compact;
        if compact && !stored.values.contains_key("pool") {
            let mut statement =
                connection.prepare("SELECT bytes FROM summary ORDER BY place").map_err(read)?;
            let blobs: Vec<Vec<u8>> = statement
                .query_map([], |row| row.get(0))
                .map_err(read)?
                .collect::<rusqlite::Result<_>>()
                .map_err(read)?;
            for ((blob, check), (record, _)) in blobs.iter().zip(checks).zip(&stored.tasks) {
                stored.held.push(thaw(path, blob, check, &record.name)?);
            }
        }
        Ok(stored)
    }

    fn text(&self, key: &str) -> Result<&str, String> {
        let bytes = self.values.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
        std::str::from_utf8(bytes).map_err(|_| format!("`{key}` is no text"))
    }

    fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        let bytes = self.values.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
        layout::from_bytes(bytes).ok_or_else(|| format!("`{key}` is cut off"))
    }

    /// Which version of the file this is.
    pub(crate) fn version(&self, path: &Path) -> Version {
        Version::new(path, self.mark.clone(), self.tasks.iter().map(|(record, _)| record))
    }

    pub(crate) fn into_model(self, path: &Path) -> Result<Model> {
        self.build().map_err(|what| FileError::Damaged(path.to_path_buf(), what))
    }

    fn build(self) -> Result<Model, String> {
        let schema: Schema =
            serde_json::from_str(self.text("schema")?).map_err(|e| format!("its schema: {e}"))?;
        schema.check()?;
        let found = settings::read(self.text("settings")?)?;
        let (basis, intercept, memory) = match &found {
            Found::Regression(s) => (s.basis.clone(), s.intercept, s.memory),
            Found::Classification(s) => (s.basis.clone(), s.intercept, s.memory),
        };
        let design = if self.values.contains_key("basis") {
            let map = Map::thaw(&basis, schema.inputs.len(), &self.numbers("basis")?)
                .map_err(|e| e.to_string())?;
            Some(Design::new(map, intercept))
        } else {
            None
        };
        let solution =
            if self.values.contains_key("solution") { Some(self.solution()?) } else { None };
        let memory = match (memory, self.values.get("pool")) {
            _ if self.tasks.is_empty() => MemoryParts::Empty,
            (MemoryKind::Ledger, Some(pool)) => {
                let pool = Summary::from_bytes(pool).map_err(|e| format!("its pool: {e}"))?;
                MemoryParts::Ledger { pool, floor: self.floor()?, summaries: Vec::new() }
            }
            (MemoryKind::Compact, Some(pool)) => {
                let pool = Summary::from_bytes(pool).map_err(|e| format!("its pool: {e}"))?;
                MemoryParts::Folded { pool, floor: self.floor()? }
            }
            (MemoryKind::Compact, None) => MemoryParts::Held(self.held.clone()),
            (MemoryKind::Ledger, None) => return Err("its pool is missing".to_owned()),
        };
        let classes = match &found {
            Found::Classification(_) => serde_json::from_str::<Vec<String>>(self.text("classes")?)
                .map_err(|e| format!("its classes: {e}"))?,
            Found::Regression(_) => Vec::new(),
        };
        let moments =
            if self.values.contains_key("moments") { Some(self.numbers("moments")?) } else { None };
        let (records, notes): (Vec<_>, Vec<_>) = self.tasks.into_iter().unzip();
        let parts = |settings| LearnerParts {
            settings,
            design,
            targets: solution.as_ref().map_or(0, |s: &Solution| s.theta.targets()),
            tasks: records,
            memory,
            model: solution,
        };
        let learned = match found {
            Found::Regression(settings) => Learned::Regression(Box::new(
                Learner::from_parts(parts(settings)).map_err(|e| e.to_string())?,
            )),
            Found::Classification(settings) => {
                let learner = parts(pmfcl::Settings::default());
                let whole = ClassifierParts { settings, classes, learner, notes, moments };
                Learned::Classification(Box::new(
                    Classifier::from_parts(whole).map_err(|e| e.to_string())?,
                ))
            }
        };
        let model = Model { schema, learned };
        let targets = match &model.learned {
            Learned::Regression(learner) => {
                learner.model().map_or(model.schema.targets.len(), |m| m.theta.targets())
            }
            Learned::Classification(_) => 1,
        };
        if model.schema.targets.len() != targets {
            return Err("there are not as many target names as targets".to_owned());
        }
        Ok(model)
    }

    fn floor(&self) -> Result<f64, String> {
        match self.numbers("floor")?[..] {
            [floor] => Ok(floor),
            _ => Err("its pooled least loss is cut off".to_owned()),
        }
    }

    fn solution(&self) -> Result<Solution, String> {
        let value: Value = serde_json::from_str(self.text("solution")?)
            .map_err(|e| format!("its solution: {e}"))?;
        let size = |name: &str| {
            let n = value[name].as_u64().and_then(|n| usize::try_from(n).ok());
            n.ok_or_else(|| format!("its solution lacks `{name}`"))
        };
        let truth = |name: &str| {
            value[name].as_bool().ok_or_else(|| format!("its solution lacks `{name}`"))
        };
        let ridge = value["ridge"].as_f64().ok_or("its solution lacks `ridge`")?;
        let theta = Theta::from_columns(size("width")?, size("targets")?, self.numbers("theta")?)
            .map_err(|e| e.to_string())?;
        Ok(Solution {
            theta,
            rank: size("rank")?,
            outcome: if truth("unique")? { Outcome::Unique } else { Outcome::MinimumNorm },
            penalty: Penalty::new(ridge, truth("standardize")?).map_err(|e| e.to_string())?,
        })
    }
}

fn numbers(bytes: Option<Vec<u8>>) -> Result<Option<Vec<f64>>, String> {
    match bytes {
        None => Ok(None),
        Some(bytes) => {
            let numbers = layout::from_bytes(&bytes);
            numbers.map(Some).ok_or_else(|| "numbers of a task are cut off".to_owned())
        }
    }
}

fn read_note(
    text: Option<&str>,
    moments: Option<Vec<u8>>,
    losses: Option<Vec<u8>>,
) -> Result<TaskNote, String> {
    let mut note = TaskNote::default();
    if let Some(text) = text {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("the note of a task: {e}"))?;
        note.counts = serde_json::from_value(value["counts"].clone())
            .map_err(|e| format!("the class counts of a task: {e}"))?;
        note.separable = value["separable"].as_bool();
    }
    note.moments = numbers(moments)?;
    note.losses = numbers(losses)?;
    Ok(note)
}

/// What a row of `task` holds, as it lies there.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct TaskRow {
    pub record: TaskRecord,
    pub note: Option<String>,
    pub moments: Option<Vec<u8>>,
    pub losses: Option<Vec<u8>>,
}

/// The model that these rows make, by the same code that opens, loads and verifies a file. For fuzzing, where
/// a file for each try would cost fifty times as much.
#[doc(hidden)]
pub fn assemble(
    values: std::collections::BTreeMap<String, Vec<u8>>,
    tasks: Vec<TaskRow>,
    summaries: Vec<Summary>,
) -> Result<Model, String> {
    let mut rows = Vec::with_capacity(tasks.len());
    for task in tasks {
        rows.push((task.record, read_note(task.note.as_deref(), task.moments, task.losses)?));
    }
    let held = if values.contains_key("pool") { Vec::new() } else { summaries.clone() };
    let mark = Mark { generation: 0, seal: 0 };
    let mut model =
        Stored { mark, sealed: TaskSeal::default(), values, tasks: rows, held }.build()?;
    if model.learner().away() > 0 {
        match &mut model.learned {
            Learned::Regression(learner) => learner.supply(summaries),
            Learned::Classification(classifier) => classifier.supply(summaries),
        }
        .map_err(|e| e.to_string())?;
    }
    verify::follows(Path::new("a model"), &model).map_err(|e| e.to_string())?;
    Ok(model)
}
