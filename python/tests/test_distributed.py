"""Parts made apart, merged, and learned: as if one process had seen all rows."""

import itertools
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, load
from pmfcl.distributed import (
    PartError,
    Recipe,
    Request,
    Work,
    _threads,
    answer,
    check_with,
    collected,
    learn,
    learn_with,
    merge,
    shard,
    summarize,
)

pa = pytest.importorskip("pyarrow")

PROGRAM = Path(os.environ.get("PMFCL_PROGRAM", Path(__file__).parents[2] / "target/debug/pmfcl"))
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


@pytest.mark.parametrize("kind", ["text", "number", "boolean", "dictionary"])
def test_classes_and_tasks_meet_by_name_whatever_batch_and_type_they_come_in(rng, kind):
    n = 120
    x = rng.normal(size=n)
    label = np.where(np.arange(n) < 60, 0, np.arange(n) % 2)  # the second class comes in later batches only
    values = {
        "text": np.array(["no", "yes"])[label],
        "number": label * 2.0,
        "boolean": label == 1,
        "dictionary": np.array(["no", "yes"])[label],
    }[kind]
    gaps = np.arange(n) % 10 == 3
    labels = pa.array(values.tolist(), mask=gaps)
    rows = pa.table(
        {
            "x": x,
            "y": labels.dictionary_encode() if kind == "dictionary" else labels,
            "week": pa.array((9 + np.arange(n) // 40).tolist(), pa.float64() if kind == "number" else pa.int64()),
        }
    )
    recipe = Recipe.of(ContinualClassifier(calibrate="off"), rows.schema, target="y", task="week", missing="drop")
    model = learn(
        ContinualClassifier(calibrate="off"), recipe, summarize(recipe, [rows[at : at + 17] for at in range(0, n, 17)])
    )
    expected = ContinualClassifier(calibrate="off")
    for week in ("10", "11", "9"):  # tasks are learned in the order of their names
        own = (9 + np.arange(n) // 40 == int(week)) & ~gaps
        expected.partial_fit(x[own, None], values[own], task=week)
    assert [task["name"] for task in model.tasks_] == ["10", "11", "9"]
    assert [task["samples"] for task in model.tasks_] == [36.0, 36.0, 36.0]
    assert model.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_allclose(model.predict_proba(rows.select(["x"])), expected.predict_proba(x[:, None]), **NEAR)


@pytest.mark.parametrize(("given", "threads"), [("2", 2), ("", None), ("0", None), ("many", None)])
def test_a_worker_takes_the_processors_its_engine_gave_it(monkeypatch, given, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert _threads() == threads


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
    for wrong, words in ((part[:-1], "checksum"), (b"PMF?" + part[4:], "no shard"), (b"", "no shard")):
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


def over(tables, calls=None):
    """Runs work on tables that stand for the parts of a cluster."""

    def run(work):
        if calls is not None:
            calls.append(work)
        run_one = work.runner()
        return collected([run_one([table], f"part {number}") for number, table in enumerate(tables)])

    return run


@pytest.fixture
def counts(table, rng):
    """The table with a target of counts and one with outliers."""
    x = np.array(table["x"])
    wild = np.array(table["cost"]) + np.where(rng.random(600) < 0.05, 30.0, 0.0)
    return table.append_column("count", pa.array(rng.poisson(np.exp(0.5 * x + 0.3)).astype(float))).append_column(
        "wild", pa.array(wild)
    )


CASES = [
    ("grade", {"loss": "logistic"}),
    ("grade", {"loss": "logistic", "scheme": "sequential"}),
    ("flag", {"loss": "logistic", "curvature": "hessian"}),
    ("count", {"loss": "poisson"}),
    ("wild", {"loss": "huber"}),
]


@pytest.mark.parametrize(("target", "settings"), CASES)
@pytest.mark.parametrize("count", [1, 5])
def test_losses_that_look_again_are_fitted_by_passes(counts, target, settings, count):
    make = ContinualClassifier if target in ("grade", "flag") else ContinualRegressor
    frame = counts.select(["x", "site", "block", target, "month"])
    recipe = Recipe.of(make(**settings), frame.schema, target=target, task="month", rows=frame[:5])
    calls, told = [], []
    model = learn_with(make(**settings), recipe, over(cut(frame, count), calls), progress=told.append)
    # One process, task by task, through the estimator itself.
    here = make(**settings)
    known = pa.compute.unique(frame[target]).to_pylist()
    for month in range(5):
        rows = frame.filter(pa.compute.equal(frame["month"], month))
        X = np.column_stack([encoded(frame, rows)])
        extra = {"classes": sorted(known, key=str)} if make is ContinualClassifier and month == 0 else {}
        here.partial_fit(X, np.array(rows[target].to_pylist()), task=str(month), **extra)
    X = encoded(frame, frame)
    answer_of = "predict_proba" if make is ContinualClassifier else "predict"
    found, expected = getattr(model, answer_of)(frame), getattr(here, answer_of)(X)
    # Minima are found to 1e-10 of their scale; columns stand in another order, so the last digits differ.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert [task["samples"] for task in model.tasks_] == [120.0] * 5
    assert len(told) == len(calls)
    # Tasks that do not depend on each other share passes: far fewer jobs than passes.
    if settings.get("scheme") != "sequential":
        assert max(len(work.request.passes) for work in calls) == 4


def encoded(whole, rows):
    """Inputs of the rows by NumPy alone: number, list, and one column for each category."""
    sites = sorted(set(whole["site"].to_pylist()))
    site = np.array(rows["site"].to_pylist())
    block = np.array(rows["block"].to_pylist())
    return np.column_stack([np.array(rows["x"]), block, *(site == name for name in sites)]).astype(float)


def test_passes_go_on_with_a_fitted_model_and_rows_without_a_task(counts):
    frame = counts.select(["x", "wild"])
    make = lambda: ContinualRegressor(loss="huber:1.5", ridge=0.01)
    recipe = Recipe.of(make(), frame.schema, target="wild")
    model = learn_with(make(), recipe, over(cut(frame, 3)))
    X, y = np.array(frame["x"])[:, None], np.array(frame["wild"])
    here = make().fit(X, y)
    np.testing.assert_allclose(model.predict(X), here.predict(X), rtol=1e-8, atol=1e-8)
    more = Recipe.of(model, frame.schema, target="wild")
    learn_with(model, more, over([frame[:50]]))
    here.partial_fit(X[:50], y[:50])
    assert model.n_samples_ == 650
    np.testing.assert_allclose(model.predict(X), here.predict(X), rtol=1e-8, atol=1e-8)


def test_a_pass_that_fails_ends_all_fits_and_changes_nothing(counts):
    frame = counts.select(["x", "site", "grade", "month"])
    make = lambda: ContinualClassifier(loss="logistic")
    recipe = Recipe.of(make(), frame.schema, target="grade", task="month")
    fine, made = over(cut(frame, 3)), []

    def failing(work):
        made.append(work)
        if len(made) == 4:
            raise ConnectionError("the cluster is gone")
        return fine(work)

    model = make()
    with pytest.raises(ConnectionError, match="the cluster is gone"):
        learn_with(model, recipe, failing)
    assert not model.__sklearn_is_fitted__()
    assert len(made) == 4

    def changing(work):
        rows = frame if work.request.first is not None else frame.filter(pa.compute.equal(frame["month"], 1))
        return over([rows])(work)

    with pytest.raises(ValueError, match="rows of the task '0' are gone"):
        learn_with(make(), recipe, changing)

    def growing(work):
        new = pa.table({"x": [1.0], "site": ["late"], "grade": ["low"], "month": [0]})
        return over([frame] if work.request.first is not None else [frame, new])(work)

    with pytest.raises(ValueError, match="part 1: the rows have changed between two passes: '1:late' is new"):
        learn_with(make(), recipe, growing)
    with pytest.raises(ValueError, match="part 0: these bytes are no pass"):
        over([frame[:100].drop(["site"]).append_column("site", pa.array(["north"] * 100))])(
            Work(recipe, Request(keys=("1:north",), passes={"0": (1, b"nothing")}))
        )
    other = Recipe.of(ContinualRegressor(), counts.select(["x", "cost"]).schema, target="cost")
    with pytest.raises(PartError, match="another recipe"):
        merge([answer(recipe, Request(first=b""), []), summarize(other, [counts])])


def test_a_check_over_parts_is_that_of_one_table(table):
    frame = table.select(["x", "site", "cost"])
    recipe = Recipe.of(ContinualRegressor(ridge=0.1), frame.schema, target="cost")
    model = learn(ContinualRegressor(ridge=0.1), recipe, summarize(recipe, [frame[:400]], content=True))
    x = np.array(frame["x"]).copy()
    x[450] = 99.0
    later = frame.set_column(0, "x", pa.array(x))[400:]
    fitted = Recipe.of(model, later.schema, target="cost")
    before = model._model.to_bytes()
    report = check_with(model, fitted, over([later[:30], later[30:120], later[120:]]), refuse_if="drift<0.01")
    here = model.check(later.drop(["cost"]), np.array(later["cost"]))
    assert report.rows == here.rows == 200
    assert report.beyond == here.beyond >= 1
    assert [row["row"] for row in report.outliers] == [row["row"] for row in here.outliers]
    assert report.outliers[0]["row"] == 50
    assert report.outliers[0]["reason"] == here.outliers[0]["reason"]
    assert [name for name, _ in report.new_categories] == [name for name, _ in here.new_categories] == ["site=alone"]
    assert report.drift["p_value"] == pytest.approx(here.drift["p_value"], rel=1e-6, abs=1e-12)
    again = check_with(model, fitted, over([frame[:150], frame[150:400]]))
    assert again.repeats
    assert model._model.to_bytes() == before
    with pytest.raises(ValueError, match="no rows to check"):
        check_with(model, fitted, over([later[:0]]))


@pytest.mark.skipif(not PROGRAM.exists(), reason="the command line is not built (cargo build -p pmfcl-cli)")
def test_a_part_is_a_shard_of_the_command_line(table, tmp_path):
    frame = table.select(["x", "site", "cost", "month"])
    recipe = Recipe.of(ContinualRegressor(ridge=0.1), frame.schema, target="cost", task="month")
    for number, part in enumerate(cut(frame, 3)):
        (tmp_path / f"{number}.pms").write_bytes(shard(recipe, summarize(recipe, [part], content=True)))
    command = [PROGRAM.absolute(), "learn", "m.pmf", "--summaries", "0.pms", "1.pms", "2.pms"]
    subprocess.run(command, cwd=tmp_path, check=True)
    expected = learn(ContinualRegressor(ridge=0.1), recipe, summarize(recipe, [frame]))
    found = load(tmp_path / "m.pmf")
    np.testing.assert_allclose(found.predict(frame), expected.predict(frame), **NEAR)
    assert {task["name"] for task in found.tasks_} == {"0", "1", "2", "3", "4"}
