//! From a model to the rows of the tables.

use std::borrow::Cow;
use std::path::Path;

use pmfcl::learner::TaskRecord;
use pmfcl::problem::{Encoding, TaskSummary};
use pmfcl::{Learner, Outcome, Preference};
use rusqlite::{Connection, Statement, params};
use serde_json::{Value, json};

use crate::audit::{self, AuditEntry};
use crate::error::FileError;
use crate::layout::{self, Layout};
use crate::model::Model;
use crate::read::TaskRow;
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
    /// Which pool it holds.
    pub(crate) pool: Option<KnownPool>,
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
        Self { layout, sealed: SealedRows::none(layout), edits: u64::MAX, pool: None }
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
            connection.execute_batch("COMMIT").map_err(|e| FileError::committing(path, &e))?;
            Ok(written)
        },
    );
    if done.is_err() {
        // The rollback may have happened already; either way nothing of this is in the file.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
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
        write_tasks(connection, &model.learner, first)?;
        write_values(connection, model, generation, known_pool)?;
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
    let state = FileState { layout, sealed, edits, pool: KnownPool::of(&model.learner) };
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
        let mut crc = None;
        if place >= folded
            && let Some(task) = learner.task_summary_at(place)
        {
            let bytes = with_head(task, record).to_bytes(Encoding::Plain);
            summary.execute(params![place.cast_signed() as i64, bytes])?;
            crc = Some(layout::checksum(Layout::Second, &bytes));
        }
        insert.run(place, record, crc)?;
    }
    Ok(())
}

/// The summary with the head on record: class counts there follow classes that were dropped.
fn with_head<'a>(task: &'a TaskSummary, record: &TaskRecord) -> Cow<'a, TaskSummary> {
    if task.head == record.head {
        return Cow::Borrowed(task);
    }
    Cow::Owned(TaskSummary { head: record.head.clone(), ..task.clone() })
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
            "rank": solution.rank,
            "unique": solution.outcome == Outcome::Unique,
            "ridge": solution.penalty.ridge(),
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
