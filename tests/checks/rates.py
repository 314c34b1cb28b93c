"""How often `check` warns about rows of the same task, and whether it notices what was spoilt.

    python tests/checks/rates.py [--splits 1000] [--rows 400] [--task 0] [--seed 0] [--classes] TABLE…

A table is a Parquet or CSV file with a numeric target `y` (or `rentals`); a column `task` or `quarter` is left out, and `--task N`
takes the N-th largest task. `diabetes` and `friedman` are tables of scikit-learn, `cubic` is one whose noise is skewed and uneven.
Rows are drawn at random from one task, half are learned and half are checked: a warning there is a false alarm. Then something is
spoilt, in the first 50 splits. `R²` is that of the model on the rows that are checked, before they are spoilt: where it is near
zero, the features say nothing of the target, and no test can notice that the target was shuffled. With `--classes` the target is
a class, and `R²` is how far the accuracy is from that of always guessing the largest class to 1.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from pmfcl import ContinualClassifier, ContinualRegressor

NAMES = ("x10", "x1000", "1.8x+32", "shuffled", "repeat", "outliers")


def made(name):
    """A table that needs no file."""
    from sklearn.datasets import load_diabetes, make_friedman1

    if name == "diabetes":
        return load_diabetes(return_X_y=True, scaled=False)
    if name == "friedman":
        return make_friedman1(n_samples=5000, n_features=12, noise=1.0, random_state=0)
    if name == "cubic":
        rng = np.random.default_rng(1)
        X = rng.gamma(2.0, size=(5000, 6))
        return X, X[:, 0] ** 1.5 + X[:, 1] * rng.standard_exponential(5000) + rng.standard_t(4, size=5000)
    return None


def read(path, place):
    """Numeric features and the target of one task of a table."""
    found = made(str(path))
    if found:
        return found
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    target = "y" if "y" in table else "rentals"
    task = next((name for name in ("task", "quarter") if name in table), None)
    if task:
        table = table[table[task] == table[task].value_counts().index[place]]
    y = table[target].to_numpy(dtype=float)
    features = table.drop(columns=[c for c in table if c in (target, task, "split") or str(c).startswith("y")])
    return features.select_dtypes("number").to_numpy(dtype=float), y


def kinds(model, X, y):
    """The kinds of warnings."""
    return {f["kind"] for f in model.check(X, y).findings if f["warning"]}


def spoil(model, X, y, new, rng):
    """Which of the ways to spoil rows are noticed."""
    size = len(new)
    moving = [j for j in range(X.shape[1]) if len(np.unique(X[new, j])) > 10]
    column = rng.choice(moving or range(X.shape[1]))
    noticed = {}
    for name, factor, offset in [("x10", 10, 0), ("x1000", 1000, 0), ("1.8x+32", 1.8, 32)]:
        spoilt = X[new].copy()
        spoilt[:, column] = factor * spoilt[:, column] + offset
        noticed[name] = bool(kinds(model, spoilt, y[new]) & {"units", "shift", "drift", "outliers"})
    noticed["shuffled"] = "drift" in kinds(model, X[new], rng.permutation(y[new]))
    if isinstance(model, ContinualClassifier):
        return noticed | {"outliers": False}
    sigma = np.sqrt(np.mean((model.predict(X[new]) - y[new]) ** 2))
    outlying = y[new].copy()
    outlying[rng.choice(size, max(size // 100, 1), replace=False)] += 10 * sigma
    noticed["outliers"] = "outliers" in kinds(model, X[new], outlying)
    return noticed


def main():
    """Prints one line for each table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--task", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("tables", nargs="+", type=Path)
    arguments = parser.parse_args()
    print("table, rows, columns, R², false alarms %, by kind, noticed % of", ", ".join(NAMES))
    for path in arguments.tables:
        rng = np.random.default_rng(arguments.seed)
        X, y = read(path, arguments.task)
        kind = ContinualClassifier if arguments.classes else ContinualRegressor
        size = min(len(y) // 2, arguments.rows)
        alarms, by_kind, noticed, trials, scores = 0, {}, dict.fromkeys(NAMES, 0), 0, []
        for split in range(arguments.splits):
            rows = rng.permutation(len(y))[: 2 * size]
            old, new = rows[:size], rows[size:]
            model = kind(n_jobs=1).partial_fit(X[old], y[old], task="old")
            found = kinds(model, X[new], y[new])
            alarms += bool(found)
            for alarm in found:
                by_kind[alarm] = by_kind.get(alarm, 0) + 1
            if split >= 50:
                continue
            trials += 1
            score = model.score(X[new], y[new])
            if arguments.classes:
                largest = max(np.mean(y[new] == label) for label in np.unique(y[new]))
                score = (score - largest) / (1 - largest)
            scores.append(score)
            spoilt = spoil(model, X, y, new, rng)
            spoilt["repeat"] = "repeat" in kinds(model, X[old][::-1].copy(), y[old][::-1].copy())
            for name in NAMES:
                noticed[name] += spoilt[name]
        rates = ", ".join(f"{100 * noticed[name] / trials:.0f}" for name in NAMES)
        counts = " ".join(f"{alarm}:{count}" for alarm, count in sorted(by_kind.items()))
        share = 100 * alarms / arguments.splits
        print(
            f"{path.stem}, {size}, {X.shape[1]}, {np.median(scores):.2f}, {share:.1f}, {counts or '-'}, {rates}",
            flush=True,
        )


if __name__ == "__main__":
    main()
