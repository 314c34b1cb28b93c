//! `pmfcl-lab federated`: many clients, one model, in one process, compared with pooled training and the usual ways.

mod compare;
mod private;
mod rates;
mod rivals;
mod stage;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pmfcl::federated::{ClientStep, Rules, Server, Update};
use pmfcl::private::Scaled;
use pmfcl::problem::{Agreement, Exactness};
use pmfcl::{Basis, ClassList, Design, Learner, Problem, Ridge, Rows, Settings};
use pmfcl_ingest::{ColumnSelection, gather};
use pmfcl_plot::{Axis, Lines, Series, Size, Theme, png};
use serde_json::json;

use compare::{Errors, fedavg_note, verdicts};
use pmfcl_terminal::{
    Progress, Reading, Table, answer, bytes, cut, expand, grouped, maybe, note, note_index, short,
    write,
};
use private::Privacy;
use rivals::{Rival, average};
use stage::{Cut, Stage, Targets};

/// Clients in the table of forgetting; the file has all.
const SHOWN: usize = 12;

/// Learn from clients that send summaries of their steps, and compare with pooled training.
///
/// Every client sends, step by step, the summary of its new rows; the server adds them up and sends the model back. With --absent
/// some clients miss some steps. The gap is the largest difference to a model trained on the same rows in one place.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl-lab federated phones.parquet --client-column user --target activity --steps 5
  pmfcl-lab federated houses.csv --client-column region --task-column year --target price --out pictures
  pmfcl-lab federated phones.parquet --client-column user --target activity --loss logistic --absent 0.5 --json
  pmfcl-lab federated houses.csv --client-column region --target price --private 1 --clip-x 3 --clip-y 2")]
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
    /// squared, huber[:DELTA] or poisson[:CAP] for numbers; gaussian, logistic or squared for classes. By default
    /// gaussian for classes, squared for numbers.
    #[arg(long, value_name = "LOSS", value_parser = loss_spec)]
    loss: Option<String>,
    /// The basis inputs are mapped through, fixed by the first client's first rows.
    #[arg(long, value_name = "SPEC")]
    basis: Option<Basis>,
    /// (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries.
    #[arg(long, value_name = "X|auto")]
    ridge: Option<Ridge>,
    /// Rounds of federated averaging per step; ours takes one.
    #[arg(long, default_value_t = 10, value_name = "N")]
    rounds: usize,
    /// Share of clients that miss a step; what they would have sent is not learned.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    absent: f64,
    /// Send numbers in single precision: half the bytes, six digits.
    #[arg(long)]
    single: bool,
    #[command(flatten)]
    privacy: Privacy,
    /// Where all randomness comes from, except that of --private.
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
    ours: Errors,
    local: Errors,
    /// Bytes all clients sent, and the bytes of the model that all clients got.
    up: usize,
    down: usize,
    receivers: usize,
}

/// All steps, and what came of them.
struct Played {
    lines: Vec<Line>,
    server: Server,
    joint: Learner,
    /// Rows over the bounds of --private.
    clipping: Scaled,
}

impl Federated {
    pub(crate) fn run(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.absent) {
            bail!("--absent is {}: it must be 0 or more and below 1", self.absent);
        }
        let stage = self.stage()?;
        let agreement = self.agreement(&stage)?;
        self.privacy.check(&agreement)?;
        note(&format!(
            "{} clients, {} steps, {} columns",
            stage.clients.len(),
            stage.steps.len(),
            agreement.design().width()
        ));
        let Played { lines, server, joint, clipping } = self.play(&stage, &agreement)?;
        if let Some(words) = self.privacy.clipping_note(clipping)? {
            note(&words);
        }
        let rival = self.average(&stage, &joint)?;
        let report = server.report_of(&joint)?;
        let measure = match &stage.y {
            Targets::Values { .. } => "test RMSE",
            Targets::Classes { .. } => "test error",
        };
        let steps = self.steps_table(&lines, rival.as_ref(), &agreement, measure);
        let lost = forgetting_table(&report, SHOWN);
        if let Some(out) = &self.out {
            save(out, &lines, rival.as_ref(), measure, &report)?;
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
        let selection = ColumnSelection {
            targets: self.target.clone(),
            exclude: self.exclude.clone(),
            reserved: reserved.cloned().collect(),
            ..ColumnSelection::default()
        };
        let progress = Progress::over(&files, "reading");
        let of_classes = |loss: &String| Problem::parse(loss, None).map(|p| p.predicts_classes());
        let classes = self.classes || self.loss.as_ref().map(of_classes).transpose()? == Some(true);
        let all = gather(&files, &selection, classes, &|step| progress.step(step))?;
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
        let first = first.context("no client has rows to learn from")?;
        let x = stage.inputs(&first);
        let rows = Rows::new(&x, stage.width)?;
        let basis = self.basis.clone().unwrap_or_default();
        // A private summary has a ridge in it.
        let none =
            if self.privacy.budget()?.is_some() { Ridge::Fixed(0.0) } else { Ridge::default() };
        let ridge = self.ridge.clone().unwrap_or(none);
        let threads = self.reading.threads();
        let settings = Settings { basis, ridge, threads, ..Settings::default() };
        let (problem, targets) = match &stage.y {
            Targets::Values { width, .. } => {
                (Problem::parse(self.loss.as_deref().unwrap_or("squared"), None)?, *width)
            }
            Targets::Classes { names, .. } => {
                let list = Some(ClassList::Fixed(names.clone()));
                let loss = self.loss.as_deref().unwrap_or("gaussian");
                (Problem::parse(loss, list)?.with_classes(names.clone())?, 1)
            }
        };
        let mut learner = Learner::new(problem, settings.clone())?;
        let design = learner.design_for(&rows)?;
        if learner.problem().looks_again() {
            // What the first task settles of a loss, such as the cap of poisson, is agreed on too.
            learner.learn("first", stage.step_rows(&first).rows()?, 1.0)?;
        }
        Ok(Agreement::new(learner.problem().clone(), settings, design, targets)?)
    }

    /// All steps: clients send, the server adds up, pooled training follows.
    fn play(&self, stage: &Stage, agreement: &Agreement) -> Result<Played> {
        let mut server = Server::new(agreement.clone(), Rules::default())?;
        let mut alone: Vec<Option<Server>> = vec![None; stage.clients.len()];
        let mut pooled = Pooled::new(agreement)?;
        let mut lines = Vec::new();
        let mut latest = None;
        let mut clipping = Scaled::default();
        for (k, name) in stage.steps.iter().enumerate() {
            let there = stage.there(k);
            let mut up = 0;
            for &client in &there {
                let rows = stage.learned(client, k);
                let sent = self.send(stage, agreement, (client, k), &rows, &mut clipping)?;
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
                gap: gap(stage, &decision(&joint, x)?, &decision(&theirs, x)?),
                ranks: (joint.solution()?.rank(), theirs.solution()?.rank()),
                ours: Errors::of(stage, &outputs(&joint, x)?, &tested, k),
                local: Errors::of(stage, &local(stage, &alone, &tested)?, &tested, k),
                up,
                down: server.broadcast()?.nbytes(),
                receivers: (0..stage.clients.len()).filter(|&c| stage.known(c, k)).count(),
            });
            latest = Some(joint);
        }
        let joint = latest.context("no client has rows to learn from")?;
        Ok(Played { lines, server, joint, clipping })
    }

    fn send(
        &self,
        stage: &Stage,
        agreement: &Agreement,
        (client, step): (usize, usize),
        rows: &[usize],
        clipping: &mut Scaled,
    ) -> Result<Update> {
        let (name, step) = (&stage.clients[client], step as u64);
        let new = stage.step_rows(rows);
        let new = new.rows()?;
        let private = match new.y {
            pmfcl::Targets::Values(y) => self.privacy.summary(agreement, new.x, y, clipping)?,
            pmfcl::Targets::Classes { .. } => None,
        };
        let update = match private {
            Some(summary) => Update::of_quadratic(agreement, name, step, summary)?,
            None => Update::of_rows(agreement, name, step, new)?,
        };
        Ok(if self.single { update.in_single()? } else { update })
    }

    fn average(&self, stage: &Stage, learner: &Learner) -> Result<Option<Rival>> {
        if self.rounds == 0 {
            return Ok(None);
        }
        let design = learner.design_rows(Rows::new(stage.all_inputs(), stage.width)?)?;
        let m = learner.design().map_or(1, Design::width);
        // The network brings an intercept of its own.
        let first = usize::from(learner.settings().intercept);
        let features: Vec<f64> =
            design.chunks_exact(m).flat_map(|row| &row[first..]).copied().collect();
        Ok(Some(average(stage, &features, m - first, (self.rounds, self.seed))))
    }

    fn steps_table(
        &self,
        lines: &[Line],
        rival: Option<&Rival>,
        agreement: &Agreement,
        measure: &str,
    ) -> Table {
        let errors = rival.and_then(Rival::errors);
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
                short(line.ours.all),
                maybe(errors.map(|errors| errors[line.at])),
                short(line.local.all),
                bytes(line.up.checked_div(line.clients).unwrap_or(0)),
                bytes(line.down),
            ]);
        }
        let (exact, classes) = (
            agreement.problem().exactness() == Exactness::Exact,
            !agreement.class_names().is_empty(),
        );
        table.note(if !exact && classes {
            "gap: largest difference to learning the same steps in one place, in deviations of the scores."
        } else if !exact {
            "gap: largest difference to learning the same steps in one place, in deviations of the target."
        } else if !classes {
            "gap: largest difference of a prediction to training on all rows in one place, in deviations of the target."
        } else {
            "gap: largest difference of a score to training on all rows in one place, in deviations of the scores."
        });
        let torn = lines.iter().find(|line| line.gap > 1e-6 && line.ranks.0 != line.ranks.1);
        // Noise has every rank there is; that says nothing of the columns.
        match (self.privacy.words(lines.len()), torn) {
            (Some(words), _) => table.note(words),
            (None, Some(line)) => table.note(format!(
                "In step {} the design has rank {} here and {} in one place: columns depend on each other up to rounding, and which of them count is decided by the last digits. A fixed --ridge does not ask.",
                line.step, line.ranks.0, line.ranks.1
            )),
            (None, None) => {}
        }
        table.note("local: every client with its own rows alone.");
        table.note(fedavg_note(rival));
        verdicts(lines, rival).into_iter().for_each(|line| table.note(line));
        table
    }
}

/// Training on the same rows in one place.
enum Pooled {
    /// All rows so far, summarized anew after every step.
    Rows { agreement: Box<Agreement>, rows: Vec<usize> },
    /// Bounds depend on what is a task, so the same tasks are learned.
    Tasks(Box<Learner>),
}

impl Pooled {
    fn new(agreement: &Agreement) -> Result<Self> {
        if agreement.problem().exactness() == Exactness::Exact {
            return Ok(Self::Rows { agreement: Box::new(agreement.clone()), rows: Vec::new() });
        }
        Ok(Self::Tasks(Box::new(empty(agreement)?)))
    }

    fn take(&mut self, stage: &Stage, (client, step): (usize, usize), new: &[usize]) -> Result<()> {
        match self {
            Self::Rows { rows, .. } => rows.extend_from_slice(new),
            Self::Tasks(whole) => {
                let name = format!("{}/{step}", stage.clients[client]);
                whole.learn(&name, stage.step_rows(new).rows()?, 1.0)?;
            }
        }
        Ok(())
    }

    fn solve(&self, stage: &Stage) -> Result<Learner> {
        match self {
            Self::Tasks(whole) => Ok((**whole).clone()),
            Self::Rows { agreement, rows } => {
                let mut whole = empty(agreement)?;
                whole.learn("all", stage.step_rows(rows).rows()?, 1.0)?;
                Ok(whole)
            }
        }
    }
}

/// A learner under an agreement that has learned nothing.
fn empty(agreement: &Agreement) -> Result<Learner> {
    let mut learner = Learner::new(agreement.problem().clone(), agreement.settings().clone())?;
    learner.fix_design(agreement.design().clone())?;
    Ok(learner)
}

/// Predicted values, or scores of classes.
fn decision(learner: &Learner, x: Rows<'_>) -> Result<Vec<f64>> {
    Ok(if learner.problem().predicts_classes() {
        learner.scores(x)?
    } else {
        learner.predict(x)?
    })
}

/// Predicted values, or codes of classes.
fn outputs(learner: &Learner, x: Rows<'_>) -> Result<Vec<f64>> {
    if learner.problem().predicts_classes() {
        return Ok(learner.predict_codes(x)?.into_iter().map(f64::from).collect());
    }
    Ok(learner.predict(x)?)
}

/// Outputs for the tested rows when every client has its own rows alone.
fn local(stage: &Stage, alone: &[Option<Server>], tested: &[usize]) -> Result<Vec<f64>> {
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
    Ok(all)
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
    rival: Option<&Rival>,
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
            lines.iter().map(|line| line.ours.all),
        ),
        Series::from_values(
            "every client alone: nothing sent",
            lines.iter().map(|line| line.local.all),
        ),
    ];
    if let Some((_, averaged)) = rival.and_then(|rival| rival.all.best.as_ref()) {
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
        "ours_newest",
        "fedavg_newest",
        "local_newest",
    ])?;
    let cell =
        |v: Option<f64>| v.filter(|v| v.is_finite()).map_or_else(String::new, |v| v.to_string());
    for line in lines {
        steps.write_record([
            line.step.clone(),
            line.clients.to_string(),
            line.samples.to_string(),
            line.gap.to_string(),
            line.ours.all.to_string(),
            cell(rival.and_then(Rival::errors).map(|errors| errors[line.at])),
            line.local.all.to_string(),
            line.up.to_string(),
            (line.down * line.receivers).to_string(),
            cell(Some(line.ours.newest)),
            cell(rival.and_then(Rival::newest).map(|errors| errors[line.at])),
            cell(Some(line.local.newest)),
        ])?;
    }
    write(&out.join("federated.csv"), &steps.into_inner()?)?;
    let mut lost = csv::Writer::from_writer(Vec::new());
    lost.write_record(["client", "step", "samples", "loss", "min_loss", "forgetting", "bound"])?;
    for entry in report {
        let r = &entry.report;
        lost.write_record([
            entry.client.clone(),
            (entry.step + 1).to_string(),
            r.samples.to_string(),
            cell(r.loss),
            cell(r.min_loss),
            cell(r.forgetting),
            cell(r.bound),
        ])?;
    }
    write(&out.join("forgetting.csv"), &lost.into_inner()?)?;
    note(&format!("pictures and tables in {}", out.display()));
    Ok(())
}

/// A loss by its name, checked.
fn loss_spec(text: &str) -> Result<String, pmfcl::Error> {
    Problem::parse(text, None).map(|_| text.to_owned())
}
