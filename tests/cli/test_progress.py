"""Progress: a bar on a terminal, and for a command without one a line now and then."""

from __future__ import annotations

import io
import json
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import jensen
from jensen.files.tables import write_dataset
from jensen.models.autoencoders.module import VAEModule
from jensen.report.panels import PANELS
from jensen.runtime import progress as shown
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.progress import Bar, hide_progress, progress, shown_progress
from shell import run, succeed

SMALL = ("--encoder", "MLP(hidden=(8,))", "--decoder", "MLP((8,))", "--max-epochs", 2, "--n-components", 2)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def _often(monkeypatch):
    """As if every step took long."""
    monkeypatch.setattr(shown, "EVERY", 0.0)
    monkeypatch.setattr(shown, "DELAY", 0.0)


@pytest.mark.usefixtures("_often")
class TestLines:
    def test_name_every_loop_that_runs(self):
        told = []
        with shown_progress(told.append):
            for _ in progress(range(2), "outer", unit="model"):
                assert list(progress("ab", "inner")) == ["a", "b"]
        assert [line.partition(": ")[2] for line in told] == [
            "outer, model 0 of 2; inner, block 1 of 2",
            "outer, model 0 of 2; inner, block 2 of 2",
            "outer, model 1 of 2",
            "outer, model 1 of 2; inner, block 1 of 2",
            "outer, model 1 of 2; inner, block 2 of 2",
            "outer, model 2 of 2",
        ]
        assert told[0].startswith("after 0 s: ")

    def test_a_loop_without_a_name_tells_that_work_goes_on(self):
        told = []
        with shown_progress(told.append), Bar(None, 2) as inner:
            inner.update()
            with Bar("compare", 3, unit="model") as outer:
                outer.note("VAE")
                inner.update()
        assert [line.partition(": ")[2] for line in told] == ["working", "compare, model 0 of 3, VAE"]

    def test_are_only_those_of_a_command(self, capsys):
        steps = [1, 2]
        assert progress(steps, "rows") is steps
        with shown_progress(print):
            hide_progress()
            assert progress(steps, "rows") is steps
        assert list(progress(steps, "rows", is_shown=True)) == steps
        assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("_often")
class TestSweeps:
    """The sweeps over a scan, also those before the first step."""

    @pytest.fixture
    def rows(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(400, 2)))
        return tmp_path / "x.npy"

    def test_of_a_command(self, rows, tmp_path):
        words = ("fit", "gaussian-mixture", rows, "--n-components", 2, "--scan", "--block-rows", 100)
        told = run(*words, "-o", tmp_path / "m.jensen").stderr
        assert "first sweep, row 100 of 400" in told
        assert "GaussianMixture 1/1, step 0 of 100; rows, row 200 of 400" in told
        assert "summary, row 400 of 400" in told
        assert "rows, row 300 of 400" in run("score", tmp_path / "m.jensen", rows, "--scan", "--block-rows", 100).stderr

    @pytest.mark.parametrize("verbose", [0, 1])
    def test_of_a_verbose_model(self, rows, monkeypatch, verbose):
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        jensen.GaussianMixture(2, random_state=0, verbose=verbose).fit(jensen.scan(rows, block_rows=100))
        assert ("first sweep" in terminal.getvalue()) == bool(verbose)

    def test_in_an_executor_count_parts(self, rows):
        from concurrent.futures import ThreadPoolExecutor

        told = []
        with ThreadPoolExecutor(1) as executor, shown_progress(told.append):
            scan = jensen.scan([rows, rows])
            jensen.KMeans(2, random_state=0).fit(scan, executor=executor)
        assert any("first sweep, part 2 of 2" in line for line in told)


def test_lines_come_now_and_then(monkeypatch):
    told, clock = [], iter([0.0, 0.0, *np.arange(1, 10) * 10.0])
    monkeypatch.setattr(shown, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with shown_progress(told.append), Bar("rows", 9) as bar:
        for _ in range(9):
            bar.update()
    assert told == [f"after {10 * n} s: rows, block {n} of 9" for n in (3, 6, 9)]


@pytest.mark.usefixtures("_often")
def test_a_terminal_has_a_bar_and_no_lines(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown_progress(told.append):
        list(progress(range(3), "rows"))
    assert "rows: " in sys.stderr.getvalue()
    assert "0/3" in sys.stderr.getvalue()
    assert told == []


def test_what_is_quick_has_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown_progress(print):
        list(progress(range(3), "rows"))
    assert sys.stderr.getvalue().strip() == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows with missing values and labels, complete ones, and models of them."""
    path, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) + 3 * (np.arange(60) % 2)[:, None]
    write_dataset(path / "complete.npy", x)
    write_dataset(path / "labels.npy", np.arange(60) % 2)
    x[::5, 0] = np.nan
    write_dataset(path / "x.npy", x)
    labels = ("--label", path / "labels.npy", "--quiet")
    succeed("fit", "vae", path / "x.npy", *labels, *SMALL, "-o", path / "vae")
    succeed("fit", "autoencoder", path / "complete.npy", "--quiet", *SMALL[:6], "-o", path / "autoencoder")
    few = ("--n-steps", 10, "--max-epochs", 1, "--network", "ResidualMLP(8, 1)")
    succeed("fit", "diffusion", path / "complete.npy", *labels, *few, "-o", path / "diffusion")
    succeed("fit", "gaussian-mixture", path / "x.npy", *labels, "-o", path / "gaussian-mixture")
    return path


@pytest.mark.usefixtures("_often")
class TestCommands:
    @pytest.mark.parametrize("model", ["vae", "diffusion", "gaussian-mixture", "autoencoder"])
    @pytest.mark.parametrize("verb", ["score", "predict", "impute", "transform", "sample", "report"])
    def test_every_verb_tells_how_far_it_is(self, folder, tmp_path, model, verb):
        offered = {"score": "score_samples", "report": "fit"}.get(verb, verb)
        if not hasattr(jensen.load(folder / model), offered):
            return
        if (model, verb) == ("gaussian-mixture", "sample"):
            # One draw of all rows, which takes no time.
            return
        rows = {"diffusion": "complete.npy", "autoencoder": "complete.npy"}.get(model, "x.npy")
        rows = "x.npy" if verb == "impute" else rows
        data = () if verb == "sample" else (folder / rows,)
        output = tmp_path / ("page.html" if verb == "report" else "out.csv")
        result = run(verb, folder / model, *data, "-o", output)
        assert result.exit_code == 0, result.output
        assert "after 0 s: " in result.stderr
        if verb != "report":
            return
        assert f"report, panel {len(PANELS)} of {len(PANELS)}" in result.stderr
        assert run(verb, folder / model, *data, "-o", output, "--quiet").output == ""

    def test_fits_tell_their_epochs_and_steps(self, folder, tmp_path):
        deep = run("fit", "vae", folder / "x.npy", *SMALL, "-o", tmp_path / "m")
        assert "VAE, epoch 2 of 2" in deep.stderr
        assert "GaussianMixture 1/1, step 1 of" in run("fit", "gaussian-mixture", "iris", "-o", tmp_path / "m").stderr
        assert run("fit", "vae", folder / "x.npy", *SMALL, "--json", "-o", tmp_path / "m").stderr == ""

    def test_comparisons_and_searches_tell_what_is_done(self, folder):
        compared = run("compare", folder / "x.npy", "--models", "factor-analysis,vae", "--effort", "quick")
        assert "compare, fit 1 of 2, vae" in compared.stderr
        searched = run("select", "gaussian-mixture", folder / "x.npy", "--grid", "n-components=1:2")
        assert "select, entry 2 of 2" in searched.stderr


class TestSummary:
    @pytest.fixture
    def passes(self, monkeypatch):
        """Rows that went through a decoder, in training and after it."""
        counts, real = {True: 0, False: 0}, VAEModule.decode

        def counted(module, z, *rest):
            counts[module.training] += z.shape[:-1].numel()
            return real(module, z, *rest)

        monkeypatch.setattr(VAEModule, "decode", counted)
        return counts

    def test_costs_a_fraction_of_the_fit(self, tmp_path, passes):
        rng = np.random.default_rng(0)
        write_dataset(tmp_path / "x.npy", rng.normal(size=(1000, 2)))
        write_dataset(tmp_path / "y.npy", np.arange(1000) % 10)
        fit = ("fit", "vae", tmp_path / "x.npy", "--label", tmp_path / "y.npy", *SMALL, "-o", tmp_path / "m")
        out = succeed(*fit, "--max-epochs", 20, "--trainer", "Trainer(validation_fraction=0)")
        words = " ".join(out.replace("│", "").split())
        assert "scored rows 50 draws per row 10" in words
        # A tenth of the fit, where a pass with gradients is worth about three; 10 draws of every class check the error.
        assert 0 < passes[False] <= 5000 + 100 < 3 * passes[True] / 10

    def test_a_page_costs_a_fraction_of_the_fit_and_says_what_it_rests_on(self, tmp_path, passes):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(1000, 2)), np.arange(1000) % 10
        recipe = {"encoder": jensen.MLP((8,)), "decoder": jensen.MLP((8,)), "max_epochs": 20, "random_state": 0}
        model = jensen.VAE(1, **recipe, trainer=jensen.Trainer(validation_fraction=0)).fit(X, y)
        jensen.write_report(model, X, tmp_path / "page.html")
        # Three questions, 10 draws of every class that check the error of one, and some samples.
        assert 0 < passes[False] <= 3 * 5000 + 100 + 200 < 3 * passes[True] / 3
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "the mean over 50 rows, each with 10 draws" in text
        assert "Out of 50 of 1000 rows with 10 importance samples per row instead of 100" in text
        assert "entries of 50 rows was hidden" in text
        assert "Every imputed entry is the mean of 10 draws" in text

    def test_small_models_are_scored_as_ever(self, tmp_path):
        fit = ("fit", "vae", "iris", *SMALL[:4], "--max-epochs", 500, "-o", tmp_path / "m", "--json")
        summary = json.loads(succeed(*fit))
        assert "scored_rows" not in summary
        assert "draws_per_row" not in summary
        assert summary["nats_per_row"] == json.loads(succeed("score", tmp_path / "m", "iris", "--json"))["nats_per_row"]


class TestCtrlC:
    def test_an_interrupted_fit_is_written_and_not_scored(self, folder, tmp_path, monkeypatch):
        real = jensen.VAE.fit

        def interrupted(self, *arguments, **keywords):
            real(self, *arguments, **keywords)
            warnings.warn("interrupted after step 1", InterruptedFitWarning, stacklevel=1)
            return self

        def long(*_):
            raise AssertionError("this takes minutes")

        monkeypatch.setattr(jensen.VAE, "fit", interrupted)
        monkeypatch.setattr(jensen.VAE, "score_samples", long)
        monkeypatch.setattr(jensen.VAE, "bound", long)
        result = run("fit", "vae", folder / "x.npy", *SMALL, "-o", tmp_path / "m")
        assert result.exit_code == 0, result.output
        assert f"wrote the model so far to {tmp_path / 'm'}; `jensen score` computes" in " ".join(result.stderr.split())
        assert "interrupted" in result.stdout
        assert jensen.load(tmp_path / "m").n_iter_ == 2

    def test_says_what_was_written(self, folder, tmp_path, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("jensen.cli.fit.summary_of_fit", interrupted)
        result = run("fit", "kmeans", "iris", "-o", tmp_path / "m", "--quiet")
        assert (result.exit_code, result.stderr) == (130, f"interrupted; wrote {tmp_path / 'm'}\n")
        monkeypatch.setattr("jensen.report.page.page", interrupted)
        result = run("report", folder / "vae", folder / "x.npy", "-o", tmp_path / "page.html")
        assert (result.exit_code, result.stderr) == (130, "interrupted; no output was written\n")
        assert not (tmp_path / "page.html").exists()
