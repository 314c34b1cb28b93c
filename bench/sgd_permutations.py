"""SGD on permuted digits in NumPy: a second implementation of the rules `pmfcl-lab bench pmnist --methods sgd` follows.

    python bench/sgd_permutations.py mnist.parquet [SEEDS]

784-100-100-10 with rectifiers, Xavier-uniform weights, rate 0.2, batches of 128 with the last one kept, one pass over each of 20
permutations, single precision. Prints the accuracy over all tasks at the end for every seed (10 unless told), their mean and deviation.
It has nothing in common with our code, so that a mistake of ours would show. Needs pyarrow.
"""

import itertools
import sys

import numpy as np
import pyarrow.parquet as pq

WIDTHS, TASKS, RATE, BATCH = (784, 100, 100, 10), 20, np.float32(0.2), 128


def images(path):
    """Pixels in [0, 1] and digits, to learn from and to test on."""
    table = pq.read_table(path)
    x = np.stack([table[f"f{j}"].to_numpy() for j in range(WIDTHS[0])], axis=1).astype(np.float32) / np.float32(255)
    y, test = table["y"].to_numpy().astype(int), table["split"].to_numpy() != 0
    return x[~test], y[~test], x[test], y[test]


def forward(p, x):
    """Both hidden layers and the scores."""
    first = np.maximum(x @ p[0] + p[1], 0)
    second = np.maximum(first @ p[2] + p[3], 0)
    return first, second, second @ p[4] + p[5]


def step(p, x, y):
    """One step down the mean cross-entropy of a batch."""
    first, second, scores = forward(p, x)
    scores -= scores.max(axis=1, keepdims=True)
    slope = np.exp(scores)
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(len(y)), y] -= 1
    slope /= len(y)
    by_second = (slope @ p[4].T) * (second > 0)
    by_first = (by_second @ p[2].T) * (first > 0)
    for k, (inputs, outputs) in enumerate(((x, by_first), (first, by_second), (second, slope))):
        p[2 * k] -= RATE * (inputs.T @ outputs)
        p[2 * k + 1] -= RATE * outputs.sum(axis=0)


def run(seed, x, y, x_test, y_test):
    """Accuracy over all permutations after the last, in percent."""
    draw = np.random.default_rng(seed)
    p = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        bound = np.sqrt(6 / (inputs + outputs))
        p += [draw.uniform(-bound, bound, (inputs, outputs)).astype(np.float32), np.zeros(outputs, np.float32)]
    places = []
    for _ in range(TASKS):
        places.append(draw.permutation(WIDTHS[0]))
        order, moved = draw.permutation(len(x)), x[:, places[-1]]
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            step(p, moved[rows], y[rows])
    right = [(forward(p, x_test[:, place])[2].argmax(axis=1) == y_test).mean() for place in places]
    return 100 * float(np.mean(right))


def main():
    """All seeds."""
    data, found = images(sys.argv[1]), []
    for seed in range(int(sys.argv[2]) if len(sys.argv) > 2 else 10):
        found.append(run(seed, *data))
        print(f"seed {seed}: {found[-1]:.2f}   mean {np.mean(found):.2f} ± {np.std(found):.2f}", flush=True)


if __name__ == "__main__":
    main()
