"""What `partial_fit` costs when many tasks came before: the last tenth against the first.

python bench/many_tasks.py [TASKS]
"""

import sys
import time

import numpy as np
from pmfcl import ContinualClassifier, ContinualRegressor

ROWS, COLUMNS = 30, 20


def measure(name, model, targets, count, **once):
    """Learns `count` tasks; prints microseconds for each of the first and of the last tenth of them."""
    rng = np.random.default_rng(0)
    tasks = [(rng.normal(size=(ROWS, COLUMNS)), targets(rng)) for _ in range(200)]
    tenth = max(count // 10, 1)
    times = []
    for t in range(count):
        if t % tenth == 0:
            times.append(time.perf_counter())
        model.partial_fit(*tasks[t % len(tasks)], task=t, **(once if t == 0 else {}))
    times.append(time.perf_counter())
    each = np.diff(times)[[0, 9]] / tenth * 1e6
    print(
        f"{name:<28} {times[-1] - times[0]:8.1f} s  {each[0]:8.1f} µs  {each[1]:8.1f} µs  ratio {each[1] / each[0]:.2f}",
        flush=True,
    )


count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
count -= count % 10
print(
    f"{count} tasks of {ROWS} rows and {COLUMNS} columns: seconds, first tenth, last tenth; aim: a ratio of at most 1.5"
)
for memory in ("compact", "ledger"):
    measure(
        f"regressor, {memory}", ContinualRegressor(memory=memory, n_jobs=1), lambda rng: rng.normal(size=ROWS), count
    )
    measure(
        f"classifier, {memory}",
        ContinualClassifier(memory=memory, n_jobs=1),
        lambda rng: np.arange(ROWS) % 3,
        count // 10,
    )
