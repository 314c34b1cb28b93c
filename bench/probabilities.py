"""How good are probabilities? The table of docs/choosing.md, through the Python package.

    python bench/probabilities.py DATA_DIR [STREAM…] [--thin N]

DATA_DIR holds elec2, wisdm_users, mnist and fashion_mnist as Parquet (columns y, split (1 for test rows), features, and task where tasks are natural). Every classifier learns
the tasks of a stream in order; accuracy, log-loss and calibration error (15 bins) are those on the test rows of all tasks. Joint
logistic regression sees all rows at once, scaled, with C by cross-validation on training rows; scikit-learn's LDA has automatic
shrinkage. `--thin N` keeps one row in N of the image sets; joint logistic regression always has at most 6000 rows.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pmfcl import ContinualClassifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MOST_JOINT = 6000
STREAMS = {
    "elec2": ("elec2", "natural"),
    "wisdm": ("wisdm_users", "natural"),
    "wisdm-classes": ("wisdm_users", 2),
    "split-mnist": ("mnist", 2),
    "split-fashion": ("fashion_mnist", 2),
    "permuted-mnist": ("mnist", "permuted"),
}


def stream(directory, name, thin):
    """Tasks to learn, and all test rows."""
    data, kind = STREAMS[name]
    table = pq.read_table(Path(directory) / f"{data}.parquet")
    y, test = table["y"].to_numpy(), table["split"].to_numpy() == 1
    task = table["task"].to_numpy() if "task" in table.column_names else np.zeros(len(y))
    names = [c for c in table.column_names if c not in ("y", "task", "split")]
    X = np.stack([table[c].to_numpy().astype(float) for c in names], axis=1)
    y = np.unique(y, return_inverse=True)[1]
    if X.shape[1] > 100 and thin > 1:
        kept = np.arange(len(y)) % thin == 0
        X, y, task, test = X[kept], y[kept], task[kept], test[kept]
    if kind == "permuted":
        orders = [np.random.default_rng(t).permutation(X.shape[1]) if t else np.arange(X.shape[1]) for t in range(5)]
        learn = [(X[~test][:, order], y[~test]) for order in orders]
        return learn, np.concatenate([X[test][:, order] for order in orders]), np.tile(y[test], 5)
    group = task if kind == "natural" else y // kind
    learn = [(X[~test & (group == t)], y[~test & (group == t)]) for t in np.unique(group)]
    return [part for part in learn if len(part[1])], X[test], y[test]


def scores(p, classes, y):
    """Accuracy, log-loss, calibration error."""
    own = p[np.arange(len(y)), np.searchsorted(classes, y)].clip(np.finfo(float).eps)
    best, hit = p.max(axis=1), classes[p.argmax(axis=1)] == y
    bins = np.minimum((best * 15).astype(int), 14)
    gaps = [abs((best - hit)[bins == b].sum()) for b in range(15)]
    return hit.mean(), -np.log(own).mean(), sum(gaps) / len(y)


def ours(tasks, **parameters):
    """A model of the stream, measured after every task."""
    model = ContinualClassifier(**parameters)
    for X, y in tasks:
        model.partial_fit(X, y)
        model.coef_  # noqa: B018  (solved after each task, as in use)
    return model


def lines(tasks, X, y):
    """Name, scores and seconds of every classifier."""
    joint = np.concatenate([x for x, _ in tasks]), np.concatenate([t for _, t in tasks])
    some = np.random.default_rng(0).permutation(len(joint[1]))[:MOST_JOINT]

    def logistic():
        fitted = make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(Cs=6, cv=3, max_iter=300, scoring="neg_log_loss", use_legacy_attributes=False),
        )
        return fitted.fit(joint[0][some], joint[1][some])

    made = {
        "gaussian": lambda: ours(tasks),
        "gaussian, covariance class": lambda: ours(tasks, covariance="class"),
        "gaussian, calibration off": lambda: ours(tasks, calibration="off"),
        "joint logistic regression": logistic,
        "scikit-learn LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(*joint),
    }
    for name, make in made.items():
        start = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - start
        parts = [model.predict_proba(X[i : i + 5000]) for i in range(0, len(X), 5000)]
        yield name, scores(np.concatenate(parts), model.classes_, y), seconds


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("streams", nargs="*")
    parser.add_argument("--thin", type=int, default=1)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| stream | classifier | accuracy | log-loss | calibration error | seconds |\n|---|---|---|---|---|---|")
    for name in asked.streams or STREAMS:
        tasks, X, y = stream(asked.directory, name, asked.thin)
        for method, (accuracy, loss, error), seconds in lines(tasks, X, y):
            print(f"| {name} | {method} | {accuracy:.4f} | {loss:.3f} | {error:.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
