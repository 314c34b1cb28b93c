//! The last task, checked against those before it: what `pmfcl check` says of rows, as far as summaries say it.

use pmfcl::problem::Draft;
use pmfcl::report::check::{Check, Effort, NewTask, RowFindings};

use crate::html::{Name, Text};
use crate::limits;
use crate::number;
use crate::study::Study;

/// Columns that are listed.
const LISTED: usize = 10;

/// The findings; `None` where there is nothing to compare, or it would take too long.
pub(crate) fn html(study: &Study<'_>) -> Option<String> {
    let learner = study.subject.learner;
    let name = &study.tasks.last()?.name;
    if study.tasks.len() < 2 || study.summaries.is_none() || !limits::affords(4, study.width()) {
        return None;
    }
    let design = learner.design()?;
    let mut before = learner.clone();
    before.unlearn(name).ok()?;
    let own = learner.task_summary(name).ok()?;
    let places: Vec<usize> = (0..own.quadratic.width()).collect();
    let draft = Draft::from(own.rearranged(&places, design.width()).ok()?);
    let task = NewTask {
        design,
        draft: &draft,
        rows: &RowFindings::default(),
        dropped: 0,
        inputs: study.subject.features,
        targets: study.subject.targets,
        gaps: design.fills(),
    };
    let check = Check::of(&before, &task, Effort::Cheap).ok()?;
    let mut out = format!("<p>{}: ", Name(name));
    out.push_str(match check.warnings().next() {
        None => "nothing to warn of.</p>\n",
        Some(_) => "look at this.</p>\n",
    });
    out.push_str("<ul>\n");
    for finding in &check.findings {
        let mark = if finding.warning { "<strong>warning:</strong> " } else { "" };
        out.push_str(&format!("<li>{mark}{}</li>\n", Text(&finding.text)));
    }
    out.push_str("</ul>\n");
    let mut moved: Vec<_> = check.inputs.iter().filter(|input| input.p_value < 0.01).collect();
    moved.sort_by(|a, b| b.shift.abs().total_cmp(&a.shift.abs()));
    if moved.is_empty() {
        return Some(out);
    }
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">column that moved</th>\
         <th scope=\"col\" class=\"n\">mean before</th><th scope=\"col\" class=\"n\">mean</th>\
         <th scope=\"col\" class=\"n\">in standard deviations</th></tr></thead><tbody>\n",
    );
    for input in moved.iter().take(LISTED) {
        out.push_str(&format!(
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            Name(&study.subject.features[input.input]),
            number::short(input.mean_before),
            number::short(input.mean),
            number::short(input.shift)
        ));
    }
    out.push_str("</tbody></table></div>\n");
    Some(out)
}
