"""Does the way rows are split into tasks change what `auto` predicts? It should not, beyond 1e-7 standard deviations.

    python bench/splits.py DATA_DIR [--basis SPEC] [SET …]

The first tenth of the rows is the first task, which fixes the basis; the others follow as one task and as 2, 7 and 23 tasks at
random, in a ledger and in compact memory, all with default settings otherwise. Prints the greatest difference between predictions
(of classes: scores) for the test rows and those of the rest in one task in a ledger, in standard deviations of the target (of the
score), and which candidate each way has chosen.

SET is a file of DATA_DIR as for tables.py, or rows made here: `inputs:D`, D inputs and a curve of them, or `copies`, 12 inputs of
which 4 are nearly copies of others.
"""

import argparse
import sys

import numpy as np
from pmfcl import ContinualClassifier, ContinualRegressor
from tables import load

SETS = ["bike_hourly", "california_regions", "parkinsons_patients", "sarcos_4449", "elec2", "wisdm_users"]
MADE = ["inputs:1", "inputs:2", "inputs:3", "inputs:5", "inputs:8", "copies"]
PARTS = [1, 2, 7, 23]


def drawn(name):
    """Rows, targets, test rows, whether they are classes."""
    rng = np.random.default_rng(3)
    if name == "copies":
        x = rng.normal(size=(4000, 12))
        x[:, 8:] = x[:, :4] + 1e-4 * x[:, 8:]
    else:
        x = rng.normal(size=(4000, int(name.split(":")[1])))
    y = np.sin(2 * x[:, 0]) + np.abs(x).sum(axis=1) * 0.3 + 0.3 * rng.normal(size=len(x))
    return x[:3000], y[:3000], x[3000:], False


def read(directory, name):
    """The same of a data set."""
    if name == "copies" or name.startswith("inputs:"):
        return drawn(name)
    tasks, tests, classes = load(directory, name)
    x, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    return x, y, np.concatenate([rows for rows, _ in tests]), classes


def learned(x, y, classes, parts, **settings):
    """A model of the rows, and how it has chosen."""
    model = (ContinualClassifier if classes else ContinualRegressor)(**settings)
    cut = len(x) // 10
    order = np.random.default_rng(parts).permutation(len(x) - cut) + cut
    pieces = [np.arange(cut), *(np.sort(piece) for piece in np.array_split(order, parts))]
    known = {"classes": np.unique(y)} if classes else {}
    for k, rows in enumerate(pieces):
        model.partial_fit(x[rows], y[rows], task=str(k), **known)
    chosen = [one["name"] for one in model.candidates_ or [] if one["chosen"]]
    return model, (chosen or [""])[0]


def compare(directory, name, basis):
    """One line for each way."""
    x, y, tests, classes = read(directory, name)
    # Rows come in the order of their tasks: the first tenth would be of one task alone.
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    found = []
    for memory in ("ledger", "compact"):
        for parts in PARTS:
            model, chosen = learned(x, y, classes, parts, basis=basis, memory=memory)
            found.append((memory, parts, chosen, model.decision_function(tests) if classes else model.predict(tests)))
    first = found[0][3]
    scale = np.std(first if classes else y, axis=0)
    for memory, parts, chosen, predicted in found[1:]:
        yield memory, parts, float(np.max(np.abs(predicted - first) / scale)), chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("sets", nargs="*", default=[*SETS, *MADE], metavar="SET")
    parser.add_argument("--basis", default="auto")
    arguments = parser.parse_args()
    print("| rows | ledger | compact | chosen |\n| --- | --- | --- | --- |")
    for name in arguments.sets:
        gaps, chosen = {"ledger": 0.0, "compact": 0.0}, set()
        for memory, parts, gap, choice in compare(arguments.data, name, arguments.basis):
            print(name, memory, parts, f"{gap:.1e}", choice, file=sys.stderr, flush=True)
            gaps[memory] = max(gaps[memory], gap)
            chosen.add(choice)
        print(f"| {name} | {gaps['ledger']:.1e} | {gaps['compact']:.1e} | {', '.join(sorted(chosen))} |", flush=True)


if __name__ == "__main__":
    main()
