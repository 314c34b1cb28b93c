//! Layout 1, written by version 0.1.0: read here, and rewritten as layout 2 by the first commit.
//!
//! There a summary is the quadratic alone, class columns are in sorted order, and a class without rows has parameters that stand
//! for it: an intercept of −1e300 in a `gaussian` model, zeros in a `squared` one.

use std::collections::HashMap;
use std::path::Path;

use pmfcl::learner::TaskRecord;
use pmfcl::problem::{
    Encoding, Exactness, FitOutcome, LeastLoss, Moments, Pool, TaskHead, TaskSummary,
};
use pmfcl::{Classes, Preference, Problem, Summary};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;

use crate::error::FileError;
use crate::layout::{self, DIGEST, Layout, MODEL, SUMMARY, TASK, VERSION};
use crate::read::{self, Answer, Values};
use crate::seal::Checksum;
use crate::settings::Stored;
use crate::store::Result;
use crate::write::InsertTask;

/// The tables, by name.
pub(crate) const TABLES: [(&str, &str); 4] = [
    DIGEST,
    MODEL,
    SUMMARY,
    (
        "task",
        "CREATE TABLE task (place INTEGER PRIMARY KEY, name TEXT NOT NULL, samples REAL NOT NULL, \
         rank INTEGER NOT NULL, weight REAL NOT NULL, min_loss REAL NOT NULL, bytes INTEGER NOT NULL, \
         note TEXT, moments BLOB, losses BLOB, crc INTEGER) STRICT",
    ),
];

/// What the name of a task ends in that a client sent as a diagonal bound.
const DIAGONAL: &str = " (diagonal)";

/// The intercept of a class without rows.
const NEVER: f64 = -1e300;

/// The rows of `task` that [`add_task`] takes.
pub(crate) const SEALED: &str = "SELECT name, samples, weight, min_loss, rank, bytes, place, ifnull(crc, -1), note, moments, losses \
     FROM task WHERE place >= ?1 ORDER BY place";

/// Adds a row of `task` to the seal.
pub(crate) fn add_task(sum: &mut Checksum, row: &Row<'_>) -> rusqlite::Result<()> {
    let mut line = Vec::new();
    for at in 1..4 {
        line.extend_from_slice(&row.get::<_, f64>(at)?.to_le_bytes());
    }
    for at in 4..8 {
        line.extend_from_slice(&row.get::<_, i64>(at)?.to_le_bytes());
    }
    sum.add(&row.get::<_, String>(0)?, &line);
    sum.add_text("note", row, 8)?;
    sum.add_blob("moments", row, 9)?;
    sum.add_blob("losses", row, 10)
}

/// Checksum, bytes and moments of the summaries from one place up to another.
pub(crate) const SUMMARIES: &str = "SELECT place, crc, summary.bytes, moments FROM task JOIN summary USING (place) \
     WHERE place >= ?1 AND place < ?2 ORDER BY place";

/// The task summary of the bytes of a quadratic.
pub(crate) fn summary(
    record: &TaskRecord,
    bytes: &[u8],
    moments: Option<&[u8]>,
) -> Result<TaskSummary, String> {
    let quadratic = Summary::from_bytes(bytes).map_err(|e| e.to_string())?;
    let moments = moments.map(moments_of).transpose()?;
    let (classes, new_inputs) = (Vec::new(), Vec::new());
    let (head, scatters, tails) = (record.head.clone(), Vec::new(), None);
    Ok(TaskSummary { head, quadratic, moments, scatters, tails, classes, new_inputs })
}

fn moments_of(bytes: &[u8]) -> Result<Moments, String> {
    let numbers = layout::from_bytes(bytes).and_then(|numbers| Moments::from_numbers(&numbers));
    numbers.ok_or_else(|| "the moments of the features are invalid".to_owned())
}

/// The records of all tasks, or what is wrong with them.
pub(crate) fn records(
    connection: &Connection,
) -> rusqlite::Result<Result<Vec<TaskRecord>, String>> {
    let mut model = connection.prepare("SELECT key, value FROM model")?;
    let values: Values =
        model.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let reader = match Reader::new(&values) {
        Ok(reader) => reader,
        Err(what) => return Ok(Err(what)),
    };
    let mut statement = connection.prepare(
        "SELECT name, samples, rank, weight, min_loss, bytes, note, moments, losses, place \
         FROM task ORDER BY place",
    )?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let task = Task {
            name: row.get(0)?,
            samples: row.get(1)?,
            rank: row.get(2)?,
            weight: row.get(3)?,
            min_loss: row.get(4)?,
            bytes: row.get(5)?,
            note: row.get(6)?,
            moments: row.get::<_, Option<Vec<u8>>>(7)?.map_or(0, |moments| moments.len()),
            losses: row.get(8)?,
        };
        if row.get::<_, i64>(9)? != records.len().cast_signed() as i64 {
            return Ok(Err("tasks are missing from its list".to_owned()));
        }
        match reader.record(task) {
            Ok(record) => records.push(record),
            Err(what) => return Ok(Err(what)),
        }
    }
    Ok(Ok(records))
}

/// A row of `task`.
struct Task {
    name: String,
    samples: f64,
    rank: i64,
    weight: f64,
    min_loss: f64,
    bytes: i64,
    note: Option<String>,
    /// Bytes of the moments.
    moments: usize,
    losses: Option<Vec<u8>>,
}

/// What records depend on.
struct Reader {
    exactness: Exactness,
    classes: Option<Classes>,
}

impl Reader {
    fn new(values: &Values) -> Result<Self, String> {
        let problem = problem(values)?;
        let classes = if problem.predicts_classes() {
            let names = serde_json::from_str(read::text(values, "classes")?)
                .map_err(|e| format!("its classes: {e}"))?;
            Some(Classes::new(names).map_err(|e| e.to_string())?)
        } else {
            None
        };
        Ok(Self { exactness: problem.exactness(), classes })
    }

    fn record(&self, task: Task) -> Result<TaskRecord, String> {
        let size = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
        let exactness = match self.exactness {
            Exactness::Exact if task.name.ends_with(DIAGONAL) => {
                Exactness::Bound { guaranteed: true }
            }
            exactness => exactness,
        };
        let (counts, outcome) = self.note(task.note.as_deref())?;
        let head = TaskHead {
            samples: task.samples,
            rows: None,
            counts,
            least: match exactness {
                Exactness::Exact => LeastLoss::Exact(task.min_loss),
                Exactness::Bound { .. } => LeastLoss::Certified(task.min_loss),
            },
            exactness,
            outcome,
            calibration: task.losses.as_deref().map(read::calibration).transpose()?,
            content: None,
        };
        Ok(TaskRecord {
            name: task.name,
            weight: task.weight,
            rank: size(task.rank),
            // Moments belong to the summary now.
            bytes: size(task.bytes).saturating_add(task.moments),
            head,
        })
    }

    /// Class counts by place, and how the fit ended.
    fn note(&self, text: Option<&str>) -> Result<(Vec<f64>, FitOutcome), String> {
        let (Some(text), Some(classes)) = (text, &self.classes) else {
            return Ok((Vec::new(), FitOutcome::Converged));
        };
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("the note of a task: {e}"))?;
        let listed: Vec<(String, f64)> = serde_json::from_value(value["counts"].clone())
            .map_err(|e| format!("the class counts of a task: {e}"))?;
        let mut counts = vec![0.0; classes.len()];
        for (name, samples) in listed {
            let place = classes.place(&name).ok_or("a task has a class that is not listed")?;
            counts[place as usize] = samples;
        }
        let outcome = match value["separable"].as_bool() {
            Some(true) => FitOutcome::Separable,
            _ => FitOutcome::Converged,
        };
        Ok((counts, outcome))
    }
}

fn problem(values: &Values) -> Result<Problem, String> {
    let stored = Stored::parse(read::text(values, "settings")?)?;
    stored.problem(&|_| None).map_err(|e| match e {
        crate::settings::SettingsError::UnknownLoss(spec) => format!("the loss `{spec}`"),
        crate::settings::SettingsError::Invalid(what) => what,
    })
}

/// The pool and the solution, where there are any.
pub(crate) fn pool_and_solution(
    values: &Values,
    records: &[TaskRecord],
) -> Result<(Option<Pool>, Option<Answer>), String> {
    let stored = Stored::parse(read::text(values, "settings")?)?;
    let pool = match values.get("pool") {
        Some(bytes) => Some(pool(values, bytes, records, &stored.settings()?.prefer)?),
        None => None,
    };
    let solution = if values.contains_key("solution") { Some(answer(values)?) } else { None };
    Ok((pool, solution))
}

fn pool(
    values: &Values,
    bytes: &[u8],
    records: &[TaskRecord],
    prefer: &Preference,
) -> Result<Pool, String> {
    let quadratic = Summary::from_bytes(bytes).map_err(|e| format!("its pool: {e}"))?;
    let [floor] = read::numbers(values, "floor")?[..] else {
        return Err("its pooled least loss is cut off".to_owned());
    };
    let spread = records
        .iter()
        .zip(shares(records, prefer))
        .map(|(record, share)| share * share / record.head.samples)
        .sum();
    Ok(Pool {
        quadratic,
        least: Some(floor),
        tasks: records.len() as u64,
        samples: records.iter().map(|record| record.head.samples).sum(),
        rows: None,
        spread,
        moments: values.get("moments").map(|bytes| moments_of(bytes)).transpose()?,
        scatters: Vec::new(),
        tails: None,
    })
}

/// The unnormalised weight of each task.
fn shares(records: &[TaskRecord], prefer: &Preference) -> Vec<f64> {
    let chosen: HashMap<&str, f64> = match prefer {
        Preference::Chosen(list) => list.iter().map(|(name, a)| (&**name, *a)).collect(),
        _ => HashMap::new(),
    };
    let later = |t: usize| i32::try_from(records.len() - 1 - t).unwrap_or(i32::MAX);
    let share = |(t, record): (usize, &TaskRecord)| match prefer {
        Preference::Samples => record.weight * record.head.samples,
        Preference::Equal => record.weight,
        Preference::Decay(decay) => record.weight * decay.powi(later(t)),
        Preference::Chosen(_) => chosen.get(&*record.name).copied().unwrap_or(0.0),
    };
    records.iter().enumerate().map(share).collect()
}

/// The solution, with the parameters of classes without rows replaced by zeros.
fn answer(values: &Values) -> Result<Answer, String> {
    let value = read::solution_value(values)?;
    let rank = read::size(&value, "rank")?;
    let mut solution = read::solution(values, &value, rank.into())?;
    let settings: Value = serde_json::from_str(read::text(values, "settings")?)
        .map_err(|e| format!("its settings: {e}"))?;
    let classes = settings["kind"] == "classification";
    let absent = |column: &[f64]| match settings["loss"].as_str() {
        Some("gaussian") => column.first().is_some_and(|intercept| *intercept <= NEVER),
        Some("squared") => classes && column.iter().all(|v| *v == 0.0),
        _ => false,
    };
    let theta = &mut solution.theta;
    let mut present = Vec::with_capacity(theta.targets());
    for k in 0..theta.targets() {
        present.push(!absent(theta.column(k)));
        if present[k] {
            continue;
        }
        theta.column_mut(k).fill(0.0);
    }
    Ok((solution, present))
}

/// Rewrites the tables as layout 2 in the transaction that is open, one summary at a time; `records` are those of the tasks in
/// the file. The rows of `model` are left to the writer.
pub(crate) fn migrate(path: &Path, connection: &Connection, records: &[TaskRecord]) -> Result<()> {
    let write = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    connection.execute_batch("ALTER TABLE task RENAME TO task_1").map_err(write)?;
    create_tables(connection).map_err(write)?;
    migrate_tasks(path, connection, records)?;
    connection.execute_batch("DROP TABLE task_1").map_err(write)?;
    connection
        .execute("DELETE FROM model WHERE key IN ('floor', 'moments', 'pool')", [])
        .map(|_| ())
        .map_err(write)
}

/// Drops the task table of layout 1; everything is about to be written anew.
pub(crate) fn replace(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE task")?;
    create_tables(connection)
}

fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TASK.1)?;
    connection.execute_batch(layout::AUDIT.1)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Checksum, bytes and moments of a summary.
type OldSummary = (Option<i64>, Vec<u8>, Option<Vec<u8>>);

/// Writes the rows of `task`, and each summary with the head and the moments that were in the row.
fn migrate_tasks(path: &Path, connection: &Connection, records: &[TaskRecord]) -> Result<()> {
    let failed = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    let old = "SELECT crc, summary.bytes, moments FROM task_1 JOIN summary USING (place) WHERE place = ?1";
    let new = "UPDATE summary SET bytes = ?2 WHERE place = ?1";
    let (mut old, mut new) =
        (connection.prepare(old).map_err(failed)?, connection.prepare(new).map_err(failed)?);
    let mut insert = InsertTask::new(connection).map_err(failed)?;
    for (place, record) in records.iter().enumerate() {
        let at = place.cast_signed() as i64;
        let found: Option<OldSummary> = old
            .query_row([at], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()
            .map_err(failed)?;
        let mut checksum = None;
        if let Some((crc, bytes, moments)) = found {
            let damaged = |what: &str| {
                let what = format!("the summary of task `{}`: {what}", record.name);
                FileError::Damaged(path.to_path_buf(), what)
            };
            if crc != Some(layout::checksum(Layout::First, &bytes)) {
                return Err(damaged("bytes were changed"));
            }
            let task = summary(record, &bytes, moments.as_deref()).map_err(|e| damaged(&e))?;
            let bytes = task.to_bytes(Encoding::Plain);
            new.execute(params![at, bytes]).map_err(failed)?;
            checksum = Some(layout::checksum(Layout::Second, &bytes));
        }
        insert.run(place, record, checksum).map_err(failed)?;
    }
    Ok(())
}
