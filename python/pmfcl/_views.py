"""What a model says of its tasks, as small tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class History:
    """Loss and forgetting of task `t` after task `k`, at `[k, t]`; NaN where task `t` was still to come.

    For losses that are bounded (huber, poisson, logistic) both are upper bounds. A gaussian loss is measured by the covariance of the model after task `k`.
    """

    tasks: list[str]
    loss: NDArray[np.float64]
    forgetting: NDArray[np.float64]


@dataclass(frozen=True)
class Conflicts:
    """`forgetting[i, j]`: what task i loses in the joint model of i and j; `p_value`: whether that could be noise.

    The test assumes independent noise, equal for rows of the same weight. Where it gives no p-value the cell is NaN and
    `reason[i][j]` says why in words; it is None elsewhere and on the diagonal, where there is nothing to test.
    """

    tasks: list[str]
    forgetting: NDArray[np.float64]
    p_value: NDArray[np.float64]
    reason: list[list[str | None]]


@dataclass(frozen=True)
class FrontPoint:
    """A trade-off: `weight` of the first task, and the losses of both."""

    weight: float
    loss_a: float
    loss_b: float


@dataclass(frozen=True)
class ParetoFront:
    """Everything two tasks, or two groups, can have at once; a single point, of weight 0.5, where one model is best for both."""

    a: str
    b: str
    weight: NDArray[np.float64]
    loss_a: NDArray[np.float64]
    loss_b: NDArray[np.float64]
    current: tuple[float, float]
    knee: FrontPoint
    minmax: FrontPoint

    def __len__(self) -> int:
        return len(self.weight)


def grid(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
    """A table with NaN for what is unknown."""
    return np.array([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=np.float64)


def front(found: dict[str, Any]) -> ParetoFront:
    """The front as the core tells it."""
    return ParetoFront(**{**found, "knee": FrontPoint(*found["knee"]), "minmax": FrontPoint(*found["minmax"])})


class CheckReport:
    """What a model says of rows that are not yet learned; see `check`.

    `findings` are dicts of kind, warning and text, warnings first; `warnings` are the texts of those; `ok` is whether there are
    none. `drift`, `columns`, `outliers`, `new_categories`, `new_classes`, `repeats` and `score` hold the numbers, `refused` the
    conditions of `refuse_if` that hold.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._found:
            raise AttributeError(f"a report of check has no '{name}'; it has {', '.join(self._found)}")
        return self._found[name]

    @property
    def warnings(self) -> list[str]:
        """Texts of what should be looked at before learning."""
        return [finding["text"] for finding in self._found["findings"] if finding["warning"]]

    @property
    def ok(self) -> bool:
        """Whether there is nothing to warn of, and no condition of `refuse_if` holds."""
        return not self.warnings and not self._found["refused"]

    def to_dict(self) -> dict[str, Any]:
        """All of it."""
        return dict(self._found)

    def __repr__(self) -> str:
        lines = [f"{'!' if finding['warning'] else '·'} {finding['text']}" for finding in self._found["findings"]]
        return "\n".join([f"{self._found['rows']} rows: {'ok' if self.ok else 'look first'}", *lines])

    def _repr_html_(self) -> str:
        items = "".join(
            f"<li>{'<b>!</b> ' if finding['warning'] else ''}{escape(finding['text'])}</li>"
            for finding in self._found["findings"]
        )
        rows = "".join(
            f"<tr><td>{row['row']}</td><td>{escape(row['reason'])}</td></tr>" for row in self._found["outliers"]
        )
        table = f"<table><tr><th>row</th><th>far off</th></tr>{rows}</table>" if rows else ""
        return f"<p>{self._found['rows']} rows: {'ok' if self.ok else 'look first'}</p><ul>{items}</ul>{table}"


def coefficients(model: Any, layer: Any, outputs: list[str], level: float) -> Any:
    """Coefficients with their names, and what is known of their errors: a pandas frame where there is pandas."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it must lie between 0 and 1, such as 0.95")
    intercepts, coefs = (np.atleast_1d(layer[0]), np.atleast_2d(layer[1]))
    found, reason = model.standard_errors()
    names = model.facts()["columns"]
    outputs = outputs if len(outputs) == len(coefs) else outputs[-len(coefs) :]
    intercept = model.settings()["fit_intercept"]
    contrasts = model.contrasts()
    table = []
    for k, output in enumerate(outputs):
        values = [*([intercepts[k]] if intercept else []), *coefs[k]]
        if contrasts is not None:
            values = [sum(factor * values[j] for j, factor in contrast) for contrast in contrasts]
        labels = [*(["(intercept)"] if intercept else []), *names]
        errors = found[0][k] if found is not None else [None] * len(values)
        for label, value, error in zip(labels, values, errors, strict=True):
            row = {"target": output, "name": label, "coef": float(value)}
            if reason is None:
                from scipy.stats import t as student

                there = error is not None and error > 0
                ratio = value / error if there else np.nan
                reach = student.ppf((1 + level) / 2, found[1]) * error if there else np.nan
                row |= {
                    "std_error": np.nan if error is None else error,
                    "t": ratio,
                    "p_value": 2 * student.sf(abs(ratio), found[1]) if there else np.nan,
                    "low": value - reach,
                    "high": value + reach,
                }
            table.append(row)
    try:
        import pandas as pd
    except ImportError:
        return table
    return pd.DataFrame(table)
