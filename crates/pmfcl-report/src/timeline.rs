//! Over time: what every task had lost after each of those learned since.

use std::borrow::Cow;

use pmfcl::Summary;
use pmfcl::problem::Exactness;
use pmfcl_plot::{Axis, CellText, Dash, HeatMap, Legend, Lines, Marker, Paint, Ramp, Series};

use crate::error::ReportError;
use crate::figure;
use crate::html::{Name, Text, cut};
use crate::limits::{self, Known, Unknown};
use crate::number;
use crate::study::Study;

/// Losses of some tasks at some times.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Tasks and times shown: places in the list of tasks. After the task at `shown[k]` is time `k`.
    shown: Vec<usize>,
    /// `[k][t]`: loss (or bound) of the t-th task shown at the k-th time shown.
    loss: Vec<Vec<Option<f64>>>,
    /// The same, of forgetting.
    forgetting: Vec<Vec<Option<f64>>>,
    /// `[k]`: loss over all tasks so far, weighed as they were then.
    mean_loss: Vec<f64>,
    /// `[k]`: the least the same mean could be, every task with a model of its own.
    mean_least: Vec<f64>,
}

impl Timeline {
    pub(crate) fn of(study: &Study<'_>) -> Result<Known<Self>, ReportError> {
        let Some(summaries) = &study.summaries else { return Ok(Err(Unknown::folded())) };
        let (count, m) = (summaries.len(), study.width());
        if count < 2 {
            let reason = "There is a single task so far; forgetting begins with the second.";
            return Ok(Err(Unknown::new(reason)));
        }
        let shown = limits::spread(count, limits::TIMES);
        // Merging a task costs about as much as a solution; where quadratics only stand in, so does looking at a task.
        let stand_in = study.about.least_squares_stand_in;
        let steps = if stand_in { shown.len() * count / 2 + 1 } else { count };
        if !limits::affords(steps, m) {
            return Ok(Err(Unknown::expensive("learning again task by task", count, m)));
        }
        let mut line = Self {
            loss: Vec::new(),
            forgetting: Vec::new(),
            mean_loss: Vec::new(),
            mean_least: Vec::new(),
            shown,
        };
        if stand_in {
            line.assessed(study)?;
        } else {
            line.quadratics(study, summaries)?;
        }
        Ok(Ok(line))
    }

    /// Where losses are quadratics: the solutions on the way, and each task under each of them.
    fn quadratics(
        &mut self,
        study: &Study<'_>,
        summaries: &[Cow<'_, Summary>],
    ) -> Result<(), ReportError> {
        let learner = study.subject.learner;
        for step in learner.replay_after(&self.shown)? {
            let theta = &step.solution.theta;
            let (mut mean, mut least) = (0.0, 0.0);
            let mut row = vec![(None, None); self.shown.len()];
            for (t, weight) in step.weights.iter().enumerate() {
                let loss = summaries[t].loss(theta)?;
                let head = &learner.records()[t].head;
                let forgetting = match head.exactness {
                    Exactness::Exact => Some(summaries[t].forgetting(theta)?),
                    Exactness::Bound { .. } => head.least.value().map(|v| (loss - v).max(0.0)),
                };
                mean += weight * loss;
                least += weight * (loss - forgetting.unwrap_or(f64::NAN));
                if let Ok(place) = self.shown.binary_search(&t) {
                    row[place] = (Some(loss), forgetting);
                }
            }
            self.push(row, mean, least);
        }
        Ok(())
    }

    /// Where quadratics only stand in for the loss: each task as it stood then.
    fn assessed(&mut self, study: &Study<'_>) -> Result<(), ReportError> {
        for tasks in study.subject.learner.tasks_after(&self.shown)? {
            let (mut mean, mut least) = (0.0, 0.0);
            let mut row = vec![(None, None); self.shown.len()];
            for (t, task) in tasks.iter().enumerate() {
                if task.weight > 0.0 {
                    let loss = task.loss.unwrap_or(f64::NAN);
                    mean += task.weight * loss;
                    least += task.weight * (loss - task.forgetting.unwrap_or(f64::NAN));
                }
                if let Ok(place) = self.shown.binary_search(&t) {
                    row[place] = (task.loss, task.forgetting);
                }
            }
            self.push(row, mean, least);
        }
        Ok(())
    }

    fn push(&mut self, row: Vec<(Option<f64>, Option<f64>)>, mean: f64, least: f64) {
        let (loss, forgetting) = row.into_iter().unzip();
        self.loss.push(loss);
        self.forgetting.push(forgetting);
        self.mean_loss.push(mean);
        self.mean_least.push(least);
    }

    fn names(&self, study: &Study<'_>) -> Vec<String> {
        self.shown.iter().map(|&t| study.label(t).to_owned()).collect()
    }

    fn thinned(&self, study: &Study<'_>) -> String {
        if self.shown.len() == study.tasks.len() {
            return String::new();
        }
        format!(
            " {} of {} tasks are shown, spread evenly from the first to the last; means are over all.",
            self.shown.len(),
            number::grouped(study.tasks.len() as f64)
        )
    }

    /// Forgetting, task by time, in colours.
    pub(crate) fn heat(&self, study: &Study<'_>) -> String {
        let names = self.names(study);
        let what = study.forgetting_name();
        let column = |t: usize| -> Vec<Option<f64>> {
            self.forgetting.iter().map(move |row| row[t]).collect()
        };
        let cells: Vec<Vec<Option<f64>>> = (0..names.len()).map(column).collect();
        let most = cells.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let text = |cell: &Option<f64>| match cell {
            // Rounding would be written longest of all.
            Some(v) if *v < most / 2000.0 => "≈0".to_owned(),
            Some(v) => number::short(*v),
            None => String::new(),
        };
        let texts = cells.iter().map(|row| row.iter().map(text).collect()).collect();
        let chart = HeatMap {
            description: format!("{what} of each task (rows) after each task learned (columns)"),
            x_label: "after learning".into(),
            y_label: "task".into(),
            cells,
            rows: names.clone(),
            columns: names,
            color: Axis::linear(what).from_zero(),
            ramp: Ramp::Blues,
            text: CellText::Given(texts),
            ..HeatMap::default()
        };
        let worst = self.worst_jump(study).unwrap_or_default();
        format!(
            "<div class=\"two heat\"><figure>{}<figcaption>Read a row from left to right: how far the model is above the \
             best this task alone could have, after each task learned since. A pale row is a task \
             that is not forgotten.{worst}{}</figcaption></figure>\n{}</div>\n",
            figure::heat("Forgetting of each task over time", &chart),
            self.thinned(study),
            now(study)
        )
    }

    /// The single step that cost some task most, in words.
    fn worst_jump(&self, study: &Study<'_>) -> Option<String> {
        let mut worst: Option<(f64, usize, usize)> = None;
        for k in 1..self.shown.len() {
            for t in 0..k {
                let (Some(now), Some(before)) = (self.forgetting[k][t], self.forgetting[k - 1][t])
                else {
                    continue;
                };
                let rise = now - before;
                if worst.is_none_or(|(most, ..)| rise > most) {
                    worst = Some((rise, t, k));
                }
            }
        }
        let (rise, t, k) = worst.filter(|(rise, ..)| *rise > 0.0)?;
        let name = |place: usize| Name(&study.tasks[self.shown[place]].name).to_string();
        Some(format!(
            " The largest single step: learning {} raised the loss of {} by {}.",
            name(k),
            name(t),
            number::short(rise)
        ))
    }

    /// Mean loss and single losses over time.
    pub(crate) fn curves(&self, study: &Study<'_>) -> String {
        let names = self.names(study);
        let axis = |names: &[String]| {
            Axis::names("after learning", names.iter().map(|name| cut(name, 14)))
        };
        let (above, below) = if study.about.exact {
            ("the model", "a model for each task")
        } else {
            ("bound of the model", "least of each task")
        };
        let mean = Lines {
            description: "Mean loss over all tasks so far, and the least it could be".into(),
            x: axis(&names),
            y: Axis::linear(format!("mean {}", study.about.axis)),
            series: vec![
                Series::from_values(above, self.mean_loss.iter().copied()),
                Series::from_values(below, self.mean_least.iter().copied())
                    .with_paint(Paint::Muted)
                    .with_dash(Dash::Long)
                    .with_marker(Marker::None),
            ],
            legend: Legend::Below,
            ..Lines::default()
        };
        let last: Vec<Option<f64>> = self.forgetting.last().cloned().unwrap_or_default();
        let chosen = limits::largest(&last, limits::CURVES);
        let series = chosen.iter().map(|&t| {
            let values = self.loss.iter().map(|row| row[t].unwrap_or(f64::NAN));
            Series::from_values(cut(&names[t], 18), values)
        });
        let single = Lines {
            description: "Loss of single tasks over time".into(),
            x: axis(&names),
            y: Axis::linear(study.about.axis),
            series: series.collect(),
            legend: Legend::Below,
            ..Lines::default()
        };
        let which = if chosen.len() < study.tasks.len() {
            format!("The {} most forgotten tasks", chosen.len())
        } else {
            "Every task".to_owned()
        };
        let gap = study.about.timeline_gap;
        format!(
            "<div class=\"two\"><figure>{}<figcaption>Mean over the tasks so far, weighed as they were \
             then. {gap}{}</figcaption></figure>\n<figure>{}<figcaption>{which}, from the moment \
             it was learned. A level line is a task that keeps its loss while others are \
             learned.</figcaption></figure></div>",
            figure::lines("Mean loss over time", &mean),
            self.thinned(study),
            figure::lines("Loss of single tasks over time", &single),
        )
    }
}

/// The present forgetting of each task, next to its least loss.
fn now(study: &Study<'_>) -> String {
    let forgetting = study.forgetting();
    let shown = limits::largest(&forgetting, limits::BARS);
    let most = forgetting.iter().flatten().copied().fold(0.0, f64::max);
    let mut out =
        String::from("<div><h3 class=\"first\">As it stands now</h3>\n<ul class=\"now\">\n");
    for t in shown {
        let task = &study.tasks[t];
        let lost = forgetting[t];
        let share = match (task.forgetting, task.loss) {
            (Some(lost), Some(loss)) if loss > 0.0 && study.about.has_zero => {
                format!("{} of its loss", number::percent(lost / loss))
            }
            _ => String::new(),
        };
        let width = lost.filter(|_| most > 0.0).map_or(0.0, |lost| 100.0 * lost / most);
        out.push_str(&format!(
            "<li><span class=\"who\" title=\"{}\">{}</span><span class=\"track\">\
             <i style=\"width:{width:.1}%\"></i></span><span class=\"n\">{}</span>\
             <span class=\"n share\">{share}</span></li>\n",
            Text(&task.name),
            Text(&cut(study.label(t), 17)),
            lost.map_or("–".to_owned(), number::short),
        ));
    }
    out.push_str("</ul>\n");
    if study.tasks.len() > limits::BARS {
        out.push_str(&format!(
            "<p class=\"note\">The {} most forgotten of {} tasks.</p>\n",
            limits::BARS,
            number::grouped(study.tasks.len() as f64)
        ));
    }
    out.push_str("</div>");
    out
}
