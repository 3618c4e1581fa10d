"""A model's constructor arguments from words on the command line, by their annotations and defaults.

A value is a bare word, or it is written as in Python: a literal, [0.5, 0.5], or a recipe, MLP(hidden=(50, 50)). A
literal may contain recipes: {"age": Gaussian(variance="feature")}.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from jensen.cli.signatures import arguments_of

BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
MANY = 10_000
WORDS = {"true": True, "false": False, "none": None}


def read_arguments(
    tokens: Sequence[str], parameters: Mapping[str, inspect.Parameter], refuse: Callable[[str], Exception]
) -> tuple[str, dict[str, Any]]:
    """The data file, and the arguments of the model from `--name value` and `--name=value`; a bare `--flag` is true."""
    switches = {name: isinstance(parameter.default, bool) for name, parameter in parameters.items()}
    path, texts = sort_words(tokens, switches, refuse)
    return path, {name: read_value(text, parameters[name]) for name, text in texts.items()}


def read_value(text: str | None, parameter: inspect.Parameter) -> Any:
    if text is None:
        raise ValueError(f"{flag_of(parameter.name)} needs a value: {type_text(parameter)}")
    return convert(text, parameter)


def sort_words(
    tokens: Sequence[str], switches: Mapping[str, bool], refuse: Callable[[str], Exception]
) -> tuple[str, dict[str, str | None]]:
    """The data file, and the text of every option; None if an option has no text.

    Args:
        switches: all options, and whether they need no text.
        refuse: the error for an unknown option.
    """
    words: list[str] = []
    texts: dict[str, str | None] = {}
    queue = deque(tokens)
    while queue:
        flag, equals, text = (token := queue.popleft()).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not token.startswith("--"):
            words.append(token)
            continue
        if name not in switches:
            raise refuse(flag)
        if equals:
            texts[name] = text
        elif switches[name]:
            texts[name] = queue.popleft() if queue and queue[0].lower() in BOOLEANS else "true"
        else:
            texts[name] = queue.popleft() if queue and not queue[0].startswith("--") else None
    if len(words) != 1:
        raise ValueError(f"give one data file, got {', '.join(words) or 'none'}; options start with --")
    return words[0], texts


def read_grid(texts: Sequence[str], parameters: Mapping[str, inspect.Parameter]) -> dict[str, list[Any]]:
    """Values to try, from texts such as `n-clusters=1:10` and `tol=1e-3,1e-4`; a:b and a:b:step include b."""
    return {
        name: [convert(value, parameters[name]) for part in split(values) for value in spread(part.strip())]
        for name, values in sort_grid(texts, parameters).items()
    }


def sort_grid(texts: Sequence[str], names: Collection[str]) -> dict[str, str]:
    """The text with the values of every option in a grid."""
    grid: dict[str, str] = {}
    for text in texts:
        flag, equals, values = text.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not (equals and values):
            raise ValueError(f"--grid {text!r} must be a name and values, such as n-clusters=1:10 or tol=1e-3,1e-4")
        if name not in names:
            raise unknown(flag_of(name), map(flag_of, names))
        if name in grid:
            raise ValueError(f"--grid {text!r} names {name} twice; write all values in one list")
        grid[name] = values
    return grid


def split(text: str) -> list[str]:
    """The parts between commas, except commas in brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def spread(text: str) -> list[str]:
    """The values of a range a:b or a:b:step, as texts; any other text is returned."""
    if not re.fullmatch(f"{NUMBER}:{NUMBER}(:{NUMBER})?", text, re.IGNORECASE):
        return [text]
    # Decimals are exact: 0.1:0.3:0.1 has three values.
    start, stop, step = (*map(Decimal, text.split(":")), Decimal(1))[:3]
    if step <= 0 or not 0 <= (stop - start) / step < MANY:
        raise ValueError(
            f"the range {text} has no values, or more than {MANY}; write from:to or from:to:step, "
            "with from <= to and step > 0"
        )
    return [format((start + i * step).normalize(), "f") for i in range(int((stop - start) / step) + 1)]


def unknown(flag: str, flags: Iterable[str], parts: Sequence[str] = ()) -> ValueError:
    flags = sorted(flags)
    close = "".join(f"; did you mean {match}?" for match in get_close_matches(flag, flags, 1))
    parts_text = f"; it belongs to a part: {' or '.join(parts)}." if parts else ""
    return ValueError(f"there is no option {flag}{parts_text or close or ';'} There are {', '.join(flags)}")


def parts_with(name: str, class_name: str) -> list[str]:
    """How to give an argument that belongs to a part of the model."""
    return [
        f"{flag_of(part)} '{kind}({name}=...)'"
        for part, argument in (arguments_of(class_name) or {}).items()
        for kind in argument.parts
        if name in (arguments_of(kind) or {})
    ]


def convert(text: str, parameter: inspect.Parameter) -> Any:
    """Convert a text to a value of an argument, by its annotation, or else by its default."""
    kinds = kinds_of(parameter)
    if text.lower() == "none" and (parameter.default is None or NoneType in kinds):
        return None
    flag, default = flag_of(parameter.name), default_text(parameter.default)
    reason = ""
    is_dictionary = {get_origin(kind) or kind for kind in kinds} - {NoneType} == {Mapping}
    if any(get_origin(kind) is Mapping for kind in kinds):
        # A dictionary by column may hold words and recipes of every kind.
        kinds = (Any,)
    # A word alone is no list of one word, if it may be either.
    is_word = str in kinds and any(get_origin(kind) is list for kind in kinds) and re.search(r"[,\[(]", text) is None
    first = [str] if is_word else []
    for kind in [*first, *sorted((kind for kind in kinds if kind is not NoneType), key=lambda kind: kind is str)]:
        try:
            value = value_of(text, kind)
            if is_dictionary and not isinstance(value, Mapping):
                raise ExpressionError(f'write a dictionary by column, such as {flag} \'{{"zip": "level"}}\'')
            return value
        except JsonError as error:
            raise ValueError(f"{flag} {text!r} is JSON; write it as in Python: {flag} {error}") from None
        except ExpressionError as error:
            reason = f": {error}"
            break
        except (ValueError, KeyError, TypeError):
            continue
    raise ValueError(f"{flag} {text!r} cannot be read as {type_text(parameter)}{reason}; its default is {default}")


def value_of(text: str, kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        if text.lower() == "none" and NoneType in get_args(kind):
            return None
        return value_of(text, next(option for option in get_args(kind) if option is not NoneType))
    if kind is bool:
        return BOOLEANS[text.lower()]
    if kind in (int, float, str):
        return kind(text)
    if get_origin(kind) is os.PathLike:
        return text
    if get_origin(kind) in (list, tuple, Sequence) or kind in (list, tuple):
        item = (get_args(kind) or (Any,))[0]
        parts = (value_of(part.strip(" '\""), item) for part in text.strip("[]()").split(",") if part.strip())
        return list(parts) if get_origin(kind) is list else tuple(parts)
    import numpy as np

    is_recipe = hasattr(kind, "get_params")
    value = expression(text, kind.__name__ if is_recipe and not inspect.isabstract(kind) else None)
    if is_recipe and not isinstance(value, kind):
        raise TypeError
    return np.array(value) if isinstance(value, (list, tuple)) else value


class ExpressionError(ValueError):
    """A text that begins like Python, but cannot be read."""


class JsonError(ValueError):
    """A text in JSON; the message is the same in Python, quoted for a shell."""


def expression(text: str, recipe: str | None = None) -> Any:
    """The value of a Python literal or of a call of a recipe; any other text is a word.

    Args:
        recipe: the only recipe that can be meant.
    """
    text = text.strip()
    is_word = not (text.startswith(("[", "{", "(")) or calls_recipe(text))
    try:
        node = parse(text)
        if not is_word:
            check_python(node, recipe)
        return built(node)
    except JsonError:
        raise
    except (SyntaxError, TypeError, ValueError) as error:
        if is_word:
            return text
        raise ExpressionError(f"{error.msg if isinstance(error, SyntaxError) else error}") from None


class InPython(ast.NodeTransformer):
    """What JSON writes as null and in quotes, as Python writes it."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(None) if node.id == "null" else node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return parse(node.value) if isinstance(node.value, str) and calls_recipe(node.value) else node


def check_python(node: ast.expr, recipe: str | None) -> None:
    """An error for JSON: null, a recipe in quotes, or an object in place of a recipe."""
    before = ast.unparse(node)
    python = InPython().visit(node)
    if recipe is not None and isinstance(python, ast.Dict):
        pairs = zip(python.keys, python.values, strict=True)
        named = [ast.keyword(getattr(key, "value", "?"), value) for key, value in pairs]
        python = ast.Call(ast.Name(recipe), [], named)
    if ast.unparse(python) != before:
        raise JsonError(shlex.quote(ast.unparse(python).replace("'", '"')))


def parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def calls_recipe(text: str) -> bool:
    from jensen.registry import MODELS, RECIPES

    called = re.match(r"([A-Z]\w*)(\(|$)", text)
    return called is not None and called[1] in (*RECIPES, *MODELS.values())


def built(node: ast.expr) -> Any:
    """The value of an expression of literals and recipes; nothing else is called or looked up."""
    from jensen.registry import recipe_classes

    if isinstance(node, ast.Name) and node.id in WORDS:
        return WORDS[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [built(item) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {built(key): built(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    call = ast.Call(node, [], []) if isinstance(node, ast.Name) else node
    if isinstance(call, ast.Call):
        known = recipe_classes()
        name = ast.unparse(call.func)
        if name not in known:
            raise ValueError(f"{name} is not a recipe, and text needs quotes; recipes are {', '.join(sorted(known))}")
        if any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("arguments must be written one by one")
        named = {str(keyword.arg): built(keyword.value) for keyword in call.keywords}
        return known[name](*(built(argument) for argument in call.args), **named)
    return ast.literal_eval(node)


def kinds_of(parameter: inspect.Parameter) -> tuple[Any, ...]:
    hint = parameter.annotation
    if hint is parameter.empty:
        return (Any if parameter.default is None else type(parameter.default),)
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def type_text(parameter: inspect.Parameter) -> str:
    names = {Any: "number, word or Python literal", NoneType: "none"}
    kinds = kinds_of(parameter)
    if Any in kinds:
        # Its text includes words and dictionaries.
        kinds = tuple(kind for kind in kinds if kind is not str and get_origin(kind) is not Mapping)
    return " | ".join(names.get(kind) or kind_text(kind) for kind in kinds if get_origin(kind) is not os.PathLike)


def kind_text(kind: Any) -> str:
    from jensen.registry import recipe_classes

    if hasattr(kind, "get_params"):
        possible = recipe_classes().values() if inspect.isabstract(kind) else [kind]
        return " | ".join(call_text(recipe) for recipe in possible if issubclass(recipe, kind))
    return re.sub(r"[\w.]+\.", "", inspect.formatannotation(kind))


def call_text(recipe: type) -> str:
    return f"{recipe.__name__}({', '.join(inspect.signature(recipe).parameters)})"


def default_text(default: Any) -> str:
    if default is None or isinstance(default, bool):
        return str(default).lower()
    return ",".join(map(str, default)) if isinstance(default, (list, tuple)) else str(default)


def argument_descriptions(cls: type) -> dict[str, str]:
    """The description of each argument in the docstring of a class."""
    section = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(cls) or "", re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
