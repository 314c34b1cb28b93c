"""Every k-th operation on the disk fails, or the process is killed there: whatever writes a file leaves the one of before or the one of
after. Programs run with `crates/pmfcl-faults/preload.c` loaded before the C library."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = os.environ.get("PMFCL_PROGRAM", "")
SHIM = pathlib.Path(__file__).resolve().parents[2] / "crates" / "pmfcl-faults" / "preload.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not SHIM.exists() or COMPILER is None,
    reason="needs Linux, the repository and a C compiler",
)

# More operations than any of the commands makes.
MOST = 200


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    library = tmp_path_factory.mktemp("shim") / "faults.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    return library


def table(path):
    lines = ["x,k,y"] + [f"{i % 7 / 7},{'ab'[i % 2]},{(i * 5) % 11 / 11}" for i in range(40)]
    path.write_text("\n".join(lines) + "\n")


def run(where, words, shim=None, **settings):
    env = dict(os.environ)
    if shim is not None:
        env |= {"LD_PRELOAD": str(shim), "PMFCL_FAULT_DIR": str(where)} | settings
    command = [os.path.abspath(PROGRAM), *words.split()]
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False)


def skip_unknown(done):
    """A program without some of the commands."""
    if "unrecognized subcommand" in done.stderr:
        pytest.skip(done.stderr.splitlines()[0])


# A command, what it writes, and what is there before it.
COMMANDS = {
    "predict csv": ("predict {w}/m.pmf {w}/rows.csv -o {w}/out.csv", "out.csv"),
    "predict jsonl": ("predict {w}/m.pmf {w}/rows.csv -o {w}/out.jsonl", "out.jsonl"),
    "predict parquet": ("predict {w}/m.pmf {w}/rows.csv -o {w}/out.parquet", "out.parquet"),
    "predict arrow": ("predict {w}/m.pmf {w}/rows.csv -o {w}/out.arrow", "out.arrow"),
    "export onnx": ("export {w}/m.pmf -o {w}/out.onnx", "out.onnx"),
    "export safetensors": ("export {w}/m.pmf -o {w}/out.safetensors", "out.safetensors"),
    "export json": ("export {w}/m.pmf -o {w}/out.json", "out.json"),
    "report": ("report {w}/m.pmf -o {w}/out.html", "out.html"),
    "front svg": ("front {w}/m.pmf a b -o {w}/out.svg", "out.svg"),
    "front csv": ("front {w}/m.pmf a b -o {w}/out.csv", "out.csv"),
    "schema": ("schema {w}/rows.csv -o {w}/out.json", "out.json"),
    "summarize": ("summarize {w}/rows.csv --target y -o {w}/out.pms", "out.pms"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    where = tmp_path_factory.mktemp("models")
    table(where / "rows.csv")
    for name in ("a", "b"):
        done = run(where, f"learn {where}/m.pmf {where}/rows.csv --target y --name {name} --ridge 0.1")
        assert done.returncode == 0, done.stderr
    return where


@pytest.mark.skipif(not PROGRAM, reason="PMFCL_PROGRAM names the program")
@pytest.mark.parametrize("how", ["once", "lasting", "kill"])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_leaves_the_file_of_before_or_the_one_of_after(what, how, place, shim):
    words, name = COMMANDS[what]
    words, out = words.format(w=place), place / name
    out.unlink(missing_ok=True)
    done = run(place, words)
    skip_unknown(done)
    assert done.returncode == 0, done.stderr
    # A file that is no shard is refused by `summarize`: nothing is there before.
    after, before = out.read_bytes(), None if what == "summarize" else b"what was there before"
    assert after
    listing = sorted(os.listdir(place))
    for k in range(MOST):
        if before is None:
            out.unlink(missing_ok=True)
        else:
            out.write_bytes(before)
        done = run(place, words, shim, PMFCL_FAULT=f"{k}:{how}")
        found = out.read_bytes() if out.exists() else None
        assert found in (before, after), f"{what}, operation {k}: neither before nor after"
        if done.returncode == 0:
            assert found == after, f"{what}, operation {k}: success, and the file is the old one"
        elif how == "kill":
            assert done.returncode == -signal.SIGKILL, done.stderr
        else:
            assert found == before, f"{what}, operation {k}: {done.stderr}, and the file was replaced"
            assert name in done.stderr, done.stderr
            assert set(os.listdir(place)) - {name} == set(listing) - {name}, f"{what}, operation {k}: left over"
        for other in set(os.listdir(place)) - set(listing):
            (place / other).unlink()
        if done.returncode == 0 and k > 12:
            break
    assert 3 < k < MOST - 1, f"{k} operations"


def synced(log):
    """Whether everything that was written was synced before it got its name, and the name after it."""
    done = [line.removesuffix("64") for line in log.read_text().splitlines()]
    named = max(i for i, operation in enumerate(done) if operation in ("rename", "link"))
    written = max((i for i, operation in enumerate(done[:named]) if "write" in operation), default=-1)
    return 0 <= written and "fsync" in done[written:named] and "fsync" in done[named:]


@pytest.mark.skipif(not PROGRAM, reason="PMFCL_PROGRAM names the program")
@pytest.mark.parametrize("what", COMMANDS)
def test_a_file_is_on_the_disk_before_it_has_its_name(what, place, shim, tmp_path):
    words, name = COMMANDS[what]
    (place / name).unlink(missing_ok=True)
    done = run(place, words.format(w=place), shim, PMFCL_FAULT_LOG=str(tmp_path / "log"))
    skip_unknown(done)
    assert done.returncode == 0, done.stderr
    assert synced(tmp_path / "log"), (tmp_path / "log").read_text()


# In one process: the library is loaded before Python and told from within which operation fails.
LIBRARY = """
    import ctypes, os, pathlib, sys
    import numpy as np
    import pmfcl

    faults = ctypes.CDLL(None)
    faults.pmfcl_fail.argtypes = [ctypes.c_long, ctypes.c_int]
    ONCE, LASTING, KILL = 1, 2, 3
    where = pathlib.Path(os.environ["PMFCL_FAULT_DIR"])
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)

    def fitted(tasks):
        model = pmfcl.ContinualRegressor(ridge=0.1)
        for t in range(tasks):
            model.partial_fit(X + t, y, task=f"t{t}")
        return model

    old, new = fitted(1), fitted(3)

    def read(path):
        return pmfcl.load(path).tasks_ if path.suffix == ".pmf" else path.read_bytes()

    ways = {
        "m.pmf": lambda model, path: model.save(path, overwrite=True),
        "m.onnx": lambda model, path: model.export(path),
        "m.json": lambda model, path: model.export(path),
        "m.safetensors": lambda model, path: model.export(path),
        "m.html": lambda model, path: model.report(path),
    }
    counts = {}
    for name, write in ways.items():
        path = where / name
        write(new, path)
        after = read(path)
        path.unlink()
        write(old, path)
        before = read(path)
        assert before != after
        for mode in (ONCE, LASTING, KILL):
            for k in range(400):
                path.unlink()
                write(old, path)
                if mode == KILL:
                    child = os.fork()
                    if child == 0:
                        faults.pmfcl_fail(k, mode)
                        try:
                            write(new, path)
                        finally:
                            os._exit(0)
                    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    assert killed in (0, -9), killed
                    hit, failed = killed != 0, killed != 0
                else:
                    faults.pmfcl_fail(k, mode)
                    try:
                        write(new, path)
                        failed = False
                    except (OSError, ValueError, RuntimeError) as error:
                        failed = True
                        assert name in str(error) or isinstance(error, OSError), error
                    hit = faults.pmfcl_heal() > 0
                found = read(path)
                assert found in (before, after), f"{name}, operation {k}: neither before nor after"
                assert failed or found == after, f"{name}, operation {k}: success, and the file is the old one"
                assert hit or not failed
                if mode == ONCE and failed:
                    assert found == before, f"{name}, operation {k}: it failed and was replaced"
                    write(new, path)
                    assert read(path) == after, "it works again"
                if mode != KILL:
                    left = [other for other in os.listdir(where) if other != name]
                    if mode == ONCE:
                        assert not left, left
                for other in os.listdir(where):
                    if other != name:
                        (where / other).unlink()
                if not hit:
                    break
            counts[name, mode] = k
            assert k > 3, f"{name}: {k} operations"
        path.unlink()
    print("operations:", {f"{name} {mode}": k for (name, mode), k in counts.items()})
"""


def test_python_leaves_the_file_of_before_or_the_one_of_after(tmp_path, shim):
    where = tmp_path / "files"
    where.mkdir()
    env = dict(os.environ) | {"LD_PRELOAD": str(shim), "PMFCL_FAULT_DIR": str(where)}
    log = {"PMFCL_FAULT_LOG": str(tmp_path / "log")}
    export = "import sys, pmfcl; pmfcl.ContinualRegressor().fit([[1.0], [2.0]], [1.0, 3.0]).export(sys.argv[1])"
    subprocess.run([sys.executable, "-c", export, str(where / "m.json")], env=env | log, check=True)
    assert synced(tmp_path / "log"), (tmp_path / "log").read_text()
    (where / "m.json").unlink()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIBRARY)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "operations:" in done.stdout
