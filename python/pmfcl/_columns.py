"""Frames with text, categories, booleans and dates: the inputs a model makes of them, and where each input comes from."""

import datetime
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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


# Column, kind, and the place in a list or the category.
Origin = tuple[str, str, str | None]


class Columns:
    """Where every input of a model comes from: a column, what it holds, and the category or place within it."""

    def __init__(self, origins: Sequence[Origin]) -> None:
        self.origins: list[Origin] = [(name, kind, part) for name, kind, part in origins]
        self.known: dict[str, dict[str, None]] = {}
        for name, kind, part in self.origins:
            if kind == "category" and part is not None:
                self.known.setdefault(name, {})[part] = None

    @classmethod
    def of(cls, origins: Sequence[Origin]) -> Self | None:
        """The columns of a model, or None where all are numbers and nothing need be done."""
        return None if all(kind == "number" for _, kind, _ in origins) else cls(origins)

    @classmethod
    def of_frame(cls, table: Any) -> Self | None:
        """The columns of a frame that holds more than numbers; None for others."""
        names = column_names(table)
        if names is None or not all(isinstance(name, str) for name in names):
            return None
        cells = {name: values_of(table[name]) for name in names}
        kinds = {name: kind_of(values) for name, values in cells.items()}
        if all(kind == "number" for kind in kinds.values()) and all(v.dtype.kind != "O" for v in cells.values()):
            return None
        origins: list[Origin] = []
        for name in names:
            if kinds[name] != "category":
                origins.append((name, kinds[name], None))
                continue
            found = dict.fromkeys(name_of(value) for value in cells[name] if not is_missing(value))
            origins.extend((name, "category", category) for category in found)
        return cls(origins)

    def names(self) -> list[str]:
        """Names of the inputs, as the command line gives them."""
        plain = {"category": "{}={}", "part": "{}[{}]"}
        return [plain.get(kind, "{}").format(name, part) for name, kind, part in self.origins]

    def column_names(self) -> list[str]:
        """Names of the columns, in the order of their first inputs."""
        return list(dict.fromkeys(name for name, _, _ in self.origins))

    def cover(self, table: Any) -> bool:
        """Whether a table has all these columns by name."""
        names = column_names(table)
        return names is not None and {name for name, _, _ in self.origins} <= set(names)

    def added_to(self, known: "Columns | None") -> list[tuple[str, str]]:
        """Column and category of each input that `known` has not."""
        added = self.origins[0 if known is None else len(known.origins) :]
        return [(name, category) for name, _, category in added if category is not None]

    def grown(self, table: Any) -> "Columns":
        """These columns with the categories of a table that are new, at the end."""
        new: list[Origin] = []
        for name, known in self.known.items():
            found = dict.fromkeys(name_of(v) for v in values_of(table[name]) if not is_missing(v))
            new.extend((name, "category", category) for category in found if category not in known)
        return Columns(self.origins + new) if new else self

    def encode(self, table: Any) -> NDArray[np.float64]:
        """The inputs of every row."""
        held: dict[str, Any] = {}
        columns = []
        for name, kind, part in self.origins:
            if name not in held:
                held[name] = self.column(values_of(table[name]), name, kind)
            columns.append(held[name][part] if kind in ("category", "part") else held[name])
        return np.column_stack(columns)

    def column(
        self, values: NDArray[Any], name: str, kind: str
    ) -> NDArray[np.float64] | dict[str, NDArray[np.float64]]:
        """One column as numbers; by category or place where it is several inputs."""
        if kind == "number":
            if values.dtype.kind == "O":
                values = np.array([np.nan if is_missing(value) else float(value) for value in values])
            return self.complete(values.astype(np.float64), name)
        if kind == "date":
            if values.dtype.kind == "O":
                return self.complete(np.array([np.nan if is_missing(v) else days(v) for v in values]), name)
            stamps = values.astype("datetime64[us]")
            missing, stamps = np.isnat(stamps), stamps.astype(np.int64)
            numbers: NDArray[np.float64] = stamps // MICROSECONDS + (stamps % MICROSECONDS / 1e6) / 86_400
            return self.complete(np.where(missing, np.nan, numbers), name)
        if kind == "part":
            table = np.stack(list(values)).astype(np.float64)
            return {str(place): table[:, place] for place in range(table.shape[1])}
        for row, value in enumerate(values):
            if is_missing(value):
                raise ValueError(f"column '{name}' at row {row} is missing: drop the row or fill the gap")
        categories = np.array([name_of(value) for value in values], dtype=object)
        strange = [category not in self.known[name] for category in categories]
        if any(strange):
            row = int(np.argmax(strange))
            raise ValueError(
                f"column '{name}' has the category '{categories[row]}' at row {row}, which the model does not know; "
                "`partial_fit` extends a model by new categories"
            )
        return {category: (categories == category).astype(np.float64) for category in self.known[name]}

    @staticmethod
    def complete(numbers: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        """Numbers of which none is missing."""
        missing = np.isnan(numbers)
        if missing.any():
            row = int(np.argmax(missing))
            raise ValueError(
                f"Input X contains NaN: column '{name}' at row {row} is missing: drop the row or fill the gap"
            )
        return numbers
