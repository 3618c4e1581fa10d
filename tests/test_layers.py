"""Imports point down only."""

import ast
from pathlib import Path

import pytest

import jensen

ROOT = Path(jensen.__file__).parent
# From the top to the ground, as in the design: a module may import from its own layer's folder and from below.
LAYERS = [
    ["cli"],
    ["contest", "questions", "reporting"],
    ["orders"],
    ["options", "printing", "words"],
    ["evaluate"],
    ["exchange", "registry", "signatures"],
    ["report"],
    ["models"],
    ["contract"],
    ["engines"],
    ["samplers"],
    ["nets"],
    ["formulas"],
    ["bound", "statistics", "batch"],
    ["interop"],
    ["caller", "progress"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jensen."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "jensen":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("jensen."))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_below(path):
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in imported(path):
        if name in LEVEL:
            assert LEVEL[name] > LEVEL[here] or name == here, f"{here} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_public_names_resolve():
    for name in jensen.__all__:
        assert getattr(jensen, name).__doc__
    assert set(jensen.__all__) <= set(dir(jensen))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = jensen.nothing
