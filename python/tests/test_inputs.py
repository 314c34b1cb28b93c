"""Arrays, frames, tables: whatever users have, without a copy where there need be none."""

import copy
import ctypes
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, Summary, _core, _inputs


@pytest.fixture
def table(rng):
    """Rows with names, and targets."""
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=60), ["price", "size", "age"]


def test_row_major_doubles_are_not_copied(rng):
    X, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    estimator = ContinualRegressor().fit(X, y)
    assert _inputs.rows(estimator, X, reset=False) is X
    assert _inputs.arrays(X, y, None)[0] is X
    # A table far larger than what learning it may take.
    X = np.zeros((400_000, 16))
    X[:, 0] = np.arange(len(X)) % 7
    X.flags.writeable = False
    before = peak()
    ContinualRegressor(n_jobs=1, ridge=0.1).fit(X, X[:, 0])
    assert peak() - before < X.nbytes / 2


def peak():
    """Most memory this process has had, in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def test_the_same_rows_in_any_form(table):
    X, y, names = table
    expected = ContinualRegressor().fit(X, y)
    forms = [X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], np.vstack([X, X])[: len(X)]]
    for form in forms:
        model = ContinualRegressor().fit(form, y)
        assert model.coef_.tobytes() == expected.coef_.tobytes()
        assert model.predict(form).tobytes() == expected.predict(X).tobytes()
    single = ContinualRegressor().fit(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(single.coef_, expected.coef_, rtol=1e-4)
    whole = np.round(10 * X).astype(np.int16)
    assert (
        ContinualRegressor().fit(whole, y).coef_.tobytes()
        == ContinualRegressor().fit(whole.astype(float), y).coef_.tobytes()
    )
    assert names


def frames(names, X, y):
    """The same table by every library that is here."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns = {name: X[:, j] for j, name in enumerate(names)}
    yield pd.DataFrame(columns), pd.Series(y, name="cost")
    yield pl.DataFrame(columns), pl.Series("cost", y)
    yield pa.table(columns), pa.array(y)
    yield pa.table(columns).to_batches(max_chunksize=7)[0].schema and Stream(pa.table(columns).to_reader(7)), y


class Stream:
    """An object that speaks the Arrow C stream interface and nothing else."""

    def __init__(self, reader):
        self.reader = reader

    def __arrow_c_stream__(self, requested_schema=None):
        """The stream in its capsule."""
        return self.reader.__arrow_c_stream__(requested_schema)


def test_frames_bring_their_names(table):
    X, y, names = table
    expected = ContinualRegressor().fit(X, y)
    for frame, target in frames(names, X, y):
        model = ContinualRegressor().fit(frame, target)
        assert list(model.feature_names_in_) == names, type(frame)
        assert model.coef_.tobytes() == expected.coef_.tobytes(), type(frame)
        assert model._model.facts()["inputs"] == names
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    np.testing.assert_array_equal(model.predict(frame), expected.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.select(names[::-1]))
    with pytest.raises(ValueError, match="features"):
        ContinualRegressor().fit(X, y).predict(frame.select(names[:2]))
    assert Summary.from_data(frame, y) == Summary.from_data(X, y)


def test_arrow_columns_of_every_kind():
    pa = pytest.importorskip("pyarrow")
    kinds = ["float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]
    columns = {kind: pa.array([1, None, 3], getattr(pa, kind)()) for kind in kinds}
    columns["bool"] = pa.array([True, False, None])
    names, cells = _core.arrow_table(pa.table(columns))
    assert names == [*kinds, "bool"]
    np.testing.assert_array_equal(cells[:, :-1], np.array([1, np.nan, 3])[:, None] + np.zeros(len(kinds)))
    np.testing.assert_array_equal(cells[:, -1], [1, 0, np.nan])
    with pytest.raises(ValueError, match="NaN"):
        ContinualRegressor().fit(pa.table(columns), [1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="column 'colour' holds"):
        _core.arrow_table(pa.table({"colour": ["red", "blue"]}))
    with pytest.raises(AttributeError):
        _core.arrow_table(3)


def test_classes_from_frames(rng):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    expected = ContinualClassifier().fit(X, y)
    for labels in (list(y), pd.Series(y), pd.Categorical(y), pl.Series(y), y.astype(object)):
        model = ContinualClassifier().fit(X, labels)
        assert model.coef_.tobytes() == expected.coef_.tobytes()
        assert list(model.classes_) == ["no", "yes"]


def test_other_threads_go_on_meanwhile(rng):
    X, y = rng.normal(size=(60_000, 60)), rng.normal(size=60_000)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    ContinualRegressor(n_jobs=1).fit(X, y)
    end = time.perf_counter()
    done.set()
    thread.join()
    # Held all the time, the lock would let the other thread in once at most.
    assert sum(start < at < end for at in ticks) > 3


def unsolved(rng):
    """A model with tasks that nobody has asked for anything yet; a solution takes some tenths of a second."""
    model = ContinualRegressor(basis="rff:300,gamma=0.1,seed=1", n_jobs=1)
    for k in range(6):
        X = rng.normal(size=(200, 5))
        model.partial_fit(X, np.sin(X).sum(axis=1) + rng.normal(size=200), task=k)
    assert not model._model.facts()["solved"]
    return model


def test_eight_threads_ask_an_unsolved_model(rng):
    model, X = unsolved(rng), rng.normal(size=(50, 5))
    expected = copy.deepcopy(model).predict(X)
    start, answers = threading.Barrier(8), []

    def ask():
        start.wait()
        answers.append(model.predict(X).tobytes())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected.tobytes()] * 8
    assert model._model.facts()["solved"]


@pytest.mark.parametrize(
    "call",
    [
        lambda model, X: model.predict(X),
        lambda model, X: model.predict_interval(X),
        lambda model, X: model.coef_,
        lambda model, X: model.ridge_,
        lambda model, X: model.tasks_,
        lambda model, X: model.mean_forgetting_,
        lambda model, X: model.history(),
        lambda model, X: model.conflicts(),
        lambda model, X: model.pareto_front("0", "1", points=10),
        lambda model, X: model.prefer(budget={"0": 10.0}),
        lambda model, X: model.export(),
        lambda model, X: model.report(),
        lambda model, X: pickle.dumps(model),
    ],
)
def test_whoever_solves_lets_other_threads_go_on(rng, call):
    model, X = unsolved(rng), rng.normal(size=(50, 5))
    ticks = 0
    thread = threading.Thread(target=call, args=(model, X))
    thread.start()
    while thread.is_alive():
        ticks += 1
        time.sleep(0.001)
    # Held all the time, the lock would let this thread in once at most.
    assert ticks > 3


def test_ctrl_c_is_heard_and_leaves_the_model_as_it_was(rng):
    X, y = rng.normal(size=(300_000, 40)), rng.normal(size=300_000)
    model = ContinualRegressor(n_jobs=1, ridge=0.1).partial_fit(X[:100], y[:100], task="small")
    before = model.coef_

    def interrupt():
        ctypes.pythonapi.PyErr_SetInterrupt()

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer = threading.Timer(0.05, interrupt)
            timer.start()
            for k in range(100):  # one of them is under way when it comes
                model.partial_fit(X, y, task=f"big-{k}")
    finally:
        signal.signal(signal.SIGINT, old)
        timer.join()
    names = [task["name"] for task in model.tasks_]
    assert names[0] == "small"
    assert len(names) < 100
    if len(names) == 1:
        assert model.coef_.tobytes() == before.tobytes()


@pytest.mark.parametrize("make", [ContinualRegressor, lambda **k: ContinualClassifier(loss="logistic", **k)])
def test_an_array_that_another_thread_writes_to_meanwhile(rng, make):
    # What is read is a copy of some rows, so the model is that of rows that were there at some time.
    X, y = rng.normal(size=(200_000, 8)), rng.integers(2, size=200_000).astype(float)
    before, done = X.copy(), threading.Event()

    def write():
        while not done.is_set():
            X[:] = -before
            X[:] = before

    thread = threading.Thread(target=write)
    thread.start()
    try:
        model = make(n_jobs=2)
        for k in range(3):
            model.partial_fit(X, y, task=k)
            assert np.isfinite(model.predict(X)).all()
    finally:
        done.set()
        thread.join()
    assert np.isfinite(model.coef_).all()
