"""Pictures: what is drawn is what the model says."""

import numpy as np
import pytest
from conftest import learned

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")

import matplotlib.pyplot as plt
from pmfcl import ContinualClassifier, ContinualRegressor, plot


@pytest.fixture(autouse=True)
def close():
    """No figure outlives its test."""
    yield
    plt.close("all")


def test_every_picture_holds_the_numbers(months):
    model = learned(ContinualRegressor(ridge=0.1), months)
    axes = plot.front(model, "t0", "t3", points=30)
    front = model.pareto_front("t0", "t3", points=30)
    x, y = axes.lines[0].get_data()
    np.testing.assert_array_equal(x, front.loss_a)
    np.testing.assert_array_equal(y, front.loss_b)
    assert axes.lines[1].get_data()[0][0] == front.current[0]
    drawn = plot.forgetting(model).images[0].get_array()
    np.testing.assert_array_equal(drawn.filled(np.nan), model.history().forgetting)
    drawn = plot.conflicts(model)
    np.testing.assert_array_equal(drawn.images[0].get_array(), model.conflicts().forgetting)
    bold = sum(text.get_fontweight() == "bold" for text in drawn.texts)
    assert bold == np.sum(model.conflicts().p_value < 0.01)
    lines = plot.losses(model).lines
    np.testing.assert_array_equal(lines[0].get_ydata(), model.history().loss[:, 0])
    assert lines[-1].get_ydata()[-1] == pytest.approx(
        sum(task["loss"] * task["samples"] for task in model.tasks_) / model.n_samples_
    )


def test_no_task_is_left_out_unsaid(rng):
    """Every task has its line of losses; where a table has no room for all tasks, its title says how many it shows."""
    model = ContinualRegressor()
    for k in range(40):
        X = rng.normal(size=(9, 2))
        model.partial_fit(X, X[:, 0] + rng.normal(size=9), task=f"t{k}")
        if k in (1, 6, 39):
            count = k + 1
            loss = model.history().loss
            axes = plot.losses(model)
            drawn = {(line.get_xdata()[0], *line.get_ydata()) for line in axes.lines}
            left_out = [t for t in range(count) if (t, *loss[t:, t]) not in drawn]
            assert left_out == []
            named = [text.get_text() for text in axes.get_legend().get_texts()]
            others = count - min(count, 6)
            assert (f"{others} other tasks" in named) == (others > 1)
            assert ("1 other task" in named) == (others == 1)
            assert len(named) == min(count, 6) + 1 + (others > 0)
            for picture in (plot.forgetting(model), plot.conflicts(model)):
                assert ("30 of 40 tasks" in picture.get_title()) == (count == 40)


def test_many_tasks_and_every_loss(rng, flowers, tmp_path):
    many = ContinualRegressor()
    for k in range(35):
        X = rng.normal(size=(12, 2))
        many.partial_fit(X, X[:, 0] + rng.normal(size=12), task=f"a rather long name of week {k}")
    models = [many, learned(ContinualClassifier(), flowers), learned(ContinualClassifier(loss="logistic"), flowers[:2])]
    for model in models:
        names = [task["name"] for task in model.tasks_]
        figure, axes = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
        plot.forgetting(model, axes[0, 0])
        plot.losses(model, axes[0, 1])
        plot.conflicts(model, axes[1, 0])
        plot.front(model, names[0], names[1:], axes=axes[1, 1])
        figure.savefig(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 10_000
