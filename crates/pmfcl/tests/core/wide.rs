//! Wide designs, which are pooled and solved as sums of products: the models are those of factors.

use pmfcl::{
    Accumulator, Error, Labels, Learner, MemoryKind, Penalty, Problem, Ridge, Rows, Settings,
    TaskRows, solve,
};
use pmfcl_oracle::Draw;

const INPUTS: usize = 12;

/// Predictions of two ways may differ by this many standard deviations.
const SAME: f64 = 1e-7;

struct Data {
    x: Vec<f64>,
    y: Vec<f64>,
    classes: Vec<String>,
}

fn data(n: usize, mean: f64) -> Data {
    let mut draw = Draw::new(21);
    let x: Vec<f64> = (0..n * INPUTS).map(|_| draw.normal() + mean).collect();
    let rows = x.chunks_exact(INPUTS);
    let y: Vec<f64> = rows
        .map(|r| {
            let wave = (r[0] - mean).sin() + (r[1] - mean) * (r[2] - mean);
            1e3 + wave + 0.1 * draw.normal()
        })
        .collect();
    let classes = y.iter().map(|y| ((y - 998.0).clamp(0.0, 3.0) as usize).to_string()).collect();
    Data { x, y, classes }
}

/// The basis does not depend on the rows of the first task.
fn settings(accumulator: Accumulator, memory: MemoryKind) -> Settings {
    let basis = "relu:600,scale=none".parse().unwrap();
    Settings { basis, accumulator, memory, ..Settings::default() }
}

/// Learns tasks that end at the given rows.
fn learned(problem: &Problem, settings: Settings, data: &Data, ends: &[usize]) -> Learner {
    let mut learner = Learner::new(problem.clone(), settings).unwrap();
    learn(&mut learner, data, ends);
    learner
}

fn learn(learner: &mut Learner, data: &Data, ends: &[usize]) {
    let mut from = 0;
    for (task, &to) in ends.iter().enumerate() {
        let x = Rows::new(&data.x[from * INPUTS..to * INPUTS], INPUTS).unwrap();
        let labels: Vec<&str> = data.classes[from..to].iter().map(String::as_str).collect();
        let labels = Labels::new(&labels);
        let rows = if learner.problem().predicts_classes() {
            TaskRows::new(x, &labels)
        } else {
            TaskRows::new(x, Rows::new(&data.y[from..to], 1).unwrap())
        };
        learner.learn(&task.to_string(), rows, 1.0).unwrap();
        from = to;
    }
}

/// The largest difference, in standard deviations of `b`.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    let n = b.len() as f64;
    let mean = b.iter().sum::<f64>() / n;
    let spread = (b.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / n).sqrt();
    a.iter().zip(b).map(|(a, b)| (a - b).abs() / spread).fold(0.0, f64::max)
}

fn rows(data: &Data) -> Rows<'_> {
    Rows::new(&data.x, INPUTS).unwrap()
}

/// Tasks of fewer rows than columns, of some more, and of many.
const SPLITS: [&[usize]; 2] = [&[1400, 1600, 2000], &[150, 400, 1100, 2000]];

#[test]
fn every_memory_and_accumulator_gives_the_model_of_factors() {
    let squared = Problem::squared();
    for (mean, ridges) in
        [(0.0, vec![Ridge::Auto, Ridge::Fixed(1e-2)]), (4.0, vec![Ridge::Fixed(1e-2)])]
    {
        let data = data(2000, mean);
        for ridge in ridges {
            let with = |accumulator, memory| Settings {
                ridge: ridge.clone(),
                ..settings(accumulator, memory)
            };
            let factors = with(Accumulator::Qr, MemoryKind::Ledger);
            let expected = learned(&squared, factors, &data, &[2000]).predict(rows(&data)).unwrap();
            for ends in SPLITS {
                for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
                    let sums = with(Accumulator::Gram, memory);
                    let model = learned(&squared, sums, &data, ends);
                    let found = gap(&model.predict(rows(&data)).unwrap(), &expected);
                    assert!(found <= SAME, "{mean} {ridge:?} {ends:?} {memory}: {found:e}");
                }
            }
        }
    }
}

#[test]
fn a_model_after_every_task_is_the_last_one_in_the_end() {
    let data = data(2000, 3.0);
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let settings =
            Settings { ridge: Ridge::Fixed(1e-2), ..settings(Accumulator::Auto, memory) };
        let mut every = Learner::new(Problem::squared(), settings.clone()).unwrap();
        let last = learned(&Problem::squared(), settings, &data, SPLITS[1]);
        let mut from = 0;
        for (task, &to) in SPLITS[1].iter().enumerate() {
            let x = Rows::new(&data.x[from * INPUTS..to * INPUTS], INPUTS).unwrap();
            let y = Rows::new(&data.y[from..to], 1).unwrap();
            every.learn(&task.to_string(), TaskRows::new(x, y), 1.0).unwrap();
            every.solution().unwrap();
            from = to;
        }
        let found = gap(&every.predict(rows(&data)).unwrap(), &last.predict(rows(&data)).unwrap());
        assert!(found <= 1e-9, "{memory}: {found:e}");
        // Far from zero many features are linear, and depend on each other.
        let factors = Settings { accumulator: Accumulator::Qr, ..last.settings().clone() };
        let factors = learned(&Problem::squared(), factors, &data, SPLITS[1]);
        let rank = factors.solution().unwrap().rank();
        assert!(rank < 600);
        assert_eq!(every.solution().unwrap().rank(), rank);
        assert_eq!(every.pool().unwrap().quadratic.rank(), rank);
        // Stored as a triangle without the dependent columns, the pool still gives the solution that its sums gave.
        assert!(every.solution_follows().unwrap());
        let (a, b) = (every.mean_forgetting().unwrap(), last.mean_forgetting().unwrap());
        assert!((a - b).abs() <= 1e-7 * (1.0 + b), "{a} against {b}");
    }
}

#[test]
fn threads_change_no_bit() {
    let data = data(1500, 1.0);
    let (squared, gaussian) = (Problem::squared(), Problem::gaussian());
    for (problem, accumulator, ridge) in [
        (&squared, Accumulator::Gram, Ridge::Fixed(1e-2)),
        (&squared, Accumulator::Gram, Ridge::Auto),
        (&squared, Accumulator::Mixed, Ridge::Fixed(1e-2)),
        (&gaussian, Accumulator::Gram, Ridge::default()),
    ] {
        let cells = |threads: usize| {
            let compact = settings(accumulator, MemoryKind::Compact);
            let settings = Settings { threads, ridge: ridge.clone(), ..compact };
            let model = learned(problem, settings, &data, &[700, 1500]);
            model.solution().unwrap().theta.cells().to_vec()
        };
        assert_eq!(cells(1), cells(3), "{problem} {accumulator} {ridge:?}");
    }
}

#[test]
fn discriminants_are_those_of_factors() {
    let data = data(2000, 2.0);
    for shrinkage in ["auto", "diagonal:0.2", "identity:0.1"] {
        let problem = Problem::gaussian().with_option("calibrate", "off").unwrap();
        let problem = problem.with_option("shrinkage", shrinkage).unwrap();
        let factors = settings(Accumulator::Qr, MemoryKind::Ledger);
        let expected = learned(&problem, factors, &data, &[2000]);
        let scores = expected.scores(rows(&data)).unwrap();
        let shrunk = |model: &Learner| model.facts().unwrap();
        for (ends, memory) in [(SPLITS[0], MemoryKind::Ledger), (SPLITS[1], MemoryKind::Compact)] {
            let model = learned(&problem, settings(Accumulator::Gram, memory), &data, ends);
            let found = gap(&model.scores(rows(&data)).unwrap(), &scores);
            assert!(found <= SAME, "{shrinkage} {ends:?} {memory}: {found:e}");
            for ((name, a), (_, b)) in shrunk(&model).into_iter().zip(shrunk(&expected)) {
                assert!((a - b).abs() <= 1e-6 * b.abs(), "{name}: {a} against {b}");
            }
        }
    }
}

#[test]
fn without_a_ridge_a_ledger_is_solved_from_factors() {
    let data = data(2000, 0.0);
    let ledger = settings(Accumulator::Auto, MemoryKind::Ledger);
    let mut model = learned(&Problem::squared(), ledger, &data, SPLITS[1]);
    model.solution().unwrap();
    model.set_ridge(Ridge::Fixed(0.0), false).unwrap();
    let pool = &model.pool().unwrap().quadratic;
    let theta = solve(pool, true, Penalty::NONE, None).unwrap().theta;
    assert_eq!(model.solution().unwrap().theta, theta);
    let factors =
        Settings { ridge: Ridge::Fixed(0.0), ..settings(Accumulator::Qr, MemoryKind::Ledger) };
    let expected = learned(&Problem::squared(), factors, &data, &[2000]);
    let expected = expected.predict(rows(&data)).unwrap();
    let found = gap(&model.predict(rows(&data)).unwrap(), &expected);
    assert!(found <= SAME, "{found:e}");
}

#[test]
fn a_weight_that_decays_fades_sums_too() {
    let data = data(2000, 5.0);
    let with = |accumulator, memory| Settings {
        ridge: Ridge::Fixed(1e-2),
        prefer: "decay:0.5".parse().unwrap(),
        ..settings(accumulator, memory)
    };
    let factors = with(Accumulator::Qr, MemoryKind::Ledger);
    let expected = learned(&Problem::squared(), factors, &data, SPLITS[1]);
    let expected = expected.predict(rows(&data)).unwrap();
    let sums = with(Accumulator::Gram, MemoryKind::Compact);
    let model = learned(&Problem::squared(), sums, &data, SPLITS[1]);
    let found = gap(&model.predict(rows(&data)).unwrap(), &expected);
    assert!(found <= SAME, "{found:e}");
}

#[test]
fn a_bad_row_among_few_is_named_and_the_retry_works() {
    let mut data = data(300, 0.0);
    let compact =
        Settings { ridge: Ridge::Fixed(1e-2), ..settings(Accumulator::Gram, MemoryKind::Compact) };
    let expected = learned(&Problem::squared(), compact.clone(), &data, &[120, 300]);
    let mut model = learned(&Problem::squared(), compact, &data, &[120]);
    let before = model.solution().unwrap().theta.clone();
    for bad in [f64::NAN, f64::INFINITY, 1e200] {
        let at = (120 + 77) * INPUTS + 5;
        let good = std::mem::replace(&mut data.x[at], bad);
        let x = Rows::new(&data.x[120 * INPUTS..], INPUTS).unwrap();
        let y = Rows::new(&data.y[120..], 1).unwrap();
        let error = model.learn("1", TaskRows::new(x, y), 1.0).unwrap_err();
        match &error {
            Error::NotFinite { row, column, .. } if !bad.is_finite() => {
                assert_eq!((*row, *column), (77, 5));
            }
            Error::Overflow { .. } if bad.is_finite() => {}
            other => panic!("{bad}: {other}"),
        }
        assert_eq!((model.records().len(), &model.solution().unwrap().theta), (1, &before));
        data.x[at] = good;
    }
    let x = Rows::new(&data.x[120 * INPUTS..], INPUTS).unwrap();
    let y = Rows::new(&data.y[120..], 1).unwrap();
    model.learn("1", TaskRows::new(x, y), 1.0).unwrap();
    assert_eq!(model.solution().unwrap().theta, expected.solution().unwrap().theta);
}

/// Without an intercept, or with weights, the rows of few are not those of their mean.
#[test]
fn few_rows_without_an_intercept_or_with_weights_are_as_many_copies() {
    let data = data(200, 2.0);
    let weights: Vec<f64> = (0..200).map(|i| f64::from(1 + i % 3)).collect();
    let copies: Vec<usize> = (0..200).flat_map(|i| vec![i; 1 + i % 3]).collect();
    let copied = Data {
        x: copies.iter().flat_map(|i| data.x[i * INPUTS..][..INPUTS].to_vec()).collect(),
        y: copies.iter().map(|i| data.y[*i]).collect(),
        classes: copies.iter().map(|i| data.classes[*i].clone()).collect(),
    };
    for intercept in [true, false] {
        let with = |accumulator, memory| Settings {
            ridge: Ridge::Fixed(1e-2),
            intercept,
            ..settings(accumulator, memory)
        };
        let factors = with(Accumulator::Qr, MemoryKind::Ledger);
        let expected = learned(&Problem::squared(), factors, &copied, &[copied.y.len()]);
        let expected = expected.predict(rows(&data)).unwrap();
        let compact = with(Accumulator::Gram, MemoryKind::Compact);
        let mut model = Learner::new(Problem::squared(), compact).unwrap();
        for (task, range) in [0..90, 90..200].into_iter().enumerate() {
            let x = Rows::new(&data.x[range.start * INPUTS..range.end * INPUTS], INPUTS).unwrap();
            let y = Rows::new(&data.y[range.clone()], 1).unwrap();
            let rows = TaskRows { weights: Some(&weights[range]), ..TaskRows::new(x, y) };
            model.learn(&task.to_string(), rows, 1.0).unwrap();
        }
        let found = gap(&model.predict(rows(&data)).unwrap(), &expected);
        assert!(found <= SAME, "{intercept}: {found:e}");
    }
}
