"""One table for all engines, and the model of one process."""

import numpy as np
import pyarrow as pa
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, distributed


@pytest.fixture(scope="session")
def table():
    """Numbers, text, a date, classes, counts and tasks, 2,000 rows; one category occurs once."""
    rng, n = np.random.default_rng(5), 2000
    x = rng.normal(size=(n, 2))
    site = rng.choice(["north", "south", "east"], size=n)
    site[-1] = "alone"
    cost = x @ [2.0, -1.0] + (site == "south") + rng.normal(scale=0.3, size=n)
    day = np.datetime64("2024-01-01", "ns") + rng.integers(300, size=n).astype("timedelta64[D]")
    return pa.table(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "day": day,
            "site": site,
            "cost": cost,
            "grade": np.where(cost > 0.8, "high", np.where(cost < -0.8, "low", "middle")),
            "count": rng.poisson(np.exp(0.4 * x[:, 0])).astype(float),
            "month": np.arange(n) * 4 // n,
        }
    )


FEATURES = ["a", "b", "day", "site"]
# Target, settings and tolerance: quadratic losses to rounding, others to the aim of their fits.
CASES = [
    ("cost", {"ridge": 0.01}, 1e-10),
    ("grade", {"loss": "gaussian"}, 1e-10),
    ("grade", {"loss": "logistic"}, 1e-6),
    ("count", {"loss": "poisson"}, 1e-6),
    ("cost", {"loss": "huber"}, 1e-6),
]


def made(target, settings):
    return (ContinualClassifier if target == "grade" else ContinualRegressor)(**settings)


def single(table, target, settings):
    """The model of one process."""
    recipe = distributed.Recipe.of(made(target, settings), table.schema, target=target, task="month", features=FEATURES)

    def here(work):
        return distributed.collected([work.runner()([table], "here")])

    return distributed.learn_with(made(target, settings), recipe, here)


def assert_same(model, table, target, settings, tolerance):
    """Both predict the same."""
    answer = "predict_proba" if target == "grade" else "predict"
    expected = getattr(single(table, target, settings), answer)(table)
    np.testing.assert_allclose(getattr(model, answer)(table), expected, rtol=tolerance, atol=tolerance)
    assert [task["samples"] for task in model.tasks_] == [500.0] * 4
