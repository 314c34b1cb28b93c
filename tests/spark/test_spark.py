"""`pmfcl.spark` on a cluster of real processes: the model of one process, whatever the partitions and whoever dies."""

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, load, spark
from pmfcl.distributed import Recipe, learn, summarize

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
        (lambda: spark.learn(df, tmp_path / "h.pmf", target="cost", features=["a"], loss="huber"), "several times"),
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

    rows = session.createDataFrame(table).repartition(40)
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
