"""Bridges to torch. It is large, so it is no part of the gate: where it is missing, these tests say so and are skipped, and the
recipes are compiled at least."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from conftest import learned, stacked
from pmfcl import ContinualClassifier, ContinualRegressor

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["avalanche_strategy", "mammoth_model"])
def test_recipes_compile(name):
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    assert any(isinstance(node, ast.ClassDef) for node in tree.body)


def test_a_layer_says_what_the_model_says(months, flowers):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    X, _ = stacked(months)
    model = learned(ContinualRegressor(), months)
    np.testing.assert_allclose(
        model.to_linear()(torch.from_numpy(X)).detach().numpy()[:, 0], model.predict(X), rtol=1e-12
    )
    X, _ = stacked(flowers)
    model = learned(ContinualClassifier(), flowers)
    layer = model.to_linear()
    np.testing.assert_allclose(
        torch.softmax(layer(torch.from_numpy(X)), 1).detach().numpy(), model.predict_proba(X), rtol=1e-9, atol=1e-15
    )
    assert model.to_linear(torch.float32).weight.dtype == torch.float32


def test_only_a_linear_basis_is_a_layer(months):
    with pytest.raises(ValueError, match="ONNX"):
        learned(ContinualRegressor(basis="poly:2"), months).to_linear()


def test_the_avalanche_strategy_is_joint_training(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    pytest.importorskip("avalanche", reason="avalanche is not installed: pip install avalanche-lib")
    from avalanche.benchmarks import nc_benchmark
    from torch.utils.data import TensorDataset

    y = rng.integers(6, size=600)
    X = rng.normal(size=(600, 1, 3, 3)) + (y[:, None] == np.arange(9)).reshape(-1, 1, 3, 3) * 3
    data = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(y))
    data.targets = y.tolist()
    benchmark = nc_benchmark(data, data, n_experiences=3, task_labels=False, seed=0)
    spec = importlib.util.spec_from_file_location("avalanche_strategy", EXAMPLES / "avalanche_strategy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    strategy = module.ExactHead(features=torch.nn.Flatten())
    for experience in benchmark.train_stream:
        strategy.train(experience)
    flat = X.reshape(600, -1).astype(np.float32).astype(float)
    joint = ContinualClassifier().fit(flat, y)
    assert len(strategy.classifier.tasks_) == 3
    np.testing.assert_allclose(
        strategy.classifier.predict_proba(flat), joint.predict_proba(flat), rtol=1e-7, atol=1e-12
    )
    assert strategy.accuracy(benchmark.test_stream) == pytest.approx(joint.score(flat, y))
    told = strategy.eval(benchmark.test_stream)
    assert told["Top1_Acc_Stream/eval_phase/test_stream/Task000"] == pytest.approx(joint.score(flat, y))
