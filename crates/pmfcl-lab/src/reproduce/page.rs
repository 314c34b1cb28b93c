//! The page: one HTML file with everything in it.

use pmfcl_plot::{Escaped, Theme};

use super::Outcome;
use super::captions;
use super::claims::Finding;
use super::pictures::Figure;
use super::tables;
use pmfcl_terminal::Table;

const STYLE: &str = include_str!("page.css");

/// Findings first, then figures, then tables.
pub(super) fn html(outcome: &Outcome, findings: &[Finding], figures: &[Figure]) -> String {
    let tables = tables::shown(outcome);
    let mut links = String::from("<a href=\"#findings\">Findings</a>\n");
    let mut body = section("findings", "What holds, and what does not", &list(findings));
    for figure in figures {
        links.push_str(&format!(
            "<a href=\"#{}\">{}</a>\n",
            figure.name,
            Escaped(short_title(figure.title))
        ));
        body.push_str(&section(figure.name, figure.title, &picture(figure)));
    }
    for (i, table) in tables.iter().enumerate() {
        body.push_str(&section(&format!("table-{i}"), &table.title, &rows(table, i == 0)));
    }
    let mut protocol = String::new();
    for line in captions::protocol(outcome) {
        protocol.push_str(&format!("<li>{}</li>\n", Escaped(&line)));
    }
    links.push_str("<a href=\"#table-0\">Tables</a>\n<a href=\"#protocol\">How it was run</a>\n");
    body.push_str(&section(
        "protocol",
        "How it was run",
        &format!("<ul class=\"protocol\">\n{protocol}</ul>\n"),
    ));
    let lead = captions::lead(outcome, findings);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>pmfcl-lab reproduce</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<p class=\"kicker\">pmfcl-lab reproduce</p>\n<h1>The paper's experiments, run again</h1>\n\
         <p class=\"lead\">{}</p>\n<nav aria-label=\"Sections\">{links}</nav>\n</header>\n<main>\n{body}</main>\n</body>\n</html>\n",
        Escaped(&lead),
    )
}

/// What is left of a title before or after its colon, for links.
fn short_title(title: &str) -> &str {
    match title.split_once(':') {
        Some((first, _)) => first,
        None => title,
    }
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{}</h2>\n{body}</section>\n",
        Escaped(title)
    )
}

fn list(findings: &[Finding]) -> String {
    let one = |f: &Finding| {
        format!(
            "<li class=\"{}\" id=\"{}\"><span class=\"mark\">{}</span><div><p class=\"claim\">{}</p><p>{}</p>\
             <p class=\"where\">{}</p></div></li>\n",
            f.verdict.key(),
            f.id,
            Escaped(&f.verdict.words()),
            Escaped(f.claim),
            Escaped(&f.text),
            Escaped(f.source),
        )
    };
    format!("<ul class=\"findings\">\n{}</ul>\n", findings.iter().map(one).collect::<String>())
}

fn picture(figure: &Figure) -> String {
    // Headings stand in the page, so the picture's own title is left to those who do not see it.
    format!(
        "<figure>\n<div class=\"chart wide\">{}</div>\n<div class=\"chart narrow\">{}</div>\n<figcaption>{}</figcaption>\n\
         </figure>\n",
        figure.untitled().svg(Theme::Auto),
        figure.narrow.svg(Theme::Auto),
        Escaped(&figure.caption)
    )
}

fn cells(tag: &str, row: &[String]) -> String {
    let mut out = String::new();
    for cell in row {
        out.push_str(&format!("<{tag}>{}</{tag}>", Escaped(cell)));
    }
    out
}

fn rows(table: &Table, text: bool) -> String {
    let class = if text { " class=\"text\"" } else { "" };
    let head = cells("th", &table.columns);
    let mut out =
        format!("<div class=\"scroll\"><table{class}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str(&format!("<tr>{}</tr>\n", cells("td", row)));
    }
    out.push_str("</tbody>\n</table></div>\n");
    for note in &table.notes {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", Escaped(note)));
    }
    out
}
