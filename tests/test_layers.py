"""The tree is the taxonomy: imports point down only, families are closed to each other, and nothing goes in circles."""

import ast
from pathlib import Path

import pytest

import jensen
from jensen.contract import Persistent

ROOT = Path(jensen.__file__).parent
# From the top to the ground: a module may import from its own layer and from those below.
LAYERS = [
    "cli",
    "evaluate",
    "report",
    "registry",
    "models",
    "contract",
    "engines",
    "nets",
    "formulas",
    "files",
    "bound",
    "data",
    "runtime",
]
LEVEL = {name: level for level, name in enumerate(LAYERS)}
# What each family of models may import from other families.
FAMILIES = {
    "latent_diffusion": {"diffusion", "autoencoders"},
    "factors": {"mixtures", "clusters"},
    "mixtures": {"clusters"},
    "curves": {"clusters"},
    "diffusion": set(),
    "autoencoders": set(),
    "clusters": set(),
    "regression": set(),
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
NAMES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES}


def name_of(path):
    return next(name for name, other in NAMES.items() if other == path)


def imported(path):
    """The modules of ours that a module imports anywhere, for types alone, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jensen."):
            module = node.module.removeprefix("jensen.")
            for alias in node.names:
                yield f"{module}.{alias.name}" if f"{module}.{alias.name}" in NAMES else module
        elif isinstance(node, ast.ImportFrom) and node.module == "jensen":
            yield from (alias.name for alias in node.names if alias.name in NAMES)
        elif isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("jensen.") for alias in node.names if alias.name.startswith("jensen."))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_below(path):
    here = name_of(path).split(".")
    assert here[0] in LEVEL, f"{here[0]} is in no layer"
    for name in imported(path):
        there = name.split(".")
        assert LEVEL[there[0]] >= LEVEL[here[0]], f"{'.'.join(here)} imports {name}"
        if here[0] == there[0] == "models" and len(here) > 1 and len(there) > 1:
            assert there[1] == here[1] or there[1] in FAMILIES[here[1]], f"{'.'.join(here)} imports {name}"


def test_imports_do_not_go_in_circles():
    graph = {name: {*imported(path)} & NAMES.keys() - {name} for name, path in NAMES.items()}
    while free := {name for name, others in graph.items() if not others & graph.keys()}:
        graph = {name: others for name, others in graph.items() if name not in free}
    assert not graph, f"these import each other: {sorted(graph)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_map_of_the_tree_is_the_tree():
    text = (
        (ROOT.parents[1] / "CONTRIBUTING.md")
        .read_text()
        .partition("## Where things live")[2]
        .partition("Beside `src")[0]
    )
    for name in LAYERS:
        assert f"\n{name}{'/' if (ROOT / name).is_dir() else '.py'} " in text
    for family in FAMILIES:
        assert f"\n  {family}/ " in text
    assert {path.name for path in (ROOT / "models").iterdir() if path.is_dir()} - {"__pycache__"} == FAMILIES.keys()


def test_no_module_is_long():
    """The reader of a file should find one idea."""
    long = {name: n for name, path in NAMES.items() if (n := len(path.read_text().splitlines())) > 350}
    assert not long


def test_no_model_is_more_than_five_classes_deep():
    """What a model inherits should fit on a screen; scikit-learn's classes do not count."""
    public = [getattr(jensen, name) for name in jensen.__all__]
    models = [value for value in public if isinstance(value, type) and issubclass(value, Persistent)]
    assert len(models) > 10
    ours = {
        model.__name__: [c.__name__ for c in model.__mro__ if c.__module__.startswith("jensen")] for model in models
    }
    assert not {name: classes for name, classes in ours.items() if len(classes) > 5}


def test_public_names_resolve():
    for name in jensen.__all__:
        assert getattr(jensen, name).__doc__
    assert set(jensen.__all__) <= set(dir(jensen))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = jensen.nothing
