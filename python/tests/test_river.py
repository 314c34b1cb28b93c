"""The wrappers for River, in River."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

river = pytest.importorskip("river", reason="river is not installed")
pd = pytest.importorskip("pandas", reason="river's batches are pandas frames")

from pmfcl.river import RiverClassifier, RiverRegressor
from river import checks, compose, datasets, evaluate, linear_model, metrics, optim, preprocessing


@pytest.mark.parametrize("model", [RiverRegressor(), RiverRegressor(alpha=0.1, fit_intercept=False), RiverClassifier()])
def test_river_has_nothing_to_object(model):
    checks.check_estimator(model)


def test_a_stream_ends_where_batch_training_does():
    data = list(datasets.TrumpApproval())
    model = RiverRegressor(alpha=10)
    for x, y in data:
        model.learn_one(x, y)
    frame, target = pd.DataFrame([x for x, _ in data]), np.array([y for _, y in data])
    peer = Ridge(alpha=10, solver="svd").fit(frame, target)
    assert model.summary.n_samples == len(data)
    np.testing.assert_allclose(model.predict_many(frame), peer.predict(frame), rtol=1e-8)
    batches = RiverRegressor(alpha=10)
    for rows in np.array_split(np.arange(len(data)), 7):
        batches.learn_many(frame.iloc[rows], target[rows])
    np.testing.assert_allclose(batches.predict_many(frame), peer.predict(frame), rtol=1e-8)
    assert batches.predict_one(data[5][0]) == pytest.approx(batches.predict_many(frame)[5], rel=1e-12)


def test_prequential_error_is_below_that_of_gradient_steps():
    error = {}
    for name, model in {
        "exact": RiverRegressor(),
        "sgd": linear_model.LinearRegression(optimizer=optim.SGD(0.01)),
    }.items():
        pipe = compose.Pipeline(preprocessing.StandardScaler(), model)
        error[name] = evaluate.progressive_val_score(datasets.TrumpApproval(), pipe, metrics.MAE()).get()
    assert error["exact"] < error["sgd"]


def test_features_and_classes_that_appear_late():
    rng = np.random.default_rng(3)
    model = RiverClassifier(shrinkage=0.1)
    rows, labels = [], []
    for k in range(600):
        label = "abc"[k % (2 if k < 300 else 3)]
        x = {"u": rng.normal() + 2 * (label == "a"), "v": rng.normal() - 2 * (label == "c")}
        if k > 200:
            x["w"] = rng.normal()
        model.learn_one(x, label)
        rows.append(x)
        labels.append(label)
    frame = pd.DataFrame(rows).fillna(0.0)
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(frame, labels)
    found = model.predict_proba_many(frame)
    np.testing.assert_allclose(found[["a", "b", "c"]], peer.predict_proba(frame), rtol=1e-7, atol=1e-10)
    assert list(model.predict_many(frame)) == list(peer.predict(frame))
    assert model.predict_one(rows[0]) == peer.predict(frame[:1])[0]
    assert model.summary.nbytes < 1000
    assert RiverClassifier().predict_proba_one({"u": 1.0}) == {}
    assert RiverRegressor().predict_one({"u": 1.0}) == 0.0
