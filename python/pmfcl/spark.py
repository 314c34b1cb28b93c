"""Learning, predicting, scoring and checking on Spark (`pip install pmfcl[spark]`): the same summaries, made by the executors.

Every partition is summarized where it lies, with the Rust core, and leaves one part per task; parts are merged on the
executors in order of the partitions and the driver learns the sum. One pass over the data, whatever the number of tasks, for
squared and gaussian; logistic, huber and poisson take the passes their fits ask for, each one Spark job over the cached rows. The
model is that of one process up to rounding, and the same to the bit for the same partitions with rows in the same order. Where a
DataFrame is nothing but columns of Parquet files, the executors read the files themselves, without Spark's JVM in between.

    from pmfcl import spark
    spark.learn(df, "sales.pmf", target="revenue", task="month")        # a model file, made if there is none
    spark.predict(df, "sales.pmf").select("prediction")
    spark.score(df, "sales.pmf", target="revenue", task="month")
    spark.check(df, "sales.pmf", refuse_if=["drift<0.001"])             # before learning

Executors need the same version of pmfcl (and pyarrow) as the driver.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ContinualClassifier, _files, distributed, load
from ._continual import Continual
from ._labels import name_of
from ._views import CheckReport
from .distributed import ModelLike

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("Spark is not installed: pip install pmfcl[spark]", name="pyspark") from missing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["check", "learn", "predict", "score"]


def learn(
    df: "DataFrame",
    model: ModelLike,
    *,
    target: str | Sequence[str],
    task: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weight: str | None = None,
    missing: str = "error",
    files: bool = True,
    progress: bool | None = None,
    **settings: Any,
) -> Any:
    """Learns a DataFrame: one task for each value of the column `task`, or rows added to the current task.

    Parameters
    ----------
    df : the rows. Numbers, booleans, dates, text (categories) and arrays or vectors of numbers.
    model : path of a model file, which is made if there is none, or an estimator, which is fitted in place.
    target : column to predict, or several.
    features, exclude : columns that are features, or that are not; by default all others are.
    weight : column of sample weights.
    missing : "error", or "drop" to leave out rows with a missing value.
    files : whether executors read Parquet files themselves where `df` is nothing but columns of such files and the loss looks at
        rows once; False has Spark read them, which takes longer.
    progress : whether passes are shown on stderr; by default where that is a terminal.
    settings : parameters of a model that is made: `loss="gaussian"`, `ridge=1e-6`, … By default text targets are classes.

    Returns the estimator. Where anything is refused, neither the file nor the estimator is changed.
    """
    df = _with_arrays(df)
    schema = _arrow_schema(df)
    estimator, _ = distributed.opened(model, schema, target, settings)
    again = distributed.looks_again(estimator)
    if again:
        # Its rows are looked at many times, and must be the same every time.
        df = df.persist()
    try:
        return distributed.learn_table(
            model,
            schema,
            lambda count: df.limit(count).toArrow(),
            lambda names: _everywhere(_selected(df, names), files=files and not again),
            target=target,
            settings=settings,
            progress=progress,
            task=task,
            weight=weight,
            features=features,
            exclude=exclude,
            missing=missing,
        )
    finally:
        if again:
            df.unpersist()


def check(
    df: "DataFrame",
    model: ModelLike,
    *,
    weight: str | None = None,
    missing: str = "error",
    refuse_if: str | Iterable[object] = (),
) -> CheckReport:
    """Whether the rows of a DataFrame go with what a model has learned, before they are: nothing is changed.

    As `ContinualRegressor.check`, over all rows as one task: drift, columns that moved or are in other units, the rows that are
    farthest off (counted over the partitions in their order), new categories, rows learned before. How well the model does on them
    is in `score`.
    """
    df = _with_arrays(df)
    estimator = _fitted(model)
    targets = estimator._model.facts()["targets"]
    recipe = distributed.Recipe.of(estimator, _arrow_schema(df), target=targets, weight=weight, missing=missing)
    absent = [name for name in recipe.columns if name not in df.columns]
    if absent:
        raise ValueError(f"there is no column '{absent[0]}' in the DataFrame, which has {', '.join(df.columns)}")
    everywhere = _everywhere(_selected(df, recipe.columns))
    return distributed.check_with(estimator, recipe, everywhere, refuse_if=refuse_if)


def predict(
    df: "DataFrame", model: ModelLike, *, probabilities: bool = False, interval: float | None = None
) -> "DataFrame":
    """The DataFrame with a column `prediction`.

    With `probabilities` also one column `probability_CLASS` for each class; with `interval=0.95` also `low` and `high`, for one
    target. Several targets have a column `prediction_TARGET` each.
    """
    from pyspark.sql import types as t

    estimator = _fitted(model)
    vectors = _with_arrays(df)
    classes = isinstance(estimator, ContinualClassifier)
    if probabilities and not classes:
        raise ValueError("probabilities are those of classes; this model predicts numbers")
    if interval is not None and classes:
        raise ValueError("intervals are those of numbers; this model predicts classes")
    targets = estimator._model.facts()["targets"]
    names = ["prediction"] if classes or len(targets) == 1 else [f"prediction_{name}" for name in targets]
    text = classes and any(isinstance(label, str) for label in estimator.classes_.tolist())
    added = [t.StructField(name, t.StringType() if text else t.DoubleType()) for name in names]
    if probabilities:
        added += [t.StructField(f"probability_{name_of(label)}", t.DoubleType()) for label in estimator.classes_]
    if interval is not None:
        if len(targets) > 1:
            raise ValueError("intervals are given for one target")
        added += [t.StructField("low", t.DoubleType()), t.StructField("high", t.DoubleType())]
    taken = [field.name for field in added if field.name in df.columns]
    if taken:
        raise ValueError(f"the DataFrame has a column '{taken[0]}' already; rename it")
    schema = t.StructType([*vectors.schema.fields, *added])
    read = _answers(_sent(df, estimator), probabilities, interval, [field.name for field in added])
    return vectors.mapInArrow(read, schema)


def score(
    df: "DataFrame", model: ModelLike, *, target: str | Sequence[str] | None = None, task: str | None = None
) -> dict[str, Any]:
    """How good a model is on a DataFrame: mse and r2, or accuracy and log_loss; overall, and by task where `task` names them.

    As `pmfcl score --json` has it: `{"tasks": [{"name", "samples", …}], "overall": {…}}`.
    """
    estimator = _fitted(model)
    known = estimator._model.facts()["targets"]
    targets = known if target is None else [target] if isinstance(target, str) else list(target)
    if len(targets) != len(known):
        raise ValueError(f"the model predicts {', '.join(known)}: name as many columns")
    if not isinstance(estimator, ContinualClassifier) and len(targets) > 1:
        raise ValueError("score takes models of one target")
    vectors = _with_arrays(df)
    for name in (*targets, *(() if task is None else (task,))):
        if name not in vectors.columns:
            raise ValueError(f"there is no column '{name}'; the DataFrame has {', '.join(vectors.columns)}")
    sums = vectors.mapInArrow(_errors(_sent(df, estimator), targets[0], task), "task string, sums array<double>")
    found: dict[str, list[Any]] = {}
    for name, numbers in sums.collect():
        found.setdefault(name, []).append(np.array(numbers))
    if not found:
        raise ValueError("the DataFrame has no rows to score")
    by_task = {name: np.sum(rows, axis=0) for name, rows in found.items()}
    classes = isinstance(estimator, ContinualClassifier)
    overall = _scores(np.sum(list(by_task.values()), axis=0), classes)
    tasks = [{"name": name, **_scores(by_task[name], classes)} for name in sorted(by_task)] if task is not None else []
    return {"tasks": tasks, "overall": overall}


def _scores(sums: Any, classes: bool) -> dict[str, float]:
    samples, a, b, c = (float(value) for value in sums)
    if classes:
        return {"samples": samples, "accuracy": a / samples, "log_loss": b / samples}
    # Σ(y − ȳ)² by shifted sums: c is Σy², b is Σy.
    spread = c - b * b / samples
    return {"samples": samples, "mse": a / samples, "r2": 1 - a / spread if spread > 0 else float(a == 0)}


def _fitted(model: ModelLike) -> Any:
    return model if isinstance(model, Continual) else load(model)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _with_arrays(df: "DataFrame") -> "DataFrame":
    """Vectors of Spark's own machine learning as arrays, which Arrow knows."""
    from pyspark.sql import functions as f

    for field in df.schema.fields:
        if field.dataType.typeName() == "vectorudt":
            from pyspark.ml.functions import vector_to_array

            df = df.withColumn(field.name, vector_to_array(f.col(_quoted(field.name))))
    return df


def _arrow_schema(df: "DataFrame") -> "pa.Schema":
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(df.schema)


def _selected(df: "DataFrame", names: list[str]) -> "DataFrame":
    # A selection of hundreds of columns takes hundreds of calls of the JVM.
    return df if df.columns == names else df.select(*[_quoted(name) for name in names])


# What a worker gives back: the number of its part, the group of neighbouring parts it is merged in, and bytes, an error, or the
# reason why Spark has to read the files.
_FOUND = "part int, group int, state binary, error string, unlike string"


def _everywhere(df: "DataFrame", *, files: bool = False) -> distributed.Everywhere:
    """Runs work on every partition; parts are merged in the order of the partitions, in groups on the executors, then here.

    With `files`, executors read Parquet files themselves where the DataFrame is nothing else.
    """

    def run(work: distributed.Work) -> bytes:
        scan = _files.scan_of(df) if files else None
        if scan is not None:
            numbers = df.sparkSession.range(0, scan.parts, 1, scan.parts)
            found = _merged(numbers, _part_of_files(work.runner(), scan.packed(), _group_size(scan.parts)), scan.parts)
            if any(row["error"] is not None for row in found) or all(row["unlike"] is None for row in found):
                return distributed.collected((row["state"], row["error"]) for row in found)
        count = df.rdd.getNumPartitions() if hasattr(df, "rdd") else 64
        found = _merged(df, _partition(work.runner(), _group_size(count)), count)
        return distributed.collected((row["state"], row["error"]) for row in found)

    return run


def _group_size(count: int) -> int:
    return max(1, math.isqrt(count))


def _merged(df: "DataFrame", run: Callable[[Iterable[Any]], Iterator[Any]], count: int) -> list[Any]:
    """What `run` gives of each of `count` partitions, in their order; many of them are merged in groups on the executors."""
    parts = df.mapInArrow(run, _FOUND)
    if count > 8:
        parts = parts.groupBy("group").applyInArrow(_group(), _FOUND)
    return sorted(parts.collect(), key=lambda row: (row["group"], row["part"]))


def _partition(work: Callable[..., Any], size: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What an executor does with a partition. A function made here travels by value, so that a worker without pmfcl can say so."""
    found = _found()

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import socket

        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        state, error = work(batches, f"partition {part} on {socket.gethostname()}")
        yield found(part, part // size, state, error, None)

    return run


def _part_of_files(work: Callable[..., Any], packed: bytes, size: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What an executor does with the numbers of parts of files; it travels by value."""
    found = _found()

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import socket
        from importlib import import_module

        host = socket.gethostname()
        for part in [number for batch in batches for number in batch.column(0).to_pylist()]:
            try:
                perform = import_module("pmfcl._files").perform
            except ImportError:
                # The work says what is missing: without rows, because there is nothing to read them with.
                state, error = work((), f"partition {part} on {host}")
                unlike = None
            else:
                state, error, unlike = perform(packed, part, work, host)
            yield found(part, part // size, state, error, unlike)

    return run


def _found() -> Callable[..., Any]:
    """A function that makes one row of what a worker gives back; it travels by value."""

    def row(part: int, group: int, state: bytes | None, error: str | None, unlike: str | None) -> Any:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [
                pa.array([part], pa.int32()),
                pa.array([group], pa.int32()),
                pa.array([state], pa.binary()),
                pa.array([error], pa.string()),
                pa.array([unlike], pa.string()),
            ],
            names=["part", "group", "state", "error", "unlike"],
        )

    return row


def _group() -> Callable[[Any], Any]:
    """Merges the parts of neighbouring partitions."""
    found = _found()

    def run(table: Any) -> Any:
        import pyarrow as pa

        rows = sorted(table.to_pylist(), key=lambda row: row["part"])
        errors = [row["error"] for row in rows if row["error"] is not None]
        others = [row["unlike"] for row in rows if row["unlike"] is not None]
        state, error = None, errors[0] if errors else None
        if error is None and not others:
            from pmfcl import distributed

            try:
                state = distributed.merge(row["state"] for row in rows)
            except ValueError as failed:
                error = f"partitions {rows[0]['part']} to {rows[-1]['part']}: {failed}"
        unlike = others[0] if others else None
        return pa.Table.from_batches([found(rows[0]["part"], rows[0]["group"], state, error, unlike)])

    return run


def _sent(df: "DataFrame", estimator: Any) -> Any:
    """The estimator, sent to every worker once."""
    return df.sparkSession.sparkContext.broadcast(estimator)


def _answers(
    sent: Any, probabilities: bool, interval: float | None, names: list[str]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Predicts batches on a worker."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        from pmfcl.distributed import inputs

        model = sent.value
        for batch in batches:
            if not batch.num_rows:
                continue
            X = inputs(model, batch)
            predicted = np.asarray(model.predict(X))
            columns = [predicted] if predicted.ndim == 1 else list(predicted.T)
            if probabilities:
                columns += list(model.predict_proba(X).T)
            if interval is not None:
                columns += list(model.predict_interval(X, interval))
            arrays = [
                pa.array(c.tolist() if c.dtype == object or c.dtype.kind in "US" else c.astype(float)) for c in columns
            ]
            whole = [batch.column(k) for k in range(batch.num_columns)] + arrays
            yield pa.RecordBatch.from_arrays(whole, names=[*batch.schema.names, *names])

    return run


def _errors(sent: Any, target: str, task: str | None) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Sums of errors of each task in a partition."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        from pmfcl import ContinualClassifier
        from pmfcl._labels import name_of
        from pmfcl.distributed import inputs

        model = sent.value
        found: dict[str, Any] = {}
        for batch in batches:
            if not batch.num_rows:
                continue
            X = inputs(model, batch)
            truth = batch.column(batch.schema.get_field_index(target))
            if isinstance(model, ContinualClassifier):
                labels = [name_of(label) for label in model.classes_]
                places = np.array([labels.index(n) if n in labels else -1 for n in map(name_of, truth.to_pylist())])
                share = model.predict_proba(X)
                right = (share.argmax(axis=1) == places).astype(float)
                of_truth = np.where(places >= 0, share[np.arange(len(share)), places], 0.0)
                rows = np.column_stack(
                    [np.ones(len(X)), right, -np.log(np.maximum(of_truth, 2.0**-52)), np.zeros(len(X))]
                )
            else:
                y = np.asarray(truth.cast(pa.float64()))
                rows = np.column_stack([np.ones(len(X)), (model.predict(X) - y) ** 2, y, y * y])
            names = [
                "" if task is None else name_of(n)
                for n in batch.column(batch.schema.get_field_index(task or target)).to_pylist()
            ]
            names = [""] * len(X) if task is None else names
            for name in dict.fromkeys(names):
                own = rows[np.array([n == name for n in names])].sum(axis=0)
                found[name] = own if name not in found else found[name] + own
        if found:
            sums = pa.array([value.tolist() for value in found.values()], pa.list_(pa.float64()))
            yield pa.RecordBatch.from_arrays([pa.array(list(found), pa.string()), sums], names=["task", "sums"])

    return run
