//! Learns a small model for every loss, basis and kind of input, and writes it in all formats next to inputs and our own
//! answers, for `tests/onnx` to compare with those of other runtimes.
//!
//! ```text
//! cargo run -p pmfcl-export --example cases -- DIRECTORY
//! ```

use std::error::Error;
use std::fs;
use std::path::Path;

use pmfcl::{ClassList, Labels, Learner, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_export::{Exported, Input, json, onnx, onnx_for, safetensors};
use serde_json::{Value, json as object};

/// A line that ends at limits: of values alone, and asked about rows far beyond them.
const LINE: &str = "auto:30,only=linear";

/// Every basis, and what is special about some.
const BASES: [&str; 36] = [
    "linear",
    "auto:30",
    LINE,
    "poly:2,scale=clip",
    "poly:2,scale=quantile,linear=off",
    "spline:6,scale=range",
    "rbf:12,scale=range",
    "rff:16,scale=range",
    "rff:16,scale=quantile",
    "relu:20,scale=range",
    "ntk:7,scale=range",
    "poly:1",
    "poly:3",
    "poly:4,interactions=false",
    "log",
    "exp",
    "power:2",
    "power:3",
    "power:0.5",
    "power:1.7",
    "power:-1",
    "spline:3",
    "spline:6",
    "spline:5,lo=-0.5,hi=1",
    "rbf:12",
    "rbf:7,length=0.8,seed=3",
    "rbf:40,scale=none",
    "rff:16",
    "rff:9,gamma=0.3,seed=5",
    "rff:1,seed=9",
    "relu:20",
    "relu:9,scale=none",
    "relu:1",
    "ntk:7",
    "ntk:5,scale=none,seed=2",
    "ntk:1",
];

/// What is learned.
#[derive(Clone, Copy)]
struct Head {
    loss: &'static str,
    targets: Targets,
    intercept: bool,
    /// An option of the problem, and its value.
    option: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy)]
enum Targets {
    /// So many values.
    Values(usize),
    /// So many counts.
    Counts(usize),
    Classes {
        /// Those that have rows.
        learned: &'static [&'static str],
        /// One that has none.
        absent: Option<&'static str>,
    },
}

const TWO: &[&str] = &["no", "yes"];
const FOUR: &[&str] = &["ash", "beech", "elm", "Überraschung"];
const NUMBERS: &[&str] = &["-1", "2", "2.5", "10"];
const TWO_NUMBERS: &[&str] = &["0", "1"];

impl Head {
    fn new(loss: &'static str, targets: Targets) -> Self {
        Self { loss, targets, intercept: true, option: None }
    }

    fn values(loss: &'static str, count: usize) -> Self {
        Self::new(loss, Targets::Values(count))
    }

    fn classes(loss: &'static str, learned: &'static [&'static str]) -> Self {
        Self::new(loss, Targets::Classes { learned, absent: None })
    }

    /// Four classes, and a fifth that sorts between them.
    fn absent(loss: &'static str) -> Self {
        Self::new(loss, Targets::Classes { learned: FOUR, absent: Some("cedar") })
    }

    fn origin(self) -> Self {
        Self { intercept: false, ..self }
    }

    fn option(self, name: &'static str, value: &'static str) -> Self {
        Self { option: Some((name, value)), ..self }
    }

    fn problem(self) -> pmfcl::Result<Problem> {
        let classes = match self.targets {
            Targets::Values(_) | Targets::Counts(_) => None,
            Targets::Classes { learned, absent } => {
                let all = learned.iter().copied().chain(absent);
                Some(ClassList::Fixed(all.map(str::to_owned).collect()))
            }
        };
        let problem = Problem::parse(self.loss, classes)?;
        match self.option {
            Some((name, value)) => problem.with_option(name, value),
            None => Ok(problem),
        }
    }
}

fn heads() -> Vec<(&'static str, Head)> {
    let logistic = |classes| Head::classes("logistic", classes).option("certify", "false");
    vec![
        ("squared-1", Head::values("squared", 1)),
        ("squared-3", Head::values("squared", 3)),
        ("squared-1-origin", Head::values("squared", 1).origin()),
        ("squared-3-origin", Head::values("squared", 3).origin()),
        ("huber-1", Head::values("huber:1.5", 1)),
        ("huber-3-origin", Head::values("huber:0.2", 3).origin()),
        ("poisson-1", Head::new("poisson", Targets::Counts(1))),
        ("poisson-2-origin", Head::new("poisson:4", Targets::Counts(2)).origin()),
        ("squared-two", Head::classes("squared", TWO)),
        ("squared-numbers", Head::classes("squared", NUMBERS)),
        ("squared-four-origin", Head::classes("squared", FOUR).origin()),
        ("squared-four-absent", Head::absent("squared")),
        ("gaussian-two-numbers", Head::classes("gaussian", TWO_NUMBERS)),
        ("gaussian-four", Head::classes("gaussian", FOUR)),
        ("gaussian-four-absent", Head::absent("gaussian").option("calibrate", "2.5")),
        ("gaussian-two-automatic", Head::classes("gaussian", TWO).option("calibrate", "on")),
        ("gaussian-four-covariances", Head::absent("gaussian").option("covariance", "class")),
        ("gaussian-two-covariances", Head::classes("gaussian", TWO).option("covariance", "class")),
        ("logistic-two", logistic(TWO)),
        ("logistic-two-numbers-origin", logistic(TWO_NUMBERS).origin()),
        ("logistic-numbers", logistic(NUMBERS)),
        ("logistic-four-origin", logistic(FOUR).origin()),
    ]
}

/// Columns as they come, before categories become inputs.
struct Table {
    inputs: Vec<Input>,
    /// Rows of the number columns.
    numbers: Vec<Vec<f64>>,
    /// Text columns: the name in the model, the name in the graph, the cells.
    texts: Vec<(&'static str, &'static str, Vec<String>)>,
}

impl Table {
    /// The inputs of the model, row after row.
    fn encoded(&self) -> Vec<f64> {
        let mut cells = Vec::new();
        for (i, row) in self.numbers.iter().enumerate() {
            let mut numbers = row.iter();
            for input in &self.inputs {
                cells.push(match input {
                    Input::Number(_) => *numbers.next().expect("a number for each"),
                    Input::Category { column, value } => {
                        let text = self.texts.iter().find(|(name, ..)| name == column);
                        let (.., cells) = text.expect("a text column for each");
                        f64::from(u8::from(cells[i] == *value))
                    }
                    Input::Missing { .. } => 0.0, // no cell of these tables is missing
                });
            }
        }
        cells
    }
}

/// Which columns there are.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Numbers,
    /// Numbers and text in turns; one text column has a name the graph needs itself.
    Mixed,
    Texts,
    /// A single column of numbers.
    Lone,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Mixed => "mixed",
            Self::Texts => "texts",
            Self::Lone => "lone",
        }
    }

    /// Random rows; `ask` adds rows no task had: far out and near zero.
    fn table(self, draw: &mut Draw, rows: usize, ask: bool, zeros: bool) -> Table {
        let number = |name: &str| Input::Number(name.to_owned());
        let category = |column: &str, value: &str| Input::Category {
            column: column.to_owned(),
            value: value.to_owned(),
        };
        let season = |value| category("season", value);
        let inputs = match self {
            Self::Numbers => vec![number("a"), number("b"), number("c")],
            Self::Mixed => vec![
                number("a"),
                season("spring"),
                category("X", "größer"),
                number("b"),
                season("autumn"),
                season(""),
                category("X", "small"),
                category("X", "Größer"),
            ],
            Self::Lone => vec![number("a")],
            Self::Texts => vec![
                season("spring"),
                season("autumn"),
                category("label", "x"),
                season(""),
                category("label", "y"),
                category("label", "z"),
            ],
        };
        let width = inputs.iter().filter(|input| matches!(input, Input::Number(_))).count();
        let mut numbers: Vec<Vec<f64>> =
            (0..rows).map(|_| (0..width).map(|_| 2.0 * draw.uniform() - 1.0).collect()).collect();
        if ask {
            let far: [f64; 8] = [3.0, -2.5, 1e-9, -1e-5, 1.0, -1.0, 5.5, -0.7];
            for (i, row) in numbers.iter_mut().enumerate().take(12) {
                row.iter_mut().enumerate().for_each(|(j, x)| *x = far[(i + 3 * j) % far.len()]);
            }
            if zeros {
                numbers[12].fill(0.0);
            }
        }
        let mut text = |column, input, values: [&str; 3]| {
            let cells = (0..rows).map(|_| values[draw.below(values.len())].to_owned()).collect();
            (column, input, cells)
        };
        let seasons = ["spring", "autumn", ""];
        let texts = match self {
            Self::Numbers | Self::Lone => Vec::new(),
            Self::Mixed => {
                let sizes = ["größer", "small", "Größer"];
                vec![text("season", "season", seasons), text("X", "X_2", sizes)]
            }
            Self::Texts => {
                let labels = ["x", "y", "z"];
                vec![text("season", "season", seasons), text("label", "label_2", labels)]
            }
        };
        Table { inputs, numbers, texts }
    }
}

/// Numbers that are the same in every run (Knuth's MMIX generator, its upper bits).
struct Draw(u64);

impl Draw {
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }
}

/// A smooth response of a row, another for each target.
fn response(row: &[f64], target: usize) -> f64 {
    let sum = |from: usize| -> f64 {
        row.iter().enumerate().map(|(j, x)| x * f64::from(((j + from) % 3) as u8 + 1)).sum()
    };
    (sum(target) + 0.3 * target as f64).sin() + 0.2 * sum(target + 1)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: cases DIRECTORY")?;
    for basis in BASES {
        // 0 has no negative power, and a category is 0 on most rows.
        let poles = basis.starts_with("power:-");
        for layout in [Layout::Numbers, Layout::Mixed, Layout::Texts, Layout::Lone] {
            if poles && matches!(layout, Layout::Mixed | Layout::Texts) {
                continue;
            }
            for (name, head) in heads() {
                if layout == Layout::Texts && !matches!(name, "squared-1" | "gaussian-four") {
                    continue;
                }
                if basis == LINE && !matches!(head.targets, Targets::Values(_)) {
                    continue;
                }
                // Near a pole, the exponential leaves the range of doubles.
                if poles && matches!(head.targets, Targets::Counts(_)) {
                    continue;
                }
                let file = basis.replace([':', ',', '='], "_");
                let case = format!("{file}-{}-{name}", layout.name());
                let place = Path::new(&directory).join(&case);
                fs::create_dir_all(&place)?;
                write(&place, &case, basis, layout, !poles, head)
                    .map_err(|error| format!("{case}: {error}"))?;
            }
        }
    }
    Ok(())
}

/// One case: learn, ask, export.
fn write(
    place: &Path,
    case: &str,
    basis: &str,
    layout: Layout,
    zeros: bool,
    head: Head,
) -> Result<(), Box<dyn Error>> {
    let mut draw = Draw(case.bytes().map(u64::from).sum());
    let tasks =
        [layout.table(&mut draw, 60, false, zeros), layout.table(&mut draw, 40, false, zeros)];
    let mut asked = layout.table(&mut draw, 24, true, zeros);
    if basis == LINE {
        asked.numbers.iter_mut().take(12).flatten().for_each(|x| *x *= 1e3);
    }
    let width = asked.inputs.len();
    let encoded = asked.encoded();
    let x = Rows::new(&encoded, width)?;
    let mut facts = object!({
        "basis": basis.split(':').next(),
        "spec": basis,
        "numbers": asked.numbers,
        "texts": asked.texts.iter().map(|(column, input, cells)| object!({
            "column": column, "input": input, "cells": cells
        })).collect::<Vec<Value>>(),
        "encoded": nested(&encoded, width),
    });
    let settings = Settings {
        basis: basis.parse()?,
        intercept: head.intercept,
        ridge: Ridge::Fixed(match head.targets {
            Targets::Values(_) => 1e-3,
            Targets::Counts(_) | Targets::Classes { .. } => 1e-2,
        }),
        threads: 1,
        ..Settings::default()
    };
    let mut learner = Learner::new(head.problem()?, settings)?;
    for (name, table) in ["first", "second"].iter().zip(&tasks) {
        let cells = table.encoded();
        let x = Rows::new(&cells, width)?;
        match head.targets {
            Targets::Values(count) | Targets::Counts(count) => {
                let counts = matches!(head.targets, Targets::Counts(_));
                let target = |row: &[f64], k: usize| {
                    let value = response(row, k);
                    if counts { (2.0 * value.exp()).min(30.0).round() } else { value }
                };
                let each = |row| (0..count).map(move |k| target(row, k));
                let y: Vec<f64> = cells.chunks(width).flat_map(each).collect();
                learner.learn(name, TaskRows::new(x, Rows::new(&y, count)?), 1.0)?;
            }
            Targets::Classes { learned, .. } => {
                let label = |row: &[f64]| {
                    let noise = 0.3 * draw.uniform();
                    let place = (response(row, 1) + noise + 1.2) / 2.4 * learned.len() as f64;
                    learned[(place.max(0.0) as usize).min(learned.len() - 1)]
                };
                let labels: Vec<&str> = cells.chunks(width).map(label).collect();
                learner.learn(name, TaskRows::new(x, &Labels::new(&labels)), 1.0)?;
            }
        }
    }
    let mut targets = Vec::new();
    match head.targets {
        Targets::Values(count) | Targets::Counts(count) => {
            targets.extend((1..=count).map(|i| format!("target {i}")));
            facts["predictions"] = nested(&learner.predict(x)?, count);
        }
        Targets::Classes { .. } => {
            facts["labels"] = learner.predict_classes(x)?.into();
            facts["probabilities"] = nested(&learner.probabilities(x)?, learner.classes().len());
        }
    }
    export(place, &Exported::of(case, &asked.inputs, &learner, &targets)?)?;
    fs::write(place.join("case.json"), facts.to_string())?;
    Ok(())
}

/// A flat slice as a list of rows.
fn nested(cells: &[f64], width: usize) -> Value {
    cells.chunks(width).map(Value::from).collect()
}

/// The model in all formats.
fn export(place: &Path, exported: &Exported<'_>) -> Result<(), Box<dyn Error>> {
    fs::write(place.join("model.onnx"), onnx(exported)?)?;
    fs::write(place.join("model-19.onnx"), onnx_for(exported, 19)?)?;
    fs::write(place.join("model.safetensors"), safetensors(exported)?)?;
    fs::write(place.join("model.json"), json(exported)?)?;
    Ok(())
}
