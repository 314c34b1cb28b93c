"""Summaries add up, come apart, travel as bytes."""

import copy
import pickle

import numpy as np
import pytest
from conftest import stacked
from pmfcl import ContinualClassifier, ContinualRegressor, Summary


def test_a_sum_is_the_summary_of_all_rows(months):
    parts = [Summary.from_data(X, y) for X, y in months]
    X, y = stacked(months)
    whole = Summary.from_data(X, y)
    total = sum(parts)
    assert (total.n_samples, total.rank, total.width, total.n_targets) == (len(X), 6, 6, 1)
    design = np.column_stack([np.ones(len(X)), X])
    best = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(total.solve(), best, rtol=1e-10)
    for theta in (best, np.zeros(6)):
        expected = np.mean((design @ theta - y) ** 2) / 2
        assert total.loss(theta) == pytest.approx(expected, rel=1e-12)
        assert whole.loss(theta) == pytest.approx(expected, rel=1e-12)
    assert total.forgetting(best) == pytest.approx(0, abs=1e-12)
    rest = total - parts[1]
    np.testing.assert_allclose(rest.solve(0.1), (parts[0] + parts[2] + parts[3]).solve(0.1), rtol=1e-9)


def test_equal_by_content_and_the_same_after_a_journey(months):
    X, y = months[0]
    a, b = Summary.from_data(X, y), Summary.from_data(X.copy(), y.copy())
    other = Summary.from_data(*months[1])
    assert a == b
    assert hash(a) == hash(b)
    assert a != other
    assert len({a, b, other}) == 2
    for back in (Summary.from_bytes(a.to_bytes()), pickle.loads(pickle.dumps(a)), copy.deepcopy(a), copy.copy(a)):
        assert back == a
        assert back.to_bytes() == a.to_bytes()
    with pytest.raises(ValueError, match="not a summary"):
        Summary.from_bytes(a.to_bytes()[:-1])
    with pytest.raises(AttributeError):
        a.rank = 3


def test_several_targets_weights_and_precision(rng):
    X, Y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    weights = rng.uniform(0.5, 2, size=50)
    summary = Summary.from_data(X, Y, sample_weight=weights, fit_intercept=False)
    root = np.sqrt(weights)[:, None]
    np.testing.assert_allclose(
        summary.solve(fit_intercept=False).T, np.linalg.lstsq(root * X, root * Y, rcond=None)[0], rtol=1e-10
    )
    single = Summary.from_data(X.astype(np.float32), Y.astype(np.float32), fit_intercept=False)
    wide = Summary.from_data(
        X.astype(np.float32).astype(float), Y.astype(np.float32).astype(float), fit_intercept=False
    )
    assert single == wide
    scaled = summary.scale(2.0)
    assert scaled.n_samples == pytest.approx(2 * weights.sum())
    assert scaled.loss(np.ones((2, 3))) == pytest.approx(summary.loss(np.ones((2, 3))))


def test_what_does_not_fit_is_refused(months, rng):
    X, y = months[0]
    a = Summary.from_data(X, y)
    with pytest.raises(ValueError, match="cannot merge|columns"):
        a + Summary.from_data(X[:, :2], y)
    with pytest.raises(ValueError, match="cannot remove"):
        a - Summary.from_data(*months[1])
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(ValueError, match="theta"):
        a.loss([1.0, 2.0])
    three = Summary.from_data(rng.normal(size=(30, 4)), rng.normal(size=(30, 3)))
    for ask in (three.loss, three.forgetting):
        with pytest.raises(
            ValueError, match=r"shape \(5, 3\), but \(3, 5\) was expected: a row for each target.*transpose"
        ):
            ask(np.ones((5, 3)))
    with pytest.raises(ValueError, match=r"\(1, 15\), but \(3, 5\)"):
        three.loss(np.ones(15))
    with pytest.raises(ValueError, match="the place of new columns is 9: places are 0 to 5"):
        three.extend_features(9, 1)
    with pytest.raises(ValueError, match="NaN"):
        Summary.from_data([[1.0], [np.nan]], [1.0, 2.0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Summary.from_data(X, y[:-1])
    with pytest.raises(ValueError, match="ridge"):
        a.solve(-1.0)


def test_summaries_made_elsewhere_are_learned(months, flowers):
    here = ContinualRegressor(ridge=0.2)
    there = ContinualRegressor(ridge=0.2)
    for k, (X, y) in enumerate(months):
        here.partial_fit(X, y, task=k)
        there.learn_summary(Summary.from_data(X, y), task=k)
    assert here.coef_.tobytes() == there.coef_.tobytes()
    assert here.summary(2) == Summary.from_data(*months[2])
    X, y = flowers[0]
    classes = np.unique(y)
    model = ContinualClassifier().learn_summary(Summary.from_data(X, y[:, None] == classes), classes)
    # Without rows nothing is measured: temperature 1.
    peer = ContinualClassifier(calibrate="off").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), rtol=1e-12)
