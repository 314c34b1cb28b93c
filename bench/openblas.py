"""OpenBLAS as a peer for kernel benchmarks: one request per line, best seconds per reply.

    dgemm SIZE REPS      C = A B, square
    dsyrk ROWS WIDTH REPS    X'X, one half
    dgeqrf ROWS WIDTH REPS   R of X, blocked Householder
    dtpqrt ROWS WIDTH REPS   R of [R; X], chunk by chunk, blocked Householder

Times are those on a processor, so that other programs disturb little. Inputs are kept between requests of the same shape, so that only the kernel is timed.
Set OPENBLAS_NUM_THREADS before the start.
"""

import sys
import time

import numpy as np
from scipy.linalg import blas, lapack

CHUNK = 4096
held = {}


def rows(n, m):
    """Standard normal rows in row-major order, the transpose of what BLAS takes without a copy."""
    if held.get("shape") != (n, m):
        held.update(shape=(n, m), x=np.random.default_rng(1).standard_normal((n, m)))
    return held["x"]


def dgemm(size):
    a = np.asfortranarray(rows(size, size))
    return lambda: blas.dgemm(1.0, a, a)


def dsyrk(n, m):
    x = rows(n, m)
    return lambda: blas.dsyrk(1.0, x.T)


def dgeqrf(n, m):
    x = np.asfortranarray(rows(n, m))
    work = np.empty_like(x)
    lwork = int(lapack.dgeqrf_lwork(n, m)[0])

    def run():
        work[...] = x
        begin = time.thread_time()
        lapack.dgeqrf(work, lwork=lwork, overwrite_a=1)
        return time.thread_time() - begin

    return run


def dtpqrt(n, m):
    x = rows(n, m)
    chunks = [np.asfortranarray(x[i : i + CHUNK]) for i in range(0, n, CHUNK)]
    block = min(32, m)

    def run():
        copies = [chunk.copy(order="F") for chunk in chunks]
        r = np.zeros((m, m), order="F")
        begin = time.thread_time()
        for chunk in copies:
            r, _, _, _ = lapack.dtpqrt(0, block, r, chunk, overwrite_a=1, overwrite_b=1)
        return time.thread_time() - begin

    return run


def best(run, reps):
    run()
    times = []
    for _ in range(reps):
        begin = time.thread_time()
        inner = run()
        outer = time.thread_time() - begin
        times.append(inner if isinstance(inner, float) else outer)
    return min(times)


KERNELS = {"dgemm": dgemm, "dsyrk": dsyrk, "dgeqrf": dgeqrf, "dtpqrt": dtpqrt}

for line in sys.stdin:
    name, *numbers = line.split()
    *shape, reps = map(int, numbers)
    print(f"{best(KERNELS[name](*shape), reps):.9f}", flush=True)
