"""`ContinualRegressor`."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from . import _core, _inputs
from ._continual import Continual, fitted, learned
from ._inputs import Weighted, kept
from ._settings import STREAM, setting


class ContinualRegressor(MultiOutputMixin, RegressorMixin, Continual):  # type: ignore[misc]  # scikit-learn has no annotations
    """A linear regression that is updated task by task; with squared loss it equals joint training on all rows, to rounding.

    Minimises ``sum_t a_t L_t(w) + ridge/2 ||w||²``, ``L_t`` the mean loss on task t and ``a`` the preference. With squared loss
    and the default preference this is `sklearn.linear_model.Ridge(alpha=ridge * n_samples)` on all rows seen so far, of which
    only summaries are kept. The other losses rest on quadratic bounds, and `forgetting_bound_` says how much was given up at
    most.

    Parameters
    ----------
    loss : "squared", "huber", "huber:DELTA", "poisson" or "poisson:CAP", default "squared"
        Half the squared error; the same up to errors of DELTA and linear beyond, for targets with outliers; the Poisson
        likelihood with a log link, for counts of 0 or more, whose predictions are rates. DELTA and CAP (the logarithm of the
        largest rate) are settled by the first task where they are not given; `loss_` shows them.
    basis : str, default "linear"
        What inputs are mapped through: "linear", "poly:2", "log", "exp", "spline:8", "rbf:200", "rff:1024", "relu:2000",
        "ntk:256", for images "patches:2000" (columns are pixels; "patches:2000,shape=28x28"), options after commas
        ("rff:1024,gamma=0.1,seed=7").
    ridge : float, array of one float per target, "auto" or "leave-one-task-out", default "auto"
        Weight of ``||w||²/2`` relative to the mean loss, intercept free. With a number per target (squared loss only) each target
        has its own; fronts and intervals then are not available, since they need one. "auto" chooses it from the summaries: for squared loss by
        generalised cross-validation, for the others a standard normal prior of standardized coefficients. 0 is least squares
        of minimum norm, for squared loss only.
    standardize : bool, default False
        Multiply the ridge by each feature's variance. "auto" always does.
    fit_intercept : bool, default True
        Whether there is a free intercept.
    memory : "ledger" or "compact", default "ledger"
        One summary per task, or one of constant size in which tasks are merged.
    accumulator : "auto", "qr", "gram" or "mixed", default "auto"
        "qr" is accurate; "gram" is faster and loses twice as many digits; "mixed" multiplies in single precision and adds up
        in double, for thousands of random features: `rounding_bound_` says how far it can have moved predictions. "auto"
        is "qr" up to 512 columns and "gram" beyond.
    store : "f64" or "f32", default "f64"
        "f32" rounds every task's summary when it is learned, for half the bytes in a file: its numbers are then off by 6e-8
        of themselves. For squared and gaussian loss.
    preference : "samples", "equal" or "decay:G", default "samples"
        How tasks are weighed: by their samples (joint training), all the same, or G times less with every newer task.
        `prefer` changes the weights of a fitted model in hindsight, and `preference_` shows them.
    missing : "error", "drop", "mean" or "indicator", default "error"
        What becomes of a feature that a row misses: NaN, None, NA, NaT, null. "mean" takes the mean of the column over all rows
        learned (of a category its share), "indicator" gives gaps a coefficient of their own; both are exact whatever the split
        of the rows, and need the linear basis. "drop" leaves such rows out while learning, and says how many. Rows without a
        target are then dropped too. Rows to be predicted are treated as those learned; where "drop" was said, a gap is an error.
    coding : "onehot", "reference" or "sum", default "onehot"
        What `coefficients` of categories are relative to: nothing, the first category of the column, or the mean of its
        categories. Predictions are the same.
    n_jobs : int, default None
        Threads to use; None and -1 are all. Results do not depend on it.

    Attributes
    ----------
    coef_, intercept_ : parameters on the columns of the basis, as scikit-learn shapes them.
    tasks_, forgetting_, forgetting_bound_, mean_forgetting_ : what each task has, and what was forgotten of it.
    loss_, ridge_, preference_, n_samples_, rank_, state_bytes_ : facts about the current model.

    Examples
    --------
    >>> from pmfcl import ContinualRegressor
    >>> model = ContinualRegressor(ridge=0.0)
    >>> model = model.partial_fit([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0], task="january")
    >>> model = model.partial_fit([[4.0], [5.0]], [8.0, 10.0], task="february")
    >>> model.predict([[6.0]]).round(6)
    array([12.])
    >>> [task["name"] for task in model.tasks_]
    ['january', 'february']
    >>> model = model.unlearn("january")
    >>> len(model.tasks_)
    1
    """

    _PREDICTS_CLASSES = False

    def __init__(
        self,
        loss: str = "squared",
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
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            tags.target_tags.positive_only = _core.problem(setting(self.loss), False)["nonnegative_targets"]
        except ValueError:
            pass  # `fit` reports a loss there is not
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns one task, "stream", from scratch; what was learned before is discarded."""
        return self._learn(X, y, sample_weight, None, None, fresh=True)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        task: object = None,
        weight: float | None = None,
        new_columns: Sequence[str] | Mapping[str, Any] = (),
    ) -> Self:
        """Learns one more task, or adds rows to the current one.

        Parameters
        ----------
        X, y : rows and targets.
        sample_weight : weight of each row; a weight of 3 is the row three times, 0 is no row. P-values and intervals take all
            weights as such copies, and there are none where the weights do not add up to a whole number, unless
            `conflicts` and `predict_interval` are told that they are precisions.
        task : the name of the task these rows are. Without one they are added to the current task, the one learned last,
            and the memory does not grow; the first is then called "stream".
        weight : weight of the task relative to the others, default 1.
        new_columns : columns of the frame X that the model does not have yet. They have been 0 in all rows before, or, where this
            is a dict, what it says: a number, a date, a category.
        """
        fresh = not self.__sklearn_is_fitted__()
        return self._learn(X, y, sample_weight, task, weight, fresh=fresh, new_columns=new_columns)

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        task: object,
        weight: float | None,
        fresh: bool,
        new_columns: Sequence[str] | Mapping[str, Any] = (),
    ) -> Self:
        names = _inputs.target_names(y)
        X, y, sample_weight = _inputs.complete_rows(self, X, y, sample_weight)
        X = _inputs.rows(self, X, reset=fresh, learn=True, new_columns=new_columns)
        y, flat, weights = self._targets(y, X, sample_weight)
        X, y, weighted = kept(X, y, weights)
        model = self._new_model(self._target_names(names, y.shape[1])) if fresh else self._model
        self._model = self._learn_task(model, task, X, y, weighted, weight)
        if fresh:
            self._flat = flat
        return self

    def learn_summary(self, summary: _core.Summary, task: object = None, weight: float | None = None) -> Self:
        """Learns a task that was summarized elsewhere (`Summary.from_data`), with the same intercept and a linear basis.

        Without a name it is added to the current task. Only for squared loss: other losses look at the rows several times.
        """
        fresh = not self.__sklearn_is_fitted__()
        if fresh:
            self.n_features_in_ = summary.width - bool(self.fit_intercept)
            model = self._new_model(self._target_names(None, summary.n_targets))
        else:
            model = self._model
        name = None if self._continues(model, task, weight) else str(STREAM if task is None else task)
        model.learn_summary(name, summary, [], self._weight(weight))
        if fresh:
            self._model, self._flat = model, summary.n_targets == 1
        return self

    def _targets(self, y: Any, X: NDArray[Any], sample_weight: Any) -> tuple[NDArray[np.float64], bool, Weighted]:
        """Targets as a table, whether they were one list, and weights with the rows that have any."""
        y = _inputs.targets(y, X, self)
        return y.reshape(len(y), -1), y.ndim == 1, _inputs.sample_weights(sample_weight, X)

    def _checked(self, X: NDArray[Any], y: Any, sample_weight: Any) -> tuple[NDArray[Any], Any, Any]:
        y, _, weights = self._targets(y, X, sample_weight)
        return kept(X, y, weights)

    def _output_names(self) -> list[str]:
        return list(self._model.facts()["targets"])

    def _unlearn_rows(self, task: str, X: NDArray[Any], y: Any, sample_weight: Any) -> None:
        y, _, weights = self._targets(y, X, sample_weight)
        self._model.unlearn_rows(task, *kept(X, y, weights))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicts: one number per row, or one for each target. With Poisson loss these are rates."""
        learned(self)
        predicted = self._model.predict(_inputs.rows(self, X, reset=False))
        return predicted[:, 0] if predicted.shape[1] == 1 else predicted

    def predict_interval(
        self, X: Any, level: float = 0.95, weights: str = "copies"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends of intervals that cover a new observation of weight 1 with probability `level`.

        They assume independent noise. `weights` says what sample weights are: with "copies" a weight of 3 stands for three rows of
        equal noise, and weights that do not add up to a whole number are refused (ValueError); with "precision" it stands for one
        row whose noise has a third of the variance. Other losses than squared have no intervals (ValueError). A row that varies in
        a column which is the same in all rows learned has an interval without ends (infinite), with a warning.
        """
        learned(self)
        X = _inputs.rows(self, X, reset=False)
        low, high, unbounded, approximate = self._model.intervals(X, level, setting(weights))
        if unbounded:
            warnings.warn(
                f"{len(unbounded)} of {len(low)} rows have no interval (the first is row {unbounded[0]}): they vary in a "
                "column that is the same in all rows learned",
                stacklevel=2,
            )
        if approximate:
            warnings.warn(
                "intervals are approximate: samples count differently, and compact memory no longer knows whether the "
                "features of its tasks are spread alike",
                stacklevel=2,
            )
        return (low[:, 0], high[:, 0]) if low.shape[1] == 1 else (low, high)

    @fitted("Coefficients of the columns of the basis: `(columns,)`, or `(targets, columns)`.")
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients."""
        coef = self._model.parameters()[1]
        return coef[0] if len(coef) == 1 else coef

    @fitted(
        "The intercept, one per column of a target table; 0.0 where none was fitted. As scikit-learn's Ridge has it."
    )
    def intercept_(self) -> float | np.float64 | NDArray[np.float64]:
        """Intercept."""
        if not self._model.settings()["fit_intercept"]:
            return 0.0
        intercept = self._model.parameters()[0]
        return np.float64(intercept[0]) if self._flat else intercept

    def _adopt(self, model: _core.Model) -> None:
        super()._adopt(model)
        self._flat = len(model.facts()["targets"]) == 1
