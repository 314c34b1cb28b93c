//! The model after every task is the one joint training gives: for any order of tasks, any split into chunks,
//! any merge tree, any sizes, ranks and scales. Truth comes from double-double arithmetic.

use faer::Mat;
use pmfcl::{
    Accumulator, Design, Learner, MemoryKind, Problem, Ridge, Rows, Settings, Summarizer, Summary,
    TaskRows,
};
use pmfcl_oracle::{Draw, conditioned, least_squares, relative_error};
use proptest::prelude::*;

fn plain(accumulator: Accumulator, memory: MemoryKind) -> Learner {
    Learner::new(
        Problem::squared(),
        Settings {
            intercept: false,
            ridge: Ridge::Fixed(0.0),
            accumulator,
            memory,
            threads: 1,
            ..Settings::default()
        },
    )
    .unwrap()
}

/// Cuts `n` rows into `parts` tasks of uneven sizes, at least one row each.
fn cuts(n: usize, parts: usize, draw: &mut Draw) -> Vec<usize> {
    let mut at: Vec<usize> = (0..parts - 1).map(|_| 1 + draw.below(n - 1)).collect();
    at.extend([0, n]);
    at.sort_unstable();
    at.dedup();
    at
}

fn learn_in_tasks(
    learner: &mut Learner,
    x: &[f64],
    y: &[f64],
    d: usize,
    cuts: &[usize],
    order: &[usize],
) {
    for &t in order {
        let (a, b) = (cuts[t], cuts[t + 1]);
        let x = Rows::new(&x[a * d..b * d], d).unwrap();
        learner
            .learn(&t.to_string(), TaskRows::new(x, Rows::new(&y[a..b], 1).unwrap()), 1.0)
            .unwrap();
    }
}

fn targets(x: &[f64], d: usize, noise: f64, draw: &mut Draw) -> Vec<f64> {
    let theta = draw.normals(d);
    x.chunks_exact(d)
        .map(|r| r.iter().zip(&theta).map(|(a, b)| a * b).sum::<f64>() + noise * draw.normal())
        .collect()
}

/// Householder QR of all rows at once, by the linear-algebra library alone.
fn joint_householder(x: &[f64], d: usize, y: &[f64]) -> Vec<f64> {
    use faer::linalg::solvers::SolveLstsq as _;
    let n = y.len();
    let a = Mat::from_fn(n, d, |i, j| x[i * d + j]);
    let b = Mat::from_fn(n, 1, |i, _| y[i]);
    let solution = a.qr().solve_lstsq(&b);
    (0..d).map(|j| solution[(j, 0)]).collect()
}

#[test]
fn well_conditioned_tasks_are_learned_to_twelve_digits() {
    for seed in 0..8 {
        let mut draw = Draw::new(seed);
        let (n, d) = (2000, 30);
        let x = conditioned(n, d, 1e2, &mut draw);
        let y = targets(&x, d, 1e-3, &mut draw);
        let truth = least_squares(&x, d, &y, None, &[]);
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let mut learner = plain(Accumulator::Qr, memory);
            let cuts = cuts(n, 10, &mut draw);
            let order = draw.order(cuts.len() - 1);
            learn_in_tasks(&mut learner, &x, &y, d, &cuts, &order);
            let error = relative_error(learner.solution().unwrap().theta.column(0), &truth);
            assert!(error <= 1e-12, "seed {seed}: {error:e}");
        }
    }
}

#[test]
fn ill_conditioned_tasks_stay_within_a_hundred_times_of_joint_householder() {
    for cond in [1e4, 1e6, 1e8] {
        for seed in 0..6 {
            let mut draw = Draw::new(seed);
            let (n, d) = (2000, 30);
            let x = conditioned(n, d, cond, &mut draw);
            let y = targets(&x, d, 1e-2 / cond.sqrt(), &mut draw);
            let truth = least_squares(&x, d, &y, None, &[]);
            let joint = relative_error(&joint_householder(&x, d, &y), &truth);
            let cuts = cuts(n, 10, &mut draw);
            let order = draw.order(cuts.len() - 1);
            let mut learner = plain(Accumulator::Qr, MemoryKind::Compact);
            learn_in_tasks(&mut learner, &x, &y, d, &cuts, &order);
            let ours = relative_error(learner.solution().unwrap().theta.column(0), &truth);
            // A joint error can be small by luck; it is not held below what conditioning implies.
            let allowed = 100.0 * joint.max(f64::EPSILON * cond / 10.0);
            assert!(ours <= allowed, "cond {cond:e} seed {seed}: {ours:e}, joint {joint:e}");
        }
    }
}

#[test]
fn sizes_from_one_row_to_a_hundred_thousand_are_one_model() {
    let mut draw = Draw::new(11);
    let d = 6;
    let sizes = [1, 100_000, 3, 57, 1, 5_000, 2];
    let n: usize = sizes.iter().sum();
    let x = draw.normals(n * d);
    let y = targets(&x, d, 0.1, &mut draw);
    let truth = least_squares(&x, d, &y, None, &[]);
    let mut cuts = vec![0];
    for s in sizes {
        cuts.push(cuts[cuts.len() - 1] + s);
    }
    for accumulator in [Accumulator::Qr, Accumulator::Gram] {
        let mut learner = plain(accumulator, MemoryKind::Ledger);
        learn_in_tasks(&mut learner, &x, &y, d, &cuts, &draw.order(sizes.len()));
        let error = relative_error(learner.solution().unwrap().theta.column(0), &truth);
        assert!(error <= 1e-12, "{accumulator:?}: {error:e}");
    }
}

#[test]
fn columns_of_wildly_different_scales_keep_their_digits() {
    let mut draw = Draw::new(5);
    let (n, scales) = (400, [1e-150, 1e-8, 1.0, 1e6, 1e150]);
    let d = scales.len();
    let base = draw.normals(n * d);
    let y = targets(&base, d, 0.1, &mut draw);
    let truth = least_squares(&base, d, &y, None, &[]);
    let x: Vec<f64> = base.iter().enumerate().map(|(i, v)| v * scales[i % d]).collect();
    let mut learner = plain(Accumulator::Qr, MemoryKind::Compact);
    learn_in_tasks(&mut learner, &x, &y, d, &[0, 100, 103, 400], &[2, 0, 1]);
    let theta = learner.solution().unwrap().theta.column(0).to_vec();
    for j in 0..d {
        let error = (theta[j] * scales[j] / truth[j] - 1.0).abs();
        assert!(error < 1e-12, "column {j} (×{:e}): {error:e}", scales[j]);
    }
}

#[test]
fn duplicated_and_zero_columns_give_the_shortest_solution() {
    // Columns a, a, 0, b, a+b: the shortest θ is known from the two-column problem on (a, b).
    let mut draw = Draw::new(8);
    let n = 300;
    let (a, b) = (draw.normals(n), draw.normals(n));
    let y: Vec<f64> = (0..n).map(|i| 2.0 * a[i] - b[i] + 0.1 * draw.normal()).collect();
    let x: Vec<f64> = (0..n).flat_map(|i| [a[i], a[i], 0.0, b[i], a[i] + b[i]]).collect();
    let two: Vec<f64> = (0..n).flat_map(|i| [a[i], b[i]]).collect();
    let fit = least_squares(&two, 2, &y, None, &[]);
    // Minimise θ0²+θ1²+θ3²+θ4² subject to θ0+θ1+θ4 = fit0, θ3+θ4 = fit1: θ = M⁺ fit.
    let m = [[1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]];
    let (g00, g01, g11) = (3.0, 1.0, 2.0);
    let det = g00 * g11 - g01 * g01;
    let lambda = [(g11 * fit[0] - g01 * fit[1]) / det, (g00 * fit[1] - g01 * fit[0]) / det];
    let truth: Vec<f64> = (0..5).map(|j| m[0][j] * lambda[0] + m[1][j] * lambda[1]).collect();
    for accumulator in [Accumulator::Qr, Accumulator::Gram] {
        let mut learner = plain(accumulator, MemoryKind::Ledger);
        learn_in_tasks(&mut learner, &x, &y, 5, &[0, 2, 150, 300], &[1, 0, 2]);
        let model = learner.solution().unwrap();
        assert_eq!(
            (model.rank(), model.outcome),
            (2, pmfcl::Outcome::MinimumNorm),
            "{accumulator:?}"
        );
        let error = relative_error(model.theta.column(0), &truth);
        // Gram sees dependence only to √ε.
        let allowed = if accumulator == Accumulator::Qr { 1e-13 } else { 1e-7 };
        assert!(error < allowed, "{accumulator:?}: {error:e}");
    }
}

#[test]
fn the_worst_lauchli_matrix_keeps_its_digits() {
    // Columns (1, e, 0) and (1, 0, e). With e = 1e-9, X'X rounds to a singular matrix.
    let e = 1e-9;
    let x = [1.0, 1.0, e, 0.0, 0.0, e];
    let y = [2.0, e, e];
    let mut learner = plain(Accumulator::Qr, MemoryKind::Ledger);
    learner
        .learn("t", TaskRows::new(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap()), 1.0)
        .unwrap();
    let model = learner.solution().unwrap();
    assert_eq!(model.rank(), 2);
    for v in model.theta.column(0) {
        assert!((v - 1.0).abs() < 1e-6, "{v}");
    }
}

fn summarize(x: &[f64], d: usize, y: &[f64], w: Option<&[f64]>, intercept: bool) -> Summary {
    let design = Design::linear(d, intercept).unwrap();
    let mut s = Summarizer::new(design, y.len() * d / x.len(), Accumulator::Qr).unwrap();
    s.add(Rows::new(x, d).unwrap(), Rows::new(y, y.len() * d / x.len()).unwrap(), w).unwrap();
    s.finish().unwrap()
}

#[test]
fn an_intercept_first_means_centring_costs_no_digits() {
    // A column with mean 1e6 and spread 1 next to the intercept: equilibrated condition 1e6.
    let mut draw = Draw::new(21);
    let n = 5000;
    let x: Vec<f64> = (0..n).map(|_| 1e6 + draw.normal()).collect();
    let y: Vec<f64> = x.iter().map(|v| 3.0 + 2.0 * (v - 1e6) + 0.01 * draw.normal()).collect();
    let both: Vec<f64> = x.iter().flat_map(|v| [1.0, *v]).collect();
    let truth = least_squares(&both, 2, &y, None, &[]);
    let summary = summarize(&x, 1, &y, None, true);
    let model = pmfcl::solve(&summary, true, pmfcl::Penalty::NONE, None).unwrap();
    let slope = model.theta.column(0)[1];
    assert!((slope / truth[1] - 1.0).abs() < 1e-9, "{slope} against {}", truth[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any shape, split, order, ridge, weights: the learner is the joint ridge solution.
    #[test]
    fn tasks_in_any_order_equal_one_big_task(
        seed in any::<u64>(), n in 1usize..400, d in 1usize..12, parts in 1usize..8,
        compact in any::<bool>(), gram in any::<bool>(), weighted in any::<bool>(),
        ridge in prop_oneof![Just(1e-6), Just(1e-2), Just(10.0)],
    ) {
        let mut draw = Draw::new(seed);
        let x = draw.normals(n * d);
        let y = targets(&x, d, 0.5, &mut draw);
        let w: Vec<f64> = (0..n).map(|_| if weighted { 0.1 + 3.0 * draw.uniform() } else { 1.0 }).collect();
        let total: f64 = w.iter().sum();
        // The mean loss plus (λ/2)‖θ‖²: on the sum scale the penalty is λ Σw.
        let truth = least_squares(&x, d, &y, Some(&w), &vec![ridge * total; d]);
        let cuts = if n > 1 { cuts(n, parts, &mut draw) } else { vec![0, 1] };
        let mut learner = Learner::new(Problem::squared(), Settings {
            intercept: false,
            ridge: Ridge::Fixed(ridge),
            memory: if compact { MemoryKind::Compact } else { MemoryKind::Ledger },
            accumulator: if gram { Accumulator::Gram } else { Accumulator::Qr },
            threads: 1,
            ..Settings::default()
        }).unwrap();
        for t in draw.order(cuts.len() - 1) {
            let (a, b) = (cuts[t], cuts[t + 1]);
            let x = Rows::new(&x[a * d..b * d], d).unwrap();
            let y = Rows::new(&y[a..b], 1).unwrap();
            let w = weighted.then_some(&w[a..b]);
            learner.learn(&t.to_string(), TaskRows::new(x, y).weighted(w), 1.0).unwrap();
        }
        let theta = learner.solution().unwrap().theta.column(0);
        // Condition of the ridge system: at most max eigenvalue over λ; Gram squares it.
        let cond = (1.0 + 10.0 * (d as f64) / ridge).sqrt();
        let allowed = 2000.0 * f64::EPSILON * if gram { cond * cond } else { cond } * (d as f64);
        let error = relative_error(theta, &truth);
        prop_assert!(error <= allowed.max(1e-13), "{error:e} above {allowed:e}");
    }

    /// Chunks of any size give the very same bits, and so does any number of threads.
    #[test]
    fn chunks_and_threads_do_not_change_a_bit(
        seed in any::<u64>(), n in 1usize..9000, d in 1usize..6, gram in any::<bool>(),
        threads in 1usize..5, chunks in 1usize..7, weighted in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let x = draw.normals(n * d);
        let y = draw.normals(2 * n);
        let accumulator = if gram { Accumulator::Gram } else { Accumulator::Qr };
        let w: Vec<f64> = (0..n).map(|_| 0.1 + draw.uniform()).collect();
        let build = |cuts: &[usize], threads: usize, last: usize| {
            let design = Design::linear(d, true).unwrap();
            let mut s = Summarizer::new(design, 2, accumulator).unwrap().threads(threads);
            let part = |c: &[usize]| {
                let x = Rows::new(&x[c[0] * d..c[1] * d], d).unwrap();
                let y = Rows::new(&y[2 * c[0]..2 * c[1]], 2).unwrap();
                (x, y, weighted.then_some(&w[c[0]..c[1]]))
            };
            let (first, last) = cuts.split_at(cuts.len() - last);
            for c in first.windows(2) {
                let (x, y, w) = part(c);
                s.add(x, y, w).unwrap();
            }
            match last {
                [] => s.finish(),
                [to] => {
                    let (x, y, w) = part(&[first[first.len() - 1], *to]);
                    s.finish_with(x, y, w)
                }
                _ => unreachable!("one chunk at most"),
            }
            .unwrap()
            .to_bytes()
        };
        let whole = build(&[0, n], 1, 0);
        let cut = if n > 1 { cuts(n, chunks, &mut draw) } else { vec![0, 1] };
        prop_assert_eq!(&whole, &build(&cut, threads, 0));
        prop_assert_eq!(&whole, &build(&cut, threads, 1));
        prop_assert_eq!(&whole, &build(&[0, n], threads, 1));
    }

    /// A weight of 3 is three copies of the row.
    #[test]
    fn weights_are_repetition(seed in any::<u64>(), n in 1usize..60, d in 1usize..5) {
        let mut draw = Draw::new(seed);
        let x = draw.normals(n * d);
        let y = draw.normals(n);
        let w: Vec<f64> = (0..n).map(|_| (1 + draw.below(4)) as f64).collect();
        let (mut xx, mut yy) = (Vec::new(), Vec::new());
        for i in 0..n {
            for _ in 0..w[i] as usize {
                xx.extend_from_slice(&x[i * d..(i + 1) * d]);
                yy.push(y[i]);
            }
        }
        let (a, b) = (summarize(&x, d, &y, Some(&w), true), summarize(&xx, d, &yy, None, true));
        prop_assert!((a.n() - b.n()).abs() < 1e-9);
        let theta = pmfcl::Theta::from_slice(&draw.normals(d + 1));
        let (la, lb) = (a.loss(&theta).unwrap(), b.loss(&theta).unwrap());
        prop_assert!((la - lb).abs() <= 1e-12 * lb, "{la} against {lb}");
    }
}
