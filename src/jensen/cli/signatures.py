"""The arguments of a public class, read from its source without an import, so that mistakes are reported at once."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import cache, reduce
from importlib.util import find_spec
from operator import or_
from types import NoneType
from typing import Any

from jensen import _HOMES

PLAIN = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True)
class Argument:
    """
    Args:
        is_switch: whether its default is true or false.
        parts: the public classes that its annotation names.
        plain: the argument as `inspect` has it, if its annotation names only types such as int and str.
    """

    is_switch: bool
    parts: tuple[str, ...]
    plain: inspect.Parameter | None


@cache
def arguments_of(class_name: str) -> dict[str, Argument] | None:
    """The arguments of the constructor by name; None if the source is not available or has *args or **kwargs."""
    source = source_of(_HOMES[class_name])
    if source is None:
        return None
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    constructor = constructor_of(class_name, classes)
    if constructor is None or constructor.args.vararg or constructor.args.kwarg:
        return None
    given = constructor.args
    named = [*given.posonlyargs, *given.args][1:]
    defaults = [*[None] * (len(named) - len(given.defaults)), *given.defaults, *given.kw_defaults]
    pairs = zip([*named, *given.kwonlyargs], defaults, strict=False)
    return {
        argument.arg: Argument(is_boolean(default), parts_of(argument.annotation), plain(argument, default))
        for argument, default in pairs
    }


def source_of(module: str) -> str | None:
    """The source of a module. Its packages are imported; they contain only their docstring."""
    spec = find_spec(module)
    read = getattr(getattr(spec, "loader", None), "get_source", None)
    return None if read is None else read(module)


def constructor_of(class_name: str, classes: dict[str, ast.ClassDef]) -> ast.FunctionDef | None:
    """The constructor of a class, or of its first base class in the same file that has one."""
    node = classes.get(class_name)
    if node is None:
        return None
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return item
    found = (constructor_of(base.id, classes) for base in node.bases if isinstance(base, ast.Name))
    return next((constructor for constructor in found if constructor is not None), None)


def is_boolean(default: ast.expr | None) -> bool:
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)


def parts_of(annotation: ast.expr | None) -> tuple[str, ...]:
    nodes = () if annotation is None else ast.walk(annotation)
    return tuple(node.id for node in nodes if isinstance(node, ast.Name) and node.id in _HOMES)


def plain(argument: ast.arg, default: ast.expr | None) -> inspect.Parameter | None:
    nodes = [] if argument.annotation is None else list(ast.walk(argument.annotation))
    kinds: list[Any] = [PLAIN.get(node.id) for node in nodes if isinstance(node, ast.Name)]
    others = [node for node in nodes if not isinstance(node, (ast.Name, ast.BinOp, ast.BitOr, ast.Constant, ast.Load))]
    if not kinds or None in kinds or others or not isinstance(default, ast.Constant):
        return None
    with_none = [*kinds, NoneType] if any(isinstance(node, ast.Constant) for node in nodes) else kinds
    hint = reduce(or_, with_none)
    return inspect.Parameter(argument.arg, inspect.Parameter.KEYWORD_ONLY, default=default.value, annotation=hint)
