//! Losses of one row, by quadratic bounds: `huber`, `poisson`, a user's own.
//!
//! A task is fitted alone by majorizing and minimizing in turn: every step goes downhill, whatever the start, because the quadratic
//! lies above the loss and touches it. Where a loss has a second derivative, that takes the place of the curvature of the bound
//! (Newton's method), and a step that goes uphill is halved. The bound at the minimum is what is kept; one task alone is then fitted
//! exactly.
//!
//! **The least loss.** For slopes `s_i` with `Σ w_i x_i s_i = 0`, convex duality gives `Σ w ℓ(η) ≥ −Σ w ℓ*(s)` for every parameter.
//! The slopes of the bound at its own minimum meet the condition; they are moved toward 0, which keeps it, until all are in
//! the domain of `ℓ*`. No solver has to be trusted for that.
//!
//! Paper: Algorithm 2 (`alg:mfcl_qub`), eq. 9 (`eq:qub_loss_ub`); the least loss is not in the paper.

use std::sync::Arc;

use super::moments::Moments;
use super::pass::{Block, Partial, Pass, Passes, RowWork};
use super::prior::{self, Prior, solve_penalized};
use super::response::Response;
use super::squared::{bound_of, expected};
use super::task::{Exactness, FitOutcome, LeastLoss, TaskHead, TaskSummary};
use super::{
    AssessInput, Assessment, Description, Draft, Method, Outputs, Past, Problem, SolveInput,
    Solved, TaskContext, no_such_option, values_with, wrong_pass,
};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::loss::{FirstTask, Link, Loss, Point};
use crate::rows::{Rows, Targets};
use crate::settings::{Ridge, Settings};
use crate::solve::candidates::Judged;
use crate::solve::{Penalty, Solution, solve};
use crate::summary::{Accumulator, Summarizer, Summary, dot};
use crate::theta::Theta;

/// Steps before giving up.
const LIMIT: usize = 500;
/// A step that moves fitted values by less than this share of their scale is the last.
const TOLERANCE: f64 = 1e-10;
/// The least spread of targets relative to their size: of less, too few digits are left.
const SPREAD: f64 = 1e-4;
/// The least second derivative relative to the curvature of the bound: Newton's steps stay finite.
const FLATTEST: f64 = 1e-9;
/// An objective that rises by less than this share of its terms has not risen.
const ROUNDING: f64 = 1e-12;
/// The hold on the intercept of a rate in the fit of one task, on the sum of losses: where all counts are 0, the intercept stays
/// finite, and elsewhere it is too small to matter.
const RATE_HOLD: f64 = 1e-8;
/// Rows whose moments are taken at a time.
const BLOCK: usize = 512;
/// Shares of the slopes that are tried for the certificate. Those next to 1 are for slopes at the edge of the domain, as all of
/// Huber's outliers have, that rounding or a last step has moved across it.
const SHARES: [f64; 8] = [1.0, 1.0 - 1e-9, 1.0 - 1e-6, 0.999, 0.99, 0.9, 0.5, 0.0];
/// Bins of the histogram of residuals for each factor of two, and the exponents it covers.
const BINS: i32 = 16;
const EXPONENTS: i32 = 1024;
/// How often the scale of residuals is measured again at a better fit.
const ROUNDS: usize = 3;
/// From the median of absolute residuals to the standard deviation of normal ones.
const NORMAL: f64 = 1.482_602_218_505_602;

const DESCRIPTION: Description = Description {
    title: "loss bounded by quadratics",
    meaning: "The summaries bound the loss from above; what is shown are these bounds.",
    axis: "bound on the loss",
    least: "least (certified)",
    stand_in: Some("These are losses of the quadratic upper bounds, not of the loss itself."),
    coefficients: None,
    timeline_gap: "The gap between the two lines bounds the mean forgetting from above.",
    test_of: None,
    test_note: None,
    shrunk: None,
    table_note: Some(
        "– : the loss is known from its bounds alone; `pmfcl score` measures it on rows",
    ),
    no_errors: Some("Bounds say nothing about noise, so there are no standard errors."),
    exact: false,
    has_zero: true,
    testable: false,
    least_squares_stand_in: false,
};

/// The same for a value that is the exponential of its linear predictor.
const RATES: Description = Description {
    coefficients: Some(
        "A coefficient says how the logarithm of the prediction rises with the feature.",
    ),
    ..DESCRIPTION
};

/// A loss of one row's prediction and target.
#[derive(Debug, Clone)]
#[doc(hidden)] // for tests
pub struct RowWise {
    loss: Arc<dyn Loss>,
    /// The spec up to its parameters.
    name: String,
}

impl PartialEq for RowWise {
    fn eq(&self, other: &Self) -> bool {
        self.spec() == other.spec()
    }
}

impl RowWise {
    /// The problem of a loss.
    pub fn new(loss: Arc<dyn Loss>) -> Self {
        let spec = loss.spec();
        let name = spec.split(':').next().unwrap_or_default().to_owned();
        Self { loss, name }
    }

    /// The loss.
    pub fn loss(&self) -> &dyn Loss {
        &*self.loss
    }

    /// The loss, to keep.
    pub(super) fn shared(&self) -> Arc<dyn Loss> {
        self.loss.clone()
    }

    /// Name and parameters.
    pub fn spec(&self) -> String {
        self.loss.spec()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn prior(context: &TaskContext<'_>, moments: &Moments) -> Prior {
        Prior::new(context.settings, context.design, moments).with_free_intercept()
    }

    fn prior_of_pool(input: &SolveInput<'_>) -> Result<Prior> {
        Ok(prior::of_pool(&input.context, input.pool)?.with_free_intercept())
    }

    /// Minimises the loss of a task plus its penalty; returns the last bound and how large the last step was.
    fn minimize(
        loss: &Arc<dyn Loss>,
        task: &RowWiseTask<'_>,
        passes: &mut dyn Passes,
    ) -> Result<(Theta, TaskSummary, f64)> {
        let RowWiseTask { penalty, intercept, .. } = *task;
        let mut theta = task.start.clone();
        let mut step = f64::INFINITY;
        // Where the last step started, and the objective there.
        let mut last: Option<(Theta, f64)> = None;
        for _ in 0..LIMIT {
            let model = majorized(loss, &theta, true, passes)?.quadratic;
            let (value, size) = objective(&model, penalty, &theta)?;
            let next = match last {
                Some((from, before)) if value > before + ROUNDING * size || value.is_nan() => {
                    let half = halfway(&from, &theta);
                    last = Some((from, before));
                    half
                }
                _ => {
                    last = Some((theta.clone(), value));
                    solve_penalized(&model, penalty, intercept)?.theta
                }
            };
            step = task.moved(&theta, &next);
            theta = next;
            if step <= TOLERANCE {
                break;
            }
        }
        let bound = majorized(loss, &theta, false, passes)?;
        Ok((theta, bound, step))
    }

    /// The loss with what it leaves open settled by this task, where something is.
    fn settle(
        &self,
        range: [f64; 2],
        task: &RowWiseTask<'_>,
        passes: &mut dyn Passes,
    ) -> Result<Option<Arc<dyn Loss>>> {
        if !self.loss.needs_scale() {
            return self.loss.settle(&FirstTask { range, scale: None });
        }
        let mut loss = self.loss.clone();
        for _ in 0..ROUNDS {
            let (theta, ..) = Self::minimize(&loss, task, passes)?;
            let counts = passes.run(&Pass::Residuals(theta))?.sums;
            let scale = Some(NORMAL * median(&counts));
            loss = match self.loss.settle(&FirstTask { range, scale })? {
                Some(settled) => settled,
                None => return Ok(None),
            };
        }
        Ok(Some(loss))
    }
}

/// What a task is fitted under.
struct RowWiseTask<'a> {
    penalty: &'a [f64],
    intercept: bool,
    start: Theta,
    moments: &'a Moments,
    /// The scale of fitted values.
    scale: f64,
}

impl RowWiseTask<'_> {
    /// How far fitted values move between two sets of parameters, as a share of their scale.
    fn moved(&self, from: &Theta, to: &Theta) -> f64 {
        let size = |k: usize| {
            let apart: Vec<f64> =
                from.column(k).iter().zip(to.column(k)).map(|(a, b)| b - a).collect();
            self.moments.size_of(&apart)
        };
        (0..from.targets()).map(size).fold(0.0, f64::max) / self.scale
    }
}

/// The scale of the linear predictors of targets in this range.
fn scale_of(range: [f64; 2], link: Link) -> f64 {
    let spread = (range[1] - range[0]).max(SPREAD * range[0].abs().max(range[1].abs()));
    if link == Link::Exp || spread == 0.0 { 1.0 } else { spread }
}

/// A loss with its second derivative, where it has one, in the place of the curvature of its bound.
#[derive(Debug)]
struct Local(Arc<dyn Loss>);

impl Loss for Local {
    fn spec(&self) -> String {
        self.0.spec()
    }

    fn at(&self, eta: &[f64], y: &[f64], gradient: &mut [f64]) -> Point {
        let point = self.0.at(eta, y, gradient);
        let curvature = match self.0.second_derivative(eta, y) {
            Some(derivative) => derivative.max(FLATTEST * point.curvature),
            None => point.curvature,
        };
        Point { curvature, ..point }
    }

    fn guaranteed(&self) -> bool {
        false
    }
}

/// The penalized loss at the anchor of a quadratic, and the size of the terms it is made of.
fn objective(model: &Summary, penalty: &[f64], theta: &Theta) -> Result<(f64, f64)> {
    let squares: f64 = model.excess(theta)?.iter().sum();
    let rest: f64 = model.residual().iter().sum();
    let columns = (0..theta.targets()).map(|k| theta.column(k));
    let held: f64 =
        columns.map(|c| c.iter().zip(penalty).map(|(t, p)| p * t * t).sum::<f64>()).sum();
    Ok(((squares + rest + held) / 2.0, (squares + rest.abs() + held) / 2.0))
}

fn halfway(from: &Theta, to: &Theta) -> Theta {
    let mut half = from.clone();
    half.cells_mut().iter_mut().zip(to.cells()).for_each(|(h, t)| *h = f64::midpoint(*h, *t));
    half
}

/// The quadratic bound of the task at `theta`; with `newton` by second derivatives.
fn majorized(
    loss: &Arc<dyn Loss>,
    theta: &Theta,
    newton: bool,
    passes: &mut dyn Passes,
) -> Result<TaskSummary> {
    let (loss, theta) = (loss.clone(), theta.clone());
    passes.run(&Pass::Majorize { loss, theta, newton })?.into_task()
}

/// A certified lower bound of the least mean loss; `None` where the loss has no conjugate.
fn certified(
    loss: &Arc<dyn Loss>,
    theta: &Theta,
    bound: &Summary,
    intercept: bool,
    passes: &mut dyn Passes,
) -> Result<LeastLoss> {
    if loss.conjugate(0.0, 1.0).is_none() {
        return Ok(LeastLoss::Unknown);
    }
    let lowest = solve(bound, intercept, Penalty::NONE, None)?.theta;
    let mut step = lowest;
    step.cells_mut().iter_mut().zip(theta.cells()).for_each(|(s, t)| *s -= t);
    let pass = Pass::CertifyRows { loss: loss.clone(), theta: theta.clone(), step: step.clone() };
    let sums = passes.run(&pass)?.sums;
    let (outside, rest) = sums.split_at(SHARES.len());
    let (values, off) = rest.split_at(SHARES.len());
    let reach = theta.cells().iter().zip(step.cells()).map(|(t, s)| t.abs() + s.abs());
    let slack: f64 = off.iter().zip(reach).map(|(o, r)| 2.0 * o.abs() * r).sum();
    let of = |i: usize| -values[i] - SHARES[i] * slack;
    let best = (0..SHARES.len()).filter(|&i| outside[i] == 0.0).map(of).fold(f64::NAN, f64::max);
    Ok(if best.is_finite() { LeastLoss::Certified(best / bound.n()) } else { LeastLoss::Unknown })
}

impl Method for RowWise {
    fn check(&self, settings: &Settings) -> Result<()> {
        prior::check(settings, self.name())?;
        if matches!(settings.ridge, Ridge::Fixed(x) if x <= 0.0) {
            return Err(Error::Unsupported {
                operation: "a ridge of 0",
                reason: format!(
                    "the {} loss need not have a minimizer without one; give a ridge above 0, or auto",
                    self.name()
                ),
            });
        }
        Ok(())
    }

    fn outputs(&self) -> Outputs {
        Outputs::Values(0)
    }

    fn outputs_with(&self, known: &Outputs, task: &TaskSummary) -> Result<Outputs> {
        values_with(known, task)
    }

    fn columns(&self, outputs: &Outputs) -> usize {
        match outputs {
            Outputs::Values(count) => *count,
            Outputs::Classes(classes) => classes.len(),
        }
    }

    fn refuses_target(&self, y: f64) -> Option<&'static str> {
        self.loss.refuses(y)
    }

    fn exactness(&self) -> Exactness {
        Exactness::Bound { guaranteed: self.loss.guaranteed() }
    }

    fn description(&self) -> &'static Description {
        match self.loss.link() {
            Link::Identity => &DESCRIPTION,
            Link::Exp => &RATES,
        }
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn with_option(&self, name: &str, _: &str) -> Result<Problem> {
        Err(no_such_option(&self.spec(), name, "a ridge only"))
    }

    fn first_pass(&self) -> Pass {
        Pass::Look
    }

    fn looks_again(&self) -> bool {
        true
    }

    fn fit(
        &self,
        context: &TaskContext<'_>,
        _: &Past,
        first: Partial,
        passes: &mut dyn Passes,
    ) -> Result<Draft> {
        let range = first.range.ok_or(Error::Empty { what: "the task" })?;
        let look = first.into_task()?;
        let (m, n) = (context.design.width(), look.head.samples);
        let moments = look.moments.ok_or(Error::Empty { what: "the task" })?;
        let intercept = context.design.intercept();
        let mut penalty = Self::prior(context, &moments).penalty(n, n);
        if intercept && self.loss.link() == Link::Exp {
            penalty[0] = RATE_HOLD;
        }
        let task = RowWiseTask {
            penalty: &penalty,
            intercept,
            start: Theta::zeros(m, look.quadratic.targets()),
            moments: &moments,
            scale: scale_of(range, self.loss.link()),
        };
        let settled = self.settle(range, &task, passes)?;
        let loss = settled.as_ref().unwrap_or(&self.loss);
        if let Some((value, must)) =
            range.iter().find_map(|y| loss.refuses(*y).map(|must| (*y, must)))
        {
            return Err(Error::Range { what: "a target", value, must });
        }
        let (theta, bound, step) = Self::minimize(loss, &task, passes)?;
        let least = certified(loss, &theta, &bound.quadratic, intercept, passes)?;
        let outcome = if step <= TOLERANCE {
            FitOutcome::Converged
        } else {
            FitOutcome::Stopped { gap: step }
        };
        let exactness = Exactness::Bound { guaranteed: loss.guaranteed() };
        let head = TaskHead { least, exactness, outcome, ..look.head };
        let summary = TaskSummary { head, moments: Some(moments), ..bound };
        let settled = settled.map(|loss| Problem::RowWise(Self::new(loss)));
        Ok(Draft { settled, ..Draft::from(summary) })
    }

    fn worker(&self, context: &TaskContext<'_>, pass: &Pass) -> Result<Box<dyn RowWork>> {
        let m = context.design.width();
        Ok(match pass {
            Pass::Look => Box::new(Look::new(context, Some(self.loss.clone()))),
            Pass::Majorize { loss, theta, newton } => {
                let design = Design::linear(m, false)?;
                let targets = theta.targets();
                let loss: Arc<dyn Loss> =
                    if *newton { Arc::new(Local(loss.clone())) } else { loss.clone() };
                Box::new(Majorize {
                    summarizer: Summarizer::new(design, targets, Accumulator::Qr)?
                        .threads(context.settings.threads),
                    loss,
                    theta: theta.clone(),
                    n: 0.0,
                    offset: 0.0,
                })
            }
            Pass::Residuals(theta) => Box::new(Residuals {
                theta: theta.clone(),
                counts: vec![0.0; (2 * EXPONENTS * BINS) as usize],
            }),
            Pass::CertifyRows { loss, theta, step } => Box::new(Certify {
                loss: loss.clone(),
                theta: theta.clone(),
                step: step.clone(),
                sums: vec![0.0; 2 * SHARES.len() + m * theta.targets()],
            }),
            _ => return wrong_pass(self.name()),
        })
    }

    fn solve(&self, input: &SolveInput<'_>) -> Result<Solved> {
        let pool = input.pool;
        let prior = Self::prior_of_pool(input)?;
        let solution = prior.solve(&pool.quadratic, pool.samples)?;
        let response = self.response(Vec::new());
        Ok(Solved::new(solution, response))
    }

    fn judged(&self) -> Judged {
        // The exponential link stands for a likelihood that leaves out what does not depend on the prediction.
        match self.loss.link() {
            Link::Exp => Judged::Likelihood,
            Link::Identity => Judged::Bound,
        }
    }

    fn response(&self, _: Vec<bool>) -> Response {
        Response::Values { link: self.loss.link(), limits: Vec::new() }
    }

    fn assess(
        &self,
        input: &AssessInput<'_>,
        task: &TaskSummary,
        quadratic: &Summary,
    ) -> Result<Assessment> {
        let bound = bound_of(task, quadratic, &input.solved.solution.theta)?;
        Ok(Assessment { least: task.head.least.value(), bound, ..Assessment::default() })
    }

    fn follows(&self, input: &SolveInput<'_>, solution: &Solution) -> Result<bool> {
        prior::follows(&Self::prior_of_pool(input)?, input.pool, solution)
    }
}

/// Moments, counts and the range of targets: the first pass of every loss that looks again.
pub(super) struct Look {
    design: Design,
    loss: Option<Arc<dyn Loss>>,
    moments: Option<Moments>,
    samples: f64,
    rows: u64,
    /// Targets; 1 where classes are counted instead.
    targets: usize,
    classes: Vec<String>,
    counts: Vec<f64>,
    range: Option<[f64; 2]>,
}

impl Look {
    pub(super) fn new(context: &TaskContext<'_>, loss: Option<Arc<dyn Loss>>) -> Self {
        Self {
            design: context.design.clone(),
            loss,
            moments: None,
            samples: 0.0,
            rows: 0,
            targets: 1,
            classes: Vec::new(),
            counts: Vec::new(),
            range: None,
        }
    }

    fn look_at_values(&mut self, y: &Rows<'_>) -> Result<()> {
        let Some(loss) = &self.loss else { return Err(expected("labels", "classes")) };
        self.targets = y.width();
        for i in 0..y.len() {
            for column in 0..y.width() {
                let (value, row) = (y.get(i, column), self.rows + i as u64);
                if !value.is_finite() {
                    return Err(Error::NotFinite { what: "target", row, column, value });
                }
                if let Some(must) = loss.refuses(value) {
                    return Err(Error::Target { row, column, value, must });
                }
                let [low, high] = self.range.unwrap_or([value, value]);
                self.range = Some([low.min(value), high.max(value)]);
            }
        }
        Ok(())
    }

    fn count(&mut self, codes: &[u32], names: &[String], weights: Option<&[f64]>) -> Result<()> {
        if self.loss.is_some() {
            return Err(expected("numbers", "values"));
        }
        let mut places = vec![usize::MAX; names.len()];
        for (i, &code) in codes.iter().enumerate() {
            let place = &mut places[code as usize];
            if *place == usize::MAX {
                let name = &names[code as usize];
                *place = self.classes.iter().position(|c| c == name).unwrap_or_else(|| {
                    self.classes.push(name.clone());
                    self.counts.push(0.0);
                    self.classes.len() - 1
                });
            }
            self.counts[*place] += weights.map_or(1.0, |w| w[i]);
        }
        Ok(())
    }
}

impl RowWork for Look {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let (m, skip) = (self.design.width(), usize::from(self.design.intercept()));
        let rows = block.rows;
        match rows.y {
            Targets::Values(y) => self.look_at_values(&y)?,
            Targets::Classes { codes, names } => self.count(codes, names, rows.weights)?,
        }
        let mut from = 0;
        while from < rows.len() {
            let to = (from + BLOCK).min(rows.len());
            let weights = rows.weights.map(|w| &w[from..to]);
            let own = Moments::of(&block.cells[from * m..to * m], m, skip, weights);
            self.samples += own.n();
            self.moments = Some(match &self.moments {
                Some(sum) => sum.plus(&own, 1.0),
                None => own,
            });
            from = to;
        }
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        if self.rows == 0 {
            return Err(Error::Empty { what: "the task" });
        }
        let quadratic = Summary::empty(self.design.width(), self.targets);
        let head = TaskHead {
            samples: self.samples,
            rows: Some(self.rows),
            counts: self.counts,
            least: LeastLoss::Unknown,
            exactness: Exactness::Bound { guaranteed: false },
            outcome: FitOutcome::Converged,
            calibration: None,
            content: None,
        };
        let (moments, classes) = (self.moments, self.classes);
        let (scatters, tails, new_inputs) = (Vec::new(), None, Vec::new());
        let task = TaskSummary { head, quadratic, moments, scatters, tails, classes, new_inputs };
        Ok(Partial { tasks: vec![task], range: self.range, ..Partial::default() })
    }
}

/// What a pass over values does with each row: predictors, targets and weight.
fn each_value_row(
    block: &Block<'_>,
    theta: &Theta,
    mut f: impl FnMut(usize, &[f64], &[f64], &[f64], f64) -> Result<()>,
) -> Result<()> {
    let Targets::Values(values) = block.rows.y else { return Err(expected("numbers", "values")) };
    let (m, p) = (theta.width(), theta.targets());
    let (mut eta, mut y) = (vec![0.0; p], vec![0.0; p]);
    for (i, row) in block.cells.chunks_exact(m).enumerate() {
        for k in 0..p {
            eta[k] = dot(row, theta.column(k));
            y[k] = values.get(i, k);
        }
        f(i, row, &eta, &y, block.rows.weights.map_or(1.0, |w| w[i]))?;
    }
    Ok(())
}

/// The quadratic bound of a row-wise loss at an anchor.
struct Majorize {
    summarizer: Summarizer,
    loss: Arc<dyn Loss>,
    theta: Theta,
    n: f64,
    offset: f64,
}

impl RowWork for Majorize {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let p = self.theta.targets();
        let mut working = Vec::with_capacity(block.rows.len() * p);
        let mut weights = Vec::with_capacity(block.rows.len());
        let mut gradient = vec![0.0; p];
        let Self { loss, theta, n, offset, .. } = self;
        each_value_row(&block, theta, |_, _, eta, y, w| {
            let point = loss.at(eta, y, &mut gradient);
            if !(point.curvature > 0.0 && point.value.is_finite()) {
                return Err(Error::Range {
                    what: "the loss or its curvature",
                    value: if point.curvature > 0.0 { point.value } else { point.curvature },
                    must: "finite and positive at every row",
                });
            }
            *n += w;
            let squares: f64 = gradient.iter().map(|g| g * g).sum();
            *offset += w * (point.value - squares / (2.0 * point.curvature));
            working.extend(eta.iter().zip(&gradient).map(|(e, g)| e - g / point.curvature));
            weights.push(w * point.curvature);
            Ok(())
        })?;
        let x = Rows::new(block.cells, self.theta.width())?;
        self.summarizer.add(x, Rows::new(&working, p)?, Some(&weights))
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let mut quadratic = self.summarizer.finish()?;
        quadratic.recount(self.n, 2.0 * self.offset);
        let mut task = TaskSummary::exact(quadratic, None);
        task.head.least = LeastLoss::Unknown;
        task.head.exactness = Exactness::Bound { guaranteed: self.loss.guaranteed() };
        Ok(Partial { tasks: vec![task], ..Partial::default() })
    }
}

/// Weights of residuals by their size, in bins of equal ratio.
struct Residuals {
    theta: Theta,
    counts: Vec<f64>,
}

impl RowWork for Residuals {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let Self { theta, counts } = self;
        each_value_row(&block, theta, |_, _, eta, y, w| {
            for (eta, y) in eta.iter().zip(y) {
                let size = (eta - y).abs();
                let bin = (size.log2() * f64::from(BINS)).floor() as i32 + EXPONENTS * BINS;
                counts[bin.clamp(0, 2 * EXPONENTS * BINS - 1) as usize] += w;
            }
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial { sums: self.counts, ..Partial::default() })
    }
}

/// The median of the sizes a histogram counts, by its share of the bin it is in; 0 where most residuals are.
fn median(counts: &[f64]) -> f64 {
    let half = counts.iter().sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (bin, count) in counts.iter().enumerate() {
        if *count > 0.0 && below + count >= half {
            if bin == 0 {
                return 0.0;
            }
            let exponent = bin as f64 - f64::from(EXPONENTS * BINS) + (half - below) / count;
            return (exponent / f64::from(BINS)).exp2();
        }
        below += count;
    }
    0.0
}

/// Sums of the conjugate at slopes moved along a step, for several shares of the slopes, and what the condition on them is off by.
struct Certify {
    loss: Arc<dyn Loss>,
    theta: Theta,
    step: Theta,
    sums: Vec<f64>,
}

impl RowWork for Certify {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let (m, p) = (self.theta.width(), self.theta.targets());
        let mut gradient = vec![0.0; p];
        let Self { loss, theta, step, sums } = self;
        each_value_row(&block, theta, |_, row, eta, y, w| {
            let curvature = loss.at(eta, y, &mut gradient).curvature;
            for k in 0..p {
                let slope = gradient[k] + curvature * dot(row, step.column(k));
                for (i, share) in SHARES.iter().enumerate() {
                    match loss.conjugate(share * slope, y[k]) {
                        Some(value) if value.is_finite() => sums[SHARES.len() + i] += w * value,
                        _ => sums[i] += 1.0,
                    }
                }
                let off = &mut sums[2 * SHARES.len() + k * m..][..m];
                off.iter_mut().zip(row).for_each(|(o, x)| *o += w * slope * x);
            }
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial { sums: self.sums, ..Partial::default() })
    }
}
