"""The ways to a model through Python. All must end at the model of one `fit`."""

import itertools
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pmfcl import ContinualClassifier, ContinualRegressor, Summary
from pmfcl.federated import Agreement, Server
from pmfcl.river import RiverClassifier, RiverRegressor
from sklearn.base import clone


@dataclass(frozen=True)
class Draw:
    """A table cut into tasks, each a list of its rows."""

    table: object
    tasks: list
    rng: np.random.Generator
    directory: object

    def parts(self):
        """Name, rows, targets and weights of every task."""
        X, y, w = self.table.X, self.table.y, self.table.weights
        for k, rows in enumerate(self.tasks):
            yield f"t{k}", X[rows], y[rows], None if w is None else w[rows]


def estimator(table, **settings):
    """One that has learned nothing. What calibration measures depends on the way, and only that does."""
    if table.classes:
        settings.setdefault("calibrate", "off")
    return (ContinualClassifier if table.classes else ContinualRegressor)(**settings)


def one_fit(table, **settings):
    """All rows at once."""
    return estimator(table, **settings).fit(table.X, table.y, sample_weight=table.weights)


def learn(model, parts):
    """Task by task."""
    for name, X, y, w in parts:
        model.partial_fit(X, y, task=name, sample_weight=w)
    return model


def in_order(draw, **settings):
    return learn(estimator(draw.table, **settings), draw.parts())


def shuffled(draw):
    parts = list(draw.parts())
    return learn(estimator(draw.table), [parts[k] for k in draw.rng.permutation(len(parts))])


def compact(draw):
    return in_order(draw, memory="compact")


def gram(draw):
    return in_order(draw, accumulator="gram")


def merged(draw):
    parts = list(draw.parts())
    if len(parts) < 2:
        return None
    at = int(draw.rng.integers(1, len(parts)))
    # The second half has seen its tasks, and so its classes, in another order.
    halves = learn(estimator(draw.table), parts[:at]), learn(estimator(draw.table), parts[at:][::-1])
    return halves[0].merge(halves[1])


def merged_compact(draw):
    parts = list(draw.parts())
    if len(parts) < 2:
        return None
    at = int(draw.rng.integers(1, len(parts)))
    halves = [learn(estimator(draw.table, memory="compact"), half) for half in (parts[:at], parts[at:])]
    return halves[0].merge(halves[1])


def relearned(draw):
    model, parts = in_order(draw), list(draw.parts())
    again = parts[draw.rng.integers(len(parts))]
    return learn(model.unlearn(again[0]), [again])


def relearned_compact(draw):
    model, parts = compact(draw), list(draw.parts())
    again = parts[draw.rng.integers(len(parts))]
    try:
        model.unlearn(*again)
    except ValueError as refusal:
        if "digits would be right" in str(refusal) or "no task would be left" in str(refusal):
            return None  # It says why, and the model is unchanged.
        raise
    return learn(model, [again])


def reloaded(draw):
    parts = list(draw.parts())
    at = int(draw.rng.integers(1, len(parts) + 1))
    model = learn(estimator(draw.table), parts[:at])
    path = draw.directory / "half.pmf"
    model.save(path, overwrite=True)
    return learn(type(model).load(path), parts[at:])


def pickled(draw):
    parts = list(draw.parts())
    at = int(draw.rng.integers(1, len(parts) + 1))
    model = learn(estimator(draw.table, memory="compact"), parts[:at])
    return learn(pickle.loads(pickle.dumps(model)), parts[at:])


def preferred(draw):
    return in_order(draw).prefer("samples")


def preferred_back(draw):
    return in_order(draw).prefer("equal").prefer("samples")


def solved_again(draw):
    model = in_order(draw)
    return model.set_shrinkage("auto") if draw.table.classes else model.set_ridge("auto")


def from_summaries(draw):
    """Summaries made elsewhere, learned one by one."""
    model = estimator(draw.table)
    for name, X, y, w in draw.parts():
        if draw.table.classes:
            labels = np.unique(y)
            indicators = (y[:, None] == labels).astype(np.float64)
            model.learn_summary(Summary.from_data(X, indicators, w), labels, task=name)
        else:
            model.learn_summary(Summary.from_data(X, y, w), task=name)
    return model


def from_one_sum(draw):
    """Summaries made elsewhere, added up in another order, learned as one task."""
    labels = np.unique(draw.table.y) if draw.table.classes else None
    summaries = []
    for _, X, y, w in draw.parts():
        target = y if labels is None else (y[:, None] == labels).astype(np.float64)
        summaries.append(Summary.from_data(X, target, w))
    whole = sum(summaries[k] for k in draw.rng.permutation(len(summaries)))
    more = () if labels is None else (labels,)
    return estimator(draw.table).learn_summary(whole, *more, task="all")


def federated(draw):
    table = draw.table
    if table.weights is not None or (table.classes and len(np.unique(table.y)) < 2):
        return None  # uploads carry no weights, and an agreement names two classes at least
    known = {"classes": np.unique(table.y)} if table.classes else {"targets": list(table.targets.columns)}
    agreement = Agreement(estimator(table), features=table.X.shape[1], **known)
    server = Server(agreement)
    for name, X, y, _ in draw.parts():
        server.accept(agreement.summarize(name, 0, X, y))
    return server.model()


def squared(draw):
    """Classes by least squares, against one fit of the same."""
    return in_order(draw, loss="squared") if draw.table.classes else None


# Those whose tasks have the names of the draw and are told apart afterwards.
LEDGERS = [shuffled, merged, relearned, reloaded, preferred, preferred_back, solved_again, from_summaries]
OTHERS = [compact, gram, merged_compact, relearned_compact, pickled, from_one_sum, federated]


def stream(draw):
    """The wrappers for River: batches, against one batch. Gives both models' answers."""
    table = draw.table
    if table.weights is not None or (not table.classes and table.targets.shape[1] > 1):
        return None
    make = RiverClassifier if table.classes else RiverRegressor
    models = []
    for tasks in ([np.concatenate(draw.tasks)], draw.tasks):
        models.append(make())
        for rows in tasks:
            models[-1].learn_many(pd.DataFrame(table.X[rows]), pd.Series(table.y[rows]))
    return models


def answers(model, X):
    """What a model says of rows, as numbers in the order of sorted classes."""
    return model.predict_proba(X) if isinstance(model, ContinualClassifier) else model.predict(X)


def one_shot_logistic(draw):
    """Log-loss with one-shot bounds, in two orders: both models."""
    if not draw.table.classes:
        return None
    model = estimator(draw.table, loss="logistic", certify=False)
    known = np.unique(draw.table.y)
    if len(known) < 2:
        return None
    parts, models = list(draw.parts()), []
    for order in (range(len(parts)), draw.rng.permutation(len(parts))):
        models.append(clone(model))
        for k, (name, X, y, w) in zip(itertools.count(), (parts[k] for k in order), strict=False):
            models[-1].partial_fit(X, y, task=name, sample_weight=w, classes=known if k == 0 else None)
    return models
