//! The head of the page: what the model is, and the findings about it in sentences.

use crate::conflicts::{Conflicts, with_sign};
use crate::html::{Name, Text};
use crate::limits::Known;
use crate::memory::{row_bytes, state_bytes};
use crate::number;
use crate::study::Study;

/// The numbers printed large.
pub(crate) fn figures(study: &Study<'_>) -> String {
    let (state, rows) = (state_bytes(study), row_bytes(study));
    let mean = match study.mean_forgetting {
        Some(mean) => number::short(mean),
        None => "not known".to_owned(),
    };
    let what = if study.about.exact { "mean forgetting" } else { "bound on mean forgetting" };
    let tile = |value: &str, what: &str, note: &str| {
        format!(
            "<div class=\"tile\"><dt>{what}</dt><dd>{value}</dd><dd class=\"sub\">{note}</dd></div>\n"
        )
    };
    let columns = number::count(study.width(), "column", "columns");
    let basis = study.subject.learner.settings().basis.to_string();
    let mut out = String::from("<dl class=\"tiles\">\n");
    if let Some(found) = study.subject.learner.left_out() {
        out.push_str(&tile(
            &number::percent(found.accuracy()),
            "accuracy, rows left out",
            &format!(
                "log-loss {}, calibration error {}",
                number::short(found.log_loss()),
                number::short(found.calibration_error())
            ),
        ));
    }
    out.push_str(&tile(
        &number::grouped(study.tasks.len() as f64),
        "tasks",
        &format!("{} samples", number::grouped(study.subject.learner.samples())),
    ));
    out.push_str(&tile(&mean, what, &noise(study)));
    out.push_str(&tile(
        &number::bytes(state),
        "memory",
        &format!(
            "{} of the {} of rows discarded",
            number::percent(state / rows),
            number::bytes(rows)
        ),
    ));
    out.push_str(&tile(&Text(&basis).to_string(), "basis", &format!("{columns}, {}", loss(study))));
    out.push_str("</dl>\n");
    out.push_str(&candidates(study));
    out
}

/// The candidates of a portfolio with their scores; nothing where there are none.
fn candidates(study: &Study<'_>) -> String {
    let found = study.subject.learner.candidates().unwrap_or_default();
    if found.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h3>Candidates</h3>\n<p>The basis is a portfolio; generalised cross-validation of the pooled summary chose what \
         predicts. A score is the share of the target's variance that is expected to stay unexplained in new \
         rows; of poisson and logistic it is the loss that is expected, by Akaike's criterion.</p>\n\
         <table><thead><tr><th>columns of</th><th>number</th><th>GCV</th><th></th></tr></thead><tbody>\n",
    );
    for candidate in found {
        let mark = if candidate.chosen { "chosen" } else { "" };
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{:.5}</td><td>{mark}</td></tr>\n",
            Text(&candidate.name),
            candidate.columns,
            candidate.score
        ));
    }
    out.push_str("</tbody></table>\n");
    out
}

/// The loss in a few words; where it is bounded, with its name and parameters.
fn loss(study: &Study<'_>) -> String {
    let title = study.about.title;
    if study.about.exact {
        return title.to_owned();
    }
    format!("{title} ({})", Text(&study.subject.learner.problem().to_string()))
}

fn noise(study: &Study<'_>) -> String {
    let floor = study
        .chow
        .as_ref()
        .and_then(|tests| tests.iter().map(|test| test.noise_floor).sum::<Option<f64>>());
    match floor {
        Some(floor) if !study.about.least_squares_stand_in => {
            format!("noise alone would cost {}", number::short(floor))
        }
        _ if study.tasks.len() == 1 => "the price of the ridge".to_owned(),
        _ => "weighed by the preference".to_owned(),
    }
}

/// The findings, one or two sentences each.
pub(crate) fn verdicts(study: &Study<'_>, conflicts: &Known<Conflicts>) -> String {
    let mut lines = vec![forgotten(study)];
    if let Some(p) = study.p_value() {
        let stand_in = study.about.test_of.map_or(String::new(), |what| format!(" of {what}"));
        lines.push(match p {
            Ok(p) if p < 0.05 => format!(
                "The tasks do not follow one model: they differ by more than noise explains (Chow \
                 test{stand_in}, p {}).",
                with_sign(p)
            ),
            Ok(p) => format!(
                "One model fits all tasks: what they differ by can be noise (Chow test{stand_in}, p {}).",
                with_sign(p)
            ),
            Err(reason) => format!(
                "Whether the tasks differ by more than noise cannot be tested: {reason}."
            ),
        });
    }
    if let Ok(conflicts) = conflicts {
        lines.extend(conflicts.verdict(study));
    }
    let warnings = study.subject.learner.warnings();
    lines.extend(warnings.iter().map(|warning| Text(warning).to_string()));
    if study.summaries.is_none() {
        lines.push(
            "Compact memory has folded the tasks: the model is the same, but single tasks cannot be \
             looked at any more."
                .to_owned(),
        );
    }
    format!("<ul class=\"verdicts\">\n<li>{}</li>\n</ul>\n", lines.join("</li>\n<li>"))
}

fn forgotten(study: &Study<'_>) -> String {
    let forgetting = study.forgetting();
    let worst = forgetting
        .iter()
        .enumerate()
        .filter_map(|(t, f)| f.map(|f| (t, f)))
        .max_by(|x, y| x.1.total_cmp(&y.1).then(y.0.cmp(&x.0)));
    let Some((t, most)) = worst else {
        return match study.mean_forgetting {
            Some(mean) => format!(
                "On average {} of loss is forgotten; which tasks lost it is not known any more.",
                number::short(mean)
            ),
            None => "What single tasks lost is not known.".to_owned(),
        };
    };
    if study.tasks.len() == 1 {
        return "A single task has been learned, so there is nothing to forget yet.".to_owned();
    }
    let task = &study.tasks[t];
    let name = Name(&task.name);
    if !study.about.exact {
        let proved = if task.guaranteed { "proved" } else { "not proved" };
        return format!(
            "At most forgotten: {name}, by no more than {} ({proved}).",
            number::short(most)
        );
    }
    match task.loss.filter(|loss| *loss > 0.0 && most / loss < 1e-9) {
        Some(_) => "Nothing is forgotten: every task is at its own best.".to_owned(),
        None => {
            let share = task
                .loss
                .filter(|loss| *loss > 0.0 && study.about.has_zero)
                .map_or(String::new(), |loss| {
                    format!(", {} of its loss", number::percent(most / loss))
                });
            format!("Most forgotten: {name}, {} above its own best{share}.", number::short(most))
        }
    }
}
