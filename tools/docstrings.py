"""Our docstrings as the API reference reads them."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Docstrings", "rewritten"]

ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
SECTIONS = {"Example:": "Examples:", "Attributes:": "**Attributes:**\n"}


class Docstrings(griffe.Extension):
    """Every docstring is read as `rewritten` has it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """`Example:` as a section of examples, attributes as a list, `a, b: what they are` once for a and once for b."""
    lines: list[str] = []
    section = ""
    entry: tuple[list[str], list[str]] = ([], [])

    def flush() -> None:
        names, body = entry
        if section == "Attributes:" and names:
            shown = ", ".join(f"`{name}`" for name in names)
            lines.append(f"- {shown}: {' '.join(line.strip() for line in body)}")
        else:
            for name in names:
                lines.extend([f"    {name}: {body[0]}", *body[1:]])
        names.clear()
        body.clear()

    for line in text.splitlines():
        named = ENTRY.match(line) if section in ("Args:", "Attributes:") else None
        if named:
            flush()
            entry[0].extend(named[1].split(", "))
            entry[1].append(named[2])
        elif entry[0] and line.startswith("     "):
            entry[1].append(line)
        else:
            flush()
            if line and not line.startswith(" "):
                section = line
            lines.append(SECTIONS.get(line, line))
    flush()
    return "\n".join(lines)
