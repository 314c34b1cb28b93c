"""OpenBLAS as a peer for kernel benchmarks: one request per line, one reply per line.

    info                     the instruction set of the library's kernels
    threads COUNT            threads from now on
    dgemm SIZE REPS          C = A B, square
    dsyrk ROWS WIDTH REPS    X'X, one half
    dgeqrf ROWS WIDTH REPS   R of X, blocked Householder
    dtpqrt ROWS WIDTH REPS   R of [R; X], chunk by chunk, blocked Householder with its best block

A kernel is answered by its best seconds and the processors it kept busy. With one thread, seconds are those on a processor, so that other
programs disturb little; with more, those that went by. Inputs are kept between requests of the same width, and LAPACK's best block
once it is found, so that only the kernel is timed.
"""

import sys
import time

import numpy as np
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_info, threadpool_limits

CHUNK = 4096
held = {}
best = {}
clock = time.thread_time


def rows(n, m):
    """Standard normal rows in row-major order, the transpose of what BLAS takes without a copy."""
    if held.get("width") != m or len(held["x"]) < n:
        held.update(width=m, x=np.random.default_rng(1).standard_normal((n, m)))
    return held["x"][:n]


def timed(run):
    begin, processor, wall = clock(), time.process_time(), time.perf_counter()
    run()
    seconds = clock() - begin
    return seconds, (time.process_time() - processor) / (time.perf_counter() - wall)


def dgemm(size):
    a = np.asfortranarray(rows(size, size))
    return lambda: timed(lambda: blas.dgemm(1.0, a, a))


def dsyrk(n, m):
    x = rows(n, m)
    return lambda: timed(lambda: blas.dsyrk(1.0, x.T))


def dgeqrf(n, m):
    x = np.asfortranarray(rows(n, m))
    work = np.empty_like(x)
    lwork = int(lapack.dgeqrf_lwork(n, m)[0])

    def run():
        work[...] = x
        return timed(lambda: lapack.dgeqrf(work, lwork=lwork, overwrite_a=1))

    return run


def dtpqrt(n, m):
    x = rows(n, m)
    chunks = [np.asfortranarray(x[i : i + CHUNK]) for i in range(0, n, CHUNK)]

    def with_block(block):
        copies = [chunk.copy(order="F") for chunk in chunks]

        def run():
            r = np.zeros((m, m), order="F")
            for chunk in copies:
                r, _, _, _ = lapack.dtpqrt(0, block, r, chunk, overwrite_a=1, overwrite_b=1)

        return timed(run)

    def run():
        if best.get("shape") == (n, m, clock):
            return with_block(best["block"])
        times = {block: with_block(block) for block in sorted({min(block, m) for block in (16, 32, 64)})}
        best.update(shape=(n, m, clock), block=min(times, key=times.get))
        return times[best["block"]]

    return run


KERNELS = {"dgemm": dgemm, "dsyrk": dsyrk, "dgeqrf": dgeqrf, "dtpqrt": dtpqrt}


def answer(name, numbers):
    global clock
    if name == "info":
        return ", ".join(sorted({library.get("architecture", "unknown") for library in threadpool_info()}))
    if name == "threads":
        threadpool_limits(numbers[0])
        clock = time.thread_time if numbers[0] == 1 else time.perf_counter
        return str(max(library["num_threads"] for library in threadpool_info()))
    *shape, reps = numbers
    run = KERNELS[name](*shape)
    run()
    seconds, processors = min(run() for _ in range(reps))
    return f"{seconds:.9f} {processors:.2f}"


for line in sys.stdin:
    name, *numbers = line.split()
    print(answer(name, [int(number) for number in numbers]), flush=True)
