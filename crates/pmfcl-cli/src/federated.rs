//! `pmfcl federated`: many clients, one model, in one process, beside pooled training and the usual ways.

mod private;
mod rivals;
mod stage;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::federated::{Agreement, ClientStep, Goal, Joint, Rules, Server, Update};
use pmfcl::{
    Basis, ClassLoss, Classifier, ClassifierSettings, Design, Learner, Ridge, Rows, Settings,
    Summarizer,
};
use pmfcl_file::Word;
use pmfcl_ingest::{Wish, gather};
use pmfcl_lab::Table;
use pmfcl_plot::{Axis, Lines, Series, Size, Theme, png};
use serde_json::json;

use crate::data::{Reading, expand, note_index};
use crate::output::write;
use crate::terminal::{Progress, answer, bytes, cut, grouped, maybe, note, short};
use private::Privacy;
use rivals::{Averaged, average};
use stage::{Cut, Stage, Targets};

/// Clients in the table of forgetting; the file has all.
const SHOWN: usize = 12;

/// Learn from clients that send summaries of their steps, and compare with pooled training.
///
/// Every client sends, step by step, the summary of its new rows; the server adds them up and sends the model back. Some clients
/// are absent in some steps. The gap is the largest difference to a model trained on the same rows in one place.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl federated phones.parquet --client-column user --target activity --steps 5
  pmfcl federated houses.csv --client-column region --task-column year --target price --out pictures
  pmfcl federated phones.parquet --client-column user --target activity --loss logistic --absent 0.5 --json
  pmfcl federated houses.csv --client-column region --target price --private 1 --clip-x 3 --clip-y 2")]
pub(crate) struct Federated {
    /// The table; several files are read as one.
    #[arg(required = true, value_name = "DATA")]
    data: Vec<String>,
    /// The column that names the client of a row.
    #[arg(long, value_name = "COL")]
    client_column: String,
    /// The column that names the step of a row; steps in order of appearance. All rows are one step without.
    #[arg(long, value_name = "COL", conflicts_with = "steps")]
    task_column: Option<String>,
    /// Cut each client's rows, in their order, into this many steps; rows to test on likewise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    steps: Option<u16>,
    /// The target column, or several for numbers.
    #[arg(long, value_name = "COL,…", value_delimiter = ',', required = true)]
    target: Vec<String>,
    /// The target holds classes, though they are written as numbers.
    #[arg(long)]
    classes: bool,
    /// Columns that are no features.
    #[arg(long, value_name = "COL,…", value_delimiter = ',')]
    exclude: Vec<String>,
    /// A column that is not 0 in the rows to test on; else a quarter of the rows is drawn.
    #[arg(long, value_name = "COL")]
    split_column: Option<String>,
    /// squared, logistic or gaussian, for classes. gaussian by default; numbers are squared.
    #[arg(long, value_name = "LOSS", value_parser = <ClassLoss as Word>::parse)]
    loss: Option<ClassLoss>,
    /// The basis inputs are mapped through, fixed by the first client's first rows.
    #[arg(long, value_name = "SPEC", value_parser = <Basis as Word>::parse)]
    basis: Option<Basis>,
    /// (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries.
    #[arg(long, value_name = "X|auto", value_parser = <Ridge as Word>::parse)]
    ridge: Option<Ridge>,
    /// Rounds of federated averaging a step; ours takes one.
    #[arg(long, default_value_t = 10, value_name = "N")]
    rounds: usize,
    /// Share of clients that miss a step; what they would have sent is not learned.
    #[arg(long, default_value_t = 0.2, value_name = "SHARE")]
    absent: f64,
    /// Send numbers in single precision: half the bytes, six digits.
    #[arg(long)]
    single: bool,
    #[command(flatten)]
    privacy: Privacy,
    /// Where all randomness comes from, but for that of --private.
    #[arg(long, default_value_t = 0, value_name = "S")]
    seed: u64,
    /// Write tables as CSV and the picture as SVG and PNG here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// What a step came to.
struct Line {
    /// Which of all steps, from 0.
    at: usize,
    step: String,
    clients: usize,
    samples: f64,
    gap: f64,
    /// Rank of the design, added up here and in one place.
    ranks: (usize, usize),
    ours: f64,
    local: f64,
    /// Bytes all clients sent, and the bytes of the model that all clients got.
    up: usize,
    down: usize,
    receivers: usize,
}

impl Federated {
    pub(crate) fn run(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.absent) {
            bail!("--absent is {}: it must be 0 or more and below 1", self.absent);
        }
        let stage = self.stage()?;
        if matches!(stage.y, Targets::Values { .. })
            && self.loss.is_some_and(|loss| loss != ClassLoss::Squared)
        {
            bail!("--loss is for classes; give --classes where numbers stand for classes");
        }
        let agreement = self.agreement(&stage)?;
        self.privacy.check(&agreement)?;
        note(&format!(
            "{} clients, {} steps, {} columns",
            stage.clients.len(),
            stage.steps.len(),
            agreement.design().width()
        ));
        let (lines, server, joint) = self.play(&stage, &agreement)?;
        let averaged = self.average(&stage, &joint)?;
        let report = server.report_of(&joint)?;
        let measure = match &stage.y {
            Targets::Values { .. } => "test RMSE",
            Targets::Classes { .. } => "test error",
        };
        let steps = self.steps_table(&lines, averaged.as_ref(), &agreement, measure);
        let lost = forgetting_table(&report, SHOWN);
        if let Some(out) = &self.out {
            save(out, &lines, averaged.as_ref(), measure, &report)?;
        }
        let mut document = json!({
            "steps": lines.iter().map(|line| json!({
                "step": line.at + 1,
                "clients": line.clients,
                "gap_to_pooled": line.gap,
                "bytes_up": line.up,
                "bytes_down": line.down * line.receivers,
            })).collect::<Vec<_>>(),
            "final": {
                "gap_to_pooled": lines.last().map_or(0.0, |line| line.gap),
                "samples": server.samples(),
            },
        });
        if let Some(budget) = self.privacy.budget()? {
            document["final"]["epsilon"] = budget.epsilon.into();
            document["final"]["delta"] = budget.delta.into();
        }
        answer(&document, &format!("{}\n{}", steps.text(), lost.text()))
    }

    fn stage(&self) -> Result<Stage> {
        let mut paths = Vec::new();
        for argument in &self.data {
            paths.extend(expand(argument)?);
        }
        let files = self.reading.files(paths)?;
        let reserved =
            [&self.client_column].into_iter().chain(&self.task_column).chain(&self.split_column);
        let wish = Wish {
            targets: self.target.clone(),
            exclude: self.exclude.clone(),
            reserved: reserved.cloned().collect(),
            ..Wish::default()
        };
        let progress = Progress::over(&files, "reading");
        let classes = self.classes || self.loss.is_some_and(|loss| loss != ClassLoss::Squared);
        let all = gather(&files, &wish, classes, &|step| progress.step(step))?;
        note_index(&all.index);
        drop(progress);
        if all.dropped > 0 {
            note(&format!("{} rows with missing values were dropped", grouped(all.dropped as f64)));
        }
        let cut = match (&self.task_column, self.steps) {
            (Some(_), _) => Cut::Column,
            (None, parts) => Cut::Parts(parts.map_or(1, usize::from)),
        };
        let split = self.split_column.is_some();
        Stage::new(all, self.target.len(), &cut, split, (self.absent, self.seed))
    }

    /// The first client's first rows fix the basis; all others take it as it is.
    fn agreement(&self, stage: &Stage) -> Result<Agreement> {
        let first = (0..stage.steps.len())
            .find_map(|step| stage.there(step).first().map(|&client| stage.learned(client, step)));
        let x = stage.inputs(&first.context("no client has rows to learn from")?);
        let rows = Rows::new(&x, stage.width)?;
        let basis = self.basis.clone().unwrap_or_default();
        // A private summary has a ridge in it.
        let none =
            if self.privacy.budget()?.is_some() { Ridge::Fixed(0.0) } else { Ridge::default() };
        let ridge = self.ridge.unwrap_or(none);
        let settings = Settings {
            basis: basis.clone(),
            ridge,
            threads: self.reading.threads(),
            ..Settings::default()
        };
        let design = Learner::new(settings.clone())?.design_for(&rows)?;
        Ok(match &stage.y {
            Targets::Values { width, .. } => Agreement::values(settings, *width, design)?,
            Targets::Classes { names, .. } => {
                let settings = ClassifierSettings {
                    loss: self.loss.unwrap_or_default(),
                    basis,
                    ridge,
                    classes: Some(names.clone()),
                    threads: self.reading.threads(),
                    ..ClassifierSettings::default()
                };
                Agreement::classes(settings, design)?
            }
        })
    }

    /// All steps: clients send, the server adds up, pooled training follows.
    fn play(&self, stage: &Stage, agreement: &Agreement) -> Result<(Vec<Line>, Server, Joint)> {
        let mut server = Server::new(agreement.clone(), Rules::default())?;
        let mut alone: Vec<Option<Server>> = vec![None; stage.clients.len()];
        let mut pooled = Pooled::new(agreement)?;
        let mut lines = Vec::new();
        let mut latest = None;
        for (k, name) in stage.steps.iter().enumerate() {
            let there = stage.there(k);
            let mut up = 0;
            for &client in &there {
                let rows = stage.learned(client, k);
                let sent = self.send(stage, agreement, (client, k), &rows)?;
                let message = sent.to_bytes();
                up += message.len();
                server.accept_bytes(&message)?;
                let own = match &mut alone[client] {
                    Some(own) => own,
                    none => none.insert(Server::new(agreement.clone(), Rules::default())?),
                };
                own.accept(sent)?;
                pooled.take(stage, (client, k), &rows)?;
            }
            if server.updates().len() == 0 {
                continue;
            }
            let joint = server.joint()?;
            let tested = stage.tested(k);
            if tested.is_empty() {
                bail!("step {name} has no rows to test on: hold out more, or cut fewer steps");
            }
            let x = stage.inputs(&tested);
            let x = Rows::new(&x, stage.width)?;
            let theirs = pooled.solve(stage)?;
            lines.push(Line {
                at: k,
                step: name.clone(),
                clients: there.len(),
                samples: server.samples(),
                gap: gap(stage, &joint.decision(x)?, &theirs.decision(x)?),
                ranks: (joint.model()?.rank, theirs.model()?.rank),
                ours: stage.error(&outputs(&joint, x)?, &tested),
                local: local(stage, &alone, &tested)?,
                up,
                down: server.broadcast()?.nbytes(),
                receivers: (0..stage.clients.len()).filter(|&c| stage.known(c, k)).count(),
            });
            latest = Some(joint);
        }
        Ok((lines, server, latest.context("no client has rows to learn from")?))
    }

    fn send(
        &self,
        stage: &Stage,
        agreement: &Agreement,
        (client, step): (usize, usize),
        rows: &[usize],
    ) -> Result<Update> {
        let x = stage.inputs(rows);
        let x = Rows::new(&x, stage.width)?;
        let name = &stage.clients[client];
        let update = match &stage.y {
            Targets::Values { width, .. } => {
                let y = stage.values(rows);
                if let Some(summary) = self.privacy.summary(agreement, x, Rows::new(&y, *width)?)? {
                    let update = Update::from_summary(agreement, name, step as u64, summary)?;
                    return Ok(if self.single { update.in_single()? } else { update });
                }
                agreement.summarize(name, step as u64, x, Rows::new(&y, *width)?)?
            }
            Targets::Classes { .. } => {
                agreement.summarize_labels(name, step as u64, x, &stage.labels(rows)?)?
            }
        };
        Ok(if self.single { update.in_single()? } else { update })
    }

    fn average(&self, stage: &Stage, joint: &Joint) -> Result<Option<Averaged>> {
        if self.rounds == 0 {
            return Ok(None);
        }
        let learner = match joint {
            Joint::Values(learner) => &**learner,
            Joint::Classes(classifier) => classifier.learner(),
        };
        let design = learner.design_rows(Rows::new(stage.all_inputs(), stage.width)?)?;
        let m = learner.design().map_or(1, Design::width);
        // The network brings an intercept of its own.
        let first = usize::from(learner.settings().intercept);
        let features: Vec<f64> =
            design.chunks_exact(m).flat_map(|row| &row[first..]).copied().collect();
        Ok(average(stage, &features, m - first, (self.rounds, self.seed)))
    }

    fn steps_table(
        &self,
        lines: &[Line],
        averaged: Option<&Averaged>,
        agreement: &Agreement,
        measure: &str,
    ) -> Table {
        let mut table = Table::new(
            &format!("Step by step: {measure} on the test rows so far"),
            &[
                "step",
                "clients",
                "rows",
                "gap",
                "ours",
                "FedAvg",
                "local",
                "up/client",
                "down/client",
            ],
        );
        for line in lines {
            table.row([
                cut(&line.step, 24),
                line.clients.to_string(),
                grouped(line.samples),
                short(line.gap),
                short(line.ours),
                maybe(averaged.and_then(|a| a.errors.get(line.at).copied())),
                short(line.local),
                bytes(line.up.checked_div(line.clients).unwrap_or(0)),
                bytes(line.down),
            ]);
        }
        let bounds = matches!(agreement.goal(), Goal::Classes(s) if s.loss == ClassLoss::Logistic);
        table.note(if bounds {
            "gap: largest difference to learning the same steps in one place, in deviations of the scores."
        } else if agreement.class_names().is_empty() {
            "gap: largest difference of a prediction to training on all rows in one place, in deviations of the target."
        } else {
            "gap: largest difference of a score to training on all rows in one place, in deviations of the scores."
        });
        let torn = lines.iter().find(|line| line.gap > 1e-6 && line.ranks.0 != line.ranks.1);
        // Noise has every rank there is; that says nothing of the columns.
        match (self.privacy.words(lines.len()), torn) {
            (Some(words), _) => table.note(words),
            (None, Some(line)) => table.note(format!(
                "In step {} the design has rank {} here and {} in one place: columns depend on each other but for rounding, and which of them count is decided by the last digits. A fixed --ridge does not ask.",
                line.step, line.ranks.0, line.ranks.1
            )),
            (None, None) => {}
        }
        table.note("local: every client with its own rows alone.");
        match averaged {
            Some(a) => table.note(format!(
                "FedAvg: linear on the same design, {} rounds a step among those present, rate {} (the best of six on the test rows); {} up and down a client and step.",
                self.rounds,
                a.rate,
                bytes(a.bytes)
            )),
            None => table.note("FedAvg: left out, or diverged at every rate."),
        }
        table
    }
}

/// Training on the same rows in one place.
enum Pooled {
    /// All rows so far, summarized anew after every step.
    Rows { agreement: Box<Agreement>, rows: Vec<usize> },
    /// Bounds of log-loss depend on what is a task, so the same tasks are learned.
    Tasks(Box<Classifier>),
}

impl Pooled {
    fn new(agreement: &Agreement) -> Result<Self> {
        match agreement.goal() {
            Goal::Classes(settings) if settings.loss == ClassLoss::Logistic => {
                Ok(Self::Tasks(Box::new(Classifier::new(settings.clone())?)))
            }
            _ => Ok(Self::Rows { agreement: Box::new(agreement.clone()), rows: Vec::new() }),
        }
    }

    fn take(&mut self, stage: &Stage, (client, step): (usize, usize), new: &[usize]) -> Result<()> {
        match self {
            Self::Rows { rows, .. } => rows.extend_from_slice(new),
            Self::Tasks(whole) => {
                let x = stage.inputs(new);
                let name = format!("{}/{step}", stage.clients[client]);
                whole.learn(&name, Rows::new(&x, stage.width)?, &stage.labels(new)?)?;
            }
        }
        Ok(())
    }

    fn solve(&self, stage: &Stage) -> Result<Joint> {
        let (agreement, rows) = match self {
            Self::Tasks(whole) => return Ok(Joint::Classes(whole.clone())),
            Self::Rows { agreement, rows } => (agreement, rows),
        };
        let x = stage.inputs(rows);
        let x = Rows::new(&x, stage.width)?;
        let design = agreement.design().clone();
        match agreement.goal() {
            Goal::Values { settings, targets } => {
                let y = stage.values(rows);
                let summarizer = Summarizer::new(design.clone(), *targets, settings.accumulator)?;
                let mut summarizer = summarizer.threads(settings.threads);
                summarizer.add(x, Rows::new(&y, *targets)?, None)?;
                let mut whole = Learner::new(settings.clone())?;
                whole.learn_summarized("all", design, summarizer.finish()?, 1.0)?;
                Ok(Joint::Values(Box::new(whole)))
            }
            Goal::Classes(settings) => {
                let names = agreement.class_names();
                let mut y = vec![0.0; rows.len() * names.len()];
                for (row, code) in y.chunks_exact_mut(names.len()).zip(stage.values(rows)) {
                    row[code as usize] = 1.0;
                }
                let summarizer =
                    Summarizer::new(design.clone(), names.len(), settings.accumulator)?;
                let mut summarizer = summarizer.threads(settings.threads);
                summarizer.add(x, Rows::new(&y, names.len())?, None)?;
                let mut whole = Classifier::new(settings.clone())?;
                whole.learn_summarized("all", design, &summarizer.finish()?, names, 1.0)?;
                Ok(Joint::Classes(Box::new(whole)))
            }
        }
    }
}

/// Predicted values, or codes of classes.
fn outputs(joint: &Joint, x: Rows<'_>) -> Result<Vec<f64>> {
    Ok(match joint {
        Joint::Values(learner) => learner.predict(x)?,
        Joint::Classes(classifier) => {
            classifier.predict_codes(x)?.into_iter().map(f64::from).collect()
        }
    })
}

/// The error when every client has its own rows alone.
fn local(stage: &Stage, alone: &[Option<Server>], tested: &[usize]) -> Result<f64> {
    let width = match &stage.y {
        Targets::Values { width, .. } => *width,
        Targets::Classes { .. } => 1,
    };
    let mut all = vec![0.0; tested.len() * width];
    for (client, own) in alone.iter().enumerate() {
        let Some(own) = own else { continue };
        let places: Vec<usize> =
            (0..tested.len()).filter(|&i| stage.client_of(tested[i]) == client).collect();
        if places.is_empty() {
            continue;
        }
        let rows: Vec<usize> = places.iter().map(|&i| tested[i]).collect();
        let x = stage.inputs(&rows);
        let out = outputs(&own.joint()?, Rows::new(&x, stage.width)?)?;
        for (place, row) in places.iter().zip(out.chunks_exact(width)) {
            all[place * width..(place + 1) * width].copy_from_slice(row);
        }
    }
    Ok(stage.error(&all, tested))
}

/// The largest difference, in deviations of the target (values) or of the scores (classes).
fn gap(stage: &Stage, ours: &[f64], theirs: &[f64]) -> f64 {
    // A class nobody has shown yet scores −∞ in both.
    let apart = |(a, b): (&f64, &f64)| if a.to_bits() == b.to_bits() { 0.0 } else { (a - b).abs() };
    let largest = ours.iter().zip(theirs).map(apart).fold(0.0, f64::max);
    let spread = match &stage.y {
        Targets::Values { cells, width } => {
            (0..*width).map(|k| deviation(cells.iter().skip(k).step_by(*width))).fold(0.0, f64::max)
        }
        Targets::Classes { .. } => deviation(theirs.iter()),
    };
    if spread > 0.0 { largest / spread } else { largest }
}

fn deviation<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let values: Vec<f64> = values.copied().filter(|v| v.is_finite()).collect();
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt()
}

/// The clients that have lost most under the joint model.
fn forgetting_table(report: &[ClientStep], most: usize) -> Table {
    let exact = report.iter().all(|entry| entry.report.forgetting.is_some());
    let what = if exact { "forgetting" } else { "bound on forgetting" };
    let mut table = Table::new(
        &format!("What clients pay for the joint model: {what}"),
        &["client", "steps", "rows", "mean", "worst", "in step"],
    );
    let mut clients: Vec<(&str, Vec<&ClientStep>)> = Vec::new();
    for entry in report {
        match clients.last_mut() {
            Some((name, list)) if *name == entry.client => list.push(entry),
            _ => clients.push((&entry.client, vec![entry])),
        }
    }
    let lost = |entry: &ClientStep| entry.report.bound.unwrap_or(f64::NAN);
    let mut rows: Vec<(f64, [String; 6])> = Vec::new();
    for (name, list) in &clients {
        let n: f64 = list.iter().map(|entry| entry.report.samples).sum();
        let mean = list.iter().map(|entry| entry.report.samples * lost(entry)).sum::<f64>() / n;
        let worst = list.iter().max_by(|a, b| lost(a).total_cmp(&lost(b))).expect("not empty");
        let cells = [
            cut(name, 24),
            list.len().to_string(),
            grouped(n),
            short(mean),
            short(lost(worst)),
            (worst.step + 1).to_string(),
        ];
        rows.push((mean, cells));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let left = rows.len().saturating_sub(most);
    rows.into_iter().take(most).for_each(|(_, cells)| table.row(cells));
    if left > 0 {
        table.note(format!("and {left} clients that pay less; --out writes all."));
    }
    table
}

fn save(
    out: &Path,
    lines: &[Line],
    averaged: Option<&Averaged>,
    measure: &str,
    report: &[ClientStep],
) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make `{}`", out.display()))?;
    let equal = lines.iter().all(|line| line.gap < 1e-6);
    let ours = if equal { "pmfcl, equal to pooled rows" } else { "pmfcl" };
    let up: usize = lines.iter().map(|line| line.up).sum();
    let sent: usize = lines.iter().map(|line| line.clients).sum();
    let each = bytes(up.checked_div(sent).unwrap_or(0));
    let mut series = vec![
        Series::from_values(
            format!("{ours}: 1 round, {each} up a client"),
            lines.iter().map(|line| line.ours),
        ),
        Series::from_values(
            "every client alone: nothing sent",
            lines.iter().map(|line| line.local),
        ),
    ];
    if let Some(averaged) = averaged {
        series.push(Series::from_values(
            format!("FedAvg: {} rounds, {} up a client", averaged.rounds, bytes(averaged.bytes)),
            lines.iter().map(|line| averaged.errors[line.at]),
        ));
    }
    let chart = Lines {
        title: format!("After each step: {measure} over the steps so far"),
        size: Size { width: 900.0, height: 520.0 },
        x: Axis::names("step", lines.iter().map(|line| line.step.clone())),
        y: Axis::linear(measure),
        series,
        ..Lines::default()
    };
    write(&out.join("federated.svg"), chart.svg(Theme::Auto).as_bytes())?;
    write(&out.join("federated.png"), &png(&chart.svg(Theme::Light), 2.0)?)?;
    let mut steps = csv::Writer::from_writer(Vec::new());
    steps.write_record([
        "step",
        "clients",
        "samples",
        "gap_to_pooled",
        "ours",
        "fedavg",
        "local",
        "bytes_up",
        "bytes_down",
    ])?;
    for line in lines {
        steps.write_record([
            line.step.clone(),
            line.clients.to_string(),
            line.samples.to_string(),
            line.gap.to_string(),
            line.ours.to_string(),
            averaged
                .and_then(|a| a.errors.get(line.at))
                .map_or_else(String::new, ToString::to_string),
            line.local.to_string(),
            line.up.to_string(),
            (line.down * line.receivers).to_string(),
        ])?;
    }
    write(&out.join("federated.csv"), &steps.into_inner()?)?;
    let mut lost = csv::Writer::from_writer(Vec::new());
    lost.write_record(["client", "step", "samples", "loss", "min_loss", "forgetting", "bound"])?;
    let cell = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    for entry in report {
        let r = &entry.report;
        lost.write_record([
            entry.client.clone(),
            (entry.step + 1).to_string(),
            r.samples.to_string(),
            cell(r.loss),
            r.min_loss.to_string(),
            cell(r.forgetting),
            cell(r.bound),
        ])?;
    }
    write(&out.join("forgetting.csv"), &lost.into_inner()?)?;
    note(&format!("pictures and tables in {}", out.display()));
    Ok(())
}
