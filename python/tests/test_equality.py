"""Streaming equals scikit-learn on the concatenated rows. Its Ridge adds `alpha` to a sum, ours adds `ridge` to a mean, so
`alpha = ridge * samples`."""

import itertools

import numpy as np
import pytest
from conftest import learned, stacked
from pmfcl import ContinualClassifier, ContinualRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

# Both sides solve systems of condition below 1e3 in double precision.
NEAR = {"rtol": 1e-9, "atol": 1e-9}


def tasks_of(rng, targets):
    """Tasks of unlike size and drift, with weights."""
    tasks = []
    for k, n in enumerate((30, 70, 45)):
        X = rng.normal(size=(n, 6)) * np.array([1, 5, 0.2, 1, 2, 1]) + k
        Y = X @ rng.normal(size=(6, targets)) + 2.0 + rng.normal(size=(n, targets))
        tasks.append((X, Y[:, 0] if targets == 1 else Y, rng.uniform(0.1, 3.0, size=n)))
    return tasks


@pytest.mark.parametrize("accumulator", ["qr", "gram"])
@pytest.mark.parametrize(
    ("ridge", "intercept", "weighted", "targets"),
    list(itertools.product([0.0, 0.3], [True, False], [True, False], [1, 3])),
)
def test_ridge_and_least_squares_on_all_rows(rng, ridge, intercept, weighted, targets, accumulator):
    tasks = tasks_of(rng, targets)
    for memory in ("ledger", "compact"):
        model = ContinualRegressor(ridge=ridge, fit_intercept=intercept, memory=memory, accumulator=accumulator)
        for X, y, w in tasks:
            model.partial_fit(X, y, w if weighted else None, task=len(X))
        X, y, w = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
        samples = w.sum() if weighted else len(X)
        if ridge:
            peer = Ridge(alpha=ridge * samples, fit_intercept=intercept, solver="cholesky", tol=1e-12)
        else:
            peer = LinearRegression(fit_intercept=intercept)
        peer.fit(X, y, sample_weight=w if weighted else None)
        np.testing.assert_allclose(model.coef_, peer.coef_, **NEAR)
        np.testing.assert_allclose(model.intercept_, peer.intercept_, **NEAR)
        np.testing.assert_allclose(model.predict(X), peer.predict(X), **NEAR)
        assert model.coef_.shape == peer.coef_.shape
        assert type(model.intercept_) is type(peer.intercept_)
        assert np.shape(model.intercept_) == np.shape(peer.intercept_)
        assert model.n_samples_ == pytest.approx(samples)


def test_order_split_and_threads_do_not_matter(months):
    X, y = stacked(months)
    joint = ContinualRegressor(ridge=0.01).fit(X, y)
    backwards = learned(ContinualRegressor(ridge=0.01), months[::-1])
    np.testing.assert_allclose(backwards.coef_, joint.coef_, **NEAR)
    one, two = (learned(ContinualRegressor(n_jobs=n_jobs), months).coef_ for n_jobs in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 0.7])
def test_gaussian_is_linear_discriminant_analysis(flowers, solver, shrinkage):
    X, y = stacked(flowers)
    model = learned(ContinualClassifier(shrinkage=shrinkage, calibrate="off"), flowers)
    peer = LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage).fit(X, y)
    assert list(model.classes_) == list(peer.classes_)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), **NEAR)
    # Discriminants are known up to what all classes share.
    ours, theirs = model.decision_function(X), peer.decision_function(X)
    centred = [scores - scores.mean(axis=1, keepdims=True) for scores in (ours, theirs)]
    np.testing.assert_allclose(*centred, rtol=1e-9, atol=1e-8)
    assert (model.predict(X) == peer.predict(X)).all()


def test_squared_is_least_squares_on_indicators(flowers):
    X, y = stacked(flowers)
    model = learned(ContinualClassifier(loss="squared", ridge=0.05), flowers)
    indicators = (y[:, None] == model.classes_).astype(float)
    peer = Ridge(alpha=0.05 * len(X)).fit(X, indicators)
    np.testing.assert_allclose(model.decision_function(X), peer.predict(X), **NEAR)
    np.testing.assert_allclose(model.coef_, peer.coef_, **NEAR)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_logistic_task_is_logistic_regression(rng, classes):
    # The sequential scheme minimises the true loss of the newest task, so one task is plain logistic regression.
    y = rng.integers(classes, size=200)
    X = rng.normal(size=(200, 3)) + y[:, None]
    model = ContinualClassifier(loss="logistic", scheme="sequential", ridge=0.02).fit(X, y)
    peer = LogisticRegression(C=1 / (0.02 * 200), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)


def test_a_weight_is_that_many_rows(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    weights = rng.integers(0, 4, size=40)
    for make, target in ((ContinualRegressor, y), (ContinualClassifier, y > 0)):
        weighted = make().fit(X, target, sample_weight=weights)
        repeated = make().fit(np.repeat(X, weights, axis=0), np.repeat(target, weights))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-9)


def test_the_last_digits_survive_where_normal_equations_lose_all(rng):
    # Condition 1e7: the square of it leaves a Gram matrix two digits, the triangle keeps nine.
    u, _ = np.linalg.qr(rng.normal(size=(400, 12)))
    v, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    X = (u * np.logspace(0, -7, 12)) @ v
    truth = rng.normal(size=12)
    y = X @ truth
    model = ContinualRegressor(ridge=0.0, fit_intercept=False)
    for rows in np.array_split(np.arange(400), 5):
        model.partial_fit(X[rows], y[rows])
    plain = np.linalg.solve(X.T @ X, X.T @ y)
    ours, theirs = (np.linalg.norm(w - truth) / np.linalg.norm(truth) for w in (model.coef_, plain))
    assert ours < 1e-7
    assert ours < theirs / 1e4
