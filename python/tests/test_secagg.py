"""Secure aggregation: the sum of the clients that stayed, and of nobody else."""

import numpy as np
import pytest
from conftest import stacked
from pmfcl import Summary
from pmfcl._core import SecAggClient, SecAggServer

AGREED = {"threshold": 3, "clients": 4, "width": 6}
NAMES = ["east", "north", "south", "west"]
SECRETS = {name: bytes([i + 1]) * 32 for i, name in enumerate(NAMES)}
KNOWN = {name: SecAggClient.public(secret) for name, secret in SECRETS.items()}


def before_answers(summaries, signed):
    """A round in which the last client shares its keys and is gone. Every message finds its client in a new process."""
    who = {name: {"secret": SECRETS[name], "known": KNOWN} if signed else {} for name in NAMES}
    server = SecAggServer("round", **AGREED, signed=signed)
    states = {}
    for name in NAMES:
        client = SecAggClient("round", name, **AGREED, **who[name])
        assert server.collect_keys(client.advertise()) == name
        states[name] = client.to_bytes()

    def call(name, method, *args):
        client = SecAggClient.from_bytes(states[name], **who[name])
        message = getattr(client, method)(*args)
        states[name] = client.to_bytes()
        return message

    roster = server.roster()
    for name in NAMES:
        assert server.collect_shares(call(name, "share", roster)) == name
    for name, summary in zip(NAMES[:3], summaries, strict=False):
        server.collect_masked(call(name, "masked", server.inbox(name), summary))
    return server, call


@pytest.mark.parametrize("signed", [False, True])
def test_the_sum_is_that_of_the_rows_of_those_who_stayed(months, signed):
    server, call = before_answers([Summary.from_data(X, y) for X, y in months], signed)
    message = server.survivors()
    if signed:
        for name in NAMES[:3]:
            server.collect_confirmation(call(name, "confirm", message))
        message = server.confirmations()
    for name in NAMES[:3]:
        server.collect_answer(call(name, "unmask", message))
    total, clients = server.finish()
    assert clients == NAMES[:3]
    X, y = stacked(months[:3])
    assert total.n_samples == len(X)
    best = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
    np.testing.assert_allclose(total.solve(), best, rtol=1e-8)
    with pytest.raises(RuntimeError, match="answers once"):
        call("east", "unmask", message)


def test_what_is_refused_says_why(months):
    server, call = before_answers([Summary.from_data(X, y) for X, y in months[:2]], False)
    with pytest.raises(ValueError, match="2 masked inputs, the threshold is 3: nothing is revealed"):
        server.survivors()
    with pytest.raises(ValueError, match="above half of the clients"):
        SecAggServer("round", threshold=2, clients=4, width=6)
    with pytest.raises(ValueError, match="not a client's state"):
        SecAggClient.from_bytes(b"PMFS")
    large = Summary.from_data(months[2][0] * 1e9, months[2][1])
    with pytest.raises(ValueError, match="rescale features and targets"):
        call("south", "masked", server.inbox("south"), large)
    with pytest.raises(RuntimeError, match="waits for its inbox"):
        call("south", "unmask", b"")
