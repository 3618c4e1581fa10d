"""The tree is the taxonomy: imports point down only, families are closed to each other, and nothing goes in circles."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import jensen
from jensen import RidgeRegression
from jensen.contract import LatentVariableModel

ROOT = Path(jensen.__file__).parent
# From the top to the ground: a module may import from its own layer and from those below.
LAYERS = [
    "__main__",
    "cli",
    "studio",
    "tasks",
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
    "blends": {"factors", "mixtures", "clusters"},
    "latent_diffusion": {"diffusion", "autoencoders"},
    "factors": {"mixtures", "clusters"},
    "mixtures": {"clusters"},
    "curves": {"clusters"},
    "diffusion": set(),
    "autoencoders": set(),
    "clusters": set(),
    "regression": set(),
    "topics": set(),
}
# Families whose models are networks.
DEEP_FAMILIES = {"latent_diffusion", "diffusion", "autoencoders"}
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


def estimators():
    """Every class of ours that can be fitted, abstract ones too."""
    for name in NAMES:
        if name.startswith(("models.", "contract.")):
            import_module(f"jensen.{name}")
    found, new = set(), {LatentVariableModel, RidgeRegression}
    while new:
        found, new = found | new, {sub for cls in new for sub in cls.__subclasses__()} - found
    return {cls for cls in found if cls.__module__.startswith("jensen.")}


ESTIMATORS = {cls.__name__ for cls in estimators()}


def family_of(module):
    """The family of a module of models, or else its layer."""
    parts = module.removeprefix("jensen.").split(".")
    return parts[1] if parts[0] == "models" and len(parts) > 1 else parts[0]


# Private attributes and methods of estimators, with the families that define them.
PRIVATE = {}
for cls in estimators():
    for attribute in {*vars(cls), *vars(cls).get("__annotations__", ())}:
        if attribute.startswith("_") and not attribute.startswith(("__", "_abc_", "_sklearn")):
            PRIVATE.setdefault(attribute, set()).add(family_of(cls.__module__))


def classes_asked_for(tree):
    """Names of classes in isinstance and issubclass."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            for part in ast.walk(node.args[1]):
                yield getattr(part, "id", None) or getattr(part, "attr", None)


def private_attributes(tree):
    """Names in `something._name` and getattr(something, "_name"), where something is not the object itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            is_super = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
            if not is_super and getattr(node.value, "id", "") not in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
            name = getattr(node.args[1], "value", None)
            if isinstance(name, str) and getattr(node.args[0], "id", "") not in ("self", "cls"):
                yield name


@pytest.mark.parametrize("name", sorted(name for name in NAMES if not name.startswith("models")))
def test_no_model_is_recognised_by_its_class_outside_models(name):
    """What a model can do is in its capabilities, or it is a method that a model has or does not have."""
    found = {*classes_asked_for(ast.parse(NAMES[name].read_text()))} & ESTIMATORS
    assert not found, f"{name} asks whether a model is a {found}"


@pytest.mark.parametrize("name", sorted(name for name in NAMES if not name.startswith("contract")))
def test_private_attributes_of_models_stay_in_their_family(name):
    """A family may use what it builds on: the contract and the families that it may import."""
    family = family_of(name)
    own = {family, "contract", *FAMILIES[family]} if name.startswith("models.") else set()
    found = {private for private in private_attributes(ast.parse(NAMES[name].read_text())) if private in PRIVATE}
    found = {private for private in found if not PRIVATE[private] & own}
    assert not found, f"{name} reads {found} of models"


def loaded_by(statement):
    """The modules that are loaded after a statement in a new process."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {*done.stdout.split()}


DEEP = ("jensen.nets.", "jensen.engines.sgd.", *(f"jensen.models.{family}." for family in DEEP_FAMILIES))


def test_a_comparison_of_classical_models_loads_no_network():
    """Of the deep families and the networks nothing is imported, neither at first nor when the models are fitted."""
    fit = "compare([[0.0], [1.0], [2.0], [4.0]], ['gaussian-mixture'], cv=2, effort='quick')"
    found = loaded_by(f"from jensen.evaluate.compare import compare\n{fit}")
    assert "jensen.models.mixtures.gaussian_mixture" in found
    assert not {module for module in found if module.startswith(DEEP)}


def test_families_and_capabilities_are_imported_without_models():
    names = [f"jensen.models.{family}" for family in FAMILIES]
    found = loaded_by(f"import jensen.contract.capabilities, jensen.registry, {', '.join(names)}")
    assert "torch" not in found
    assert "sklearn" not in found
    assert {module for module in found if module.startswith("jensen.models.")} == {*names}


def test_only_packages_list_public_names():
    """A name is public because the root or a package has it, not because its module lists it."""
    lists = {name for name, path in NAMES.items() if path.name != "__init__.py" and "\n__all__ =" in path.read_text()}
    assert not lists


def test_no_module_is_long():
    """The reader of a file should find one idea."""
    long = {name: n for name, path in NAMES.items() if (n := len(path.read_text().splitlines())) > 350}
    assert not long


def test_no_model_is_more_than_five_classes_deep():
    """What a model inherits should fit on a screen; scikit-learn's classes do not count."""
    public = [getattr(jensen, name) for name in jensen.__all__]
    models = [
        value
        for value in public
        if isinstance(value, type) and issubclass(value, (LatentVariableModel, RidgeRegression))
    ]
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
