//! Bases against gradient boosting on tables: tasks in order, one pass, no rows kept.
//!
//! Every case runs in a process of its own (`bench/tables.py`), through the command line, so that memory is that of the case.

use std::path::Path;
use std::process::Command;

use pmfcl_terminal::Table;
use serde_json::Value;

use crate::kernels::Trouble;

const PEER: &str = include_str!("../../../bench/tables.py");

/// Data sets, as they are named in the folder.
pub const SETS: [&str; 6] = [
    "bike_hourly",
    "california_regions",
    "parkinsons_patients",
    "sarcos_4449",
    "elec2",
    "wisdm_users",
];

/// Bases and peers, in the order of the table.
pub const METHODS: [&str; 12] = [
    "linear",
    "poly:2,scale=clip",
    "spline:8",
    "rff:600",
    "relu:600",
    "auto",
    "auto:1500",
    "leaves",
    "HistGradientBoosting",
    "HistGradientBoosting, warm start",
    "LightGBM",
    "LightGBM, continued",
];

/// Scores of every basis and peer on every set.
///
/// # Errors
/// When Python does not start. A case that fails there, such as a package that is not installed, has no numbers in the table.
pub fn run(
    program: &Path,
    data: &Path,
    sets: &[String],
    methods: &[String],
) -> Result<Vec<Table>, Trouble> {
    let mut tables = Vec::new();
    for set in sets {
        let mut table = Table::new(
            set,
            &["method", "score", "mean over tasks", "seconds", "last task", "peak MB"],
        );
        for method in methods {
            let run = Command::new("python3")
                .args(["-c", PEER])
                .args([program, data])
                .args([set, method])
                .output()
                .map_err(|e| Trouble::Peer(e.to_string()))?;
            let answer: Option<Value> = serde_json::from_slice(&run.stdout).ok();
            let number = |key: &str| answer.as_ref().and_then(|a| a[key].as_f64());
            let cell = |key: &str, digits: usize, unit: f64| {
                number(key).map_or_else(|| "–".to_owned(), |v| format!("{:.digits$}", v / unit))
            };
            table.row([
                method.clone(),
                cell("score", 4, 1.0),
                cell("mean", 4, 1.0),
                cell("seconds", 2, 1.0),
                cell("last", 2, 1.0),
                cell("peak", 0, 1e6),
            ]);
            if answer.is_none() {
                let text = String::from_utf8_lossy(&run.stderr);
                let last = text.lines().last().unwrap_or("no answer").to_owned();
                table.note(format!("{method}: {last}"));
            }
        }
        table.note("R² (accuracy for classes) on the test rows of all tasks, and its mean over tasks; tasks in order, one pass, no rows kept.");
        if set.starts_with("made:") {
            table.note("last task: seconds for the last 10,000 rows, added to the model, or fitted anew with all others.");
        }
        table.note("Boosting sees all rows in one fit; warm start and continued boosting add trees on the rows of each task.");
        tables.push(table);
    }
    Ok(tables)
}
