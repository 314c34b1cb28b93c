"""Unlearning a customer, exactly.

Every customer is a task. One asks to be forgotten: afterwards the model is the one of never having seen the rows, and neither the
file nor its free pages hold anything of them.
"""

import tempfile
from pathlib import Path

import numpy as np
import pmfcl
from pmfcl import ContinualRegressor


def main():
    """Learns twenty customers and forgets one."""
    rng = np.random.default_rng(11)
    customers = {}
    for k in range(20):
        X = rng.normal(size=(rng.integers(15, 60), 4))
        customers[f"customer-{k:02}"] = (X, X @ [1.0, 2.0, -1.0, 0.5] + 0.1 * k + rng.normal(scale=0.3, size=len(X)))
    model = ContinualRegressor(ridge=1e-2)
    for name, (X, y) in customers.items():
        model.partial_fit(X, y, task=name)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "customers.pmf"
        model.save(path)
        secret = model.summary("customer-07").to_bytes()
        held = secret in path.read_bytes()
        model.unlearn("customer-07")
        model.save(path)
        left = secret in path.read_bytes()
        again = pmfcl.load(path)
    never = ContinualRegressor(ridge=1e-2)
    for name, (X, y) in customers.items():
        if name != "customer-07":
            never.partial_fit(X, y, task=name)
    gap = np.abs(again.coef_ - never.coef_).max()
    print(f"difference to a model that never met customer-07: {gap:.1e}")
    print(f"summary of customer-07 in the file before: {held}, after: {left}")
    return {"gap": gap, "held": held, "left": left}


if __name__ == "__main__":
    main()
