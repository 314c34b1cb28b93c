//! Thousands of random features against NumPy on the same rows: seconds, peak memory and fit, in one run.
//!
//! Every case runs in a process of its own, so that its peak memory is its own too. NumPy is given the same features and does what one
//! would write by hand: `HᵀH` summed over tasks, and a Cholesky solution after each of them or at the end.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use pmfcl::basis::{Finish, Parts};
use pmfcl::{
    Accumulator, Basis, Error, Learner, MemoryKind, Problem, Ridge, Rows, Settings, TaskRows,
    instruction_set,
};
use pmfcl_oracle::Draw;
use pmfcl_terminal::Table;

use crate::footprint;
use crate::kernels::Trouble;

const PEER: &str = include_str!("../../../bench/wide.py");
const ROWS: usize = 12_600;
const INPUTS: usize = 128;
const TASKS: usize = 10;
const RIDGE: f64 = 1e-3;

/// When a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// After every task.
    Every,
    /// After the last one.
    Last,
}

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Self::Every => "every",
            Self::Last => "last",
        }
    }
}

/// One case of ours.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Random features.
    pub width: usize,
    /// How rows are accumulated.
    pub accumulator: Accumulator,
    /// When a model is asked for.
    pub asked: Asked,
    /// Whether all other settings are the defaults: a ledger, and the automatic ridge.
    pub defaults: bool,
}

/// What one side needed.
#[derive(Debug, Clone, Copy)]
struct Measured {
    seconds: f64,
    peak: f64,
    error: f64,
}

impl Measured {
    fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<f64> = text.split_whitespace().map_while(|v| v.parse().ok()).collect();
        let [seconds, peak, error] = numbers[..] else { return None };
        Some(Self { seconds, peak, error })
    }
}

struct Sample {
    x: Vec<f64>,
    y: Vec<f64>,
}

fn sample() -> Sample {
    let mut draw = Draw::new(16);
    let x = draw.normals(ROWS * INPUTS);
    let y = x
        .chunks_exact(INPUTS)
        .map(|row| row[0].sin() + row[1] * row[2] + 0.1 * draw.normal())
        .collect();
    Sample { x, y }
}

fn basis(width: usize) -> Result<Basis, Error> {
    Ok(format!("relu:{width},scale=none").parse::<Basis>()?)
}

/// Runs one case of ours in this process: seconds, peak memory in bytes and mean squared error as one line.
///
/// # Errors
/// When the library refuses.
pub fn one(case: Case) -> Result<String, Trouble> {
    let Sample { x, y } = sample();
    let settings = Settings {
        basis: basis(case.width)?,
        ridge: Ridge::Fixed(RIDGE),
        accumulator: case.accumulator,
        // NumPy keeps sums of all tasks and nothing of a single one.
        memory: MemoryKind::Compact,
        ..Settings::default()
    };
    let settings = if case.defaults {
        Settings { basis: basis(case.width)?, ..Settings::default() }
    } else {
        settings
    };
    let mut learner = Learner::new(Problem::squared(), settings)?;
    let begin = Instant::now();
    let size = ROWS / TASKS;
    for (t, (x, y)) in x.chunks_exact(size * INPUTS).zip(y.chunks_exact(size)).enumerate() {
        let rows = TaskRows::new(Rows::new(x, INPUTS)?, Rows::new(y, 1)?);
        learner.learn(&t.to_string(), rows, 1.0)?;
        if case.asked == Asked::Every {
            learner.solution()?;
        }
    }
    learner.solution()?;
    let seconds = begin.elapsed().as_secs_f64();
    let peak = footprint::high_water();
    let predicted = learner.predict(Rows::new(&x, INPUTS)?)?;
    let squares: f64 = predicted.iter().zip(&y).map(|(a, b)| (a - b) * (a - b)).sum();
    Ok(format!("{seconds} {peak} {}\n", squares / ROWS as f64))
}

/// Ours against NumPy at the given widths; `program` is the one that runs [`one`] when it is given the arguments of a case.
///
/// # Errors
/// When Python with NumPy and SciPy is not there, or the library refuses.
pub fn run(widths: &[usize], turns: usize, program: &Path) -> Result<Vec<Table>, Trouble> {
    let trouble = |e: std::io::Error| Trouble::Peer(e.to_string());
    let folder = tempfile::tempdir().map_err(trouble)?;
    let Sample { x, y } = sample();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("x.npy"), npy(&[ROWS, INPUTS], &x)).map_err(trouble)?;
    std::fs::write(path("y.npy"), npy(&[ROWS], &y)).map_err(trouble)?;
    let files: Vec<_> = (0..TASKS).map(|t| path(&format!("task{t}.csv"))).collect();
    for ((file, x), y) in
        files.iter().zip(x.chunks(ROWS / TASKS * INPUTS)).zip(y.chunks(ROWS / TASKS))
    {
        std::fs::write(file, csv(x, y)).map_err(trouble)?;
    }
    let product = program.with_file_name("pmfcl");
    let mut table = Table::new(
        &format!("{ROWS} rows of {INPUTS} inputs in {TASKS} tasks, ridge {RIDGE}"),
        &["features", "model after", "way", "seconds", "of NumPy", "peak MB", "of NumPy", "mse"],
    );
    for &width in widths {
        let map = basis(width)?.fix(&[], INPUTS).map_err(Error::from)?;
        let Parts::Random { weights, finish: Finish::Relu { bias }, .. } = map.parts() else {
            return Err(Trouble::Peer("the basis has no weights".to_owned()));
        };
        std::fs::write(path("w.npy"), npy(&[INPUTS, width], weights)).map_err(trouble)?;
        std::fs::write(path("b.npy"), npy(&[width], bias)).map_err(trouble)?;
        for asked in [Asked::Every, Asked::Last] {
            let peer = || {
                let mut command = Command::new("python3");
                command.args(["-c", PEER]);
                command.args(["x.npy", "y.npy", "w.npy", "b.npy"].map(path));
                command.args([TASKS.to_string(), RIDGE.to_string(), asked.name().to_owned()]);
                command
            };
            let ours = |accumulator: Accumulator, defaults: bool| {
                let mut command = Command::new(program);
                command.args(["bench", "wide", "--one", "--widths", &width.to_string()]);
                command.args(["--accumulator", &accumulator.to_string(), "--asked", asked.name()]);
                if defaults {
                    command.arg("--defaults");
                }
                command
            };
            let mut ways = vec![
                ("NumPy", Way::Peer),
                ("gram", Way::Ours(Accumulator::Gram, false)),
                ("mixed", Way::Ours(Accumulator::Mixed, false)),
            ];
            if asked == Asked::Last {
                ways.push(("default settings", Way::Ours(Accumulator::Auto, true)));
                if product.exists() {
                    ways.push(("pmfcl learn, gram", Way::Command));
                }
            }
            let mut found = vec![Vec::new(); ways.len()];
            for _ in 0..turns.max(1) {
                for ((_, way), found) in ways.iter().zip(&mut found) {
                    found.push(match way {
                        Way::Peer => measure(peer())?,
                        Way::Ours(accumulator, defaults) => measure(ours(*accumulator, *defaults))?,
                        Way::Command => learn(&product, folder.path(), &files, width)?,
                    });
                }
            }
            let median = |list: &[Measured]| {
                let mut sorted = list.to_vec();
                sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
                sorted[sorted.len() / 2]
            };
            let numpy = median(&found[0]);
            for ((name, _), found) in ways.iter().zip(&found) {
                let side = median(found);
                table.row([
                    width.to_string(),
                    asked.name().to_owned(),
                    (*name).to_owned(),
                    format!("{:.2}", side.seconds),
                    format!("{:.2}", side.seconds / numpy.seconds),
                    known(side.peak, format!("{:.0}", side.peak / 1e6)),
                    known(side.peak, format!("{:.2}", side.peak / numpy.peak)),
                    known(side.error, format!("{:.6e}", side.error)),
                ]);
            }
        }
    }
    table.note("Medians, taken in turns. Seconds from rows in memory to the last model; all sides use all processors; compact memory.");
    table.note(format!("Instructions of pmfcl's kernels: {}.", instruction_set()));
    table.note("Default settings: a ledger with a triangle per task, and a ridge chosen by cross-validation, which NumPy is not asked for.");
    table.note("pmfcl learn: ten CSV files to a model file, compact memory, tasks written as they come, several at once where writing takes longer than learning; the process as a whole.");
    Ok(vec![table])
}

/// The text of a number that was measured.
fn known(value: f64, text: String) -> String {
    if value.is_nan() { "–".to_owned() } else { text }
}

/// Who is measured.
#[derive(Debug, Clone, Copy)]
enum Way {
    Peer,
    /// The library with an accumulator, all else by default or as NumPy does it.
    Ours(Accumulator, bool),
    /// The command line, from files to a file.
    Command,
}

/// The whole command. Its memory and error are not measured.
fn learn(
    product: &Path,
    folder: &Path,
    files: &[std::path::PathBuf],
    width: usize,
) -> Result<Measured, Trouble> {
    let trouble = |e: std::io::Error| Trouble::Peer(e.to_string());
    let model = folder.join("model.pmf");
    if model.exists() {
        std::fs::remove_file(&model).map_err(trouble)?;
    }
    let mut command = Command::new(product);
    command.arg("learn").arg(&model).args(files);
    command.args(["--target", "y", "--memory", "compact", "--accumulator", "gram", "--quiet"]);
    command.args(["--basis", &basis(width)?.to_string(), "--ridge", &RIDGE.to_string()]);
    let begin = Instant::now();
    let done = command.output().map_err(trouble)?;
    let seconds = begin.elapsed().as_secs_f64();
    if !done.status.success() {
        return Err(Trouble::Peer(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    Ok(Measured { seconds, peak: f64::NAN, error: f64::NAN })
}

/// Rows of inputs and a target as a CSV file.
fn csv(x: &[f64], y: &[f64]) -> String {
    let mut text = String::new();
    (0..INPUTS).for_each(|j| text.push_str(&format!("x{j},")));
    text.push_str("y\n");
    for (x, y) in x.chunks_exact(INPUTS).zip(y) {
        x.iter().for_each(|v| text.push_str(&format!("{v},")));
        text.push_str(&format!("{y}\n"));
    }
    text
}

fn measure(mut command: Command) -> Result<Measured, Trouble> {
    let done = command.output().map_err(|e| Trouble::Peer(e.to_string()))?;
    let text = String::from_utf8_lossy(&done.stdout);
    Measured::parse(&text).ok_or_else(|| {
        Trouble::Peer(format!("it printed `{text}` and {}", String::from_utf8_lossy(&done.stderr)))
    })
}

/// An array as NumPy's file format has it.
fn npy(shape: &[usize], cells: &[f64]) -> Vec<u8> {
    let shape = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape},), }}");
    // The header ends with a line break at a multiple of 64 bytes.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((length as u16).to_le_bytes());
    out.extend(format!("{header:<width$}\n", width = length - 1).bytes());
    cells.iter().for_each(|v| out.extend(v.to_le_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_file_begins_as_numpy_wants_it() {
        let bytes = npy(&[2, 1], &[1.5, -2.0]);
        assert_eq!(bytes.len() % 64, 16, "the numbers begin at a multiple of 64");
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
        assert_eq!(bytes[bytes.len() - 8..], (-2.0_f64).to_le_bytes());
        assert_eq!(bytes[bytes.len() - 17], b'\n');
    }
}
