//! The Pareto front of two tasks, or of two groups of tasks: every trade-off between them.

use std::collections::HashSet;

use pmfcl::pareto::{FrontPoint, PairFront};
use pmfcl::{Learner, Summary, TaskReport, Theta};
use pmfcl_plot::{Axis, Front, Mark};

use crate::error::ReportError;
use crate::study::Quadratics;

/// What two tasks, or two groups, can have at once.
///
/// Losses are those the summaries hold: exact for squared loss, upper bounds for losses that are bounded by
/// quadratics, least squares on 0/1 classes for linear discriminants.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Name of the first task or group.
    pub a: String,
    /// Name of the second task or group.
    pub b: String,
    /// Points spread evenly along the front, from all weight on `b` to all weight on `a`; a single one, of weight ½, where one
    /// model is best for both.
    pub points: Vec<FrontPoint>,
    /// Losses of the current model.
    pub current: (f64, f64),
    /// The knee: past it, the same gain for one costs the other ever more.
    pub knee: FrontPoint,
    /// The point where the larger of the two losses is as small as it can be.
    pub minmax: FrontPoint,
}

impl Pair {
    /// The front of two groups of tasks, each pooled by the present shares of its tasks.
    ///
    /// The models along it pay the ridge the learner pays; the losses shown are without it.
    ///
    /// # Errors
    /// When a group is empty, a task is unknown or in both, or compact memory has folded the tasks.
    pub fn of(
        learner: &Learner,
        a: &[&str],
        b: &[&str],
        points: usize,
    ) -> Result<Self, ReportError> {
        let first: HashSet<&str> = a.iter().copied().collect();
        if a.is_empty() || b.is_empty() {
            let reason = "one of them is empty; name at least one task on each side".to_owned();
            return Err(ReportError::Group { reason });
        }
        if let Some(both) = b.iter().find(|name| first.contains(*name)) {
            let reason = format!("`{both}` is on both sides; leave it out of one");
            return Err(ReportError::Group { reason });
        }
        // Names are checked before anything is computed.
        for name in a.iter().chain(b) {
            learner.task_summary(name)?;
        }
        let summaries = learner.summaries().ok_or(pmfcl::Error::NotLearned)?;
        let tasks = learner.tasks()?;
        let parts: Vec<(&Summary, &TaskReport)> =
            summaries.iter().map(|s| &**s).zip(&tasks).collect();
        let (left, right) = (pooled(&parts, a)?, pooled(&parts, b)?);
        let quadratics = Quadratics::of(learner)?;
        let front = quadratics.front(&left, &right, learner.settings().intercept)?;
        Self::along(&front, (&joined(a), &left), (&joined(b), &right), &quadratics.theta, points)
    }

    /// The points of a front that has been decomposed.
    pub(crate) fn along(
        front: &PairFront,
        a: (&str, &Summary),
        b: (&str, &Summary),
        current: &Theta,
        points: usize,
    ) -> Result<Self, ReportError> {
        Ok(Self {
            a: a.0.to_owned(),
            b: b.0.to_owned(),
            points: front.points(points.max(2)),
            current: (a.1.loss(current)?, b.1.loss(current)?),
            knee: front.knee(),
            minmax: front.minmax(),
        })
    }

    /// The front as a chart.
    pub fn chart(&self) -> Front {
        let at = |p: &FrontPoint| (p.loss_a, p.loss_b);
        let far = |loss: fn(&FrontPoint) -> f64| ends(self.points.iter().map(loss));
        let (x, y) = (far(|p| p.loss_a), far(|p| p.loss_b));
        // Where one end of the front is far off, a linear axis would show little else.
        let ratios = x.0 > 0.0 && y.0 > 0.0 && (x.1 > 20.0 * x.0 || y.1 > 20.0 * y.0);
        let axis = |name: &str| {
            let label = format!("loss of {name}");
            if ratios { Axis::log(label) } else { Axis::linear(label) }
        };
        Front {
            x: axis(&self.a),
            y: axis(&self.b),
            ..Front::new(&self.a, &self.b, self.points.iter().map(at))
        }
        .with_mark(Mark::new("current", self.current))
        .with_mark(Mark::new("knee", at(&self.knee)))
        .with_mark(Mark::new("min-max", at(&self.minmax)))
    }

    /// The points as CSV: weight of the first, loss of the first, loss of the second.
    pub fn csv(&self) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let mut out = format!(
            "weight,{},{}\n",
            quoted(&format!("loss of {}", self.a)),
            quoted(&format!("loss of {}", self.b))
        );
        for point in &self.points {
            out.push_str(&format!("{},{},{}\n", point.weight, point.loss_a, point.loss_b));
        }
        out
    }
}

/// The smallest and the largest.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// `Σ α_t L_t` of the tasks named; by samples where the preference gives them nothing.
fn pooled(tasks: &[(&Summary, &TaskReport)], names: &[&str]) -> Result<Summary, ReportError> {
    let names: HashSet<&str> = names.iter().copied().collect();
    let named = |(_, task): &&(&Summary, &TaskReport)| names.contains(task.name.as_str());
    let nothing = tasks.iter().filter(named).all(|(_, task)| task.weight <= 0.0);
    let mut sum: Option<Summary> = None;
    for (summary, task) in tasks.iter().filter(named) {
        let share = if nothing { summary.n() } else { task.weight };
        if share <= 0.0 {
            continue;
        }
        let part = summary.scale(share / summary.n())?;
        sum = Some(match sum {
            Some(sum) => sum.merge(&part)?,
            None => part,
        });
    }
    sum.ok_or(ReportError::Model(pmfcl::Error::NotLearned))
}

fn joined(names: &[&str]) -> String {
    match names {
        [a, b, c, rest @ ..] if !rest.is_empty() => {
            format!("{a} + {b} + {c} + {} more", rest.len())
        }
        names => names.join(" + "),
    }
}
