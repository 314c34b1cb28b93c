//! Rows before they are learned: do they go with memory?
//!
//! From what memory holds and the new rows alone: has the relation changed (Chow's test, and what one model for both would cost),
//! have columns moved or changed their units, are rows far from everything seen, are there new categories, were the same rows
//! learned before, are there far fewer than usual.
//!
//! ```text
//! Reference::of(learner) ── look, block by block ──▶ RowFindings ──merge──▶ ┐
//!                            the task's summary, not yet inserted ─────────▶ Check::of ──▶ findings, worst first
//! ```

mod columns;
mod condition;
mod relation;
mod rows;

pub use columns::{InputShift, UnitChange};
pub use condition::Condition;
pub use relation::{Follow, Relation};
pub use rows::{OutlyingRow, Reference, RowFindings, RowReason};

use std::borrow::Cow;

use crate::basis::{Design, Fill};
use crate::error::Result;
use crate::learner::Learner;
use crate::problem::{Draft, widened};
use crate::report::conflict::{against, by_samples, drift, is_even, smallest_p};
use crate::report::distributions::fisher_survival;
use crate::settings::{Preference, Settings, setting_names};
use crate::summary::Summary;

/// The probability below which chance is no explanation.
const UNLIKELY: f64 = 0.01;
/// A shift of the mean by fewer standard deviations is reported, but is no warning.
const LARGE_SHIFT: f64 = 0.5;
/// The share of outlying rows that is a warning.
const MANY_OUTLYING: f64 = 0.005;
/// Fewer rows with an outlying cell are no warning by their share: columns may have heavy tails.
const SEVERAL: u64 = 3;
/// A row this many standard deviations off is a warning by itself.
const IMPOSSIBLE: f64 = 100.0;
/// The share of rows with a new category, and of rows left out, that is a warning.
const MANY_ROWS: f64 = 0.05;
/// The share of the usual number of rows below which a task is small.
const FEW_ROWS: f64 = 1.0 / 3.0;
/// Design columns up to which the test of drift is cheap compared with reading rows.
const CHEAP: usize = 256;

/// A task that has been summarized and not yet inserted.
#[derive(Debug, Clone, Copy)]
pub struct NewTask<'a> {
    /// The design it was summarized under: the learner's own, or that with inputs added at the end.
    pub design: &'a Design,
    /// Its summary, and what it settles.
    pub draft: &'a Draft,
    /// What was seen row by row.
    pub rows: &'a RowFindings,
    /// Rows that were left out for missing values.
    pub dropped: u64,
    /// Names of the inputs, those added at the end included.
    pub inputs: &'a [String],
    /// Names of the targets.
    pub targets: &'a [String],
    /// The inputs that have gaps, and the inputs that say where, those added at the end included.
    pub gaps: &'a [Fill],
}

/// How much is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Everything; solves once more, `O(m³)`.
    Full,
    /// Without the test of drift where it would cost more than reading the rows.
    Cheap,
}

/// What a finding is about; spelled as in `--refuse-if`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// The same rows were learned before.
    Repeat,
    /// A column seems to be in other units.
    Units,
    /// The rows do not follow the model.
    Drift,
    /// Columns have other means.
    Shift,
    /// Rows are far from all that was learned.
    Outliers,
    /// Categories, or classes, that are new.
    Categories,
    /// Rows left out for missing values.
    Missing,
    /// Far fewer rows than usual.
    Rows,
}

setting_names!(
    FindingKind,
    "repeat, units, drift, shift, outliers, categories, missing, rows",
    "repeat" => FindingKind::Repeat,
    "units" => FindingKind::Units,
    "drift" => FindingKind::Drift,
    "shift" => FindingKind::Shift,
    "outliers" => FindingKind::Outliers,
    "categories" => FindingKind::Categories,
    "missing" => FindingKind::Missing,
    "rows" => FindingKind::Rows,
);

/// Something to know about the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// Whether it is reason to look before learning; otherwise it is for information.
    pub warning: bool,
    /// In words.
    pub text: String,
}

/// Whether the relation between features and targets has changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The probability of so large a difference by chance; `None` where there is no test.
    pub p_value: Option<f64>,
    /// The same where the noise is uneven, so that half of the statistic is chance: the test takes equal, normal noise, and
    /// rows of one kind fail it too often without this. A warning goes by it.
    pub cautious_p: Option<f64>,
    /// What one model for both costs memory: the relative increase of its loss.
    pub cost_to_memory: f64,
    /// What it costs the new rows, against a model of their own.
    pub cost_to_rows: f64,
}

/// Everything found about rows that are not yet learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Rows.
    pub rows: u64,
    /// Rows left out for missing values.
    pub dropped: u64,
    /// Whether the relation has changed; `None` where the loss has no such test, or it was not asked for.
    pub drift: Option<Drift>,
    /// Whether the targets still follow what memory predicts; `None` as above, and where memory predicts nothing.
    pub relation: Option<Relation>,
    /// What each input has done; empty where the summaries hold no means of inputs.
    pub inputs: Vec<InputShift>,
    /// What was seen row by row.
    pub found: RowFindings,
    /// New categories by name, and their rows.
    pub new_categories: Vec<(String, f64)>,
    /// New classes, and their rows.
    pub new_classes: Vec<(String, f64)>,
    /// The task that was learned from the same rows.
    pub repeats: Option<String>,
    /// The median number of rows of the tasks learned, where there are three or more.
    pub usual_rows: Option<f64>,
    /// What there is to know, warnings first, the most important first.
    pub findings: Vec<Finding>,
}

impl Check {
    /// Checks a task against the memory of a learner, which is unchanged.
    ///
    /// # Errors
    /// When nothing has been learned, or numbers leave the range of double precision.
    pub fn of(learner: &Learner, task: &NewTask<'_>, effort: Effort) -> Result<Self> {
        let summary = &task.draft.summary;
        let rows = summary.head.rows.unwrap_or(task.rows.rows);
        let known = learner.design().map_or(0, Design::inputs);
        let cheap = task.design.width() <= CHEAP;
        let drift = if effort == Effort::Full || cheap { drift_of(learner, task) } else { None };
        let relation =
            if effort == Effort::Full || cheap { relation_of(learner, task) } else { None };
        let inputs = columns::shifts(learner, task, known)?;
        let intercept = usize::from(task.design.intercept());
        let new_categories = if task.design.map().is_identity() && task.design.inputs() > known {
            let squares = summary.quadratic.column_squares();
            // A new column of numbers is no category.
            let counted = (known..task.design.inputs())
                .filter(|j| task.inputs[*j].contains('='))
                .map(|j| (task.inputs[j].clone(), squares[intercept + j]));
            counted.collect()
        } else {
            Vec::new()
        };
        let classes = learner.classes();
        let counts = summary.classes.iter().zip(&summary.head.counts);
        let new_classes = counts
            .filter(|(name, count)| **count > 0.0 && !classes.contains(name))
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        let repeats = summary.head.content.and_then(|content| {
            let mut records = learner.records().iter();
            records.find(|r| r.head.content == Some(content)).map(|r| r.name.clone())
        });
        let mut before: Vec<f64> = learner
            .records()
            .iter()
            .map(|r| r.head.rows.map_or(r.head.samples, |rows| rows as f64))
            .collect();
        let middle = before.len() / 2;
        let usual_rows =
            (before.len() >= 3).then(|| *before.select_nth_unstable_by(middle, f64::total_cmp).1);
        let mut check = Self {
            rows,
            dropped: task.dropped,
            drift,
            relation,
            inputs,
            found: task.rows.clone(),
            new_categories,
            new_classes,
            repeats,
            usual_rows,
            findings: Vec::new(),
        };
        let outside = columns::outside_frame(learner, &check.inputs);
        check.findings = check.find(task, &outside);
        Ok(check)
    }

    /// The warnings, the most important first.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.warning)
    }

    /// The share of rows that have a new category or class.
    pub fn new_share(&self) -> f64 {
        let sum = |list: &[(String, f64)]| list.iter().map(|(_, rows)| rows).sum::<f64>();
        let rows = (self.rows as f64).max(1.0);
        (sum(&self.new_categories).max(sum(&self.new_classes)) / rows).min(1.0)
    }

    /// The share of rows left out for missing values.
    pub fn dropped_share(&self) -> f64 {
        self.dropped as f64 / ((self.rows + self.dropped) as f64).max(1.0)
    }

    /// The largest shift of the mean of an input, in standard deviations, of those that chance does not explain.
    pub fn largest_shift(&self) -> f64 {
        let count = self.inputs.len() as f64;
        let real = self.inputs.iter().filter(|input| input.p_value * count < UNLIKELY);
        real.map(|input| input.shift.abs()).fold(0.0, f64::max)
    }

    /// Everything in words.
    fn find(&self, task: &NewTask<'_>, outside: &[(usize, f64)]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |kind, warning, text: String| findings.push(Finding { kind, warning, text });
        if let Some(name) = &self.repeats {
            add(
                FindingKind::Repeat,
                true,
                format!("the same rows were learned before, as task `{name}`"),
            );
        }
        let count = self.inputs.len() as f64;
        for input in &self.inputs {
            if let Some(unit) = &input.unit {
                let name = &task.inputs[input.input];
                add(
                    FindingKind::Units,
                    true,
                    format!(
                        "'{name}' seems to be in other units: {} (mean {} was {})",
                        unit.words(),
                        short(input.mean),
                        short(input.mean_before)
                    ),
                );
            }
        }
        if let Some(drift) = &self.drift {
            let costs = format!(
                "one model for both costs memory {} and these rows {} of their loss",
                percent(drift.cost_to_memory),
                percent(drift.cost_to_rows)
            );
            match drift.p_value {
                Some(p) if drift.cautious_p.is_some_and(|p| p < UNLIKELY) => add(
                    FindingKind::Drift,
                    true,
                    format!(
                        "the rows do not follow the model of memory: {costs}; p = {}",
                        short(p)
                    ),
                ),
                Some(p) => add(
                    FindingKind::Drift,
                    false,
                    format!(
                        "the rows follow the model of memory, or nearly: {costs}; p = {}",
                        short(p)
                    ),
                ),
                None => add(FindingKind::Drift, false, costs),
            }
        }
        if let Some(relation) = self.relation.filter(Relation::is_lost) {
            add(
                FindingKind::Drift,
                true,
                format!(
                    "the target does not follow what memory predicts for these rows: their {} is {} where {} is expected; p = {}. \
                     Is it shuffled, or another one?",
                    if self.found.follow.is_empty() { "slope" } else { "correlation" },
                    short(relation.found),
                    short(relation.expected),
                    short(relation.p_value)
                ),
            );
        }
        let mut moved: Vec<&InputShift> = self
            .inputs
            .iter()
            .filter(|input| input.unit.is_none() && input.p_value * count < UNLIKELY)
            .collect();
        moved.sort_by(|a, b| b.shift.abs().total_cmp(&a.shift.abs()));
        if let Some(first) = moved.first() {
            let named: Vec<String> = moved
                .iter()
                .take(3)
                .map(|input| format!("'{}' by {:+.1} sd", task.inputs[input.input], input.shift))
                .collect();
            let more = if moved.len() > 3 {
                format!(" and {} more", moved.len() - 3)
            } else {
                String::new()
            };
            add(
                FindingKind::Shift,
                first.shift.abs() > LARGE_SHIFT,
                format!("the means of columns have moved: {}{more}", named.join(", ")),
            );
        }
        if !outside.is_empty() {
            let named: Vec<String> = outside
                .iter()
                .take(3)
                .map(|(input, far)| format!("'{}' by {far:+.0} sd", task.inputs[*input]))
                .collect();
            let more = if outside.len() > 3 {
                format!(" and {} more", outside.len() - 3)
            } else {
                String::new()
            };
            add(
                FindingKind::Shift,
                true,
                format!(
                    "columns lie outside the rows that fixed the basis, where its features saturate: {}{more}; linear columns \
                     still follow them. To fix the basis anew, make a new model whose first file has rows of both kinds",
                    named.join(", ")
                ),
            );
        }
        if let Some(worst) = self.found.worst.first() {
            let share = self.found.beyond as f64 / (self.found.rows as f64).max(1.0);
            let target = |row: &OutlyingRow| matches!(row.reason, RowReason::Target { .. });
            let several = self.found.beyond >= SEVERAL || self.found.worst.iter().any(target);
            add(
                FindingKind::Outliers,
                (share > MANY_OUTLYING && several) || worst.size > IMPOSSIBLE,
                format!(
                    "{} of {} rows are far off (a target beyond {} sd of its prediction, a cell beyond {}); the farthest is row {}: {}",
                    self.found.beyond,
                    self.found.rows,
                    rows::TARGET_BEYOND,
                    rows::CELL_BEYOND,
                    worst.row + 1,
                    worst.reason.words(worst.size, task.inputs, task.targets)
                ),
            );
        }
        for (what, list) in [("categories", &self.new_categories), ("classes", &self.new_classes)] {
            if !list.is_empty() {
                let named: Vec<String> = list
                    .iter()
                    .take(4)
                    .map(|(name, rows)| format!("'{name}' ({} rows)", short(*rows)))
                    .collect();
                let more = if list.len() > 4 {
                    format!(" and {} more", list.len() - 4)
                } else {
                    String::new()
                };
                add(
                    FindingKind::Categories,
                    what == "categories" && self.new_share() > MANY_ROWS,
                    format!("new {what}: {}{more}", named.join(", ")),
                );
            }
        }
        if self.dropped > 0 {
            add(
                FindingKind::Missing,
                self.dropped_share() > MANY_ROWS,
                format!(
                    "{} rows ({}) miss a value and are left out",
                    self.dropped,
                    percent(self.dropped_share())
                ),
            );
        }
        if let Some(usual) = self.usual_rows.filter(|usual| (self.rows as f64) < FEW_ROWS * usual) {
            add(
                FindingKind::Rows,
                true,
                format!(
                    "{} rows are few: half of the tasks have {} or more",
                    self.rows,
                    short(usual)
                ),
            );
        }
        findings.sort_by_key(|finding| !finding.warning);
        findings
    }
}

/// The test of drift and its costs; `None` where the loss is not a squared error of values, or memory does not allow it.
fn drift_of(learner: &Learner, task: &NewTask<'_>) -> Option<Drift> {
    let problem = learner.problem();
    if !problem.description().exact || problem.predicts_classes() {
        return None;
    }
    let mut after = learner.as_one_task().ok()?;
    let wider = widened_for(&after, task)?;
    // Gaps are filled as in memory.
    let summary = &*wider.filled(Cow::Borrowed(&task.draft.summary.quadratic)).ok()?;
    let tests = if is_even(learner).ok()? {
        by_samples(&wider).and_then(|memory| against(learner, &memory, summary))
    } else {
        drift(&widened_for(learner, task)?, summary)
    };
    let tests = tests.unwrap_or_default();
    let p_value = smallest_p(&tests).ok();
    let halved =
        tests.iter().filter_map(|t| Some(fisher_survival(t.f? / 2.0, t.degrees.0, t.degrees.1)));
    let cautious_p = halved.reduce(f64::min).map(|p| (p * tests.len() as f64).min(1.0));
    let pool = &learner.pool().ok()?.quadratic;
    let before = pool.loss(&learner.solution().ok()?.theta).ok()?;
    let name = "\u{0}the rows that are checked";
    after.insert(name, task.design, task.draft.clone(), 1.0).ok()?;
    let theta = &after.solution().ok()?.theta;
    // A model of the rows alone, by the same settings.
    let settings = Settings { prefer: Preference::Samples, ..learner.settings().clone() };
    let mut alone = Learner::new(problem.clone(), settings).ok()?;
    alone.insert(name, task.design, task.draft.clone(), 1.0).ok()?;
    let filled = alone.filled(Cow::Borrowed(&task.draft.summary.quadratic)).ok()?;
    let own = filled.loss(&alone.solution().ok()?.theta).ok()?;
    let wide = widened(pool, summary.width(), summary.targets()).ok()?;
    let relative =
        |now: f64, least: f64| if least > 0.0 { (now / least - 1.0).max(0.0) } else { 0.0 };
    Some(Drift {
        p_value,
        cautious_p,
        cost_to_memory: relative(wide.loss(theta).ok()?, before),
        cost_to_rows: relative(summary.loss(theta).ok()?, own),
    })
}

/// Whether the targets follow what memory predicts; `None` where there is no such test.
fn relation_of(learner: &Learner, task: &NewTask<'_>) -> Option<Relation> {
    if !learner.problem().description().exact {
        return None;
    }
    let Some(classes) = learner.outputs().classes() else {
        return Relation::of_values(&task.rows.follow);
    };
    // Classes meet by name; where one is new to memory, nothing is expected of it.
    let summary = &task.draft.summary;
    if summary.classes.iter().any(|name| classes.place(name).is_none()) {
        return None;
    }
    let wider = widened_for(&learner.as_one_task().ok()?, task)?;
    let rows = summary.clone().aligned(classes).ok()?;
    let rows = wider.filled(Cow::Owned(rows.quadratic)).ok()?;
    let pool = wider.pool().ok()?;
    let targets = rows.targets().max(pool.quadratic.targets());
    let memory = widened(&pool.quadratic, rows.width(), targets).ok()?;
    let rows = widened(&rows, rows.width(), targets).ok()?;
    let memory = scaled_to(&memory, pool.effective()?)?;
    Relation::of_classes(&memory, &rows, task.design.intercept()).ok()?
}

/// A memory with the inputs that a task brings, which have been zero so far, and with its gaps.
fn widened_for(learner: &Learner, task: &NewTask<'_>) -> Option<Learner> {
    let known = learner.design()?.inputs();
    let mut wider = learner.clone();
    wider.extend_inputs(task.design.inputs().saturating_sub(known)).ok()?;
    wider.set_fills(task.design.fills().to_vec()).ok()?;
    Some(wider)
}

/// The pool, which is on the scale of the preference, as a summary of so many rows.
fn scaled_to(pool: &Summary, samples: f64) -> Option<Summary> {
    pool.scale(samples / pool.n()).ok()
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A number in about four digits.
pub(crate) fn short(v: f64) -> String {
    let size = v.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if (1e-3..1e6).contains(&size) {
        let digits = (3 - size.log10().floor() as i32).clamp(0, 6);
        let text = format!("{v:.*}", digits as usize);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    } else {
        format!("{v:.1e}")
    }
}
