"""What a federated round and a round of secure aggregation cost, by Flower's apps with all nodes in this process.

python bench/rounds.py [CLIENTS [COLUMNS [ROWS [REPEATS]]]]

Processor seconds of a whole round (clients and server, without a network), medians; and of the clients' summaries alone, which no
form of sending can save. Compare two versions by running the same file with each of them installed.
"""

import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "flower"))

from nodes import Nodes
from pmfcl import ContinualRegressor
from pmfcl.federated import Agreement, public_key
from pmfcl.flower import PmfStrategy, Secure, SecureStrategy, client_app

CLIENTS, COLUMNS, ROWS, REPEATS = (
    int(given) for given in (sys.argv[1:] + ["50", "50", "1000", "7"][len(sys.argv) - 1 :])
)


def rows(client):
    """Rows of a client."""
    draw = np.random.default_rng(client)
    X = draw.normal(size=(ROWS, COLUMNS))
    return X, X @ np.arange(1.0, COLUMNS + 1) + draw.normal(size=ROWS)


TABLES = [rows(client) for client in range(CLIENTS)]
AGREED = Agreement(ContinualRegressor(ridge=1e-3), COLUMNS)
CONFIGS = [{"partition-id": client} for client in range(CLIENTS)]
SECRETS = {str(client): bytes([client % 251 + 1]) * 31 + bytes([client // 251]) for client in range(CLIENTS)}
KNOWN = {client: public_key(secret) for client, secret in SECRETS.items()}


def load(context, step):
    """Rows of a node; a step is a step of all."""
    return TABLES[context.node_config["partition-id"]] if step == 0 else None


class Each(Nodes):
    """Every node has an app of its own."""

    def __init__(self, apps):
        super().__init__(None, CONFIGS)
        self.apps = apps

    def push_messages(self, messages):
        """Runs the app of each node."""
        for message in messages:
            self.app = self.apps[message.metadata.dst_node_id - 11]
            yield from super().push_messages([message])


def measure(name, once):
    """Prints the median processor time of a round, with the least and the largest."""
    once()  # caches and imports
    times = []
    for _ in range(REPEATS):
        before = time.process_time()
        once()
        times.append(time.process_time() - before)
    low, high = min(times), max(times)
    print(f"{name:<28} {statistics.median(times):8.3f} s   {low:.3f} to {high:.3f}", flush=True)


def summaries():
    """What the clients make of their rows."""
    for client, table in enumerate(TABLES):
        AGREED.summarize(str(client), 0, *table)


def plain():
    """A round in which every client sends its summary."""
    with tempfile.TemporaryDirectory() as place:
        app = client_app(load)
        strategy = PmfStrategy(AGREED, pathlib.Path(place) / "joint.pmf", wait=0.0)
        strategy.start(Each([app] * CLIENTS), strategy.arrays(), num_rounds=1)
        assert len(strategy.server.held()) == CLIENTS


def masked(signed):
    """A round in which the server learns the sum."""
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        apps = []
        for client in range(CLIENTS):
            signing = {"secret": SECRETS[str(client)], "known": KNOWN} if signed else {}
            secure = Secure(journal=folder / f"{client}.journal", **signing)
            apps.append(client_app(load, secure=secure))
        strategy = SecureStrategy(AGREED, folder / "joint.pmf", wait=0.0, signed=signed)
        strategy.start(Each(apps), strategy.arrays(), num_rounds=1)
        assert len(strategy.server.held()) == 1


print(f"{CLIENTS} clients, {ROWS} rows of {COLUMNS} columns each: processor seconds, medians of {REPEATS}")
measure("summaries alone", summaries)
measure("federated", plain)
measure("secure aggregation", lambda: masked(signed=False))
measure("secure aggregation, signed", lambda: masked(signed=True))
