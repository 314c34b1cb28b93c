"""Federated learning on Flower, exact in one round: `pip install pmfcl[flower]`.

The server sends what was agreed on and the current parameters; every client answers with the summary of its new rows, and of the
rows of earlier steps the server does not have yet. The server's memory is a model file: a server that is started again goes on
where it was. An app is two calls:

    # client_app.py
    def load(context, step):                       # rows of a step, or None
        return X, y
    app = pmfcl.flower.client_app(load)

    # server_app.py
    def agree(context):
        return pmfcl.federated.Agreement(ContinualRegressor(), features=["age", "dose"])
    app = pmfcl.flower.server_app(agree)

`examples/flower` runs, with TLS and authenticated nodes too.
"""

import contextlib
import signal
import threading
import time
from logging import INFO, WARNING, getLogger

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Strategy

from ._classifier import ContinualClassifier
from .federated import MOST_BYTES, Agreement, Refused, Server

log = getLogger("flwr").log

# Names of records and of what is in them.
ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
AGREEMENT, PARAMETERS = "agreement", "parameters"


def packed(data):
    """Bytes as an array, which Flower sends in pieces however many there are."""
    return Array(dtype="uint8", shape=(len(data),), stype="pmfcl", data=bytes(data))


# ---- client ----


def client_app(load, *, name=None, test=None, form="exact", numbers="double", most_bytes=MOST_BYTES, patience=None):
    """A ClientApp that answers with summaries of its rows.

    Parameters
    ----------
    load : function of context and step
        Returns the rows `(X, y)` the client has for that step (0, 1, …), or None. It must give the same rows whenever it is asked
        for the same step: a step that was sent already with other numbers is refused.
    name : function of context, optional
        The client's name, the same in every run; by default the node's configuration `client`, or `partition-id`.
    test : function of context and step, optional
        Rows to score the joint model on where they are; only mean squared error or accuracy is sent.
    form, numbers : as for `Agreement.summarize`.
    most_bytes : int
        A client does not send more than this in one message; what does not fit is sent in the next round. What can never fit is
        an error before any row is looked at.
    patience : float, optional
        Seconds after which loading and summarizing is given up, so that one that hangs does not hold up later rounds.
    """
    app = ClientApp()
    named = name or client_name

    @app.train()
    def train(message, context):
        with at_most(patience):
            return answer(message, context)

    def answer(message, context):
        arrays, config = message.content[ARRAYS], message.content[CONFIG]
        agreement = Agreement.from_bytes(arrays[AGREEMENT].data)
        client = named(context)
        need = agreement.most_bytes(form, numbers)
        if need > most_bytes:
            raise ValueError(
                f"an update of this model takes up to {need:,} bytes and {most_bytes:,} are allowed: raise most_bytes on client "
                'and server, or send numbers="single" or form="diagonal"'
            )
        held = config.get("held")
        updates, sent = {}, 0
        for step in range(config["step"] + 1):
            if held is not None and step in held:
                continue
            rows = load(context, step)
            if rows is None:
                continue
            update = agreement.summarize(client, step, *rows, form=form, numbers=numbers)
            if updates and sent + len(update) > most_bytes:
                break
            updates[str(step)] = packed(update)
            sent += len(update)
        metrics = MetricRecord({"updates": len(updates), "bytes": sent})
        content = {ARRAYS: ArrayRecord(updates), METRICS: metrics, CONFIG: ConfigRecord({"client": client})}
        return Message(RecordDict(content), reply_to=message)

    @app.query()
    def query(message, context):
        return Message(RecordDict({CONFIG: ConfigRecord({"client": named(context)})}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        arrays, step = message.content[ARRAYS], message.content[CONFIG]["step"]
        rows = None if test is None else test(context, step)
        metrics = {"num-examples": 0}
        if rows is not None and PARAMETERS in arrays:
            agreement = Agreement.from_bytes(arrays[AGREEMENT].data)
            metrics = scores(agreement, arrays[PARAMETERS].data, *rows)
        return Message(RecordDict({METRICS: MetricRecord(metrics)}), reply_to=message)

    return app


def scores(agreement, parameters, X, y):
    """How good parameters are on rows: accuracy, or mean squared error."""
    predicted, y = agreement.predict(parameters, X), np.asarray(y)
    if isinstance(agreement._template, ContinualClassifier):
        return {"num-examples": len(y), "accuracy": float(np.mean(predicted == y))}
    return {"num-examples": len(y), "mse": float(np.mean((predicted - y) ** 2))}


def client_name(context):
    """The name in a node's configuration."""
    for key in ("client", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    raise ValueError(
        "a client needs a name that stays the same from run to run: start the node with --node-config 'client=\"north\"', or "
        "give client_app a function name(context)"
    )


@contextlib.contextmanager
def at_most(seconds):
    """Gives up after some time. Only the main thread of a process can be interrupted; elsewhere there is no limit."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(_signal, _frame):
        raise TimeoutError(f"the client's rows were not there after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# ---- server ----


class PmfStrategy(Strategy):
    """One round a step; after each the model is that of pooling all rows of all clients that have answered so far.

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
    rules : as for `pmfcl.federated.Server`: least_samples, most_samples, most_bytes, clients, most_share.
    """

    def __init__(self, agreement, path, *, min_nodes=1, wait=60.0, evaluate=False, **rules):
        self.agreement, self.min_nodes, self.wait, self.evaluate = agreement, min_nodes, wait, evaluate
        self.server = Server(agreement, path, **rules)
        self.path = path
        self.first_step = 1 + max((held.step for held in self.server.held()), default=-1)
        self._names = {}  # nodes that have told their client's name in this run

    def arrays(self):
        """What the first round sends: the agreement, and the parameters where there are any."""
        record = {AGREEMENT: packed(self.agreement.to_bytes())}
        if self.server.held():
            record[PARAMETERS] = packed(self.server.broadcast())
        return ArrayRecord(record)

    def step(self, server_round):
        """The step of a round."""
        return self.first_step + server_round - 1

    def summary(self):
        """Says what it goes on with."""
        held = self.server.held()
        clients = len({line.client for line in held})
        log(INFO, "\t├──> Memory: %s", self.path)
        log(INFO, "\t├──> Held: %d updates of %d clients", len(held), clients)
        log(INFO, "\t└──> Next step: %d", self.first_step)

    def configure_train(self, server_round, arrays, config, grid):
        """A message to every node there is: the step, and which steps of its client the server has."""
        step, nodes, messages = self.step(server_round), self._nodes(grid), []
        held = self._held(grid, nodes)
        for node in nodes:
            told = {**config, "step": step}
            if node in self._names:
                told["held"] = held.get(self._names[node], [])
            content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(told)})
            messages.append(Message(content, node, MessageType.TRAIN, group_id=str(server_round)))
        log(INFO, "step %d: asking %d nodes", step, len(messages))
        return messages

    def _nodes(self, grid):
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

    def _held(self, grid, nodes):
        """Steps there are of each client. Nodes that have not told whose they are yet are asked, so that nobody sends again
        what is there; the answer decides nothing else."""
        steps = {}
        for line in self.server.held():
            steps.setdefault(line.client, []).append(line.step)
        strangers = [node for node in nodes if node not in self._names] if steps else []
        asked = [Message(RecordDict(), node, MessageType.QUERY) for node in strangers]
        for reply in grid.send_and_receive(asked, timeout=self.wait) if asked else []:
            told = None if reply.has_error() else reply.content.get(CONFIG)
            if isinstance(told, ConfigRecord) and isinstance(told.get("client"), str):
                self._names[reply.metadata.src_node_id] = told["client"]
        return steps

    def aggregate_train(self, server_round, replies):
        """Takes what was sent, refuses what cannot be, writes the file, and gives the new parameters."""
        counts = dict.fromkeys(("accepted", "known", "refused", "failed", "bytes-up"), 0)
        clients = set()
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                counts["failed"] += 1
                log(WARNING, "node %d failed (code %s): %s", node, reply.error.code, reply.error.reason)
                continue
            for upload in uploads(reply):
                counts["bytes-up"] += len(upload)
                try:
                    receipt = self.server.accept(upload)
                except Refused as refused:
                    counts["refused"] += 1
                    log(WARNING, "node %d: %s", node, refused)
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

    def configure_evaluate(self, server_round, arrays, config, grid):
        """A message to every node, where clients are to score the model."""
        if not self.evaluate:
            return []
        told = ConfigRecord({**config, "step": self.step(server_round)})
        content = RecordDict({ARRAYS: arrays, CONFIG: told})
        group = str(server_round)
        return [Message(content, node, MessageType.EVALUATE, group_id=group) for node in sorted(grid.get_node_ids())]

    def aggregate_evaluate(self, server_round, replies):
        """Scores over all rows of all clients that have some."""
        records = [reply.content[METRICS] for reply in replies if not reply.has_error()]
        total = sum(record["num-examples"] for record in records)
        if not total:
            return None
        merged = {"num-examples": total}
        for key in ("mse", "accuracy"):
            parts = [record[key] * record["num-examples"] for record in records if key in record]
            if parts:
                merged[key] = sum(parts) / total
        return MetricRecord(merged)


def uploads(reply):
    """The updates in a reply, whatever else a node has put there."""
    record = reply.content.get(ARRAYS)
    return [array.data for array in record.values()] if isinstance(record, ArrayRecord) else []


def server_app(agree, *, path="federation.pmf", steps=1, timeout=600.0, **options):
    """A ServerApp that learns step by step and keeps everything in a model file.

    Parameters
    ----------
    agree : function of context
        Returns the `pmfcl.federated.Agreement`.
    path, steps, timeout :
        The model file, how many steps there are in all, and seconds to wait for answers in each. The run's configuration goes
        first: `model`, `steps`, `timeout`, `min-nodes`, `evaluate`.
    options : as for `PmfStrategy`.
    """
    app = ServerApp()

    @app.main()
    def main(grid, context):
        config = context.run_config
        chosen = {
            **options,
            "min_nodes": int(config.get("min-nodes", options.get("min_nodes", 1))),
            "evaluate": bool(config.get("evaluate", options.get("evaluate", False))),
        }
        strategy = PmfStrategy(agree(context), str(config.get("model", path)), **chosen)
        left = int(config.get("steps", steps)) - strategy.first_step
        if left <= 0:
            log(INFO, "all %s steps are in %s already", config.get("steps", steps), strategy.path)
            return
        wait = float(config.get("timeout", timeout))
        strategy.start(grid, strategy.arrays(), num_rounds=left, timeout=wait)

    return app
