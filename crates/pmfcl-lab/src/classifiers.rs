//! Every classifier over every stream.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use pmfcl::classify::Evaluation;
use pmfcl::{Classifier, ClassifierSettings};

use crate::data::{Error, Table};
use crate::stream::{Kind, Stream};

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Line {
    /// Which classifier.
    pub method: String,
    /// On the test rows of all tasks, after the last.
    pub score: Evaluation,
    /// Bytes kept.
    pub bytes: usize,
    /// Seconds to learn all tasks.
    pub seconds: f64,
}

/// Learns a stream and scores it.
///
/// # Errors
/// As [`Classifier::learn`].
pub fn run(
    stream: &Stream,
    method: &str,
    settings: ClassifierSettings,
) -> Result<(Classifier, Line), Error> {
    let start = Instant::now();
    let mut model = Classifier::new(settings)?;
    for task in &stream.train {
        model.learn(&task.name, task.rows(), &task.labels)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let score = model.evaluate(stream.test.rows(), &stream.test.labels)?;
    let bytes = model.state_bytes();
    Ok((model, Line { method: method.to_owned(), score, bytes, seconds }))
}

/// A Markdown table of lines.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| classifier | accuracy | log-loss | calibration error | bytes | seconds |\n|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let _ = writeln!(
            text,
            "| {} | {:.4} | {:.4} | {:.4} | {} | {:.1} |",
            line.method,
            line.score.accuracy,
            line.score.log_loss,
            line.score.calibration_error,
            line.bytes,
            line.seconds
        );
    }
    text
}

/// Reads a set and divides it.
///
/// # Errors
/// As [`Table::read`].
pub fn stream(dir: &Path, name: &str, kind: Kind, thin: usize) -> Result<Stream, Error> {
    Ok(Stream::new(&Table::read(dir, name)?, kind, thin))
}
