"""What a model says of its tasks, as small tables."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class History:
    """Loss and forgetting of task `t` after task `k`, at `[k, t]`; NaN where task `t` was still to come.

    For losses that are bounded (huber, poisson, logistic) both are upper bounds. A gaussian loss is measured by the covariance of the model after task `k`.
    """

    tasks: list[str]
    loss: np.ndarray
    forgetting: np.ndarray


@dataclass(frozen=True)
class Conflicts:
    """`forgetting[i, j]`: what task i loses in the joint model of i and j; `p_value`: whether that could be noise.

    The test assumes independent noise, equal for rows of the same weight. Where it gives no p-value the cell is NaN and
    `reason[i][j]` says why in words; it is None elsewhere and on the diagonal, where there is nothing to test.
    """

    tasks: list[str]
    forgetting: np.ndarray
    p_value: np.ndarray
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
    weight: np.ndarray
    loss_a: np.ndarray
    loss_b: np.ndarray
    current: tuple[float, float]
    knee: FrontPoint
    minmax: FrontPoint

    def __len__(self):
        return len(self.weight)


def grid(rows):
    """A table with NaN for what is unknown."""
    return np.array([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=np.float64)


def front(found):
    """The front as the core tells it."""
    return ParetoFront(**{**found, "knee": FrontPoint(*found["knee"]), "minmax": FrontPoint(*found["minmax"])})
