//! Does the next task cost what the last one did, and what does a point of the front cost?

use std::time::Instant;

use pmfcl::pareto::PairFront;
use pmfcl::{
    Basis, Error, Learner, MemoryKind, Penalty, Problem, Ridge, Rows, Settings, TaskRows, solve,
};
use pmfcl_oracle::Draw;

use pmfcl_terminal::Table;

/// Time to learn one more task and to solve in compact memory, after 10 and up to 10,000 tasks.
///
/// # Errors
/// When the learner refuses the data.
pub fn next_task(m: usize) -> Result<Table, Error> {
    const BEFORE: [usize; 4] = [10, 100, 1000, 10_000];
    const ROUNDS: usize = 60;
    let n = 2 * m;
    let mut draw = Draw::new(4);
    let (x, y) = (draw.normals(n * m), draw.normals(n));
    let rows = TaskRows::new(Rows::new(&x, m)?, Rows::new(&y, 1)?);
    let mut learners = Vec::with_capacity(BEFORE.len());
    for before in BEFORE {
        let settings = Settings {
            memory: MemoryKind::Compact,
            ridge: Ridge::Fixed(1e-3),
            threads: 1,
            ..Settings::default()
        };
        let mut learner = Learner::new(Problem::squared(), settings)?;
        for t in 0..before {
            learner.learn(&t.to_string(), rows, 1.0)?;
        }
        learner.solution()?;
        learners.push(learner);
    }
    // In turns, so that a slow spell of the machine meets all of them.
    let mut times = vec![Vec::with_capacity(ROUNDS); BEFORE.len()];
    for round in 0..ROUNDS {
        for (learner, times) in learners.iter_mut().zip(&mut times) {
            let clock = Instant::now();
            learner.learn(&format!("extra {round}"), rows, 1.0)?;
            learner.solution()?;
            times.push(clock.elapsed().as_secs_f64());
        }
    }
    let mut table = Table::new(
        &format!("One more task of {n} rows and {m} columns in compact memory, and its solution"),
        &["tasks before", "median µs", "best µs", "ratio of medians to 10"],
    );
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        (sorted[sorted.len() / 2], sorted[0])
    };
    let first = median(&times[0]).0;
    for (before, times) in BEFORE.iter().zip(&times) {
        let (middle, best) = median(times);
        table.row([
            before.to_string(),
            format!("{:.1}", middle * 1e6),
            format!("{:.1}", best * 1e6),
            format!("{:.2}", middle / first),
        ]);
    }
    Ok(table)
}

/// Time to learn `count` tasks of 30 rows and 20 columns, one after the other, and to solve once at the end with the automatic
/// ridge: the last tenth of the tasks against the first.
///
/// # Errors
/// When the learner refuses the data.
pub fn many_tasks(count: usize) -> Result<Table, Error> {
    const ROWS: usize = 30;
    const COLUMNS: usize = 20;
    let mut draw = Draw::new(6);
    // A thousand different tasks in turns: drawing a million would take longer than learning them.
    let data: Vec<(Vec<f64>, Vec<f64>)> =
        (0..1000).map(|_| (draw.normals(ROWS * COLUMNS), draw.normals(ROWS))).collect();
    let mut table = Table::new(
        &format!("{count} tasks of {ROWS} rows and {COLUMNS} columns, one solution at the end"),
        &[
            "memory",
            "seconds in all",
            "µs per task",
            "first tenth",
            "last tenth",
            "ratio",
            "solution, ms",
        ],
    );
    for (word, memory) in [("compact", MemoryKind::Compact), ("ledger", MemoryKind::Ledger)] {
        // A ledger keeps 2 kB per task.
        let count = if memory == MemoryKind::Ledger { count.min(100_000) } else { count };
        let settings = Settings { memory, threads: 1, ..Settings::default() };
        let mut learner = Learner::new(Problem::squared(), settings)?;
        let tenth = (count / 10).max(1);
        let mut tenths = Vec::with_capacity(10);
        let clock = Instant::now();
        let mut since = Instant::now();
        for t in 0..count {
            let (x, y) = &data[t % data.len()];
            let rows = TaskRows::new(Rows::new(x, COLUMNS)?, Rows::new(y, 1)?);
            learner.learn(&t.to_string(), rows, 1.0)?;
            if (t + 1) % tenth == 0 {
                tenths.push(since.elapsed().as_secs_f64() / tenth as f64 * 1e6);
                since = Instant::now();
            }
        }
        let learned = clock.elapsed().as_secs_f64();
        learner.solution()?;
        let seconds = clock.elapsed().as_secs_f64();
        let (first, last) = (tenths[0], tenths[tenths.len() - 1]);
        table.row([
            format!("{word}, {count} tasks"),
            format!("{seconds:.1}"),
            format!("{:.1}", learned / count as f64 * 1e6),
            format!("{first:.1}"),
            format!("{last:.1}"),
            format!("{:.2}", last / first),
            format!("{:.1}", (seconds - learned) * 1e3),
        ]);
    }
    table.note(
        "Aims: a million tasks in compact memory within 60 seconds in all; a ratio of at most 1.5",
    );
    Ok(table)
}

/// Time to learn `count` tasks of 125 rows and 12 columns on `rff:features` with the automatic ridge and to predict: once at
/// the end, and after every task.
///
/// # Errors
/// When the learner refuses the data.
///
/// # Panics
/// When the predictions at the end differ.
pub fn wide_tasks(count: usize, features: usize) -> Result<Table, Error> {
    const ROWS: usize = 125;
    const COLUMNS: usize = 12;
    let mut draw = Draw::new(7);
    let slope = draw.normals(COLUMNS);
    let data: Vec<(Vec<f64>, Vec<f64>)> = (0..count)
        .map(|_| {
            let x = draw.normals(ROWS * COLUMNS);
            let linear = |row: &[f64]| row.iter().zip(&slope).map(|(v, s)| v * s).sum::<f64>();
            let y = x.chunks_exact(COLUMNS).map(|row| linear(row).sin() + 0.1 * draw.normal());
            let y = y.collect();
            (x, y)
        })
        .collect();
    let new_rows = draw.normals(ROWS * COLUMNS);
    let new_rows = Rows::new(&new_rows, COLUMNS)?;
    let basis: Basis = format!("rff:{features}").parse()?;
    let mut table = Table::new(
        &format!("{count} tasks of {ROWS} rows and {COLUMNS} columns on rff:{features}"),
        &["memory", "predictions", "seconds in all", "learning", "solving and predicting"],
    );
    let mut reference: Option<Vec<f64>> = None;
    let runs =
        [(MemoryKind::Ledger, false), (MemoryKind::Compact, false), (MemoryKind::Ledger, true)];
    for (memory, after_each) in runs {
        let settings = Settings { basis: basis.clone(), memory, ..Settings::default() };
        let mut learner = Learner::new(Problem::squared(), settings)?;
        let (mut learning, mut predicting) = (0.0, 0.0);
        let mut predicted = Vec::new();
        for (t, (x, y)) in data.iter().enumerate() {
            let clock = Instant::now();
            let rows = TaskRows::new(Rows::new(x, COLUMNS)?, Rows::new(y, 1)?);
            learner.learn(&t.to_string(), rows, 1.0)?;
            learning += clock.elapsed().as_secs_f64();
            if after_each || t + 1 == count {
                let clock = Instant::now();
                predicted = learner.predict(new_rows)?;
                predicting += clock.elapsed().as_secs_f64();
            }
        }
        let first = reference.get_or_insert_with(|| predicted.clone());
        let apart = first.iter().zip(&predicted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-6, "predictions differ by {apart}");
        table.row([
            memory.to_string(),
            if after_each { "after each task" } else { "one at the end" }.to_owned(),
            format!("{:.2}", learning + predicting),
            format!("{learning:.2}"),
            format!("{predicting:.2}"),
        ]);
    }
    Ok(table)
}

/// Time of a front point after the decomposition against a solve of the same preference.
///
/// # Errors
/// When the learner refuses the data.
pub fn front_point(m: usize) -> Result<Table, Error> {
    let mut draw = Draw::new(5);
    let n = 3 * m;
    let settings = Settings { ridge: Ridge::Fixed(0.0), ..Settings::default() };
    let mut learner = Learner::new(Problem::squared(), settings)?;
    for name in ["a", "b"] {
        let (x, y) = (draw.normals(n * m), draw.normals(n));
        learner.learn(name, TaskRows::new(Rows::new(&x, m)?, Rows::new(&y, 1)?), 1.0)?;
    }
    let tasks = learner.summaries().unwrap_or_default();
    let front = PairFront::new(&tasks[0], &tasks[1], true)?;
    let solved = |w: f64| -> Result<_, Error> {
        let a = tasks[0].scale(w / tasks[0].n())?;
        let both = a.merge(&tasks[1].scale((1.0 - w) / tasks[1].n())?)?;
        let theta = solve(&both, true, Penalty::NONE, None)?.theta;
        Ok((tasks[0].loss(&theta)?, tasks[1].loss(&theta)?))
    };
    // The answers agree before anything is timed.
    let (point, (a, b)) = (front.at(0.3)?, solved(0.3)?);
    assert!((point.loss_a - a).abs() < 1e-9 * a && (point.loss_b - b).abs() < 1e-9 * b);
    let time = |mut f: Box<dyn FnMut() + '_>, count: u32| {
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            let clock = Instant::now();
            (0..count).for_each(|_| f());
            best = best.min(clock.elapsed().as_secs_f64() / f64::from(count));
        }
        best
    };
    let mut sink = 0.0;
    let by_point = time(Box::new(|| sink += front.at(0.4).map_or(0.0, |p| p.loss_a)), 200);
    let mut other = 0.0;
    let by_solve = time(Box::new(|| other += solved(0.4).map_or(0.0, |l| l.0)), 3);
    let mut table = Table::new(
        &format!("A point of the front of two tasks, {m} columns"),
        &["way", "best µs", "ratio"],
    );
    table.row(["from the decomposition".into(), format!("{:.2}", by_point * 1e6), "1".into()]);
    table.row([
        "merge and solve".into(),
        format!("{:.2}", by_solve * 1e6),
        format!("{:.0}", by_solve / by_point),
    ]);
    table.note(format!("Checksums {sink:.3e}, {other:.3e}."));
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_prediction_and_one_after_each_task_agree() {
        assert_eq!(wide_tasks(4, 20).unwrap().rows.len(), 3);
        assert_eq!(many_tasks(20).unwrap().rows.len(), 2);
    }
}
