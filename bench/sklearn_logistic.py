"""Logistic regression compared with scikit-learn, on the same rows and to the same gradient norm.

    cargo build --release -p pmfcl --example logistic_bench
    python bench/sklearn_logistic.py [DIR] [--tasks 20] [--rows 20000] [--features 64] [--classes 10]

Runs the example, reads the rows it wrote, times scikit-learn on them, and prints both sides. Gradient norms are
computed here, for both, by NumPy: ‖∇J‖₂ of J = Σ ℓ + ½‖θ‖² (intercept free), which is C = 1.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time
import warnings

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parent.parent


def gradient_norm(x, y, weights, intercept):
    eta = x @ weights.T + intercept
    eta -= eta.max(axis=1, keepdims=True)
    p = np.exp(eta)
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1.0
    return float(np.sqrt(((p.T @ x + weights) ** 2).sum() + (p.sum(axis=0) ** 2).sum()))


def timed(work):
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - processor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=tempfile.mkdtemp(prefix="pmfcl-bench-"))
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="set OPENBLAS_NUM_THREADS to the same")
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        help="refit after every so many tasks only, and interpolate",
    )
    a = parser.parse_args()
    directory = pathlib.Path(a.directory)
    program = ROOT / "target/release/examples/logistic_bench"
    numbers = [str(v) for v in (a.tasks, a.rows, a.features, a.classes, a.threads)]
    ours = subprocess.run([program, directory, *numbers], check=True, capture_output=True, text=True).stdout
    print(ours, flush=True)
    lines = [line.split(",") for line in ours.splitlines()]
    x = np.fromfile(directory / "x.f64").reshape(-1, a.features)
    y = np.fromfile(directory / "y.u32", dtype=np.uint32).astype(int)
    n = a.rows

    print(f"single task, {n} rows, {a.features} features, {a.classes} classes; scikit-learn {sklearn.__version__}")
    print(f"{'':36s} {'wall':>8s} {'processor':>10s} {'gradient norm':>14s}")
    for line in lines:
        if line[0] == "single":
            theta = np.fromfile(directory / f"theta_{line[1]}.f64").reshape(a.classes, -1)
            norm = gradient_norm(x[:n], y[:n], theta[:, 1:], theta[:, 0])
            print(f"{'pmfcl ' + line[1]:36s} {float(line[2]):8.3f} {float(line[3]):10.3f} {norm:14.2e}")
    for solver, tol in (
        ("lbfgs", 1e-4),
        ("lbfgs", 1e-6),
        ("newton-cholesky", 1e-4),
        ("newton-cholesky", 1e-6),
    ):
        if solver == "newton-cholesky" and a.classes * a.features > 3_000:
            continue  # it forms the whole Hessian
        make = LogisticRegression(solver=solver, C=1.0, tol=tol, max_iter=10_000)
        model, wall, processor = timed(lambda: make.fit(x[:n], y[:n]))
        present = np.unique(y[:n], return_inverse=True)[1]  # it leaves out classes without a row
        norm = gradient_norm(x[:n], present, model.coef_, model.intercept_)
        print(
            f"{f'scikit-learn {solver} tol={tol:g}':36s} {wall:8.3f} {processor:10.3f} {norm:14.2e}",
            flush=True,
        )

    print("refitted on all rows so far (lbfgs, tol=1e-4), against one pass")
    after, walls, processors = [], [], []
    for t in sorted({*range(0, a.tasks, a.every), a.tasks - 1}):
        make = LogisticRegression(C=1.0, max_iter=10_000)
        _, wall, processor = timed(lambda: make.fit(x[: (t + 1) * n], y[: (t + 1) * n]))
        after.append(t), walls.append(wall), processors.append(processor)
        print(
            f"  scikit-learn after task {t}: {wall:.2f} s, processor {processor:.2f} s",
            flush=True,
        )
    every = np.arange(a.tasks)
    wall, processor = (np.interp(every, after, v).sum() for v in (walls, processors))
    print(f"{'':24s} {'wall':>9s} {'processor':>10s} {'first':>7s} {'last':>7s} {'times less':>11s}")
    print(f"{'scikit-learn':24s} {wall:9.2f} {processor:10.2f} {processors[0]:7.2f} {processors[-1]:7.2f}")
    for scheme in ("sequential", "one-shot"):
        w = [float(line[2]) for line in lines if line[0] == scheme]
        c = [float(line[3]) for line in lines if line[0] == scheme]
        print(
            f"{'pmfcl ' + scheme:24s} {sum(w):9.2f} {sum(c):10.2f} {c[0]:7.2f} {c[-1]:7.2f} {processor / sum(c):11.1f}"
        )


if __name__ == "__main__":
    main()
