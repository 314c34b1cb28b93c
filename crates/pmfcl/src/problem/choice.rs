//! Which candidate of a portfolio predicts: decided from the pool alone, again whenever it changes.
//!
//! The columns of a candidate are columns of the design, so what it is judged by is part of the pooled summary
//! ([`crate::solve::candidates`]). Each is judged by the least score of generalised cross-validation over all ridges, degrees
//! of freedom counted as for the automatic ridge. A bound of a loss that is not quadratic is judged as if it were the loss, at
//! the anchors of its tasks: by the same score, or by Akaike's criterion where the loss is a likelihood.
//!
//! Neither order nor split decides: the score is a continuous function of the pooled sums. A candidate with more columns must be
//! better by more than rounding. The inputs alone, as they are, are left only where another candidate is better by more than
//! chance, its degrees of freedom counted 4/3 times as much: scores of few rows differ by chance, and what is lost where a line
//! would do is more than what is gained where it nearly does.

use super::{KnownTable, Pool, SolveInput, Solved, Tails, TaskContext, TaskShape, Waiting};
use crate::basis::{Candidate, Design};
use crate::error::Result;
use crate::solve::candidates::{Judge, Judged, Scores};
use crate::summary::Summary;
use crate::theta::Theta;

/// A wider candidate is taken when its score is lower by more than this share of the targets' variance, or than this loss.
const TIE: f64 = 1e-9;

/// The inputs alone are left where a score is lower than theirs by more than this share of it, divided by √N, both with degrees
/// of freedom counted with caution; more where targets have heavy tails ([`Tails::chance`]).
const CHANCE: f64 = 1.0;

/// A bound whose score is not above this has a constant that says nothing about the fit.
const UNJUDGED: f64 = 1e-12;

/// A candidate and its score.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli, python, report
pub struct CandidateScore {
    /// The groups of columns, such as `bounded+spline`.
    pub name: String,
    /// Columns without the intercept.
    pub columns: usize,
    /// Generalised cross-validation: the share of the targets' variance that is expected to stay unexplained in new rows. For
    /// `poisson` and `logistic` the loss that is expected of them.
    pub score: f64,
    /// Whether it predicts.
    pub chosen: bool,
}

/// What a portfolio looks like once a candidate has been chosen.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) scores: Vec<CandidateScore>,
    pub(crate) candidate: Candidate,
    /// The design with all other columns 0.
    pub(crate) design: Design,
    /// The pool with all other columns 0.
    pub(crate) pool: Pool,
    /// Columns of the design that are not 0.
    columns: Vec<usize>,
}

impl Chosen {
    /// Chooses from the candidates of a design; `None` where there is nothing to choose.
    ///
    /// Cost: `O(k³)` for each candidate of `k` columns, shared between threads.
    ///
    /// # Errors
    /// When numbers leave the range of double precision.
    pub(crate) fn of(
        context: &TaskContext<'_>,
        pool: &Pool,
        effective: f64,
    ) -> Result<Option<Self>> {
        let design = context.design;
        let judged = context.problem.method().judged();
        let mut candidates = design.map().candidates();
        // A value that is the exponential of a line leaves every range: there the inputs are bounded too.
        if judged == Judged::Likelihood && !context.problem.predicts_classes() {
            candidates.retain(|candidate| !candidate.is_linear());
        }
        if candidates.len() < 2 {
            return Ok(None);
        }
        let judge = Judge::new(&pool.quadratic, design.intercept(), effective, judged);
        let score = |candidate: &Candidate| {
            judge.least_scores(&design.columns_of(candidate), !candidate.is_linear())
        };
        let scores = each(&candidates, context.settings.threads, score);
        // Where scores of bounds say nothing, all columns are used: the ridge shrinks what is not needed.
        let said = |score: &Scores| score.least.is_finite() && score.least > UNJUDGED;
        let unjudged = judged == Judged::Bound && !scores.iter().all(said);
        let mut chosen = if unjudged { scores.len() - 1 } else { 0 };
        for (i, score) in scores.iter().enumerate() {
            if !unjudged && score.least < scores[chosen].least - TIE {
                chosen = i;
            }
        }
        let alone = candidates[0].is_linear() && judged != Judged::Likelihood && !unjudged;
        let chance = CHANCE * pool.tails.as_ref().map_or(1.0, Tails::chance);
        let enough = scores[0].wary * (1.0 - chance / effective.max(1.0).sqrt());
        if alone && scores[chosen].wary > enough {
            chosen = 0;
        }
        let table = candidates.iter().zip(&scores).enumerate().map(|(i, (candidate, score))| {
            let (name, columns) = (candidate.name.clone(), candidate.columns.len());
            CandidateScore { name, columns, score: score.least, chosen: i == chosen }
        });
        let scores = table.collect();
        let candidate = candidates.swap_remove(chosen);
        let columns = design.columns_of(&candidate);
        let mask = |summary: &Summary| summary.mask_columns(&columns);
        let pool = Pool {
            quadratic: mask(&pool.quadratic)?,
            scatters: pool.scatters.iter().map(mask).collect::<Result<_>>()?,
            ..pool.clone()
        };
        let design = design.masked(&candidate);
        Ok(Some(Self { scores, candidate, design, pool, columns }))
    }

    /// A summary with all columns 0 that were not chosen.
    pub(crate) fn mask(&self, summary: &Summary) -> Result<Summary> {
        summary.mask_columns(&self.columns)
    }

    /// Sets the coefficients of columns that were not chosen to 0, which they are except for rounding. A model from a file has no
    /// choice with it, and sees by its coefficients which columns it needs.
    pub(crate) fn clear_others(&self, theta: &mut Theta) {
        for column in theta.columns_mut() {
            let mut chosen = self.columns.iter().peekable();
            for (j, coefficient) in column.iter_mut().enumerate() {
                if chosen.next_if(|next| **next == j).is_none() {
                    *coefficient = 0.0;
                }
            }
        }
    }
}

/// The solution of a pool, a candidate chosen first where there are several.
///
/// # Errors
/// As the choice and the solution.
pub(crate) fn solve_chosen(input: SolveInput<'_>) -> Result<(Solved, Option<Chosen>)> {
    let method = input.context.problem.method();
    let Some(chosen) = Chosen::of(&input.context, input.pool, input.effective)? else {
        return Ok((method.solve(&input)?, None));
    };
    let mut solved = method.solve(&chosen.view(input)?)?;
    chosen.clear_others(&mut solved.solution.theta);
    Ok((solved, Some(chosen)))
}

impl Chosen {
    /// What the chosen candidate is solved from.
    pub(crate) fn view<'a>(&'a self, input: SolveInput<'a>) -> Result<SolveInput<'a>> {
        let masked = |(summary, share): (std::borrow::Cow<'_, Summary>, f64)| {
            Ok((std::borrow::Cow::Owned(self.mask(&summary)?), share))
        };
        let tasks = input.tasks.map(|tasks| tasks.into_iter().map(masked).collect::<Result<_>>());
        let shape = |shape: Option<TaskShape<'a>>| -> Result<Option<TaskShape<'a>>> {
            let Some(shape) = shape else { return Ok(None) };
            let summary = std::borrow::Cow::Owned(self.mask(&shape.summary)?);
            Ok(Some(TaskShape { summary, ..shape }))
        };
        let known = |known: KnownTable<'a>| Ok(KnownTable { shape: shape(known.shape)?, ..known });
        let waiting =
            |waiting: Waiting<'a>| Ok(Waiting { shape: shape(waiting.shape)?, ..waiting });
        Ok(SolveInput {
            context: TaskContext { design: &self.design, ..input.context },
            pool: &self.pool,
            tasks: tasks.transpose()?,
            tables: input.tables.into_iter().map(known).collect::<Result<_>>()?,
            waiting: input.waiting.into_iter().map(waiting).collect::<Result<_>>()?,
            ..input
        })
    }
}

/// The scores of each candidate, in order; threads share the candidates.
fn each(
    candidates: &[Candidate],
    threads: usize,
    score: impl Fn(&Candidate) -> Scores + Sync,
) -> Vec<Scores> {
    if threads < 2 {
        return candidates.iter().map(score).collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut found: Vec<(usize, Scores)> = std::thread::scope(|scope| {
        let run = || {
            let mut own = Vec::new();
            loop {
                // The widest first: they take longest.
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(at) = candidates.len().checked_sub(i + 1) else { return own };
                own.push((at, score(&candidates[at])));
            }
        };
        let workers: Vec<_> =
            (0..threads.min(candidates.len())).map(|_| scope.spawn(run)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a candidate panicked")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, score)| score).collect()
}
