"""Tables × variations × random splits × ways: the largest gap to one fit."""

import contextlib
import math
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import commands, estimators, oracle
from .estimators import Draw, answers
from .tables import varied

# Standard deviations of the target, or probabilities.
NEAR = 1e-7


@dataclass(frozen=True)
class Plan:
    """How much is tried for each table and variation."""

    # Random splits; of these, through the command line, and by log-loss.
    splits: int
    command_splits: int
    logistic_splits: int = 3
    # Ways that a split is tried in, in turn.
    ways_each: int = len(estimators.LEDGERS + estimators.OTHERS)
    command_ways_each: int = len(commands.WAYS)
    most_tasks: int = 50


@dataclass
class Found:
    """What the draws of one way came to."""

    gaps: list = field(default_factory=list)
    chosen: list = field(default_factory=list)
    failures: list = field(default_factory=list)

    @property
    def gap(self):
        """The largest; NaN is larger than any number."""
        return max(self.gaps, key=lambda gap: math.inf if math.isnan(gap) else gap, default=0.0)

    @property
    def sound(self):
        """Whether every draw ended at the model of one fit."""
        return not self.failures and self.gap <= NEAR


class Findings:
    """By table, variation and way."""

    HEAD = f"{'data':22} {'variation':28} {'way':26} {'draws':>5} {'failed':>6} {'gap':>8}  ridge or shrinkage"

    def __init__(self):
        self.lines = {}

    @contextlib.contextmanager
    def trying(self, table, way):
        """Where a way ends in an error, that is the finding."""
        found = self.lines.setdefault((table.name, table.variation, way), Found())
        try:
            yield found
        # Whatever is raised is what is looked for.
        except Exception as error:  # noqa: BLE001
            found.failures.append(f"{type(error).__name__}: {error}")

    def wrong(self):
        """Lines that are not sound, as text."""
        return [
            f"{' / '.join(key)}: gap {found.gap:.1e}, {len(found.failures)} failed"
            + "".join(f"\n    {text[:600]}" for text in found.failures[:1])
            for key, found in self.lines.items()
            if not found.sound
        ]

    def text(self, table):
        """A line for each way that a table was tried in; those of the table after a variation."""
        lines = []
        for (name, variation, way), found in self.lines.items():
            if (name, variation) != (table.name, table.variation):
                continue
            chosen = [value for value in found.chosen if value is not None]
            span = f"{min(chosen):.6g} … {max(chosen):.6g}" if chosen else ""
            mark = "" if found.sound else "  <<<"
            lines.append(
                f"{name:22} {variation:28} {way:26} {len(found.gaps):5} {len(found.failures):6} "
                f"{found.gap:8.1e}  {span}{mark}"
            )
        return "\n".join(lines)


def cut(table, rng, most_tasks):
    """Rows in tasks: any number of any size, in any order, or such that a task has what others lack."""
    n = len(table.frame)
    kind = rng.integers(3)
    if kind == 0:
        rows = rng.permutation(n)
    elif kind == 1:
        rows = np.arange(n)
    else:
        rows = np.argsort(table.X[:, rng.integers(table.X.shape[1])], kind="stable")
    if table.task_rows:
        return np.array_split(rows, range(table.task_rows, n, table.task_rows))
    tasks = int(rng.integers(1, min(most_tasks, n) + 1))
    return np.split(rows, np.sort(rng.choice(np.arange(1, n), size=tasks - 1, replace=False)))


def distance(table, a, b):
    """Largest gap between two models' answers: in standard deviations of the target, or in probability."""
    if a.shape != b.shape:
        return math.inf
    if table.classes:
        return float(np.abs(a - b).max())
    y = table.y.reshape(len(table.y), -1)
    spread = y.std(axis=0)
    # A target that does not vary is measured by its size.
    unit = np.where(spread > 1e-12 * np.abs(y).max(axis=0), spread, np.abs(y).max(axis=0))
    return float((np.abs(a - b).reshape(len(a), -1) / unit).max())


def chosen(table, model):
    """The ridge or the shrinkage of a model."""
    return model.shrinkage_ if table.classes else model.ridge_


def facts_gap(table, one, other):
    """Largest gap between what two models with the same tasks say was forgotten, relative to the target's variance."""
    y = table.y if table.classes else table.y.reshape(len(table.y), -1)
    size = 1.0 if table.classes else max(float((y**2).mean(axis=0).sum()) / 2.0 * 1e-6, float(y.var(axis=0).sum()))
    gaps = [0.0]
    mine, theirs = ({task["name"]: task for task in model.tasks_} for model in (one, other))
    if set(mine) != set(theirs):
        return math.inf
    for name, task in mine.items():
        for key in ("samples", "loss", "min_loss", "forgetting"):
            a, b = task[key], theirs[name][key]
            if (a is None) != (b is None):
                return math.inf
            if a is not None:
                gaps.append(abs(a - b) / (task["samples"] if key == "samples" else size))
        if task["rank"] != theirs[name]["rank"]:
            return math.inf
    gaps.append(abs(one.mean_forgetting_ - other.mean_forgetting_) / size)
    return max(gaps)


def turn(ways, each, k, table):
    """The ways that draw `k` is tried in, `each` of them; the first draws of other variations begin with other ways."""
    first = k * each + len(table.variation)
    return [ways[(first + i) % len(ways)] for i in range(min(each, len(ways)))]


def through_python(findings, table, draws, asked, ways_each):
    """Ways through estimators; `ways_each` of them for each draw, in turn."""
    X = np.vstack([table.X, asked.X])
    one = None
    with findings.trying(table, "NumPy, all rows") as found:
        one = estimators.one_fit(table)
        said = answers(one, X)
        expected = oracle.one_fit(table, one, X)
        if expected is not None:
            found.gaps.append(distance(table, said, expected))
            found.chosen.append(chosen(table, one))
    for k, draw in enumerate(draws if one is not None else []):
        with findings.trying(table, "in order") as found:
            ordered = estimators.in_order(draw)
            found.gaps.append(distance(table, answers(ordered, X), said))
            found.chosen.append(chosen(table, ordered))
        for way in turn(estimators.LEDGERS + estimators.OTHERS, ways_each, k, table):
            name = way.__name__.replace("_", " ")
            with findings.trying(table, name) as found:
                model = way(draw)
                if model is None:
                    continue
                found.gaps.append(distance(table, answers(model, X), said))
                found.chosen.append(chosen(table, model))
                if way in estimators.LEDGERS:
                    with findings.trying(table, "forgetting") as facts:
                        facts.gaps.append(facts_gap(table, ordered, model))
        if not table.classes:
            with findings.trying(table, "intervals") as found:
                ends = [interval(model, X) for model in (one, ordered)]
                if None in ends:
                    found.gaps.append(0.0 if ends[0] is ends[1] else math.inf)
                else:
                    found.gaps.append(max(distance(table, a, b) for a, b in zip(*ends, strict=True)))
        with findings.trying(table, "river") as found:
            models = estimators.stream(draw)
            if models is not None:
                a, b = (stream_answers(table, model, X) for model in models)
                found.gaps.append(distance(table, a, b))
        if table.classes:
            with findings.trying(table, "squared classes") as found:
                one_squared = estimators.one_fit(table, loss="squared")
                model = estimators.squared(draw)
                found.gaps.append(distance(table, answers(model, X), answers(one_squared, X)))
                found.chosen.append(model.ridge_)


def interval(model, X):
    """Both ends of intervals; None where they are refused."""
    try:
        return model.predict_interval(X)
    except ValueError:
        return None


def stream_answers(table, model, X):
    """What a wrapper for River says of rows."""
    import pandas as pd

    frame = pd.DataFrame(X)
    if not table.classes:
        return model.predict_many(frame).to_numpy()
    found = model.predict_proba_many(frame)
    return found[sorted(found)].to_numpy()


def logistic(findings, table, draws, asked):
    """One-shot bounds do not depend on the order of tasks."""
    X = np.vstack([table.X, asked.X])
    for draw in draws if table.classes else []:
        with findings.trying(table, "logistic, two orders") as found:
            models = estimators.one_shot_logistic(draw)
            if models is not None:
                found.gaps.append(distance(table, *(answers(model, X) for model in models)))


def through_commands(findings, table, draws, asked, ways_each):
    """Ways through the command line; `ways_each` of them for each draw, in turn."""
    if table.weights is not None:
        return
    for k, draw in enumerate(draws):
        with tempfile.TemporaryDirectory() as directory:
            place = commands.Place(Path(directory), draw, asked)
            said = None
            with findings.trying(table, "command: one learn") as found:
                commands.one_learn(place)
                said = place.answers("one.pmf")
                place.verified("one.pmf")
                found.gaps.append(0.0)
            if said is None:
                continue
            for way in turn(commands.WAYS, ways_each, k, table):
                with findings.trying(table, "command: " + way.__name__.replace("_", " ")) as found:
                    model = way(place)
                    if model is None:
                        continue
                    shown = place.verified(model)
                    found.gaps.append(distance(table, place.answers(model), said))
                    found.chosen.append(shown["shrinkage"] if table.classes else shown["ridge"])
            if k == 0:
                with findings.trying(table, "command: the others") as found:
                    commands.other_commands(place)
                    found.gaps.append(0.0)


def sweep(findings, table, variation, plan, seed):
    """Compares everything for one variation of a table; gives the table after it, or None where it does not apply."""
    rng = np.random.default_rng([seed, *map(ord, table.name + variation.__name__)])
    other = varied(table, variation, rng)
    if other is None:
        return None
    asked = other.mixed(rng)
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class seen in few rows, says scikit-learn
        draws = [Draw(other, cut(other, rng, plan.most_tasks), rng, Path(directory)) for _ in range(plan.splits)]
        through_python(findings, other, draws, asked, plan.ways_each)
        logistic(findings, other, draws[: plan.logistic_splits], asked)
        through_commands(findings, other, draws[: plan.command_splits], asked, plan.command_ways_each)
    return other
