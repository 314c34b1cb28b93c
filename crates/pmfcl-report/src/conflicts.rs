//! Which tasks pull the model apart, and whether that is more than noise.

use pmfcl::report::MissingReason;
use pmfcl::report::conflict::{chow, smallest_p};
use pmfcl::{Penalty, solve};
use pmfcl_plot::{Axis, CellText, HeatMap, Ramp};

use crate::error::ReportError;
use crate::figure;
use crate::html::Name;
use crate::limits::{self, Known, Unknown};
use crate::number;
use crate::study::Study;

/// Pairs listed in numbers.
const LISTED: usize = 12;

/// Some tasks, pair by pair.
#[derive(Debug)]
pub(crate) struct Conflicts {
    /// Tasks shown: places in the list of tasks.
    pub(crate) shown: Vec<usize>,
    /// Every pair, the strongest conflict first.
    pub(crate) pairs: Vec<Conflict>,
}

/// Two tasks in a model of the two alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conflict {
    pub(crate) a: usize,
    pub(crate) b: usize,
    /// What `a` forgets in it.
    forgets_a: f64,
    /// What `b` forgets in it.
    forgets_b: f64,
    /// Chow's p-value, corrected for targets and for the number of pairs shown, or why there is none.
    p: Result<f64, MissingReason>,
}

impl Conflict {
    fn strength(&self) -> f64 {
        self.forgets_a + self.forgets_b
    }
}

impl Conflicts {
    pub(crate) fn of(study: &Study<'_>) -> Result<Known<Self>, ReportError> {
        let Some(summaries) = &study.summaries else { return Ok(Err(Unknown::folded_too())) };
        let m = study.width();
        if summaries.len() < 2 {
            return Ok(Err(Unknown::new("There is a single task so far, so nothing conflicts.")));
        }
        let shown = limits::largest(&study.forgetting(), limits::CONFLICTS);
        let count = shown.len() * (shown.len() - 1) / 2;
        if !limits::affords(2 * count, m) {
            return Ok(Err(Unknown::expensive("comparing every pair", shown.len(), m)));
        }
        let mut pairs = Vec::with_capacity(count);
        for (i, &a) in shown.iter().enumerate() {
            for &b in &shown[i + 1..] {
                let (first, second) = (&*summaries[a], &*summaries[b]);
                let both = first.merge(second)?;
                let theta = solve(&both, study.intercept(), Penalty::NONE, None)?.theta;
                let accumulator = study.subject.learner.settings().accumulator;
                let p = if study.about.testable {
                    smallest_p(&chow([first, second].into_iter(), accumulator)?)
                } else {
                    Err(MissingReason::Bounds)
                };
                pairs.push(Conflict {
                    a,
                    b,
                    forgets_a: first.forgetting(&theta)?,
                    forgets_b: second.forgetting(&theta)?,
                    p: p.map(|p| (p * count as f64).min(1.0)),
                });
            }
        }
        pairs.sort_by(|x, y| {
            y.strength().total_cmp(&x.strength()).then((x.a, x.b).cmp(&(y.a, y.b)))
        });
        Ok(Ok(Self { shown, pairs }))
    }

    /// The strongest conflict that is more than noise, in words.
    pub(crate) fn verdict(&self, study: &Study<'_>) -> Option<String> {
        if !study.about.testable {
            return None;
        }
        let name = |t: usize| Name(&study.tasks[t].name).to_string();
        let differs = |pair: &&Conflict| pair.p.is_ok_and(|p| p < 0.05);
        let real = self.pairs.iter().filter(differs).count();
        let Some(first) = self.pairs.iter().find(differs) else {
            let tested = self.pairs.iter().any(|pair| pair.p.is_ok());
            let none = "No pair of tasks conflicts by more than noise explains.";
            return tested.then(|| none.to_owned());
        };
        Some(format!(
            "Strongest conflict: {} and {} (p {}); {} of {} pairs differ by more than noise.",
            name(first.a),
            name(first.b),
            with_sign(first.p.unwrap_or(1.0)),
            number::grouped(real as f64),
            number::grouped(self.pairs.len() as f64),
        ))
    }

    /// Why pairs have no p-value, each reason once.
    fn reasons(&self) -> Vec<MissingReason> {
        let mut found = Vec::new();
        for reason in self.pairs.iter().filter_map(|pair| pair.p.err()) {
            if !found.contains(&reason) {
                found.push(reason);
            }
        }
        found
    }

    fn matrix(&self, study: &Study<'_>) -> HeatMap {
        let size = self.shown.len();
        let mut cells = vec![vec![None; size]; size];
        let mut stars = vec![vec![String::new(); size]; size];
        for pair in &self.pairs {
            let (Ok(i), Ok(j)) =
                (self.shown.binary_search(&pair.a), self.shown.binary_search(&pair.b))
            else {
                continue;
            };
            cells[i][j] = Some(pair.forgets_a);
            cells[j][i] = Some(pair.forgets_b);
            let mark = pair.p.map_or("", marks);
            mark.clone_into(&mut stars[i][j]);
            mark.clone_into(&mut stars[j][i]);
        }
        let names: Vec<String> = self.shown.iter().map(|&t| study.label(t).to_owned()).collect();
        HeatMap {
            description:
                "What the task of a row forgets when it is learned with the task of a column".into(),
            x_label: "learned together with".into(),
            y_label: "task".into(),
            rows: names.clone(),
            columns: names,
            cells,
            color: Axis::linear("what the row forgets").from_zero(),
            ramp: Ramp::Blues,
            text: CellText::Given(stars),
            ..HeatMap::default()
        }
    }

    pub(crate) fn html(&self, study: &Study<'_>) -> String {
        let testable = study.about.testable;
        let mut how = String::from(
            "A cell says what the task of its row would forget in a model of just the two tasks of \
             row and column.",
        );
        if testable {
            how.push_str(
                " Stars mark pairs that differ by more than noise (Chow's F-test, p-values times the \
                 number of pairs): * below 0.05, ** below 0.01, *** below 0.001. The test assumes \
                 equal, independent noise, and that a sample weight counts copies of its row.",
            );
            for reason in self.reasons() {
                how.push_str(&format!(" A dash stands for no p-value: {reason}."));
            }
        } else {
            how.push_str(
                " There are no p-values: bounds are not errors of rows, so no test applies to them.",
            );
        }
        if let Some(what) = study.about.stand_in {
            how.push_str(&format!(" <strong>{what}</strong>"));
        }
        if let Some(note) = study.about.test_note {
            how.push_str(&format!(" {note}"));
        }
        if self.shown.len() < study.tasks.len() {
            how.push_str(&format!(
                " {} of {} tasks are compared: the most forgotten ones.",
                self.shown.len(),
                number::grouped(study.tasks.len() as f64)
            ));
        }
        format!(
            "<div class=\"two\"><figure>{}<figcaption>{how}</figcaption></figure>\n{}</div>",
            figure::heat("Conflicts between tasks", &self.matrix(study)),
            self.table(study)
        )
    }

    fn table(&self, study: &Study<'_>) -> String {
        let testable = study.about.testable;
        let mut out = String::from(
            "<div class=\"scroll\"><table><caption>Strongest conflicts</caption><thead><tr>\
             <th scope=\"col\">a</th><th scope=\"col\">b</th>\
             <th scope=\"col\" class=\"n\">a forgets</th><th scope=\"col\" class=\"n\">b forgets</th>",
        );
        if testable {
            out.push_str("<th scope=\"col\" class=\"n\">p</th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        for pair in self.pairs.iter().take(LISTED) {
            out.push_str(&format!(
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
                Name(&study.tasks[pair.a].name),
                Name(&study.tasks[pair.b].name),
                number::short(pair.forgets_a),
                number::short(pair.forgets_b),
            ));
            if testable {
                let p = pair.p.map_or("–".to_owned(), number::p_value);
                out.push_str(&format!("<td class=\"n\">{}</td>", crate::html::Text(&p)));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>");
        if self.pairs.len() > LISTED {
            out.push_str(&format!(
                "<p class=\"note\">{LISTED} of {} pairs.</p>",
                number::grouped(self.pairs.len() as f64)
            ));
        }
        out.push_str("</div>");
        out
    }
}

fn marks(p: f64) -> &'static str {
    match p {
        p if p < 0.001 => "***",
        p if p < 0.01 => "**",
        p if p < 0.05 => "*",
        _ => "",
    }
}

/// `= 0.03`, or `&lt; 0.001`.
pub(crate) fn with_sign(p: f64) -> String {
    let text = number::p_value(p);
    if text.starts_with('<') { text.replace('<', "&lt;") } else { format!("= {text}") }
}
