"""Markdown of all commands, from their help texts."""

from __future__ import annotations

import re
from typing import Any

import typer

from jensen.cli.app import app

__all__ = ["commands"]


def commands() -> str:
    """Usage, arguments and options of every command."""
    group: Any = typer.main.get_command(app)
    return "\n\n".join(command_part(*item) for item in group.commands.items())


def command_part(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=f"jensen {name}")
    text, _, examples = (command.help or "").partition("Examples:")
    records = {kind: [] for kind in ("argument", "option")}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            records["option" if parameter.opts[0].startswith("-") else "argument"].append(record)
    parts = [f"## jensen {name}", cleaned(text).strip()]
    if examples:
        lines = "\n".join(line.strip() for line in examples.strip().splitlines())
        parts.append(f"```sh\n{lines}\n```")
    parts += [table(kind, rows) for kind, rows in records.items() if rows]
    return "\n\n".join(parts)


def cleaned(text: str) -> str:
    """Remove Rich's markup, and the backslash of escaped brackets."""
    return re.sub(r"\[/?(?:bold|dim|italic)\]", "", text).replace("\\[", "[")


def table(kind: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {kind} | |", "| --- | --- |"]
    for word, text in rows:
        text = re.sub(r"  \[(.+)\]$", r" *\1*", cleaned(text).replace("*", r"\*"))
        lines.append(f"| `{word}` | {text} |".replace("\n", " "))
    return "\n".join(lines)
