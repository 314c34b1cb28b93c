"""Huber's and Poisson's loss: against scikit-learn on the pooled rows, and through everything a model can do."""

import pickle

import numpy as np
import pmfcl
import pytest
from conftest import learned, stacked
from pmfcl import ContinualClassifier, ContinualRegressor
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import HuberRegressor, PoissonRegressor

LOSSES = ["huber", "huber:1.35", "poisson", "poisson:6"]


@pytest.fixture
def outliers(rng):
    """Three tasks of one truth, where every fifteenth target is far off."""
    tasks = []
    for k, n in enumerate((80, 150, 70)):
        X = rng.normal(size=(n, 4)) * [1, 3, 0.5, 2] + 0.2 * k
        y = X @ [1.0, -0.5, 2.0, 0.3] + 2.0 + rng.normal(scale=0.5, size=n)
        y[::15] += rng.normal(scale=30.0, size=len(y[::15]))
        tasks.append((X, y))
    return tasks


@pytest.fixture
def counts(rng):
    """Three tasks of one rate."""
    tasks = []
    for k, n in enumerate((80, 150, 70)):
        X = rng.normal(size=(n, 4)) * [1, 3, 0.5, 2] + 0.2 * k
        tasks.append((X, rng.poisson(np.exp(X @ [0.3, -0.1, 0.4, 0.1] + 0.5)).astype(float)))
    return tasks


@pytest.fixture
def tasks_of(outliers, counts):
    """Tasks for a loss."""
    return lambda loss: counts if loss.startswith("poisson") else outliers


def huber(delta, errors):
    """The mean loss as its definition has it."""
    far = np.abs(errors) > delta
    return np.mean(np.where(far, delta * (np.abs(errors) - delta / 2), errors**2 / 2))


def poisson(rates, y):
    """The same, without what does not depend on the model."""
    return np.mean(rates - y * np.log(rates))


@pytest.mark.parametrize(("epsilon", "alpha"), [(1.35, 1e-4), (1.1, 1.0), (2.0, 50.0)])
def test_huber_is_scikit_learns_at_its_scale(outliers, epsilon, alpha):
    # With its scale s at the optimum, scikit-learn minimises (2/s) (sum of our losses with delta = epsilon s, + s alpha/2 |w|²).
    X, y = stacked(outliers)
    peer = HuberRegressor(epsilon=epsilon, alpha=alpha, tol=1e-9, max_iter=20_000).fit(X, y)
    delta, ridge = float(epsilon * peer.scale_), float(alpha * peer.scale_ / len(X))
    model = ContinualRegressor(loss=f"huber:{delta!r}", ridge=ridge).fit(X, y)

    def objective(fitted):
        return huber(delta, fitted.predict(X) - y) + ridge / 2 * np.sum(fitted.coef_**2)

    # L-BFGS stops when its objective does not change in ten digits, which leaves half as many to the coefficients; ours is the
    # lower one up to rounding.
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-4)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=2e-4)
    assert objective(model) <= objective(peer) * (1 + 1e-12)
    # Task by task it rests on bounds: what is lost against the fit of all rows is at most the bound on mean forgetting.
    one_by_one = learned(ContinualRegressor(loss=f"huber:{delta!r}", ridge=ridge), outliers)
    lost = huber(delta, one_by_one.predict(X) - y) - huber(delta, model.predict(X) - y)
    assert lost <= one_by_one.mean_forgetting_bound_
    assert objective(model) - 1e-12 <= objective(one_by_one) <= 1.01 * objective(model)


@pytest.mark.parametrize("loss", ["poisson", "poisson:6"])
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0])
def test_poisson_is_scikit_learns(counts, loss, alpha):
    X, y = stacked(counts)
    peer = PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, y)
    model = ContinualRegressor(loss=loss, ridge=alpha).fit(X, y)
    # Both are Newton's method to the end: what remains is the hold of 1e-8 on the intercept, and rounding.
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), rtol=1e-8)
    one_by_one = learned(ContinualRegressor(loss=loss, ridge=alpha), counts)
    lost = poisson(one_by_one.predict(X), y) - poisson(model.predict(X), y)
    assert lost <= one_by_one.mean_forgetting_bound_
    np.testing.assert_allclose(one_by_one.coef_, peer.coef_, atol=0.03)
    assert model.score(X, y) == pytest.approx(1 - np.var(y - peer.predict(X)) / np.var(y), abs=0.02)


def test_the_default_poisson_is_a_standard_normal_prior(counts):
    # A ridge of 1 on the sum of losses, for standardized features: alpha = 1/n on features divided by their deviations.
    X, y = stacked(counts)
    spread = X.std(axis=0)
    peer = PoissonRegressor(alpha=1 / len(X), solver="newton-cholesky", tol=1e-12).fit(X / spread, y)
    model = ContinualRegressor(loss="poisson").fit(X, y)
    np.testing.assert_allclose(model.coef_ * spread, peer.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(X), peer.predict(X / spread), rtol=1e-8)
    assert float(model.loss_.removeprefix("poisson:")) == pytest.approx(np.log(y.max()) + 2)


def test_the_default_huber_is_its_own_minimum(outliers):
    X, y = stacked(outliers)
    model = ContinualRegressor(loss="huber").fit(X, y)
    delta = float(model.loss_.removeprefix("huber:"))
    # 1.345 times a robust scale of the noise, which is 0.5 without the outliers; the median of 300 errors is off by some percent.
    assert 1.345 * 0.5 * 0.85 < delta < 1.345 * 0.5 * 1.35
    variances = X.var(axis=0)

    def objective(w):
        return huber(delta, X @ w[1:] + w[0] - y) + np.sum(variances * w[1:] ** 2) / (2 * len(X))

    best = minimize(objective, np.r_[model.intercept_, model.coef_], method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(np.r_[model.intercept_, model.coef_], best.x, atol=1e-4)
    assert objective(np.r_[model.intercept_, model.coef_]) <= best.fun * (1 + 1e-9)
    # The truth is found about as well as scikit-learn finds it with its own defaults, and least squares does not.
    peer, plain = HuberRegressor().fit(X, y), ContinualRegressor(ridge=0.0).fit(X, y)
    truth = np.array([1.0, -0.5, 2.0, 0.3])
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=0.03)
    assert np.linalg.norm(plain.coef_ - truth) > np.linalg.norm(model.coef_ - truth)


def test_neither_units_nor_a_constant_change_a_huber_fit(outliers):
    X, y = stacked(outliers)
    model = ContinualRegressor(loss="huber").fit(X, y)
    for unit, constant in ((1.0, 1e6), (2.0**-30, 0.0), (2.0**30, 2.0**32)):
        other = ContinualRegressor(loss="huber").fit(X, unit * y + constant)
        # Powers of two move the bins in which residuals are counted, so that delta is the same. A fit ends at steps of 1e-10 of the
        # spread, or of 1e-14 of the size of the targets; steps shrink at least tenfold.
        np.testing.assert_allclose(other.coef_ / unit, model.coef_, atol=1e-6)
        assert (other.intercept_ - constant) / unit == pytest.approx(model.intercept_, abs=1e-6)


def test_counts_far_below_the_largest_are_fitted_to_the_end(rng):
    # The bound of one row of 500 counts is hundreds of times steeper than the loss of the others.
    X = rng.normal(size=(300, 4))
    y = rng.poisson(np.exp(X @ [0.3, -0.1, 0.4, 0.1])).astype(float)
    y[0] = 500
    model = ContinualRegressor(loss="poisson", ridge=1e-3).fit(X, y)
    peer = PoissonRegressor(alpha=1e-3, solver="newton-cholesky", tol=1e-12).fit(X, y)
    assert model.tasks_[0]["outcome"] == "converged"
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-8)
    nothing = ContinualRegressor(loss="poisson").fit(X, 0 * y)
    assert nothing.tasks_[0]["outcome"] == "converged"
    assert (nothing.predict(X) < 1e-6).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_is_that_many_rows(rng, tasks_of, loss):
    X, y = tasks_of(loss)[0]
    weights = rng.integers(0, 4, size=len(X))
    weighted = ContinualRegressor(loss=loss).fit(X, y, sample_weight=weights)
    repeated = ContinualRegressor(loss=loss).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("memory", ["ledger", "compact"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_is_kept_and_goes_on(tmp_path, tasks_of, loss, memory):
    tasks = tasks_of(loss)
    model = learned(ContinualRegressor(loss=loss, memory=memory, ridge=0.01), tasks[:2])
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["loss"] == loss
    assert model.loss_.startswith(loss)
    model.save(tmp_path / "model.pmf")
    X = tasks[2][0]
    back, copy = pmfcl.load(tmp_path / "model.pmf"), pickle.loads(pickle.dumps(model))
    assert back.loss == model.loss_
    all_tasks = learned(ContinualRegressor(loss=loss, memory=memory, ridge=0.01), tasks)
    for other in (back, copy):
        assert other.predict(X).tobytes() == model.predict(X).tobytes()
        other.partial_fit(*tasks[2], task="t2")
        np.testing.assert_allclose(other.coef_, all_tasks.coef_, rtol=1e-12, atol=1e-12)
        assert [task["outcome"] for task in other.tasks_] == ["converged"] * 3


@pytest.mark.parametrize("loss", LOSSES)
def test_tasks_are_merged_and_unlearned(tasks_of, loss):
    tasks = tasks_of(loss)
    everything = learned(ContinualRegressor(loss=loss, ridge=0.01), tasks)
    # What the first task has settled is part of the loss.
    first = ContinualRegressor(loss=loss, ridge=0.01).partial_fit(*tasks[0], task="t0")
    rest = ContinualRegressor(loss=first.loss_, ridge=0.01)
    rest.partial_fit(*tasks[1], task="t1").partial_fit(*tasks[2], task="t2")
    first.merge(rest)
    np.testing.assert_allclose(first.coef_, everything.coef_, rtol=1e-9, atol=1e-9)
    assert first.loss_ == everything.loss_
    backwards = ContinualRegressor(loss=first.loss_, ridge=0.01)
    for k in (2, 1, 0):
        backwards.partial_fit(*tasks[k], task=f"t{k}")
    np.testing.assert_allclose(backwards.coef_, everything.coef_, rtol=1e-9, atol=1e-9)
    first.unlearn("t0")
    np.testing.assert_allclose(first.coef_, rest.coef_, rtol=1e-9, atol=1e-9)
    if ":" not in loss:
        other = ContinualRegressor(loss=loss, ridge=0.01).partial_fit(tasks[2][0], 3 * tasks[2][1], task="t2")
        with pytest.raises(ValueError, match=loss):
            rest.unlearn("t2").merge(other)


@pytest.mark.parametrize("basis", ["linear", "poly:2"])
@pytest.mark.parametrize("loss", LOSSES)
def test_onnx_says_what_we_say(tasks_of, loss, basis):
    onnxruntime = pytest.importorskip("onnxruntime")
    tasks = tasks_of(loss)
    model = learned(ContinualRegressor(loss=loss, basis=basis), tasks)
    session = onnxruntime.InferenceSession(model.export(), providers=["CPUExecutionProvider"])
    (answers,) = session.run(["Y"], {"X": tasks[0][0]})
    np.testing.assert_allclose(answers.ravel(), model.predict(tasks[0][0]), rtol=1e-9)
    assert "<!doctype html>" in model.report()
    assert model.export(format="json") and model.export(format="safetensors")


@pytest.mark.parametrize("loss", LOSSES)
def test_several_targets_are_fitted_together(rng, loss):
    X = rng.normal(size=(120, 3))
    rates = np.exp(X @ [[0.2, -0.4], [0.5, 0.1], [0.0, 0.3]])
    Y = rng.poisson(rates).astype(float) if loss.startswith("poisson") else np.log(rates) + rng.normal(size=(120, 2))
    model = learned(ContinualRegressor(loss=loss), [(X[:60], Y[:60]), (X[60:], Y[60:])])
    assert model.predict(X).shape == (120, 2)
    assert model.coef_.shape == (2, 3)
    assert np.mean((model.predict(X) - Y) ** 2) < np.mean((Y.mean(axis=0) - Y) ** 2)


def test_what_these_losses_cannot_do_is_refused_with_the_reason(outliers, counts, rng):
    X, y = counts[0]
    with pytest.raises(ValueError, match="count of 0 or more"):
        ContinualRegressor(loss="poisson").fit(X, y - 1)
    with pytest.raises(ValueError, match="larger cap"):
        ContinualRegressor(loss="poisson:0.5").fit(X, y)
    with pytest.raises(ValueError, match="larger cap"):
        ContinualRegressor(loss="poisson").fit(X, y).partial_fit(X, 100 * y)
    for loss in ("huber:0", "huber:-1", "huber:much", "poisson:1000", "squared:2", "tukey"):
        with pytest.raises(ValueError, match="loss"):
            ContinualRegressor(loss=loss).fit(X, y)
    for loss in ("gaussian", "logistic"):
        with pytest.raises(ValueError, match="ContinualClassifier"):
            ContinualRegressor(loss=loss).fit(X, y)
    for loss in LOSSES:
        model = ContinualRegressor(loss=loss).fit(X, y)
        with pytest.raises(ValueError, match="bounds of the loss"):
            model.predict_interval(X)
        assert model.mean_forgetting_ is None and model.mean_forgetting_bound_ >= 0
        with pytest.raises(ValueError, match=r"several times|rows|look"):
            model.learn_summary(pmfcl.Summary.from_data(X, y), task="made elsewhere")
        assert len(model.tasks_) == 1
        with pytest.raises(ValueError, match="ridge of 0"):
            ContinualRegressor(loss=loss, ridge=0.0).fit(X, y)
        with pytest.raises(ValueError, match="left-out"):
            ContinualRegressor(loss=loss, ridge="leave-one-task-out").fit(X, y)
        with pytest.raises(ValueError, match="predicts values"):
            ContinualClassifier(loss=loss).fit(X, y > 1)
