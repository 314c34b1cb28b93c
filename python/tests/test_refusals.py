"""Bad input: the exceptions scikit-learn uses, with names; never a panic."""

import warnings

import numpy as np
import pytest
from conftest import learned
from pmfcl import ContinualClassifier, ContinualRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge


@pytest.mark.parametrize("make", [ContinualRegressor, ContinualClassifier])
def test_nothing_is_known_before_the_first_task(make):
    model = make()
    for ask in (
        lambda: model.predict([[1.0]]),
        lambda: model.coef_,
        lambda: model.tasks_,
        lambda: model.unlearn("a"),
        lambda: model.prefer("equal"),
        lambda: model.save("x.pmf"),
        lambda: model.report(),
        lambda: model.pareto_front("a", "b"),
        lambda: model.merge(model),
    ):
        with pytest.raises(NotFittedError):
            ask()
    assert not hasattr(model, "forgetting_")
    assert model.preference == "samples"


def test_features_that_are_not_finite_are_named(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rng.normal(size=(5000, 2)), columns=["price", "size"])
    frame.loc[4321, "size"] = np.nan
    for call in (
        lambda: ContinualRegressor().fit(frame, np.zeros(5000)),
        lambda: ContinualRegressor().fit(frame[:10], np.arange(10)).predict(frame),
        lambda: ContinualClassifier().fit(frame[:10], np.arange(10) % 2).predict_proba(frame),
    ):
        with pytest.raises(ValueError, match="feature 'size' at row 4321 is NaN"):
            call()
    with pytest.raises(ValueError, match="feature 'x1' at row 1 is inf"):
        ContinualRegressor().fit([[1.0], [np.inf]], [1.0, 2.0])


def test_what_has_the_wrong_shape_or_kind(months):
    X, y = months[0]
    model = ContinualRegressor().fit(X, y)
    cases = [
        (lambda: model.predict(X[:, :3]), ValueError, "X has 3 features"),
        (lambda: model.predict(X[0]), ValueError, "Expected 2D array"),
        (lambda: model.partial_fit(X[:, :3], y), ValueError, "X has 3 features"),
        (lambda: model.partial_fit(X, y[:-1]), ValueError, "inconsistent numbers of samples"),
        (lambda: model.partial_fit(X, np.column_stack([y, y])), ValueError, "2 targets"),
        (lambda: model.partial_fit(X, y, sample_weight=np.ones(3)), ValueError, "sample_weight"),
        (lambda: model.partial_fit(X, y, sample_weight=-np.ones(len(y))), ValueError, "negative"),
        (lambda: model.partial_fit(X, y, sample_weight=np.zeros(len(y))), ValueError, "zero"),
        (lambda: model.partial_fit(X, y, task="b", weight=0.0), ValueError, "weight of task"),
        (lambda: model.partial_fit(X, y, task="stream"), ValueError, "learned already"),
        (lambda: model.partial_fit(X, y, weight=2.0), ValueError, "weight is that of a whole task"),
        (lambda: ContinualRegressor(threads=1), TypeError, "threads"),
        (lambda: ContinualRegressor(prefer="equal"), TypeError, "prefer"),
        (lambda: ContinualRegressor(n_jobs=0).fit(X, y), ValueError, "n_jobs is 0"),
        (lambda: ContinualRegressor(ridge=[0.1, 0.2]).fit(X, y), ValueError, "list of ridges"),
        (lambda: ContinualRegressor(loss="huber", ridge=[0.1, 0.2]).fit(X, y), ValueError, "ridge for each target"),
        (
            lambda: ContinualClassifier(loss="squared", ridge=[0.1, 0.2]).fit(X, y > 0),
            ValueError,
            "ridge for each target",
        ),
        (lambda: model.partial_fit(X, None), ValueError, "requires y"),
        (lambda: model.partial_fit([["a"] * 5], [1.0]), ValueError, "could not convert"),
        (lambda: model.partial_fit(X + 1j, y), ValueError, "Complex"),
        (lambda: model.partial_fit(X[:0], y[:0]), ValueError, "0 sample"),
        (lambda: model.unlearn("nobody"), ValueError, "no task is named `nobody`"),
        (lambda: model.summary("nobody"), ValueError, "no task is named `nobody`"),
        (lambda: model.predict_interval(X, 1.5), ValueError, "between 0 and 1"),
        (lambda: ContinualClassifier().fit(X, y), ValueError, "Unknown label type"),
    ]
    before = model.coef_.tobytes()
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
    assert model.coef_.tobytes() == before
    assert len(model.tasks_) == 1


def test_settings_that_make_no_sense_are_told_when_fitting(months):
    X, y = months[0]
    for make, options, words in [
        (ContinualRegressor, {"ridge": -1.0}, "ridge"),
        (ContinualRegressor, {"ridge": "much"}, "auto"),
        (ContinualRegressor, {"basis": "wavelet"}, "basis|wavelet"),
        (ContinualRegressor, {"memory": "none"}, "ledger, compact"),
        (ContinualRegressor, {"accumulator": "sum"}, "auto, qr, gram, mixed"),
        (ContinualRegressor, {"preference": "decay:2"}, "decay"),
        (ContinualClassifier, {"loss": "hinge"}, "squared, huber.*, gaussian, logistic"),
        (ContinualClassifier, {"curvature": "flat"}, "bohning"),
        (ContinualClassifier, {"scheme": "twice"}, "one-shot"),
        (ContinualClassifier, {"shrinkage": 2.0}, "between 0 and 1"),
        (ContinualClassifier, {"calibrate": 0.0}, "temperature"),
        (ContinualClassifier, {"fit_intercept": False}, "intercept"),
    ]:
        target = y if make is ContinualRegressor else y > 0
        with pytest.raises(ValueError, match=words):
            make(**options).fit(X, target)


def test_classes_nobody_named(flowers):
    model = ContinualClassifier(loss="logistic").partial_fit(*flowers[0])
    with pytest.raises(ValueError, match="ash"):
        model.partial_fit(*flowers[2])
    assert list(model.classes_) == ["elm", "oak"]
    named = ContinualClassifier().partial_fit(*flowers[0], classes=["elm", "oak"])
    with pytest.raises(ValueError, match="ash"):
        named.partial_fit(*flowers[2])
    with pytest.raises(ValueError, match="first call"):
        named.partial_fit(*flowers[0], classes=["ash", "elm", "oak"])
    with pytest.raises(ValueError, match="text and numbers"):
        named.partial_fit(flowers[0][0], np.arange(50) % 2)
    with pytest.raises(ValueError, match="one class.*named"):
        ContinualClassifier(loss="logistic").fit(flowers[0][0], np.zeros(50))
    ahead = ContinualClassifier().partial_fit(*flowers[0], classes=["ash", "elm", "oak"])
    assert (ahead.predict_proba(flowers[0][0])[:, 0] == 0).all()


def test_numbers_too_large_to_square_do_not_become_nan(rng):
    X = rng.normal(size=(20, 2))
    for scale in (1e160, 1e300):
        model = ContinualRegressor(ridge=0.1)
        try:
            found = model.fit(X * scale, X[:, 0]).predict(X * scale)
        except ValueError as error:
            assert any(word in str(error) for word in ("rescale", "overflow", "finite"))
        else:
            assert np.isfinite(found).all()


def test_hard_situations_are_no_errors(rng):
    X = rng.normal(size=(5, 20))
    y = rng.normal(size=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ContinualRegressor(ridge=0.0).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
        # Minimum norm, the intercept free: what a vanishing ridge tends to.
        np.testing.assert_allclose(model.coef_, Ridge(alpha=1e-9).fit(X, y).coef_, atol=1e-6)
        one = ContinualClassifier().fit(X, ["only"] * 5)
        assert list(one.predict(X)) == ["only"] * 5
        constant = ContinualRegressor().fit(np.ones((5, 3)), y)
        np.testing.assert_allclose(constant.predict(np.ones((1, 3))), y.mean())


def test_compact_memory_says_what_it_cannot(months):
    model = learned(ContinualRegressor(memory="compact"), [*months, *[(X + 1, y) for X, y in months]][:4])
    for k, (X, y) in enumerate(months):
        model.partial_fit(X, y, task=f"again{k}")
    assert model._model.facts()["folded"]
    for ask in (lambda: model.prefer("equal"), model.history, model.conflicts, lambda: model.pareto_front("t0", "t1")):
        with pytest.raises(ValueError, match="compact memory"):
            ask()
    assert model.forgetting_["t0"] is None
