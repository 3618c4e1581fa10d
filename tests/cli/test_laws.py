"""Laws of the command line: under every verb a model does what `jensen models` says, or says in one line why not."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.base import is_classifier

import jensen
from jensen.cli.app import app
from jensen.cli.arguments import read_grid
from jensen.cli.inputs import read_order
from jensen.contract import training
from jensen.evaluate.sizing import Effort
from jensen.files.tables import write_dataset
from jensen.registry import ANSWERS, MATERIAL, MODELS, PAGES, abilities, model_class
from shell import fail, run, succeed

TINY = "encoder=MLP((4,)), decoder=MLP((4,)), max_epochs=1, evaluation_samples=2"
NETWORKS = ("--encoder", "MLP((4,))", "--decoder", "MLP((4,))", "--max-epochs", 1, "--n-components", 1)
DENOISER = "n_steps=5, network=ResidualMLP(4, 1), max_epochs=1"
# What makes a fit short.
SMALL: dict[str, tuple[Any, ...]] = {
    "autoencoder": NETWORKS,
    "diffusion": ("--n-steps", 5, "--network", "ResidualMLP(4, 1)", "--max-epochs", 1),
    "kmeans": ("--n-clusters", 2),
    "kmedoids": ("--n-clusters", 2),
    "latent-diffusion": ("--vae", f"VAE(1, {TINY})", "--diffusion", f"Diffusion({DENOISER}, objective='variational')"),
    "mixture-of-factor-analysers": ("--n-components", 2, "--n-latent", 1),
    "mixture-of-ppca": ("--n-components", 2, "--n-latent", 1),
    "topics": ("--n-components", 2),
    "vae": (*NETWORKS, "--evaluation-samples", 2),
}
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
by_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Rows of numbers, and rows of 0 and 1 for models of counts."""
    rng, group = np.random.default_rng(0), np.arange(40) % 2
    numbers = rng.normal(4 * group[:, None], 1, (40, 3))
    counts = (rng.random((40, 3)) < 0.2 + 0.6 * group[:, None]).astype(int)
    return {
        "real": written(tmp_path_factory.mktemp("laws"), numbers, rng),
        "counts": written(tmp_path_factory.mktemp("counts"), counts, rng),
    }


@pytest.fixture
def folder(folders, request) -> Path:
    """What the model at hand is for."""
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    return folder_of(folders, name)


def folder_of(folders: dict[str, Path], name: str | None) -> Path:
    """Counts can also be classes."""
    is_for_counts = name and (model_class(name).capabilities.values in ("counts", "words") or classifies(name))
    return folders["counts" if is_for_counts else "real"]


def classifies(name: str) -> bool:
    return is_classifier(model_class(name)())


def written(path: Path, values: np.ndarray, rng: np.random.Generator) -> Path:
    """Rows in two groups, complete, with holes, with labels and weights, and images of four pixels."""
    group = np.arange(40) % 2
    rows = pd.DataFrame(values, columns=["a", "b", "c"])
    write_dataset(path / "rows.csv", rows)
    write_dataset(path / "holes.csv", rows.mask(rng.random(rows.shape) < 0.1))
    write_dataset(path / "labels.csv", rows.assign(kind=np.array(["p", "q"])[group], weight=1 + group))
    write_dataset(path / "images.npy", rng.integers(0, 4, (40, 2, 2)).astype(np.uint8))
    return path


def target(name: str) -> tuple[str, ...]:
    """A regression or a classifier cannot do without."""
    return ("--label", "a") if abilities(name)["labels"] == "needed" else ()


def fit(name: str, data: Path, *words: Any) -> Any:
    return run("fit", name, data, *SMALL.get(name, ()), *words, "--quiet", "-o", data.parent / f"{name}.{data.stem}")


@pytest.fixture(scope="module")
def fitted(folders) -> dict[str, Path]:
    """Every model of the complete rows."""
    found = {}
    for name in MODELS:
        folder = folder_of(folders, name)
        result = fit(name, folder / "rows.csv", *target(name))
        assert result.exit_code == 0, result.output
        found[name] = folder / f"{name}.rows"
    return found


def assert_told_in_one_line(result: Any, *parts: str) -> None:
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert re.fullmatch(r"error: .+\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


@by_model
class TestEveryModel:
    @pytest.mark.parametrize("verb", ANSWERS)
    def test_answers_or_says_why_not(self, fitted, folder, name, verb):
        data = {"score": (folder / "rows.csv", *target(name)), "sample": ("-n", 2)}.get(verb, (folder / "rows.csv",))
        result = run(verb, fitted[name], *data, "--json")
        if abilities(name)[verb] in (True, "exact", "bound"):
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout)["rows"] == (2 if verb == "sample" else 40)
        else:
            method = "score_samples" if verb == "score" else verb
            # Its own reason, or what it has instead.
            assert_told_in_one_line(result, f"{MODELS[name]} has no {method}")
            assert re.search(f"{method}(: .{{20,}}|; it has .+)", result.stderr)

    def test_scores_are_as_tight_as_it_says(self, fitted, folder, name):
        model = jensen.load(fitted[name])
        if hasattr(model, "bound"):
            exact = model.bound(pd.read_csv(folder / "rows.csv")[[*model.feature_names_in_]]).is_exact
            assert abilities(name)["score"] == ("exact" if exact else "bound")

    def test_reads_labels_and_weights_or_says_that_it_does_not(self, folder, name):
        reads = abilities(name)["labels"]
        result = fit(name, folder / "labels.csv", "--label", "kind", "--weight", "weight")
        assert abilities(name)["weights"]
        if reads == "needed":
            assert_told_in_one_line(fit(name, folder / "rows.csv"), "--label")
        if reads == "needed" and not classifies(name):
            assert_told_in_one_line(result, "column 'kind' does not hold numbers to predict")
            return
        assert result.exit_code == 0
        assert ("ignores --label" in result.stderr) != bool(reads)
        model = folder / f"{name}.labels"
        assert hasattr(jensen.load(model), "classes_") == bool(reads)
        if abilities(name)["predict"] == "labels":
            assert set(json.loads(succeed("predict", model, folder / "rows.csv", "--json"))["prediction"]) <= {"p", "q"}

    @pytest.mark.parametrize(("material", "file"), [("holes", "holes.csv"), ("images", "images.npy")])
    def test_takes_holes_and_images_or_says_why_not(self, folder, name, material, file):
        result = fit(name, folder / file, *(target(name) if material == "holes" else ()))
        if abilities(name)[material]:
            assert result.exit_code == 0, result.output
        else:
            assert_told_in_one_line(result)

    def test_learns_from_batches_or_cannot(self, folder, name):
        rows, model = pd.read_csv(folder / "rows.csv"), model_class(name)()
        assert hasattr(model, "partial_fit") == abilities(name)["batches"]
        if abilities(name)["batches"]:
            model.partial_fit(rows, rows["a"] if abilities(name)["labels"] == "needed" else None)

    @pytest.mark.parametrize(("criterion", "needed"), [("bic", None), ("cv", "score"), ("silhouette", "predict")])
    def test_is_selected_or_says_why_not(self, folder, name, criterion, needed):
        entry = "alpha=1" if abilities(name)["labels"] == "needed" else "random-state=1"
        words = (*SMALL.get(name, ()), "--grid", entry, "--criterion", criterion, "--cv", 2, "--json")
        result = run("select", name, folder / "rows.csv", *words)
        if result.exit_code == 0:
            assert json.loads(result.stdout)["table"]
            assert needed is None or abilities(name)[needed]
        else:
            assert_told_in_one_line(result)

    def test_is_compared_or_says_why_not(self, folder, name, monkeypatch):
        monkeypatch.setattr(training, "DEFAULT_STEPS", 1)
        monkeypatch.setattr(training, "LEAST_EPOCHS", 1)
        tiny = Effort(steps=1, image_steps=1, channels=(8,), n_components=(1, 2), width=8)
        monkeypatch.setattr("jensen.evaluate.compare.EFFORTS", {"quick": tiny})
        result = run("compare", folder / "rows.csv", "--models", name, "--effort", "quick", "--json")
        if abilities(name)["score"] and abilities(name)["labels"] != "needed":
            assert result.exit_code == 0, result.output
            assert np.isfinite(json.loads(result.stdout)["table"][0]["nats"])
        else:
            assert_told_in_one_line(result)

    def test_is_listed_with_all_that_it_can(self, name):
        told = json.loads(succeed("models", name, "--json"))
        assert {word: told[word] for word in (*ANSWERS, *MATERIAL)} == abilities(name)
        assert [option["option"] for option in told["options"]] == [
            f"--{argument.replace('_', '-')}" for argument in inspect.signature(model_class(name)).parameters
        ]
        out = " ".join(succeed("models", name).split())
        assert PAGES[name] in re.sub("[│ ]+", " ", out)

    def test_has_a_page_of_the_documentation(self, name):
        texts = [file.read_text() for file in (Path(__file__).parents[2] / "docs").glob("*.md")]
        (page,) = (text for text in texts if text.startswith(f"# {PAGES[name]}\n"))
        assert MODELS[name] in page

    def test_is_reported_or_says_why_not(self, fitted, folder, name):
        page = folder / f"{name}.html"
        result = run("report", fitted[name], folder / "rows.csv", *target(name), "-o", page, "--quiet")
        if result.exit_code:
            assert_told_in_one_line(result)
        else:
            assert MODELS[name] in page.read_text()


def examples(command: str) -> list[str]:
    """The commands that a help text shows; one that goes on in the next line ends with a backslash."""
    callback = COMMANDS[command].callback if command else app.registered_callback.callback
    return re.findall(r"^ +(jensen (?:.*\\\n)*.*)$", inspect.getdoc(callback) or "", re.MULTILINE)


@pytest.mark.parametrize("command", ["", *COMMANDS])
class TestEveryHelp:
    def test_shows_examples_in_80_columns(self, command, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        lines = [line.strip() for line in succeed(*command.split(), "--help").splitlines()]
        assert len(examples(command)) > 1
        assert {line.strip() for example in examples(command) for line in example.splitlines()} <= {*lines}

    def test_examples_are_commands(self, command):
        for example in examples(command):
            # What the shell takes for itself.
            name, *words = shlex.split(re.split(" [>|] ", example)[0])[1:]
            assert command in ("", name)
            context = COMMANDS[name].make_context(name, words)
            if COMMANDS[name].allow_extra_args:
                given = context.params
                order = read_order(context, given["model"], given["data"], given["seed"])
                read_grid(given.get("grid", ()), order.parameters)

    def test_offers_what_every_command_has(self, command):
        flags = {flag for parameter in COMMANDS[command].params for flag in parameter.opts} if command else {"--json"}
        # A page of HTML is all that a report gives, and the studio gives none but in a browser.
        assert ("--json" in flags) == (command not in ("report", "studio"))
        is_random = command not in ("", "models", "transform", "statistics", "merge", "studio")
        assert ("--seed" in flags) == is_random


def test_the_list_of_models_fits_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = succeed("models")
    assert max(map(len, out.splitlines())) <= 80
    for name in MODELS:
        assert len(re.findall(f"│ {name} +│", out)) == 3
    assert json.loads(succeed("models", "--json"))[0].items() >= abilities("autoencoder").items()


def test_the_root_says_what_exit_codes_mean():
    words = " ".join(succeed("--help").split())
    assert "0 success; 2 wrong input, reported in one line; 130 stopped by Ctrl-C" in words


def test_ctrl_c_is_130(fitted, folder, monkeypatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jensen.GaussianMixture, "score_samples", interrupted)
    result = run("score", fitted["gaussian-mixture"], folder / "rows.csv")
    assert (result.exit_code, result.output) == (130, "interrupted; no output was written\n")


def test_a_seed_decides_what_is_drawn(fitted, folder):
    score = ("score", fitted["vae"], folder / "rows.csv", "--json")
    assert succeed(*score, "--seed", 1) == succeed(*score, "--seed", 1) != succeed(*score, "--seed", 2)


def test_a_bar_is_for_people(fitted, folder, monkeypatch):
    seen = []

    def spy(self: Any, X: Any) -> np.ndarray:
        seen.append(self.verbose)
        return np.zeros(len(X))

    monkeypatch.setattr(jensen.GaussianMixture, "score_samples", spy)
    for words in ((), ("--json",)):
        succeed("score", fitted["gaussian-mixture"], folder / "rows.csv", *words)
    assert seen == [1, 0]


def test_tables_as_json_are_those_of_the_csv(fitted, folder):
    model, data = fitted["probabilistic-pca"], folder / "holes.csv"
    for verb, words in (("sample", ("-n", 3)), ("impute", (data,)), ("transform", (data,))):
        told = json.loads(succeed(verb, model, *words, "--json"))
        lines = succeed(verb, model, *words).splitlines()
        assert [*told["table"]] == lines[0].split(",")
        first = [values[0] for values in told["table"].values()]
        np.testing.assert_allclose(first, [float(cell) for cell in lines[1].split(",")])
    told = json.loads(succeed("impute", model, data, "-o", folder / "filled.csv", "--json"))
    assert told["filled_entries"] == pd.read_csv(data).isna().sum().sum()
    assert "table" not in told


def test_an_option_of_a_part_says_how_it_is_given(folder):
    words = ("fit", "latent-diffusion", folder / "rows.csv", "-o", folder / "m", "--max-epochs", 3)
    assert "a part: --vae 'VAE(max_epochs=...)' or --diffusion 'Diffusion(max_epochs=...)'. There are" in fail(*words)
