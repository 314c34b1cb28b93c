//! The page put together.

use crate::coefficients::Coefficients;
use crate::conflicts::Conflicts;
use crate::error::ReportError;
use crate::html::{Text, label};
use crate::limits::Unknown;
use crate::study::Study;
use crate::subject::Subject;
use crate::timeline::Timeline;
use crate::trade::Trade;
use crate::{calibration, checks, memory, overview, tasks};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page about a model: one HTML text that needs nothing else.
///
/// The same model gives the same bytes. What a model cannot tell (single tasks in folded memory, say), or what
/// would take too long, the page says in words.
///
/// # Errors
/// When nothing has been learned, or the names do not go with the model.
pub fn page(subject: &Subject<'_>) -> Result<String, ReportError> {
    let study = Study::new(subject)?;
    let timeline = Timeline::of(&study)?;
    let conflicts = Conflicts::of(&study)?;
    let trade = Trade::of(&study, &conflicts)?;
    let coefficients = Coefficients::of(&study)?;

    let calibration = calibration::html(&study).map(|body| Section {
        id: "calibration",
        title: "How often it is right, and how sure it may be",
        lead: "A sample of the rows of every task, each predicted by the model without it, when the task was measured; the rows \
               were then discarded. Other data may be harder: score the model on rows it has not seen.",
        body,
    });
    let checks = checks::html(&study).map(|body| Section {
        id: "checks",
        title: "The last task, checked against the others",
        lead: "What `pmfcl check` says of rows before they are learned, as far as summaries say it afterwards: the same rows again, \
               other units, columns that moved, another relation to the target.",
        body,
    });
    let sections = [
        Section {
            id: "forgetting",
            title: "What was forgotten, and when",
            lead: study.about.meaning,
            body: or_why(timeline.as_ref().map(|line| line.heat(&study))),
        },
        Section {
            id: "losses",
            title: "Losses over time",
            lead: "",
            body: match &timeline {
                Ok(line) => line.curves(&study),
                Err(_) if study.summaries.is_none() => why(&Unknown::folded_too()),
                Err(unknown) => why(unknown),
            },
        },
        Section {
            id: "conflicts",
            title: "Which tasks conflict",
            lead: "",
            body: or_why(conflicts.as_ref().map(|found| found.html(&study))),
        },
        Section {
            id: "trade-offs",
            title: "What another preference would do",
            lead: "",
            body: match &trade {
                Ok(trade) => trade.html(&study),
                Err(unknown) => why(unknown),
            },
        },
        Section {
            id: "coefficients",
            title: "Coefficients, and how sure they are",
            lead: "",
            body: coefficients.html(&study),
        },
        Section { id: "memory", title: "Memory", lead: "", body: memory::html(&study) },
        Section { id: "tasks", title: "All tasks in numbers", lead: "", body: tasks::html(&study) },
    ];
    let data = match &trade {
        Ok(trade) => format!(
            "<script type=\"application/json\" id=\"numbers\">{}</script>\n",
            trade.json(&study)?
        ),
        Err(_) => String::new(),
    };
    let sections: Vec<Section> = calibration.into_iter().chain(checks).chain(sections).collect();
    let mut links = String::new();
    for section in &sections {
        links.push_str(&format!(
            "<a href=\"#{}\">{}</a>
",
            section.id,
            section.short()
        ));
    }
    let bodies: String = sections.iter().map(Section::html).collect();
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<div class=\"top\"><p class=\"kicker\">pmfcl report</p>\
         <button type=\"button\" id=\"theme\" class=\"script\" hidden \
         aria-label=\"Switch between light and dark\">Dark</button></div>\n\
         <h1>{}</h1>\n{}{}<nav aria-label=\"Sections\">{links}</nav>\n</header>\n\
         <main>\n{bodies}</main>\n{data}<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        Text(label(subject.title)),
        Text(label(subject.title)),
        overview::verdicts(&study, &conflicts),
        overview::figures(&study),
    ))
}

struct Section {
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    body: String,
}

impl Section {
    fn short(&self) -> &'static str {
        match self.id {
            "calibration" => "Accuracy",
            "checks" => "Checks",
            "forgetting" => "Forgetting",
            "losses" => "Losses",
            "conflicts" => "Conflicts",
            "trade-offs" => "Trade-offs",
            "coefficients" => "Coefficients",
            "memory" => "Memory",
            _ => "Tasks",
        }
    }

    fn html(&self) -> String {
        let lead = if self.lead.is_empty() {
            String::new()
        } else {
            format!("<p class=\"lead\">{}</p>\n", self.lead)
        };
        format!(
            "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{lead}{2}\
             </section>\n",
            self.id, self.title, self.body
        )
    }
}

fn or_why(body: Result<String, &Unknown>) -> String {
    body.unwrap_or_else(why)
}

fn why(unknown: &Unknown) -> String {
    format!("<p class=\"empty\">{}</p>\n", Text(&unknown.0))
}
