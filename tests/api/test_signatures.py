"""Snapshots of the public names: arguments with their defaults, methods and documented attributes.

A change of the public interface is always deliberate. After one, write them anew and read the difference:

    python tests/api/test_signatures.py
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import jensen

SNAPSHOTS = Path(__file__).parent / "snapshots"
KINDS = {classmethod: "classmethod ", staticmethod: "staticmethod "}
ATTRIBUTES = re.compile(r"^ +Attributes:\n((?:(?: {8}.*)?\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {8}(\w+(?:, \w+)*): ", re.MULTILINE)


def path_of(name: str) -> Path:
    """`Scan` and `scan` need two files also where file names have no case."""
    return SNAPSHOTS / f"{name}.{'class' if inspect.isclass(getattr(jensen, name)) else 'function'}.txt"


def snapshot(name: str, value: Any) -> str:
    """A line per argument, method and attribute of a public name."""
    is_class = inspect.isclass(value)
    lines = [f"{'class' if is_class else 'def'} {name}(", *arguments(value)]
    lines.append(")" if is_class else f"){returned(value)}")
    if is_class:
        lines += methods(value)
        lines += [f".{attribute}" for attribute in sorted(attributes(value))]
    return "\n".join(lines) + "\n"


def arguments(call: Any) -> list[str]:
    """Each on a line, with `*` where names become necessary."""
    parts = [str(one) for one in without_return(inspect.signature(call))]
    return [f"    {part}," for part in parts]


def without_return(signature: inspect.Signature) -> list[str]:
    """The arguments as Python writes them; annotations are strings and are written without their quotes."""
    parts: list[str] = []
    is_keyword = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not is_keyword:
            parts += ["*"]
        is_keyword = is_keyword or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        sign = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {shown_type(one.annotation)}"
        default = "" if one.default is one.empty else f" = {one.default!r}"
        parts.append(f"{sign}{one.name}{kind}{default}")
        if one.kind is one.POSITIONAL_ONLY:
            parts.append("/")
    return parts


def returned(call: Any) -> str:
    answer = inspect.signature(call).return_annotation
    return "" if answer is inspect.Signature.empty else f" -> {shown_type(answer)}"


def shown_type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def members(value: type) -> dict[str, Any]:
    """Public members that jensen itself defines; those of scikit-learn and torch differ between their versions."""
    found = {}
    for name in dir(value):
        home = next((base for base in value.__mro__ if name in vars(base)), None)
        # scikit-learn adds methods such as set_fit_request to the classes of others.
        is_public = not name.startswith("_") and not re.fullmatch(r"set_\w+_request", name)
        if is_public and home is not None and home.__module__.startswith("jensen"):
            found[name] = vars(home)[name]
    return found


def methods(value: type) -> list[str]:
    lines = []
    for name, member in members(value).items():
        call = getattr(value, name)
        if is_method(call) and not (call.__doc__ or "").startswith("Not offered: "):
            lines.append(f"{KINDS.get(type(member), '')}{name}({', '.join(without_return(inspect.signature(call)))})")
            lines[-1] += returned(call)
    return lines


def is_method(call: Any) -> bool:
    return inspect.isfunction(call) or inspect.ismethod(call)


def attributes(value: type) -> set[str]:
    """Properties, what is read from theta_, class attributes, and what the docstrings list."""
    found = {name for name in members(value) if not is_method(getattr(value, name))}
    documented = {
        name
        for base in value.__mro__
        if base.__module__.startswith("jensen")
        for block in ATTRIBUTES.findall(f"{base.__doc__}\n")
        for entry in ENTRY.findall(block)
        for name in entry.split(", ")
    }
    return found | documented


@pytest.mark.parametrize("name", jensen.__all__)
def test_the_interface_is_that_of_the_snapshot(name):
    path = path_of(name)
    assert path.is_file(), f"{name} is new: run `python tests/api/test_signatures.py`"
    assert snapshot(name, getattr(jensen, name)) == path.read_text(encoding="utf-8"), (
        f"the interface of jensen.{name} has changed: if that is meant, run `python tests/api/test_signatures.py` and "
        "add a line to the changelog"
    )


def test_there_is_no_snapshot_of_what_is_gone():
    assert {path.name for path in SNAPSHOTS.iterdir()} == {path_of(name).name for name in jensen.__all__}


def test_no_snapshot_names_a_place_in_memory():
    """A default without a repr of its own would differ from run to run."""
    assert not [path.name for path in SNAPSHOTS.iterdir() if " at 0x" in path.read_text(encoding="utf-8")]


class Sample:
    """A class.

    Attributes:
        a_, b_: documented.

    Example:
        more
    """

    def __init__(self, n: int = 1, *, tol: float = 0.1) -> None: ...

    def fit(self, X: Any, y: Any = None) -> Sample: ...

    @property
    def c_(self) -> int: ...


def altered(**changes: Any) -> type:
    """The class with other members."""
    members = {name: value for name, value in vars(Sample).items() if name not in ("__dict__", "__weakref__")}
    return type("Sample", (), {**members, "__module__": "jensen.sample", **changes})


def init(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(f"def __init__(self, {text}) -> None: ...", space)
    return space["__init__"]


BEFORE = snapshot("Sample", altered())


def test_a_snapshot_reads_like_python():
    assert BEFORE == (
        "class Sample(\n    n: int = 1,\n    *,\n    tol: float = 0.1,\n)\n"
        "fit(self, X: Any, y: Any = None) -> Sample\n.a_\n.b_\n.c_\n"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"__init__": init("n: int = 2, *, tol: float = 0.1")},  # another default
        {"__init__": init("n: int = 1, tol: float = 0.1")},  # by position
        {"__init__": init("*, tol: float = 0.1, n: int = 1")},  # another order
        {"__init__": init("m: int = 1, *, tol: float = 0.1")},  # another name
        {"__init__": init("n: int = 1")},  # gone
        {"fit": lambda self, X: self},
        {"c_": None, "__doc__": "Without attributes."},
        {"more": lambda self: self},
    ],
)
def test_every_change_is_seen(changes):
    assert snapshot("Sample", altered(**changes)) != BEFORE


def test_a_method_that_does_not_exist_is_not_listed():
    assert "bound" in vars(jensen.KMedoids)
    assert "bound" not in snapshot("KMedoids", jensen.KMedoids)
    assert "\npredict(self, X: Table)" in snapshot("VAE", jensen.VAE)


if __name__ == "__main__":
    SNAPSHOTS.mkdir(exist_ok=True)
    for old in SNAPSHOTS.iterdir():
        old.unlink()
    for name in jensen.__all__:
        path_of(name).write_text(snapshot(name, getattr(jensen, name)), encoding="utf-8")
    sys.stdout.write(f"wrote {len(jensen.__all__)} interfaces to {SNAPSHOTS}\n")
