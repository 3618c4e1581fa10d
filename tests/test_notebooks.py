"""The notebooks hold no output, say what is true, and run; `make test-slow` runs them in a kernel, as a reader does."""

from __future__ import annotations

import ast
import builtins
import json
import re
from importlib import import_module
from pathlib import Path

import pytest

import jensen
from pages import ROOT, links, notebook_page
from test_docs import places

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# A notebook takes less than two minutes of one core; this is many times that, and stops one that hangs.
PATIENCE = 1800

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def code(path: Path) -> ast.Module:
    return ast.Module([node for cell in cells(path, "code") for node in ast.parse(cell).body], [])


def undefined(tree: ast.Module) -> set[str]:
    """Names that are read and never bound."""
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return read - bound - set(dir(builtins))


def test_there_are_ten():
    assert len(NOTEBOOKS) == 10


@each
def test_no_output_is_committed(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", (
        "one line of source is one line of the file"
    )


@each
def test_it_is_a_notebook(path):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))
    assert cells(path, "markdown")[0].startswith("# ")


@each
def test_every_name_is_there(path):
    tree = code(path)
    assert undefined(tree) == set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jensen":
            module = import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "jensen":
            assert node.attr in jensen.__all__


def test_a_name_that_is_not_there_is_found():
    assert undefined(ast.parse("import a.b as c\nfor d in c: print(d, e)\ndef f(g): return g + h")) == {"e", "h"}


@each
def test_every_link_leads_somewhere(path):
    for text in cells(path, "markdown"):
        for _, target, anchor in links(text):
            file = path.parent / target
            assert file.is_file(), f"{path.name} has a link to {target}"
            if anchor:
                assert anchor[1:] in places(file.read_text(encoding="utf-8")), f"{path.name}: {target}{anchor}"


def test_every_notebook_is_listed():
    text = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert [target for _, target, _ in links(text) if target.endswith(".ipynb")] == re.findall(
        r"\.\./notebooks/[\w-]+\.ipynb", text
    )
    assert sorted(set(re.findall(r"\.\./notebooks/([\w-]+)\.ipynb", text))) == [path.stem for path in NOTEBOOKS]


def test_the_page_of_a_notebook_has_its_text_and_its_code():
    page = notebook_page("notebooks/imputation.ipynb")
    assert page.startswith("# Imputation")
    assert "[Imputation](../imputation.md)" in page
    assert "```python\nimport jensen\n" in page
    assert '[imputation.ipynb](imputation.ipynb){ download="imputation.ipynb" }' in page


@pytest.mark.slow
@each
def test_a_notebook_runs(path, tmp_path):
    """Its assertions hold, no cell prints a warning, and every plot is a picture."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            errors = [output["text"] for output in cell.outputs if output.get("name") == "stderr"]
            assert "Warning" not in "".join(errors)
            if re.search(r"^\w.*\.plot|^ax\.|^show\(", cell.source, re.MULTILINE):
                pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
                assert len(pictures) == 1, cell.source
