//! Least squares: the summary of a task is its loss.
//!
//! Paper: Algorithm 3 (`alg:linreg-cl`), eq. 4 (`eq:linreg-task-loss`), eq. 6 (`eq:theta-p-star`).

use super::pass::{Block, Partial, Pass, Passes, RowWork};
use super::response::{ClassRule, Response};
use super::tails::Tails;
use super::task::{Exactness, LeastLoss, TaskSummary};
use super::{
    AssessInput, Assessment, ClassList, Description, Draft, Method, Outputs, Past, Problem,
    SolveInput, Solved, TaskContext, classes_with, no_such_option, r_squared, values_with,
    wrong_pass,
};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::kernel::with_threads;
use crate::labels::order;
use crate::loss::Link;
use crate::rows::{Rows, Targets, TaskRows};
use crate::settings::{MemoryKind, Ridge, Settings, StoredPrecision};
use crate::solve::{Penalty, Solution, residual_in_rounding, ridge, solve};
use crate::summary::{Accumulator, Held, Summarizer, Summary, WIDE_DESIGN, pool};
use crate::theta::Theta;

/// Half the squared error of values, or of 0/1 class indicators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[doc(hidden)] // for lab
pub struct Squared {
    /// The classes; `None` for values.
    pub classes: Option<ClassList>,
}

const VALUES: Description = Description {
    title: "squared loss",
    meaning: "Loss is half the mean squared error, summed over targets.",
    axis: "loss",
    least: "least loss",
    stand_in: None,
    coefficients: None,
    timeline_gap: "The gap between the two lines is the mean forgetting; both are exact.",
    test_of: None,
    test_note: None,
    shrunk: None,
    table_note: None,
    no_errors: None,
    exact: true,
    has_zero: true,
    testable: true,
    least_squares_stand_in: false,
};

const INDICATORS: Description = Description {
    title: "squared loss on 0/1 classes",
    meaning: "Loss is half the mean squared error of the 0/1 class indicators.",
    coefficients: Some(
        "A coefficient says how the fitted 0/1 indicator of its class rises with the feature.",
    ),
    ..VALUES
};

impl Method for Squared {
    fn check(&self, _: &Settings) -> Result<()> {
        Ok(())
    }

    fn takes_ridges(&self) -> bool {
        self.classes.is_none()
    }

    fn is_shrunk(&self, settings: &Settings) -> bool {
        match &settings.ridge {
            Ridge::Fixed(ridge) => *ridge > 0.0,
            Ridge::PerTarget(list) => list.iter().all(|ridge| *ridge > 0.0),
            Ridge::Auto => true,
            Ridge::LeaveOneTaskOut => false,
        }
    }

    fn outputs(&self) -> Outputs {
        match &self.classes {
            None => Outputs::Values(0),
            Some(list) => Outputs::Classes(list.classes()),
        }
    }

    fn outputs_with(&self, known: &Outputs, task: &TaskSummary) -> Result<Outputs> {
        match &self.classes {
            None => values_with(known, task),
            Some(list) => classes_with(list, known, task),
        }
    }

    fn columns(&self, outputs: &Outputs) -> usize {
        match outputs {
            Outputs::Values(count) => *count,
            Outputs::Classes(classes) => classes.len(),
        }
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn description(&self) -> &'static Description {
        if self.classes.is_some() { &INDICATORS } else { &VALUES }
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn with_option(&self, name: &str, _: &str) -> Result<Problem> {
        Err(no_such_option("squared", name, "a ridge only"))
    }

    fn first_pass(&self) -> Pass {
        Pass::Summarize { sample: false }
    }

    fn fit(
        &self,
        context: &TaskContext<'_>,
        _: &Past,
        first: Partial,
        _: &mut dyn Passes,
    ) -> Result<Draft> {
        let mut task = as_kept(context, first.into_task()?);
        // Sums are merged before their least loss is looked for: that takes a decomposition.
        if !task.quadratic.is_summed() {
            task.head.least = LeastLoss::Exact(task.quadratic.min_loss());
        } else if task.quadratic.has_residual() {
            let least = with_threads(context.settings.threads, || task.quadratic.min_loss());
            task.head.least = LeastLoss::Exact(least);
        }
        Ok(task.into())
    }

    fn worker(&self, context: &TaskContext<'_>, pass: &Pass) -> Result<Box<dyn RowWork>> {
        match pass {
            Pass::Summarize { sample: false } => Ok(Box::new(Indicators::new(context))),
            _ => wrong_pass("squared"),
        }
    }

    fn solve(&self, input: &SolveInput<'_>) -> Result<Solved> {
        let (settings, quadratic) = (input.context.settings, &input.pool.quadratic);
        let standardize = settings.standardize || settings.ridge == Ridge::Auto;
        let (intercept, origin) = (settings.intercept, input.context.design.map().origin());
        let solution = match (&settings.ridge, &input.tasks) {
            (Ridge::Fixed(x), _) => {
                solve(quadratic, intercept, Penalty::new(*x, standardize)?, origin)?
            }
            (Ridge::PerTarget(list), _) => {
                solve(quadratic, intercept, Penalty::per_target(list, standardize)?, origin)?
            }
            (Ridge::LeaveOneTaskOut, Some(tasks)) if tasks.len() > 1 => {
                let folds = folds(quadratic, tasks)?;
                let folds: Vec<(Summary, &Summary)> =
                    folds.into_iter().zip(tasks).map(|(rest, (out, _))| (rest, &**out)).collect();
                ridge::solve_by_leaving_tasks_out(
                    quadratic,
                    &folds,
                    intercept,
                    standardize,
                    origin,
                )?
            }
            (Ridge::Auto | Ridge::LeaveOneTaskOut, _) => {
                let map = input.context.design.map();
                ridge::solve_by_gcv(quadratic, intercept, standardize, input.effective, map)?
            }
        };
        let present = quadratic.target_sums().iter().map(|sum| *sum > 0.0).collect();
        let response = self.response(present);
        Ok(Solved::new(solution, response))
    }

    fn response(&self, present: Vec<bool>) -> Response {
        match self.classes {
            None => Response::Values { link: Link::Identity, limits: Vec::new() },
            Some(_) => Response::Classes { rule: ClassRule::Clip, present, first_is_zero: false },
        }
    }

    fn assess(
        &self,
        input: &AssessInput<'_>,
        task: &TaskSummary,
        quadratic: &Summary,
    ) -> Result<Assessment> {
        let theta = &input.solved.solution.theta;
        if task.head.exactness != Exactness::Exact {
            // A diagonal bound that a client sent in the place of its loss.
            let bound = bound_of(task, quadratic, theta)?;
            return Ok(Assessment {
                least: task.head.least.value(),
                bound,
                ..Assessment::default()
            });
        }
        let forgetting = quadratic.forgetting(theta)?;
        let excess = quadratic.excess(theta)?;
        let errors: Vec<f64> =
            excess.iter().zip(quadratic.residual()).map(|(e, c)| e + c).collect();
        let accumulator = input.context.settings.accumulator_for(input.context.design);
        Ok(Assessment {
            loss: Some(quadratic.loss(theta)?),
            least: task.head.least.value(),
            forgetting: Some(forgetting),
            bound: Some(forgetting),
            r2: Some(r_squared(quadratic, theta, &errors, accumulator)),
            mse: Some(errors.iter().map(|e| e / quadratic.n()).collect()),
        })
    }

    fn follows(&self, input: &SolveInput<'_>, solution: &Solution) -> Result<bool> {
        let (intercept, origin) =
            (input.context.settings.intercept, input.context.design.map().origin());
        let (pooled, theta) = (&input.pool.quadratic, &solution.theta);
        if residual_in_rounding(pooled, intercept, &solution.penalty, origin, theta)? <= 1.0 {
            return Ok(true);
        }
        // A wide pool is solved as sums and stored as a triangle, which leaves out columns that depend on others: the two differ by more
        // than the rounding of a triangle, and predict the same.
        let accumulator = input.context.settings.accumulator_for(input.context.design);
        if accumulator == Accumulator::Qr || pooled.width() <= WIDE_DESIGN {
            return Ok(false);
        }
        let again = solve(pooled, intercept, solution.penalty.clone(), origin)?;
        predict_the_same(pooled, theta, &again.theta)
    }
}

/// Predictions of two models of one pool that differ by this many standard deviations of a target are the same.
const SAME: f64 = 1e-6;

fn predict_the_same(pooled: &Summary, a: &Theta, b: &Theta) -> Result<bool> {
    let mut apart = Theta::zeros(a.width(), a.targets());
    for k in 0..a.targets() {
        let pairs = a.column(k).iter().zip(b.column(k));
        apart.column_mut(k).iter_mut().zip(pairs).for_each(|(d, (a, b))| *d = a - b);
    }
    let spread = pooled.total_squares();
    // Without targets the excess is that of the difference alone.
    let none = pooled.retarget(
        pooled.targets(),
        pooled.n(),
        &vec![0.0; pooled.rank() * pooled.targets()],
        0.0,
    );
    let squares = none.excess(&apart)?;
    Ok(squares.iter().zip(&spread).all(|(d, s)| *d <= SAME * SAME * s))
}

/// The forgetting bound of a task whose quadratic is a bound: its value less the least loss.
pub(super) fn bound_of(
    task: &TaskSummary,
    quadratic: &Summary,
    theta: &Theta,
) -> Result<Option<f64>> {
    let Some(least) = task.head.least.value() else { return Ok(None) };
    Ok(Some((quadratic.loss(theta)? - least).max(0.0)))
}

/// For every task, the pool of all others.
fn folds(whole: &Summary, tasks: &[(std::borrow::Cow<'_, Summary>, f64)]) -> Result<Vec<Summary>> {
    let (m, p) = (whole.width(), whole.targets());
    (0..tasks.len())
        .map(|out| {
            let rest = tasks.iter().enumerate().filter(|(t, (_, share))| *t != out && *share > 0.0);
            pool(m, p, rest.map(|(_, (task, share))| (&**task, share / task.n())))
        })
        .collect()
}

/// Summarizes rows whose loss is quadratic: values, or classes as 0/1 indicators.
pub(super) struct Indicators {
    design: Design,
    known: Option<crate::labels::Classes>,
    open: bool,
    accumulator: Accumulator,
    /// Whether a ridge is always there that shrinks what the columns find.
    shrunk: bool,
    /// Whether summaries are kept as sums, and the ridge they are solved with.
    kept: Option<Held>,
    threads: usize,
    /// Whether values are chosen by that come from a portfolio, so that their tails matter; and those of the rows in the summarizer.
    portfolio: bool,
    tails: Option<Tails>,
    /// The summarizer in use, and the classes its targets stand for.
    current: Option<(Summarizer, Vec<String>)>,
    done: Partial,
    /// Rows taken, and those of them in summarizers that are closed, for messages that name a row.
    taken: u64,
    closed: u64,
}

/// Compact memory adds tasks up and keeps nothing of a single one, so sums of a wide design need not become triangles first.
fn kept_sums(context: &TaskContext<'_>) -> Option<Held> {
    let settings = context.settings;
    if settings.memory != MemoryKind::Compact || settings.store != StoredPrecision::F64 {
        return None;
    }
    let (ridge, standardize) = match (context.problem, &settings.ridge) {
        (Problem::Gaussian(gaussian), _) => (gaussian.least_shrinkage(), true),
        (_, Ridge::Fixed(ridge)) => (*ridge, settings.standardize),
        (_, Ridge::PerTarget(list)) => {
            (list.iter().copied().fold(f64::INFINITY, f64::min), settings.standardize)
        }
        (_, Ridge::Auto | Ridge::LeaveOneTaskOut) => (0.0, true),
    };
    Some(Held { ridge, standardize })
}

/// A task as memory keeps it: the sums of its parts, where they have been added up, become a triangle unless memory adds up sums.
pub(super) fn as_kept(context: &TaskContext<'_>, task: TaskSummary) -> TaskSummary {
    if kept_sums(context).is_some() && context.design.width() > WIDE_DESIGN {
        return task;
    }
    with_threads(context.settings.threads, || {
        let quadratic = task.quadratic.into_triangle();
        let scatters = task.scatters.into_iter().map(Summary::into_triangle).collect();
        TaskSummary { quadratic, scatters, ..task }
    })
}

impl Indicators {
    pub(super) fn new(context: &TaskContext<'_>) -> Self {
        let open = context.problem.class_list().is_none_or(|list| *list == ClassList::Open);
        Self {
            design: context.design.clone(),
            known: context.outputs.classes().cloned(),
            open,
            accumulator: context.settings.accumulator_for(context.design),
            shrunk: context.settings.shrinks(context.design),
            kept: kept_sums(context),
            threads: context.settings.threads,
            portfolio: context.design.map().basis().is_portfolio(),
            tails: None,
            current: None,
            done: Partial::default(),
            taken: 0,
            closed: 0,
        }
    }

    /// Adds rows; the classes of all of them are known to the summarizer in use, or a new one is begun.
    pub(super) fn add(&mut self, rows: TaskRows<'_>) -> Result<()> {
        self.take(rows, false)
    }

    /// Adds rows, the last ones or others.
    fn take(&mut self, rows: TaskRows<'_>, last: bool) -> Result<()> {
        let before = self.taken;
        self.taken += rows.len() as u64;
        let (codes, names) = match (rows.y, &self.known) {
            (Targets::Values(y), None) => {
                if self.current.is_none() {
                    self.begin(y.width(), Vec::new())?;
                }
                if self.portfolio {
                    let mut values = Vec::new();
                    y.append_to(&mut values);
                    let own = Tails::of(&values, y.width(), rows.weights);
                    self.tails = match &self.tails {
                        Some(before) => Some(before.plus(&own, 1.0)),
                        None => Some(own),
                    };
                }
                return self.summarize(rows, y, last);
            }
            (Targets::Classes { codes, names }, Some(_)) => {
                self.check_classes(codes, names).map_err(|e| e.shifted(before))?;
                (codes, names)
            }
            (Targets::Values(_), Some(_)) => return Err(expected("labels", "classes")),
            (Targets::Classes { .. }, None) => return Err(expected("numbers", "values")),
        };
        // All names are taken for classes of the task; those without rows are dropped at the end.
        let place = |classes: &[String], name: &String| {
            classes.binary_search_by(|class| order(class, name)).ok()
        };
        let fits = |classes: &[String]| names.iter().all(|name| place(classes, name).is_some());
        if self.current.as_ref().is_none_or(|(_, classes)| !fits(classes)) {
            self.close()?;
            self.closed = before;
            let mut own = names.to_vec();
            own.sort_by(|a, b| order(a, b));
            own.dedup();
            if own.is_empty() {
                return Ok(());
            }
            self.begin(own.len(), own)?;
        }
        let classes = self.current.as_ref().map_or(&[][..], |(_, classes)| classes);
        let places: Vec<u32> =
            names.iter().map(|name| place(classes, name).unwrap_or(0) as u32).collect();
        let own: Vec<u32> = codes.iter().map(|code| places[*code as usize]).collect();
        let indicators = Rows::indicators(&own, classes.len());
        self.summarize(rows, indicators, last)
    }

    /// Gives rows to the summarizer in use, which is closed if they are the last.
    fn summarize(&mut self, rows: TaskRows<'_>, y: Rows<'_>, last: bool) -> Result<()> {
        if !last {
            let (summarizer, _) = self.current.as_mut().expect("begun with the first rows");
            let added = summarizer.add(rows.x, y, rows.weights);
            return added.map_err(|e| e.shifted(self.closed));
        }
        self.close_by(rows.len(), |summarizer| summarizer.finish_with(rows.x, y, rows.weights))
    }

    /// Refuses the first row whose class is not among the fixed ones.
    pub(super) fn check_classes(&self, codes: &[u32], names: &[String]) -> Result<()> {
        match &self.known {
            Some(known) if !self.open => known.refuse_unknown(codes, names),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, targets: usize, classes: Vec<String>) -> Result<()> {
        let summarizer = Summarizer::new(self.design.clone(), targets, self.accumulator)?;
        let summarizer = summarizer.threads(self.threads).shrunk(self.shrunk).keep_sums(self.kept);
        self.current = Some((summarizer, classes));
        Ok(())
    }

    /// Merges what the summarizer in use has with what was done before.
    fn close(&mut self) -> Result<()> {
        self.close_by(0, Summarizer::finish)
    }

    /// The same, with so many last rows that it has not taken before.
    fn close_by(
        &mut self,
        last: usize,
        finish: impl FnOnce(Summarizer) -> Result<Summary>,
    ) -> Result<()> {
        let Some((summarizer, classes)) = self.current.take() else { return Ok(()) };
        let rows = Some(summarizer.rows() + last as u64);
        let quadratic = finish(summarizer).map_err(|e| e.shifted(self.closed))?;
        let task = if classes.is_empty() {
            let tails = self.tails.take().filter(Tails::is_finite);
            TaskSummary { tails, ..TaskSummary::exact(quadratic, rows) }
        } else {
            let kept: Vec<usize> =
                (0..classes.len()).filter(|&k| quadratic.target_sums()[k] > 0.0).collect();
            let names = kept.iter().map(|&k| classes[k].clone()).collect();
            TaskSummary::exact_classes(quadratic.choose_targets(&kept)?, names, rows)
        };
        let next = Partial { tasks: vec![task], ..Partial::default() };
        self.done = std::mem::take(&mut self.done).merge(next)?;
        Ok(())
    }

    /// The task summary of all rows; `None` where there were none.
    pub(super) fn finish(mut self) -> Result<Option<TaskSummary>> {
        self.close()?;
        Ok(self.done.tasks.pop())
    }

    /// The same with rows that come last, which are not copied.
    pub(super) fn finish_with(mut self, rows: TaskRows<'_>) -> Result<Option<TaskSummary>> {
        self.take(rows, true)?;
        self.finish()
    }
}

impl RowWork for Indicators {
    fn wants_design_rows(&self) -> bool {
        false
    }

    fn add(&mut self, block: Block<'_>) -> Result<()> {
        Indicators::add(self, block.rows)
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        summarized(Indicators::finish(*self)?)
    }

    fn finish_with(self: Box<Self>, block: Block<'_>) -> Result<Partial> {
        summarized(Indicators::finish_with(*self, block.rows)?)
    }
}

/// The answer to a pass that summarizes rows.
fn summarized(task: Option<TaskSummary>) -> Result<Partial> {
    match task {
        Some(task) => Ok(Partial { tasks: vec![task], ..Partial::default() }),
        None => Err(Error::Empty { what: "the task" }),
    }
}

/// The error for targets of the other kind.
pub(super) fn expected(wanted: &str, predicted: &str) -> Error {
    Error::Unsupported {
        operation: "learning these targets",
        reason: format!("this model predicts {predicted}; give {wanted}"),
    }
}
