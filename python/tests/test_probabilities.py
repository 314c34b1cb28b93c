"""Probabilities one can act on: calibrated, measured again, class covariances, rows of none of the classes."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from pmfcl import ContinualClassifier
from pmfcl.federated import Agreement, Refused, Server
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

LABELS = np.array(["a", "b", "c"])


def rows(rng, n, tail=0.2):
    """Classes a step apart; a share of rows is thrown four times as far."""
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 4)) * np.where(rng.random(n) < tail, 4.0, 1.0)[:, None]
    X[:, 0] += 1.5 * y
    return X, LABELS[y]


@pytest.fixture
def tasks(rng):
    return [rows(rng, 300) for _ in range(3)]


def learned(tasks, **parameters):
    model = ContinualClassifier(**parameters)
    for k, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=f"t{k}")
    return model


def test_calibrate_is_a_parameter_and_a_method(tasks):
    model = ContinualClassifier(calibrate=2.5)
    assert "calibrate=2.5" in repr(model)
    for other in (clone(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.get_params()["calibrate"] == 2.5
        assert callable(other.calibrate)
    assert clone(model.set_params(calibrate="off")).get_params()["calibrate"] == "off"
    model.calibrate = 1.5
    assert model.get_params()["calibrate"] == 1.5
    assert model.partial_fit(*tasks[0], task="one").temperature_ == 1.5
    assert model.calibrate(*tasks[1]).get_params()["calibrate"] == "on"
    back = pickle.loads(pickle.dumps(model))
    assert back.get_params() == model.get_params() and back.calibrate(*tasks[1]) is back
    grid = GridSearchCV(ContinualClassifier(), {"calibrate": ["on", "off"]}, scoring="neg_log_loss", cv=2)
    assert grid.fit(*tasks[0]).best_params_["calibrate"] in ("on", "off")
    assert "learned_rows" in inspect.signature(ContinualClassifier.calibrate).parameters


def test_the_default_is_calibrated_and_predicts_the_same_classes(rng, tasks):
    X, y = rows(rng, 3000)
    on, off = learned(tasks), learned(tasks, calibrate="off")
    assert np.array_equal(on.predict(X), off.predict(X))
    assert log_loss(y, on.predict_proba(X)) < log_loss(y, off.predict_proba(X))
    assert off.temperature_ == 1.0
    assert on.left_out_["accuracy"] == pytest.approx(on.score(X, y), abs=0.03)
    assert on.left_out_["calibration_error"] < 0.06
    assert off.left_out_ is None
    assert on.tasks_[0]["left_out"]["samples"] == 300


def test_the_parameter_and_the_method_go_together(rng, tasks, tmp_path):
    model = learned(tasks, calibrate="off")
    assert model.get_params()["calibrate"] == "off"
    assert clone(model).get_params()["calibrate"] == "off"
    X, y = rows(rng, 2000)
    classes = model.predict(X)
    plain = log_loss(y, model.predict_proba(X))
    assert model.calibrate(X, y) is model
    assert model.get_params()["calibrate"] == "on"
    assert log_loss(y, model.predict_proba(X)) < plain
    assert np.array_equal(model.predict(X), classes)
    path = tmp_path / "m.pmf"
    model.save(path)
    back = ContinualClassifier.load(path)
    assert back.get_params()["calibrate"] == "on"
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    assert learned(tasks, calibrate=2.5).temperature_ == 2.5
    with pytest.raises(ValueError, match="gaussian"):
        learned(tasks, loss="squared").calibrate(X, y)
    with pytest.raises(ValueError, match="classes"):
        model.calibrate(X, np.full(len(X), "nobody"))


def test_measuring_at_the_final_model_does_not_depend_on_the_order(rng, tasks):
    X, y = rows(rng, 1500)
    one, other = learned(tasks).calibrate(X, y), learned(tasks[::-1]).calibrate(X, y)
    assert np.allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-9)
    own = np.concatenate([x for x, _ in tasks]), np.concatenate([y for _, y in tasks])
    by_own = learned(tasks).calibrate(*own, learned_rows=True)
    assert log_loss(y, by_own.predict_proba(X)) < 1.03 * log_loss(y, one.predict_proba(X))


def test_novelty_has_thresholds_with_a_meaning(rng, tasks):
    model = learned(tasks)
    X, _ = rows(rng, 6000)
    for threshold in (0.5, 0.9, 0.99):
        share = (model.novelty(X) > threshold).mean()
        assert share == pytest.approx(1 - threshold, abs=0.01 + 0.2 * (1 - threshold))
    assert (model.novelty(X + np.array([0.0, 40.0, 0.0, 0.0])) > 0.99).all()
    with pytest.raises(ValueError, match="gaussian"):
        learned(tasks, loss="squared").novelty(X)


def test_class_covariances_tell_spreads_apart(rng, tmp_path):
    def spreads(n):
        y = np.arange(n) % 2
        return rng.normal(size=(n, 4)) * np.where(y, 2.0, 0.5)[:, None], np.array(["narrow", "wide"])[y]

    model = learned([spreads(200) for _ in range(3)], covariance="class")
    X, y = spreads(2000)
    assert model.score(X, y) > 0.9
    path = tmp_path / "m.pmf"
    model.save(path)
    back = ContinualClassifier.load(path)
    assert back.covariance == "class"
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    back.partial_fit(*spreads(100))
    back.unlearn("t0")
    assert back.score(X, y) > 0.9


def test_a_second_round_calibrates_a_federation(rng, tasks, tmp_path):
    agreement = Agreement(ContinualClassifier(), features=4, classes=LABELS)
    server = Server(agreement, tmp_path / "f.pmf")
    for k, (X, y) in enumerate(tasks):
        server.accept(agreement.summarize(f"client-{k}", 0, X, y))
    X, y = rows(rng, 3000)
    plain = log_loss(y, server.commit().predict_proba(X))
    assert server.model().left_out_ is None
    request = server.calibration_request()
    for k, (own, labels) in enumerate(tasks):
        server.accept_calibration(agreement.calibrate(request, f"client-{k}", 0, own, labels))
    calibrated = server.commit()
    assert log_loss(y, calibrated.predict_proba(X)) < plain
    assert calibrated.left_out_["samples"] == pytest.approx(900)
    # It is in the file, and a server that is started again has it.
    again = ContinualClassifier.load(tmp_path / "f.pmf")
    assert np.array_equal(again.predict_proba(X), calibrated.predict_proba(X))
    del server
    server = Server(agreement, tmp_path / "f.pmf")
    again = server.model()
    assert np.array_equal(again.predict_proba(X), calibrated.predict_proba(X))
    server.accept(agreement.summarize("late", 0, *tasks[0]))
    with pytest.raises(Refused, match="ask again"):
        server.accept_calibration(agreement.calibrate(request, "client-0", 0, *tasks[0]))
