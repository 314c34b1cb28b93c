"""`python -m pmfcl.bench`: learning task by task against what users do today, in one run.

Medians of repeated runs, ratios to pmfcl, and next to each time how far the last model is from joint training. Peers that are not
installed are named and left out. Every way runs in a process of its own, so that memory peaks can be told apart.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Data = Iterable[tuple[Vector, Vector]]
Way = Callable[[Data, float], Vector]

WAYS: dict[str, tuple[Way, int | None]] = {}
# As many for everybody; None is all there are.
THREADS = int(os.environ["OMP_NUM_THREADS"]) if "OMP_NUM_THREADS" in os.environ else None


def way(name: str, tasks: int | None = None) -> Callable[[Way], Way]:
    """Registers a way to have a model after every task; some are too slow for more than the first tasks."""

    def register(function: Way) -> Way:
        WAYS[name] = (function, tasks)
        return function

    return register


def tables(tasks: int, rows: int, columns: int) -> Iterator[tuple[Vector, Vector]]:
    """The same tables for every way."""
    rng = np.random.default_rng(1)
    truth = rng.normal(size=columns)
    for _ in range(tasks):
        X = rng.normal(size=(rows, columns))
        yield X, X @ truth + rng.normal(size=rows)


def refit(make: Callable[[float], Any]) -> Way:
    """A scikit-learn model refitted on all rows so far."""

    def run(data: Data, ridge: float) -> Vector:
        seen = []
        for X, y in data:
            seen.append((X, y))
            rows, targets = np.concatenate([X for X, _ in seen]), np.concatenate([y for _, y in seen])
            coef: Vector = make(ridge * len(rows)).fit(rows, targets).coef_
        return coef

    return run


def pmfcl_way(accumulator: str) -> Way:
    """pmfcl, task by task."""

    def run(data: Data, ridge: float) -> Vector:
        from pmfcl import ContinualRegressor

        model = ContinualRegressor(ridge=ridge, accumulator=accumulator, n_jobs=THREADS)
        for k, (X, y) in enumerate(data):
            coef = model.partial_fit(X, y, task=k).coef_
        return coef

    return run


way("pmfcl, gram")(pmfcl_way("gram"))
way("pmfcl, qr")(pmfcl_way("qr"))


@way("Ridge, refitted on all rows so far")
def ridge_refits(data: Data, ridge: float) -> Vector:
    """scikit-learn."""
    from sklearn.linear_model import Ridge

    return refit(lambda alpha: Ridge(alpha=alpha))(data, ridge)


@way("LinearRegression, refitted on all rows so far")
def least_squares_refits(data: Data, ridge: float) -> Vector:
    """scikit-learn; without a penalty."""
    from sklearn.linear_model import LinearRegression

    return refit(lambda alpha: LinearRegression())(data, ridge)


@way("NumPy, sums of XᵀX and solve")
def sums(data: Data, ridge: float) -> Vector:
    """Normal equations, the intercept by centring at the end."""
    count, moment = 0, None
    for X, y in data:
        Z = np.column_stack([np.ones(len(X)), X])
        new = (Z.T @ Z, Z.T @ y)
        moment = new if moment is None else (moment[0] + new[0], moment[1] + new[1])
        count += len(X)
        penalty = ridge * count * np.eye(Z.shape[1])
        penalty[0, 0] = 0.0
        coef = np.asarray(np.linalg.solve(moment[0] + penalty, moment[1])[1:], dtype=np.float64)
    return coef


@way("NumPy, QR update")
def qr_update(data: Data, ridge: float) -> Vector:
    """The triangle of [R z; X y]."""
    held: Vector | None = None
    count = 0
    for X, y in data:
        Z = np.column_stack([np.ones(len(X)), X, y])
        held = np.asarray(np.linalg.qr(Z if held is None else np.vstack([held, Z]), mode="r"), dtype=np.float64)
        count += len(X)
        width = Z.shape[1] - 1
        penalty = np.sqrt(ridge * count) * np.eye(width)
        penalty[0, 0] = 0.0
        rows = np.vstack([held[:, :width], penalty])
        found = np.linalg.lstsq(rows, np.concatenate([held[:, width], np.zeros(width)]), rcond=None)[0]
        coef = np.asarray(found[1:], dtype=np.float64)
    return coef


@way("sklearnex, IncrementalRidge")
def incremental_ridge(data: Data, ridge: float) -> Vector:
    """Intel's extension; its penalty is on the sum, so it is set for the last task."""
    from sklearnex.linear_model import IncrementalRidge

    data = list(data)
    model = IncrementalRidge(alpha=ridge * sum(len(X) for X, _ in data))
    for X, y in data:
        coef = np.ravel(model.partial_fit(X, y).coef_)
    return coef


@way("SGDRegressor, partial_fit")
def gradient_steps(data: Data, ridge: float) -> Vector:
    """scikit-learn; one pass."""
    from sklearn.linear_model import SGDRegressor

    model = SGDRegressor(alpha=ridge, random_state=0)
    for X, y in data:
        coef: Vector = model.partial_fit(X, y).coef_
    return coef


@way("River, LinearRegression.learn_many")
def river_batches(data: Data, ridge: float) -> Vector:
    """River; gradient steps on batches of a thousand rows."""
    import pandas as pd
    from river import linear_model, optim

    model = linear_model.LinearRegression(optimizer=optim.SGD(0.1), l2=ridge)
    for X, y in data:
        frame, target = pd.DataFrame(X), pd.Series(y)
        for at in range(0, len(X), 1000):
            model.learn_many(frame[at : at + 1000], target[at : at + 1000])
    return np.array([model.weights[j] for j in range(X.shape[1])])


@way("statsmodels, RecursiveLS (1,000 rows of the first task)", tasks=0)
def recursive_least_squares(data: Data, ridge: float) -> Vector:
    """statsmodels; a Kalman filter row by row, shown for its price."""
    from statsmodels.regression.recursive_ls import RecursiveLS

    X, y = next(iter(data))
    params: Vector = RecursiveLS(y[:1000], np.column_stack([np.ones(1000), X[:1000]])).fit().params
    return params[1:]


def measure(name: str, tasks: int, rows: int, columns: int, ridge: float, repeats: int) -> dict[str, Any]:
    """One way, in this process: seconds of each run, memory above the data, distance to the joint solution."""
    run, limit = WAYS[name]
    data = list(tables(1 if limit == 0 else tasks, rows, columns))
    if name.startswith("pmfcl"):
        run([(X[:100], y[:100]) for X, y in data[:1]], ridge)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, work = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        coef = run(data, ridge)
        seconds.append(time.perf_counter() - start[0])
        work.append(time.process_time() - start[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    joint = sums(data, 0.0 if "LinearRegression, refitted" in name else ridge)
    gap = np.linalg.norm(coef - joint) / np.linalg.norm(joint)
    return {"seconds": seconds, "work": work, "extra_mb": (peak - before) / 1024, "gap": float(gap)}


def in_process(name: str, arguments: argparse.Namespace) -> tuple[dict[str, Any] | None, str | None]:
    """One way in a process of its own; None with a reason where it cannot run."""
    repeats = 1 if name.startswith(("LinearRegression", "statsmodels")) else arguments.repeats
    wanted = [name, arguments.tasks, arguments.rows, arguments.columns, arguments.ridge, repeats]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if arguments.threads else ()
    done = subprocess.run(
        [sys.executable, "-m", "pmfcl.bench", "--one", json.dumps(wanted)],
        env={**os.environ, **dict.fromkeys(names, str(arguments.threads))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1][:90]
    return json.loads(done.stdout), None


def accuracy() -> dict[str, float]:
    """Relative error of the coefficients at condition 1e7, ten tasks of 200 rows and 30 columns, no noise."""
    from pmfcl import ContinualRegressor

    rng = np.random.default_rng(3)
    u, _ = np.linalg.qr(rng.normal(size=(2000, 30)))
    v, _ = np.linalg.qr(rng.normal(size=(30, 30)))
    X, truth = (u * np.logspace(0, -7, 30)) @ v, rng.normal(size=30)
    y = X @ truth
    found = {"NumPy, sums of XᵀX and solve": np.linalg.solve(X.T @ X, X.T @ y)}
    for accumulator in ("gram", "qr"):
        model = ContinualRegressor(ridge=0.0, fit_intercept=False, accumulator=accumulator)
        for rows in np.array_split(np.arange(2000), 10):
            model.partial_fit(X[rows], y[rows])
        found[f"pmfcl, {accumulator}"] = model.coef_
    return {name: float(np.linalg.norm(w - truth) / np.linalg.norm(truth)) for name, w in found.items()}


def overhead(repeats: int = 400) -> dict[str, float]:
    """Microseconds of one call on 100 rows and 10 columns."""
    from pmfcl import ContinualRegressor, Summary, _core

    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(100, 10)), rng.normal(size=100)
    model = ContinualRegressor(ridge=0.1, n_jobs=1)
    features, column = [f"x{j}" for j in range(10)], y[:, None]
    calls: dict[str, Callable[[], object]] = {
        "_core.Model: a new model learns a task": lambda: _core.Model(
            features, ["y"], "squared", {}, model._settings()
        ).learn("a", X, column, None, 1.0),
        "Summary.from_data": lambda: Summary.from_data(X, y, n_jobs=1),
        "ContinualRegressor.fit": lambda: model.fit(X, y),
        "ContinualRegressor.predict": lambda: model.predict(X),
    }
    model.fit(X, y)
    found = {}
    for name, call in calls.items():
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        found[name] = 1e6 * float(np.median(times))
    return found


def main(given: list[str] | None = None) -> None:
    """Runs all ways and prints them side by side."""
    parser = argparse.ArgumentParser(prog="python -m pmfcl.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10, help="tasks (default 10)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each (default 100000)")
    parser.add_argument("--columns", type=int, default=128, help="features (default 128)")
    parser.add_argument("--ridge", type=float, default=1e-6)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each way; the median counts (default 5)")
    parser.add_argument("--threads", type=int, help="threads for everybody (default all)")
    parser.add_argument("--only", default="", help="only ways whose name contains one of these, with commas")
    parser.add_argument("--skip", default="", help="no ways whose name contains one of these, with commas")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    named = [(text, [part for part in text.split(",") if part]) for text in (arguments.only, arguments.skip)]
    ways = [n for n in WAYS if not named[0][1] or any(part in n for part in named[0][1])]
    ways = [n for n in ways if not any(part in n for part in named[1][1])]
    size = f"{arguments.tasks} tasks of {arguments.rows} rows and {arguments.columns} columns"
    print(f"{size}; a model after every task; {os.cpu_count()} processors; medians\n")
    head = ["seconds", "of pmfcl, gram", "on processors", "of pmfcl, gram", "MB above the data", "from joint training"]
    first = max(map(len, ways), default=0)
    print(" " * first, *head, sep="  ")
    own: dict[str, float] = {}
    missing = []
    for name in ways:
        found, reason = in_process(name, arguments)
        if found is None:
            missing.append(f"left out: {name} ({reason})")
            continue
        cells = []
        for key in ("seconds", "work"):
            value = float(np.median(found[key]))
            if name == "pmfcl, gram":
                own[key] = value
            cells += [f"{value:.3f}", f"{value / own[key]:.1f}×" if own else ""]
        cells += [f"{found['extra_mb']:.0f}", f"{found['gap']:.1e}"]
        print(
            name.ljust(first), *(cell.rjust(len(h)) for cell, h in zip(cells, head, strict=True)), sep="  ", flush=True
        )
    print(*missing, sep="\n")
    print("\nRelative error of the coefficients at condition 1e7")
    for name, value in accuracy().items():
        print(f"  {name:40} {value:.1e}")
    print("\nOne call on 100 rows and 10 columns")
    for name, value in overhead().items():
        print(f"  {name:40} {value:.0f} µs")


if __name__ == "__main__":
    main()
