//! From the rows of the tables to a model.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pmfcl::learner::{LearnerState, TaskRecord};
use pmfcl::problem::{
    CalibrationTable, Exactness, FitOutcome, LeastLoss, Outputs, Pool, TaskHead, TaskSummary,
};
use pmfcl::solve::Rank;
use pmfcl::{Classes, Design, Learner, Map, Outcome, Penalty, Problem, Settings, Solution, Theta};
use rusqlite::Connection;
use serde_json::Value;

use crate::error::FileError;
use crate::layout::{self, APPLICATION, Layout, VERSION};
use crate::model::Model;
use crate::schema::Schema;
use crate::seal::{SealedRows, seal};
use crate::settings::{self, FindLoss, SettingsError};
use crate::store::Result;
use crate::version::{Mark, Version};
use crate::{layout_1, pool};

/// Bytes that one byte of a summary may unpack to: numbers that are zero take a bit.
pub(crate) const MOST_UNPACKED: usize = 64;

/// The rows of the table `model`.
pub(crate) type Values = BTreeMap<String, Vec<u8>>;

/// Weights that a basis may draw in a file that holds no sums or parameters of its columns: 256 MiB of them.
const MOST_WEIGHTS: usize = 1 << 25;

/// A solution, and for each column of parameters whether its class has rows.
pub(crate) type Answer = (Solution, Vec<bool>);

/// What a file holds, before it is made a model.
pub(crate) struct Contents {
    pub(crate) layout: Layout,
    pub(crate) sealed: SealedRows,
    mark: Mark,
    pub(crate) values: Values,
    records: Vec<TaskRecord>,
    pub(crate) pool: Option<Pool>,
    solution: Option<Answer>,
    /// Summaries of tasks that are not in the pool: the first solution needs them.
    waiting: Vec<(usize, TaskSummary)>,
}

impl Contents {
    /// Reads an open file, in the transaction that is open.
    pub(crate) fn read(path: &Path, connection: &Connection) -> Result<Self> {
        let layout = check_layout(path, connection)?;
        let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
        let damaged = |what: String| FileError::Damaged(path.to_path_buf(), what);
        let values = values(connection).map_err(read)?;
        let sealed = SealedRows::none(layout).extended(connection).map_err(read)?;
        let found = seal(connection, &sealed).map_err(read)?.to_string();
        if values.get("seal").is_none_or(|noted| *noted != found.as_bytes()) {
            return Err(damaged("its checksum does not match: bytes were changed".to_owned()));
        }
        let mark = Mark::read(path, connection)?;
        let records = records(layout, connection).map_err(read)?.map_err(damaged)?;
        let (pool, solution) = match layout {
            Layout::First => layout_1::pool_and_solution(&values, &records),
            Layout::Second => stored_pool(&values).and_then(|pool| {
                let solution = stored_solution(&values, mark.generation, pool.as_ref())?;
                Ok((pool, solution))
            }),
        }
        .map_err(damaged)?;
        let mut contents =
            Self { layout, sealed, mark, values, records, pool, solution, waiting: Vec::new() };
        let first = contents.pool.as_ref().map_or(0, |pool| pool.tasks as usize);
        let places = first.min(contents.records.len())..contents.records.len();
        contents.waiting = summaries(path, connection, layout, &contents.records, places)?;
        Ok(contents)
    }

    /// Which version of the file this is.
    pub(crate) fn version(&self, path: &Path) -> Version {
        Version::new(path, self.mark.clone(), &self.records)
    }

    /// Targets of everything that was read.
    fn targets(&self) -> impl Iterator<Item = usize> {
        let pool = self.pool.iter().map(|pool| pool.quadratic.targets());
        let waiting = self.waiting.iter().map(|(_, summary)| summary.quadratic.targets());
        let solution = self.solution.iter().map(|(solution, _)| solution.theta.targets());
        pool.chain(waiting).chain(solution)
    }

    /// Refuses a basis whose columns are not those of the sums, or that would draw more numbers than the file gives reason to,
    /// before anything of that size is allocated.
    fn check_size(&self, settings: &Settings, inputs: usize) -> Result<(), String> {
        let columns = settings.basis.columns(inputs).unwrap_or(usize::MAX);
        let expected = columns.saturating_add(usize::from(settings.intercept));
        let pool = self.pool.iter().map(|pool| &pool.quadratic);
        let sums = pool.chain(self.waiting.iter().map(|(_, task)| &task.quadratic));
        let sums = sums.map(|sum| (sum.width(), sum.numbers()));
        let theta = self.solution.iter().map(|(solution, _)| &solution.theta);
        let theta = theta.map(|theta| (theta.width(), theta.cells().len()));
        let mut held = 0;
        for (width, numbers) in sums.chain(theta) {
            if width > expected {
                return Err(format!(
                    "its sums are of {width} columns, and its basis {} has {expected}",
                    settings.basis
                ));
            }
            held = held.max(numbers);
        }
        let weights = settings.basis.weights(inputs);
        if weights > MOST_WEIGHTS && held < expected {
            return Err(format!(
                "its basis {} on {inputs} inputs draws {weights} numbers, and it holds none of that many columns; without sums or \
                 parameters at most {MOST_WEIGHTS} are drawn",
                settings.basis
            ));
        }
        Ok(())
    }

    /// The model; `find` knows losses of the user's own.
    pub(crate) fn into_model(self, path: &Path, find: FindLoss<'_>) -> Result<Model> {
        let path = path.to_path_buf();
        self.build(find).map_err(|error| match error {
            SettingsError::UnknownLoss(spec) => FileError::UnknownLoss(path, spec),
            SettingsError::Invalid(what) => FileError::Damaged(path, what),
        })
    }

    fn build(self, find: FindLoss<'_>) -> Result<Model, SettingsError> {
        let schema: Schema = serde_json::from_str(text(&self.values, "schema")?)
            .map_err(|e| format!("its schema: {e}"))?;
        schema.check()?;
        let stored = settings::Stored::parse(text(&self.values, "settings")?)?;
        let (problem, settings) = (stored.problem(find)?, stored.settings()?);
        let design = if self.values.contains_key("basis") {
            let frozen = numbers(&self.values, "basis")?;
            self.check_size(&settings, schema.inputs.len())?;
            let map = Map::thaw(&settings.basis, schema.inputs.len(), &frozen)
                .map_err(|e| e.to_string())?;
            let design = Design::new(map, settings.intercept).with_clip(settings.clip);
            Some(design.with_fills(schema.fills()).map_err(|e| e.to_string())?)
        } else {
            None
        };
        let outputs = outputs(&self.values, &problem, &schema, self.records.is_empty())?;
        if let Outputs::Values(count) = outputs
            && self.targets().any(|targets| targets != count)
        {
            return Err("there are not as many target names as targets".into());
        }
        let mut tasks: Vec<(TaskRecord, Option<Arc<TaskSummary>>)> =
            self.records.into_iter().map(|record| (record, None)).collect();
        for (place, summary) in self.waiting {
            tasks[place].1 = Some(Arc::new(summary));
        }
        let (pool, solution) = (self.pool, self.solution);
        let state = LearnerState { problem, settings, design, outputs, tasks, pool, solution };
        let learner = Learner::from_state(state).map_err(|e| e.to_string())?;
        Ok(Model { schema, learner })
    }
}

/// What the columns of parameters stand for.
fn outputs(
    values: &Values,
    problem: &Problem,
    schema: &Schema,
    empty: bool,
) -> Result<Outputs, String> {
    if !problem.predicts_classes() {
        return Ok(Outputs::Values(if empty { 0 } else { schema.targets.len() }));
    }
    if schema.targets.len() != 1 {
        return Err("a model of classes has one target column".to_owned());
    }
    let names: Vec<String> =
        serde_json::from_str(text(values, "classes")?).map_err(|e| format!("its classes: {e}"))?;
    Ok(Outputs::Classes(Classes::new(names).map_err(|e| e.to_string())?))
}

/// Exactly our application, a layout we know, and its tables.
pub(crate) fn check_layout(path: &Path, connection: &Connection) -> Result<Layout> {
    let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("application_id").map_err(read)? != APPLICATION {
        let why = "an SQLite database of something else";
        return Err(FileError::NotAModel(path.to_path_buf(), why));
    }
    let version = number("user_version").map_err(read)?;
    if version > VERSION {
        return Err(FileError::Newer(path.to_path_buf(), version, VERSION));
    }
    let damaged = |what: &str| FileError::Damaged(path.to_path_buf(), what.to_owned());
    let journal: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(read)?;
    if journal == "wal" {
        return Err(damaged(
            "it was switched to a write-ahead log; switch it back with PRAGMA journal_mode=DELETE",
        ));
    }
    let Some(layout) = Layout::of(version) else {
        return Err(damaged("its version is invalid"));
    };
    let mut statement = connection
        .prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .map_err(read)?;
    let found: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(read)?
        .collect::<rusqlite::Result<_>>()
        .map_err(read)?;
    let found = found.iter().map(|(name, sql)| (&**name, &**sql));
    if layout.has(found) { Ok(layout) } else { Err(damaged("its tables are not those of a model")) }
}

fn values(connection: &Connection) -> rusqlite::Result<Values> {
    let mut statement = connection.prepare("SELECT key, value FROM model")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The text of a key.
pub(crate) fn text<'a>(values: &'a Values, key: &str) -> Result<&'a str, String> {
    let bytes = values.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
    std::str::from_utf8(bytes).map_err(|_| format!("`{key}` is no text"))
}

/// The numbers of a key.
pub(crate) fn numbers(values: &Values, key: &str) -> Result<Vec<f64>, String> {
    let bytes = values.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
    layout::from_bytes(bytes).ok_or_else(|| format!("`{key}` is cut off"))
}

fn stored_pool(values: &Values) -> Result<Option<Pool>, String> {
    let pool = values.get("pool").map(|bytes| pool::from_bytes(bytes));
    pool.transpose().map_err(|e| format!("its pool: {e}"))
}

/// The solution of this generation; one of another is ignored.
fn stored_solution(
    values: &Values,
    generation: i64,
    pool: Option<&Pool>,
) -> Result<Option<Answer>, String> {
    if !values.contains_key("solution") {
        return Ok(None);
    }
    let value = solution_value(values)?;
    if value["generation"].as_i64() != Some(generation) {
        return Ok(None);
    }
    let present: Vec<bool> = serde_json::from_value(value["present"].clone())
        .map_err(|e| format!("its solution: which classes have rows: {e}"))?;
    let rank = match pool {
        Some(pool) if value["rank"].is_null() => Rank::of(&pool.quadratic),
        _ => size(&value, "rank")?.into(),
    };
    Ok(Some((solution(values, &value, rank)?, present)))
}

/// A size among the names of the solution.
pub(crate) fn size(value: &Value, name: &str) -> Result<usize, String> {
    let n = value[name].as_u64().and_then(|n| usize::try_from(n).ok());
    n.ok_or_else(|| format!("its solution lacks `{name}`"))
}

/// The JSON object of the key `solution`.
pub(crate) fn solution_value(values: &Values) -> Result<Value, String> {
    serde_json::from_str(text(values, "solution")?).map_err(|e| format!("its solution: {e}"))
}

/// The solution that both layouts have.
pub(crate) fn solution(values: &Values, value: &Value, rank: Rank) -> Result<Solution, String> {
    let size = |name: &str| size(value, name);
    let boolean =
        |name: &str| value[name].as_bool().ok_or_else(|| format!("its solution lacks `{name}`"));
    let standardize = boolean("standardize")?;
    let penalty = match (&value["ridge"], value["ridge"].as_f64()) {
        (_, Some(ridge)) => Penalty::new(ridge, standardize),
        (Value::Array(own), _) => {
            let own: Option<Vec<f64>> = own.iter().map(Value::as_f64).collect();
            Penalty::per_target(
                &own.ok_or("its solution has ridges that are no numbers")?,
                standardize,
            )
        }
        _ => return Err("its solution lacks `ridge`".to_owned()),
    };
    let theta = Theta::from_columns(size("width")?, size("targets")?, numbers(values, "theta")?)
        .map_err(|e| e.to_string())?;
    Ok(Solution {
        theta,
        rank,
        outcome: if boolean("unique")? { Outcome::Unique } else { Outcome::MinimumNorm },
        penalty: penalty.map_err(|e| e.to_string())?,
    })
}

/// The records of all tasks, or what is wrong with them.
fn records(
    layout: Layout,
    connection: &Connection,
) -> rusqlite::Result<Result<Vec<TaskRecord>, String>> {
    if layout == Layout::First {
        return layout_1::records(connection);
    }
    let mut statement = connection.prepare(
        "SELECT name, samples, rows, rank, weight, least, exactness, outcome, bytes, counts, content, calibration, place \
         FROM task ORDER BY place",
    )?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let task = TaskRow {
            name: row.get(0)?,
            samples: row.get(1)?,
            rows: row.get(2)?,
            rank: row.get(3)?,
            weight: row.get(4)?,
            least: row.get(5)?,
            exactness: row.get(6)?,
            outcome: row.get(7)?,
            bytes: row.get(8)?,
            counts: row.get(9)?,
            content: row.get(10)?,
            calibration: row.get(11)?,
        };
        if row.get::<_, i64>(12)? != records.len().cast_signed() as i64 {
            return Ok(Err("tasks are missing from its list".to_owned()));
        }
        match task.record() {
            Ok(record) => records.push(record),
            Err(what) => return Ok(Err(what)),
        }
    }
    Ok(Ok(records))
}

/// A row of `task`, as it lies there.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct TaskRow {
    pub name: String,
    pub samples: f64,
    pub rows: Option<i64>,
    pub rank: i64,
    pub weight: f64,
    pub least: Option<f64>,
    pub exactness: String,
    pub outcome: String,
    pub bytes: i64,
    pub counts: Option<String>,
    pub content: Option<Vec<u8>>,
    pub calibration: Option<Vec<u8>>,
}

impl TaskRow {
    /// The row of a record.
    pub(crate) fn of(record: &TaskRecord) -> Self {
        let head = &record.head;
        let counts = || serde_json::to_string(&head.counts).expect("numbers are JSON");
        Self {
            name: record.name.clone(),
            samples: head.samples,
            rows: head.rows.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX)),
            rank: record.rank.cast_signed() as i64,
            weight: record.weight,
            least: head.least.value(),
            exactness: match head.exactness {
                Exactness::Exact if matches!(head.least, LeastLoss::Certified(_)) => "exact above",
                Exactness::Exact => "exact",
                Exactness::Bound { guaranteed: true } => "bound",
                Exactness::Bound { guaranteed: false } => "estimate",
            }
            .to_owned(),
            outcome: match head.outcome {
                FitOutcome::Converged => "converged".to_owned(),
                FitOutcome::Separable => "separable".to_owned(),
                FitOutcome::Stopped { gap } => format!("stopped:{gap}"),
            },
            bytes: record.bytes.cast_signed() as i64,
            counts: (!head.counts.is_empty()).then(counts),
            content: head.content.map(|hash| hash.to_vec()),
            calibration: head.calibration.as_ref().map(table_bytes),
        }
    }

    /// The record of a row.
    fn record(self) -> Result<TaskRecord, String> {
        let name = self.name;
        let wrong = |what: &str| format!("the {what} of task `{name}` is invalid");
        let size = |value: i64, what| usize::try_from(value).map_err(|_| wrong(what));
        let exactness = match &*self.exactness {
            "exact" | "exact above" => Exactness::Exact,
            "bound" => Exactness::Bound { guaranteed: true },
            "estimate" => Exactness::Bound { guaranteed: false },
            _ => return Err(wrong("exactness")),
        };
        let outcome = match (&*self.outcome, self.outcome.strip_prefix("stopped:")) {
            ("converged", _) => FitOutcome::Converged,
            ("separable", _) => FitOutcome::Separable,
            (_, Some(gap)) => {
                let gap: f64 = gap.parse().map_err(|_| wrong("outcome"))?;
                FitOutcome::Stopped { gap }
            }
            _ => return Err(wrong("outcome")),
        };
        let least = match (self.least, &*self.exactness) {
            (None, _) => LeastLoss::Unknown,
            (Some(least), "exact") => LeastLoss::Exact(least),
            (Some(least), _) => LeastLoss::Certified(least),
        };
        let counts = self.counts.as_deref().map(serde_json::from_str).transpose();
        let rows = self.rows.map(u64::try_from).transpose().map_err(|_| wrong("number of rows"))?;
        let content = self.content.map(<[u8; 32]>::try_from).transpose();
        let head = TaskHead {
            samples: self.samples,
            rows,
            counts: counts.map_err(|_| wrong("list of class counts"))?.unwrap_or_default(),
            least,
            exactness,
            outcome,
            calibration: self.calibration.as_deref().map(calibration).transpose()?,
            content: content.map_err(|_| wrong("content hash"))?,
        };
        let (rank, bytes) = (size(self.rank, "rank")?, size(self.bytes, "size")?);
        Ok(TaskRecord { weight: self.weight, rank, bytes, head, name })
    }
}

/// The bytes of a calibration table.
pub(crate) fn table_bytes(table: &CalibrationTable) -> Vec<u8> {
    layout::to_bytes(&table.to_numbers())
}

/// Log-losses at several temperatures.
pub(crate) fn calibration(bytes: &[u8]) -> Result<CalibrationTable, String> {
    let wrong = || "the log-losses of a task at several temperatures are invalid".to_owned();
    let numbers = layout::from_bytes(bytes).ok_or_else(wrong)?;
    CalibrationTable::from_numbers(&numbers).ok_or_else(wrong)
}

/// The summaries at some places, each with its place.
pub(crate) fn summaries(
    path: &Path,
    connection: &Connection,
    layout: Layout,
    records: &[TaskRecord],
    places: Range<usize>,
) -> Result<Vec<(usize, TaskSummary)>> {
    let read = |e: rusqlite::Error| FileError::sqlite(path, "read", &e);
    let damaged = |what: String| FileError::Damaged(path.to_path_buf(), what);
    let mut found = Vec::with_capacity(places.len());
    let sql = match layout {
        Layout::First => layout_1::SUMMARIES,
        Layout::Second => {
            "SELECT place, crc, summary.bytes, NULL FROM task JOIN summary USING (place) \
             WHERE place >= ?1 AND place < ?2 ORDER BY place"
        }
    };
    let mut statement = connection.prepare(sql).map_err(read)?;
    let bounds = [places.start, places.end].map(|place| place.cast_signed() as i64);
    let mut rows = statement.query(bounds).map_err(read)?;
    while let Some(row) = rows.next().map_err(read)? {
        let place: i64 = row.get(0).map_err(read)?;
        let crc: Option<i64> = row.get(1).map_err(read)?;
        let bytes: Vec<u8> = row.get(2).map_err(read)?;
        let expected = places.start + found.len();
        if usize::try_from(place) != Ok(expected) {
            break;
        }
        let record = &records[expected];
        if crc != Some(layout::checksum(layout, &bytes)) {
            let name = &record.name;
            return Err(damaged(format!("the summary of task `{name}` has changed bytes")));
        }
        let summary = match layout {
            Layout::First => {
                let moments: Option<Vec<u8>> = row.get(3).map_err(read)?;
                layout_1::summary(record, &bytes, moments.as_deref())
            }
            Layout::Second => {
                TaskSummary::from_bytes(&bytes, bytes.len().saturating_mul(MOST_UNPACKED))
                    .map_err(|e| e.to_string())
            }
        };
        let wrong = |e| damaged(format!("the summary of task `{}`: {e}", record.name));
        found.push((expected, summary.map_err(wrong)?));
    }
    if found.len() != places.len() {
        return Err(damaged("there is not one summary for each task".to_owned()));
    }
    Ok(found)
}

/// The model that these rows make, by the same code that opens, loads and verifies a file. For fuzzing, where
/// a file for each try would cost fifty times as much.
#[doc(hidden)]
pub fn assemble(
    values: BTreeMap<String, Vec<u8>>,
    tasks: Vec<TaskRow>,
    summaries: Vec<TaskSummary>,
) -> Result<Model, String> {
    let records = tasks.into_iter().map(TaskRow::record).collect::<Result<Vec<_>, _>>()?;
    let generation: i64 =
        text(&values, "generation")?.parse().map_err(|_| "its count of commits")?;
    let pool = stored_pool(&values)?;
    let solution = stored_solution(&values, generation, pool.as_ref())?;
    let first = pool.as_ref().map_or(0, |pool| pool.tasks as usize);
    // Compact memory has summaries of the last tasks only.
    let skipped = records.len().saturating_sub(summaries.len());
    let (before, waiting): (Vec<_>, Vec<_>) = summaries
        .into_iter()
        .enumerate()
        .map(|(i, summary)| (skipped + i, summary))
        .partition(|(place, _)| *place < first);
    if waiting.iter().any(|(place, _)| *place >= records.len()) {
        return Err("there are more summaries than tasks".to_owned());
    }
    let mark = Mark { generation, seal: 0 };
    let sealed = SealedRows::none(Layout::Second);
    let layout = Layout::Second;
    let contents = Contents { layout, sealed, mark, values, records, pool, solution, waiting };
    let path = Path::new("a model");
    let mut model = contents.into_model(path, &|_| None).map_err(|e| e.to_string())?;
    if model.learner.unloaded() > 0 {
        model.learner.load_summaries(before).map_err(|e| e.to_string())?;
    }
    crate::verify::follows(path, &model).map_err(|e| e.to_string())?;
    Ok(model)
}
