//! Tables, and the lines of a picture.

use super::{Arena, Entrant, Goal, Result, Rules};
use pmfcl_terminal::Table;

/// What everyone reached, and forgetting by all its names.
///
/// # Errors
/// Never for results of this arena.
pub fn tables(arena: &Arena, rules: &Rules, results: &[Result]) -> pmfcl::Result<Vec<Table>> {
    let measure = arena.goal.measure();
    let title = format!(
        "{} tasks, {} rows to learn, {} to test: {measure} on all tasks after the last",
        arena.names.len(),
        arena.rows.0,
        arena.rows.1
    );
    let after = format!("mean {measure}");
    let worst = format!("worst task {measure}");
    let fresh = format!("newest task {measure}");
    let columns =
        ["method", &after, &worst, &fresh, "bytes kept", "rows kept", "seconds", "arguments"];
    let mut main = Table::new(&title, &columns);
    let columns = [
        "method",
        "Chaudhry forgetting",
        "backward transfer",
        "forward transfer",
        "Avalanche forgetting",
        "Mammoth forgetting",
    ];
    let mut forgetting = Table::new(&format!("Forgetting by its names, in {measure}"), &columns);
    for result in results {
        let table = result.scores.table();
        let last = table.last().map_or(&[][..], Vec::as_slice);
        let worst = match arena.goal {
            Goal::Values(_) => last.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Goal::Classes(_) => last.iter().copied().fold(f64::INFINITY, f64::min),
        };
        let newest: f64 =
            table.iter().enumerate().map(|(k, row)| row[k]).sum::<f64>() / table.len() as f64;
        main.row([
            result.name.clone(),
            number(result.scores.average()),
            number(worst),
            number(newest),
            result.kept.bytes.to_string(),
            result.kept.examples.to_string(),
            format!("{:.3}", result.seconds),
            result.arguments.clone(),
        ]);
        let scores = &result.scores;
        let measures = [
            scores.chaudhry_forgetting(),
            scores.backward_transfer(),
            scores.forward_transfer(&result.untrained)?,
            scores.avalanche_forgetting(),
            scores.mammoth_forgetting(),
        ];
        forgetting.row([result.name.clone()].into_iter().chain(measures.map(number)));
    }
    let model = if rules.hidden.is_empty() {
        format!("linear models on the basis {}, {} columns", rules.basis, arena.width)
    } else {
        format!("networks with hidden layers {:?} on the basis {}", rules.hidden, rules.basis)
    };
    main.note(format!(
        "PMF-CL, joint and last are linear on the basis {}; the rest are {model}.",
        rules.basis
    ));
    main.note(format!(
        "Steps: {} epochs a task of {} rows a step; buffers of {} rows; seed {}. Arguments: the best of a grid, by the final mean on \
         one training row in five, held out.",
        rules.epochs, rules.batch, rules.buffer, rules.seed
    ));
    main.note("Newest task: right after learning it, the mean over tasks. Bytes kept: between tasks, without the parameters.");
    forgetting.note(
        "Positive forgetting is worse, positive transfer better, whichever way the measure runs.",
    );
    forgetting.note("Chaudhry: best before the last task − last. Backward: last − right after learning. Avalanche: its negative.");
    forgetting.note("Forward: just before learning − untrained. Mammoth: best of all, the last included − last.");
    Ok(vec![main, forgetting])
}

fn number(v: f64) -> String {
    if v.abs() >= 1e5 || (v.abs() < 1e-4 && v != 0.0) {
        format!("{v:.3e}")
    } else {
        format!("{v:.4}")
    }
}

/// For each method, the mean score over the tasks so far after every task.
pub fn lines(results: &[Result]) -> Vec<(Entrant, Vec<f64>)> {
    let so_far = |table: &[Vec<f64>]| {
        table
            .iter()
            .enumerate()
            .map(|(k, row)| row[..=k].iter().sum::<f64>() / (k + 1) as f64)
            .collect()
    };
    results.iter().map(|r| (r.entrant, so_far(r.scores.table()))).collect()
}
