//! The temperature of gaussian probabilities.
//!
//! Real data are not normal, and covariances of few rows are too sure of themselves: discriminants rank classes well but are too
//! large, and their softmax is overconfident. Dividing them by a temperature repairs that and changes no predicted class. One
//! number for all rows is not enough: rows far from every class mean are the ones the model knows least about. So
//!
//! ```text
//! T(x) = T (c + r)/(c + 1)        r = min_k d_k²/m_eff,   d_k² = (x−μ_k)ᵀ Σ⁻¹ (x−μ_k),   m_eff = tr(Σ⁻¹S)(N−K)/N
//! ```
//!
//! with `r` near 1 for a row like those learned; `c = ∞` is a plain temperature.
//!
//! **Measured by leave-one-out.** At the next solution after a task was learned, a sample of its rows ([`crate::problem::RowSample`]) is
//! scored under the model without the row, and then discarded. With the diagonal of `Σ`, its divisor and `s` held, leaving out a row of class
//! `y` and weight `w ≤ 1` changes the scatter by rank one, so one factorisation serves all rows. With `n_y` the weight of the class,
//!
//! ```text
//! f = n_y/(n_y − w)    a = (1−s) w f/(N−K)    h = d_y²    g = 1/(1 − a h)    b_k = ½(h + d_k² − ‖μ_y−μ_k‖²_{Σ⁻¹})
//! d_y² ← f² h g        d_k² ← d_k² + a g b_k²    (k ≠ y)
//! ```
//!
//! Rows of a class that has no other row are not scored. What is kept is a table of log-losses at 7 values of `c` and 29 of `T`,
//! scaled from the sample to the samples of the task. With it go the number of rows at 130 steps of the distance `r`, from which
//! the novelty of a row follows ([`crate::problem::Novelty`]), and how well the rows were predicted at the `c` and `T` chosen
//! then ([`crate::problem::Evaluation`]): 3 kB per task.
//!
//! **Chosen** from `Σ_t (N_t/N) table_t`, `N_t` the samples of the pool when task `t` was measured, is what departs from the textbook by
//! no more than the rows show. Values of `c` and `T` whose log-loss is within 3 of the least are those that the rows do not reject:
//! half the 95 % point of χ² with two degrees of freedom. Among them the largest `c` is taken, and with it the `T` nearest to 1.
//! Truly normal data keep `T = 1` in this way, few rows leave it only where their evidence is clear, and many rows have so narrow a region
//! that it costs next to nothing. A sample that stands for more rows than it has is no more evidence than its own rows, so
//! the 3 grows in proportion.
//!
//! What a task adds depends on what had been learned when it was measured. Where classes were added since, it is measured again if the
//! sample is still in memory, and else corrected ([`super::normal`]). So `c` and `T`, and with them the probabilities, depend on
//! the order of tasks; classes, discriminants, merging and removal remain exact. [`super::Calibrate::Off`] gives the textbook's probabilities.

use std::borrow::Cow;

use faer::Mat;

use super::class_covariance::{ClassModel, PULLS};
use super::discriminants::Discriminants;
use super::normal::NormalRows;
use crate::basis::Design;
use crate::error::Result;
use crate::kernel;
use crate::labels::Classes;
use crate::problem::evaluate::{self, Evaluation};
use crate::problem::response::{DISTANCES, Densities, Novelty, softmax};
use crate::problem::sample::{MOST_ROWS, RowSample};
use crate::problem::task::{CalibrationTable, NormalLosses};
use crate::rows::Rows;
use crate::summary::Summary;

/// Values of `c`.
const SHAPES: [f64; 7] = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, f64::INFINITY];
/// Temperatures tried: `2^{(g − 4)/4}`, from ½ to 64.
const TEMPERATURES: usize = 29;
/// Position of the temperature 1.
const ONE: usize = 4;
/// Numbers of a table.
const CELLS: usize = SHAPES.len() * TEMPERATURES;
/// Numbers of a table that add up: log-losses, distances, and how well rows were predicted.
pub(crate) const ADDITIVE: usize = CELLS + DISTANCES + evaluate::NUMBERS;
/// Temperatures of the tables of model files of layout 1, from ½ to 32.
const OLD_TEMPERATURES: usize = 25;
/// Log-losses this far above the least are not rejected by the rows: half the 95 % point of χ² with two degrees of freedom, `c` and `T`.
const NOT_REJECTED: f64 = 2.996;
/// The same with three degrees of freedom, where `v₀` is chosen too.
const NOT_REJECTED_OF_CLASSES: f64 = 3.907;
/// Most of the log-loss measured that the share of probability divided among all classes may cost.
const FLOOR_COST: f64 = 0.01;
/// A class of which less than this share is left has no other row.
const LEAST_REST: f64 = 1e-9;
/// Rows scored at a time.
const BLOCK: usize = 256;
/// Rows whose log-losses one thread adds up.
const SHARE: usize = 32;
/// Numbers of a table where classes have covariances of their own.
const CLASS_CELLS: usize = PULLS.len() * CELLS;
/// Most operations that measuring a task may take where classes have covariances of their own; of more rows the first are scored.
const MOST_OPERATIONS: f64 = 2e10;
/// `1 − a h` is at least this: a row without which `Σ` is singular is infinitely far, and scored as very far.
pub(super) const LEAST_LEFT: f64 = 1e-10;

fn temperature(g: f64) -> f64 {
    2f64.powf((g - ONE as f64) / 4.0)
}

/// How discriminants become probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// `T`
    pub(super) temperature: f64,
    /// `c`
    pub(super) shape: f64,
    /// `v₀`; infinite where all classes share one covariance.
    pub(super) pull: f64,
    /// The share of probability that is divided equally among the classes.
    pub(super) floor: f64,
}

impl Choice {
    /// `(c + r)/(c + 1)`
    fn stretch(self, r: f64) -> f64 {
        if self.shape.is_finite() { (self.shape + r) / (self.shape + 1.0) } else { 1.0 }
    }
}

/// The share of probability that is divided equally among the classes, so that no log-loss is infinite, where nothing was measured.
pub(super) fn floor(samples: f64) -> f64 {
    (samples + 1.0).powi(-2)
}

/// The same where rows had a mean log-loss of `loss`. The share costs every row as much, so that it must be small against the log-loss of
/// classes that are far apart: `1/(N + 1)²` is 5 % of a log-loss of 0.005 at 60 rows. But N rows are no evidence for any certainty.
fn floor_below(loss: f64, samples: f64) -> f64 {
    (FLOOR_COST * loss).clamp(floor(samples).powi(2), floor(samples))
}

/// Numbers of a table.
fn cells(of_classes: bool) -> usize {
    if of_classes { CLASS_CELLS } else { CELLS }
}

/// What the tables say; `None` where there is none.
pub(super) fn choose(
    tables: &[&CalibrationTable],
    samples: f64,
    of_classes: bool,
) -> Option<Choice> {
    let cells = cells(of_classes);
    let mut sums = vec![0.0; cells];
    let (mut found, mut rows, mut scored) = (false, 0.0, 0.0);
    for table in tables.iter().filter(|table| table.losses.len() == cells) {
        found = true;
        let share = table.samples / samples;
        for (sum, loss) in sums.iter_mut().zip(&table.losses) {
            *sum += share * loss;
        }
        let measured = table.measured();
        rows += share * measured;
        scored += share * measured.min(MOST_ROWS as f64);
    }
    if !found {
        return None;
    }
    let curves: Vec<&[f64]> = sums.chunks_exact(TEMPERATURES).collect();
    let lows: Vec<(f64, f64)> = curves.iter().map(|curve| least(curve)).collect();
    let slack = if of_classes { NOT_REJECTED_OF_CLASSES } else { NOT_REJECTED };
    let slack = if scored > 0.0 { slack * rows / scored } else { slack };
    let limit = lows.iter().map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min) + slack;
    // Covariances that are shared before others, and then plain temperatures before those by rows.
    let rejected = |i: usize| lows[i].1 > limit;
    let simplest = (0..PULLS.len().min(cells / CELLS))
        .flat_map(|pull| (0..SHAPES.len()).rev().map(move |shape| pull * SHAPES.len() + shape));
    let chosen = simplest.into_iter().find(|i| !rejected(*i))?;
    let g = nearest_to_one(curves[chosen], lows[chosen].0, limit);
    let floor = if rows > 0.0 {
        floor_below(interpolated(curves[chosen], g).max(0.0) / rows, samples)
    } else {
        floor(samples)
    };
    let (shape, pull) = (SHAPES[chosen % SHAPES.len()], PULLS[chosen / SHAPES.len()]);
    Some(Choice { temperature: temperature(g), shape, pull, floor })
}

/// Where the log-losses at one `c` are least, and how large they are there.
fn least(curve: &[f64]) -> (f64, f64) {
    let mut low = ONE;
    for g in 0..curve.len() {
        // Among equals the one at temperature 1.
        if curve[g] < curve[low] {
            low = g;
        }
    }
    let g = refined(curve, low);
    (g, interpolated(curve, g))
}

/// The place nearest to temperature 1 that is reached from `low` without log-losses above `limit`.
fn nearest_to_one(curve: &[f64], low: f64, limit: f64) -> f64 {
    let one = ONE as f64;
    let mut inside = low;
    loop {
        if inside.total_cmp(&one).is_eq() {
            return one;
        }
        let next = if inside > one { inside.ceil() - 1.0 } else { inside.floor() + 1.0 };
        if interpolated(curve, next) <= limit {
            inside = next;
            continue;
        }
        let mut outside = next;
        for _ in 0..50 {
            let middle = f64::midpoint(inside, outside);
            *(if interpolated(curve, middle) <= limit { &mut inside } else { &mut outside }) =
                middle;
        }
        return inside;
    }
}

/// A smooth curve through log-losses: between two of them the mean of both parabolas, weighted by nearness.
fn interpolated(curve: &[f64], g: f64) -> f64 {
    let left = (g as usize).min(curve.len() - 2);
    let parabola = |middle: usize| {
        let middle = middle.clamp(1, curve.len() - 2);
        let (a, b, c) = (curve[middle - 1], curve[middle], curve[middle + 1]);
        let x = g - middle as f64;
        b + x * (c - a) / 2.0 + x * x * (a - 2.0 * b + c) / 2.0
    };
    let share = g - left as f64;
    (1.0 - share) * parabola(left) + share * parabola(left + 1)
}

/// Whether one of the tables was measured by leave-one-out.
pub(super) fn any(tables: &[&CalibrationTable]) -> bool {
    tables.iter().any(|table| table.losses.len() == CELLS)
}

/// Samples of all tasks by distance; `None` where nothing was measured.
pub(super) fn distances(tables: &[&CalibrationTable]) -> Option<Vec<f64>> {
    let mut sums = vec![0.0; DISTANCES];
    for table in tables.iter().filter(|table| table.distances.len() == DISTANCES) {
        sums.iter_mut().zip(&table.distances).for_each(|(sum, count)| *sum += count);
    }
    (sums.iter().sum::<f64>() > 0.0).then_some(sums)
}

/// The temperature that the tables of model files of layout 1 have the least log-loss at; 1 where nothing is known.
pub(super) fn choose_old(tables: &[&CalibrationTable]) -> f64 {
    let mut sums = [0.0; OLD_TEMPERATURES];
    for table in tables.iter().filter(|table| table.losses.len() == OLD_TEMPERATURES) {
        for (sum, loss) in sums.iter_mut().zip(&table.losses) {
            *sum += table.samples * loss;
        }
    }
    let mut low = 0;
    for g in 1..OLD_TEMPERATURES {
        if sums[g] < sums[low] {
            low = g;
        }
    }
    let spread = sums.iter().copied().fold(0.0, f64::max) - sums[low];
    if spread > 0.0 { temperature(refined(&sums, low)) } else { 1.0 }
}

/// Where the parabola through the lowest point and its neighbours is least.
fn refined(sums: &[f64], low: usize) -> f64 {
    if low == 0 || low + 1 == sums.len() {
        return low as f64;
    }
    let (a, b, c) = (sums[low - 1], sums[low], sums[low + 1]);
    let bend = a - 2.0 * b + c;
    low as f64 + if bend > 0.0 { 0.5 * (a - c) / bend } else { 0.0 }
}

impl CalibrationTable {
    /// All its numbers, one after the other.
    pub fn to_numbers(&self) -> Vec<f64> {
        let left_out = self.left_out.as_ref().map_or_else(Vec::new, Evaluation::to_numbers);
        let mut numbers = [&[self.samples][..], &self.losses, &self.distances, &left_out].concat();
        if let Some(normal) = &self.normal {
            numbers.push(normal.classes);
            numbers.extend(&normal.losses);
        }
        numbers
    }

    /// The table of these numbers; `None` for numbers that no table has.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (samples, rest) = numbers.split_first()?;
        let sound = |v: &f64| v.is_finite() && *v >= 0.0;
        if rest.len() == OLD_TEMPERATURES {
            let sound = numbers.iter().all(sound);
            let losses = rest.to_vec();
            return sound.then_some(Self { samples: *samples, losses, ..Self::default() });
        }
        let rows = DISTANCES + evaluate::NUMBERS;
        let fits = |cells: &usize| [cells + rows, 2 * cells + rows + 1].contains(&rest.len());
        let cells = [CELLS, CLASS_CELLS].into_iter().find(fits)?;
        let (losses, rest) = rest.split_at_checked(cells)?;
        let (distances, rest) = rest.split_at_checked(DISTANCES)?;
        let (left_out, rest) = rest.split_at_checked(evaluate::NUMBERS)?;
        let left_out = Some(Evaluation::from_numbers(left_out)?);
        let normal = rest.split_first().map(|(classes, losses)| {
            let losses = losses.to_vec();
            NormalLosses { classes: *classes, losses }
        });
        let all = sound(samples) && losses.iter().chain(distances).chain(rest).all(sound);
        let (losses, distances) = (losses.to_vec(), distances.to_vec());
        all.then_some(Self { samples: *samples, losses, distances, left_out, normal })
    }

    /// Samples of the task that the table stands for.
    pub(crate) fn measured(&self) -> f64 {
        self.distances.iter().sum()
    }

    /// The table of rows measured before and of others measured now.
    pub(crate) fn plus(&self, now: &Self) -> Self {
        if self.losses.len() != now.losses.len() || self.distances.len() != now.distances.len() {
            return now.clone();
        }
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        let left_out = match (&self.left_out, &now.left_out) {
            (Some(before), Some(found)) => {
                let mut both = before.clone();
                both.merge(found);
                Some(both)
            }
            (before, found) => found.as_ref().or(before.as_ref()).cloned(),
        };
        Self {
            samples: now.samples,
            losses: sum(&self.losses, &now.losses),
            distances: sum(&self.distances, &now.distances),
            left_out,
            // Of all rows of the task, those before and those now.
            normal: now.normal.clone(),
        }
    }

    /// The share of a table that goes with a part of the samples.
    pub(crate) fn share(&self, share: f64) -> Self {
        let scaled = |values: &[f64]| values.iter().map(|v| share * v).collect();
        Self {
            samples: self.samples,
            losses: scaled(&self.losses),
            distances: scaled(&self.distances),
            left_out: self.left_out.clone().map(|found| found.scaled(share)),
            // It is of a task, and this is a share of several.
            normal: None,
        }
    }
}

/// A sample, and what it stands for.
#[derive(Debug)]
pub(crate) struct Scored<'a> {
    pub(crate) sample: &'a RowSample,
    /// Samples of the task.
    pub(crate) samples: f64,
    /// What one unit of a row's weight counts in the pool; 0 where the rows are not in it.
    pub(crate) factor: f64,
}

/// The model that samples are scored under.
pub(super) struct Measured<'a> {
    pub(super) model: &'a Discriminants,
    pub(super) design: &'a Design,
    pub(super) classes: &'a Classes,
    /// Samples of the pool.
    pub(super) pooled: f64,
    /// Scatters of the classes and effective samples, where classes have covariances of their own.
    pub(super) scatters: Option<(&'a [Summary], f64)>,
}

/// A row scored under the model without it.
struct LeftOut<'a> {
    /// `d_k²` of the classes that have rows.
    distances: Cow<'a, [f64]>,
    /// `ln|Σ_k|`, where classes have covariances of their own.
    log_dets: Option<Vec<f64>>,
    /// The position of its own class among these.
    class: usize,
    weight: f64,
}

/// Rows of a sample, each scored under the model without it, where all classes share one covariance: what is measured with them in
/// several ways.
#[derive(Default)]
pub(super) struct LeftOutRows {
    /// `d_k²` of the classes that have rows, row after row.
    distances: Vec<f64>,
    classes: Vec<usize>,
    weights: Vec<f64>,
}

/// Rows that can be left out.
struct Block<'a> {
    /// Their design rows.
    cells: &'a [f64],
    /// The position of their class among those that have rows.
    own: Vec<usize>,
    /// What is left out of the pool with each.
    out: Vec<f64>,
    weights: Vec<f64>,
}

impl Measured<'_> {
    /// The table of a task, each row left out of the model; how well the rows are predicted is still to be measured, and distances
    /// where classes have covariances of their own, which depend on the choice.
    ///
    /// # Errors
    /// When the basis refuses a row.
    pub(super) fn table(
        &self,
        task: &Scored<'_>,
    ) -> Result<(CalibrationTable, Option<LeftOutRows>)> {
        let kept = match self.scatters {
            None => Some(self.left_out_rows(task)?),
            Some(_) => None,
        };
        let mut losses = vec![0.0; cells(self.scatters.is_some())];
        let (mut scored, mut distances) = (0.0, Vec::new());
        for (part, pull) in losses.chunks_exact_mut(CELLS).zip(PULLS) {
            (scored, distances) = (0.0, vec![0.0; DISTANCES]);
            self.each(task, kept.as_ref(), pull, |rows| {
                for row in rows {
                    scored += row.weight;
                    distances[Novelty::step(self.distance(row))] += row.weight;
                }
                self.add_rows(part, rows);
            })?;
        }
        if scored > 0.0 {
            let scale = task.samples / scored;
            losses.iter_mut().for_each(|loss| *loss = (*loss * scale).max(0.0));
            distances.iter_mut().for_each(|count| *count *= scale);
        }
        let samples = self.pooled;
        let table = CalibrationTable { samples, losses, distances, ..CalibrationTable::default() };
        Ok((table, kept))
    }

    /// Log-losses of rows that are not in the pool, under the covariance that all classes share.
    pub(super) fn losses_of(&self, rows: &NormalRows) -> Vec<f64> {
        let (mut losses, m) = (vec![0.0; CELLS], self.design.width());
        let known = self.known_classes();
        for (block, cells) in rows.cells.chunks(BLOCK * m).enumerate() {
            let distances = self.model.distances(cells, &known);
            let distances = distances.chunks_exact(known.len().max(1)).map(Cow::Borrowed);
            let row = |(i, distances): (usize, _)| {
                let row = block * BLOCK + i;
                let class = known.iter().position(|k| *k == rows.classes[row])?;
                Some(LeftOut { distances, log_dets: None, class, weight: rows.weights[row] })
            };
            self.add_rows(&mut losses, &distances.enumerate().filter_map(row).collect::<Vec<_>>());
        }
        losses.iter_mut().for_each(|loss| *loss = loss.max(0.0));
        losses
    }

    /// Adds the log-losses of rows at every `c` and `T`.
    fn add_rows(&self, losses: &mut [f64], rows: &[LeftOut<'_>]) {
        let shares: Vec<&[LeftOut<'_>]> = rows.chunks(SHARE).collect();
        let mut parts = vec![vec![0.0; CELLS]; shares.len()];
        kernel::each(shares.into_iter().zip(&mut parts).collect(), |(rows, part)| {
            let mut powers = Vec::new();
            for row in rows {
                self.add_row(part, row, &mut powers);
            }
        });
        for part in &parts {
            losses.iter_mut().zip(part).for_each(|(sum, loss)| *sum += loss);
        }
    }

    /// The same for one row; `powers` is for any use.
    fn add_row(&self, losses: &mut [f64], row: &LeftOut<'_>, powers: &mut Vec<f64>) {
        // Under one covariance only the temperature depends on `c`.
        let mut gaps = self.gaps(row, f64::INFINITY);
        for (part, shape) in losses.chunks_exact_mut(TEMPERATURES).zip(SHAPES) {
            if row.log_dets.is_some() {
                gaps = self.gaps(row, shape);
            }
            let stretch = self.stretch(row, shape);
            add_losses(part, (&gaps, row.class), stretch, row.weight, powers);
        }
    }

    /// Scores less the largest of them.
    fn gaps(&self, row: &LeftOut<'_>, shape: f64) -> Vec<f64> {
        let mut scores = self.scores(row, shape);
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter_mut().for_each(|score| *score -= top);
        scores
    }

    /// The rows of a sample that can be left out, where all classes share one covariance.
    fn left_out_rows(&self, task: &Scored<'_>) -> Result<LeftOutRows> {
        let known = self.known_classes();
        let apart = self.model.mean_distances(&known);
        let mut found = LeftOutRows::default();
        self.each_block(task, &known, usize::MAX, |block| {
            let distances = self.model.distances(block.cells, &known);
            for (i, &class) in block.own.iter().enumerate() {
                let first = found.distances.len();
                found.distances.extend(&distances[i * known.len()..(i + 1) * known.len()]);
                let d = &mut found.distances[first..];
                self.model.leave_out(d, class, known[class], &apart, block.out[i]);
            }
            found.classes.extend(block.own);
            found.weights.extend(block.weights);
        })?;
        Ok(found)
    }

    /// Places of the classes that have rows.
    fn known_classes(&self) -> Vec<usize> {
        let shares = self.model.priors().iter().enumerate().filter(|(_, share)| **share > 0.0);
        shares.map(|(k, _)| k).collect()
    }

    /// How many classes have rows.
    pub(super) fn known(&self) -> usize {
        self.model.priors().iter().filter(|share| **share > 0.0).count()
    }

    /// Measures how far the rows of a task are and how well they are predicted, each left out of the model.
    ///
    /// # Errors
    /// When the basis refuses a row.
    pub(super) fn evaluate(
        &self,
        task: &Scored<'_>,
        rows: Option<&LeftOutRows>,
        choice: Choice,
        table: &mut CalibrationTable,
    ) -> Result<()> {
        let (mut found, mut distances) = (Evaluation::new(0), vec![0.0; DISTANCES]);
        let floor = choice.floor;
        self.each(task, rows, choice.pull, |rows| {
            for row in rows {
                let mut p = self.scores(row, choice.shape);
                softmax(&mut p, choice.temperature * self.stretch(row, choice.shape));
                let least = floor / p.len() as f64;
                p.iter_mut().for_each(|p| *p = (1.0 - floor) * *p + least);
                found.add_classes(&p, Some(row.class), row.weight);
                distances[Novelty::step(self.distance(row))] += row.weight;
            }
        })?;
        let scale = if found.samples() > 0.0 { task.samples / found.samples() } else { 1.0 };
        distances.iter_mut().for_each(|count| *count *= scale);
        (table.distances, table.left_out) = (distances, Some(found.scaled(scale)));
        Ok(())
    }

    /// Scores of the classes that have rows.
    fn scores(&self, row: &LeftOut<'_>, shape: f64) -> Vec<f64> {
        let usual = self.model.effective_features();
        let score = |(k, log_share): (usize, f64)| match &row.log_dets {
            None => log_share - row.distances[k] / 2.0,
            Some(log_dets) => {
                log_share + Densities::score(row.distances[k], log_dets[k], shape, usual)
            }
        };
        self.model.log_shares().enumerate().map(score).collect()
    }

    /// What the temperature of a row is multiplied by; heavy tails of class densities do the same by themselves.
    fn stretch(&self, row: &LeftOut<'_>, shape: f64) -> f64 {
        let choice = Choice { temperature: 1.0, shape, pull: f64::INFINITY, floor: 0.0 };
        if row.log_dets.is_some() { 1.0 } else { choice.stretch(self.distance(row)) }
    }

    /// `r`
    fn distance(&self, row: &LeftOut<'_>) -> f64 {
        let nearest = row.distances.iter().copied().fold(f64::INFINITY, f64::min);
        nearest / self.model.effective_features()
    }

    /// Calls `f` with all rows that can be left out, some at a time.
    fn each(
        &self,
        task: &Scored<'_>,
        rows: Option<&LeftOutRows>,
        pull: f64,
        mut f: impl FnMut(&[LeftOut<'_>]),
    ) -> Result<()> {
        let known = self.known_classes();
        if let Some((scatters, samples)) = self.scatters {
            let model = ClassModel::new(self.model, scatters, samples, pull)?;
            let m = self.design.width() as f64;
            let each = PULLS.len() as f64 * known.len() as f64 * m * m;
            let most = (MOST_OPERATIONS / each).max(1.0) as usize;
            return self.each_block(task, &known, most, |block| {
                let [distances, log_dets] = model.left_out(block.cells, &block.own, &block.out);
                let column = |of: &Mat<f64>, i: usize| -> Vec<f64> {
                    (0..known.len()).map(|k| of[(k, i)]).collect()
                };
                let row = |(i, &weight): (usize, &f64)| LeftOut {
                    distances: Cow::Owned(column(&distances, i)),
                    log_dets: Some(column(&log_dets, i)),
                    class: block.own[i],
                    weight,
                };
                f(&block.weights.iter().enumerate().map(row).collect::<Vec<_>>());
            });
        }
        let measured;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                measured = self.left_out_rows(task)?;
                &measured
            }
        };
        let distances = rows.distances.chunks_exact(known.len().max(1)).map(Cow::Borrowed);
        let row = |((distances, &class), &weight): ((_, &usize), &f64)| LeftOut {
            distances,
            log_dets: None,
            class,
            weight,
        };
        let all = distances.zip(&rows.classes).zip(&rows.weights).map(row);
        f(&all.collect::<Vec<_>>());
        Ok(())
    }

    /// Calls `f` with blocks of the first `most` rows of a sample, those left out whose class has no other row.
    fn each_block(
        &self,
        task: &Scored<'_>,
        known: &[usize],
        most: usize,
        mut f: impl FnMut(Block<'_>),
    ) -> Result<()> {
        // For each class of the sample its position among those that have rows.
        let place = |name: &String| {
            let place = self.classes.place(name)? as usize;
            known.iter().position(|k| *k == place)
        };
        let places: Vec<Option<usize>> = task.sample.classes().iter().map(place).collect();
        let (m, inputs) = (self.design.width(), self.design.inputs());
        let rows: Vec<_> = task.sample.rows().take(most).collect();
        let (mut x, mut cells) = (Vec::new(), Vec::new());
        for rows in rows.chunks(BLOCK) {
            x.clear();
            let (mut own, mut out, mut weights) = (Vec::new(), Vec::new(), Vec::new());
            for row in rows {
                let Some(class) = places[row.class] else { continue };
                // A weight of 3 is three copies, of which one is left out.
                let left_out = (row.weight / row.copies).min(1.0) * task.factor;
                let weight = self.model.class_weight(known[class]);
                if left_out > 0.0 && weight - left_out <= LEAST_REST * weight {
                    continue;
                }
                x.extend_from_slice(&row.cells);
                // Inputs that came later have been zero.
                x.resize(x.len() + inputs - row.cells.len(), 0.0);
                own.push(class);
                out.push(left_out);
                weights.push(row.weight);
            }
            cells.clear();
            cells.resize(own.len() * m, 0.0);
            self.design.write(&Rows::new(&x, inputs)?, 0, &mut cells, m, None)?;
            f(Block { cells: &cells, own, out, weights });
        }
        Ok(())
    }
}

/// Adds the log-losses of a row at every `T`, multiplied by `stretch`, from how far scores are below the largest of them.
///
/// Halving a temperature squares every `exp(s/T)`, so four exponentials of each score serve 29 temperatures.
fn add_losses(
    losses: &mut [f64],
    (gaps, y): (&[f64], usize),
    stretch: f64,
    weight: f64,
    powers: &mut Vec<f64>,
) {
    for chain in 0..4 {
        let mut g = TEMPERATURES - 1 - chain;
        let mut t = temperature(g as f64) * stretch;
        let inverse = 1.0 / t;
        powers.clear();
        powers.extend(gaps.iter().map(|gap| gap * inverse));
        kernel::exponentials(powers);
        let mut all = powers.iter().sum::<f64>();
        loop {
            losses[g] += weight * (all.ln() - gaps[y] / t);
            if g < 4 {
                break;
            }
            g -= 4;
            t /= 2.0;
            all = kernel::square(powers);
        }
    }
}

impl Discriminants {
    /// `‖μ_j − μ_k‖²_{Σ⁻¹}` of the classes in `known`.
    fn mean_distances(&self, known: &[usize]) -> Mat<f64> {
        let means = self.known_means(known);
        let apart = kernel::square_distances(&means, &means);
        Mat::from_fn(known.len(), known.len(), |j, k| apart[j * known.len() + k])
    }

    /// `d_k²` of design rows, row after row.
    fn distances(&self, rows: &[f64], known: &[usize]) -> Vec<f64> {
        let white = self.white_rows(rows);
        let rows: Vec<&[f64]> = (0..white.ncols()).map(|i| white.col_as_slice(i)).collect();
        kernel::square_distances(&rows, &self.known_means(known))
    }

    fn known_means(&self, known: &[usize]) -> Vec<&[f64]> {
        known.iter().map(|&k| self.white_means().col_as_slice(k)).collect()
    }

    /// Turns the distances of a row of class `y`, class `of` of the model, into those under the model without a weight of `out` of it; whether the class has
    /// other rows.
    fn leave_out(&self, d: &mut [f64], y: usize, of: usize, apart: &Mat<f64>, out: f64) -> bool {
        let weight = self.class_weight(of);
        if out <= 0.0 {
            // The row is not in the pool.
            return true;
        }
        let left = weight - out;
        if left <= LEAST_REST * weight {
            return false;
        }
        let f = weight / left;
        let a = self.unit() * out * f;
        let h = d[y];
        let g = 1.0 / (1.0 - a * h).max(LEAST_LEFT);
        for (k, d) in d.iter_mut().enumerate() {
            if k == y {
                *d = f * f * h * g;
            } else {
                let b = (h + *d - apart[(y, k)]) / 2.0;
                *d += a * g * b * b;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;
    use crate::problem::gaussian::Shrinkage;
    use crate::summary::{Accumulator, Summarizer, Summary};

    fn table(losses: Vec<f64>) -> CalibrationTable {
        CalibrationTable { samples: 3.0, losses, ..CalibrationTable::default() }
    }

    #[test]
    fn the_least_of_a_parabola_in_log_t_is_found() {
        let losses = (0..OLD_TEMPERATURES).map(|g| (g as f64 - 9.3).powi(2)).collect();
        let found = choose_old(&[&table(losses)]);
        assert!((found / temperature(9.3) - 1.0).abs() < 1e-12, "{found}");
        let flat = choose_old(&[&table(vec![0.0; OLD_TEMPERATURES])]);
        assert!((flat - 1.0).abs() < 1e-15);
    }

    #[test]
    fn without_evidence_the_temperature_is_one() {
        assert_eq!(choose(&[], 10.0, false), None);
        let flat = choose(&[&table(vec![0.0; CELLS])], 10.0, false).unwrap();
        let infinite = f64::INFINITY;
        let textbook =
            Choice { temperature: 1.0, shape: infinite, pull: infinite, floor: floor(10.0) };
        assert_eq!(flat, textbook);
        let flat = choose(&[&table(vec![0.0; CLASS_CELLS])], 10.0, true).unwrap();
        assert_eq!(flat, textbook);
    }

    #[test]
    fn strong_evidence_decides() {
        // Least at c = 1 (the fourth) and g = 13.4; 1e10 rows' worth of losses reject all that is farther away than 1e-5.
        let loss = |i: usize| {
            let (c, g) = ((i / TEMPERATURES) as f64, (i % TEMPERATURES) as f64);
            1e10 * ((c - 3.0).powi(2) + (g - 13.4).powi(2))
        };
        let found = choose(&[&table((0..CELLS).map(loss).collect())], 3.0, false).unwrap();
        assert!((found.shape - 1.0).abs() < 1e-15, "{found:?}");
        assert!((found.temperature / temperature(13.4) - 1.0).abs() < 1e-5, "{found:?}");
    }

    /// A table whose log-losses are a parabola in ln T that gains so much at its least, against T = 1.
    fn parabola(gain: f64, least: f64) -> Vec<f64> {
        let bend = gain / (least - ONE as f64).powi(2);
        (0..CELLS).map(|i| 100.0 + bend * ((i % TEMPERATURES) as f64 - least).powi(2)).collect()
    }

    /// Temperatures on both sides of 1 are left for what 95 % of chance does not explain, and by no more than that.
    #[test]
    fn the_temperature_is_the_nearest_to_one_that_is_not_rejected() {
        let at =
            |gain: f64, least: f64| choose(&[&table(parabola(gain, least))], 3.0, false).unwrap();
        for (gain, least) in [(0.01, 7.0), (2.5, 1.0), (2.5, 7.0), (2.9, 20.0), (2.9, 0.0)] {
            let found = at(gain, least);
            assert!((found.temperature - 1.0).abs() < 1e-12, "{gain} {least}: {found:?}");
        }
        for (gain, least) in [(3.1, 7.0), (5.0, 1.0), (5.0, 7.3), (40.0, 20.6), (1e4, 2.0)] {
            let away = (least - ONE as f64) * (1.0 - (NOT_REJECTED / gain).sqrt());
            let (found, expected) = (at(gain, least), temperature(ONE as f64 + away));
            assert!(
                (found.temperature / expected - 1.0).abs() < 1e-9,
                "{gain} {least}: {found:?} {expected}"
            );
            assert!(found.shape.is_infinite());
        }
    }

    #[test]
    fn a_temperature_by_rows_takes_evidence() {
        let with = |gain: f64| {
            let loss = |i: usize| if i / TEMPERATURES == 3 { 100.0 - gain } else { 100.0 };
            choose(&[&table((0..CELLS).map(loss).collect())], 3.0, false).unwrap().shape
        };
        assert!(with(2.5).is_infinite());
        assert!((with(3.5) - 1.0).abs() < 1e-15);
        let pulled = |gain: f64| {
            let loss = |i: usize| if i / CELLS == 4 { 100.0 - gain } else { 100.0 };
            choose(&[&table((0..CLASS_CELLS).map(loss).collect())], 3.0, true).unwrap().pull
        };
        assert!(pulled(3.5).is_infinite());
        assert!((pulled(4.5) - 1.0).abs() < 1e-15);
    }

    /// A sample of 2,000 rows that stands for 20,000 is evidence of 2,000.
    #[test]
    fn what_a_sample_stands_for_is_no_evidence() {
        let of = |rows: f64, gain: f64| {
            let mut table = table(parabola(gain, 7.0));
            table.distances = vec![0.0; DISTANCES];
            table.distances[5] = rows;
            choose(&[&table], 3.0, false).unwrap().temperature
        };
        assert!(of(2000.0, 20.0) > 1.3);
        assert!((of(2000.0, 20.0) - of(20.0, 20.0)).abs() < 1e-15);
        assert!((of(20_000.0, 20.0) - 1.0).abs() < 1e-15);
        assert!((of(20_000.0, 200.0) - of(2000.0, 20.0)).abs() < 1e-9);
    }

    /// The share of probability that all classes get costs 1 % of the log-loss at most, within what so many rows can vouch for.
    #[test]
    fn the_floor_is_small_against_the_log_loss() {
        assert!((floor_below(0.7, 99.0) - 1e-4).abs() < 1e-18);
        assert!((floor_below(1e-4, 99.0) - 1e-6).abs() < 1e-18);
        assert!((floor_below(0.0, 99.0) - 1e-8).abs() < 1e-18);
        let mut measured = table(parabola(1.0, 7.0));
        measured.distances = vec![0.0; DISTANCES];
        measured.distances[5] = 1e6;
        let found = choose(&[&measured], 3.0, false).unwrap().floor;
        // A log-loss of 101 among so many rows.
        assert!((found - floor_below(101e-6, 3.0)).abs() < 1e-15, "{found}");
    }

    #[test]
    fn losses_between_cells_are_those_of_a_smooth_curve() {
        let curve: Vec<f64> = (0..TEMPERATURES).map(|g| (g as f64 - 9.3).powi(2) + 2.0).collect();
        for g in [0.0, 0.4, 1.0, 7.25, 9.3, 27.0, 27.6, 28.0] {
            let exact = (g - 9.3f64).powi(2) + 2.0;
            assert!((interpolated(&curve, g) - exact).abs() < 1e-10, "{g}");
        }
        let rough: Vec<f64> = (0..TEMPERATURES).map(|g| (g as f64).sin()).collect();
        for (g, value) in rough.iter().enumerate() {
            let near = interpolated(&rough, (g as f64 - 1e-9).max(0.0));
            assert!((near - value).abs() < 1e-8, "{g}");
        }
    }

    #[test]
    fn losses_by_squaring_are_those_of_the_definition() {
        let scores = [-4.5, 0.0, -41.5, -1.25];
        let (y, r, weight) = (3, 2.7, 1.25);
        let mut losses = vec![0.0; CELLS];
        let stretch = |c: f64| if c.is_finite() { (c + r) / (c + 1.0) } else { 1.0 };
        for (part, c) in losses.chunks_exact_mut(TEMPERATURES).zip(SHAPES) {
            add_losses(part, (&scores, y), stretch(c), weight, &mut Vec::new());
        }
        for (i, found) in losses.iter().enumerate() {
            let (c, t) = (SHAPES[i / TEMPERATURES], temperature((i % TEMPERATURES) as f64));
            let t = t * stretch(c);
            let all: f64 = scores.iter().map(|s| (s / t).exp()).sum();
            let direct = weight * (all.ln() - scores[y] / t);
            // Seven squarings double a relative error of an exponential each time.
            assert!((found - direct).abs() < 1e-12 * (1.0 + direct.abs()), "{i}: {found} {direct}");
        }
    }

    /// Rows of three classes in four dimensions; `flat` makes the last feature a combination of the others, class `2` has one row.
    struct Data {
        x: Vec<[f64; 4]>,
        y: Vec<usize>,
        w: Vec<f64>,
    }

    fn data(seed: u64, weighted: bool, flat: bool) -> Data {
        let mut state = seed;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut data = Data { x: Vec::new(), y: Vec::new(), w: Vec::new() };
        for i in 0..23 {
            let class = if i == 22 { 2 } else { i % 2 };
            let mut row = [0.0; 4].map(|_: f64| uniform() + uniform() - 1.0);
            row[0] += class as f64;
            row[2] = 1e3 + 50.0 * row[2];
            if flat {
                row[3] = row[0] - 2.0 * row[1];
            }
            data.x.push(row);
            data.y.push(class);
            data.w.push(if weighted { 0.25 + 3.0 * uniform() } else { 1.0 });
        }
        data
    }

    fn pooled(data: &Data) -> Summary {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (row, class) in data.x.iter().zip(&data.y) {
            x.extend(row);
            y.extend((0..3).map(|k| f64::from(u8::from(k == *class))));
        }
        let design = Design::new(Basis::default().fix(&[], 4).unwrap(), true);
        let mut summarizer = Summarizer::new(design, 3, Accumulator::Qr).unwrap();
        let (x, y) = (Rows::new(&x, 4).unwrap(), Rows::new(&y, 3).unwrap());
        summarizer.add(x, y, Some(&data.w)).unwrap();
        summarizer.finish().unwrap()
    }

    /// `(x − μ)ᵀ Σ⁻¹ (x − μ)` by Gaussian elimination with pivoting.
    fn mahalanobis(sigma: &[[f64; 4]; 4], v: [f64; 4]) -> f64 {
        let mut a = *sigma;
        let mut b = v;
        for j in 0..4 {
            let p = (j..4).max_by(|i, k| a[*i][j].abs().total_cmp(&a[*k][j].abs())).unwrap();
            a.swap(j, p);
            b.swap(j, p);
            for i in j + 1..4 {
                let l = a[i][j] / a[j][j];
                for k in j..4 {
                    a[i][k] -= l * a[j][k];
                }
                b[i] -= l * b[j];
            }
        }
        for j in (0..4).rev() {
            for k in j + 1..4 {
                b[j] -= a[j][k] * b[k];
            }
            b[j] /= a[j][j];
        }
        (0..4).map(|j| b[j] * v[j]).sum()
    }

    /// Counts, means and within scatter of the rows that `keep` leaves, about their own means.
    fn refit(
        data: &Data,
        keep: impl Fn(usize) -> bool,
    ) -> ([f64; 3], [[f64; 4]; 3], [[f64; 4]; 4]) {
        let (mut n, mut mean, mut scatter) = ([0.0; 3], [[0.0; 4]; 3], [[0.0; 4]; 4]);
        for i in (0..data.x.len()).filter(|i| keep(*i)) {
            n[data.y[i]] += data.w[i];
            (0..4).for_each(|j| mean[data.y[i]][j] += data.w[i] * data.x[i][j]);
        }
        for k in 0..3 {
            mean[k].iter_mut().for_each(|v| *v /= n[k]);
        }
        for i in (0..data.x.len()).filter(|i| keep(*i)) {
            let v: Vec<f64> = (0..4).map(|j| data.x[i][j] - mean[data.y[i]][j]).collect();
            for (j, row) in scatter.iter_mut().enumerate() {
                for (k, cell) in row.iter_mut().enumerate() {
                    *cell += data.w[i] * v[j] * v[k];
                }
            }
        }
        (n, mean, scatter)
    }

    /// The rank-one formulas against means and scatter made again without each row; the diagonal, the divisor and `s` are held.
    #[test]
    fn leaving_a_row_out_equals_a_refit_without_it() {
        for (seed, weighted, flat, s) in [
            (1, false, false, 0.2),
            (2, true, false, 0.01),
            (3, true, true, 0.1),
            (4, false, true, 0.5),
            (5, true, false, 1.0),
        ] {
            let data = data(seed, weighted, flat);
            let (_, _, whole) = refit(&data, |_| true);
            let samples: f64 = data.w.iter().sum();
            let divisor = samples - 3.0;
            let model =
                Discriminants::new(&pooled(&data), samples, Shrinkage::Diagonal(s), false).unwrap();
            let known = [0, 1, 2];
            let apart = model.mean_distances(&known);
            let mut single = 0;
            for i in 0..data.x.len() {
                let mut cells = vec![1.0];
                cells.extend(data.x[i]);
                let found = model.distances(&cells, &known);
                let mut d = [found[0], found[1], found[2]];
                let y = data.y[i];
                if !model.leave_out(&mut d, y, y, &apart, data.w[i]) {
                    single += 1;
                    continue;
                }
                let (_, means, scatter) = refit(&data, |other| other != i);
                let mut sigma = [[0.0; 4]; 4];
                for j in 0..4 {
                    for k in 0..4 {
                        sigma[j][k] = (1.0 - s) * scatter[j][k] / divisor;
                    }
                    sigma[j][j] += s * whole[j][j] / divisor;
                }
                for k in 0..3 {
                    let v = [0, 1, 2, 3].map(|j| data.x[i][j] - means[k][j]);
                    let truth = mahalanobis(&sigma, v);
                    assert!(
                        (d[k] - truth).abs() < 1e-9 * (1.0 + truth),
                        "seed {seed}, row {i}, class {k}: {} {truth}",
                        d[k]
                    );
                }
            }
            assert_eq!(single, 1, "the class of one row has nothing left");
        }
    }

    /// Rank-one formulas of class covariances against scatters made again without each row.
    #[test]
    fn leaving_a_row_out_of_class_covariances_equals_a_refit_without_it() {
        for (seed, weighted, s, pull) in
            [(11, false, 0.2, 1.0), (12, true, 0.1, 0.3), (13, false, 0.5, f64::INFINITY)]
        {
            let data = data(seed, weighted, false);
            let samples: f64 = data.w.iter().sum();
            let pooled = pooled(&data);
            let tied = Discriminants::new(&pooled, samples, Shrinkage::Diagonal(s), false).unwrap();
            let design = || Design::new(Basis::default().fix(&[], 4).unwrap(), true);
            let scatters: Vec<Summary> = (0..3)
                .map(|k| {
                    let mut summarizer = Summarizer::new(design(), 1, Accumulator::Qr).unwrap();
                    for i in (0..data.x.len()).filter(|i| data.y[*i] == k) {
                        let (x, y) = (&data.x[i][..], [1.0]);
                        let (x, y) = (Rows::new(x, 4).unwrap(), Rows::new(&y, 1).unwrap());
                        summarizer.add(x, y, Some(&data.w[i..=i])).unwrap();
                    }
                    summarizer.finish().unwrap()
                })
                .collect();
            let model = ClassModel::new(&tied, &scatters, samples, pull).unwrap();
            let (counts, means, whole) = refit(&data, |_| true);
            let divisor = samples - 3.0;
            let b = |k: usize| {
                let v = 4.0 * pull;
                if pull.is_finite() && counts[k] > 1.0 { v / (v + counts[k] - 1.0) } else { 1.0 }
            };
            for i in (0..data.x.len()).filter(|i| data.y[*i] != 2) {
                let mut cells = vec![1.0];
                cells.extend(data.x[i]);
                let (y, w) = (data.y[i], data.w[i]);
                let [found, log_dets] = model.left_out(&cells, &[y], &[w]);
                let (_, left_means, left) = refit(&data, |other| other != i);
                for k in 0..3 {
                    let mean = if k == y { left_means[k] } else { means[k] };
                    let (_, _, own) = refit(&data, |other| other != i && data.y[other] == k);
                    let mut sigma = [[0.0; 4]; 4];
                    for j in 0..4 {
                        for l in 0..4 {
                            let shared = (1.0 - s) * left[j][l] / divisor
                                + if j == l { s * whole[j][j] / divisor } else { 0.0 };
                            let single = own[j][l] / (counts[k] - 1.0).max(1e-9);
                            let pulled = if b(k) < 1.0 { (1.0 - b(k)) * single } else { 0.0 };
                            sigma[j][l] = b(k) * shared + pulled;
                        }
                    }
                    let v = [0, 1, 2, 3].map(|j| data.x[i][j] - mean[j]);
                    let truth = mahalanobis(&sigma, v);
                    let d = found[(k, 0)];
                    assert!(
                        (d - truth).abs() < 1e-8 * (1.0 + truth),
                        "{seed} {i} {k}: {d} {truth}"
                    );
                    assert!(log_dets[(k, 0)].is_finite());
                }
            }
        }
    }
}
