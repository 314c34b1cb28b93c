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
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.multiclass import unique_labels

from . import _core, _inputs
from ._classifier import ContinualClassifier, coded
from ._labels import Classes
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


class Agreement:
    """What clients and server hold in common before the first step: loss, columns, basis, classes.

    Parameters
    ----------
    estimator : ContinualRegressor or ContinualClassifier
        Unfitted; its parameters are those of the joint model. Tasks are weighed by samples, or all the same.
    features : int or list of str
        How many columns there are, or their names; then tables of clients must have these.
    targets : list of str, optional
        Names of what is predicted; one target "y" by default.
    classes : list, optional
        All classes there will ever be: clients see some of them each.
    rows : table, optional
        Rows all may see, from which a basis with ranges or centres ("rbf", "spline", …) takes them.
    clip : float, optional
        The longest features of a row after the basis: longer ones are scaled down, by clients, by the model when it predicts, and in
        private uploads. Without it a model of private uploads predicts for rows it was never shown the like of.
    """

    _template: Any

    def __init__(
        self,
        estimator: ContinualRegressor | ContinualClassifier,
        features: int | Sequence[str],
        targets: Sequence[str] | None = None,
        classes: Iterable[Any] | None = None,
        rows: Any = None,
        clip: float | None = None,
    ) -> None:
        template: Any = clone(estimator)
        if isinstance(features, int | np.integer):
            template.n_features_in_ = int(features)
        else:
            names = [str(name) for name in features]
            template.n_features_in_ = len(names)
            template.feature_names_in_ = np.array(names, dtype=object)
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
        clip_y: float,
        account: PrivacyAccount | None,
        clip_x: float | None = None,
    ) -> Private:
        """What `client` uploads for the rows of one step, with differential privacy: AdaSSP, see docs/privacy.md.

        For any two tables that differ by one row, no outcome is likelier than `exp(epsilon)` times, except for `delta`. Features (after
        the basis) are scaled down to a norm of `clip_x`, by default the agreement's `clip`, and targets to `clip_y`; both must come from what is known of the columns, never
        from the rows. `account`, a `PrivacyAccount`, adds up what was given away and refuses to pass its total; with a path it does so
        over restarts, and `None` records nothing. Every table of the right shape gives an update: values that are not finite or
        that the basis cannot map are replaced, for an error would show the row that has them. Squared loss only.
        """
        if isinstance(self._template, ContinualClassifier):
            raise TypeError("noisy counts of classes do not add up; private updates are for numbers")
        if clip_x is None:
            clip_x = self.clip
        if clip_x is None or (self.clip is not None and clip_x != self.clip):
            raise ValueError(
                "clip_x is the agreement's clip, so that the model predicts for rows scaled down as these are: Agreement(…, clip=1.0); "
                f"it is {self.clip} there and {clip_x} here"
            )
        # Before any check of values: an error would show the row.
        y = np.nan_to_num(np.asarray(y, dtype=np.float64), nan=0.0, posinf=clip_y, neginf=-clip_y)
        X, y = self._rows(X, y)
        sent = self._core.summarize_private(
            str(client), step, X, y, (clip_x, clip_y), (float(epsilon), float(delta)), account
        )
        update, samples, (xx, xy, yy), clipped = sent
        if clipped > 0.1:
            warnings.warn(
                f"about {clipped:.0%} of the rows are longer than clip_x or clip_y and were scaled down: the fit is not that of these "
                "rows. Scale the columns by ranges you know so that they fit, or raise the clips",
                stacklevel=2,
            )
        return Private(update, samples, (xx, xy, yy), float(epsilon), float(delta), clipped)

    def summary(self, X: Any, y: Any) -> _core.Summary:
        """The summary of rows under this agreement, for those who add summaries themselves. Squared and gaussian loss only."""
        return self._core.summary(*self._rows(X, y))

    def update(self, client: object, step: int, summary: _core.Summary) -> bytes:
        """The upload that stands for a summary made elsewhere under this agreement."""
        return self._core.update(str(client), step, summary)

    def calibrate(self, request: bytes, client: object, step: int, X: Any, y: Any) -> bytes:
        """What `client` answers in the second round (`Server.calibration_request`), as bytes: how well probabilities fit its rows.

        X and y are those of the step it has sent; each row is left out of the joint model before it is scored.
        """
        return self._core.calibrate(bytes(request), str(client), step, *self._rows(X, y))

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

    def accept_calibration(self, answer: bytes) -> None:
        """Accepts what a client answered. Raises `Refused`; the server is then unchanged. `model` and `commit` use it."""
        self._core.accept_calibration(bytes(answer))

    def forgetting(self) -> list[Lost]:
        """What every step of every client has lost under the joint model, or a bound on that."""
        return [Lost(*line) for line in self._core.report()]
