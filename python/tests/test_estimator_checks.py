"""All of scikit-learn's own checks, on every loss."""

from pmfcl import ContinualClassifier, ContinualRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

ESTIMATORS = [
    ContinualRegressor(),
    ContinualRegressor(ridge=0.1, memory="compact", accumulator="gram"),
    ContinualRegressor(ridge=0.1, accumulator="mixed"),
    ContinualRegressor(basis="rff:20,gamma=0.1,seed=1", ridge=1e-3),
    ContinualRegressor(loss="huber"),
    ContinualRegressor(loss="poisson"),
    ContinualClassifier(),
    ContinualClassifier(loss="squared"),
    ContinualClassifier(loss="logistic"),
]


def impossible(estimator):
    """Checks whose data a loss must refuse, with the reason."""
    if estimator.loss == "poisson":
        return {
            "check_regressor_multioutput": "its several targets are negative, whatever the tags of the estimator say"
        }
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=impossible)
def test_scikit_learn_has_nothing_to_object(estimator, check):
    check(estimator)
