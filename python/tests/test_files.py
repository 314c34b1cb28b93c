"""Model files: made here and read by the command line, made there and read here."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pmfcl
import pytest
from conftest import learned
from pmfcl import ContinualClassifier, ContinualRegressor

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PMFCL_PROGRAM", ROOT / "target/debug/pmfcl"))


def run(*arguments):
    """What the command line answers."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is not there; `cargo build -p pmfcl-cli` makes it")
    done = subprocess.run([PROGRAM, *map(str, arguments), "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null")


def csv(path, X, names, y, target):
    """A CSV file whose numbers come back to the bit."""
    lines = [",".join([*names, target])]
    lines += [",".join([*(repr(float(v)) for v in row), str(label)]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def blobs(path):
    """The summaries in a file."""
    with sqlite3.connect(path) as database:
        return database.execute("SELECT bytes FROM summary ORDER BY place").fetchall()


@pytest.mark.parametrize("basis", ["linear", "poly:2", "rff:16,gamma=0.5,seed=3"])
def test_both_sides_make_the_same_regression(months, tmp_path, basis):
    pd = pytest.importorskip("pandas")
    names = list("abcde")
    here, there = tmp_path / "here.pmf", tmp_path / "there.pmf"
    model, once = (ContinualRegressor(basis=basis, ridge=0.1) for _ in range(2))
    for k, (X, y) in enumerate(months):
        model.partial_fit(pd.DataFrame(X, columns=names), pd.Series(y, name="sold"), task=f"m{k}")
        data = csv(tmp_path / f"m{k}.csv", X, names, y, "sold")
        run("learn", there, data, "--target", "sold", *(("--basis", basis, "--ridge", "0.1") if k == 0 else ()))
        once.partial_fit(pd.DataFrame(X, columns=names), y, task=f"m{k}")
        # A command ends with a solution, and what comes next is added to its pool: the bits are those of a model asked as often.
        assert model.coef_.size
    np.testing.assert_allclose(once.coef_, model.coef_, rtol=1e-12, atol=1e-12)
    model.save(here)
    ours, theirs = run("show", here), run("show", there)
    assert ours == theirs
    assert blobs(here) == blobs(there)
    assert run("verify", here)["tasks"] == 4
    assert model.tasks_ == ours["tasks"]
    np.testing.assert_array_equal(model.coef_, ours["coef"])
    assert list(pmfcl.load(there).feature_names_in_) == names


def test_the_command_line_goes_on_where_python_stopped_and_back(months, tmp_path):
    path = tmp_path / "model.pmf"
    names = [f"x{j + 1}" for j in range(5)]
    learned(ContinualRegressor(ridge=0.1), months[:2]).save(path)
    run("learn", path, csv(tmp_path / "t2.csv", *(months[2][0], names, months[2][1], "y")))
    run("prefer", path, "--equal")
    model = ContinualRegressor.load(path)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 5
    assert model.preference_ == "equal"
    assert model.get_params()["preference"] == "equal"
    assert model.ridge == 0.1
    expected = learned(ContinualRegressor(ridge=0.1, preference="equal"), months[:3])
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
    model.partial_fit(*months[3], task="t3").unlearn("t0")
    model.save(path)
    assert [task["name"] for task in run("show", path)["tasks"]] == ["t1", "t2", "t3"]
    assert run("verify", path)["tasks"] == 3
    assert (pmfcl.load(path).coef_ == model.coef_).all()
    predicted = tmp_path / "predicted.csv"
    run("predict", path, csv(tmp_path / "new.csv", months[0][0], names, months[0][1], "y"), "-o", predicted)
    values = [float(line.split(",")[-1]) for line in predicted.read_text().splitlines()[1:]]
    np.testing.assert_allclose(values, model.predict(months[0][0]), rtol=1e-12)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("loss", ["gaussian", "squared", "logistic"])
def test_both_sides_make_the_same_classifier(flowers, tmp_path, loss, late):
    # A process that has rows of earlier tasks in memory measures them again when a class comes; else both sides measure the same.
    calibrate = "off" if late else "on"
    if not late:
        X, y = (np.concatenate(part) for part in zip(*flowers, strict=True))
        flowers = [(X[k::3], y[k::3]) for k in range(3)]
        assert all(len(np.unique(y)) == 3 for _, y in flowers)
    names = [f"x{j + 1}" for j in range(4)]
    there = tmp_path / "there.pmf"
    every = ["ash", "elm", "oak"] if loss == "logistic" else None
    model = ContinualClassifier(loss=loss, ridge="auto" if loss == "gaussian" else 0.1, calibrate=calibrate)
    for k, (X, y) in enumerate(flowers):
        model.partial_fit(X, y, task=f"f{k}", classes=every if k == 0 else None)
        options = ["--target", "y"]
        if k == 0:
            options += ["--loss", loss]
            options += ["--calibrate", calibrate] if loss == "gaussian" else ["--ridge", "0.1"]
            options += ["--classes", ",".join(every)] if every else []
        run("learn", there, csv(tmp_path / f"f{k}.csv", X, names, y, "y"), *options)
        assert model.coef_.size  # solved after every task, as a command does
    here = tmp_path / "here.pmf"
    model.save(here)
    ours, theirs = run("show", here), run("show", there)
    for key in ("tasks", "coef", "classes", "loss", "samples", "state_bytes"):
        assert ours[key] == theirs[key], key
    back = pmfcl.load(there)
    assert isinstance(back, ContinualClassifier)
    assert list(back.classes_) == list(model.classes_)
    X, _ = flowers[2]
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert list(back.predict(X)) == list(model.predict(X))


# Parameters here, and the flags of the command line that mean the same; None where it has none.
REGRESSIONS = [
    ({}, []),
    ({"ridge": 0.1, "standardize": True}, ["--ridge", "0.1", "--standardize"]),
    ({"ridge": "leave-one-task-out"}, ["--ridge", "leave-one-task-out"]),
    ({"ridge": 0.0, "fit_intercept": False}, ["--ridge", "0", "--no-intercept"]),
    ({"memory": "compact"}, ["--memory", "compact"]),
    ({"accumulator": "gram"}, ["--accumulator", "gram"]),
    ({"accumulator": "mixed"}, ["--accumulator", "mixed"]),
    ({"preference": "equal"}, ["--prefer", "equal"]),
    ({"preference": "decay:0.5", "memory": "compact"}, ["--prefer", "decay:0.5", "--memory", "compact"]),
    ({"basis": "poly:2"}, ["--basis", "poly:2"]),
    ({"basis": "spline:4", "ridge": 0.01}, ["--basis", "spline:4", "--ridge", "0.01"]),
    ({"basis": "rff:16,gamma=0.5,seed=3"}, ["--basis", "rff:16,gamma=0.5,seed=3"]),
    ({"loss": "huber"}, ["--loss", "huber"]),
    ({"loss": "huber:1.35", "preference": "equal"}, ["--loss", "huber:1.35", "--prefer", "equal"]),
    ({"loss": "poisson", "memory": "compact"}, ["--loss", "poisson", "--memory", "compact"]),
    ({"loss": "poisson:6", "ridge": 0.1}, ["--loss", "poisson:6", "--ridge", "0.1"]),
]
CLASSIFIERS = [
    ({}, []),
    ({"shrinkage": 0.3}, None),
    ({"shrinkage": "diagonal:0.2", "calibrate": 2.5}, None),
    ({"shrinkage": "ridge:0.1", "memory": "compact"}, None),
    ({"calibrate": "off"}, ["--calibrate", "off"]),
    (
        {"loss": "squared", "ridge": 0.1, "preference": "equal"},
        ["--loss", "squared", "--ridge", "0.1", "--prefer", "equal"],
    ),
    ({"loss": "logistic"}, ["--loss", "logistic"]),
    ({"loss": "logistic", "certify": False, "ridge": 0.1}, None),
    ({"loss": "logistic", "scheme": "sequential"}, ["--loss", "logistic", "--scheme", "sequential"]),
    *(
        ({"loss": "logistic", "curvature": kind}, ["--loss", "logistic", "--curvature", kind])
        for kind in ("bohning", "hessian", "blend", "diagonal")
    ),
]


@pytest.mark.parametrize(
    ("make", "parameters", "flags"),
    [(ContinualRegressor, *case) for case in REGRESSIONS] + [(ContinualClassifier, *case) for case in CLASSIFIERS],
)
def test_both_sides_go_on_under_every_setting(rng, tmp_path, make, parameters, flags):
    names, tasks = ["a", "b", "c"], []
    for k in range(3):
        X = rng.normal(size=(60, 3)) + 0.2 * k
        y = rng.poisson(np.exp(X @ [0.8, -0.5, 0.3])).astype(float)
        tasks.append((X, y if make is ContinualRegressor else np.where(y > 1, "many", np.where(y > 0, "one", "none"))))
    files = [csv(tmp_path / f"t{k}.csv", X, names, y, "y") for k, (X, y) in enumerate(tasks)]
    pd = pytest.importorskip("pandas")
    frames = [(pd.DataFrame(X, columns=names), pd.Series(y, name="y")) for X, y in tasks]

    def check(path, back, expected):
        for key, value in expected.get_params().items():
            if key not in ("n_jobs", "loss", "shrinkage"):
                assert back.get_params()[key] == value, key
        assert back.loss == expected.loss_
        # Tasks are pooled in other steps, which rounding shows.
        answer = "predict" if make is ContinualRegressor else "predict_proba"
        # What is measured with a task depends on what had been learned by then: one side saved and solved in between.
        measured = expected.get_params().get("calibrate") == "on" and expected.loss == "gaussian"
        same = "decision_function" if measured else answer
        ours, theirs = (getattr(model, same)(frames[0][0]) for model in (back, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7 if measured else 1e-9)
        ours = getattr(back, answer)(frames[0][0])
        assert run("verify", path)["tasks"] == len(expected.tasks_)
        scores = run("score", path, files[0])["overall"]
        if make is ContinualRegressor:
            assert scores["mse"] == pytest.approx(np.mean((ours - tasks[0][1]) ** 2), rel=1e-9)
            return
        # The log-loss of the command line is that of the probabilities here.
        ours = ours[np.arange(60), np.searchsorted(back.classes_, tasks[0][1])]
        assert scores["log_loss"] == pytest.approx(-np.mean(np.log(ours)), rel=1e-9)
        assert scores["accuracy"] == pytest.approx(back.score(*frames[0]))

    here = tmp_path / "here.pmf"
    learned(make(**parameters), frames[:1]).save(here)
    run("learn", here, files[1])
    back = pmfcl.load(here)
    check(here, back, learned(make(**parameters), frames[:2]))
    back.partial_fit(*frames[2], task="t2").save(here)
    check(here, pmfcl.load(here), learned(make(**parameters), frames))
    if flags is None:
        return
    there = tmp_path / "there.pmf"
    run("learn", there, files[0], "--target", "y", *flags)
    back = pmfcl.load(there)
    for key, value in parameters.items():
        assert key == "loss" or back.get_params()[key] == value, key
    expected = learned(make(**{**back.get_params(), **parameters}), frames[:2])
    back.partial_fit(*frames[1], task="t1").save(there)
    check(there, back, expected)
    run("learn", there, files[2], *flags)
    check(there, pmfcl.load(there), learned(make(**{**back.get_params(), **parameters}), frames))


def test_a_model_of_text_and_dates_reads_frames(rng, tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=80),
            "colour": rng.choice(["red", "blue", "green"], size=80),
            "day": pd.Timestamp("2024-02-27T06:30:00") + pd.to_timedelta(rng.integers(0, 400, size=80), unit="h"),
        }
    )
    frame["cost"] = 2 * frame["size"] + (frame["colour"] == "red") + rng.normal(scale=0.1, size=80)
    data, path, predicted = tmp_path / "data.csv", tmp_path / "model.pmf", tmp_path / "predicted.csv"
    frame.to_csv(data, index=False, date_format="%Y-%m-%dT%H:%M:%S")
    run("learn", path, data, "--target", "cost", "--dates", "day")
    run("predict", path, data, "-o", predicted)
    model = pmfcl.load(path)
    assert {"size", "day", "colour=red"} <= set(model.feature_names_in_)
    theirs = pd.read_csv(predicted).iloc[:, -1]
    for table in (frame, pl.from_pandas(frame), frame[["colour", "day", "size"]]):
        np.testing.assert_allclose(model.predict(table), theirs, rtol=1e-12)
    more = model.partial_fit(frame[:40], frame["cost"][:40], task="again")
    assert len(more.tasks_) == 2
    frame.loc[7, "colour"] = "violet"
    with pytest.raises(ValueError, match="column 'colour' has the category 'violet' at row 7"):
        model.predict(frame)


def test_labels_come_back_as_what_they_were(rng, tmp_path):
    X = rng.normal(size=(30, 2))
    for labels in ([3, 1, 10], [3.0, 2.0, -1.0], [True, False], ["b", "a"]):
        y = np.resize(labels, 30)
        path = tmp_path / f"{labels[0]}.pmf"
        model = ContinualClassifier().fit(X, y)
        model.save(path)
        back = ContinualClassifier.load(path)
        assert list(back.classes_) == sorted(labels) == list(model.classes_)
        assert list(back.predict(X)) == list(model.predict(X))
        assert list(back.partial_fit(X, y, task="more").classes_) == sorted(labels)


def test_text_that_looks_like_numbers_keeps_scikit_learns_order(rng):
    y = np.resize(["10", "9", "b"], 60)
    X = rng.normal(size=(60, 2)) + np.resize([[0, 0], [5, 0], [0, 5]], (60, 2))
    model = ContinualClassifier().fit(X, y)
    assert list(model.classes_) == ["10", "9", "b"]
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()
    assert (model.predict(X) == y).mean() > 0.9
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-9, atol=1e-9)


def test_files_that_are_none_are_refused(months, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such model"):
        pmfcl.load(tmp_path / "nothing.pmf")
    junk = tmp_path / "junk.pmf"
    junk.write_bytes(b"not a database at all")
    with pytest.raises(ValueError, match="not a pmfcl model"):
        pmfcl.load(junk)
    with pytest.raises(IsADirectoryError):
        pmfcl.load(tmp_path)
    model = ContinualRegressor().fit(*months[0])
    with pytest.raises(ValueError, match="not a pmfcl model"):
        model.save(junk)
    with pytest.raises(OSError, match="no directory"):
        model.save(tmp_path / "nowhere" / "model.pmf")
    path = tmp_path / "model.pmf"
    model.save(path)
    with pytest.raises(ValueError, match="predicts numbers"):
        ContinualClassifier.load(path)
    damaged = bytearray(path.read_bytes())
    damaged[bytes(damaged).index(blobs(path)[0][0][:40]) + 30] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        pmfcl.load(path)


def test_exports_and_pages(months, flowers, tmp_path):
    for model in (learned(ContinualRegressor(), months), learned(ContinualClassifier(), flowers)):
        for name in ("m.onnx", "m.safetensors", "m.json"):
            model.export(tmp_path / name)
            assert (tmp_path / name).stat().st_size > 100
        assert json.loads(model.export(format="json"))
        assert model.export()[:1] == b"\x08"  # the tag of the first field of an ONNX model
        with pytest.raises(ValueError, match="none of onnx"):
            model.export(tmp_path / "m.pickle")
        model.report(tmp_path / "report.html", title="rentals & more")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "rentals &amp; more" in page
        assert model.report() != page


def test_onnx_says_what_we_say_of_image_patches(rng):
    onnxruntime = pytest.importorskip("onnxruntime")
    X = rng.uniform(0, 255, (40, 12 * 10))
    y = X[:, 5] - X[:, 60] + rng.normal(size=40)
    model = ContinualRegressor(basis="patches:27,size=3,grid=3,shape=12x10,seed=4", ridge=0.01).partial_fit(
        X, y, task="a"
    )
    session = onnxruntime.InferenceSession(model.export(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"X": X})[0].ravel(), model.predict(X), rtol=1e-9)


def test_onnx_says_what_we_say(months, flowers, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    for model, tasks in ((ContinualRegressor(basis="poly:2"), months), (ContinualClassifier(), flowers)):
        learned(model, tasks)
        session = onnxruntime.InferenceSession(model.export(), providers=["CPUExecutionProvider"])
        X = tasks[0][0]
        answers = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"X": X}), strict=True))
        if "Y" in answers:
            np.testing.assert_allclose(answers["Y"].ravel(), model.predict(X), rtol=1e-9)
        else:
            np.testing.assert_allclose(answers["probabilities"], model.predict_proba(X), rtol=1e-9, atol=1e-12)
            assert list(answers["label"].ravel()) == list(model.predict(X))
