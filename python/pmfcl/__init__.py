"""Continual learning that equals joint training.

Tasks arrive one after another; each is summarized and its rows are discarded; the model after every task is the one joint
training on all rows would have given.

>>> from pmfcl import ContinualRegressor, Summary
>>> model = ContinualRegressor(ridge=0.0).partial_fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
>>> model.predict([[3.0]]).round(9)
array([7.])
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from . import _core
from ._core import ModelChangedError, Summary, __version__
from ._views import Conflicts, FrontPoint, History, ParetoFront

if TYPE_CHECKING:
    from ._classifier import ContinualClassifier
    from ._regressor import ContinualRegressor

__all__ = [
    "Conflicts",
    "ContinualClassifier",
    "ContinualRegressor",
    "FrontPoint",
    "History",
    "ModelChangedError",
    "ParetoFront",
    "Summary",
    "__version__",
    "load",
]


# Where names are that come with scikit-learn, which takes seconds to import. Workers of a cluster summarize rows without it, each in a
# process of its own.
_LATER = {"ContinualClassifier": "._classifier", "ContinualRegressor": "._regressor"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'pmfcl' has no attribute '{name}'")
    found = getattr(importlib.import_module(_LATER[name], __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(path: str | os.PathLike[str]) -> "ContinualRegressor | ContinualClassifier":
    """The estimator a model file holds, made here or by the command line."""
    from ._classifier import ContinualClassifier
    from ._regressor import ContinualRegressor

    model = _core.Model.load(path)
    if model.problem()["predicts_classes"]:
        return ContinualClassifier._of(model, path)
    return ContinualRegressor._of(model, path)
