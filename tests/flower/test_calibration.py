"""The second round on nodes of this process: probabilities of the joint model, measured where the rows are."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from nodes import Nodes
from pmfcl import ContinualClassifier
from pmfcl.federated import Agreement
from pmfcl.flower import PmfStrategy, Secure, SecureStrategy, client_app
from pmfcl.flower.records import ARRAYS, CONFIG, REQUEST, packed
from sklearn.metrics import log_loss

LABELS, CLIENTS = ["a", "b", "c", "d"], 4


def rows(client, step, n=120):
    """Rows of a client's step, of two of the classes each; a share is thrown four times as far."""
    draw = np.random.default_rng([client, step])
    y = (client + np.arange(n) % 2) % 4
    X = draw.normal(size=(n, 3)) * np.where(draw.random(n) < 0.2, 4.0, 1.0)[:, None]
    X[:, 0] += 1.5 * y
    return X, np.array(LABELS)[y]


def own(context, step):
    return rows(context.node_config["partition-id"], step)


def grid(**options):
    return Nodes(client_app(own, **options), [{"partition-id": client} for client in range(CLIENTS)])


def agreement(**parameters):
    return Agreement(ContinualClassifier(**parameters), 3, classes=LABELS)


def plain(path, **options):
    return PmfStrategy(agreement(), path, wait=0.0, **options)


def pooled(steps):
    pairs = [rows(client, step) for client in range(CLIENTS) for step in range(steps)]
    X, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return ContinualClassifier().fit(X, y).calibrate(X, y, learned_rows=True)


@pytest.fixture
def test_rows():
    pairs = [rows(client, 100, 1000) for client in range(CLIENTS)]
    return tuple(np.concatenate(part) for part in zip(*pairs, strict=True))


def loss(model, test_rows):
    return log_loss(test_rows[1], model.predict_proba(test_rows[0]))


def test_probabilities_are_those_of_pooled_rows(tmp_path, test_rows):
    run, off = plain(tmp_path / "on.pmf"), plain(tmp_path / "off.pmf", calibrate=False)
    for strategy in (run, off):
        strategy.start(grid(), strategy.arrays(), num_rounds=2)
    assert off.server.model().left_out_ is None
    model = run.server.model()
    assert model.left_out_["samples"] == pytest.approx(2 * CLIENTS * 120)
    assert loss(model, test_rows) < loss(off.server.model(), test_rows)
    assert loss(model, test_rows) == pytest.approx(loss(pooled(2), test_rows), rel=0.01)
    # Everything is in the file; a strategy that goes on measures at the new model.
    del run  # and with it the lock on the file
    again = plain(tmp_path / "on.pmf")
    assert loss(again.server.model(), test_rows) == loss(model, test_rows)
    again.start(grid(), again.arrays(), num_rounds=1)
    assert again.server.model().left_out_["samples"] == pytest.approx(3 * CLIENTS * 120)


def test_nodes_that_are_away_or_lie_change_nothing_of_others(tmp_path, test_rows):
    run, nodes = plain(tmp_path / "m.pmf", calibrate=False), grid()
    run.start(nodes, run.arrays(), num_rounds=1)
    before = loss(run.server.model(), test_rows)

    def for_another(reply):
        """What the node of client 0 says of client 1."""
        request = next(m for n, m in reversed(nodes.asked) if n == 11).content[ARRAYS][REQUEST].data
        forged = run.agreement.calibrate(request, "1", 0, *rows(1, 0))
        content = RecordDict({ARRAYS: ArrayRecord({"0": packed(forged)})})
        return Message(content, reply_to=next(m for n, m in reversed(nodes.asked) if n == 11))

    nodes.twist, nodes.away = {11: for_another, 12: lambda _: None}, {13}
    assert run.measure(nodes) == 1
    tables = run.server.model().left_out_
    assert tables["samples"] == pytest.approx(120)
    assert loss(run.server.model(), test_rows) != before
    nodes.twist, nodes.away = {}, set()
    assert run.measure(nodes) == CLIENTS
    assert loss(run.server.model(), test_rows) == pytest.approx(loss(pooled(1), test_rows), rel=0.01)


def test_other_losses_are_not_asked(tmp_path):
    run = PmfStrategy(agreement(loss="squared"), tmp_path / "m.pmf", wait=0.0)
    nodes = grid()
    run.start(nodes, run.arrays(), num_rounds=1)
    assert not any("calibrate" in message.content.get(CONFIG, {}) for _, message in nodes.asked)


def test_masked_tables_give_the_probabilities_of_plain_ones(tmp_path, test_rows):
    secure = SecureStrategy(agreement(), tmp_path / "masked.pmf", wait=0.0, calibrate=True)
    nodes = grid(secure=Secure(calibrate=True))
    secure.start(nodes, secure.arrays(), num_rounds=2)
    run = plain(tmp_path / "plain.pmf")
    run.start(grid(), run.arrays(), num_rounds=2)
    X = test_rows[0]
    # Products in the place of roots, and sums of tables rounded to 2⁻⁶⁰.
    assert np.abs(secure.server.model().predict_proba(X) - run.server.model().predict_proba(X)).max() < 1e-6
    # A step is measured once: a second sum at another model would show differences.
    assert secure.measure(nodes) == 0


def test_clients_of_masked_sums_measure_only_where_they_were_set_up_to(tmp_path):
    secure = SecureStrategy(agreement(), tmp_path / "masked.pmf", wait=0.0, calibrate=True)
    secure.start(grid(secure=Secure()), secure.arrays(), num_rounds=1)
    assert secure.server.held() and secure.server.model().left_out_ is None


def test_a_client_lost_in_the_second_round_is_stood_for_by_the_others(tmp_path, test_rows):
    secure = SecureStrategy(agreement(), tmp_path / "masked.pmf", wait=0.0)
    nodes = grid(secure=Secure(least=2, calibrate=True))
    secure.start(nodes, secure.arrays(), num_rounds=1)
    before = loss(secure.server.model(), test_rows)
    nodes.away = {11}
    assert secure.measure(nodes) == 1
    model = secure.server.model()
    assert model.left_out_["samples"] == pytest.approx(CLIENTS * 120)
    assert loss(model, test_rows) < before
