//! Trade-offs: the Pareto front of two tasks, and every task's loss along it, for the reader to move on.

use serde_json::{Value, json};

use crate::conflicts::Conflicts;
use crate::error::ReportError;
use crate::figure;
use crate::html::{Name, script_json};
use crate::limits::{self, Known, Unknown};
use crate::number::{self, six_digits};
use crate::pair::Pair;
use crate::study::{Quadratics, Study};

/// Some pairs of tasks with their fronts.
#[derive(Debug)]
pub(crate) struct Trade {
    /// Tasks with a bar: places in the list of tasks.
    shown: Vec<usize>,
    /// Least loss of each of these, and its loss under the current model.
    least: Vec<f64>,
    now: Vec<f64>,
    pairs: Vec<Traded>,
    /// Pairs of tasks there are.
    possible: usize,
}

/// One front.
#[derive(Debug)]
struct Traded {
    /// Places in `shown`.
    a: usize,
    b: usize,
    pair: Pair,
    /// `[point][task]`: loss of every task shown.
    losses: Vec<Vec<f64>>,
    /// The current preference between the two.
    weight: f64,
}

impl Trade {
    pub(crate) fn of(
        study: &Study<'_>,
        conflicts: &Known<Conflicts>,
    ) -> Result<Known<Self>, ReportError> {
        let Some(summaries) = &study.summaries else { return Ok(Err(Unknown::folded_too())) };
        let (count, m) = (summaries.len(), study.width());
        if count < 2 {
            let reason = "There is a single task so far; a trade-off takes two.";
            return Ok(Err(Unknown::new(reason)));
        }
        if study.solution.penalty.own_ridges().is_some() {
            let reason =
                "Every target has a ridge of its own; a trade-off takes one ridge for all targets.";
            return Ok(Err(Unknown::new(reason)));
        }
        let shown = limits::largest(&study.forgetting(), limits::BARS);
        let fronts = limits::fronts(m, study.solution.theta.targets())
            .min(limits::FRONT_NUMBERS / (limits::POINTS * (shown.len() + 1)));
        if fronts == 0 {
            return Ok(Err(Unknown::expensive("the front", count, m)));
        }
        let chosen = strongest(&shown, conflicts, fronts);
        let quadratics = Quadratics::of(study.subject.learner)?;
        let mut trade = Self {
            least: Vec::new(),
            now: Vec::new(),
            pairs: Vec::new(),
            possible: count * (count - 1) / 2,
            shown,
        };
        for &t in &trade.shown {
            // The quadratic's own least, so that no bar is shorter than it.
            trade.least.push(summaries[t].min_loss());
            trade.now.push(summaries[t].loss(&quadratics.theta)?);
        }
        for (a, b) in chosen {
            let (Ok(i), Ok(j)) = (trade.shown.binary_search(&a), trade.shown.binary_search(&b))
            else {
                continue;
            };
            let front = quadratics.front(&summaries[a], &summaries[b], study.intercept())?;
            let name = |t: usize| study.label(t);
            let pair = Pair::along(
                &front,
                (name(a), &summaries[a]),
                (name(b), &summaries[b]),
                &quadratics.theta,
                limits::POINTS,
            )?;
            let mut losses = Vec::with_capacity(pair.points.len());
            for point in &pair.points {
                let theta = front.theta(point.weight)?;
                let row: Result<Vec<f64>, pmfcl::Error> =
                    trade.shown.iter().map(|&t| summaries[t].loss(&theta)).collect();
                losses.push(row?);
            }
            let (wa, wb) = (study.tasks[a].weight, study.tasks[b].weight);
            let weight = if wa + wb > 0.0 { wa / (wa + wb) } else { 0.5 };
            trade.pairs.push(Traded { a: i, b: j, pair, losses, weight });
        }
        Ok(Ok(trade))
    }

    /// The numbers the page computes with.
    pub(crate) fn json(&self, study: &Study<'_>) -> Result<String, ReportError> {
        let list = |values: &[f64]| -> Value { values.iter().map(|v| six_digits(*v)).collect() };
        let pairs: Vec<Value> = self
            .pairs
            .iter()
            .map(|traded| {
                let pair = &traded.pair;
                let point = |p: &pmfcl::pareto::FrontPoint| list(&[p.weight, p.loss_a, p.loss_b]);
                let weights: Vec<f64> = pair.points.iter().map(|p| p.weight).collect();
                json!({
                    "a": traded.a,
                    "b": traded.b,
                    "weight": six_digits(traded.weight),
                    "weights": list(&weights),
                    "losses": traded.losses.iter().map(|row| list(row)).collect::<Vec<_>>(),
                    "current": list(&[pair.current.0, pair.current.1]),
                    "knee": point(&pair.knee),
                    "minmax": point(&pair.minmax),
                })
            })
            .collect();
        let names: Vec<&str> = self.shown.iter().map(|&t| study.label(t)).collect();
        Ok(script_json(&json!({
            "loss": study.front_loss_name(),
            "tasks": names,
            "least": list(&self.least),
            "now": list(&self.now),
            "pairs": pairs,
        }))?)
    }

    pub(crate) fn html(&self, study: &Study<'_>) -> String {
        let Some(first) = self.pairs.first() else { return String::new() };
        let title = format!("Pareto front of {} and {}", first.pair.a, first.pair.b);
        let mut notes = String::from(
            "Every point of the curve is a model that cannot do better on one of the two tasks without \
             doing worse on the other. The current model serves all tasks, so it may lie off the \
             curve of just two. Knee: past it, the same gain for one costs the other ever more. \
             Min-max: the larger of the two losses is as small as it can be.",
        );
        if first.pair.points.len() == 1 {
            notes.push_str(
                " One model is best for both of these tasks, so their curve is a single point.",
            );
        }
        if let Some(what) = study.about.stand_in {
            notes.push_str(&format!(" <strong>{what}</strong>"));
        }
        if study.solution.penalty.ridge() > 0.0 {
            notes.push_str(" The models along the curve pay the same ridge as the current one.");
        }
        if self.pairs.len() < self.possible {
            notes.push_str(&format!(
                " {} of {} pairs can be chosen: those with the strongest conflict; the others were left \
                 out to keep the page small.",
                number::grouped(self.pairs.len() as f64),
                number::grouped(self.possible as f64)
            ));
        }
        if self.shown.len() < study.tasks.len() {
            notes.push_str(&format!(
                " Bars show the {} most forgotten of {} tasks.",
                self.shown.len(),
                number::grouped(study.tasks.len() as f64)
            ));
        }
        format!(
            "<div id=\"trade\" class=\"trade\">\n\
             <form class=\"controls script\" hidden aria-label=\"Choose two tasks and a preference\">\n\
             <div class=\"picks\"><label>Task A <select id=\"task-a\" aria-label=\"First task\"></select></label>\
             <label>Task B <select id=\"task-b\" aria-label=\"Second task\"></select></label></div>\n\
             <div class=\"slide\"><span class=\"end\">all for B</span>\
             <input id=\"preference\" type=\"range\" min=\"0\" max=\"{}\" step=\"1\" value=\"0\" \
             aria-label=\"Preference between the two tasks\" aria-controls=\"front bars\">\
             <span class=\"end\">all for A</span></div>\n\
             <div class=\"jumps\"><button type=\"button\" id=\"to-current\">Current preference</button>\
             <button type=\"button\" id=\"to-knee\">Knee</button>\
             <button type=\"button\" id=\"to-minmax\">Min-max</button></div>\n\
             <output id=\"choice\" for=\"preference task-a task-b\" aria-live=\"polite\"></output>\n\
             </form>\n\
             <div class=\"two\">\n<figure><div id=\"front\">{}</div>\
             <figcaption>{notes}</figcaption></figure>\n\
             <figure class=\"script\" hidden><div id=\"bars\" role=\"img\" \
             aria-label=\"Loss of every task at this preference\"></div>\
             <figcaption>Loss of every task at the chosen preference. Grey: what even its own best model \
             loses. Colour: what it forgets. The mark: its loss under the current \
             model.</figcaption></figure>\n</div>\n\
             <noscript><p class=\"note\">With JavaScript the preference can be moved here; the curve above is \
             that of {} and {}.</p></noscript>\n</div>\n",
            limits::POINTS - 1,
            figure::front(&title, &first.pair.chart()),
            Name(&first.pair.a),
            Name(&first.pair.b),
        )
    }
}

/// The pairs with the strongest conflict; without a comparison, of the first task shown with the others.
fn strongest(shown: &[usize], conflicts: &Known<Conflicts>, most: usize) -> Vec<(usize, usize)> {
    if let Ok(found) = conflicts {
        return found.pairs.iter().take(most).map(|pair| (pair.a, pair.b)).collect();
    }
    let all =
        shown.iter().enumerate().flat_map(|(i, &a)| shown[i + 1..].iter().map(move |&b| (a, b)));
    all.take(most).collect()
}
