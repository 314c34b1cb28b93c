//! The learner: tasks in, one after another; after each the model joint training would have given.
//!
//! Paper: Algorithm 1 (`alg:general_mfcl`); for squared loss Algorithm 3 (`alg:linreg-cl`), for losses
//! with a quadratic bound Algorithm 2 (`alg:mfcl_qub`).
//!
//! Every change is computed beside the old state and put in its place only when all of it has worked:
//! after an error the learner is what it was.

mod memory;
mod preference;

pub use memory::MemoryKind;
pub use preference::Preference;

use std::collections::HashMap;
use std::sync::Arc;

use crate::basis::Basis;
use crate::error::{Error, Result, listing};
use crate::loss::{Loss, Squared, TaskRows, minimize};
use crate::rows::Rows;
use crate::solve::{Model, Penalty, ridge, solve, weights};
use crate::summary::{Accumulator, Design, Summarizer, Summary, dot};
use crate::theta::Theta;
use memory::{Memory, Pool, worth_holding};
use preference::Weighed;

/// Rows from which a basis that needs them takes its ranges and centres.
const ROWS_TO_FIX: usize = 10_000;

/// How the ridge is set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Ridge {
    /// Chosen after every task by generalised cross-validation, on standardized features (scale-free).
    #[default]
    Auto,
    /// Chosen after every task as the one that predicts left-out tasks best; needs the ledger. GCV while
    /// there is only one task.
    LeaveOneTaskOut,
    /// `(λ/2)‖θ‖²` on the mean loss, intercept free. 0 is least squares of minimum norm.
    Fixed(f64),
}

/// What a learner is set up with; cannot change afterwards, but for preference and ridge.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The basis inputs are mapped through.
    pub basis: Basis,
    /// Whether there is a free intercept.
    pub intercept: bool,
    /// The ridge.
    pub ridge: Ridge,
    /// Whether the ridge is multiplied by feature variances. `Ridge::Auto` always does.
    pub standardize: bool,
    /// What is remembered.
    pub memory: MemoryKind,
    /// How rows are accumulated.
    pub accumulator: Accumulator,
    /// How tasks are weighed.
    pub prefer: Preference,
    /// Threads to use; the result does not depend on it.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            basis: Basis::default(),
            intercept: true,
            ridge: Ridge::default(),
            standardize: false,
            memory: MemoryKind::default(),
            accumulator: Accumulator::default(),
            prefer: Preference::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What is known of a task beside its summary: a line of the register, a few dozen bytes.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    name: String,
    samples: f64,
    rank: usize,
    weight: f64,
    min_loss: f64,
    bytes: usize,
}

/// A task as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Samples, or the sum of their weights.
    pub samples: f64,
    /// Rank of its design.
    pub rank: usize,
    /// Its preference `α_t`; all sum to one.
    pub weight: f64,
    /// Bytes of its summary.
    pub bytes: usize,
    /// The least loss any model has on it.
    pub min_loss: f64,
    /// The loss of the current model on it. `None` where only a bound is known, or in folded memory.
    pub loss: Option<f64>,
    /// `loss − min_loss`: what the current model has forgotten of it. `None` as above.
    pub forgetting: Option<f64>,
    /// An upper bound on the forgetting; equal to it for squared loss. `None` in folded memory.
    pub bound: Option<f64>,
    /// Whether the bound is proved.
    pub guaranteed: bool,
    /// Mean squared error of each target.
    pub mse: Option<Vec<f64>>,
    /// R² of each target about its own mean.
    pub r2: Option<Vec<f64>>,
}

/// How a pooled summary becomes a model, where that is not the penalised least-squares solution.
///
/// The classifier brings its own, so that memory, preferences, merging and removal need not know it.
pub(crate) trait Head: std::fmt::Debug + Send + Sync {
    /// The model of a pooled summary that stands for `samples` rows, which the preference makes `effective`.
    fn solve(&self, pooled: &Summary, samples: f64, effective: f64) -> Result<Model>;

    /// Whether a summary's own least loss is the task's, as it is unless summaries are bounds.
    fn exact(&self) -> bool {
        true
    }
}

/// A model on the way, and the preference it was solved under.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The model after the task.
    pub model: Model,
    /// `α` over the tasks so far.
    pub weights: Vec<f64>,
}

/// A continual learner. See the crate's front page for an example.
#[derive(Debug, Clone)]
pub struct Learner {
    settings: Settings,
    loss: Arc<dyn Loss>,
    head: Option<Arc<dyn Head>>,
    design: Option<Design>,
    targets: usize,
    register: Vec<Entry>,
    index: HashMap<String, usize>,
    memory: Option<Memory>,
    model: Option<Model>,
}

impl Learner {
    /// A learner for squared loss.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn new(settings: Settings) -> Result<Self> {
        Self::with_loss(settings, Squared)
    }

    /// A learner for any loss with a quadratic bound.
    ///
    /// # Errors
    /// When a setting is out of range or does not go with the loss.
    pub fn with_loss(settings: Settings, loss: impl Loss + 'static) -> Result<Self> {
        settings.prefer.check()?;
        if matches!(settings.prefer, Preference::Chosen(_)) {
            return Err(Error::Preference {
                reason:
                    "weights are chosen task by task in hindsight; start with samples, equal or \
                         decay"
                        .to_owned(),
            });
        }
        check_ridge(&settings, &loss)?;
        Ok(Self {
            settings,
            loss: Arc::new(loss),
            head: None,
            design: None,
            targets: 0,
            register: Vec::new(),
            index: HashMap::new(),
            memory: None,
            model: None,
        })
    }

    /// The way from pool to model, where it is not the learner's own.
    pub(crate) fn head(&self) -> Option<Arc<dyn Head>> {
        self.head.clone()
    }

    /// Another way from pool to model, from the next solution on.
    pub(crate) fn set_head(&mut self, head: Option<Arc<dyn Head>>) {
        self.head = head;
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The design, once the first task has fixed it.
    pub fn design(&self) -> Option<&Design> {
        self.design.as_ref()
    }

    /// Names of the tasks, in the order they were learned.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.register.iter().map(|e| e.name.as_str())
    }

    /// Samples seen, over all tasks.
    pub fn samples(&self) -> f64 {
        self.register.iter().map(|e| e.samples).sum()
    }

    /// Samples the present preference makes of them, `1 / Σ α_t²/n_t` (Kish): all where every sample counts
    /// the same, fewer where some count for more. Noise and freedom are judged by these.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn effective_samples(&self) -> Result<f64> {
        let shares = self.shares()?;
        let sum: f64 = shares.iter().sum();
        let spread: f64 =
            shares.iter().zip(&self.register).map(|(u, e)| (u / sum).powi(2) / e.samples).sum();
        if spread > 0.0 { Ok(1.0 / spread) } else { Err(Error::NotLearned) }
    }

    /// Bytes of the memory: what would have to be kept to go on learning.
    pub fn state_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::nbytes)
    }

    /// The current model.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn model(&self) -> Result<&Model> {
        self.model.as_ref().ok_or(Error::NotLearned)
    }

    /// The summaries of the tasks, in order; `None` once compact memory has folded them.
    pub fn summaries(&self) -> Option<&[Summary]> {
        self.memory.as_ref().map_or(Some(&[]), Memory::summaries)
    }

    /// The summary of one task.
    ///
    /// # Errors
    /// When there is no such task, or compact memory has folded it.
    pub fn summary(&self, name: &str) -> Result<&Summary> {
        let at = self.position(name)?;
        self.summaries().map(|s| &s[at]).ok_or_else(|| Error::Unsupported {
            operation: "looking at a single task",
            reason: "compact memory has merged it with the others; use the ledger".to_owned(),
        })
    }

    /// Learns a task.
    ///
    /// # Errors
    /// On bad input (see [`Error`]); the learner is then what it was.
    pub fn learn(&mut self, name: &str, x: Rows<'_>, y: Rows<'_>) -> Result<&Model> {
        self.learn_weighted(name, x, y, None, 1.0)
    }

    /// Learns a task with sample weights and a weight for the task as a whole.
    ///
    /// # Errors
    /// As [`Learner::learn`].
    pub fn learn_weighted(
        &mut self,
        name: &str,
        x: Rows<'_>,
        y: Rows<'_>,
        sample_weights: Option<&[f64]>,
        weight: f64,
    ) -> Result<&Model> {
        self.admit(name, weight)?;
        let design = self.design_for(&x)?;
        if self.loss.exact() {
            let mut summarizer = self.summarizer(&design, y.width())?;
            summarizer.add(x, y, sample_weights)?;
            let summary = summarizer.finish()?;
            let least = summary.min_loss();
            return self.absorb(name, design, summary, least, weight);
        }
        if x.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        let task = TaskRows { x, y, weights: sample_weights };
        let own =
            minimize(&*self.loss, &design, task, self.fixed_penalty()?, self.settings.threads)?;
        // The task's least loss, less what a penalised and inexact minimizer may have missed: the bound's
        // own minimum is a lower bound on nothing, so the true value at the minimizer, reduced by the
        // penalty it paid, is what the forgetting bound is measured from.
        let least = (own.bound.value - self.penalty_at(&own.model.theta)).max(0.0);
        self.absorb(name, design, own.bound.summary, least, weight)
    }

    /// Starts summarizing a task that arrives in chunks; `first` fixes the basis if nothing has yet.
    ///
    /// Give the finished summary to [`Learner::learn_summary`].
    ///
    /// # Errors
    /// When `first` does not have the columns the learner expects, or the loss needs all rows at once.
    pub fn begin(&mut self, first: &Rows<'_>, targets: usize) -> Result<Summarizer> {
        if !self.loss.exact() {
            return Err(Error::Unsupported {
                operation: "learning in chunks",
                reason: format!(
                    "the {} loss looks at a task's rows several times",
                    self.loss.name()
                ),
            });
        }
        let design = self.design_for(first)?;
        let summarizer = self.summarizer(&design, targets)?;
        self.design.get_or_insert(design);
        Ok(summarizer)
    }

    /// Learns a task that was summarized elsewhere under the same design.
    ///
    /// # Errors
    /// As [`Learner::learn`]; also before any design is fixed.
    pub fn learn_summary(&mut self, name: &str, summary: Summary, weight: f64) -> Result<&Model> {
        self.admit(name, weight)?;
        let Some(design) = self.design.clone() else {
            return Err(Error::Unsupported {
                operation: "learning a summary first",
                reason: "the basis is not fixed yet; call `begin` or `learn` with rows".to_owned(),
            });
        };
        if summary.n() <= 0.0 {
            return Err(Error::Empty { what: "the summary" });
        }
        let least = summary.min_loss();
        self.absorb(name, design, summary, least, weight)
    }

    /// Predicts: one row of targets for each row of inputs, end to end.
    ///
    /// # Errors
    /// When nothing has been learned, or the inputs have other columns.
    pub fn predict(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let theta = &self.model()?.theta;
        let rows = self.design_rows(x)?;
        let m = theta.width();
        let mut out = Vec::with_capacity(x.len() * theta.targets());
        for row in rows.chunks_exact(m) {
            out.extend((0..theta.targets()).map(|k| dot(row, theta.column(k))));
        }
        Ok(out)
    }

    /// The inputs as rows of the design: basis and intercept applied.
    ///
    /// # Errors
    /// When nothing has been learned, or the inputs have other columns or values the basis refuses.
    pub fn design_rows(&self, x: Rows<'_>) -> Result<Vec<f64>> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        check_width(design, &x)?;
        if let Some((row, column, value)) = x.first_not_finite() {
            return Err(Error::NotFinite { what: "feature", row: row as u64, column, value });
        }
        let m = design.width();
        let mut rows = vec![0.0; x.len() * m];
        design.write(&x, 0, &mut rows, m, None)?;
        Ok(rows)
    }

    /// Every task as it stands under the current model.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn tasks(&self) -> Result<Vec<TaskReport>> {
        let theta = &self.model()?.theta;
        let shares = self.shares()?;
        let sum: f64 = shares.iter().sum();
        let summaries = self.summaries();
        let exact = self.loss.exact();
        let mut reports = Vec::with_capacity(self.register.len());
        for (t, e) in self.register.iter().enumerate() {
            let mut report = TaskReport {
                name: e.name.clone(),
                samples: e.samples,
                rank: e.rank,
                weight: shares[t] / sum,
                bytes: e.bytes,
                min_loss: e.min_loss,
                loss: None,
                forgetting: None,
                bound: None,
                guaranteed: self.loss.guaranteed(),
                mse: None,
                r2: None,
            };
            if let Some(s) = summaries.map(|s| &s[t]) {
                let loss = s.loss(theta)?;
                report.bound = Some(if exact { s.forgetting(theta)? } else { loss - e.min_loss });
                if exact {
                    report.loss = Some(loss);
                    report.forgetting = report.bound;
                    let errors: Vec<f64> =
                        s.excess(theta)?.iter().zip(s.residual()).map(|(e, c)| e + c).collect();
                    report.r2 = Some(r_squared(&errors, &s.total_squares()));
                    report.mse = Some(errors.iter().map(|e| e / s.n()).collect());
                }
            }
            reports.push(report);
        }
        Ok(reports)
    }

    /// `Σ α_t F_t(θ)`: the weighted mean forgetting of the current model (or its bound, for a loss
    /// that is only bounded). Exact in every memory: `L_pooled(θ) − Σ α_t min L_t`.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn mean_forgetting(&self) -> Result<f64> {
        let theta = &self.model()?.theta;
        let pool = self.pool()?;
        let excess = pool.summary.loss(theta)? - pool.floor / pool.summary.n();
        Ok(excess.max(0.0))
    }

    /// The pooled summary the current model is solved from; its `n` is `Σ u_t`.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn pooled(&self) -> Result<Summary> {
        Ok(self.pool()?.summary)
    }

    /// The models after each task, solved again from the summaries under the present settings.
    ///
    /// # Errors
    /// When nothing has been learned, or compact memory has folded the tasks.
    pub fn replay(&self) -> Result<Vec<Step>> {
        let summaries = match self.summaries() {
            Some([]) => return Err(Error::NotLearned),
            Some(summaries) => summaries,
            None => {
                return Err(Error::Unsupported {
                    operation: "a replay",
                    reason: "compact memory has merged the tasks; use the ledger".to_owned(),
                });
            }
        };
        let mut past = Self { memory: None, model: None, ..self.clone() };
        past.register.clear();
        let mut running: Option<Pool> = None;
        let mut steps = Vec::with_capacity(summaries.len());
        for (t, (summary, entry)) in summaries.iter().zip(&self.register).enumerate() {
            past.register.push(entry.clone());
            past.settings.prefer = self.settings.prefer.restricted(past.names());
            let shares = past.shares()?;
            let arrival = self.settings.prefer.arrival(summary.n(), entry.weight);
            let pool = match (&running, arrival) {
                (Some(pool), Some((share, fade))) => {
                    pool.add(summary, share, entry.min_loss, fade)?
                }
                _ => past.pool_of(&summaries[..=t], &shares)?,
            };
            let model =
                past.solve_design(&pool, Some(&summaries[..=t]), self.settings.intercept)?;
            let sum: f64 = shares.iter().sum();
            let weights = shares.iter().map(|s| s / sum).collect();
            steps.push(Step { model, weights });
            running = Some(pool);
        }
        Ok(steps)
    }

    /// Another preference in hindsight.
    ///
    /// # Errors
    /// When nothing has been learned, it is no preference over these tasks, or compact memory has
    /// folded them.
    pub fn prefer(&mut self, preference: Preference) -> Result<&Model> {
        preference.check()?;
        let memory = self.memory.as_ref().ok_or(Error::NotLearned)?;
        if memory.summaries().is_none() {
            return Err(Error::Unsupported {
                operation: "another preference in hindsight",
                reason: "compact memory has merged the tasks under the old one; use the ledger"
                    .to_owned(),
            });
        }
        let shares = preference.shares(&self.weighed())?;
        let pool = self.pool_of(memory.summaries().unwrap_or(&[]), &shares)?;
        let before = std::mem::replace(&mut self.settings.prefer, preference);
        match self.solve_pool(&pool) {
            Ok(model) => {
                if let Some(Memory::Ledger { pool: old, .. }) = &mut self.memory {
                    *old = pool;
                }
                Ok(self.model.insert(model))
            }
            Err(error) => {
                self.settings.prefer = before;
                Err(error)
            }
        }
    }

    /// Another ridge in hindsight: solved anew from the memory.
    ///
    /// # Errors
    /// When it is out of range, or does not go with the loss or the memory.
    pub fn set_ridge(&mut self, ridge: Ridge, standardize: bool) -> Result<&Model> {
        let changed = Self {
            settings: Settings { ridge, standardize, ..self.settings.clone() },
            ..self.clone()
        };
        check_ridge(&changed.settings, &*self.loss)?;
        let model = changed.solve_pool(&changed.pool()?)?;
        self.settings = changed.settings;
        Ok(self.model.insert(model))
    }

    /// Removes a task exactly: afterwards the model is the one of never having learned it.
    ///
    /// # Errors
    /// When there is no such task, or compact memory has folded it; then
    /// [`Learner::unlearn_summary`] takes it out given its rows once more.
    pub fn unlearn(&mut self, name: &str) -> Result<()> {
        let at = self.position(name)?;
        let Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) = &self.memory else {
            return Err(Error::Unsupported {
                operation: "unlearning by name alone",
                reason:
                    "compact memory has merged the task with the others; give its rows once more \
                         (unlearn_summary), or use the ledger"
                        .to_owned(),
            });
        };
        let mut rest = self.clone();
        let mut kept = summaries.clone();
        kept.remove(at);
        rest.forget_entry(at);
        rest.memory = None;
        rest.model = None;
        if kept.is_empty() {
            // Weights chosen by name have no names left: the next task starts afresh.
            rest.settings.prefer = rest.settings.prefer.restricted(std::iter::empty());
        } else {
            if let Preference::Chosen(list) = &mut rest.settings.prefer {
                list.retain(|(n, _)| n != name);
                let sum: f64 = list.iter().map(|(_, a)| a).sum();
                if sum <= 0.0 {
                    return Err(Error::Preference {
                        reason: format!(
                            "without `{name}` no task has any weight; prefer others first"
                        ),
                    });
                }
                for (_, a) in list {
                    *a /= sum;
                }
            }
            let shares = rest.shares()?;
            let pool = rest.pool_of(&kept, &shares)?;
            rest.memory = Some(match &self.memory {
                Some(Memory::Ledger { .. }) => {
                    Memory::Ledger { summaries: kept, pool: pool.clone() }
                }
                _ => Memory::Held(kept),
            });
            rest.model = Some(rest.solve_pool(&pool)?);
        }
        *self = rest;
        Ok(())
    }

    /// Removes a task from folded memory, given its summary made once more from its rows.
    ///
    /// # Errors
    /// When there is no such task, the summary is not the one that was added, too few digits would
    /// remain, or the preference depends on the order of tasks.
    pub fn unlearn_summary(&mut self, name: &str, summary: &Summary) -> Result<()> {
        let at = self.position(name)?;
        let Some(Memory::Folded(pool)) = &self.memory else {
            return self.unlearn(name);
        };
        let entry = &self.register[at];
        if (summary.n() - entry.samples).abs() > 1e-9 * entry.samples {
            return Err(Error::Removal {
                reason: format!(
                    "`{name}` was learned with {} samples, but {} were given",
                    entry.samples,
                    summary.n()
                ),
            });
        }
        // Its least loss is on record: other rows of the same number are not what was learned.
        let least = summary.min_loss();
        let size = least + summary.forgetting(&Theta::zeros(summary.width(), summary.targets()))?;
        let exact = self.loss.exact() && self.head.as_ref().is_none_or(|head| head.exact());
        if exact && (least - entry.min_loss).abs() > 1e-8 * size.max(entry.min_loss) {
            return Err(Error::Removal {
                reason: format!(
                    "the least loss on `{name}` was {}, but is {least} on what was given: these are \
                     other rows",
                    entry.min_loss
                ),
            });
        }
        if matches!(self.settings.prefer, Preference::Decay(_)) {
            return Err(Error::Unsupported {
                operation: "unlearning from compact memory under decay",
                reason: "the weights of the tasks before it would change; use the ledger"
                    .to_owned(),
            });
        }
        let share = self.shares()?[at];
        let mut rest = self.clone();
        rest.forget_entry(at);
        if rest.register.is_empty() {
            rest.memory = None;
            rest.model = None;
        } else {
            let part = summary.scale(share / summary.n())?;
            let pool = Pool {
                summary: pool.summary.remove(&part)?,
                floor: pool.floor - share * entry.min_loss,
            };
            rest.model = Some(rest.solve_pool(&pool)?);
            rest.memory = Some(Memory::Folded(pool));
        }
        *self = rest;
        Ok(())
    }

    /// Merges with a memory made elsewhere: afterwards this learner has learned both.
    ///
    /// # Errors
    /// When settings, designs or targets differ, or a task name occurs in both.
    pub fn merge(&mut self, other: &Learner) -> Result<()> {
        self.check_mergeable(other)?;
        let Some(theirs) = &other.memory else { return Ok(()) };
        let mut both = self.clone();
        both.design.clone_from(&other.design);
        both.targets = other.targets;
        for entry in &other.register {
            if both.index.contains_key(&entry.name) {
                return Err(Error::DuplicateTask { name: entry.name.clone() });
            }
            both.index.insert(entry.name.clone(), both.register.len());
            both.register.push(entry.clone());
        }
        let shares = both.shares()?;
        let Some(ours) = &self.memory else {
            both.memory = Some(theirs.clone());
            both.model = Some(both.solve_pool(&both.pool()?)?);
            *self = both;
            return Ok(());
        };
        both.memory = Some(if let Some((a, b)) = ours.summaries().zip(theirs.summaries()) {
            let all: Vec<Summary> = a.iter().chain(b).cloned().collect();
            both.remember(all, &shares)?
        } else {
            if !matches!(self.settings.prefer, Preference::Samples | Preference::Equal) {
                return Err(Error::Unsupported {
                    operation: "merging compact memories under decay",
                    reason: "the order of the tasks is gone; use the ledger".to_owned(),
                });
            }
            let (a, b) = (self.pool()?, other.pool()?);
            Memory::Folded(Pool { summary: a.summary.merge(&b.summary)?, floor: a.floor + b.floor })
        });
        both.model = Some(both.solve_pool(&both.pool()?)?);
        *self = both;
        Ok(())
    }

    /// Adds `count` inputs at position `at` whose past values are zero: categories unseen before.
    ///
    /// # Errors
    /// When the basis mixes inputs, so that a new one would change columns already summarized.
    pub fn extend_inputs(&mut self, at: usize, count: usize) -> Result<()> {
        let Some(design) = &self.design else { return Err(Error::NotLearned) };
        if !design.map().is_identity() {
            return Err(Error::Unsupported {
                operation: "a new input",
                reason: format!(
                    "the basis {} was fixed for {} inputs; only the linear basis can grow",
                    design.map().basis(),
                    design.inputs()
                ),
            });
        }
        let map = Basis::default().fix(&[], design.inputs() + count)?;
        let wider = Design::new(map, design.intercept());
        let column = at + usize::from(design.intercept());
        let extended = self.transformed(|s| s.extend_features(column, count))?;
        *self = Self { design: Some(wider), ..extended };
        self.resolve()
    }

    /// Adds `count` targets at position `at` whose past values are zero: classes unseen before.
    ///
    /// # Errors
    /// When nothing has been learned or `at` is beyond the last target.
    pub fn extend_targets(&mut self, at: usize, count: usize) -> Result<()> {
        if self.memory.is_none() {
            return Err(Error::NotLearned);
        }
        let extended = self.transformed(|s| s.extend_targets(at, count))?;
        *self = Self { targets: self.targets + count, ..extended };
        self.resolve()
    }

    /// A copy with every summary in memory replaced by one of `targets` targets, not yet solved.
    pub(crate) fn retargeted(
        &self,
        targets: usize,
        f: impl Fn(&Summary) -> Result<Summary>,
    ) -> Result<Self> {
        let changed = self.transformed(f)?;
        Ok(Self { targets: if self.memory.is_some() { targets } else { 0 }, ..changed })
    }

    /// A copy with every summary in memory replaced.
    fn transformed(&self, f: impl Fn(&Summary) -> Result<Summary>) -> Result<Self> {
        let all = |list: &[Summary]| list.iter().map(&f).collect::<Result<Vec<_>>>();
        let pooled =
            |pool: &Pool| Ok::<_, Error>(Pool { summary: f(&pool.summary)?, floor: pool.floor });
        let memory = match &self.memory {
            None => None,
            Some(Memory::Held(s)) => Some(Memory::Held(all(s)?)),
            Some(Memory::Folded(pool)) => Some(Memory::Folded(pooled(pool)?)),
            Some(Memory::Ledger { summaries, pool }) => {
                Some(Memory::Ledger { summaries: all(summaries)?, pool: pooled(pool)? })
            }
        };
        Ok(Self { memory, ..self.clone() })
    }

    /// Solves again what is in memory.
    pub(crate) fn resolve(&mut self) -> Result<()> {
        if self.memory.is_some() {
            self.model = Some(self.solve_pool(&self.pool()?)?);
        }
        Ok(())
    }

    /// Puts a summarized task into memory and solves.
    pub(crate) fn absorb(
        &mut self,
        name: &str,
        design: Design,
        summary: Summary,
        least: f64,
        weight: f64,
    ) -> Result<&Model> {
        if !summary.is_finite() {
            return Err(Error::Bytes { reason: "it holds numbers that are not finite".to_owned() });
        }
        let (m, p) = (design.width(), summary.targets());
        if summary.width() != m {
            return Err(shape("the summary", "columns", m, summary.width()));
        }
        if self.targets != 0 && p != self.targets {
            return Err(shape("the task", "targets", self.targets, p));
        }
        let Some((share, fade)) = self.settings.prefer.arrival(summary.n(), weight) else {
            return Err(Error::Preference {
                reason: "the weights were chosen task by task, so a new task has none; prefer \
                         samples, equal or decay before learning on"
                    .to_owned(),
            });
        };
        let entry = Entry {
            name: name.to_owned(),
            samples: summary.n(),
            rank: summary.rank(),
            weight,
            min_loss: least,
            bytes: summary.nbytes(),
        };
        // Register, index and the list of summaries grow in place, so that a task costs the same
        // however many came before; they are cut back if anything below fails.
        self.index.insert(name.to_owned(), self.register.len());
        self.register.push(entry);
        let (alone, mut lone) = match &mut self.memory {
            Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) => {
                summaries.push(summary);
                (None, Vec::new())
            }
            Some(Memory::Folded(_)) => (Some(summary), Vec::new()),
            None => (None, vec![summary]),
        };
        let done = self.with_task(m, p, &lone, alone.as_ref(), (share, fade, least));
        match done {
            Ok((pool, model)) => {
                self.design = Some(design);
                self.targets = p;
                let summaries = match self.memory.take() {
                    Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) => summaries,
                    _ => std::mem::take(&mut lone),
                };
                self.memory = Some(match alone {
                    Some(_) => Memory::Folded(pool),
                    None => self.shelve(m, p, summaries, pool),
                });
                Ok(self.model.insert(model))
            }
            Err(error) => {
                self.register.pop();
                self.index.remove(name);
                if let Some(Memory::Ledger { summaries, .. } | Memory::Held(summaries)) =
                    &mut self.memory
                {
                    summaries.pop();
                }
                Err(error)
            }
        }
    }

    /// Pool and model with the newest task of the register counted in. Its summary is the last in
    /// memory, or `alone` beside folded memory, or in `lone` when it is the first of all.
    fn with_task(
        &self,
        m: usize,
        p: usize,
        lone: &[Summary],
        alone: Option<&Summary>,
        (share, fade, least): (f64, f64, f64),
    ) -> Result<(Pool, Model)> {
        let intercept = self.settings.intercept;
        let (pool, tasks) = match (&self.memory, alone) {
            (Some(Memory::Folded(pool)), Some(task)) => (pool.add(task, share, least, fade)?, None),
            (Some(Memory::Ledger { summaries, pool }), _) => {
                let task = summaries.last().ok_or(Error::NotLearned)?;
                (pool.add(task, share, least, fade)?, Some(&summaries[..]))
            }
            (Some(Memory::Held(held)), _) => {
                (self.pool_parts(m, p, held, &self.shares()?)?, Some(&held[..]))
            }
            _ => (self.pool_parts(m, p, lone, &self.shares()?)?, Some(lone)),
        };
        let model = self.solve_design(&pool, tasks, intercept)?;
        Ok((pool, model))
    }

    /// Chooses the memory's form for these summaries.
    fn shelve(&self, m: usize, p: usize, summaries: Vec<Summary>, pool: Pool) -> Memory {
        match self.settings.memory {
            MemoryKind::Ledger => Memory::Ledger { summaries, pool },
            MemoryKind::Compact => {
                let numbers = summaries.iter().map(Summary::numbers).sum();
                if worth_holding(numbers, m, p) {
                    Memory::Held(summaries)
                } else {
                    Memory::Folded(pool)
                }
            }
        }
    }

    fn remember(&self, summaries: Vec<Summary>, shares: &[f64]) -> Result<Memory> {
        let pool = self.pool_of(&summaries, shares)?;
        let (m, p) = (pool.summary.width(), pool.summary.targets());
        Ok(self.shelve(m, p, summaries, pool))
    }

    fn pool_of(&self, summaries: &[Summary], shares: &[f64]) -> Result<Pool> {
        let first = summaries.first().ok_or(Error::NotLearned)?;
        self.pool_parts(first.width(), first.targets(), summaries, shares)
    }

    fn pool_parts(
        &self,
        m: usize,
        p: usize,
        summaries: &[Summary],
        shares: &[f64],
    ) -> Result<Pool> {
        let least = self.register.iter().map(|e| e.min_loss);
        Pool::of(m, p, summaries.iter().zip(shares).zip(least).map(|((s, u), l)| (s, *u, l)))
    }

    fn pool(&self) -> Result<Pool> {
        match &self.memory {
            None => Err(Error::NotLearned),
            Some(Memory::Ledger { pool, .. } | Memory::Folded(pool)) => Ok(pool.clone()),
            Some(Memory::Held(held)) => self.pool_of(held, &self.shares()?),
        }
    }

    fn solve_pool(&self, pool: &Pool) -> Result<Model> {
        self.solve_design(pool, self.summaries(), self.settings.intercept)
    }

    fn solve_design(
        &self,
        pool: &Pool,
        tasks: Option<&[Summary]>,
        intercept: bool,
    ) -> Result<Model> {
        if let Some(head) = &self.head {
            return head.solve(&pool.summary, self.samples(), self.effective_samples()?);
        }
        let standardize = self.settings.standardize || self.settings.ridge == Ridge::Auto;
        let gcv = || {
            let samples = self.effective_samples()?;
            ridge::by_gcv(&pool.summary, intercept, standardize, samples)
        };
        let chosen = match (self.settings.ridge, tasks) {
            (Ridge::Fixed(x), _) => x,
            (Ridge::LeaveOneTaskOut, Some(summaries)) if summaries.len() > 1 => {
                let folds = self.folds(summaries, &self.shares()?)?;
                let d = weights(&pool.summary, intercept, standardize);
                ridge::by_leaving_tasks_out(&folds, &d, intercept)?
            }
            (Ridge::LeaveOneTaskOut, None) => {
                return Err(Error::Unsupported {
                    operation: "choosing the ridge by leaving tasks out",
                    reason: "compact memory has merged the tasks; use the ledger, or gcv"
                        .to_owned(),
                });
            }
            (Ridge::Auto | Ridge::LeaveOneTaskOut, _) => gcv()?,
        };
        let origin = self.design.as_ref().and_then(|d| d.map().origin());
        solve(&pool.summary, intercept, Penalty::new(chosen, standardize)?, origin)
    }

    /// For every task, the pool of all others beside the task itself.
    fn folds<'a>(
        &self,
        summaries: &'a [Summary],
        shares: &[f64],
    ) -> Result<Vec<(Summary, &'a Summary)>> {
        (0..summaries.len())
            .map(|out| {
                let mut shares = shares.to_vec();
                shares[out] = 0.0;
                Ok((self.pool_of(summaries, &shares)?.summary, &summaries[out]))
            })
            .collect()
    }

    fn shares(&self) -> Result<Vec<f64>> {
        self.settings.prefer.shares(&self.weighed())
    }

    fn weighed(&self) -> Vec<Weighed<'_>> {
        self.register
            .iter()
            .map(|e| Weighed { name: &e.name, samples: e.samples, weight: e.weight })
            .collect()
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.index.get(name).copied().ok_or_else(|| Error::UnknownTask {
            name: name.to_owned(),
            known: listing(self.names()),
        })
    }

    fn forget_entry(&mut self, at: usize) {
        self.register.remove(at);
        self.index = self.register.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
    }

    pub(crate) fn admit(&self, name: &str, weight: f64) -> Result<()> {
        if self.index.contains_key(name) {
            return Err(Error::DuplicateTask { name: name.to_owned() });
        }
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(Error::Weight {
                what: "weight of task",
                at: name.to_owned(),
                value: weight,
            });
        }
        Ok(())
    }

    pub(crate) fn design_for(&self, x: &Rows<'_>) -> Result<Design> {
        if let Some(design) = &self.design {
            check_width(design, x)?;
            return Ok(design.clone());
        }
        if x.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        let mut first = Vec::new();
        if self.settings.basis.needs_rows() {
            let head = x.slice(0, x.len().min(ROWS_TO_FIX));
            if let Some((row, column, value)) = head.first_not_finite() {
                return Err(Error::NotFinite { what: "feature", row: row as u64, column, value });
            }
            head.append_to(&mut first);
        }
        let map = self.settings.basis.fix(&first, x.width())?;
        Ok(Design::new(map, self.settings.intercept))
    }

    fn summarizer(&self, design: &Design, targets: usize) -> Result<Summarizer> {
        if self.targets != 0 && targets != self.targets {
            return Err(shape("the target table", "columns", self.targets, targets));
        }
        let summarizer = Summarizer::new(design.clone(), targets, self.settings.accumulator)?;
        Ok(summarizer.threads(self.settings.threads))
    }

    fn fixed_penalty(&self) -> Result<Penalty> {
        match self.settings.ridge {
            Ridge::Fixed(x) => Penalty::new(x, self.settings.standardize),
            _ => Err(Error::NotLearned),
        }
    }

    /// `(λ/2)‖θ‖²` without the intercept.
    fn penalty_at(&self, theta: &Theta) -> f64 {
        let Ridge::Fixed(x) = self.settings.ridge else { return 0.0 };
        let first = usize::from(self.settings.intercept);
        let squares = |k: usize| theta.column(k)[first..].iter().map(|v| v * v).sum::<f64>();
        x / 2.0 * (0..theta.targets()).map(squares).sum::<f64>()
    }

    fn check_mergeable(&self, other: &Learner) -> Result<()> {
        let differ = |what, left: String, right: String| {
            if left == right { Ok(()) } else { Err(Error::Mismatch { what, left, right }) }
        };
        let (a, b) = (&self.settings, &other.settings);
        differ("loss", self.loss.name().to_owned(), other.loss.name().to_owned())?;
        differ("basis", a.basis.to_string(), b.basis.to_string())?;
        differ("intercept", a.intercept.to_string(), b.intercept.to_string())?;
        differ("memory", format!("{:?}", a.memory), format!("{:?}", b.memory))?;
        differ("preference", format!("{:?}", a.prefer), format!("{:?}", b.prefer))?;
        if let (Some(a), Some(b)) = (&self.design, &other.design) {
            differ("number of inputs", a.inputs().to_string(), b.inputs().to_string())?;
            // A learner that has only begun a task has fixed its design, not its targets.
            if self.targets != 0 && other.targets != 0 {
                differ("number of targets", self.targets.to_string(), other.targets.to_string())?;
            }
            if a != b {
                return Err(Error::Mismatch {
                    what: "what the basis was fixed to by its first rows",
                    left: "here".to_owned(),
                    right: "there; fix it once, and start both learners from it".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// A ridge in range that the loss and the memory can work with, also in tasks to come.
fn check_ridge(settings: &Settings, loss: &dyn Loss) -> Result<()> {
    if let Ridge::Fixed(x) = settings.ridge {
        Penalty::new(x, settings.standardize)?;
    }
    if !loss.exact() && !matches!(settings.ridge, Ridge::Fixed(x) if x > 0.0) {
        return Err(Error::Unsupported {
            operation: "an automatic or zero ridge",
            reason: format!(
                "the {} loss need not have a minimizer without one; give a ridge above 0",
                loss.name()
            ),
        });
    }
    if (settings.ridge, settings.memory) == (Ridge::LeaveOneTaskOut, MemoryKind::Compact) {
        return Err(Error::Unsupported {
            operation: "choosing the ridge by leaving tasks out",
            reason: "compact memory merges the tasks; use the ledger, or gcv".to_owned(),
        });
    }
    Ok(())
}

fn check_width(design: &Design, x: &Rows<'_>) -> Result<()> {
    if x.width() == design.inputs() {
        Ok(())
    } else {
        Err(shape("the feature table", "columns", design.inputs(), x.width()))
    }
}

fn shape(what: &'static str, unit: &'static str, expected: usize, found: usize) -> Error {
    Error::Shape { what, unit, expected, found }
}

/// `1 − Σe²/Σ(y−ȳ)²` of each target; 0 for a constant target that is not hit, 1 for one that is.
pub(crate) fn r_squared(errors: &[f64], totals: &[f64]) -> Vec<f64> {
    errors
        .iter()
        .zip(totals)
        .map(|(e, t)| match (*t > 0.0, *e > 0.0) {
            (true, _) => 1.0 - e / t,
            (false, true) => 0.0,
            (false, false) => 1.0,
        })
        .collect()
}
