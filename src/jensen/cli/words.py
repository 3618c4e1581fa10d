"""Messages of the library in the words of the shell: arguments of Python as options of the command that runs.

effort='fast'                    --effort fast
random_state=0                   --seed 0
y=None, y                        no --label, --label
drop 'a', 'b'                    --drop a,b
columns={'zip': 'left out'}      --drop zip
columns={'zip': 'level'}         --types zip=text, or --columns '{"zip": "level"}' of a model
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Collection
from typing import Any

from jensen.cli.arguments import flag_of
from jensen.cli.signatures import arguments_of

SEED = {"random_state": "--seed"}
VALUE = r"'[^']*'|\"[^\"]*\"|-?\d[\w.+-]*|[A-Za-z_]\w*"
ARGUMENT = re.compile(rf"(?<![\w.'\"({{-])(?P<name>[a-z]\w*)=(?P<value>{VALUE})(?![\w(\[{{=])")
# A name that is no word of English.
NAME = re.compile(r"(?<!names )(?<![\w.'\"(/-])(?:[a-z]+(?:_[a-z]+)+|tol)(?![\w'\"(/=-])(?!\.\w)")
COLUMNS = re.compile(r"columns=(?P<kinds>\{'[^{}]*'\})")
KEPT = re.compile(r"keep one by its kind, such as columns=\{[^{}]*\}, or drop it")
DROPPED = re.compile(r"\bdrop (?P<names>'[^',]*'(?:, '[^',]*')*)")
# y where it is no part of a name, a path or a formula.
LABELS = re.compile(r"(?<![\w'\"/.(|=-])y(?![\w'\"/(|=-]|\.\w)")
# What reads a column as the kind that a hint names; levels of numbers are text.
TYPES = {"number": "number", "count": "number", "level": "text", "yes/no": "text", "date": "date"}


def in_shell_words(text: str, flags: Collection[str], takes_models: bool) -> str:
    """A message with the options of a command in place of arguments.

    Args:
        text: the message.
        flags: the options of the command, and of its model if it takes one.
        takes_models: whether it does.

    Example:
        >>> in_shell_words("effort='fast' is not known; choose 'quick'", ["--effort", "--drop"], False)
        "--effort fast is not known; choose 'quick'"
    """
    if not takes_models and "--drop" in flags:
        text = KEPT.sub("--drop leaves a column out without this line", text)
    if "--drop" in flags:
        text = DROPPED.sub(dropped_in_words, text)
    text = COLUMNS.sub(lambda found: columns_in_words(found, flags, takes_models), text)
    if "--label" in flags:
        text = text.replace("call fit(X, y) with some labels in y", "fit it with --label")
        text = re.sub(r"pass y=None to ignore labels", "leave --label out", text)
        text = re.sub(r"\by=None\b", "no --label", text)
        text = LABELS.sub("--label", text)
    text = ARGUMENT.sub(lambda found: argument_in_words(found, flags), text)
    return NAME.sub(lambda found: flag if (flag := flag_of(found[0])) in flags else found[0], text)


def argument_in_words(found: re.Match[str], flags: Collection[str]) -> str:
    name, value = found["name"], found["value"]
    flag = SEED.get(name, flag_of(name))
    plain = value[1:-1] if value[0] in "'\"" else value
    if f"--no-{flag[2:]}" in flags:
        # A switch: the usual value is True.
        return f"--no-{flag[2:]}" if value == "False" else f"no --no-{flag[2:]}"
    return f"{flag} {shlex.quote(plain)}" if flag in flags else found[0]


def dropped_in_words(found: re.Match[str]) -> str:
    return f"--drop {shlex.quote(found['names'].replace(', ', ',').replace(chr(39), ''))}"


def columns_in_words(found: re.Match[str], flags: Collection[str], takes_models: bool) -> str:
    try:
        kinds: dict[Any, Any] = ast.literal_eval(found["kinds"])
    except (ValueError, SyntaxError):
        return found[0]
    if takes_models:
        return f"--columns {shlex.quote(json.dumps(kinds))}"
    if len(kinds) != 1 or not {"--drop", "--types"} <= {*flags}:
        return found[0]
    ((name, kind),) = kinds.items()
    if kind == "left out":
        return f"--drop {shlex.quote(str(name))}"
    return f"--types {shlex.quote(f'{name}={TYPES[kind]}')}" if kind in TYPES else found[0]


def arguments_of_model(words: Collection[str]) -> Collection[str]:
    """The arguments of the model that the words of a command name; none if they name none."""
    from jensen.registry import MODELS, class_name

    name = next((word for word in words if word in MODELS), None)
    return () if name is None else arguments_of(class_name(name)) or ()
