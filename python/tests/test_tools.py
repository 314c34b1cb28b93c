"""scikit-learn's tools, and copies of every kind."""

import copy
import pickle

import numpy as np
import pytest
from conftest import learned
from pmfcl import ContinualClassifier, ContinualRegressor
from sklearn import set_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def test_copies_are_the_same_and_apart(months, flowers):
    for model, tasks in (
        (ContinualRegressor(memory="compact"), months),
        (ContinualRegressor(basis="spline:4"), months),
        (ContinualClassifier(), flowers),
        (ContinualClassifier(loss="logistic", calibrate=2.0), [flowers[0], flowers[1]]),
    ):
        learned(model, tasks)
        X, y = tasks[0]
        for back in (
            copy.deepcopy(model),
            pickle.loads(pickle.dumps(model)),
            pickle.loads(pickle.dumps(model, protocol=2)),
        ):
            assert back.predict(X).tolist() == model.predict(X).tolist()
            assert back.tasks_ == model.tasks_
            assert back.get_params() == model.get_params()
            back.partial_fit(X, y, task="more")
            assert len(back.tasks_) == len(model.tasks_) + 1
        bare = clone(model)
        assert not hasattr(bare, "coef_")
        assert bare.get_params() == model.get_params()


def test_they_are_what_they_say():
    assert is_regressor(ContinualRegressor())
    assert is_classifier(ContinualClassifier())
    assert repr(ContinualRegressor(preference="equal")) == "ContinualRegressor(preference='equal')"


def test_pipelines_searches_and_frames(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"size": rng.normal(size=90), "colour": rng.choice(["red", "blue"], size=90)})
    y = 2 * frame["size"] + (frame["colour"] == "red") + rng.normal(scale=0.1, size=90)
    encode = ColumnTransformer(
        [("n", StandardScaler(), ["size"]), ("c", OneHotEncoder(sparse_output=False), ["colour"])]
    )
    pipe = make_pipeline(encode, ContinualRegressor()).set_output(transform="pandas").fit(frame, y)
    assert pipe.score(frame, y) > 0.99
    assert list(pipe[-1].feature_names_in_) == ["n__size", "c__colour_blue", "c__colour_red"]
    grid = {"continualregressor__ridge": [1e-3, 1e3], "continualregressor__basis": ["linear", "poly:2"]}
    search = GridSearchCV(pipe, grid, cv=3, n_jobs=2).fit(frame, y)
    assert search.best_params_["continualregressor__ridge"] == 1e-3
    assert cross_val_score(ContinualClassifier(), frame[["size"]], frame["size"] > 0, cv=3).mean() > 0.9
    both = MultiOutputRegressor(ContinualRegressor(ridge=0.1)).fit(frame[["size"]], np.column_stack([y, -y]))
    assert both.predict(frame[["size"]]).shape == (90, 2)


def test_notebooks_see_the_tasks(months):
    model = learned(ContinualRegressor(), months)
    page = model._repr_html_()
    assert "<td" in page
    assert "t3" in page
    assert "215 samples" in page
    assert "t3" not in clone(model)._repr_html_()
    odd = ContinualRegressor().partial_fit(*months[0], task="<script>alert(1)</script>")
    assert "<script>alert(1)" not in odd._repr_html_()
    set_config(display="text")
    try:
        assert not hasattr(model, "_repr_html_")
    finally:
        set_config(display="diagram")
