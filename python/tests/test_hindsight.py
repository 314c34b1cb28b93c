"""Tasks, forgetting, fronts, another preference, unlearning, merging: all from the summaries."""

import re

import numpy as np
import pytest
from conftest import learned, stacked
from pmfcl import ContinualClassifier, ContinualRegressor, Summary
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

FIELDS = {
    "rmse",
    "r2",
    "name",
    "samples",
    "rank",
    "weight",
    "bytes",
    "loss",
    "min_loss",
    "forgetting",
    "bound",
    "guaranteed",
    "outcome",
}


def half_mse(model, X, y):
    """The loss as its definition has it."""
    return np.mean((model.predict(X) - y) ** 2) / 2


def test_tasks_tell_what_the_rows_would(months):
    model = learned(ContinualRegressor(ridge=0.1), months)
    assert [task["name"] for task in model.tasks_] == ["t0", "t1", "t2", "t3"]
    for (X, y), task in zip(months, model.tasks_, strict=True):
        assert set(task) == FIELDS
        best = half_mse(LinearRegression().fit(X, y), X, y)
        assert task["loss"] == pytest.approx(half_mse(model, X, y), rel=1e-10)
        assert task["rmse"] == pytest.approx(np.sqrt(2 * half_mse(model, X, y)), rel=1e-10)
        assert task["r2"] == pytest.approx(model.score(X, y), rel=1e-9)
        assert task["min_loss"] == pytest.approx(best, rel=1e-10)
        assert task["forgetting"] == pytest.approx(task["loss"] - best, rel=1e-8)
        assert task["weight"] == pytest.approx(len(X) / 215)
        assert task["guaranteed"]
    assert model.forgetting_ == model.forgetting_bound_
    mean = sum(task["weight"] * task["forgetting"] for task in model.tasks_)
    assert model.mean_forgetting_ == pytest.approx(mean, rel=1e-10)
    compact = learned(ContinualRegressor(ridge=0.1, memory="compact"), months)
    assert compact.mean_forgetting_ == pytest.approx(mean, rel=1e-9)


def test_history_is_that_of_the_models_on_the_way(months):
    model = ContinualRegressor(ridge=0.1)
    rows = []
    for k, (X, y) in enumerate(months):
        model.partial_fit(X, y, task=f"t{k}")
        rows.append([half_mse(model, *task) for task in months[: k + 1]])
    history = model.history()
    assert history.tasks == ["t0", "t1", "t2", "t3"]
    for k, row in enumerate(rows):
        np.testing.assert_allclose(history.loss[k, : k + 1], row, rtol=1e-9)
        assert np.isnan(history.loss[k, k + 1 :]).all()
    assert (np.diag(history.forgetting) >= 0).all()


def test_preferences_in_hindsight(months):
    model = learned(ContinualRegressor(ridge=0.0), months)
    assert model.preference == "samples"
    assert model.prefer("equal") is model
    assert model.preference_ == "equal"
    assert model.get_params()["preference"] == "samples"
    fresh = learned(ContinualRegressor(ridge=0.0, preference="equal"), months)
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)
    model.prefer(t0=0.25, t2=0.75)
    assert model.preference_ == {"t0": 0.25, "t2": 0.75}
    np.testing.assert_allclose(model.coef_, model.prefer({"t0": 0.25, "t2": 0.75}).coef_)
    X, y = stacked([months[0], months[2]])
    weights = np.concatenate([np.full(40, 0.25 / 40), np.full(25, 0.75 / 25)])
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y, sample_weight=weights).coef_, rtol=1e-9)
    model.prefer("samples")
    allowed = model.forgetting_["t0"] / 2
    model.prefer(budget={"t0": allowed})
    assert model.forgetting_["t0"] <= allowed * (1 + 1e-9)
    for wrong in ({}, {"preference": "equal", "t0": 1.0}):
        with pytest.raises(ValueError, match="one way"):
            model.prefer(*([wrong.pop("preference")] if "preference" in wrong else []), **wrong)
    with pytest.raises(ValueError, match="none of samples"):
        model.prefer("nonsense")
    with pytest.raises(ValueError, match="no task is named `t9`"):
        model.prefer(t9=1.0)


@pytest.mark.parametrize("ridge", ["auto", 0.0, 0.5])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 1e-3])
def test_a_budget_is_kept_or_refused_with_the_least_possible(months, ridge, share):
    model = learned(ContinualRegressor(ridge=ridge), months)
    before = model.coef_.copy()
    allowed = share * model.forgetting_["t0"]
    try:
        model.prefer(budget={"t0": allowed})
    except ValueError as refused:
        np.testing.assert_array_equal(model.coef_, before)
        least = float(re.search(r"can lose is ([0-9.e-]+),", str(refused)).group(1))
        assert least > allowed
        # As the only task that counts, it loses about as little.
        alone = learned(ContinualRegressor(ridge=ridge), months[:1])
        assert least <= alone.forgetting_["t0"] * (1 + 1e-6)
        allowed = least * (1 + 1e-6)
        model.prefer(budget={"t0": allowed})
    assert model.forgetting_["t0"] <= allowed * (1 + 1e-9)
    # From the rows: the loss of the model less the least there is.
    X, y = months[0]
    own = LinearRegression().fit(X, y)
    lost = (np.mean((model.predict(X) - y) ** 2) - np.mean((own.predict(X) - y) ** 2)) / 2
    assert lost == pytest.approx(model.forgetting_["t0"], rel=1e-6, abs=1e-12 * np.mean(y**2))


def test_another_ridge_without_data(months):
    model = learned(ContinualRegressor(ridge=0.0), months)
    np.testing.assert_allclose(
        model.set_ridge(0.5).coef_, learned(ContinualRegressor(ridge=0.5), months).coef_, rtol=1e-10
    )
    assert model.ridge_ == 0.5
    assert model.set_ridge("auto").ridge_ == pytest.approx(learned(ContinualRegressor(), months).ridge_)
    assert model.set_ridge("leave-one-task-out").ridge_ > 0


@pytest.mark.parametrize("memory", ["ledger", "compact"])
def test_unlearning_is_never_having_learned(months, memory):
    model = learned(ContinualRegressor(ridge=0.1, memory=memory), months)
    X, y = months[1]
    folded = model._model.facts()["folded"]
    with pytest.raises(ValueError, match="learned with 90 samples, but 5 were given" if folded else "cannot remove"):
        model.unlearn("t1", X[:5] if folded else X[:5] + 100, y[:5])
    assert "t1" in model.forgetting_
    if memory == "compact" and model._model.facts()["folded"]:
        with pytest.raises(ValueError, match="rows once more"):
            model.unlearn("t1")
        with pytest.raises(ValueError, match="cannot remove"):
            model.unlearn("t1", X + 1, y)
        model.unlearn("t1", X, y)
    else:
        model.unlearn("t1")
    rest = [task for k, task in enumerate(months) if k != 1]
    np.testing.assert_allclose(model.coef_, ContinualRegressor(ridge=0.1).fit(*stacked(rest)).coef_, rtol=1e-8)
    assert "t1" not in model.forgetting_
    for name in ("t0", "t2", "t3") if memory == "ledger" else ():
        model.unlearn(name)
    if memory == "ledger":
        with pytest.raises(NotFittedError):
            model.predict(X)
        model.partial_fit(X, y)
        assert len(model.tasks_) == 1


def test_a_class_goes_with_its_only_task(flowers):
    model = learned(ContinualClassifier(), flowers)
    assert list(model.classes_) == ["ash", "elm", "oak"]
    counts = model.class_counts_["t2"]
    assert counts["ash"] + counts["oak"] == 50
    model.unlearn("t2")
    assert list(model.classes_) == ["elm", "oak"]
    X, _ = stacked(flowers)
    np.testing.assert_allclose(
        model.predict_proba(X), ContinualClassifier().fit(*stacked(flowers[:2])).predict_proba(X), rtol=1e-9
    )


def test_merging_is_having_learned_both(months, flowers):
    north, south = (
        learned(ContinualRegressor(ridge=0.1), months[:2]),
        learned(ContinualRegressor(ridge=0.1), months[2:]),
    )
    with pytest.raises(ValueError, match="both have learned a task 't0'"):
        north.merge(south)
    assert len(north.tasks_) == 2
    north.merge(south, prefix="south")
    assert [task["name"] for task in north.tasks_] == ["t0", "t1", "south/t0", "south/t1"]
    np.testing.assert_allclose(north.coef_, ContinualRegressor(ridge=0.1).fit(*stacked(months)).coef_, rtol=1e-9)
    a, b = (ContinualClassifier().partial_fit(*flowers[k], task=k) for k in (0, 2))
    a.merge(b)
    X, y = stacked([flowers[0], flowers[2]])
    np.testing.assert_allclose(a.predict_proba(X), ContinualClassifier().fit(X, y).predict_proba(X), rtol=1e-9)
    with pytest.raises(TypeError, match="cannot merge"):
        north.merge(a)
    with pytest.raises(ValueError, match="ridge|cannot merge"):
        north.merge(learned(ContinualRegressor(ridge=0.2), months), prefix="x")


def test_columns_of_another_order_are_put_right(months):
    pd = pytest.importorskip("pandas")
    names = list("abcde")
    frames = [(pd.DataFrame(X, columns=names), y) for X, y in months]
    left = ContinualRegressor(ridge=0.1).partial_fit(*frames[0], task="left")
    right = ContinualRegressor(ridge=0.1).partial_fit(frames[1][0][list("dbeac")], frames[1][1], task="right")
    left.merge(right)
    np.testing.assert_allclose(left.coef_, ContinualRegressor(ridge=0.1).fit(*stacked(months[:2])).coef_, rtol=1e-9)
    odd = ContinualRegressor(ridge=0.1).partial_fit(frames[2][0].rename(columns={"a": "z"}), frames[2][1], task="odd")
    with pytest.raises(ValueError, match="feature 'a' is in one of them only"):
        left.merge(odd)


def test_fronts_hold_what_they_promise(months):
    model = learned(ContinualRegressor(ridge=0.0), months)
    front = model.pareto_front("t0", "t3", points=20)
    assert len(front) == 20
    (Xa, ya), (Xb, yb) = months[0], months[3]
    assert front.loss_a[-1] == pytest.approx(half_mse(LinearRegression().fit(Xa, ya), Xa, ya), rel=1e-6)
    assert front.loss_b[0] == pytest.approx(half_mse(LinearRegression().fit(Xb, yb), Xb, yb), rel=1e-6)
    assert (np.diff(front.loss_a) <= 1e-12).all()
    assert (np.diff(front.loss_b) >= -1e-12).all()
    assert front.current[0] == pytest.approx(half_mse(model, Xa, ya), rel=1e-9)
    assert front.loss_a.min() <= front.knee.loss_a <= front.loss_a.max()
    groups = model.pareto_front(["t0", "t1"], ["t2", "t3"])
    assert (groups.a, len(groups)) == ("t0 + t1", 50)
    for sides in (("t0", "t0"), ([], ["t1"]), ("t0", "nobody")):
        with pytest.raises(ValueError):
            model.pareto_front(*sides)
    with pytest.raises(ValueError, match="at least 2"):
        model.pareto_front("t0", "t1", points=1)


def test_conflicts_are_seen_and_noise_is_not(rng):
    model = ContinualRegressor(ridge=0.0)
    for name, slope in (("a", 1.0), ("twin", 1.0), ("foe", -1.0)):
        X = rng.normal(size=(200, 2))
        model.partial_fit(X, slope * X[:, 0] + rng.normal(size=200), task=name)
    conflicts = model.conflicts()
    assert conflicts.tasks == ["a", "twin", "foe"]
    assert conflicts.p_value[0, 2] < 1e-10
    assert conflicts.p_value[0, 1] > 1e-3
    assert conflicts.forgetting[0, 2] > 10 * conflicts.forgetting[0, 1]
    assert np.isnan(np.diag(conflicts.p_value)).all()


def test_missing_p_values_and_intervals_are_explained(rng):
    def made(noise, weight=None, **settings):
        model = ContinualRegressor(ridge=0.0, **settings)
        for name, scale in (("a", 1.0), ("b", 0.3)):
            X = rng.normal(size=(20 if name == "a" else 60, 2)) * scale
            weights = None if weight is None else np.full(len(X), weight)
            y = X.sum(axis=1) + noise * rng.normal(size=len(X))
            model.partial_fit(X, y, task=name, sample_weight=weights)
        return model

    assert made(1.0).conflicts().reason == [[None, None], [None, None]]
    exact = made(0.0).conflicts()
    assert "rounding" in exact.reason[0][1] and exact.reason[0][0] is None
    assert np.isnan(exact.p_value).all()
    weighted = made(1.0, weight=0.37)
    assert "whole number" in weighted.conflicts().reason[1][0]
    with pytest.raises(ValueError, match="copies of rows"):
        weighted.predict_interval(np.ones((1, 2)))
    assert np.isfinite(made(1.0, weight=2.0).conflicts().p_value[0, 1])
    with pytest.warns(UserWarning, match="approximate"):
        made(1.0, memory="compact", preference="equal").predict_interval(np.ones((1, 2)))
    X = np.c_[rng.normal(size=30), np.zeros(30)]
    flat = ContinualRegressor(ridge=0.0).fit(X, X[:, 0] + rng.normal(size=30))
    with pytest.warns(UserWarning, match=r"1 of 2 rows have no interval \(the first is row 1\)"):
        low, high = flat.predict_interval(np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert np.isfinite([low[0], high[0]]).all() and (low[1], high[1]) == (-np.inf, np.inf)


def test_weights_are_copies_or_precisions_as_is_said(rng):
    tasks = []
    for n in (25, 40):
        X, w = rng.normal(size=(n, 2)), rng.uniform(0.2, 4.0, size=n)
        tasks.append((X, X @ [1.0, 2.0] + rng.normal(size=n) / np.sqrt(w), w))
    tasks[0][2][:2] = 0.0  # no rows
    model = ContinualRegressor(ridge=0.0)
    for k, (X, y, w) in enumerate(tasks):
        model.partial_fit(X, y, task=f"t{k}", sample_weight=w)

    def least_squares(tasks):
        X, y, w = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
        X = np.c_[np.ones(len(X)), X]
        theta = np.linalg.solve(X.T @ (w[:, None] * X), X.T @ (w * y))
        return X, w, theta, np.sum(w * (y - X @ theta) ** 2), np.sum(w > 0)

    X, w, theta, squares, rows = least_squares(tasks)
    new = np.c_[np.ones(5), rng.normal(size=(5, 2))]
    spread = 1 + np.einsum("ij,jk,ik->i", new, np.linalg.inv(X.T @ (w[:, None] * X)), new)
    reach = stats.t.ppf(0.975, rows - 3) * np.sqrt(squares / (rows - 3) * spread)
    low, high = model.predict_interval(new[:, 1:], weights="precision")
    np.testing.assert_allclose(low, new @ theta - reach, rtol=1e-9)
    np.testing.assert_allclose(high, new @ theta + reach, rtol=1e-9)
    alone = [least_squares([task]) for task in tasks]
    within, freedom = sum(fit[3] for fit in alone), rows - 6
    f = (squares - within) / 3 / (within / freedom)
    conflicts = model.conflicts(weights="precision")
    assert conflicts.p_value[0, 1] == pytest.approx(stats.f.sf(f, 3, freedom), rel=1e-9)
    assert conflicts.reason == [[None, None], [None, None]]
    assert "weights: precision" in model.conflicts().reason[0][1]
    with pytest.raises(ValueError, match="weights: precision"):
        model.predict_interval(new[:, 1:], weights="copies")
    # Ones are both.
    plain = learned(ContinualRegressor(), [task[:2] for task in tasks])
    for either in ("copies", "precision"):
        np.testing.assert_allclose(
            plain.predict_interval(new[:, 1:], weights=either), plain.predict_interval(new[:, 1:]), rtol=1e-12
        )
        np.testing.assert_allclose(plain.conflicts(weights=either).p_value, plain.conflicts().p_value, rtol=1e-12)
    for call in (lambda: model.conflicts(weights="some"), lambda: model.predict_interval(new[:, 1:], weights="some")):
        with pytest.raises(ValueError, match="weights: `some` is none of copies, precision"):
            call()
    # A summary made elsewhere does not say of how many rows.
    given = ContinualRegressor().learn_summary(Summary.from_data(*tasks[1]), task="a")
    with pytest.raises(ValueError, match="number of rows"):
        given.predict_interval(new[:, 1:], weights="precision")


def test_the_front_of_copies_is_one_point(rng):
    X = rng.normal(size=(50, 2))
    y = X.sum(axis=1) + rng.normal(size=50)
    front = learned(ContinualRegressor(), [(X, y), (X, y)]).pareto_front("t0", "t1")
    assert len(front) == 1
    assert (front.weight[0], front.knee.weight, front.minmax.weight) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_a_gaussian_loss_is_a_loss_in_any_unit(rng, unit):
    tasks = []
    for k in range(3):
        y = rng.integers(3, size=60)
        tasks.append(((rng.normal(size=(60, 4)) + np.eye(3, 4)[y] * (k + 1)) * unit, y))
    model = learned(ContinualClassifier(shrinkage="diagonal:0"), tasks)
    X, y = stacked(tasks)
    means = np.array([X[y == c].mean(axis=0) for c in range(3)])
    inverse = np.linalg.inv((X - means[y]).T @ (X - means[y]) / (len(X) - 3) / unit**2)
    shares = np.bincount(y) / len(y)
    for (X, y), task in zip(tasks, model.tasks_, strict=True):
        apart = (X - means[y]) / unit
        loss = np.mean(np.einsum("ij,jk,ik->i", apart, inverse, apart) / 2 - np.log(shares[y]))
        assert task["loss"] == pytest.approx(loss, rel=1e-8)
        assert 0 < task["min_loss"] == pytest.approx(loss - task["forgetting"], rel=1e-8)
    assert (model.history().loss[np.tril_indices(3)] > 0).all()
    assert "best possible<" in model._repr_html_()


def test_log_loss_warns_where_tasks_lack_classes(rng):
    model = ContinualClassifier(loss="logistic")
    y = np.repeat([0, 1, 2, 3], 20)
    X = rng.normal(size=(80, 2)) + y[:, None]
    with pytest.warns(UserWarning, match="lacks the classes of 50 % of all rows"):
        model.partial_fit(X[:40], y[:40], classes=[0, 1, 2, 3]).partial_fit(X[40:], y[40:], task=1)
    assert model.mean_forgetting_ is None
    mean = sum(task["weight"] * task["bound"] for task in model.tasks_)
    assert model.mean_forgetting_bound_ == pytest.approx(mean, rel=1e-9)


def test_bounds_of_log_loss_hold(rng):
    model = ContinualClassifier(loss="logistic", ridge=0.01)
    tasks = []
    for k in range(3):
        y = rng.integers(2, size=150)
        X = rng.normal(size=(150, 3)) + 0.7 * y[:, None] * np.roll([1, 0, 0], k)
        tasks.append((X, y))
        model.partial_fit(X, y, task=str(k))
    assert all(task["guaranteed"] and task["forgetting"] is None for task in model.tasks_)
    for k, (X, y) in enumerate(tasks):
        log_loss = -np.mean(np.log(model.predict_proba(X)[np.arange(150), y]))
        # `min_loss` is a certified lower bound of the task's least log-loss.
        assert log_loss - model.tasks_[k]["min_loss"] <= model.forgetting_bound_[str(k)] + 1e-9
    loose = ContinualClassifier(loss="logistic", ridge=0.01, curvature="hessian").fit(*tasks[0])
    assert not loose.tasks_[0]["guaranteed"]
    sequential = learned(ContinualClassifier(loss="logistic", ridge=0.01, scheme="sequential"), tasks)
    with pytest.raises(ValueError, match="sequential"):
        sequential.unlearn("t0")


def test_intervals_cover(rng):
    X = rng.normal(size=(300, 3))
    y = X.sum(axis=1) + rng.normal(size=300)
    model = learned(ContinualRegressor(ridge=0.0), [(X[:150], y[:150]), (X[150:], y[150:])])
    Xn = rng.normal(size=(4000, 3))
    yn = Xn.sum(axis=1) + rng.normal(size=4000)
    low, high = model.predict_interval(Xn, 0.9)
    # Four thousand draws: one standard deviation of the share is half a percent; the fitted noise adds as much.
    assert np.mean((low <= yn) & (yn <= high)) == pytest.approx(0.9, abs=0.03)


def test_shrinkage_in_hindsight(flowers):
    model = learned(ContinualClassifier(), flowers)
    assert 0 <= model.shrinkage_ <= 1
    X, _ = stacked(flowers)
    again = learned(ContinualClassifier(shrinkage=0.4), flowers)
    # Probabilities were measured with the shrinkage there was then.
    np.testing.assert_allclose(model.set_shrinkage(0.4).decision_function(X), again.decision_function(X), rtol=1e-12)
