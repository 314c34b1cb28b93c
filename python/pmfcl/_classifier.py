"""`ContinualClassifier`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from . import _core, _doubts, _inputs
from ._continual import Continual, fitted, learned
from ._inputs import Weighted, kept
from ._labels import Classes, Label, labels_of
from ._settings import STREAM, parameter, setting


class ParameterAndMethod:
    """A method that has the name of a parameter: assigning sets the parameter, reading gives the method.

    The value lies in the instance's `__dict__`, as scikit-learn expects of a parameter; `get_params` reads it there.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.__doc__, self._method = method.__doc__, method

    def __get__(self, instance: object | None, owner: type) -> Callable[..., Any]:
        return self._method if instance is None else MethodType(self._method, instance)

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)[self._method.__name__] = value


class ContinualClassifier(ClassifierMixin, Continual):  # type: ignore[misc]  # scikit-learn has no annotations
    """A linear classifier that is updated task by task; classes may appear at any task.

    With the losses "gaussian" and "squared" the model is that of joint training on all rows, to rounding, whatever the order of
    tasks. With "logistic" it rests on quadratic bounds, and `forgetting_bound_` says how much log-loss was given up at most.

    Parameters
    ----------
    loss : "gaussian", "squared" or "logistic", default "gaussian"
        Linear discriminants; least squares on 0/1 indicators; log-loss (softmax for several classes). Log-loss is not for
        tasks that lack many classes: a warning says so.
    basis, ridge, standardize, fit_intercept, memory, accumulator, store, preference, missing, coding, n_jobs :
        As for `ContinualRegressor`, with one ridge for all classes. "gaussian" has a shrinkage in place of the ridge.
    shrinkage : "auto", float or str, default "auto"
        Of the covariance of "gaussian". A number is that of
        `sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr")`; "diagonal:S" and "ridge:S" are others.
    curvature : "sharp", "bohning", "hessian", "blend" or "diagonal", default "sharp"
        Of the bounds of "logistic".
    scheme : "one-shot" or "sequential", default "one-shot"
        Where the bounds of "logistic" are made: at the task's own minimum (tasks can be removed), or at that of all so far
        (nearer to joint training).
    covariance : "tied" or "class", default "tied"
        Whether classes of "gaussian" share one covariance. "class" gives each its own, drawn toward the shared one where its rows are
        few: better where classes differ in spread and have many rows, at as many times the memory as there are classes.
    calibrate : "on", "off" or float, default "on"
        How the discriminants of "gaussian" become probabilities. "on" divides them by a temperature that is higher for rows far from
        every class, measured on a sample of the rows of every task, each left out of the model; `temperature_` shows it. It depends
        on the order of tasks; the method of the same name, `calibrate(X, y)`, measures it anew. "off" is temperature 1, the
        textbook's; a number is another. Predicted classes are the same. `get_params()["calibrate"]` is the value set.
    certify : bool, default True
        Whether "logistic" finds the least log-loss of every task, from which its bounds are measured.

    Attributes
    ----------
    classes_ : labels, sorted.
    coef_, intercept_ : parameters on the columns of the basis, as scikit-learn shapes them.
    left_out_ : accuracy, log-loss and calibration of "gaussian" on rows that were left out of the model.
    tasks_, forgetting_, forgetting_bound_, mean_forgetting_, mean_forgetting_bound_ : what each task has, and what was
        forgotten of it.

    Examples
    --------
    >>> from pmfcl import ContinualClassifier
    >>> model = ContinualClassifier()
    >>> model = model.partial_fit([[0.0], [1.0], [4.0], [5.0]], ["low", "low", "mid", "mid"], task="monday")
    >>> model = model.partial_fit([[9.0], [8.0]], ["high", "high"], task="tuesday")
    >>> model.classes_.tolist()
    ['high', 'low', 'mid']
    >>> model.predict([[0.4], [8.6]]).tolist()
    ['low', 'high']
    """

    _PREDICTS_CLASSES = True
    _classes: Classes

    def __init__(
        self,
        loss: str = "gaussian",
        basis: str = "linear",
        ridge: Any = "auto",
        standardize: bool = False,
        fit_intercept: bool = True,
        memory: str = "ledger",
        accumulator: str = "auto",
        store: str = "f64",
        preference: str = "samples",
        missing: str = "error",
        coding: str = "onehot",
        shrinkage: Any = "auto",
        curvature: str = "sharp",
        scheme: str = "one-shot",
        covariance: str = "tied",
        calibrate: Any = "on",
        certify: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.basis = basis
        self.ridge = ridge
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.accumulator = accumulator
        self.store = store
        self.preference = preference
        self.missing = missing
        self.coding = coding
        self.shrinkage = shrinkage
        self.curvature = curvature
        self.scheme = scheme
        self.covariance = covariance
        self.calibrate = calibrate
        self.certify = certify
        self.n_jobs = n_jobs

    def _options(self) -> dict[str, str]:
        return {
            "shrinkage": shrinkage_setting(self.shrinkage),
            "curvature": setting(self.curvature),
            "scheme": setting(self.scheme),
            "covariance": setting(self.covariance),
            "calibrate": calibrate_setting(vars(self)["calibrate"]),
            "certify": setting(bool(self.certify)),
        }

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns one task, "stream", from scratch; what was learned before is discarded."""
        return self._learn(X, y, None, sample_weight, None, None, fresh=True)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        task: object = None,
        weight: float | None = None,
        new_columns: Sequence[str] | Mapping[str, Any] = (),
    ) -> Self:
        """Learns one more task, or adds rows to the current one.

        Parameters
        ----------
        X, y : rows and labels.
        classes : all classes there will ever be, at the first call. Only "logistic" needs them, where the first task lacks
            some; for the others a class may appear whenever it does.
        sample_weight : weight of each row; a weight of 3 is the row three times, 0 is no row.
        task : the name of the task these rows are. Without one they are added to the current task, the one learned last,
            and the memory does not grow; the first is then called "stream".
        weight : weight of the task relative to the others, default 1.
        new_columns : columns of the frame X that the model does not have yet. They have been 0 in all rows before, or, where this
            is a dict, what it says: a number, a date, a category.
        """
        fresh = not self.__sklearn_is_fitted__()
        return self._learn(X, y, classes, sample_weight, task, weight, fresh=fresh, new_columns=new_columns)

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: Any,
        sample_weight: Any,
        task: object,
        weight: float | None,
        fresh: bool,
        new_columns: Sequence[str] | Mapping[str, Any] = (),
    ) -> Self:
        names = _inputs.target_names(y)
        X, y, sample_weight = _inputs.complete_rows(self, X, y, sample_weight)
        X = _inputs.rows(self, X, reset=fresh, learn=True, new_columns=new_columns)
        labels, weights = self._labels(y, X, sample_weight)
        X, labels, weighted = kept(X, labels, weights)
        known = self._known_classes(fresh)
        fixed = [] if classes is None else known.add(np.unique(column_or_1d(classes)))
        if not fresh and set(fixed) - set(self._classes.by_name):
            raise ValueError("`classes` names others than at the first task: name all classes at the first call")
        model = self._new_model(self._target_names(names, 1), fixed) if fresh else self._model
        self._model = self._learn_task(model, task, X, coded(labels, known), weighted, weight)
        self._classes = known
        return self

    def _known_classes(self, fresh: bool) -> Classes:
        """A copy of the classes there are."""
        known = Classes()
        known.by_name = {} if fresh else dict(self._classes.by_name)
        return known

    def learn_summary(
        self, summary: _core.Summary, classes: Iterable[Label], task: object = None, weight: float | None = None
    ) -> Self:
        """Learns a task of 0/1 indicators summarized elsewhere; `classes` label its targets. Not for "logistic".

        Without a name it is added to the current task.
        """
        fresh = not self.__sklearn_is_fitted__()
        known = self._known_classes(fresh)
        if fresh:
            self.n_features_in_ = summary.width - bool(self.fit_intercept)
            model = self._new_model(self._target_names(None, 1), [])
        else:
            model = self._model
        names = known.add(list(classes))
        name = None if self._continues(model, task, weight) else str(STREAM if task is None else task)
        model.learn_summary(name, summary, names, self._weight(weight))
        self._model, self._classes = model, known
        return self

    def _labels(self, y: Any, X: NDArray[Any], sample_weight: Any) -> tuple[NDArray[Any], Weighted]:
        """Labels as one list, and weights with the rows that have any."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        if y.dtype.kind in "OUT" and not self.__sklearn_is_fitted__():
            numbers = [
                label for label in y[: _doubts.ROWS] if isinstance(label, str) and _doubts.COMMA.fullmatch(label)
            ]
            if len(numbers) == len(y[: _doubts.ROWS]):
                raise ValueError(
                    f"the labels are numbers with a comma, such as '{numbers[0]}': make numbers of them and use ContinualRegressor, or, "
                    "if they are classes, give them other names"
                )
        check_consistent_length(X, y)
        check_classification_targets(y)
        return y, _inputs.sample_weights(sample_weight, X)

    def _checked(self, X: NDArray[Any], y: Any, sample_weight: Any) -> tuple[NDArray[Any], Any, Any]:
        labels, weights = self._labels(y, X, sample_weight)
        X, labels, weighted = kept(X, labels, weights)
        return X, coded(labels, self._known_classes(fresh=False)), weighted

    def _output_names(self) -> list[str]:
        return self._model.classes()

    def _unlearn_rows(self, task: str, X: NDArray[Any], y: Any, sample_weight: Any) -> None:
        labels, weights = self._labels(y, X, sample_weight)
        X, labels, weighted = kept(X, labels, weights)
        self._model.unlearn_rows(task, X, coded(labels, Classes()), weighted)

    def _join(self, theirs: _core.Model, other: Self) -> None:
        known = self._known_classes(fresh=False)
        known.add(list(other._classes.by_name.values()))
        self._model.merge(theirs)
        self._classes = known

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row."""
        learned(self)
        codes = self._model.predict_codes(_inputs.rows(self, X, reset=False))
        return self._classes.inside(self._model.classes())[codes]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of every row, in the order of `classes_`. Those of "squared" are not calibrated."""
        learned(self)
        return self._in_order(self._model.probabilities(_inputs.rows(self, X, reset=False)))

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """How novel every row looks, between 0 and 1 ("gaussian"): the share of learned rows that were nearer to a class than it is.

        A threshold has a meaning: of rows like those learned, one in a hundred is above 0.99. What is above it may be of none of
        the classes.
        """
        learned(self)
        return self._model.novelty(_inputs.rows(self, X, reset=False))

    @ParameterAndMethod
    def calibrate(self, X: Any, y: Any, learned_rows: bool = False) -> Self:
        """Measures the probabilities of "gaussian" at the present model with these rows. Returns the estimator.

        What was measured while tasks were learned depends on their order; this does not. Predicted classes stay as they are, and
        no row is kept. `learned_rows=True` says that the rows are among those learned: each is then left out of the model before
        it is scored.
        """
        learned(self)
        X = _inputs.rows(self, X, reset=False)
        labels, _ = self._labels(y, X, None)
        self._model.calibrate(X, coded(labels, Classes()), bool(learned_rows))
        self.calibrate = "on"
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as they were set."""
        return {**super().get_params(deep), "calibrate": vars(self)["calibrate"]}

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            logarithms: NDArray[np.float64] = np.log(self.predict_proba(X))
        return logarithms

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of every row in the order of `classes_`; of two classes, how far the second is ahead."""
        learned(self)
        scores = self._in_order(self._model.scores(_inputs.rows(self, X, reset=False)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _in_order(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns of the model's classes in the order of `classes_`."""
        order = self._classes.outside(self._model.classes())[1]
        return columns if np.array_equal(order, np.arange(len(order))) else columns[:, order]

    @fitted("The labels, sorted.")
    def classes_(self) -> NDArray[Any]:
        """Classes."""
        return self._classes.outside(self._model.classes())[0]

    def _layer(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Intercepts and coefficients of the scores: one row per class; of two classes the second against the first."""
        intercept, coef = self._model.parameters()
        order = self._classes.outside(self._model.classes())[1]
        if len(coef) == len(order):
            intercept, coef = intercept[order], coef[order]
        elif order[0] > order[1]:
            intercept, coef = -intercept, -coef
        if len(coef) == 2:
            intercept, coef = intercept[1:] - intercept[:1], coef[1:] - coef[:1]
        return intercept, coef

    @fitted("Coefficients of the scores: `(classes, columns)`, `(1, columns)` for two classes.")
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients."""
        return self._layer()[1]

    @fitted("Intercepts of the scores: one per class, one for two classes; -inf for a class without rows.")
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts."""
        return self._layer()[0]

    @fitted('The shrinkage of the current model ("gaussian").')
    def shrinkage_(self) -> float | None:
        """Shrinkage."""
        return self._model.solution().get("shrinkage")

    @fitted(
        'How well rows were predicted by the model without them ("gaussian"): a dict, or None where nothing was measured.'
    )
    def left_out_(self) -> dict[str, Any] | None:
        """Accuracy, log-loss, Brier score, calibration error, reliability curve."""
        return self._model.left_out()

    @fitted('The temperature of the current model ("gaussian").')
    def temperature_(self) -> float | None:
        """Temperature."""
        return self._model.solution().get("temperature")

    @fitted("Samples of each class, by task.")
    def class_counts_(self) -> dict[str, dict[Label, float]]:
        """Counts."""
        labels = self._classes.by_name
        counts = self._model.class_counts()
        return {
            task: {labels[name]: n for name, n in row}
            for task, row in zip(self._model.task_names(), counts, strict=True)
        }

    def set_shrinkage(self, shrinkage: Any) -> Self:
        """Another shrinkage in hindsight ("gaussian"), solved from the summaries. Returns the estimator."""
        learned(self)
        self._model.set_option("shrinkage", shrinkage_setting(shrinkage))
        return self

    def _adopt(self, model: _core.Model) -> None:
        super()._adopt(model)
        self.calibrate = parameter(model.problem()["options"].get("calibrate", vars(self)["calibrate"]))
        names = model.classes()
        known = {} if not hasattr(self, "_classes") else self._classes.by_name
        self._classes = Classes()
        self._classes.by_name = {**dict(zip(names, labels_of(names), strict=True)), **known}


def coded(labels: NDArray[Any], known: Classes) -> tuple[NDArray[np.uint32], list[str]]:
    """Labels as codes and the name of each code; `known` gets the labels it lacks."""
    values, codes = np.unique(labels, return_inverse=True)
    return np.ascontiguousarray(codes, dtype=np.uint32), known.add(values)


def calibrate_setting(calibrate: object) -> str:
    """A boolean means on or off."""
    if isinstance(calibrate, bool | np.bool_):
        return "on" if calibrate else "off"
    return setting(calibrate)


def shrinkage_setting(shrinkage: object) -> str:
    """A number means what it means for scikit-learn."""
    if isinstance(shrinkage, int | float | np.number) and not isinstance(shrinkage, bool):
        return f"identity:{float(shrinkage)!r}"
    return str(shrinkage)
