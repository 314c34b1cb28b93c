//! Bad input: a clear error or documented behaviour, and a learner that is unchanged.

use pmfcl::problem::{Calibrate, Gaussian, Shrinkage};
use pmfcl::{ClassList, Error, Label, Labels, Learner, Problem, Rows, Settings, TaskRows};

fn settings() -> Settings {
    Settings { threads: 1, ..Settings::default() }
}

fn empty(problem: Problem) -> Learner {
    Learner::new(problem, settings()).unwrap()
}

fn learn<L: Label>(model: &mut Learner, name: &str, x: Rows<'_>, y: &[L]) -> Result<(), Error> {
    model.learn(name, TaskRows::new(x, &Labels::new(y)), 1.0)
}

fn fitted(problem: Problem) -> Learner {
    let mut model = empty(problem);
    let x = [0.0, 1.0, 1.0, 0.5, 4.0, 3.0, 5.0, 4.5];
    learn(&mut model, "one", Rows::new(&x, 2).unwrap(), &["a", "a", "b", "b"]).unwrap();
    model
}

/// The error of learning these rows; the learner must be unchanged.
fn refused(model: &mut Learner, x: &[f64], y: &[&str], weights: Option<&[f64]>) -> Error {
    let state = |model: &Learner| {
        (model.solution().unwrap().clone(), model.classes().to_vec(), model.state_bytes())
    };
    let before = state(model);
    let (rows, labels) = (Rows::new(x, 2).unwrap(), Labels::new(y));
    let rows = TaskRows::new(rows, &labels).weighted(weights);
    let error = model.learn("bad", rows, 1.0).unwrap_err();
    assert_eq!(before, state(model), "{error}");
    assert!(model.names().eq(["one"]), "{error}");
    error
}

/// The problems of classes whose quadratics are their losses.
fn exact() -> [Problem; 2] {
    [Problem::parse("squared", Some(ClassList::Open)).unwrap(), Problem::gaussian()]
}

#[test]
fn a_label_outside_the_fixed_classes_is_named_with_its_row() {
    for problem in exact() {
        let classes = vec!["b".to_owned(), "a".to_owned()];
        let mut model = fitted(problem.with_classes(classes).unwrap());
        let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a", "z"], None);
        assert!(matches!(&error, Error::UnknownClass { label, row: 1, .. } if label == "z"));
        assert!(error.to_string().contains("`a`, `b`"), "{error}");
    }
}

#[test]
fn values_that_are_not_finite_are_named() {
    for problem in exact() {
        let mut model = fitted(problem);
        let error = refused(&mut model, &[1.0, 2.0, 3.0, f64::NAN], &["a", "new"], None);
        assert!(matches!(error, Error::NotFinite { row: 1, column: 1, .. }), "{error}");
        let probe = [f64::INFINITY, 0.0];
        let error = model.predict_classes(Rows::new(&probe, 2).unwrap()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { row: 0, column: 0, .. }), "{error}");
    }
}

#[test]
fn weights_of_zero_are_refused() {
    for problem in exact() {
        let mut model = fitted(problem);
        let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a", "c"], Some(&[1.0, 0.0]));
        assert!(matches!(error, Error::Weight { .. }), "{error}");
        let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a", "c"], Some(&[1.0]));
        assert!(matches!(error, Error::Shape { .. }), "{error}");
    }
}

#[test]
fn shapes_names_and_emptiness_are_checked() {
    let mut model = fitted(Problem::gaussian());
    let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a"], None);
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    let error = refused(&mut model, &[], &[], None);
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    let again = learn(&mut model, "one", Rows::new(&[1.0, 2.0], 2).unwrap(), &["a"]);
    assert!(matches!(again, Err(Error::DuplicateTask { .. })));
    let narrow = learn(&mut model, "narrow", Rows::new(&[1.0, 2.0], 1).unwrap(), &["a", "b"]);
    assert!(matches!(narrow, Err(Error::Shape { .. })));
}

#[test]
fn settings_are_checked() {
    let refuse = |problem: Gaussian| {
        Learner::new(Problem::Gaussian(problem), settings()).unwrap_err();
    };
    let plain = Gaussian::default;
    refuse(Gaussian { shrinkage: Shrinkage::Diagonal(1.5), ..plain() });
    refuse(Gaussian { calibrate: Calibrate::Fixed(0.0), ..plain() });
    let no_intercept = Settings { intercept: false, ..settings() };
    Learner::new(Problem::gaussian(), no_intercept).unwrap_err();
    for names in [&["a"][..], &["a", "b", "a"]] {
        let list = ClassList::Fixed(names.iter().map(ToString::to_string).collect());
        refuse(Gaussian { classes: list.clone(), ..plain() });
        Problem::parse("gaussian", Some(list)).unwrap_err();
    }
}

/// One class is a class-incremental stream's usual beginning: it is predicted with certainty.
#[test]
fn a_single_class_is_predicted_with_certainty() {
    for problem in exact() {
        let mut model = empty(problem.clone());
        let x = [0.0, 1.0, 2.0, 0.0, 5.0, 1.0];
        let x = Rows::new(&x, 2).unwrap();
        learn(&mut model, "one", x, &[7, 7, 7]).unwrap();
        assert_eq!(model.predict_classes(x).unwrap(), ["7"; 3]);
        assert!(model.probabilities(x).unwrap().iter().all(|p| (p - 1.0).abs() < 1e-15));
    }
}

/// With one row a class there is no scatter within classes: the nearest mean on standardized features.
#[test]
fn more_classes_than_samples_leave_the_nearest_mean() {
    for problem in exact() {
        let mut model = empty(problem.clone());
        let x = [0.0, 0.0, 100.0, 0.0, 0.0, 1.0];
        let x = Rows::new(&x, 2).unwrap();
        learn(&mut model, "one", x, &["a", "b", "c"]).unwrap();
        assert!(model.solution().unwrap().theta.is_finite());
        if problem == Problem::gaussian() {
            assert_eq!(model.predict_classes(x).unwrap(), ["a", "b", "c"]);
        }
    }
}

/// A feature that is constant within classes but differs between them separates them; one that never
/// varies counts nothing.
#[test]
fn features_without_variance_within_classes_stay_finite() {
    let mut model = empty(Problem::gaussian());
    let x = [1.0, 3.0, 1.0, 3.0, 2.0, 3.0, 2.0, 3.0];
    let x = Rows::new(&x, 2).unwrap();
    learn(&mut model, "one", x, &["a", "a", "b", "b"]).unwrap();
    assert!(model.solution().unwrap().theta.is_finite());
    assert_eq!(model.predict_classes(x).unwrap(), ["a", "a", "b", "b"]);
    assert!(model.solution().unwrap().theta.column(0)[2].abs() < 1e-300);
    assert!(model.tasks().unwrap()[0].loss.unwrap().is_finite());
}
