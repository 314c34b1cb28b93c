"""Frames with text, categories, booleans and dates: the inputs a model makes of them, and where each input comes from."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from . import _doubts
from ._labels import name_of

MICROSECONDS = 86_400_000_000
EPOCH = datetime.datetime(1970, 1, 1)


def column_names(table: Any) -> list[Any] | None:
    """Names of the columns of a frame, or None where it is none."""
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is None or callable(names) or not hasattr(table, "__getitem__"):
        return None
    return list(names)


def is_missing(value: Any) -> bool:
    """Whether a cell holds no value: None, NaN, NaT, pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def values_of(series: Any) -> NDArray[Any]:
    """The cells of a column as an array: numbers, booleans, datetimes, or objects."""
    kind = type(getattr(series, "dtype", None)).__name__
    if kind == "CategoricalDtype":
        return np.asarray(series.astype(object), dtype=object)
    if kind == "DatetimeTZDtype":
        return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None))
    return np.asarray(series)


def kind_of(values: NDArray[Any]) -> str:
    """What an array of cells holds: number, date or category."""
    if values.dtype.kind in "biuf":
        return "number"
    if values.dtype.kind == "M":
        return "date"
    there = [value for value in values if not is_missing(value)]
    if there and all(isinstance(value, bool | int | float | np.number | np.bool_) for value in there):
        return "number"
    if there and all(isinstance(value, datetime.date | np.datetime64) for value in there):
        return "date"
    return "category"


def days(value: Any) -> float:
    """A date or time as days since 1970, in UTC where it has a zone."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    since: float = (value - EPOCH) / datetime.timedelta(days=1)
    return since


# Column, kind (number, date, category, part, missing), and the place in a list or the category.
Origin = tuple[str, str, str | None]


class ArrayColumns:
    """The columns of an array by the names they have in a model: x1, x2, …, or those of an earlier frame."""

    def __init__(self, table: NDArray[Any], names: Sequence[str]) -> None:
        self.table = table
        self.column_names = list(names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.table[:, self.column_names.index(name)]
        return column


def gaps_of(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells hold no value, or none that is finite."""
    gaps: NDArray[np.bool_]
    if values.dtype.kind == "f":
        gaps = ~np.isfinite(values)
        return gaps
    if values.dtype.kind == "M":
        gaps = np.isnat(values)
        return gaps
    if values.dtype.kind in "biu":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter((is_missing(value) for value in values), dtype=bool, count=len(values))


def past_of(name: str, kind: str, value: Any) -> tuple[str | None, float]:
    """The category that a new column has had so far, or none, and the number of its input."""
    if kind == "category" and isinstance(value, str):
        return value, 1.0
    dated = isinstance(value, datetime.date | np.datetime64)
    if kind == "date" and dated:
        return None, days(value)
    if kind == "number" and isinstance(value, bool | int | float | np.number | np.bool_) and np.isfinite(value):
        return None, float(value)
    needed = {"category": "a text", "date": "a date", "number": "a finite number"}[kind]
    raise ValueError(
        f"new_columns: column '{name}' holds {kind} values; what it was before must be {needed}, not {value!r}"
    )


class Columns:
    """Where every input of a model comes from: a column, what it holds, and the category or place within it."""

    def __init__(
        self, origins: Sequence[Origin], gaps: bool = False, past: Mapping[Origin, float] | None = None
    ) -> None:
        self.past = dict(past or {})  # of inputs that are new, where they have not been 0 so far
        self.origins: list[Origin] = [(name, kind, part) for name, kind, part in origins]
        self.gaps = gaps or any(kind == "missing" for _, kind, _ in self.origins)
        self.known: dict[str, dict[str, None]] = {}
        for name, kind, part in self.origins:
            if kind == "category" and part is not None:
                self.known.setdefault(name, {})[part] = None

    @classmethod
    def of(cls, origins: Sequence[Origin], gaps: bool = False) -> Self | None:
        """The columns of a model, or None where all are numbers and nothing need be done; with `gaps` some may be missing."""
        return None if not gaps and all(kind == "number" for _, kind, _ in origins) else cls(origins, gaps)

    @classmethod
    def of_frame(cls, table: Any, gaps: bool = False) -> Self | None:
        """The columns of a frame that holds more than numbers, or may have `gaps`; None for others."""
        names = column_names(table)
        if names is None or not all(isinstance(name, str) for name in names):
            return None
        cells = {name: values_of(table[name]) for name in names}
        kinds = {name: kind_of(values) for name, values in cells.items()}
        plain = all(kind == "number" for kind in kinds.values()) and all(v.dtype.kind != "O" for v in cells.values())
        if plain and not gaps:
            return None
        origins: list[Origin] = []
        for name in names:
            if kinds[name] != "category":
                origins.append((name, kinds[name], None))
                continue
            if not _doubts.is_categorical(table[name]):
                _doubts.refuse(name, cells[name], is_missing)
            found = dict.fromkeys(name_of(value) for value in cells[name] if not is_missing(value))
            origins.extend((name, "category", category) for category in found)
        return cls(origins, gaps).grown(table)

    def names(self) -> list[str]:
        """Names of the inputs, as the command line gives them."""
        plain = {"category": "{}={}", "part": "{}[{}]", "missing": "{} is missing"}
        return [plain.get(kind, "{}").format(name, part) for name, kind, part in self.origins]

    def column_names(self) -> list[str]:
        """Names of the columns, in the order of their first inputs."""
        return list(dict.fromkeys(name for name, _, _ in self.origins))

    def cover(self, table: Any) -> bool:
        """Whether a table has all these columns by name."""
        names = column_names(table)
        return names is not None and {name for name, _, _ in self.origins} <= set(names)

    def added_to(self, known: "Columns | None") -> list[Origin]:
        """Each input that `known` has not."""
        return self.origins[0 if known is None else len(known.origins) :]

    def with_columns(self, table: Any, names: Sequence[str] | Mapping[str, Any]) -> "Columns":
        """These columns and others of a table that the model does not have yet; a dict says what they have been so far."""
        there = column_names(table) or []
        known = self.column_names()
        new: list[Origin] = []
        past: dict[Origin, float] = {}
        for name in names:
            if name in known:
                raise ValueError(f"new_columns: the model has a column '{name}' already")
            if name not in there:
                raise ValueError(f"new_columns: X has no column '{name}'; it has {', '.join(map(str, there))}")
            kind = kind_of(values_of(table[name]))
            found = dict.fromkeys(name_of(v) for v in values_of(table[name]) if not is_missing(v))
            if isinstance(names, Mapping):
                before, value = past_of(name, kind, names[name])
                found.setdefault(before or "")
                past[name, kind, before] = value
            new.extend((name, kind, category) for category in (found if kind == "category" else [None]))
        return Columns(self.origins + new, self.gaps, past)

    def grown(self, table: Any) -> Self:
        """These columns with the categories of a table that are new, and the gaps of columns that had none, at the end."""
        new: list[Origin] = []
        for name, known in self.known.items():
            found = dict.fromkeys(name_of(v) for v in values_of(table[name]) if not is_missing(v))
            new.extend((name, "category", category) for category in found if category not in known)
        if self.gaps:
            parts = {name for name, kind, _ in self.origins if kind == "part"}
            lacking = [name for name in self.column_names() if not self.has_indicator(name) and name not in parts]
            new.extend((name, "missing", None) for name in lacking if gaps_of(values_of(table[name])).any())
        return type(self)(self.origins + new, self.gaps, self.past) if new else self

    def has_indicator(self, name: str) -> bool:
        """Whether a column has an input that is 1 where it has a gap."""
        return (name, "missing", None) in self.origins

    def encode(self, table: Any, means: Callable[[], Sequence[float]] | None = None) -> NDArray[np.float64]:
        """The inputs of every row; `means` are put into gaps of columns that had none while the model learned."""
        held: dict[str, Any] = {}
        missing: dict[str, NDArray[np.bool_]] = {}
        columns: list[NDArray[np.float64]] = []
        for at, (name, kind, part) in enumerate(self.origins):
            if name not in missing:
                missing[name] = gaps_of(values_of(table[name])) if self.gaps else np.zeros(0, dtype=bool)
            gaps = missing[name]
            if kind == "missing":
                columns.append(gaps.astype(np.float64))
                continue
            if name not in held:
                held[name] = self.column(values_of(table[name]), name, kind, gaps)
            column = held[name][part] if kind in ("category", "part") else held[name]
            if gaps.any():
                if not self.has_indicator(name) and means is None:
                    raise ValueError(
                        f"column '{name}' at row {int(np.argmax(gaps))} is missing, and no row that was learned missed it; this "
                        "model does not know the means of its columns"
                    )
                fill = 0.0 if self.has_indicator(name) or means is None else means()[at]
                column = np.where(gaps, fill, column)
            columns.append(column)
        return np.column_stack(columns)

    def column(
        self, values: NDArray[Any], name: str, kind: str, gaps: NDArray[np.bool_]
    ) -> NDArray[np.float64] | dict[str, NDArray[np.float64]]:
        """One column as numbers; by category or place where it is several inputs. What stands in allowed `gaps` is of no account."""
        if kind == "number":
            if values.dtype.kind == "O":
                values = np.array([np.nan if is_missing(value) else float(value) for value in values])
            return self.complete(values.astype(np.float64), name, gaps)
        if kind == "date":
            if values.dtype.kind == "O":
                return self.complete(np.array([np.nan if is_missing(v) else days(v) for v in values]), name, gaps)
            stamps = values.astype("datetime64[us]")
            missing, stamps = np.isnat(stamps), stamps.astype(np.int64)
            numbers: NDArray[np.float64] = stamps // MICROSECONDS + (stamps % MICROSECONDS / 1e6) / 86_400
            return self.complete(np.where(missing, np.nan, numbers), name, gaps)
        if kind == "part":
            table = np.stack(list(values)).astype(np.float64)
            return {str(place): table[:, place] for place in range(table.shape[1])}
        for row, value in enumerate(values):
            if is_missing(value) and not self.gaps:
                raise ValueError(
                    f"column '{name}' at row {row} is missing: drop the row, fill the gap, or make the model with missing="
                )
        categories = np.array(["" if is_missing(value) else name_of(value) for value in values], dtype=object)
        there = ~gaps if self.gaps else np.ones(len(values), dtype=bool)
        strange = [category not in self.known[name] and own for category, own in zip(categories, there, strict=True)]
        if any(strange):
            row = int(np.argmax(strange))
            raise ValueError(
                f"column '{name}' has the category '{categories[row]}' at row {row}, which the model does not know; "
                "`partial_fit` extends a model by new categories, `Agreement.extended` an agreement"
            )
        return {category: ((categories == category) & there).astype(np.float64) for category in self.known[name]}

    @staticmethod
    def complete(numbers: NDArray[np.float64], name: str, gaps: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Numbers of which none is missing but those in allowed gaps."""
        missing = np.isnan(numbers) & ~gaps if len(gaps) else np.isnan(numbers)
        if missing.any():
            row = int(np.argmax(missing))
            raise ValueError(
                f"Input X contains NaN: column '{name}' at row {row} is missing: drop the row, fill the gap, or make the model "
                "with missing="
            )
        return numbers
