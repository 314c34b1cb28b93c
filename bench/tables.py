"""How good is a basis? One case of `pmfcl-lab bench tables`, through the command line.

    python bench/tables.py PROGRAM DATA_DIR SET METHOD

PROGRAM is `pmfcl`. Tasks come in order and in one pass, a file each, and no rows are kept; scores are those on the test rows of
all tasks at the end. Prints one line of JSON: score (R² or accuracy), its mean over tasks, seconds in all (of the whole command,
reading included), and peak memory in bytes. Boosting on all rows is one fit at the end, which is what a refit costs; boosting that
goes on adds trees on the rows of each task. Leaves are those of trees grown on the first task alone, one-hot, next to the inputs.

SET is a file of DATA_DIR, or `made:ROWS:INPUTS`: rows of a curve, a product, a kink and a line, the last 10,000 of them a task of
their own. For these, `last` is what that task costs: adding it to the model, or fitting anew.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

TREES, LEAVES, ROUNDS = 40, 40, 100


def made(count, inputs):
    """Rows of a known function, as two tasks, and test rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count + 10_000, inputs))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + x @ rng.normal(size=inputs) * 0.3
    y += 0.3 * rng.normal(size=len(x))
    cuts = [0, count - 10_000, count, count + 10_000]
    first, last, test = [(x[a:b], y[a:b]) for a, b in pairwise(cuts)]
    return [first, last], [test], False


def load(directory, name):
    """Training tasks in order, test tasks, whether classes are predicted."""
    if name.startswith("made:"):
        return made(*(int(part) for part in name.split(":")[1:]))
    table = pq.read_table(Path(directory) / f"{name}.parquet").to_pandas()
    targets = [c for c in table if c == "y" or (c[0] == "y" and c[1:].isdigit())]
    if name == "parkinsons_patients":
        targets, drop = ["y"], ["y2"]
    else:
        drop = []
    if "task" not in table:
        table["task"] = np.arange(len(table)) * 4 // len(table)
    features = table.drop(columns=[*targets, *drop, "task", "split"])
    x, y = features.to_numpy(np.float64), table[targets].to_numpy()
    y = y[:, 0] if y.shape[1] == 1 else y
    classes = y.dtype == object or (y.ndim == 1 and len(np.unique(y)) <= 10)
    y = np.unique(y, return_inverse=True)[1] if classes else y.astype(np.float64)
    task, split = table["task"].to_numpy(), table["split"].to_numpy()
    order = list(dict.fromkeys(task[split == 0]))

    def parts(which):
        found = [(x[rows], y[rows]) for rows in ((task == t) & (split == which) for t in order)]
        return [(a, b) for a, b in found if len(a)]

    return parts(0), parts(1), classes


def evaluate(predict, tests, classes):
    """The score on all test rows, and its mean over tasks."""
    targets = np.concatenate([y for _, y in tests])
    whole = predict(np.concatenate([x for x, _ in tests])).reshape(targets.shape)
    found = np.split(whole, np.cumsum([len(y) for _, y in tests])[:-1])
    if classes:
        hits = [float(np.mean(p == y)) for p, (_, y) in zip(found, tests, strict=True)]
        return float(np.mean(np.concatenate(found) == targets)), float(np.mean(hits))
    variance = ((targets - targets.mean(0)) ** 2).mean(0)
    shares = [np.mean(((p - y) ** 2).mean(0) / variance) for p, (_, y) in zip(found, tests, strict=True)]
    whole = np.mean(((np.concatenate(found) - targets) ** 2).mean(0) / variance)
    return float(1 - whole), float(1 - np.mean(shares))


def write(path, x, y, classes):
    """Rows as a file; classes are text."""
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    if y is not None:
        y = y.reshape(len(x), -1)
        columns.update({f"y{k}": [f"c{v}" for v in y[:, 0]] if classes else y[:, k] for k in range(y.shape[1])})
    pq.write_table(pa.table(columns), path)


def continual(program, basis, tasks, classes, apart=False):
    """One model, task after task; the last one by a command of its own where it is timed."""
    folder = Path(tempfile.mkdtemp())
    files = [folder / f"t{t:03}.parquet" for t in range(len(tasks))]
    for file, (x, y) in zip(files, tasks, strict=True):
        write(file, x, y, classes)
    targets = ",".join(f"y{k}" for k in range(tasks[0][1].reshape(len(tasks[0][1]), -1).shape[1]))
    model = folder / "model.pmf"
    begin = time.perf_counter()
    given = ["--target", targets, "--basis", basis, "--quiet"]
    subprocess.run([program, "learn", model, *(files[:-1] if apart else files), *given], check=True)
    middle = time.perf_counter()
    if apart:
        subprocess.run([program, "learn", model, files[-1], "--quiet"], check=True)
    seconds = (time.perf_counter() - begin, time.perf_counter() - middle)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024

    def predict(x):
        rows, out = folder / "rows.parquet", folder / "out.csv"
        write(rows, x, None, classes)
        subprocess.run([program, "predict", model, rows, "-o", out, "--quiet"], check=True)
        found = pa.csv.read_csv(out).to_pandas().to_numpy()
        return np.array([int(v[1:]) for v in found[:, 0]]) if classes else found.astype(float)

    return predict, seconds, peak


def leaves(program, tasks, classes):
    """Indicators of leaves of trees that saw the first task alone."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.preprocessing import OneHotEncoder

    grow = ExtraTreesClassifier if classes else ExtraTreesRegressor
    x, y = tasks[0]
    forest = grow(TREES, max_leaf_nodes=LEAVES, random_state=0).fit(x, y)
    coder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(forest.apply(x))

    def columns(x):
        return np.hstack([x, coder.transform(forest.apply(x))])

    predict, seconds, peak = continual(program, "linear", [(columns(x), y) for x, y in tasks], classes)
    return lambda x: predict(columns(x)), seconds, peak


def boosting(tasks, classes, goes_on):
    """scikit-learn's gradient boosting: one fit on all rows, or trees added task by task."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.multioutput import MultiOutputRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    if not goes_on:
        x, y = (np.concatenate(c) for c in zip(*tasks, strict=True))
        model = kind(random_state=0, max_iter=ROUNDS)
        return (MultiOutputRegressor(model) if y.ndim > 1 else model).fit(x, y).predict
    several = tasks[0][1].ndim > 1
    models = [kind(random_state=0, warm_start=True, max_iter=0) for _ in range(tasks[0][1].shape[1] if several else 1)]
    for x, y in tasks:
        for k, model in enumerate(models):
            model.max_iter += ROUNDS
            model.fit(x, y[:, k] if several else y)
    return lambda x: np.column_stack([m.predict(x) for m in models]) if several else models[0].predict(x)


def light(tasks, classes, goes_on):
    """LightGBM: one fit on all rows, or trees added task by task."""
    import lightgbm

    count = len(np.unique(np.concatenate([y for _, y in tasks]))) if classes else 1
    several = tasks[0][1].ndim > 1
    kind = "multiclass" if count > 2 else "binary" if classes else "regression"
    given = {"objective": kind, "verbosity": -1, "seed": 0, **({"num_class": count} if count > 2 else {})}
    if not goes_on:
        tasks = [tuple(np.concatenate(c) for c in zip(*tasks, strict=True))]
    models = [None] * (tasks[0][1].shape[1] if several else 1)
    for x, y in tasks:
        for k, model in enumerate(models):
            rows = lightgbm.Dataset(x, y[:, k] if several else y)
            models[k] = lightgbm.train(given, rows, ROUNDS, init_model=model)

    def predict(x):
        found = [m.predict(x) for m in models]
        if count > 2:
            return found[0].argmax(1)
        return (found[0] > 0.5).astype(int) if classes else np.column_stack(found)

    return predict


def run(program, directory, name, method):
    """One case."""
    tasks, tests, classes = load(directory, name)
    begin = time.perf_counter()
    peers = {
        "HistGradientBoosting": lambda: boosting(tasks, classes, False),
        "HistGradientBoosting, warm start": lambda: boosting(tasks, classes, True),
        "LightGBM": lambda: light(tasks, classes, False),
        "LightGBM, continued": lambda: light(tasks, classes, True),
    }
    if method in peers:
        predict = peers[method]()
        # Boosting on all rows is fitted anew for every task.
        seconds = (time.perf_counter() - begin,) * 2
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    elif method == "leaves":
        predict, seconds, peak = leaves(program, tasks, classes)
    else:
        predict, seconds, peak = continual(program, method, tasks, classes, name.startswith("made:"))
    score, mean = evaluate(predict, tests, classes)
    found = {"score": score, "mean": mean, "seconds": seconds[0], "peak": peak, "tasks": len(tasks)}
    print(json.dumps({**found, **({"last": seconds[1]} if name.startswith("made:") else {})}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run(*sys.argv[1:5])
