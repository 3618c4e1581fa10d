"""The command line on models that are trained by gradients: text, images, recipes and checkpoints."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import jensen
from jensen import MLP, VAE, Bernoulli, ConvEncoder, Elbo, Gaussian, Trainer
from jensen.cli.arguments import convert, read_grid
from jensen.files.datasets import read_dataset
from jensen.files.tables import write_dataset
from shell import COMMAND, fail, run, succeed

SMALL = ("--encoder", "MLP(hidden=(20,))", "--decoder", "MLP((20,))", "--max-epochs", 15)
COLUMNS = ["age", "smokes", "town"]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Three groups of people with numbers, truths and towns, holes in all of them, and half of the groups' names."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 150)
    frame = pd.DataFrame(
        {
            "age": (20.0 + 15 * group + rng.normal(0, 2, 150)).round(1),
            "smokes": rng.random(150) < 0.1 + 0.4 * group,
            "town": np.array(["Bonn", "Oslo", "Rome"])[group],
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame.insert(1, "id", [f"{i:03d}" for i in range(150)])
    frame["group"] = np.where(rng.random(150) < 0.5, np.array(["young", "middle", "old"])[group], None)
    return frame


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("people")
    write_dataset(path / "people.csv", people)
    write_dataset(path / "people.parquet", read_dataset(path / "people.csv"))
    fit = ("fit", "vae", path / "people.csv", "--drop", "id", "--label", "group", "--quiet", *SMALL)
    succeed(*fit, "-o", path / "people.jensen")
    images = (load_digits().images[:200] / 16).astype(np.float32)
    write_dataset(path / "digits.npy", images)
    holes = images.copy()
    holes[:, :4, :4] = np.nan
    write_dataset(path / "holes.npy", holes)
    write_dataset(path / "channels.npy", images[:, None])
    bernoulli = ("--likelihood", "bernoulli", "--n-components", 3)
    succeed("fit", "vae", path / "digits.npy", *bernoulli, "--quiet", *SMALL, "-o", path / "digits.jensen")
    return path


class TestMixedTables:
    def test_kinds_are_found_by_column_and_labels_become_classes(self, folder):
        model = jensen.load(folder / "people.jensen")
        assert model.columns_.kinds == ("number", "yes/no", "level")
        assert model.classes_.tolist() == ["middle", "old", "young"]
        assert model.feature_names_in_.tolist() == COLUMNS

    @pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
    def test_score_is_the_models(self, folder, name):
        summary = json.loads(succeed("score", folder / "people.jensen", folder / name, "--json"))
        scores = jensen.load(folder / "people.jensen").score_samples(read_dataset(folder / name)[COLUMNS])
        assert summary["nats_per_row"] == pytest.approx(scores.mean(), rel=1e-9)

    def test_impute_changes_empty_cells_only(self, folder, people, tmp_path):
        succeed("impute", folder / "people.jensen", folder / "people.csv", "-o", tmp_path / "f.csv")
        written = pd.read_csv(folder / "people.csv", dtype=str, na_filter=False)
        filled = pd.read_csv(tmp_path / "f.csv", dtype=str, na_filter=False)
        holes = people[COLUMNS].isna()
        assert filled.drop(columns=COLUMNS).equals(written.drop(columns=COLUMNS))
        assert filled[COLUMNS].where(~holes, "").equals(written[COLUMNS])
        assert set(filled["town"]) == {"Bonn", "Oslo", "Rome"}
        assert set(filled["smokes"]) == {"True", "False"}
        ages = filled["age"].astype(float)
        assert ages.between(10, 70).all()

    def test_impute_keeps_the_types_of_a_parquet_file(self, folder, tmp_path):
        succeed("impute", folder / "people.jensen", folder / "people.parquet", "-o", tmp_path / "f.parquet")
        before, after = read_dataset(folder / "people.parquet"), read_dataset(tmp_path / "f.parquet")
        assert not after[COLUMNS].isna().any(axis=None)
        assert after["age"].dtype == np.float64
        assert after["town"].dtype == before["town"].dtype
        assert after[["id", "group"]].equals(before[["id", "group"]])

    def test_draws_are_tables_of_the_same_levels(self, folder, tmp_path):
        impute = ("impute", folder / "people.jensen", folder / "people.csv", "--draws", 2, "--seed", 0)
        succeed(*impute, "-o", tmp_path / "f.csv")
        first, second = (read_dataset(tmp_path / f"f-{i}.csv") for i in (1, 2))
        assert set(first["town"]) == {"Bonn", "Oslo", "Rome"}
        assert not first["age"].equals(second["age"])

    def test_samples_have_the_columns_and_levels_of_the_fit(self, folder, tmp_path):
        succeed("sample", folder / "people.jensen", "-n", 40, "--y", "old", "--seed", 1, "-o", tmp_path / "s.csv")
        sample = read_dataset(tmp_path / "s.csv")
        assert sample.columns.tolist() == COLUMNS
        assert set(sample["town"]) <= {"Bonn", "Oslo", "Rome"}
        assert json.loads(succeed("score", folder / "people.jensen", tmp_path / "s.csv", "--json"))["rows"] == 40
        assert "p.npy cannot hold text" in fail("sample", folder / "people.jensen", "-o", tmp_path / "p.npy")

    def test_samples_have_the_class_that_was_drawn(self, folder, tmp_path):
        succeed("sample", folder / "people.jensen", "-n", 40, "--seed", 1, "-o", tmp_path / "s.csv")
        sample = read_dataset(tmp_path / "s.csv")
        assert sample.columns.tolist() == [*COLUMNS, "class"]
        drawn = jensen.load(folder / "people.jensen").sample(40, random_state=1)[1][1]
        assert sample["class"].tolist() == list(drawn)
        assert json.loads(succeed("score", folder / "people.jensen", tmp_path / "s.csv", "--json"))["rows"] == 40

    def test_means_of_the_decoder(self, folder, tmp_path):
        sample = ("sample", folder / "people.jensen", "-n", 40, "--seed", 1, "-o")
        succeed(*sample, tmp_path / "means.csv", "--mean")
        model = jensen.load(folder / "people.jensen")
        means = model.sample(40, random_state=1, mean=True)[0]
        np.testing.assert_allclose(read_dataset(tmp_path / "means.csv")["age"], means["age"])

    def test_predict_and_transform(self, folder, people):
        model = jensen.load(folder / "people.jensen")
        out = succeed("predict", folder / "people.jensen", folder / "people.csv", "--proba")
        assert out.splitlines()[0] == "prediction,probability_middle,probability_old,probability_young"
        expected = model.predict(read_dataset(folder / "people.csv")[COLUMNS])
        assert [line.split(",")[0] for line in out.splitlines()[1:]] == expected.tolist()
        z = succeed("transform", folder / "people.jensen", folder / "people.csv").splitlines()
        assert z[0] == ",".join(model.get_feature_names_out())
        assert len(z) == 151

    def test_a_column_may_be_empty_in_new_rows(self, folder, tmp_path):
        (tmp_path / "new.csv").write_text("town,age,smokes\n,30,\n,50,\n")
        filled = succeed("impute", folder / "people.jensen", tmp_path / "new.csv")
        assert {line.split(",")[0] for line in filled.splitlines()[1:]} <= {"Bonn", "Oslo", "Rome"}

    def test_a_new_level_is_named(self, folder, tmp_path):
        (tmp_path / "new.csv").write_text("town,age,smokes\nParis,30,True\n")
        result = run("score", folder / "people.jensen", tmp_path / "new.csv")
        assert result.exit_code == 0
        assert "'Paris' in row 0, column 'town', which was not in the training data" in result.stderr


class TestImages:
    def test_images_go_in_and_images_come_out(self, folder, tmp_path):
        summary = json.loads(succeed("score", folder / "digits.jensen", folder / "digits.npy", "--json"))
        assert summary["rows"] == 200
        assert summary["bits_per_dimension"] == pytest.approx(-summary["nats_per_row"] / (64 * np.log(2)))
        succeed("sample", folder / "digits.jensen", "-n", 3, "-o", tmp_path / "s.npy")
        assert read_dataset(tmp_path / "s.npy", images=True).shape == (3, 8, 8)
        succeed("impute", folder / "digits.jensen", folder / "holes.npy", "-o", tmp_path / "f.npy")
        filled, holes = (read_dataset(path, images=True) for path in (tmp_path / "f.npy", folder / "holes.npy"))
        seen = ~np.isnan(holes)
        np.testing.assert_array_equal(filled[seen], holes[seen])
        assert np.isfinite(filled).all()
        assert len(succeed("transform", folder / "digits.jensen", folder / "digits.npy").splitlines()) == 201

    def test_channels_and_networks_for_images(self, folder, tmp_path):
        conv = (
            "--encoder",
            "ConvEncoder(channels=(4,), dense=16)",
            "--decoder",
            "ConvDecoder(channels=(4,), dense=16)",
        )
        fit = ("fit", "vae", folder / "channels.npy", *conv, "--max-epochs", 2, "--n-components", 2, "--json")
        assert json.loads(succeed(*fit, "-o", tmp_path / "m"))["features"] == 64
        assert jensen.load(tmp_path / "m").encoder.channels == (4,)

    def test_mistakes(self, folder, tmp_path):
        digits = folder / "digits.npy"
        message = "digits.npy holds images of shape (8, 8), and the model takes tables; save rows and features"
        assert message in fail("fit", "gaussian-mixture", digits, "-o", tmp_path / "m")
        write_dataset(tmp_path / "x.csv", load_digits().data[:100, 20:24])
        succeed("fit", "probabilistic-pca", tmp_path / "x.csv", "-o", tmp_path / "pca.jensen", "--n-components", 2)
        assert message in fail("score", tmp_path / "pca.jensen", digits)
        assert "rows of shape (8, 8) are not a table; write them to an .npy" in fail("sample", folder / "digits.jensen")
        assert "fitted on rows of shape (8, 8)" in fail("score", folder / "digits.jensen", folder / "channels.npy")
        assert "images of shape (8, 8) have no columns" in fail(
            "fit", "vae", digits, "--label", 3, "-o", tmp_path / "m"
        )


class TestRecipes:
    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("encoder", "MLP", MLP()),
            ("encoder", "MLP(hidden=(50, 50), activation='relu')", MLP(hidden=(50, 50), activation="relu")),
            ("encoder", "ConvEncoder(dense=8)", ConvEncoder(dense=8)),
            ("encoder", "none", None),
            ("trainer", "Trainer(clip=None, decay=none)", Trainer(clip=None, decay=None)),
            ("trainer", "Trainer(clip=1.0, averaging=None)", Trainer(clip=1.0, averaging=None)),
            ("objective", "Elbo(beta=4)", Elbo(beta=4)),
            ("objective", "Elbo(warm_up=0.1)", Elbo(warm_up=0.1)),
            ("likelihood", "bernoulli", "bernoulli"),
            ("likelihood", "Bernoulli(resample=true)", Bernoulli(resample=True)),
            ("likelihood", '{"sex": "bernoulli"}', {"sex": "bernoulli"}),
            ("likelihood", '{"age": Gaussian(variance=0.5)}', {"age": Gaussian(variance=0.5)}),
            ("checkpoint", "7", "7"),
        ],
    )
    def test_are_written_as_in_python(self, name, text, value):
        found = convert(text, inspect.signature(VAE, eval_str=True).parameters[name])
        assert repr(found) == repr(value)

    def test_a_grid_may_hold_them(self):
        parameters = inspect.signature(VAE, eval_str=True).parameters
        grid = read_grid(["encoder=MLP(activation='relu', hidden=(50, 50)),MLP(),none", "n-components=1:2"], parameters)
        expected = {"encoder": [MLP(activation="relu", hidden=(50, 50)), MLP(), None], "n_components": [1, 2]}
        assert repr(grid) == repr(expected)

    @pytest.mark.parametrize(
        ("flag", "text", "message"),
        [
            ("--encoder", '{"hidden": [50]}', "cannot be read as ConvDecoder(channels, dense, activation) | ConvEnc"),
            ("--encoder", "MLP(hiden=(50,))", "got an unexpected keyword argument 'hiden'; its default is none"),
            ("--encoder", "MLP(hidden=(50,)", "was never closed"),
            ("--encoder", "Trainer()", "cannot be read as ConvDecoder"),
            ("--encoder", "MLP(activation=relu)", "relu is not a recipe, and text needs quotes; recipes are"),
            ("--encoder", "MLP(**{})", "arguments must be written one by one"),
            ("--encoder", "MLP(__import__('os'))", "__import__ is not a recipe"),
            ("--encoder", "MLP(hidden=(0,))", "hidden=(0,) are not layer sizes"),
            ("--trainer", "Trainer(clop=1)", "cannot be read as Trainer(weight_decay, warm_up, "),
            ("--trainer", '{"clip": null}', "is JSON; write it as in Python: --trainer 'Trainer(clip=None)'"),
            ("--trainer", "Trainer(clip=null)", "is JSON; write it as in Python: --trainer 'Trainer(clip=None)'"),
            ("--likelihood", '{"a": "Gaussian()"}', "write it as in Python: --likelihood '{\"a\": Gaussian()}'"),
            ("--likelihood", "bernouli", "--likelihood bernouli must be 'auto', 'gaussian'"),
        ],
    )
    def test_mistakes_are_named(self, folder, tmp_path, flag, text, message):
        assert message in fail("fit", "vae", folder / "digits.npy", flag, text, "-o", tmp_path / "m")

    def test_the_list_of_options_says_what_there_is(self):
        words = " ".join(succeed("models", "vae").split())
        for part in ("MLP(hidden,", "Trainer(weight_dec", "--trainer", "--checkpoint"):
            assert part in words
        assert "MLP(hidden=(50, 50))" in succeed("fit", "--help")


class TestSummary:
    def test_says_epochs_and_bounds(self, folder, tmp_path):
        fit = ("fit", "vae", folder / "people.csv", "--drop", "id", "--drop", "group", *SMALL)
        summary = json.loads(succeed(*fit, "--json", "-o", tmp_path / "m"))
        model = jensen.load(tmp_path / "m")
        assert summary["epochs"] == 15
        assert summary["objective_per_row"] == model.lower_bound_
        assert summary["held_out_per_row"] == model.history_["held_out"].max()
        assert "iterations" not in summary
        # The objective is the bound in the units of the data, while the weights were still on their way.
        assert summary["nats_per_row"] == pytest.approx(summary["objective_per_row"], abs=1.5)
        out = succeed(*fit, "--trainer", "Trainer(validation_fraction=0)", "-o", tmp_path / "m")
        assert "objective per row" in out
        assert "held out" not in out

    def test_many_rows_are_scored_on_some(self, tmp_path):
        write_dataset(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1500, 2)))
        fit = ("fit", "vae", tmp_path / "x.npy", *SMALL[:4], "--max-epochs", 2, "--evaluation-samples", 2)
        summary = json.loads(succeed(*fit, "--json", "-o", tmp_path / "m"))
        assert (summary["rows"], summary["scored_rows"]) == (1500, 400)


class TestMeansAndDraws:
    """Pictures of a model with a decoder show its means by default, tables and arrays have draws."""

    @pytest.fixture
    def shown(self, folder, tmp_path, monkeypatch):
        """The rows of a sample as an array, from the limits 0 and 1 of black and white, and the messages."""
        monkeypatch.chdir(tmp_path)

        def sample(output, *options):
            done = run("sample", folder / "digits.jensen", "-n", 4, "--seed", 1, "-o", output, *options)
            assert done.exit_code == 0, done.stderr
            if output.endswith(".npy"):
                return read_dataset(output, images=True), done
            files = [output] if output.endswith(".png") else sorted(Path(output).iterdir())
            pictures = [np.asarray(Image.open(file)) / 255 for file in files]
            return pictures[0] if output.endswith(".png") else np.stack(pictures), done

        return sample

    @pytest.fixture
    def rows(self, folder):
        model = jensen.load(folder / "digits.jensen")
        return {name: model.sample(4, random_state=1, mean=name == "means")[0] for name in ("means", "draws")}

    def test_pictures_show_means_and_say_so(self, shown, rows):
        images, done = shown("new")
        np.testing.assert_allclose(images, rows["means"], atol=1 / 255)
        assert "the images are the decoder's means, without the noise of the pixels; --no-mean draws it" in done.stderr
        np.testing.assert_array_equal(shown("a.png")[0], shown("b.png", "--mean")[0])

    def test_draws_on_request(self, shown, rows):
        images, done = shown("new", "--no-mean")
        np.testing.assert_allclose(images, rows["draws"], atol=1 / 255)
        assert "decoder" not in done.stderr
        assert not np.array_equal(shown("a.png")[0], shown("b.png", "--no-mean")[0])

    def test_an_array_has_draws(self, shown, rows):
        images, done = shown("new.npy")
        np.testing.assert_array_equal(images, rows["draws"])
        assert "decoder" not in done.stderr
        np.testing.assert_allclose(shown("means.npy", "--mean")[0], rows["means"], rtol=1e-6)

    def test_json_names_the_default(self, shown):
        _, done = shown("a.png", "--json")
        assert json.loads(done.stdout)["mean"] is True
        assert "decoder" not in done.stderr
        assert "mean" not in json.loads(shown("b.png", "--json", "--no-mean")[1].stdout)


class TestPictures:
    """A background of 0.8 is pale, however far a sample goes beyond 1."""

    @pytest.fixture
    def pale(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(0)
        images = np.where(rng.random((60, 4, 4)) < 0.1, rng.random((60, 4, 4)), 0.8)
        write_dataset(tmp_path / "pale.npy", images)
        images[0, 0, 0] = np.nan
        write_dataset(tmp_path / "holes.npy", images)
        gaussian = ("--likelihood", "gaussian", "--n-components", 2, "--max-epochs", 1)
        succeed("fit", "vae", tmp_path / "pale.npy", *SMALL[:4], *gaussian, "--quiet", "-o", tmp_path / "m")
        made = np.full((2, 4, 4), 0.8)
        made[0, 0] = [-0.5, 0.0, 1.0, 1.7]
        monkeypatch.setattr(VAE, "sample", lambda *_, **__: (made, None))
        monkeypatch.setattr(VAE, "impute", lambda *_, **__: made)
        return tmp_path

    @pytest.mark.parametrize("verb", [("sample",), ("impute", "holes.npy")])
    def test_are_clipped_and_not_stretched(self, pale, verb, monkeypatch):
        monkeypatch.chdir(pale)
        word, *data = verb
        succeed(word, "m", *data, "-o", "new")
        with Image.open("new/0.png") as first, Image.open("new/1.png") as second:
            assert np.asarray(first)[0].tolist() == [0, 0, 255, 255]
            assert np.asarray(second).tolist() == [[204] * 4] * 4

    def test_of_data_on_a_scale_of_their_own(self, pale, monkeypatch):
        monkeypatch.chdir(pale)
        write_dataset("wide.npy", np.linspace(-4, 4, 60 * 16).reshape(60, 4, 4))
        succeed("fit", "vae", "wide.npy", *SMALL[:4], "--max-epochs", 1, "--quiet", "-o", "m")
        assert jensen.load("m").pixel_range_ == (-4.0, 4.0)
        succeed("sample", "m", "-o", "new.png")
        with Image.open("new.png") as picture:
            assert np.asarray(picture)[0, 0] == round((-0.5 + 4) / 8 * 255)

    def test_of_a_file_without_the_range(self, pale, monkeypatch):
        monkeypatch.chdir(pale)
        model = jensen.load("m")
        del model.pixel_range_
        model.save("m")
        succeed("sample", "m", "-o", "new.png")


class TestCheckpoints:
    def test_a_second_fit_goes_on_where_the_first_ended(self, folder, tmp_path):
        fit = ("fit", "vae", folder / "digits.npy", "--checkpoint", tmp_path / "run.ckpt", "--json", *SMALL)
        first = json.loads(succeed(*fit, "-o", tmp_path / "m"))
        assert jensen.load(tmp_path / "m").checkpoint is None
        assert json.loads(succeed(*fit, "-o", tmp_path / "m")) == first
        assert json.loads(succeed(*fit, "--max-epochs", 17, "-o", tmp_path / "m"))["epochs"] == 17
        assert "another fit, with --batch-size '128' instead of '50'" in fail(
            *fit, "--batch-size", 50, "-o", tmp_path / "m"
        )

    def test_a_folder_that_is_not_there(self, folder, tmp_path):
        message = fail("fit", "vae", folder / "digits.npy", "--checkpoint", "nowhere/run.ckpt", "-o", tmp_path / "m")
        assert (
            "--checkpoint nowhere/run.ckpt cannot be written: there is no folder nowhere; give one that exists"
            in message
        )

    def test_ctrl_c_leaves_a_model_and_a_checkpoint_that_ends_like_a_run_without(self, folder, tmp_path):
        # Without decay a step does not depend on how many are to come.
        trainer = "Trainer(checkpoint_every=0, patience=100000, decay=None)"
        fit = ["fit", "vae", folder / "digits.npy", *SMALL[:4], "--trainer", trainer, "--json", "-o", tmp_path / "m"]
        goes_on = ["--checkpoint", tmp_path / "run.ckpt"]
        fitting = subprocess.Popen(
            [*COMMAND, *map(str, [*fit, *goes_on, "--max-epochs", 100_000])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ONE_THREAD,
        )
        while fitting.poll() is None and not (tmp_path / "run.ckpt").exists():
            time.sleep(0.02)
        fitting.send_signal(signal.SIGINT)
        out, err = fitting.communicate(timeout=60)
        assert fitting.returncode == 0, err
        assert err.startswith("warning: interrupted after step ")
        assert "and a fit with this checkpoint resumes here: " in err
        assert err.endswith("run.ckpt\n")
        assert jensen.load(tmp_path / "m").n_iter_ == json.loads(out)["epochs"] < 100_000
        assert json.loads(out)["interrupted"]
        assert "nats_per_row" not in json.loads(out)
        longer = ["--max-epochs", json.loads(out)["epochs"] + 3]
        resumed, whole = (json.loads(succeed(*fit, *words, *longer)) for words in (goes_on, []))
        assert resumed["epochs"] == whole["epochs"] == longer[1]
        # Single precision, and another number of threads.
        assert resumed["nats_per_row"] == pytest.approx(whole["nats_per_row"], rel=1e-4)


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_a_latent_diffusion_from_recipes(folder, people, tmp_path):
    file = tmp_path / "latent.jensen"
    recipes = (
        *("--vae", "VAE(2, encoder=MLP((20,)), decoder=MLP((20,)), max_epochs=10)"),
        *("--diffusion", "Diffusion(n_steps=20, objective='variational', network=ResidualMLP(16, 1), max_epochs=5)"),
    )
    drop = ("--drop", "id", "--drop", "group")
    succeed("fit", "latent-diffusion", folder / "people.csv", *drop, "--quiet", *recipes, "-o", file)
    scores = json.loads(succeed("score", file, folder / "people.csv", "--levels", "all", "--json"))
    assert np.isfinite(scores["nats_per_row"])
    succeed("sample", file, "-n", 5, "--sampler", "ddim", "--steps", 5, "-o", tmp_path / "new.csv")
    assert list(pd.read_csv(tmp_path / "new.csv")) == COLUMNS
    succeed("impute", file, folder / "people.csv", "-o", tmp_path / "filled.csv")
    filled = pd.read_csv(tmp_path / "filled.csv")
    assert not filled[COLUMNS].isna().any(axis=None)
    known = people["age"].notna()
    np.testing.assert_array_equal(filled["age"][known], people["age"][known])
    succeed("transform", file, folder / "people.csv", "-o", tmp_path / "z.csv")
    assert pd.read_csv(tmp_path / "z.csv").shape == (150, 2)
    assert "the model was fitted without labels" in fail("sample", file, "--y", "young")
