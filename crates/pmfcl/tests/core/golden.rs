//! Numbers from an independent oracle (NumPy, float64, checked against joint solves).

use pmfcl::pareto::PairFront;
use pmfcl::report::{conflict, inference};
use pmfcl::solve::ridge::Spectrum;
use pmfcl::{
    Accumulator, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings, TaskRows,
};
use pmfcl_oracle::recursion::{Form, Recursion};
use serde_json::Value;

fn load(name: &str) -> Value {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn tasks(golden: &Value) -> Vec<(Vec<f64>, Vec<f64>, usize)> {
    let rows =
        |t: &Value| -> Vec<Vec<f64>> { t["X"].as_array().unwrap().iter().map(numbers).collect() };
    golden["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            let x = rows(t);
            let d = x[0].len();
            (x.concat(), numbers(&t["y"]), d)
        })
        .collect()
}

fn plain(memory: MemoryKind, prefer: Preference) -> Learner {
    Learner::new(
        Problem::squared(),
        Settings {
            intercept: false,
            ridge: Ridge::Fixed(0.0),
            memory,
            prefer,
            ..Settings::default()
        },
    )
    .unwrap()
}

/// The oracle is right to 1e-10 relative, and so must we be.
fn close(ours: &[f64], theirs: &[f64], what: &str) {
    let scale = theirs.iter().fold(1.0_f64, |a, v| a.max(v.abs()));
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= 1e-9 * scale, "{what}[{i}]: {a} against {b}");
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
}

#[test]
fn the_parameters_after_every_task_are_the_oracles() {
    for name in ["linear_full", "linear_switch", "linear_deficient", "linear_weights"] {
        let golden = load(name);
        let weights = golden["weights"].as_array().map(|_| numbers(&golden["weights"]));
        for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
            let prefer = if weights.is_some() { Preference::Equal } else { Preference::Samples };
            let mut learner = plain(memory, prefer);
            for (t, (x, y, d)) in tasks(&golden).iter().enumerate() {
                let weight = weights.as_ref().map_or(1.0, |w| w[t]);
                let (x, y) = (Rows::new(x, *d).unwrap(), Rows::new(y, 1).unwrap());
                learner.learn(&t.to_string(), TaskRows::new(x, y), weight).unwrap();
                close(
                    learner.solution().unwrap().theta.column(0),
                    &numbers(&golden["theta"][t]),
                    &format!("{name} task {t}"),
                );
            }
            close(learner.solution().unwrap().theta.column(0), &numbers(&golden["joint"]), name);
            if memory == MemoryKind::Ledger {
                let reports = learner.tasks().unwrap();
                let f: Vec<f64> = reports.iter().map(|r| r.forgetting.unwrap()).collect();
                let mse: Vec<f64> = reports.iter().map(|r| r.mse.as_ref().unwrap()[0]).collect();
                let r2: Vec<f64> = reports.iter().map(|r| r.r2.as_ref().unwrap()[0]).collect();
                close(&f, &numbers(&golden["forgetting"]), "forgetting");
                close(&mse, &numbers(&golden["mse"]), "mse");
                close(&r2, &numbers(&golden["r2"]), "r2");
            }
        }
    }
}

fn learned(name: &str) -> Learner {
    let golden = load(name);
    let mut learner = plain(MemoryKind::Ledger, Preference::Samples);
    for (t, (x, y, d)) in tasks(&golden).iter().enumerate() {
        let (x, y) = (Rows::new(x, *d).unwrap(), Rows::new(y, 1).unwrap());
        learner.learn(&t.to_string(), TaskRows::new(x, y), 1.0).unwrap();
    }
    learner
}

fn table(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().flat_map(numbers).collect()
}

#[test]
fn thm_4_2_the_recursion_of_the_paper_reaches_the_same_parameters() {
    for name in ["linear_full", "linear_switch"] {
        let golden = load(name);
        let tasks = tasks(&golden);
        let mut recursion = Recursion::new(tasks[0].2, Form::Corrected, 0.0);
        for (t, (x, y, _)) in tasks.iter().enumerate() {
            recursion.learn(x, y);
            close(recursion.theta(), &numbers(&golden["theta"][t]), &format!("{name} task {t}"));
        }
        assert_eq!(recursion.switched_at().map(|t| t as u64), golden["switch"].as_u64(), "{name}");
    }
}

#[test]
fn erratum_e1_the_printed_recursion_does_not() {
    let golden = load("linear_full");
    let tasks = tasks(&golden);
    let mut printed = Recursion::new(tasks[0].2, Form::Printed, 0.0);
    for (x, y, _) in &tasks {
        printed.learn(x, y);
    }
    let joint = numbers(&golden["joint"]);
    let away: f64 =
        printed.theta().iter().zip(&joint).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(away > 0.01, "tasks of unequal size: {away} from the joint solution");
}

#[test]
fn the_ridge_path_and_its_scores_are_the_oracles() {
    let stats = load("stats_tools");
    let mut learner = learned("linear_full");
    let samples = learner.samples();
    let spectrum =
        Spectrum::new(&learner.pool().unwrap().quadratic, false, false, samples).unwrap();
    let lams = numbers(&stats["lams"]);
    let on_mean = |l: &f64| l / samples;
    let gcv: Vec<f64> = lams.iter().map(|l| spectrum.gcv(on_mean(l))).collect();
    let df: Vec<f64> = lams.iter().map(|l| spectrum.degrees(on_mean(l))).collect();
    close(&gcv, &numbers(&stats["gcv"]), "gcv");
    close(&df, &numbers(&stats["df"]), "df");
    for (i, l) in lams.iter().enumerate() {
        learner.set_ridge(Ridge::Fixed(on_mean(l)), false).unwrap();
        close(learner.solution().unwrap().theta.column(0), &numbers(&stats["ridge"][i]), "ridge");
    }
}

#[test]
fn errors_conflicts_and_influence_are_the_oracles() {
    let stats = load("stats_tools");
    let learner = learned("linear_full");
    let covariance = inference::Covariance::of(&learner).unwrap();
    let se: Vec<f64> = covariance.standard_errors()[0].iter().map(|e| e.unwrap()).collect();
    close(&se, &numbers(&stats["se"]), "se");
    let cluster = inference::cluster_errors(&learner).unwrap();
    close(&cluster[0], &numbers(&stats["cluster_se"]), "cluster_se");
    let matrix = conflict::matrix(&learner).unwrap();
    close(&matrix.forgetting.concat(), &table(&stats["conflict"]), "conflict");
    close(
        &conflict::influence(&learner).unwrap().concat(),
        &table(&stats["influence"]),
        "influence",
    );
    let summaries = learner.summaries().unwrap();
    for (i, pair) in stats["chow"].as_array().unwrap().iter().enumerate() {
        let pair_of = [&*summaries[0], &*summaries[i + 1]];
        let test = &conflict::chow(pair_of.into_iter(), Accumulator::Qr).unwrap()[0];
        close(&[test.f.unwrap(), test.p_value.unwrap()], &numbers(pair), "chow");
        // p-values to relative precision as well
        let p = numbers(pair)[1];
        assert!((test.p_value.unwrap() / p - 1.0).abs() < 1e-8);
    }
}

#[test]
fn front_points_are_the_oracles() {
    let stats = load("stats_tools");
    let learner = learned("linear_full");
    let summaries = learner.summaries().unwrap();
    let front = PairFront::new(&summaries[0], &summaries[1], false).unwrap();
    for point in stats["pareto"].as_array().unwrap() {
        let w = point["w"].as_f64().unwrap();
        let at = front.at(w).unwrap();
        let theirs = [point["La"].as_f64().unwrap(), point["Lb"].as_f64().unwrap()];
        close(&[at.loss_a, at.loss_b], &theirs, "losses");
        close(front.theta(w).unwrap().column(0), &numbers(&point["theta"]), "theta");
    }
}

#[test]
fn unlearning_a_task_gives_the_oracles_parameters() {
    let stats = load("stats_tools");
    let mut learner = learned("linear_full");
    learner.unlearn("2").unwrap();
    close(learner.solution().unwrap().theta.column(0), &numbers(&stats["unlearn_2"]), "unlearn");
}
