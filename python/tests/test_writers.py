"""Several models and processes write one file: nothing that was saved is lost, and whoever comes too late is told how to go on."""

import copy
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import time
import warnings

import numpy as np
import pmfcl
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor, ModelChangedError
from test_files import csv, run

NAMES = [f"x{j + 1}" for j in range(5)]


def tasks(path):
    """Names of the tasks in a file that passes every check."""
    run("verify", path)
    return [task["name"] for task in run("show", path)["tasks"]]


def follow(error, model):
    """Does what the message says, statement by statement."""
    advice = re.search(r"to keep both: (.*?); or ", str(error))
    assert advice, error
    exec(advice[1], {"pmfcl": pmfcl, "model": model})  # noqa: S102 - the advice is code, and is to be right


def test_the_second_of_two_savers_keeps_both(months, tmp_path):
    path = tmp_path / "model.pmf"
    ContinualRegressor(ridge=0.1).partial_fit(*months[0], task="jan").save(path)
    first, second = pmfcl.load(path), pmfcl.load(path)
    first.partial_fit(*months[1], task="feb").save(path)
    second.partial_fit(*months[2], task="mar")
    for _ in range(2):  # it stays refused
        with pytest.raises(ModelChangedError, match="learned `feb`") as caught:
            second.save(path)
    assert tasks(path) == ["jan", "feb"]
    follow(caught.value, second)
    assert tasks(path) == ["jan", "feb", "mar"]
    expected = ContinualRegressor(ridge=0.1)
    for k, name in enumerate(("jan", "feb", "mar")):
        expected.partial_fit(*months[k], task=name)
    np.testing.assert_allclose(pmfcl.load(path).coef_, expected.coef_, rtol=1e-10)


def test_two_processes_save_one_file(months, tmp_path):
    path = tmp_path / "model.pmf"
    ContinualRegressor(ridge=0.1).partial_fit(*months[0], task="jan").save(path)
    program = (
        "import sys, numpy as np, pmfcl\n"
        "model = pmfcl.load(sys.argv[1])\n"
        "print('loaded', flush=True)\n"
        "sys.stdin.readline()\n"
        "rng = np.random.default_rng(1)\n"
        "model.partial_fit(rng.normal(size=(30, 5)), rng.normal(size=30), task='other')\n"
        "try:\n"
        "    model.save(sys.argv[1])\n"
        "except pmfcl.ModelChangedError as error:\n"
        "    print(error, flush=True)\n"
        "    new = pmfcl.load(sys.argv[1])\n"
        "    new.merge(model, tasks=['other'])\n"
        "    new.save(sys.argv[1])\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "loaded\n"
    pmfcl.load(path).partial_fit(*months[1], task="feb").save(path)
    run("learn", path, csv(tmp_path / "mar.csv", months[2][0], NAMES, months[2][1], "y"))
    said, _ = other.communicate("go\n", timeout=60)
    assert other.returncode == 0
    assert "learned `feb`, `mar`" in said
    assert tasks(path) == ["jan", "feb", "mar", "other"]


def test_every_kind_of_change_is_named(months, flowers, tmp_path):
    path = tmp_path / "model.pmf"
    model = ContinualRegressor(ridge=0.1)
    for k in range(3):
        model.partial_fit(*months[k], task=f"t{k}")
    model.save(path)
    ours = pmfcl.load(path)
    run("unlearn", path, "t1")
    run("learn", path, csv(tmp_path / "t3.csv", months[3][0], NAMES, months[3][1], "y"))
    ours.partial_fit(*months[1], task="t3")
    with pytest.raises(ModelChangedError, match="learned `t3`; unlearned `t1`") as caught:
        ours.save(path)
    follow(caught.value, ours)
    assert tasks(path) == ["t0", "t2", "t3", "mine/t3"]
    ours = pmfcl.load(path)
    run("prefer", path, "--equal")
    ours.unlearn("t0")
    with pytest.raises(ModelChangedError, match=r"same tasks, other settings.*load it again.*repeat the change"):
        ours.save(path)
    run("unlearn", path, "t3")
    run("learn", path, csv(tmp_path / "again.csv", months[0][0], NAMES, months[0][1], "y"), "--name", "t3")
    with pytest.raises(ModelChangedError, match="exchanged `t3`"):
        ours.save(path)
    # Compact memory cannot take its own tasks apart.
    path = tmp_path / "compact.pmf"
    ContinualRegressor(memory="compact").partial_fit(*months[0], task="t0").save(path)
    ours, theirs = pmfcl.load(path), pmfcl.load(path)
    theirs.partial_fit(*months[1], task="t1").save(path)
    with pytest.raises(ModelChangedError, match=r"partial_fit the rows of \['t2'\] once more"):
        ours.partial_fit(*months[2], task="t2").save(path)
    # Classes that only the new task has go with it.
    path = tmp_path / "classes.pmf"
    ContinualClassifier().partial_fit(*flowers[0], task="f0").save(path)
    ours, theirs = pmfcl.load(path), pmfcl.load(path)
    theirs.partial_fit(*flowers[1], task="f1").save(path)
    with pytest.raises(ModelChangedError, match="learned `f1`") as caught:
        ours.partial_fit(*flowers[2], task="f2").save(path)
    follow(caught.value, ours)
    assert tasks(path) == ["f0", "f1", "f2"]
    assert list(pmfcl.load(path).classes_) == ["ash", "elm", "oak"]


def test_what_may_be_replaced(months, tmp_path):
    path, backup = tmp_path / "model.pmf", tmp_path / "backup.pmf"
    model = ContinualRegressor(ridge=0.1).partial_fit(*months[0], task="t0")
    # The same model again and again, and in two places by turns.
    for k in range(1, 4):
        model.save(path)
        model.save(backup)
        model.partial_fit(*months[k], task=f"t{k}")
    model.save(path)
    assert tasks(path) == ["t0", "t1", "t2", "t3"]
    assert tasks(backup) == ["t0", "t1", "t2"]
    # Another way to write the path, and copies of the model.
    model.unlearn("t3").save(os.path.relpath(path))
    for copied in (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        kept = copied(model)
        kept.save(path)
        with pytest.raises(ModelChangedError):
            model.save(path)
        model = kept
    # A model that does not come from the file.
    fresh = ContinualRegressor().fit(*months[0])
    for stranger in (fresh, pmfcl.load(path).fit(*months[0])):
        with pytest.raises(FileExistsError, match=r"`t0`, `t1`, `t2`.*overwrite=True"):
            stranger.save(path, overwrite=False)
    assert tasks(path) == ["t0", "t1", "t2"]
    with pytest.warns(UserWarning, match=r"its tasks are lost.*`t0`, `t1`, `t2`"):
        fresh.save(path)
    assert tasks(path) == ["stream"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ContinualRegressor().fit(*months[1]).save(path, overwrite=True)
        fresh.save(path, overwrite=True)
    fresh.save(path)
    with pytest.raises(ModelChangedError):
        model.save(path)
    # A file that was removed and made again counts its commits from one again.
    mine, theirs = tmp_path / "mine.pmf", tmp_path / "theirs.pmf"
    fresh.save(mine)
    ContinualRegressor().fit(*months[1]).save(theirs)
    theirs.replace(mine)
    with pytest.raises(ModelChangedError):
        fresh.save(mine)
    mine.unlink()
    fresh.save(mine)
    assert tasks(mine) == ["stream"]


def test_some_tasks_are_merged(months):
    model, other = ContinualRegressor(ridge=0.1), ContinualRegressor(ridge=0.1)
    model.partial_fit(*months[0], task="a")
    for k in range(1, 4):
        other.partial_fit(*months[k], task=f"t{k}")
    model.merge(other, tasks=["t2"])
    assert [task["name"] for task in model.tasks_] == ["a", "t2"]
    assert len(other.tasks_) == 3
    expected = ContinualRegressor(ridge=0.1).partial_fit(*months[0]).partial_fit(*months[2], task=2)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10)
    for wrong in (["t9"], []):
        with pytest.raises(ValueError, match="cannot merge: tasks names"):
            model.merge(other, tasks=wrong)


SERVER = """
import resource, sys
import numpy as np
from pmfcl import ContinualRegressor
from pmfcl.federated import Agreement, Server

def report(line):
    print(line, flush=True)

path, steps = sys.argv[1], int(sys.argv[2])
agreement = Agreement(ContinualRegressor(ridge=0.1), features=5)
server = Server(agreement, path)
rng = np.random.default_rng(steps)
held = {(line.client, line.step) for line in server.held()}
for step in range(steps):
    if ("north", step) not in held:
        server.accept(agreement.summarize("north", step, rng.normal(size=(8, 5)), rng.normal(size=8)))
report("ready")
for order in sys.stdin:
    order = order.strip()
    if order.startswith("room"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(order.split()[1]), resource.RLIM_INFINITY))
        continue
    report("committing")
    try:
        server.commit()
        report("committed")
    except OSError as error:
        report(f"failed: {error}")
"""


class Process:
    """A federation's server in a process of its own that does as it is told."""

    def __init__(self, path, steps):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(path), str(steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self):
        line = self.process.stdout.readline()
        return line.rstrip("\n") if line.endswith("\n") else ""

    def order(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def commit(self):
        self.order("commit")
        assert self.line() == "committing"
        return self.line()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def joint(path, steps):
    """A federation's file."""
    server = Process(path, steps)
    assert server.commit() == "committed"
    server.end()
    return [f"north/{step}" for step in range(steps)]


def test_a_server_goes_on_when_there_is_room_again(tmp_path):
    path = tmp_path / "joint.pmf"
    old = joint(path, 40)
    server = Process(path, 60)
    size = path.stat().st_size
    failed = 0
    for room in (1024, size // 2, size, size + 2048):
        server.order(f"room {room}")
        said = server.commit()
        assert said.startswith("failed: ")
        assert "as it was" in said
        failed += 1
        assert tasks(path) == old
    server.order("room -1")
    assert server.commit() == "committed"
    server.end()
    assert sorted(tasks(path)) == sorted(f"north/{step}" for step in range(60))
    assert failed == 4


def test_a_killed_retry_loses_nothing(tmp_path):
    template = tmp_path / "template.pmf"
    old = set(joint(template, 200))
    new = old | {"north/200"}
    whole, interrupted, moments = None, 0, 10
    for moment in range(moments + 1):
        path = tmp_path / f"m{moment}.pmf"
        path.write_bytes(template.read_bytes())
        server = Process(path, 201)
        server.order("room 2048")
        assert server.commit().startswith("failed: ")
        server.order("room -1")
        server.order("commit")
        assert server.line() == "committing"
        if whole is None:  # the first is left alone, to know how long a commit takes
            start = time.monotonic()
            assert server.line() == "committed"
            whole = time.monotonic() - start
            server.end()
            assert set(tasks(path)) == new
            continue
        time.sleep(whole * moment / moments)
        os.kill(server.process.pid, signal.SIGKILL)
        acknowledged = server.line() == "committed"
        server.process.wait(60)
        interrupted += not acknowledged
        found = set(tasks(path))
        assert found >= old
        assert found == new or not acknowledged
    assert interrupted >= 3, f"{interrupted} of {moments} were killed before the commit was done"


def test_a_server_does_not_overwrite_what_was_learned_meanwhile(months, tmp_path):
    path = tmp_path / "joint.pmf"
    old = joint(path, 3)
    server = Process(path, 4)
    server.order("room 1024")
    assert server.commit().startswith("failed: ")
    server.order("room -1")
    for step in range(3):
        data = csv(tmp_path / "rows.csv", months[0][0] + step, NAMES, months[0][1], "y")
        run("learn", path, data, "--name", f"east/{step}")
    said = server.commit()
    assert said.startswith("failed: ")
    assert "learned `east/0`, `east/1`, `east/2`" in said
    assert "Server(agreement, path)" in said
    server.end()
    again = Process(path, 4)
    assert again.commit() == "committed"
    again.end()
    assert set(tasks(path)) == {*old, "north/3", "east/0", "east/1", "east/2"}


def test_a_reader_is_named(tmp_path):
    path = tmp_path / "joint.pmf"
    old = joint(path, 3)
    server = Process(path, 4)
    with sqlite3.connect(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM task").fetchone()
        said = server.commit()
    reader.close()
    assert "reading" in said
    assert "no longer locked" in said
    assert tasks(path) == old
    assert server.commit() == "committed"
    server.end()
    assert set(tasks(path)) == {*old, "north/3"}


def test_a_page_or_export_that_fails_leaves_the_old_one(months, tmp_path, monkeypatch):
    model = ContinualRegressor().fit(*months[0])
    page, weights = tmp_path / "report.html", tmp_path / "model.onnx"
    model.report(page)
    model.export(weights)
    before = page.read_bytes(), weights.read_bytes(), sorted(tmp_path.iterdir())

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (lambda: model.report(page), lambda: model.export(weights)):
        with pytest.raises(OSError, match="No space"):
            write()
    assert (page.read_bytes(), weights.read_bytes(), sorted(tmp_path.iterdir())) == before
