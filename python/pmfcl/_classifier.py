"""`ContinualClassifier`."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from . import _inputs
from ._continual import Continual, fitted, learned, setting
from ._labels import Classes, labels_of
from ._regressor import kept


class ContinualClassifier(ClassifierMixin, Continual):
    """A linear classifier that is updated task by task; classes may appear at any task.

    With the losses "gaussian" and "squared" the model is that of joint training on all rows, to rounding, whatever the order of
    tasks. With "logistic" it rests on quadratic bounds, and `forgetting_bound_` says how much log-loss was given up at most.

    Parameters
    ----------
    loss : "gaussian", "squared" or "logistic", default "gaussian"
        Linear discriminants; least squares on 0/1 indicators; log-loss (softmax for several classes). Log-loss is not for
        tasks that lack many classes: a warning says so.
    basis, ridge, standardize, fit_intercept, memory, accumulator, prefer, threads :
        As for `ContinualRegressor`. "gaussian" has a shrinkage in place of the ridge.
    shrinkage : "auto", float or str, default "auto"
        Of the covariance of "gaussian". A number is that of
        `sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr")`; "diagonal:S" and "ridge:S" are others.
    curvature : "sharp", "bohning", "hessian", "blend" or "diagonal", default "sharp"
        Of the bounds of "logistic".
    scheme : "one-shot" or "sequential", default "one-shot"
        Where the bounds of "logistic" are made: at the task's own minimum (tasks can be removed), or at that of all so far
        (nearer to joint training).
    temperature : float or "auto", default 1.0
        What the discriminants of "gaussian" are divided by before they become probabilities. "auto" measures it on the rows of
        every task before they are learned; `temperature_` shows it.
    certify : bool, default True
        Whether "logistic" finds the least log-loss of every task, from which its bounds are measured.

    Attributes
    ----------
    classes_ : labels, sorted.
    coef_, intercept_ : parameters on the columns of the basis, as scikit-learn shapes them.
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

    def __init__(
        self,
        loss="gaussian",
        basis="linear",
        ridge="auto",
        standardize=False,
        fit_intercept=True,
        memory="ledger",
        accumulator="qr",
        prefer="samples",
        shrinkage="auto",
        curvature="sharp",
        scheme="one-shot",
        temperature=1.0,
        certify=True,
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
        self.shrinkage = shrinkage
        self.curvature = curvature
        self.scheme = scheme
        self.temperature = temperature
        self.certify = certify
        self.threads = threads

    def _options(self):
        return {
            "shrinkage": shrinkage_setting(self.shrinkage),
            "curvature": setting(self.curvature),
            "scheme": setting(self.scheme),
            "temperature": setting(self.temperature),
            "certify": setting(bool(self.certify)),
        }

    def fit(self, X, y, sample_weight=None):
        """Learns one task from scratch; what was learned before is discarded."""
        return self._learn(X, y, None, None, sample_weight, None, fresh=True)

    def partial_fit(self, X, y, task=None, classes=None, sample_weight=None, weight=None):
        """Learns one more task.

        Parameters
        ----------
        X, y : rows and labels of the task.
        task : its name; by default the next of "task-1", "task-2", …
        classes : all classes there will ever be, at the first task. Only "logistic" needs them, where the first task lacks
            some; for the others a class may appear whenever it does.
        sample_weight : weight of each row; a weight of 3 is the row three times, 0 is no row.
        weight : weight of the task relative to the others, default 1.
        """
        return self._learn(X, y, task, classes, sample_weight, weight, fresh=not self.__sklearn_is_fitted__())

    def _learn(self, X, y, task, classes, sample_weight, weight, fresh):
        names = _inputs.target_names(y)
        X = _inputs.rows(self, X, reset=fresh, learn=True)
        labels, weights = self._labels(y, X, sample_weight)
        X, labels, weights = kept(X, labels, weights)
        known = self._known_classes(fresh)
        fixed = [] if classes is None else known.add(np.unique(column_or_1d(classes)))
        if not fresh and set(fixed) - set(self._classes.by_name):
            raise ValueError("`classes` names others than at the first task: name all classes at the first call")
        model = self._new_model(self._target_names(names, 1), fixed) if fresh else self._model
        self._learn_task(model, self._name(task, fresh), X, coded(labels, known), weights, weight)
        self._model, self._classes = model, known
        return self

    def _known_classes(self, fresh):
        """A copy of the classes there are."""
        known = Classes()
        known.by_name = {} if fresh else dict(self._classes.by_name)
        return known

    def learn_summary(self, summary, classes, task=None, weight=None):
        """Learns a task of 0/1 indicators summarized elsewhere; `classes` label its targets. Not for "logistic"."""
        fresh = not self.__sklearn_is_fitted__()
        known = self._known_classes(fresh)
        if fresh:
            self.n_features_in_ = summary.width - bool(self.fit_intercept)
            model = self._new_model(self._target_names(None, 1), [])
        else:
            model = self._model
        names = known.add(list(classes))
        model.learn_summary(self._name(task, fresh), summary, names, self._weight(weight))
        self._model, self._classes = model, known
        return self

    def _labels(self, y, X, sample_weight):
        """Labels as one list, and weights with the rows that have any."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return y, _inputs.sample_weights(sample_weight, X)

    def _checked(self, X, y, sample_weight):
        labels, weights = self._labels(y, X, sample_weight)
        X, labels, weights = kept(X, labels, weights)
        return X, coded(labels, self._known_classes(fresh=False)), weights

    def _output_names(self):
        return self._model.classes()

    def _unlearn_rows(self, task, X, y, sample_weight):
        labels, weights = self._labels(y, X, sample_weight)
        X, labels, weights = kept(X, labels, weights)
        self._model.unlearn_rows(task, X, coded(labels, Classes()), weights)

    def _join(self, theirs, other):
        known = self._known_classes(fresh=False)
        known.add(list(other._classes.by_name.values()))
        self._model.merge(theirs)
        self._classes = known

    def predict(self, X):
        """The class of every row."""
        learned(self)
        codes = self._model.predict_codes(_inputs.rows(self, X, reset=False))
        return self._classes.inside(self._model.classes())[codes]

    def predict_proba(self, X):
        """Probabilities of every row, in the order of `classes_`. Those of "squared" are not calibrated."""
        learned(self)
        return self._in_order(self._model.probabilities(_inputs.rows(self, X, reset=False)))

    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X):
        """Scores of every row in the order of `classes_`; of two classes, how far the second is ahead."""
        learned(self)
        scores = self._in_order(self._model.scores(_inputs.rows(self, X, reset=False)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _in_order(self, columns):
        """Columns of the model's classes in the order of `classes_`."""
        order = self._classes.outside(self._model.classes())[1]
        return columns if np.array_equal(order, np.arange(len(order))) else columns[:, order]

    @fitted("The labels, sorted.")
    def classes_(self):
        """Classes."""
        return self._classes.outside(self._model.classes())[0]

    def _layer(self):
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
    def coef_(self):
        """Coefficients."""
        return self._layer()[1]

    @fitted("Intercepts of the scores: one per class, one for two classes; -inf for a class without rows.")
    def intercept_(self):
        """Intercepts."""
        return self._layer()[0]

    @fitted('The shrinkage of the current model ("gaussian").')
    def shrinkage_(self):
        """Shrinkage."""
        return self._model.solution().get("shrinkage")

    @fitted('The temperature of the current model ("gaussian").')
    def temperature_(self):
        """Temperature."""
        return self._model.solution().get("temperature")

    @fitted("Samples of each class, by task.")
    def class_counts_(self):
        """Counts."""
        labels = self._classes.by_name
        counts = self._model.class_counts()
        return {
            task: {labels[name]: n for name, n in row}
            for task, row in zip(self._model.task_names(), counts, strict=True)
        }

    def set_shrinkage(self, shrinkage):
        """Another shrinkage in hindsight ("gaussian"), solved from the summaries. Returns the estimator."""
        learned(self)
        self._model.set_option("shrinkage", shrinkage_setting(shrinkage))
        return self

    def _take(self, model):
        super()._take(model)
        names = model.classes()
        self._classes = Classes()
        self._classes.by_name = dict(zip(names, labels_of(names), strict=True))


def coded(labels, known):
    """Labels as codes and the name of each code; `known` gets the labels it lacks."""
    values, codes = np.unique(labels, return_inverse=True)
    return np.ascontiguousarray(codes, dtype=np.uint32), known.add(values)


def shrinkage_setting(shrinkage):
    """A number means what it means for scikit-learn."""
    if isinstance(shrinkage, int | float | np.number) and not isinstance(shrinkage, bool):
        return f"identity:{float(shrinkage)!r}"
    return str(shrinkage)
