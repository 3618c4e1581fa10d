"""Hooks of mkdocs: generate pages, and convert the Markdown of the repository to that of the site."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

import jensen
from command_line import commands
from explainers import explainer_index, explainer_pages
from gallery import ORDER, example_page, examples, index_page, run
from jensen.registry import MODELS
from pages import (
    ROOT,
    ROOT_PAGES,
    code_pages,
    notebook_page,
    section,
    title_of,
    with_api,
    with_links,
    with_readme,
    with_shell,
    with_tabs,
)

__all__ = ["on_config", "on_files", "on_page_markdown", "on_post_build"]

log = logging.getLogger("mkdocs.hooks.jensen")
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml"}
GROUPS = {
    "Jobs": "api/jobs.md",
    "Evaluation": "api/evaluation.md",
    "Networks and likelihoods": "api/networks.md",
    "Training, schedules and priors": "api/training.md",
    "Bounds and divergences": "api/information.md",
    "Files": "api/files.md",
}


def on_config(config: Any) -> Any:
    """Add generated pages to the nav, and the version to the foot of every page."""
    config.copyright = f"jensen {jensen.__version__}"
    for entry in config.nav:
        if "Gallery" in entry:
            entry["Gallery"] = ["gallery/index.md", *gallery_nav()]
        if "Explainers" in entry:
            entry["Explainers"] = ["explain/index.md"]
        if "Reference" in entry:
            models = [{name: f"api/models/{name}.md"} for name in sorted(MODELS.values())]
            rest = [{title: page} for title, page in GROUPS.items()]
            entry["Reference"] += [{"Models": models}, *rest]
    return config


def gallery_nav() -> list[dict[str, Any]]:
    """Topics and their scripts; the title in the nav is the name of the script."""
    topics: dict[str, list[dict[str, str]]] = {}
    for example in sorted(examples(), key=lambda e: (ORDER.index(e.topic), e.name)):
        words = example.name.replace("_", " ")
        title = re.sub(r"\b(em|kl|pca|vae)\b", lambda match: match[0].upper(), words[0].upper() + words[1:], flags=re.I)
        topics.setdefault(example.topic, []).append({title: f"gallery/{example.name}.md"})
    return [{topic: pages} for topic, pages in topics.items()]


def on_files(files: Files, config: Any) -> Files:
    """Add generated pages and figures."""

    def add(page: str, text: str) -> None:
        files.append(File.generated(config, page, content=text))

    pages = pages_of_names()
    titles = {page: title_of(f"docs/{page}") for page in pages.values()}
    found = examples()
    for example in found:
        done = run(example, log.info)
        add(f"gallery/{example.name}.md", example_page(example, done.printed, pages, titles))
        for end, path in done.pictures.items():
            files.append(File.generated(config, f"gallery/pictures/{example.name}{end}", abs_src_path=str(path)))
    add("gallery/index.md", index_page(found))
    add("explain/index.md", explainer_index())
    for page, text in explainer_pages(log.info):
        add(page, text)
    for file, page in ROOT_PAGES.items():
        add(page, with_links(read(file), file, page))
    for name in MODELS.values():
        link = f"[{titles[pages[name]]}](../../{pages[name]})"
        guide = f'<p class="guide" markdown>Guide: {link}</p>'
        add(f"api/models/{name}.md", f"{guide}\n\n::: jensen.{name}\n")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        add(f"notebooks/{path.stem}.md", notebook_page(f"notebooks/{path.name}"))
        files.append(File.generated(config, f"notebooks/{path.name}", abs_src_path=str(path)))
    for page, file in code_pages().items():
        kind = LANGUAGES.get(Path(file).suffix, "text")
        head = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
        add(page, f'{head}# {Path(file).name}\n\n`````{kind} title="{file}"\n{read(file).rstrip()}\n`````\n')
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Insert links, parts of the README, tabs and API entries into a page."""
    name = page.file.src_uri
    text = markdown if page.file.generated_by else with_links(markdown, f"docs/{name}", name)
    text = with_shell(with_tabs(with_readme(text, name)))
    text = text.replace("<!-- commands -->", commands()) if name == "command-line.md" else text
    text = text.replace("<!-- public names -->", table_of_names()) if name == "api/index.md" else text
    return with_api(text, jensen._HOMES, level=1 if name.startswith("api/models/") else 2)


@event_priority(-100)  # after the plugin has written the index
def on_post_build(config: Any) -> None:
    """Write the search index as a script, too: browsers do not fetch JSON for pages opened from a folder."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    if index.is_file():
        index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")


def read(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def pages_of_names() -> dict[str, str]:
    """The page of each class, from the table of models in the README."""
    rows = re.findall(r"^\|.*\|(.*)\| \[docs/.*\]\(docs/(.*)\) \|$", section(read("README.md"), "Models"), re.MULTILINE)
    return {name: page for names, page in rows for name in re.findall(r"`(\w+)`", names)}


def table_of_names() -> str:
    """All public names with the first sentence of their docstrings, by page."""
    homes = {name: f"models/{name}.md" for name in sorted(MODELS.values())}
    parts = [("Models", homes)]
    for title, page in GROUPS.items():
        names = re.findall(r"^::: jensen\.(\w+)$", read(f"docs/{page}"), re.MULTILINE)
        parts.append((title, {name: Path(page).name for name in names}))
    text = []
    for title, names in parts:
        text += [f"## {title}", "", "| name | description |", "| --- | --- |"]
        for name, page in names.items():
            first = (getattr(jensen, name).__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
            first = re.sub(r" +", " ", first).replace("|", "\\|")
            text.append(f"| [`{name}`]({page}#jensen.{name}) | {first} |")
        text.append("")
    return "\n".join(text)
