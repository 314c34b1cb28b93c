"""Federations whose clients have text, gaps, and columns or categories that come later: the model of one process."""

import numpy as np
import pandas as pd
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor
from pmfcl.federated import Agreement, Refused, Server


def clients():
    """Frames of three clients; the last has a category and a column more."""
    draw = np.random.default_rng(3)
    X = pd.DataFrame({"a": draw.normal(40, 9, 300), "b": draw.normal(size=300), "k": draw.choice(["red", "blue"], 300)})
    X.loc[200:, "k"] = draw.choice(["red", "green"], 100)
    X["w"] = 0.0
    X.loc[200:, "w"] = draw.normal(5, 1, 100)
    y = 0.3 * X.a + X.b - 2.0 * (X.k == "red") + X.w + draw.normal(size=300)
    X.loc[draw.random(300) < 0.15, "a"] = np.nan
    X.loc[draw.random(300) < 0.1, "k"] = None
    parts = [("north", slice(0, 120)), ("south", slice(120, 200)), ("east", slice(200, 300))]
    return {name: (X.iloc[rows], y.to_numpy()[rows]) for name, rows in parts}


def targets(kind, y):
    return y if kind is ContinualRegressor else np.where(y > 12, "high", np.where(y > 9, "mid", "low"))


def answers(model, X):
    return model.predict(X) if isinstance(model, ContinualRegressor) else model.decision_function(X)


@pytest.mark.parametrize("way", ["mean", "indicator"])
@pytest.mark.parametrize("kind", [ContinualRegressor, ContinualClassifier])
def test_gaps_and_later_columns_are_those_of_one_process(kind, way, tmp_path):
    made = clients()
    old = {name: (X.drop(columns="w"), targets(kind, y)) for name, (X, y) in made.items()}
    estimator = kind(missing=way)
    classes = None if kind is ContinualRegressor else ["low", "mid", "high"]
    first = Agreement(estimator, {"a": "number", "b": "number", "k": ["red", "blue"]}, classes=classes)
    first = Agreement.from_bytes(first.to_bytes())
    server = Server(first, tmp_path / "server.pmf")
    pooled = kind(missing=way)
    for name in ("north", "south"):
        server.accept(first.summarize(name, 0, *old[name]))
        pooled.partial_fit(*old[name], task=f"{name}/0")
    X = pd.concat([old["north"][0], old["south"][0]])
    np.testing.assert_allclose(answers(server.model(), X), answers(pooled, X), rtol=1e-9, atol=1e-9)
    server.commit()
    with pytest.raises(ValueError, match=r"category 'green'.*Agreement.extended"):
        first.summarize("east", 0, *old["east"])

    second = first.extended({"k": ["green"], "w": "number"})
    late = first.summarize("late", 0, *old["south"])
    with pytest.raises(Refused):
        server.accept(second.summarize("east", 0, made["east"][0], targets(kind, made["east"][1])))
    server.extend(second)
    server.accept(second.summarize("east", 0, made["east"][0], targets(kind, made["east"][1])))
    server.accept(late)
    pooled.partial_fit(made["east"][0], targets(kind, made["east"][1]), task="east/0", new_columns=["w"])
    pooled.partial_fit(old["south"][0].assign(w=0.0), old["south"][1], task="late/0")
    X = pd.concat([X for X, _ in made.values()])
    np.testing.assert_allclose(answers(server.model(), X), answers(pooled, X), rtol=1e-9, atol=1e-9)
    answered = second.predict(server.broadcast(), X)
    assert (
        np.mean(answered == pooled.predict(X)) == 1 if classes else np.allclose(answered, pooled.predict(X), rtol=1e-9)
    )

    # The server is started again, from the file of the first agreement or of the second.
    del server
    again = Server(second, tmp_path / "server.pmf")
    assert {held.client for held in again.held()} == {"north", "south"}
    again.accept(second.summarize("east", 0, made["east"][0], targets(kind, made["east"][1])))
    again.commit()
    del again
    again = Server(second, tmp_path / "server.pmf")
    again.remove("south")
    again.commit()
    rest = kind(missing=way).partial_fit(*old["north"], task="north/0")
    rest.partial_fit(made["east"][0], targets(kind, made["east"][1]), task="east/0", new_columns=["w"])
    np.testing.assert_allclose(answers(again.model(), X), answers(rest, X), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="another federation"):
        again.extend(Agreement(kind(), ["a", "b"], classes=classes))


def test_probabilities_of_rows_with_gaps_are_measured_in_the_second_round():
    made = clients()
    rows = {name: (X.drop(columns="w"), targets(ContinualClassifier, y)) for name, (X, y) in made.items()}
    agreement = Agreement(
        ContinualClassifier(missing="mean"),
        {"a": "number", "b": "number", "k": ["red", "blue", "green"]},
        classes=["low", "mid", "high"],
    )
    server = Server(agreement)
    for name, (X, y) in rows.items():
        server.accept(agreement.summarize(name, 0, X, y))
    request = server.calibration_request()
    for name, (X, y) in rows.items():
        server.accept_calibration(agreement.calibrate(request, name, 0, X, y))
    pooled = ContinualClassifier(missing="mean")
    for name, (X, y) in rows.items():
        pooled.partial_fit(X, y, task=name)
    X = pd.concat([X for X, _ in rows.values()])
    np.testing.assert_allclose(server.model().predict_proba(X), pooled.predict_proba(X), rtol=1e-7, atol=1e-9)


def test_masked_sums_have_the_gaps_and_categories_that_were_agreed():
    made = clients()
    agreement = Agreement(
        ContinualRegressor(missing="mean"), {"a": "number", "b": "number", "k": ["red", "blue", "green"]}
    )
    server, total = Server(agreement), None
    for X, y in made.values():
        own = agreement.summary(X.drop(columns="w"), y)
        total = own if total is None else total + own
    server.accept(agreement.update("cohort", 0, total))
    X = pd.concat([X.drop(columns="w") for X, _ in made.values()])
    y = np.concatenate([y for _, y in made.values()])
    expected = ContinualRegressor(missing="mean").fit(X, y)
    np.testing.assert_allclose(server.model().predict(X), expected.predict(X), rtol=1e-9)


def test_what_an_agreement_cannot_be_is_refused():
    for features, words in (
        ({"a": "text"}, "none of number, date"),
        ({"a": []}, "list of different ones"),
        ({"a": ["x", "x"]}, "list of different ones"),
    ):
        with pytest.raises(ValueError, match=words):
            Agreement(ContinualRegressor(), features)
    agreement = Agreement(ContinualRegressor(), ["a", "b"])
    with pytest.raises(ValueError, match="already"):
        agreement.extended({"a": "number"})
    assert agreement.extended({"c": "number"}).width == agreement.width + 1
    with pytest.raises(ValueError, match="only the linear basis can grow"):
        Agreement(ContinualRegressor(basis="poly:2"), 2).extended({"c": "number"})
