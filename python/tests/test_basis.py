"""A basis that is chosen from the summaries, and bases that far rows do not throw off."""

import numpy as np
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor

SAME = 1e-7


def rows(n=900, seed=0):
    """Rows of a curve and a product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def chosen(model):
    """The name of the one candidate that predicts."""
    (name,) = [c["name"] for c in model.candidates_ if c["chosen"]]
    return name


@pytest.mark.parametrize("memory", ["ledger", "compact"])
def test_the_choice_does_not_depend_on_later_splits(memory):
    X, y = rows()
    whole = ContinualRegressor(basis="auto:80").partial_fit(X[:300], y[:300], task="first")
    split = ContinualRegressor(basis="auto:80", memory=memory).partial_fit(X[:300], y[:300], task="first")
    whole.partial_fit(X[300:], y[300:], task="rest")
    order = np.random.default_rng(1).permutation(np.arange(300, 900))
    for t, part in enumerate(np.array_split(order, 7)):
        split.partial_fit(X[part], y[part], task=t)
    assert chosen(whole) == chosen(split) != "linear"
    assert np.abs(whole.predict(X) - split.predict(X)).max() <= SAME * y.std()


def test_auto_follows_curves_and_can_be_reduced_to_what_was_chosen(tmp_path):
    X, y = rows()
    model = ContinualRegressor(basis="auto").fit(X, y)
    held = rows(seed=1)
    assert model.score(*held) > 0.95 > ContinualRegressor().fit(X, y).score(*held) + 0.4
    expected = model.predict(X)
    model.save(tmp_path / "m.pmf")
    again = ContinualRegressor.load(tmp_path / "m.pmf")
    assert (again.predict(X) == expected).all()
    assert again.candidates_ == model.candidates_
    model.set_basis("chosen")
    assert np.abs(model.predict(X) - expected).max() <= SAME * y.std()
    assert "only=" in model.basis
    with pytest.raises(ValueError, match="chosen"):
        model.set_basis("rff:20")


@pytest.mark.parametrize("basis", ["auto", "relu:200", "spline:8", "rff:200", "rbf:50"])
def test_far_rows_stay_within_a_multiple_of_the_range(basis):
    X, y = rows()
    model = ContinualRegressor(basis=basis).fit(X, y)
    for factor in (1, 10, 1e3, 1e6):
        assert np.abs(model.predict(X * factor)).max() <= 10 * np.ptp(y)


def test_classes_are_chosen_for_too():
    X, y = rows()
    model = ContinualClassifier(basis="auto:80").partial_fit(X, np.where(y > 0, "up", "down"), task="a")
    held = rows(seed=1)
    assert chosen(model) != "linear"
    assert model.score(held[0], np.where(held[1] > 0, "up", "down")) > 0.9
    assert ContinualClassifier().fit(X, y > 0).candidates_ == []
