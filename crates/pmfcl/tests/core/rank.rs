//! Columns that depend on each other are found, whichever way the rows come: a table with categories has them always.

use pmfcl::{Learner, Problem, Ridge, Rows, Settings, TaskRows};
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
    // The last kind of weather is met once: its column is far shorter than those it depends on.
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
