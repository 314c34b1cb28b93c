"""A client: the summary of its rows in answer to a message."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from logging import WARNING
from types import FrameType
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pmfcl import _core
from pmfcl._classifier import ContinualClassifier
from pmfcl.federated import MOST_BYTES, Agreement, PrivacyAccount, SharedNoise

from .journal import Journal
from .records import AGREEMENT, ARRAYS, CONFIG, METRICS, PARAMETERS, PAYLOAD, REQUEST, log, packed

# Rows and what they are to predict.
Loaded = tuple[Any, Any]

# Where a client's secrets are between two messages of a round: on the node, which has the rows too.
STATE = "pmfcl-secure"


@dataclass
class Secure:
    """What a client asks before it takes part in secure aggregation. It then answers in no other way, and scores nothing.

    Parameters
    ----------
    least : int
        Fewest clients a sum must be over, and that must collude with the server to see another's summary.
    share : float
        Least share of a round's clients that must stay to its end.
    rows_per_column : float
        Fewest rows of a step for each column of the design: a sum over few rows shows them, whoever else is in it. With `noise` it is
        not asked for: noise protects few rows too, and a refusal would tell how many there are.
    agreement : pmfcl.federated.Agreement or bytes, optional
        The agreement this client was set up with, or its `identity`; it answers under no other. Without, the server chooses, and may
        choose one under which the rows of other clients vanish.
    journal : path, optional
        A file of the client's own in which it notes the steps it has given masked sums of. A step is opened once, whatever agreement
        the server names. Without, that holds for one run alone, and two runs with other clients show the server the difference.
    secret : bytes, optional
        32 random bytes to sign with; rounds are then signed, and a server that lies about who takes part gets nothing.
    known : dict, optional
        Public keys by client, `pmfcl.federated.public_key(secret)` of each, which came by another way than the server.
    noise : pmfcl.federated.SharedNoise, optional
        Adds this client's share of noise to its sums; it then takes part in no round of other noise, or of none.
    account : pmfcl.federated.PrivacyAccount, with noise
        Where noisy sums are recorded before they are sent; it refuses to pass its total. Its path is the client's model file, or one of
        its own.
    calibrate : bool
        Whether it also answers with masked tables of how well probabilities fit its rows, once for each step. A server that lies can
        choose the model they are measured at, and the sums then show more of the cohort's rows than those of products do.
    """

    least: int = 3
    share: float = 0.5
    rows_per_column: float = 2.0
    agreement: Agreement | bytes | None = None
    journal: str | os.PathLike[str] | None = None
    secret: bytes | None = None
    known: dict[str, bytes] = field(default_factory=dict)
    noise: SharedNoise | None = None
    account: PrivacyAccount | None = None
    calibrate: bool = False

    def __post_init__(self) -> None:
        if self.noise is not None and self.calibrate:
            raise ValueError(
                "tables of how well probabilities fit have no noise: Secure takes noise or calibrate, not both"
            )
        if self.noise is not None and self.account is None:
            raise ValueError(
                "noisy sums add up to more than one of them says: Secure(noise=…) needs account=PrivacyAccount(epsilon, delta, path), where "
                "path is this client's model file or one of its own"
            )

    def bound(self, agreement: Agreement, threshold: int) -> bytes:
        """What the keys of a round are for: the agreement, and the noise everybody adds."""
        if self.noise is None:
            return agreement.identity
        return self.noise.of(agreement, threshold).digest(agreement.identity)

    def sums(self, agreement: Agreement, rows: Loaded, threshold: int) -> _core.Summary | _core.NoisySums:
        """What is masked."""
        if self.noise is None:
            return agreement.summary(*rows)
        return agreement.noisy(*rows, self.noise, threshold)

    def record(self, step: int, name: str) -> None:
        """Records a noisy sum that is about to be sent."""
        if self.noise is not None and self.account is not None:
            self.account.spend(self.noise.epsilon, self.noise.delta, f"masked sum of step {step} in round {name}")

    def check(self, agreement: Agreement, threshold: int, clients: int) -> None:
        """Refuses what this client was not set up for."""
        own = self.agreement.identity if isinstance(self.agreement, Agreement) else self.agreement
        if own is not None and bytes(own) != agreement.identity:
            raise ValueError(
                f"the server's agreement ({agreement.identity.hex()[:16]}) is not the one this client was set up with "
                f"({bytes(own).hex()[:16]}): loss, basis or columns differ"
            )
        if threshold < self.least:
            raise ValueError(f"a sum over {threshold} clients: this one asks for {self.least} at least")
        if threshold < self.share * clients:
            raise ValueError(f"{threshold} of {clients} clients must stay: this one asks for a share of {self.share}")

    def check_rows(self, agreement: Agreement, count: int) -> None:
        """Refuses too few rows for so many columns. Not with noise: it protects few rows too, and a refusal would tell how many there are."""
        if self.noise is None and count < self.rows_per_column * agreement.width:
            raise ValueError(
                f"{count} rows for {agreement.width} columns: this client asks for {self.rows_per_column:g} rows per column"
            )

    def identity(self) -> dict[str, Any]:
        """What signs, for the core."""
        return {} if self.secret is None else {"secret": self.secret, "known": self.known}


def client_app(
    load: Callable[[Any, int], Loaded | None],
    *,
    name: Callable[[Any], str] | None = None,
    test: Callable[[Any, int], Loaded | None] | None = None,
    form: str = "exact",
    numbers: str = "double",
    most_bytes: int = MOST_BYTES,
    patience: float | None = None,
    least_samples: int = 1,
    secure: Secure | None = None,
) -> ClientApp:
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
    least_samples : int
        Steps of fewer rows are not sent: a summary of few rows shows them.
    secure : Secure, optional
        Answers with masked sums of products alone, for `SecureStrategy`; scores on `test` rows are then refused.
    """
    app = ClientApp()
    named = name or client_name

    def enough(context: Any, step: int) -> Loaded | None:
        """Rows of a step, unless there are none or too few."""
        rows = load(context, step)
        if rows is None or len(rows[1]) >= least_samples:
            return rows
        log(WARNING, "step %d has %d rows and is not sent: %d are the least", step, len(rows[1]), least_samples)
        return None

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Message:
        asked = "secure" in message.content[CONFIG]
        if asked != (secure is not None):
            raise ValueError(
                "the server asks for a masked sum, and this client is not set up for one (client_app(secure=Secure()))"
                if asked
                else "the server asks for a plain summary, and this client gives masked sums alone"
            )
        with at_most(patience):
            if secure is not None:
                return masked(secure, message, context)
            return measured(message, context) if "calibrate" in message.content[CONFIG] else answer(message, context)

    def measured(message: Any, context: Any) -> Message:
        """The second round: how well probabilities fit the rows of each step the server has."""
        arrays = message.content[ARRAYS]
        agreement, request = Agreement.from_bytes(arrays[AGREEMENT].data), arrays[REQUEST].data
        answers = {}
        for step in message.content[CONFIG]["calibrate"]:
            rows = enough(context, step)
            if rows is not None:
                answers[str(step)] = packed(agreement.calibrate(request, named(context), step, *rows))
        return Message(RecordDict({ARRAYS: ArrayRecord(answers)}), reply_to=message)

    def masked(secure: Secure, message: Any, context: Any) -> Message:
        """One message of a round of secure aggregation."""
        arrays, config = message.content[ARRAYS], message.content[CONFIG]
        agreement, step, turn = Agreement.from_bytes(arrays[AGREEMENT].data), config["step"], config["secure"]
        # Keys are of what is summed: products under the agreement, or what is measured for one request.
        of, width, targets, noted = agreement.identity, agreement.width, agreement.n_targets, str(step)
        request = arrays[REQUEST].data if REQUEST in arrays else None
        if request is not None:
            if not secure.calibrate:
                raise ValueError(
                    "the server asks how well probabilities fit, and this client is not set up to say (Secure(calibrate=True))"
                )
            of, targets = agreement._core.calibration_shape(request)
            width, noted = 1, f"calibration of {step}"
        kept = json.loads(context.state[STATE]["journal"]) if STATE in context.state else {}
        journal = Journal(secure.journal, kept)
        if turn == "keys":
            secure.check(agreement, config["threshold"], config["clients"])
            rows = None if journal.is_answered(noted) else enough(context, step)
            if rows is None:
                return Message(RecordDict({ARRAYS: ArrayRecord()}), reply_to=message)
            secure.check_rows(agreement, len(rows[1]))
            journal.join(noted, config["round"])
            own = _core.SecAggClient(
                config["round"],
                named(context),
                threshold=config["threshold"],
                clients=config["clients"],
                width=width,
                targets=targets,
                agreement=secure.bound(agreement, config["threshold"]) if request is None else of,
                step=step,
                **secure.identity(),
            )
            sent = own.advertise()
        else:
            own = _core.SecAggClient.from_bytes(context.state[STATE]["own"], **secure.identity())
            given = arrays[PAYLOAD].data
            if request is None:
                of = secure.bound(agreement, own.threshold)
            if (of, step) != (own.agreement, own.step):
                raise ValueError(
                    f"the server asks for step {step} under agreement {of.hex()[:16]}, and began this round with step "
                    f"{own.step} under {own.agreement.hex()[:16]}: within a round neither changes"
                )
            if turn == "shares":
                sent = own.share(given)
            elif turn == "masked":
                rows = load(context, own.step)
                if rows is None:
                    raise ValueError(f"the rows of step {own.step} are gone since the round began")
                secure.check_rows(agreement, len(rows[1]))
                name, members = own.round, own.members
                # Made before it is recorded: what a lying server sends here costs nothing unless a sum leaves this client.
                if request is None:
                    sums = secure.sums(agreement, rows, own.threshold)
                    sent = own.masked(given, sums, agreement=of, step=step)
                else:
                    numbers = agreement.calibration_numbers(request, *rows)
                    sent = own.masked_numbers(given, numbers, agreement=of, step=step)
                journal.send(noted, name, own.threshold, members)
                if request is None:
                    secure.record(step, name)
            elif turn == "confirm":
                sent = own.confirm(given)
            elif turn == "unmask":
                name = own.round
                sent = own.unmask(given)
                journal.answer(noted, name)
            else:
                raise ValueError(f"there is no turn {turn!r} in a round of secure aggregation")
        context.state[STATE] = ConfigRecord({"own": own.to_bytes(), "journal": json.dumps(journal.kept)})
        return Message(RecordDict({ARRAYS: ArrayRecord({PAYLOAD: packed(sent)})}), reply_to=message)

    def answer(message: Any, context: Any) -> Message:
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
        updates: dict[str, Any] = {}
        sent = 0
        for step in range(config["step"] + 1):
            if held is not None and step in held:
                continue
            rows = enough(context, step)
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

    @app.query()  # type: ignore[untyped-decorator]
    def query(message: Any, context: Any) -> Message:
        return Message(RecordDict({CONFIG: ConfigRecord({"client": named(context)})}), reply_to=message)

    @app.evaluate()  # type: ignore[untyped-decorator]
    def evaluate(message: Any, context: Any) -> Message:
        if secure is not None:
            # Mean squared errors at parameters of the server's choice are XᵀX and Xᵀy of the test rows.
            raise ValueError("the server asks for scores, and this client gives masked sums alone")
        arrays, step = message.content[ARRAYS], message.content[CONFIG]["step"]
        rows = None if test is None else test(context, step)
        metrics: dict[str, int | float] = {"num-examples": 0}
        if rows is not None and PARAMETERS in arrays:
            agreement = Agreement.from_bytes(arrays[AGREEMENT].data)
            metrics = scores(agreement, arrays[PARAMETERS].data, *rows)
        return Message(RecordDict({METRICS: MetricRecord(metrics)}), reply_to=message)

    return app


def scores(agreement: Agreement, parameters: bytes, X: Any, y: Any) -> dict[str, int | float]:
    """How good parameters are on rows: accuracy, or mean squared error."""
    predicted, y = agreement.predict(parameters, X), np.asarray(y)
    if isinstance(agreement._template, ContinualClassifier):
        return {"num-examples": len(y), "accuracy": float(np.mean(predicted == y))}
    return {"num-examples": len(y), "mse": float(np.mean((predicted - y) ** 2))}


def client_name(context: Any) -> str:
    """The name in a node's configuration."""
    for key in ("client", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    raise ValueError(
        "a client needs a name that stays the same from run to run: start the node with --node-config 'client=\"north\"', or "
        "give client_app a function name(context)"
    )


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Gives up after some time. Only the main thread of a process can be interrupted; elsewhere there is no limit."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the client's rows were not there after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
