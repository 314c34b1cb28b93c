"""Client and server apps on nodes of this process: absent, late, failing and lying ones."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, MessageType, MetricRecord
from nodes import Nodes
from pmfcl import ContinualClassifier, ContinualRegressor, load
from pmfcl.federated import Agreement
from pmfcl.flower import PmfStrategy, client_app
from pmfcl.flower.records import ARRAYS, packed
from sklearn.linear_model import Ridge

RIDGE = 1e-3
STEPS = 4


def rows(client, step, n=30, d=4):
    """Rows of a client's step."""
    draw = np.random.default_rng([client, step])
    X = draw.normal(size=(n, d)) + 0.1 * client
    return X, X @ np.arange(1.0, d + 1) + 0.1 * draw.normal(size=n) + 0.3 * step


def loaded(context, step):
    """Rows of a client, none where it has none."""
    client = context.node_config["partition-id"]
    return None if client == 3 and step < 2 else rows(client, step)


def pooled(pairs):
    """Ridge on all rows in one place."""
    X, y = (np.concatenate(part) for part in zip(*(rows(*pair) for pair in pairs), strict=True))
    return Ridge(alpha=RIDGE * len(y)).fit(X, y), X, y


def strategy(path, **options):
    return PmfStrategy(Agreement(ContinualRegressor(ridge=RIDGE), 4), path, wait=0.0, **options)


def same(model, pairs):
    """Whether a model is that of pooled rows."""
    other, X, y = pooled(pairs)
    assert np.abs(model.predict(X) - other.predict(X)).max() <= 1e-9 * y.std()
    assert {task["name"] for task in model.tasks_} == {f"{client}/{step}" for client, step in pairs}


@pytest.fixture
def nodes():
    app = client_app(loaded, test=lambda context, step: rows(context.node_config["partition-id"], 100 + step))
    return Nodes(app, [{"partition-id": client} for client in range(4)])


def everything(steps=STEPS):
    return [(client, step) for step in range(steps) for client in range(4) if client != 3 or step >= 2]


def test_one_round_a_step_is_pooling_and_a_server_goes_on(nodes, tmp_path):
    path = tmp_path / "joint.pmf"
    first = strategy(path, evaluate=True)
    done = first.start(nodes, first.arrays(), num_rounds=2)
    same(load(path), everything(2))
    assert done.train_metrics_clientapp[2]["clients"] == 3
    assert done.evaluate_metrics_clientapp[2]["num-examples"] == 120
    del first  # the server is gone
    again = strategy(path)
    assert again.first_step == 2
    again.start(nodes, again.arrays(), num_rounds=2)
    same(load(path), everything())
    # What the server has is not sent again, by a server that was started again neither.
    del again
    again = strategy(path)
    again.first_step = 3
    done = again.start(nodes, again.arrays(), num_rounds=1)
    assert (done.train_metrics_clientapp[1]["known"], done.train_metrics_clientapp[1]["accepted"]) == (0, 0)
    assert {node: message.content["config"]["held"] for node, message in nodes.asked[-4:]} == {
        11: [0, 1, 2, 3],
        12: [0, 1, 2, 3],
        13: [0, 1, 2, 3],
        14: [2, 3],
    }


def test_absent_nodes_catch_up_and_those_gone_for_good_are_not_there(nodes, tmp_path):
    run = strategy(tmp_path / "joint.pmf")
    nodes.away = {12}
    run.start(nodes, run.arrays(), num_rounds=1)
    nodes.away = {11}
    run.first_step = 1
    run.start(nodes, run.arrays(), num_rounds=1)
    same(run.server.model(), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
    nodes.away = {13}
    run.first_step = 2
    run.start(nodes, run.arrays(), num_rounds=2)
    same(run.server.model(), [pair for pair in everything() if pair[0] != 2 or pair[1] < 2])


def test_a_lost_answer_is_sent_again(nodes, tmp_path):
    run = strategy(tmp_path / "joint.pmf")
    nodes.twist[11] = lambda _: None
    run.start(nodes, run.arrays(), num_rounds=1)
    nodes.twist.clear()
    run.first_step = 1
    run.start(nodes, run.arrays(), num_rounds=3)
    same(run.server.model(), everything())


def lie(change):
    """A node that changes what it sends."""

    def twisted(reply):
        if reply.metadata.message_type == MessageType.TRAIN:
            reply.content[ARRAYS] = ArrayRecord({"0": packed(change(next(iter(reply.content[ARRAYS].values())).data))})
        return reply

    return twisted


def test_bad_uploads_are_refused_and_the_rest_goes_on(nodes, tmp_path, caplog):
    other = Agreement(ContinualRegressor(basis="poly:2"), 4)
    lies = {
        11: lambda data: data[:-1],
        12: lambda data: data * 3000,
        13: lambda data: other.summarize("2", 0, *rows(2, 0)),
    }
    run = strategy(tmp_path / "joint.pmf", most_bytes=100_000)
    nodes.twist = {node: lie(change) for node, change in lies.items()}
    nodes.contexts[14].node_config["partition-id"] = 5
    done = run.start(nodes, run.arrays(), num_rounds=1)
    metrics = done.train_metrics_clientapp[1]
    assert (metrics["accepted"], metrics["refused"], metrics["failed"]) == (1, 3, 0)
    same(run.server.model(), [(5, 0)])
    assert "client `2`" in caplog.text
    # A node that answers something else altogether.
    nodes.twist = {11: lambda reply: reply.content.clear() or reply}
    run.start(nodes, run.arrays(), num_rounds=1)
    same(run.server.model(), [(1, 0), (2, 0), (5, 0)])


def test_a_client_that_fails_does_not_stop_the_others(tmp_path, caplog):
    def load_or_fail(context, step):
        if context.node_config["partition-id"] == 1:
            raise OSError("the disk is gone")
        return rows(context.node_config["partition-id"], step)

    nodes = Nodes(client_app(load_or_fail), [{"partition-id": client} for client in range(3)])
    run = strategy(tmp_path / "joint.pmf")
    run.start(nodes, run.arrays(), num_rounds=1)
    same(run.server.model(), [(0, 0), (2, 0)])
    assert "the disk is gone" in caplog.text


def test_scores_that_make_no_sense_are_left_out(nodes, tmp_path, caplog):
    def without(reply):
        return reply.content.clear() or reply

    def odd(reply):
        if reply.metadata.message_type == MessageType.EVALUATE:
            reply.content["metrics"] = MetricRecord({"num-examples": 5, "mse": float("nan")})
        return reply

    nodes.twist = {11: without, 12: odd}
    run = strategy(tmp_path / "joint.pmf", evaluate=True)
    done = run.start(nodes, run.arrays(), num_rounds=1)
    assert done.evaluate_metrics_clientapp[1]["num-examples"] == 60
    assert np.isfinite(done.evaluate_metrics_clientapp[1]["mse"])
    assert caplog.text.count("has sent no score") == 2


def test_a_client_keeps_small_steps_to_itself(tmp_path, caplog):
    def few(context, step):
        return rows(context.node_config["partition-id"], step, n=5 if step == 1 else 30)

    nodes = Nodes(client_app(few, least_samples=10), [{"partition-id": client} for client in range(2)])
    run = strategy(tmp_path / "joint.pmf")
    run.start(nodes, run.arrays(), num_rounds=3)
    same(run.server.model(), [(client, step) for client in range(2) for step in (0, 2)])
    assert "5 rows and is not sent" in caplog.text


def test_a_client_that_hangs_gives_up(tmp_path, caplog):
    def slow(context, step):
        import time

        time.sleep(30 if context.node_config["partition-id"] == 1 else 0)
        return rows(context.node_config["partition-id"], step)

    nodes = Nodes(client_app(slow, patience=0.5), [{"partition-id": client} for client in range(2)])
    run = strategy(tmp_path / "joint.pmf")
    run.start(nodes, run.arrays(), num_rounds=1)
    same(run.server.model(), [(0, 0)])
    assert "after 0.5 seconds" in caplog.text


def test_an_update_that_can_never_fit_is_told_before_rows_are_read(tmp_path, caplog):
    def unread(context, step):
        raise AssertionError("rows were read")

    nodes = Nodes(client_app(unread, most_bytes=1_000_000), [{"partition-id": 0}])
    run = PmfStrategy(Agreement(ContinualRegressor(), 4000), tmp_path / "joint.pmf", wait=0.0)
    done = run.start(nodes, run.arrays(), num_rounds=1)
    assert done.train_metrics_clientapp[1]["failed"] == 1
    assert "64,0" in caplog.text and "most_bytes" in caplog.text and "rows were read" not in caplog.text


def test_classes_and_names_and_small_messages(tmp_path):
    labels = np.array(["walk", "run", "sit"])

    def some(context, step):
        X, y = rows(context.node_config["client"], step)
        return X, labels[np.digitize(y, [-1.0, 1.0])]

    app = client_app(some, name=lambda context: f"user/{context.node_config['client']}", most_bytes=1000)
    nodes = Nodes(app, [{"client": client} for client in range(3)])
    agreement = Agreement(ContinualClassifier(), 4, classes=labels)
    run = PmfStrategy(agreement, tmp_path / "joint.pmf", wait=0.0)
    run.first_step = 5  # six steps at once do not fit into a message: the rest comes with the next
    run.start(nodes, run.arrays(), num_rounds=1)
    few = len(run.server.held())
    assert 3 <= few < 18
    run.start(nodes, run.arrays(), num_rounds=3)
    assert len(run.server.held()) > few
    assert {line.client for line in run.server.held()} == {"user/0", "user/1", "user/2"}


def test_a_client_without_a_name_says_so(caplog, tmp_path):
    nodes = Nodes(client_app(loaded), [{}])
    run = strategy(tmp_path / "joint.pmf")
    run.start(nodes, run.arrays(), num_rounds=1, train_config=ConfigRecord({"own": 1}))
    assert "stays the same from run to run" in caplog.text
