//! Budgets of forgetting against raw rows and brute force over weights, under every kind of ridge.

use crate::support::{Table, inner, learned, settings};
use pmfcl::{
    ClassList, Error, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings,
    TaskReport, TaskRows, Theta,
};
use pmfcl_oracle::{Draw, least_squares};
use proptest::prelude::*;

/// Tasks that want different things, with noise.
fn conflicting(count: usize, n: usize, d: usize, draw: &mut Draw) -> Vec<Table> {
    let common = draw.normals(d);
    (0..count)
        .map(|_| {
            let own = draw.normals(d);
            let truth: Vec<f64> = common.iter().zip(&own).map(|(c, o)| c + 0.5 * o).collect();
            Table::linear(n, &truth, 0.5, draw)
        })
        .collect()
}

fn made(ridge: Ridge, standardize: bool, prefer: Preference, tables: &[Table]) -> Learner {
    let settings =
        Settings { ridge, standardize, intercept: true, ..settings(MemoryKind::Ledger, prefer) };
    learned(settings, tables)
}

/// What the model forgot of a task, from its rows: its loss less the least there is.
fn forgotten(table: &Table, theta: &Theta) -> f64 {
    let rows = table.with_ones();
    if rows.n() <= rows.d {
        // As many parameters as rows: there is a model without any loss.
        return rows.loss(theta);
    }
    let own = least_squares(&rows.x, rows.d, &rows.y, None, &[]);
    rows.loss(theta) - rows.loss(&Theta::from_columns(rows.d, 1, own).unwrap())
}

fn lost(learner: &Learner, task: usize) -> f64 {
    learner.tasks().unwrap()[task].forgetting.unwrap()
}

/// The model with `factors[i]` times the weight for the first tasks, and the others in their proportions.
fn weighed(learner: &Learner, factors: &[f64]) -> Learner {
    let reports = learner.tasks().unwrap();
    let factor = |t: usize| factors.get(t).copied().unwrap_or(1.0);
    let raw: Vec<f64> = reports.iter().enumerate().map(|(t, r)| r.weight * factor(t)).collect();
    let sum: f64 = raw.iter().sum();
    let list = reports.iter().zip(raw).map(|(r, w)| (r.name.clone(), w / sum)).collect();
    let mut other = learner.clone();
    other.prefer(Preference::Chosen(list)).unwrap();
    other
}

/// `Σ α_t L_t` over the tasks from `first` on, with the weights of `before`.
fn others(before: &[TaskReport], after: &Learner, first: usize) -> f64 {
    let after = after.tasks().unwrap();
    let pairs = before.iter().zip(&after).skip(first);
    pairs.map(|(b, a)| b.weight * a.loss.unwrap()).sum()
}

fn bits(learner: &Learner) -> (Vec<u64>, Preference) {
    let theta = &learner.solution().unwrap().theta;
    (theta.cells().iter().map(|v| v.to_bits()).collect(), learner.settings().prefer.clone())
}

/// The number after «can lose is».
fn least(error: &Error) -> f64 {
    let text = error.to_string();
    text.split("can lose is ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
}

fn ridges() -> impl Strategy<Value = (Ridge, bool)> {
    prop_oneof![
        Just((Ridge::Auto, false)),
        Just((Ridge::LeaveOneTaskOut, false)),
        Just((Ridge::Fixed(0.0), false)),
        (-4.0f64..0.5, any::<bool>()).prop_map(|(x, s)| (Ridge::Fixed(10f64.powf(x)), s)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn one_budget_is_kept_or_no_weight_keeps_it(
        seed in any::<u64>(), d in 1usize..6, n in 2usize..30, equal in any::<bool>(),
        (ridge, standardize) in ridges(),
        share in prop_oneof![Just(0.5), Just(0.1), Just(0.01), Just(1e-3)],
    ) {
        let mut draw = Draw::new(seed);
        let tables = conflicting(3, n, d, &mut draw);
        let prefer = if equal { Preference::Equal } else { Preference::Samples };
        let before = made(ridge.clone(), standardize, prefer, &tables);
        let size = tables[0].loss(&Theta::zeros(d, 1));
        // With as many parameters as rows nothing is forgotten but rounding.
        prop_assume!(lost(&before, 0) > 1e-9 * size);
        let budget = share * lost(&before, 0);
        // Many weights of the first task, from a thousandth to a billion times its present one.
        let grid: Vec<Learner> =
            (-12..=36).map(|i| weighed(&before, &[10f64.powf(f64::from(i) / 4.0)])).collect();
        let mut after = before.clone();
        match after.prefer_budgets(&[("0".to_owned(), budget)]) {
            Ok(()) => {
                let from_rows = forgotten(&tables[0], &after.solution().unwrap().theta);
                let reports = before.tasks().unwrap();
                prop_assert!(lost(&after, 0) <= budget * (1.0 + 1e-9), "{} of {budget}", lost(&after, 0));
                let rounding = 1e-12 * size;
                prop_assert!((from_rows - lost(&after, 0)).abs() <= 1e-6 * budget + rounding);
                if let Ridge::Fixed(x) = ridge {
                    prop_assert!(lost(&after, 0) >= budget * (1.0 - 1e-6), "more than was asked");
                    // Without a ridge the weight is the multiplier of a convex problem: nothing that keeps the budget is better
                    // for the others.
                    let own = others(&reports, &after, 1);
                    for other in grid.iter().filter(|g| x <= 0.0 && lost(g, 0) <= budget) {
                        prop_assert!(others(&reports, other, 1) >= own * (1.0 - 1e-9));
                    }
                }
                // The others keep their proportions.
                let now = after.tasks().unwrap();
                let ratio = now[1].weight / now[2].weight / (reports[1].weight / reports[2].weight);
                prop_assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
            }
            Err(error) => {
                prop_assert!(matches!(error, Error::Infeasible { .. }), "{}", error);
                prop_assert_eq!(bits(&after), bits(&before), "unchanged");
                let least = least(&error);
                prop_assert!(least > budget);
                // A ridge that is chosen may jump between two weights, so that the least lies at a point.
                let slack = if matches!(ridge, Ridge::Fixed(_)) { 1e-3 } else { 0.1 };
                for other in &grid {
                    let lost = lost(other, 0);
                    prop_assert!(lost >= least * (1.0 - slack), "{lost} is less than {least}");
                }
                // The least is there to be had.
                after.prefer_budgets(&[("0".to_owned(), least * (1.0 + 1e-6))]).unwrap();
                prop_assert!(lost(&after, 0) <= least * (1.0 + 2e-6));
            }
        }
    }

    #[test]
    fn several_budgets_are_kept_together_or_no_weights_keep_them(
        seed in any::<u64>(), d in 1usize..5, n in 6usize..30, (ridge, standardize) in ridges(),
        shares in (0.05f64..1.5, 0.05f64..1.5),
    ) {
        let mut draw = Draw::new(seed);
        let tables = conflicting(4, n, d, &mut draw);
        let before = made(ridge.clone(), standardize, Preference::Samples, &tables);
        let limits = [shares.0 * lost(&before, 0), shares.1 * lost(&before, 1)];
        let budgets = [("0".to_owned(), limits[0]), ("1".to_owned(), limits[1])];
        let kept = |l: &Learner, slack: f64| (0..2).all(|t| lost(l, t) <= limits[t] * (1.0 + slack));
        let powers = || (-1..=7).map(|i| 10f64.powf(f64::from(i)));
        let grid: Vec<Learner> = powers()
            .flat_map(|a| powers().map(move |b| (a, b)))
            .map(|(a, b)| weighed(&before, &[a, b]))
            .collect();
        let mut after = before.clone();
        match after.prefer_budgets(&budgets) {
            Ok(()) => {
                prop_assert!(kept(&after, 1e-9));
                if ridge == Ridge::Fixed(0.0) {
                    let reports = before.tasks().unwrap();
                    let own = others(&reports, &after, 0);
                    for other in grid.iter().filter(|g| kept(g, 0.0)) {
                        let theirs = others(&reports, other, 0);
                        prop_assert!(theirs >= own * (1.0 - 1e-6), "{theirs} is better than {own}");
                    }
                }
            }
            Err(error) => {
                prop_assert!(matches!(error, Error::Infeasible { .. }), "{}", error);
                prop_assert_eq!(bits(&after), bits(&before), "unchanged");
                let slack = if matches!(ridge, Ridge::Fixed(_)) { 1e-3 } else { 0.1 };
                for other in &grid {
                    prop_assert!(!kept(other, -slack), "there are weights that keep both");
                }
            }
        }
    }
}

#[test]
fn a_budget_that_is_kept_already_changes_nothing() {
    let mut draw = Draw::new(5);
    let tables = conflicting(3, 20, 3, &mut draw);
    let before = made(Ridge::Auto, false, Preference::Samples, &tables);
    let mut after = before.clone();
    after.prefer_budgets(&[("1".to_owned(), lost(&before, 1))]).unwrap();
    assert_eq!(bits(&after), bits(&before));
}

/// One feature, no intercept, ridge λ: with all weight on itself a task of `y = x` has `θ = c/(c+λ)`, `c` its mean square.
#[test]
fn a_ridge_costs_what_it_costs() {
    let one = Table { x: vec![1.0, -1.0], y: vec![1.0, -1.0], d: 1, p: 1 };
    let two = Table { x: vec![1.0, -1.0], y: vec![-1.0, 1.0], d: 1, p: 1 };
    let settings =
        Settings { ridge: Ridge::Fixed(0.25), ..settings(MemoryKind::Ledger, Preference::Samples) };
    let mut learner = learned(settings, &[one, two]);
    let least_of_all = 0.5 * (1.0 - 1.0 / 1.25f64).powi(2);
    let error = learner.prefer_budgets(&[("0".to_owned(), 0.9 * least_of_all)]).unwrap_err();
    assert!((least(&error) / least_of_all - 1.0).abs() < 1e-6, "{error}");
    // Half way: θ = (2w − 1)/1.25 for a weight w, and F = ½(1 − θ)².
    learner.prefer_budgets(&[("0".to_owned(), 0.125)]).unwrap();
    let report = &learner.tasks().unwrap()[0];
    assert!((report.weight - (0.5 * 1.25 + 1.0) / 2.0).abs() < 1e-9, "{}", report.weight);
}

#[test]
fn bad_budgets_are_refused_and_change_nothing() {
    let mut draw = Draw::new(6);
    let tables = conflicting(2, 20, 3, &mut draw);
    let mut learner = made(Ridge::Auto, false, Preference::Samples, &tables);
    let before = bits(&learner);
    let named = |list: &[(&str, f64)]| -> Vec<(String, f64)> {
        list.iter().map(|(n, e)| ((*n).to_owned(), *e)).collect()
    };
    for (budgets, told) in [
        (named(&[]), "at least one"),
        (named(&[("2", 0.1)]), "`2`"),
        (named(&[("0", -1.0)]), "-1"),
        (named(&[("0", f64::NAN)]), "NaN"),
        (named(&[("0", 0.1), ("0", 0.2)]), "`0`"),
        (named(&[("0", 0.0)]), "can lose is"),
    ] {
        let error = learner.prefer_budgets(&budgets).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert_eq!(bits(&learner), before);
    }
    let compact = settings(MemoryKind::Compact, Preference::Samples);
    let mut folded = learned(compact, &conflicting(4, 20, 3, &mut draw));
    let error = folded.prefer_budgets(&named(&[("0", 0.1)])).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let mut empty = crate::support::learner(Settings::default());
    assert!(matches!(empty.prefer_budgets(&named(&[("0", 0.1)])), Err(Error::NotLearned)));
}

/// Classes have a forgetting of their own for each loss: what is reported is what is kept.
#[test]
fn classifiers_keep_budgets_on_what_they_report() {
    let mut draw = Draw::new(7);
    let d = 3;
    let task = |draw: &mut Draw| {
        let truth = draw.normals(d);
        let x = draw.normals(60 * d);
        let label = |r: &[f64], e: f64| if inner(r, &truth) + e > 0.0 { "yes" } else { "no" };
        let labels: Vec<&str> = x.chunks_exact(d).map(|r| label(r, draw.normal())).collect();
        (x, Labels::new(&labels))
    };
    for loss in ["squared", "gaussian", "logistic"] {
        let problem = Problem::parse(loss, Some(ClassList::Open)).unwrap();
        let settings = Settings { threads: 1, ..Settings::default() };
        let mut before = Learner::new(problem, settings).unwrap();
        for name in ["a", "b", "c"] {
            let (x, labels) = task(&mut draw);
            let rows = TaskRows::new(Rows::new(&x, d).unwrap(), &labels);
            before.learn(name, rows, 1.0).unwrap();
        }
        let reported = |model: &Learner| {
            let report = model.tasks().unwrap().swap_remove(1);
            report.forgetting.or(report.bound).unwrap()
        };
        for share in [0.9, 0.5, 0.1, 1e-20] {
            let budget = share * reported(&before);
            let mut after = before.clone();
            match after.prefer_budgets(&[("b".to_owned(), budget)]) {
                Ok(()) => {
                    assert!(reported(&after) <= budget * (1.0 + 1e-9), "{loss} {share}");
                    assert!(matches!(after.settings().prefer, Preference::Chosen(_)), "{loss}");
                }
                Err(error) => {
                    assert!(least(&error) > budget, "{loss} {share}: {error}");
                    assert!((reported(&after) / reported(&before) - 1.0).abs() < 1e-12);
                }
            }
            // Half the present loss is within reach of least squares and class means.
            assert!(share < 0.5 || loss == "logistic" || reported(&after) <= budget * (1.0 + 1e-9));
        }
    }
}
