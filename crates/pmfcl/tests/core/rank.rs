//! Columns that depend on each other are found, whichever way the rows come: a table with categories has them always.

use pmfcl::summary::Products;
use pmfcl::{
    Accumulator, Design, Learner, Problem, Ridge, Rows, Settings, Summarizer, Summary, TaskRows,
};
use pmfcl_oracle::Draw;

const HOURS: usize = 24;
const DAYS: usize = 7;
const WEATHERS: usize = 4;
const NUMBERS: usize = 6;
const WIDTH: usize = HOURS + DAYS + WEATHERS + 2 + NUMBERS;
/// With the intercept; each set of categories sums to it, and whether people work follows from the day and the holiday.
const RANK: usize = 1 + WIDTH - 3 - 1;

/// An hour of a day: categories one by one, a holiday, whether people work, and some weather that moves slowly.
fn row(i: usize, draw: &mut Draw) -> Vec<f64> {
    let (hour, day) = (i % HOURS, i / HOURS % DAYS);
    let mut x = vec![0.0; WIDTH];
    let holiday = f64::from(u8::from(day < 5 && draw.below(40) == 0));
    let work = f64::from(u8::from(day < 5)) - holiday;
    // As tables print them: months as points on a circle, the rest in a few digits.
    let round = |v: f64, digits: f64| (v * digits).round() / digits;
    let turn = (i / 730 % 12) as f64 / 12.0 * std::f64::consts::TAU;
    let warm = round(0.4 - 0.3 * turn.cos() + 0.03 * draw.normal(), 100.0);
    let numbers = [
        warm,
        round(0.95 * warm + 0.02 + 0.005 * draw.normal(), 10_000.0),
        round(draw.uniform(), 100.0),
        round(draw.uniform(), 10_000.0),
        round(turn.sin(), 1e7),
        round(turn.cos(), 1e7),
    ];
    x[..NUMBERS].copy_from_slice(&numbers);
    x[NUMBERS] = holiday;
    x[NUMBERS + 1] = work;
    x[NUMBERS + 2 + hour] = 1.0;
    x[NUMBERS + 2 + HOURS + day] = 1.0;
    // The last kind of weather is seen once: its column is far shorter than those it depends on.
    let weather = if i == 6000 { WEATHERS - 1 } else { draw.below(WEATHERS - 1) };
    x[NUMBERS + 2 + HOURS + DAYS + weather] = 1.0;
    x
}

#[test]
fn categories_have_the_same_rank_and_a_small_solution_in_one_piece_and_in_tasks() {
    let settings = Settings { ridge: Ridge::Fixed(0.0), ..Settings::default() };
    for seed in 0..6 {
        let mut draw = Draw::new(seed);
        let (start, n) = (draw.below(5000), 40_000 + draw.below(20_000));
        let mut x = Vec::new();
        let mut y = Vec::new();
        for i in start..start + n {
            // A fifth is left out, as a test set would be.
            let cells = row(i, &mut draw);
            if draw.below(5) > 0 || cells[WIDTH - 1] > 0.0 {
                y.push(100.0 * cells[0] + cells[NUMBERS + 2 + 8] * 50.0 + draw.normal());
                x.extend(cells);
            }
        }
        let learned = |parts: usize| {
            let mut learner = Learner::new(Problem::squared(), settings.clone()).unwrap();
            let size = y.len().div_ceil(parts);
            for (t, (x, y)) in x.chunks(size * WIDTH).zip(y.chunks(size)).enumerate() {
                let (x, y) = (Rows::new(x, WIDTH).unwrap(), Rows::new(y, 1).unwrap());
                learner.learn(&t.to_string(), TaskRows::new(x, y), 1.0).unwrap();
            }
            learner
        };
        let (whole, tasks) = (learned(1), learned(5));
        for learner in [&whole, &tasks] {
            assert_eq!(learner.pool().unwrap().quadratic.rank(), RANK, "seed {seed}");
            let theta = learner.solution().unwrap().theta.column(0).to_vec();
            assert!(theta.iter().all(|v| v.abs() < 1e4), "seed {seed}: {theta:?}");
        }
        let rows = Rows::new(&x[..50 * WIDTH], WIDTH).unwrap();
        let (a, b) = (whole.predict(rows).unwrap(), tasks.predict(rows).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-9), "seed {seed}");
    }
}

/// Units are the user's: least squares predicts the same in all of them, and a target without noise comes back.
#[test]
fn dependent_columns_in_units_far_apart_are_fitted_all_the_same() {
    const COLUMNS: usize = 9;
    for exponent in [0, 3, 6, 9, 12] {
        let mut draw = Draw::new(7);
        // Five categories, which sum to the intercept, and four numbers; large and small units by turns.
        let truth = draw.normals(COLUMNS);
        let unit = |j: usize| 10f64.powi(if j.is_multiple_of(2) { exponent } else { -exponent });
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..300 {
            let mut row = draw.normals(COLUMNS);
            row[..5].fill(0.0);
            row[draw.below(5)] = 1.0;
            y.push(row.iter().zip(&truth).map(|(a, b)| a * b).sum::<f64>());
            x.extend(row.iter().enumerate().map(|(j, v)| v * unit(j)));
        }
        let settings = Settings { ridge: Ridge::Fixed(0.0), ..Settings::default() };
        let mut learner = Learner::new(Problem::squared(), settings).unwrap();
        let rows = Rows::new(&x, COLUMNS).unwrap();
        learner.learn("all", TaskRows::new(rows, Rows::new(&y, 1).unwrap()), 1.0).unwrap();
        let predicted = learner.predict(Rows::new(&x, COLUMNS).unwrap()).unwrap();
        let off = predicted.iter().zip(&y).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off <= 1e-11, "units of 1e±{exponent}: {off:e}");
    }
}

/// Rows of `m` columns of which some depend on earlier ones: zeros, sums of two, and copies in other units. Returned with the columns
/// that depend on none before them.
fn with_dependent_columns(n: usize, m: usize, draw: &mut Draw) -> (Vec<f64>, Vec<usize>) {
    let mut x = vec![0.0; n * m];
    let mut free = Vec::new();
    for j in 0..m {
        let kind = if j < 2 { 0 } else { j % 13 };
        if !matches!(kind, 3 | 6 | 9) {
            free.push(j);
        }
        for row in x.chunks_exact_mut(m) {
            row[j] = match kind {
                3 => 0.0,
                6 => row[j - 1] + row[j - 2],
                9 => 1e6 * row[j / 2],
                _ => draw.normal(),
            };
        }
    }
    (x, free)
}

fn summarized(x: &[f64], y: &[f64], m: usize, accumulator: Accumulator, threads: usize) -> Summary {
    let design = Design::linear(m, false).unwrap();
    let mut summarizer = Summarizer::new(design, 1, accumulator).unwrap().threads(threads);
    summarizer.add(Rows::new(x, m).unwrap(), Rows::new(y, 1).unwrap(), None).unwrap();
    summarizer.finish().unwrap()
}

/// More columns than are reduced one by one, and several blocks of them.
#[test]
fn dependent_columns_of_a_wide_table_are_found_on_any_number_of_threads() {
    const M: usize = 300;
    let mut draw = Draw::new(3);
    for (n, accumulator) in [
        (200, Accumulator::Qr),
        (900, Accumulator::Qr),
        (5000, Accumulator::Qr),
        (5000, Accumulator::Gram),
    ] {
        let (x, free) = with_dependent_columns(n, M, &mut draw);
        let y = draw.normals(n);
        let summary = summarized(&x, &y, M, accumulator, 1);
        assert_eq!(summary.rank(), free.len().min(n), "{n} rows, {accumulator}");
        // The root has the products of the rows: each is a sum of n terms, rounded as often, and a column of R has a backward error
        // of a few m ε.
        let products = summary.products();
        let mut sums = products.xx.iter();
        for i in 0..M {
            let column = |j: usize| x.iter().skip(j).step_by(M);
            let norm = |j: usize| column(j).map(|v| v * v).sum::<f64>().sqrt();
            let size = norm(i);
            for j in i..M {
                let found = sums.next().unwrap();
                if (i + j) % 17 == 0 {
                    let truth: f64 = column(i).zip(column(j)).map(|(a, b)| a * b).sum();
                    let off = (found - truth).abs();
                    let allowed = 8.0 * (n + M) as f64 * f64::EPSILON * size * norm(j);
                    assert!(
                        off <= allowed,
                        "{n} rows, {accumulator}: ({i}, {j}) is off by {off:e}"
                    );
                }
            }
        }
        for threads in [2, 3] {
            let other = summarized(&x, &y, M, accumulator, threads);
            assert!(other == summary, "{n} rows, {accumulator}, {threads} threads");
        }
    }
}

/// Columns that nearly depend on each other, and fewer rows than columns: sums of products alone do not show the rank.
#[test]
fn the_rank_is_not_above_the_number_of_rows() {
    const M: usize = 160;
    const N: usize = 100;
    for (seed, noise) in (0..).zip([1e-2, 1e-3, 1e-3, 1e-4, 1e-4, 1e-5]) {
        let mut draw = Draw::new(seed);
        let mixes = draw.normals(20 * M);
        let mut x = Vec::with_capacity(N * M);
        for _ in 0..N {
            let factors = draw.normals(20);
            for j in 0..M {
                let common: f64 = (0..20).map(|k| factors[k] * mixes[k * M + j]).sum();
                x.push(common + noise * draw.normal());
            }
        }
        let y = draw.normals(N);
        let mut xx = Vec::new();
        let sum = |i: usize, j: usize| x.chunks_exact(M).map(|row| row[i] * row[j]).sum::<f64>();
        (0..M).for_each(|i| xx.extend((i..M).map(|j| sum(i, j))));
        let with_target = |i: usize| x.chunks_exact(M).zip(&y).map(|(row, y)| row[i] * y).sum();
        let products = Products {
            n: N as f64,
            features: M,
            targets: 1,
            xx,
            xy: (0..M).map(with_target).collect(),
            yy: vec![y.iter().map(|y| y * y).sum()],
            y: vec![y.iter().sum()],
        };
        let free = Summary::from_products(&products).unwrap().rank();
        let summary = Summary::from_products_of_rows(&products, N as u64).unwrap();
        assert_eq!(summary.rank(), free.min(N), "seed {seed}");
        for accumulator in [Accumulator::Qr, Accumulator::Gram] {
            assert!(summarized(&x, &y, M, accumulator, 2).rank() <= N, "seed {seed}");
        }
        if noise > 1e-4 {
            continue; // what is left out would be seen in the sums
        }
        // Fewer rows than there were: the first pivots are kept, however many the sums show.
        let fewer = Summary::from_products_of_rows(&products, free as u64 - 5).unwrap();
        assert_eq!(fewer.rank(), free - 5, "seed {seed}");
    }
}

/// Triangles of wide designs are joined as they are, small ones row by row; either way the model is that of all rows.
#[test]
fn a_wide_model_learned_in_tasks_is_that_of_all_rows() {
    const M: usize = 530;
    let mut draw = Draw::new(11);
    let sizes = [200, 40, 60, 300, 10, 500];
    let n = sizes.iter().sum::<usize>();
    let (x, free) = with_dependent_columns(n, M, &mut draw);
    let y: Vec<f64> = x.chunks_exact(M).map(|row| row[0] - row[1] + 0.1 * draw.normal()).collect();
    let learned = |sizes: &[usize], threads: usize| {
        let settings = Settings {
            ridge: Ridge::Fixed(1e-3),
            threads,
            standardize: true,
            ..Settings::default()
        };
        let mut learner = Learner::new(Problem::squared(), settings).unwrap();
        let mut from = 0;
        for (t, size) in sizes.iter().enumerate() {
            let to = from + size;
            let rows = Rows::new(&x[from * M..to * M], M).unwrap();
            let targets = Rows::new(&y[from..to], 1).unwrap();
            learner.learn(&t.to_string(), TaskRows::new(rows, targets), 1.0).unwrap();
            from = to;
        }
        learner
    };
    let (whole, tasks, other) = (learned(&[n], 2), learned(&sizes, 1), learned(&sizes, 2));
    for learner in [&whole, &tasks] {
        assert_eq!(learner.pool().unwrap().quadratic.rank(), 1 + free.len());
    }
    let rows = Rows::new(&x, M).unwrap();
    let [whole, tasks, other] = [&whole, &tasks, &other].map(|l| l.predict(rows).unwrap());
    assert_eq!(tasks, other, "threads change nothing");
    // Columns of norm √n and a standardized ridge of 1e-3: the penalised condition number is below 1e2 and each QR is backward stable
    // to some m ε = 1e-13.
    let off = whole.iter().zip(&tasks).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off <= 1e-10, "{off:e}");
}
