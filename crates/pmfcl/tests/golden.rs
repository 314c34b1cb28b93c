//! Numbers from an independent oracle (NumPy, float64, checked against joint solves).

use pmfcl::{Learner, MemoryKind, Preference, Ridge, Rows, Settings};
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
    Learner::new(Settings {
        intercept: false,
        ridge: Ridge::Fixed(0.0),
        memory,
        prefer,
        ..Settings::default()
    })
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
                let model = learner.learn_weighted(&t.to_string(), x, y, None, weight).unwrap();
                close(
                    model.theta.column(0),
                    &numbers(&golden["theta"][t]),
                    &format!("{name} task {t}"),
                );
            }
            close(learner.model().unwrap().theta.column(0), &numbers(&golden["joint"]), name);
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
