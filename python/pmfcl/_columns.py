"""Tables for a model the command line made: text, dates and lists become the inputs it knows."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._labels import name_of

MICROSECONDS = 86_400_000_000


# Column, kind, and the place in a list or the category.
Origin = tuple[str, str, str | None]


class Columns:
    """Where every input of a model comes from: a column, what it holds, and the category or place within it."""

    def __init__(self, origins: Sequence[Origin]) -> None:
        self.origins = origins
        self.known: dict[str, set[str]] = {}
        for name, kind, part in origins:
            if kind == "category" and part is not None:
                self.known.setdefault(name, set()).add(part)

    @classmethod
    def of(cls, origins: Sequence[Origin]) -> Self | None:
        """The columns of a model, or None where all are numbers and nothing need be done."""
        return None if all(kind == "number" for _, kind, _ in origins) else cls(origins)

    def cover(self, table: Any) -> bool:
        """Whether a table has all these columns by name."""
        names = getattr(table, "column_names", None) or getattr(table, "columns", None)
        return names is not None and not callable(names) and {name for name, _, _ in self.origins} <= set(names)

    def encode(self, table: Any) -> NDArray[np.float64]:
        """The inputs of every row."""
        held: dict[str, Any] = {}
        columns = []
        for name, kind, part in self.origins:
            if name not in held:
                held[name] = self.column(np.asarray(table[name]), name, kind)
            columns.append(held[name][part] if kind in ("category", "part") else held[name])
        return np.column_stack(columns)

    def column(
        self, values: NDArray[Any], name: str, kind: str
    ) -> NDArray[np.float64] | dict[str, NDArray[np.float64]]:
        """One column as numbers; by category or place where it is several inputs."""
        if kind == "number":
            return values.astype(np.float64)
        if kind == "date":
            stamps = values.astype("datetime64[us]").astype(np.int64)
            days: NDArray[np.float64] = stamps // MICROSECONDS + (stamps % MICROSECONDS / 1e6) / 86_400
            return days
        if kind == "part":
            table = np.stack(list(values)).astype(np.float64)
            return {str(place): table[:, place] for place in range(table.shape[1])}
        categories = np.array([name_of(value) for value in values], dtype=object)
        strange = [category not in self.known[name] for category in categories]
        if any(strange):
            row = int(np.argmax(strange))
            raise ValueError(
                f"column '{name}' has the category '{categories[row]}' at row {row}, which the model does not know; "
                "`pmfcl learn` extends a model by new categories"
            )
        return {category: (categories == category).astype(np.float64) for category in self.known[name]}
