//! Learns a small model for every loss, basis and kind of input, and writes it in all formats beside inputs and our own
//! answers, for `tests/onnx` to compare with those of other runtimes.
//!
//! ```text
//! cargo run -p pmfcl-export --example cases -- DIRECTORY
//! ```

use std::error::Error;
use std::fs;
use std::path::Path;

use pmfcl::classify::Temperature;
use pmfcl::{ClassLoss, Classifier, ClassifierSettings, Labels, Learner, Ridge, Rows, Settings};
use pmfcl_export::{Exported, Input, json, onnx, onnx_for, safetensors};
use serde_json::{Value, json as object};

/// Every basis, and what is special about some.
const BASES: [&str; 26] = [
    "linear",
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
enum Head {
    Regression {
        targets: usize,
        intercept: bool,
    },
    Classes {
        loss: ClassLoss,
        classes: &'static [&'static str],
        settings: fn(&mut ClassifierSettings),
    },
}

const TWO: &[&str] = &["no", "yes"];
const FOUR: &[&str] = &["ash", "beech", "elm", "Überraschung"];
const NUMBERS: &[&str] = &["-1", "2", "2.5", "10"];
const TWO_NUMBERS: &[&str] = &["0", "1"];

fn heads() -> Vec<(&'static str, Head)> {
    use ClassLoss::{Gaussian, Logistic, Squared};
    let classes = |loss, classes, settings| Head::Classes { loss, classes, settings };
    let plain: fn(&mut ClassifierSettings) = |_| {};
    let origin: fn(&mut ClassifierSettings) = |settings| settings.intercept = false;
    // Sorts between the others and has no rows.
    let absent: fn(&mut ClassifierSettings) = |settings| {
        settings.temperature = Temperature::Fixed(2.5);
        settings.classes.as_mut().expect("classes are named").push("cedar".to_owned());
    };
    let automatic: fn(&mut ClassifierSettings) =
        |settings| settings.temperature = Temperature::Auto;
    vec![
        ("squared-1", Head::Regression { targets: 1, intercept: true }),
        ("squared-3", Head::Regression { targets: 3, intercept: true }),
        ("squared-1-origin", Head::Regression { targets: 1, intercept: false }),
        ("squared-3-origin", Head::Regression { targets: 3, intercept: false }),
        ("squared-two", classes(Squared, TWO, plain)),
        ("squared-numbers", classes(Squared, NUMBERS, plain)),
        ("squared-four-origin", classes(Squared, FOUR, origin)),
        ("squared-four-absent", classes(Squared, FOUR, absent)),
        ("gaussian-two-numbers", classes(Gaussian, TWO_NUMBERS, plain)),
        ("gaussian-four", classes(Gaussian, FOUR, plain)),
        ("gaussian-four-absent", classes(Gaussian, FOUR, absent)),
        ("gaussian-two-automatic", classes(Gaussian, TWO, automatic)),
        ("logistic-two", classes(Logistic, TWO, plain)),
        ("logistic-two-numbers-origin", classes(Logistic, TWO_NUMBERS, origin)),
        ("logistic-numbers", classes(Logistic, NUMBERS, plain)),
        ("logistic-four-origin", classes(Logistic, FOUR, origin)),
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
    let asked = layout.table(&mut draw, 24, true, zeros);
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
    match head {
        Head::Regression { targets, intercept } => {
            let settings = Settings {
                basis: basis.parse()?,
                intercept,
                ridge: Ridge::Fixed(1e-3),
                threads: 1,
                ..Settings::default()
            };
            let mut learner = Learner::new(settings)?;
            for (name, table) in ["first", "second"].iter().zip(&tasks) {
                let x = table.encoded();
                let y: Vec<f64> = x
                    .chunks(width)
                    .flat_map(|row| (0..targets).map(move |target| response(row, target)))
                    .collect();
                learner.learn(name, Rows::new(&x, width)?, Rows::new(&y, targets)?)?;
            }
            let targets: Vec<String> = (1..=targets).map(|i| format!("target {i}")).collect();
            let design = learner.design().ok_or("nothing was learned")?;
            let theta = &learner.model()?.theta;
            let exported = Exported::regression(case, &asked.inputs, design, theta, &targets)?;
            facts["predictions"] = nested(&learner.predict(x)?, targets.len());
            export(place, &exported)?;
        }
        Head::Classes { loss, classes, settings } => {
            let mut chosen = ClassifierSettings {
                loss,
                basis: basis.parse()?,
                ridge: Ridge::Fixed(1e-2),
                certify: false,
                classes: Some(classes.iter().map(|&class| class.to_owned()).collect()),
                threads: 1,
                ..ClassifierSettings::default()
            };
            settings(&mut chosen);
            let mut classifier = Classifier::new(chosen)?;
            for (name, table) in ["first", "second"].iter().zip(&tasks) {
                let x = table.encoded();
                let label = |row: &[f64]| {
                    let noise = 0.3 * draw.uniform();
                    let place = (response(row, 1) + noise + 1.2) / 2.4 * classes.len() as f64;
                    classes[(place.max(0.0) as usize).min(classes.len() - 1)]
                };
                let labels: Vec<&str> = x.chunks(width).map(label).collect();
                classifier.learn(name, Rows::new(&x, width)?, &Labels::new(&labels))?;
            }
            let exported = Exported::classification(case, &asked.inputs, &classifier)?;
            facts["labels"] = classifier.predict(x)?.into();
            facts["probabilities"] =
                nested(&classifier.predict_proba(x)?, classifier.classes().len());
            export(place, &exported)?;
        }
    }
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
