"""Exact models for River streams (`pip install pmfcl[river]`): one row at a time, or many.

Rows are kept until a prediction is asked for or a few hundred have gathered, then they are summarized. What is kept does
not grow with the stream, and the model is that of batch training on all rows so far. A feature that a row lacks is 0, as
everywhere in River; one that appears later was 0 before, and so is a class.

>>> from pmfcl.river import RiverRegressor
>>> model = RiverRegressor(alpha=0.0)
>>> for x, y in [({"a": 1.0}, 3.0), ({"a": 2.0}, 5.0), ({"a": 3.0, "b": 1.0}, 9.0)]:
...     model.learn_one(x, y)
>>> round(model.predict_one({"a": 4.0}), 6)
9.0
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from . import ContinualClassifier, ContinualRegressor, Summary

Row = Mapping[Hashable, Any]

GATHERED = 256


class _Stream:
    """Rows of a stream as one summary that grows in columns, not in rows."""

    def __init__(self, fit_intercept: bool) -> None:
        self.offset = int(fit_intercept)
        self.features: dict[Hashable, int] = {}
        self.rows: list[dict[Hashable, Any]] = []
        self.targets: list[Any] = []
        self.weights: list[float] = []
        self.summary: Summary | None = None

    @property
    def width(self) -> int:
        """Columns; a stream whose rows are empty has one of zeros."""
        return max(1, len(self.features))

    def meet(self, names: Iterable[Hashable]) -> None:
        """Gives new features their column."""
        for name in names:
            self.features.setdefault(name, len(self.features))

    def table(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        """Rows as an array; features nobody has learned are left out."""
        X = np.zeros((len(rows), self.width))
        for i, row in enumerate(rows):
            for name, value in row.items():
                at = self.features.get(name)
                if at is not None:
                    X[i, at] = value
        return X

    def frame(self, frame: Any) -> NDArray[np.float64]:
        """The same for a pandas frame."""
        X = np.zeros((len(frame), self.width))
        for name in frame.columns:
            if name in self.features:
                X[:, self.features[name]] = frame[name]
        return X

    def summarize(self, X: NDArray[np.float64], Y: NDArray[np.float64], weights: ArrayLike | None = None) -> None:
        """Adds rows to the summary, and to what came before the columns that are new."""
        new = Summary.from_data(X, Y, sample_weight=weights, fit_intercept=bool(self.offset), n_jobs=1)
        old = self.summary
        if old is not None:
            old = old.extend_features(old.width, new.width - old.width) if new.width > old.width else old
            old = (
                old.extend_targets(old.n_targets, new.n_targets - old.n_targets)
                if new.n_targets > old.n_targets
                else old
            )
        self.summary = new if old is None else old + new


class _River:
    """What both wrappers share."""

    _stream: _Stream
    _fitted: Any

    def _begin(self, fit_intercept: bool) -> None:
        self._stream, self._fitted = _Stream(fit_intercept), None

    def _target(self, y: Any) -> Any:
        raise NotImplementedError

    def _table(self, targets: list[Any]) -> NDArray[np.float64]:
        raise NotImplementedError

    def _solved(self, summary: Summary) -> Any:
        raise NotImplementedError

    def learn_one(self, x: Row, y: Any, w: float = 1.0) -> None:
        """Learns a row."""
        stream, self._fitted = self._stream, None
        stream.meet(x)
        stream.rows.append(dict(x))
        stream.targets.append(self._target(y))
        stream.weights.append(float(w))
        if len(stream.rows) >= GATHERED:
            self._gather()

    def learn_many(self, X: Any, y: Any) -> None:
        """Learns the rows of a pandas frame."""
        self._gather()
        stream, self._fitted = self._stream, None
        stream.meet(X.columns)
        targets = [self._target(label) for label in y]
        stream.summarize(stream.frame(X), self._table(targets))

    def _gather(self) -> None:
        """Summarizes the rows that wait."""
        stream = self._stream
        if stream.rows:
            stream.summarize(stream.table(stream.rows), self._table(stream.targets), stream.weights)
            stream.rows, stream.targets, stream.weights = [], [], []

    @property
    def summary(self) -> Summary | None:
        """All that is kept of the stream; None before the first row."""
        self._gather()
        return self._stream.summary

    def _model(self) -> Any:
        """The model of all rows so far; None before the first."""
        if self._fitted is None and (summary := self.summary) is not None:
            self._fitted = self._solved(summary)
        return self._fitted


class RiverRegressor(_River, base.MiniBatchRegressor):  # type: ignore[misc]  # of a package that need not be installed
    """`ContinualRegressor` for River streams: batch ridge regression after every row.

    Parameters
    ----------
    alpha : weight of `||w||²` relative to the *sum* of squared errors, as for scikit-learn's `Ridge`: what little a prior says, it says
        at the start, when there are fewer rows than features. 0 is least squares of minimum norm.
    fit_intercept : whether there is a free intercept.
    """

    def __init__(self, alpha: float = 1.0, fit_intercept: bool = True) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self._begin(fit_intercept)

    def _target(self, y: Any) -> float:
        return float(y)

    def _table(self, targets: list[Any]) -> NDArray[np.float64]:
        return np.array(targets, dtype=np.float64).reshape(-1, 1)

    def _solved(self, summary: Summary) -> ContinualRegressor:
        ridge = float(self.alpha) / summary.n_samples
        model = ContinualRegressor(ridge=ridge, fit_intercept=self.fit_intercept, n_jobs=1)
        return model.learn_summary(summary, task="stream")

    def predict_one(self, x: Row) -> float:
        """Predicts a row; 0 before the first is learned."""
        model = self._model()
        return 0.0 if model is None else float(model.predict(self._stream.table([x]))[0])

    def predict_many(self, X: Any) -> Any:
        """Predicts the rows of a pandas frame."""
        import pandas as pd

        model = self._model()
        values = np.zeros(len(X)) if model is None else model.predict(self._stream.frame(X))
        return pd.Series(values, index=X.index)


class RiverClassifier(_River, base.MiniBatchClassifier):  # type: ignore[misc]  # of a package that need not be installed
    """`ContinualClassifier` for River streams: linear discriminants, or least squares, of all rows so far.

    Parameters
    ----------
    loss : "gaussian" or "squared".
    shrinkage, ridge : as for `ContinualClassifier`.
    """

    def __init__(self, loss: str = "gaussian", shrinkage: Any = "auto", ridge: Any = "auto") -> None:
        self.loss = loss
        self.shrinkage = shrinkage
        self.ridge = ridge
        self._labels: dict[Any, int] = {}
        self._begin(fit_intercept=True)

    @property
    def _multiclass(self) -> bool:
        return True

    def _target(self, y: Any) -> int:
        return self._labels.setdefault(y, len(self._labels))

    def _table(self, targets: list[Any]) -> NDArray[np.float64]:
        indicators = np.array(targets)[:, None] == np.arange(len(self._labels))
        return np.asarray(indicators, dtype=np.float64)

    def _solved(self, summary: Summary) -> ContinualClassifier:
        model = ContinualClassifier(loss=self.loss, shrinkage=self.shrinkage, ridge=self.ridge, n_jobs=1)
        # Labels of any type stand as their numbers; what they mean is kept here.
        return model.learn_summary(summary, list(range(len(self._labels))), task="stream")

    def predict_proba_one(self, x: Row) -> dict[Any, float]:
        """Probabilities by label; empty before the first row is learned."""
        model = self._model()
        if model is None:
            return {}
        return dict(zip(self._labels, model.predict_proba(self._stream.table([x]))[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of the rows of a pandas frame."""
        import pandas as pd

        model = self._model()
        if model is None:
            return pd.DataFrame(index=X.index)
        return pd.DataFrame(model.predict_proba(self._stream.frame(X)), index=X.index, columns=list(self._labels))

    def predict_many(self, X: Any) -> Any:
        """The most probable label of the rows of a pandas frame."""
        import pandas as pd

        found = self.predict_proba_many(X)
        return found.idxmax(axis="columns") if len(found.columns) else pd.Series(dtype="object", index=X.index)
