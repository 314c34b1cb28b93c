//! What the model is made of: its coefficients, and how sure they are.

use pmfcl::learner::Parameters;
use pmfcl::problem::Response;
use pmfcl::report::distributions::student_quantile;
use pmfcl::report::inference::{Contrast, Covariance, cluster_errors, cluster_errors_of};
use pmfcl::solve::weights;

use crate::error::ReportError;
use crate::html::{Name, Text};
use crate::limits;
use crate::number;
use crate::study::Study;

/// Rows of all tables together up to which all of them stand open.
const UNFOLDED: usize = 80;

/// One coefficient of one target.
#[derive(Debug)]
struct Coefficient<'a> {
    name: &'a str,
    intercept: bool,
    value: f64,
    /// Its standard error, where there is one.
    error: Option<f64>,
    /// The standard error with tasks as clusters.
    between: Option<f64>,
    /// `value / error`, or the value in standard deviations of the feature.
    size: f64,
}

/// The coefficients of all targets.
#[derive(Debug)]
pub(crate) struct Coefficients<'a> {
    /// Heading and coefficients, the most certain first.
    tables: Vec<(String, Vec<Coefficient<'a>>)>,
    /// Half the width of an interval in standard errors; `None` without errors.
    reach: Option<f64>,
    why_not: Option<String>,
    /// Whether errors with tasks as clusters are there.
    between: bool,
    /// Whether the errors take all tasks' features to be spread alike.
    approximate: bool,
}

impl<'a> Coefficients<'a> {
    pub(crate) fn of(study: &Study<'a>) -> Result<Self, ReportError> {
        let parameters = study.subject.learner.parameters()?;
        let theta = &parameters.theta;
        let contrasts = study.subject.coding.and_then(|coding| coding.contrasts);
        let first = usize::from(study.intercept());
        let spread: Vec<f64> = weights(study.pooled, study.intercept(), true)
            .iter()
            .map(|variance| variance.max(0.0).sqrt())
            .collect();
        let why_not = why_not(study);
        let mut reach = None;
        let mut errors: Option<Vec<Vec<Option<f64>>>> = None;
        let mut between: Option<Vec<Vec<f64>>> = None;
        let mut why_not = why_not.map(str::to_owned);
        let mut approximate = false;
        if why_not.is_none() {
            let covariance = Covariance::of(study.subject.learner)?;
            if let Some(reason) = covariance.missing() {
                why_not = Some(format!("There are no standard errors: {reason}."));
            } else {
                reach = Some(student_quantile(0.975, covariance.freedom()));
                errors = Some(match contrasts {
                    Some(contrasts) => covariance.contrast_errors(contrasts),
                    None => covariance.standard_errors(),
                });
                approximate = covariance.approximate();
                let tasks = study.summaries.as_ref().map_or(0, Vec::len);
                if tasks > 2 && limits::affords(tasks / 8, study.width()) {
                    between = match contrasts {
                        Some(list) => cluster_errors_of(study.subject.learner, list),
                        None => cluster_errors(study.subject.learner),
                    }
                    .ok();
                }
            }
        }
        // Errors are by the place of a class, parameters in the sorted order of classes.
        let classes = study.subject.learner.outputs().classes();
        let places: Vec<usize> = match classes {
            Some(classes) if classes.len() == theta.targets() => {
                classes.places().iter().map(|place| *place as usize).collect()
            }
            _ => (0..theta.targets()).collect(),
        };
        let mut tables = Vec::new();
        for (k, place) in places.into_iter().enumerate() {
            let own = theta.column(k);
            let column: Vec<f64> = match contrasts {
                Some(contrasts) => {
                    let sum = |c: &Contrast| c.iter().map(|(j, factor)| factor * own[*j]).sum();
                    contrasts.iter().map(sum).collect()
                }
                None => own.to_vec(),
            };
            let mut table: Vec<Coefficient<'a>> = (0..column.len())
                .map(|j| {
                    let error = errors.as_ref().and_then(|errors| errors[place][j]);
                    let name =
                        if j < first { "intercept" } else { &study.subject.features[j - first] };
                    let scale = if j < first { 0.0 } else { spread[j] };
                    let size = match error {
                        Some(error) if error > 0.0 => column[j] / error,
                        Some(_) => 0.0,
                        None if errors.is_some() => 0.0,
                        None => column[j] * scale,
                    };
                    let between = between.as_ref().map(|errors| errors[place][j]);
                    Coefficient {
                        name,
                        intercept: j < first,
                        value: column[j],
                        error,
                        between,
                        size,
                    }
                })
                .collect();
            table.sort_by(|x, y| y.size.abs().total_cmp(&x.size.abs()));
            tables.push((heading(study, &parameters, k), table));
        }
        Ok(Self { tables, reach, why_not, between: between.is_some(), approximate })
    }

    pub(crate) fn html(&self, study: &Study<'_>) -> String {
        let mut out = String::new();
        out.push_str(&self.caption(study));
        let most = (limits::ALL_COEFFICIENTS / self.tables.len().max(1)).max(20);
        let rows: usize = self.tables.iter().map(|(_, table)| table.len()).sum();
        let folds = self.tables.len() > 1 && rows > UNFOLDED;
        // Tables without intervals are slim: two stand side by side.
        let slim = self.tables.len() > 1 && self.reach.is_none() && !folds;
        if slim {
            out.push_str("<div class=\"two\">\n");
        }
        for (i, (heading, table)) in self.tables.iter().enumerate() {
            let open = if self.tables.len() > 4 { 10 } else { limits::COEFFICIENTS };
            let body = self.table(&table[..table.len().min(open)], table);
            // Many targets: the first stands open, the others can be unfolded.
            let whole = if i > 0 && folds {
                format!(
                    "<details class=\"block\"><summary>{heading}</summary>{body}{}</details>\n",
                    self.rest(table, open, most)
                )
            } else {
                let title =
                    if heading.is_empty() { String::new() } else { format!("<h3>{heading}</h3>") };
                format!("<div>{title}{body}{}</div>\n", self.rest(table, open, most))
            };
            out.push_str(&whole);
        }
        if slim {
            out.push_str("</div>\n");
        }
        out
    }

    fn caption(&self, study: &Study<'_>) -> String {
        let mut text = match (&self.why_not, self.reach) {
            (None, Some(_)) => {
                let mut text = String::from(
                    "The surest first. The picture shows each coefficient in standard errors from zero \
                     with its 95 % interval: what does not touch the middle line differs from zero. \
                     Intervals assume equal, independent noise, and that a sample weight counts copies of \
                     its row.",
                );
                if self.approximate {
                    text.push_str(
                        " They are approximate: samples count differently, and compact memory no \
                         longer knows whether the features of its tasks are spread alike.",
                    );
                }
                if study.solution.penalty.ridge() > 0.0 {
                    text.push_str(&format!(
                        " The ridge ({}) draws coefficients toward zero, so the intervals are \
                         credible intervals for this ridge: with hardly more rows than columns they \
                         are too narrow.",
                        number::short(study.solution.penalty.ridge())
                    ));
                }
                if self.between {
                    text.push_str(
                        " Where tasks conflict, trust «error between tasks» more: it takes every \
                         task as one observation.",
                    );
                }
                text
            }
            (why, _) => format!(
                "The largest first, measured in standard deviations of their feature. {}",
                why.as_deref().unwrap_or_default()
            ),
        };
        if let Some(what) = study.about.coefficients {
            text.push_str(&format!(" {what}"));
        }
        if let Some(coding) = study.subject.coding {
            text.push_str(&format!(" Categories: {}.", Text(coding.words)));
        }
        format!("<p class=\"lead\">{text}</p>\n")
    }

    fn table(&self, rows: &[Coefficient<'_>], all: &[Coefficient<'_>]) -> String {
        // The intercept is often far surer than all others, and would make their pictures tiny.
        let others = all.iter().filter(|c| !c.intercept);
        let most = others.map(|c| c.size.abs()).fold(0.0, f64::max);
        let reach = self.reach.unwrap_or(0.0);
        let scale = if most + reach > 0.0 { most + reach } else { 1.0 };
        let mut out = String::from(
            "<div class=\"scroll\"><table class=\"coefficients\"><thead><tr>\
             <th scope=\"col\">column</th>\
             <th scope=\"col\" class=\"pic\"><span class=\"hush\">picture</span></th>\
             <th scope=\"col\" class=\"n\">coefficient</th>",
        );
        if self.reach.is_some() {
            out.push_str(
                "<th scope=\"col\" class=\"n\">95 % interval</th><th scope=\"col\" class=\"n\">t</th>",
            );
            if self.between {
                out.push_str("<th scope=\"col\" class=\"n\">error</th>");
                out.push_str("<th scope=\"col\" class=\"n\">error between tasks</th>");
            }
        } else {
            out.push_str("<th scope=\"col\" class=\"n\">per standard deviation</th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        for c in rows {
            out.push_str(&self.row(c, reach, scale));
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    fn row(&self, c: &Coefficient<'_>, reach: f64, scale: f64) -> String {
        let cell = |text: &str| format!("<td class=\"n\">{text}</td>");
        let mut out = format!(
            "<tr><th scope=\"row\">{}</th><td class=\"pic\">{}</td>{}",
            Name(c.name),
            picture(c, reach, scale),
            cell(&number::short(c.value))
        );
        if self.reach.is_some() {
            let interval = c.error.map_or("not determined".to_owned(), |e| {
                format!(
                    "{} to {}",
                    number::short(c.value - reach * e),
                    number::short(c.value + reach * e)
                )
            });
            let t = c.error.map_or("–".to_owned(), |_| number::short(c.size));
            out.push_str(&format!("{}{}", cell(&interval), cell(&t)));
            if self.between {
                let error = c.error.map_or("–".to_owned(), number::short);
                let between = c.between.filter(|_| c.error.is_some());
                let between = between.map_or("–".to_owned(), number::short);
                out.push_str(&format!("{}{}", cell(&error), cell(&between)));
            }
        } else {
            let text = if c.intercept { "–".to_owned() } else { number::short(c.size) };
            out.push_str(&cell(&text));
        }
        out.push_str("</tr>\n");
        out
    }

    fn rest(&self, table: &[Coefficient<'_>], open: usize, most: usize) -> String {
        if table.len() <= open {
            return String::new();
        }
        let to = table.len().min(most.max(open));
        let left = table.len() - to;
        let note = if left == 0 {
            String::new()
        } else {
            format!(
                "<p class=\"note\">{} more, all smaller than these, are left out to keep the page \
                 small.</p>",
                number::grouped(left as f64)
            )
        };
        format!(
            "<details><summary>{} more</summary>{}{note}</details>",
            number::grouped((to - open) as f64),
            self.table(&table[open..to], table)
        )
    }
}

/// Why there are no standard errors.
fn why_not(study: &Study<'_>) -> Option<&'static str> {
    let many = study.width() > limits::COLUMNS_WITH_ERRORS;
    study.about.no_errors.or_else(|| {
        many.then_some("Standard errors of so many columns would take too long for a page.")
    })
}

fn heading(study: &Study<'_>, parameters: &Parameters, k: usize) -> String {
    let targets = study.subject.targets;
    match &parameters.response {
        Response::Classes { first_is_zero: true, .. } => {
            format!("{} against {}", Name(&targets[k + 1]), Name(&targets[0]))
        }
        Response::Classes { .. } => format!("Class {}", Name(&targets[k])),
        Response::Values { .. } if targets.len() == 1 => String::new(),
        Response::Values { .. } => format!("Target {}", Name(&targets[k])),
    }
}

/// The interval in standard errors around the value, zero in the middle.
fn picture(c: &Coefficient<'_>, reach: f64, scale: f64) -> String {
    let at = |v: f64| 60.0 + 57.0 * (v / scale).clamp(-1.0, 1.0);
    let sure = c.size.abs() > reach;
    let class = if sure { "sure" } else { "open" };
    let middle = at(c.size);
    let bar = if reach > 0.0 && c.error.is_some() {
        let (low, high) = (at(c.size - reach), at(c.size + reach));
        format!("<path d=\"M{low:.1} 7H{high:.1}\"/><circle cx=\"{middle:.1}\" cy=\"7\" r=\"3\"/>")
    } else if reach > 0.0 {
        String::new()
    } else {
        let (low, width) = (middle.min(60.0), (middle - 60.0).abs());
        format!("<rect x=\"{low:.1}\" y=\"3\" width=\"{width:.1}\" height=\"8\"/>")
    };
    format!(
        "<svg class=\"tiny {class}\" viewBox=\"0 0 120 14\" width=\"120\" height=\"14\" \
         aria-hidden=\"true\"><path class=\"zero\" d=\"M60 0V14\"/>{bar}</svg>"
    )
}
