//! Does the next task cost what the last one did, and what does a point of the front cost?

use std::time::Instant;

use pmfcl::pareto::PairFront;
use pmfcl::{Error, Learner, MemoryKind, Penalty, Ridge, Rows, Settings, solve};
use pmfcl_oracle::Draw;

use crate::Table;

/// Time to learn and solve one more task in compact memory, after 10 and up to 10,000 tasks.
///
/// # Errors
/// When the learner refuses the data.
pub fn next_task(m: usize) -> Result<Table, Error> {
    const BEFORE: [usize; 4] = [10, 100, 1000, 10_000];
    const ROUNDS: usize = 60;
    let n = 2 * m;
    let mut draw = Draw::new(4);
    let (x, y) = (draw.normals(n * m), draw.normals(n));
    let (x, y) = (Rows::new(&x, m)?, Rows::new(&y, 1)?);
    let mut learners = Vec::with_capacity(BEFORE.len());
    for before in BEFORE {
        let mut learner = Learner::new(Settings {
            memory: MemoryKind::Compact,
            ridge: Ridge::Fixed(1e-3),
            threads: 1,
            ..Settings::default()
        })?;
        for t in 0..before {
            learner.learn(&t.to_string(), x, y)?;
        }
        learners.push(learner);
    }
    // In turns, so that a slow spell of the machine meets all of them.
    let mut times = vec![Vec::with_capacity(ROUNDS); BEFORE.len()];
    for round in 0..ROUNDS {
        for (learner, times) in learners.iter_mut().zip(&mut times) {
            let clock = Instant::now();
            learner.learn(&format!("extra {round}"), x, y)?;
            times.push(clock.elapsed().as_secs_f64());
        }
    }
    let mut table = Table::new(
        &format!("One more task of {n} rows and {m} columns in compact memory"),
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

/// Time to learn and solve `count` tasks of 30 rows and 20 columns, one after the other, with the automatic ridge: the last tenth of
/// them against the first.
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
        &format!("{count} tasks of {ROWS} rows and {COLUMNS} columns, solved after each"),
        &["memory", "seconds", "µs per task", "first tenth", "last tenth", "ratio"],
    );
    for (word, memory) in [("compact", MemoryKind::Compact), ("ledger", MemoryKind::Ledger)] {
        // A ledger keeps 2 kB per task.
        let count = if memory == MemoryKind::Ledger { count.min(100_000) } else { count };
        let mut learner = Learner::new(Settings { memory, threads: 1, ..Settings::default() })?;
        let tenth = (count / 10).max(1);
        let mut tenths = Vec::with_capacity(10);
        let clock = Instant::now();
        let mut since = Instant::now();
        for t in 0..count {
            let (x, y) = &data[t % data.len()];
            learner.learn(&t.to_string(), Rows::new(x, COLUMNS)?, Rows::new(y, 1)?)?;
            if (t + 1) % tenth == 0 {
                tenths.push(since.elapsed().as_secs_f64() / tenth as f64 * 1e6);
                since = Instant::now();
            }
        }
        let seconds = clock.elapsed().as_secs_f64();
        let (first, last) = (tenths[0], tenths[tenths.len() - 1]);
        table.row([
            format!("{word}, {count} tasks"),
            format!("{seconds:.1}"),
            format!("{:.1}", seconds / count as f64 * 1e6),
            format!("{first:.1}"),
            format!("{last:.1}"),
            format!("{:.2}", last / first),
        ]);
    }
    table.note("Aims: a million tasks in compact memory within 60 seconds; a ratio of at most 1.5");
    Ok(table)
}

/// Time of a front point after the decomposition against a solve of the same preference.
///
/// # Errors
/// When the learner refuses the data.
pub fn front_point(m: usize) -> Result<Table, Error> {
    let mut draw = Draw::new(5);
    let n = 3 * m;
    let mut learner = Learner::new(Settings { ridge: Ridge::Fixed(0.0), ..Settings::default() })?;
    for name in ["a", "b"] {
        let (x, y) = (draw.normals(n * m), draw.normals(n));
        learner.learn(name, Rows::new(&x, m)?, Rows::new(&y, 1)?)?;
    }
    let tasks = learner.summaries().unwrap_or(&[]);
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
    table.note(format!("Check sums {sink:.3e}, {other:.3e}."));
    Ok(table)
}
