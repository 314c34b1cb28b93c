//! Private classes: how far one row moves the sums, what noise leaves of the classifier, and noise that clients share.

#![allow(clippy::print_stdout, reason = "the table of the documents")]

use pmfcl::federated::{Rules, Server, Update};
use pmfcl::private::{
    Account, Bounds, Budget, Clipped, ClippedClasses, Cohort, Noise, ReleasedClasses, SharedNoise,
};
use pmfcl::problem::{Agreement, Digest};
use pmfcl::summary::Products;
use pmfcl::{
    ClassList, Design, Error, Labels, Learner, Penalty, Problem, Rows, Settings, TaskRows, solve,
};
use pmfcl_oracle::Draw;

const NAMES: [&str; 3] = ["cat", "dog", "eel"];
const D: usize = 4;

fn design(columns: usize) -> Design {
    Design::linear(columns, true).unwrap()
}

fn problem(loss: &str) -> Problem {
    Problem::parse(loss, Some(ClassList::Fixed(NAMES.map(String::from).to_vec()))).unwrap()
}

fn agreement(loss: &str) -> Agreement {
    Agreement::new(problem(loss), Settings::default(), design(D), 0).unwrap()
}

/// Three classes about centres within the unit ball; most rows are within it too.
fn classes(n: usize, seed: u64) -> (Vec<f64>, Vec<u32>) {
    let mut draw = Draw::new(seed);
    let centres = [[0.4, 0.0, 0.1, 0.0], [-0.2, 0.35, 0.0, 0.0], [-0.2, -0.35, 0.0, 0.1]];
    let (mut x, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let class = draw.below(3);
        x.extend(centres[class].map(|c| c + 0.2 * draw.normal()));
        labels.push(class as u32);
    }
    (x, labels)
}

fn sums(x: &[f64], labels: &[u32]) -> ClippedClasses {
    let mut sums = ClippedClasses::new(design(D), 3, 1.0).unwrap();
    sums.add(Rows::new(x, D).unwrap(), labels).unwrap();
    sums
}

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

/// Share of rows that the joint model of updates gives the right class.
fn accuracy(loss: &str, released: &[ReleasedClasses], x: &[f64], labels: &[u32]) -> f64 {
    let agreement = agreement(loss);
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    for (step, one) in released.iter().enumerate() {
        let summary = one.summary().unwrap();
        let update = Update::of_quadratic(&agreement, "c", step as u64, summary).unwrap();
        server.accept_bytes(&update.to_bytes()).unwrap();
    }
    hits(&server.joint().unwrap(), x, labels)
}

fn hits(learner: &Learner, x: &[f64], labels: &[u32]) -> f64 {
    let scores = learner.scores(Rows::new(x, D).unwrap()).unwrap();
    let right = scores.chunks_exact(3).zip(labels).filter(|(row, label)| {
        let best = (0..3).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
        best == **label as usize
    });
    right.count() as f64 / labels.len() as f64
}

/// The same rows without clips and noise.
fn exact(loss: &str, x: &[f64], labels: &[u32]) -> Learner {
    let names: Vec<&str> = labels.iter().map(|k| NAMES[*k as usize]).collect();
    let names = Labels::new(&names);
    let mut learner = Learner::new(problem(loss), Settings::default()).unwrap();
    learner.learn("all", TaskRows::new(Rows::new(x, D).unwrap(), &names), 1.0).unwrap();
    learner
}

#[test]
fn one_row_of_a_class_changes_nothing_by_more_than_declared_and_the_worst_by_all_of_it() {
    let mut draw = Draw::new(2);
    for (d, k, bound) in [(1, 2, 1.0), (3, 5, 0.5), (6, 3, 20.0)] {
        let of = |rows: &[(Vec<f64>, u32)]| {
            let mut sums = ClippedClasses::new(design(d), k, bound).unwrap();
            for (x, label) in rows {
                sums.add(Rows::new(x, d).unwrap(), &[*label]).unwrap();
            }
            sums
        };
        let mut axis = vec![0.0; d];
        axis[0] = bound;
        let mut worst = vec![
            (axis.clone(), 0),
            (axis.iter().map(|v| -v).collect(), 1),
            (vec![1e300; d], k as u32 - 1),
            (vec![f64::NAN; d], 0),
            (vec![f64::INFINITY; d], 1),
            (vec![0.0; d], 0),
            (axis, u32::MAX),
        ];
        worst.extend((0..8).map(|i| (draw.normals(d), i % k as u32)));
        let tables =
            [vec![], worst.clone(), (0..50).map(|i| (draw.normals(d), i % k as u32)).collect()];
        let mut most = [0.0_f64; 3];
        for table in &tables {
            let without = of(table);
            for row in &worst {
                let with = without.merge(&of(std::slice::from_ref(row))).unwrap();
                let (a, b) = (without.before_noise().unwrap(), with.before_noise().unwrap());
                for ((most, (name, a, declared)), (_, b, _)) in most.iter_mut().zip(a).zip(b) {
                    let moved = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(moved <= declared, "{name} moves by {moved}, {declared} is declared");
                    *most = most.max(moved / declared);
                }
            }
        }
        assert!(most.iter().all(|share| *share > 0.98), "{most:?} of what is declared");
    }
}

#[test]
fn sums_of_classes_are_those_of_the_rows_and_take_every_row() {
    let (x, labels) = classes(300, 1);
    let all = sums(&x, &labels);
    let parts = sums(&x[..400], &labels[..100]).merge(&sums(&x[400..], &labels[100..])).unwrap();
    assert_eq!(all, parts);
    let [(_, products, _), (_, moments, _), (_, clipped, _)] =
        <[_; 3]>::try_from(all.before_noise().unwrap()).unwrap();
    for k in 0..3 {
        let count = labels.iter().filter(|label| **label == k).count() as f64;
        assert!((moments[k as usize] - count).abs() < 0.01, "{moments:?}");
    }
    assert_eq!(clipped[0].round() as u64, all.scaled().either);
    // The trace of products is the sum of squared lengths, of rows within the ball.
    let squares: f64 =
        x.chunks_exact(D).map(|r| r.iter().map(|v| v * v).sum::<f64>().min(1.0)).sum();
    let trace: f64 = [0, 4, 7, 9].iter().map(|i| products[*i]).sum();
    assert!((trace - squares).abs() < 0.05, "{trace} {squares}");

    let mut odd = all.clone();
    odd.add(Rows::new(&[f64::NAN, 0.0, 0.0, 0.0, 1e308, 1e308, 0.0, 0.0], D).unwrap(), &[0, 9])
        .unwrap();
    assert_eq!(odd.scaled().replaced, 2);
    let error = ClippedClasses::new(Design::linear(2, false).unwrap(), 3, 1.0).unwrap_err();
    assert!(error.to_string().contains("intercept"), "{error}");
    assert!(odd.add(Rows::new(&x, D).unwrap(), &labels[1..]).is_err());
}

/// Accuracy on fresh rows of the gaussian classifier, private and not.
fn contest(n: usize, epsilon: f64) -> [f64; 2] {
    const TIMES: u64 = 7;
    let mut of = Vec::new();
    for time in 0..TIMES {
        let (x, labels) = classes(n, time);
        let (fresh, truth) = classes(2000, 100 + time);
        let released = sums(&x, &labels).release(budget(epsilon), &mut Noise::seeded(time));
        let private = accuracy("gaussian", &[released.unwrap()], &fresh, &truth);
        of.push([private, hits(&exact("gaussian", &x, &labels), &fresh, &truth)]);
    }
    [0, 1].map(|i| {
        let mut all: Vec<f64> = of.iter().map(|pair| pair[i]).collect();
        all.sort_by(f64::total_cmp);
        all[TIMES as usize / 2]
    })
}

#[test]
fn private_classes_are_told_apart_nearly_as_well_and_better_the_more_rows_there_are() {
    let [few, many] = [contest(500, 1.0), contest(10_000, 1.0)];
    println!("500 rows: {few:?}; 10 000 rows: {many:?}");
    assert!(many[1] > 0.85, "{many:?}");
    assert!(many[0] > many[1] - 0.01, "{many:?}");
    assert!(few[0] > 0.7, "{few:?}");
}

#[test]
#[ignore = "prints the table of docs/privacy.md"]
fn table() {
    for epsilon in [0.3, 1.0, 3.0] {
        for n in [300, 1000, 3000, 10_000, 30_000] {
            let [private, exact] = contest(n, epsilon);
            println!("| {epsilon} | {n} | {private:.3} | {exact:.3} |");
        }
    }
}

#[test]
fn private_classes_pass_the_server_even_of_no_rows_or_one_class() {
    let (x, labels) = classes(4000, 5);
    let (fresh, truth) = classes(1000, 6);
    let one = |rows: usize| (&x[..D * rows], vec![1; rows]);
    let mut noise = Noise::seeded(1);
    let mut account = Account::new(budget(30.0)).unwrap();
    for loss in ["gaussian", "squared"] {
        let mut releases = Vec::new();
        for (x, labels) in [(&x[..], labels.clone()), one(0), one(1), one(3000)] {
            let made = sums(x, &labels).release_on(&mut account, budget(1.0), &mut noise).unwrap();
            assert_eq!(made.budget(), budget(1.0));
            releases.push(made);
        }
        let right = accuracy(loss, &releases[..1], &fresh, &truth);
        assert!(right > 0.8, "{loss}: {right}");
        accuracy(loss, &releases, &fresh, &truth);
        let merged = releases[0].merge(&releases[1]).unwrap();
        assert!((merged.samples() - 4000.0).abs() < 10.0 * merged.sigma()[1], "{merged:?}");
        assert!(accuracy(loss, &[merged], &fresh, &truth) > 0.8);
    }
    assert_eq!(account.releases(), 8);
}

#[test]
fn the_noise_on_classes_is_as_wide_as_it_says() {
    let (x, labels) = classes(40, 3);
    let own = sums(&x, &labels);
    let mut noise = Noise::seeded(9);
    let count = labels.iter().filter(|label| **label == 0).count() as f64;
    let (mut seen, mut sigma) = (0.0, 0.0);
    for _ in 0..2000 {
        let released = own.release(budget(1.0), &mut noise).unwrap();
        seen += (released.counts()[0] - count).powi(2) / 2000.0;
        sigma = released.sigma()[1];
    }
    assert!((seen.sqrt() / sigma - 1.0).abs() < 0.06, "{} {sigma}", seen.sqrt());
}

// Noise that clients share.

fn values() -> Clipped {
    Clipped::new(design(2), 1, Bounds::new(1.0, 1.0).unwrap()).unwrap()
}

fn added(parts: &[Products]) -> Products {
    let mut all = parts[0].clone();
    for part in &parts[1..] {
        all.n += part.n;
        let add = |a: &mut Vec<f64>, b: &Vec<f64>| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        add(&mut all.xx, &part.xx);
        add(&mut all.xy, &part.xy);
        add(&mut all.yy, &part.yy);
        add(&mut all.y, &part.y);
    }
    all
}

#[test]
fn the_guarantee_of_shared_noise_is_that_of_the_fewest_honest_clients() {
    for epsilon in [0.1, 1.0, 10.0, 100.0] {
        for (threshold, colluding) in [(2, 0), (2, 1), (5, 0), (5, 3), (200, 10), (60_000, 1)] {
            let shared =
                values().shared_noise(budget(epsilon), Cohort { threshold, colluding }).unwrap();
            let honest = threshold - colluding;
            let least = shared.guarantee(honest).epsilon;
            assert!(least <= epsilon * (1.0 + 1e-9), "{least} of {epsilon}, {honest} honest");
            assert!(shared.rho(honest) <= budget(epsilon).rho().unwrap());
            // The noise is no more than that, except where it would be less than the grid.
            if epsilon <= 1.0 && honest < 100 {
                assert!(least > 0.95 * epsilon, "{least} of {epsilon}, {honest} honest");
            }
            // Whoever drops out beyond that breaks it, whoever stays makes it better.
            if honest > 1 && epsilon <= 1.0 && honest < 100 {
                assert!(shared.guarantee(honest - 1).epsilon > epsilon);
            }
            assert!(shared.guarantee(honest + 1).epsilon < least);
        }
    }
    for (threshold, colluding) in [(0, 0), (2, 2), (2, 5)] {
        let error = values().shared_noise(budget(1.0), Cohort { threshold, colluding });
        assert!(matches!(error, Err(Error::Unsupported { .. })));
    }
    let cohort = Cohort { threshold: 3, colluding: 0 };
    for bounds in [(1.0, 1e-12), (100.0, 1.0), (1.0, 100.0)] {
        let bounds = Bounds::new(bounds.0, bounds.1).unwrap();
        let sums = Clipped::new(design(2), 1, bounds).unwrap();
        assert!(matches!(sums.shared_noise(budget(1.0), cohort), Err(Error::Range { .. })));
    }
}

/// Sums of many draws against the discrete Gaussian of the whole variance: moments, and counts by χ².
#[test]
fn noise_of_clients_adds_up_to_the_noise_that_is_accounted_for() {
    let clients = 6;
    let cohort = Cohort { threshold: 4, colluding: 1 };
    let shared = values().shared_noise(budget(1.0), cohort).unwrap();
    let mut noise = Noise::seeded(4);
    let runs = 4000;
    let (mut square, mut fourth, mut inside) = (0.0, 0.0, 0);
    let sigma = shared.sigma()[0] * f64::from(clients).sqrt();
    for _ in 0..runs {
        let parts: Vec<Products> =
            (0..clients).map(|_| values().with_noise(&shared, &mut noise).unwrap()).collect();
        let z = added(&parts).xx[0] / sigma;
        square += z * z / f64::from(runs);
        fourth += z.powi(4) / f64::from(runs);
        inside += i32::from(z.abs() < 1.0);
    }
    // Standard errors: √(2/4000) = 0.022, √(96/4000) = 0.15, √(0.683 · 0.317 / 4000) = 0.0074.
    assert!((square - 1.0).abs() < 0.09, "{square}");
    assert!((fourth - 3.0).abs() < 0.62, "{fourth}");
    assert!((f64::from(inside) / f64::from(runs) - 0.6827).abs() < 0.03, "{inside}");
    // What three honest clients add has the variance the budget asks for at the declared sensitivity.
    let rho = budget(1.0).rho().unwrap();
    let (_, _, declared) = values().before_noise().unwrap()[0].clone();
    let asked = declared / (2.0 * rho * 0.5).sqrt();
    let made = shared.sigma()[0] * 3.0_f64.sqrt();
    assert!(made >= asked && made < 1.01 * asked, "{made} {asked}");
}

#[test]
fn a_sum_with_shared_noise_fits_better_than_noise_at_every_client() {
    let (clients, rows) = (12, 1000);
    let truth = [0.3, -0.4];
    let mut draw = Draw::new(8);
    let mut noise = Noise::seeded(8);
    let cohort = Cohort { threshold: 8, colluding: 2 };
    let shared = values().shared_noise(budget(1.0), cohort).unwrap();
    let (mut parts, mut alone): (Vec<Products>, Option<pmfcl::private::Released>) =
        (Vec::new(), None);
    for _ in 0..clients {
        let mut own = values();
        let x: Vec<f64> = (0..2 * rows).map(|_| 1.4 * draw.uniform() - 0.7).collect();
        let y: Vec<f64> = x
            .chunks_exact(2)
            .map(|r| 0.1 + truth[0] * r[0] + truth[1] * r[1] + 0.05 * draw.normal())
            .collect();
        own.add(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap()).unwrap();
        parts.push(own.with_noise(&shared, &mut noise).unwrap());
        let made = pmfcl::private::release(&own, budget(1.0), &mut noise).unwrap();
        alone = Some(alone.map_or(made.clone(), |all| all.merge(&made).unwrap()));
    }
    let gap = |summary| {
        let theta = solve(&summary, true, Penalty::NONE, None).unwrap().theta;
        let t = theta.column(0);
        (t[0] - 0.1).abs().max((t[1] - truth[0]).abs()).max((t[2] - truth[1]).abs())
    };
    // Four drop out: the threshold still stays.
    let together = shared.released(&added(&parts[..8])).unwrap();
    assert!((together.samples() - 8000.0).abs() < 6.0 * together.sigma()[0]);
    assert!(together.clipped_share() < 0.1, "{}", together.clipped_share());
    let (ours, theirs) =
        (gap(together.with_ridge(0.0).unwrap()), gap(alone.unwrap().with_ridge(0.0).unwrap()));
    println!("shared noise {ours}, noise at each {theirs}");
    assert!(ours < 0.05 && ours < theirs, "{ours} {theirs}");
    // One fewer is no sum of this round.
    let error = shared.released(&added(&parts[..7])).unwrap_err();
    assert!(error.to_string().contains("at least 8 clients"), "{error}");
    assert!(shared.released_classes(&added(&parts[..8])).is_err());
}

#[test]
fn classes_with_shared_noise_are_those_of_one_release() {
    let (fresh, truth) = classes(2000, 50);
    let empty = ClippedClasses::new(design(D), 3, 1.0).unwrap();
    let shared = empty.shared_noise(budget(1.0), Cohort { threshold: 5, colluding: 0 }).unwrap();
    let mut noise = Noise::seeded(3);
    let parts: Vec<Products> = (0..5)
        .map(|client| {
            let (x, labels) = classes(1000, client);
            sums(&x, &labels).with_noise(&shared, &mut noise).unwrap()
        })
        .collect();
    let released = shared.released_classes(&added(&parts)).unwrap();
    let right = accuracy("gaussian", std::slice::from_ref(&released), &fresh, &truth);
    assert!(right > 0.85, "{right}");
    // As wide as one release of all rows: the noise is shared, not added.
    let one = sums(&classes(10, 1).0, &classes(10, 1).1).release(budget(1.0), &mut noise).unwrap();
    for (ours, central) in released.sigma().iter().zip(one.sigma()) {
        assert!((ours / central - 1.0).abs() < 0.02, "{ours} {central}");
    }
}

#[test]
fn whatever_differs_in_shared_noise_is_another_round() {
    let cohort = Cohort { threshold: 5, colluding: 1 };
    let base = values().shared_noise(budget(1.0), cohort).unwrap();
    let other = |epsilon: f64, threshold: usize, colluding: usize| -> SharedNoise {
        values().shared_noise(budget(epsilon), Cohort { threshold, colluding }).unwrap()
    };
    let wide = Clipped::new(design(2), 1, Bounds::new(1.0, 2.0).unwrap()).unwrap();
    let all = [
        base.digest(Digest([0; 32])),
        base.digest(Digest([1; 32])),
        other(2.0, 5, 1).digest(Digest([0; 32])),
        other(1.0, 6, 1).digest(Digest([0; 32])),
        other(1.0, 5, 2).digest(Digest([0; 32])),
        wide.shared_noise(budget(1.0), cohort).unwrap().digest(Digest([0; 32])),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|b| a != b), "{i}");
    }
    assert_eq!(base.digest(Digest([0; 32])), other(1.0, 5, 1).digest(Digest([0; 32])));
    assert!(wide.with_noise(&base, &mut Noise::seeded(1)).is_err());
}
