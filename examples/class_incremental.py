"""A class-incremental head on random features.

Digits arrive two classes at a time; no row is ever seen again. Linear discriminants on frozen random features end where joint
training on all ten classes does, to rounding. On images a frozen network takes the place of the random features.
"""

import numpy as np
from pmfcl import ContinualClassifier
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split


def main():
    """Learns five tasks of two classes each."""
    X, y = load_digits(return_X_y=True)
    X, Xt, y, yt = train_test_split(X / 16.0, y, random_state=0, stratify=y)
    basis = "relu:500,scale=none,seed=1"  # drawn once; nothing about it depends on the first rows
    model = ContinualClassifier(basis=basis)
    sgd = SGDClassifier(loss="log_loss", random_state=0)
    for first in range(0, 10, 2):
        rows = (y == first) | (y == first + 1)
        model.partial_fit(X[rows], y[rows], task=f"{first} and {first + 1}")
        for _ in range(5):
            sgd.partial_fit(X[rows], y[rows], classes=np.arange(10))
        known = yt < first + 2
        print(
            f"after {first} and {first + 1}: accuracy on {len(model.classes_)} classes {model.score(Xt[known], yt[known]):.3f}"
        )
    joint = ContinualClassifier(basis=basis).fit(X, y)
    gap = np.abs(model.decision_function(Xt) - joint.decision_function(Xt)).max()
    print(f"joint training {joint.score(Xt, yt):.3f}; largest difference of a score {gap:.1e}")
    print(f"gradient steps on the newest task only: {sgd.score(Xt, yt):.3f}")
    return {"gap": gap, "accuracy": model.score(Xt, yt), "sgd": sgd.score(Xt, yt)}


if __name__ == "__main__":
    main()
