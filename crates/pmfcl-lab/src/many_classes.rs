//! A thousand classes: logistic loss has to come to its minimum, and linear discriminants must not take much longer than the sums
//! of products they are made of.

use std::time::Instant;

use pmfcl::{
    Accumulator, Design, Error, Labels, Learner, Problem, Rows, Settings, Summarizer, TaskRows,
};
use pmfcl_oracle::Draw;
use pmfcl_terminal::Table;

use crate::footprint;

/// Rows, columns and classes of both cases.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Classes.
    pub classes: usize,
    /// Rows for logistic loss, and columns of them.
    pub logistic: (usize, usize),
    /// Rows for linear discriminants, and columns of them.
    pub gaussian: (usize, usize),
}

impl Default for Sizes {
    fn default() -> Self {
        // Whole leaves of 4,096 rows: sums of others would wait for the end, and their time would be missing.
        Self { classes: 1000, logistic: (100_000, 100), gaussian: (25 * 4096, 1000) }
    }
}

struct Sample {
    x: Vec<f64>,
    width: usize,
    labels: Labels,
    names: Vec<String>,
}

/// Normal rows around a centre for each class, so near to each other that classes overlap.
fn sample(rows: usize, width: usize, classes: usize) -> Result<Sample, Error> {
    let mut draw = Draw::new(17);
    let centres = draw.normals(classes * width);
    let names: Vec<String> = (0..classes).map(|c| format!("c{c}")).collect();
    // Every class has a row.
    let codes: Vec<u32> = (0..rows)
        .map(|i| if i < classes { i as u32 } else { draw.below(classes) as u32 })
        .collect();
    let mut x = draw.normals(rows * width);
    let scale = 4.0 / (width as f64).sqrt();
    for (row, &code) in x.chunks_exact_mut(width).zip(&codes) {
        let centre = &centres[code as usize * width..];
        row.iter_mut().zip(centre).for_each(|(v, c)| *v += scale * c);
    }
    let labels = Labels::from_codes(&codes, &names)?;
    Ok(Sample { x, width, labels, names })
}

/// Seconds of `action`, and what it gave.
fn timed<T>(action: impl FnOnce() -> Result<T, Error>) -> Result<(f64, T), Error> {
    let clock = Instant::now();
    let result = action()?;
    Ok((clock.elapsed().as_secs_f64(), result))
}

/// Both cases through the library, one task each.
///
/// # Errors
/// When the library refuses the rows.
pub fn run(sizes: Sizes) -> Result<Vec<Table>, Error> {
    let mut table = Table::new(
        &format!("{} classes", sizes.classes),
        &["what", "rows", "columns", "seconds", "of the sums", "accuracy on the rows", "peak MB"],
    );
    let mut row = |what: &str, s: &Sample, seconds: f64, of: Option<f64>, right: Option<f64>| {
        table.row([
            what.to_owned(),
            (s.x.len() / s.width).to_string(),
            s.width.to_string(),
            format!("{seconds:.2}"),
            of.map_or("–".to_owned(), |of| format!("{:.2}", seconds / of)),
            right.map_or("–".to_owned(), |right| format!("{right:.3}")),
            format!("{:.0}", footprint::high_water() as f64 / 1e6),
        ]);
    };
    let learned = |problem: Problem, settings: Settings, s: &Sample| {
        let mut learner = Learner::new(problem.with_classes(s.names.clone())?, settings)?;
        let rows = TaskRows::new(Rows::new(&s.x, s.width)?, &s.labels);
        let (seconds, ()) = timed(|| {
            learner.learn("all", rows, 1.0)?;
            learner.solution().map(|_| ())
        })?;
        let found = learner.predict_classes(Rows::new(&s.x, s.width)?)?;
        let right = found.iter().enumerate().filter(|(i, name)| *name == s.labels.name(*i)).count();
        Ok::<_, Error>((seconds, right as f64 / found.len() as f64))
    };

    let (n, m) = sizes.gaussian;
    let s = sample(n, m, sizes.classes)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let targets = vec![0.0; n];
    let (sums, ()) = timed(|| {
        let design = Design::linear(m, true)?;
        let mut summarizer = Summarizer::new(design, 1, Accumulator::Gram)?.threads(threads);
        summarizer.add(Rows::new(&s.x, m)?, Rows::new(&targets, 1)?, None)
    })?;
    row("sums of products", &s, sums, None, None);
    let (seconds, right) = learned(Problem::gaussian(), Settings::default(), &s)?;
    row("gaussian, default settings", &s, seconds, Some(sums), Some(right));
    drop(s);

    let (n, m) = sizes.logistic;
    let s = sample(n, m, sizes.classes)?;
    for (what, certify) in
        [("logistic, least loss not certified", "false"), ("logistic, default settings", "true")]
    {
        let problem = Problem::logistic().with_option("certify", certify)?;
        let (seconds, right) = learned(problem, Settings::default(), &s)?;
        row(what, &s, seconds, None, Some(right));
    }
    table.note("Seconds from rows in memory to the model; all processors. The peak is that of the process up to this row.");
    Ok(vec![table])
}
