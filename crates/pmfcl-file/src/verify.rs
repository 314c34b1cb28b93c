//! Checks every byte that has a meaning, and every invariant.

use std::path::Path;

use pmfcl::classify::Shrinkage;
use pmfcl::solve::{Model as Solution, residual_in_rounding};
use pmfcl::{ClassLoss, Classifier, Learner, Summary, Theta};

use crate::error::FileError;
use crate::model::{Learned, Model};
use crate::store::{Access, ModelFile, Result};

/// Losses and discriminants that agree to this share are the same, computed in another order.
const SAME: f64 = 1e-7;

/// An intercept below this stands for a class without rows.
const NEVER: f64 = -1e299;

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
    pooled_again(path, model)?;
    solved(path, model)
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

/// Adds up the summaries and compares the sum with the pool on record, at the origin and at the solution.
///
/// Each of the `T` sums rounds by `c·ε` of what it adds, each factorisation by `c·m·ε`.
fn pooled_again(path: &Path, model: &Model) -> Result<()> {
    let learner = model.learner();
    let (false, Ok(solution)) = (learner.is_folded(), learner.model()) else { return Ok(()) };
    let kept = learner.pooled()?;
    let mut again = learner.clone();
    again.prefer(learner.settings().prefer.clone())?;
    let pooled = again.pooled()?;
    let rounds = (learner.records().len() + kept.width()) as f64;
    let allowed = 64.0 * rounds * f64::EPSILON;
    let zero = Theta::zeros(kept.width(), kept.targets());
    let norms: Vec<f64> = kept.column_squares().iter().map(|s| (s / kept.n()).sqrt()).collect();
    let size = |theta: &Theta| {
        let terms = |k: usize| -> f64 {
            theta.column(k).iter().zip(&norms).map(|(t, norm)| (t * norm).abs()).sum()
        };
        (0..theta.targets()).map(|k| terms(k).powi(2)).sum::<f64>()
    };
    for theta in [&zero, &solution.theta] {
        // Classes without rows have an intercept that stands for no probability: no loss to compare.
        let (Ok(a), Ok(b)) = (kept.loss(theta), pooled.loss(theta)) else { continue };
        if (a - b).abs() > allowed * (kept.loss(&zero)? + size(theta)) {
            return Err(damaged(path, "the pool is not the sum of the summaries".to_owned()));
        }
    }
    Ok(())
}

/// Whether the solution on record is the one of the pool on record, by the ridge on record.
///
/// How the ridge was chosen is not asked: a later version may choose otherwise, and the file is as sound as before.
fn solved(path: &Path, model: &Model) -> Result<()> {
    let learner = model.learner();
    let Ok(solution) = learner.model() else { return Ok(()) };
    let follows = match &model.learned {
        Learned::Classification(classifier) => match classifier.settings().loss {
            ClassLoss::Squared => minimises(learner, solution)?,
            ClassLoss::Gaussian => discriminates(classifier, &solution.theta)?,
            ClassLoss::Logistic => {
                let mut again = classifier.clone();
                let settings = classifier.settings();
                again.set_ridge(settings.ridge, settings.standardize)?;
                apart(&learner.pooled()?, &solution.theta, &again.learner().model()?.theta) <= SAME
            }
        },
        Learned::Regression(_) => minimises(learner, solution)?,
    };
    if follows {
        return Ok(());
    }
    Err(damaged(path, "the solution is not the one the memory gives".to_owned()))
}

/// Whether the gradient of the penalised loss is 0 to rounding.
fn minimises(learner: &Learner, solution: &Solution) -> Result<bool> {
    let origin = learner.design().and_then(|d| d.map().origin());
    let intercept = learner.settings().intercept;
    let (pooled, theta) = (learner.pooled()?, &solution.theta);
    let found = residual_in_rounding(&pooled, intercept, solution.penalty, origin, theta)?;
    Ok(found <= 1.0)
}

/// Whether these are the discriminants of the memory under the shrinkage the settings ask for or, where it was chosen by
/// another rule, under any.
fn discriminates(classifier: &Classifier, theta: &Theta) -> Result<bool> {
    let pooled = classifier.learner().pooled()?;
    let gap = |shrinkage: Shrinkage| -> Result<f64> {
        let mut again = classifier.clone();
        again.set_shrinkage(shrinkage)?;
        Ok(apart(&pooled, theta, &again.learner().model()?.theta))
    };
    let asked = classifier.settings().shrinkage;
    if gap(asked)? <= SAME || asked != Shrinkage::Auto {
        return Ok(gap(asked)? <= SAME);
    }
    let at = |x: f64| gap(Shrinkage::Diagonal(10f64.powf(x).min(1.0)));
    let mut best = (f64::INFINITY, 0.0);
    for step in 0..=64 {
        let x = -8.0 + f64::from(step) / 8.0;
        let found = at(x)?;
        if found < best.0 {
            best = (found, x);
        }
    }
    let (mut low, mut high) = (best.1 - 0.125, best.1 + 0.125);
    for _ in 0..60 {
        let third = (high - low) / 3.0;
        if at(low + third)? < at(high - third)? { high -= third } else { low += third }
    }
    Ok(at(f64::midpoint(low, high))? <= SAME)
}

/// The largest difference of fitted values under two sets of parameters, as a share of the larger ones.
fn apart(pooled: &Summary, a: &Theta, b: &Theta) -> f64 {
    let (m, p) = (a.width(), a.targets());
    if (m, p) != (b.width(), b.targets()) {
        return f64::INFINITY;
    }
    let norms: Vec<f64> = pooled.column_squares().iter().map(|s| (s / pooled.n()).sqrt()).collect();
    let (mut gap, mut size) = (0.0_f64, f64::MIN_POSITIVE);
    for k in 0..p {
        let (a, b) = (a.column(k), b.column(k));
        // A class without rows has an intercept that stands for no probability, in both or in neither.
        if (a[0] < NEVER) != (b[0] < NEVER) {
            return f64::INFINITY;
        }
        for j in (0..m).filter(|&j| j > 0 || a[0] >= NEVER) {
            gap = gap.max((a[j] - b[j]).abs() * norms[j]);
            size = size.max(a[j].abs().max(b[j].abs()) * norms[j]);
        }
    }
    gap / size
}
