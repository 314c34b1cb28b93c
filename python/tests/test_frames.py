"""Frames as people have them: text, categories, booleans, dates, nullable columns; and rows checked before they are learned."""

import datetime

import numpy as np
import pmfcl
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor

pd = pytest.importorskip("pandas")


@pytest.fixture
def frame(rng):
    """Columns of every kind, and a target."""
    n = 120
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "blue", "green"], size=n),
            "grade": pd.Categorical(rng.choice(["low", "high"], size=n)),
            "open": rng.choice([True, False], size=n),
            "count": pd.array(rng.integers(0, 9, size=n), dtype="Int64"),
            "day": pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(rng.integers(0, 100, size=n), unit="h"),
        }
    )
    y = 2 * frame["size"] + (frame["colour"] == "red") - frame["open"] + rng.normal(scale=0.1, size=n)
    return frame, y.to_numpy(dtype=float)


def by_hand(frame):
    """The inputs in the order of the columns."""
    day = (frame["day"] - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)
    columns = [frame["size"]]
    columns += [frame["colour"] == value for value in dict.fromkeys(frame["colour"])]
    columns += [frame["grade"] == value for value in dict.fromkeys(frame["grade"])]
    columns += [frame["open"], frame["count"].astype(float), day]
    return np.column_stack([np.asarray(column, dtype=float) for column in columns])


def test_every_kind_of_column_is_learned(frame, tmp_path):
    X, y = frame
    model = ContinualRegressor(ridge=0.01).partial_fit(X, y, task="first")
    expected = ContinualRegressor(ridge=0.01).fit(by_hand(X), y)
    np.testing.assert_allclose(model.predict(X), expected.predict(by_hand(X)), rtol=1e-9)
    assert list(model.feature_names_in_) == list(X.columns)
    # Columns in another order are the same columns, and a file is that of the command line.
    np.testing.assert_allclose(model.predict(X[X.columns[::-1]]), model.predict(X), rtol=1e-12)
    model.save(tmp_path / "model.pmf")
    back = pmfcl.load(tmp_path / "model.pmf")
    np.testing.assert_allclose(back.predict(X), model.predict(X), rtol=1e-12)


def test_other_frames_give_the_same_model(frame):
    X, y = frame
    pl = pytest.importorskip("polars")
    expected = ContinualRegressor(ridge=0.01).fit(X, y).predict(X)
    polars = pl.from_pandas(X.assign(grade=X["grade"].astype(str)))
    np.testing.assert_allclose(ContinualRegressor(ridge=0.01).fit(polars, y).predict(polars), expected, rtol=1e-9)
    pa = pytest.importorskip("pyarrow")
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    np.testing.assert_allclose(ContinualRegressor(ridge=0.01).fit(arrow, y).predict(arrow), expected, rtol=1e-9)


def test_new_categories_come_later(frame):
    X, y = frame
    later = X.assign(colour=np.where(X["colour"] == "red", "violet", X["colour"]))
    model = ContinualRegressor(ridge=0.01).partial_fit(X, y, task="a")
    with pytest.raises(ValueError, match="column 'colour' has the category 'violet'"):
        model.predict(later)
    model.partial_fit(later, y, task="b")
    both = pd.concat([X, later], ignore_index=True)
    joint = ContinualRegressor(ridge=0.01).fit(both, np.concatenate([y, y]))
    np.testing.assert_allclose(model.predict(both), joint.predict(both), rtol=1e-8)
    # A call that fails changes nothing.
    broken = later.assign(colour="black")
    with pytest.raises(ValueError):
        model.partial_fit(broken, np.full(len(y), np.inf), task="c")
    with pytest.raises(ValueError, match="black"):
        model.predict(broken)
    np.testing.assert_allclose(model.predict(both), joint.predict(both), rtol=1e-8)


def test_missing_cells_are_named(frame):
    X, y = frame
    for column, value in [("colour", None), ("size", np.nan), ("count", pd.NA), ("day", pd.NaT)]:
        spoilt = X.copy()
        spoilt.loc[7, column] = value
        with pytest.raises(ValueError, match=f"column '{column}' at row 7 is missing"):
            ContinualRegressor().fit(spoilt, y)


def test_classes_and_plain_objects(rng):
    dates = [datetime.date(2024, 1, 1 + i % 28) for i in range(60)]
    X = pd.DataFrame({"d": dates, "k": rng.choice(["a", "b"], size=60), "flag": [i % 3 == 0 for i in range(60)]})
    y = np.where(X["k"] == "a", "yes", "no")
    model = ContinualClassifier().partial_fit(X, y, task="t")
    assert model.score(X, y) == 1.0


def test_check_says_what_is_wrong_before_it_is_learned(frame, rng):
    X, y = frame
    model = ContinualRegressor().partial_fit(X, y, task="first")
    report = model.check(X, y, refuse_if=["repeat", "units"])
    assert report.repeats == "first" and report.refused == ["repeat"] and not report.ok
    assert "the same rows were learned before" in report.warnings[0]
    assert "<li>" in report._repr_html_() and "look first" in repr(report)
    more = X.sample(frac=1.0, replace=True, random_state=1).reset_index(drop=True)
    values = 2 * more["size"] + (more["colour"] == "red") - more["open"] + rng.normal(scale=0.1, size=len(more))
    assert model.check(more, values).ok
    kinds = {f["kind"] for f in model.check(more.assign(size=1000 * more["size"]), values).findings if f["warning"]}
    assert {"units", "drift"} <= kinds
    [(name, rows)] = model.check(more.assign(colour="black"), values).new_categories
    assert name == "colour=black" and rows == pytest.approx(len(more))
    assert len(model.tasks_) == 1
    with pytest.raises(ValueError, match="none of repeat"):
        model.check(X, y, refuse_if="los")


def test_coefficients_are_those_of_ordinary_least_squares(rng):
    X = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80)})
    y = 1 + 2 * X["a"] + rng.normal(size=80)
    found = ContinualRegressor(ridge=0.0).fit(X, y).coefficients()
    assert list(found["name"]) == ["(intercept)", "a", "b"]
    design = np.column_stack([np.ones(80), X])
    theta, squares = np.linalg.lstsq(design, y, rcond=None)[:2]
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares[0] / 77)
    np.testing.assert_allclose(found["coef"], theta, rtol=1e-9)
    np.testing.assert_allclose(found["std_error"], errors, rtol=1e-6)
    assert found["p_value"][1] < 1e-6 and (found["low"] < found["coef"]).all()
    labels = np.where(y > 1, "x", "z")
    assert "std_error" not in ContinualClassifier().fit(X, labels).coefficients()


def test_rows_leave_a_task(rng):
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=60)
    model = ContinualRegressor().partial_fit(X, y, task="a").partial_fit(X[::2] + 1, y[::2], task="b")
    model.unlearn("a", X[:6], y[:6])
    rest = ContinualRegressor().partial_fit(X[6:], y[6:], task="a").partial_fit(X[::2] + 1, y[::2], task="b")
    np.testing.assert_allclose(model.coef_, rest.coef_, rtol=1e-9)
    assert model.check(X[6:], y[6:]).repeats == "a"
