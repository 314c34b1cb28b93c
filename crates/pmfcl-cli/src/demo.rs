//! `pmfcl demo`: the main job on bundled real data, through the commands a user types.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser as _};
use pmfcl::pareto::PairFront;
use pmfcl::report::{conflict, continual};
use pmfcl::{Learner, Problem, Rows, Settings, TaskRows, Theta};
use pmfcl_file::{Access, Model, Store};
use pmfcl_plot::{
    Axis, CellText, Chart, Dash, Front, Grid, HeatMap, Lines, Mark, Ramp, Series, Theme,
};
use serde_json::json;

use crate::bike::{self, Part, Quarter};
use crate::{Cli, Command};
use pmfcl_terminal::{Table, print, verbosity, write};

/// Learn two years of bike rentals quarter by quarter, and see what is not forgotten.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pmfcl demo --out demo")]
pub(crate) struct Demo {
    /// Where to put data, model, report and pictures.
    #[arg(long, default_value = "pmfcl-demo", value_name = "DIR")]
    out: PathBuf,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        let quarters = bike::quarters()?;
        let files = DemoFiles::set_up(&self.out, &quarters)?;
        let model = files.model.display().to_string();
        let mut learn = vec!["learn".to_owned(), model.clone()];
        learn.extend(quarters.iter().map(|q| files.data(&q.name)));
        learn.extend(["--target", "rentals"].map(str::to_owned));
        run(&learn)?;
        let mut predicted = Vec::new();
        for (k, quarter) in quarters.iter().enumerate() {
            let (held_out, out) = (files.held_out(&quarter.name), files.predicted(&quarter.name));
            let command = ["predict", &model, &held_out, "-o", &out].map(str::to_owned);
            if k == 0 {
                run(&command)?;
            } else {
                run_unseen(&command)?;
            }
            predicted.push(numbers(Path::new(&out))?);
        }
        run(&["verify", &model].map(str::to_owned))?;
        let report = self.out.join("report.html");
        run(&["report", &model, "-o", &report.display().to_string()].map(str::to_owned))?;
        let (mut store, mut learned) = Store::open(&files.model, Access::Read)?;
        store.load(&mut learned)?;
        let result = DemoResult::of(&quarters, &learned, &predicted)?;
        let pictures = result.draw(&self.out)?;
        if verbosity().json {
            return print(&format!("{:#}\n", result.json(&pictures, &report)));
        }
        print(&result.text(&pictures, &report))
    }
}

/// The files of the demo.
struct DemoFiles {
    out: PathBuf,
    model: PathBuf,
}

impl DemoFiles {
    /// Writes the quarters as files, as a user would have them, and clears what an earlier demo left.
    fn set_up(out: &Path, quarters: &[Quarter]) -> Result<Self> {
        let files = Self { out: out.to_path_buf(), model: out.join("bikes.pmf") };
        for folder in ["data", "held-out", "predicted"] {
            let folder = out.join(folder);
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make the directory `{}`", folder.display()))?;
        }
        if files.model.exists() {
            std::fs::remove_file(&files.model)?;
        }
        for quarter in quarters {
            for (path, lines) in [
                (files.data(&quarter.name), &quarter.train.lines),
                (files.held_out(&quarter.name), &quarter.test.lines),
            ] {
                let text = format!("{}\n{lines}", bike::header());
                write(Path::new(&path), text.as_bytes())?;
            }
        }
        Ok(files)
    }

    fn data(&self, quarter: &str) -> String {
        self.out.join("data").join(format!("{quarter}.csv")).display().to_string()
    }

    fn held_out(&self, quarter: &str) -> String {
        self.out.join("held-out").join(format!("{quarter}.csv")).display().to_string()
    }

    fn predicted(&self, quarter: &str) -> String {
        self.out.join("predicted").join(format!("{quarter}.csv")).display().to_string()
    }
}

/// Runs a command as if it had been typed, and shows it.
fn run(arguments: &[String]) -> Result<()> {
    if !verbosity().json && !verbosity().quiet {
        let shown: Vec<&str> = arguments.iter().map(String::as_str).collect();
        print(&format!("\n$ pmfcl {}\n", folded(&shown)))?;
    }
    run_unseen(arguments)
}

/// Runs a command as if it had been typed.
fn run_unseen(arguments: &[String]) -> Result<()> {
    let whole = std::iter::once("pmfcl").chain(arguments.iter().map(String::as_str));
    match Cli::try_parse_from(whole)?.command {
        // Their documents are not the demo's.
        Command::Learn(c) => c.learn().map(|done| done.print()),
        Command::Predict(c) => c.run(),
        Command::Verify(c) if verbosity().json => c.check().map(|_| ()),
        Command::Verify(c) => c.run(),
        Command::Report(c) => c.write().map(|_| ()),
        other => bail!("the demo has no use for {other:?}"),
    }
}

/// A long list of files in the middle, shortened.
fn folded(arguments: &[&str]) -> String {
    if arguments.len() <= 8 {
        return arguments.join(" ");
    }
    let (head, tail) = (&arguments[..4], &arguments[arguments.len() - 3..]);
    format!("{} … {}", head.join(" "), tail.join(" "))
}

/// The first column of a CSV of predictions.
fn numbers(path: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().skip(1).map(|line| Ok(line.parse()?)).collect()
}

/// Everything the demo computes.
struct DemoResult<'a> {
    names: Vec<String>,
    learner: &'a Learner,
    /// Test RMSE at the end, a row for each quarter: joint, pmfcl, fine-tuned on the newest quarter.
    errors: Vec<[f64; 3]>,
    /// Test RMSE over all quarters so far, after each quarter: pmfcl, fine-tuned.
    over_time: Vec<[f64; 2]>,
    /// Largest difference between a prediction of pmfcl and of joint training.
    gap: f64,
    history: continual::History,
    /// Bytes of the training rows, had they been kept.
    row_bytes: usize,
    last_only: Theta,
}

impl<'a> DemoResult<'a> {
    fn of(quarters: &[Quarter], model: &'a Model, predicted: &[Vec<f64>]) -> Result<Self> {
        let d = bike::width();
        // The same again in memory, for the models on the way.
        let mut learner = Learner::new(Problem::squared(), Settings::default())?;
        let mut over_time = Vec::new();
        let mut newest = Learner::new(Problem::squared(), Settings::default())?;
        for (k, quarter) in quarters.iter().enumerate() {
            learn(&mut learner, &quarter.name, &quarter.train)?;
            // Fine-tuning to convergence: the linear model that fits the newest rows best.
            newest = Learner::new(Problem::squared(), Settings::default())?;
            learn(&mut newest, &quarter.name, &quarter.train)?;
            let so_far = &quarters[..=k];
            over_time.push([pooled_rmse(&learner, so_far)?, pooled_rmse(&newest, so_far)?]);
        }
        let mut joint = Learner::new(Problem::squared(), Settings::default())?;
        let mut all = Part::default();
        for quarter in quarters {
            all.x.extend_from_slice(&quarter.train.x);
            all.y.extend_from_slice(&quarter.train.y);
        }
        learn(&mut joint, "all rows", &all)?;
        let mut gap = 0.0_f64;
        let mut errors = Vec::new();
        for (quarter, ours) in quarters.iter().zip(predicted) {
            let x = Rows::new(&quarter.test.x, d)?;
            let theirs = joint.predict(x)?;
            gap = ours.iter().zip(&theirs).fold(gap, |g, (a, b)| g.max((a - b).abs()));
            let y = &quarter.test.y;
            errors.push([rmse(&theirs, y), rmse(ours, y), rmse(&newest.predict(x)?, y)]);
        }
        Ok(Self {
            names: quarters.iter().map(|q| q.name.clone()).collect(),
            history: continual::history(&model.learner)?,
            last_only: reordered(&newest.solution()?.theta, model)?,
            learner: &model.learner,
            errors,
            over_time,
            gap,
            row_bytes: 8 * (all.x.len() + all.y.len()),
        })
    }

    fn text(&self, pictures: &[PathBuf], report: &Path) -> String {
        let mut table = Table::new(
            "Bike rentals per hour, learned quarter by quarter. Error is the root mean squared error on\n\
             held-out hours of each quarter, after all eight have been learned.",
            &["quarter", "joint", "pmfcl", "fine-tuned", "forgetting", "rows", "bytes"],
        );
        let tasks = self.learner.tasks().unwrap_or_default();
        for (task, e) in tasks.iter().zip(&self.errors) {
            table.row([
                task.name.clone(),
                format!("{:.1}", e[0]),
                format!("{:.1}", e[1]),
                format!("{:.1}", e[2]),
                format!("{:.0}", task.forgetting.unwrap_or(0.0)),
                format!("{:.0}", task.samples),
                task.bytes.to_string(),
            ]);
        }
        let mean =
            |c: usize| self.errors.iter().map(|e| e[c]).sum::<f64>() / self.errors.len() as f64;
        table.row([
            "mean / sum".to_owned(),
            format!("{:.1}", mean(0)),
            format!("{:.1}", mean(1)),
            format!("{:.1}", mean(2)),
            format!("{:.0}", self.learner.mean_forgetting().unwrap_or(0.0)),
            format!("{:.0}", self.learner.samples()),
            self.learner.state_bytes().to_string(),
        ]);
        table.note(
            "joint: trained on all rows at once.  pmfcl: one quarter at a time, rows discarded.",
        );
        table.note(
            "fine-tuned: fitted to the newest quarter only.  forgetting: rise of a quarter's",
        );
        table.note("training loss over its own best model, exact, computed without its rows.");
        let mut out = format!("\n{}\n", table.text());
        out.push_str(&format!(
            "  Largest difference between a prediction of pmfcl and of joint training: {:.1e} rentals.\n",
            self.gap
        ));
        out.push_str(&format!(
            "  Memory: {} bytes of summaries; the rows would have taken {} bytes.\n",
            self.learner.state_bytes(),
            self.row_bytes
        ));
        if let Some(test) = self.conflict() {
            out.push_str("  Do the quarters really differ? ");
            out.push_str(&match (test.f, test.p_value, test.noise_floor, test.missing) {
                (Some(f), Some(p), Some(floor), _) => {
                    format!(
                        "Chow test F = {f:.1}, p {}; noise alone would cost {floor:.0}.\n",
                        p_value(p)
                    )
                }
                (.., Some(reason)) => format!("No p-value: {reason}.\n"),
                _ => "No p-value.\n".to_owned(),
            });
        }
        out.push_str("\n  Pictures:\n");
        for picture in pictures {
            out.push_str(&format!("    {}\n", picture.display()));
        }
        out.push_str(&format!("\n  Open the report: {}\n", report.display()));
        out
    }

    fn json(&self, pictures: &[PathBuf], report: &Path) -> serde_json::Value {
        let tasks = self.learner.tasks().unwrap_or_default();
        let rows: Vec<_> = tasks
            .iter()
            .zip(&self.errors)
            .map(|(t, e)| {
                json!({
                    "name": t.name, "samples": t.samples, "rank": t.rank, "bytes": t.bytes,
                    "forgetting": t.forgetting, "rmse_joint": e[0], "rmse": e[1], "rmse_fine_tuned": e[2],
                })
            })
            .collect();
        json!({
            "tasks": rows,
            "gap_to_joint": self.gap,
            "state_bytes": self.learner.state_bytes(),
            "row_bytes": self.row_bytes,
            "mean_forgetting": self.learner.mean_forgetting().unwrap_or(0.0),
            "report": report.display().to_string(),
            "pictures": pictures.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(),
        })
    }

    fn conflict(&self) -> Option<conflict::ChowTest> {
        let tasks = self.learner.summaries()?;
        conflict::chow(tasks.iter().map(|task| &**task), self.learner.settings().accumulator)
            .ok()?
            .into_iter()
            .next()
    }

    fn draw(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory `{}`", directory.display()))?;
        let mut written = Vec::new();
        for (name, chart) in [("forgetting", self.over_time()), ("front", self.front()?)] {
            let path = directory.join(format!("{name}.svg"));
            write(&path, chart.svg(Theme::Auto).as_bytes())?;
            written.push(path);
            #[cfg(feature = "png")]
            {
                let path = directory.join(format!("{name}.png"));
                write(&path, &pmfcl_plot::png(&chart.svg(Theme::Light), 2.0)?)?;
                written.push(path);
            }
        }
        Ok(written)
    }

    fn over_time(&self) -> Chart {
        let series = |c: usize| self.over_time.iter().map(move |e| e[c]);
        let errors = Lines {
            title: "Error on all quarters seen so far".into(),
            description: "Test error of pmfcl and of fine-tuning after each quarter".into(),
            x: Axis::names("after learning", self.names.clone()),
            y: Axis::linear("RMSE (rentals per hour)"),
            series: vec![
                Series::from_values("pmfcl = joint training", series(0)),
                Series::from_values("fine-tuned", series(1)).with_dash(Dash::Long),
            ],
            ..Lines::default()
        };
        let map = HeatMap {
            title: "What is forgotten of each quarter, and when".into(),
            description: "Forgetting of each task after each task".into(),
            x_label: "forgetting of".into(),
            y_label: "after learning".into(),
            rows: self.names.clone(),
            columns: self.names.clone(),
            cells: self.history.forgetting.clone(),
            color: Axis::linear("rise of training loss (rentals²)"),
            ramp: Ramp::default(),
            text: CellText::Values,
            ..HeatMap::default()
        };
        Grid {
            title: "Two years of bike rentals, learned quarter by quarter".into(),
            charts: vec![errors.into(), map.into()],
            columns: 2,
            ..Grid::default()
        }
        .into()
    }

    /// The front between the first and the last quarter.
    fn front(&self) -> Result<Chart> {
        let (first, last) = (self.names[0].clone(), self.names[self.names.len() - 1].clone());
        let summary =
            |name: &str| Ok::<_, pmfcl::Error>(&self.learner.task_summary(name)?.quadratic);
        let (a, b) = (summary(&first)?, summary(&last)?);
        let front = PairFront::penalized(a, b, true, &self.learner.solution()?.penalty)?;
        let at = |p: pmfcl::pareto::FrontPoint| (p.loss_a, p.loss_b);
        let of = |theta: &Theta| -> Result<(f64, f64)> { Ok((a.loss(theta)?, b.loss(theta)?)) };
        let points = front.points(120).into_iter().map(at);
        Ok(Front {
            title: format!("What {first} and {last} can have at once"),
            description: "Pareto front of the first and the last quarter".into(),
            x: Axis::linear(format!("loss of {first} (rentals²/2)")),
            y: Axis::linear(format!("loss of {last} (rentals²/2)")),
            curves: vec![Series::new("Pareto front of the two", points)],
            marks: vec![
                Mark::new("pmfcl, all eight quarters", of(&self.learner.solution()?.theta)?),
                Mark::new(format!("fine-tuned on {last}"), of(&self.last_only)?),
                Mark::new("knee", at(front.knee())),
                Mark::new("equal forgetting", at(front.equal_forgetting())),
            ],
            ..Front::default()
        }
        .into())
    }
}

/// Parameters in the bundled order of columns, in the order the model met its categories.
fn reordered(theta: &Theta, model: &Model) -> Result<Theta> {
    let names = bike::features();
    let mut cells = vec![theta.cells()[0]];
    for feature in model.schema.features() {
        let at = names.iter().position(|name| *name == feature);
        cells.push(theta.cells()[1 + at.with_context(|| format!("no column `{feature}`"))?]);
    }
    Ok(Theta::from_slice(&cells))
}

fn learn(learner: &mut Learner, name: &str, part: &Part) -> Result<()> {
    let rows = TaskRows::new(Rows::new(&part.x, bike::width())?, Rows::new(&part.y, 1)?);
    learner.learn(name, rows, 1.0)?;
    Ok(())
}

fn rmse(predicted: &[f64], y: &[f64]) -> f64 {
    let squares: f64 = predicted.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum();
    (squares / y.len() as f64).sqrt()
}

fn pooled_rmse(learner: &Learner, quarters: &[Quarter]) -> Result<f64> {
    let (mut predicted, mut y) = (Vec::new(), Vec::new());
    for quarter in quarters {
        predicted.extend(learner.predict(Rows::new(&quarter.test.x, bike::width())?)?);
        y.extend_from_slice(&quarter.test.y);
    }
    Ok(rmse(&predicted, &y))
}

fn p_value(p: f64) -> String {
    if p < 1e-300 { "< 1e-300".to_owned() } else { format!("= {p:.1e}") }
}
