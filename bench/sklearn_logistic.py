"""Logistic regression beside scikit-learn, on the same rows and to the same gradient norm.

    cargo build --release -p pmfcl --example logistic_bench
    python bench/sklearn_logistic.py [DIR] [--tasks 20] [--rows 20000] [--features 64] [--classes 10]

Runs the example, reads the rows it wrote, times scikit-learn on them, and prints both sides. Gradient norms are
computed here, for both, by NumPy: ‖∇J‖₂ of J = Σ ℓ + ½‖θ‖² (intercept free), which is C = 1.
"""

import argparse
import pathlib
import subprocess
import sys
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", default=tempfile.mkdtemp(prefix="pmfcl-bench-"))
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--refits", type=int, default=None, help="refit on all data so far after these tasks only")
    a = parser.parse_args()
    directory = pathlib.Path(a.directory)
    program = ROOT / "target/release/examples/logistic_bench"
    numbers = [str(v) for v in (a.tasks, a.rows, a.features, a.classes)]
    ours = subprocess.run([program, directory, *numbers], check=True, capture_output=True, text=True).stdout
    print(ours)
    x = np.fromfile(directory / "x.f64").reshape(-1, a.features)
    y = np.fromfile(directory / "y.u32", dtype=np.uint32).astype(int)
    n = a.rows

    print(f"single task, {n} rows, {a.features} features, {a.classes} classes; scikit-learn {sklearn.__version__}")
    single = [line.split(",") for line in ours.splitlines() if line.startswith("single")]
    rows = []
    for line in single:
        theta = np.fromfile(directory / f"theta_{line[1]}.f64").reshape(a.classes, -1)
        rows.append(("pmfcl " + line[1], float(line[2]), gradient_norm(x[:n], y[:n], theta[:, 1:], theta[:, 0])))
    for solver in ("lbfgs", "newton-cholesky", "newton-cg"):
        for tol in (1e-4, 1e-6, 1e-8):
            best = np.inf
            for _ in range(2):
                clock = time.perf_counter()
                model = LogisticRegression(solver=solver, C=1.0, tol=tol, max_iter=10_000).fit(x[:n], y[:n])
                best = min(best, time.perf_counter() - clock)
            norm = gradient_norm(x[:n], y[:n], model.coef_, model.intercept_)
            rows.append((f"scikit-learn {solver} tol={tol:g}", best, norm))
            sys.stdout.flush()
    print(f"{'':40s} {'seconds':>9s} {'gradient norm':>14s}")
    for name, seconds, norm in rows:
        print(f"{name:40s} {seconds:9.3f} {norm:14.2e}")

    print("refitted on all rows so far (lbfgs, tol=1e-4), against one pass")
    total = 0.0
    for t in range(a.refits or a.tasks):
        clock = time.perf_counter()
        LogisticRegression(C=1.0, max_iter=10_000).fit(x[: (t + 1) * n], y[: (t + 1) * n])
        seconds = time.perf_counter() - clock
        total += seconds
        print(f"  task {t}: {seconds:.2f} s")
        sys.stdout.flush()
    print(f"scikit-learn in all: {total:.2f} s")
    for scheme in ("sequential", "one-shot"):
        lines = [line.split(",") for line in ours.splitlines() if line.startswith(scheme)]
        seconds = [float(line[2]) for line in lines][: a.refits or a.tasks]
        print(f"pmfcl {scheme}: {sum(seconds):.2f} s, first {seconds[0]:.2f}, last {seconds[-1]:.2f}, ratio {total / sum(seconds):.1f}")


if __name__ == "__main__":
    main()
