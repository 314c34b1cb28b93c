//! What was reached next to what was published, as tables.

use super::published::accuracy;
use super::{Finish, Run, Stream};
use pmfcl_terminal::Table;

/// Accuracy, memory and forgetting of all who finished, and who did not and why. `others` ran the same with other seeds: accuracy
/// is the mean of all, memory and forgetting those of the first.
///
/// # Errors
/// Never for runs over this stream; a table of scores of another length is refused.
pub fn tables(
    stream: &Stream,
    finishes: &[Finish],
    others: &[Vec<Finish>],
) -> Result<Vec<Table>, super::Error> {
    let mut tables = vec![reached(stream, finishes, others), memory(stream, finishes)];
    tables.extend(forgetting(stream, finishes)?);
    Ok(tables)
}

/// Mean over seeds, and the deviation where there are several.
fn over_seeds(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (values.len() > 1).then(|| square.sqrt()))
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

fn dash() -> String {
    "–".to_owned()
}

/// Reached, printed and the difference, in percent.
fn compared(reached: Option<f64>, printed: Option<f64>) -> [String; 3] {
    let show = |v: Option<f64>, form: &dyn Fn(f64) -> String| v.map_or_else(dash, form);
    let gap = reached.zip(printed).map(|(a, b)| 100.0 * a - b);
    [
        show(reached, &percent),
        show(printed, &|v| format!("{v:.2}")),
        show(gap, &|v| format!("{v:+.2}")),
    ]
}

fn reached(stream: &Stream, finishes: &[Finish], others: &[Vec<Finish>]) -> Table {
    let splits = stream.benchmark.splits();
    let mut columns = vec!["method", "accuracy %", "published %", "difference"];
    if !others.is_empty() {
        columns.insert(2, "± std");
    }
    if splits {
        columns.extend(["task known %", "published %", "difference"]);
    }
    columns.extend(["bytes kept", "seconds"]);
    let mut table = Table::new(stream.benchmark.title(), &columns);
    for finish in finishes {
        let Ok(run) = &finish.run else {
            let missing = std::iter::repeat_with(dash).take(columns.len() - 1);
            table.row([finish.label.clone()].into_iter().chain(missing));
            continue;
        };
        let printed = accuracy(stream.benchmark, &finish.key);
        let again = || {
            let same = others.iter().flatten().filter(|f| f.key == finish.key);
            same.filter_map(|f| f.run.as_ref().ok()).chain([run])
        };
        let (mean, deviation) = over_seeds(&again().map(Run::accuracy).collect::<Vec<_>>());
        let mut cells = vec![finish.label.clone()];
        cells.extend(compared(Some(mean), printed.map(|p| p.0)));
        if !others.is_empty() {
            cells.insert(2, deviation.map_or_else(dash, percent));
        }
        if splits {
            let within: Vec<f64> = again().filter_map(Run::within).collect();
            cells.extend(compared(Some(over_seeds(&within).0), printed.and_then(|p| p.1)));
        }
        cells.extend([run.kept.bytes.to_string(), format!("{:.1}", run.seconds)]);
        table.row(cells);
    }
    for finish in finishes {
        if let Err(error) = &finish.run {
            table.note(format!("{}: {error}.", finish.label));
        }
    }
    let rows: usize = stream.stages.iter().map(|s| s.train.x.rows()).sum();
    let tests: usize = stream.stages.iter().map(|s| s.test.x.rows()).sum();
    table.note(format!(
        "{} tasks, {rows} images to learn, {tests} to test, one pass, {}.",
        stream.stages.len(),
        match others.len() {
            0 => format!("one run with seed {}", stream.seed),
            more => format!("mean of {} runs, seeds from {} on", more + 1, stream.seed),
        }
    ));
    if stream.thin > 1 {
        let thin = stream.thin;
        table.note(format!("One image in {thin}: a look, not to be held against the published."));
    }
    table.note("Published: Buzzega et al. 2020 (DER), Table 2, mean of ten runs, a network of 784-100-100-10.");
    table.note("The same network here, with its tuned arguments; joint training, for which none are printed, takes SGD's.");
    match stream.benchmark {
        super::Benchmark::Permuted => table.note(
            "oEWC: the listed λ of 0.7 does not give the published number; 7 does and is used.",
        ),
        super::Benchmark::Rotated => table.note("oEWC: λ 7, as on P-MNIST; 0.7 is listed."),
        _ => {}
    }
    table.note("Seconds: learning alone, one thread a method, several methods side by side.");
    table
}

fn memory(stream: &Stream, finishes: &[Finish]) -> Table {
    let columns =
        ["method", "bytes", "numbers", "as 8-bit images", "as 32-bit images", "images among them"];
    let mut table = Table::new("Kept between tasks, without the parameters", &columns);
    let pixels = stream.width;
    for finish in finishes {
        if let Ok(Run { kept, .. }) = &finish.run {
            table.row([
                finish.label.clone(),
                kept.bytes.to_string(),
                kept.numbers.to_string(),
                kept.bytes.div_ceil(pixels).to_string(),
                kept.bytes.div_ceil(4 * pixels).to_string(),
                kept.examples.to_string(),
            ]);
        }
    }
    equal_bytes(finishes).into_iter().for_each(|line| table.note(line));
    table.note("A pixel is one byte, a label one, a stored output four; importances and anchors of parameters four; PMF-CL's numbers eight.");
    table
}

/// Where a method that keeps images does better with no more bytes, in words; and where none does.
fn equal_bytes(finishes: &[Finish]) -> Vec<String> {
    let runs = || finishes.iter().filter_map(|f| Some((f, f.run.as_ref().ok()?)));
    let (mut beaten, mut ahead) = (Vec::new(), Vec::new());
    for (ours, run) in runs().filter(|(f, _)| f.label.starts_with("PMF-CL")) {
        let rivals = runs().filter(|(_, r)| r.kept.examples > 0 && r.kept.bytes <= run.kept.bytes);
        let best = rivals.max_by(|a, b| a.1.accuracy().total_cmp(&b.1.accuracy()));
        let (name, own) = (&ours.label, percent(run.accuracy()));
        match best {
            Some((rival, r)) if r.accuracy() > run.accuracy() => beaten.push(format!(
                "At no more bytes a deeper model with stored images is better than {name} ({own} %): {} reaches {} %.",
                rival.label,
                percent(r.accuracy())
            )),
            Some((rival, r)) => ahead.push(format!(
                "No method here that stores images is better than {name} ({own} %) at no more bytes; the best, {}, reaches {} %.",
                rival.label,
                percent(r.accuracy())
            )),
            None => {}
        }
    }
    beaten.into_iter().chain(ahead).collect()
}

fn forgetting(stream: &Stream, finishes: &[Finish]) -> Result<Option<Table>, super::Error> {
    let columns = [
        "method",
        "Chaudhry forgetting",
        "backward transfer",
        "forward transfer",
        "Avalanche forgetting",
        "Mammoth forgetting",
    ];
    let mut table = Table::new("Forgetting by its names, in points of accuracy", &columns);
    for finish in finishes {
        let Ok(Run { way: Some(scores), untrained, .. }) = &finish.run else { continue };
        let measures = [
            scores.chaudhry_forgetting(),
            scores.backward_transfer(),
            scores.forward_transfer(untrained)?,
            scores.avalanche_forgetting(),
            scores.mammoth_forgetting(),
        ];
        table.row([finish.label.clone()].into_iter().chain(measures.map(percent)));
    }
    if table.rows.is_empty() {
        return Ok(None);
    }
    let seen: usize = stream.stages.iter().map(|s| s.test.x.rows().div_ceil(10)).sum();
    table.note(format!("After every task, on one test image in ten of all tasks ({seen})."));
    table.note("Chaudhry: best before the last task − last. Backward: last − right after learning. Avalanche: its negative.");
    table.note("Forward: just before learning − untrained. Mammoth: best of all, the last included − last.");
    Ok(Some(table))
}
