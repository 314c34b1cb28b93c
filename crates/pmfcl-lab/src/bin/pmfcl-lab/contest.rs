//! `pmfcl-lab bench stream`: the field's methods and ours over a table of one's own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::{Basis, Labels};
use pmfcl_baselines::Targets;
use pmfcl_ingest::{ColumnSelection, Gathered, GatheredTargets, gather};
use pmfcl_lab::contest::{Arena, Entrant, Goal, Rows, Rules, hold, lines, tables};
use pmfcl_plot::{Axis, Lines, Series, Size, Theme, png};
use pmfcl_terminal::{Progress, Reading, Table, expand, grouped, note, note_index, write};

/// Compare methods over the tasks of a table.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl-lab bench stream bike.csv --task-column quarter --target rentals
  pmfcl-lab bench stream elec2.parquet --task-column task --target y --classes --methods pmfcl,sgd,er,der --out pictures")]
pub(crate) struct Contest {
    /// The table; several files are read as one.
    #[arg(required = true, value_name = "DATA")]
    data: Vec<String>,
    /// The column that names the task of a row; tasks are learned in order of appearance.
    #[arg(long, value_name = "COL")]
    task_column: String,
    /// The target column, or several for numbers.
    #[arg(long, value_name = "COL,…", value_delimiter = ',', required = true)]
    target: Vec<String>,
    /// The target holds classes, though they are written as numbers.
    #[arg(long)]
    classes: bool,
    /// Columns that are no features.
    #[arg(long, value_name = "COL,…", value_delimiter = ',')]
    exclude: Vec<String>,
    /// A column that is not 0 in the rows to test on; else a quarter of each task is drawn.
    #[arg(long, value_name = "COL")]
    split_column: Option<String>,
    /// Methods, of: pmfcl, pmfcl-squared, pmfcl-logistic, pmfcl-decay, joint, last, sgd, er, der, der++, si, oewc, agem,
    /// icl, projection, joint-sgd; all that go with the target where none is named.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    methods: Vec<String>,
    /// The basis all methods see the features through.
    #[arg(long, value_name = "SPEC")]
    basis: Option<Basis>,
    /// Hidden layers of the methods that take steps, `100,100`; linear without.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    hidden: Vec<usize>,
    /// Times those methods see a task.
    #[arg(long, default_value_t = 10, value_name = "N")]
    epochs: usize,
    /// Rows of a step.
    #[arg(long, default_value_t = 32, value_name = "N")]
    batch: usize,
    /// Rows a buffer holds.
    #[arg(long, default_value_t = 200, value_name = "N")]
    buffer: usize,
    /// Where all randomness comes from.
    #[arg(long, default_value_t = 0, value_name = "S")]
    seed: u64,
    /// Write the tables as CSV and the picture as SVG and PNG here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

impl Contest {
    pub(crate) fn run(&self) -> Result<Vec<Table>> {
        for (flag, n) in
            [("--epochs", self.epochs), ("--batch", self.batch), ("--buffer", self.buffer)]
        {
            if n == 0 {
                bail!("{flag} must be 1 or more");
            }
        }
        if self.hidden.contains(&0) {
            bail!("--hidden: a layer needs a unit");
        }
        let rules = Rules {
            basis: self.basis.clone().unwrap_or_default(),
            hidden: self.hidden.clone(),
            epochs: self.epochs,
            batch: self.batch,
            buffer: self.buffer,
            seed: self.seed,
            threads: self.reading.threads(),
            ..Rules::default()
        };
        let arena = Arena::new(&self.table()?, &rules)?;
        let entrants = Entrant::chosen(&self.methods, &arena.goal, &rules.hidden)?;
        note(&format!(
            "{} tasks, {} rows, {} columns; {} methods",
            arena.names.len(),
            grouped((arena.rows.0 + arena.rows.1) as f64),
            arena.width,
            entrants.len()
        ));
        let mut done = Vec::new();
        let mut failed = Vec::new();
        for result in hold(&arena, &rules, &entrants, &note) {
            match result {
                Ok(result) => done.push(result),
                Err(error) => failed.push(error.to_string()),
            }
        }
        let mut tables = tables(&arena, &rules, &done)?;
        failed.into_iter().for_each(|error| tables[0].note(format!("{error}.")));
        if let Some(out) = &self.out {
            save(out, &arena, &tables, &lines(&done))?;
        }
        Ok(tables)
    }

    /// The table in memory.
    fn table(&self) -> Result<Rows> {
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let files = self.reading.files(paths)?;
        let selection = ColumnSelection {
            targets: self.target.clone(),
            exclude: self.exclude.clone(),
            reserved: [&self.task_column].into_iter().chain(&self.split_column).cloned().collect(),
            ..ColumnSelection::default()
        };
        let progress = Progress::over(&files, "reading");
        let all = gather(&files, &selection, self.classes, &|step| progress.step(step))?;
        note_index(&all.index);
        drop(progress);
        if all.dropped > 0 {
            note(&format!("{} rows with missing values were dropped", grouped(all.dropped as f64)));
        }
        let test = self.split_column.as_ref().map(|_| {
            let split = &all.keys[1];
            let learn: Vec<bool> =
                split.names.iter().map(|n| matches!(n.as_str(), "0" | "train" | "false")).collect();
            split.codes.iter().map(|&c| !learn[c as usize]).collect()
        });
        rows(all, self.target.len(), test)
    }
}

fn rows(all: Gathered, targets: usize, test: Option<Vec<bool>>) -> Result<Rows> {
    let y = match all.y {
        GatheredTargets::Values(cells) => Targets::Values { cells, width: targets },
        GatheredTargets::Classes(words) => {
            if words.names.len() < 2 {
                bail!("the target has one class; there is nothing to tell apart");
            }
            // Numbers by value, then text: the order the library keeps them in.
            let names: Vec<&String> =
                words.codes.iter().map(|&c| &words.names[c as usize]).collect();
            let labels = Labels::new(&names.iter().map(|n| n.as_str()).collect::<Vec<_>>());
            Targets::Classes { codes: labels.codes().to_vec(), count: labels.names().len() }
        }
    };
    let mut keys = all.keys.into_iter();
    let tasks = keys.next().context("the task column was not read")?;
    Ok(Rows { width: all.inputs.len(), x: all.x, y, tasks: tasks.codes, names: tasks.names, test })
}

fn save(out: &Path, arena: &Arena, tables: &[Table], lines: &[(Entrant, Vec<f64>)]) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make `{}`", out.display()))?;
    let measure = arena.goal.measure();
    let label = format!("mean {measure} over the tasks so far");
    let values = || lines.iter().flat_map(|(_, line)| line.iter().copied());
    let (low, high) = values().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
    let wide = matches!(arena.goal, Goal::Values(_)) && low > 0.0 && high > 8.0 * low;
    let chart = Lines {
        title: format!("After each task: {label}"),
        size: Size { width: 900.0, height: 520.0 },
        x: Axis::names("newest task", arena.names.iter().cloned()),
        y: if wide { Axis::log(label) } else { Axis::linear(label) },
        series: lines
            .iter()
            .map(|(entrant, line)| {
                let look = entrant.look();
                Series::from_values(entrant.name(), line.iter().copied())
                    .with_paint(look.paint)
                    .with_dash(look.dash)
                    .with_marker(look.marker)
            })
            .collect(),
        ..Lines::default()
    };
    write(&out.join("stream.svg"), chart.svg(Theme::Auto).as_bytes())?;
    write(&out.join("stream.png"), &png(&chart.svg(Theme::Light), 2.0)?)?;
    for (table, name) in tables.iter().zip(["scores.csv", "forgetting.csv"]) {
        write(&out.join(name), csv(&table.columns, &table.rows)?.as_bytes())?;
    }
    let columns: Vec<String> = ["newest task".to_owned()]
        .into_iter()
        .chain(lines.iter().map(|l| l.0.name().to_owned()))
        .collect();
    let rows: Vec<Vec<String>> = arena
        .names
        .iter()
        .enumerate()
        .map(|(k, name)| {
            [name.clone()].into_iter().chain(lines.iter().map(|l| l.1[k].to_string())).collect()
        })
        .collect();
    write(&out.join("stream.csv"), csv(&columns, &rows)?.as_bytes())?;
    note(&format!("pictures and tables in {}", out.display()));
    Ok(())
}

fn csv(columns: &[String], rows: &[Vec<String>]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns)?;
    rows.iter().try_for_each(|row| writer.write_record(row))?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}
