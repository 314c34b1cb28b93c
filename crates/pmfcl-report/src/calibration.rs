//! Accuracy and calibration of a classifier, measured with rows that were left out.

use pmfcl::problem::Evaluation;
use pmfcl_plot::{Axis, Dash, Legend, Lines, Marker, Paint, Series};

use crate::figure;
use crate::html::Name;
use crate::limits;
use crate::number;
use crate::study::Study;

/// The section; `None` where nothing was measured.
pub(crate) fn html(study: &Study<'_>) -> Option<String> {
    let found = study.subject.learner.left_out()?;
    Some(format!(
        "<div class=\"two\"><figure>{}<figcaption>Rows by the probability of the class that is predicted: how often it was \
         right. On the dashed line probabilities mean what they say; below it they are too sure. Calibration error {}, Brier \
         score {}.</figcaption></figure>\n{}</div>\n",
        curve(&found),
        number::short(found.calibration_error()),
        number::short(found.brier()),
        table(study),
    ))
}

fn curve(found: &Evaluation) -> String {
    let points = found.reliability();
    let chart = Lines {
        description: "Accuracy against confidence".into(),
        x: Axis::linear("probability of the predicted class"),
        y: Axis::linear("share that was right"),
        series: vec![
            Series::new("the model", points.iter().map(|bin| (bin.confidence, bin.accuracy))),
            Series::new("calibrated", [(0.0, 0.0), (1.0, 1.0)])
                .with_paint(Paint::Muted)
                .with_dash(Dash::Long)
                .with_marker(Marker::None),
        ],
        legend: Legend::Below,
        ..Lines::default()
    };
    figure::lines("Reliability", &chart)
}

/// The scores of each task.
fn table(study: &Study<'_>) -> String {
    let mut out =
        String::from("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">task</th>");
    for text in ["accuracy", "log-loss", "Brier", "calibration error"] {
        out.push_str(&format!("<th scope=\"col\" class=\"n\">{text}</th>"));
    }
    out.push_str("</tr></thead><tbody>\n");
    let measured = study.tasks.iter().filter_map(|task| Some((task, task.left_out.as_ref()?)));
    for (task, found) in measured.take(limits::TASKS_OPEN) {
        out.push_str(&format!("<tr><th scope=\"row\">{}</th>", Name(&task.name)));
        for value in [found.accuracy(), found.log_loss(), found.brier(), found.calibration_error()]
        {
            out.push_str(&format!("<td class=\"n\">{}</td>", number::short(value)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}
