//! Checks every byte that has a meaning, and every invariant.

use std::path::Path;

use pmfcl::problem::{Exactness, LeastLoss, Pool};
use pmfcl::{Learner, Theta};

use crate::error::FileError;
use crate::model::Model;
use crate::model_file::ModelFile;
use crate::store::{Access, Result};

/// Losses and sums that agree to this share are the same, computed in another order.
const SAME: f64 = 1e-7;

/// A file that has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Tasks it has learned.
    pub tasks: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// What was checked, in words.
    pub checks: Vec<String>,
}

/// Checks a model file.
///
/// Header, tables, pages and indexes (SQLite's own check), the checksums of all values and summaries, that
/// every summary is one and the one on record, that the pool is the sum of the summaries, and that the
/// solution is the pool's.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(path: &Path) -> Result<Verified> {
    loop {
        let mut file = ModelFile::open(path, Access::Read)?;
        match checked(path, &mut file) {
            // Somebody wrote between two of the checks: they were of two models that do not fit together.
            Err(FileError::Damaged(..)) if file.store().changes()?.is_some() => {}
            found => return found,
        }
    }
}

fn checked(path: &Path, file: &mut ModelFile) -> Result<Verified> {
    let mut checks = vec!["header, version and tables".to_owned()];
    if let Some(first) = file.store_mut().integrity()?.first() {
        return Err(file.damaged(first.clone()));
    }
    checks.push("pages and indexes".to_owned());
    let whole = file.store_mut().digest()?;
    checks.push(if whole {
        "checksum of the whole file".to_owned()
    } else {
        "the whole file has no checksum (it is large, or the last writer was interrupted)"
            .to_owned()
    });
    checks.push("checksums of settings, names and solution".to_owned());
    if let Some(releases) = file.store().releases()? {
        checks.push(format!("checksums of a privacy ledger of {releases} releases"));
    }
    file.load()?;
    let learner = &file.model().learner;
    let (tasks, merged) = (learner.records().len(), merged(learner));
    let found = file.store().summaries()?;
    if found != tasks - merged {
        return Err(damaged(
            path,
            format!("it holds {found} summaries for {} tasks", tasks - merged),
        ));
    }
    if found > 0 {
        checks.push(format!("checksums and form of {found} summaries"));
    }
    follows(path, file.model())?;
    checks.push("records agree with the summaries".to_owned());
    checks.push("pool and solution follow from the memory".to_owned());
    let bytes = std::fs::metadata(path).map_or(0, |m| m.len());
    Ok(Verified { tasks, bytes, checks })
}

/// Tasks that compact memory has merged.
fn merged(learner: &Learner) -> usize {
    match learner.kept_pool() {
        Some(pool) if learner.is_folded() => pool.tasks as usize,
        _ => 0,
    }
}

/// Whether records, pool and solution are those of the memory.
pub(crate) fn follows(path: &Path, model: &Model) -> Result<()> {
    least_losses(path, &model.learner)?;
    pooled_again(path, &model.learner)?;
    solved(path, &model.learner)
}

fn damaged(path: &Path, what: String) -> FileError {
    FileError::Damaged(path.to_path_buf(), what)
}

/// The least loss of a task whose quadratic is its loss is that of the quadratic.
fn least_losses(path: &Path, learner: &Learner) -> Result<()> {
    for (at, record) in learner.records().iter().enumerate() {
        let (Some(task), Exactness::Exact) = (learner.task_summary_at(at), record.head.exactness)
        else {
            continue;
        };
        let LeastLoss::Exact(least) = record.head.least else { continue };
        let own = &task.quadratic;
        let size = own.loss(&Theta::zeros(own.width(), own.targets()))?.abs();
        if (own.min_loss() - least).abs() > SAME * size {
            let what = format!("the least loss of `{}` is not its summary's", record.name);
            return Err(damaged(path, what));
        }
    }
    Ok(())
}

/// Adds up the summaries and compares the sum with the pool on record, at the origin and at the solution.
///
/// Each of the `T` sums rounds by `c·ε` of what it adds, each factorisation by `c·m·ε`.
fn pooled_again(path: &Path, learner: &Learner) -> Result<()> {
    if learner.is_folded() || learner.records().is_empty() {
        return Ok(());
    }
    let (kept, solution) = (learner.pool()?, learner.solution()?);
    let mut again = learner.clone();
    again.prefer(learner.settings().prefer.clone())?;
    let made = again.pool()?;
    let sound = sums_agree(kept, made) && quadratics_agree(kept, made, &solution.theta, learner)?;
    if !sound {
        return Err(damaged(path, "the pool is not the sum of the summaries".to_owned()));
    }
    if learner.present_columns()? != again.present_columns()? {
        return Err(damaged(path, "the solution says other classes have rows".to_owned()));
    }
    Ok(())
}

fn sums_agree(kept: &Pool, made: &Pool) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
    kept.tasks == made.tasks && close(kept.samples, made.samples) && close(kept.spread, made.spread)
}

fn quadratics_agree(kept: &Pool, made: &Pool, theta: &Theta, learner: &Learner) -> Result<bool> {
    let (a, b) = (&kept.quadratic, &made.quadratic);
    let rounds = (learner.records().len() + a.width()) as f64;
    let allowed = 64.0 * rounds * f64::EPSILON;
    let zero = Theta::zeros(a.width(), a.targets());
    let norms: Vec<f64> = a.column_squares().iter().map(|s| (s / a.n()).sqrt()).collect();
    let size = |theta: &Theta| {
        let terms = |k: usize| -> f64 {
            theta.column(k).iter().zip(&norms).map(|(t, norm)| (t * norm).abs()).sum()
        };
        (0..theta.targets()).map(|k| terms(k).powi(2)).sum::<f64>()
    };
    for theta in [&zero, theta] {
        if (a.loss(theta)? - b.loss(theta)?).abs() > allowed * (a.loss(&zero)? + size(theta)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the solution on record is the one of the pool on record, by the ridge on record.
///
/// How the ridge was chosen is not asked: a later version may choose otherwise, and the file is as sound as before.
fn solved(path: &Path, learner: &Learner) -> Result<()> {
    if learner.records().is_empty() || learner.solution_follows()? {
        return Ok(());
    }
    Err(damaged(path, "the solution is not the one the memory gives".to_owned()))
}
