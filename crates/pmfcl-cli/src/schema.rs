//! `pmfcl schema`: what each column of a table is taken for.

use std::path::PathBuf;

use crate::missing;
use anyhow::Result;
use clap::Args;
use pmfcl_ingest::{ColumnRole, ColumnSelection, Role, TableSchema, describe_columns};
use pmfcl_terminal::{Reading, answer, cut, ending_in, ending_of, expand, note, wrapped, write};
use serde_json::{Value, json};

/// Columns of a new model that are described one by one.
pub(crate) const SHOWN: usize = 16;

const ENDINGS: &[&str] = &[".toml", ".json"];

/// Show what each column of a table is taken for, and write it to a file that `learn --schema` takes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl schema sales.csv --target revenue
  pmfcl schema umsatz.csv --decimal , --na=-,n/k -o umsatz.toml
  pmfcl learn sales.pmf umsatz.csv --schema umsatz.toml")]
pub(crate) struct Schema {
    /// Data files; the columns are those of the first.
    #[arg(required = true)]
    data: Vec<String>,
    /// Column to predict; several with commas.
    #[arg(long, value_delimiter = ',', value_name = "COL")]
    target: Vec<String>,
    /// Write the schema to this file, .toml or .json, to be corrected and given to `learn --schema`.
    #[arg(short, long, value_name = "FILE", value_parser = ending_in(ENDINGS))]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

impl Schema {
    pub(crate) fn run(&self) -> Result<()> {
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let files = self.reading.files(paths)?;
        let selection =
            ColumnSelection { targets: self.target.clone(), ..ColumnSelection::default() };
        if let Some(lacking) = self.target.iter().find(|name| {
            files.first().is_ok_and(|source| source.fields().iter().all(|f| f.name != **name))
        }) {
            anyhow::bail!("{}: there is no column '{lacking}'", files.paths[0].display());
        }
        let columns = describe_columns(&files, &selection, usize::MAX)?;
        if let Some(path) = &self.output {
            let json = ending_of(path, ENDINGS) == Some(".json");
            let mut schema = TableSchema::of(&columns, &files.options);
            schema.missing = missing::asked(self.reading.missing());
            write(path, schema.to_text(json).as_bytes())?;
            note(&format!("{} columns in {}", columns.len(), path.display()));
        }
        let mut words = format!("Columns of {}\n\n", files.paths[0].display());
        lines(&columns).iter().for_each(|line| words.push_str(&format!("  {line}\n")));
        let doubts = columns.iter().filter_map(|c| c.doubt.as_ref().map(|d| format!("! {d}")));
        let remarks = columns.iter().filter_map(|c| c.remark.as_ref().map(|r| format!("· {r}")));
        for text in doubts.chain(remarks) {
            let text = wrapped(&text, 96);
            words.push_str(&format!("\n  {}\n", text.join("\n    ")));
        }
        answer(&document(&columns), &words)
    }
}

/// A line for each column: its name, what it is taken for, and why.
fn lines(columns: &[ColumnRole]) -> Vec<String> {
    let names: Vec<String> = columns.iter().map(|c| cut(&c.name, 24)).collect();
    let roles: Vec<String> = columns.iter().map(|c| c.role.to_string()).collect();
    let widest = |list: &[String]| list.iter().map(|s| s.chars().count()).max().unwrap_or(0);
    let (width, kind) = (widest(&names), widest(&roles));
    let reasons = columns.iter().map(|c| cut(&c.reason, 60));
    let rows = names.iter().zip(&roles).zip(reasons);
    rows.map(|((name, role), reason)| format!("{name:<width$}  {role:<kind$}  {reason}")).collect()
}

/// Columns as one JSON document.
pub(crate) fn document(columns: &[ColumnRole]) -> Value {
    let one = |c: &ColumnRole| {
        json!({
            "name": c.name,
            "role": c.role.to_string(),
            "reason": c.reason,
            "remark": c.remark,
            "doubt": c.doubt,
        })
    };
    json!({ "columns": columns.iter().map(one).collect::<Vec<_>>() })
}

/// Notes what the columns of a new model were taken for: each of the first ones and every target, and how many more there are of each
/// kind.
pub(crate) fn note_columns(file: &str, columns: &[ColumnRole]) {
    note(&format!(
        "columns of {file}, by its first rows (correct with --schema, see `pmfcl schema`):"
    ));
    let (shown, rest): (Vec<_>, Vec<_>) = columns
        .iter()
        .enumerate()
        .partition(|(i, column)| *i < SHOWN || matches!(column.role, Role::Target));
    let shown: Vec<ColumnRole> = shown.into_iter().map(|(_, column)| column.clone()).collect();
    lines(&shown).iter().for_each(|line| note(&format!("  {line}")));
    let mut counts: Vec<([&'static str; 2], usize)> = Vec::new();
    for (_, column) in rest {
        let kind = match column.role {
            Role::Number => ["number", "numbers"],
            Role::Boolean => ["boolean", "booleans"],
            Role::Category => ["category", "categories"],
            Role::Date(_) => ["date", "dates"],
            Role::Block => ["block", "blocks"],
            Role::Target => ["target", "targets"],
            Role::Task => ["task column", "task columns"],
            Role::Ignore => ["ignored", "ignored"],
        };
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
    }
    if !counts.is_empty() {
        let counts: Vec<String> =
            counts.iter().map(|(kind, n)| format!("{n} {}", kind[usize::from(*n > 1)])).collect();
        note(&format!("  … and {} more", counts.join(", ")));
    }
    columns
        .iter()
        .filter_map(|c| c.remark.as_ref())
        .for_each(|remark| note(&format!("  {remark}")));
}
