"""`_core.pyi` says what the built module is."""

import ast
import inspect
from pathlib import Path

import pmfcl
from pmfcl import _core

STUB = ast.parse((Path(pmfcl.__file__).parent / "_core.pyi").read_text())
KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


def written(function, bound):
    """Names, kinds and whether there is a default, as the stub has them; without `self` where `bound`."""
    given = function.args
    every = [*given.posonlyargs, *given.args]
    optional = [False] * (len(every) - len(given.defaults)) + [True] * len(given.defaults)
    found = [(one.arg, "positional", has) for one, has in zip(every, optional, strict=True)]
    found += [
        (one.arg, "keyword", has is not None) for one, has in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return found[1:] if bound else found


def built(callable_, bound):
    """The same of the module."""
    parameters = list(inspect.signature(callable_).parameters.values())
    found = [(p.name, KINDS[p.kind], p.default is not inspect.Parameter.empty) for p in parameters]
    return found[1:] if bound else found


def decorated(function, name):
    return any(isinstance(d, ast.Name) and d.id == name for d in function.decorator_list)


def test_every_signature_of_the_stub_is_that_of_the_module():
    compared = 0
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            assert written(node, False) == built(getattr(_core, node.name), False), node.name
            compared += 1
        for member in node.body if isinstance(node, ast.ClassDef) else []:
            if not isinstance(member, ast.FunctionDef):
                continue
            owner, name = getattr(_core, node.name), f"{node.name}.{member.name}"
            if decorated(member, "property"):
                assert inspect.isgetsetdescriptor(vars(owner)[member.name]), name
            elif member.name == "__init__":
                assert written(member, True) == built(owner, False), name
            elif member.name.startswith("__"):
                assert member.name in vars(owner), name
            else:
                static = decorated(member, "staticmethod")
                assert written(member, not static) == built(getattr(owner, member.name), not static), name
            compared += 1
    assert compared > 100


def test_everything_of_the_module_is_in_the_stub():
    classes = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    values = {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign)}
    public = {name for name in vars(_core) if not name.startswith("_")} | {"__version__"}
    assert public == set(classes) | functions | values
    for name, node in classes.items():
        members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        found = {member for member in vars(getattr(_core, name)) if not member.startswith("_")}
        assert found <= members, name
