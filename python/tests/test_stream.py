"""Rows without the name of a task are added to the current one."""

import numpy as np
import pytest
from conftest import learned, stacked
from pmfcl import ContinualClassifier, ContinualRegressor, Summary, load

NEAR = {"rtol": 1e-8, "atol": 1e-9}


def pieces(tasks, count=7):
    X, y = stacked(tasks)
    return list(zip(np.array_split(X, count), np.array_split(y, count), strict=True))


@pytest.mark.parametrize("memory", ["ledger", "compact"])
@pytest.mark.parametrize("preference", ["samples", "equal", "decay:0.5"])
def test_small_pieces_are_one_task_and_memory_does_not_grow(months, memory, preference):
    model = ContinualRegressor(ridge=0.1, memory=memory, preference=preference)
    sizes = []
    for X, y in pieces(months, 20):
        model.partial_fit(X, y)
        assert np.isfinite(model.predict(X)).all()  # solved in between, or not, is the same
        sizes.append(model.state_bytes_)
    whole = ContinualRegressor(ridge=0.1).fit(*stacked(months))
    assert [task["name"] for task in model.tasks_] == ["stream"]
    np.testing.assert_allclose(model.coef_, whole.coef_, **NEAR)
    assert model.n_samples_ == whole.n_samples_
    assert model.rank_ == whole.rank_
    assert sizes[-1] == sizes[2]
    assert model.mean_forgetting_ == pytest.approx(whole.mean_forgetting_, rel=1e-6)


@pytest.mark.parametrize("preference", ["samples", "equal", "decay:0.5"])
def test_rows_without_a_name_go_to_the_named_task_before_them(months, preference):
    named = learned(ContinualRegressor(ridge=0.1, preference=preference), months)
    model = ContinualRegressor(ridge=0.1, preference=preference)
    for k, (X, y) in enumerate(months):
        model.partial_fit(X[:10], y[:10], task=f"t{k}")
        model.coef_  # noqa: B018  # solved in between
        for rows in np.array_split(np.arange(10, len(X)), 3):
            model.partial_fit(X[rows], y[rows])
    assert [task["name"] for task in model.tasks_] == ["t0", "t1", "t2", "t3"]
    np.testing.assert_allclose(model.coef_, named.coef_, **NEAR)
    for ours, theirs in zip(model.tasks_, named.tasks_, strict=True):
        for key in ("samples", "rank", "weight", "loss", "min_loss", "forgetting"):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-7, abs=1e-12), key
    assert model.mean_forgetting_ == pytest.approx(named.mean_forgetting_, rel=1e-7)
    model.unlearn("t3")
    np.testing.assert_allclose(model.coef_, named.unlearn("t3").coef_, **NEAR)


def test_compact_memory_that_has_merged_a_task(months):
    more = [(X + k, y) for k in range(3) for X, y in months]
    for preference, possible in (("samples", True), ("equal", False)):
        model = learned(ContinualRegressor(ridge=0.1, memory="compact", preference=preference), more)
        assert model._model.facts()["folded"]
        if not possible:
            with pytest.raises(ValueError, match=r"compact memory has merged it.*`equal`.*task of their own"):
                model.partial_fit(*months[0])
            continue
        model.partial_fit(*months[0])
        joint = ContinualRegressor(ridge=0.1).fit(*stacked([*more, months[0]]))
        np.testing.assert_allclose(model.coef_, joint.coef_, **NEAR)
        assert len(model.tasks_) == len(more)
        assert model.tasks_[-1]["min_loss"] is None


@pytest.mark.parametrize("memory", ["ledger", "compact"])
def test_classes_that_appear_in_a_later_piece(flowers, memory):
    model = ContinualClassifier(memory=memory)
    for X, y in flowers:
        model.partial_fit(X, y)
    X, y = stacked(flowers)
    joint = ContinualClassifier().fit(X, y)
    assert len(model.tasks_) == 1
    assert list(model.classes_) == ["ash", "elm", "oak"]
    np.testing.assert_allclose(model.predict_proba(X), joint.predict_proba(X), **NEAR)
    counts = {str(label): float(np.sum(y == label)) for label in np.unique(y)}
    assert model.class_counts_ == {"stream": counts}


@pytest.mark.parametrize(("make", "loss"), [(ContinualRegressor, "huber:1.5"), (ContinualClassifier, "logistic")])
def test_bounds_of_pieces_add_up_to_a_bound_of_the_task(rng, make, loss):
    X = rng.normal(size=(240, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.standard_t(2, size=240)
    y = y if make is ContinualRegressor else (y > 0).astype(int)
    model = make(loss=loss, ridge=0.05)
    for rows in np.array_split(np.arange(240), 4):
        model.partial_fit(X[rows], y[rows])
    (task,) = model.tasks_
    joint = make(loss=loss, ridge=0.05).fit(X, y)
    if make is ContinualClassifier:
        loss_now = -np.mean(np.log(model.predict_proba(X)[np.arange(240), y]))
    else:
        error = np.abs(model.predict(X) - y)
        loss_now = np.mean(np.where(error <= 1.5, error**2 / 2, 1.5 * error - 1.5**2 / 2))
    # The loss lies between the certified least and the bound above it.
    assert task["min_loss"] <= joint.tasks_[0]["min_loss"] + 1e-6
    assert task["min_loss"] <= loss_now <= task["min_loss"] + task["bound"] + 1e-9
    assert task["guaranteed"]
    assert np.corrcoef(model.coef_.ravel(), joint.coef_.ravel())[0, 1] > 0.98


def test_summaries_files_and_weights_chosen_by_name(months, tmp_path):
    model = ContinualRegressor(ridge=0.1)
    for X, y in pieces(months):
        model.learn_summary(Summary.from_data(X, y))
    whole = ContinualRegressor(ridge=0.1).fit(*stacked(months))
    np.testing.assert_allclose(model.coef_, whole.coef_, **NEAR)
    path = tmp_path / "stream.pmf"
    model.save(path)
    back = load(path)
    X, y = months[0]
    back.partial_fit(X, y).save(path)
    model.partial_fit(X, y)
    assert len(load(path).tasks_) == 1
    np.testing.assert_allclose(load(path).coef_, model.coef_, **NEAR)
    chosen = learned(ContinualRegressor(ridge=0.1), months[:2]).prefer(t0=0.25, t1=0.75)
    chosen.partial_fit(*months[2])
    two = [months[0], (stacked(months[1:3]))]
    np.testing.assert_allclose(
        chosen.coef_, learned(ContinualRegressor(ridge=0.1), two).prefer(t0=0.25, t1=0.75).coef_, **NEAR
    )


def test_one_ridge_for_each_target(rng, tmp_path):
    X, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 3))
    ridges = [0.1, 0.0, 3.0]
    model = learned(ContinualRegressor(ridge=ridges), [(X[:25], Y[:25]), (X[25:], Y[25:])])
    apart = np.array([ContinualRegressor(ridge=r).fit(X, Y[:, k]).coef_ for k, r in enumerate(ridges)])
    np.testing.assert_allclose(model.coef_, apart, **NEAR)
    np.testing.assert_array_equal(model.ridge_, ridges)
    path = tmp_path / "ridges.pmf"
    model.save(path)
    back = load(path)
    assert back.ridge == ridges
    assert back.coef_.tobytes() == model.coef_.tobytes()
    np.testing.assert_allclose(Summary.from_data(X, Y).solve(ridges)[:, 1:], apart, **NEAR)
    with pytest.raises(ValueError, match="one ridge for all targets"):
        model.pareto_front("t0", "t1")
    with pytest.raises(ValueError, match="ridge of its own"):
        model.predict_interval(X)
    assert "ridge of its own" in model.report()
    with pytest.raises(ValueError, match="list of ridges"):
        model.set_ridge([0.1, 0.2])
    np.testing.assert_allclose(model.set_ridge(0.1).coef_, ContinualRegressor(ridge=0.1).fit(X, Y).coef_, **NEAR)
    assert model.predict_interval(X)[0].shape == (60, 3)
