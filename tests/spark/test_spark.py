"""`pmfcl.spark` on a cluster of real processes: the model of one process, whatever the partitions and whoever dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pmfcl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, load, spark
from pmfcl.distributed import Recipe, collected, learn, learn_with, summarize

FEATURES = ["a", "b", "block", "site"]


def single(table, target, task="month", **settings):
    """The model of one process."""
    make = ContinualRegressor if target == "cost" else ContinualClassifier
    recipe = Recipe.of(make(**settings), table.schema, target=target, task=task, features=FEATURES, rows=table[:1])
    return learn(make(**settings), recipe, summarize(recipe, [table]))


def frame(session, table, partitions):
    return session.createDataFrame(table).repartition(partitions)


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_any_partitioning_gives_the_model_of_one_process(session, table, partitions):
    df = frame(session, table, partitions)
    for target in ("cost", "grade"):
        make = ContinualRegressor if target == "cost" else ContinualClassifier
        model = spark.learn(df, make(), target=target, task="month", features=FEATURES)
        answer = "predict" if target == "cost" else "predict_proba"
        expected = getattr(single(table, target), answer)(table)
        np.testing.assert_allclose(getattr(model, answer)(table), expected, rtol=1e-10, atol=1e-10)
        assert [task["samples"] for task in model.tasks_] == [800.0] * 5


def test_skewed_and_empty_partitions_and_a_file(session, table, tmp_path):
    path = tmp_path / "sales.pmf"
    df = session.createDataFrame(table).repartitionByRange(12, "site")  # few of them have rows
    spark.learn(df, path, target="cost", task="month", features=FEATURES, ridge=0.01)
    model = load(path)
    expected = single(table, "cost", ridge=0.01)
    np.testing.assert_allclose(model.predict(table), expected.predict(table), rtol=1e-10, atol=1e-10)
    # The same partitions with rows in the same order give the same bits; a shuffle would order them differently every time.
    fixed = session.createDataFrame(table)
    one, two = (
        spark.learn(fixed, ContinualRegressor(ridge=0.01), target="cost", task="month", features=FEATURES)
        for _ in range(2)
    )
    assert one.coef_.tobytes() == two.coef_.tobytes()
    found = spark.predict(df, path).select("cost", "prediction").toArrow()
    here = spark.predict(session.createDataFrame(table), path, interval=0.9).toArrow()
    np.testing.assert_allclose(np.array(here["prediction"]), model.predict(table), rtol=1e-12)
    covered = (np.array(here["low"]) < np.array(table["cost"])) & (np.array(table["cost"]) < np.array(here["high"]))
    assert 0.85 < covered.mean() < 0.95
    scores = spark.score(df, path, task="month")
    assert scores["overall"]["samples"] == 4000 == found.num_rows
    error = np.array(found["prediction"]) - np.array(found["cost"])
    assert scores["overall"]["mse"] == pytest.approx(np.mean(error**2), rel=1e-9)
    assert [task["name"] for task in scores["tasks"]] == ["0", "1", "2", "3", "4"]


def test_classes_and_probabilities(session, table, tmp_path):
    df = frame(session, table, 3)
    model = spark.learn(df, tmp_path / "grades.pmf", target="grade", features=FEATURES)
    assert isinstance(model, ContinualClassifier)
    assert [task["name"] for task in model.tasks_] == ["stream"]
    found = spark.predict(df, model, probabilities=True).toArrow()
    shares = np.column_stack([np.array(found[f"probability_{name}"]) for name in ("high", "low", "middle")])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    accuracy = np.mean(np.array(found["prediction"]) == np.array(found["grade"]))
    scores = spark.score(df, model)["overall"]
    assert scores["accuracy"] == pytest.approx(accuracy)
    assert 0 < scores["log_loss"] < np.log(3)


def test_a_worker_has_as_many_threads_as_processors(session):
    def threads(batches):
        import pyarrow as pa
        from pmfcl.distributed import _threads

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"threads": [_threads()] * batch.num_rows})

    found = session.range(4, numPartitions=2).mapInArrow(threads, "threads long").collect()
    assert {row["threads"] for row in found} == {1}


def test_ten_thousand_tasks_in_one_pass(session):
    df = session.range(0, 200_000, numPartitions=4).selectExpr(
        "id % 10000 AS task",
        "double(id % 17) AS a",
        "double(id % 23) AS b",
        "double(id % 17) * 2 + double(id % 5) AS y",
    )
    model = spark.learn(df, ContinualRegressor(ridge=0.1), target="y", task="task")
    assert len(model.tasks_) == 10_000
    assert model.n_samples_ == 200_000


def test_bad_input_is_one_error_that_names_the_place(session, table, tmp_path):
    path = tmp_path / "m.pmf"
    df = frame(session, table, 3)
    spark.learn(df, path, target="cost", task="month", features=["a", "b"])
    before = path.read_bytes()
    gap = table.set_column(0, "a", pa.array([None, *np.array(table["a"])[1:]], pa.float64()))
    for call, words in (
        (
            lambda: spark.learn(frame(session, gap, 2), path, target="cost", task="month"),
            r"partition \d+ on .*column 'a' has no value",
        ),
        (lambda: spark.learn(df.drop("b"), path, target="cost", task="month"), "no column 'b'"),
        (lambda: spark.learn(df, path, target="price"), "no column 'price'"),
        (lambda: spark.learn(df, path, target="cost", task="month"), "learned already"),
        (
            lambda: spark.learn(df.selectExpr("site AS a", "b", "cost", "month"), path, target="cost", task="month"),
            r"partition \d+ on .*column 'a' holds string, not numbers",
        ),
        (lambda: spark.learn(df, tmp_path / "h.pmf", target="cost", features=["site", "c"]), "no column 'c'"),
        (lambda: spark.predict(df.withColumnRenamed("a", "prediction"), path), "'prediction' already"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert path.read_bytes() == before
    assert not (tmp_path / "h.pmf").exists()


def test_a_worker_that_is_killed_mid_job_changes_nothing(cluster, session, table):
    # Inside the test, so that it travels to the workers with its code: they cannot import this file.
    def slowly(batches):
        for batch in batches:
            time.sleep(0.2)
            yield batch

    rows = session.createDataFrame(table).repartition(24)
    slow = rows.mapInArrow(slowly, rows.schema)
    killed = []

    def kill():
        time.sleep(3)
        # The second worker with its executors, which are of its process group.
        worker = cluster.workers[-1].pid
        os.killpg(worker, signal.SIGKILL)
        killed.append(worker)

    thread = threading.Thread(target=kill)
    thread.start()
    model = spark.learn(slow, ContinualRegressor(ridge=0.01), target="cost", task="month", features=FEATURES)
    thread.join()
    assert killed
    np.testing.assert_allclose(
        model.predict(table), single(table, "cost", ridge=0.01).predict(table), rtol=1e-10, atol=1e-10
    )
    cluster.add_worker()
    cluster.wait(2)


def fitted_here(table, target, settings):
    """The model of one process by a loss that looks at rows again."""
    make = ContinualClassifier if target == "grade" else ContinualRegressor
    recipe = Recipe.of(make(**settings), table.schema, target=target, task="month", features=FEATURES, rows=table[:1])
    return learn_with(make(**settings), recipe, lambda work: collected([work.runner()([table], "here")]))


@pytest.mark.parametrize(
    ("target", "settings"),
    [("grade", {"loss": "logistic", "ridge": 1e-3}), ("cost", {"loss": "huber"}), ("count", {"loss": "poisson"})],
)
def test_losses_that_look_again_take_passes_over_the_cluster(session, table, target, settings, tmp_path, capfd):
    counts = np.random.default_rng(3).poisson(np.exp(0.3 * np.array(table["a"]))).astype(float)
    table = table.append_column("count", pa.array(counts))
    path = tmp_path / "m.pmf"
    spark.learn(
        frame(session, table, 2), path, target=target, task="month", features=FEATURES, progress=True, **settings
    )
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("pmfcl: pass")]
    assert told[0] == "pmfcl: pass 1: a look at the rows"
    assert any("4 tasks to fit" in line for line in told)
    answer = "predict_proba" if target == "grade" else "predict"
    expected = getattr(fitted_here(table, target, settings), answer)(table)
    np.testing.assert_allclose(getattr(load(path), answer)(table), expected, rtol=1e-6, atol=1e-6)


def test_a_check_over_the_cluster_names_what_is_off(session, table):
    rows = table.select(["a", "b", "site", "cost"])
    model = spark.learn(session.createDataFrame(rows[:3000]), ContinualRegressor(ridge=0.01), target="cost")
    a = np.array(rows["a"]).copy()
    a[3500] = 500.0
    later = rows.set_column(0, "a", pa.array(a))[3000:]
    report = spark.check(session.createDataFrame(later).repartition(3), model, refuse_if=["outliers>0"])
    assert report.rows == 1000
    assert [name for name, _ in report.new_categories] == ["site=alone"]
    assert report.refused == ["outliers>0"]
    here = model.check(later.drop(["cost"]), np.array(later["cost"]))
    # Its number differs, since partitions are counted in their order; what is wrong with it does not.
    assert report.outliers[0]["reason"] == here.outliers[0]["reason"]
    assert report.drift["p_value"] == pytest.approx(here.drift["p_value"], rel=1e-6, abs=1e-12)
    assert model.n_samples_ == 3000
    with pytest.raises(ValueError, match="no column 'b'"):
        spark.check(session.createDataFrame(later.drop(["b"])), model)


def test_columns_are_taken_as_the_command_line_takes_them(session, tmp_path):
    import datetime

    from pyspark.ml.feature import VectorAssembler

    rng, n = np.random.default_rng(8), 300
    x = rng.normal(size=(n, 3))
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(200, size=n)]
    flag = rng.random(n) > 0.5
    y = x @ [1.0, -2.0, 0.5] + np.array([d.toordinal() % 7 for d in days]) * 0.1 + flag
    rows = pa.table({"p": x[:, 0], "q": x[:, 1], "r": x[:, 2], "day": days, "flag": flag, "y": y})
    rows = rows.set_column(0, "p", pa.array([None if k % 50 == 0 else v for k, v in enumerate(x[:, 0])], pa.float64()))
    vectors = (
        VectorAssembler(inputCols=["q", "r"], outputCol="v").transform(session.createDataFrame(rows)).drop("q", "r")
    )
    model = spark.learn(vectors.repartition(4), ContinualRegressor(ridge=0.1), target="y", missing="drop")
    assert [name for name, _ in model._model.columns()] == ["p", "day", "flag", "v"]
    kept = rows.filter(pa.compute.is_valid(rows["p"]))
    # The command line drops the same rows, takes dates as days since 1970 and booleans as 0 and 1.
    pq.write_table(rows, tmp_path / "rows.parquet")
    program = Path(os.environ.get("PMFCL_PROGRAM", Path(__file__).parents[2] / "target/debug/pmfcl")).absolute()
    command = [program, "learn", tmp_path / "m.pmf", tmp_path / "rows.parquet", "--target", "y", "--ridge", "0.1"]
    subprocess.run([*map(str, command), "--missing", "drop", "--dates", "day"], check=True)
    other = load(tmp_path / "m.pmf")
    block = pa.array(np.column_stack([kept["q"], kept["r"]]).tolist(), pa.list_(pa.float64()))
    table = kept.drop(["q", "r", "y"]).append_column("v", block)
    np.testing.assert_allclose(model.predict(table), other.predict(kept.drop(["y"])), rtol=1e-9, atol=1e-9)
    assert model.n_samples_ == other.n_samples_ == 294


def test_partitions_that_are_all_missing_or_of_another_length_are_named(session, tmp_path):
    rows = session.range(0, 400, numPartitions=4).selectExpr(
        "CASE WHEN id < 100 THEN NULL ELSE double(id) END AS a", "double(id % 7) AS y", "spark_partition_id() AS part"
    )
    with pytest.raises(ValueError, match=r"partition 0 on .*column 'a' has no value in row 0"):
        spark.learn(rows, tmp_path / "m.pmf", target="y", features=["a"])
    model = spark.learn(rows, tmp_path / "m.pmf", target="y", features=["a"], missing="drop")
    assert model.n_samples_ == 300
    nothing = rows.selectExpr("double(NULL) AS a", "y")
    with pytest.raises(ValueError, match="no rows to learn from; 400 of 400 were dropped"):
        spark.learn(nothing, tmp_path / "n.pmf", target="y", missing="drop")
    ragged = rows.selectExpr("CASE WHEN part = 2 THEN array(1.0D) ELSE array(1.0D, y) END AS v", "y")
    with pytest.raises(ValueError, match=r"partition 2 on .*column 'v' has a list of 1 numbers .*2 were expected"):
        spark.learn(ragged, tmp_path / "n.pmf", target="y")
    assert not (tmp_path / "n.pmf").exists()


@contextmanager
def workers_with(session, folder):
    """Python workers that find another pmfcl first."""
    environment = session.sparkContext.environment
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = str(folder)
    try:
        yield
    finally:
        environment.pop("PYTHONPATH")
        if before is not None:
            environment["PYTHONPATH"] = before


def test_workers_without_the_wheel_or_with_another_version_are_named(session, table, tmp_path):
    absent, other = tmp_path / "absent" / "pmfcl", tmp_path / "other" / "pmfcl"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'pmfcl'\")\n")
    # The wheel as it is, except for its number.
    other.mkdir(parents=True)
    for file in Path(pmfcl.__file__).parent.iterdir():
        if file.name == "__init__.py":
            (other / file.name).write_text(file.read_text() + "\n__version__ = '0.0.7'\n")
        elif file.name != "__pycache__":
            (other / file.name).symlink_to(file)
    df = frame(session, table, 2)
    pq.write_table(table.select(["a", "b", "cost"]), tmp_path / "rows.parquet")
    files = session.read.parquet(str(tmp_path / "rows.parquet"))
    for folder, words in (
        (absent.parent, rf"partition 0 on .*No module named 'pmfcl'; install pmfcl {pmfcl.__version__} and pyarrow"),
        (other.parent, rf"partition 0 on .*pmfcl 0\.0\.7, and the driver has {pmfcl.__version__}; install one version"),
    ):
        for rows in (df, files):
            with workers_with(session, folder), pytest.raises(ValueError, match=words):
                spark.learn(rows, tmp_path / "m.pmf", target="cost", features=["a", "b"])
    assert not (tmp_path / "m.pmf").exists()
    assert spark.learn(df, tmp_path / "m.pmf", target="cost", features=["a", "b"]).n_samples_ == 4000


DRIVER = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from pmfcl import spark

path, marker = sys.argv[1:]
session = (
    SparkSession.builder.master("local[1]").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "512m").config("spark.ui.enabled", "false")
    .getOrCreate()
)

def slowly(batches):
    Path(marker).write_text("rows are read")
    time.sleep(600)
    yield from batches

rows = session.range(0, 100, numPartitions=2).selectExpr("double(id) AS a", "double(id) AS y")
spark.learn(rows.mapInArrow(slowly, rows.schema), path, target="y", task=None)
"""


def test_a_killed_driver_leaves_the_model_as_it_was(tmp_path):
    path, marker = tmp_path / "m.pmf", tmp_path / "marker"
    ContinualRegressor(ridge=0.1).fit(pa.table({"a": [1.0, 2.0, 4.0]}), np.array([1.0, 2.0, 3.0])).save(path)
    before = path.read_bytes()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    log = (tmp_path / "driver.log").open("w")
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path), str(marker)],
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 300
        while not marker.exists():
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()
            assert time.monotonic() < until, (tmp_path / "driver.log").read_text()
            time.sleep(0.2)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["driver.log", "m.pmf", "marker"]
    model = load(path).partial_fit(pa.table({"a": [5.0]}), np.array([4.0]))
    model.save(path)
