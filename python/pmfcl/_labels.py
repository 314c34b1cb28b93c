"""Class labels of Python and class names of the model file, both ways."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A label as users give it: text, a number or a boolean.
Label = Any


def name_of(label: Label) -> str:
    """The name the command line would give a class: numbers by their value, booleans in lower case."""
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    if isinstance(label, int | np.integer):
        return str(int(label))
    if isinstance(label, float | np.floating):
        return np.format_float_positional(label, trim="-")
    return str(label)


def labels_of(names: Sequence[str]) -> NDArray[Any]:
    """Labels for the class names of a file: whole numbers, numbers, booleans or text, whichever all of them are."""
    if all(name in ("false", "true") for name in names):
        return np.array([name == "true" for name in names])
    for kind in (np.int64, np.float64):
        try:
            labels: NDArray[Any] = np.array([kind(name) for name in names])
        except (ValueError, OverflowError):
            continue
        if [name_of(label) for label in labels] == list(names):
            return labels
    return np.array(names, dtype=object)


class Classes:
    """The classes of a classifier: in scikit-learn's order outside, in the model's order inside."""

    def __init__(self) -> None:
        self.by_name: dict[str, Label] = {}

    def add(self, labels: Iterable[Label]) -> list[str]:
        """Takes labels in, and gives the name of each."""
        labels = list(labels)
        names = [name_of(label) for label in labels]
        known = dict(self.by_name)
        for name, label in zip(names, labels, strict=True):
            known.setdefault(name, label)
        if len({np.asarray(label).dtype.kind in "US" for label in known.values()}) > 1:
            raise ValueError(
                f"labels are text and numbers at once: {', '.join(map(repr, known.values()))}; use one kind"
            )
        self.by_name = known
        return names

    def outside(self, names: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Labels of the model's classes in sorted order, and the place of each among `names`."""
        labels = self.inside(names)
        order = np.argsort(labels, kind="stable")
        return labels[order], order

    def inside(self, names: Sequence[str]) -> NDArray[Any]:
        """Labels in the order of `names`."""
        labels = [self.by_name[name] for name in names]
        if any(isinstance(label, str) for label in labels):
            # Text of unlike lengths must not be cut.
            fixed = all(isinstance(label, np.str_) for label in labels)
            return np.array(labels) if fixed else np.array(labels, dtype=object)
        return np.array(labels)
