"""Secure aggregation: the server learns the sum over the clients of a step, and nothing of a single one.

The scheme, what it protects from whom, and what it does not: the crate `pmfcl-secagg` and `docs/privacy.md`.
"""

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING
from os import PathLike
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict

from pmfcl import _core
from pmfcl.federated import Agreement, Refused, SharedNoise

from .records import AGREEMENT, ARRAYS, CONFIG, PAYLOAD, REQUEST, log, packed, uploads
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
    noise : pmfcl.federated.SharedNoise, optional
        What every client adds a share of; they must have the same in `Secure(noise=…)`.
    calibrate : bool
        Whether to ask for masked tables of how well the probabilities of "gaussian" fit, after the last step: clients must have
        `Secure(calibrate=True)`. A step is measured once.
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
        noise: SharedNoise | None = None,
        min_nodes: int = 3,
        calibrate: bool = False,
        **options: Any,
    ) -> None:
        if options.pop("evaluate", False):
            raise ValueError(
                "evaluate: scores at parameters of the server's choice show the rows they are of, so clients of masked sums give none; "
                "score the model on rows of the server's own"
            )
        if calibrate and noise is not None:
            raise ValueError("tables of how well probabilities fit have no noise: give noise or calibrate, not both")
        super().__init__(agreement, path, min_nodes=min_nodes, calibrate=calibrate, **options)
        if not 0.5 < share <= 1.0:
            raise ValueError(f"share is {share}: it must be above one half and at most 1")
        self.share, self.exchange, self.cohort, self.signed = share, exchange, cohort, signed
        self.noise = noise
        self._noise: _core.SharedNoise | None = None
        self._round: _core.SecAggServer | None = None
        self._members: dict[int, str] = {}

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> list[Message]:
        """Runs a round up to its last exchange, whose messages it returns."""
        return self._configure(self.step(server_round), str(server_round), arrays[AGREEMENT], config, grid, None)

    def _configure(
        self, step: int, group: str, agreement: Any, config: Mapping[str, Any], grid: Any, request: bytes | None
    ) -> list[Message]:
        """A round over products of rows, or over what clients measure for a request."""
        self._round = None
        nodes = self._nodes(grid)
        self._here = set(nodes)
        of, width, targets = self.agreement.identity, self.agreement.width, self.agreement.n_targets
        if request is not None:
            (of, targets), width = self.agreement._core.calibration_shape(request), 1
        threshold = max(2, len(nodes) // 2 + 1, math.ceil(self.share * len(nodes) - 1e-9))
        if len(nodes) < threshold:
            log(WARNING, "step %d: %d nodes are too few for a sum", step, len(nodes))
            return []
        told = {**config, "step": step, "round": str(uuid.uuid4()), "threshold": threshold, "clients": len(nodes)}
        self._noise = None if self.noise is None else self.noise.of(self.agreement, threshold)
        if self._noise is not None:
            of = self._noise.digest(of)
        server = _core.SecAggServer(
            told["round"],
            threshold=threshold,
            clients=len(nodes),
            width=width,
            targets=targets,
            agreement=of,
            step=step,
            signed=self.signed,
        )
        sent = {AGREEMENT: agreement} if request is None else {AGREEMENT: agreement, REQUEST: packed(request)}
        exchange = _Exchange(grid, server, sent, told, group, self.exchange, self._check_name)
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

    def _check_name(self, node: int, client: str) -> None:
        """Refuses keys in the name of another node's client: it would be left out of the sum."""
        owner = self._client_of(node)
        if owner is None:
            self._check_free(client)
        elif owner != client:
            raise Refused(f"it sends keys for client `{client}`, and is client `{owner}`")

    def aggregate_train(
        self, server_round: int, replies: Iterable[Any]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Takes the last answers, and files the sum."""
        server, step = self._round, self.step(server_round)
        if server is None:
            return None, None
        _collect(replies, server, "answer", self._members, self._check_name)
        try:
            if self._noise is None:
                summary, clients = server.finish()
            else:
                summary, clients, _, clipped = server.finish_noisy(self.agreement._core, self._noise)
                if clipped > 0.1:
                    log(
                        WARNING,
                        "step %d: about %d %% of the rows are longer than the clips",
                        step,
                        round(100 * clipped),
                    )
            receipt = self.server.accept(self.agreement.update(self.cohort, step, summary))
        except ValueError as failed:  # too few, or refused
            log(WARNING, "step %d is left out: %s", step, failed)
            return None, None
        if self._nodes_by_client is None:
            self._pin({client: node for node, client in self._members.items() if client in clients})
        self.server.commit()
        facts = {"step": step, "clients": len(clients), "samples": receipt.samples}
        return self.arrays(), MetricRecord(facts)

    def measure(self, grid: Any, timeout: float = 3600) -> int:
        """The second round: a masked sum of what the clients of each step of this run measure; returns how many steps were."""
        request, measured = self.server.calibration_request(), 0
        agreement = packed(self.agreement.to_bytes())
        for held in self.server.held():
            if held.client != self.cohort or held.step < self.first_step:
                continue
            messages = self._configure(held.step, f"calibrate-{held.step}", agreement, {}, grid, request)
            server = self._round
            if server is None:
                continue
            replies = grid.send_and_receive(messages, timeout=timeout)
            _collect(replies, server, "answer", self._members, self._check_name)
            try:
                numbers, _ = server.finish_numbers()
                answer = self.agreement.calibration_of_sum(request, self.cohort, held.step, numbers, held.samples)
                self.server.accept_calibration(answer)
            except ValueError as failed:  # too few, or refused
                log(WARNING, "step %d is not measured: %s", held.step, failed)
                continue
            measured += 1
        if measured:
            self.server.commit()
        return measured


class _Exchange:
    """Messages to nodes and what they answer, in one round."""

    def __init__(
        self,
        grid: Any,
        server: _core.SecAggServer,
        sent: dict[str, Any],
        told: dict[str, Any],
        group: str,
        timeout: float,
        check_name: Callable[[int, str], None],
    ) -> None:
        self.server, self.check_name = server, check_name
        self.grid, self.sent, self.told, self.group, self.timeout = grid, sent, told, group, timeout
        self.members: dict[int, str] = {}  # the client of each node, from its keys on

    def messages(self, turn: str, payloads: dict[int, bytes]) -> list[Message]:
        """One for each node."""
        messages = []
        for node, payload in payloads.items():
            arrays = ArrayRecord({**self.sent, PAYLOAD: packed(payload)})
            content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord({**self.told, "secure": turn})})
            messages.append(Message(content, node, MessageType.TRAIN, group_id=self.group))
        return messages

    def __call__(self, turn: str, payloads: dict[int, bytes], what: str) -> dict[str, int]:
        """Sends, and gives the answers to the round; the node of each client that has answered well."""
        replies = self.grid.send_and_receive(self.messages(turn, payloads), timeout=self.timeout)
        return _collect(replies, self.server, what, self.members, self.check_name)


def _collect(
    replies: Iterable[Any],
    server: _core.SecAggServer,
    what: str,
    members_by_node: dict[int, str],
    check_name: Callable[[int, str], None],
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
                check_name(node, client)
                if members_by_node.setdefault(node, client) != client:
                    raise ValueError(f"it answers for client `{client}`, and is client `{members_by_node[node]}`")
                getattr(server, f"collect_{what}")(answer)
            except (ValueError, RuntimeError, Refused) as refused:  # of another round, or of another turn of this one
                log(WARNING, "node %d: %s", node, str(refused))
                continue
            members[client] = node
    return members
