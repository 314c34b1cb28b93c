"""The example app over real processes, with TLS and authenticated nodes, some of which are killed."""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from deployment import APP, PATIENCE, Deployment, wait_for
from pmfcl import load
from sklearn.linear_model import Ridge

WIDE, MASKED = (Path(__file__).parent / name for name in ("wide", "masked"))
sys.path[:0] = [str(APP), str(WIDE), str(MASKED)]
import masked.apps
from bikes.table import rows
from wide.apps import drawn

CLIENTS = ("day", "early", "late")
RIDGE = 1e-3


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A SuperLink and three nodes."""
    deployment = Deployment(tmp_path_factory.mktemp("federation"), CLIENTS)
    try:
        deployment.start_link()
        for client in CLIENTS:
            deployment.register(client)
            deployment.start_node(client)
        yield deployment
    finally:
        deployment.close()


def names(path):
    """Tasks in the server's memory so far."""
    return {task["name"] for task in load(path).tasks_} if path.exists() else set()


def same(federation, path, pairs):
    """Whether the server's model is that of these clients' steps in one place."""
    assert names(path) == {f"{client}/{step}" for client, step in pairs}
    found = [rows(federation.parts / f"{client}.csv", step) for client, step in pairs]
    X, y = pd.concat([X for X, _ in found]), pd.concat([y for _, y in found])
    pooled = Ridge(alpha=RIDGE * len(y)).fit(X, y)
    gap = np.abs(load(path).predict(X) - pooled.predict(X)).max() / y.std()
    assert gap <= 1e-9, gap


def all_of(steps, clients=CLIENTS):
    return [(client, step) for client in clients for step in range(steps)]


def test_the_model_is_that_of_pooled_rows_whoever_is_killed(federation):
    path = federation.directory / "bikes.pmf"
    told = {"model": str(path), "ridge": RIDGE, "evaluate": False, "timeout": PATIENCE}

    # The server, killed between two steps with all it has started.
    federation.run(**told, steps=2)
    wait_for("step 0 is not there", PATIENCE, lambda: names(path) >= {f"{client}/0" for client in CLIENTS})
    federation.kill("link")
    same(federation, path, all_of(2 if f"{CLIENTS[0]}/1" in names(path) else 1))
    federation.start_link()
    start = time.monotonic()
    federation.finish(federation.run(**told, steps=2), PATIENCE)
    same(federation, path, all_of(2))
    # Time in which the others have answered for certain.
    enough = max(45.0, 3 * (time.monotonic() - start))

    # A node, killed while it is at its rows.
    seen = federation.log("late").count("Receiving: train message")
    run = federation.run(**{**told, "timeout": enough}, steps=3, pause=5.0, min_nodes=2)
    wait_for("the node is not asked", PATIENCE, lambda: federation.log("late").count("Receiving: train message") > seen)
    federation.kill("late")
    federation.finish(run, PATIENCE)
    same(federation, path, [*all_of(3, ("day", "early")), *all_of(2, ("late",))])

    # Back again, it sends what it could not.
    federation.bring_back("late", PATIENCE)
    federation.finish(federation.run(**told, steps=4), PATIENCE)
    same(federation, path, all_of(4))


def test_a_thousand_columns_fit_into_messages(federation):
    path = federation.directory / "wide.pmf"
    federation.finish(federation.run(WIDE, model=str(path), columns=1000, rows=1100), PATIENCE)
    found = [drawn(f"{client}.csv", 1100, 1000) for client in CLIENTS]
    X, y = (np.concatenate(part) for part in zip(*found, strict=True))
    pooled = Ridge(alpha=1e-2 * len(y)).fit(X, y)
    assert len(names(path)) == 3
    assert np.abs(load(path).predict(X) - pooled.predict(X)).max() <= 1e-9 * y.std()


def test_masked_sums_come_through(federation):
    path = federation.directory / "masked.pmf"
    federation.finish(federation.run(MASKED, model=str(path)), PATIENCE)
    found = [masked.apps.drawn(f"{client}.csv", 0) for client in CLIENTS]
    X, y = (np.concatenate(part) for part in zip(*found, strict=True))
    pooled = Ridge(alpha=1e-3 * len(y)).fit(X, y)
    assert names(path) == {"cohort/0"}
    assert np.abs(load(path).predict(X) - pooled.predict(X)).max() <= 1e-9 * y.std()


def test_a_node_nobody_registered_is_not_let_in(federation):
    process = federation.start_node("stranger")
    assert process.wait(timeout=PATIENCE) != 0
    del federation.processes["stranger"]
