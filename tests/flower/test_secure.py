"""Secure aggregation on nodes of this process: the pooled model of those who stayed, and nothing where too few do."""

import json
import secrets
from typing import ClassVar

import numpy as np
import pytest
from flwr.app import ArrayRecord
from nodes import Nodes
from pmfcl import ContinualClassifier, ContinualRegressor
from pmfcl.federated import Agreement, public_key
from pmfcl.flower import PmfStrategy, Secure, SecureStrategy, client_app
from pmfcl.flower.records import ARRAYS, CONFIG, PAYLOAD, packed
from sklearn.linear_model import Ridge

CLIENTS, RIDGE = 6, 1e-3


def rows(client, step, n=30, d=4):
    """Rows of a client's step."""
    draw = np.random.default_rng([client, step])
    X = draw.normal(size=(n + client, d))
    return X, X @ np.arange(1.0, d + 1) + 0.1 * draw.normal(size=len(X)) + client


def own(context, step):
    """Rows of a node; the last client has none at first."""
    client = context.node_config["partition-id"]
    return None if client == CLIENTS - 1 and step == 0 else rows(client, step)


def nodes(secure=None, **options):
    app = client_app(own, secure=secure or Secure(), **options)
    return Nodes(app, [{"partition-id": client} for client in range(CLIENTS)])


def strategy(tmp_path, **options):
    agreement = Agreement(ContinualRegressor(ridge=RIDGE), 4)
    return SecureStrategy(agreement, tmp_path / "joint.pmf", wait=0.0, **options)


def same(model, pairs):
    X, y = (np.concatenate(part) for part in zip(*(rows(*pair) for pair in pairs), strict=True))
    pooled = Ridge(alpha=RIDGE * len(y)).fit(X, y)
    assert np.abs(model.predict(X) - pooled.predict(X)).max() <= 1e-9 * y.std()
    assert model.n_samples_ == len(y)


def pairs(step, clients=range(CLIENTS)):
    return [(client, step) for client in clients if not (client == CLIENTS - 1 and step == 0)]


class Lost(Nodes):
    """Some nodes answer no more from an exchange on."""

    lost: ClassVar[dict[int, str]] = {}

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        for message in messages:
            if message.content[CONFIG].get("secure") == self.lost.get(message.metadata.dst_node_id):
                self.twist[message.metadata.dst_node_id] = lambda _: None
        return super().send_and_receive(messages, timeout=timeout)


def test_the_sum_is_that_of_pooled_rows(tmp_path):
    run = strategy(tmp_path)
    done = run.start(nodes(), run.arrays(), num_rounds=2)
    same(run.server.model(), pairs(0) + pairs(1))
    assert [(held.client, held.step) for held in run.server.held()] == [("cohort", 0), ("cohort", 1)]
    assert [done.train_metrics_clientapp[k]["clients"] for k in (1, 2)] == [5, 6]


@pytest.mark.parametrize("turn", ["keys", "shares", "masked", "unmask"])
def test_a_node_lost_on_the_way_is_left_out_or_was_in_already(tmp_path, turn):
    app = client_app(own, secure=Secure())
    grid = Lost(app, [{"partition-id": client} for client in range(CLIENTS)])
    grid.lost = {12: turn}
    run = strategy(tmp_path)
    run.first_step = 1
    run.start(grid, run.arrays(), num_rounds=1)
    stayed = range(CLIENTS) if turn == "unmask" else [client for client in range(CLIENTS) if client != 1]
    same(run.server.model(), pairs(1, stayed))


def test_below_the_threshold_nothing_is_learned_and_the_next_step_goes_on(tmp_path, caplog):
    grid = Lost(client_app(own, secure=Secure()), [{"partition-id": client} for client in range(CLIENTS)])
    grid.lost = {11: "masked", 12: "masked", 13: "masked"}
    run = strategy(tmp_path)
    run.first_step = 1
    run.start(grid, run.arrays(), num_rounds=1)
    assert run.server.held() == []
    assert "left out" in caplog.text
    grid.twist.clear()
    grid.lost = {}
    run.first_step = 2
    run.start(grid, run.arrays(), num_rounds=1)
    same(run.server.model(), pairs(2))


def test_what_the_server_gets_is_no_summary(tmp_path):
    seen = []
    grid = nodes()

    def look(reply):
        seen.append(next(iter(reply.content[ARRAYS].values())).data)
        return reply

    grid.twist[11] = look
    run = strategy(tmp_path)
    run.first_step = 1
    run.start(grid, run.arrays(), num_rounds=1)
    # The third answer is the masked input: 128-bit numbers of which none is small or repeated.
    numbers = np.frombuffer(seen[2][-16 * 20 :], dtype="<u8").reshape(-1, 2)
    assert len(np.unique(numbers)) == numbers.size
    assert (numbers[:, 1] > 2**48).sum() > 15


def test_clients_refuse_plain_questions_and_small_cohorts(tmp_path, caplog):
    plain = PmfStrategy(Agreement(ContinualRegressor(), 4), tmp_path / "plain.pmf", wait=0.0)
    plain.start(nodes(), plain.arrays(), num_rounds=1)
    assert plain.server.held() == []
    assert "masked sums alone" in caplog.text
    run = strategy(tmp_path)
    run.start(nodes(Secure(least=5)), run.arrays(), num_rounds=1)
    assert run.server.held() == []
    assert "asks for 5 at least" in caplog.text
    open_app = client_app(own)
    run.start(Nodes(open_app, [{"partition-id": client} for client in range(3)]), run.arrays(), num_rounds=1)
    assert "not set up" in caplog.text


def test_a_journal_keeps_a_step_from_being_summed_twice(tmp_path):
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]

    class Each(Nodes):
        """Every node has an app of its own."""

        def push_messages(self, messages):
            for message in messages:
                client = message.metadata.dst_node_id - 11
                self.app = client_app(own, secure=Secure(journal=journals[client]))
                yield from super().push_messages([message])

    grid = Each(None, [{"partition-id": client} for client in range(CLIENTS)])
    run = strategy(tmp_path)
    run.first_step = 1
    run.start(grid, run.arrays(), num_rounds=1)
    assert all(json.loads(journal.read_text())["1"]["answered"] for journal in journals)
    run.server.remove("cohort", 1)
    run.start(grid, run.arrays(), num_rounds=1)
    assert run.server.held() == []


def test_signed_rounds(tmp_path, caplog):
    keys = {str(client): secrets.token_bytes(32) for client in range(CLIENTS)}
    known = {client: public_key(secret) for client, secret in keys.items()}

    class Signing(Nodes):
        """Every node signs with a key of its own."""

        def push_messages(self, messages):
            for message in messages:
                client = str(message.metadata.dst_node_id - 11)
                self.app = client_app(own, secure=Secure(secret=keys[client], known=known))
                yield from super().push_messages([message])

    grid = Signing(None, [{"partition-id": client} for client in range(CLIENTS)])
    run = strategy(tmp_path, signed=True)
    run.first_step = 1
    run.start(grid, run.arrays(), num_rounds=1)
    same(run.server.model(), pairs(1))
    # One whose key the others do not know is not let in by them, so there is no round.
    keys["3"] = secrets.token_bytes(32)
    run.first_step = 2
    run.start(grid, run.arrays(), num_rounds=1)
    assert len(run.server.held()) == 1
    assert "`3`" in caplog.text


def test_discriminants_from_masked_sums(tmp_path):
    labels = np.array(["a", "b", "c"])

    def classes(context, step):
        X, y = rows(context.node_config["partition-id"], step)
        return X, labels[np.digitize(y, [1.0, 4.0])]

    grid = Nodes(client_app(classes, secure=Secure()), [{"partition-id": client} for client in range(4)])
    agreement = Agreement(ContinualClassifier(shrinkage=0.1), 4, classes=labels)
    run = SecureStrategy(agreement, tmp_path / "joint.pmf", wait=0.0)
    run.start(grid, run.arrays(), num_rounds=1)
    X, y = (np.concatenate(part) for part in zip(*(rows(client, 0) for client in range(4)), strict=True))
    pooled = ContinualClassifier(shrinkage=0.1).fit(X, labels[np.digitize(y, [1.0, 4.0])])
    np.testing.assert_allclose(run.server.model().decision_function(X), pooled.decision_function(X), atol=1e-8)


def test_a_payload_that_was_changed_is_found_out(tmp_path, caplog):
    grid = nodes()

    def changed(reply):
        if reply.has_error():
            return reply
        data = bytearray(reply.content[ARRAYS][PAYLOAD].data)
        data[-1] ^= 1
        reply.content[ARRAYS] = ArrayRecord({PAYLOAD: packed(data)})
        return reply

    grid.twist[11] = changed  # its keys are not those it has: the others seal letters it cannot open
    run = strategy(tmp_path)
    run.first_step = 1
    run.start(grid, run.arrays(), num_rounds=1)
    same(run.server.model(), pairs(1, range(1, CLIENTS)))
