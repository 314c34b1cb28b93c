"""Pictures of a fitted model, with matplotlib (`pip install pmfcl[plot]`).

Each function draws into the axes it is given, or new ones, and returns them.

>>> from pmfcl import ContinualRegressor, plot
>>> model = ContinualRegressor().partial_fit([[0.0], [1.0], [3.0]], [0.0, 1.2, 2.9], task="a")
>>> model = model.partial_fit([[0.0], [2.0], [3.0]], [3.0, 1.1, 0.2], task="b")
>>> axes = plot.front(model, "a", "b")  # doctest: +SKIP
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._continual import Continual

# Axes of matplotlib, which need not be installed.
Axes = Any

INK = "#30343b"
MUTED = "#c3c7cd"
LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
SHOWN = 30


def _axes(axes: Axes | None, size: tuple[float, float] = (6.4, 4.4)) -> Axes:
    """Axes to draw into."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'pmfcl[plot]'") from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def _shown(count: int, most: int = SHOWN) -> NDArray[np.intp]:
    """Places of at most so many tasks, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def _some(places: NDArray[np.intp], count: int) -> str:
    """What a title says where not all tasks are shown."""
    return "" if len(places) == count else f" ({len(places)} of {count} tasks)"


def _named(axis: Any, names: Sequence[str], rotate: bool = False, places: NDArray[np.intp] | None = None) -> None:
    """Task names along an axis, cut where they are long."""
    axis.set_ticks(
        range(len(names)) if places is None else places,
        [name if len(name) <= 14 else name[:13] + "…" for name in names],
    )
    if rotate:
        for label in axis.get_ticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")


def _short(value: float) -> str:
    """Two digits that count, without an exponent where there need be none."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:g}" if 1e-3 <= abs(rounded) < 1e5 or rounded == 0 else f"{rounded:.1e}"


def _heat(axes: Axes, values: NDArray[np.float64], names: Sequence[str], label: str) -> None:
    """A heat map with a number in every cell that has room for it."""
    image = axes.imshow(np.ma.masked_invalid(values), cmap="Blues", aspect="auto")
    axes.figure.colorbar(image, ax=axes, label=label)
    if len(names) <= 12:
        low, high = np.nanmin(values), np.nanmax(values)
        for i, j in np.argwhere(np.isfinite(values)):
            dark = high > low and (values[i, j] - low) / (high - low) > 0.55
            axes.text(j, i, _short(values[i, j]), ha="center", va="center", fontsize=8, color="white" if dark else INK)
    _named(axes.xaxis, names, rotate=True)
    _named(axes.yaxis, names)
    axes.spines[:].set_visible(False)


def forgetting(model: "Continual", axes: Axes | None = None) -> Axes:
    """What was forgotten of every task after every task, from the summaries alone."""
    history = model.history()
    places = _shown(len(history.tasks))
    axes = _axes(axes)
    label = "forgetting" if _exact(model) else "bound on forgetting"
    names = [history.tasks[k] for k in places]
    _heat(axes, history.forgetting[np.ix_(places, places)], names, label)
    title = f"{label.capitalize()} of every task over time{_some(places, len(history.tasks))}"
    axes.set(xlabel="task", ylabel="after learning", title=title)
    return axes


def losses(model: "Continual", axes: Axes | None = None) -> Axes:
    """Loss of every task as others arrive. Up to six have a colour and, dotted, the least they could have; the rest are grey."""
    history, tasks = model.history(), model.tasks_
    places = _shown(len(tasks))
    axes = _axes(axes)
    marked = _shown(len(tasks), len(LINES))
    least = history.loss - history.forgetting
    for colour, t in zip(LINES, marked, strict=False):
        axes.plot(
            range(t, len(tasks)), history.loss[t:, t], color=colour, marker="o", ms=3, lw=1.6, label=tasks[t]["name"]
        )
        axes.plot(range(t, len(tasks)), least[t:, t], color=colour, lw=1, ls=":")
    others = np.setdiff1d(np.arange(len(tasks)), marked)
    for k, t in enumerate(others):
        name = None if k else f"{len(others)} other task{'s' if len(others) > 1 else ''}"
        axes.plot(range(t, len(tasks)), history.loss[t:, t], color=MUTED, lw=0.8, zorder=1, label=name)
    weights = np.array([task["samples"] for task in tasks])
    mean = [np.average(history.loss[k, : k + 1], weights=weights[: k + 1]) for k in range(len(tasks))]
    axes.plot(range(len(tasks)), mean, color=INK, lw=2.2, label="mean over samples so far")
    _named(axes.xaxis, [tasks[k]["name"] for k in places], rotate=True, places=places)
    label = "loss" if _exact(model) else "bound on the loss"
    axes.set(
        xlabel="after learning",
        ylabel=label,
        title=f"{label.capitalize()} as tasks arrive (dotted: the task's own best)",
    )
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def front(
    model: "Continual",
    a: str | Iterable[object],
    b: str | Iterable[object],
    points: int = 100,
    axes: Axes | None = None,
) -> Axes:
    """The Pareto front of two tasks or groups, with the current model, the knee and the min-max point."""
    found = model.pareto_front(a, b, points)
    axes = _axes(axes, (5.6, 4.6))
    axes.plot(found.loss_a, found.loss_b, color=LINES[0], lw=2, label="front")
    if any(losses.min() > 0 and losses.max() > 20 * losses.min() for losses in (found.loss_a, found.loss_b)):
        # Where one end of the front is far off, a linear axis would show little else.
        axes.set(xscale="log", yscale="log")
    marks = {
        "current": (*found.current, "o"),
        "knee": (found.knee.loss_a, found.knee.loss_b, "D"),
        "min-max": (found.minmax.loss_a, found.minmax.loss_b, "s"),
    }
    for colour, (name, (x, y, marker)) in zip(LINES[1:], marks.items(), strict=False):
        axes.plot(x, y, marker, color=colour, ms=8, label=name)
    axes.set(
        xlabel=f"loss of {found.a}", ylabel=f"loss of {found.b}", title=f"What {found.a} and {found.b} can have at once"
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def conflicts(model: "Continual", axes: Axes | None = None) -> Axes:
    """What every task loses in the joint model with each other; bold where noise alone would not do it (p < 0.01)."""
    found = model.conflicts()
    places = _shown(len(found.tasks))
    axes = _axes(axes)
    values, p = (table[np.ix_(places, places)] for table in (found.forgetting, found.p_value))
    _heat(axes, values, [found.tasks[k] for k in places], "lost in the joint model of two")
    for text in axes.texts:
        j, i = (int(v) for v in text.get_position())
        if np.isfinite(p[i, j]) and p[i, j] < 0.01:
            text.set_fontweight("bold")
    title = f"Conflicts between tasks{_some(places, len(found.tasks))} (bold: p < 0.01)"
    axes.set(xlabel="together with", ylabel="task", title=title)
    return axes


def _exact(model: "Continual") -> bool:
    """Whether losses are values and not bounds."""
    return bool(model._model.problem()["exact"])
