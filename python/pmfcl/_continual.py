"""What both estimators share: tasks in, and everything that can be done with their summaries afterwards."""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import _core, _html, _inputs, _views
from ._columns import Columns
from ._settings import STREAM, parameter, setting

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")


def written(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file completely or not at all: whatever fails, there is the file of before or the one of after, also after a power cut."""
    path = Path(path)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.draft")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    # Where a directory cannot be opened or synced there is nothing more to do.
    with contextlib.suppress(OSError):
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def learned(estimator: object) -> None:
    """Raises scikit-learn's `NotFittedError` where nothing has been learned."""
    if "_model" not in vars(estimator):
        check_is_fitted(estimator)


class Fitted(Generic[Value]):
    """A read-only attribute of a fitted estimator."""

    def __init__(self, compute: Callable[[Any], Value], text: str) -> None:
        self.compute = compute
        self.__doc__ = text

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...
    @overload
    def __get__(self, estimator: object, owner: type) -> Value: ...
    def __get__(self, estimator: object | None, owner: type) -> Self | Value:
        if estimator is None:
            return self
        learned(estimator)
        return self.compute(estimator)

    def __set__(self, estimator: object, value: object) -> NoReturn:
        raise AttributeError(f"{self.name} is what was learned and cannot be set")


def fitted(text: str) -> Callable[[Callable[[Any], Value]], Fitted[Value]]:
    """A read-only attribute of a fitted estimator, with its documentation."""
    return lambda compute: Fitted(compute, text)


class Continual(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no annotations
    """The part of `ContinualRegressor` and `ContinualClassifier` that does not depend on what is predicted."""

    _PREDICTS_CLASSES: bool
    loss: str
    basis: str
    ridge: Any
    standardize: bool
    fit_intercept: bool
    memory: str
    accumulator: str
    preference: str
    missing: str
    coding: str
    n_jobs: int | None
    n_features_in_: int
    _model: _core.Model
    _columns: Columns | None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not _inputs.learns_gaps(self)
        tags.input_tags.allow_nan = self.missing in ("drop", "mean", "indicator")
        return tags

    def _settings(self) -> dict[str, Any]:
        """The settings of a model with these parameters."""
        return {
            "basis": setting(self.basis),
            "ridge": setting(self.ridge),
            "standardize": self.standardize,
            "fit_intercept": self.fit_intercept,
            "memory": setting(self.memory),
            "accumulator": setting(self.accumulator),
            "store": setting(self.store),
            "preference": setting(self.preference),
            "n_jobs": None if self.n_jobs is None else int(self.n_jobs),
        }

    def _options(self) -> dict[str, str]:
        """The options of the loss; those another loss has are checked and not used."""
        return {}

    def _new_model(self, targets: list[str], classes: list[str] | None = None, **settings: Any) -> _core.Model:
        """A model with these parameters that has learned nothing; `classes` is None for values, empty for classes as they appear."""
        model = _core.Model(
            self._feature_names(),
            targets,
            setting(self.loss),
            self._options(),
            {**self._settings(), **settings},
            classes,
        )
        columns = vars(self).get("_columns")
        missing = setting(self.missing)
        model.set_table_options("error" if missing == "drop" else missing, setting(self.coding))
        if columns is not None:
            model.set_origins(columns.origins)
        return model

    def _learn_task(
        self,
        model: _core.Model,
        task: object,
        X: NDArray[Any],
        y: _inputs.Target,
        sample_weight: NDArray[np.float64] | None,
        weight: float | None,
    ) -> _core.Model:
        """The model after a task was learned, or rows were added to the current one; it is another one where columns with a past were
        added. Warns where the model has one more thing to say than before."""
        before = model.warnings()
        grown = self.__dict__.pop("_grown", None)
        new = [] if grown is None else grown.added_to(vars(self).get("_columns"))
        added = new
        if grown is not None and any(grown.past.values()):
            # A copy, so that an error leaves the model unchanged.
            model, added = model.with_inputs(new, [grown.past.get(origin, 0.0) for origin in new]), []
        if self._continues(model, task, weight):
            model.append(X, y, sample_weight, added)
        else:
            model.learn(STREAM if task is None else str(task), X, y, sample_weight, self._weight(weight), added)
        if new:
            if not added:
                grown.past.clear()
            self._columns = grown
            if any(kind in ("number", "date") for _, kind, _ in new):
                names = grown.column_names()
                self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        after = model.warnings()
        if len(after) > len(before):
            for text in after:
                if text not in before:
                    warnings.warn(text, UserWarning, stacklevel=4)
        return model

    def _continues(self, model: _core.Model, task: object, weight: float | None) -> bool:
        """Whether rows go to the current task: they have no name, and there is one."""
        if task is not None or not model.task_names():
            return False
        if weight is not None:
            raise ValueError("weight is that of a whole task: name the task, or leave the weight out")
        return True

    def _feature_names(self) -> list[str]:
        """Names of the inputs for model file and messages; the command line names bare columns so too."""
        columns = vars(self).get("_columns")
        if columns is not None:
            names_of_inputs: list[str] = columns.names()
            return names_of_inputs
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j + 1}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _target_names(self, given: list[str] | None, count: int) -> list[str]:
        """Names of the targets, none of which may be that of a feature."""
        plain = ["y"] if count == 1 else [f"y{k + 1}" for k in range(count)]
        names = given if given and len(given) == count else plain
        taken = set(self._feature_names())
        while taken & set(names) or len(set(names)) < count:
            names = plain = [f"{name}_target" for name in plain]
        return names

    @staticmethod
    def _weight(weight: float | None) -> float:
        return 1.0 if weight is None else float(weight)

    # ---- what was learned ----

    @fitted("The loss with what the first task has settled of it, such as `huber:1.83`.")
    def loss_(self) -> str:
        """Loss."""
        return str(self._model.problem()["spec"])

    @fitted(
        "Every task as `pmfcl show --json` has it: name, samples, rank, weight, bytes, loss, min_loss, forgetting, … "
        "`loss` is never negative: half the mean squared error; for gaussian half the squared Mahalanobis distance of a row to "
        "the mean of its class plus the log-loss of the class shares; None for losses that are bounded (huber, poisson, "
        "logistic), whose `min_loss` is a lower bound. `outcome` says how the fit of the task ended: `converged`, `separable` "
        "(log-loss of classes that a linear model tells apart without error), or `stopped:GAP` before its minimum."
    )
    def tasks_(self) -> list[dict[str, Any]]:
        """Tasks."""
        return self._model.tasks()

    @fitted("What the current model has forgotten of each task, by name; None where only a bound is known.")
    def forgetting_(self) -> dict[str, float | None]:
        """Forgetting."""
        return {task["name"]: task["forgetting"] for task in self._model.tasks()}

    @fitted(
        "An upper bound on the forgetting of each task, by name; equal to it where the loss is exact (squared, gaussian)."
    )
    def forgetting_bound_(self) -> dict[str, float | None]:
        """Bounds."""
        return {task["name"]: task["bound"] for task in self._model.tasks()}

    @fitted(
        "Forgetting averaged over tasks as the preference weighs them; None where only a bound is known (huber, poisson, logistic)."
    )
    def mean_forgetting_(self) -> float | None:
        """Mean forgetting."""
        return self._model.mean_forgetting()[0]

    @fitted("An upper bound on `mean_forgetting_`; equal to it where the loss is exact (squared, gaussian).")
    def mean_forgetting_bound_(self) -> float:
        """Bound on the mean forgetting."""
        return self._model.mean_forgetting()[1]

    @fitted("The ridge of the current model: the one given, or the one chosen from the summaries.")
    def ridge_(self) -> float | NDArray[np.float64]:
        """Ridge."""
        ridge: float | NDArray[np.float64] = self._model.solution()["ridge"]
        return ridge

    @fitted("How tasks are weighed now: the name of a preference, or weights by task.")
    def preference_(self) -> str | dict[str, float]:
        """Preference."""
        weights = self._model.facts().get("weights")
        return str(self._model.settings()["preference"]) if weights is None else dict(weights)

    @fitted(
        "Names of the columns of `coef_`: `age`, `town=Bern`, `age is missing`, those of the basis where it is not linear."
    )
    def feature_names_out_(self) -> list[str]:
        """Names."""
        return list(self._model.facts()["columns"])

    @fitted(
        "What each column was taken for: dicts of name, kind (number, date, category, list) and, for categories, levels."
    )
    def schema_(self) -> list[dict[str, Any]]:
        """Columns."""
        found: dict[str, dict[str, Any]] = {}
        for name, kind, part in self._model.facts()["origins"]:
            plain = {"part": "list", "missing": "category"}.get(kind, kind)
            column = found.setdefault(name, {"name": name, "kind": plain})
            if kind == "category":
                column.setdefault("levels", []).append(part)
            elif kind == "missing":
                column["missing"] = True
        return list(found.values())

    @fitted("Samples learned, over all tasks.")
    def n_samples_(self) -> float:
        """Samples."""
        return float(self._model.facts()["samples"])

    @fitted("Bytes of the memory: what must be kept to go on learning.")
    def state_bytes_(self) -> int:
        """Bytes."""
        return int(self._model.facts()["state_bytes"])

    @fitted("Rank of all rows learned.")
    def rank_(self) -> int:
        """Rank."""
        return int(self._model.solution()["rank"])

    @fitted("How far single precision can have moved predictions, in their standard deviations; None unless mixed.")
    def rounding_bound_(self) -> float | None:
        """A share of the standard deviation of the predictions."""
        bound: float | None = self._model.solution()["rounding_bound"]
        return bound

    def summary(self, task: object) -> _core.Summary:
        """The summary of one task, to add up elsewhere."""
        learned(self)
        return self._model.summary(str(task))

    def check(
        self, X: Any, y: Any, sample_weight: Any = None, refuse_if: str | Iterable[object] = ()
    ) -> _views.CheckReport:
        """Whether rows go with what was learned, before they are: nothing is changed.

        The report says whether the rows follow the model (Chow's test, and what one model for both would cost), which columns
        moved or are in other units, which rows are far off, which categories are new, and whether the same rows were learned
        before. `refuse_if` takes conditions as `pmfcl check --refuse-if`: those that hold are in `report.refused`.
        """
        learned(self)
        X, y, sample_weight = _inputs.complete_rows(self, X, y, sample_weight)
        X = _inputs.rows(self, X, reset=False, learn=True)
        grown = self.__dict__.pop("_grown", None)
        new = [] if grown is None else grown.added_to(vars(self).get("_columns"))
        X, y, weights = self._checked(X, y, sample_weight)
        conditions = [refuse_if] if isinstance(refuse_if, str) else [str(condition) for condition in refuse_if]
        return _views.CheckReport(self._model.check(X, y, weights, new, conditions))

    def coefficients(self, level: float = 0.95) -> Any:
        """Coefficients by name: a pandas frame (a list of dicts without pandas) with target, name, coef, and for squared loss
        std_error, t, p_value, low and high; these assume independent noise of equal variance. Coefficients of categories are
        relative to what the parameter `coding` says: nothing ("onehot", whose level is arbitrary), the first category of the
        column ("reference"), or the mean of its categories ("sum"); intercept and errors go with it."""
        learned(self)
        return _views.coefficients(self._model, self._layer(), self._output_names(), level)

    def history(self) -> _views.History:
        """Loss and forgetting of every task after every task, from the summaries alone; bounds on both where the loss is bounded."""
        learned(self)
        loss, forgetting = self._model.history()
        return _views.History(self._model.task_names(), _views.grid(loss), _views.grid(forgetting))

    def conflicts(self, weights: str = "copies") -> _views.Conflicts:
        """What each pair of tasks costs each other, and whether it could be noise (Chow's test).

        `weights` says what sample weights are for the test: with "copies" a weight of 3 stands for three rows, with "precision" for
        one row whose noise has a third of the variance. Where there is no p-value, `reason` says why.
        """
        learned(self)
        forgetting, p_value, reason = self._model.conflicts(setting(weights))
        return _views.Conflicts(self._model.task_names(), np.array(forgetting), _views.grid(p_value), reason)

    def pareto_front(
        self, a: str | Iterable[object], b: str | Iterable[object], points: int = 50
    ) -> _views.ParetoFront:
        """Every trade-off between two tasks, or two lists of tasks, with the knee and min-max points."""
        learned(self)
        left, right = ([str(side)] if isinstance(side, str | int) else [str(name) for name in side] for side in (a, b))
        if points < 2:
            raise ValueError(f"a front has at least 2 points, not {points}")
        return _views.front(self._model.front(left, right, points))

    # ---- changes in hindsight ----

    def prefer(
        self,
        preference: str | Mapping[str, float] | None = None,
        /,
        *,
        budget: Mapping[str, float] | None = None,
        **weights: float,
    ) -> Self:
        """Weighs the tasks otherwise in hindsight, solved from the summaries. Returns the estimator.

        ``prefer("equal")`` takes the name of a preference (samples, equal, decay:G); ``prefer({"a": 0.7, "b": 0.3})`` or
        ``prefer(a=0.7, b=0.3)`` weights by task; ``prefer(budget={"a": 0.02})`` the weights under which task a loses at most 0.02
        (a ``ValueError`` with the least that is possible where there are none). `preference_` shows the result; the parameter
        `preference` is what a new model begins with.
        """
        learned(self)
        if isinstance(preference, Mapping):
            weights = {**preference, **weights}
            preference = None
        given = [preference is not None, budget is not None, bool(weights)]
        if sum(given) != 1:
            raise ValueError(
                "say how to weigh the tasks in one way: by name (samples, equal, decay:G), weights by task, or a budget"
            )
        if budget is not None:
            self._model.prefer_budget([(str(name), float(loss)) for name, loss in dict(budget).items()])
        elif weights:
            self._model.prefer_weights([(str(name), float(weight)) for name, weight in weights.items()])
        else:
            self._model.prefer(setting(preference))
        return self

    @fitted(
        'What basis="auto" chooses from: name, columns, gcv (lower is better), chosen; empty for other bases. '
        "Chosen from the summaries of all tasks, in whatever order they came."
    )
    def candidates_(self) -> list[dict[str, Any]]:
        """Candidates."""
        return self._model.candidates()

    def set_basis(self, basis: str = "chosen") -> Self:
        """Keeps the candidate of `basis="auto"` that was chosen, and drops the others for good. Returns the estimator."""
        learned(self)
        if basis != "chosen":
            raise ValueError(
                f"basis={basis!r}: of a model that has learned, only 'chosen' can be kept; make a new model"
            )
        self._model.keep_chosen()
        self.basis = self._model.settings()["basis"]
        return self

    def set_ridge(self, ridge: Any, standardize: bool | None = None) -> Self:
        """Another ridge in hindsight: a number, one for each target, or `"auto"`; solved from the summaries. Returns the estimator."""
        learned(self)
        given = self._model.settings()["standardize"] if standardize is None else bool(standardize)
        self._model.set_ridge(setting(ridge), given)
        return self

    def merge(self, other: Self, prefix: str | None = None, tasks: Iterable[object] | None = None) -> Self:
        """Learns all that `other` has learned, or those of its tasks that `tasks` names; `other` is unchanged.

        They may get a prefix: with "north", `january` becomes `north/january`.
        """
        learned(self)
        learned(other)
        if type(other) is not type(self):
            raise TypeError(f"cannot merge: this is a {type(self).__name__}, the other a {type(other).__name__}")
        theirs = other._model.__copy__()
        if tasks is not None:
            known, chosen = theirs.task_names(), {str(name) for name in tasks}
            if not chosen or chosen - set(known):
                lacking = ", ".join(f"'{name}'" for name in sorted(chosen - set(known))) or "nothing"
                raise ValueError(f"cannot merge: tasks names {lacking}; the other has learned {', '.join(known)}")
            for name in known:
                if name not in chosen:
                    theirs.unlearn(name)
        ours, names = self._feature_names(), other._feature_names()
        if sorted(ours) != sorted(names):
            lone = sorted(set(ours) ^ set(names))
            raise ValueError(f"cannot merge: feature '{lone[0]}' is in one of them only")
        if ours != names:
            theirs.rearrange([ours.index(name) for name in names])
        for name in theirs.task_names() if prefix is not None else []:
            theirs.rename(name, f"{prefix}/{name}")
        twice = sorted(set(self._model.task_names()) & set(theirs.task_names()))
        if twice:
            raise ValueError(
                f"cannot merge: both have learned a task '{twice[0]}'; give a prefix for those of the other"
            )
        self._join(theirs, other)
        return self

    def _join(self, theirs: _core.Model, other: Self) -> None:
        self._model.merge(theirs)

    def unlearn(self, task: object, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Removes a task exactly: as if it had never been learned. Compact memory needs its rows once more, all of them."""
        learned(self)
        if X is None:
            self._model.unlearn(str(task))
        else:
            X, y, sample_weight = _inputs.complete_rows(self, X, y, sample_weight)
            table = _inputs.rows(self, X, reset=False, learn=True)
            if self.__dict__.pop("_grown", None) not in (None, vars(self).get("_columns")):
                raise ValueError("the rows have categories or gaps that the model has not: they were never learned")
            self._unlearn_rows(str(task), table, y, sample_weight)
        if not self._model.task_names():
            del self._model
        elif (columns := vars(self).get("_columns")) is not None:
            # Categories that no row has any more are gone.
            self._columns = Columns(self._model.facts()["origins"], columns.gaps)
        return self

    def _unlearn_rows(self, task: str, X: NDArray[Any], y: Any, sample_weight: Any) -> None:
        raise NotImplementedError

    # ---- files, pages, other runtimes ----

    def save(self, path: str | os.PathLike[str], overwrite: bool | None = None) -> None:
        """Writes a model file, the same as the command line's, in one commit: completely or not at all.

        A file that this model was loaded from or last saved to is replaced if it still holds what this model has seen. Where
        another process or model has changed it since, nothing is written: `pmfcl.ModelChangedError` names the tasks and
        says how to keep both.

        A file with a model that this one never came from is replaced, with a warning that names its tasks; so is the file of
        an estimator that was fitted from scratch since. `overwrite=False` refuses instead (`FileExistsError`),
        `overwrite=True` replaces any model without a warning.
        """
        learned(self)
        try:
            self._model.save(path, bool(overwrite))
        except FileExistsError as refused:
            if overwrite is not None:
                raise
            warnings.warn(f"another model is replaced, and its tasks are lost: {refused}", stacklevel=2)
            self._model.save(path, True)

    def _take(self, model: _core.Model) -> None:
        """Becomes what a model file holds."""
        facts, problem = model.facts(), model.problem()
        found = {"loss": problem["spec"], **model.settings(), **problem["options"]}
        if "weights" in facts:
            found["preference"] = "samples"
        names = self.get_params()
        self.set_params(**{name: parameter(value) for name, value in found.items() if name in names})
        self._adopt(model)

    def _adopt(self, model: _core.Model) -> None:
        """Goes on with a model that has learned, under the parameters there are."""
        facts = model.facts()
        columns = Columns.of(facts["origins"], _inputs.learns_gaps(self))
        names = facts["inputs"] if columns is None or not columns.gaps else columns.column_names()
        self.n_features_in_ = len(names)
        if names != self._feature_names():  # bare columns have none
            self.feature_names_in_ = np.array(names, dtype=object)
        self._model, self._columns = model, columns

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a model file, made here or by the command line."""
        return cls._of(_core.Model.load(path), path)

    @classmethod
    def _of(cls, model: _core.Model, path: object) -> Self:
        if model.problem()["predicts_classes"] != cls._PREDICTS_CLASSES:
            raise ValueError(
                f"{path}: the model predicts {'numbers' if cls._PREDICTS_CLASSES else 'classes'}; use pmfcl.load"
            )
        estimator = cls()
        estimator._take(model)
        return estimator

    def export(self, path: str | os.PathLike[str] | None = None, format: str | None = None) -> bytes | None:
        """The model for other runtimes: `.onnx`, `.safetensors` or `.json`, by the name of the file.

        Without a path the bytes are returned in the given format.
        """
        learned(self)
        format = format or (Path(path).suffix.lstrip(".") if path is not None else "onnx")
        data = self._model.export(format, "model" if path is None else Path(path).stem)
        if path is None:
            return data
        written(path, data)
        return None

    def report(self, path: str | os.PathLike[str] | None = None, title: str | None = None) -> str | None:
        """One HTML page that shows what was learned, forgotten and traded off; written to `path`, or returned."""
        learned(self)
        page = self._model.page(title or (Path(path).stem if path is not None else type(self).__name__))
        if path is None:
            return page
        written(path, page.encode("utf-8"))
        return None

    def to_linear(self, dtype: "torch.dtype | None" = None) -> "torch.nn.Linear":
        """A `torch.nn.Linear` with these parameters: the linear predictor of a regression, scores of a classifier.

        The predictor is the prediction itself, except for Poisson loss, where it is the logarithm of the rate.
        """
        learned(self)
        if self._model.settings()["basis"] != "linear":
            raise ValueError("only a linear basis is one linear layer; export the model to ONNX instead")
        import torch

        intercept, coef = self._layer()
        layer = torch.nn.Linear(coef.shape[1], coef.shape[0], dtype=dtype or torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(coef)))
            layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(intercept)))
        return layer

    def _layer(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._model.parameters()

    def _html_repr(self) -> str:
        diagram = str(super()._html_repr())
        return diagram + _html.tasks(self) if self.__sklearn_is_fitted__() else diagram
