//! Every task in numbers.

use pmfcl::TaskReport;

use crate::html::Name;
use crate::limits;
use crate::number;
use crate::study::Study;

pub(crate) fn html(study: &Study<'_>) -> String {
    let all = &study.tasks;
    let shown = all.len().min(limits::TASKS);
    let open = shown.min(limits::TASKS_OPEN);
    let mut out = table(study, &all[..open]);
    if shown > open {
        out.push_str(&format!(
            "<details><summary>{} more</summary>{}</details>\n",
            number::grouped((shown - open) as f64),
            table(study, &all[open..shown])
        ));
    }
    if all.len() > shown {
        out.push_str(&format!(
            "<p class=\"note\">{} more tasks are left out to keep the page small.</p>\n",
            number::grouped((all.len() - shown) as f64)
        ));
    }
    out
}

fn table(study: &Study<'_>, tasks: &[TaskReport]) -> String {
    let fits = fits(study);
    let least = study.about.least;
    let mut out =
        String::from("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">task</th>");
    let mut head = |text: &str| {
        out.push_str(&format!("<th scope=\"col\" class=\"n\">{text}</th>"));
    };
    for text in ["samples", "rank", "weight", "loss", least, "forgetting", "of its loss", "bound"] {
        head(text);
    }
    if fits {
        head("R²");
    }
    out.push_str("<th scope=\"col\">bound proved</th></tr></thead><tbody>\n");
    for task in tasks {
        out.push_str(&row(study, task, fits));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Whether R² of a single target is there to be shown.
fn fits(study: &Study<'_>) -> bool {
    !study.subject.learner.problem().predicts_classes()
        && study.subject.targets.len() == 1
        && study.tasks.iter().any(|task| task.r2.is_some())
}

fn row(study: &Study<'_>, task: &TaskReport, fits: bool) -> String {
    let number = |v: Option<f64>| v.map_or("–".to_owned(), number::short);
    let share = match (task.forgetting, task.loss) {
        (Some(forgetting), Some(loss)) if loss > 0.0 && study.about.has_zero => {
            number::percent(forgetting / loss)
        }
        _ => "–".to_owned(),
    };
    let mut out = format!("<tr><th scope=\"row\">{}</th>", Name(&task.name));
    let cells = [
        number::grouped(task.samples),
        number::grouped(task.rank as f64),
        number::percent(task.weight),
        number(task.loss),
        number(task.min_loss),
        number(task.forgetting),
        share,
        number(task.bound),
    ];
    for cell in cells {
        out.push_str(&format!("<td class=\"n\">{cell}</td>"));
    }
    if fits {
        let r2 = task.r2.as_ref().and_then(|r2| r2.first().copied());
        out.push_str(&format!("<td class=\"n\">{}</td>", number(r2)));
    }
    let proved = match (task.bound, task.guaranteed) {
        (None, _) => "–",
        (_, true) => "yes",
        (_, false) => "no",
    };
    out.push_str(&format!("<td>{proved}</td></tr>\n"));
    out
}
