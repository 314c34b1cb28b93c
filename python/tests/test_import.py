"""What workers import: every process of a cluster pays for it."""

import subprocess
import sys

WORKER = """
import sys
import pyarrow as pa
from pmfcl import distributed

recipe, batch = __import__("pickle").loads(bytes.fromhex(sys.stdin.read()))
distributed.merge([distributed.summarize(recipe, [batch])])
print(" ".join(name for name in ("sklearn", "scipy") if name in sys.modules))
"""


def run(code, given=""):
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_worker_summarizes_rows_without_scikit_learn():
    import pickle

    import pyarrow as pa
    from pmfcl import ContinualRegressor, distributed

    batch = pa.RecordBatch.from_pydict({"size": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"], "cost": [2.0, 4.0, 6.0]})
    recipe = distributed.Recipe.of(ContinualRegressor(ridge=0.1), batch.schema, target="cost")
    assert run(WORKER, pickle.dumps((recipe, batch)).hex()) == ""


def test_names_are_there_when_they_are_asked_for():
    code = "import pmfcl; print(sorted(set(pmfcl.__all__) - set(dir(pmfcl))), pmfcl.ContinualRegressor.__name__)"
    assert run(code) == "[] ContinualRegressor"
    assert run("from pmfcl import *; print(ContinualClassifier.__name__)") == "ContinualClassifier"
    assert run("import pmfcl\ntry: pmfcl.nothing\nexcept AttributeError as e: print(e)") == (
        "module 'pmfcl' has no attribute 'nothing'"
    )
