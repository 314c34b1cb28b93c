//! The learner: tasks in, one after another; at any time the model joint training would have given.
//!
//! Learning a task puts its summary into memory. The solution is made when it is asked for, from everything learned so far: a
//! thousand tasks and one prediction cost one solution.
//!
//! Paper: Algorithm 1 (`alg:general_mfcl`); for squared loss Algorithm 3 (`alg:linreg-cl`), for losses with a quadratic bound
//! Algorithm 2 (`alg:mfcl_qub`).
//!
//! Every change is checked before anything is changed: after an error the learner is unchanged.

mod append;
mod calibration;
mod gaps;
mod growth;
mod hindsight;
mod lazy;
mod memory;
mod predict;
mod state;
mod tasks;
#[cfg(test)]
mod tests;

pub use hindsight::Step;
pub use memory::TaskRecord;
pub use predict::Parameters;
pub use state::LearnerState;
pub use tasks::{TargetFit, TaskReport};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::basis::Design;
use crate::error::{Error, Result, listing};
use crate::kernel::with_threads;
use crate::problem::choice::Chosen;
use crate::problem::{
    CandidateScore, Draft, Exactness, InMemory, Outputs, Part, Partial, Passes, Past, Pool,
    Pooling, Problem, RowSample, SolveInput, Solved, TaskContext, TaskSummary,
};
use crate::rows::{Rows, TaskRows};
use crate::settings::{MemoryKind, Preference, Ridge, Settings, StoredPrecision, Weighed};
use crate::solve::Solution;
use crate::summary::{Accumulator, Summary};
use calibration::HeldSample;
pub(crate) use gaps::FilledPool;
use lazy::Lazy;
use memory::{Memory, pool_bytes, worth_holding};

/// Where the next learner begins to count its edits.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Rows from which a basis that needs them takes its ranges and centres.
const ROWS_TO_FIX: usize = 10_000;

/// A continual learner. See the crate's front page for an example.
#[derive(Debug, Clone)]
pub struct Learner {
    problem: Problem,
    settings: Settings,
    design: Option<Design>,
    outputs: Outputs,
    records: Vec<TaskRecord>,
    index: HashMap<String, usize>,
    memory: Memory,
    /// Counts changes; a draft that depends on memory notes it.
    generation: u64,
    /// Counts changes other than tasks that were added at the end, from a number no other learner began with.
    edits: u64,
    pooled: Lazy<Arc<Pool>>,
    /// The pool with its gaps filled, where inputs have any.
    filled: Lazy<FilledPool>,
    solved: Lazy<Solved>,
    /// What the pool chose of a portfolio; `None` where there is nothing to choose.
    chosen: Lazy<Option<Arc<Chosen>>>,
    /// Samples of rows to measure probabilities with, by the positions of their tasks.
    samples: BTreeMap<usize, HeldSample>,
    /// How often tables on record were replaced.
    calibrations: u64,
}

/// A fitted task that goes with what was learned before.
struct Accepted {
    /// Classes in the places of `outputs`.
    summary: TaskSummary,
    /// The outputs with those of the task.
    outputs: Outputs,
    /// The problem, where the task has settled something of it.
    settled: Option<Problem>,
    /// Rows to measure probabilities with.
    sample: Option<RowSample>,
}

impl Learner {
    /// A learner that has learned nothing.
    ///
    /// # Errors
    /// When a setting is out of range or does not go with the problem.
    pub fn new(problem: Problem, settings: Settings) -> Result<Self> {
        if matches!(settings.prefer, Preference::Chosen(_)) {
            return Err(Error::Preference {
                reason: "weights are chosen task by task in hindsight; start with samples, equal or decay"
                    .to_owned(),
            });
        }
        problem.check(&settings)?;
        Ok(Self::empty(problem, settings))
    }

    /// A learner whose settings have been checked.
    fn empty(problem: Problem, settings: Settings) -> Self {
        Self {
            outputs: problem.method().outputs(),
            problem,
            settings,
            design: None,
            records: Vec::new(),
            index: HashMap::new(),
            memory: Memory::Empty,
            generation: 0,
            edits: NEXT.fetch_add(1 << 32, Ordering::Relaxed),
            pooled: Lazy::default(),
            filled: Lazy::default(),
            solved: Lazy::default(),
            chosen: Lazy::default(),
            samples: BTreeMap::new(),
            calibrations: 0,
        }
    }

    /// What is predicted, and by which loss.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The design, once the first task has fixed it.
    pub fn design(&self) -> Option<&Design> {
        self.design.as_ref()
    }

    /// What the columns of parameters stand for.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// The classes in sorted order: numbers by value, then text; none for values. Columns of [`Learner::scores`] and
    /// [`Learner::probabilities`] stand in this order.
    pub fn classes(&self) -> &[String] {
        self.outputs.classes().map_or(&[], |classes| classes.names())
    }

    /// Names of the tasks, in the order they were learned.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.records.iter().map(|record| record.name.as_str())
    }

    /// What is known of each task in addition to its summary, in the order they were learned.
    pub fn records(&self) -> &[TaskRecord] {
        &self.records
    }

    /// Whether there is a task of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// Changes other than tasks that were added at the end, for who keeps a copy: the same number means the same tasks as
    /// before, or more at the end. Every learner counts from a number of its own, which its clones share.
    pub fn edits(&self) -> u64 {
        self.edits
    }

    /// Samples seen, over all tasks.
    pub fn samples(&self) -> f64 {
        match self.pooled.get() {
            Some(pool) => pool.samples,
            None => self.records.iter().map(|record| record.head.samples).sum(),
        }
    }

    /// Samples the present preference makes of them, `1 / Σ α_t²/n_t` (Kish): all where every sample counts the same, fewer
    /// where some count for more. Noise and freedom are judged by these.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn effective_samples(&self) -> Result<f64> {
        if let Some(effective) = self.pool()?.effective() {
            return Ok(effective);
        }
        // Weights whose squares are beyond the range of double precision are divided by their sum first.
        let shares = self.shares()?;
        let sum: f64 = shares.iter().sum();
        let part = |(u, record): (&f64, &TaskRecord)| (u / sum).powi(2) / record.head.samples;
        let spread: f64 = shares.iter().zip(&self.records).map(part).sum();
        if spread > 0.0 { Ok(1.0 / spread) } else { Err(Error::NotLearned) }
    }

    /// Bytes of the memory: what would have to be kept to go on learning.
    pub fn state_bytes(&self) -> usize {
        // Waiting tasks are in the pool once it is made, and need not be kept.
        if let (Memory::Folded { .. }, Some(pool)) = (&self.memory, self.pooled.get()) {
            return pool_bytes(pool);
        }
        let in_file: usize = match &self.memory {
            Memory::Ledger { summaries, .. } => {
                let unloaded = summaries.iter().zip(&self.records).filter(|(s, _)| s.is_none());
                unloaded.map(|(_, record)| record.bytes).sum()
            }
            Memory::Empty | Memory::Held(_) | Memory::Folded { .. } => 0,
        };
        self.memory.nbytes() + in_file
    }

    /// Whether compact memory has merged the tasks for good.
    pub fn is_folded(&self) -> bool {
        matches!(self.memory, Memory::Folded { .. })
    }

    /// Tasks whose summaries are in a file and have not been loaded.
    pub fn unloaded(&self) -> usize {
        self.memory.unloaded()
    }

    /// The solution of everything learned so far. Made when first asked for; threads that ask meanwhile wait for it.
    ///
    /// # Errors
    /// When nothing has been learned, or numbers leave the range of double precision.
    pub fn solution(&self) -> Result<&Solution> {
        Ok(&self.solved()?.solution)
    }

    /// Whether the solution has been made.
    pub fn is_solved(&self) -> bool {
        self.solved.get().is_some()
    }

    fn solved(&self) -> Result<&Solved> {
        self.solved.get_or_try(|| {
            self.pool()?;
            #[cfg(test)]
            tests::SOLVED.with(|count| count.set(count.get() + 1));
            let mut solved = with_threads(self.settings.threads, || {
                self.problem.method().solve(&self.solve_input()?)
            })?;
            if let Some(chosen) = self.chosen()? {
                chosen.clear_others(&mut solved.solution.theta);
            }
            Ok(solved)
        })
    }

    /// What the pool chose of a portfolio; `None` where there is nothing to choose.
    fn chosen(&self) -> Result<Option<&Chosen>> {
        let made = self.chosen.get_or_try(|| {
            let (pool, effective) = (self.pool()?, self.effective_samples()?);
            let chosen = with_threads(self.settings.threads, || {
                Chosen::of(&self.context()?, pool, effective)
            })?;
            Ok::<_, Error>(chosen.map(Arc::new))
        })?;
        Ok(made.as_deref())
    }

    /// The candidates of a portfolio with their scores, narrow ones first; empty where there is nothing to choose.
    ///
    /// # Errors
    /// When nothing has been learned.
    pub fn candidates(&self) -> Result<&[CandidateScore]> {
        Ok(self.chosen()?.map_or(&[], |chosen| &chosen.scores))
    }

    fn solve_input(&self) -> Result<SolveInput<'_>> {
        let pool = self.pool()?;
        let tasks = if self.settings.ridge == Ridge::LeaveOneTaskOut && self.records.len() > 1 {
            let summaries = self.every_summary("choosing the ridge by leaving tasks out")?;
            Some(summaries.into_iter().zip(self.shares()?).collect())
        } else {
            None
        };
        let waiting = self.waiting(pool)?;
        let input = SolveInput {
            context: self.context()?,
            pool,
            effective: self.effective_samples()?,
            tasks,
            tables: self.known_tables(pool, &waiting)?,
            waiting,
        };
        match self.chosen()? {
            Some(chosen) => chosen.view(input),
            None => Ok(input),
        }
    }

    /// What tasks are solved and judged under, once the design is fixed.
    fn context(&self) -> Result<TaskContext<'_>> {
        Ok(self.context_with(self.filling_design()?))
    }

    /// What tasks are summarized under with this design, which is the learner's own or will be.
    pub fn context_with<'a>(&'a self, design: &'a Design) -> TaskContext<'a> {
        let (problem, settings, outputs) = (&self.problem, &self.settings, &self.outputs);
        TaskContext { problem, settings, design, outputs }
    }

    /// The pool of all tasks: `Σ (u_t/n_t) task_t` under the present preference, with gaps filled where inputs have any.
    ///
    /// # Errors
    /// When nothing has been learned, or sums leave the range of double precision.
    pub fn pool(&self) -> Result<&Pool> {
        match self.filled_pool()? {
            Some(filled) => Ok(&filled.pool),
            None => Ok(self.shared_pool()?),
        }
    }

    fn shared_pool(&self) -> Result<&Arc<Pool>> {
        self.pooled.get_or_try(|| self.make_pool())
    }

    fn make_pool(&self) -> Result<Arc<Pool>> {
        let (m, p) = self.shape()?;
        let pooled = |base: Option<&Arc<Pool>>, first: usize, tasks: &[&TaskSummary]| {
            if let (Some(base), [], true) =
                (base, tasks, base.is_some_and(|b| shape_of(b) == (m, p)))
            {
                return Ok(base.clone());
            }
            let shares = self.arriving_shares(first)?;
            let parts: Vec<Part<'_>> = tasks
                .iter()
                .zip(&shares)
                .map(|(task, share)| Part { task, share: *share })
                .collect();
            let fade = self.settings.prefer.fade(tasks.len());
            let base = base.map(|pool| (&**pool, fade));
            with_threads(self.settings.threads, || {
                let pooling = self.pooling();
                Ok::<_, Error>(Arc::new(Pool::with_tasks(base, (m, p), &parts, pooling)?))
            })
        };
        match &self.memory {
            Memory::Empty => Err(Error::NotLearned),
            Memory::Ledger { summaries, base, pooled: done } => {
                let waiting = loaded(&summaries[*done..], "pooling the tasks")?;
                pooled(base.as_ref(), *done, &waiting)
            }
            Memory::Held(held) => {
                pooled(None, 0, &held.iter().map(|task| &**task).collect::<Vec<_>>())
            }
            Memory::Folded { base, waiting } => {
                let first = self.records.len() - waiting.len();
                let waiting: Vec<&TaskSummary> = waiting.iter().map(|task| &**task).collect();
                pooled(Some(base), first, &waiting)
            }
        }
    }

    /// Whether the pool may be kept as sums: where rows are summed, and a ridge or shrinkage keeps dependent columns apart.
    fn pooling(&self) -> Pooling {
        let summed = matches!(self.accumulator(), Accumulator::Gram | Accumulator::Mixed);
        if summed && self.problem.method().is_shrunk(&self.settings) {
            Pooling::Sums
        } else {
            Pooling::Triangles
        }
    }

    /// Weights of the tasks from `first` on.
    fn arriving_shares(&self, first: usize) -> Result<Vec<f64>> {
        if first == 0 {
            return self.shares();
        }
        let count = self.records.len();
        self.records[first..]
            .iter()
            .enumerate()
            .map(|(t, record)| {
                let arrival = self.settings.prefer.arrival(record.head.samples, record.weight);
                let (share, _) = arrival.ok_or_else(chosen_weights)?;
                Ok(share * self.settings.prefer.fade(count - 1 - first - t))
            })
            .collect()
    }

    /// Design columns and columns of parameters.
    fn shape(&self) -> Result<(usize, usize)> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        Ok((design.width(), self.problem.method().columns(&self.outputs)))
    }

    fn shares(&self) -> Result<Vec<f64>> {
        self.settings.prefer.shares(&self.weighed())
    }

    fn weighed(&self) -> Vec<Weighed<'_>> {
        weighed(&self.records)
    }

    /// The summaries of the tasks over all columns, gaps filled, in order; `None` once compact memory has folded them, or while some are
    /// in a file ([`Learner::unloaded`]).
    pub fn summaries(&self) -> Option<Vec<Cow<'_, Summary>>> {
        self.every_summary("this").ok()
    }

    /// All summaries over all columns, or why they are not available.
    pub(crate) fn every_summary(&self, operation: &'static str) -> Result<Vec<Cow<'_, Summary>>> {
        if matches!(self.memory, Memory::Empty) {
            return Ok(Vec::new());
        }
        let (m, p) = self.shape()?;
        let tasks = self.every_task(operation)?;
        tasks.iter().map(|task| self.filled(task.widened(m, p)?)).collect()
    }

    /// All task summaries, or why they are not available.
    pub(crate) fn every_task(&self, operation: &'static str) -> Result<Vec<&Arc<TaskSummary>>> {
        match &self.memory {
            Memory::Empty => Ok(Vec::new()),
            Memory::Ledger { summaries, .. } => {
                let missing = self.memory.unloaded();
                if missing > 0 {
                    return Err(Error::Unloaded { operation, missing });
                }
                Ok(summaries.iter().flatten().collect())
            }
            Memory::Held(held) => Ok(held.iter().collect()),
            Memory::Folded { .. } => Err(Error::Unsupported {
                operation,
                reason: "compact memory has merged the tasks; use the ledger".to_owned(),
            }),
        }
    }

    /// The task summary of one task.
    ///
    /// # Errors
    /// When there is no such task, compact memory has folded it, or it is still in a file.
    pub fn task_summary(&self, name: &str) -> Result<&Arc<TaskSummary>> {
        let at = self.position(name)?;
        self.task_summary_at(at).ok_or_else(|| match &self.memory {
            Memory::Ledger { .. } => {
                Error::Unloaded { operation: "looking at a single task", missing: 1 }
            }
            _ => Error::Unsupported {
                operation: "looking at a single task",
                reason: "compact memory has merged the tasks; use the ledger".to_owned(),
            },
        })
    }

    /// The task summary at a position, where it is in memory.
    pub fn task_summary_at(&self, at: usize) -> Option<&Arc<TaskSummary>> {
        match &self.memory {
            Memory::Ledger { summaries, .. } => summaries.get(at)?.as_ref(),
            Memory::Held(held) => held.get(at),
            Memory::Folded { waiting, .. } => {
                let first = self.records.len() - waiting.len();
                at.checked_sub(first).and_then(|i| waiting.get(i))
            }
            Memory::Empty => None,
        }
    }

    /// Learns a task of which all rows are in memory; `weight` is that of the task as a whole.
    ///
    /// # Errors
    /// On bad input (see [`Error`]); the learner is then unchanged.
    pub fn learn(&mut self, name: &str, rows: TaskRows<'_>, weight: f64) -> Result<()> {
        self.check_new(name, weight)?;
        if rows.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        let design = self.design_for(&rows.x)?;
        let draft = {
            let mut passes = InMemory::new(self.context_with(&design), rows)?;
            let first = passes.run(&self.problem.first_pass())?;
            self.fit(&design, first, &mut passes, weight)?
        };
        self.insert(name, &design, draft, weight)
    }

    /// Fits a task under a design, given the answer to its first pass and an executor for more.
    ///
    /// # Errors
    /// When a row is invalid, or the task does not go with those before it.
    pub fn fit(
        &self,
        design: &Design,
        first: Partial,
        passes: &mut dyn Passes,
        weight: f64,
    ) -> Result<Draft> {
        self.problem.method().fit(&self.context_with(design), &self.past(weight)?, first, passes)
    }

    /// What a fit may know of the tasks before it.
    fn past(&self, weight: f64) -> Result<Past> {
        let wanted = self.problem.method().needs_past() && !self.records.is_empty();
        let pool = if wanted { Some(self.shared_pool()?.clone()) } else { None };
        let start = self.solved.get().map(|solved| solved.solution.theta.clone());
        Ok(Past { pool, start, weight, generation: self.generation })
    }

    /// What would be kept of these rows: to send elsewhere, or to unlearn with. Not before the design is fixed.
    ///
    /// # Errors
    /// As [`Learner::learn`].
    pub fn summarize(&self, rows: TaskRows<'_>) -> Result<TaskSummary> {
        let design = self.design.as_ref().ok_or(Error::NotLearned)?;
        // A summary on its own is a triangle with all its digits, whatever memory would make of it.
        let settings = Settings { memory: MemoryKind::Ledger, ..self.settings.clone() };
        let context = TaskContext { settings: &settings, ..self.context_with(design) };
        let mut passes = InMemory::new(context, rows)?;
        let first = passes.run(&self.problem.first_pass())?;
        let draft = self.fit(design, first, &mut passes, 1.0)?;
        let known = self.problem.method().outputs_with(&self.outputs, &draft.summary)?;
        match (known.classes(), self.outputs.classes()) {
            (Some(with), Some(before)) if with.len() > before.len() => Err(Error::UnknownClass {
                label: with.by_place()[before.len()].clone(),
                row: 0,
                known: listing(before.names().iter().map(String::as_str)),
            }),
            (Some(classes), _) => draft.summary.aligned(classes),
            _ => Ok(draft.summary),
        }
    }

    /// Puts a fitted task into memory. `design` fixes the learner's own if nothing has yet, or is the learner's own with inputs
    /// added at the end.
    ///
    /// # Errors
    /// When the name is taken, the task does not go with those before it, or memory has changed since it was fitted.
    pub fn insert(
        &mut self,
        name: &str,
        design: &Design,
        draft: impl Into<Draft>,
        weight: f64,
    ) -> Result<()> {
        let draft = draft.into();
        self.check_new(name, weight)?;
        if self.settings.prefer.arrival(draft.summary.head.samples, weight).is_none() {
            return Err(chosen_weights());
        }
        let accepted = self.accept(design, draft)?;
        // Nothing can fail from here on.
        let (summary, sample) = self.take_in(accepted, design);
        self.index.insert(name.to_owned(), self.records.len());
        self.records.push(TaskRecord::of(name, weight, &summary));
        self.remember(Arc::new(summary));
        self.generation += 1;
        self.hold_sample(self.records.len() - 1, sample.map(HeldSample::of));
        Ok(())
    }

    /// Checks that a fitted task goes with what was learned before; nothing is changed.
    fn accept(&self, design: &Design, draft: Draft) -> Result<Accepted> {
        let Draft { summary, settled, built_on, sample } = draft;
        if built_on.is_some_and(|generation| generation != self.generation) {
            return Err(Error::Unsupported {
                operation: "inserting this task",
                reason: "it was fitted with a memory that has changed since; fit it again"
                    .to_owned(),
            });
        }
        self.check_design(design)?;
        if summary.head.samples <= 0.0 || summary.quadratic.n() <= 0.0 {
            return Err(Error::Empty { what: "the task" });
        }
        if !(summary.quadratic.is_finite() && summary.head.samples.is_finite()) {
            return Err(Error::Bytes { reason: "it holds numbers that are not finite".to_owned() });
        }
        if summary.quadratic.width() != design.width() {
            return Err(shape("the summary", "columns", design.width(), summary.quadratic.width()));
        }
        let problem = settled.as_ref().unwrap_or(&self.problem);
        if problem.exactness() != Exactness::Exact && summary.head.exactness == Exactness::Exact {
            return Err(Error::Unsupported {
                operation: "learning this summary",
                reason: format!(
                    "it holds sums of squares, and {problem} looks at the rows of a task several times; give the rows"
                ),
            });
        }
        if !design.fills().is_empty() {
            self.check_fillable(design)?;
        }
        let outputs = problem.method().outputs_with(&self.outputs, &summary)?;
        let summary = match outputs.classes() {
            Some(classes) => summary.aligned(classes)?,
            None => summary,
        };
        let columns = problem.method().columns(&outputs);
        if summary.quadratic.targets() > columns {
            return Err(shape("the task", "targets", columns, summary.quadratic.targets()));
        }
        self.settings.ridge.check_targets(columns)?;
        let summary = match self.settings.store {
            StoredPrecision::F64 => summary,
            StoredPrecision::F32 => summary.in_single()?,
        };
        Ok(Accepted { summary, outputs, settled, sample })
    }

    /// Takes over what a task has settled: problem, outputs and design. Its summary is for the caller to keep.
    fn take_in(&mut self, accepted: Accepted, design: &Design) -> (TaskSummary, Option<RowSample>) {
        let Accepted { summary, outputs, settled, sample } = accepted;
        if let Some(problem) = settled {
            self.problem = problem;
        }
        self.settle();
        self.outputs = outputs;
        if self.design.as_ref() != Some(design) {
            self.design = Some(design.clone());
        }
        (summary, sample)
    }

    /// Learns a task summarized elsewhere under the learner's design; the first one may bring the design of the linear basis.
    ///
    /// # Errors
    /// As [`Learner::insert`].
    pub fn insert_summary(&mut self, name: &str, summary: TaskSummary, weight: f64) -> Result<()> {
        let design = match &self.design {
            Some(design) => design.clone(),
            None if self.settings.basis == crate::basis::Basis::default() => {
                let inputs = summary.quadratic.width() - usize::from(self.settings.intercept);
                Design::new(self.settings.basis.fix(&[], inputs)?, self.settings.intercept)
                    .with_clip(self.settings.clip)
            }
            None => {
                return Err(Error::Unsupported {
                    operation: "learning a summary first",
                    reason: "the basis is not fixed yet; learn a task with rows first".to_owned(),
                });
            }
        };
        self.insert(name, &design, summary, weight)
    }

    /// Adds a summary to memory, which folds where it has become too large to hold.
    fn remember(&mut self, task: Arc<TaskSummary>) {
        // A pool without this task, such as that of a fold, must not be taken for the pool of all.
        self.settle();
        self.memory = match (std::mem::take(&mut self.memory), self.settings.memory) {
            (Memory::Empty, MemoryKind::Ledger) => {
                Memory::Ledger { summaries: vec![Some(task)], base: None, pooled: 0 }
            }
            (Memory::Ledger { mut summaries, base, pooled }, _) => {
                summaries.push(Some(task));
                Memory::Ledger { summaries, base, pooled }
            }
            (Memory::Empty, MemoryKind::Compact) => Memory::Held(vec![task]),
            (Memory::Held(mut held), _) => {
                held.push(task);
                Memory::Held(held)
            }
            (Memory::Folded { base, mut waiting }, _) => {
                waiting.push(task);
                Memory::Folded { base, waiting }
            }
        };
        self.fold();
    }

    /// Folds compact memory where the summaries it holds have outgrown one triangle.
    fn fold(&mut self) {
        let Ok((m, p)) = self.shape() else { return };
        let full = |tasks: &[Arc<TaskSummary>]| {
            let numbers: usize = tasks.iter().map(|task| task.quadratic.numbers()).sum();
            !worth_holding(numbers, m, p)
        };
        let fold = match &self.memory {
            Memory::Held(held) => full(held),
            Memory::Folded { waiting, .. } => full(waiting),
            Memory::Empty | Memory::Ledger { .. } => false,
        };
        if fold && self.fold_in_place((m, p)) {
            return;
        }
        // Where sums leave the range of double precision the summaries stay, and asking for the solution reports it.
        if fold && let Ok(pool) = self.make_pool() {
            self.memory = Memory::Folded { base: pool.clone(), waiting: Vec::new() };
            self.pooled = Lazy::made(pool);
        }
    }

    /// Adds waiting tasks that are sums to a pool of sums, without a copy of it. Says whether it was done.
    fn fold_in_place(&mut self, shape: (usize, usize)) -> bool {
        let Memory::Folded { base, waiting } = &self.memory else { return false };
        let quadratics = || waiting.iter().map(|task| &task.quadratic).chain([&base.quadratic]);
        let alike = |s: &Summary| s.is_summed() && (s.width(), s.targets()) == shape;
        let plain = waiting.iter().all(|task| task.scatters.is_empty()) && base.scatters.is_empty();
        let first = self.records.len() - waiting.len();
        let Ok(shares) = self.arriving_shares(first) else { return false };
        let factors = waiting.iter().zip(&shares).map(|(task, u)| u / task.quadratic.n());
        // Far from overflow: nothing can fail once the pool is changed.
        let small = quadratics().all(Summary::is_small) && factors.clone().all(|f| f < 1e50);
        if !plain || !small || !quadratics().all(alike) {
            return false;
        }
        let Memory::Folded { base, waiting } = std::mem::take(&mut self.memory) else {
            unreachable!("looked at above")
        };
        let parts: Vec<Part<'_>> =
            waiting.iter().zip(&shares).map(|(task, share)| Part { task, share: *share }).collect();
        let fade = self.settings.prefer.fade(waiting.len());
        let pool = with_threads(self.settings.threads, || {
            Arc::unwrap_or_clone(base).add_tasks(fade, &parts).expect("far from overflow")
        });
        let pool = Arc::new(pool);
        self.memory = Memory::Folded { base: pool.clone(), waiting: Vec::new() };
        self.pooled = Lazy::made(pool);
        true
    }

    /// Keeps the pool and the tables that have been made, and forgets the solution: something is about to change.
    fn settle(&mut self) {
        self.keep_tables();
        self.forget_solution();
        let Some(pool) = self.pooled.take() else { return };
        match &mut self.memory {
            Memory::Ledger { summaries, base, pooled } => {
                *pooled = summaries.len();
                *base = Some(pool);
            }
            Memory::Folded { base, waiting } => {
                waiting.clear();
                *base = pool;
            }
            Memory::Held(_) | Memory::Empty => {}
        }
    }

    /// Forgets pool and solution, to be made again from the summaries.
    fn unsettle(&mut self) {
        self.keep_tables();
        self.forget_solution();
        self.pooled = Lazy::default();
        if let Memory::Ledger { base, pooled, .. } = &mut self.memory {
            *base = None;
            *pooled = 0;
        }
        self.generation += 1;
    }

    /// The same memory as if it had been one task: what another task would change then costs the same however many there are.
    /// Where single tasks decide about the model, a copy.
    ///
    /// # Errors
    /// As [`Learner::pool`].
    pub(crate) fn as_one_task(&self) -> Result<Self> {
        let apart = self.settings.ridge == Ridge::LeaveOneTaskOut
            || matches!(self.settings.prefer, Preference::Chosen(_));
        let Some(first) = self.records.first().filter(|_| !apart) else { return Ok(self.clone()) };
        let pool = self.shared_pool()?.clone();
        let mut record = first.clone();
        record.head.samples = pool.samples;
        record.head.calibration = None;
        Ok(Self {
            design: self.design.clone(),
            outputs: self.outputs.clone(),
            index: HashMap::from([(record.name.clone(), 0)]),
            records: vec![record],
            memory: Memory::Folded { base: pool.clone(), waiting: Vec::new() },
            generation: self.generation,
            pooled: Lazy::made(pool),
            ..Self::empty(self.problem.clone(), self.settings.clone())
        })
    }

    /// Gives the memory a pool that was made elsewhere from the same tasks.
    pub(crate) fn adopt_pool(&mut self, pool: Arc<Pool>) {
        self.keep_tables();
        self.forget_solution();
        self.pooled = Lazy::made(pool);
    }

    /// Forgets the solution and what was chosen for it.
    fn forget_solution(&mut self) {
        self.solved = Lazy::default();
        self.chosen = Lazy::default();
        self.filled = Lazy::default();
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.index.get(name).copied().ok_or_else(|| Error::UnknownTask {
            name: name.to_owned(),
            known: listing(self.names()),
        })
    }

    /// Refuses a name that is taken and a weight that is not positive.
    ///
    /// # Errors
    /// As said.
    pub fn check_new(&self, name: &str, weight: f64) -> Result<()> {
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

    /// Refuses a design that is neither the learner's own nor that with inputs added.
    fn check_design(&self, design: &Design) -> Result<()> {
        match &self.design {
            None => Ok(()),
            Some(own) if own == design || own.extends_to(design) => Ok(()),
            Some(_) => Err(Error::Mismatch {
                what: "what the basis was fixed to by its first rows",
                left: "in the learner".to_owned(),
                right: "in the task; summarize it again".to_owned(),
            }),
        }
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
        Ok(Design::new(map, self.settings.intercept).with_clip(self.settings.clip))
    }

    /// Fixes the design before the first task: what clients of a federation agree on.
    ///
    /// # Errors
    /// When something has been learned, or the design is not the one the settings ask for.
    pub fn fix_design(&mut self, design: Design) -> Result<()> {
        if !self.records.is_empty() {
            return Err(Error::Unsupported {
                operation: "fixing the design",
                reason: "something has been learned already; begin with an empty model".to_owned(),
            });
        }
        if design.map().basis() != &self.settings.basis
            || design.intercept() != self.settings.intercept
            || design.clip() != self.settings.clip
        {
            return Err(Error::State {
                reason: "the design is not the one the settings ask for".to_owned(),
            });
        }
        self.design = Some(design);
        Ok(())
    }

    /// Names all classes before the first task.
    ///
    /// # Errors
    /// When something has been learned, or the problem is one of values.
    pub fn fix_classes(&mut self, names: Vec<String>) -> Result<()> {
        if !self.records.is_empty() {
            return Err(Error::Unsupported {
                operation: "naming the classes",
                reason: "something has been learned already; begin with an empty model".to_owned(),
            });
        }
        self.problem = self.problem.clone().with_classes(names)?;
        self.outputs = self.problem.method().outputs();
        Ok(())
    }
}

fn shape_of(pool: &Pool) -> (usize, usize) {
    (pool.quadratic.width(), pool.quadratic.targets())
}

fn loaded<'a>(
    summaries: &'a [Option<Arc<TaskSummary>>],
    operation: &'static str,
) -> Result<Vec<&'a TaskSummary>> {
    let missing = summaries.iter().filter(|s| s.is_none()).count();
    if missing > 0 {
        return Err(Error::Unloaded { operation, missing });
    }
    Ok(summaries.iter().flatten().map(|task| &**task).collect())
}

fn weighed(records: &[TaskRecord]) -> Vec<Weighed<'_>> {
    let one = |record: &'_ TaskRecord| (record.head.samples, record.weight);
    records
        .iter()
        .map(|record| {
            let (samples, weight) = one(record);
            Weighed { name: &record.name, samples, weight }
        })
        .collect()
}

fn chosen_weights() -> Error {
    Error::Preference {
        reason: "the weights were chosen task by task, so a new task has none; prefer samples, equal or decay before \
                 learning on"
            .to_owned(),
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
