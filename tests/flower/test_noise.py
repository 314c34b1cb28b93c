"""Masks and noise together: one sum with the noise of all who stayed, and no round between clients that add other noise."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from nodes import Nodes
from pmfcl import ContinualClassifier, ContinualRegressor
from pmfcl.federated import Agreement, PrivacyAccount, SharedNoise
from pmfcl.flower import Secure, SecureStrategy, client_app
from pmfcl.flower.records import ARRAYS, CONFIG, PAYLOAD, packed

CLIENTS = 6
NOISE = SharedNoise(2.0, 1e-6, clip_y=1.0, colluding=1)
KINDS = np.array(["cat", "dog", "eel"])
CENTRES = np.array([[0.4, 0.0], [-0.2, 0.35], [-0.2, -0.35]])


def numbers(context, step):
    draw = np.random.default_rng([context.node_config["partition-id"], step])
    X = draw.uniform(-0.6, 0.6, size=(2000, 2))
    return X, X @ [0.5, -0.3] + 0.1


def kinds(context, step):
    draw = np.random.default_rng([context.node_config["partition-id"], step])
    labels = draw.integers(3, size=1500)
    return CENTRES[labels] + 0.2 * draw.normal(size=(1500, 2)), KINDS[labels]


def regression():
    return Agreement(ContinualRegressor(ridge=0.0), 2, clip=1.0)


class Each(Nodes):
    """Every node has settings of its own; some answer no more from an exchange on."""

    def __init__(self, load, settings, lost=None):
        super().__init__(None, [{"partition-id": client} for client in range(CLIENTS)])
        self.apps = [client_app(load, secure=settings(client)) for client in range(CLIENTS)]
        self.lost = lost or {}

    def push_messages(self, messages):
        for message in messages:
            client = message.metadata.dst_node_id - 11
            if self.lost.get(client) == message.content[CONFIG].get("secure"):
                continue
            self.app = self.apps[client]
            yield from super().push_messages([message])


def secure(noise, **options):
    """Settings with an account that lasts for the test."""
    account = None if noise is None else PrivacyAccount(100.0, 1e-6, None)
    return Secure(noise=noise, account=account, **options)


def run(grid, path, agreement, noise, share=2 / 3):
    strategy = SecureStrategy(agreement, path, wait=0.0, share=share, noise=noise)
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    return strategy


@pytest.mark.parametrize("lost", [{}, {0: "shares"}, {1: "masked", 2: "unmask"}])
def test_a_noisy_sum_fits_whoever_drops_out_and_the_ledger_is_charged(tmp_path, lost):
    accounts = [PrivacyAccount(2.5, 1e-6, tmp_path / f"{client}.ledger") for client in range(CLIENTS)]
    grid = Each(numbers, lambda client: Secure(noise=NOISE, account=accounts[client]), lost)
    done = run(grid, tmp_path / "joint.pmf", regression(), NOISE)
    (held,) = done.server.held()
    stayed = CLIENTS - sum(turn in ("shares", "masked") for turn in lost.values())
    assert held.samples != 2000 * stayed  # rows are counted with noise
    assert abs(held.samples - 2000 * stayed) < 400
    x = np.array([[0.2, 0.2], [-0.4, 0.3]])
    assert np.abs(done.server.model().predict(x) - (x @ [0.5, -0.3] + 0.1)).max() < 0.05
    for client, account in enumerate(accounts):
        masked = lost.get(client) not in ("shares", "masked")
        assert account.releases == masked, client
    # The next step would pass the total: nobody sends, and nothing is filed.
    done.first_step = 1
    done.start(Each(numbers, lambda client: Secure(noise=NOISE, account=accounts[client])), done.arrays(), num_rounds=1)
    assert len(done.server.held()) == 1


def test_classes_under_masks_and_noise(tmp_path):
    agreement = Agreement(ContinualClassifier(), 2, classes=KINDS, clip=1.0)
    noise = SharedNoise(1.0, 1e-6)
    done = run(Each(kinds, lambda client: secure(noise)), tmp_path / "joint.pmf", agreement, noise)
    draw = np.random.default_rng(99)
    labels = draw.integers(3, size=1000)
    X = CENTRES[labels] + 0.2 * draw.normal(size=(1000, 2))
    assert np.mean(done.server.model().predict(X) == KINDS[labels]) > 0.85


@pytest.mark.parametrize(
    "theirs", [None, SharedNoise(50.0, 1e-6, clip_y=1.0, colluding=1), SharedNoise(2.0, 1e-6, clip_y=1.0)]
)
def test_a_server_that_has_others_add_less_noise_has_no_round(tmp_path, theirs):
    """The victim keeps to its own; with the others it shares no keys, and alone it is no cohort."""
    grid = Each(numbers, lambda client: secure(NOISE if client == 0 else theirs))
    done = run(grid, tmp_path / "joint.pmf", regression(), NOISE)
    assert done.server.held() == []
    done = run(Each(numbers, lambda client: secure(NOISE)), tmp_path / "other.pmf", regression(), theirs)
    assert done.server.held() == []


def test_noise_needs_an_account_and_no_tables():
    with pytest.raises(ValueError, match=r"account=PrivacyAccount\(epsilon, delta, path\)"):
        Secure(noise=NOISE)
    with pytest.raises(ValueError, match="tables of how well probabilities fit have no noise"):
        secure(NOISE, calibrate=True)


def test_a_server_that_asks_again_within_a_round_spends_nothing(tmp_path):
    """Letters that do not open and questions asked twice drained the account, though nothing was sent."""
    accounts = [PrivacyAccount(100.0, 1e-6, tmp_path / f"{client}.ledger") for client in range(CLIENTS)]
    grid = Each(numbers, lambda client: Secure(noise=NOISE, account=accounts[client]))
    honest, seen = grid.push_messages, []

    def push(messages):
        for message in messages:
            if message.content[CONFIG].get("secure") == "masked" and message.metadata.dst_node_id == 11:
                payload = message.content[ARRAYS][PAYLOAD].data
                arrays = {name: message.content[ARRAYS][name] for name in message.content[ARRAYS]}
                for false in (payload[:-1] + b"x", payload[: len(payload) // 2], b""):
                    content = RecordDict(
                        {ARRAYS: ArrayRecord({**arrays, PAYLOAD: packed(false)}), CONFIG: message.content[CONFIG]}
                    )
                    asked = Message(content, 11, message.metadata.message_type, group_id="1")
                    seen.extend(grid.pull_messages(list(honest([asked]))))
                yield from honest([message])
                content = RecordDict({ARRAYS: message.content[ARRAYS], CONFIG: message.content[CONFIG]})
                asked = Message(content, 11, message.metadata.message_type, group_id="1")
                seen.extend(grid.pull_messages(list(honest([asked]))))
            else:
                yield from honest([message])

    grid.push_messages = push
    done = run(grid, tmp_path / "joint.pmf", regression(), NOISE)
    assert len(seen) == 4 and all(reply.has_error() for reply in seen)
    assert len(done.server.held()) == 1
    assert [account.releases for account in accounts] == [1] * CLIENTS


def test_an_account_in_the_model_file_of_the_client(tmp_path):
    """The ledger is next to the client's own model, which is learned on meanwhile, and a restart forgets none of it."""
    models = []
    for client in range(CLIENTS):
        path = tmp_path / f"{client}.pmf"
        X, y = numbers(type("Context", (), {"node_config": {"partition-id": client}}), 0)
        models.append(ContinualRegressor().partial_fit(X, y, task="first"))
        models[-1].save(path)
    accounts = [PrivacyAccount(2.5, 1e-6, tmp_path / f"{client}.pmf") for client in range(CLIENTS)]
    grid = Each(numbers, lambda client: Secure(noise=NOISE, account=accounts[client]))
    assert len(run(grid, tmp_path / "joint.pmf", regression(), NOISE).server.held()) == 1
    for client, model in enumerate(models):
        X, y = numbers(type("Context", (), {"node_config": {"partition-id": client}}), 1)
        model.partial_fit(X, y, task="second").save(tmp_path / f"{client}.pmf")
    accounts.clear()
    again = [PrivacyAccount(2.5, 1e-6, tmp_path / f"{client}.pmf") for client in range(CLIENTS)]
    assert [account.releases for account in again] == [1] * CLIENTS
    grid = Each(numbers, lambda client: Secure(noise=NOISE, account=again[client]))
    strategy = SecureStrategy(regression(), tmp_path / "other.pmf", wait=0.0, share=2 / 3, noise=NOISE)
    strategy.first_step = 1
    strategy.start(grid, strategy.arrays(), num_rounds=1)
    assert strategy.server.held() == []
