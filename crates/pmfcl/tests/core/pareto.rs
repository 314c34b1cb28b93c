//! Fronts, chosen points and certificates against direct solves and brute force.

use crate::support::{Table, apart};
use pmfcl::pareto::{
    PairFront, budget, certificate, dominates, front, minmax, non_dominated, simplex_grid,
};
use pmfcl::{Accumulator, Error, Penalty, Summary, Theta, solve};
use pmfcl_oracle::{Draw, least_squares};
use proptest::prelude::*;

/// A pair of tasks of any rank. With an intercept the first column is ones.
fn pair(na: usize, nb: usize, d: usize, p: usize, intercept: bool, draw: &mut Draw) -> [Table; 2] {
    let both = Table::awkward(na + nb, d, p, draw);
    let parts = [both.part(0, na), both.part(na, na + nb)];
    if intercept { parts.map(|t| t.with_ones()) } else { parts }
}

/// The minimizer of `w L_a + (1−w) L_b`, by scaling, merging and one ordinary solve.
fn direct(a: &Summary, b: &Summary, w: f64, intercept: bool) -> Theta {
    let mix = a.scale(w / a.n()).unwrap().merge(&b.scale((1.0 - w) / b.n()).unwrap()).unwrap();
    solve(&mix, intercept, Penalty::NONE, None).unwrap().theta
}

fn conflicting(count: usize, n: usize, d: usize, draw: &mut Draw) -> Vec<Table> {
    (0..count)
        .map(|_| {
            let truth = draw.normals(d);
            Table::linear(n, &truth, 0.3, draw)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn points_of_the_pair_front_are_direct_solves(
        seed in any::<u64>(), na in 1usize..20, nb in 1usize..20, d in 1usize..8, p in 1usize..3,
        intercept in any::<bool>(), w in 0.01f64..0.99,
    ) {
        let mut draw = Draw::new(seed);
        let [ta, tb] = pair(na, nb, d, p, intercept, &mut draw);
        let (a, b) = (ta.summary(), tb.summary());
        let pair_front = PairFront::new(&a, &b, intercept).unwrap();
        let theta = direct(&a, &b, w, intercept);
        let at = pair_front.at(w).unwrap();
        let ours = pair_front.theta(w).unwrap();
        // Losses on the scale of the targets, from the rows.
        let size = ta.loss(&Theta::zeros(ta.d, p)) + tb.loss(&Theta::zeros(ta.d, p));
        // A square pivot of awkward draws is rarely below 1e-4 of its column.
        for (loss, table) in [(at.loss_a, &ta), (at.loss_b, &tb)] {
            prop_assert!((loss - table.loss(&theta)).abs() <= 1e-8 * size,
                "loss {loss} against {}", table.loss(&theta));
            prop_assert!((loss - table.loss(&ours)).abs() <= 1e-8 * size, "its own parameters");
        }
        let norm = theta.norm().max(1.0);
        prop_assert!(ours.distance(&theta) <= 1e-6 * norm, "{}", ours.distance(&theta) / norm);
    }

    #[test]
    fn the_front_falls_and_no_point_dominates_another(
        seed in any::<u64>(), na in 1usize..20, nb in 1usize..20, d in 1usize..6, count in 2usize..30,
    ) {
        let mut draw = Draw::new(seed);
        let [a, b] = pair(na, nb, d, 1, false, &mut draw).map(|t| t.summary());
        let pair_front = PairFront::new(&a, &b, false).unwrap();
        let points = pair_front.points(count);
        // Tasks that agree have a front of a single point.
        prop_assert_eq!(points.len(), if pair_front.is_point() { 1 } else { count });
        let zero = Theta::zeros(d, 1);
        let size = a.loss(&zero).unwrap() + b.loss(&zero).unwrap();
        for two in points.windows(2) {
            prop_assert!(two[1].weight >= two[0].weight);
            prop_assert!(two[1].loss_a <= two[0].loss_a + 1e-12 * size);
            prop_assert!(two[1].loss_b >= two[0].loss_b - 1e-12 * size);
        }
        for x in &points {
            for y in &points {
                let margin = 1e-9 * size;
                prop_assert!(!(x.loss_a < y.loss_a - margin && x.loss_b < y.loss_b - margin));
            }
        }
        // The ends are each task's own best.
        let (first, last) = (points[0], points[points.len() - 1]);
        prop_assert!((first.loss_b - b.min_loss()).abs() <= 1e-9 * size);
        prop_assert!((last.loss_a - a.min_loss()).abs() <= 1e-9 * size);
    }

    #[test]
    fn chosen_points_of_a_pair_are_those_of_a_fine_grid(
        seed in any::<u64>(), d in 1usize..5, share in 0.05f64..0.95,
    ) {
        let mut draw = Draw::new(seed);
        let tables = conflicting(2, 5 * d + 5, d, &mut draw);
        let (a, b) = (tables[0].summary(), tables[1].summary());
        let pair_front = PairFront::new(&a, &b, false).unwrap();
        let grid: Vec<(f64, f64, f64)> = (0..=500)
            .map(|i| {
                // Denser at both ends.
                let t = -9.0 + 18.0 * f64::from(i) / 500.0;
                let w = 1.0 / (1.0 + (-t).exp());
                let theta = direct(&a, &b, w, false);
                (w, a.loss(&theta).unwrap(), b.loss(&theta).unwrap())
            })
            .collect();
        let (worst_a, worst_b) = {
            let (at_b, at_a) = (direct(&a, &b, 1e-12, false), direct(&a, &b, 1.0 - 1e-12, false));
            (a.loss(&at_b).unwrap(), b.loss(&at_a).unwrap())
        };
        let (best_a, best_b) = (a.min_loss(), b.min_loss());
        let (range_a, range_b) = (worst_a - best_a, worst_b - best_b);

        let below = |la: f64, lb: f64| 1.0 - (la - best_a) / range_a - (lb - best_b) / range_b;
        let knee = pair_front.knee();
        let best = grid.iter().map(|(_, x, y)| below(*x, *y)).fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(below(knee.loss_a, knee.loss_b) >= best - 1e-6, "knee");

        let minmax = pair_front.minmax();
        let best = grid.iter().map(|(_, x, y)| x.max(*y)).fold(f64::INFINITY, f64::min);
        prop_assert!(minmax.loss_a.max(minmax.loss_b) <= best * (1.0 + 1e-9), "minmax");

        let equal = pair_front.equal_forgetting();
        let (fa, fb) = (equal.loss_a - best_a, equal.loss_b - best_b);
        prop_assert!((fa - fb).abs() <= 1e-9 * (range_a + range_b), "{fa} and {fb}");

        let allowed = share * range_a;
        let chosen = pair_front.budget_a(allowed).unwrap();
        prop_assert!(chosen.loss_a - best_a <= allowed * (1.0 + 1e-9), "within the budget");
        let best = grid.iter().filter(|(_, x, _)| x - best_a <= allowed).map(|(_, _, y)| *y)
            .fold(f64::INFINITY, f64::min);
        prop_assert!(chosen.loss_b <= best * (1.0 + 1e-9), "budget: {} above {best}", chosen.loss_b);
    }

    /// `F_t ≤ ε_t`, and the gradient of `Σα_tL_t + Σμ_tF_t` vanishes with `μ_t > 0` only where the
    /// budget binds. Multipliers are read off the returned preference.
    #[test]
    fn budgeted_models_satisfy_the_kkt_conditions(
        seed in any::<u64>(), d in 2usize..6, two in any::<bool>(), unit in -6i32..7,
        shares in (0.3f64..1.2, 0.3f64..1.2),
    ) {
        let mut draw = Draw::new(seed);
        let mut tables = conflicting(3, 6 * d, d, &mut draw);
        // Targets in any unit.
        for t in &mut tables {
            t.y.iter_mut().for_each(|y| *y *= 10f64.powi(unit));
        }
        let summaries: Vec<Summary> = tables.iter().map(Table::summary).collect();
        let tasks: Vec<&Summary> = summaries.iter().collect();
        let alpha = [0.2, 0.3, 0.5];
        let free = front(&tasks, &[alpha.to_vec()], false).unwrap().remove(0);
        let forgets = |theta: &Theta, t: usize| tasks[t].forgetting(theta).unwrap();
        let mut budgets = vec![(0, shares.0 * forgets(&free.theta, 0))];
        if two {
            budgets.push((1, shares.1 * forgets(&free.theta, 1)));
        }
        let size: f64 = free.losses.iter().sum();
        match budget(&tasks, &alpha, &budgets, false) {
            Ok(chosen) => {
                // α' = (α + μ)/(1 + Σμ): task 2 has no budget, so its share gives the sum.
                let total = alpha[2] / chosen.alpha[2];
                for &(t, epsilon) in &budgets {
                    let f = forgets(&chosen.theta, t);
                    let mu = chosen.alpha[t] * total - alpha[t];
                    prop_assert!(f <= epsilon * (1.0 + 1e-9), "F {f} above {epsilon}");
                    prop_assert!(mu >= -1e-9 * total, "multiplier {mu}");
                    let slack = (epsilon - f) / size;
                    prop_assert!(mu / total * slack <= 1e-5, "multiplier {mu}, slack {slack}");
                }
                if !two {
                    prop_assert!((chosen.alpha[1] * total - alpha[1]).abs() <= 1e-9 * total);
                }
                let relative = certificate(&tasks, &chosen.theta).unwrap().relative;
                prop_assert!(relative <= 1e-6, "{relative}");
            }
            Err(Error::Infeasible { .. }) => {
                prop_assert!(two, "one budget can always be met");
                // Tasks 0 and 1 alone cannot both be served: on their own front, where task 0 has
                // just its budget, task 1 exceeds its own.
                let pair = PairFront::new(tasks[0], tasks[1], false).unwrap();
                let at = pair.budget_a(budgets[0].1).unwrap();
                let over = at.loss_b - tasks[1].min_loss() - budgets[1].1;
                prop_assert!(over > -1e-5 * size, "feasible by {}", -over);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn scalarised_models_are_certified_and_others_can_be_improved_for_all(
        seed in any::<u64>(), count in 2usize..6, d in 2usize..6, p in 1usize..3, unit in -6i32..7,
    ) {
        let mut draw = Draw::new(seed);
        let unit = 10f64.powi(unit);
        let summaries: Vec<Summary> = (0..count)
            .map(|_| {
                let mut t = Table::noise(5 * d, d, p, &mut draw);
                t.y.iter_mut().for_each(|y| *y *= unit);
                t.summary()
            })
            .collect();
        let tasks: Vec<&Summary> = summaries.iter().collect();
        let raw: Vec<f64> = (0..count).map(|_| draw.uniform()).collect();
        let sum: f64 = raw.iter().sum();
        let alpha: Vec<f64> = raw.iter().map(|a| a / sum).collect();
        let on = front(&tasks, &[alpha], false).unwrap().remove(0);
        let c = certificate(&tasks, &on.theta).unwrap();
        // The nearest point is found from inner products, so to √ε.
        prop_assert!(c.relative <= 1e-6, "{}", c.relative);
        prop_assert!((c.alpha.iter().sum::<f64>() - 1.0).abs() <= 1e-12);

        // Far off the front all gradients point one way.
        let mut off = on.theta.clone();
        let away = crate::support::theta(d, p, &mut draw);
        for (o, v) in off.cells_mut().iter_mut().zip(away.cells()) {
            *o += 30.0 * unit * v;
        }
        let c = certificate(&tasks, &off).unwrap();
        prop_assert!(c.relative > 1e-3, "{}", c.relative);
        let mut direction = Theta::zeros(d, p);
        for (a, s) in c.alpha.iter().zip(&tasks) {
            let g = s.gradient(&off).unwrap();
            for (v, g) in direction.cells_mut().iter_mut().zip(g.cells()) {
                *v += a * g;
            }
        }
        prop_assert!((direction.norm() - c.residual).abs() <= 1e-9 * c.residual);
        let mut better = off.clone();
        for (b, v) in better.cells_mut().iter_mut().zip(direction.cells()) {
            *b -= 1e-4 * v;
        }
        for s in &tasks {
            prop_assert!(s.loss(&better).unwrap() < s.loss(&off).unwrap(), "helps every task");
        }
    }

    #[test]
    fn the_minmax_model_of_many_tasks_is_within_its_certified_gap(
        seed in any::<u64>(), count in 2usize..5, d in 1usize..4, unit in -6i32..7,
    ) {
        let mut draw = Draw::new(seed);
        let mut tables = conflicting(count, 6 * d, d, &mut draw);
        for t in &mut tables {
            t.y.iter_mut().for_each(|y| *y *= 10f64.powi(unit));
        }
        let summaries: Vec<Summary> = tables.iter().map(Table::summary).collect();
        let tasks: Vec<&Summary> = summaries.iter().collect();
        let chosen = minmax(&tasks, false, 2000).unwrap();
        let worst = |l: &[f64]| l.iter().copied().fold(0.0, f64::max);
        let reached = worst(&chosen.losses);
        prop_assert!(chosen.gap <= 1e-3 * reached, "gap {} of {reached}", chosen.gap);
        // No point of a grid is better by more than the gap.
        for point in front(&tasks, &simplex_grid(count, 12), false).unwrap() {
            prop_assert!(worst(&point.losses) >= reached - chosen.gap - 1e-9 * reached);
        }
        if count == 2 {
            let pair = PairFront::new(tasks[0], tasks[1], false).unwrap().minmax();
            let best = pair.loss_a.max(pair.loss_b);
            prop_assert!(reached <= best + chosen.gap + 1e-9 * best);
            prop_assert!(reached >= best * (1.0 - 1e-9));
        }
    }
}

#[test]
fn many_task_fronts_are_weighted_joint_solves() {
    let mut draw = Draw::new(31);
    let tables = conflicting(3, 20, 4, &mut draw);
    let summaries: Vec<Summary> = tables.iter().map(Table::summary).collect();
    let tasks: Vec<&Summary> = summaries.iter().collect();
    let grid = simplex_grid(3, 5);
    let points = front(&tasks, &grid, false).unwrap();
    let all = Table::stack(tables.iter());
    for point in points.iter().filter(|p| p.alpha.iter().all(|a| *a > 0.0)) {
        let w: Vec<f64> = tables
            .iter()
            .zip(&point.alpha)
            .flat_map(|(t, a)| vec![a / t.n() as f64; t.n()])
            .collect();
        let truth = least_squares(&all.x, 4, &all.y, Some(&w), &[]);
        assert!(apart(point.theta.column(0), &truth) < 1e-11);
        for (l, t) in point.losses.iter().zip(&tables) {
            assert!((l / t.loss(&point.theta) - 1.0).abs() < 1e-12);
        }
    }
    let losses: Vec<Vec<f64>> = points.iter().map(|p| p.losses.clone()).collect();
    assert_eq!(non_dominated(&losses).len(), points.len());
    assert!(dominates(&[1.0, 2.0], &[1.0, 3.0]));
    assert!(!dominates(&[1.0, 2.0], &[1.0, 2.0]) && !dominates(&[0.0, 3.0], &[1.0, 2.0]));
    for bad in [vec![0.5, 0.5], vec![0.5, 0.5, 0.5], vec![1.5, -0.5, 0.0], vec![f64::NAN, 0.5, 0.5]]
    {
        assert!(matches!(front(&tasks, &[bad], false), Err(Error::Preference { .. })));
    }
}

#[test]
fn budgets_that_cannot_be_met_are_refused_in_any_unit() {
    let mut draw = Draw::new(32);
    for unit in [1e-9, 1e-6, 1e-3, 1.0, 1e6] {
        let mut tables = conflicting(2, 30, 3, &mut draw);
        for t in &mut tables {
            t.y.iter_mut().for_each(|y| *y *= unit);
        }
        let summaries: Vec<Summary> = tables.iter().map(Table::summary).collect();
        let tasks: Vec<&Summary> = summaries.iter().collect();
        let pair = PairFront::new(tasks[0], tasks[1], false).unwrap().equal_forgetting();
        let least = pair.loss_a - tasks[0].min_loss();
        let both = |share: f64| {
            budget(&tasks, &[0.5, 0.5], &[(0, share * least), (1, share * least)], false)
        };
        let error = both(0.5).expect_err("both below what both must lose");
        assert!(matches!(error, Error::Infeasible { .. }), "{error}");
        assert!(both(1.5).is_ok(), "unit {unit:e}");
    }
}

#[test]
fn bad_budgets_and_weights_are_refused() {
    let mut draw = Draw::new(33);
    let summaries: Vec<Summary> =
        conflicting(2, 30, 3, &mut draw).iter().map(Table::summary).collect();
    let tasks: Vec<&Summary> = summaries.iter().collect();
    for budgets in [vec![(0, -1.0)], vec![(0, f64::NAN)], vec![(2, 1.0)], vec![(0, 1.0), (0, 2.0)]]
    {
        assert!(budget(&tasks, &[0.5, 0.5], &budgets, false).is_err());
    }
    for alpha in [vec![1.0], vec![1.5, -0.5], vec![0.0, 0.0], vec![f64::NAN, 1.0], vec![0.3, 0.3]] {
        let error = budget(&tasks, &alpha, &[(0, 1.0)], false).unwrap_err();
        assert!(
            matches!(error, Error::Preference { .. } | Error::Shape { .. }),
            "{alpha:?} {error}"
        );
    }
    let pair = PairFront::new(tasks[0], tasks[1], false).unwrap();
    for w in [-0.1, 1.1, f64::NAN] {
        assert!(pair.at(w).is_err() && pair.theta(w).is_err());
    }
    assert!(pair.budget_a(-1.0).is_err() && pair.budget_a(f64::NAN).is_err());
    assert!(PairFront::new(tasks[0], &Summary::empty(3, 1), false).is_err());
    assert!(PairFront::new(tasks[0], &Table::noise(9, 2, 1, &mut draw).summary(), false).is_err());
}

#[test]
fn tasks_that_agree_without_noise_are_certified_at_their_common_model() {
    // All gradients vanish there up to rounding, which must not be measured against itself.
    let mut draw = Draw::new(34);
    let truth = draw.normals(4);
    let summaries: Vec<Summary> =
        (0..3).map(|_| Table::linear(20, &truth, 0.0, &mut draw).summary()).collect();
    let tasks: Vec<&Summary> = summaries.iter().collect();
    let model = front(&tasks, &[vec![0.3, 0.3, 0.4]], false).unwrap().remove(0);
    let c = certificate(&tasks, &model.theta).unwrap();
    assert!(c.relative <= 1e-6, "{c:?}");
}

#[test]
fn a_grid_of_the_simplex_has_as_many_points_as_there_are_ways_to_share() {
    let choose = |n: usize, k: usize| (0..k).fold(1, |c, i| c * (n - i) / (i + 1));
    for (tasks, steps) in [(1, 5), (2, 7), (3, 4), (4, 6), (5, 3)] {
        let grid = simplex_grid(tasks, steps);
        assert_eq!(
            grid.len(),
            choose(steps + tasks - 1, tasks - 1),
            "{tasks} tasks, {steps} steps"
        );
        for point in &grid {
            assert!((point.iter().sum::<f64>() - 1.0).abs() < 1e-12 && point.len() == tasks);
        }
        let mut keys: Vec<_> =
            grid.iter().map(|p| p.iter().map(|a| a.to_bits()).collect::<Vec<_>>()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), grid.len(), "no point twice");
    }
}

#[test]
fn directions_one_side_hardly_sees_are_still_told_apart() {
    // b sees three directions 1e-9, 1e-10 and 1e-11 times as strongly as a does: in the decomposition of a
    // alone all three look the same to the last bit.
    let mut draw = Draw::new(77);
    let (n, d) = (60, 5);
    let scales = [1.0, 1e-9, 1e-10, 1e-11, 1.0];
    let a = Table::noise(n, d, 1, &mut draw);
    let mut b = Table::noise(n, d, 1, &mut draw);
    for (i, v) in b.x.iter_mut().enumerate() {
        *v *= scales[i % d];
    }
    let (a, b) = (a.summary(), b.summary());
    let front = PairFront::new(&a, &b, false).unwrap();
    // All weight on b: its own least loss. All weight on a: the same for a.
    let (on_b, on_a) = (front.at(0.0).unwrap(), front.at(1.0).unwrap());
    assert!((on_b.loss_b / b.min_loss() - 1.0).abs() < 1e-9, "{on_b:?} against {}", b.min_loss());
    assert!((on_a.loss_a / a.min_loss() - 1.0).abs() < 1e-9, "{on_a:?} against {}", a.min_loss());
}

#[test]
fn a_penalised_front_is_made_of_ridge_solutions() {
    let mut draw = Draw::new(78);
    let [a, b] = pair(40, 30, 6, 2, false, &mut draw).map(|t| t.summarize(true, Accumulator::Qr));
    let penalty = Penalty::new(0.3, true).unwrap();
    let front = PairFront::penalized(&a, &b, true, &penalty).unwrap();
    for w in [0.0, 0.2, 0.9, 1.0] {
        // D is the variance over both tasks, whatever the weight.
        let d = pmfcl::solve::weights(&a.merge(&b).unwrap(), true, true);
        let theta = front.theta(w).unwrap();
        let (ga, gb) = (a.gradient(&theta).unwrap(), b.gradient(&theta).unwrap());
        for k in 0..2 {
            for j in 0..7 {
                let slope = w * ga.column(k)[j] + (1.0 - w) * gb.column(k)[j];
                let total = slope + 0.3 * d[j] * theta.column(k)[j];
                assert!(total.abs() < 1e-12, "w {w}: gradient {total:e} in column {j}");
            }
        }
        let point = front.at(w).unwrap();
        assert!((point.loss_a - a.loss(&theta).unwrap()).abs() < 1e-14);
    }
}

#[test]
fn tasks_that_agree_have_a_front_of_one_point_with_even_weight() {
    let mut draw = Draw::new(79);
    let truth = [1.0, -2.0, 0.5];
    for noise in [0.0, 0.5] {
        let table = Table::linear(50, &truth, noise, &mut draw);
        // The same rows, the same in another order, each of them twice, and others on the same noiseless line.
        let order = draw.order(50);
        let twice = Table::stack([&table, &table].into_iter());
        let mut others = vec![table.clone(), table.pick(&order), twice];
        if noise < 0.1 {
            others.push(Table::linear(20, &truth, 0.0, &mut draw));
        }
        for (i, other) in others.iter().enumerate() {
            let (a, b) = (table.summary(), other.summary());
            let ridge = Penalty::new(0.3, false).unwrap();
            // The same design twice is one penalised model too; another design shrinks otherwise.
            let mut fronts = vec![PairFront::new(&a, &b, false).unwrap()];
            if i < 3 {
                fronts.push(PairFront::penalized(&a, &b, false, &ridge).unwrap());
            }
            for front in fronts {
                assert!(front.is_point(), "noise {noise}, other {i}");
                let points = front.points(50);
                assert_eq!(points.len(), 1);
                for point in [
                    points[0],
                    front.knee(),
                    front.minmax(),
                    front.equal_forgetting(),
                    front.budget_a(0.1).unwrap(),
                ] {
                    assert!((point.weight - 0.5).abs() < 1e-15, "{point:?}");
                }
            }
            let chosen = minmax(&[&a, &b], false, 100).unwrap();
            assert!((chosen.alpha[0] - 0.5).abs() < 1e-15, "{:?}", chosen.alpha);
        }
    }
    // A front as short as a millionth of the loss is one still.
    let [a, b] = [1.0, 1.002].map(|t| Table::linear(400, &[t], 1.0, &mut Draw::new(80)).summary());
    let front = PairFront::new(&a, &b, false).unwrap();
    assert!(!front.is_point());
    assert_eq!(front.points(50).len(), 50);
}
