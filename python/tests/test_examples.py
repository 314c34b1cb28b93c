"""Every example runs, and shows what it says."""

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_monthly_ridge():
    pytest.importorskip("pandas")
    found = load("monthly_ridge").main()
    assert found["months"] == 24
    assert found["gap"] < 1e-6
    assert found["bytes"] < 200_000


def test_class_incremental():
    found = load("class_incremental").main()
    assert found["gap"] < 1e-6
    assert found["accuracy"] > 0.9
    assert found["sgd"] < 0.5


def test_conflicts_and_fronts(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    found = load("conflicts_and_fronts").main(tmp_path)
    assert found["p"][0, 1] > 0.01 > found["p"][0, 2]
    assert found["lost"] <= found["allowed"] * (1 + 1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"front.png", "conflicts.png"}


def test_unlearn_a_customer():
    found = load("unlearn_a_customer").main()
    assert found["gap"] < 1e-10
    assert (found["held"], found["left"]) == (True, False)


def test_ridge_without_data():
    errors = load("ridge_without_data").main()
    for way in ("auto", "leave-one-task-out"):
        assert errors[way] < errors["minimum norm"]
        assert errors[way] < 1.5 * errors["the best in hindsight"]


def test_every_example_is_tested():
    tested = {name.removeprefix("test_") for name in dir(sys.modules[__name__]) if name.startswith("test_")}
    recipes = {"avalanche_strategy", "mammoth_model"}  # in test_torch.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested - {"every_example_is_tested"} | recipes
