//! Every classifier over every stream: the table behind `docs/choosing.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use pmfcl::problem::{Calibrate, Curvature, Evaluation, Gaussian, Logistic, Scheme, Squared};
use pmfcl::{ClassList, Learner, MemoryKind, Problem, Ridge, Settings, TaskRows};

use crate::data::{DataSet, Error};
use crate::stream::{Kind, Part, Stream};

/// A set, how it is divided, and how many rows are used: all for the exact losses, one in `thin` for those that fit
/// iteratively.
const STREAMS: [(&str, Kind, usize); 8] = [
    ("elec2", Kind::Natural, 1),
    ("elec2", Kind::Classes(1), 1),
    ("wisdm_users", Kind::Natural, 1),
    ("wisdm_users", Kind::Classes(2), 1),
    ("mnist", Kind::Classes(2), 20),
    ("mnist", Kind::Permuted(5), 20),
    ("fashion_mnist", Kind::Classes(2), 20),
    ("fashion_mnist", Kind::Permuted(5), 20),
];

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Line {
    /// Which classifier.
    pub method: String,
    /// On the test rows of all tasks, after the last.
    pub score: Evaluation,
    /// Bytes kept.
    pub bytes: usize,
    /// Seconds to learn all tasks, with a solution after each.
    pub seconds: f64,
    /// Mean over tasks of the bound on forgetting, where there is one.
    pub bound: Option<(f64, bool)>,
}

/// Learns a stream and scores it.
///
/// # Errors
/// As [`Learner::learn`] and [`Learner::solution`].
pub fn run(
    stream: &Stream,
    method: &str,
    problem: Problem,
    settings: Settings,
) -> Result<(Learner, Line), Error> {
    let start = Instant::now();
    let mut model = Learner::new(problem, settings)?;
    for task in &stream.train {
        model.learn(&task.name, TaskRows::new(task.rows(), &task.labels), 1.0)?;
        model.solution()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let score = model.evaluate(TaskRows::new(stream.test.rows(), &stream.test.labels))?;
    let bytes = model.state_bytes();
    let bound = if model.is_exact() {
        None
    } else {
        let guaranteed = model.problem().exactness().guaranteed();
        Some((model.mean_forgetting()?, guaranteed))
    };
    Ok((model, Line { method: method.to_owned(), score, bytes, seconds, bound }))
}

/// What a stream showed.
#[derive(Debug, Clone)]
pub struct Section {
    /// The stream.
    pub name: String,
    /// Tasks, rows to learn, rows to test.
    pub size: (usize, usize, usize),
    /// Lines on all rows.
    pub exact: Vec<Line>,
    /// Lines on one row in `thin`.
    pub thinned: Vec<Line>,
    /// One row in this many.
    pub thin: usize,
    /// Bound of `sharp` over that of `bohning`, task by task, at the same parameters.
    pub ratios: Vec<f64>,
}

/// Runs every classifier over the streams of the sets in `only` (all where it is empty); `note` is told what
/// is done.
///
/// # Errors
/// As [`DataSet::read`] and [`run`].
pub fn all(dir: &Path, only: &[&str], mut note: impl FnMut(&str)) -> Result<Vec<Section>, Error> {
    let mut sections = Vec::new();
    let mut table: Option<DataSet> = None;
    let wanted = |set: &str| only.is_empty() || only.contains(&set);
    for (set, kind, thin) in STREAMS.into_iter().filter(|(set, ..)| wanted(set)) {
        if table.as_ref().is_none_or(|t| t.name != set) {
            table = Some(DataSet::read(dir, set)?);
        }
        let Some(table) = &table else { continue };
        let section = section(table, kind, thin, &mut note)?;
        note(&section.to_string());
        sections.push(section);
    }
    Ok(sections)
}

fn section(
    table: &DataSet,
    kind: Kind,
    thin: usize,
    note: &mut impl FnMut(&str),
) -> Result<Section, Error> {
    let full = Stream::new(table, kind, 1);
    let mut exact = Vec::new();
    let mut line = |stream: &Stream, name: &str, (problem, settings), lines: &mut Vec<Line>| {
        let (model, line) = run(stream, name, problem, settings)?;
        note(&format!(
            "{}: {name} {:.4} in {:.1} s",
            stream.name,
            line.score.accuracy(),
            line.seconds
        ));
        lines.push(line);
        Ok::<_, Error>(model)
    };
    let plain = Settings::default;
    // GCV of every task on 784 features is the slowest part by far; one fixed ridge will do.
    let ridge = if table.width > 100 {
        Settings { ridge: Ridge::Fixed(1e-4), standardize: true, ..plain() }
    } else {
        plain()
    };
    let squared = (Problem::Squared(Squared { classes: Some(ClassList::Open) }), ridge);
    let gaussian = (Problem::gaussian(), plain());
    let tempered = Gaussian { calibrate: Calibrate::Off, ..Gaussian::default() };
    let tempered = (Problem::Gaussian(tempered), plain());
    line(&full, "squared", squared.clone(), &mut exact)?;
    line(&full, "gaussian", gaussian.clone(), &mut exact)?;
    line(&full, "gaussian, calibrate off", tempered.clone(), &mut exact)?;
    // The published numbers for a wide model are those of Split-MNIST.
    if table.name == "mnist" && matches!(kind, Kind::Classes(_)) {
        let basis: pmfcl::Basis = "relu:2000".parse().map_err(pmfcl::Error::from)?;
        let wide = |(problem, settings): (Problem, Settings)| {
            let memory = MemoryKind::Compact;
            (problem, Settings { basis: basis.clone(), memory, ..settings })
        };
        line(&full, "squared, relu:2000", wide(squared), &mut exact)?;
        line(&full, "gaussian, relu:2000", wide(gaussian.clone()), &mut exact)?;
        line(&full, "gaussian, relu:2000, calibrate off", wide(tempered.clone()), &mut exact)?;
    }
    let some = Stream::new(table, kind, thin);
    let mut thinned = Vec::new();
    let logistic = |scheme, curvature| {
        let classes = ClassList::Fixed(some.classes.clone());
        let certify = table.width <= 100;
        (Problem::Logistic(Logistic { classes, curvature, scheme, certify }), plain())
    };
    if thin > 1 {
        line(&some, "gaussian", gaussian, &mut thinned)?;
        line(&some, "gaussian, calibrate off", tempered, &mut thinned)?;
    }
    let whole = Stream { train: vec![Part::joined(&some.train)], ..some.clone() };
    line(
        &whole,
        "logistic, joint (all rows at once)",
        logistic(Scheme::Sequential, Curvature::Sharp),
        &mut thinned,
    )?;
    let curvatures = [
        Curvature::Bohning,
        Curvature::Sharp,
        Curvature::Hessian,
        Curvature::Blend,
        Curvature::Diagonal,
        Curvature::Fisher { draws: 1, seed: 0 },
    ];
    let mut pair = Vec::new();
    for scheme in [Scheme::OneShot, Scheme::Sequential] {
        for curvature in curvatures {
            let name = format!("logistic, {scheme}, {curvature}");
            let model = line(&some, &name, logistic(scheme, curvature), &mut thinned)?;
            if scheme == Scheme::OneShot && pair.len() < 2 {
                pair.push(model);
            }
        }
    }
    Ok(Section {
        name: full.name,
        size: (
            full.train.len(),
            full.train.iter().map(|p| p.labels.len()).sum(),
            full.test.labels.len(),
        ),
        exact,
        thinned,
        thin,
        ratios: ratios(&pair[1], &pair[0])?,
    })
}

/// Bound of one classifier over that of another, task by task, both at the parameters of the first.
fn ratios(sharp: &Learner, bohning: &Learner) -> Result<Vec<f64>, Error> {
    let theta = &sharp.solution()?.theta;
    let (a, b) = (sharp.summaries().unwrap_or_default(), bohning.summaries().unwrap_or_default());
    let mut ratios = Vec::new();
    for ((a, b), task) in a.iter().zip(b).zip(sharp.tasks()?) {
        let least = task.min_loss.unwrap_or(0.0);
        ratios.push((a.loss(theta)? - least) / (b.loss(theta)? - least));
    }
    Ok(ratios)
}

/// A Markdown table of lines.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| classifier | accuracy | log-loss | calibration error | bound on forgetting | kB | seconds |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let bound = match line.bound {
            None => "exact".to_owned(),
            Some((bound, true)) => format!("{bound:.3}"),
            Some((bound, false)) => format!("({bound:.3})"),
        };
        let _ = writeln!(
            text,
            "| {} | {:.4} | {:.3} | {:.3} | {bound} | {} | {:.1} |",
            line.method,
            line.score.accuracy(),
            line.score.log_loss(),
            line.score.calibration_error(),
            line.bytes.div_ceil(1000),
            line.seconds
        );
    }
    text
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tasks, learn, test) = self.size;
        writeln!(
            f,
            "### {}\n\n{tasks} tasks, {learn} rows to learn, {test} to test.\n",
            self.name
        )?;
        if self.thin == 1 {
            let all: Vec<Line> = self.exact.iter().chain(&self.thinned).cloned().collect();
            f.write_str(&table(&all))?;
        } else {
            f.write_str(&table(&self.exact))?;
            writeln!(f, "\nOne row in {}:\n\n{}", self.thin, table(&self.thinned).trim_end())?;
        }
        let (low, high) =
            self.ratios.iter().fold((f64::MAX, f64::MIN), |(a, b), r| (a.min(*r), b.max(*r)));
        let holds = if high <= 1.0 + 1e-9 { "on every task" } else { "NOT on every task" };
        writeln!(
            f,
            "\nSharp bound ÷ Böhning bound, task by task: {low:.3} to {high:.3}; at most 1 {holds}."
        )
    }
}
