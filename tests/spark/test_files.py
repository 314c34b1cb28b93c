"""Parquet files that executors read themselves: the model that Spark's own reading gives, or Spark reads them."""

import datetime
import os
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, _files, distributed, load, spark

FEATURES = ["a", "b", "day", "flag", "site"]


@pytest.fixture(scope="session")
def rows():
    """Numbers of several types, a date, booleans, text, classes and tasks, 3,000 rows; one category occurs once."""
    rng, n = np.random.default_rng(11), 3000
    a, b = rng.normal(size=n), rng.integers(-20, 20, size=n)
    site = rng.choice(["north", "south", "east"], size=n)
    site[-1] = "alone"
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(200, size=n)]
    flag = rng.random(n) > 0.5
    cost = 2 * a - 0.1 * b + (site == "south") + flag + rng.normal(scale=0.3, size=n)
    return pa.table(
        {
            "a": a,
            "b": pa.array(b, pa.int32()),
            "day": days,
            "flag": flag,
            "site": site,
            "cost": cost,
            "grade": np.where(cost > 0.8, "high", np.where(cost < -0.8, "low", "middle")),
            "month": np.arange(n) * 5 // n,
        }
    )


@pytest.fixture
def folder(rows, tmp_path):
    """The rows in four files of several row groups, with files that have none."""
    folder = tmp_path / "rows and files"
    folder.mkdir()
    for number, start in enumerate(range(0, 3000, 750)):
        pq.write_table(rows[start : start + 750], folder / f"{number}.parquet", row_group_size=200)
    with pq.ParquetWriter(folder / "8.parquet", rows.schema):
        pass  # no row group
    pq.write_table(rows[:0], folder / "9.parquet")
    (folder / "empty.parquet").touch()
    return folder


@pytest.fixture
def never_by_spark(monkeypatch):
    """No rows come through the JVM."""

    def refused(*_):
        raise AssertionError("Spark was to read the rows")

    monkeypatch.setattr(spark, "_partition", refused)


def small_parts(session):
    """About forty parts of the small files that are read here."""
    before = {
        name: session.conf.get(name)
        for name in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    }
    session.conf.set("spark.sql.files.maxPartitionBytes", "3000")
    session.conf.set("spark.sql.files.openCostInBytes", "0")
    return lambda: [session.conf.set(name, value) for name, value in before.items()]


def single(rows, target):
    make = ContinualRegressor if target == "cost" else ContinualClassifier
    recipe = distributed.Recipe.of(make(), rows.schema, target=target, task="month", features=FEATURES)
    return distributed.learn(make(), recipe, distributed.summarize(recipe, [rows]))


@pytest.mark.parametrize("target", ["cost", "grade"])
def test_files_give_the_model_of_one_process(session, rows, folder, target, never_by_spark):
    make = ContinualRegressor if target == "cost" else ContinualClassifier
    answer = "predict" if target == "cost" else "predict_proba"
    expected = getattr(single(rows, target), answer)(rows)
    df = session.read.parquet(str(folder))
    undo = small_parts(session)
    try:
        assert _files.scan_of(df).parts > 30
        models = [spark.learn(df, make(), target=target, task="month", features=FEATURES) for _ in range(2)]
    finally:
        undo()
    models.append(spark.learn(df, make(), target=target, task="month", features=FEATURES))
    for model in models:
        np.testing.assert_allclose(getattr(model, answer)(rows), expected, rtol=1e-10, atol=1e-10)
        assert [task["samples"] for task in model.tasks_] == [600.0] * 5
    # The same parts of the same files give the same bits.
    assert models[0].coef_.tobytes() == models[1].coef_.tobytes()


def test_files_give_what_spark_gives(session, rows, folder, tmp_path, never_by_spark, monkeypatch):
    # Written by Spark, with other types, missing values and other names.
    written = session.createDataFrame(rows).selectExpr(
        "IF(b = 3, NULL, a) AS `the a`", "float(b) AS b", "smallint(b) AS c", "tinyint(flag) AS d", "site", "cost AS y"
    )
    written.repartition(3).write.parquet(str(tmp_path / "written"))
    df = (
        session.read.parquet(str(tmp_path / "written"))
        .withColumnRenamed("the a", "a")
        .select("y", "site", "c", "b", "a", "d")
    )
    model = spark.learn(df, ContinualRegressor(ridge=0.1), target="y", missing="drop")
    monkeypatch.undo()
    other = spark.learn(df, ContinualRegressor(ridge=0.1), target="y", missing="drop", files=False)
    assert model.n_samples_ == other.n_samples_ == 3000 - np.sum(np.array(rows["b"]) == 3)
    # Categories are in the order in which they were read, so coefficients are compared by what they predict.
    asked = written.withColumnRenamed("the a", "a").dropna().toArrow()
    np.testing.assert_allclose(model.predict(asked), other.predict(asked), rtol=1e-10, atol=1e-10)


def test_what_is_not_plain_is_left_to_spark(session, rows, folder, tmp_path):
    from pyspark.sql import functions as f

    df = session.read.parquet(str(folder))
    assert _files.scan_of(df) is not None
    assert _files.scan_of(df.drop("a").select("b", "cost")) is not None
    cached = session.read.parquet(str(folder)).select("a", "b").persist()
    df.write.partitionBy("month").parquet(str(tmp_path / "partitioned"))
    others = {
        "filter": df.filter("a > 0"),
        "limit": df.limit(10),
        "sort": df.sort("a"),
        "sample": df.sample(0.5, seed=1),
        "computed": df.withColumn("c", f.col("a") * 2),
        "cast": df.withColumn("b", f.col("b").cast("double")),
        "random": df.withColumn("c", f.rand()),
        "union": df.union(df),
        "join": df.join(df.select("month").distinct(), "month"),
        "cached": session.read.parquet(str(folder)).select("a", "b"),
        "repartitioned": df.repartition(3),
        "partitions": session.read.parquet(str(tmp_path / "partitioned")),
        "option": session.read.option("mergeSchema", "true").parquet(str(folder)),
        "time": df.select(f.timestamp_seconds("b").alias("t")),
        "csv": session.read.schema("a double").csv(str(folder)),
        "rows": session.createDataFrame(rows),
        "file name": df.select("a", "_metadata.file_size"),
    }
    found = {name: _files.scan_of(other) is None for name, other in others.items()}
    cached.unpersist()
    assert all(found.values()), found
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert _files.scan_of(session.read.parquet(str(folder))) is None
    finally:
        session.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_a_file_of_other_columns_or_types_is_read_as_spark_reads_it(session, rows, folder):
    some = rows[:200]
    for number, other in enumerate(
        (
            some.drop(["site"]),
            some.rename_columns(["A", *rows.schema.names[1:]]),
            some.set_column(0, "a", some["a"].cast(pa.float32())),
        )
    ):
        pq.write_table(other, folder / "5.parquet")
        df = session.read.parquet(str(folder))
        assert _files.scan_of(df) is not None
        model = spark.learn(
            df, ContinualRegressor(ridge=0.1), target="cost", features=["a", "b", "site"], missing="drop"
        )
        assert model.n_samples_ == (3000 if number == 0 else 3200)
    # Not even Spark can read text as numbers, and the model is as it was.
    pq.write_table(some.set_column(0, "a", some["site"]), folder / "5.parquet")
    path = folder.parent / "m.pmf"
    with pytest.raises(Exception, match=r"5\.parquet"):
        spark.learn(session.read.parquet(str(folder)), path, target="cost")
    assert not path.exists()


def test_bad_files_are_named_and_the_model_is_unchanged(session, rows, folder, never_by_spark, tmp_path):
    path = tmp_path / "m.pmf"
    spark.learn(session.read.parquet(str(folder)), path, target="cost", task="month", features=["a", "b"])
    before = path.read_bytes()
    host = socket.gethostname()

    def learn(df):
        spark.learn(df, path, target="cost", task="month")

    def refused(df, words):
        with pytest.raises(ValueError, match=words):
            learn(df)
        assert path.read_bytes() == before

    def with_value(value):
        values = rows["a"].to_pylist()
        values[750 + 200 + 7] = value
        part = rows.set_column(0, "a", pa.array(values, pa.float64()))[750:1500]
        pq.write_table(part, folder / "1.parquet", row_group_size=200)
        return session.read.parquet(str(folder))

    refused(with_value(None), rf"/1\.parquet, row group 1 on {host}: column 'a' has no value in row 7;")
    refused(with_value(float("nan")), rf"/1\.parquet, row group 1 on {host}: .*NaN")
    fine = with_value(1.0)
    # Replaced, cut off and removed after the DataFrame was made.
    pq.write_table(rows[:50], folder / "2.parquet")
    refused(fine, rf"/2\.parquet on {host}: the file has \d+ bytes of .*, and had \d+ of .* make the DataFrame again")
    (folder / "2.parquet").unlink()
    refused(fine, rf"/2\.parquet on {host}: No such file .* make the DataFrame again")
    # Cut off before.
    content = (folder / "3.parquet").read_bytes()
    (folder / "3.parquet").write_bytes(content[: len(content) // 2])
    refused(
        session.read.parquet(str(folder)), rf"/3\.parquet on {host}: .*footer.*; write the file again, or leave it out"
    )
    # A byte in the middle of a page.
    pq.write_table(rows[:200], folder / "3.parquet", write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray((folder / "3.parquet").read_bytes())
    content[len(content) // 8] ^= 255
    (folder / "3.parquet").write_bytes(content)
    refused(session.read.parquet(str(folder)), rf"/3\.parquet, row group 0 on {host}: .*CRC")


def test_a_day_before_the_gregorian_calendar_is_left_to_spark(rows, tmp_path):
    days = [datetime.date(1582, 10, 14), datetime.date(2024, 1, 1)]

    def work(batches, place):
        try:
            return str(sum(batch.num_rows for batch in batches)).encode(), None
        except _files.Unlike as failed:
            return None, f"{place}: {failed}"

    for count in (1, 2):
        path = tmp_path / f"{count}.parquet"
        pq.write_table(pa.table({"day": days[-count:]}), path)
        status = path.stat()
        file = _files.File(str(path), status.st_size, status.st_mtime_ns // 1_000_000)
        packed = _files.Scan((file,), (_files.Column("day", "day", "date"),), 1).packed()
        state, error, unlike = _files.perform(packed, 0, work, "here")
        assert error is None
        assert (state, unlike) == (b"1", None) if count == 1 else "before 1582-10-15" in unlike


def test_every_row_group_is_in_one_part(rows, tmp_path):
    files = []
    for number, size in enumerate((10, 3000, 100, 700)):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(rows, path, row_group_size=size)
        files.append(_files.File(str(path), path.stat().st_size, path.stat().st_mtime_ns // 1_000_000))
    columns = (_files.Column("a", "a", "double"),)
    for parts in (1, 2, 7, 64, 1000):
        scan = _files.Scan(tuple(files), columns, parts)
        reading = _files.Reading(columns, "here")
        found = [group for part in range(parts) for piece in scan.part(part) for group in reading.groups(*piece)]
        assert [(Path(file.path).name, group) for file, group in found] == [
            (f"{number}.parquet", group) for number, count in enumerate((300, 1, 30, 5)) for group in range(count)
        ]


def test_a_worker_that_is_killed_while_it_reads_files_changes_nothing(
    cluster, session, rows, folder, monkeypatch, never_by_spark
):
    runner = distributed.Work.runner

    def slow_runner(work):
        own = runner(work)

        def run(batches, place):
            time.sleep(0.2)
            return own(batches, place)

        return run

    monkeypatch.setattr(distributed.Work, "runner", slow_runner)
    killed = []

    def kill():
        time.sleep(2)
        worker = cluster.workers[-1].pid
        os.killpg(worker, signal.SIGKILL)
        killed.append(worker)

    df = session.read.parquet(str(folder))
    undo = small_parts(session)
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        model = spark.learn(df, ContinualRegressor(), target="cost", task="month", features=FEATURES)
    finally:
        undo()
        thread.join()
    assert killed
    expected = single(rows, "cost").predict(rows)
    np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-10, atol=1e-10)
    cluster.add_worker()
    cluster.wait(2)


def test_rows_whose_source_refuses_a_credential_leave_the_model_as_it_was(session, rows, tmp_path):
    def expired(batches):
        raise PermissionError("ExpiredToken: the credential for s3://lake/part-3.parquet has expired")
        yield from batches

    path = tmp_path / "m.pmf"
    df = session.createDataFrame(rows.select(["a", "cost"])).coalesce(1)
    spark.learn(df, path, target="cost")
    before = path.read_bytes()
    with pytest.raises(Exception, match=r"ExpiredToken: the credential for s3://lake/part-3\.parquet has expired"):
        spark.learn(df.mapInArrow(expired, df.schema), path, target="cost")
    assert path.read_bytes() == before
    assert load(path).n_samples_ == 3000
