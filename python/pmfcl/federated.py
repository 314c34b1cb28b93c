"""Many clients, one model: rows stay with the clients, summaries of them are added up.

One round gives the model that pooling all rows of all clients would give. Nothing here sends anything: `Agreement.summarize`
makes the bytes a client uploads, `Server.accept` reads them, over any transport (`pmfcl.flower` is one).

>>> from pmfcl import ContinualRegressor
>>> from pmfcl.federated import Agreement, Server
>>> agreement = Agreement(ContinualRegressor(ridge=0.0), features=1)
>>> server = Server(agreement)
>>> for client, X, y in [("north", [[1.0], [2.0]], [2.0, 4.0]), ("south", [[3.0], [4.0]], [6.0, 8.0])]:
...     receipt = server.accept(agreement.summarize(client, 0, X, y))
>>> server.model().predict([[5.0]]).round(6)
array([10.])
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.multiclass import unique_labels

from . import _core, _inputs
from ._classifier import ContinualClassifier, coded
from ._columns import Columns, Origin
from ._labels import Classes, name_of
from ._regressor import ContinualRegressor

Refused = _core.RefusedError
PrivacyAccount = _core.PrivacyAccount

# Most bytes of an upload, unless said otherwise.
MOST_BYTES = 256 << 20


def public_key(secret: bytes) -> bytes:
    """The public half of 32 secret bytes, for other clients to know a client by in signed secure aggregation."""
    return _core.SecAggClient.public(bytes(secret))


class Receipt(NamedTuple):
    """An upload that was accepted: `new` is False where the server had it already, number for number."""

    client: str
    step: int
    samples: float
    new: bool


class Held(NamedTuple):
    """One upload in the server's register."""

    client: str
    step: int
    samples: float
    nbytes: int


class Lost(NamedTuple):
    """What a client's step has lost under the joint model; None where only a bound is known."""

    client: str
    step: int
    samples: float
    forgetting: float | None
    bound: float | None


class Private(NamedTuple):
    """A private upload: its bytes, rows with noise, standard deviations of the noise on XᵀX, XᵀY and Σy², what it cost, and which share
    of the rows the clips have scaled down, with noise too."""

    update: bytes
    samples: float
    sigma: tuple[float, float, float]
    epsilon: float
    delta: float
    clipped: float


@dataclass(frozen=True)
class SharedNoise:
    """Noise for masked sums, of which every client adds a share: the sum has differential privacy, and nobody sees less noise than all of it.

    The same on all clients and the server (`Secure(noise=…)`, `SecureStrategy(noise=…)` of `pmfcl.flower`): a round with other noise is
    another round. The noise is made for a sum over the fewest clients a round may be opened over, its threshold, of which `colluding`
    may tell others theirs; whoever drops out, the guarantee holds. The agreement must have a `clip`.

    Parameters
    ----------
    epsilon, delta : float
        For any two tables of a client that differ by one row, no sum is likelier than `exp(epsilon)` times, except for `delta`.
    clip_y : float, optional
        The largest size of numbers to be predicted, from what is known of them; none for classes.
    colluding : int
        Most clients that may work together with the server.
    """

    epsilon: float
    delta: float
    clip_y: float | None = None
    colluding: int = 0

    def of(self, agreement: "Agreement", threshold: int) -> _core.SharedNoise:
        """What each client adds in rounds of a threshold."""
        return agreement._core.shared_noise(
            agreement._clips(None, self.clip_y), (float(self.epsilon), float(self.delta)), (threshold, self.colluding)
        )

    def guarantee(self, agreement: "Agreement", threshold: int, clients: int) -> float:
        """Epsilon of a sum over so many clients: less than agreed where more stay than must."""
        return self.of(agreement, threshold).guarantee(max(1, clients - self.colluding))


# What a column holds: "number", "date", or the list of its categories.
Kind = str | Sequence[str]


def inputs_of(features: Mapping[str, Kind], gaps: bool) -> list[Origin]:
    """The inputs of columns, agreed on before any row is seen; with `gaps` each column has one that says where it has none."""
    inputs: list[Origin] = []
    for name, holds in features.items():
        if isinstance(holds, str):
            if holds not in ("number", "date"):
                raise ValueError(f"column '{name}': '{holds}' is none of number, date, or a list of categories")
            inputs.append((str(name), holds, None))
        else:
            categories = [name_of(category) for category in holds]
            if len(set(categories)) != len(categories) or not categories:
                raise ValueError(f"column '{name}': its categories must be a list of different ones, not {categories}")
            inputs.extend((str(name), "category", category) for category in categories)
    if gaps:
        inputs.extend((str(name), "missing", None) for name in features)
    return inputs


class Agreement:
    """What clients and server hold in common before the first step: loss, columns, basis, classes.

    Parameters
    ----------
    estimator : ContinualRegressor or ContinualClassifier
        Unfitted; its parameters are those of the joint model. Tasks are weighed by samples, or all the same.
    features : int, list of str or dict
        How many columns there are, or their names; then tables of clients must have these. A dict says what each column holds:
        "number", "date", or the list of its categories.
    targets : list of str, optional
        Names of what is predicted; one target "y" by default.
    classes : list, optional
        All classes there will ever be: clients see some of them each.
    rows : table, optional
        Rows all may see, from which a basis with ranges or centres ("rbf", "spline", …) takes them.
    clip : float, optional
        The longest features of a row after the basis: longer ones are scaled down, by clients, by the model when it predicts, and in
        private uploads. Without it a model of private uploads predicts for rows it was never shown the like of.

    Where the estimator learns gaps (`missing="mean"` or `"indicator"`), every column may miss values at every client. Categories and
    columns that nobody foresaw are added by `extended`.
    """

    _template: Any

    def __init__(
        self,
        estimator: ContinualRegressor | ContinualClassifier,
        features: int | Sequence[str] | Mapping[str, Kind],
        targets: Sequence[str] | None = None,
        classes: Iterable[Any] | None = None,
        rows: Any = None,
        clip: float | None = None,
    ) -> None:
        template: Any = clone(estimator)
        gaps = _inputs.learns_gaps(template)
        if isinstance(features, int | np.integer):
            template.n_features_in_ = int(features)
            if gaps:
                template._columns = Columns(
                    inputs_of({name: "number" for name in template._feature_names()}, gaps), gaps
                )
        else:
            names = [str(name) for name in features]
            template.n_features_in_ = len(names)
            template.feature_names_in_ = np.array(names, dtype=object)
            held: Mapping[str, Kind] = features if isinstance(features, Mapping) else dict.fromkeys(names, "number")
            if gaps or isinstance(features, Mapping):
                template._columns = Columns(inputs_of(held, gaps), gaps)
        if isinstance(template, ContinualClassifier):
            if classes is None:
                raise ValueError("name all classes: clients see some of them each")
            known = Classes()
            names = known.add(unique_labels(np.asarray(list(classes))))
            target = template._target_names(None if targets is None else list(targets), 1)
            model = template._new_model(target, names, memory="ledger")
            template._classes = known
        else:
            if classes is not None:
                raise ValueError("a regressor has no classes; ContinualClassifier does")
            count = 1 if targets is None else len(targets)
            names = template._target_names(None if targets is None else list(targets), count)
            model = template._new_model(names, memory="ledger")
            template._flat = count == 1
        if rows is not None:
            rows = _inputs.rows(template, rows, reset=False)
        self._core = _core.Agreement(model, rows, None if clip is None else float(clip))
        self._template = template

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` gave, at another place."""
        agreement = cls.__new__(cls)
        agreement._core = _core.Agreement.from_bytes(bytes(data))
        model = agreement._core.model()
        kind: Any = ContinualClassifier if model.problem()["predicts_classes"] else ContinualRegressor
        agreement._template = kind._of(model, "the agreement")
        del agreement._template._model
        return agreement

    def extended(self, features: Mapping[str, Kind]) -> "Agreement":
        """The agreement that goes on with this one: further columns, and further categories of columns it has.

        They have been 0 in all rows so far: steps that were sent under this agreement hold under the next, and a server that was
        told (`Server.extend`) accepts both.

        >>> from pmfcl import ContinualRegressor
        >>> first = Agreement(ContinualRegressor(), {"age": "number", "town": ["Bern"]})
        >>> first.extended({"town": ["Chur"], "wind": "number"}).width - first.width
        2
        """
        template = clone(self._template)
        vars(template).update({k: v for k, v in vars(self._template).items() if k not in vars(template)})
        gaps = _inputs.learns_gaps(template)
        known = vars(self._template).get("_columns")
        if known is None:
            known = Columns([(name, "number", None) for name in template._feature_names()])
        names = known.column_names()
        for name, holds in features.items():
            if name in names and (isinstance(holds, str) or name not in known.known):
                raise ValueError(
                    f"the agreement has a column '{name}' already; give a list of new categories of a column of text"
                )
        new = [
            origin
            for origin in inputs_of(features, gaps)
            if not (origin[0] in names and (origin[1] == "missing" or origin in known.origins))
        ]
        template._columns = Columns(known.origins + new, gaps)
        every = template._columns.column_names()
        template.n_features_in_, template.feature_names_in_ = len(every), np.array(every, dtype=object)
        agreement = type(self).__new__(type(self))
        agreement._core, agreement._template = self._core.extended(new), template
        return agreement

    def to_bytes(self) -> bytes:
        """As bytes, to be sent to clients."""
        return self._core.to_bytes()

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return (type(self).from_bytes, (self.to_bytes(),))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agreement) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything a summary depends on: loss, basis, columns, classes."""
        return self._core.digest

    @property
    def identity(self) -> bytes:
        """SHA-256 of `digest` and the names of all columns: what a client pins, and what rounds of secure aggregation are bound to.

        Under two agreements of one digest and other names, clients would summarize other columns of their tables.
        """
        names = getattr(self._template, "feature_names_in_", [])
        told = [self._template.n_features_in_, [str(name) for name in names], self._core.model().facts()["targets"]]
        if vars(self._template).get("_columns") is not None:
            told.append(self._template._columns.origins)
        return hashlib.sha256(b"pmfcl agreement and columns" + self.digest + json.dumps(told).encode()).digest()

    @property
    def clip(self) -> float | None:
        """The longest features of a row, or None."""
        return self._core.clip

    @property
    def width(self) -> int:
        """Design columns, the intercept included."""
        return self._core.width

    @property
    def n_targets(self) -> int:
        """Columns of the targets of a summary: targets, or classes."""
        return self._core.n_targets

    def most_bytes(self, form: str = "exact", numbers: str = "double") -> int:
        """Most bytes an update can take; known before any row is looked at."""
        return self._core.most_bytes(form, numbers)

    def summarize(
        self, client: object, step: int, X: Any, y: Any, *, form: str = "exact", numbers: str = "double"
    ) -> bytes:
        """What `client` uploads for the rows of one step, as bytes.

        `form="diagonal"` sends 2m numbers instead of m²/2: the bound on forgetting stays, the model is no longer that of pooled
        rows. `numbers="single"` halves the bytes and keeps six digits.
        """
        return self._core.summarize(str(client), step, *self._rows(X, y), form, numbers)

    def _rows(self, X: Any, y: Any) -> tuple[NDArray[Any], _inputs.Target]:
        """Rows and targets as the core takes them."""
        X = _inputs.rows(self._template, X, reset=False)
        if isinstance(self._template, ContinualRegressor):
            return X, self._template._targets(y, X, None)[0]
        return X, coded(self._template._labels(y, X, None)[0], Classes())

    def summarize_private(
        self,
        client: object,
        step: int,
        X: Any,
        y: Any,
        *,
        epsilon: float,
        delta: float,
        account: PrivacyAccount | None,
        clip_y: float | None = None,
        clip_x: float | None = None,
    ) -> Private:
        """What `client` uploads for the rows of one step, with differential privacy: see docs/privacy.md.

        For any two tables that differ by one row, no outcome is likelier than `exp(epsilon)` times, except for `delta`. Features (after
        the basis) are scaled down to a norm of `clip_x`, by default the agreement's `clip`, and numbers to be predicted to `clip_y`
        (classes have no length); both must come from what is known of the columns, never from the rows. `account`, a `PrivacyAccount`, adds up what was given away and refuses to pass its total; with a path it does so
        over restarts, and `None` records nothing. Every table of the right shape gives an update: values that are not finite or
        that the basis cannot map are replaced, and rows of no agreed class are left out, for an error would show them. Squared and
        gaussian loss only.
        """
        clips = self._clips(clip_x, clip_y)
        X, target = self._private_rows(X, y, clips[1])
        sent = self._core.summarize_private(
            str(client), step, X, target, clips, (float(epsilon), float(delta)), account
        )
        update, samples, (xx, xy, yy), clipped = sent
        if clipped > 0.1:
            warnings.warn(
                f"about {clipped:.0%} of the rows are longer than clip_x or clip_y and were scaled down: the fit is not that of these "
                "rows. Scale the columns by ranges you know so that they fit, or raise the clips",
                stacklevel=2,
            )
        return Private(update, samples, (xx, xy, yy), float(epsilon), float(delta), clipped)

    def _clips(self, clip_x: float | None, clip_y: float | None) -> tuple[float, float]:
        """The longest features and targets of private sums."""
        if clip_x is None:
            clip_x = self.clip
        if clip_x is None or (self.clip is not None and clip_x != self.clip):
            raise ValueError(
                "clip_x is the agreement's clip, so that the model predicts for rows scaled down as these are: Agreement(…, clip=1.0); "
                f"it is {self.clip} there and {clip_x} here"
            )
        if isinstance(self._template, ContinualClassifier):
            if clip_y is not None:
                raise ValueError(f"clip_y is {clip_y}: classes have no length; leave it out")
            return float(clip_x), 1.0
        if clip_y is None:
            raise ValueError("clip_y is missing: the largest size of what is predicted, from what is known of it")
        return float(clip_x), float(clip_y)

    def _private_rows(self, X: Any, y: Any, clip_y: float) -> tuple[NDArray[Any], _inputs.Target]:
        """Rows and targets without a check of values: an error would show the row."""
        if isinstance(self._template, ContinualRegressor):
            return self._rows(X, np.nan_to_num(np.asarray(y, dtype=np.float64), nan=0.0, posinf=clip_y, neginf=-clip_y))
        X = _inputs.rows(self._template, X, reset=False)
        names, codes = np.unique([name_of(label) for label in np.asarray(y).reshape(-1)], return_inverse=True)
        return X, (np.ascontiguousarray(codes, dtype=np.uint32), names.tolist())

    def summary(self, X: Any, y: Any) -> _core.Summary:
        """The summary of rows under this agreement, for those who add summaries themselves. Squared and gaussian loss only."""
        return self._core.summary(*self._rows(X, y))

    def noisy(self, X: Any, y: Any, noise: SharedNoise, threshold: int) -> _core.NoisySums:
        """The sums of rows with a client's share of the noise, to be masked. Not to be sent otherwise: a share is a fraction of the noise."""
        X, target = self._private_rows(X, y, self._clips(None, noise.clip_y)[1])
        return self._core.noisy(X, target, noise.of(self, threshold))

    def update(self, client: object, step: int, summary: _core.Summary) -> bytes:
        """The upload that stands for a summary made elsewhere under this agreement."""
        return self._core.update(str(client), step, summary)

    def calibrate(self, request: bytes, client: object, step: int, X: Any, y: Any) -> bytes:
        """What `client` answers in the second round (`Server.calibration_request`), as bytes: how well probabilities fit its rows.

        X and y are those of the step it has sent; each row is left out of the joint model before it is scored.
        """
        return self._core.calibrate(bytes(request), str(client), step, *self._rows(X, y))

    def calibration_numbers(self, request: bytes, X: Any, y: Any) -> list[float]:
        """What `calibrate` measures, as numbers that add up over clients: for those who add them up themselves, masked or not."""
        return self._core.calibration_numbers(bytes(request), *self._rows(X, y))

    def calibration_of_sum(
        self, request: bytes, cohort: object, step: int, numbers: Iterable[float], samples: float
    ) -> bytes:
        """The answer of a cohort, from the sum of its clients' `calibration_numbers`, scaled to the samples of its step."""
        return self._core.calibration_of_sum(
            bytes(request), str(cohort), step, [float(v) for v in numbers], float(samples)
        )

    def predict(self, sent: bytes, X: Any) -> NDArray[Any]:
        """Numbers or classes of rows under parameters the server sent (`Server.broadcast`)."""
        out = self._core.answer(bytes(sent), _inputs.rows(self._template, X, reset=False))
        if isinstance(self._template, ContinualRegressor):
            return np.asarray(out[:, 0] if self._template._flat else out)
        labels: NDArray[Any] = self._template._classes.inside(self._core.model().classes())
        return np.asarray(labels[out.argmax(axis=1)])

    def _estimator(self, model: _core.Model) -> Any:
        """The estimator of a model of this agreement."""
        estimator = type(self._template)()
        estimator._take(model)
        if isinstance(estimator, ContinualClassifier):
            # The caller's own labels, not those guessed from a file.
            estimator._classes.by_name = dict(self._template._classes.by_name)
        return estimator


class Server:
    """Holds what clients have sent, by client and step, and makes the model from it.

    Parameters
    ----------
    agreement : Agreement
    path : path, optional
        A model file to keep everything in. If it is there, the server goes on where it was; `commit` writes it.
    least_samples, most_samples : float
        Fewest and most samples of an upload. More than there are columns keeps single rows from showing.
    most_bytes : int
        Most bytes of an upload.
    clients : list of str, optional
        Who may send; anyone by default.
    most_share : float, optional
        Most of all weight a client may have; off by default.
    weighted : bool
        Whether samples may carry weights, so that fewer than the rank can be right.
    largest_feature, largest_target : float, optional
        Agreed ranges: the largest size of a feature after the basis and of a target. Sums that rows within them cannot have are
        refused, so a client cannot own the fit by scaling its rows; `most_share` bounds what it can do by their number.
    most_updates, most_total_bytes : int
        Most uploads in all, and most bytes of them.
    """

    def __init__(
        self,
        agreement: Agreement,
        path: str | os.PathLike[str] | None = None,
        *,
        least_samples: float = 1.0,
        most_samples: float = 1e12,
        most_bytes: int = MOST_BYTES,
        clients: Iterable[object] | None = None,
        most_share: float | None = None,
        weighted: bool = False,
        largest_feature: float | None = None,
        largest_target: float | None = None,
        most_updates: int = 1 << 20,
        most_total_bytes: int = 64 << 30,
    ) -> None:
        rules = {
            "least_samples": float(least_samples),
            "most_samples": float(most_samples),
            "most_bytes": int(most_bytes),
            "roster": None if clients is None else [str(client) for client in clients],
            "most_share": most_share,
            "weighted": bool(weighted),
            "largest_feature": largest_feature,
            "largest_target": largest_target,
            "most_updates": int(most_updates),
            "most_total_bytes": int(most_total_bytes),
        }
        self.agreement = agreement
        self._core = _core.FederatedServer(agreement._core, path, rules)

    def extend(self, agreement: Agreement) -> None:
        """Goes on under an agreement with more columns or categories (`Agreement.extended`), which clients are then sent.

        Everything accepted stays: it has been 0 there. Steps that clients have summarized under the earlier agreement are still
        accepted. Raises ValueError where the agreement is another one; the server is then unchanged.
        """
        self._core.extend(agreement._core)
        self.agreement = agreement

    def accept(self, update: bytes, *, sender: str | None = None, last_step: int | None = None) -> Receipt:
        """Accepts an upload. Raises `Refused`, with the client's name as `client`; the server is then unchanged.

        `sender` is the client a transport knows it comes from: nobody sends for another. `last_step` is the last step that was
        asked for.
        """
        return Receipt(*self._core.accept(bytes(update), sender, last_step))

    def client_of(self, update: bytes) -> str:
        """The client an upload says it is of. Raises `Refused` where it is none."""
        return self._core.client_of(bytes(update))

    @property
    def nodes(self) -> dict[str, int]:
        """The node of a transport each client's uploads come from; set, it is written with the next `commit`."""
        return self._core.nodes()

    @nodes.setter
    def nodes(self, nodes: Mapping[str, int]) -> None:
        self._core.set_nodes({str(client): int(node) for client, node in nodes.items()})

    def held(self) -> list[Held]:
        """Everything accepted, by client and step."""
        return [Held(*line) for line in self._core.updates()]

    def remove(self, client: object, step: int | None = None) -> int:
        """Removes a client, or one of its steps, as if it had never been there; returns how many uploads were removed."""
        if step is None:
            return self._core.remove_client(str(client))
        return int(self._core.remove(str(client), step))

    @property
    def is_exact(self) -> bool:
        """Whether the model is that of pooled rows: no upload was a diagonal bound."""
        return self._core.is_exact

    def model(self) -> Any:
        """The joint model, an estimator with one task "client/step" for each upload."""
        return self.agreement._estimator(self._core.model())

    def commit(self) -> Any:
        """Writes everything to the file in one transaction, and returns the joint model.

        Where that fails (a full disk, a reader that does not end), the file is unchanged and not locked, and `commit` can be
        called again. Where another process has changed the file since, `pmfcl.ModelChangedError` names the tasks: make the
        server again and let it accept what it does not hold.
        """
        return self.agreement._estimator(self._core.commit())

    def broadcast(self) -> bytes:
        """The parameters as bytes, to be sent to all; `Agreement.predict` uses them."""
        return self._core.broadcast()

    def calibration_request(self) -> bytes:
        """Bytes for all clients, who answer with `Agreement.calibrate`: a second round that measures probabilities ("gaussian").

        Without it probabilities are those at temperature 1. It shows clients the sums over all rows. Answers after further uploads
        are refused: ask again.
        """
        return self._core.calibration_request()

    def accept_calibration(self, answer: bytes, *, sender: str | None = None) -> None:
        """Accepts what a client answered. Raises `Refused`; the server is then unchanged. `model` and `commit` use it.

        `sender` is the client a transport knows it comes from: nobody answers for another.
        """
        self._core.accept_calibration(bytes(answer), sender)

    def forgetting(self) -> list[Lost]:
        """What every step of every client has lost under the joint model, or a bound on that."""
        return [Lost(*line) for line in self._core.report()]
