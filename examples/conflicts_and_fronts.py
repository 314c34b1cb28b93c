"""Do the tasks conflict, and what can two of them have at once?

Three sites measure the same thing; one of its sensors is biased. Which one, is it noise, and what would each site gain from
another weighing? All of it from the summaries, after the rows are gone.
"""

from pathlib import Path

import numpy as np
from pmfcl import ContinualRegressor


def main(pictures=None):
    """Learns three sites and looks at what they cost each other."""
    rng = np.random.default_rng(5)
    model = ContinualRegressor(ridge=0.0)
    for site, slope in (("north", 1.0), ("south", 1.0), ("harbour", 1.6)):
        X = rng.normal(size=(400, 3))
        model.partial_fit(X, X @ [slope, -0.5, 0.2] + rng.normal(scale=0.7, size=400), task=site)
    found = model.conflicts()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        verdict = "conflict" if found.p_value[i, j] < 0.01 else "noise"
        print(f"{found.tasks[i]:7} and {found.tasks[j]:7}: p = {found.p_value[i, j]:.2g}, {verdict}")
    front = model.pareto_front("north", "harbour")
    print(
        f"north alone could have {front.loss_a.min():.3f}, harbour {front.loss_b.min():.3f}; now {np.round(front.current, 3)}"
    )
    print(f"knee at weight {front.knee.weight:.2f} on north: {front.knee.loss_a:.3f} and {front.knee.loss_b:.3f}")
    allowed = model.forgetting_["north"] / 4
    model.prefer(budget={"north": allowed})
    print(
        f"north may lose {allowed:.4f}: it loses {model.forgetting_['north']:.4f}, harbour {model.forgetting_['harbour']:.4f}"
    )
    if pictures is not None:
        from pmfcl import plot

        for name, draw in (
            ("front", lambda: plot.front(model, "north", "harbour")),
            ("conflicts", lambda: plot.conflicts(model)),
        ):
            draw().figure.savefig(Path(pictures) / f"{name}.png", dpi=110)
    return {"p": found.p_value, "allowed": allowed, "lost": model.forgetting_["north"]}


if __name__ == "__main__":
    main()
