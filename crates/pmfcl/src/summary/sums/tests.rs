use super::*;
use crate::basis::Design;
use crate::error::Error;
use crate::rows::Rows;
use crate::summary::{Accumulator, Summarizer};

fn draw(i: usize) -> f64 {
    ((i as f64 * 12.9898).sin() * 43_758.547).fract()
}

/// Rows about `mean`, the last column dependent on others: as a triangle of factors, and as sums.
fn both(n: usize, mean: f64, seed: usize) -> (Summary, Summary) {
    let (d, p) = (6, 2);
    let mut x: Vec<f64> = (0..n * d).map(|i| mean + draw(seed + i)).collect();
    x.chunks_exact_mut(d).for_each(|row| row[5] = row[0] - row[3]);
    let y: Vec<f64> = (0..n * p).map(|i| draw(9000 + seed + i) + x[i / p * d]).collect();
    let made = |accumulator| {
        let design = Design::linear(d, true).unwrap();
        let mut s = Summarizer::new(design, p, accumulator).unwrap();
        s.add(Rows::new(&x, d).unwrap(), Rows::new(&y, p).unwrap(), None).unwrap();
        s
    };
    let factors = made(Accumulator::Qr).finish().unwrap();
    let mut rows = vec![0.0; n * (1 + d + p)];
    for ((row, x), y) in rows.chunks_exact_mut(1 + d + p).zip(x.chunks(d)).zip(y.chunks(p)) {
        row[0] = 1.0;
        row[1..=d].copy_from_slice(x);
        row[1 + d..].copy_from_slice(y);
    }
    // About a row near the mean, as a summarizer does.
    let shift: Vec<f64> = (0..1 + d + p).map(|j| if j > 0 { rows[j] } else { 0.0 }).collect();
    let mut gram = Gram::new(1 + d, p);
    for row in rows.chunks_exact(1 + d + p) {
        let near: Vec<f64> = row.iter().zip(&shift).map(|(v, s)| v - s).collect();
        gram.add_outer(&near, 1.0);
    }
    let sums = Sums::new(gram, &shift, Some(n as u64));
    let sums = Summary::of_sums(n as f64, factors.target_sum.clone(), sums).unwrap();
    (factors, sums)
}

fn assert_near(sums: &Summary, factors: &Summary, digits: f64) {
    assert_eq!(sums.pivots().collect::<Vec<_>>(), factors.pivots().collect::<Vec<_>>());
    assert!((sums.n - factors.n).abs() <= 1e-12 * factors.n);
    let scale: Vec<f64> = factors.column_squares().iter().map(|s| s.sqrt()).collect();
    for i in 0..factors.rank() {
        let ((pivot, r, z), (_, r2, z2)) = (factors.row(i), sums.row(i));
        for (j, (a, b)) in r.iter().zip(r2).enumerate() {
            assert!((a - b).abs() <= digits * scale[pivot + j], "{i} {j}: {a} {b}");
        }
        for (a, b) in z.iter().zip(z2) {
            assert!((a - b).abs() <= digits * factors.squares(0).sqrt(), "{i}: {a} {b}");
        }
    }
    for (a, b) in factors.residual().iter().zip(sums.residual()) {
        assert!((a - b).abs() <= 1e-7 * (1.0 + a), "{a} {b}");
    }
    for (a, b) in factors.target_sums().iter().zip(sums.target_sums()) {
        assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{a} {b}");
    }
}

#[test]
fn the_triangle_of_sums_is_that_of_the_rows() {
    for (n, mean) in [(50, 0.0), (50, 1e6), (4, 3.0), (1, 2.0)] {
        let (factors, sums) = both(n, mean, 1);
        assert!(sums.is_summed() && !factors.is_summed());
        assert_near(&sums, &factors, 1e-8);
        let theta = crate::solve::any_minimizer(&factors).unwrap();
        let (a, b) = (sums.loss(&theta).unwrap(), factors.loss(&theta).unwrap());
        assert!((a - b).abs() <= 1e-7 * (1.0 + b), "{a} {b}");
        for (a, b) in sums.variances(1).iter().zip(factors.variances(1)) {
            assert!((a - b).abs() <= 1e-7 * (1.0 + b), "{a} {b}");
        }
    }
}

/// Rows less a shift, as a summarizer hands them over.
struct Shifted<'a> {
    rows: &'a [f64],
    shift: &'a [f64],
}

impl Source for Shifted<'_> {
    fn rows(&self) -> usize {
        self.rows.len() / self.shift.len()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let shift = self.shift.iter().cycle();
        let rows = &self.rows[from * self.shift.len()..];
        out.iter_mut().zip(rows).zip(shift).for_each(|((out, v), s)| *out = v - s);
    }
}

/// `n` rows of 6 features about `mean`, the third of which is constant, and two targets; and what is subtracted from them.
fn few(n: usize, mean: f64) -> (Vec<f64>, Vec<f64>) {
    let cell = |i: usize, j: usize| match j {
        0 => 1.0,
        3 => mean,
        _ => mean + draw(31 * i + j),
    };
    let rows: Vec<f64> = (0..n).flat_map(|i| (0..9).map(move |j| cell(i, j))).collect();
    let shift = (0..9).map(|j| if j > 0 { rows[j] } else { 0.0 }).collect();
    (rows, shift)
}

/// The same rows: kept as they are, and their sums made at once.
fn kept_and_made(n: usize, mean: f64, single: bool) -> (Sums, Sums) {
    let (rows, shift) = few(n, mean);
    let source = Shifted { rows: &rows, shift: &shift };
    let units = vec![1.0; 7];
    let mut gram = Gram::new(7, 2);
    gram.add(&source, 0..n);
    let mut made = Sums::new(gram, &shift, Some(n as u64));
    let lift = single.then(|| {
        made.rest.gram_mut().lift(1, 1e-3);
        (units, 1e-3)
    });
    (Sums::of_few(&source, (7, 2), &shift, lift), made)
}

fn assert_same(a: &Sums, b: &Sums, digits: f64) {
    for (a, b) in a.first.iter().zip(&b.first) {
        assert!((a - b).abs() <= digits * (1.0 + b.abs()), "first row: {a} {b}");
    }
    for j in 0..7 {
        assert!((a.xx(j) - b.xx(j)).abs() <= digits * (1.0 + b.xx(j)), "{j}");
        for i in 0..=j {
            let (a, b) = (a.rest().xx(i, j), b.rest().xx(i, j));
            assert!((a - b).abs() <= digits * 50.0, "{i} {j}: {a} {b}");
        }
        for k in 0..2 {
            let (a, b) = (a.rest().xy(j, k), b.rest().xy(j, k));
            assert!((a - b).abs() <= digits * 50.0, "{j} {k}: {a} {b}");
        }
    }
    (0..2).for_each(|k| assert!((a.yy(k) - b.yy(k)).abs() <= digits * (1.0 + b.yy(k)), "{k}"));
    assert_eq!((a.rows, a.most_rank()), (b.rows, b.most_rank()));
}

#[test]
fn few_rows_stand_for_their_sums() {
    for (n, mean) in [(1, 2.0), (4, 5.0), (40, 0.0), (33, 1e6), (70, 3.0)] {
        let (rows, made) = kept_and_made(n, mean, false);
        let (a, b) = (rows.echelon(), made.echelon());
        assert_eq!(a.pivots, b.pivots, "{n} {mean}");
        assert!(a.pivots.len() <= n);
        // Centred about a row, and about the mean: both lose the digits of what cancels there.
        let digits = 1e-15 * (1.0 + mean) * (1.0 + mean).min(1e3);
        let digits = digits.max(1e-13);
        assert!(matches!(rows.rest, Rest::Rows(_)) && rows.is_finite());
        assert!(rows.xx(0) == 0.0 && rows.xx(3) == 0.0, "a column that does not vary");
        let theta: Vec<f64> = (0..7).map(|j| draw(400 + j)).collect();
        for k in 0..2 {
            let (a, b) = (rows.squared_errors(k, &theta), made.squared_errors(k, &theta));
            assert!((a - b).abs() <= 1e-9 * (1.0 + b), "{n} {mean}: {a} {b}");
        }
        let swapped = |k: usize| [Some(1), None, Some(0)][k];
        assert_same(&rows.clone(), &made, digits);
        let (a, b) = (rows.with_targets(3, swapped), made.with_targets(3, swapped));
        assert!(matches!(a.rest, Rest::Rows(_)));
        for k in 0..3 {
            assert!((a.yy(k) - b.yy(k)).abs() <= digits * (1.0 + b.yy(k)), "{k}");
            let (a, b) = (a.rest().xy(1, k), b.rest().xy(1, k));
            assert!((a - b).abs() <= digits * 50.0, "{k}: {a} {b}");
        }
        for factor in [1.0, 0.3] {
            let (mut a, mut b) = (made.clone(), made.clone());
            let (other_rows, other) = kept_and_made(25, mean, false);
            a.add(&other_rows, factor);
            b.add(&other, factor);
            assert_same(&a, &b, digits);
            let mut scaled = other_rows;
            scaled.scale(factor);
            let mut expected = other;
            expected.scale(factor);
            assert_same(&scaled, &expected, digits);
        }
        assert_same(&rows, &made, digits);
    }
}

#[test]
fn few_rows_in_single_precision_are_raised_by_as_much() {
    let (rows, made) = kept_and_made(60, 3.0, true);
    // Products of numbers below 1, rounded to 2⁻²⁴ of themselves.
    assert_same(&rows, &made, 1e-6);
    let theta: Vec<f64> = (0..7).map(|j| draw(400 + j)).collect();
    let (a, b) = (rows.squared_errors(0, &theta), made.squared_errors(0, &theta));
    assert!((a - b).abs() <= 1e-6 * b, "{a} {b}");
}

#[test]
fn the_largest_direction_of_few_rows_is_hardly_understated() {
    for n in [2, 40, 90] {
        let (rows, _) = kept_and_made(n, 1.0, false);
        let gram = rows.rest();
        let scale = |j: usize| if gram.xx(j, j) > 0.0 { gram.xx(j, j).sqrt() } else { 1.0 };
        let cell = |i: usize, j: usize| gram.xx(i.min(j), i.max(j)) / (scale(i) * scale(j));
        let all = faer::Mat::from_fn(6, 6, |i, j| cell(i + 1, j + 1));
        let expected = all.self_adjoint_eigenvalues(faer::Side::Lower).unwrap();
        let expected = expected.last().unwrap();
        let found = rows.largest();
        assert!((0.9 * expected..=2.1 * expected + 1.0).contains(&found), "{n}: {found}");
    }
}

#[test]
fn threads_change_no_bit_of_few_rows() {
    let (rows, shift) = few(300, 3.0);
    let source = Shifted { rows: &rows, shift: &shift };
    let made = |threads| {
        let sums = || Sums::of_few(&source, (7, 2), &shift, None);
        let sums = crate::kernel::with_threads(threads, sums);
        (sums.first.clone(), sums.rest().clone(), sums.largest().to_bits())
    };
    assert_eq!(made(1), made(2));
    assert_eq!(made(1), made(3));
}

#[test]
fn sums_merge_with_sums_and_with_triangles() {
    let ((a, a_sums), (b, b_sums)) = (both(40, 1e3, 1), both(30, 1e3 + 5.0, 700));
    let expected = a.merge(&b).unwrap();
    for (left, right) in [(&a_sums, &b_sums), (&a_sums, &b), (&a, &b_sums), (&b_sums, &a_sums)] {
        let merged = left.merge(right).unwrap();
        assert!(merged.is_summed());
        assert_near(&merged, &expected, 1e-8);
    }
    let scaled = a_sums.scale(0.3).unwrap().merge(&b_sums.scale(2.0).unwrap()).unwrap();
    let expected = a.scale(0.3).unwrap().merge(&b.scale(2.0).unwrap()).unwrap();
    assert_near(&scaled, &expected, 1e-8);
    let parts = [(&a_sums, 0.3), (&b, 2.0)];
    let pooled = super::super::pool(7, 2, parts.into_iter()).unwrap();
    assert_near(&pooled, &expected, 1e-8);
    // Rows with single entries, as those of a penalty.
    let penalty = Summary::diagonal(7, 2, (1..7).map(|j| (j, 0.5 + j as f64, 0.25)));
    assert_near(&a_sums.merge(&penalty).unwrap(), &a.merge(&penalty).unwrap(), 1e-8);
}

#[test]
fn targets_of_sums_move_as_those_of_triangles() {
    let (factors, sums) = both(40, 2.0, 3);
    let pairs = [
        (sums.extend_targets(1, 2), factors.extend_targets(1, 2)),
        (sums.rearrange_targets(&[3, 0], 4), factors.rearrange_targets(&[3, 0], 4)),
        (sums.choose_targets(&[1]), factors.choose_targets(&[1])),
    ];
    for (a, b) in pairs {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a.is_summed());
        assert_near(&a, &b, 1e-8);
    }
    let wider = sums.extend_features(3, 2).unwrap();
    assert_near(&wider, &factors.extend_features(3, 2).unwrap(), 1e-8);
}

#[test]
fn what_a_summary_takes_does_not_depend_on_whether_the_triangle_was_asked_for() {
    let (_, sums) = both(40, 2.0, 3);
    let (bytes, rank) = (sums.nbytes(), sums.rank_at_most());
    assert_eq!((rank, sums.rank(), sums.rank_at_most()), (7, 6, 6));
    assert_eq!(sums.nbytes(), bytes);
    let back = Summary::from_bytes(&sums.to_bytes()).unwrap();
    assert_eq!(back, sums);
    assert!(!back.is_summed());
}

#[test]
fn sums_are_added_where_they_are_and_shared_ones_are_left_alone() {
    for seed in [2, 3] {
        let (factors, sums) = both(50, 3.0, 1);
        let (triangle, more) = both(30, 3.0, seed);
        for other in [&more, &triangle] {
            let shared = sums.clone();
            let expected = sums.merge(other).unwrap();
            assert_eq!(shared.merged(other).unwrap(), expected);
            assert_eq!(sums, both(50, 3.0, 1).1, "somebody else has them");
            let own = both(50, 3.0, 1).1;
            assert_eq!(own.merged(other).unwrap(), expected);
            assert_near(&expected, &factors.merge(&triangle).unwrap(), 1e-12);
            assert_eq!(factors.clone().merged(other).unwrap(), factors.merge(other).unwrap());
        }
    }
    let narrow = Summary::empty(3, 2);
    assert!(both(50, 3.0, 1).1.merged(&narrow).is_err());
}

#[test]
fn sums_are_kept_bit_for_bit() {
    for (n, mean) in [(50, 0.0), (50, 1e6), (4, 3.0), (1, 2.0)] {
        let (factors, sums) = both(n, mean, 1);
        let bytes = sums.to_kept_bytes();
        let back = Summary::from_kept_bytes(&bytes).unwrap();
        let (a, b) = (sums.sums().unwrap(), back.sums().unwrap());
        assert_eq!((&a.first, a.rest(), a.rows), (&b.first, b.rest(), b.rows));
        assert_eq!((back.n, &back.target_sum), (sums.n, &sums.target_sum));
        assert_eq!(back.to_kept_bytes(), bytes);
        assert_eq!(back, sums);
        let of_auto = Sums { decision: Decision::LargestFirst, ..a.clone() };
        let of_auto = Summary::of_sums(sums.n, sums.target_sum.clone(), of_auto).unwrap();
        let back = Summary::from_kept_bytes(&of_auto.to_kept_bytes()).unwrap();
        assert!(back.sums().unwrap().is_shrunk());
        // A triangle is kept as one, and only a file may hold sums.
        assert_eq!(factors.to_kept_bytes(), factors.to_bytes());
        assert_eq!(Summary::from_kept_bytes(&factors.to_bytes()).unwrap(), factors);
        assert!(matches!(Summary::from_bytes(&bytes), Err(Error::Bytes { .. })));
    }
}

#[test]
fn kept_sums_that_were_changed_are_refused() {
    let (_, sums) = both(50, 3.0, 1);
    let bytes = sums.to_kept_bytes();
    let refused = |bytes: &[u8]| {
        matches!(Summary::from_kept_bytes(bytes), Err(Error::Bytes { .. } | Error::Overflow { .. }))
    };
    for cut in 0..bytes.len() {
        assert!(refused(&bytes[..cut]), "{cut} bytes were accepted");
    }
    for at in 0..8 * bytes.len() {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(refused(&changed), "bit {at} was changed");
    }
    // With a checksum that is right: what is not finite, negative squares, products that no rows have, impossible sizes.
    let numbers = 36;
    let (m, p) = (sums.m, sums.p);
    let products = numbers + 8 * (m + p);
    let number = |v: f64| v.to_le_bytes().to_vec();
    for (at, new) in [
        (20, number(f64::NAN)),
        (20, number(-1.0)),
        (numbers, number(-1.0)),
        (numbers + 8, number(f64::INFINITY)),
        (products, number(1.0)),
        (products + 8, number(1e-3)),
        (products + 8 * m, number(-1e-3)),
        (products + 8 * m, number(1e305)),
        (products + 8 * (m + 1), number(1e6)),
        (bytes.len() - 4 - 8 * (2 * p + 1), number(1e9)),
        (bytes.len() - 4 - 8 * 2 * p, number(-1.0)),
        (6, vec![4, 0]),
        (8, vec![0, 0, 0, 0]),
        (8, vec![255, 255, 255, 255]),
        (12, vec![0, 0, 0, 0]),
        (12, vec![255, 255, 255, 255]),
        (16, vec![1, 0, 0, 0]),
    ] {
        let mut changed = bytes.clone();
        changed[at..at + new.len()].copy_from_slice(&new);
        let body = changed.len() - 4;
        let check = crate::summary::crc32(&changed[..body]);
        changed[body..].copy_from_slice(&check.to_le_bytes());
        assert!(refused(&changed), "{new:?} at {at} was accepted");
    }
}

#[test]
fn sums_that_overflow_are_refused() {
    let (_, sums) = both(40, 2.0, 3);
    assert!(matches!(sums.scale(1e305), Err(Error::Range { .. })));
    let large = sums.scale(1e297).unwrap();
    let found = (0..5).try_fold(large.clone(), |sum, _| sum.merge(&sum));
    assert!(matches!(found, Err(Error::Overflow { .. })));
}

#[test]
fn columns_that_nearly_depend_on_others_are_not_to_be_summed() {
    let (factors, _) = both(40, 0.0, 3);
    assert!(factors.may_be_summed());
    let mut near = factors.clone();
    let start = near.echelon().starts[3];
    near.echelon_mut().packed[start] *= 1e-5;
    assert!(!near.may_be_summed());
}

#[test]
fn the_triangle_of_few_rows_that_were_added_up_explains_no_more_than_there_is() {
    // Smooth functions of four inputs: more columns than rows, and more than products of them tell apart.
    let (n, d) = (57, 600);
    let parts: Vec<Summary> = (0..3)
        .map(|task| {
            let input = |row: usize, q: usize| draw(100_000 * task + 4 * row + q);
            let column = |row: usize, j: usize| {
                let z: f64 = (0..4).map(|q| input(row, q) * draw(7_000 + 4 * j + q)).sum();
                libm::cos(z + 6.0 * draw(50_000 + j))
            };
            let x: Vec<f64> = (0..n * d).map(|i| column(i / d, i % d)).collect();
            let y: Vec<f64> = (0..n).map(|i| input(i, 0) + 0.1 * draw(90_000 + i)).collect();
            let design = Design::linear(d, true).unwrap();
            let mut s = Summarizer::new(design, 1, Accumulator::Qr).unwrap();
            s.add(Rows::new(&x, d).unwrap(), Rows::new(&y, 1).unwrap(), None).unwrap();
            s.finish().unwrap()
        })
        .collect();
    let parts = || parts.iter().map(|part| (part, 1.0));
    let summed = Summary::added_up(None, (d + 1, 1), parts()).unwrap();
    assert!(summed.is_summed());
    assert!(summed.rank() <= 3 * n, "{} rows", summed.rank());
    let explained: f64 = summed.iter().map(|(_, _, z)| z[0] * z[0]).sum();
    let found = explained + summed.residual()[0];
    let expected: f64 = parts().map(|(part, _)| part.squares(0)).sum();
    assert!((found - expected).abs() <= 1e-9 * expected, "{found} against {expected}");
}
