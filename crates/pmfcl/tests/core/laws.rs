//! The laws of `summary/algebra.rs`, over random shapes, ranks, scales and numbers of targets.
//!
//! "Equal" means two things here. As losses: `‖Rθ − Z‖² + c` agrees with the rows at a random `θ` to
//! `ε` times what cancels. As factors: pivots are the same, and `R`, `Z` agree to `ε` times the squared
//! ratio of column norm to pivot, which is what a column that nearly depends on others amplifies by.

use crate::support::{Table, decode};
use pmfcl::{Error, MemoryKind, Settings, Summary, Theta};
use pmfcl_oracle::Draw;
use proptest::prelude::*;

/// Backward error of a few QR passes, column by column: `c·m·ε` with `c ≤ 64`.
fn rounding(m: usize) -> f64 {
    64.0 * m as f64 * f64::EPSILON
}

/// A random `θ` of the columns' own scale.
fn probe(table: &Table, draw: &mut Draw) -> Theta {
    let mut theta = crate::support::theta(table.d, table.p, draw);
    for j in 0..table.d {
        let largest = table.x.iter().skip(j).step_by(table.d).fold(0.0_f64, |m, v| m.max(v.abs()));
        for k in 0..table.p {
            theta.column_mut(k)[j] /= if largest > 0.0 { largest } else { 1.0 };
        }
    }
    theta
}

fn same_loss(summary: &Summary, rows: &Table, weight: f64, draw: &mut Draw) {
    for _ in 0..3 {
        let theta = probe(rows, draw);
        let (truth, size) = rows.squares(&theta);
        let ours = 2.0 * summary.n() * summary.loss(&theta).unwrap();
        // The sum over n rows in the oracle itself rounds n times.
        let allowed = (rounding(rows.d + rows.p) + rows.n() as f64 * f64::EPSILON) * weight * size;
        assert!((ours - weight * truth).abs() <= allowed, "{ours} against {truth} × {weight}");
    }
}

fn same_factors(a: &Summary, b: &Summary) {
    let (a, b) = (decode(a), decode(b));
    assert_eq!((a.m, a.p, &a.pivots), (b.m, b.p, &b.pivots));
    assert!((a.n - b.n).abs() <= 1e-12 * b.n, "{} against {} samples", a.n, b.n);
    let norm = |rows: &[Vec<f64>], j: usize| {
        let largest = rows.iter().fold(0.0_f64, |m, r| m.max(r[j].abs()));
        if largest == 0.0 {
            return 0.0;
        }
        largest * rows.iter().map(|r| (r[j] / largest).powi(2)).sum::<f64>().sqrt()
    };
    let growth = (b.pivots.iter().zip(&b.rows))
        .map(|(&j, row)| norm(&b.rows, j) / row[j])
        .fold(1.0, f64::max);
    let allowed = rounding(a.m + a.p) * growth * growth;
    for j in 0..a.m + a.p {
        let mut scale = norm(&b.rows, j);
        if j >= a.m {
            scale = scale.hypot(b.c[j - a.m].sqrt());
        }
        for (i, (x, y)) in a.rows.iter().zip(&b.rows).enumerate() {
            let off = (x[j] - y[j]).abs();
            assert!(off <= allowed * scale, "row {i} column {j}: {} and {}", x[j], y[j]);
        }
    }
    for k in 0..a.p {
        let scale = norm(&b.rows, b.m + k).powi(2) + b.c[k];
        assert!((a.c[k] - b.c[k]).abs() <= allowed * scale, "c: {} and {}", a.c[k], b.c[k]);
    }
}

fn scales(d: usize, wild: bool, draw: &mut Draw) -> Vec<f64> {
    let powers = [-100, -30, 0, 30, 100];
    (0..d).map(|_| if wild { 10f64.powi(powers[draw.below(5)]) } else { 1.0 }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn merging_is_neutral_commutative_and_associative(
        seed in any::<u64>(), sizes in prop::array::uniform3(1usize..40), d in 1usize..9,
        p in 1usize..4, wild in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let n: usize = sizes.iter().sum();
        let scales = scales(d, wild, &mut draw);
        let all = Table::awkward(n, d, p, &mut draw).scaled(&scales);
        let (i, j) = (sizes[0], sizes[0] + sizes[1]);
        let [a, b, c] = [all.part(0, i), all.part(i, j), all.part(j, n)].map(|t| t.summary());
        let whole = all.summary();

        prop_assert_eq!(&a.merge(&Summary::empty(d, p)).unwrap(), &a);
        prop_assert_eq!(&Summary::empty(d, p).merge(&a).unwrap(), &a);
        let ab = a.merge(&b).unwrap();
        same_factors(&ab, &b.merge(&a).unwrap());
        let left = ab.merge(&c).unwrap();
        let right = a.merge(&b.merge(&c).unwrap()).unwrap();
        same_factors(&left, &right);
        same_factors(&left, &whole);
        for sum in [&left, &right, &whole] {
            same_loss(sum, &all, 1.0, &mut draw);
        }
    }

    #[test]
    fn any_tree_of_merges_is_one_summary(
        seed in any::<u64>(), parts in 2usize..12, d in 1usize..7, p in 1usize..3,
    ) {
        let mut draw = Draw::new(seed);
        let all = Table::awkward(5 * parts, d, p, &mut draw);
        let mut forest: Vec<Summary> =
            (0..parts).map(|t| all.part(5 * t, 5 * t + 5).summary()).collect();
        while forest.len() > 1 {
            let a = forest.swap_remove(draw.below(forest.len()));
            let b = forest.swap_remove(draw.below(forest.len()));
            forest.push(a.merge(&b).unwrap());
        }
        same_factors(&forest[0], &all.summary());
        same_loss(&forest[0], &all, 1.0, &mut draw);
    }

    #[test]
    fn rows_in_another_order_give_the_same_summary(
        seed in any::<u64>(), n in 1usize..60, d in 1usize..9, p in 1usize..4, wild in any::<bool>(),
    ) {
        let mut draw = Draw::new(seed);
        let scales = scales(d, wild, &mut draw);
        let table = Table::awkward(n, d, p, &mut draw).scaled(&scales);
        let order = draw.order(n);
        same_factors(&table.pick(&order).summary(), &table.summary());
    }

    #[test]
    fn scaling_multiplies_the_loss_sum_and_goes_through_merging(
        seed in any::<u64>(), n in 2usize..40, d in 1usize..7, p in 1usize..3,
        u in 1e-6f64..1e6, v in 1e-6f64..1e6,
    ) {
        let mut draw = Draw::new(seed);
        let table = Table::awkward(n, d, p, &mut draw);
        let (a, b) = (table.part(0, n / 2).summary(), table.part(n / 2, n).summary());
        let both = a.merge(&b).unwrap();
        same_loss(&both.scale(u).unwrap(), &table, u, &mut draw);
        same_factors(&both.scale(u).unwrap().scale(v).unwrap(), &both.scale(u * v).unwrap());
        same_factors(
            &a.scale(u).unwrap().merge(&b.scale(u).unwrap()).unwrap(),
            &both.scale(u).unwrap(),
        );
        prop_assert_eq!(&both.scale(1.0).unwrap(), &both);
    }

    /// `(a ⊕ b) ⊖ b = a`, with an error that grows as the share of `a` in the whole falls.
    #[test]
    fn removing_undoes_merging(
        seed in any::<u64>(), d in 1usize..7, p in 1usize..3, ratio in 0i32..5,
    ) {
        let mut draw = Draw::new(seed);
        let kept = Table::noise(4 * d + 4, d, p, &mut draw);
        let gone = Table::noise(3 * d + 2, d, p, &mut draw);
        // b weighs 10^ratio times as much as a: the share of a in the whole is 10^−ratio.
        let (a, b) = (kept.summary(), gone.summary().scale(10f64.powi(ratio)).unwrap());
        let back = a.merge(&b).unwrap().remove(&b).unwrap();
        let theta = crate::support::theta(d, p, &mut draw);
        let (truth, size) = kept.squares(&theta);
        let ours = 2.0 * back.n() * back.loss(&theta).unwrap();
        // Both are subtracted at the size of the whole; a's smallest direction may be ten times
        // smaller than its mean one, and b's largest ten times larger.
        let allowed = 100.0 * rounding(d) * 10f64.powi(ratio) * size;
        prop_assert!((ours - truth).abs() <= allowed, "ratio {ratio}: {ours} against {truth}");
        prop_assert!((back.n() - a.n()).abs() <= 1e-15 * b.n() * 10.0);
        for k in 0..p {
            let off = (back.target_mean()[k] - a.target_mean()[k]).abs();
            prop_assert!(off <= 1e-13 * 10f64.powi(ratio), "{off}");
        }
    }

    #[test]
    fn what_was_never_added_cannot_be_removed(seed in any::<u64>(), d in 2usize..7) {
        let mut draw = Draw::new(seed);
        let whole = Table::noise(6 * d, d, 1, &mut draw);
        let summary = whole.summary();
        let refused = |part: &Summary, why: &str| {
            let error = summary.remove(part).expect_err(why);
            assert!(matches!(error, Error::Removal { .. }), "{error:?}");
            assert!(!error.to_string().is_empty());
        };
        refused(&Table::noise(7 * d, d, 1, &mut draw).summary(), "more samples");
        // As many samples, other features.
        refused(&Table::noise(6 * d, d, 1, &mut draw).summary(), "other rows");
        // As many samples, the same features, other targets.
        let other = Table { y: draw.normals(6 * d), ..whole.clone() };
        refused(&other.summary(), "other targets, all rows");
        // Rows longer than any in the whole.
        let long = Table::noise(2, d, 1, &mut draw).scaled(&vec![1e3; d]);
        refused(&long.summary(), "rows larger than the whole");
        // Targets larger than any in the whole.
        let mut loud = whole.part(0, d + 1);
        loud.y.iter_mut().for_each(|y| *y *= 1e3);
        refused(&loud.summary(), "targets larger than the whole");
        // A direction the whole has never seen.
        let mut flat = whole.clone();
        flat.x.chunks_exact_mut(d).for_each(|r| r[d - 1] = 2.0 * r[0]);
        let error = flat.summary().remove(&whole.part(0, 1).summary()).unwrap_err();
        prop_assert!(error.to_string().contains("never"), "{}", error);
    }

    #[test]
    fn extending_equals_explicit_zero_columns(
        seed in any::<u64>(), n in 2usize..30, d in 1usize..6, p in 1usize..4, count in 0usize..4,
        place in any::<prop::sample::Index>(),
    ) {
        let mut draw = Draw::new(seed);
        let table = Table::awkward(n, d, p, &mut draw);
        let (a, b) = (table.part(0, n / 2).summary(), table.part(n / 2, n).summary());
        let both = a.merge(&b).unwrap();

        let at = place.index(d + 1);
        let x = table.x.chunks_exact(d).flat_map(|r| {
            let mut row = r[..at].to_vec();
            row.resize(at + count, 0.0);
            row.extend_from_slice(&r[at..]);
            row
        });
        let wide = Table { x: x.collect(), d: d + count, ..table.clone() };
        let extended = both.extend_features(at, count).unwrap();
        same_factors(&extended, &wide.summary());
        same_loss(&extended, &wide, 1.0, &mut draw);
        let parts = [&a, &b].map(|s| s.extend_features(at, count).unwrap());
        same_factors(&parts[0].merge(&parts[1]).unwrap(), &extended);

        let at = place.index(p + 1);
        let y = table.y.chunks_exact(p).flat_map(|r| {
            let mut row = r[..at].to_vec();
            row.resize(at + count, 0.0);
            row.extend_from_slice(&r[at..]);
            row
        });
        let more = Table { y: y.collect(), p: p + count, ..table.clone() };
        let extended = both.extend_targets(at, count).unwrap();
        same_factors(&extended, &more.summary());
        let parts = [&a, &b].map(|s| s.extend_targets(at, count).unwrap());
        same_factors(&parts[0].merge(&parts[1]).unwrap(), &extended);
    }
}

#[test]
fn a_learner_grows_by_inputs_that_were_zero_before() {
    let mut draw = Draw::new(3);
    let before = Table::noise(20, 3, 2, &mut draw);
    let after = Table::noise(25, 5, 2, &mut draw);
    // Inputs 1 and 2 are new.
    let x = before.x.chunks_exact(3).flat_map(|r| [r[0], 0.0, 0.0, r[1], r[2]]).collect();
    let explicit = Table { x, d: 5, ..before.clone() };
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let settings = Settings {
            intercept: true,
            ..crate::support::settings(memory, pmfcl::Preference::Samples)
        };
        let mut grown = crate::support::learned(settings.clone(), std::slice::from_ref(&before));
        grown.extend_inputs(1).unwrap();
        grown.rearrange_inputs(&[0, 3, 4, 1], 5).unwrap();
        grown.learn("1", after.task(), 1.0).unwrap();
        let whole = crate::support::learned(settings, &[explicit.clone(), after.clone()]);
        let (a, b) = (&grown.solution().unwrap().theta, &whole.solution().unwrap().theta);
        assert!(crate::support::apart(a.cells(), b.cells()) < 1e-12, "{memory:?}");
    }
}

#[test]
fn a_removal_that_would_lose_more_than_eight_digits_is_refused() {
    let mut draw = Draw::new(4);
    let (a, b) = (Table::noise(40, 5, 1, &mut draw), Table::noise(40, 5, 1, &mut draw));
    for power in 0..14 {
        let heavy = b.summary().scale(10f64.powi(power)).unwrap();
        let whole = a.summary().merge(&heavy).unwrap();
        match whole.remove(&heavy) {
            Ok(back) => {
                // What is left is right to the digits the share of it in the whole leaves.
                let theta = crate::support::theta(5, 1, &mut draw);
                let off = (back.loss(&theta).unwrap() / a.loss(&theta) - 1.0).abs();
                assert!(off <= 1e-13 * 10f64.powi(power), "10^{power}: {off:e}");
                assert!(power <= 8, "10^{power} leaves no eight digits");
            }
            Err(Error::Removal { reason }) => {
                assert!(power >= 7, "10^{power} leaves digits enough: {reason}");
                assert!(reason.contains("ledger") || reason.contains("never"), "{reason}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn removing_everything_leaves_nothing() {
    let mut draw = Draw::new(6);
    let table = Table::noise(30, 4, 2, &mut draw);
    let (a, b) = (table.part(0, 10).summary(), table.part(10, 30).summary());
    let whole = a.merge(&b).unwrap();
    assert_eq!(whole.remove(&whole).unwrap(), Summary::empty(4, 2));
    let rest = whole.remove(&a).unwrap();
    assert_eq!(rest.remove(&b).unwrap(), Summary::empty(4, 2));
    assert_eq!(whole.remove(&Summary::empty(4, 2)).unwrap(), whole);
}

#[test]
fn shapes_that_differ_do_not_merge() {
    let mut draw = Draw::new(7);
    let a = Table::noise(5, 3, 1, &mut draw).summary();
    for (d, p) in [(2, 1), (3, 2)] {
        let b = Table::noise(5, d, p, &mut draw).summary();
        for error in [a.merge(&b).unwrap_err(), a.remove(&b).unwrap_err()] {
            assert!(matches!(error, Error::Mismatch { .. }), "{error:?}");
        }
    }
    for w in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(a.scale(w), Err(Error::Range { .. })));
    }
    assert!(matches!(a.extend_features(4, 1), Err(Error::Place { place: 4, .. })));
    assert!(matches!(a.extend_targets(2, 1), Err(Error::Place { place: 2, .. })));
}

#[test]
fn a_full_rank_entry_takes_little_more_than_half_of_the_papers_numbers() {
    for m in [50, 64, 100] {
        let mut draw = Draw::new(m as u64);
        let s = Table::noise(2 * m, m, 1, &mut draw).summary();
        assert_eq!(s.rank(), m);
        // r(m+p) − r(r−1)/2 of R and Z, then n, c and the sum of targets.
        assert_eq!(s.numbers(), m * (m + 1) / 2 + m);
        let kept = s.nbytes() as f64 / 8.0;
        let paper = (m * (m + 2)) as f64;
        assert!(kept <= 0.55 * paper, "{kept} numbers against {paper}");
    }
}
