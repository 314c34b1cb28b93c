"""Clients that send summaries, without a network: the model is that of pooled rows, and what cannot be is refused."""

import contextlib
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, load
from pmfcl.federated import Agreement, PrivacyAccount, Refused, Server, SharedNoise
from sklearn.linear_model import Ridge

RIDGE = 1e-3


def rows(seed, n=40, d=4):
    """Rows of a client with a mind of its own."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, d))
    return X, X @ np.arange(1.0, d + 1) + 0.1 * draw.normal(size=n) + seed


def stream(absent=0.2):
    """Uploads of six clients over four steps, some absent, one late."""
    draw = np.random.default_rng(7)
    for step in range(4):
        for client in range(6):
            if draw.uniform() >= absent and not (client == 5 and step < 2):
                yield f"c{client}", step, *rows(10 * step + client)


@pytest.mark.parametrize("seed", range(5))
def test_the_model_is_that_of_pooled_rows_in_any_order(seed):
    agreement = Agreement(ContinualRegressor(ridge=RIDGE), 4)
    server = Server(agreement)
    sent = list(stream())
    assert len(sent) < 22
    for i in np.random.default_rng(seed).permutation(len(sent)):
        client, step, X, y = sent[i]
        receipt = server.accept(agreement.summarize(client, step, X, y))
        assert receipt == (client, step, 40, True)
        assert not server.accept(agreement.summarize(client, step, X, y)).new
    X, y = np.vstack([x for _, _, x, _ in sent]), np.concatenate([y for *_, y in sent])
    pooled = Ridge(alpha=RIDGE * len(y)).fit(X, y)
    joint = server.model()
    np.testing.assert_allclose(joint.predict(X), pooled.predict(X), rtol=0, atol=1e-9 * y.std())
    np.testing.assert_array_equal(agreement.predict(server.broadcast(), X), joint.predict(X))
    assert server.is_exact
    lost = server.forgetting()
    assert [line.client for line in lost] == sorted(line.client for line in lost)
    assert all(line.forgetting >= 0 for line in lost)


def test_a_client_that_is_removed_was_never_there():
    agreement = Agreement(ContinualRegressor(ridge=RIDGE), 4)
    server, without = Server(agreement), Server(agreement)
    for client, step, X, y in stream():
        update = agreement.summarize(client, step, X, y)
        server.accept(update)
        if client != "c2":
            without.accept(update)
    assert server.remove("c2") > 1
    assert server.broadcast() == without.broadcast()
    held = server.held()[0]
    assert server.remove(held.client, held.step) == 1
    assert server.remove(held.client, held.step) == 0


def test_classes_between_clients_that_see_some_of_them():
    draw = np.random.default_rng(3)
    centres = draw.normal(size=(3, 4)) * 3
    labels = np.array(["ant", "bee", "cow"])
    for loss in ("gaussian", "squared", "logistic"):
        agreement = Agreement(ContinualClassifier(loss=loss), 4, classes=labels)
        server, X, y = Server(agreement), [], []
        for client in range(3):
            codes = (client + draw.integers(0, 2, size=50)) % 3
            x = centres[codes] + draw.normal(size=(50, 4))
            server.accept(agreement.summarize(client, 0, x, labels[codes]))
            X, y = [*X, x], [*y, labels[codes]]
        X, y = np.vstack(X), np.concatenate(y)
        joint = server.model()
        if loss != "logistic":
            pooled = ContinualClassifier(loss=loss).fit(X, y)
            np.testing.assert_allclose(joint.decision_function(X), pooled.decision_function(X), atol=1e-9)
        assert joint.score(X, y) > 0.9
        assert list(agreement.predict(server.broadcast(), X)) == list(joint.predict(X))
        with pytest.raises(ValueError, match="dog"):
            agreement.summarize("c", 1, X[:2], ["dog", "ant"])


def test_a_server_goes_on_from_its_file(tmp_path):
    path = tmp_path / "joint.pmf"
    agreement = Agreement(ContinualRegressor(basis="rbf:5", ridge=RIDGE), ["a", "b"], ["sold"], rows=rows(1, d=2)[0])
    agreement = pickle.loads(pickle.dumps(agreement))
    server = Server(agreement, path)
    X, y = rows(2, d=2)
    server.accept(agreement.summarize("north", 0, pd.DataFrame(X, columns=["a", "b"]), y))
    first = server.commit()
    server.accept(agreement.summarize("south", 0, *rows(3, d=2)))  # not committed: it was never there
    with pytest.raises(BlockingIOError):
        Server(agreement, path)
    del server
    again = Server(agreement, path)
    assert [line[:2] for line in again.held()] == [("north", 0)]
    np.testing.assert_array_equal(again.model().predict(X), first.predict(X))
    again.accept(agreement.summarize("south", 0, *rows(3, d=2)))
    joint = again.commit()
    del again
    kept = load(path)
    assert [task["name"] for task in kept.tasks_] == ["north/0", "south/0"]
    np.testing.assert_array_equal(kept.predict(X), joint.predict(X))
    with pytest.raises(ValueError, match="another federation"):
        Server(Agreement(ContinualRegressor(), ["a", "b"], ["sold"]), path)


def test_bad_uploads_are_refused_by_name_and_change_nothing():
    agreement = Agreement(ContinualRegressor(ridge=RIDGE), 4)
    other = Agreement(ContinualRegressor(basis="poly:2"), 4)
    server = Server(agreement, least_samples=10, most_samples=1000, most_bytes=2000, clients=["north", "south"])
    good = agreement.summarize("north", 0, *rows(1))
    server.accept(good)
    before = server.broadcast()
    flipped = bytearray(agreement.summarize("south", 0, *rows(2)))
    flipped[60] ^= 1
    bad = {
        "not an update": b"nonsense" * 20,
        "checksum": bytes(flipped),
        "takes": good * 20,
        "roster": agreement.summarize("east", 0, *rows(2)),
        "at least 10": agreement.summarize("south", 0, *rows(2, n=9)),
        "at most 1000": agreement.summarize("south", 0, *rows(2, n=1001)),
        "another model": other.summarize("south", 0, *rows(2)),
        "already": agreement.summarize("north", 0, *rows(5)),
    }
    for text, upload in bad.items():
        with pytest.raises(Refused, match=text) as refused:
            server.accept(upload)
        named = {"not an update": None, "checksum": None, "takes": None, "already": "north", "roster": "east"}
        assert refused.value.client == named.get(text, "south")
    assert server.broadcast() == before
    X, y = rows(3)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        agreement.summarize("south", 0, X, y)


def test_smaller_uploads_and_what_they_cost():
    agreement = Agreement(ContinualRegressor(ridge=RIDGE), 40)
    X, y = rows(1, n=200, d=40)
    sizes = {}
    for form, numbers in [("exact", "double"), ("exact", "single"), ("diagonal", "double")]:
        update = agreement.summarize("c", 0, X, y, form=form, numbers=numbers)
        assert len(update) <= agreement.most_bytes(form, numbers)
        server = Server(agreement)
        server.accept(update)
        assert server.is_exact == (form == "exact")
        sizes[form, numbers] = len(update)
    assert sizes["exact", "single"] < 0.56 * sizes["exact", "double"]
    assert sizes["diagonal", "double"] < 0.2 * sizes["exact", "double"]
    few = agreement.summarize("c", 0, X[:3], y[:3])  # three rows are three rows, not a triangle
    assert len(few) < 1500


def test_private_uploads_near_the_truth_and_an_account_that_closes():
    draw = np.random.default_rng(5)
    X = draw.uniform(-0.5, 0.5, size=(100_000, 3))
    y = X @ [0.5, -0.3, 0.2] + 0.1
    agreement = Agreement(ContinualRegressor(ridge=0.0), 3)
    account = PrivacyAccount(1.0, 1e-6, None)
    budget = {"epsilon": 0.9, "delta": 1e-6, "clip_x": 1.0, "clip_y": 1.0}
    sent = agreement.summarize_private("c", 0, X, y, **budget, account=account)
    assert (sent.epsilon, sent.delta) == (0.9, 1e-6)
    assert sent.samples != len(y) and abs(sent.samples - len(y)) < 10 * sent.sigma[0]
    server = Server(agreement)
    server.accept(sent.update)
    gap = np.abs(server.model().predict(X) - y).max()
    assert 1e-6 < gap < 0.05  # there is noise, and it is small relative to so many rows
    other = agreement.summarize_private("c", 0, X, y, **budget, account=None)
    assert other.update != sent.update
    with pytest.raises(ValueError, match="1 releases have been made"):
        agreement.summarize_private("c", 1, X, y, **budget, account=account)
    assert account.releases == 1
    with pytest.raises(ValueError, match="epsilon"):
        agreement.summarize_private("c", 1, X, y, **{**budget, "epsilon": 0.0}, account=None)
    assert sent.clipped < 0.1
    with pytest.warns(UserWarning, match="longer than clip_x or clip_y"):
        long = agreement.summarize_private("c", 1, 1000 * X, y, **budget, account=None)
    assert long.clipped > 0.9
    # Whatever a row holds, there is an update: an error would show the row.
    odd = X.copy()
    odd[0], off = [np.nan, np.inf, -1e308], np.where(y > y.max() - 1e-9, np.nan, y)
    server.accept(agreement.summarize_private("c", 2, odd, off, **budget, account=None).update)
    with pytest.raises(ValueError, match="clip_y is missing"):
        agreement.summarize_private("c", 1, X, y, epsilon=1.0, delta=1e-6, clip_x=1.0, account=None)


def test_private_classes_are_told_apart_and_every_row_gives_an_update():
    draw = np.random.default_rng(7)
    names = np.array(["cat", "dog", "eel"])
    labels = draw.integers(3, size=20_000)
    centres = np.array([[0.4, 0.0], [-0.2, 0.35], [-0.2, -0.35]])
    X, y = centres[labels] + 0.2 * draw.normal(size=(len(labels), 2)), names[labels]
    budget = {"epsilon": 1.0, "delta": 1e-6}
    for loss in ("gaussian", "squared"):
        agreement = Agreement(ContinualClassifier(loss=loss), 2, classes=names, clip=1.0)
        server, account = Server(agreement), PrivacyAccount(3.0, 1e-6, None)
        sent = agreement.summarize_private("c", 0, X[1000:], y[1000:], **budget, account=account)
        server.accept(sent.update)
        exact = ContinualClassifier(loss=loss).fit(X[1000:], y[1000:])
        right, best = (np.mean(model.predict(X[:1000]) == y[:1000]) for model in (server.model(), exact))
        assert best > 0.85 and right > best - 0.03, (loss, right, best)
        assert account.releases == 1
        assert sent.samples != 19_000 and abs(sent.samples - 19_000) < 10 * sent.sigma[1]
        # Labels that are no class and values that are none: an error would show the row.
        odd, strange = X[:50].copy(), y[:50].astype(object)
        odd[0], strange[1], strange[2] = np.nan, "unicorn", None
        server.accept(agreement.summarize_private("c", 1, odd, strange, **budget, account=None).update)
        none = agreement.summarize_private("c", 2, X[:1], y[:1], **budget, account=None)
        server.accept(none.update)
        with pytest.raises(ValueError, match="classes have no length"):
            agreement.summarize_private("c", 3, X, y, **budget, clip_y=1.0, account=None)
    logistic = Agreement(ContinualClassifier(loss="logistic"), 2, classes=names, clip=1.0)
    with pytest.raises(ValueError, match="more than a sum"):
        logistic.summarize_private("c", 0, X, y, **budget, account=None)


def test_shared_noise_is_made_for_the_fewest_honest_clients():
    agreement = Agreement(ContinualRegressor(), 2, clip=1.0)
    noise = SharedNoise(1.0, 1e-6, clip_y=1.0, colluding=1)
    assert 0.95 < noise.guarantee(agreement, 4, 4) <= 1.0
    assert noise.guarantee(agreement, 4, 8) < 0.8
    identity = agreement.identity
    assert noise.of(agreement, 4).digest(identity) != noise.of(agreement, 5).digest(identity) != identity
    with pytest.raises(ValueError, match="leaves nobody's noise"):
        noise.of(agreement, 1)
    with pytest.raises(ValueError, match="agreement's clip"):
        noise.of(Agreement(ContinualRegressor(), 2), 4)
    with pytest.raises(ValueError, match="clip_y is missing"):
        SharedNoise(1.0, 1e-6).of(agreement, 4)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((ContinualClassifier(), 4), "classes"),
        ((ContinualRegressor(preference="decay:0.5"), 4), "order"),
        ((ContinualRegressor(basis="rbf:4"), 4), "rows"),
    ],
)
def test_what_is_no_agreement(arguments, text):
    with pytest.raises(ValueError, match=text):
        Agreement(*arguments)


def test_a_privacy_ledger_outlives_the_process(tmp_path):
    path = tmp_path / "privacy.ledger"
    PrivacyAccount(1.0, 1e-6, path).spend(0.9, 1e-6, "clinic/0")
    again = PrivacyAccount(1.0, 1e-6, path)
    assert again.releases == 1
    with pytest.raises(ValueError, match="1 releases have been made"):
        again.spend(0.9, 1e-6)
    with pytest.raises(ValueError, match="begun with a total"):
        PrivacyAccount(2.0, 1e-6, path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_privacy_ledger_in_the_model_file_outlives_models_and_processes(tmp_path):
    path, draw = tmp_path / "clinic.pmf", np.random.default_rng(8)
    X = draw.uniform(-0.5, 0.5, size=(500, 2))
    y = X @ [0.5, -0.3]
    with pytest.raises(FileNotFoundError, match=r"clinic\.pmf"):
        PrivacyAccount(1.0, 1e-6, path)  # a model's name, and no model yet
    model = ContinualRegressor().partial_fit(X, y, task="january")
    model.save(path)
    agreement = Agreement(ContinualRegressor(ridge=0.0), 2, clip=1.0)
    budget = {"epsilon": 0.45, "delta": 1e-6, "clip_y": 1.0}
    account = PrivacyAccount(1.0, 1e-6, path)
    agreement.summarize_private("clinic", 0, X, y, **budget, account=account)
    # The model was read before the release, and is saved after it.
    model.partial_fit(X, y, task="february").save(path)
    agreement.summarize_private("clinic", 1, X, y, **budget, account=account)
    again = load(path)
    assert [task["name"] for task in again.tasks_] == ["january", "february"]
    again.unlearn("january").save(path)
    # Two accounts of one file, both of them older than the last release.
    two = [PrivacyAccount(1.0, 1e-6, path) for _ in range(2)]
    assert [one.releases for one in two] == [2, 2]
    agreement.summarize_private("clinic", 2, X, y, **budget, account=two[0])
    made = 3
    for number in range(3, 9):
        with contextlib.suppress(ValueError):
            agreement.summarize_private("clinic", number, X, y, **budget, account=two[number % 2])
            made += 1
    # No more than one account in memory allows.
    alone, allowed = PrivacyAccount(1.0, 1e-6, None), 0
    with contextlib.suppress(ValueError):
        while True:
            alone.spend(0.45, 1e-6)
            allowed += 1
    assert made == allowed
    code = (
        "import sys; from pmfcl.federated import PrivacyAccount\n"
        "account = PrivacyAccount(1.0, 1e-6, sys.argv[1]); print(account.releases)\n"
        "account.spend(0.45, 1e-6)"
    )
    other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert other.stdout.split() == [str(allowed)]
    assert f"{allowed} releases have been made" in other.stderr
    with pytest.raises(ValueError, match="begun with a total"):
        PrivacyAccount(9.0, 1e-6, path)


def test_a_private_model_predicts_for_rows_clipped_as_it_learned_them():
    draw = np.random.default_rng(6)
    X = 500.0 * draw.normal(size=(50_000, 2))
    y = 0.8 * X[:, 0] / np.hypot(*X.T)
    agreement = Agreement(ContinualRegressor(ridge=0.0), 2, clip=1.0)
    assert agreement.clip == 1.0 and Agreement.from_bytes(agreement.to_bytes()) == agreement
    assert agreement != Agreement(ContinualRegressor(ridge=0.0), 2)
    with pytest.warns(UserWarning, match="longer than clip_x"):
        sent = agreement.summarize_private("c", 0, X, y, epsilon=3.0, delta=1e-6, clip_y=1.0, account=None)
    server = Server(agreement)
    server.accept(sent.update)
    assert np.sqrt(np.mean((server.model().predict(X) - y) ** 2)) < 0.1 * y.std()
    with pytest.raises(ValueError, match="agreement's clip"):
        agreement.summarize_private("c", 1, X, y, epsilon=1.0, delta=1e-6, clip_x=2.0, clip_y=1.0, account=None)
    with pytest.raises(ValueError, match="scales rows down"):
        server.model().export(format="onnx")
