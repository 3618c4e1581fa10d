"""Convert the Markdown of the repository to that of the site.

Pages can be read in the repository as well: a link to `../examples/em_steps.py` leads to that file there, and to its
page in the gallery on the site. So links out of `docs/` are rewritten, and every linked source file becomes a page.
Parts of the README are inserted, not copied.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = [
    "ROOT",
    "ROOT_PAGES",
    "code_pages",
    "line_of",
    "links",
    "notebook_page",
    "rewritten",
    "section",
    "title_of",
    "with_api",
    "with_links",
    "with_readme",
    "with_shell",
    "with_tabs",
]

ROOT = Path(__file__).resolve().parent.parent
# Files of the repository that are pages of the site.
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
# Each is a page with sliders.
EXPLAINERS = "src/jensen/studio/explainers"
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
# A Python block followed directly by a shell block.
PAIR = re.compile(r"^```python\n((?:(?!```).*\n)*)```\n\n```sh\n((?:(?!```).*\n)*)```$", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
SECTIONS = {"Example:": "Examples:", "Attributes:": "**Attributes:**\n"}
README_PART = re.compile(r"^<!-- README: (.+) -->$", re.MULTILINE)
PUBLIC = re.compile(r"^::: jensen\.(\w+)$", re.MULTILINE)


def outside_code(pattern: re.Pattern[str], text: str) -> Iterable[re.Match[str]]:
    """Matches outside fenced blocks."""
    fences = [match.span() for match in FENCE.finditer(text)]
    for match in pattern.finditer(text):
        if not any(begin <= match.start() < end for begin, end in fences):
            yield match


def links(text: str) -> list[tuple[str, str, str]]:
    """(text, target, anchor) of every link to a file of the repository or to an anchor of the same page."""
    found = [(m["text"], m["target"], m["anchor"] or "") for m in outside_code(LINK, text)]
    return [link for link in found if not re.match(r"[a-z]+:", link[1])]


def line_of(name: str, path: Path) -> int | None:
    """Line number of the definition of a function, class or method."""
    return lines_of(path.resolve()).get(name)


@cache
def lines_of(path: Path) -> dict[str, int]:
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name: node.lineno for node in found if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def page_of(file: str) -> str:
    """The page of the site that shows a file of the repository."""
    special = {"README.md": "index.md", "examples": "gallery/index.md"} | ROOT_PAGES
    if file in special:
        return special[file]
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    shared = ("examples/drawing.py", "examples/moving.py")
    if file.startswith("examples/") and file.endswith(".py") and file not in shared:
        return f"gallery/{Path(file).stem}.md"
    if file.startswith("notebooks/"):
        return file.removesuffix(".ipynb") + ".md"
    if file.startswith(f"{EXPLAINERS}/"):
        return f"explain/{Path(file).stem}.html"
    return f"source/{file}.md"


def title_of(file: str) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else file


def shown_text(text: str, file: str) -> str:
    """Text of a link on the site: the title of a page replaces its file name."""
    if text.rstrip("/") == "examples":
        return "the gallery"
    if not text.endswith(".md") or not (ROOT / file).is_file():
        return text
    return title_of(file)


def with_links(text: str, file: str, page: str) -> str:
    """Rewrite links of a repository file so that they lead to the pages of the site.

    Args:
        text: the file, or a part of it.
        file: its path in the repository, such as `docs/vae.md`.
        page: its path on the site, such as `vae.md`.
    """

    def turned(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        if not (ROOT / found).exists() and not found.startswith("docs/"):
            raise FileNotFoundError(f"{file} has a link to {target}, which is not there")
        shown = page_of(found)
        if shown.startswith("source/") and found.endswith(".py"):
            line = line_of(match["text"].strip("`"), ROOT / found)
            anchor = f"#__span-0-{line}" if line else ""
        place = posixpath.relpath(shown, posixpath.dirname(page) or ".")
        return f"{match['image']}[{shown_text(match['text'], found)}]({place}{anchor})"

    pieces, end = [], 0
    for match in outside_code(LINK, text):
        pieces += [text[end : match.start()], turned(match)]
        end = match.end()
    return "".join([*pieces, text[end:]])


def code_pages() -> dict[str, str]:
    """Source files that some page links to, by their page, such as `source/tests/cases.py.md`."""
    found = {"source/examples/drawing.py.md": "examples/drawing.py"}
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", *ROOT_PAGES))]:
        folder = path.parent.relative_to(ROOT).as_posix()
        for _, target, _ in links(path.read_text(encoding="utf-8")):
            file = posixpath.normpath(posixpath.join(folder, target))
            if target and page_of(file).startswith("source/"):
                found[page_of(file)] = file
    return found


def notebook_page(file: str) -> str:
    """The page of a notebook: its text and its code, and the file itself to download."""
    parts = []
    for cell in json.loads((ROOT / file).read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        is_text = cell["cell_type"] == "markdown"
        parts.append(with_links(text, file, page_of(file)) if is_text else f"```python\n{text}\n```")
    name = Path(file).name
    title, _, rest = parts[0].partition("\n")
    run = f'To run it in Jupyter: [{name}]({name}){{ download="{name}" }}.'
    return "\n\n".join([title, run, rest.strip(), *parts[1:]]) + "\n"


def section(text: str, heading: str) -> str:
    """Text below a heading, up to the next heading of the same or a higher level."""
    match = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.MULTILINE)
    if match is None:
        raise KeyError(f"there is no heading {heading!r}")
    end = re.search(rf"^#{{1,{len(match[1])}}} ", text[match.end() :], re.MULTILINE)
    return text[match.end() :][: end.start() if end else None].strip()


def with_readme(text: str, page: str) -> str:
    """`<!-- README: X -->` becomes the section X of the README, or the paragraph that starts with X."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def part(match: re.Match[str]) -> str:
        paragraphs = [p for p in readme.split("\n\n") if p.startswith(match[1])]
        return with_links(paragraphs[0] if paragraphs else section(readme, match[1]), "README.md", page)

    return README_PART.sub(part, text)


def with_tabs(text: str) -> str:
    """A Python block followed directly by a shell block becomes two tabs."""

    def tabs(match: re.Match[str]) -> str:
        blocks = (("Python", "python", match[1]), ("Shell", "sh", match[2]))
        return "\n".join(
            f'=== "{name}"\n\n' + "".join(f"    {line}\n" for line in [f"```{kind}", *code.splitlines(), "```"])
            for name, kind, code in blocks
        )

    return PAIR.sub(tabs, text)


def with_shell(text: str) -> str:
    """Mark plain blocks of commands as shell code."""
    return re.sub(r"^```\n(?=(?:jensen|make|pip) )", "```sh\n", text, flags=re.MULTILINE)


def with_api(text: str, homes: dict[str, str], level: int = 2) -> str:
    """`::: jensen.VAE` becomes the documentation of the object under its public name."""

    def entry(match: re.Match[str]) -> str:
        name = match[1]
        return (
            f'<span id="jensen.{name}"></span>\n\n::: {homes[name]}.{name}\n'
            f"    options:\n"
            f"      heading: {name}\n      toc_label: {name}\n      heading_level: {level}\n"
        )

    return PUBLIC.sub(entry, text)


def rewritten(text: str) -> str:
    """A docstring in the form that the reference expects.

    `Example:` becomes a section, attributes become a list, and `a, b: text` is repeated for a and for b.
    """
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
