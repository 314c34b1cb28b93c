//! Checks every byte that has a meaning, and every invariant.

use std::path::Path;

use pmfcl::{ClassLoss, Summary, Theta};

use crate::error::FileError;
use crate::model::{Learned, Model};
use crate::store::{Access, ModelFile, Result};

/// Losses that agree to this share are the same loss, added up in another order.
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
/// Header, tables, pages and indexes (SQLite's own check), the check numbers of all values and summaries, that
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
        "check number of the whole file".to_owned()
    } else {
        "the whole file has no check number (it is large, or the last writer was interrupted)"
            .to_owned()
    });
    checks.push("check numbers of settings, names and solution".to_owned());
    file.load()?;
    let tasks = file.model().learner().records().len();
    let kept = if file.model().learner().is_folded() { 0 } else { tasks };
    let found = file.store_mut().summaries()?;
    if found != kept {
        return Err(damaged(path, format!("it holds {found} summaries for {kept} tasks")));
    }
    if kept > 0 {
        checks.push(format!("check numbers and form of {kept} summaries"));
    }
    follows(path, file.model())?;
    checks.push("records agree with the summaries".to_owned());
    checks.push("pool and solution follow from the memory".to_owned());
    let bytes = std::fs::metadata(path).map_or(0, |m| m.len());
    Ok(Verified { tasks, bytes, checks })
}

/// Whether a task's least loss is its summary's own, as it is unless summaries are bounds.
fn exact(model: &Model) -> bool {
    model.classifier().is_none_or(|c| c.settings().loss != ClassLoss::Logistic)
}

/// Whether records, pool and solution are those of the memory.
pub(crate) fn follows(path: &Path, model: &Model) -> Result<()> {
    least_losses(path, model)?;
    solved_again(path, model)
}

fn damaged(path: &Path, what: String) -> FileError {
    FileError::Damaged(path.to_path_buf(), what)
}

fn least_losses(path: &Path, model: &Model) -> Result<()> {
    let learner = model.learner();
    if !exact(model) {
        return Ok(());
    }
    for (summary, record) in learner.at_hand().iter().zip(learner.records()) {
        let zero = Theta::zeros(summary.width(), summary.targets());
        let size = summary.loss(&zero)?.abs();
        if (summary.min_loss() - record.min_loss).abs() > SAME * size {
            let what = format!("the least loss of `{}` is not its summary's", record.name);
            return Err(damaged(path, what));
        }
    }
    Ok(())
}

/// Pools and solves anew, and compares the losses of both solutions under the new pool.
fn solved_again(path: &Path, model: &Model) -> Result<()> {
    let mut model = model.clone();
    let old = match model.learner().model() {
        Ok(solution) => solution.theta.clone(),
        Err(_) => return Ok(()),
    };
    let kept = model.learner().pooled()?;
    let folded = model.learner().is_folded();
    let prefer = model.learner().settings().prefer.clone();
    match &mut model.learned {
        Learned::Regression(learner) => {
            if !folded {
                learner.prefer(prefer)?;
            }
            let (ridge, standardize) = (learner.settings().ridge, learner.settings().standardize);
            learner.set_ridge(ridge, standardize)?;
        }
        Learned::Classification(classifier) => {
            if !folded {
                classifier.prefer(prefer)?;
            }
            let s = classifier.settings().clone();
            if s.loss == ClassLoss::Gaussian {
                classifier.set_shrinkage(s.shrinkage)?;
            } else {
                classifier.set_ridge(s.ridge, s.standardize)?;
            }
        }
    }
    let pooled = model.learner().pooled()?;
    let new = &model.learner().model()?.theta;
    let zero = Theta::zeros(new.width(), new.targets());
    let scale = pooled.loss(&zero)?.abs();
    let near = |a: f64, b: f64| (a - b).abs() <= SAME * (scale + a.abs().min(b.abs()));
    let same_pool = near(kept.loss(&zero)?, pooled.loss(&zero)?)
        && near(loss(&kept, new)?, loss(&pooled, new)?);
    if !same_pool {
        return Err(damaged(path, "the pool is not the sum of the summaries".to_owned()));
    }
    if !near(loss(&pooled, &old)?, loss(&pooled, new)?) {
        return Err(damaged(path, "the solution is not the one the memory gives".to_owned()));
    }
    Ok(())
}

fn loss(pool: &Summary, theta: &Theta) -> Result<f64, FileError> {
    Ok(pool.loss(theta)?)
}
