"""Continual learning that equals joint training.

Tasks arrive one after another; each is summarized and its rows are discarded; the model after every task is the one joint
training on all rows would have given.

>>> from pmfcl import ContinualRegressor, Summary
>>> model = ContinualRegressor(ridge=0.0).partial_fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
>>> model.predict([[3.0]]).round(9)
array([7.])
"""

import os

from . import _core
from ._classifier import ContinualClassifier
from ._core import ModelChangedError, Summary, __version__
from ._regressor import ContinualRegressor
from ._views import Conflicts, FrontPoint, History, ParetoFront

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


def load(path: str | os.PathLike[str]) -> ContinualRegressor | ContinualClassifier:
    """The estimator a model file holds, made here or by the command line."""
    model = _core.Model.load(path)
    if model.problem()["predicts_classes"]:
        return ContinualClassifier._of(model, path)
    return ContinualRegressor._of(model, path)
