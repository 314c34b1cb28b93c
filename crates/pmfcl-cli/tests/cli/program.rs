//! The program under test, and the tables it is given.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use serde_json::Value;

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A directory of its own in which the program is run.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// The program, ready to start here; `words` are its arguments, split at blanks.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(words.split_whitespace()).current_dir(self.0.path()).env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        // Keys are made here, and never in the folder of whoever runs the tests.
        command.env("XDG_CONFIG_HOME", self.0.path().join("config"));
        command
    }

    /// Runs a line of the shell here; `pmfcl` in it is the program.
    pub(crate) fn shell(&self, line: &str) -> Run {
        let line = format!("pmfcl() {{ \"$PMFCL\" \"$@\"; }}\n{line}");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("PMFCL", crate::PROGRAM).output().unwrap().into()
    }

    pub(crate) fn run(&self, words: &str) -> Run {
        self.command(words).output().unwrap().into()
    }

    /// Runs the program with something to read on its standard input.
    pub(crate) fn feed(&self, words: &str, input: &str) -> Run {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A program that refuses early closes the pipe.
        let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
        let run = child.wait_with_output().unwrap().into();
        let _ = writer.join().unwrap();
        run
    }

    /// Runs the program, which must succeed; its standard output.
    pub(crate) fn ok(&self, words: &str) -> String {
        let run = self.run(words);
        assert_eq!(run.code, Some(0), "pmfcl {words}\n{}", run.stderr);
        run.stdout
    }

    /// As [`Place::ok`], with `--json`.
    pub(crate) fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{words} --json"))).unwrap()
    }

    pub(crate) fn show(&self, model: &str) -> Shown {
        Shown::of(&self.json(&format!("show {model}")))
    }
}

/// The parameters and tasks of a model, by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    /// By feature and output; the intercept is the feature without a name.
    pub(crate) coef: BTreeMap<(String, String), f64>,
    pub(crate) tasks: Value,
}

impl Shown {
    pub(crate) fn of(document: &Value) -> Self {
        let names = |key: &str| -> Vec<String> {
            let list = document[key].as_array().unwrap();
            list.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
        };
        let features = names("features");
        let mut outputs = names(if document["classes"].is_array() { "classes" } else { "targets" });
        let single = document["intercept"].is_number();
        let lists = |key: &str| -> Vec<Value> {
            if single {
                vec![document[key].clone()]
            } else {
                document[key].as_array().unwrap().clone()
            }
        };
        if single {
            outputs = vec![outputs.last().unwrap().clone()];
        }
        let mut coef = BTreeMap::new();
        assert_eq!(lists("coef").len(), outputs.len());
        for ((output, list), intercept) in outputs.iter().zip(lists("coef")).zip(lists("intercept"))
        {
            coef.insert((String::new(), output.clone()), intercept.as_f64().unwrap());
            let list = list.as_array().unwrap();
            assert_eq!(list.len(), features.len());
            for (feature, value) in features.iter().zip(list) {
                coef.insert((feature.clone(), output.clone()), value.as_f64().unwrap());
            }
        }
        Self { coef, tasks: document["tasks"].clone() }
    }

    /// The largest difference of a coefficient, relative to the largest coefficient.
    pub(crate) fn gap(&self, other: &Self) -> f64 {
        assert_eq!(
            self.coef.keys().collect::<Vec<_>>(),
            other.coef.keys().collect::<Vec<_>>(),
            "the models have the same coefficients"
        );
        let largest = self.coef.values().fold(0.0_f64, |m, v| m.max(v.abs()));
        assert!(largest > 0.0, "a model of zeros equals anything");
        let gap = self.coef.iter().map(|(k, v)| (v - other.coef[k]).abs());
        gap.fold(0.0, f64::max) / largest
    }

    /// The names of the tasks.
    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.tasks.as_array().unwrap();
        list.iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Both models have the same coefficients, to 1e-10 of the largest.
#[track_caller]
pub(crate) fn assert_same(a: &Shown, b: &Shown) {
    let gap = a.gap(b);
    assert!(gap <= 1e-10, "the largest coefficients differ by {gap:.3e}");
}

/// A table of text cells.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|c| (*c).to_owned()).collect(), rows: Vec::new() }
    }

    /// The bundled data; every `step`-th row.
    pub(crate) fn bike(step: usize) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/bike_hourly.csv.gz");
        let mut text = String::new();
        let file = fs::File::open(path).unwrap();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let mut lines = text.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        let columns = lines.next().unwrap();
        Self { columns, rows: lines.step_by(step).collect() }
    }

    pub(crate) fn at(&self, column: &str) -> usize {
        self.columns.iter().position(|c| c == column).unwrap()
    }

    pub(crate) fn numbers(&self, column: &str) -> Vec<f64> {
        let at = self.at(column);
        self.rows.iter().map(|r| r[at].parse().unwrap()).collect()
    }

    pub(crate) fn texts(&self, column: &str) -> Vec<&str> {
        let at = self.at(column);
        self.rows.iter().map(|r| r[at].as_str()).collect()
    }

    /// The columns listed, in that order.
    pub(crate) fn choose(&self, columns: &[&str]) -> Self {
        let places: Vec<usize> = columns.iter().map(|c| self.at(c)).collect();
        let rows = self.rows.iter().map(|r| places.iter().map(|p| r[*p].clone()).collect());
        Self { rows: rows.collect(), ..Self::new(columns) }
    }

    /// Without these columns.
    pub(crate) fn without(&self, columns: &[&str]) -> Self {
        let kept = self.columns.iter().map(String::as_str).filter(|c| !columns.contains(c));
        self.choose(&kept.collect::<Vec<_>>())
    }

    /// The rows for which `keep` holds of the value of a column.
    pub(crate) fn filter(&self, column: &str, keep: impl Fn(&str) -> bool) -> Self {
        let at = self.at(column);
        let rows = self.rows.iter().filter(|r| keep(&r[at])).cloned().collect();
        Self { columns: self.columns.clone(), rows }
    }

    /// One table for every value of a column, in order of appearance.
    pub(crate) fn split(&self, column: &str) -> Vec<(String, Self)> {
        let mut names: Vec<&str> = Vec::new();
        for value in self.texts(column) {
            if !names.contains(&value) {
                names.push(value);
            }
        }
        names.iter().map(|n| ((*n).to_owned(), self.filter(column, |v| v == *n))).collect()
    }

    pub(crate) fn csv(&self) -> String {
        let mut out = self.columns.join(",") + "\n";
        for row in &self.rows {
            out.push_str(&row.join(","));
            out.push('\n');
        }
        out
    }

    pub(crate) fn gz(&self) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(self.csv().as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    fn batch(&self) -> RecordBatch {
        let columns = self.columns.iter().enumerate().map(|(c, name)| {
            let numbers: Option<Vec<f64>> = self.rows.iter().map(|r| r[c].parse().ok()).collect();
            let array: ArrayRef = match numbers {
                Some(numbers) => Arc::new(Float64Array::from(numbers)),
                None => Arc::new(StringArray::from_iter_values(self.rows.iter().map(|r| &r[c]))),
            };
            (name.clone(), array)
        });
        RecordBatch::try_from_iter(columns).unwrap()
    }

    pub(crate) fn parquet(&self) -> Vec<u8> {
        let (batch, mut out) = (self.batch(), Vec::new());
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        out
    }

    pub(crate) fn arrow(&self) -> Vec<u8> {
        let (batch, mut out) = (self.batch(), Vec::new());
        let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut out, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        out
    }
}

/// Numbers that look random, the same in every run.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}
