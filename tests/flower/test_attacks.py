"""Servers and nodes that lie. Each test is an attack that worked once; `docs/threats.md` says who can do what."""

import copy
import json
import secrets

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from nodes import Nodes
from pmfcl import ContinualRegressor
from pmfcl.federated import Agreement, public_key
from pmfcl.flower import PmfStrategy, Secure, SecureStrategy, client_app
from pmfcl.flower.records import AGREEMENT, ARRAYS, CONFIG, PAYLOAD, packed

CLIENTS = 5


def rows(client, step, n=40, d=2):
    """Rows of a client's step."""
    draw = np.random.default_rng([client, step])
    X = draw.normal(size=(n + client, d))
    return X, X @ np.arange(1.0, d + 1) + 0.1 * draw.normal(size=len(X)) + client


def own(context, step):
    return rows(context.node_config["partition-id"], step)


def agreement(centre=0.0):
    """Bumps around centres: with far ones every feature of every row is zero."""
    draw = np.random.default_rng(1)
    return Agreement(
        ContinualRegressor(basis="rbf:3,scale=range", ridge=1e-3), 2, rows=centre + draw.normal(size=(20, 2))
    )


class Each(Nodes):
    """Every node has an app of its own, made by `make(client)`."""

    def __init__(self, make, count=CLIENTS):
        super().__init__(None, [{"partition-id": client} for client in range(count)])
        self.make = make

    def push_messages(self, messages):
        for message in messages:
            self.app = self.make(message.metadata.dst_node_id - 11)
            yield from super().push_messages([message])


def signing():
    """Secrets of all clients, and what each is told of the others."""
    keys = {str(client): secrets.token_bytes(32) for client in range(CLIENTS)}
    known = {client: public_key(secret) for client, secret in keys.items()}
    return lambda client, **options: Secure(secret=keys[str(client)], known=known, **options)


def run(grid, path, agreed, step=0, **options):
    """One step of secure aggregation."""
    strategy = SecureStrategy(agreed, path, wait=0.0, **options)
    strategy.first_step = step
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    return strategy


def lying(grid, change):
    """A server that changes messages on their way: `change(client, turn, message)`."""
    honest = grid.push_messages

    def push(messages):
        for message in messages:
            change(message.metadata.dst_node_id - 11, message.content[CONFIG].get("secure"), message)
            yield from honest([message])

    grid.push_messages = push
    return grid


@pytest.mark.parametrize("signed", [False, True])
def test_an_agreement_changed_after_the_keys_gets_nothing(tmp_path, signed):
    """The others are told of features that are all zero, so the sum is the victim's."""
    secure = signing() if signed else (lambda client, **options: Secure(**options))
    grid = Each(lambda client: client_app(own, secure=secure(client)))
    false = packed(agreement(centre=1e3).to_bytes())

    def change(client, turn, message):
        if turn == "masked" and client != 0:
            arrays = message.content[ARRAYS]
            message.content[ARRAYS] = ArrayRecord({AGREEMENT: false, PAYLOAD: arrays[PAYLOAD]})

    done = run(lying(grid, change), tmp_path / "joint.pmf", agreement(), signed=signed)
    assert done.server.held() == []


def test_a_step_changed_after_the_keys_gets_nothing(tmp_path):
    """A client that has given step 0 is asked for it again in the place of step 1."""
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journals[client])))
    run(grid, tmp_path / "first.pmf", agreement())

    def change(client, turn, message):
        if turn == "masked":
            told = message.content[CONFIG]
            message.content[CONFIG] = ConfigRecord({**told, "step": 0})

    done = run(lying(grid, change), tmp_path / "second.pmf", agreement(), step=1)
    assert done.server.held() == []


def test_a_client_keeps_to_the_agreement_it_was_set_up_with(tmp_path, caplog):
    grid = Each(lambda client: client_app(own, secure=Secure(agreement=agreement())))
    assert run(grid, tmp_path / "good.pmf", agreement()).server.held() != []
    assert run(grid, tmp_path / "bad.pmf", agreement(centre=0.5), step=1).server.held() == []
    assert "not the one this client was set up with" in caplog.text


def test_a_step_is_summed_once_whatever_agreement_the_server_names(tmp_path):
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journals[client])))
    assert run(grid, tmp_path / "one.pmf", agreement()).server.held() != []
    grid.contexts[11].state = RecordDict()
    assert run(grid, tmp_path / "two.pmf", agreement(centre=0.5)).server.held() == []
    assert all(journal.stat().st_mode & 0o777 == 0o600 for journal in journals)


def test_a_round_that_failed_is_repeated_and_one_that_may_not_have_is_not(tmp_path, caplog):
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journals[client])))
    # The inputs of all but one are lost: nobody is asked to unmask anything.
    grid.twist = {node: lambda reply, node=node: None if grid.turn == "masked" else reply for node in range(12, 16)}

    def note(_client, turn, _message):
        grid.turn = turn

    assert run(lying(grid, note), tmp_path / "one.pmf", agreement()).server.held() == []
    grid.twist = {}
    # Three of its five clients: the round before, which four can open, might still be by the others and a liar among these.
    grid.away = {11, 12}
    assert run(grid, tmp_path / "two.pmf", agreement(), share=1.0).server.held() == []
    assert "could still be opened" in caplog.text
    grid.away = set()
    again = run(grid, tmp_path / "three.pmf", agreement())
    assert again.server.held()[0].samples == sum(len(rows(client, 0)[1]) for client in range(CLIENTS))
    # That one was opened, and is over.
    assert run(grid, tmp_path / "four.pmf", agreement()).server.held() == []


def test_a_state_of_before_sends_no_second_sum_in_a_round(tmp_path):
    """A node that was set back to before its sum was sent would send other rows under the same masks: the difference would show."""
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journals[client])))
    honest, seen = grid.push_messages, []

    def push(messages):
        for message in messages:
            if message.content[CONFIG].get("secure") == "masked" and message.metadata.dst_node_id == 11:
                kept = copy.deepcopy(grid.contexts[11].state)
                yield from honest([message])
                after, grid.contexts[11].state = grid.contexts[11].state, kept
                content = RecordDict({ARRAYS: message.content[ARRAYS], CONFIG: message.content[CONFIG]})
                again = Message(content, 11, message.metadata.message_type, group_id="1")
                seen.extend(grid.pull_messages(list(honest([again]))))
                grid.contexts[11].state = after
            else:
                yield from honest([message])

    grid.push_messages = push
    done = run(grid, tmp_path / "joint.pmf", agreement())
    assert [reply.has_error() for reply in seen] == [True]
    assert "sends one in a round" in seen[0].error.reason
    assert done.server.held() != []


def test_a_round_begun_again_under_its_name_gets_nothing(tmp_path, monkeypatch):
    """The sums of a round are lost, and the server begins it again with one client fewer, under the same name."""
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journals[client])))

    def note(_client, turn, _message):
        grid.turn = turn

    lying(grid, note)
    monkeypatch.setattr("pmfcl.flower.secure.uuid.uuid4", lambda: "once")
    grid.twist = {node: lambda reply: None if grid.turn == "masked" else reply for node in range(11, 16)}
    assert run(grid, tmp_path / "one.pmf", agreement()).server.held() == []
    grid.twist, grid.away = {}, {15}
    assert run(grid, tmp_path / "two.pmf", agreement()).server.held() == []
    assert all(len(json.loads(journal.read_text())["0"]["rounds"]) == 1 for journal in journals)
    # Under another name it may be repeated by the clients of the first.
    monkeypatch.setattr("pmfcl.flower.secure.uuid.uuid4", lambda: "twice")
    assert run(grid, tmp_path / "three.pmf", agreement()).server.held() != []


def test_a_journal_that_was_damaged_is_not_ignored(tmp_path, caplog):
    journal = tmp_path / "0.journal"
    journal.write_text('{"0": {"roun')
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journal if client == 0 else None)))
    run(grid, tmp_path / "joint.pmf", agreement())
    assert "0.journal" in caplog.text and "restore it" in caplog.text


def test_the_journal_of_an_earlier_version_still_counts(tmp_path):
    journals = [tmp_path / f"{client}.journal" for client in range(CLIENTS)]
    for journal in journals:
        journal.write_text("0123456789abcdef 0\n")
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journals[client])))
    assert run(grid, tmp_path / "one.pmf", agreement()).server.held() == []
    assert run(grid, tmp_path / "two.pmf", agreement(), step=1).server.held() != []


@pytest.mark.parametrize(
    ("asks", "says"),
    [({"least": 6}, "asks for 6"), ({"share": 0.9}, "asks for a share of 0.9"), ({"rows_per_column": 50}, "rows")],
)
def test_a_client_has_its_own_least(tmp_path, caplog, asks, says):
    grid = Each(lambda client: client_app(own, secure=Secure(**asks)))
    assert run(grid, tmp_path / "joint.pmf", agreement()).server.held() == []
    assert says in caplog.text


def test_scores_are_not_told_where_summaries_are_masked(tmp_path):
    """Mean squared errors at parameters of the server's choice are XᵀX and Xᵀy of the test rows."""
    app = client_app(own, test=own, secure=Secure())
    grid = Nodes(app, [{"partition-id": client} for client in range(CLIENTS)])
    strategy = SecureStrategy(agreement(), tmp_path / "joint.pmf", wait=0.0)
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    content = RecordDict({ARRAYS: strategy.arrays(), CONFIG: ConfigRecord({"step": 0})})
    asked = [Message(content, node, MessageType.EVALUATE, group_id="1") for node in grid.contexts]
    replies = grid.send_and_receive(asked)
    assert all(reply.has_error() and "masked sums alone" in reply.error.reason for reply in replies)
    with pytest.raises(ValueError, match="evaluate"):
        SecureStrategy(agreement(), tmp_path / "other.pmf", evaluate=True)


def plain(path, **options):
    return PmfStrategy(Agreement(ContinualRegressor(ridge=1e-3), 2), path, wait=0.0, **options)


def sends(*uploads):
    """A node that answers with uploads of its choice."""

    def twisted(reply):
        if reply.metadata.message_type == MessageType.TRAIN and not reply.has_error():
            reply.content[ARRAYS] = ArrayRecord({str(k): packed(upload) for k, upload in enumerate(uploads)})
        return reply

    return twisted


def upload(client, step, factor=1.0):
    agreed = Agreement(ContinualRegressor(ridge=1e-3), 2)
    X, y = rows(0, 0)
    return agreed.summarize(client, step, X, factor * y)


def test_a_node_cannot_send_in_the_name_of_another(tmp_path, caplog):
    grid = Nodes(client_app(own), [{"partition-id": client} for client in range(3)])
    strategy = plain(tmp_path / "joint.pmf")
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    before = strategy.server.model().predict([[1.0, 1.0]])
    # Node 13, of client 2, sends what it likes as client 0, and as itself.
    grid.twist[13] = sends(upload("0", 1, 0.0), upload("2", 1))
    grid.away = {11}
    strategy.first_step = 1
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    assert ("0", 1) not in {(held.client, held.step) for held in strategy.server.held()}
    assert ("2", 1) in {(held.client, held.step) for held in strategy.server.held()}
    assert "client `0`" in caplog.text
    grid.away, grid.twist = set(), {}
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    assert len(strategy.server.held()) == 6
    assert strategy.server.model().predict([[1.0, 1.0]]) == pytest.approx(before, abs=0.5)


def test_names_stay_with_their_nodes_over_a_restart_of_the_server(tmp_path):
    grid = Nodes(client_app(own), [{"partition-id": client} for client in range(3)])
    strategy = plain(tmp_path / "joint.pmf")
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    del strategy
    again = plain(tmp_path / "joint.pmf")
    grid.twist[13] = sends(upload("0", 1, 0.0))
    again.start(grid, again.arrays(), num_rounds=1)
    assert {(held.client, held.step) for held in again.server.held() if held.step == 1} == {("0", 1), ("1", 1)}
    samples = {held.client: held.samples for held in again.server.held() if held.step == 1}
    assert samples["0"] == len(rows(0, 1)[1])


def test_a_configured_map_of_nodes_is_the_last_word(tmp_path, caplog):
    grid = Nodes(client_app(own), [{"partition-id": client} for client in range(3)])
    strategy = plain(tmp_path / "joint.pmf", nodes={11: "0", 12: "1"})
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    assert {held.client for held in strategy.server.held()} == {"0", "1"}
    assert "node 13" in caplog.text


def test_a_step_that_was_not_asked_for_is_refused(tmp_path):
    """Step 2⁶⁴ − 1 once ended a federation: there is none after it."""
    grid = Nodes(client_app(own), [{"partition-id": client} for client in range(3)])
    strategy = plain(tmp_path / "joint.pmf")
    grid.twist = {12: sends(upload("1", 1)), 13: sends(upload("2", 2**64 - 1))}
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    assert {(held.client, held.step) for held in strategy.server.held()} == {("0", 0)}
    assert max(held.step for held in strategy.server.held()) + 1 == 1  # where the next run goes on


def test_one_reply_is_one_client_of_a_round(tmp_path):
    """Five keys in one reply filled a roster, and the sum was over the liar's own."""
    from pmfcl import _core

    agreed = agreement()
    grid = Nodes(client_app(own, secure=Secure()), [{"partition-id": client} for client in range(CLIENTS)])

    def change(client, turn, message):
        grid.told = message.content[CONFIG]

    def many(reply):
        if grid.told["secure"] != "keys":
            return reply
        made = [
            _core.SecAggClient(
                grid.told["round"],
                f"false {k}",
                threshold=grid.told["threshold"],
                clients=grid.told["clients"],
                width=agreed.width,
                targets=agreed.n_targets,
                agreement=agreed.identity,
                step=grid.told["step"],
            ).advertise()
            for k in range(4)
        ]
        reply.content[ARRAYS] = ArrayRecord({str(k): packed(message) for k, message in enumerate(made)})
        return reply

    grid.twist[11] = many
    done = run(lying(grid, change), tmp_path / "joint.pmf", agreed)
    assert done.server.held()[0].samples == sum(len(rows(client, 0)[1]) for client in range(1, CLIENTS))


@pytest.mark.parametrize("known", ["by an earlier round", "by a map"])
def test_a_node_cannot_take_the_place_of_another_in_a_sum(tmp_path, known):
    """Node 11 sends keys in the name of client 4, whose own then came too late: its rows were left out."""
    from pmfcl import _core

    agreed, path, map_of_nodes = agreement(), tmp_path / "joint.pmf", None
    grid = Nodes(client_app(own, secure=Secure()), [{"partition-id": client} for client in range(CLIENTS)])
    if known == "by a map":
        map_of_nodes = {11 + client: str(client) for client in range(CLIENTS)}
    else:
        run(grid, path, agreed)  # and the server starts again

    def note(_client, _turn, message):
        grid.told = message.content[CONFIG]

    def false(reply):
        told = grid.told
        if told["secure"] != "keys":
            return reply
        keys = _core.SecAggClient(
            told["round"],
            "4",
            threshold=told["threshold"],
            clients=told["clients"],
            width=agreed.width,
            targets=agreed.n_targets,
            agreement=agreed.identity,
            step=told["step"],
        ).advertise()
        reply.content[ARRAYS] = ArrayRecord({PAYLOAD: packed(keys)})
        return reply

    grid.twist[11] = false
    done = run(lying(grid, note), path, agreed, step=1, nodes=map_of_nodes)
    (held,) = [held for held in done.server.held() if held.step == 1]
    assert held.samples == sum(len(rows(client, 1)[1]) for client in range(1, CLIENTS))


def test_a_node_has_a_quota(tmp_path, caplog):
    grid = Nodes(client_app(own), [{"partition-id": client} for client in range(3)])
    strategy = plain(tmp_path / "joint.pmf", most_bytes=20_000)
    grid.twist[13] = sends(*[upload("2", 0)] * 2000)
    done = strategy.start(grid, strategy.arrays(), num_rounds=1)
    assert done.train_metrics_clientapp[1]["refused"] >= 1
    assert "more than" in caplog.text
    assert {held.client for held in strategy.server.held()} >= {"0", "1"}


@pytest.mark.parametrize("form", ["exact", "diagonal"])
def test_agreed_ranges_keep_one_client_from_owning_the_fit(tmp_path, form):
    agreed = Agreement(ContinualRegressor(ridge=1e-3), 2)
    grid = Nodes(client_app(own), [{"partition-id": client} for client in range(3)])
    X, y = rows(2, 0)
    for factor, target in ((1e4, 1.0), (1.0, 1e6)):
        strategy = plain(tmp_path / f"{form}-{factor}.pmf", largest_feature=10.0, largest_target=30.0)
        grid.twist[13] = sends(agreed.summarize("2", 0, factor * X, target * y, form=form))
        strategy.start(grid, strategy.arrays(), num_rounds=1)
        assert {held.client for held in strategy.server.held()} == {"0", "1"}


def test_journals_are_json_for_people(tmp_path):
    journal = tmp_path / "0.journal"
    grid = Each(lambda client: client_app(own, secure=Secure(journal=journal if client == 0 else None)))
    run(grid, tmp_path / "joint.pmf", agreement())
    noted = json.loads(journal.read_text())
    assert noted["0"]["answered"] is True
