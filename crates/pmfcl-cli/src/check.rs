//! `pmfcl check`: do rows go with a model, before they are learned?

use std::path::PathBuf;

use crate::missing;
use anyhow::{Result, bail};
use clap::Args;
use pmfcl::report::check::{Check as Findings, Condition, Effort, Reference};
use pmfcl_file::{Access, Model, Store};
use pmfcl_ingest::{ColumnSelection, Ingest, Learning};
use pmfcl_terminal::{Progress, Reading, Table, answer, cut, expand, grouped, short, task_name};
use serde_json::{Value, json};

/// Check data against a model before learning it: drift, moved columns, units, outlying rows, new categories, repeated rows.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl check sales.pmf 2025-02.csv
  pmfcl check sales.pmf 2025-02.csv --refuse-if repeat,units,outliers>0.01   (exit code 1 if one holds)
  pmfcl check sales.pmf 2025.csv --task-column month --json")]
pub(crate) struct Check {
    /// The model file; it is not changed.
    model: PathBuf,
    /// Data files, together one task.
    #[arg(required = true)]
    data: Vec<String>,
    /// Column that names the task of every row; each task is checked.
    #[arg(long, value_name = "COL")]
    task_column: Option<String>,
    /// Columns that are not features.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    exclude: Vec<String>,
    /// Fail if one of these holds: repeat, units, drift[<P], shift[>SD], outliers[>SHARE], categories[>SHARE],
    /// missing[>SHARE], rows[<SHARE], any. Without a number: if there is a warning (!) of that kind.
    #[arg(long, value_delimiter = ',', value_name = "CONDITIONS")]
    refuse_if: Vec<Condition>,
    #[command(flatten)]
    reading: Reading,
}

impl Check {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Read)?;
        if model.learner.records().is_empty() {
            bail!(
                "{}: the model has no task yet, so there is nothing to check against",
                self.model.display()
            );
        }
        if model.learner.settings().ridge == pmfcl::Ridge::LeaveOneTaskOut {
            store.load(&mut model)?;
        }
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let files = self.reading.files(paths)?;
        missing::check(&model, &self.reading)?;
        let selection = ColumnSelection {
            exclude: self.exclude.clone(),
            reserved: self.task_column.iter().cloned().collect(),
            ..ColumnSelection::default()
        };
        let name = free_name(&model, &task_name(&self.data[0]));
        let reference = Reference::of(&model.learner, &model.schema.features())?;
        let progress = Progress::over(&files, &name);
        let mut ingest = Ingest::new(&model);
        ingest.read(
            &model,
            &Learning {
                files: &files,
                selection: &selection,
                task: self.task_column.as_deref(),
                name: &name,
                weight: 1.0,
                reference: Some(&reference),
                progress: &|step| progress.step(step),
            },
        )?;
        drop(progress);
        let (mut documents, mut words) = (Vec::new(), String::new());
        let mut crossed = Vec::new();
        while let Some(task) = ingest.next(&model)? {
            let Some(check) = task.check(&model, Effort::Full)? else { continue };
            words.push_str(&text(&model, task.name(), &check));
            documents.push(document(&model, task.name(), &check));
            crossed.extend(refusals(&self.refuse_if, task.name(), &check));
        }
        let document = json!({
            "model": self.model.display().to_string(),
            "tasks": documents,
            "refused": crossed,
        });
        answer(&document, &words)?;
        refused(&crossed)
    }
}

/// A name that no task of the model has: rows that were learned under this name can be checked once more.
fn free_name(model: &Model, name: &str) -> String {
    let mut free = name.to_owned();
    while model.learner.contains(&free) {
        free.push('\'');
    }
    free
}

/// The conditions that hold, with the task.
pub(crate) fn refusals(conditions: &[Condition], name: &str, check: &Findings) -> Vec<String> {
    let held = conditions.iter().filter(|condition| condition.holds(check));
    held.map(|condition| format!("{name}: --refuse-if {condition}")).collect()
}

/// The error for conditions that hold.
pub(crate) fn refused(crossed: &[String]) -> Result<()> {
    match crossed.first() {
        None => Ok(()),
        Some(first) if crossed.len() == 1 => bail!("refused: {first} holds"),
        Some(first) => bail!("refused: {first} holds, and {} more", crossed.len() - 1),
    }
}

/// The most important findings, one line each.
pub(crate) fn lines(name: &str, check: &Findings, most: usize) -> Vec<String> {
    let line = |finding: &pmfcl::report::check::Finding| {
        format!("{}{name}: {}", if finding.warning { "warning: " } else { "" }, finding.text)
    };
    check.findings.iter().take(most).map(line).collect()
}

/// How well the model does on the rows.
fn score(check: &Findings) -> String {
    match &check.found.evaluation {
        Some(e) if e.is_of_classes() => {
            format!("accuracy {}, log-loss {}", short(e.accuracy()), short(e.log_loss()))
        }
        Some(e) => format!("RMSE {}, R² {}", short(e.mse().sqrt()), short(e.r2())),
        None => "not scored".to_owned(),
    }
}

fn text(model: &Model, name: &str, check: &Findings) -> String {
    let mut out = format!(
        "{name}: {} rows against {} tasks of {} samples; the model on these rows: {}\n\n",
        grouped(check.rows as f64),
        model.learner.records().len(),
        grouped(model.learner.samples()),
        score(check)
    );
    if check.warnings().next().is_none() {
        out.push_str("  nothing to warn of\n");
    }
    for finding in &check.findings {
        let mark = if finding.warning { '!' } else { '·' };
        out.push_str(&format!("  {mark} {}\n", finding.text));
    }
    let names = model.schema.features();
    let mut moved: Vec<_> = check.inputs.iter().filter(|input| input.p_value < 0.01).collect();
    moved.sort_by(|a, b| b.shift.abs().total_cmp(&a.shift.abs()));
    if !moved.is_empty() {
        let mut table = Table::new(
            "\nColumns that moved",
            &["column", "mean before", "now", "sd before", "now", "shift/sd", "p"],
        );
        for input in moved.iter().take(10) {
            table.row([
                cut(&names[input.input], 24),
                short(input.mean_before),
                short(input.mean),
                short(input.sd_before),
                short(input.sd),
                format!("{:+.2}", input.shift),
                short(input.p_value),
            ]);
        }
        if moved.len() > 10 {
            table.note(format!("{} more with --json", moved.len() - 10));
        }
        out.push_str(&table.text());
    }
    if !check.found.worst.is_empty() {
        out.push_str("\nRows that are far off\n\n");
        for row in &check.found.worst {
            let reason = row.reason.words(row.size, &names, &model.schema.targets);
            out.push_str(&format!("  row {}: {reason}\n", row.row + 1));
        }
    }
    out.push('\n');
    out
}

/// A check as JSON.
pub(crate) fn document(model: &Model, name: &str, check: &Findings) -> Value {
    let names = model.schema.features();
    let evaluation = check.found.evaluation.as_ref().map(|e| {
        if e.is_of_classes() {
            json!({ "accuracy": e.accuracy(), "log_loss": e.log_loss() })
        } else {
            json!({ "rmse": e.mse().sqrt(), "r2": e.r2() })
        }
    });
    json!({
        "name": name,
        "rows": check.rows,
        "dropped": check.dropped,
        "score": evaluation,
        "findings": check.findings.iter().map(|f| json!({
            "kind": f.kind.to_string(), "warning": f.warning, "text": f.text,
        })).collect::<Vec<_>>(),
        "drift": check.drift.map(|d| json!({
            "p_value": d.p_value,
            "cautious_p": d.cautious_p,
            "cost_to_memory": d.cost_to_memory,
            "cost_to_rows": d.cost_to_rows,
        })),
        "relation": check.relation.map(|r| json!({
            "found": r.found,
            "expected": r.expected,
            "p_value": r.p_value,
        })),
        "columns": check.inputs.iter().map(|i| json!({
            "name": names[i.input],
            "mean_before": i.mean_before,
            "mean": i.mean,
            "sd_before": i.sd_before,
            "sd": i.sd,
            "shift": i.shift,
            "p_value": i.p_value,
            "unit": i.unit.map(|u| json!({ "factor": u.factor, "offset": u.offset })),
        })).collect::<Vec<_>>(),
        "outliers": {
            "beyond": check.found.beyond,
            "worst": check.found.worst.iter().map(|row| json!({
                "row": row.row + 1,
                "size": row.size,
                "reason": row.reason.words(row.size, &names, &model.schema.targets),
            })).collect::<Vec<_>>(),
        },
        "new_categories": check.new_categories,
        "new_classes": check.new_classes,
        "repeats": check.repeats,
        "usual_rows": check.usual_rows,
    })
}
