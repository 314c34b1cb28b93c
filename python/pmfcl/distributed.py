"""Tables too large for one machine: summaries are made where the rows are, and merged.

This is the piece that every engine needs, and the whole of what it needs: `summarize` turns tables into bytes, on any worker;
`merge` adds such bytes up, in any grouping; `learn` puts the sum into a model. A `Recipe` says how the columns of a table become
rows; it is small and can be pickled.

Losses that look at rows again (logistic, huber, poisson) ask for passes: `answer` gives the answer of a worker's rows to a
`Request`, `merge` adds answers up, and `learn_with` fits the tasks. It is given one function, which runs some work on every part
of a table and merges what comes back; `pmfcl.spark`, `pmfcl.ray` and `pmfcl.dask` are made of such a function each.

The result is that of one process up to rounding, however the rows were cut, and the same to the bit for the same cuts merged in
the same order. Text columns are categories, which meet by name: no worker has to know those of the others.

>>> import pyarrow as pa
>>> from pmfcl import ContinualRegressor, distributed
>>> table = pa.table({"size": [1.0, 2.0, 3.0, 4.0], "site": ["a", "a", "b", "b"], "cost": [2.0, 3.0, 6.0, 7.0]})
>>> recipe = distributed.Recipe.of(ContinualRegressor(ridge=0.0), table.schema, target="cost")
>>> parts = [distributed.summarize(recipe, [table[:2]]), distributed.summarize(recipe, [table[2:]])]
>>> model = distributed.learn(ContinualRegressor(ridge=0.0), recipe, distributed.merge(parts))
>>> model.predict(table).round(6)
array([2., 3., 6., 7.])
"""

import hashlib
import json
import os
import pickle
import queue
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import __version__, _core, load
from ._columns import MICROSECONDS
from ._labels import name_of
from ._settings import STREAM, setting
from ._views import CheckReport

if TYPE_CHECKING:
    import pyarrow as pa

    from . import ContinualClassifier, ContinualRegressor
    from ._continual import Continual

# A path of a model file, or an estimator.
ModelLike: TypeAlias = "str | os.PathLike[str] | ContinualRegressor | ContinualClassifier"
# Runs work on every part of a table, and gives the merger of what comes back.
Everywhere = Callable[["Work"], bytes]
# Bytes of rows that are gathered before they are summarized: large enough that summaries cost little, small for a worker.
GATHERED = 32 << 20
# Rows that are put together from columns at once.
CACHED_ROWS = 2048
# Categories of one text column; more are an identifier, not a feature.
MOST_CATEGORIES = 1000
# Rows taken to fix what needs some: the length of lists, categories of a table of text alone, bases that need rows.
FIRST_ROWS = 10_000
# Tasks whose passes go over the rows together.
TOGETHER = 64
# The farthest rows that a check names.
WORST = 5


class PartError(ValueError):
    """Bytes that are not a part of the task, or of another recipe."""


@dataclass(frozen=True)
class Recipe:
    """How the columns of tables become rows of a model.

    Parameters
    ----------
    template : bytes of a model that has learned nothing, with its columns; its basis is fixed.
    targets : columns that are predicted.
    task : column that names the task of each row; None where all rows are one task.
    weight : column of sample weights, or None.
    missing : "error", or "drop" to leave out rows with a missing value.
    """

    template: bytes
    targets: tuple[str, ...]
    task: str | None = None
    weight: str | None = None
    missing: str = "error"
    version: str = field(default=__version__)

    @classmethod
    def of(
        cls,
        estimator: "Continual",
        schema: "pa.Schema",
        *,
        target: str | Sequence[str],
        task: str | None = None,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        missing: str = "error",
        rows: "pa.Table | None" = None,
    ) -> "Recipe":
        """The recipe for tables of an Arrow schema.

        A fitted estimator decides the columns; for another all columns are features except target, task, weight and `exclude`.
        `rows` are a few rows from which the length of lists, and a basis that needs rows, are taken; categories that they have
        are known from the start.
        """
        targets = (target,) if isinstance(target, str) else tuple(target)
        if missing not in ("error", "drop"):
            raise ValueError(f"missing is 'error' or 'drop', not {missing!r}")
        for name in (*targets, *(name for name in (task, weight) if name is not None)):
            if schema.get_field_index(name) < 0:
                raise ValueError(f"there is no column '{name}'; the table has {', '.join(schema.names)}")
        if estimator.__sklearn_is_fitted__():
            model = estimator._model
        else:
            reserved = {*targets, task, weight, *exclude}
            names = [name for name in schema.names if name not in reserved] if features is None else list(features)
            columns = [(name, _kind(schema, name, rows)) for name in names]
            if not columns:
                raise ValueError("no column is left to learn from; name some with features")
            categories = _categories(columns, rows)
            classes: list[str] | None = [] if estimator._PREDICTS_CLASSES else None
            model = _core.Model.with_columns(
                columns,
                categories,
                list(targets),
                setting(estimator.loss),
                estimator._options(),
                estimator._settings(),
                classes,
            )
        first = None
        if not estimator.__sklearn_is_fitted__() and rows is not None and rows.num_rows:
            draft = cls(model.to_bytes(), targets, task, weight, missing)
            first = _Reader(draft, model).features(rows.to_batches()[0], 0)[0]
        return cls(model.template(first).to_bytes(), targets, task, weight, missing)

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything a part depends on."""
        facts = json.dumps([self.targets, self.task, self.weight, self.missing, self.version])
        model = _core.Model.from_bytes(self.template)
        settings = json.dumps([model.problem()["spec"], model.settings()], default=str)
        return hashlib.sha256(f"{facts}\n{settings}\n".encode() + model.recipe_digest()).digest()

    @property
    def columns(self) -> list[str]:
        """Columns a table must have."""
        names = [name for name, _ in _core.Model.from_bytes(self.template).columns()]
        extra = [name for name in (*self.targets, self.task, self.weight) if name is not None]
        return list(dict.fromkeys([*names, *extra]))


def _kind(schema: "pa.Schema", name: str, rows: "pa.Table | None") -> str:
    """What a column holds."""
    import pyarrow as pa

    at = schema.get_field_index(name)
    if at < 0:
        raise ValueError(f"there is no column '{name}'; the table has {', '.join(schema.names)}")
    kind = schema.field(at).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_fixed_size_list(kind):
        return f"block:{kind.list_size}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if rows is None or not rows.num_rows:
            raise ValueError(f"column '{name}' holds lists, whose length is not known; give some rows")
        return f"block:{len(rows.column(name)[0].as_py())}"
    raise ValueError(f"column '{name}' holds {kind}, which is no number, date, text or list of numbers; exclude it")


def _categories(columns: list[tuple[str, str]], rows: "pa.Table | None") -> list[tuple[int, str]]:
    """Categories in some rows, so that a table of text alone has inputs from the start."""
    found: list[tuple[int, str]] = []
    for at, (name, kind) in enumerate(columns):
        if kind == "text" and rows is not None:
            values = {name_of(value) for value in rows.column(name).to_pylist() if value is not None}
            found += [(at, value) for value in sorted(values)]
    return found


class _Reader:
    """Batches of a table as rows of the model."""

    def __init__(self, recipe: Recipe, model: _core.Model, keys: Sequence[str] = ()) -> None:
        self.recipe, self.model = recipe, model
        self.kinds = model.columns()
        origins = model.facts()["origins"]
        self.width = len(origins)
        # Where the inputs of a column are: one, one for each place, or one for each category.
        self.places: dict[str, list[int]] = {}
        self.known: dict[str, dict[str, int]] = {name: {} for name, kind in self.kinds if kind == "text"}
        for at, (name, kind, part) in enumerate(origins):
            self.places.setdefault(name, []).append(at)
            if kind == "category":
                self.known[name][part] = at
        # Categories the model does not have, which get the next inputs: given beforehand, or in order of appearance.
        self.new: list[str] = list(keys)
        for place, key in enumerate(keys, self.width):
            column, _, category = key.partition(":")
            self.known[self.kinds[int(column)][0]][category] = place
        # Names of tasks and of classes, in order of appearance; rows carry their places.
        self.task_names: dict[str, int] = {}
        self.class_names: dict[str, int] = {}
        self.classes = bool(model.problem()["predicts_classes"])
        self.dropped = 0

    @property
    def columns(self) -> int:
        """Inputs of a row, those of new categories among them."""
        return self.width + len(self.new)

    def features(self, batch: "pa.RecordBatch", first: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Inputs of every row, those of new categories at the end, and which rows lack a value."""
        X = np.zeros((batch.num_rows, self.width + len(self.new)))
        lacking = np.zeros(batch.num_rows, dtype=bool)
        numbers: list[tuple[int, NDArray[np.float64]]] = []
        for at, (name, kind) in enumerate(self.kinds):
            values = self._column(batch, name)
            absent = self._absent(values, name, first)
            if values.null_count:
                lacking |= absent
            if kind == "number":
                numbers.append((self.places[name][0], _numbers(values, name)))
            elif kind == "date":
                X[:, self.places[name][0]] = _days(values)
            elif kind == "text":
                X = self._one_hot(X, at, name, values)
            else:
                X[:, self.places[name]] = _lists(values, name, int(kind.partition(":")[2]), absent)
        # Some rows at a time, which stay in the processor's cache until all columns are in them.
        for start in range(0, batch.num_rows if numbers else 0, CACHED_ROWS):
            block = X[start : start + CACHED_ROWS]
            for place, column in numbers:
                block[:, place] = column[start : start + CACHED_ROWS]
        lacking |= ~np.isfinite(X).all(axis=1) if self.recipe.missing == "drop" else False
        return X, lacking

    def _column(self, batch: "pa.RecordBatch", name: str) -> "pa.Array":
        at = batch.schema.get_field_index(name)
        if at < 0:
            raise ValueError(f"there is no column '{name}'; the table has {', '.join(batch.schema.names)}")
        values = batch.column(at)
        return values.dictionary_decode() if hasattr(values, "dictionary_decode") else values

    def _absent(self, values: "pa.Array", name: str, first: int) -> NDArray[np.bool_]:
        if not values.null_count:
            return np.zeros(len(values), dtype=bool)
        absent = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        if self.recipe.missing == "error":
            row = first + int(np.argmax(absent))
            raise ValueError(f"column '{name}' has no value in row {row}; drop such rows, or say missing='drop'")
        return absent

    def _one_hot(self, X: NDArray[np.float64], at: int, name: str, values: "pa.Array") -> NDArray[np.float64]:
        encoded = values.dictionary_encode()
        codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        known = self.known[name]
        for value in encoded.dictionary.to_pylist():
            if value is not None and name_of(value) not in known:
                if len(known) >= MOST_CATEGORIES:
                    raise ValueError(
                        f"column '{name}' has more than {MOST_CATEGORIES} categories, the last '{value}'; exclude it"
                    )
                known[name_of(value)] = self.width + len(self.new)
                self.new.append(f"{at}:{name_of(value)}")
        X = _widened(X, self.width + len(self.new))
        names = [name_of(value) for value in encoded.dictionary.to_pylist()]
        if names:
            columns = np.array([known.get(value, 0) for value in names])[codes]
            X[np.arange(len(X)), columns] = 1.0
        return X

    def weights(self, batch: "pa.RecordBatch", first: int) -> NDArray[np.float64] | None:
        """Sample weights."""
        if self.recipe.weight is None:
            return None
        values = self._column(batch, self.recipe.weight)
        self._absent(values, self.recipe.weight, first)
        weights = _numbers(values, self.recipe.weight)
        if (weights < 0).any():
            row = first + int(np.argmax(weights < 0))
            raise ValueError(f"column '{self.recipe.weight}' is negative in row {row}; weights are 0 or more")
        return weights

    def tasks(self, batch: "pa.RecordBatch", first: int) -> NDArray[np.intp] | None:
        """The place of every row's task among `task_names`; None where all rows are one task."""
        if self.recipe.task is None:
            return None
        values = self._column(batch, self.recipe.task)
        if values.null_count:
            row = first + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"column '{self.recipe.task}', which names the task, has no value in row {row}")
        return _places(values, self.task_names)

    def targets(self, batch: "pa.RecordBatch", first: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Values of every row, or the place of its class among `class_names`, and which rows have none."""
        columns, lacking = [], np.zeros(batch.num_rows, dtype=bool)
        for name in self.recipe.targets:
            values = self._column(batch, name)
            lacking |= self._absent(values, name, first)
            if self.classes:
                return _places(values, self.class_names), lacking
            columns.append(_numbers(values, name))
        return np.column_stack(columns), lacking


def _places(values: "pa.Array", names: dict[str, int]) -> NDArray[np.intp]:
    """Where the name of each value is among `names`, which new ones join; a missing value has any place."""
    encoded = values.dictionary_encode()
    own = [names.setdefault(name_of(value), len(names)) for value in encoded.dictionary.to_pylist()]
    codes: NDArray[np.int32] = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return np.array(own or [0], dtype=np.intp)[codes]


def _numbers(values: "pa.Array", name: str) -> NDArray[np.float64]:
    import pyarrow as pa

    try:
        cast = values if values.type == pa.float64() else values.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column '{name}' holds {values.type}, not numbers: {error}") from error
    return np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64)


def _days(values: "pa.Array") -> NDArray[np.float64]:
    import pyarrow as pa

    stamps = values.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(stamps // MICROSECONDS + (stamps % MICROSECONDS / 1e6) / 86_400, dtype=np.float64)


def _lists(values: "pa.Array", name: str, width: int, absent: NDArray[np.bool_]) -> NDArray[np.float64]:
    lengths = values.value_lengths().fill_null(width).to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise ValueError(f"column '{name}' has a list of {lengths[row]} numbers in row {row}; {width} were expected")
    table = np.full((len(values), width), np.nan)
    table[~absent] = _numbers(values.flatten(), name).reshape(-1, width)
    return table


def _widened(X: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return X if X.shape[1] == width else np.pad(X, ((0, 0), (0, width - X.shape[1])))


def _threads() -> int | None:
    """The threads of a worker: Spark, Ray and Dask say in this variable how many processors it was given. Elsewhere all."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else None


class _Gathered:
    """Rows of tasks that wait to be summarized, and the parts made so far."""

    def __init__(self, reader: _Reader, content: bool = False) -> None:
        self.reader, self.content = reader, content
        self.rows: dict[str, list[tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]]] = {}
        self.parts: dict[str, bytes] = {}
        self.held = 0

    def add(self, task: str, X: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None) -> None:
        self.rows.setdefault(task, []).append((X, y, weights))
        self.held += X.nbytes

    def flush(self) -> None:
        """Summarizes what waits."""
        for task, rows in self.rows.items():
            X, target, weights = _joined(self.reader, rows)
            new, threads = list(self.reader.new), _threads()
            part = self.reader.model.summarize_part(X, target, weights, new, self.content, threads)
            before = self.parts.get(task)
            self.parts[task] = part if before is None else _core.merge_parts([before, part])
        self.rows, self.held = {}, 0


# Task, inputs, targets and weights of some rows.
_TaskRows = tuple[str, NDArray[Any], NDArray[Any], NDArray[np.float64] | None]


def _joined(
    reader: _Reader, rows: list[tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]]
) -> tuple[NDArray[Any], Any, NDArray[np.float64] | None]:
    """Rows of a task end to end, with targets as the core takes them."""
    X = np.ascontiguousarray(np.vstack([_widened(X, reader.columns) for X, _, _ in rows]))
    y = np.concatenate([y for _, y, _ in rows])
    weights = None if rows[0][2] is None else np.concatenate([w for _, _, w in rows if w is not None])
    if not reader.classes:
        return X, np.ascontiguousarray(y), weights
    names = list(reader.class_names)
    present = sorted(np.flatnonzero(np.bincount(y)).tolist(), key=names.__getitem__)
    codes = np.zeros(len(names), dtype=np.uint32)
    codes[present] = np.arange(len(present))
    return X, (codes[y], [names[place] for place in present]), weights


def summarize(recipe: Recipe, batches: Iterable[Any], *, content: bool = False) -> bytes:
    """Summarizes tables, one after the other, as bytes: one part for each task that occurs in them.

    With `content`, parts carry a hash of their rows, by which the same rows are recognised later. `batches` are Arrow record batches or tables, or pandas or Polars frames. Rows are counted from the first of the first batch
    in messages. No rows at all are an empty part, which merges with any other.
    """
    _check_version(recipe)
    model = _core.Model.from_bytes(recipe.template)
    reader = _Reader(recipe, model)
    gathered = _Gathered(reader, content)
    rows = 0
    for rows, table in _tables(reader, batches):
        for task, X, y, weights in table:
            gathered.add(task, X, y, weights)
        if gathered.held > GATHERED:
            gathered.flush()
    gathered.flush()
    return _core.pack_shard(recipe.digest, rows, reader.dropped, list(gathered.parts.items()))


def _check_version(recipe: Recipe) -> None:
    if recipe.version != __version__:
        raise PartError(
            f"the recipe was made by pmfcl {recipe.version}, and this is {__version__}; install one version"
        )


def _tables(reader: _Reader, batches: Iterable[Any]) -> Iterator[tuple[int, list["_TaskRows"]]]:
    """Rows read so far and, by task, those of the next batch that are used."""
    first = 0
    for batch in _batches(batches):
        X, lacking = reader.features(batch, first)
        y, unlabelled = reader.targets(batch, first)
        tasks, weights = reader.tasks(batch, first), reader.weights(batch, first)
        used = ~(lacking | unlabelled)
        if weights is not None:
            used &= weights > 0
        first += batch.num_rows
        reader.dropped += int((lacking | unlabelled).sum())
        yield (
            first,
            [
                (task, X[rows], y[rows], None if weights is None else weights[rows])
                for task, rows in _by_task(reader, tasks, used)
            ],
        )


def _by_task(
    reader: _Reader, tasks: NDArray[np.intp] | None, used: NDArray[np.bool_]
) -> Iterator[tuple[str, slice | NDArray[np.intp]]]:
    """The rows of each task that are used, sorted once however many tasks there are."""
    if tasks is None:
        if used.any():
            yield STREAM, slice(None) if used.all() else np.flatnonzero(used)
        return
    rows = np.flatnonzero(used)
    if not len(rows):
        return
    rows = rows[np.argsort(tasks[rows], kind="stable")]
    places, starts = np.unique(tasks[rows], return_index=True)
    names = list(reader.task_names)
    parts = np.split(rows, starts[1:])
    yield from sorted((names[place], part) for place, part in zip(places.tolist(), parts, strict=True))


def _batches(tables: Iterable[Any]) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    for table in tables:
        if isinstance(table, pa.RecordBatch):
            yield table
        else:
            yield from (table if isinstance(table, pa.Table) else pa.table(table)).to_batches()


@dataclass(frozen=True)
class Request:
    """Passes over the rows of some tasks.

    Parameters
    ----------
    keys : categories that the recipe's model does not have, in the order of their inputs.
    passes : for each task how many of `keys` it has, and the bytes of the pass.
    """

    keys: tuple[str, ...] = ()
    passes: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    # The pass that all tasks have first; their names are not known before it.
    first: bytes | None = None


def answer(recipe: Recipe, request: Request, batches: Iterable[Any]) -> bytes:
    """The answer of the rows of tables to a request, as bytes that `merge` adds up."""
    _check_version(recipe)
    model = _core.Model.from_bytes(recipe.template)
    reader = _Reader(recipe, model, request.keys)
    waiting: dict[str, list[Any]] = {}
    found: dict[str, bytes] = {}
    rows, held = 0, 0

    def flush() -> None:
        for task, blocks in waiting.items():
            count, wanted = request.passes.get(task, (len(reader.new), request.first))
            if wanted is None:
                continue
            X, target, weights = _joined(reader, blocks)
            X = np.ascontiguousarray(X[:, : reader.width + count])
            own = model.answer_pass(wanted, X, target, weights, reader.new[:count], _threads())
            found[task] = own if task not in found else _core.merge_parts([found[task], own])
        waiting.clear()

    for rows, table in _tables(reader, batches):
        if request.first is None and len(reader.new) > len(request.keys):
            raise ValueError(
                f"the rows have changed between two passes: {reader.new[-1]!r} is new; keep them unchanged"
            )
        for task, X, y, weights in table:
            if request.first is not None or task in request.passes:
                waiting.setdefault(task, []).append((X, y, weights))
                held += X.nbytes
        if held > GATHERED:
            flush()
            held = 0
    flush()
    return _core.pack_shard(recipe.digest, rows, reader.dropped, list(found.items()))


@dataclass(frozen=True)
class Work:
    """What a worker does with its part of a table: summarize it, answer a request, or look for rows that are far off.

    Workers may lack pmfcl, or have another version. So what travels are `packed` bytes, and `run` is sent by its code.
    """

    recipe: Recipe
    request: Request | None = None
    # A model that rows are looked at with.
    checked_by: bytes | None = None

    def packed(self) -> bytes:
        """As bytes, for `perform`."""
        return pickle.dumps(self)

    def runner(self) -> Callable[[Iterable[Any], str], tuple[bytes | None, str | None]]:
        """A function of batches and a place for messages, which gives bytes or an error. It imports pmfcl where it runs."""
        packed, version = self.packed(), __version__

        def run(batches: Iterable[Any], where: str) -> tuple[bytes | None, str | None]:
            try:
                from importlib import import_module

                pmfcl, own = import_module("pmfcl"), import_module("pmfcl.distributed")
            except ImportError as failed:
                return None, f"{where}: {failed}; install pmfcl {version} and pyarrow on every worker"
            if pmfcl.__version__ != version:
                return None, f"{where}: pmfcl {pmfcl.__version__}, and the driver has {version}; install one version"
            try:
                return own.perform(packed, batches), None
            except Exception as failed:  # noqa: BLE001 - whatever it is, the driver reports it with its place
                kind = "" if isinstance(failed, ValueError) else f"{type(failed).__name__}: "
                return None, f"{where}: {kind}{failed}"

        return run


def perform(packed: bytes, batches: Iterable[Any]) -> bytes:
    """Does a worker's part of some `Work`."""
    work: Work = pickle.loads(packed)
    if work.checked_by is not None:
        return _far_rows(work.recipe, _core.Model.from_bytes(work.checked_by), batches)
    return summarize(work.recipe, batches) if work.request is None else answer(work.recipe, work.request, batches)


def _far_rows(recipe: Recipe, model: _core.Model, batches: Iterable[Any]) -> bytes:
    """Rows far from what a model has learned, and a part of all rows with a hash of them: what a check needs."""
    reader = _Reader(recipe, model)
    gathered = _Gathered(reader, content=True)
    rows, seen, beyond = 0, 0, 0
    worst: list[Any] = []
    once = model.first_pass() is None
    for rows, table in _tables(reader, batches):
        for task, X, y, weights in table:
            own, target, _ = _joined(reader, [(X, y, weights)])
            known = np.ascontiguousarray(own[:, : reader.width])
            count, far, found = model.look_at_rows(known, target, seen)
            seen, beyond = seen + count, beyond + far
            worst = sorted([*worst, *found], key=lambda row: -row[1])[:WORST]
            if once:
                gathered.add(task, X, y, weights)
        if gathered.held > GATHERED:
            gathered.flush()
    gathered.flush()
    facts = json.dumps({"rows": seen, "beyond": beyond, "worst": worst}).encode()
    parts = [*gathered.parts.items(), (FAR_ROWS, facts)]
    return _core.pack_shard(recipe.digest, rows, reader.dropped, parts)


# The part that lists rows far off; no task can have a name with this character in it.
FAR_ROWS = "\0far rows"


def _merged_task(task: str, pieces: list[bytes]) -> bytes:
    if task != FAR_ROWS:
        return pieces[0] if len(pieces) == 1 else _core.merge_parts(pieces)
    facts = [json.loads(piece) for piece in pieces]
    worst: list[Any] = []
    before = 0
    for one in facts:
        # Rows are counted over all parts, in their order.
        worst += [[row[0] + before, *row[1:]] for row in one["worst"]]
        before += one["rows"]
    worst = sorted(worst, key=lambda row: -row[1])[:WORST]
    return json.dumps({"rows": before, "beyond": sum(one["beyond"] for one in facts), "worst": worst}).encode()


def merge(parts: Iterable[bytes]) -> bytes:
    """Adds up what `summarize`, `answer` or `merge` gave, in the order given; tasks, classes and categories meet by name."""
    digest, rows, dropped = None, 0, 0
    found: dict[str, list[bytes]] = {}
    for position, data in enumerate(parts):
        own, own_rows, own_dropped, tasks = _unpacked(data, f"part {position}")
        if digest is not None and own != digest:
            raise PartError(f"part {position} was made by another recipe (columns, settings or version differ)")
        digest, rows, dropped = own, rows + own_rows, dropped + own_dropped
        for task, part in tasks.items():
            found.setdefault(task, []).append(part)
    if digest is None:
        raise PartError("there is no part to merge")
    merged = [(task, _merged_task(task, pieces)) for task, pieces in found.items()]
    return _core.pack_shard(digest, rows, dropped, merged)


def shard(recipe: Recipe, part: bytes) -> bytes:
    """A part as the content of a file `*.pms`, which `pmfcl learn MODEL --summaries` merges and learns."""
    digest, rows, dropped, tasks = _unpacked(part, "the part")
    return _core.pack_shard(digest, rows, dropped, list(tasks.items()), recipe.template)


def learn(estimator: "Continual", recipe: Recipe, part: bytes, *, weight: float | None = None) -> Any:
    """Learns what was merged: each of its tasks, in order of their names; rows without a task column are added to the current one.

    Returns the estimator. Where something is refused it is unchanged.
    """
    digest, rows, dropped, tasks = _unpacked(part, "the part")
    if digest != recipe.digest:
        raise PartError("the part was made by another recipe (columns, settings or version differ)")
    if not tasks:
        raise ValueError(f"there are no rows to learn from; {dropped} of {rows} were dropped for missing values")
    model = _begun(estimator, recipe)
    for task in sorted(tasks) if recipe.task is not None else tasks:
        model.learn_part(_name(model, recipe, task), tasks[task], 1.0 if weight is None else float(weight))
    estimator._adopt(model)
    return estimator


def _begun(estimator: "Continual", recipe: Recipe) -> _core.Model:
    """A copy of the estimator's model to learn with; before the first task that of the recipe."""
    if estimator.__sklearn_is_fitted__():
        return estimator._model.__copy__()
    return _core.Model.from_bytes(recipe.template)


def _name(model: _core.Model, recipe: Recipe, task: str) -> str | None:
    """The name under which a task is learned; None where its rows are added to the current one."""
    return task if recipe.task is not None or not model.task_names() else None


def learn_with(
    estimator: "Continual",
    recipe: Recipe,
    everywhere: Everywhere,
    *,
    weight: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Any:
    """Learns a table that lies on many machines, by any loss. Returns the estimator, which is unchanged where something is refused.

    `everywhere(work)` runs `work.runner()` on every part of the table and merges the bytes in the order of the parts. Losses that
    look at rows once call it once. Others call it for every pass their fits ask for; tasks that do not depend on each other share
    a pass. The parts must be the same every time. `progress` is told what is done.
    """
    tell = (lambda _: None) if progress is None else progress
    first = _core.Model.from_bytes(recipe.template).first_pass()
    if first is None:
        tell("one pass over the rows")
        return learn(estimator, recipe, everywhere(Work(recipe)), weight=weight)
    tell("pass 1: a look at the rows")
    _, rows, dropped, tasks = _unpacked(everywhere(Work(recipe, Request(first=first))), "the first pass")
    if not tasks:
        raise ValueError(f"there are no rows to learn from; {dropped} of {rows} were dropped for missing values")
    model = _begun(estimator, recipe)
    order = sorted(tasks)
    fitting = _Fitting(recipe, everywhere, tell, 1.0 if weight is None else float(weight))
    classes: dict[str, None] = {}
    for task in order:
        own, keys = _core.Model.names_in(tasks[task])
        classes.update(dict.fromkeys(own))
        fitting.keys += [key for key in keys if key not in fitting.keys]
        fitting.counts[task] = len(fitting.keys)
    if set(classes) != set(_core.Model.names_in(tasks[order[0]])[0]):
        # The first task lacks some, and a loss that has to know all of them could not add them later.
        model.fix_classes(sorted(classes))
    # The first task may settle what the loss leaves open, such as the scale of huber; each depends on the last where the scheme
    # is sequential.
    alone = 1 if model.tasks_are_independent() else len(order)
    groups = [order[:1], *(order[at : at + TOGETHER] for at in range(1, len(order), TOGETHER))]
    for group in groups if alone == 1 else [[task] for task in order]:
        fitted = fitting.run(model, {task: tasks[task] for task in group})
        for task in group:
            model.insert_fitted(_name(model, recipe, task), fitted[task], fitting.weight)
    estimator._adopt(model)
    return estimator


class _Fitting:
    """Fits of tasks whose passes run everywhere: each fit on a thread of its own, one job for the passes all of them wait for."""

    def __init__(self, recipe: Recipe, everywhere: Everywhere, tell: Callable[[str], None], weight: float) -> None:
        self.recipe, self.everywhere, self.tell, self.weight = recipe, everywhere, tell, weight
        self.keys: list[str] = []
        self.counts: dict[str, int] = {}
        self.passes = 1
        self.failed: BaseException | None = None

    def run(self, model: _core.Model, looks: dict[str, bytes]) -> dict[str, _core.FittedTask]:
        """Fits tasks, given the answers to their first passes."""
        asked: queue.Queue[tuple[str, bytes | None, Future[bytes] | None]] = queue.Queue()

        def fit(task: str) -> _core.FittedTask:
            def ask(wanted: bytes) -> bytes:
                answer: Future[bytes] = Future()
                asked.put((task, wanted, answer))
                return answer.result()

            try:
                keys = self.keys[: self.counts[task]]
                return model.fit_passes(keys, looks[task], self.weight, ask)
            finally:
                asked.put((task, None, None))

        self.failed = None
        with ThreadPoolExecutor(len(looks), thread_name_prefix="pmfcl-fit") as pool:
            fits = {task: pool.submit(fit, task) for task in looks}
            self._serve(set(looks), asked)
            if self.failed is not None:
                raise self.failed
            return {task: done.result() for task, done in fits.items()}

    def _serve(self, live: set[str], asked: Any) -> None:
        """Answers passes until every fit has ended; whenever all of them wait, one job answers all."""
        waiting: dict[str, tuple[bytes, Future[bytes]]] = {}
        while live:
            try:
                task, wanted, future = asked.get()
                if wanted is None:
                    live.discard(task)
                else:
                    waiting[task] = (wanted, future)
                if waiting and self.failed is not None:
                    raise self.failed
                if not waiting or len(waiting) < len(live):
                    continue
                answers = self._job({task: wanted for task, (wanted, _) in waiting.items()})
                for task, (_, future) in waiting.items():
                    future.set_result(answers[task])
                waiting = {}
            except BaseException as failure:  # noqa: BLE001 - also Ctrl-C; it is raised when the threads have ended
                # The threads must end before the error is raised: they wait for answers.
                self.failed = self.failed or failure
                for _, future in waiting.values():
                    future.set_exception(RuntimeError("the pass failed"))
                waiting = {}

    def _job(self, wanted: dict[str, bytes]) -> dict[str, bytes]:
        self.passes += 1
        self.tell(f"pass {self.passes}: {len(wanted)} task{'s' if len(wanted) > 1 else ''} to fit")
        passes = {task: (self.counts[task], one) for task, one in wanted.items()}
        request = Request(tuple(self.keys), passes)
        _, _, _, tasks = _unpacked(self.everywhere(Work(self.recipe, request)), "a pass")
        lost = [task for task in wanted if task not in tasks]
        if lost:
            raise ValueError(f"the rows of the task '{lost[0]}' are gone after the first pass; keep them unchanged")
        return tasks


def check_with(
    estimator: "Continual", recipe: Recipe, everywhere: Everywhere, *, refuse_if: str | Iterable[object] = ()
) -> CheckReport:
    """What a fitted estimator says of a table that lies on many machines, as `estimator.check` of rows; nothing is changed.

    All rows are one task. How well the model does on them is not in the report; score them.
    """
    whole = replace(recipe, task=None)
    model = estimator._model
    _, _, dropped, tasks = _unpacked(everywhere(Work(whole, checked_by=model.to_bytes())), "the check")
    found = json.loads(tasks.pop(FAR_ROWS, b'{"rows": 0, "beyond": 0, "worst": []}'))
    if not found["rows"]:
        raise ValueError("there are no rows to check")
    if tasks:
        fitted = model.fit_part(tasks[STREAM], 1.0)
    else:
        first = model.first_pass()
        _, _, _, looks = _unpacked(everywhere(Work(whole, Request(first=first))), "the first pass")
        fitting = _Fitting(whole, everywhere, lambda _: None, 1.0)
        fitting.keys = _core.Model.names_in(looks[STREAM])[1]
        fitting.counts[STREAM] = len(fitting.keys)
        fitted = fitting.run(model, looks)[STREAM]
    conditions = [refuse_if] if isinstance(refuse_if, str) else [str(condition) for condition in refuse_if]
    worst = [tuple(row) for row in found["worst"]]
    return CheckReport(model.check_fitted(fitted, (found["rows"], found["beyond"], worst), dropped, conditions))


def opened(
    model: ModelLike, schema: "pa.Schema", target: str | Sequence[str], settings: dict[str, Any]
) -> tuple[Any, Path | None]:
    """The estimator to learn with, and the file it is kept in: a model file that there is, a new one, or an estimator as given.

    A new model predicts classes where the loss does or the target holds text or booleans.
    """
    from . import ContinualClassifier, ContinualRegressor
    from ._continual import Continual

    if isinstance(model, Continual):
        if settings:
            raise TypeError(f"{next(iter(settings))} is a parameter of the estimator; set it there")
        return model, None
    path = Path(model)
    if path.exists():
        estimator = load(path)
        for name, value in settings.items():
            if estimator.get_params().get(name) != value:
                raise ValueError(f"{path}: the model was made with other settings than {name}={value!r}; leave it out")
        return estimator, path
    first = target if isinstance(target, str) else target[0]
    loss = settings.get("loss")
    text = _is_text(schema, first)
    classes = text if loss is None else str(loss).partition(":")[0] in ("gaussian", "logistic") or text
    return (ContinualClassifier if classes else ContinualRegressor)(**settings), path


def _is_text(schema: "pa.Schema", name: str) -> bool:
    import pyarrow as pa

    at = schema.get_field_index(name)
    if at < 0:
        raise ValueError(f"there is no column '{name}'; the table has {', '.join(schema.names)}")
    kind = schema.field(at).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def looks_again(estimator: "Continual") -> bool:
    """Whether the loss of an estimator looks at rows more than once."""
    loss = setting(estimator.loss).partition(":")[0]
    # Losses that are no quadratics ask for passes; all others are summarized once.
    return not _core.problem(loss, estimator._PREDICTS_CLASSES)["exact"]


def needs_rows(estimator: "Continual", schema: "pa.Schema") -> bool:
    """Whether a recipe for tables of this schema needs some rows: for the length of lists, a basis, or categories."""
    import pyarrow as pa

    if estimator.__sklearn_is_fitted__():
        return False
    kinds = [field.type for field in schema]
    lists = any(pa.types.is_list(kind) or pa.types.is_large_list(kind) for kind in kinds)
    numbers = any(
        not pa.types.is_nested(kind) and not _is_text(schema, field.name)
        for field, kind in zip(schema, kinds, strict=True)
    )
    return lists or not numbers or estimator.basis != "linear"


def learn_table(
    model: ModelLike,
    schema: "pa.Schema",
    head: Callable[[int], "pa.Table"],
    everywhere: Callable[[list[str]], Everywhere],
    *,
    target: str | Sequence[str],
    settings: dict[str, Any],
    progress: bool | None = None,
    **columns: Any,
) -> Any:
    """What `learn` of every engine does.

    `schema` is that of the table, `head(n)` gives its first rows, and `everywhere(names)` a function as `learn_with` takes it over
    these columns. `columns` are those of `Recipe.of`.
    """
    estimator, path = opened(model, schema, target, settings)
    rows = head(FIRST_ROWS) if needs_rows(estimator, schema) else None
    recipe = Recipe.of(estimator, schema, target=target, rows=rows, **columns)
    absent = [name for name in recipe.columns if name not in schema.names]
    if absent:
        raise ValueError(f"there is no column '{absent[0]}'; the table has {', '.join(schema.names)}")
    learn_with(estimator, recipe, everywhere(recipe.columns), progress=teller(progress))
    if path is not None:
        estimator.save(path)
    return estimator


def teller(progress: bool | None) -> Callable[[str], None] | None:
    """Where progress is shown: on stderr where that is a terminal, or where it is asked for."""
    if progress or (progress is None and sys.stderr.isatty()):
        return lambda text: print(f"pmfcl: {text}", file=sys.stderr, flush=True)
    return None


def collected(found: Iterable[tuple[bytes | None, str | None]]) -> bytes:
    """Merges what `Work.runner` gave on all parts, in their order; the first error is raised."""
    states, errors = [], []
    for state, error in found:
        if error is not None:
            errors.append(error)
        elif state is not None:
            states.append(bytes(state))
    if errors:
        raise ValueError(errors[0] + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""))
    if not states:
        raise ValueError("the table has no part with rows")
    return merge(states)


def _unpacked(data: bytes, what: str) -> tuple[bytes, int, int, dict[str, bytes]]:
    try:
        digest, rows, dropped, tasks = _core.unpack_shard(bytes(data))
    except ValueError as error:
        raise PartError(f"{what}: {error}") from error
    return digest, rows, dropped, dict(tasks)


def inputs(estimator: "Continual", table: Any) -> NDArray[np.float64]:
    """The inputs of a fitted estimator for the rows of a table, by the names of its columns."""
    model = estimator._model
    reader = _Reader(Recipe(b"", ()), model)
    blocks = [reader.features(batch, 0)[0] for batch in _batches([table])]
    if reader.new:
        at, _, category = reader.new[0].partition(":")
        raise ValueError(
            f"column '{reader.kinds[int(at)][0]}' has the category '{category}', which the model does not know; learn rows with "
            "it first"
        )
    return np.vstack(blocks) if blocks else np.zeros((0, reader.width))
