"""How good are probabilities? The table of docs/choosing.md, through the Python package.

    python bench/probabilities.py DATA_DIR [STREAM…] [--thin N] [--only NAME…] [--ways] [--normal SEEDS] [--small SPLITS] [--cost]

DATA_DIR holds elec2, wisdm_users, mnist and fashion_mnist as Parquet (columns y, split (1 for test rows), features, and task where tasks are natural). Every classifier learns
the tasks of a stream in order; accuracy, log-loss and calibration error (15 bins) are those on the test rows of all tasks. Joint
logistic regression sees all rows at once, scaled, with C by cross-validation on training rows; scikit-learn's LDA has automatic
shrinkage. `--thin N` keeps one row in N of the image sets; joint logistic regression always has at most 6000 rows.

`--ways` learns the same stream in other ways: measured at the end, saved and loaded after each task, in six orders, at two sites that
are merged, with three tasks removed, as a federation of one client per task.

`--normal SEEDS` learns normal classes with one covariance, where calibration must not harm: log-loss by that of `calibrate off`, over
classes, columns, separations, rows and so many seeds. `--small SPLITS` learns half of each of scikit-learn's bundled sets, and made-up
classes that are skewed, heavy-tailed, unbalanced or unlike in spread, in so many splits, all rows at once and a class or two per task, and tests on
the other half; no setting is made and none was chosen on these. `--cost` times learning and predicting with calibration and without.
"""

import argparse
import itertools
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pmfcl import ContinualClassifier
from pmfcl.federated import Agreement, Server
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MOST_JOINT = 6000
STREAMS = {
    "elec2": ("elec2", "natural"),
    "wisdm": ("wisdm_users", "natural"),
    "wisdm-classes": ("wisdm_users", 2),
    "split-mnist": ("mnist", 2),
    "split-fashion": ("fashion_mnist", 2),
    "permuted-mnist": ("mnist", "permuted"),
    "elec2-classes": ("elec2", 1),
}


def stream(directory, name, thin):
    """Tasks to learn, and all test rows."""
    data, kind = STREAMS[name]
    table = pq.read_table(Path(directory) / f"{data}.parquet")
    y, test = table["y"].to_numpy(), table["split"].to_numpy() == 1
    task = table["task"].to_numpy() if "task" in table.column_names else np.zeros(len(y))
    names = [c for c in table.column_names if c not in ("y", "task", "split")]
    X = np.stack([table[c].to_numpy().astype(float) for c in names], axis=1)
    y = np.unique(y, return_inverse=True)[1]
    if X.shape[1] > 100 and thin > 1:
        kept = np.arange(len(y)) % thin == 0
        X, y, task, test = X[kept], y[kept], task[kept], test[kept]
    if kind == "permuted":
        orders = [np.random.default_rng(t).permutation(X.shape[1]) if t else np.arange(X.shape[1]) for t in range(5)]
        learn = [(X[~test][:, order], y[~test]) for order in orders]
        return learn, np.concatenate([X[test][:, order] for order in orders]), np.tile(y[test], 5)
    group = task if kind == "natural" else y // kind
    learn = [(X[~test & (group == t)], y[~test & (group == t)]) for t in np.unique(group)]
    return [part for part in learn if len(part[1])], X[test], y[test]


def scores(p, classes, y):
    """Accuracy, log-loss, calibration error."""
    own = p[np.arange(len(y)), np.searchsorted(classes, y)].clip(np.finfo(float).eps)
    best, hit = p.max(axis=1), classes[p.argmax(axis=1)] == y
    bins = np.minimum((best * 15).astype(int), 14)
    gaps = [abs((best - hit)[bins == b].sum()) for b in range(15)]
    return hit.mean(), -np.log(own).mean(), sum(gaps) / len(y)


def chance(p, draws=100):
    """The calibration error that probabilities have by chance on so many rows if they are right: in 19 of 20 cases it is below this."""
    draw, best = np.random.default_rng(0), p.max(axis=1)
    bins = np.minimum((best * 15).astype(int), 14)
    hits = draw.random((draws, len(best))) < best
    found = [np.abs(np.bincount(bins, best - hit, minlength=15)).sum() / len(best) for hit in hits]
    return np.quantile(found, 0.95)


def ours(tasks, **parameters):
    """A model of the stream, measured after every task."""
    model = ContinualClassifier(**parameters)
    for t, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=t)
        model.coef_  # noqa: B018  (solved after each task, as in use)
    return model


def at_the_end(tasks, **parameters):
    """A model of the stream, measured once."""
    model = ContinualClassifier(**parameters)
    for t, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=t)
    return model


def in_files(tasks, first=0):
    """A model of the stream that is written and read after every task, as by one command each."""
    model = ContinualClassifier()
    with tempfile.TemporaryDirectory() as directory:
        for t, (X, y) in enumerate(tasks, first):
            model.partial_fit(X, y, task=t).save(Path(directory) / f"{t}.pmf")
            model = ContinualClassifier.load(Path(directory) / f"{t}.pmf")
    return model


def merged(tasks):
    """Two sites with half of the tasks each."""
    half = len(tasks) // 2
    return in_files(tasks[:half]).merge(in_files(tasks[half:], half))


def removed(tasks):
    """Three tasks less, or one where there are few."""
    model = ours(tasks)
    for t in range(min(3, len(tasks) - 2)):
        model.unlearn(str(t))
    return model


def federated(tasks):
    """A client per task, and the second round."""
    agreement = Agreement(
        ContinualClassifier(), tasks[0][0].shape[1], classes=np.unique(np.concatenate([y for _, y in tasks]))
    )
    server = Server(agreement)
    for t, (X, y) in enumerate(tasks):
        server.accept(agreement.summarize(t, 0, X, y))
    request = server.calibration_request()
    for t, (X, y) in enumerate(tasks):
        server.accept_calibration(agreement.calibrate(request, t, 0, X, y))
    return server.model()


def ways(tasks, X, y):
    """Name and scores of every way to the same model."""

    def scored(model):
        known = np.isin(y, model.classes_)
        parts = [model.predict_proba(X[known][i : i + 5000]) for i in range(0, known.sum(), 5000)]
        return scores(np.concatenate(parts), model.classes_, y[known])

    yield "measured at the end", scored(at_the_end(tasks))
    yield "solved after each task", scored(ours(tasks))
    yield "saved and loaded after each task", scored(in_files(tasks))
    yield "two sites, merged", scored(merged(tasks))
    yield "federation, second round", scored(federated(tasks))
    yield "first tasks removed", scored(removed(tasks))
    yield "first tasks never learned", scored(at_the_end(tasks[min(3, len(tasks) - 2) :]))
    orders = list(itertools.permutations(range(len(tasks))))[:6] if len(tasks) <= 3 else None
    if orders is None:
        draw = np.random.default_rng(1)
        orders = [draw.permutation(len(tasks)) for _ in range(6)]
    for name, learn in (("solved", ours), ("saved and loaded", in_files)):
        found = [scored(learn([tasks[t] for t in order])) for order in orders]
        losses = [loss for _, loss, _ in found]
        yield f"orders, {name}: least", found[int(np.argmin(losses))]
        yield f"orders, {name}: most", found[int(np.argmax(losses))]


def normal(classes, columns, separation, rows, seed):
    """Normal classes with one covariance: rows to learn, and 20,000 to test."""
    draw = np.random.default_rng([classes, columns, int(10 * separation), rows, seed])
    root = draw.normal(size=(columns, columns))
    means = separation * columns**-0.25 * draw.normal(size=(classes, columns)) @ root
    y = np.concatenate([np.tile(np.arange(classes), 2), draw.integers(0, classes, rows - 2 * classes)])
    new = draw.integers(0, classes, 20000)
    X, T = (draw.normal(size=(len(k), columns)) @ root + means[k] for k in (y, new))
    return X, y, T, new


def normal_table(seeds):
    """Log-loss with calibration divided by that without, on normal data."""
    print("| classes | columns | separation | rows | log-loss off | on / off, mean of seeds | worst seed |")
    print("|---|---|---|---|---|---|---|")
    found = []
    for case in itertools.product((2, 4, 10), (2, 8, 30), (0.5, 1.5, 3.0), (60, 180, 600, 5000)):
        losses = []
        for seed in range(seeds):
            X, y, T, new = normal(*case, seed)
            pair = []
            for setting in ("on", "off"):
                model = ContinualClassifier(calibrate=setting, n_jobs=1).partial_fit(X, y, task="all")
                pair.append(scores(model.predict_proba(T), model.classes_, new)[1])
            losses.append(pair)
        on, off = np.array(losses).T
        found.append((*case, off.mean(), on.mean() / off.mean(), (on / off).max()))
        print("| {} | {} | {} | {} | {:.3g} | {:.3f} | {:.3f} |".format(*found[-1]), flush=True)
    off, means = np.array([line[4] for line in found]), np.array([line[5] for line in found])
    print(
        f"\n{len(found)} settings, {seeds} seeds: ratio of mean log-losses {means.mean():.3f} on average, at most {means.max():.3f}, "
        f"where log-loss is 1e-6 or more {means[off >= 1e-6].max():.3f}; above 1.01 in {(means > 1.01).sum()}"
    )


def made_up(kind, seed, rows=1000, columns=10):
    """Rows of four classes that are not normal."""
    draw = np.random.default_rng([len(kind), seed])
    y = draw.choice(4, rows, p=(0.94, 0.03, 0.02, 0.01) if kind == "unbalanced" else (0.25,) * 4)
    y[:8] = np.arange(8) % 4
    Z = draw.normal(size=(rows, columns))
    if kind == "heavy-tailed":
        Z /= np.sqrt(draw.chisquare(2, size=(rows, 1)) / 2)
    if kind == "unlike in spread":
        Z *= np.array([0.3, 0.7, 1.5, 3.0])[y][:, None]
    apart = 0.2 if kind == "unbalanced" else 0.8
    X = Z @ draw.normal(size=(columns, columns)) / columns**0.5 + apart * draw.normal(size=(4, columns))[y]
    return (np.exp(X) if kind == "skewed" else X), y


def small_sets():
    """Name and a function of the seed for every set of few rows, and how many classes come with a task."""
    bundled = {
        "iris": (load_iris, 1),
        "wine": (load_wine, 1),
        "breast cancer": (load_breast_cancer, 1),
        "digits": (load_digits, 2),
    }
    for name, (load, together) in bundled.items():
        yield name, (lambda _, load=load: load(return_X_y=True)), together
    for kind in ("skewed", "heavy-tailed", "unbalanced", "unlike in spread"):
        yield kind, (lambda seed, kind=kind: made_up(kind, seed)), 1
    yield "skewed, 60 rows", (lambda seed: made_up("skewed", seed, 120)), 1
    yield "heavy-tailed, 60 rows", (lambda seed: made_up("heavy-tailed", seed, 120)), 1


def small_table(splits):
    """Scores on sets of few rows: accuracy, log-loss and calibration error, means of the splits, and the largest log-loss."""
    print(
        "| set | rows | classifier | accuracy | log-loss | largest | calibration error |\n|---|---|---|---|---|---|---|"
    )
    for name, load, together in small_sets():
        found = {}
        for seed in range(splits):
            X, y = load(seed)
            order = np.random.default_rng(seed).permutation(len(y))
            # Every class is in both halves.
            order = order[np.argsort(y[order], kind="stable")]
            learn, test = order[::2], order[1::2]
            learn = np.random.default_rng(seed).permutation(learn)
            X, y, T, new = X[learn], y[learn], X[test], y[test]
            parts = [(X[y // together == t], y[y // together == t]) for t in np.unique(y // together)]
            joint = make_pipeline(
                StandardScaler(),
                LogisticRegressionCV(Cs=6, cv=3, max_iter=1000, scoring="neg_log_loss", use_legacy_attributes=False),
            )
            made = {
                "gaussian, all rows at once": lambda: ours([(X, y)]),
                "gaussian, classes task by task": lambda: ours(parts),
                "gaussian, files in between": lambda: in_files(parts),
                "gaussian, covariance class": lambda: ours([(X, y)], covariance="class"),
                "gaussian, calibrate off": lambda: ours([(X, y)], calibrate="off"),
                "joint logistic regression": lambda: joint.fit(X, y),
            }
            for method, make in made.items():
                model = make()
                found.setdefault(method, []).append(scores(model.predict_proba(T), model.classes_, new))
        for method, values in found.items():
            (accuracy, loss, error), most = np.mean(values, axis=0), max(loss for _, loss, _ in values)
            print(
                f"| {name} | {len(y)} | {method} | {accuracy:.3f} | {loss:.3f} | {most:.3f} | {error:.3f} |", flush=True
            )


def cost(rows=100_000, columns=128, classes=10, turns=9):
    """Seconds to learn a task and to predict, with calibration and without, in turn."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, classes, rows)
    X = draw.normal(size=(rows, columns)) + 0.3 * draw.normal(size=(classes, columns))[y]
    taken = {}
    for _ in range(turns):
        for setting in ("off", "on"):
            start = time.perf_counter()
            model = ContinualClassifier(calibrate=setting, n_jobs=2).partial_fit(X, y, task="all")
            model.coef_  # noqa: B018  (solved, and with it measured)
            taken.setdefault(("learn and solve", setting), []).append(time.perf_counter() - start)
            for name, ask in (("predict", model.predict), ("predict_proba", model.predict_proba)):
                start = time.perf_counter()
                ask(X)
                taken.setdefault((name, setting), []).append(time.perf_counter() - start)
    print(f"{rows} x {columns}, {classes} classes, two threads, median of {turns}")
    for name in ("learn and solve", "predict", "predict_proba"):
        off, on = (np.median(taken[name, setting]) for setting in ("off", "on"))
        print(f"| {name} | off {off:.3f} s | on {on:.3f} s | {on / off:.2f} |")


def lines(tasks, X, y, only):
    """Name, scores and seconds of every classifier."""
    joint = np.concatenate([x for x, _ in tasks]), np.concatenate([t for _, t in tasks])
    some = np.random.default_rng(0).permutation(len(joint[1]))[:MOST_JOINT]

    def logistic():
        fitted = make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(Cs=6, cv=3, max_iter=300, scoring="neg_log_loss", use_legacy_attributes=False),
        )
        return fitted.fit(joint[0][some], joint[1][some])

    made = {
        "gaussian": lambda: ours(tasks),
        "gaussian, covariance class": lambda: ours(tasks, covariance="class"),
        "gaussian, calibrate off": lambda: ours(tasks, calibrate="off"),
        "joint logistic regression": logistic,
        "scikit-learn LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(*joint),
    }
    for name, make in made.items():
        if only and name not in only:
            continue
        start = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - start
        parts = [model.predict_proba(X[i : i + 5000]) for i in range(0, len(X), 5000)]
        p = np.concatenate(parts)
        yield name, scores(p, model.classes_, y), chance(p), seconds


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("streams", nargs="*")
    parser.add_argument("--thin", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--ways", action="store_true")
    parser.add_argument("--normal", type=int, default=0, metavar="SEEDS")
    parser.add_argument("--small", type=int, default=0, metavar="SPLITS")
    parser.add_argument("--cost", action="store_true")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    if asked.cost:
        cost()
        return
    if asked.normal:
        normal_table(asked.normal)
        return
    if asked.small:
        small_table(asked.small)
        return
    if asked.ways:
        print("| stream | way | accuracy | log-loss | calibration error |\n|---|---|---|---|---|")
        for name in asked.streams or STREAMS:
            for way, (accuracy, loss, error) in ways(*stream(asked.directory, name, asked.thin)):
                print(f"| {name} | {way} | {accuracy:.4f} | {loss:.3f} | {error:.3f} |", flush=True)
        return
    print(
        "| stream | classifier | accuracy | log-loss | calibration error | by chance below | seconds |\n|---|---|---|---|---|---|---|"
    )
    for name in asked.streams or STREAMS:
        tasks, X, y = stream(asked.directory, name, asked.thin)
        for method, (accuracy, loss, error), likely, seconds in lines(tasks, X, y, asked.only):
            line = f"| {name} | {method} | {accuracy:.4f} | {loss:.3f} | {error:.3f} | {likely:.3f} | {seconds:.1f} |"
            print(line, flush=True)


if __name__ == "__main__":
    main()
