//! The learner: tasks in, one after another; after each the model joint training would have given.
//!
//! Paper: Algorithm 1 (`alg:general_mfcl`); for squared loss Algorithm 3 (`alg:linreg-cl`), for losses
//! with a quadratic bound Algorithm 2 (`alg:mfcl_qub`).
//!
//! Every change is computed beside the old state and put in its place only when all of it has worked:
//! after an error the learner is what it was.

mod growth;
mod hindsight;
mod memory;
mod parts;
mod pooling;
mod preference;
mod settings;
mod tasks;
mod totals;

pub use hindsight::Step;
pub use memory::MemoryKind;
pub use parts::{LearnerParts, MemoryParts, TaskRecord};
pub use preference::Preference;
pub use settings::{Ridge, Settings};
pub use tasks::TaskReport;

pub(crate) use tasks::r_squared;

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result, listing};
use crate::loss::{Loss, Squared, TaskRows, minimize};
use crate::rows::Rows;
use crate::solve::{Model, Penalty};
use crate::summary::{Design, Summarizer, Summary, dot};
use crate::theta::Theta;
use memory::Memory;
use settings::check_ridge;
use totals::Totals;

/// Rows from which a basis that needs them takes its ranges and centres.
const ROWS_TO_FIX: usize = 10_000;

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

/// A continual learner. See the crate's front page for an example.
#[derive(Debug, Clone)]
pub struct Learner {
    settings: Settings,
    loss: Arc<dyn Loss>,
    head: Option<Arc<dyn Head>>,
    design: Option<Design>,
    targets: usize,
    register: Vec<TaskRecord>,
    /// Sums over the register under the present preference.
    totals: Totals,
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
            totals: Totals::default(),
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
        self.totals.samples()
    }

    /// Samples the present preference makes of them, `1 / Σ α_t²/n_t` (Kish): all where every sample counts
    /// the same, fewer where some count for more. Noise and freedom are judged by these.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn effective_samples(&self) -> Result<f64> {
        debug_assert_eq!(Some(self.totals), Totals::of(&self.register, &self.settings.prefer).ok());
        if let Some(effective) = self.totals.effective() {
            return Ok(effective);
        }
        // Weights whose squares are beyond the range of double precision are divided by their sum first.
        let shares = self.shares()?;
        let sum: f64 = shares.iter().sum();
        let spread: f64 =
            shares.iter().zip(&self.register).map(|(u, e)| (u / sum).powi(2) / e.samples).sum();
        if spread > 0.0 { Ok(1.0 / spread) } else { Err(Error::NotLearned) }
    }

    /// Bytes of the memory: what would have to be kept to go on learning.
    pub fn state_bytes(&self) -> usize {
        let away = self.away();
        let elsewhere: usize = self.register[..away].iter().map(|e| e.bytes).sum();
        self.memory.as_ref().map_or(0, Memory::nbytes) + elsewhere
    }

    /// The current model.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn model(&self) -> Result<&Model> {
        self.model.as_ref().ok_or(Error::NotLearned)
    }

    /// The summaries of the tasks, in order; `None` once compact memory has folded them, or while some
    /// lie in a file ([`Learner::away`]).
    pub fn summaries(&self) -> Option<&[Summary]> {
        self.memory.as_ref().map_or(Some(&[]), Memory::summaries)
    }

    /// All summaries, or why they are not at hand.
    pub(crate) fn every_summary(&self, operation: &'static str) -> Result<&[Summary]> {
        self.summaries().ok_or_else(|| match self.away() {
            0 => Error::Unsupported {
                operation,
                reason: "compact memory has merged the tasks; use the ledger".to_owned(),
            },
            missing => Error::Away { operation, missing },
        })
    }

    /// The summary of one task.
    ///
    /// # Errors
    /// When there is no such task, or compact memory has folded it.
    pub fn summary(&self, name: &str) -> Result<&Summary> {
        let at = self.position(name)?;
        Ok(&self.every_summary("looking at a single task")?[at])
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
    /// Give the summarizer back to [`Learner::learn_stream`] when all rows are in. Until then the learner
    /// is what it was.
    ///
    /// # Errors
    /// When `first` does not have the columns the learner expects, or the loss needs all rows at once.
    pub fn begin(&self, first: &Rows<'_>, targets: usize) -> Result<Summarizer> {
        if !self.loss.exact() {
            return Err(Error::Unsupported {
                operation: "learning in chunks",
                reason: format!(
                    "the {} loss looks at a task's rows several times",
                    self.loss.name()
                ),
            });
        }
        self.summarizer(&self.design_for(first)?, targets)
    }

    /// Learns a task that was begun by [`Learner::begin`] and has arrived in chunks since.
    ///
    /// # Errors
    /// As [`Learner::learn`]; also when the design was fixed otherwise in the meantime.
    pub fn learn_stream(
        &mut self,
        name: &str,
        summarizer: Summarizer,
        weight: f64,
    ) -> Result<&Model> {
        self.admit(name, weight)?;
        let design = summarizer.design().clone();
        self.learn_summarized(name, design, summarizer.finish()?, weight)
    }

    /// Learns a task from a summary made under `design`, which fixes the learner's own if nothing has yet.
    ///
    /// # Errors
    /// As [`Learner::learn_stream`].
    pub fn learn_summarized(
        &mut self,
        name: &str,
        design: Design,
        summary: Summary,
        weight: f64,
    ) -> Result<&Model> {
        self.admit(name, weight)?;
        self.check_design(&design)?;
        if summary.n() <= 0.0 {
            return Err(Error::Empty { what: "the summary" });
        }
        let least = summary.min_loss();
        self.absorb(name, design, summary, least, weight)
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
                reason: "the basis is not fixed yet; learn a task with rows first".to_owned(),
            });
        };
        self.learn_summarized(name, design, summary, weight)
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

    /// The pooled summary the current model is solved from; its `n` is `Σ u_t`.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn pooled(&self) -> Result<Summary> {
        Ok(self.pool()?.summary)
    }

    /// Solves again what is in memory.
    pub(crate) fn resolve(&mut self) -> Result<()> {
        if self.memory.is_some() {
            self.model = Some(self.solve_pool(&self.pool()?)?);
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.index.get(name).copied().ok_or_else(|| Error::UnknownTask {
            name: name.to_owned(),
            known: listing(self.names()),
        })
    }

    /// Whether there is a task of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    pub(crate) fn admit(&self, name: &str, weight: f64) -> Result<()> {
        if self.contains(name) {
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

    pub(crate) fn check_design(&self, design: &Design) -> Result<()> {
        if self.design.as_ref().is_none_or(|d| d == design) {
            return Ok(());
        }
        Err(Error::Mismatch {
            what: "what the basis was fixed to by its first rows",
            left: "in the learner".to_owned(),
            right: "in the stream; begin it again".to_owned(),
        })
    }

    /// The design, or the one that these first rows of the first task would fix.
    ///
    /// # Errors
    /// When `x` does not have the columns the learner expects, or the basis refuses it.
    pub fn design_for(&self, x: &Rows<'_>) -> Result<Design> {
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
