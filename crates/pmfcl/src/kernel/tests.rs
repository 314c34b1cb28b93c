//! The kernels against slow arithmetic with twice the digits, which shares no code with them.

use super::*;

mod double;
mod made;

use double::{Double, least_squares};
use instructions::tests::each_set;
use made::{Made, well_conditioned};
use sketch::Sketch;

const EPS: f64 = f64::EPSILON;

/// `[X | Y]ᵀ[X | Y]` with twice the digits, rounded at the end.
fn products(rows: &Made) -> Vec<f64> {
    let width = rows.m + rows.p;
    let mut out = vec![0.0; width * width];
    for i in 0..width {
        for j in i..width {
            let terms = rows.cells.chunks_exact(width).map(|row| Double::product(row[i], row[j]));
            out[i * width + j] = terms.fold(Double::ZERO, |s, t| s + t).high();
        }
    }
    out
}

/// Asserts that a triangle has the products of the given rows, within `c ε ‖x_i‖ ‖x_j‖`.
///
/// A backward error of `γ` in each column changes a product by `2γ`; `γ` is at most a few `m ε`, and
/// in practice near `√m ε`.
fn assert_same_products(triangle: &Triangle, rows: &Made) {
    let (m, p, width) = (rows.m, rows.p, rows.m + rows.p);
    let truth = products(rows);
    assert!(triangle.rows <= m.min(rows.n()));
    assert_eq!(triangle.cells.len(), triangle.rows * width);
    for i in 0..width {
        for j in i..width {
            if i >= m && j > i {
                continue; // products of two targets are not kept
            }
            let cells = triangle.cells.chunks_exact(width);
            let mut got = cells.map(|r| r[i] * r[j]).sum::<f64>();
            if i >= m {
                got += triangle.residual[i - m];
            }
            let size = (truth[i * width + i] * truth[j * width + j]).sqrt();
            let error = (got - truth[i * width + j]).abs();
            let tolerance = 32.0 * (4.0 + m as f64) * EPS * size;
            assert!(error <= tolerance, "m={m} p={p}: ({i}, {j}) is off by {error:e} of {size:e}");
        }
    }
    for (i, row) in triangle.cells.chunks_exact(width).enumerate() {
        assert!(row[i] >= 0.0, "row {i} has a negative diagonal");
        assert!(row[..i.min(m)].iter().all(|r| r.abs() <= 0.0), "row {i} is not trapezoidal");
    }
}

fn factor_all(rows: &Made) -> Triangle {
    factor(rows.m, rows.p, rows, 0..rows.n())
}

/// Solves `R θ = z` for the first target.
fn solve(triangle: &Triangle) -> Vec<f64> {
    let (m, width) = (triangle.m, triangle.m + triangle.p);
    let mut theta = vec![0.0; m];
    for i in (0..m).rev() {
        let row = &triangle.cells[i * width..(i + 1) * width];
        let known: f64 = (i + 1..m).map(|j| row[j] * theta[j]).sum();
        theta[i] = (row[m] - known) / row[i];
    }
    theta
}

/// The same solution by faer's Householder decomposition of `[X | y]`.
fn solve_by_faer(rows: &Made) -> Vec<f64> {
    let (m, width) = (rows.m, rows.m + rows.p);
    let all = faer::Mat::from_fn(rows.n(), width, |i, j| rows.cells[i * width + j]);
    let qr = all.qr();
    let r = qr.thin_R();
    let cells = (0..m).flat_map(|i| (0..width).map(move |j| if j < i { 0.0 } else { r[(i, j)] }));
    let cells = cells.collect();
    solve(&Triangle { m, p: rows.p, rows: m, cells, residual: vec![0.0; rows.p] })
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let square = |x: f64| x * x;
    let off: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
    (off / b.iter().map(|b| square(*b)).sum::<f64>()).sqrt()
}

const SHAPES: [(usize, usize, usize); 18] = [
    (1, 1, 1),
    (1, 5, 1),
    (2, 1, 1),
    (3, 7, 2),
    (17, 3, 1),
    (40, 4, 0),
    (100, 3, 1),
    (100, 5, 4),
    (193, 16, 10),
    (200, 33, 5),
    (300, 13, 9),
    (500, 60, 1),
    (61, 60, 3),
    (60, 61, 3),
    (400, 131, 1),
    (1100, 12, 13),
    (777, 25, 17),
    (391, 49, 8),
];

/// More panels than stay on the left of one band.
const BANDS: (usize, usize, usize) = (210, 199, 2);

#[test]
fn sums_equal_compensated_sums_for_all_shapes() {
    for (n, m, p) in SHAPES.into_iter().chain([BANDS]) {
        let rows = well_conditioned(n, m, p);
        let (truth, width) = (products(&rows), m + p);
        each_set(|_| {
            let mut gram = Gram::new(m, p);
            gram.add(&rows, 0..n);
            // n roundings, each at most ε of the sum of sizes.
            let near = |got: f64, i: usize, j: usize| {
                let size = (truth[i * width + i] * truth[j * width + j]).sqrt();
                assert!((got - truth[i * width + j]).abs() <= (n + 4) as f64 * EPS * size);
            };
            for i in 0..m {
                (i..m).for_each(|j| near(gram.xx(i, j), i, j));
                (0..p).for_each(|k| near(gram.xy(i, k), i, m + k));
            }
            (0..p).for_each(|k| near(gram.yy(k), m + k, m + k));
        });
    }
}

/// Targets of which one in each row is 1 are added one by one, where other targets make a product.
#[test]
fn sums_with_indicators_are_those_of_their_rows_on_any_number_of_threads() {
    for (n, m, p) in [(40, 5, 9), (400, 33, 40), (500, 400, 130), (171, 12, 2)] {
        let mut rows = well_conditioned(n, m, p);
        let class = |i: usize| i * i % 7 * (p / 7) + i % (p / 7).max(1);
        for (i, row) in rows.cells.chunks_exact_mut(m + p).enumerate() {
            row[m..].fill(0.0);
            // Some rows have no class, and some weigh more.
            if i % 11 > 0 {
                row[m + class(i) % p] = if i % 5 == 0 { 3.0 } else { 1.0 };
            }
        }
        let (truth, width) = (products(&rows), m + p);
        each_set(|_| {
            let of = |threads| {
                let mut gram = Gram::new(m, p);
                super::with_threads(threads, || gram.add(&rows, 0..n));
                gram
            };
            let gram = of(1);
            for i in 0..m {
                for k in 0..p {
                    let size = (truth[i * width + i] * truth[(m + k) * width + m + k]).sqrt();
                    let error = (gram.xy(i, k) - truth[i * width + m + k]).abs();
                    assert!(error <= (n + 4) as f64 * EPS * size, "{n} {m} {p}: {i} {k}");
                }
            }
            (0..p).for_each(|k| {
                let yy = truth[(m + k) * width + m + k];
                assert!((gram.yy(k) - yy).abs() <= (n + 4) as f64 * EPS * yy);
            });
            assert!(gram == of(2) && gram == of(3), "threads changed bits");
        });
    }
}

/// The panel of these targets has too many numbers to be added one by one once the last four columns are not zero.
#[test]
fn targets_added_one_by_one_have_the_bits_of_a_product() {
    let (n, m, p) = (500, 61, 8);
    let mut dense = well_conditioned(n, m, p);
    for (i, row) in dense.cells.chunks_exact_mut(m + p).enumerate() {
        for k in 0..4 {
            row[m + k] = if i % 4 == k { 1.0 + (i % 3) as f64 / 3.0 } else { 0.0 };
        }
    }
    let mut sparse = well_conditioned(n, m, p);
    sparse.cells.copy_from_slice(&dense.cells);
    sparse.cells.chunks_exact_mut(m + p).for_each(|row| row[m + 4..].fill(0.0));
    each_set(|_| {
        let [dense, sparse] = [&dense, &sparse].map(|rows| {
            let mut gram = Gram::new(m, p);
            gram.add(rows, 0..n);
            gram
        });
        for i in 0..m {
            for k in 0..4 {
                assert_eq!(dense.xy(i, k).to_bits(), sparse.xy(i, k).to_bits(), "{i} {k}");
            }
        }
    });
}

#[test]
fn strips_in_used_memory_hold_nothing_of_the_rows_before() {
    each_set(|_| {
        let mut before = well_conditioned(400, 48, 16);
        before.cells.fill(f64::NAN);
        Gram::new(48, 16).add(&before, 0..400);
        let rows = made::correlated(300, 13, 3, 10.0);
        let mut gram = Gram::new(13, 3);
        gram.add(&rows, 0..300);
        // NaN, also in columns that only fill up a panel, would not be equal to itself.
        assert_eq!(gram, gram.clone());
        assert_same_products(&factor_all(&rows), &rows);
    });
}

#[test]
fn merged_sums_equal_sums_over_all_rows() {
    let rows = well_conditioned(700, 9, 2);
    let (mut all, mut one, mut two) = (Gram::new(9, 2), Gram::new(9, 2), Gram::new(9, 2));
    all.add(&rows, 0..700);
    one.add(&rows, 0..300);
    two.add(&rows, 300..700);
    one.merge(&two);
    for i in 0..9 {
        assert!((all.xx(i, i) - one.xx(i, i)).abs() <= 700.0 * EPS * all.xx(i, i));
    }
}

#[test]
fn a_triangle_reproduces_the_products_for_all_shapes() {
    each_set(|_| {
        for (n, m, p) in SHAPES {
            let rows = well_conditioned(n, m, p);
            assert_same_products(&factor_all(&rows), &rows);
        }
    });
}

#[test]
fn the_triangle_of_sums_reproduces_the_products() {
    each_set(|_| {
        for (n, m, p) in SHAPES.into_iter().filter(|(n, m, _)| *n >= 2 * m && *n > 10) {
            let rows = well_conditioned(n, m, p);
            let mut gram = Gram::new(m, p);
            gram.add(&rows, 0..n);
            assert_same_products(&decompose(&gram).unwrap().0, &rows);
        }
    });
}

#[test]
fn stacked_triangles_equal_the_triangle_of_all_rows() {
    each_set(|_| {
        for (n, m, p) in SHAPES {
            let rows = well_conditioned(n, m, p);
            for cut in [0, 1, n / 3, n] {
                let a = factor(m, p, &rows, 0..cut.min(n));
                let b = factor(m, p, &rows, cut.min(n)..n);
                assert_same_products(&stack(a.clone(), b.clone()), &rows);
                assert_same_products(&stack(b, a), &rows);
            }
        }
    });
}

/// Rows of which row `i` begins with `i` zeros, and which say so.
struct Stepped(Made);

impl Source for Stepped {
    fn rows(&self) -> usize {
        self.0.n()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        self.0.fill(from, out);
    }

    fn zeros(&self, from: usize) -> usize {
        from
    }
}

#[test]
fn zeros_that_are_known_are_skipped_and_change_no_bit() {
    let (m, p) = (521, 2);
    let mut rows = well_conditioned(m, m, p);
    for (i, row) in rows.cells.chunks_exact_mut(m + p).enumerate() {
        row[..i].fill(0.0);
    }
    each_set(|set| {
        for threads in [1, 3] {
            let (mut all, mut some) = (Gram::new(m, p), Gram::new(m, p));
            with_threads(threads, || {
                all.add(&rows, 0..m);
                some.add(&Stepped(rows.clone()), 0..m);
            });
            assert!(all == some, "{set}, {threads} threads");
        }
    });
}

#[test]
fn products_in_single_precision_are_off_by_no_more_than_their_rounding() {
    for (n, m, p) in SHAPES.into_iter().chain([BANDS]) {
        let rows = well_conditioned(n, m, p);
        let (truth, width) = (products(&rows), m + p);
        each_set(|set| {
            // Powers of two as units: the first columns are rounded as they are, others far from 1.
            let units: Vec<f64> = (0..m).map(|j| 2f64.powi([0, 3, -40][j % 3])).collect();
            let mut gram = Gram::new(m, p);
            Mixed { units: &units }.add(&mut gram, &rows, 0..n);
            let near = |got: f64, i: usize, j: usize, share: f64| {
                let size = (truth[i * width + i] * truth[j * width + j]).sqrt();
                let error = (got - truth[i * width + j]).abs();
                assert!(error <= share * size, "{set} {n} × {m}: ({i}, {j}) off by {error:e}");
            };
            // Each factor is off by half a unit, each of the sums of up to 168 products by as many.
            let single = f64::from(f32::EPSILON) / 2.0 * (2.0 + n.min(168) as f64);
            for i in 0..m {
                (i..m).for_each(|j| near(gram.xx(i, j), i, j, single + n as f64 * EPS));
                (0..p).for_each(|k| near(gram.xy(i, k), i, m + k, (n + 4) as f64 * EPS));
            }
            (0..p).for_each(|k| near(gram.yy(k), m + k, m + k, (n + 4) as f64 * EPS));
        });
    }
}

/// Means of all columns, with an error of their own, would leave a direction with a negative square where there are fewer rows than
/// columns; it grows with the number of columns, and no small lift makes up for it.
#[test]
fn single_precision_sums_of_fewer_rows_than_columns_are_positive_definite() {
    let (n, m) = (300, 1200);
    let mut rows = well_conditioned(n, m, 1);
    for row in rows.cells.chunks_exact_mut(m + 1) {
        row[0] = 1.0;
        row[1..m].iter_mut().for_each(|x| *x = x.abs());
    }
    let rounded = |x: f64| f64::from(x as f32);
    let cells = |j: usize| rows.cells.iter().skip(j).step_by(m + 1).map(|x| rounded(*x));
    each_set(|set| {
        let mut gram = Gram::new(m, 1);
        Mixed { units: &vec![1.0; m] }.add(&mut gram, &rows, 0..n);
        for j in [0, 1, 7, 8, 15, 16, 700, m - 1] {
            // All of one sign: sums of n numbers lose at most n half units.
            let truth: f64 = cells(j).sum();
            let error = (gram.xx(0, j) - truth).abs();
            assert!(error <= n as f64 * EPS * truth, "{set}: column {j} is off by {error:e}");
        }
        // What `mixed` raises squares by.
        gram.lift(1, 2.0 * f64::from(f32::EPSILON) * (m as f64).sqrt());
        assert!(decompose(&gram).is_some(), "{set}: not positive definite");
    });
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    each_set(|set| {
        // Wide enough for threads to share filling, packing, rounding, columns and tiles.
        for (n, m, p) in [(200, 790, 3), (700, 131, 1)] {
            let rows = well_conditioned(n, m, p);
            let units = vec![1.0; m];
            let found = [1, 2, 3].map(|threads| {
                with_threads(threads, || {
                    let (mut sums, mut mixed) = (Gram::new(m, p), Gram::new(m, p));
                    sums.add(&rows, 0..n);
                    Mixed { units: &units }.add(&mut mixed, &rows, 0..n);
                    mixed.lift(0, 0.1);
                    let root = decompose(&mixed).map(|(triangle, _)| triangle);
                    (sums, mixed, root, factor_all(&rows))
                })
            });
            assert!(found[0] == found[1], "{set} {n} × {m}: two threads differ from one");
            assert!(found[0] == found[2], "{set} {n} × {m}: three threads differ from one");
        }
        let rows = made::correlated(2800, 390, 2, 1e3);
        let found = [1, 2, 3].map(|threads| with_threads(threads, || factor_all(&rows)));
        assert!(found[0] == found[1] && found[0] == found[2], "{set}: by a sketch");
    });
}

#[test]
fn the_same_rows_give_the_same_bits() {
    for condition in [1.0, 1e4, 1e9] {
        let rows = made::with_condition(600, 37, condition, 0.1, 5);
        let (a, b) = (factor_all(&rows), factor_all(&rows));
        let bits = |t: &Triangle| t.cells.iter().map(|c| c.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&a), bits(&b));
    }
}

#[test]
fn solutions_are_as_near_to_the_truth_as_householders() {
    for (n, m) in [(400, 20), (900, 64)] {
        for power in 0..=8 {
            for (noise, seed) in [(0.1, 1), (1e-9, 2), (3.0, 3)] {
                let rows = made::with_condition(n, m, 10f64.powi(power), noise, seed);
                let truth = least_squares(&rows.cells, m);
                let faer = distance(&solve_by_faer(&rows), &truth);
                each_set(|set| {
                    let ours = distance(&solve(&factor_all(&rows)), &truth);
                    println!("{set} m={m} 1e{power} noise {noise:e}: {ours:.1e} faer {faer:.1e}");
                    assert!(ours <= 20.0 * faer.max(m as f64 * EPS), "{ours:e} against {faer:e}");
                });
            }
        }
    }
}

#[test]
fn solutions_by_a_sketch_are_as_near_to_the_truth_as_householders() {
    for seed in 0..12 {
        let m = [1, 2, 7, 16, 31, 50][seed % 6];
        let n = (3 + 2 * seed) * (2 * m + 128) + 31 * seed;
        for power in [0, 1, 2, 4, 6, 7, 10].into_iter().take(if m > 1 { 7 } else { 1 }) {
            let noise = [0.1, 1e-9, 3.0][seed % 3];
            let rows = made::with_condition(n, m.max(2), 10f64.powi(power), noise, seed as u64);
            let truth = least_squares(&rows.cells, rows.m);
            let faer = distance(&solve_by_faer(&rows), &truth);
            each_set(|set| {
                let found = factor_all(&rows);
                if power > 7 {
                    // No sums are used: how far it is off is Householder's luck.
                    return assert_eq!(found, factor::by_reflections(rows.m, 1, &rows, 0..n));
                }
                let ours = distance(&solve(&found), &truth);
                println!("{set} {n} × {m} 1e{power} noise {noise:e}: {ours:.1e} faer {faer:.1e}");
                assert!(ours <= 20.0 * faer.max(m as f64 * EPS), "{ours:e} against {faer:e}");
            });
        }
    }
}

#[test]
fn rows_that_a_sketch_may_miss_keep_their_products() {
    each_set(|_| {
        let (n, m) = (900, 30);
        let plain = made::correlated(n, m, 2, 1e3);
        let width = m + 2;
        let changed = |change: fn(usize, &mut [f64])| {
            let mut rows = plain.clone();
            rows.cells.chunks_exact_mut(width).enumerate().for_each(|(i, row)| change(i, row));
            rows
        };
        for rows in [
            // One row outweighs all others; it alone has a feature; so do some neighbours, or every 37th row.
            changed(|i, row| row.iter_mut().for_each(|v| *v *= if i == 500 { 1e6 } else { 1.0 })),
            changed(|i, row| row[29] = if i == 899 { 1.0 } else { 0.0 }),
            changed(|i, row| (0..20).for_each(|j| row[j] = f64::from(i == 400 + j))),
            changed(|i, row| (0..20).for_each(|j| row[j] = f64::from(i == 37 * j))),
            // A constant, and a feature of two values in sorted rows.
            changed(|i, row| (row[0], row[1]) = (1.0, f64::from(i > 600))),
        ] {
            assert_same_products(&factor_all(&rows), &rows);
        }
        // A few rows, over and over: at once, and in turns as long as a block.
        for times in [1, 20, 225] {
            let mut rows = plain.clone();
            let row = |i: usize| i / times % 45;
            rows.cells =
                (0..n).flat_map(|i| plain.cells[row(i) * width..][..width].to_vec()).collect();
            assert_same_products(&factor_all(&rows), &rows);
        }
    });
}

#[test]
fn where_a_sketch_fails_it_is_repaired_or_not_used() {
    let (n, m, p) = (900, 20, 1);
    let plain = made::correlated(n, m, p, 1e3);
    let size = Sketch::new(m, p, &plain, 0..n).unwrap().rows();
    // Where a row goes, by a source that has no other.
    let place = |i: usize| {
        let mut rows = Made { cells: vec![0.0; n * (m + p)], m, p };
        rows.cells[i * (m + p)] = 1.0;
        let mut cells = vec![0.0; size * (m + p)];
        Sketch::new(m, p, &rows, 0..n).unwrap().fill(0, &mut cells);
        let found: Vec<usize> = (0..size).filter(|t| cells[t * (m + p)].abs() > 0.0).collect();
        assert_eq!(found.len(), 1, "row {i} is in one row of the sketch");
        found[0]
    };
    let meets = (size..n).find(|&i| place(i) == place(5)).unwrap();
    each_set(|set| {
        // Two features that only two rows have, which the sketch has in one: apart from a small part, it sees one feature.
        for small in [0.0, 1e-4, 1e-9] {
            let mut rows = plain.clone();
            for (i, row) in rows.cells.chunks_exact_mut(m + p).enumerate() {
                row[3] = small * row[13] * 1e-3 + f64::from(i == 5);
                row[8] = small * row[18] * row[17] * 1e-6 + f64::from(i == meets);
            }
            let sketch = Sketch::new(m, p, &rows, 0..n).unwrap();
            let mut sums = Gram::new(m, p);
            sums.add(&sketch, 0..size);
            let found = factor::by_sketch(m, p, &rows, 0..n, &sketch);
            if small > 1e-5 {
                let first = decompose(&sums).unwrap().0;
                let missed = decompose(&factor::whitened(&first, &rows, 0..n)).unwrap().1;
                assert!(missed > 10.0, "{set}: {missed}");
                assert_same_products(&found.unwrap(), &rows);
            } else {
                assert!(found.is_none(), "{set}: {small:e}");
            }
            assert_same_products(&factor_all(&rows), &rows);
        }
    });
}

#[test]
fn solutions_of_stacked_pieces_are_as_near_to_the_truth() {
    for power in [0, 3, 6, 8] {
        let rows = made::with_condition(1600, 30, 10f64.powi(power), 0.1, 9);
        let truth = least_squares(&rows.cells, 30);
        let pieces = (0..1600).step_by(100).map(|from| factor(30, 1, &rows, from..from + 100));
        let sum = pieces.fold(Triangle::empty(30, 1), stack);
        let (ours, faer) =
            (distance(&solve(&sum), &truth), distance(&solve_by_faer(&rows), &truth));
        println!("stacked, cond 1e{power}: ours {ours:.1e} faer {faer:.1e}");
        assert!(ours <= 50.0 * faer.max(30.0 * EPS), "{ours:e} against {faer:e}");
    }
}

#[test]
fn zero_columns_give_zero_rows_and_disturb_nobody() {
    each_set(|_| {
        for (n, common) in [(500, 0.0), (500, 1e3), (700, 0.0), (700, 1e3)] {
            let mut rows = made::correlated(n, 21, 2, common);
            for row in rows.cells.chunks_exact_mut(23) {
                row[0] = 0.0;
                row[7] = 0.0;
                row[20] = 0.0;
                row[22] = 0.0;
            }
            let triangle = factor_all(&rows);
            assert_same_products(&triangle, &rows);
            for i in [0, 7, 20] {
                assert!(triangle.cells[i * 23..(i + 1) * 23].iter().all(|r| r.abs() <= 0.0));
            }
        }
    });
}

#[test]
fn equal_columns_keep_their_products() {
    each_set(|_| {
        let mut rows = well_conditioned(300, 12, 1);
        for row in rows.cells.chunks_exact_mut(13) {
            row[5] = row[2];
            row[11] = row[0] + row[1];
        }
        assert_same_products(&factor_all(&rows), &rows);
    });
}

#[test]
fn columns_of_any_scale_give_the_scaled_triangle() {
    each_set(|_| {
        for (n, m) in [(300, 6), (4, 6), (2500, 50)] {
            let plain = well_conditioned(n, m, 2);
            let mut rows = plain.clone();
            let powers: Vec<i32> = (0..m + 2).map(|j| [500, -500, 0][j % 3]).collect();
            let width = m + 2;
            for row in rows.cells.chunks_exact_mut(width) {
                for (cell, power) in row.iter_mut().zip(&powers) {
                    *cell *= 2f64.powi(*power);
                }
            }
            let triangle = factor_all(&rows);
            let half = factor(m, 2, &rows, 0..n / 2);
            let other = factor(m, 2, &rows, n / 2..n);
            for mut triangle in [stack(half, other), triangle] {
                assert!(triangle.cells.iter().all(|c| c.is_finite()));
                for row in triangle.cells.chunks_exact_mut(width) {
                    for (cell, power) in row.iter_mut().zip(&powers) {
                        *cell *= 2f64.powi(-*power);
                    }
                }
                for (rest, power) in triangle.residual.iter_mut().zip(&powers[m..]) {
                    *rest = *rest * 2f64.powi(-*power) * 2f64.powi(-*power);
                }
                assert_same_products(&triangle, &plain);
            }
        }
    });
}

#[test]
fn a_large_mean_costs_no_more_than_with_householder() {
    each_set(|_| {
        for mean in [1e3, 1e6, 1e8] {
            let mut rows = well_conditioned(500, 3, 1);
            for row in rows.cells.chunks_exact_mut(4) {
                row[0] = 1.0;
                row[1] += mean;
                row[3] += row[1] - mean + 0.5 * row[2];
            }
            let truth = least_squares(&rows.cells, 3);
            let ours = distance(&solve(&factor_all(&rows)), &truth);
            let faer = distance(&solve_by_faer(&rows), &truth);
            println!("mean {mean:e}: ours {ours:.1e} faer {faer:.1e}");
            assert!(ours <= 20.0 * faer.max(3.0 * EPS), "{ours:e} against {faer:e}");
        }
    });
}

#[test]
fn an_exact_fit_leaves_a_residual_of_rounding_only() {
    each_set(|_| {
        for power in [0, 2, 4, 6, 8] {
            let rows = made::with_condition(800, 24, 10f64.powi(power), 0.0, 4);
            let triangle = factor_all(&rows);
            let yy = products(&rows)[25 * 25 - 1];
            // The target itself is rounded: ε/2 of its size per row. Householder gives a few m ε.
            let bound = (24.0 * EPS).powi(2) * yy;
            assert!(triangle.residual[0] <= bound, "{:e} beyond {bound:e}", triangle.residual[0]);
        }
    });
}

#[test]
fn sums_that_overflow_have_no_triangle_and_rows_that_vanish_still_have_one() {
    each_set(|_| {
        let mut rows = well_conditioned(64, 3, 1);
        rows.cells.iter_mut().for_each(|c| *c *= 1e200);
        let mut gram = Gram::new(3, 1);
        gram.add(&rows, 0..64);
        assert!(decompose(&gram).is_none());
        assert!(factor_all(&rows).cells.iter().all(|c| c.is_finite()));
        rows.cells.iter_mut().for_each(|c| *c = *c * 1e-200 * 1e-200);
        assert!(factor_all(&rows).cells[0] > 1e-200);
        assert!(factor_all(&rows).cells[0] < 1e-198);
        let huge = Made { cells: vec![1.7e308; 400], m: 3, p: 1 };
        assert!(factor_all(&huge).cells.iter().all(|c| !c.is_nan()));
        let least = Made { cells: vec![5e-324; 400], m: 3, p: 1 };
        assert!(factor_all(&least).cells.iter().all(|c| !c.is_nan()));
    });
}

/// Rows in memory, with an intercept and less a shift, as a source that hands them over as they lie.
struct Lying {
    intercept: bool,
    x: Vec<f64>,
    y: Vec<f64>,
    /// The same targets, where they are indicators.
    codes: Option<Vec<u32>>,
    shift: Vec<f64>,
    /// The same rows, laid out.
    laid: Made,
    hands_over: bool,
}

impl Source for Lying {
    fn rows(&self) -> usize {
        self.laid.n()
    }

    fn plain(&self) -> Option<Plain<'_>> {
        let Self { intercept, x, y, codes, shift, .. } = self;
        let y = match codes {
            Some(codes) => PlainTargets::Indicators(codes),
            None => PlainTargets::Numbers(y),
        };
        self.hands_over.then_some(Plain { intercept: *intercept, x, y, shift })
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        self.laid.fill(from, out);
    }
}

#[test]
fn rows_packed_from_where_they_lie_give_the_same_bits() {
    let widths = [0, 1, 6, 7, 8, 9, 15, 16, 17, 63, 70, 130, 200];
    let few = widths.into_iter().flat_map(|m| [(m, 1, 400), (m, 9, 171), (m, 2, 3)]);
    // So many rows of a common part that a sketch of them is taken.
    for (features, p, n) in few.chain([(1, 1, 700), (15, 9, 700), (70, 2, 1100)]) {
        for (intercept, shifted) in [(false, false), (true, false), (true, true)] {
            let m = features + usize::from(intercept);
            if m == 0 {
                continue;
            }
            let rows = made::correlated(n, features, p, if n < 700 { 0.0 } else { 1e3 });
            let first = rows.cells[..features + p].iter();
            let none = std::iter::repeat_n(0.0, usize::from(intercept));
            let shift: Vec<f64> =
                if shifted { none.chain(first.copied()).collect() } else { Vec::new() };
            let (mut x, mut y, mut laid) = (Vec::new(), Vec::new(), Vec::new());
            for row in rows.cells.chunks_exact(features + p) {
                x.extend_from_slice(&row[..features]);
                y.extend_from_slice(&row[features..]);
                let start = laid.len();
                laid.extend(
                    std::iter::repeat_n(1.0, usize::from(intercept)).chain(row.iter().copied()),
                );
                laid[start..].iter_mut().zip(&shift).for_each(|(cell, less)| *cell -= less);
            }
            let laid = Made { cells: laid, m, p };
            let mut lying = Lying { intercept, x, y, codes: None, shift, laid, hands_over: true };
            each_set(|set| {
                let sums = |source: &Lying| {
                    let mut sums = Gram::new(m, p);
                    sums.add(source, 2..n);
                    (sums, factor(m, p, source, 0..n))
                };
                lying.hands_over = true;
                let there = sums(&lying);
                lying.hands_over = false;
                assert!(there == sums(&lying), "{set}: {n} × {m} and {p} targets, {shifted}");
            });
        }
    }
}

/// As numbers, as the place of the 1 in each row, and filled in row after row.
#[test]
fn indicators_give_the_same_bits_however_they_are_told() {
    for (features, p, n) in
        [(7, 1, 300), (7, 2, 300), (20, 9, 171), (70, 17, 900), (400, 30, 500), (15, 9, 1400)]
    {
        let m = features + 1;
        let rows = made::correlated(n, features, 1, if n < 1400 { 0.0 } else { 1e3 });
        let x: Vec<f64> =
            rows.cells.chunks_exact(m).flat_map(|row| row[..features].to_vec()).collect();
        let codes: Vec<u32> = (0..n).map(|i| (i * i % 31 % p) as u32).collect();
        let mut y = vec![0.0; n * p];
        y.chunks_exact_mut(p).zip(&codes).for_each(|(row, code)| row[*code as usize] = 1.0);
        // About the first row, whose class is then −1 in most others; and about no class.
        for target in [1.0, 0.0] {
            let mut shift = vec![0.0; m + p];
            shift[1..m].copy_from_slice(&x[..features]);
            shift[m + codes[0] as usize] = target;
            let mut laid = Vec::new();
            for (x, y) in x.chunks_exact(features).zip(y.chunks_exact(p)) {
                let row = std::iter::once(&1.0).chain(x).chain(y);
                laid.extend(row.zip(&shift).map(|(cell, less)| cell - less));
            }
            let laid = Made { cells: laid, m, p };
            let (x, y, codes) = (x.clone(), y.clone(), Some(codes.clone()));
            let mut lying = Lying { intercept: true, x, y, codes, shift, laid, hands_over: true };
            each_set(|set| {
                let told = |source: &Lying, threads| {
                    with_threads(threads, || {
                        let mut sums = Gram::new(m, p);
                        sums.add(source, 2..n);
                        (sums, factor(m, p, source, 0..n))
                    })
                };
                lying.hands_over = true;
                let places = told(&lying, 1);
                assert!(places == told(&lying, 3), "{set}: {n} × {m}, {p} classes, threads");
                let codes = lying.codes.take();
                assert!(places == told(&lying, 1), "{set}: {n} × {m}, {p} classes");
                lying.hands_over = false;
                assert!(places == told(&lying, 1), "{set}: {n} × {m}, {p} classes, filled");
                lying.codes = codes;
            });
        }
    }
}

#[test]
fn sums_that_tell_rows_apart_are_the_same_with_every_instruction_set() {
    let rows = well_conditioned(37, 21, 0);
    let keys: CellKeys = (0..21).map(|j| [0x9e37_79b9_u64.wrapping_mul(j + 1) << 7, !j]).collect();
    let mut found: Vec<Vec<[u64; 2]>> = Vec::new();
    each_set(|_| {
        let mut sums = Vec::new();
        row_sums(&rows.cells, 21, &keys, |i, sum| {
            assert_eq!(i, sums.len());
            sums.push(sum);
        });
        found.push(sums);
    });
    assert!(found.iter().all(|sums| *sums == found[0] && sums.len() == 37));
    // Zero of either sign is nothing.
    assert_eq!([cell_sums(0.0, [7, 9]), cell_sums(-0.0, [7, 9])], [[0; 2]; 2]);
    assert_ne!(cell_sums(1.0, [7, 9]), cell_sums(2.0, [7, 9]));
}
