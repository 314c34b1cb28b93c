"""`ContinualRegressor`."""

import warnings

from sklearn.base import MultiOutputMixin, RegressorMixin

from . import _core, _inputs
from ._continual import Continual, fitted, learned, setting


class ContinualRegressor(MultiOutputMixin, RegressorMixin, Continual):
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
        "ntk:256", options after commas ("rff:1024,gamma=0.1,seed=7").
    ridge : float, "auto" or "leave-one-task-out", default "auto"
        Weight of ``||w||²/2`` relative to the mean loss, intercept free. "auto" chooses it from the summaries: for squared loss by
        generalised cross-validation, for the others a standard normal prior of standardized coefficients. 0 is least squares
        of minimum norm, for squared loss only.
    standardize : bool, default False
        Multiply the ridge by each feature's variance. "auto" always does.
    fit_intercept : bool, default True
        Whether there is a free intercept.
    memory : "ledger" or "compact", default "ledger"
        One summary per task, or one of constant size in which tasks are merged.
    accumulator : "qr" or "gram", default "qr"
        "gram" is faster and loses twice as many digits.
    prefer : "samples", "equal" or "decay:G", default "samples"
        How tasks are weighed: by their samples (joint training), all the same, or G times less with every newer task. Called
        on a fitted model, it changes the weights in hindsight: ``model.prefer("equal")``,
        ``model.prefer({"a": 0.7, "b": 0.3})``, ``model.prefer(budget={"a": 0.02})`` (a may lose at most 0.02; a
        ``ValueError`` with the least that is possible where no weights keep it).
    threads : int, default None
        Threads to use; None is all. Results do not depend on it.

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
        loss="squared",
        basis="linear",
        ridge="auto",
        standardize=False,
        fit_intercept=True,
        memory="ledger",
        accumulator="qr",
        prefer="samples",
        threads=None,
    ):
        self.loss = loss
        self.basis = basis
        self.ridge = ridge
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.accumulator = accumulator
        self.prefer = prefer
        self.threads = threads

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            tags.target_tags.positive_only = _core.problem(setting(self.loss), False)["nonnegative_targets"]
        except ValueError:
            pass  # `fit` reports a loss there is not
        return tags

    def fit(self, X, y, sample_weight=None):
        """Learns one task from scratch; what was learned before is discarded."""
        return self._learn(X, y, None, sample_weight, None, fresh=True)

    def partial_fit(self, X, y, task=None, classes=None, sample_weight=None, weight=None):
        """Learns one more task.

        Parameters
        ----------
        X, y : rows and targets of the task.
        task : its name; by default the next of "task-1", "task-2", …
        classes : None; the argument is there for `ContinualClassifier`.
        sample_weight : weight of each row; a weight of 3 is the row three times, 0 is no row. P-values and intervals take all
            weights as such copies, and there are none where the weights do not add up to a whole number, unless
            `conflicts` and `predict_interval` are told that they are precisions.
        weight : weight of the task relative to the others, default 1.
        """
        if classes is not None:
            raise ValueError("a regressor has no classes; ContinualClassifier does")
        return self._learn(X, y, task, sample_weight, weight, fresh=not self.__sklearn_is_fitted__())

    def _learn(self, X, y, task, sample_weight, weight, fresh):
        names = _inputs.target_names(y)
        X = _inputs.rows(self, X, reset=fresh, learn=True)
        y, flat, weights = self._targets(y, X, sample_weight)
        X, y, weights = kept(X, y, weights)
        model = self._new_model(self._target_names(names, y.shape[1])) if fresh else self._model
        self._learn_task(model, self._name(task, fresh), X, y, weights, weight)
        if fresh:
            self._model, self._flat = model, flat
        return self

    def learn_summary(self, summary, task=None, weight=None):
        """Learns a task that was summarized elsewhere (`Summary.from_data`), with the same intercept and a linear basis.

        Only for squared loss: other losses look at the rows of a task several times.
        """
        fresh = not self.__sklearn_is_fitted__()
        if fresh:
            self.n_features_in_ = summary.width - bool(self.fit_intercept)
            model = self._new_model(self._target_names(None, summary.n_targets))
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

    def _checked(self, X, y, sample_weight):
        y, _, weights = self._targets(y, X, sample_weight)
        return kept(X, y, weights)

    def _output_names(self):
        return self._model.facts()["targets"]

    def _unlearn_rows(self, task, X, y, sample_weight):
        y, _, weights = self._targets(y, X, sample_weight)
        self._model.unlearn_rows(task, *kept(X, y, weights))

    def predict(self, X):
        """Predicts: one number per row, or one for each target. With Poisson loss these are rates."""
        learned(self)
        predicted = self._model.predict(_inputs.rows(self, X, reset=False))
        return predicted[:, 0] if self._flat else predicted

    def predict_interval(self, X, level=0.95, weights="copies"):
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
        super()._take(model)
        self._flat = len(model.facts()["targets"]) == 1


def kept(X, y, weights):
    """Rows that have any weight."""
    weights, rows = weights
    return (X, y, weights) if rows is None else (X[rows], y[rows], weights)
