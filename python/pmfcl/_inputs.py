"""What users call a table, as rows the core can read where they lie."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight, check_array, check_consistent_length, validate_data

from . import _core
from ._columns import ArrayColumns, Columns, column_names, gaps_of, values_of

# The core reads both, and finds what is not finite on its way.
TABLE: dict[str, Any] = {"dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}

# What rows are to predict: a table of values, or a code for each row and a name for each code.
Target = NDArray[Any] | tuple[NDArray[np.uint32], Sequence[str]]

# Sample weights, and which rows have any; None for all.
Weighted = tuple[NDArray[np.float64] | None, NDArray[np.bool_] | None]


def ready(array: object, ndim: int) -> bool:
    """Whether the core can read an array as it is."""
    return (
        type(array) is np.ndarray
        and array.dtype == np.float64
        and array.ndim == ndim
        and bool(array.flags.c_contiguous)
    )


def speaks_arrow(table: object) -> bool:
    """Whether a table comes through the Arrow C stream interface. pandas does too, but scikit-learn knows it better."""
    return hasattr(table, "__arrow_c_stream__") and type(table).__module__.partition(".")[0] != "pandas"


def learns_gaps(estimator: Any) -> bool:
    """Whether rows that miss values of features are learned."""
    return getattr(estimator, "missing", "error") in ("mean", "indicator")


def is_sparse(table: object) -> bool:
    """Whether a table is one of SciPy's sparse ones."""
    return hasattr(table, "toarray") and hasattr(table, "tocsr") and hasattr(table, "shape")


def sparse_rows(estimator: Any, X: Any, reset: bool) -> Any:
    """A sparse table by rows, of which the core makes a block at a time dense."""
    if vars(estimator).get("_columns") is not None and not reset:
        raise ValueError("X is sparse, and the model was learned from a frame: give it a frame with the same columns")
    if learns_gaps(estimator):
        raise ValueError(
            f"missing={estimator.missing!r} is for dense tables and frames: zeros of a sparse table are values"
        )
    csr = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=True
    )
    csr.sum_duplicates()
    return csr


def rows(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    learn: bool = False,
    new_columns: Sequence[str] | Mapping[str, Any] = (),
) -> NDArray[Any]:
    """The rows of X, with what scikit-learn asks of columns and their names; new categories are let in to `learn`."""
    vars(estimator).pop("_grown", None)
    if reset:
        vars(estimator).pop("_columns", None)
    table: NDArray[Any]
    gaps = learns_gaps(estimator)
    if is_sparse(X):
        table = sparse_rows(estimator, X, reset)
        return table
    if not gaps and not new_columns and ready(X, 2) and len(X) and plain(estimator, X.shape[1], reset):
        table = X
        return table
    columns = Columns.of_frame(X, gaps) if reset else vars(estimator).get("_columns")
    if not reset and columns is None and new_columns:
        columns = Columns([(name, "number", None) for name in estimator._feature_names()])
        estimator._columns = columns
    names = column_names(X)
    if gaps and names is None:
        # An array: its columns are called as the command line calls bare ones.
        array = validate_data(estimator, X, reset=reset, **TABLE)
        known = [f"x{j + 1}" for j in range(array.shape[1])] if columns is None else columns.column_names()
        X = ArrayColumns(array, known)
        if columns is None:
            columns = Columns([(name, "number", None) for name in known], gaps=True)
            columns = columns.grown(X) if reset else columns
            estimator._columns = columns
    if columns is not None and reset and names is not None:
        estimator._columns = columns
        estimator.n_features_in_, estimator.feature_names_in_ = len(names), np.array(names, dtype=object)
    if columns is not None and columns.cover(X):
        if learn and not reset:
            columns = columns.with_columns(X, new_columns) if new_columns else columns
            columns = columns.grown(X)
            estimator._grown = columns
        means = None if learn else known_means(estimator)
        table = check_array(columns.encode(X, means), **TABLE, input_name="X", estimator=estimator)
        return table
    if columns is not None and names is not None:
        lacking = [name for name in columns.column_names() if name not in names]
        raise ValueError(f"X lacks the column '{lacking[0]}', which the model has learned")
    if not speaks_arrow(X):
        table = validate_data(estimator, X, reset=reset, **TABLE)
        return table
    names, X = _core.arrow_table(X)
    table = check_array(X, **TABLE, input_name="X", estimator=estimator)
    known = getattr(estimator, "feature_names_in_", None)
    if reset:
        estimator.n_features_in_, estimator.feature_names_in_ = len(names), np.array(names, dtype=object)
    elif known is not None and list(known) != names:
        raise ValueError(
            f"The feature names should match those that were passed during fit: {', '.join(map(str, known))} in this order, "
            f"not {', '.join(names)}."
        )
    elif len(names) != estimator.n_features_in_:
        raise ValueError(
            f"X has {len(names)} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features "
            "as input."
        )
    return table


def known_means(estimator: Any) -> Any:
    """Asks the model for the means of its inputs, where it knows them."""
    model = vars(estimator).get("_model")
    try:
        means = None if model is None else model.input_means()
    except ValueError:
        means = None
    if means is None:
        return None
    return lambda: means


def complete_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Rows, targets and weights without rows that are dropped for missing values, and a warning that says how many.

    With `missing="drop"` these are the rows that miss a feature or the target; where gaps are learned, those without a target.
    """
    way = getattr(estimator, "missing", "error")
    if way not in ("error", "drop", "mean", "indicator"):
        raise ValueError(f"missing: '{way}' is none of error, drop, mean, indicator")
    if way == "error" or y is None:
        return X, y, sample_weight
    gone = np.zeros(np.shape(y)[0] if np.ndim(y) or hasattr(y, "shape") else len(y), dtype=bool)
    targets = y if column_names(y) is not None else {"y": y}
    for name in column_names(y) or ["y"]:
        values = np.asarray(targets[name])
        for column in values.reshape(len(values), -1).T:
            gone |= gaps_of(column)
    if way == "drop" and not is_sparse(X):
        names = column_names(X)
        if names is None:
            array = np.asarray(X)
            columns = list(array.T) if array.ndim == 2 else []
        else:
            columns = [values_of(X[name]) for name in names]
        for column in columns:
            gone |= gaps_of(column)
    if not gone.any():
        return X, y, sample_weight
    if gone.all():
        raise ValueError(f"all {len(gone)} rows miss a value: there is nothing to learn from")
    what = "with missing values" if way == "drop" else "without a target"
    warnings.warn(f"{int(gone.sum())} rows {what} were dropped", UserWarning, stacklevel=4)
    kept = ~gone
    weights = None if sample_weight is None else np.asarray(sample_weight)[kept]
    return chosen(X, kept), chosen(y, kept), weights


def chosen(table: Any, kept: NDArray[np.bool_]) -> Any:
    """Some rows of a table or list, whatever it is."""
    if hasattr(table, "filter") and hasattr(table, "to_numpy") and not hasattr(table, "loc"):
        return table.filter(kept)  # Polars
    if hasattr(table, "filter") and hasattr(table, "column_names"):
        import pyarrow

        return table.filter(pyarrow.array(kept))
    if hasattr(table, "loc"):
        return table.loc[kept]
    return table[kept] if hasattr(table, "shape") else np.asarray(table)[kept]


def plain(estimator: Any, width: int, reset: bool) -> bool:
    """Whether a bare array of that width is all right, so that nothing more need be looked at: small calls are quick."""
    if reset and width and "feature_names_in_" not in vars(estimator):
        estimator.n_features_in_ = width
        return True
    return not reset and vars(estimator).get("n_features_in_") == width and "feature_names_in_" not in vars(estimator)


def target_names(y: Any) -> list[str] | None:
    """What the columns to be predicted are called, where they have names."""
    if hasattr(y, "columns") and not callable(y.columns):
        names = list(y.columns)
    elif hasattr(y, "column_names"):
        names = list(y.column_names)
    else:
        names = [getattr(y, "name", None)]
    return names if all(isinstance(name, str) and name for name in names) else None


def targets(y: Any, X: NDArray[Any], estimator: object) -> NDArray[np.float64]:
    """Numbers to be predicted, an array of one or two dimensions, whatever table they came in."""
    if (ready(y, 1) or ready(y, 2)) and len(y) == X.shape[0] and y.size and np.isfinite(y).all():
        values: NDArray[np.float64] = y
        return values
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    y = _core.arrow_table(y)[1] if speaks_arrow(y) and not hasattr(y, "to_numpy") else y
    values = check_array(y, dtype=np.float64, order="C", ensure_2d=False, input_name="y", estimator=estimator)
    check_consistent_length(X, values)
    return values


def sample_weights(sample_weight: Any, X: NDArray[Any]) -> Weighted:
    """Weights of the rows of X and which rows have any: a weight of 0 is a row that is not there."""
    if sample_weight is None:
        return None, None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights > 0).all():
        return np.ascontiguousarray(weights), None
    if (weights < 0).any():
        at = int(np.argmax(weights < 0))
        raise ValueError(f"sample weight of row {at} is {weights[at]}: weights must not be negative")
    positive = weights > 0
    if not positive.any():
        raise ValueError("all sample weights are zero: there is nothing to learn from")
    return np.ascontiguousarray(weights[positive]), positive


def kept(
    X: NDArray[Any], y: NDArray[Any], weighted: Weighted
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
    """Rows that have any weight."""
    weights, rows = weighted
    return (X, y, weights) if rows is None else (X[rows], y[rows], weights)


def arrays(X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
    """Rows, targets and weights for a summary."""
    if not ready(X, 2):
        X = check_array(_core.arrow_table(X)[1] if speaks_arrow(X) else X, **TABLE, input_name="X")
    if not ready(y, 2):
        y = targets(y, X, None)
        y = y.reshape(len(y), -1)
    return kept(X, y, sample_weights(sample_weight, X))


def parameters(theta: ArrayLike) -> NDArray[np.float64]:
    """Parameters as one row for each target."""
    return np.atleast_2d(np.asarray(theta, dtype=np.float64))
