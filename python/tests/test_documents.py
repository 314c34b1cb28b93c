"""What documents and stubs say is so."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pmfcl
import pytest
from pmfcl import _core

MODULES = [
    "pmfcl",
    "pmfcl._regressor",
    "pmfcl._classifier",
    "pmfcl.distributed",
    "pmfcl.federated",
    "pmfcl.plot",
    "pmfcl.river",
    "pmfcl._core",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    if name == "pmfcl.river":
        pytest.importorskip("river", reason="river is not installed")
    module = importlib.import_module(name)
    tests = doctest.DocTestFinder().find(module)
    if name == "pmfcl._core":
        stub = Path(pmfcl.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
        tests = [doctest.DocTestParser().get_doctest(stub.replace('"""', ""), {}, "_core.pyi", None, 0)]
    examples = [test for test in tests if test.examples]
    assert examples
    for test in examples:
        assert doctest.DocTestRunner().run(test).failed == 0


def test_stubs_name_what_is_there_and_nothing_else():
    stub = ast.parse(Path(pmfcl.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    federated = {"Agreement", "FederatedServer", "PrivacyAccount", "RefusedError", "SecAggClient", "SecAggServer"}
    federated |= {"NoisySums", "SharedNoise"}
    assert set(classes) == {"FittedTask", "Summary", "Model", "ModelChangedError"} | federated
    assert issubclass(_core.RefusedError, ValueError)
    for name, node in classes.items():
        if name == "RefusedError":
            continue
        kind = getattr(_core, name)
        told = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        found = {item for item in vars(kind) if not item.startswith("_")}
        assert {item for item in told if not item.startswith("_")} == found
        assert all(hasattr(kind, item) for item in told)
    assert Path(pmfcl.__file__).with_name("py.typed").exists()


def test_tests_and_files_that_the_list_of_threats_names_are_there():
    root = Path(__file__).resolve().parents[2]
    if not (root / "docs" / "threats.md").exists():
        pytest.skip("needs the repository")
    named = set(re.findall(r"`([^`]+)`", (root / "docs" / "threats.md").read_text(encoding="utf-8")))
    sources = [path for top in ("crates", "tests", "python") for path in (root / top).rglob("*.[rp][sy]")]
    functions = set(re.findall(r"(?:fn|def) (\w+)", "\n".join(path.read_text(encoding="utf-8") for path in sources)))
    tests = {name for name in named if re.fullmatch(r"[a-z_0-9]{20,}", name)}
    assert len(tests) > 25 and tests <= functions, tests - functions
    files = {name for name in named if re.fullmatch(r"[\w./-]+\.(rs|py)", name)}
    found = {file for file in files if any(str(path).endswith(f"/{file}") for path in sources)}
    assert len(files) > 10 and files == found, files - found
