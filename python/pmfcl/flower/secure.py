"""Secure aggregation: the server learns the sum over the clients of a step, and nothing of a single one.

The scheme, what it protects from whom, and what it does not: the crate `pmfcl-secagg` and `docs/privacy.md`.
"""

import math
import uuid
from collections.abc import Iterable
from logging import INFO, WARNING
from os import PathLike
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict

from pmfcl import _core
from pmfcl.federated import Agreement

from .records import AGREEMENT, ARRAYS, CONFIG, PAYLOAD, log, packed, uploads
from .server import PmfStrategy


class SecureStrategy(PmfStrategy):
    """As `PmfStrategy`, but a step is one upload, of the cohort: the sum over all clients that stayed to its end.

    A step takes four exchanges (five in signed rounds). A client that is lost on the way is left out, and cannot send the step later: of
    two sums that differ by one client the difference would show it. Not for log-loss, which is no sum.

    Parameters
    ----------
    agreement, path, min_nodes, wait, rules : as for `PmfStrategy`. Scores are not asked for: they would show rows.
    share : float
        Share of the clients that must stay to the end, above one half.
    exchange : float
        Seconds to wait for the answers of each exchange but the last.
    cohort : str
        What all clients together are called in the model.
    signed : bool
        Whether clients sign; they must have `Secure(secret=…, known=…)`.
    """

    def __init__(
        self,
        agreement: Agreement,
        path: str | PathLike[str],
        *,
        share: float = 2 / 3,
        exchange: float = 60.0,
        cohort: str = "cohort",
        signed: bool = False,
        min_nodes: int = 3,
        **options: Any,
    ) -> None:
        if options.pop("evaluate", False):
            raise ValueError(
                "evaluate: scores at parameters of the server's choice show the rows they are of, so clients of masked sums give none; "
                "score the model on rows of the server's own"
            )
        super().__init__(agreement, path, min_nodes=min_nodes, **options)
        if not 0.5 < share <= 1.0:
            raise ValueError(f"share is {share}: it must be above one half and at most 1")
        self.share, self.exchange, self.cohort, self.signed = share, exchange, cohort, signed
        self._round: _core.SecAggServer | None = None
        self._members: dict[int, str] = {}

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> list[Message]:
        """Runs a round up to its last exchange, whose messages it returns."""
        self._round = None
        step, nodes = self.step(server_round), self._nodes(grid)
        threshold = max(2, len(nodes) // 2 + 1, math.ceil(self.share * len(nodes) - 1e-9))
        if len(nodes) < threshold:
            log(WARNING, "step %d: %d nodes are too few for a sum", step, len(nodes))
            return []
        told = {**config, "step": step, "round": str(uuid.uuid4()), "threshold": threshold, "clients": len(nodes)}
        server = _core.SecAggServer(
            told["round"],
            threshold=threshold,
            clients=len(nodes),
            width=self.agreement.width,
            targets=self.agreement.n_targets,
            agreement=self.agreement.identity,
            step=step,
            signed=self.signed,
        )
        exchange = _Exchange(grid, server, arrays[AGREEMENT], told, server_round, self.exchange)
        log(INFO, "step %d: a sum over %d nodes, of which %d must stay", step, len(nodes), threshold)
        try:
            members = exchange("keys", dict.fromkeys(nodes, b""), "keys")
            roster = server.roster()
            members = exchange("shares", dict.fromkeys(members.values(), roster), "shares")
            inboxes = {node: server.inbox(client) for client, node in members.items()}
            members = exchange("masked", inboxes, "masked")
            survivors = server.survivors()
            if self.signed:
                told_all = dict.fromkeys(members.values(), survivors)
                members = exchange("confirm", told_all, "confirmation")
                survivors = server.confirmations()
        except ValueError as failed:
            log(WARNING, "step %d is left out: %s", step, failed)
            return []
        self._round, self._members = server, exchange.members
        return exchange.messages("unmask", dict.fromkeys(members.values(), survivors))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Any]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Takes the last answers, and files the sum."""
        server, step = self._round, self.step(server_round)
        if server is None:
            return None, None
        _collect(replies, server, "answer", self._members)
        try:
            summary, clients = server.finish()
            receipt = self.server.accept(self.agreement.update(self.cohort, step, summary))
        except ValueError as failed:  # too few, or refused
            log(WARNING, "step %d is left out: %s", step, failed)
            return None, None
        self.server.commit()
        facts = {"step": step, "clients": len(clients), "samples": receipt.samples}
        return self.arrays(), MetricRecord(facts)


class _Exchange:
    """Messages to nodes and what they answer, in one round."""

    def __init__(
        self,
        grid: Any,
        server: _core.SecAggServer,
        agreement: Any,
        told: dict[str, Any],
        server_round: int,
        timeout: float,
    ) -> None:
        self.server = server
        self.grid, self.agreement, self.told, self.group, self.timeout = (
            grid,
            agreement,
            told,
            str(server_round),
            timeout,
        )
        self.members: dict[int, str] = {}  # the client of each node, from its keys on

    def messages(self, turn: str, payloads: dict[int, bytes]) -> list[Message]:
        """One for each node."""
        messages = []
        for node, payload in payloads.items():
            arrays = ArrayRecord({AGREEMENT: self.agreement, PAYLOAD: packed(payload)})
            content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord({**self.told, "secure": turn})})
            messages.append(Message(content, node, MessageType.TRAIN, group_id=self.group))
        return messages

    def __call__(self, turn: str, payloads: dict[int, bytes], what: str) -> dict[str, int]:
        """Sends, and gives the answers to the round; the node of each client that has answered well."""
        replies = self.grid.send_and_receive(self.messages(turn, payloads), timeout=self.timeout)
        return _collect(replies, self.server, what, self.members)


def _collect(
    replies: Iterable[Any], server: _core.SecAggServer, what: str, members_by_node: dict[int, str]
) -> dict[str, int]:
    """Gives one answer of each node to the round, and notes whose it is: a node is one client, from its keys to its last answer."""
    members = {}
    for reply in replies:
        node = reply.metadata.src_node_id
        if reply.has_error():
            log(WARNING, "node %d failed (code %s): %s", node, reply.error.code, reply.error.reason)
            continue
        answers, more = uploads(reply, 1)
        if more:
            log(WARNING, "node %d sent %d answers; only the first counts", node, more + 1)
        for answer in answers:
            try:
                client = server.sender(answer)
                if members_by_node.setdefault(node, client) != client:
                    raise ValueError(f"it answers for client `{client}`, and is client `{members_by_node[node]}`")
                getattr(server, f"collect_{what}")(answer)
            except ValueError as refused:
                log(WARNING, "node %d: %s", node, str(refused))
                continue
            members[client] = node
    return members
