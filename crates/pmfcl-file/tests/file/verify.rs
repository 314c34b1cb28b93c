//! `verify` finds sound files sound, whatever their columns, and a solution that does not follow from the memory wrong.

use std::path::Path;

use pmfcl::learner::LearnerState;
use pmfcl::{
    Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings, Solution, TaskRows,
};
use pmfcl_file::{Model, ModelFile, Schema, verify};
use pmfcl_oracle::Draw;

fn checked(path: &Path, d: usize, learner: Learner) -> Result<(), String> {
    let _ = std::fs::remove_file(path);
    let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
    let schema = Schema::numbers(&names, &["y".to_owned()]);
    drop(ModelFile::create(path, &Model { schema, learner }).unwrap());
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
        let ridge =
            [Ridge::Auto, Ridge::Auto, Ridge::Fixed(0.1), Ridge::Fixed(0.0)][case / 4 % 4].clone();
        let prefer = [Preference::Samples, Preference::Equal][case / 16 % 2].clone();
        let settings =
            Settings { memory, ridge, standardize: case % 2 == 0, prefer, ..Settings::default() };
        let mut learner = Learner::new(Problem::squared(), settings).unwrap();
        let settings = Settings { memory, ..Settings::default() };
        let mut classifier = Learner::new(Problem::gaussian(), settings).unwrap();
        for t in 0..tasks {
            let rows = Rows::new(&x[t * n * d..(t + 1) * n * d], d).unwrap();
            let y = &y[t * n..(t + 1) * n];
            let values = TaskRows::new(rows, Rows::new(y, 1).unwrap());
            learner.learn(&t.to_string(), values, 1.0).unwrap();
            let labels: Vec<&str> =
                y.iter().map(|y| if *y > 3.0 { "up" } else { "down" }).collect();
            let labels = Labels::new(&labels);
            classifier.learn(&t.to_string(), TaskRows::new(rows, &labels), 1.0).unwrap();
        }
        for learner in [learner, classifier] {
            let found = checked(&path, d, learner);
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
    let rows = TaskRows::new(Rows::new(&x, 5).unwrap(), Rows::new(&y, 1).unwrap());
    let mut chosen = Learner::new(Problem::squared(), Settings::default()).unwrap();
    chosen.learn("one", rows, 1.0).unwrap();
    let mut fixed = chosen.clone();
    let ridge = Ridge::Fixed(3.0 * chosen.solution().unwrap().penalty.ridge());
    fixed.set_ridge(ridge, true).unwrap();
    let other = fixed.solution().unwrap().clone();
    let with = |solution: Solution| {
        let summary = chosen.task_summary("one").unwrap().clone();
        let state = LearnerState {
            problem: chosen.problem().clone(),
            settings: chosen.settings().clone(),
            design: chosen.design().cloned(),
            outputs: chosen.outputs().clone(),
            tasks: vec![(chosen.records()[0].clone(), Some(summary))],
            pool: chosen.kept_pool().cloned(),
            solution: Some((solution, vec![true])),
        };
        checked(&path, 5, Learner::from_state(state).unwrap())
    };
    assert_eq!(with(other.clone()), Ok(()));
    let stranger = Solution { theta: other.theta, ..chosen.solution().unwrap().clone() };
    assert!(with(stranger).unwrap_err().contains("the solution is not the one"));
    let mut touched = chosen.solution().unwrap().clone();
    let at = touched.theta.column(0)[4];
    touched.theta.column_mut(0)[4] = at * (1.0 + 1e-8);
    assert!(with(touched).unwrap_err().contains("the solution is not the one"));
}
