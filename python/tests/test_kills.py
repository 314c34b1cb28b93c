"""SIGKILL while Python saves a model: what was acknowledged is in the file. `PMFCL_KILLS` says how many (20 by default)."""

import os
import random
import signal
import sys
import time

import numpy as np
import pmfcl
import pytest

KILLS = int(os.environ.get("PMFCL_KILLS", "20"))


def rows(task):
    rng = np.random.default_rng(task)
    return rng.normal(size=(6, 2)), rng.normal(size=6)


def learned(tasks):
    model = pmfcl.ContinualRegressor(ridge=0.01)
    for task in tasks:
        model.partial_fit(*rows(task), task=f"t{task}")
    return model


def writer(path, out, number):
    """Loads, learns and saves until it is killed; says what it is about to write, and that it has."""
    model = pmfcl.load(path)
    for task in range(number * 1000, number * 1000 + 1000):
        gone = [name["name"] for name in model.tasks_][:-1] if len(model.tasks_) > 8 else []
        for name in gone:
            model.unlearn(name)
        model.partial_fit(*rows(task), task=f"t{task}")
        names = ",".join(one["name"][1:] for one in model.tasks_)
        os.write(out, f"writing {names}\n".encode())
        model.save(path)
        os.write(out, f"written {names}\n".encode())


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_a_save_that_was_acknowledged_is_there(tmp_path):
    path, chance = tmp_path / "m.pmf", random.Random(3)
    begin = time.perf_counter()
    learned([0]).save(path)
    # Within some saves, however busy the machine is.
    longest = max(0.006, 4 * (time.perf_counter() - begin))
    known, within, after, acknowledged = "0", 0, 0, 0
    for number in range(1, KILLS + 1):
        back, out = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(back)
            writer(path, out, number)
            os._exit(1)
        os.close(out)
        said = os.read(back, 4096)
        assert said.startswith(b"writing"), said
        time.sleep(chance.random() * longest)
        os.kill(child, signal.SIGKILL)
        while more := os.read(back, 1 << 16):
            said += more
        os.close(back)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        lines = [line.split() for line in said.decode().rpartition("\n")[0].splitlines()]
        known = ([names for what, names in lines if what == "written"] or [known])[-1]
        acknowledged += sum(what == "written" for what, _ in lines)
        begun = lines[-1][1] if lines[-1][0] == "writing" else None
        model = pmfcl.load(path)
        found = ",".join(one["name"][1:] for one in model.tasks_)
        assert found in (known, begun), f"{known} was acknowledged, {begun} was begun, {found} is there"
        within += begun is not None
        after += begun is not None and found == begun
        known = found
        if number % 50 == 0 or number == KILLS:
            x = np.array([[0.3, -1.0], [2.0, 0.5]])
            expected = learned(int(task) for task in found.split(",")).predict(x)
            np.testing.assert_allclose(model.predict(x), expected, rtol=1e-9, atol=1e-12)
    print(
        f"\nPython save: {KILLS} kills, {within} within a change (file of before {within - after}, of after {after}), "
        f"{acknowledged} saves acknowledged, none lost"
    )
    assert acknowledged
