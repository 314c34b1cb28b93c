//! Mixed precision against factors and sums in double, and what `auto` stands for.

use pmfcl::problem::Squared;
use pmfcl::{
    Accumulator, Basis, ClassList, Design, Labels, Learner, MemoryKind, Problem, Ridge, Rows,
    Settings, Summarizer, TaskRows,
};
use pmfcl_oracle::Draw;

const INPUTS: usize = 12;

struct Data {
    x: Vec<f64>,
    y: Vec<f64>,
}

fn data(n: usize, seed: u64, mean: f64) -> Data {
    let mut draw = Draw::new(seed);
    let x: Vec<f64> = (0..n * INPUTS).map(|_| draw.normal() + mean).collect();
    let y = x
        .chunks_exact(INPUTS)
        .map(|r| (r[0] - mean).sin() + (r[1] - mean) * (r[2] - mean) + 0.1 * draw.normal())
        .collect();
    Data { x, y }
}

fn learned(data: &Data, basis: &str, accumulator: Accumulator, threads: usize) -> Learner {
    let settings = Settings {
        basis: basis.parse().unwrap(),
        ridge: Ridge::Fixed(1e-3),
        standardize: true,
        accumulator,
        threads,
        ..Settings::default()
    };
    let mut learner = Learner::new(Problem::squared(), settings).unwrap();
    let half = data.y.len() / 2;
    for (task, (from, to)) in [(0, half), (half, data.y.len())].into_iter().enumerate() {
        let x = Rows::new(&data.x[from * INPUTS..to * INPUTS], INPUTS).unwrap();
        let y = Rows::new(&data.y[from..to], 1).unwrap();
        learner.learn(&task.to_string(), TaskRows::new(x, y), 1.0).unwrap();
    }
    learner
}

/// Root mean square of the difference, in standard deviations of `b`.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    let n = b.len() as f64;
    let mean = b.iter().sum::<f64>() / n;
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    let spread: f64 = b.iter().map(|b| (b - mean).powi(2)).sum();
    (square / spread).sqrt()
}

/// What is measured stays below what is promised, and the promise is worth something.
#[test]
fn predictions_differ_from_those_of_factors_by_no_more_than_the_bound() {
    for (basis, n, mean) in [
        ("linear", 4000, 0.0),
        ("linear", 4000, 1e4),
        ("relu:300", 4000, 0.0),
        ("relu:700", 6000, 0.0),
        ("poly:2", 3000, 3.0),
    ] {
        let data = data(n, 5, mean);
        let qr = learned(&data, basis, Accumulator::Qr, 2);
        let mixed = learned(&data, basis, Accumulator::Mixed, 2);
        let rows = Rows::new(&data.x, INPUTS).unwrap();
        let measured = gap(&mixed.predict(rows).unwrap(), &qr.predict(rows).unwrap());
        let bound = mixed.rounding_bound().unwrap().expect("mixed");
        assert!(measured <= bound, "{basis}: {measured:e} of {bound:e}");
        assert!(bound < 0.2, "{basis}: {bound}");
        assert!(measured > 1e-12, "{basis}: it is to be single precision that was used");
        assert_eq!(qr.rounding_bound().unwrap(), None);
        // Residual losses are differences of sums of squares: seven digits of the targets' squares are left.
        for (a, b) in mixed.tasks().unwrap().iter().zip(qr.tasks().unwrap()) {
            // Dependent columns are kept apart by what is added to their squares.
            assert!(a.rank >= b.rank, "{basis}");
            assert!((a.samples - b.samples).abs() <= 0.0);
            let (a, b) = (a.loss.unwrap(), b.loss.unwrap());
            assert!((a - b).abs() <= 1e-3 * b + 1e-5, "{basis}: {a} {b}");
        }
    }
}

#[test]
fn threads_and_chunks_change_no_bit() {
    let Data { x, y } = data(9000, 1, 2.0);
    for (basis, accumulator) in [
        ("relu:600", Accumulator::Mixed),
        ("relu:600", Accumulator::Gram),
        ("relu:70", Accumulator::Mixed),
    ] {
        let design = || {
            let basis: Basis = format!("{basis},scale=none").parse().unwrap();
            Design::new(basis.fix(&[], INPUTS).unwrap(), true)
        };
        let summarized = |threads: usize, chunk: usize| {
            let mut summarizer = Summarizer::new(design(), 1, accumulator).unwrap();
            summarizer = summarizer.threads(threads);
            for (x, y) in x.chunks(chunk * INPUTS).zip(y.chunks(chunk)) {
                let (x, y) = (Rows::new(x, INPUTS).unwrap(), Rows::new(y, 1).unwrap());
                summarizer.add(x, y, None).unwrap();
            }
            summarizer.finish().unwrap()
        };
        let one = summarized(1, 9000);
        for (threads, chunk) in [(2, 9000), (3, 9000), (2, 1000), (1, 4097)] {
            assert!(summarized(threads, chunk) == one, "{basis} {accumulator} {threads} {chunk}");
        }
    }
}

/// Squares of such columns leave the range of single precision.
#[test]
fn units_do_not_matter() {
    let plain = data(2000, 3, 1.0);
    let scaled = |factor: f64| Data {
        x: plain
            .x
            .chunks_exact(INPUTS)
            .flat_map(|row| {
                row.iter().enumerate().map(move |(j, v)| if j % 2 == 0 { v * factor } else { *v })
            })
            .collect(),
        y: plain.y.clone(),
    };
    let rows = |data: &Data| {
        learned(data, "linear", Accumulator::Mixed, 1)
            .predict(Rows::new(&data.x, INPUTS).unwrap())
            .unwrap()
    };
    let before = rows(&plain);
    // Powers of two change no digit of a row, so none of the model.
    for factor in [2f64.powi(100), 2f64.powi(-100)] {
        assert!(gap(&rows(&scaled(factor)), &before) <= 1e-12, "{factor:e}");
    }
}

#[test]
fn few_rows_are_factored_and_the_rank_is_theirs() {
    let few = data(60, 2, 0.0);
    let mixed = learned(&few, "relu:200", Accumulator::Mixed, 1);
    assert!(mixed.tasks().unwrap().iter().all(|task| task.rank <= 30));
    let qr = learned(&few, "relu:200", Accumulator::Qr, 1);
    let rows = Rows::new(&few.x, INPUTS).unwrap();
    assert_eq!(mixed.predict(rows).unwrap(), qr.predict(rows).unwrap());
}

#[test]
fn constant_and_repeated_columns_do_no_harm() {
    let mut draw = Draw::new(8);
    let x: Vec<f64> = (0..3000)
        .flat_map(|_| {
            let v = draw.normal();
            [v, 1e3 + v, 7.0, 0.0, -2.0 * v, draw.normal()]
        })
        .collect();
    let y: Vec<f64> = x.chunks_exact(6).map(|r| r[0] - r[5] + 0.1 * draw.normal()).collect();
    let model = |accumulator| {
        let settings = Settings { ridge: Ridge::Fixed(1e-3), accumulator, ..Settings::default() };
        let mut model = Learner::new(Problem::squared(), settings).unwrap();
        let (x, y) = (Rows::new(&x, 6).unwrap(), Rows::new(&y, 1).unwrap());
        model.learn("all", TaskRows::new(x, y), 1.0).unwrap();
        model.predict(x).unwrap()
    };
    let gap = gap(&model(Accumulator::Mixed), &model(Accumulator::Qr));
    assert!(gap <= 1e-3, "{gap:e}");
}

#[test]
fn classes_and_compact_memory_take_it_too() {
    let Data { x, y } = data(4000, 6, 0.5);
    let names: Vec<String> = ["low", "high"].map(str::to_owned).to_vec();
    let codes: Vec<u32> = y.iter().map(|y| u32::from(*y > 0.0)).collect();
    let labels = Labels::from_codes(&codes, &names).unwrap();
    for problem in
        [Problem::gaussian(), Problem::Squared(Squared { classes: Some(ClassList::Open) })]
    {
        let model = |accumulator| {
            let settings = Settings {
                basis: "relu:400".parse().unwrap(),
                ridge: Ridge::Fixed(1e-3),
                memory: MemoryKind::Compact,
                accumulator,
                ..Settings::default()
            };
            let mut model = Learner::new(problem.clone(), settings).unwrap();
            let x = Rows::new(&x, INPUTS).unwrap();
            let rows = TaskRows::new(x, &labels);
            model.learn("all", rows, 1.0).unwrap();
            model.scores(x).unwrap()
        };
        let gap = gap(&model(Accumulator::Mixed), &model(Accumulator::Qr));
        assert!(gap < 0.02, "{problem}: {gap}");
    }
}

#[test]
fn a_solution_that_rounding_may_have_moved_far_is_warned_about() {
    // Columns that differ by 1e-4 of themselves, with targets that depend on the difference.
    let mut draw = Draw::new(9);
    let mut x = Vec::new();
    let mut y = Vec::new();
    for _ in 0..2000 {
        let (v, small) = (draw.normal(), draw.normal());
        x.extend([v, v + 1e-4 * small]);
        y.push(small + 0.1 * draw.normal());
    }
    let model = |accumulator| {
        let settings = Settings { ridge: Ridge::Fixed(0.0), accumulator, ..Settings::default() };
        let mut model = Learner::new(Problem::squared(), settings).unwrap();
        let (x, y) = (Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
        model.learn("all", TaskRows::new(x, y), 1.0).unwrap();
        model.solution().unwrap();
        model
    };
    let warnings = model(Accumulator::Mixed).warnings();
    assert!(warnings.iter().any(|w| w.contains("Single precision")), "{warnings:?}");
    assert!(model(Accumulator::Qr).warnings().is_empty());
    assert!(model(Accumulator::Gram).warnings().is_empty());
}

#[test]
fn auto_is_qr_up_to_512_columns_and_gram_beyond() {
    assert_eq!(Accumulator::default(), Accumulator::Auto);
    let data = data(3000, 4, 0.0);
    for (units, same) in [(511, Accumulator::Qr), (512, Accumulator::Gram)] {
        let basis = format!("relu:{units},linear=off");
        let auto = learned(&data, &basis, Accumulator::Auto, 2);
        assert_eq!(auto.accumulator(), same);
        let named = learned(&data, &basis, same, 2);
        assert_eq!(auto.solution().unwrap().theta, named.solution().unwrap().theta, "{units}");
    }
}
