//! From a model to the rows of the tables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use pmfcl::learner::TaskRecord;
use pmfcl::problem::{CalibrationTable, Encoding, TaskHead, TaskSummary};
use pmfcl::{Learner, Outcome, Preference, StoredPrecision};
use rusqlite::{Connection, Statement, params};
use serde_json::{Value, json};

use crate::audit::{self, AuditEntry};
use crate::error::FileError;
use crate::layout::{self, Layout};
use crate::model::Model;
use crate::read::{self, TaskRow, Values};
use crate::seal::{SealedRows, seal};
use crate::store::Result;
use crate::version::Mark;
use crate::{digest, layout_1, pool, settings};

/// What a file holds of the model that was last read from it or written to it.
#[derive(Debug, Clone)]
pub(crate) struct FileState {
    pub(crate) layout: Layout,
    pub(crate) sealed: SealedRows,
    /// The learner's count of edits at that time.
    pub(crate) edits: u64,
    /// How often tables had been replaced by then.
    pub(crate) calibrations: u64,
    /// Which pool it holds.
    pub(crate) pool: Option<KnownPool>,
    /// What a program keeps in the file next to the model, by key.
    pub(crate) notes: BTreeMap<String, Vec<u8>>,
}

/// What the keys of notes begin with, so that they are never those of the model.
const NOTE: &str = "note ";

/// The notes among the values of a file.
pub(crate) fn notes(values: &Values) -> BTreeMap<String, Vec<u8>> {
    let note = |(key, value): (&String, &Vec<u8>)| {
        Some((key.strip_prefix(NOTE)?.to_owned(), value.clone()))
    };
    values.iter().filter_map(note).collect()
}

/// A pool by what it depends on, for a learner whose earlier tasks are unchanged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownPool {
    pub(crate) tasks: u64,
    pub(crate) prefer: Preference,
}

impl KnownPool {
    /// The pool that a learner keeps.
    fn of(learner: &Learner) -> Option<Self> {
        let pool = learner.kept_pool()?;
        Some(Self { tasks: pool.tasks, prefer: learner.settings().prefer.clone() })
    }
}

impl FileState {
    /// That of an empty database with the tables of layout 2.
    pub(crate) fn empty() -> Self {
        let layout = Layout::Second;
        let (sealed, notes) = (SealedRows::none(layout), BTreeMap::new());
        Self { layout, sealed, edits: u64::MAX, calibrations: 0, pool: None, notes }
    }
}

/// What a commit is to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// New tasks, settings, pool, solution: the tasks in the file are unchanged.
    Append,
    /// Everything.
    Everything,
}

/// What a commit has written.
pub(crate) struct Written {
    pub(crate) mark: Mark,
    pub(crate) state: FileState,
}

/// Writes a model and commits the transaction that is open.
pub(crate) fn write(
    path: &Path,
    connection: &Connection,
    model: &Model,
    scope: Scope,
    generation: i64,
    state: &FileState,
    entries: &[AuditEntry],
) -> Result<Written> {
    let done = write_rows(path, connection, model, scope, generation, state, entries).and_then(
        |written| {
            let Err(error) = connection.execute_batch("COMMIT") else { return Ok(written) };
            let _ = connection.execute_batch("ROLLBACK");
            // A commit has happened when its journal is invalid, and can fail after that, when this is to be synced.
            if is_written(path, connection, &written.mark) {
                return Ok(written);
            }
            Err(FileError::committing(path, &error))
        },
    );
    if done.is_err() {
        // The rollback may have happened already; either way nothing of this is in the file.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

/// Whether a commit is in the file, and safe there: whoever can write once more has synced what was before.
fn is_written(path: &Path, connection: &Connection, mark: &Mark) -> bool {
    let again = "BEGIN IMMEDIATE; UPDATE digest SET value = zeroblob(12); COMMIT";
    let safe = || connection.execute_batch(again).is_ok();
    Mark::read(path, connection).is_ok_and(|found| found == *mark) && safe()
}

fn write_rows(
    path: &Path,
    connection: &Connection,
    model: &Model,
    scope: Scope,
    generation: i64,
    state: &FileState,
    entries: &[AuditEntry],
) -> Result<Written> {
    let failed = |e: rusqlite::Error| FileError::sqlite(path, "write", &e);
    let records = model.learner.records();
    let mut sealed = state.sealed.clone();
    let mut known_pool = state.pool.as_ref();
    if state.layout == Layout::First {
        (sealed, known_pool) = (SealedRows::none(Layout::Second), None);
        match scope {
            Scope::Append => {
                layout_1::migrate(path, connection, &records[..state.sealed.count()])?;
            }
            Scope::Everything => layout_1::replace(connection).map_err(failed)?,
        }
    }
    let mut first = state.sealed.count();
    if scope == Scope::Everything {
        let emptied = "DELETE FROM model; DELETE FROM task; DELETE FROM summary";
        connection.execute_batch(emptied).map_err(failed)?;
        (sealed, first, known_pool) = (sealed.without_tasks(), 0, None);
    }
    let (mark, sealed) = (|| {
        if drop_folded(connection, &model.learner)? {
            sealed = sealed.without_tasks();
        }
        let replaced = state.calibrations != model.learner.calibrations();
        if write_tables(connection, &model.learner, first, replaced)? {
            sealed = sealed.without_tasks();
        }
        write_tasks(connection, &model.learner, first)?;
        write_values(connection, model, generation, known_pool)?;
        for (key, value) in &state.notes {
            put(connection, &format!("{NOTE}{key}"), value)?;
        }
        audit::insert(connection, entries)?;
        let sealed = sealed.extended(connection)?;
        let mark = Mark { generation, seal: seal(connection, &sealed)? };
        put(connection, "seal", mark.seal.to_string().as_bytes())?;
        // The digest no longer holds; a new one is made when the file is closed.
        connection.execute("UPDATE digest SET value = ?1", [&digest::NONE[..]])?;
        Ok((mark, sealed))
    })()
    .map_err(failed)?;
    let (layout, edits) = (Layout::Second, model.learner.edits());
    let (calibrations, pool) = (model.learner.calibrations(), KnownPool::of(&model.learner));
    let notes = state.notes.clone();
    let state = FileState { layout, sealed, edits, calibrations, pool, notes };
    Ok(Written { mark, state })
}

/// Tasks whose summaries are in the pool of compact memory and nowhere else.
fn folded(learner: &Learner) -> usize {
    match learner.kept_pool() {
        Some(pool) if learner.is_folded() => pool.tasks as usize,
        _ => 0,
    }
}

/// Removes the summaries that compact memory has merged since; whether there were any.
fn drop_folded(connection: &Connection, learner: &Learner) -> rusqlite::Result<bool> {
    let before = [folded(learner).cast_signed() as i64];
    let any = "SELECT EXISTS (SELECT 1 FROM summary WHERE place < ?1)";
    if !connection.query_row(any, before, |row| row.get::<_, bool>(0))? {
        return Ok(false);
    }
    let marked =
        "UPDATE task SET crc = NULL WHERE place IN (SELECT place FROM summary WHERE place < ?1)";
    connection.execute(marked, before)?;
    connection.execute("DELETE FROM summary WHERE place < ?1", before)?;
    Ok(true)
}

/// Writes the tasks from `first` on, with their summaries.
fn write_tasks(connection: &Connection, learner: &Learner, first: usize) -> rusqlite::Result<()> {
    let folded = folded(learner);
    let mut insert = InsertTask::new(connection)?;
    let mut summary = connection.prepare("INSERT INTO summary (place, bytes) VALUES (?1, ?2)")?;
    for (place, record) in learner.records().iter().enumerate().skip(first) {
        let record = &with_table(record, learner.calibration(place));
        let mut crc = None;
        if place >= folded
            && let Some(task) = learner.task_summary_at(place)
        {
            let bytes = encoded(&with_head(task, record), learner.settings().store);
            summary.execute(params![place.cast_signed() as i64, bytes])?;
            crc = Some(layout::checksum(Layout::Second, &bytes));
        }
        insert.run(place, record, crc)?;
    }
    Ok(())
}

/// Single precision where that was asked for and loses nothing: a summary that was changed after it was rounded keeps its digits.
/// One that is nearly all zeros is not packed either: a reader would not believe that so few bytes hold so many numbers.
fn encoded(task: &TaskSummary, store: StoredPrecision) -> Vec<u8> {
    if store == StoredPrecision::F32 && task.is_single() {
        let bytes = task.to_bytes(Encoding::PackedSingle);
        let quadratic = &task.quadratic;
        let numbers = quadratic.rank() * (quadratic.width() + quadratic.targets());
        if 8 * numbers <= crate::read::MOST_UNPACKED * bytes.len() {
            return bytes;
        }
    }
    task.to_bytes(Encoding::Plain)
}

/// Writes what was measured since with tasks that are in the file, of all of them where tables were `replaced`; whether there was
/// anything.
fn write_tables(
    connection: &Connection,
    learner: &Learner,
    before: usize,
    replaced: bool,
) -> rusqlite::Result<bool> {
    if (0..before).all(|place| learner.calibration(place).is_none()) {
        return Ok(false);
    }
    let sql =
        "SELECT place FROM task WHERE (?2 OR calibration IS NULL) AND place < ?1 ORDER BY place";
    let mut outdated = connection.prepare(sql)?;
    let places = outdated
        .query_map(params![before.cast_signed() as i64, replaced], |row| row.get::<_, i64>(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut update = connection.prepare("UPDATE task SET calibration = ?2 WHERE place = ?1")?;
    let mut any = false;
    for place in places {
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        if let Some(table) = learner.calibration(at) {
            update.execute(params![place, read::table_bytes(table)])?;
            any = true;
        }
    }
    Ok(any)
}

/// The record with what was last measured with the task.
fn with_table<'a>(record: &'a TaskRecord, table: Option<&CalibrationTable>) -> Cow<'a, TaskRecord> {
    if record.head.calibration.as_ref() == table {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    record.head.calibration = table.cloned();
    Cow::Owned(record)
}

/// The summary with the head on record: class counts there follow classes that were dropped. The calibration, which may be
/// measured later, is in the row of the task alone.
fn with_head<'a>(task: &'a TaskSummary, record: &TaskRecord) -> Cow<'a, TaskSummary> {
    if task.head == record.head && record.head.calibration.is_none() {
        return Cow::Borrowed(task);
    }
    let head = TaskHead { calibration: None, ..record.head.clone() };
    Cow::Owned(TaskSummary { head, ..task.clone() })
}

/// Writes rows of `task`.
pub(crate) struct InsertTask<'a>(Statement<'a>);

impl<'a> InsertTask<'a> {
    pub(crate) fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        let sql = "INSERT INTO task (place, name, samples, rows, rank, weight, least, exactness, outcome, bytes, counts, content, \
                   calibration, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        connection.prepare(sql).map(Self)
    }

    /// Writes the row of a task and the checksum of its summary.
    pub(crate) fn run(
        &mut self,
        place: usize,
        record: &TaskRecord,
        crc: Option<i64>,
    ) -> rusqlite::Result<()> {
        let row = TaskRow::of(record);
        self.0.execute(params![
            place.cast_signed() as i64,
            row.name,
            row.samples,
            row.rows,
            row.rank,
            row.weight,
            row.least,
            row.exactness,
            row.outcome,
            row.bytes,
            row.counts,
            row.content,
            row.calibration,
            crc,
        ])?;
        Ok(())
    }
}

/// Writes the rows of `model` that have changed, except the seal.
fn write_values(
    connection: &Connection,
    model: &Model,
    generation: i64,
    known_pool: Option<&KnownPool>,
) -> rusqlite::Result<()> {
    let learner = &model.learner;
    let text = |value: Value| value.to_string().into_bytes();
    let schema = serde_json::to_vec(&model.schema).expect("a schema is plain text");
    put(connection, "generation", generation.to_string().as_bytes())?;
    put(connection, "program", concat!("pmfcl ", env!("CARGO_PKG_VERSION")).as_bytes())?;
    put(connection, "schema", &schema)?;
    let settings = settings::write(learner.problem(), learner.settings());
    put(connection, "settings", &text(settings))?;
    let basis = learner.design().map(|design| layout::to_bytes(&design.map().frozen()));
    put_or_remove(connection, "basis", basis)?;
    let classes = learner.outputs().classes().map(|classes| text(json!(classes.by_place())));
    put_or_remove(connection, "classes", classes)?;
    if KnownPool::of(learner).as_ref() != known_pool || known_pool.is_none() {
        put_or_remove(connection, "pool", learner.kept_pool().map(pool::to_bytes))?;
    }
    let theta = solution(learner).map(|s| layout::to_bytes(s.theta.cells()));
    put_or_remove(connection, "theta", theta)?;
    let solution = solution(learner).map(|solution| {
        text(json!({
            "width": solution.theta.width(),
            "targets": solution.theta.targets(),
            // Found from the sums of the pool when it is asked for: it takes a decomposition.
            "rank": match learner.kept_pool() {
                Some(pool) if solution.rank.waits_for(&pool.quadratic) => Value::Null,
                _ => json!(solution.rank()),
            },
            "unique": solution.outcome == Outcome::Unique,
            "ridge": match solution.penalty.own_ridges() {
                Some(own) => json!(own),
                None => json!(solution.penalty.ridge()),
            },
            "standardize": solution.penalty.standardize(),
            "generation": generation,
            "present": learner.present_columns().unwrap_or_default(),
        }))
    });
    put_or_remove(connection, "solution", solution)
}

/// The solution, where it has been made.
fn solution(learner: &Learner) -> Option<&pmfcl::Solution> {
    if learner.is_solved() { learner.solution().ok() } else { None }
}

fn put_or_remove(
    connection: &Connection,
    key: &str,
    value: Option<Vec<u8>>,
) -> rusqlite::Result<()> {
    match value {
        Some(value) => put(connection, key, &value),
        None => connection.execute("DELETE FROM model WHERE key = ?1", [key]).map(|_| ()),
    }
}

fn put(connection: &Connection, key: &str, value: &[u8]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO model (key, value) VALUES (?1, ?2) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
    connection.execute(sql, params![key, value]).map(|_| ())
}
