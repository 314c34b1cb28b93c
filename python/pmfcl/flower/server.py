"""The server: a strategy of one round per step, and an app around it."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING
from os import PathLike
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Strategy

from pmfcl._classifier import ContinualClassifier
from pmfcl.federated import MOST_BYTES, Agreement, Receipt, Refused, Server

from .records import AGREEMENT, ARRAYS, CONFIG, METRICS, PARAMETERS, REQUEST, log, packed, uploads


class PmfStrategy(Strategy):  # type: ignore[misc]  # of a package that need not be installed
    """One round per step; after each the model is that of pooling all rows of all clients that have answered so far.

    Parameters
    ----------
    agreement : pmfcl.federated.Agreement
    path : path
        The model file that is the server's memory. If it is there, the strategy goes on with the step after its last.
    min_nodes : int
        Nodes to wait for before a step.
    wait : float
        Seconds to wait for them; then the step begins with those there are. Also for their names, after a restart.
    evaluate : bool
        Whether clients score the new model on rows of their own after each step.
    calibrate : bool
        Whether clients measure the probabilities of "gaussian" at the joint model after the last step: a second round, without which
        they are those at temperature 1. It shows clients the sums over all rows.
    nodes : dict of int to str, optional
        The client of each node id. Nodes that are not in it are not listened to. By default a client belongs to the node it first
        sent from, which is kept in the model file; its name can pass to another node only once that one is gone.
    rules : as for `pmfcl.federated.Server`: least_samples, most_samples, most_bytes, clients, most_share, largest_feature, …
        `most_bytes` is also the most a node may send in one message.
    """

    def __init__(
        self,
        agreement: Agreement,
        path: str | PathLike[str],
        *,
        min_nodes: int = 1,
        wait: float = 60.0,
        evaluate: bool = False,
        calibrate: bool = True,
        nodes: Mapping[int, str] | None = None,
        **rules: Any,
    ) -> None:
        self.most_bytes = int(rules.get("most_bytes", MOST_BYTES))
        self.calibrate = calibrate and measures_probabilities(agreement)
        self.agreement, self.min_nodes, self.wait, self.evaluate = agreement, min_nodes, wait, evaluate
        self.server = Server(agreement, path, **rules)
        self.path = path
        self.first_step = 1 + max((held.step for held in self.server.held()), default=-1)
        self._names: dict[int, str] = {}  # nodes that have told their client's name in this run
        self._nodes_by_client = None if nodes is None else {str(client): int(node) for node, client in nodes.items()}
        self._here: set[int] = set()  # nodes that are there in this round

    def start(self, grid: Any, initial_arrays: ArrayRecord, *args: Any, timeout: float = 3600, **options: Any) -> Any:
        """Runs all rounds, and then the second round that measures probabilities."""
        done = super().start(grid, initial_arrays, *args, timeout=timeout, **options)
        if self.calibrate and self.server.held():
            self.measure(grid, timeout)
        return done

    def measure(self, grid: Any, timeout: float = 3600) -> int:
        """The second round: every client there is measures probabilities with the rows of its steps; returns how many steps were.

        What a client does not answer keeps what was measured with it before, or counts nothing.
        """
        request = self.server.calibration_request()
        arrays = ArrayRecord({AGREEMENT: packed(self.agreement.to_bytes()), REQUEST: packed(request)})
        nodes = self._nodes(grid)
        steps, messages = self._held(grid, nodes), []
        for node in nodes:
            held = steps.get(self._names[node], []) if node in self._names else []
            if held:
                content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord({"calibrate": held})})
                messages.append(Message(content, node, MessageType.TRAIN, group_id="calibrate"))
        measured = 0
        for reply in grid.send_and_receive(messages, timeout=timeout) if messages else []:
            node = reply.metadata.src_node_id
            if reply.has_error():
                log(WARNING, "node %d failed (code %s): %s", node, reply.error.code, reply.error.reason)
                continue
            answers, _ = uploads(reply, len(steps[self._names[node]]))
            for answer in answers:
                try:
                    self.server.accept_calibration(answer, sender=self._owner(node))
                except Refused as refused:
                    log(WARNING, "node %d: %s", node, str(refused))
                    continue
                measured += 1
        log(INFO, "probabilities were measured with %d of %d updates", measured, len(self.server.held()))
        if measured:
            self.server.commit()
        return measured

    def _owner(self, node: int) -> str:
        """The client a node may answer for."""
        given = self._nodes_by_client if self._nodes_by_client is not None else self.server.nodes
        for client, own in given.items():
            if own == node:
                return client
        raise Refused("it is not the node of any client that has sent an update")

    def arrays(self) -> ArrayRecord:
        """What the first round sends: the agreement, and the parameters where there are any."""
        record = {AGREEMENT: packed(self.agreement.to_bytes())}
        if self.server.held():
            record[PARAMETERS] = packed(self.server.broadcast())
        return ArrayRecord(record)

    def step(self, server_round: int) -> int:
        """The step of a round."""
        return self.first_step + server_round - 1

    def summary(self) -> None:
        """Says what it goes on with."""
        held = self.server.held()
        clients = len({line.client for line in held})
        log(INFO, "\t├──> Memory: %s", self.path)
        log(INFO, "\t├──> Held: %d updates of %d clients", len(held), clients)
        log(INFO, "\t└──> Next step: %d", self.first_step)

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> list[Message]:
        """A message to every node there is: the step, and which steps of its client the server has."""
        step, nodes, messages = self.step(server_round), self._nodes(grid), []
        self._here = set(nodes)
        held = self._held(grid, nodes)
        for node in nodes:
            told = {**config, "step": step}
            if node in self._names:
                told["held"] = held.get(self._names[node], [])
            content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(told)})
            messages.append(Message(content, node, MessageType.TRAIN, group_id=str(server_round)))
        log(INFO, "step %d: asking %d nodes", step, len(messages))
        return messages

    def _nodes(self, grid: Any) -> list[int]:
        until = time.monotonic() + self.wait
        while len(nodes := sorted(grid.get_node_ids())) < self.min_nodes and time.monotonic() < until:
            time.sleep(0.5)
        if len(nodes) < self.min_nodes:
            log(
                WARNING,
                "%d of %d nodes are there after %g s; going on with them",
                len(nodes),
                self.min_nodes,
                self.wait,
            )
        return nodes

    def _held(self, grid: Any, nodes: list[int]) -> dict[str, list[int]]:
        """Steps there are of each client. Nodes that have not told whose they are yet are asked, so that nobody sends again
        what is there; the answer decides nothing else."""
        steps: dict[str, list[int]] = {}
        for line in self.server.held():
            steps.setdefault(line.client, []).append(line.step)
        strangers = [node for node in nodes if node not in self._names] if steps else []
        asked = [Message(RecordDict(), node, MessageType.QUERY) for node in strangers]
        for reply in grid.send_and_receive(asked, timeout=self.wait) if asked else []:
            told = None if reply.has_error() else reply.content.get(CONFIG)
            if isinstance(told, ConfigRecord) and isinstance(told.get("client"), str):
                self._names[reply.metadata.src_node_id] = told["client"]
        return steps

    def aggregate_train(
        self, server_round: int, replies: Iterable[Any]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Takes what was sent, refuses what cannot be, writes the file, and gives the new parameters."""
        counts = dict.fromkeys(("accepted", "known", "refused", "failed", "bytes-up"), 0)
        clients = set()
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                counts["failed"] += 1
                log(WARNING, "node %d failed (code %s): %s", node, reply.error.code, reply.error.reason)
                continue
            taken, more = uploads(reply, self.step(server_round) + 1)
            counts["refused"] += more
            if more:
                log(WARNING, "node %d sent more than one upload per step: %d are not looked at", node, more)
            left = self.most_bytes
            for upload in taken:
                counts["bytes-up"] += len(upload)
                left -= len(upload)
                try:
                    if left < 0:
                        raise Refused(f"it has sent more than {self.most_bytes} bytes in this round")
                    receipt = self._accept(node, upload, self.step(server_round))
                except Refused as refused:
                    counts["refused"] += 1
                    log(WARNING, "node %d: %s", node, str(refused))
                    continue
                counts["accepted" if receipt.new else "known"] += 1
                self._names[node] = receipt.client
                clients.add(receipt.client)
        if not self.server.held():
            log(WARNING, "nothing has been learned yet: no client has sent an update")
            return None, MetricRecord({"step": self.step(server_round), **counts})
        if counts["accepted"]:
            self.server.commit()
        samples = sum(line.samples for line in self.server.held())
        facts = {"step": self.step(server_round), "clients": len(clients), "samples": samples}
        return self.arrays(), MetricRecord({**facts, **counts})

    def _accept(self, node: int, upload: bytes, step: int) -> Receipt:
        """Files an upload in the name of the node's own client, and of no other."""
        owner = self._client_of(node)
        if owner is not None:
            return self.server.accept(upload, sender=owner, last_step=step)
        named = self.server.client_of(upload)
        self._check_free(named)
        receipt = self.server.accept(upload, last_step=step)
        self._pin({named: node})
        return receipt

    def _client_of(self, node: int) -> str | None:
        """The client a node is known to be; with a configured map there are no others."""
        given = self.server.nodes if self._nodes_by_client is None else self._nodes_by_client
        owner = next((client for client, own in given.items() if own == node), None)
        if owner is None and self._nodes_by_client is not None:
            raise Refused("it is not among the nodes of this federation")
        return owner

    def _check_free(self, client: str) -> None:
        """Refuses a name whose node is there."""
        before = self.server.nodes.get(client)
        if before is not None and before in self._here:
            raise Refused(f"client `{client}` belongs to node {before}, which is there")

    def _pin(self, nodes: Mapping[str, int]) -> None:
        """Gives names to nodes; the next commit writes them."""
        pinned = self.server.nodes
        for client, node in nodes.items():
            if pinned.get(client, node) != node:
                log(WARNING, "client `%s` was node %d, which is gone, and is node %d now", client, pinned[client], node)
        self.server.nodes = {**pinned, **nodes}

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
    ) -> list[Message]:
        """A message to every node, where clients are to score the model."""
        if not self.evaluate:
            return []
        told = ConfigRecord({**config, "step": self.step(server_round)})
        content = RecordDict({ARRAYS: arrays, CONFIG: told})
        group = str(server_round)
        return [Message(content, node, MessageType.EVALUATE, group_id=group) for node in sorted(grid.get_node_ids())]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> MetricRecord | None:
        """Scores over all rows of all clients that have some."""
        scores = []
        for reply in replies:
            told = None if reply.has_error() else reply.content.get(METRICS)
            score = scored(told)
            if score is None:
                log(WARNING, "node %d has sent no score", reply.metadata.src_node_id)
            elif score[1]:
                scores.append(score)
        key = scores[0][0] if scores else None
        scores = [score for score in scores if score[0] == key]
        total = sum(rows for _, rows, _ in scores)
        if not total:
            return None
        return MetricRecord({"num-examples": total, key: sum(rows * value for _, rows, value in scores) / total})


def measures_probabilities(agreement: Agreement) -> bool:
    """Whether the model's probabilities are measured with rows."""
    template = agreement._template
    if not isinstance(template, ContinualClassifier):
        return False
    parameters = template.get_params()
    return parameters["loss"] == "gaussian" and parameters["calibrate"] in ("on", True)


def scored(told: Any) -> tuple[str, int, float] | None:
    """Which score, of how many rows, and its value; None where a node has sent something else."""
    if not isinstance(told, MetricRecord):
        return None
    rows = told.get("num-examples")
    if rows == 0:
        return "", 0, 0.0
    for key in ("mse", "accuracy"):
        value = told.get(key)
        if isinstance(rows, int) and rows > 0 and isinstance(value, float) and math.isfinite(value):
            return key, rows, value
    return None


def server_app(
    agree: Callable[[Any], Agreement],
    *,
    path: str | PathLike[str] = "federation.pmf",
    steps: int = 1,
    timeout: float = 600.0,
    strategy: type[PmfStrategy] = PmfStrategy,
    **options: Any,
) -> ServerApp:
    """A ServerApp that learns step by step and keeps everything in a model file.

    Parameters
    ----------
    agree : function of context
        Returns the `pmfcl.federated.Agreement`.
    path, steps, timeout :
        The model file, how many steps there are in all, and seconds to wait for answers in each. The run's configuration goes
        first: `model`, `steps`, `timeout`, `min-nodes`, `evaluate`, `calibrate`.
    strategy : class
        `PmfStrategy`, or `SecureStrategy`.
    options : as for the strategy.
    """
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        config = context.run_config
        chosen: dict[str, Any] = {
            **options,
            "min_nodes": int(config.get("min-nodes", options.get("min_nodes", 1))),
            "evaluate": bool(config.get("evaluate", options.get("evaluate", False))),
        }
        if "calibrate" in config:
            chosen["calibrate"] = bool(config["calibrate"])
        run = strategy(agree(context), str(config.get("model", path)), **chosen)
        left = int(config.get("steps", steps)) - run.first_step
        if left <= 0:
            log(INFO, "all %s steps are in %s already", config.get("steps", steps), run.path)
            return
        run.start(grid, run.arrays(), num_rounds=left, timeout=float(config.get("timeout", timeout)))

    return app
