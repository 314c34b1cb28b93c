//! A model as rows of the tables.

use std::path::Path;

use pmfcl::Outcome;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::error::FileError;
use crate::model::Model;
use crate::seal::{TaskSeal, seal};
use crate::store::{Change, Result};
use crate::version::Mark;
use crate::{digest, layout, settings};

/// What a commit has written.
pub(crate) struct Written {
    pub(crate) mark: Mark,
    pub(crate) sealed: TaskSeal,
    /// So many tasks are as they were before.
    pub(crate) same: usize,
}

/// Writes what a change asks for and commits the transaction that is open.
pub(crate) fn write_all(
    path: &Path,
    connection: &Connection,
    model: &Model,
    change: Change,
    generation: i64,
    sealed: &TaskSeal,
) -> Result<Written> {
    let done = write_rows(connection, model, change, generation, sealed)
        .map_err(|e| FileError::sqlite(path, "write", &e))
        .and_then(|written| {
            connection.execute_batch("COMMIT").map_err(|e| FileError::committing(path, &e))?;
            Ok(written)
        });
    if done.is_err() {
        // The rollback may have happened already; either way nothing of this is in the file.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

fn write_rows(
    connection: &Connection,
    model: &Model,
    change: Change,
    generation: i64,
    sealed: &TaskSeal,
) -> rusqlite::Result<Written> {
    let learner = model.learner();
    let records = learner.records();
    let at_hand = learner.at_hand();
    let first = match change {
        Change::All => {
            connection.execute_batch("DELETE FROM model; DELETE FROM task; DELETE FROM summary")?;
            0
        }
        // Those that the file lacks: several where an earlier commit failed.
        Change::Task => sealed.count(),
        Change::Solution => records.len(),
    };
    // Compact memory turns its summaries into one when they have become many.
    let mut touched = change == Change::All;
    if learner.is_folded() {
        connection.execute("DELETE FROM summary", [])?;
        let folded = "UPDATE task SET crc = NULL, moments = NULL \
                      WHERE crc IS NOT NULL OR moments IS NOT NULL";
        touched |= connection.execute(folded, [])? > 0;
    }
    let mut task = connection.prepare(
        "INSERT INTO task (place, name, samples, rank, weight, min_loss, bytes, note, moments, losses, crc) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut summary = connection.prepare("INSERT INTO summary (place, bytes) VALUES (?1, ?2)")?;
    for (place, record) in records.iter().enumerate().skip(first) {
        // The summaries at hand are those of the last tasks.
        let own = (place + at_hand.len()).checked_sub(records.len()).and_then(|i| at_hand.get(i));
        let mut check = None;
        if let Some(own) = own {
            let (bytes, number) = layout::sealed(own);
            summary.execute(params![place.cast_signed(), bytes])?;
            check = Some(number);
        }
        let note = model.classifier().and_then(|c| c.note(&record.name).ok());
        let words = note
            .as_ref()
            .map(|n| json!({ "counts": n.counts, "separable": n.separable }).to_string());
        let numbers = |list: Option<&Vec<f64>>| list.map(|v| layout::to_bytes(v));
        task.execute(params![
            place.cast_signed(),
            record.name,
            record.samples,
            record.rank.cast_signed(),
            record.weight,
            record.min_loss,
            record.bytes.cast_signed(),
            words,
            numbers(note.as_ref().and_then(|n| n.moments.as_ref())),
            numbers(note.as_ref().and_then(|n| n.losses.as_ref())),
            check,
        ])?;
    }
    let mut put =
        connection.prepare("INSERT OR REPLACE INTO model (key, value) VALUES (?1, ?2)")?;
    for (key, value) in values(model, generation) {
        put.execute(params![key, value])?;
    }
    // Lines of earlier tasks are as they were, unless all was written anew.
    let sealed = if touched { TaskSeal::default() } else { sealed.clone() };
    let sealed = sealed.extended(connection)?;
    let mark = Mark { generation, seal: seal(connection, &sealed)? };
    put.execute(params!["seal", mark.seal.to_string().into_bytes()])?;
    // It no longer holds; [`sum_up`] makes a new one when this is safe.
    connection.execute("UPDATE digest SET value = ?1", [&digest::NONE[..]])?;
    Ok(Written { mark, sealed, same: first })
}

/// The rows of the table `model`, but for the seal.
fn values(model: &Model, generation: i64) -> Vec<(&'static str, Vec<u8>)> {
    let learner = model.learner();
    let text = |value: Value| value.to_string().into_bytes();
    let mut rows = vec![
        ("generation", generation.to_string().into_bytes()),
        ("program", concat!("pmfcl ", env!("CARGO_PKG_VERSION")).into()),
        ("schema", serde_json::to_vec(&model.schema).expect("a schema is plain text")),
        ("settings", text(settings::write(model))),
    ];
    if let Some(design) = learner.design() {
        rows.push(("basis", layout::to_bytes(&design.map().frozen())));
    }
    if let Some(classifier) = model.classifier() {
        rows.push(("classes", text(json!(classifier.classes()))));
        if let Some(moments) = classifier.kept_moments() {
            rows.push(("moments", layout::to_bytes(&moments)));
        }
    }
    if let Some((pool, floor)) = learner.kept_pool() {
        rows.push(("pool", pool.to_bytes()));
        rows.push(("floor", layout::to_bytes(&[floor])));
    }
    if let Ok(solution) = learner.model() {
        rows.push(("theta", layout::to_bytes(solution.theta.cells())));
        rows.push((
            "solution",
            text(json!({
                "width": solution.theta.width(),
                "targets": solution.theta.targets(),
                "rank": solution.rank,
                "unique": solution.outcome == Outcome::Unique,
                "ridge": solution.penalty.ridge(),
                "standardize": solution.penalty.standardize(),
            })),
        ));
    }
    rows
}
