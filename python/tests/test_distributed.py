"""Parts made apart, merged, and learned: as if one process had seen all rows."""

import itertools
import pickle

import numpy as np
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, load
from pmfcl.distributed import PartError, Recipe, learn, merge, summarize

pa = pytest.importorskip("pyarrow")

NEAR = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def table(rng):
    """Numbers, text, a date, a list, a boolean, two targets and tasks, 600 rows."""
    n = 600
    x = rng.normal(size=n)
    site = rng.choice(["north", "south", "east"], size=n)
    site[-1] = "alone"
    block = rng.normal(size=(n, 2))
    cost = 2 * x + (site == "south") - block[:, 1] + rng.normal(scale=0.1, size=n)
    return pa.table(
        {
            "x": x,
            "site": site,
            "day": np.datetime64("2024-01-01") + rng.integers(300, size=n).astype("timedelta64[D]"),
            "block": pa.array(block.tolist(), pa.list_(pa.float64())),
            "flag": rng.random(n) > 0.5,
            "cost": cost,
            "grade": np.where(cost > 0.5, "high", np.where(cost < -0.5, "low", "middle")),
            "month": np.arange(n) * 5 // n,
        }
    )


def cut(table, count):
    """Parts of unlike size, some of them empty."""
    places = np.linspace(0, 1, count + 1) ** 2 * table.num_rows
    return [table[int(a) : int(b)] for a, b in itertools.pairwise(places)]


@pytest.mark.parametrize("count", [1, 2, 7, 64])
@pytest.mark.parametrize("target", ["cost", "grade"])
def test_any_cut_gives_the_model_of_one_process(table, count, target):
    make = ContinualRegressor if target == "cost" else ContinualClassifier
    drop = ["grade" if target == "cost" else "cost"]
    recipe = Recipe.of(make(), table.schema, target=target, task="month", exclude=drop, rows=table[:5])
    recipe = pickle.loads(pickle.dumps(recipe))
    parts = [summarize(recipe, [part]) for part in cut(table, count)]
    model = learn(make(), recipe, merge([merge(parts[: count // 2 + 1]), *parts[count // 2 + 1 :]]))
    whole = learn(make(), recipe, summarize(recipe, [table]))
    assert [task["name"] for task in model.tasks_] == ["0", "1", "2", "3", "4"]
    assert [task["samples"] for task in model.tasks_] == [120.0] * 5
    answer = "predict" if target == "cost" else "predict_proba"
    # Places of categories may differ; predictions do not.
    np.testing.assert_allclose(getattr(model, answer)(table), getattr(whole, answer)(table), rtol=1e-9, atol=1e-9)
    again = learn(make(), recipe, merge([summarize(recipe, [part]) for part in cut(table, count)]))
    other = learn(make(), recipe, merge([summarize(recipe, [part]) for part in cut(table, count)]))
    assert again.coef_.tobytes() == other.coef_.tobytes()


def test_numbers_are_those_of_the_estimator(table, rng, tmp_path):
    frame = table.select(["x", "cost"])
    weights = pa.array(rng.integers(0, 3, size=600).astype(float))
    frame = frame.append_column("w", weights)
    recipe = Recipe.of(ContinualRegressor(ridge=0.1), frame.schema, target="cost", weight="w")
    model = learn(ContinualRegressor(ridge=0.1), recipe, merge(summarize(recipe, [part]) for part in cut(frame, 7)))
    X, y = np.array(frame["x"])[:, None], np.array(frame["cost"])
    here = ContinualRegressor(ridge=0.1).fit(X, y, sample_weight=np.array(weights))
    np.testing.assert_allclose(model.coef_, here.coef_, **NEAR)
    assert model.n_samples_ == here.n_samples_
    # A fitted model goes on: rows without a task are added to the current one, categories appear.
    model.save(tmp_path / "m.pmf")
    back = load(tmp_path / "m.pmf")
    more = Recipe.of(back, frame.schema, target="cost", weight="w")
    learn(back, more, summarize(more, [frame[:100]]))
    assert len(back.tasks_) == 1
    assert back.n_samples_ == model.n_samples_ + float(np.sum(np.array(weights)[:100]))


def test_a_category_that_appears_later_extends_the_model(table):
    first, second = table[:599].select(["x", "site", "cost"]), table[599:].select(["x", "site", "cost"])
    recipe = Recipe.of(ContinualRegressor(ridge=0.1), first.schema, target="cost")
    model = learn(ContinualRegressor(ridge=0.1), recipe, summarize(recipe, [first]))
    with pytest.raises(ValueError, match="alone"):
        model.predict(second)
    more = Recipe.of(model, second.schema, target="cost")
    learn(model, more, summarize(more, [second]))
    whole = Recipe.of(ContinualRegressor(ridge=0.1), table.schema, target="cost", features=["x", "site"])
    joint = learn(ContinualRegressor(ridge=0.1), whole, summarize(whole, [table]))
    np.testing.assert_allclose(model.predict(table), joint.predict(table), **NEAR)


def test_a_basis_that_needs_rows_is_fixed_once(table):
    frame = table.select(["x", "flag", "cost"])
    make = lambda: ContinualRegressor(basis="rbf:20", ridge=1e-3)
    recipe = Recipe.of(make(), frame.schema, target="cost", rows=frame[:200])
    model = learn(make(), recipe, merge([summarize(recipe, [frame[:300]]), summarize(recipe, [frame[300:]])]))
    joint = learn(make(), recipe, summarize(recipe, [frame]))
    np.testing.assert_allclose(model.predict(frame.drop(["cost"])), joint.predict(frame.drop(["cost"])), rtol=1e-7)


def test_what_is_wrong_is_named(table):
    frame = table.select(["x", "site", "cost"])
    recipe = Recipe.of(ContinualRegressor(), frame.schema, target="cost")
    part = summarize(recipe, [frame])
    with pytest.raises(ValueError, match="no column 'price'"):
        Recipe.of(ContinualRegressor(), frame.schema, target="price")
    with pytest.raises(ValueError, match="no column 'site'; the table has x, cost"):
        summarize(recipe, [frame.drop(["site"])])
    gap = pa.table({"x": [1.0, None], "site": ["a", "b"], "cost": [1.0, 2.0]})
    with pytest.raises(ValueError, match="column 'x' has no value in row 1"):
        summarize(recipe, [gap])
    text = pa.table({"x": ["1.0", "much"], "site": ["a", "b"], "cost": [1.0, 2.0]})
    with pytest.raises(ValueError, match="column 'x' holds string, not numbers"):
        summarize(recipe, [text])
    infinite = pa.table({"x": [1.0, np.inf], "site": ["a", "b"], "cost": [1.0, 2.0]})
    with pytest.raises(ValueError, match="'x' at row 1 is inf"):
        summarize(recipe, [infinite])
    many = pa.table({"x": np.zeros(1200), "site": [f"s{k}" for k in range(1200)], "cost": np.zeros(1200)})
    with pytest.raises(ValueError, match="'site' has more than 1000 categories"):
        summarize(recipe, [many])
    dropping = Recipe.of(ContinualRegressor(), frame.schema, target="cost", missing="drop")
    with pytest.raises(ValueError, match="no rows to learn from; 2 of 2"):
        learn(ContinualRegressor(), dropping, summarize(dropping, [pa.table({**gap.to_pydict(), "cost": [None, 2.0]})]))
    with pytest.raises(PartError, match="part 1 was made by another recipe"):
        merge([part, summarize(dropping, [frame])])
    for wrong, words in ((part[:-1], "checksum"), (b"PMF?" + part[4:], "no part"), (b"", "no part")):
        with pytest.raises(PartError, match=words):
            merge([wrong])
    damaged = bytearray(part)
    damaged[100] ^= 1
    with pytest.raises(PartError, match="checksum"):
        merge([bytes(damaged)])
    huber = Recipe.of(ContinualRegressor(loss="huber"), frame.schema, target="cost")
    with pytest.raises(ValueError, match="several times"):
        summarize(huber, [frame])
    model = learn(ContinualRegressor(), recipe, part)
    before = model.coef_.tobytes()
    with pytest.raises(PartError, match="another recipe"):
        learn(model, recipe, summarize(dropping, [frame]))
    assert model.coef_.tobytes() == before


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries_are_tables_too(table, library):
    pytest.importorskip(library)
    frame = table.select(["x", "site", "cost"])
    recipe = Recipe.of(ContinualRegressor(ridge=0.1), frame.schema, target="cost")
    expected = learn(ContinualRegressor(ridge=0.1), recipe, summarize(recipe, [frame]))
    if library == "pandas":
        other = frame.to_pandas()
    else:
        import polars as pl

        other = pl.from_arrow(frame)
    model = learn(ContinualRegressor(ridge=0.1), recipe, summarize(recipe, [other]))
    np.testing.assert_allclose(model.predict(frame), expected.predict(frame), **NEAR)
