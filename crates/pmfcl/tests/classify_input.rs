//! Bad input: a clear error or documented behaviour, and a classifier that is what it was.

use pmfcl::classify::{Shrinkage, Temperature};
use pmfcl::{ClassLoss, Classifier, ClassifierSettings, Error, Labels, Rows};

fn settings(loss: ClassLoss) -> ClassifierSettings {
    ClassifierSettings { loss, threads: 1, ..ClassifierSettings::default() }
}

fn fitted(settings: ClassifierSettings) -> Classifier {
    let mut model = Classifier::new(settings).unwrap();
    let x = [0.0, 1.0, 1.0, 0.5, 4.0, 3.0, 5.0, 4.5];
    model.learn("one", Rows::new(&x, 2).unwrap(), &Labels::new(&["a", "a", "b", "b"])).unwrap();
    model
}

/// The error of learning these rows; the classifier must be what it was.
fn refused(model: &mut Classifier, x: &[f64], y: &[&str], weights: Option<&[f64]>) -> Error {
    let before = (model.model().unwrap().clone(), model.classes().to_vec(), model.state_bytes());
    let rows = Rows::new(x, 2).unwrap();
    let error = model.learn_weighted("bad", rows, &Labels::new(y), weights, 1.0).unwrap_err();
    let after = (model.model().unwrap().clone(), model.classes().to_vec(), model.state_bytes());
    assert_eq!(before, after, "{error}");
    assert!(model.learner().names().eq(["one"]), "{error}");
    error
}

const EXACT: [ClassLoss; 2] = [ClassLoss::Squared, ClassLoss::Gaussian];

#[test]
fn a_label_outside_the_fixed_classes_is_named_with_its_row() {
    for loss in EXACT {
        let classes = Some(vec!["b".to_owned(), "a".to_owned()]);
        let mut model = fitted(ClassifierSettings { classes, ..settings(loss) });
        let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a", "z"], None);
        assert!(matches!(&error, Error::UnknownClass { label, row: 1, .. } if label == "z"));
        assert!(error.to_string().contains("`a`, `b`"), "{error}");
    }
}

#[test]
fn values_that_are_not_finite_are_named() {
    for loss in EXACT {
        let mut model = fitted(settings(loss));
        let error = refused(&mut model, &[1.0, 2.0, 3.0, f64::NAN], &["a", "new"], None);
        assert!(matches!(error, Error::NotFinite { row: 1, column: 1, .. }), "{error}");
        let probe = [f64::INFINITY, 0.0];
        let error = model.predict(Rows::new(&probe, 2).unwrap()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { row: 0, column: 0, .. }), "{error}");
    }
}

#[test]
fn weights_of_zero_are_refused() {
    for loss in EXACT {
        let mut model = fitted(settings(loss));
        let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a", "c"], Some(&[1.0, 0.0]));
        assert!(matches!(error, Error::Weight { .. }), "{error}");
        let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a", "c"], Some(&[1.0]));
        assert!(matches!(error, Error::Shape { .. }), "{error}");
    }
}

#[test]
fn shapes_names_and_emptiness_are_checked() {
    let mut model = fitted(settings(ClassLoss::Gaussian));
    let error = refused(&mut model, &[1.0, 2.0, 3.0, 4.0], &["a"], None);
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    let error = refused(&mut model, &[], &[], None);
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    let again = model.learn("one", Rows::new(&[1.0, 2.0], 2).unwrap(), &Labels::new(&["a"]));
    assert!(matches!(again, Err(Error::DuplicateTask { .. })));
    let narrow =
        model.learn("narrow", Rows::new(&[1.0, 2.0], 1).unwrap(), &Labels::new(&["a", "b"]));
    assert!(matches!(narrow, Err(Error::Shape { .. })));
}

#[test]
fn settings_are_checked() {
    let refuse = |settings: ClassifierSettings| Classifier::new(settings).unwrap_err();
    let plain = || settings(ClassLoss::Gaussian);
    let shrinkage = Shrinkage::Diagonal(1.5);
    refuse(ClassifierSettings { shrinkage, ..plain() });
    refuse(ClassifierSettings { temperature: Temperature::Fixed(0.0), ..plain() });
    refuse(ClassifierSettings { intercept: false, ..plain() });
    let classes = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    refuse(ClassifierSettings { classes: classes(&["a"]), ..plain() });
    refuse(ClassifierSettings { classes: classes(&["a", "b", "a"]), ..plain() });
}

/// One class is a class-incremental stream's usual beginning: it is predicted with certainty.
#[test]
fn a_single_class_is_predicted_with_certainty() {
    for loss in EXACT {
        let mut model = Classifier::new(settings(loss)).unwrap();
        let x = [0.0, 1.0, 2.0, 0.0, 5.0, 1.0];
        let x = Rows::new(&x, 2).unwrap();
        model.learn("one", x, &Labels::new(&[7, 7, 7])).unwrap();
        assert_eq!(model.predict(x).unwrap(), ["7"; 3]);
        assert!(model.predict_proba(x).unwrap().iter().all(|p| (p - 1.0).abs() < 1e-15));
    }
}

/// With one row a class there is no scatter within classes: the nearest mean on standardized features.
#[test]
fn more_classes_than_samples_leave_the_nearest_mean() {
    for loss in EXACT {
        let mut model = Classifier::new(settings(loss)).unwrap();
        let x = [0.0, 0.0, 100.0, 0.0, 0.0, 1.0];
        let x = Rows::new(&x, 2).unwrap();
        model.learn("one", x, &Labels::new(&["a", "b", "c"])).unwrap();
        assert!(model.model().unwrap().theta.is_finite());
        if loss == ClassLoss::Gaussian {
            assert_eq!(model.predict(x).unwrap(), ["a", "b", "c"]);
        }
    }
}

/// A feature that is constant within classes but differs between them separates them; one that never
/// varies counts nothing.
#[test]
fn features_without_variance_within_classes_stay_finite() {
    let mut model = Classifier::new(settings(ClassLoss::Gaussian)).unwrap();
    let x = [1.0, 3.0, 1.0, 3.0, 2.0, 3.0, 2.0, 3.0];
    let x = Rows::new(&x, 2).unwrap();
    model.learn("one", x, &Labels::new(&["a", "a", "b", "b"])).unwrap();
    assert!(model.model().unwrap().theta.is_finite());
    assert_eq!(model.predict(x).unwrap(), ["a", "a", "b", "b"]);
    assert!(model.model().unwrap().theta.column(0)[2].abs() < 1e-300);
    assert!(model.tasks().unwrap()[0].report.loss.unwrap().is_finite());
}
