"""`ContinualRegressor`."""

import warnings

from sklearn.base import MultiOutputMixin, RegressorMixin

from . import _core, _inputs
from ._continual import Continual, fitted, learned


class ContinualRegressor(MultiOutputMixin, RegressorMixin, Continual):
    """Least squares that is updated task by task and equals joint training on all rows, to rounding.

    Minimises ``sum_t a_t L_t(w) + ridge/2 ||w||²``, ``L_t`` half the mean squared error on task t and ``a`` the
    preference. With the default preference this is `sklearn.linear_model.Ridge(alpha=ridge * n_samples)` on all rows
    seen so far, of which only summaries are kept.

    Parameters
    ----------
    basis : str, default "linear"
        What inputs are mapped through: "linear", "poly:2", "log", "exp", "spline:8", "rbf:200", "rff:1024", "relu:2000",
        "ntk:256", options after commas ("rff:1024,gamma=0.1,seed=7").
    ridge : float, "auto" or "leave-one-task-out", default "auto"
        Weight of ``||w||²/2`` beside the mean loss, intercept free. "auto" chooses it by generalised cross-validation from
        the summaries; 0 is least squares of minimum norm.
    standardize : bool, default False
        Multiply the ridge by each feature's variance. "auto" always does.
    fit_intercept : bool, default True
        Whether there is a free intercept.
    memory : "ledger" or "compact", default "ledger"
        One summary a task, or one of constant size in which tasks can no longer be told apart.
    accumulator : "qr" or "gram", default "qr"
        "gram" is faster and loses twice as many digits.
    prefer : "samples", "equal" or "decay:G", default "samples"
        How tasks are weighed: by their samples (joint training), all the same, or G times less with every newer task. Called
        on a fitted model, it weighs them otherwise in hindsight: ``model.prefer("equal")``,
        ``model.prefer({"a": 0.7, "b": 0.3})``, ``model.prefer(budget={"a": 0.02})`` (a may lose at most 0.02).
    threads : int, default None
        Threads to use; None is all. Results do not depend on it.

    Attributes
    ----------
    coef_, intercept_ : parameters on the columns of the basis, as scikit-learn shapes them.
    tasks_, forgetting_, forgetting_bound_, mean_forgetting_ : what each task has, and what was forgotten of it.
    ridge_, preference_, n_samples_, rank_, state_bytes_ : facts about the current model.

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
        basis="linear",
        ridge="auto",
        standardize=False,
        fit_intercept=True,
        memory="ledger",
        accumulator="qr",
        prefer="samples",
        threads=None,
    ):
        self.basis = basis
        self.ridge = ridge
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.accumulator = accumulator
        self.prefer = prefer
        self.threads = threads

    def fit(self, X, y, sample_weight=None):
        """Learns one task from scratch; what was learned before is gone."""
        return self._learn(X, y, None, sample_weight, None, fresh=True)

    def partial_fit(self, X, y, task=None, classes=None, sample_weight=None, weight=None):
        """Learns one more task; the model is then that of joint training on all tasks.

        Parameters
        ----------
        X, y : rows and targets of the task.
        task : its name; by default the next of "task-1", "task-2", …
        classes : there are none; the argument stands where `ContinualClassifier` has it.
        sample_weight : weight of each row; a weight of 3 is the row three times, 0 is no row. P-values and intervals take all
            weights for such copies, and there are none where the weights do not add up to a whole number.
        weight : weight of the task beside the others, default 1.
        """
        if classes is not None:
            raise ValueError("a regressor has no classes; ContinualClassifier does")
        return self._learn(X, y, task, sample_weight, weight, fresh=not self.__sklearn_is_fitted__())

    def _learn(self, X, y, task, sample_weight, weight, fresh):
        names = _inputs.target_names(y)
        X = _inputs.rows(self, X, reset=fresh)
        y, flat, weights = self._targets(y, X, sample_weight)
        X, y, weights = kept(X, y, weights)
        if fresh:
            names = self._target_names(names, y.shape[1])
            model = _core.Model.regression(self._feature_names(), names, self._settings())
        else:
            model = self._model
        model.learn(self._name(task, fresh), X, y, weights, self._weight(weight))
        if fresh:
            self._model, self._flat = model, flat
        return self

    def learn_summary(self, summary, task=None, weight=None):
        """Learns a task that was summarized elsewhere (`Summary.from_data`), with the same intercept and a linear basis."""
        fresh = not self.__sklearn_is_fitted__()
        if fresh:
            self.n_features_in_ = summary.width - bool(self.fit_intercept)
            names = self._target_names(None, summary.n_targets)
            model = _core.Model.regression(self._feature_names(), names, self._settings())
        else:
            model = self._model
        model.learn_summary(self._name(task, fresh), summary, [], self._weight(weight))
        if fresh:
            self._model, self._flat = model, summary.n_targets == 1
        return self

    def _targets(self, y, X, sample_weight):
        """Targets as a table, whether they were one list, and weights with the rows that have any."""
        y = _inputs.targets(y, X, self)
        return y.reshape(len(y), -1), y.ndim == 1, _inputs.sample_weights(sample_weight, X)

    def _unlearn_rows(self, task, X, y, sample_weight):
        y, _, weights = self._targets(y, X, sample_weight)
        self._model.unlearn_rows(task, *kept(X, y, weights))

    def predict(self, X):
        """Predicts: one number a row, or one for each target."""
        learned(self)
        predicted = self._model.predict(_inputs.rows(self, X, reset=False))
        return predicted[:, 0] if self._flat else predicted

    def predict_interval(self, X, level=0.95):
        """Lower and upper ends of intervals that cover a new observation with probability `level`.

        They assume equal, independent noise, and that a sample weight counts copies of its row; with weights that do not add
        up to a whole number there are none (ValueError). A row that varies in a column which is the same in all rows learned
        has an interval without ends (infinite), with a warning.
        """
        learned(self)
        low, high, unbounded, approximate = self._model.intervals(_inputs.rows(self, X, reset=False), level)
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
        return (low[:, 0], high[:, 0]) if self._flat else (low, high)

    @fitted("Coefficients of the columns of the basis: `(columns,)`, or `(targets, columns)`.")
    def coef_(self):
        """Coefficients."""
        coef = self._model.parameters()[1]
        return coef[0] if self._flat else coef

    @fitted("The intercept, or one for each target.")
    def intercept_(self):
        """Intercept."""
        intercept = self._model.parameters()[0]
        return float(intercept[0]) if self._flat else intercept

    def _take(self, model):
        facts = super()._take(model)
        self._flat = len(facts["targets"]) == 1
        return facts


def kept(X, y, weights):
    """Rows that have any weight."""
    weights, rows = weights
    return (X, y, weights) if rows is None else (X[rows], y[rows], weights)
