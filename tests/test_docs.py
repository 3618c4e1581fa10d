"""The code of the pages runs, their links hold, and nothing is missing; `make docs` builds them."""

from __future__ import annotations

import ast
import json
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from numpy.testing import assert_allclose, assert_array_equal

import jensen
from check_site import check
from command_line import commands
from gallery import ORDER, example_page, examples, index_page
from jensen.registry import MODELS
from jensen.studio.catalogue import NAMES as EXPLAINERS
from jensen.studio.catalogue import loaded
from pages import (
    ROOT,
    ROOT_PAGES,
    code_pages,
    line_of,
    links,
    rewritten,
    section,
    with_api,
    with_links,
    with_readme,
    with_tabs,
)
from shell import succeed

PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", *(ROOT / name for name in ROOT_PAGES)]
NAMES = [path.relative_to(ROOT).as_posix() for path in TEXTS]
# Pages of exercises: every exercise is a section with a hint, a proof and a check.
EXERCISES = [
    name for name in NAMES if name.startswith("docs/exercises/") and Path(name).stem not in ("index", "where", "slips")
]
NOTEBOOKS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
SCRIPTS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").glob("*.py"))]
# These build a model of one's own, from classes of the package.
OWN_MODEL = {"docs/your-own-model.md", "notebooks/your-own-model.ipynb"}
# These take seconds each. The other pages train networks for minutes: `make test-slow` runs them.
QUICK = {
    *(name for name in NAMES if name.startswith("docs/exercises/")),
    "README.md",
    "docs/blend.md",
    "docs/columns.md",
    "docs/contract.md",
    "docs/density.md",
    "docs/factor-analysis.md",
    "docs/files.md",
    "docs/gaussian-mixture.md",
    "docs/index.md",
    "docs/kmeans.md",
    "docs/kmedoids.md",
    "docs/latent-classes.md",
    "docs/naive-bayes.md",
    "docs/mixture.md",
    "docs/one-bound.md",
    "docs/probabilistic-pca.md",
    "docs/ridge-regression.md",
    "docs/scaling.md",
    "docs/synthesize.md",
    "docs/topics.md",
    "docs/versions.md",
}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


WITH_CODE = [name for name in NAMES if blocks(read(name), "python") and name != "docs/quick-start.md"]


def code_of(name: str) -> list[str]:
    """The Python code of a page, a notebook or a script."""
    if name.endswith(".py"):
        return [read(name)]
    if name.endswith(".ipynb"):
        cells = ["".join(cell["source"]) for cell in json.loads(read(name))["cells"] if cell["cell_type"] == "code"]
        return [re.sub(r"^[%!].*$", "", cell, flags=re.MULTILINE) for cell in cells]
    return blocks(read(name), "python")


def jensen_names(code: str) -> set[str]:
    """Full names of what code takes from the package: `jensen.VAE`, `jensen.files.tables.read_file`."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "jensen":
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("jensen.")}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "jensen":
            found.add(f"jensen.{node.attr}")
    return found


def run(code: list[str], name: str) -> dict:
    """Run the blocks of a page in order, as a reader would."""
    namespace = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(code, start=1):
            exec(compile(block, f"{name}, block {number}", "exec", dont_inherit=True), namespace)
    return namespace


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, with the table that some pages read."""
    rng = np.random.default_rng(0)
    people = {"age": rng.normal(40, 9, 200), "smokes": rng.random(200) < 0.4, "town": rng.choice(["Bonn", "Oslo"], 200)}
    pd.DataFrame(people).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestCode:
    @pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in WITH_CODE]
    )
    def test_a_page_runs(self, name, folder):
        run(blocks(read(name), "python"), name)

    @pytest.mark.parametrize("name", WITH_CODE)
    def test_what_a_page_imports_is_there(self, name):
        """For all pages, also those that take long to run."""
        for block in blocks(read(name), "python"):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and node.module == "jensen":
                    assert {alias.name for alias in node.names} <= set(jensen.__all__)

    @pytest.mark.parametrize("name", sorted({*WITH_CODE, *NOTEBOOKS, *SCRIPTS} - {*EXERCISES, *OWN_MODEL}))
    def test_readers_are_shown_public_names_only(self, name):
        """Those of the package root, and those below it that the page of versions calls public."""
        public = {f"jensen.{found}" for found in (*jensen.__all__, "__version__")}
        public |= {*re.findall(r"`(jensen\.[\w.]+)`", section(read("docs/versions.md"), "What is public"))}
        assert {found for code in code_of(name) for found in jensen_names(code)} <= public

    def test_a_remedy_works_in_every_shell(self):
        """zsh reads square brackets that are not quoted as a pattern."""
        places = [*TEXTS, *(ROOT / "src").rglob("*.py"), *(ROOT / "notebooks").glob("*.ipynb")]
        texts = {path.name: path.read_text(encoding="utf-8") for path in places}
        found = {name: re.findall(r"pip install .*jensen\[", text) for name, text in texts.items()}
        assert sum(map(len, found.values())) > 8
        for name, commands_of_file in found.items():
            for command in commands_of_file:
                assert command.endswith(("'jensen[", '"jensen[')), (name, command)

    def test_the_quick_start_gives_the_same_from_python_and_from_the_shell(self, folder):
        text = read("docs/quick-start.md")
        page = run(blocks(text, "python"), "docs/quick-start.md")
        model, X, y = page["model"], page["X"], page["y"]
        assert model.score(X) == pytest.approx(-1.27, abs=0.005)
        assert (
            repr(model.bound(X))
            == "Bound(-1.269 nats per row = reconstruction -0.2472 - component 1.022; 150 rows, exact)"
        )
        assert page["filled"].iloc[0, 2:].round(2).tolist() == [1.49, 0.26]
        assert (page["species"] == page["iris"].target_names[page["iris"].target])[y.isna()].mean() == 0.975
        assert y.isna().sum() == 80
        assert page["chosen"].best_params == {"n_clusters": 4}
        assert page["board"].table["model"].iloc[0] == "gaussian-mixture"
        for made in (*folder.glob("*.jensen"), *folder.glob("*.html")):
            made.unlink()

        for line in "".join(blocks(text, "sh")).splitlines():
            first, *words = shlex.split(line)
            assert first == "jensen"
            succeed(*words)
        assert_array_equal(pd.read_csv("scores.csv")["log_likelihood"], model.score_samples(X))
        # A text file has as many decimals in filled cells as in the others: one.
        assert_allclose(pd.read_csv("filled.csv").drop(columns="species"), page["filled"], rtol=0, atol=0.05 + 1e-9)
        assert_array_equal(pd.read_csv("species.csv")["prediction"], page["species"])
        assert_array_equal(pd.read_csv("clusters.csv").iloc[:, 0], page["clusters"])
        assert_array_equal(pd.read_csv("virginicas.csv"), page["virginicas"])
        for number, draw in enumerate(page["draws"], start=1):
            written = pd.read_csv(f"draws-{number}.csv").drop(columns="species")
            assert_allclose(written, draw, rtol=0, atol=0.05 + 1e-9)
        assert {path.name for path in folder.glob("*.html")} == {"flowers.html", "board.html"}

    def test_the_numbers_of_the_pixel_are_those_it_shows(self, capsys):
        text = read("docs/density.md")
        run(blocks(text, "python"), "docs/density.md")
        assert blocks(text, "text") == [capsys.readouterr().out]

    def test_the_table_of_the_quick_start_is_the_one_it_shows(self, folder):
        text = read("docs/quick-start.md")
        run(blocks(text, "python")[:1], "docs/quick-start.md")
        (shown,) = blocks(text, "text")
        assert Path("flowers.csv").read_text().startswith(shown)


def places(text: str) -> set[str]:
    """Anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


class TestLinks:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_link_leads_somewhere(self, name):
        text = read(name)
        for _, target, anchor in links(text):
            path = (ROOT / name).parent / target if target else ROOT / name
            assert path.exists(), f"{name} has a link to {target}"
            if anchor and path.suffix == ".md":
                assert anchor[1:] in places(path.read_text(encoding="utf-8")), f"{name} has a link to {target}{anchor}"

    @pytest.mark.parametrize("name", NAMES)
    def test_a_link_that_names_a_test_or_a_function_is_right(self, name):
        for text, target, _ in links(read(name)):
            word = text.strip("`")
            if target.endswith(".py") and word.isidentifier() and text.startswith("`"):
                assert line_of(word, (ROOT / name).parent / target), f"there is no {word} in {target}"

    def test_no_page_names_a_place_on_somebodys_machine(self):
        for name in NAMES:
            assert not re.search(r"/(home|Users|tmp|work)/", read(name)), name

    def test_links_out_of_the_docs_become_pages(self):
        text = (
            "[em](../examples/em_steps.py) [`Bound`](../src/jensen/bound.py) "
            "[a.md](contract.md#em) [n](../CONTRIBUTING.md)"
        )
        line = line_of("Bound", ROOT / "src/jensen/bound.py")
        assert with_links(text, "docs/vae.md", "vae.md") == (
            f"[em](gallery/em_steps.md) [`Bound`](source/src/jensen/bound.py.md#__span-0-{line}) "
            "[The contract](contract.md#em) [n](contributing.md)"
        )
        assert with_links("[em](../../examples/em_steps.py)", "docs/api/index.md", "api/index.md") == (
            "[em](../gallery/em_steps.md)"
        )
        assert with_links("![a](docs/assets/jensen.svg)", "README.md", "index.md") == "![a](assets/jensen.svg)"
        with pytest.raises(FileNotFoundError, match=r"has a link to \.\./examples/nothing\.py"):
            with_links("[no](../examples/nothing.py)", "docs/vae.md", "vae.md")
        assert code_pages()["source/src/jensen/bound.py.md"] == "src/jensen/bound.py"


class TestExercises:
    @pytest.mark.parametrize("name", EXERCISES)
    def test_every_exercise_has_a_hint_a_proof_and_a_check(self, name):
        _, *sections = re.split(r"^## ", read(name), flags=re.MULTILINE)
        assert len(sections) > 2
        for text in sections:
            title = text.partition("\n")[0]
            statement, *folded = text.split("<details ")
            assert len(statement.split("\n\n", 1)[1]) > 60, title
            assert [re.search("<summary>(.+)</summary>", part)[1] for part in folded] == ["Hint", "Proof"], title
            # Markdown within HTML is read only with this attribute, and only after an empty line.
            assert all(re.match(r'class="\w+" markdown>\n<summary>\w+</summary>\n\n', part) for part in folded), title
            after = folded[-1].partition("\n\n</details>\n\n")[2]
            assert any("assert " in block for block in blocks(after, "python")), title

    @pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("docs/exercises/")])
    def test_no_sign_of_a_formula_is_read_as_emphasis(self, name):
        """Python-Markdown takes a star, or an underscore after an accent or a prime, for the begin of emphasis."""
        prose = re.sub(r"^```.*?^```$|^    .*?$|`[^`\n]*`", "", read(name), flags=re.MULTILINE | re.DOTALL)
        assert not re.search(r"[\u0300-\u036f']_|[βθμ]\*(?!\*)", prose)

    def test_the_index_lists_every_page(self):
        listed = {target for _, target, _ in links(read("docs/exercises/index.md"))}
        assert {Path(name).name for name in EXERCISES} | {"slips.md", "where.md"} <= listed

    def test_every_exercise_is_found_from_the_documents(self):
        found = {target + anchor for _, target, anchor in links(read("docs/exercises/where.md"))}
        for name in EXERCISES:
            headings = re.findall(r"^## (.+)$", read(name), re.MULTILINE)
            assert {f"{Path(name).name}#{place}" for text in headings for place in places(f"# {text}\n")} <= found


class TestExplainers:
    @pytest.mark.parametrize("name", EXPLAINERS)
    def test_an_explainer_and_its_exercise_lead_to_each_other(self, name):
        explainer = loaded(name)
        assert (ROOT / "docs" / explainer.guide.replace(".html", ".md")).is_file()
        if name == "topics":
            assert not explainer.exercise, "there is no exercise of topics"
            return
        page, _, place = explainer.exercise.partition(".html#")
        sections = re.split(r"^## ", read(f"docs/{page}.md"), flags=re.MULTILINE)[1:]
        (found,) = [text for text in sections if place in places(f"# {text.partition(chr(10))[0]}\n")]
        assert f"[{explainer.title}](../../src/jensen/studio/explainers/{name}.py)" in found

    def test_a_link_to_an_explainer_becomes_its_page(self):
        text = "[em](../../src/jensen/studio/explainers/em.py)"
        assert with_links(text, "docs/exercises/regression.md", "exercises/regression.md") == "[em](../explain/em.html)"


def nav_pages(entries) -> list[str]:
    found = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += nav_pages(value) if isinstance(value, list) else [value]
    return found


@pytest.fixture(scope="module")
def nav():
    return yaml.safe_load(read("mkdocs.yml"))["nav"]


class TestCompleteness:
    def test_every_page_is_in_the_nav(self, nav):
        written = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES}
        # The hooks add the pages of the reference to the nav.
        assert {page for page in written if not page.startswith("api/")} == set(nav_pages(nav)) - {
            "api/index.md",
            *ROOT_PAGES.values(),
        }
        assert set(ROOT_PAGES.values()) <= set(nav_pages(nav))

    def test_every_model_has_a_page_in_the_nav(self, nav):
        rows = re.findall(r"^\|.*\|(.*)\| \[.*\]\(docs/(.*)\) \|$", section(read("README.md"), "Models"), re.MULTILINE)
        pages = {name: page for names, page in rows for name in re.findall(r"`(\w+)`", names)}
        assert set(MODELS.values()) <= set(pages)
        assert set(pages.values()) <= set(nav_pages(nav))

    def test_every_public_name_is_in_the_reference_once(self):
        listed = [name for path in PAGES for name in re.findall(r"^::: jensen\.(\w+)$", path.read_text(), re.MULTILINE)]
        assert sorted([*listed, *MODELS.values()]) == sorted(jensen.__all__)

    def test_every_example_has_a_card_and_a_title(self):
        found = examples()
        index = index_page(found)
        assert len(found) > 20
        for example in found:
            assert f"({example.name}.md)" in index
            assert 10 < len(example.title) < 120
            assert example.topic in ORDER
            assert example.usage.startswith(f"python examples/{example.path.name}")
            page = example_page(example, "printed", {}, {})
            assert example.source.strip() in page

    def test_some_page_leads_to_every_example(self):
        led = {Path(target).stem for path in PAGES for _, target, _ in links(path.read_text()) if "examples/" in target}
        assert {example.name for example in examples()} - led == set()

    def test_some_page_shows_every_picture(self):
        shown = {Path(target).name for path in TEXTS for _, target, _ in links(path.read_text()) if "assets/" in target}
        assert {path.name for path in (ROOT / "docs" / "assets").glob("*.png")} - shown == set()

    @pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("docs/") and "/api/" not in name])
    def test_a_page_starts_with_what_to_do(self, name):
        """Code or commands come before the first section; the pages of benchmarks and of words have none."""
        if name not in ("docs/benchmarks.md", "docs/glossary.md"):
            assert "\n```" in read(name).partition("\n## ")[0]

    @pytest.mark.parametrize(
        ("name", "terms"),
        [
            ("one-bound", "ELBO; complete log-likelihood; expected complete log-likelihood; MAP update; classifier"),
            ("one-bound", "semi-supervised objective; discretised decoder; ε-weight; x_0-weight"),
            ("gaussian-mixture", "ELBO; complete log-likelihood; expected complete log-likelihood; MAP update"),
            ("gaussian-mixture", "semi-supervised objective"),
            ("diffusion-reference", "ELBO; cosine formula; discretised decoder; ε-weight; x_0-weight; classifier"),
            ("vae", "ELBO; semi-supervised objective; classifier"),
        ],
    )
    def test_a_page_uses_the_terms_of_the_literature(self, name, terms):
        words = " ".join(read(f"docs/{name}.md").split())
        for term in terms.split("; "):
            assert term in words, term

    def test_every_command_is_described(self):
        text = commands()
        for name in ("fit", "score", "sample", "impute", "predict", "transform", "select", "compare", "models"):
            assert f"\n## jensen {name}\n" in f"\n{text}"
        assert "| `-o, --output <path>` | Model file to write. *required* |" in text

    def test_the_home_page_takes_its_words_from_the_readme(self):
        text = with_readme(read("docs/index.md"), "index.md")
        assert "<!-- README" not in text
        assert "| Gaussian mixture | `GaussianMixture` | [Gaussian mixture](gaussian-mixture.md) |" in text
        with pytest.raises(KeyError, match="no heading 'Nothing'"):
            with_readme("<!-- README: Nothing -->", "index.md")


class TestGlossary:
    def test_words_are_in_order_and_there_once(self):
        words = re.findall(r"^- \*\*(.+?)\*\*", read("docs/glossary.md"), re.MULTILINE)
        keys = [sort_key(word) for word in words]
        assert keys == sorted(set(keys))
        assert len(words) > 100

    @pytest.mark.parametrize(
        "name", ["README", "docs/index", "docs/contract", "docs/one-bound", "docs/diffusion", "docs/vae"]
    )
    def test_pages_lead_to_it(self, name):
        assert "glossary.md" in read(f"{name}.md")


def sort_key(word: str) -> str:
    """Greek letters are sorted under their names, and signs do not count."""
    names = {"β": "beta", "ε": "epsilon", "θ": "theta"}
    return re.sub(r"[^a-z0-9]", "", "".join(names.get(letter, letter) for letter in word.lower()))


class TestMarkdown:
    def test_python_and_shell_become_tabs(self):
        text = "```python\na\n```\n\ntext\n\n```python\nb\n```\n\n```sh\nc\n```\n"
        assert with_tabs(text) == (
            "```python\na\n```\n\ntext\n\n"
            '=== "Python"\n\n    ```python\n    b\n    ```\n\n=== "Shell"\n\n    ```sh\n    c\n    ```\n\n'
        )

    def test_a_moving_picture_stands_still_for_those_who_ask(self):
        example = next(example for example in examples() if example.is_moving)
        page = example_page(example, "", {}, {})
        assert f'<source srcset="pictures/{example.name}.png" media="(prefers-reduced-motion: reduce)">' in page
        assert f'src="pictures/{example.name}.gif" alt="{example.title}"' in page

    def test_public_names_are_shown_where_they_live(self):
        assert "::: jensen.models.autoencoders.vae.VAE\n" in with_api("::: jensen.VAE", jensen._HOMES)

    def test_sections_end_at_the_next_of_their_rank(self):
        text = "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n"
        assert section(text, "B") == "two\n\n### C\n\nthree"

    def test_docstrings_are_read_name_by_name(self):
        text = (
            "What.\n\nArgs:\n    a, b: numbers\n        above 0.\n\n"
            "Attributes:\n    c_, d_: more.\n\nExample:\n    >>> 1"
        )
        assert rewritten(text) == (
            "What.\n\nArgs:\n    a: numbers\n        above 0.\n    b: numbers\n        above 0.\n\n"
            "**Attributes:**\n\n- `c_`, `d_`: more.\n\nExamples:\n    >>> 1"
        )


class TestSite:
    """Faults at which `make docs` stops."""

    @pytest.mark.parametrize(
        ("html", "fault"),
        [
            ('<a href="b.html#here">', None),
            ('<a href="b.html#there">', "a.html: b.html#there has no such place"),
            ('<a href="c.html">', "a.html: c.html is not there"),
            ('<a href="https://example.org/">', None),
            ('<img src="https://example.org/a.png">', "a.html: loads https://example.org/a.png"),
            ("<p>text\n- a list</p>", "a.html: markdown that was not rendered: 'text\\n- a list'"),
            ("<p>| a |\n| --- |</p>", "a.html: markdown that was not rendered: '| a |\\n| --- |'"),
        ],
    )
    def test_faults_are_named(self, html, fault, tmp_path):
        (tmp_path / "a.html").write_text(html)
        (tmp_path / "b.html").write_text('<h2 id="here">')
        assert check(tmp_path)[0] == ([fault] if fault else [])
