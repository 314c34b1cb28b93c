"""What a model says of its tasks, as small tables."""

from collections.abc import Sequence
from dataclasses import dataclass
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
