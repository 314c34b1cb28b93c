"""scikit-learn's own tests of `Ridge`, from the installed package, with `ContinualRegressor` in its place.

The rows of every fit come as two tasks. A test that is left out is named here with the reason.
"""

import numpy as np
import pytest
import sklearn.linear_model.tests.test_ridge as theirs
from pmfcl import ContinualRegressor
from scipy import sparse

SPARSE = "sparse tables are refused"
SOLVER = "is about one of Ridge's solvers or its iterations, which we do not have"
POSITIVE = "positive=True: we have no sign constraints"
ARRAYS = "arrays of other libraries: we read NumPy, pandas, Polars and Arrow"
LEFT_OUT = {
    "test_solver_consistency": SOLVER,
    "test_sparse_design_with_sample_weights": SPARSE,
    "test_sparse_cg_max_iter": SOLVER,
    "test_n_iter": SOLVER,
    "test_ridge_fit_intercept_sparse": SPARSE,
    "test_ridge_fit_intercept_sparse_error": SPARSE,
    "test_ridge_fit_intercept_sparse_sag": SPARSE,
    "test_ridge_sag_with_X_fortran": SOLVER,
    "test_ridge_positive_regression_test": POSITIVE,
    "test_ridge_ground_truth_positive_test": POSITIVE,
    "test_ridge_positive_error_test": POSITIVE,
    "test_positive_ridge_loss": POSITIVE,
    "test_lbfgs_solver_error": SOLVER,
    "test_dtype_match": "coefficients are float64 whatever the rows are",
    "test_dtype_match_cholesky": "coefficients are float64 whatever the rows are",
    "test_ridge_per_target_alpha_array_api": ARRAYS,
    "test_array_api_error_and_warnings_for_solver_parameter": ARRAYS,
    "test_array_api_numpy_namespace_no_warning": ARRAYS,
}


class RidgeInTwoTasks(ContinualRegressor):
    """`Ridge`, its parameters included; `alpha` is relative to the sum of squares, our ridge to the mean."""

    loss, basis, standardize, memory = "squared", "linear", False, "ledger"
    accumulator, store, preference, n_jobs = "auto", "f64", "samples", 1
    missing, coding = "error", "onehot"

    def __init__(
        self,
        alpha=1.0,
        *,
        fit_intercept=True,
        copy_X=True,
        max_iter=None,
        tol=1e-4,
        solver="auto",
        positive=False,
        random_state=None,
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X, self.max_iter, self.tol, self.solver = copy_X, max_iter, tol, solver
        self.positive, self.random_state = positive, random_state

    def fit(self, X, y, sample_weight=None):
        """In two tasks; none of which may lack weight."""
        if sparse.issparse(X):
            pytest.skip(SPARSE)
        X, y = np.asarray(X), np.asarray(y)
        if np.ndim(sample_weight) > 1:
            raise ValueError("Sample weights must be 1D array or scalar")
        weights = np.ones(len(X)) if sample_weight is None else np.broadcast_to(sample_weight, np.shape(X)[:1])
        penalties = np.ravel(self.alpha)
        if len(penalties) > 1 and len(penalties) != np.shape(y)[-1]:
            counts = f"{len(penalties)} != {np.shape(y)[-1]}"
            raise ValueError(f"Number of targets and number of penalties do not correspond: {counts}")
        self.ridge, self.solver_ = np.asarray(self.alpha) / weights.sum(), self.solver
        vars(self).pop("_model", None)
        vars(self).pop("feature_names_in_", None)
        middle = int(np.searchsorted(np.cumsum(weights), weights.sum() / 2)) + 1
        for task, rows in enumerate((slice(0, middle), slice(middle, None))):
            if len(y[rows]):
                given = None if sample_weight is None else weights[rows]
                self.partial_fit(X[rows], y[rows], given, task=task)
        return self


theirs.Ridge = RidgeInTwoTasks
OF_RIDGE = {
    name: test for name, test in vars(theirs).items() if name.startswith("test_") and "Ridge" in test.__code__.co_names
}
globals().update({name: test for name, test in OF_RIDGE.items() if name not in LEFT_OUT})
ols_ridge_dataset = theirs.ols_ridge_dataset


@pytest.fixture
def global_random_seed():
    """The seed scikit-learn runs these with by default."""
    return 42


def test_what_is_left_out_is_there_and_most_is_not_left_out():
    assert set(LEFT_OUT) <= set(OF_RIDGE), "named, but not among theirs"
    assert len(OF_RIDGE) - len(LEFT_OUT) >= 15


@pytest.mark.parametrize("named", ["_test_ridge_diabetes", "_test_multi_ridge_diabetes", "_test_tolerance"])
def test_those_that_scikit_learn_runs_for_dense_and_sparse(named):
    getattr(theirs, named)(None)
