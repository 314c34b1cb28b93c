"""The tasks of a model as a small table, for notebooks."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._continual import Continual

SHOWN = 12
STYLE = "text-align:right;padding:2px 8px"


def number(value: float | None) -> str:
    """Four digits, or a dash for what is not known."""
    return "–" if value is None else f"{value:.4g}"


def tasks(estimator: "Continual") -> str:
    """A table of the newest tasks: what each has, and what is forgotten of it."""
    listed = estimator.tasks_
    best = "best possible" if estimator._model.problem()["exact"] else "best possible ≥"
    head = ("task", "samples", "weight", "loss", best, "forgetting", "bound")
    rows = ["".join(f"<th style='{STYLE}'>{name}</th>" for name in head)]
    for task in listed[-SHOWN:]:
        bound = number(task["bound"]) + ("" if task["guaranteed"] else "?")
        cells = [escape(task["name"]), number(task["samples"]), number(task["weight"])]
        cells += [number(task["loss"]), number(task["min_loss"]), number(task["forgetting"]), bound]
        rows.append("".join(f"<td style='{STYLE}'>{cell}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"; the last {SHOWN} of {len(listed)} tasks" if len(listed) > SHOWN else ""
    unsure = any(not task["guaranteed"] for task in listed)
    note = " ? : an estimate, not a guaranteed bound" if unsure else ""
    caption = f"{estimator.n_samples_:.10g} samples in {estimator.state_bytes_} bytes of memory{more}.{note}"
    return f"<table style='border-collapse:collapse'>{body}</table><p>{caption}</p>"
