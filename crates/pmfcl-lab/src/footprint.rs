//! Memory: what a summary keeps, what compact memory keeps after ten thousand tasks, and the peak of
//! summarizing a million rows.

use pmfcl::{
    Accumulator, Design, Error, Learner, MemoryKind, Problem, Ridge, Rows, Settings, Summarizer,
    TaskRows,
};
use pmfcl_oracle::Draw;

use pmfcl_terminal::Table;

/// Numbers of a full-rank ledger entry against the paper's `m(m+2)`.
///
/// # Errors
/// When the learner refuses the data.
pub fn entries() -> Result<Table, Error> {
    let mut table = Table::new(
        "Numbers kept of a full-rank task with one target",
        &["m", "pmfcl", "paper m(m+2)", "ratio"],
    );
    for m in [10, 50, 100, 500] {
        let mut draw = Draw::new(1);
        let n = 2 * m;
        let summary = summarize(&draw.normals(n * m), m, &draw.normals(n))?;
        // R and Z, then n, c and Σy, without which neither the loss nor R² could be told.
        let kept = summary.numbers() + 3;
        table.row([
            m.to_string(),
            kept.to_string(),
            (m * (m + 2)).to_string(),
            format!("{:.3}", kept as f64 / (m * (m + 2)) as f64),
        ]);
    }
    Ok(table)
}

/// State of compact and ledger memory as tasks go by.
///
/// # Errors
/// When the learner refuses the data.
pub fn growth() -> Result<Table, Error> {
    let (m, n) = (20, 30);
    let mut table = Table::new(
        &format!("Bytes of memory, tasks of {n} rows and {m} columns"),
        &["tasks", "compact", "ledger", "rows kept"],
    );
    let learner = |memory| {
        let settings = Settings { memory, ridge: Ridge::Fixed(1e-3), ..Settings::default() };
        Learner::new(Problem::squared(), settings)
    };
    let (mut compact, mut ledger) = (learner(MemoryKind::Compact)?, learner(MemoryKind::Ledger)?);
    let mut draw = Draw::new(2);
    for t in 1..=10_000usize {
        let (x, y) = (draw.normals(n * m), draw.normals(n));
        let rows = TaskRows::new(Rows::new(&x, m)?, Rows::new(&y, 1)?);
        compact.learn(&t.to_string(), rows, 1.0)?;
        if t <= 100 {
            ledger.learn(&t.to_string(), rows, 1.0)?;
        }
        if [1, 10, 100, 1000, 10_000].contains(&t) {
            let rows = t * n * (m + 1) * 8;
            let of_ledger =
                if t <= 100 { ledger.state_bytes() } else { ledger.state_bytes() / 100 * t };
            table.row([
                t.to_string(),
                compact.state_bytes().to_string(),
                of_ledger.to_string(),
                rows.to_string(),
            ]);
        }
    }
    table.note("The register of task names, a few dozen bytes per task, is not counted.");
    Ok(table)
}

/// Peak memory of summarizing `n` rows of `m` columns in chunks, from the operating system.
///
/// # Errors
/// When the summarizer refuses the data.
pub fn peak(n: usize, m: usize, threads: usize) -> Result<Table, Error> {
    let mut table = Table::new(
        &format!("Peak memory of summarizing {n} rows of {m} columns on {threads} threads, MB"),
        &["accumulator", "state", "chunk given", "peak above start", "rows"],
    );
    for accumulator in [Accumulator::Gram, Accumulator::Qr] {
        let start = resident();
        let design = Design::linear(m, true)?;
        let mut summarizer = Summarizer::new(design, 1, accumulator)?.threads(threads);
        let chunk = summarizer.leaf_rows() * threads;
        let mut draw = Draw::new(3);
        // One chunk drawn once, and shifted a little each time so that no two are the same.
        let mut x = draw.normals(chunk * m);
        let mut y = draw.normals(chunk);
        let mut peak = start;
        let mut seen = 0;
        while seen < n {
            let take = chunk.min(n - seen);
            x[0] += 1e-3;
            y[0] += 1e-3;
            summarizer.add(Rows::new(&x[..take * m], m)?, Rows::new(&y[..take], 1)?, None)?;
            seen += take;
            peak = peak.max(resident());
        }
        let summary = summarizer.finish()?;
        peak = peak.max(resident()).max(high_water());
        let mb = |bytes: usize| format!("{:.1}", bytes as f64 / 1e6);
        table.row([
            format!("{accumulator:?}").to_lowercase(),
            mb(summary.nbytes()),
            mb(chunk * (m + 1) * 8),
            mb(peak.saturating_sub(start)),
            mb(n * (m + 1) * 8),
        ]);
    }
    table.note("Peak is that of the whole process so far, the chunk included.");
    Ok(table)
}

fn summarize(x: &[f64], m: usize, y: &[f64]) -> Result<pmfcl::Summary, Error> {
    let design = Design::linear(m, false)?;
    let mut summarizer = Summarizer::new(design, 1, Accumulator::Qr)?;
    summarizer.add(Rows::new(x, m)?, Rows::new(y, 1)?, None)?;
    summarizer.finish()
}

/// Bytes resident now; 0 where the system does not say.
fn resident() -> usize {
    status("VmRSS:")
}

/// Most bytes ever resident.
pub(crate) fn high_water() -> usize {
    status("VmHWM:")
}

fn status(field: &str) -> usize {
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = text.lines().find(|l| l.starts_with(field));
    let kilobytes = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}
