//! `pmfcl show`: settings and tasks of a model.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pmfcl::private::Account;
use pmfcl::problem::{CandidateScore, Evaluation};
use pmfcl::report::MissingReason;
use pmfcl::{Learner, Preference, TaskReport};
use pmfcl_file::{Access, Ledger, Model, Store};
use serde_json::{Value, json};

use crate::outcome::MeanForgetting;
use crate::score::entry;
use pmfcl_terminal::{Table, answer, bold, bytes, cut, grouped, maybe, short, wrapped};

/// Show a model: settings, size, tasks with loss, forgetting and bound.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl show sales.pmf
  pmfcl show sales.pmf --coef
  pmfcl show sales.pmf --json | jq '.tasks[] | {name, forgetting}'")]
pub(crate) struct Show {
    /// The model file.
    model: PathBuf,
    /// Print the coefficients too.
    #[arg(long)]
    coef: bool,
}

/// What tests and intervals rest on.
const ASSUMED: &str = "a sample weight counts as that many copies of its row";

impl Show {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Read)?;
        store.load(&mut model)?;
        let tasks = task_reports(&model)?;
        let account = Ledger::look(&self.model)?;
        let mut document = document(&model, &tasks);
        if let Some(account) = &account {
            let (total, spent) = (account.total(), account.spent());
            document["privacy"] = json!({
                "epsilon": total.epsilon,
                "delta": total.delta,
                "spent": spent.epsilon,
                "releases": account.releases(),
            });
        }
        answer(&document, &self.words(&model, &tasks, account.as_ref()))
    }

    fn words(&self, model: &Model, tasks: &[TaskReport], account: Option<&Account>) -> String {
        let learner = &model.learner;
        let (s, problem) = (learner.settings(), learner.problem());
        let outputs = if problem.predicts_classes() { "classes" } else { "targets" };
        let mut out = format!("{}\n\n", bold(&self.model.display().to_string()));
        let ridge = match (fact(learner, "shrinkage"), learner.solution()) {
            (Some(shrinkage), _) => format!("shrinkage {}", short(shrinkage)),
            (None, Ok(m)) if m.penalty.own_ridges().is_some() => s.ridge.to_string(),
            (None, Ok(m)) => format!("{} ({})", short(m.penalty.ridge()), s.ridge),
            (None, Err(_)) => s.ridge.to_string(),
        };
        for (name, value) in [
            ("loss", model.loss()),
            (outputs, cut(&model.outputs().join(", "), 60)),
            ("features", format!("{} ({})", model.features().len(), s.basis)),
            ("ridge", ridge),
            ("memory", format!("{}, {}", s.memory, bytes(model.state_bytes()))),
            ("accumulator", accumulator(learner)),
            ("preference", s.prefer.to_string()),
            ("samples", grouped(learner.samples())),
        ] {
            out.push_str(&format!("  {name:<11} {value}\n"));
        }
        if let Some(words) = probabilities(learner) {
            out.push_str(&format!("  {:<11} {words}\n", "calibration"));
        }
        if let Some(account) = account {
            let (total, spent) = (account.total(), account.spent());
            let words = format!(
                "ε {} of {} spent at δ {:e}, releases {}",
                short(spent.epsilon),
                short(total.epsilon),
                total.delta,
                account.releases()
            );
            out.push_str(&format!("  {:<11} {words}\n", "privacy"));
        }
        for (target, fit) in fits(model) {
            let fit = format!("RMSE {}, R² {}", short(fit.rmse), short(fit.r2));
            out.push_str(&format!("  {:<11} {fit} on all rows learned\n", cut(&target, 11)));
        }
        out.push('\n');
        // Of a loss that is bounded the least is only known from below.
        let best = if problem.description().exact { "best" } else { "best ≥" };
        // Where forgetting is known it is its own bound, and errors in units of the target say more.
        let left_out = tasks.iter().any(|t| t.left_out.is_some());
        let in_units = tasks.iter().any(|t| t.mse.is_some()) && !problem.predicts_classes();
        let columns = if left_out {
            ["task", "samples", "rank", "weight", "accuracy", "log-loss", "forgetting", "bound"]
        } else if in_units {
            ["task", "samples", "weight", "RMSE", "R²", "loss", best, "forgetting"]
        } else {
            ["task", "samples", "rank", "weight", "loss", best, "forgetting", "bound"]
        };
        let mut table = Table::new(&format!("Tasks ({})", tasks.len()), &columns);
        let cells = |t: &TaskReport| {
            let mark = if t.guaranteed { "" } else { "?" };
            let bound = t.bound.map_or_else(|| "–".to_owned(), |b| format!("{}{mark}", short(b)));
            let (samples, weight) = (grouped(t.samples), format!("{:.4}", t.weight));
            let (loss, least, lost) = (maybe(t.loss), maybe(t.min_loss), maybe(t.forgetting));
            if left_out {
                let of = |f: fn(&Evaluation) -> f64| maybe(t.left_out.as_ref().map(f));
                let (accuracy, log_loss) = (of(Evaluation::accuracy), of(Evaluation::log_loss));
                [samples, t.rank.to_string(), weight, accuracy, log_loss, lost, bound]
            } else if in_units {
                let (rmse, r2) = errors(t);
                [samples, weight, maybe(rmse), maybe(r2), loss, least, lost]
            } else {
                [samples, t.rank.to_string(), weight, loss, least, lost, bound]
            }
        };
        out.push_str(&candidates(learner));
        let rows: Vec<_> = tasks.iter().map(cells).collect();
        // Names have the room that numbers leave: two blanks stand before each column.
        let taken: usize = (0..7)
            .map(|c| {
                let head = table.columns[c + 1].chars().count();
                2 + rows.iter().map(|r| r[c].chars().count()).fold(head, usize::max)
            })
            .sum();
        let room = 78_usize.saturating_sub(taken).clamp(6, 24);
        for (t, row) in tasks.iter().zip(rows) {
            table.row([cut(&t.name, room)].into_iter().chain(row));
        }
        notes(model, tasks)
            .iter()
            .flat_map(|words| wrapped(words, 76))
            .for_each(|line| table.note(line));
        out.push_str(&table.text());
        if self.coef {
            out.push('\n');
            out.push_str(&coefficients(model));
        }
        out
    }
}

/// The candidates of a portfolio with their scores; nothing where there are none.
fn candidates(learner: &Learner) -> String {
    let found = learner.candidates().unwrap_or_default();
    if found.is_empty() {
        return String::new();
    }
    let mut table = Table::new("Candidates", &["columns of", "number", "GCV", ""]);
    for candidate in found {
        let mark = if candidate.chosen { "chosen" } else { "" };
        table.row([
            candidate.name.clone(),
            candidate.columns.to_string(),
            format!("{:.5}", candidate.score),
            mark.to_owned(),
        ]);
    }
    let note = "GCV: the share of the target's variance that is expected to stay unexplained in new rows (of poisson and \
                logistic the loss that is expected, by Akaike's criterion); lower is better. \
                All candidates are kept, and the choice may change with the next task; pmfcl set MODEL --basis chosen \
                drops the others";
    wrapped(note, 76).into_iter().for_each(|line| table.note(line));
    table.text() + "\n"
}

/// The accumulator: what `auto` stands for, and what single precision may have cost.
fn accumulator(learner: &Learner) -> String {
    let setting = learner.settings().accumulator;
    let used = learner.accumulator();
    match learner.rounding_bound().ok().flatten() {
        Some(bound) if bound.is_infinite() => {
            format!("{setting}, without a ridge nothing bounds its rounding")
        }
        Some(bound) => {
            format!("{setting}, predictions moved by at most {} of their deviation", short(bound))
        }
        None if setting == used => setting.to_string(),
        None => format!("{used} ({setting})"),
    }
}

/// How probabilities are made, where they can be calibrated.
fn probabilities(learner: &Learner) -> Option<String> {
    let (_, setting) = learner.problem().options().into_iter().find(|(n, _)| *n == "calibrate")?;
    if setting != "on" {
        return Some(format!("{setting} (pmfcl calibrate measures it)"));
    }
    let temperature = fact(learner, "temperature").map_or("–".to_owned(), short);
    Some(match learner.left_out() {
        Some(found) => format!(
            "temperature {temperature}, error {} (rows left out)",
            short(found.calibration_error())
        ),
        None => {
            "not measured yet: probabilities may be overconfident; use `pmfcl calibrate`".to_owned()
        }
    })
}

/// What the numbers of the tasks mean, where that is not plain.
fn notes(model: &Model, tasks: &[TaskReport]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if tasks.iter().any(|t| t.mse.is_some()) && !model.learner.problem().predicts_classes() {
        notes.push(
            "RMSE is in units of the target; loss is half its square; best is the least loss of a model of the task's own; \
             forgetting is loss − best"
                .to_owned(),
        );
    }
    if tasks.iter().any(|t| t.left_out.is_some()) {
        notes.push(
            "accuracy, log-loss: of a sample of the rows, each predicted by the model without it, when the task was measured"
                .to_owned(),
        );
    } else {
        notes.extend(model.learner.problem().description().table_note.map(str::to_owned));
    }
    if tasks.iter().any(|t| t.bound.is_none()) {
        notes.push("– : the summaries kept do not determine it (compact memory)".to_owned());
    }
    notes.extend(model.learner.warnings());
    if tasks.iter().any(|t| !t.guaranteed) {
        notes.push("? : an estimate, not a guaranteed bound".to_owned());
    }
    match MissingReason::of_summaries(&model.learner) {
        None => notes.push(format!("p-values and intervals: {ASSUMED}")),
        Some(MissingReason::Weights) => notes.push(
            "no p-values and intervals: sample weights do not add up to a whole number, so they are not copies of rows"
                .to_owned(),
        ),
        Some(_) => {}
    }
    notes
}

/// RMSE and R² of a task, means over its targets.
fn errors(t: &TaskReport) -> (Option<f64>, Option<f64>) {
    let mean = |list: &Vec<f64>| list.iter().sum::<f64>() / list.len().max(1) as f64;
    (t.mse.as_ref().map(|mse| mean(mse).sqrt()), t.r2.as_ref().map(mean))
}

/// How well every target is fitted, where the summaries say it.
fn fits(model: &Model) -> Vec<(String, pmfcl::learner::TargetFit)> {
    let fits = model.learner.fits().ok().flatten().unwrap_or_default();
    model.schema.targets.iter().cloned().zip(fits).collect()
}

/// The tasks as they stand; none before the first.
pub(crate) fn task_reports(model: &Model) -> Result<Vec<TaskReport>> {
    if model.learner.records().is_empty() {
        return Ok(Vec::new());
    }
    Ok(model.learner.tasks()?)
}

/// A number the problem chose, by its name.
fn fact(learner: &Learner, name: &str) -> Option<f64> {
    learner.facts().ok()?.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Intercepts and coefficients: one of each for every column of the parameters.
fn parameters(model: &Model) -> (Vec<f64>, Vec<Vec<f64>>) {
    let learner = &model.learner;
    let Ok(theta) = model.coded_parameters() else { return (Vec::new(), Vec::new()) };
    let first = usize::from(learner.settings().intercept);
    (0..theta.targets())
        .map(|k| {
            let column = theta.column(k);
            (if first == 1 { column[0] } else { 0.0 }, column[first..].to_vec())
        })
        .unzip()
}

fn coefficients(model: &Model) -> String {
    let (intercepts, coefs) = parameters(model);
    let outputs = model.outputs();
    // Two classes by log-loss have one column: the log-odds of the second.
    let names: Vec<String> = if coefs.len() == outputs.len() {
        outputs.iter().map(|o| cut(o, 10)).collect()
    } else {
        outputs.last().map(|o| cut(o, 10)).into_iter().collect()
    };
    let shown = names.len().min(4);
    let mut columns = vec!["feature"];
    columns.extend(names[..shown].iter().map(String::as_str));
    let mut table = Table::new("Coefficients", &columns);
    let row = |name: &str, f: &dyn Fn(usize) -> f64| {
        let mut cells = vec![cut(name, 28)];
        cells.extend((0..shown).map(|k| short(f(k))));
        cells
    };
    table.row(row("(intercept)", &|k| intercepts[k]));
    for (j, name) in model.features().iter().enumerate() {
        table.row(row(name, &|k| coefs[k][j]));
    }
    if let Some(words) = model.coding_words() {
        wrapped(&words, 76).into_iter().for_each(|line| table.note(line));
    }
    if shown < names.len() {
        table.note(format!("{} more columns with --json", names.len() - shown));
    }
    table.text()
}

/// The document of `show --json`.
pub(crate) fn document(model: &Model, tasks: &[TaskReport]) -> Value {
    let learner = &model.learner;
    let (s, problem) = (learner.settings(), learner.problem());
    let (intercepts, coefs) = parameters(model);
    let (intercept, coef) = match (&intercepts[..], &coefs[..]) {
        ([i], [c]) => (json!(i), json!(c)),
        _ => (json!(intercepts), json!(coefs)),
    };
    let preference = match &s.prefer {
        Preference::Chosen(list) => {
            Value::Object(list.iter().map(|(n, a)| (n.clone(), json!(a))).collect())
        }
        other => json!(other.to_string()),
    };
    let mut document = json!({
        "loss": model.loss(),
        "features": model.features(),
        "inputs": model.schema.features(),
        "basis": s.basis.to_string(),
        "ridge": learner.solution().ok().map(|m| match m.penalty.own_ridges() {
            Some(own) => json!(own),
            None => json!(m.penalty.ridge()),
        }),
        "ridge_setting": s.ridge.to_string(),
        "standardize": learner.solution().map_or(s.standardize, |m| m.penalty.standardize()),
        "memory": s.memory.to_string(),
        "accumulator": learner.accumulator().to_string(),
        "accumulator_setting": s.accumulator.to_string(),
        "store": s.store.to_string(),
        "rounding_bound": learner.rounding_bound().ok().flatten(),
        "preference": preference,
        "samples": learner.samples(),
        "state_bytes": model.state_bytes(),
        "coding": model.schema.coding.to_string(),
        "missing": model.schema.missing.to_string(),
        "coef": coef,
        "intercept": intercept,
        "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
        "inference": {
            "assumes": ASSUMED,
            "missing": MissingReason::of_summaries(learner).map(|reason| reason.to_string()),
        },
    });
    MeanForgetting::of(learner).enter(&mut document);
    let fits: Vec<Value> = fits(model)
        .iter()
        .map(|(target, fit)| json!({ "target": target, "rmse": fit.rmse, "r2": fit.r2 }))
        .collect();
    if !fits.is_empty() {
        document["fit"] = json!(fits);
    }
    if problem.predicts_classes() {
        document["target"] = json!(model.schema.targets[0]);
        document["classes"] = json!(learner.classes());
    } else {
        document["targets"] = json!(model.schema.targets);
    }
    for (name, value) in problem.options() {
        document[name] = json!(value);
    }
    // A chosen value is printed under its name, followed by the setting.
    for (name, value) in learner.facts().unwrap_or_default() {
        if let Some(setting) = document.get(name).cloned() {
            document[format!("{name}_setting")] = setting;
        }
        document[name] = json!(value);
    }
    let candidates = learner.candidates().unwrap_or_default();
    if !candidates.is_empty() {
        let one = |c: &CandidateScore| json!({ "name": c.name, "columns": c.columns, "gcv": c.score, "chosen": c.chosen });
        document["candidates"] = candidates.iter().map(one).collect();
    }
    if let Some(found) = learner.left_out() {
        document["left_out"] = Value::Object(entry(&found));
    }
    if problem.description().shrunk.is_some() {
        document["ridge"] = Value::Null;
    }
    document
}

fn task(t: &TaskReport) -> Value {
    let mut document = json!({
        "name": t.name,
        "samples": t.samples,
        "rank": t.rank,
        "weight": t.weight,
        "bytes": t.bytes,
        "loss": t.loss,
        "min_loss": t.min_loss,
        "forgetting": t.forgetting,
        "bound": t.bound,
        "guaranteed": t.guaranteed,
        "outcome": t.outcome.to_string(),
        "rmse": errors(t).0,
        "r2": errors(t).1,
    });
    if let Some(found) = &t.left_out {
        document["left_out"] = Value::Object(entry(found));
    }
    document
}
