//! `verify` finds sound files sound, whatever their columns, and a solution that does not follow from the memory wrong.

use std::path::Path;

use pmfcl::learner::{LearnerParts, MemoryParts};
use pmfcl::{
    Classifier, ClassifierSettings, Labels, Learner, MemoryKind, Preference, Ridge, Rows, Settings,
};
use pmfcl_file::{Learned, Model, ModelFile, Schema, verify};
use pmfcl_oracle::Draw;

fn checked(path: &Path, d: usize, learned: Learned) -> Result<(), String> {
    let _ = std::fs::remove_file(path);
    let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
    let schema = Schema::numbers(&names, &["y".to_owned()]);
    drop(ModelFile::create(path, &Model { schema, learned }).unwrap());
    verify(path).map(|_| ()).map_err(|e| e.to_string())
}

/// A constant column, one that hardly varies, years, and ordinary ones.
fn table(n: usize, d: usize, constant: f64, draw: &mut Draw) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..n * d)
        .map(|i| match i % d {
            0 => constant,
            1 => 2011.0 + draw.normal().round(),
            2 => 5.0 * (1.0 + 1e-9 * draw.normal()),
            _ => draw.normal(),
        })
        .collect();
    let y = x.chunks_exact(d).map(|row| 3.0 + row[d - 1] + draw.normal()).collect();
    (x, y)
}

#[test]
fn models_with_constant_columns_and_few_rows_are_sound() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.pmf");
    let mut draw = Draw::new(17);
    for case in 0..160 {
        let (d, n, tasks) = (1 + draw.below(9), 1 + draw.below(30), 1 + draw.below(12));
        let (x, y) = table(n * tasks, d, [0.1, 3.7, -1e6, 0.0][case % 4], &mut draw);
        let memory = if case % 3 == 0 { MemoryKind::Compact } else { MemoryKind::Ledger };
        let ridge = [Ridge::Auto, Ridge::Auto, Ridge::Fixed(0.1), Ridge::Fixed(0.0)][case / 4 % 4];
        let prefer = [Preference::Samples, Preference::Equal][case / 16 % 2].clone();
        let settings =
            Settings { memory, ridge, standardize: case % 2 == 0, prefer, ..Settings::default() };
        let mut learner = Learner::new(settings).unwrap();
        let settings = ClassifierSettings { memory, ..ClassifierSettings::default() };
        let mut classifier = Classifier::new(settings).unwrap();
        for t in 0..tasks {
            let rows = Rows::new(&x[t * n * d..(t + 1) * n * d], d).unwrap();
            let y = &y[t * n..(t + 1) * n];
            learner.learn(&t.to_string(), rows, Rows::new(y, 1).unwrap()).unwrap();
            let labels: Vec<&str> =
                y.iter().map(|y| if *y > 3.0 { "up" } else { "down" }).collect();
            classifier.learn(&t.to_string(), rows, &Labels::new(&labels)).unwrap();
        }
        let learned =
            [Learned::Regression(Box::new(learner)), Learned::Classification(Box::new(classifier))];
        for learned in learned {
            let found = checked(&path, d, learned);
            assert_eq!(found, Ok(()), "case {case}: {d} columns, {n} rows, {tasks} tasks");
        }
    }
}

/// Another rule may have chosen the ridge; the solution must still be that of the ridge on record.
#[test]
fn another_ridge_with_its_solution_is_sound_and_without_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.pmf");
    let mut draw = Draw::new(5);
    let (x, y) = table(40, 5, 0.1, &mut draw);
    let rows = || (Rows::new(&x, 5).unwrap(), Rows::new(&y, 1).unwrap());
    let mut chosen = Learner::new(Settings::default()).unwrap();
    chosen.learn("one", rows().0, rows().1).unwrap();
    let mut fixed = chosen.clone();
    let ridge = Ridge::Fixed(3.0 * chosen.model().unwrap().penalty.ridge());
    let other = fixed.set_ridge(ridge, true).unwrap().clone();
    let with = |model: pmfcl::Model| {
        let (pool, floor) = chosen.kept_pool().unwrap();
        let parts = LearnerParts {
            settings: chosen.settings().clone(),
            design: chosen.design().cloned(),
            targets: 1,
            tasks: chosen.records().to_vec(),
            memory: MemoryParts::Ledger {
                pool: pool.clone(),
                floor,
                summaries: chosen.summaries().unwrap().to_vec(),
            },
            model: Some(model),
        };
        checked(&path, 5, Learned::Regression(Box::new(Learner::from_parts(parts).unwrap())))
    };
    assert_eq!(with(other.clone()), Ok(()));
    let stranger = pmfcl::Model { theta: other.theta, ..chosen.model().unwrap().clone() };
    assert!(with(stranger).unwrap_err().contains("the solution is not the one"));
    let mut touched = chosen.model().unwrap().clone();
    let at = touched.theta.column(0)[4];
    touched.theta.column_mut(0)[4] = at * (1.0 + 1e-8);
    assert!(with(touched).unwrap_err().contains("the solution is not the one"));
}
