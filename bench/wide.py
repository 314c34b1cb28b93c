"""Wide least squares in NumPy as a peer: the same rows and the same random features, a model after each task or at the end.

    python wide.py ROWS.npy TARGETS.npy WEIGHTS.npy BIAS.npy TASKS RIDGE every|last

The rows are scaled already. Prints seconds, the largest resident size in bytes, and the mean squared error on all rows.
"""

import resource
import sys
import time

import numpy as np
from scipy.linalg import solve

x, y, w, b = (np.load(path) for path in sys.argv[1:5])
tasks, ridge, when = int(sys.argv[5]), float(sys.argv[6]), sys.argv[7]
m = w.shape[1] + 1
begin = time.perf_counter()
gram, right, n = np.zeros((m, m)), np.zeros(m), 0
penalty = np.ones(m)
penalty[0] = 0.0
for t, (rows, targets) in enumerate(zip(np.split(x, tasks), np.split(y, tasks))):
    h = np.empty((len(rows), m))
    h[:, 0] = 1.0
    np.maximum(rows @ w + b, 0.0, out=h[:, 1:])
    gram += h.T @ h
    right += h.T @ targets
    n += len(rows)
    if when == "every" or t == tasks - 1:
        theta = solve(gram + n * ridge * np.diag(penalty), right, assume_a="pos")
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
predicted = np.concatenate([np.maximum(rows @ w + b, 0.0) @ theta[1:] + theta[0] for rows in np.split(x, tasks)])
print(seconds, peak, np.mean((predicted - y) ** 2))
