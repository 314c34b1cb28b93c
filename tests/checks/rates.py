"""How often `check` warns about rows of the same task, and whether it notices what was spoilt.

    python tests/checks/rates.py [--splits 1000] TABLE…

A table is a Parquet or CSV file with a numeric target `y` (or `rentals`); a column `task` or `quarter` is left out. Rows are drawn
at random from one task, half are learned and half are checked: a warning there is a false alarm. Then one column is spoilt.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from pmfcl import ContinualRegressor

ROWS = 400


def read(path):
    """Numeric features and the target of the largest task of a table."""
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    target = "y" if "y" in table else "rentals"
    task = next((name for name in ("task", "quarter") if name in table), None)
    if task:
        table = table[table[task] == table[task].mode()[0]]
    y = table[target].to_numpy(dtype=float)
    features = table.drop(columns=[c for c in table if c in (target, task, "split") or str(c).startswith("y")])
    return features.select_dtypes("number").to_numpy(dtype=float), y


def kinds(model, X, y):
    """The kinds of warnings."""
    return {f["kind"] for f in model.check(X, y).findings if f["warning"]}


def main():
    """Prints one line for each table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("tables", nargs="+", type=Path)
    arguments = parser.parse_args()
    names = ("x10", "x1000", "1.8x+32", "shuffled", "repeat", "outliers")
    print("table, rows, columns, false alarms %, by kind, noticed % of", ", ".join(names))
    for path in arguments.tables:
        rng = np.random.default_rng(0)
        X, y = read(path)
        size = min(len(y) // 2, ROWS)
        alarms, by_kind, noticed, trials = 0, {}, dict.fromkeys(names, 0), 0
        for split in range(arguments.splits):
            rows = rng.permutation(len(y))[: 2 * size]
            old, new = rows[:size], rows[size:]
            model = ContinualRegressor(n_jobs=1).partial_fit(X[old], y[old], task="old")
            found = kinds(model, X[new], y[new])
            alarms += bool(found)
            for kind in found:
                by_kind[kind] = by_kind.get(kind, 0) + 1
            if split >= 50:
                continue
            trials += 1
            moving = [j for j in range(X.shape[1]) if len(np.unique(X[old, j])) > 10]
            column = rng.choice(moving or range(X.shape[1]))
            for name, factor, offset in [("x10", 10, 0), ("x1000", 1000, 0), ("1.8x+32", 1.8, 32)]:
                spoilt = X[new].copy()
                spoilt[:, column] = factor * spoilt[:, column] + offset
                noticed[name] += bool(kinds(model, spoilt, y[new]) & {"units", "shift", "drift", "outliers"})
            noticed["shuffled"] += "drift" in kinds(model, X[new], rng.permutation(y[new]))
            noticed["repeat"] += "repeat" in kinds(model, X[old][::-1].copy(), y[old][::-1].copy())
            sigma = np.sqrt(np.mean((model.predict(X[old]) - y[old]) ** 2))
            outlying = y[new].copy()
            outlying[rng.choice(size, max(size // 100, 1), replace=False)] += 10 * sigma
            noticed["outliers"] += "outliers" in kinds(model, X[new], outlying)
        rates = ", ".join(f"{100 * noticed[name] / trials:.0f}" for name in names)
        counts = " ".join(f"{kind}:{count}" for kind, count in sorted(by_kind.items()))
        print(
            f"{path.stem}, {size}, {X.shape[1]}, {100 * alarms / arguments.splits:.1f}, {counts or '-'}, {rates}",
            flush=True,
        )


if __name__ == "__main__":
    main()
