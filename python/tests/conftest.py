"""Data every test may want."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn leaves one of its checks out

import numpy as np
import pytest


@pytest.fixture
def rng():
    """Numbers that are the same every time."""
    return np.random.default_rng(7)


@pytest.fixture
def months(rng):
    """Four tasks of unlike size whose truths differ: rows, targets."""
    tasks = []
    for k, n in enumerate((40, 90, 25, 60)):
        X = rng.normal(size=(n, 5)) + 0.3 * k
        y = X @ (np.arange(5.0) + 0.2 * k) + 3.0 + rng.normal(scale=0.5, size=n)
        tasks.append((X, y))
    return tasks


@pytest.fixture
def flowers(rng):
    """Three tasks of classes, one of which appears only in the last."""
    tasks = []
    for k, classes in enumerate((["oak", "elm"], ["elm", "oak"], ["ash", "oak"])):
        y = rng.choice(classes, size=50)
        centre = {"oak": 0.0, "elm": 1.5, "ash": -1.5}
        X = rng.normal(size=(50, 4)) + np.array([centre[label] for label in y])[:, None] + 0.1 * k
        tasks.append((X, y))
    return tasks


def pytest_terminal_summary(terminalreporter):
    """Says how many of scikit-learn's own checks ran."""
    checks = [r for r in terminalreporter.stats.get("passed", []) if "test_estimator_checks" in r.nodeid]
    if checks:
        terminalreporter.write_line(f"{len(checks)} of scikit-learn's estimator checks passed")


def stacked(tasks):
    """All tasks as one table."""
    return np.vstack([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])


def learned(model, tasks, **options):
    """A model that has learned the tasks one after the other."""
    for k, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=f"t{k}", **options)
    return model
