"""Tables too large for one machine: summaries are made where the rows are, and merged.

This is the piece that every engine needs, and the whole of what it needs: `summarize` turns tables into bytes, on any worker;
`merge` adds such bytes up, in any grouping; `learn` puts the sum into a model. `pmfcl.spark` is made of these three. A `Recipe`
says how the columns of a table become rows; it is small and can be pickled.

The result is that of one process up to rounding, however the rows were cut, and the same to the bit for the same cuts merged in
the same order. Text columns are categories, which meet by name: no worker has to know those of the others. For losses that look
at rows once, squared and gaussian.

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
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import __version__, _core
from ._columns import MICROSECONDS
from ._continual import STREAM, Continual, setting
from ._labels import name_of

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PMFD"
FORMAT = 1
# Bytes of rows that are gathered before they are summarized: large enough that summaries cost little, small for a worker.
GATHERED = 32 << 20
# Categories of one text column; more are an identifier, not a feature.
MOST_CATEGORIES = 1000


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
        estimator: Continual,
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
        shape = json.dumps(
            [model.columns(), model.facts()["inputs"], model.problem()["spec"], model.settings()], default=str
        )
        return hashlib.sha256(f"{facts}\n{shape}".encode()).digest()

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

    def __init__(self, recipe: Recipe, model: _core.Model) -> None:
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
        self.new: list[str] = []
        self.dropped = 0

    def features(self, batch: "pa.RecordBatch", first: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Inputs of every row, those of new categories at the end, and which rows lack a value."""
        X = np.zeros((batch.num_rows, self.width + len(self.new)))
        lacking = np.zeros(batch.num_rows, dtype=bool)
        for at, (name, kind) in enumerate(self.kinds):
            values = self._column(batch, name)
            absent = self._absent(values, name, first)
            lacking |= absent
            if kind == "number":
                X[:, self.places[name][0]] = _numbers(values, name)
            elif kind == "date":
                X[:, self.places[name][0]] = _days(values)
            elif kind == "text":
                X = self._one_hot(X, at, name, values)
            else:
                X[:, self.places[name]] = _lists(values, name, int(kind.partition(":")[2]), absent)
        lacking |= ~np.isfinite(X).all(axis=1) if self.recipe.missing == "drop" else False
        return X, lacking

    def _column(self, batch: "pa.RecordBatch", name: str) -> "pa.Array":
        at = batch.schema.get_field_index(name)
        if at < 0:
            raise ValueError(f"there is no column '{name}'; the table has {', '.join(batch.schema.names)}")
        values = batch.column(at)
        return values.dictionary_decode() if hasattr(values, "dictionary_decode") else values

    def _absent(self, values: "pa.Array", name: str, first: int) -> NDArray[np.bool_]:
        absent = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        if absent.any() and self.recipe.missing == "error":
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

    def tasks(self, batch: "pa.RecordBatch", first: int) -> NDArray[Any]:
        """The task of every row."""
        if self.recipe.task is None:
            return np.full(batch.num_rows, STREAM, dtype=object)
        values = self._column(batch, self.recipe.task)
        if np.asarray(values.is_null().to_numpy(zero_copy_only=False)).any():
            row = first + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"column '{self.recipe.task}', which names the task, has no value in row {row}")
        return np.array([name_of(value) for value in values.to_pylist()], dtype=object)

    def targets(self, batch: "pa.RecordBatch", first: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Values or labels of every row, and which rows have none."""
        columns, lacking = [], np.zeros(batch.num_rows, dtype=bool)
        for name in self.recipe.targets:
            values = self._column(batch, name)
            lacking |= self._absent(values, name, first)
            if self.model.problem()["predicts_classes"]:
                labels = [None if value is None else name_of(value) for value in values.to_pylist()]
                return np.array(labels, dtype=object), lacking
            columns.append(_numbers(values, name))
        return np.column_stack(columns), lacking


def _numbers(values: "pa.Array", name: str) -> NDArray[np.float64]:
    import pyarrow as pa

    try:
        cast = values.cast(pa.float64())
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


class _Gathered:
    """Rows of tasks that wait to be summarized, and the parts made so far."""

    def __init__(self, model: _core.Model) -> None:
        self.model = model
        self.rows: dict[str, list[tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]]] = {}
        self.parts: dict[str, bytes] = {}
        self.held = 0

    def add(self, task: str, X: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None) -> None:
        self.rows.setdefault(task, []).append((X, y, weights))
        self.held += X.nbytes

    def flush(self, new: list[str]) -> None:
        """Summarizes what waits."""
        width = len(self.model.facts()["inputs"]) + len(new)
        classes = self.model.problem()["predicts_classes"]
        for task, rows in self.rows.items():
            X = np.vstack([_widened(X, width) for X, _, _ in rows])
            y = np.concatenate([y for _, y, _ in rows])
            weights = None if rows[0][2] is None else np.concatenate([w for _, _, w in rows if w is not None])
            target: Any = np.ascontiguousarray(y)
            if classes:
                names, codes = np.unique(y.astype(str), return_inverse=True)
                target = (np.ascontiguousarray(codes, dtype=np.uint32), names.tolist())
            part = self.model.summarize_part(np.ascontiguousarray(X), target, weights, list(new))
            before = self.parts.get(task)
            self.parts[task] = part if before is None else _core.merge_parts([before, part])
        self.rows, self.held = {}, 0


def summarize(recipe: Recipe, batches: Iterable[Any]) -> bytes:
    """Summarizes tables, one after the other, as bytes: one part for each task that occurs in them.

    `batches` are Arrow record batches or tables, or pandas or Polars frames. Rows are counted from the first of the first batch
    in messages. No rows at all are an empty part, which merges with any other.
    """
    if recipe.version != __version__:
        raise PartError(
            f"the recipe was made by pmfcl {recipe.version}, and this is {__version__}; install one version"
        )
    model = _core.Model.from_bytes(recipe.template)
    reader, gathered, first = _Reader(recipe, model), _Gathered(model), 0
    for batch in _batches(batches):
        X, lacking = reader.features(batch, first)
        y, unlabelled = reader.targets(batch, first)
        tasks, weights = reader.tasks(batch, first), reader.weights(batch, first)
        used = ~(lacking | unlabelled)
        if weights is not None:
            used &= weights > 0
        for task, rows in _by_task(tasks, np.flatnonzero(used)):
            gathered.add(task, X[rows], y[rows], None if weights is None else weights[rows])
        first += batch.num_rows
        reader.dropped += int((lacking | unlabelled).sum())
        if gathered.held > GATHERED:
            gathered.flush(reader.new)
    gathered.flush(reader.new)
    return _packed(recipe.digest, first, reader.dropped, gathered.parts)


def _by_task(tasks: NDArray[Any], rows: NDArray[np.intp]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The rows of each task, sorted once however many tasks there are."""
    if len(rows):
        names, codes = np.unique(tasks[rows].astype(str), return_inverse=True)
        ends = np.cumsum(np.bincount(codes))[:-1]
        parts = np.split(rows[np.argsort(codes, kind="stable")], ends)
        yield from zip(names.tolist(), parts, strict=True)


def _batches(tables: Iterable[Any]) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    for table in tables:
        if isinstance(table, pa.RecordBatch):
            yield table
        else:
            yield from (table if isinstance(table, pa.Table) else pa.table(table)).to_batches()


def merge(parts: Iterable[bytes]) -> bytes:
    """Adds up what `summarize` or `merge` gave, in the order given; tasks, classes and categories meet by name."""
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
    merged = {task: pieces[0] if len(pieces) == 1 else _core.merge_parts(pieces) for task, pieces in found.items()}
    return _packed(digest, rows, dropped, merged)


def learn(estimator: Continual, recipe: Recipe, part: bytes, *, weight: float | None = None) -> Any:
    """Learns what was merged: each of its tasks, in order of their names; rows without a task column are added to the current one.

    Returns the estimator. Where something is refused it is unchanged.
    """
    digest, rows, dropped, tasks = _unpacked(part, "the part")
    if digest != recipe.digest:
        raise PartError("the part was made by another recipe (columns, settings or version differ)")
    if not tasks:
        raise ValueError(f"there are no rows to learn from; {dropped} of {rows} were dropped for missing values")
    fresh = not estimator.__sklearn_is_fitted__()
    model = _core.Model.from_bytes(recipe.template) if fresh else estimator._model.__copy__()
    for task in sorted(tasks) if recipe.task is not None else tasks:
        named = recipe.task is not None or not model.task_names()
        model.learn_part(task if named else None, tasks[task], 1.0 if weight is None else float(weight))
    estimator._adopt(model)
    return estimator


def _packed(digest: bytes, rows: int, dropped: int, tasks: dict[str, bytes]) -> bytes:
    body = [MAGIC, struct.pack("<H", FORMAT), digest, struct.pack("<QQI", rows, dropped, len(tasks))]
    for task, part in tasks.items():
        name = task.encode()
        body += [struct.pack("<IQ", len(name), len(part)), name, part]
    data = b"".join(body)
    return data + struct.pack("<I", zlib.crc32(data))


def _unpacked(data: bytes, what: str) -> tuple[bytes, int, int, dict[str, bytes]]:
    data = bytes(data)
    head = len(MAGIC) + 2 + 32 + 20
    if len(data) < head + 4 or data[:4] != MAGIC:
        raise PartError(f"{what}: these bytes are no part made by pmfcl.distributed.summarize")
    if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise PartError(f"{what}: the checksum does not match: the bytes were changed or cut off")
    (version,) = struct.unpack("<H", data[4:6])
    if version != FORMAT:
        raise PartError(f"{what}: format {version}, and this version of pmfcl reads format {FORMAT}")
    rows, dropped, count = struct.unpack("<QQI", data[38:head])
    tasks, at = {}, head
    for _ in range(count):
        name_length, length = struct.unpack("<IQ", data[at : at + 12])
        at += 12
        tasks[data[at : at + name_length].decode()] = data[at + name_length : at + name_length + length]
        at += name_length + length
    return data[6:38], rows, dropped, tasks


def inputs(estimator: Continual, table: Any) -> NDArray[np.float64]:
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
