"""The command line on diffusions: images and mixed tables, ways to sample and to score, and pictures."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import jensen
from jensen import MLP, VAE, Diffusion, ResidualMLP, Schedule, UNet
from jensen.cli.arguments import convert
from jensen.files.datasets import read_dataset
from jensen.files.tables import write_dataset
from shell import fail, run, succeed

SHORT = ("--n-steps", 25, "--max-epochs", 2, "--quiet")
UNET = ("--network", "UNet(channels=(8,), n_blocks=1)")
NETWORKS = ("--encoder", "MLP((8,))", "--decoder", "MLP((8,))")
SMALL_VAE = (*NETWORKS, "--n-components", 2, "--max-epochs", 1, "--evaluation-samples", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Digits as pixels and scaled, people with a town and without some cells, and two models."""
    path = tmp_path_factory.mktemp("diffusion")
    images = load_digits().images[:100]
    write_dataset(path / "digits.npy", images.astype(np.uint8))
    write_dataset(path / "scaled.npy", (images / 16).astype(np.float32))
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "age": rng.normal(40, 9, 100).round(1),
            "smokes": rng.random(100) < 0.4,
            "town": rng.choice(["Bonn", "Oslo", "Rome"], 100),
        }
    )
    write_dataset(path / "people.csv", people)
    write_dataset(path / "holes.csv", people[["age"]].mask(people["smokes"]).assign(height=1.5))
    succeed("fit", "diffusion", path / "digits.npy", *UNET, *SHORT, "-o", path / "digits.jensen")
    succeed("fit", "diffusion", path / "people.csv", *SHORT, "-o", path / "people.jensen")
    return path


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    return load_digits().target[:100] % 3


@pytest.fixture(scope="module")
def labelled(folder, labels) -> Path:
    """A diffusion of digits, a third of them without a label."""
    np.save(folder / "labels.npy", np.where(np.arange(100) % 3, labels, -1))
    fit = ("fit", "diffusion", folder / "digits.npy", "--label", folder / "labels.npy", *UNET, *SHORT)
    succeed(*fit, "-o", folder / "labelled.jensen")
    return folder / "labelled.jensen"


@pytest.fixture(scope="module")
def filling(folder) -> Path:
    """A VAE of digits, and beside it four of which it has to fill the upper half."""
    succeed("fit", "vae", folder / "scaled.npy", *SMALL_VAE, "--quiet", "-o", folder / "vae.jensen")
    x = read_dataset(folder / "scaled.npy", images=True)[:4]
    x[:, :4] = np.nan
    write_dataset(folder / "half.npy", x)
    return folder / "vae.jensen"


class TestFit:
    def test_pixels_are_found_to_be_levels(self, folder):
        model = jensen.load(folder / "digits.jensen")
        assert model.columns_.n_levels == (17,) * 64
        assert model.schedule_.n_levels == 25
        assert repr(model.network) == repr(UNet(channels=(8,), n_blocks=1))

    def test_columns_have_their_own_kinds(self, folder):
        model = jensen.load(folder / "people.jensen")
        assert model.columns_.kinds == ("number", "yes/no", "level")

    def test_options_reach_the_model(self, folder, tmp_path):
        given = ("--schedule", "cosine", "--prediction", "noise", "--data-levels", 17, "--n-steps", 10)
        fit = ("fit", "diffusion", folder / "scaled.npy", *UNET, "--max-epochs", 1, *given)
        summary = json.loads(succeed(*fit, "--json", "-o", tmp_path / "m"))
        model = jensen.load(tmp_path / "m")
        assert (model.schedule, model.prediction, model.data_levels) == ("cosine", "noise", 17)
        assert summary["features"] == 64
        # Of levels the scores are probabilities: bits per dimension are -nats / (d ln 2).
        assert summary["bits_per_dimension"] == pytest.approx(-summary["nats_per_row"] / (64 * np.log(2)))

    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("schedule", "cosine", "cosine"),
            ("schedule", "[0.1, 0.2]", np.array([0.1, 0.2])),
            ("schedule", "Schedule([0.1, 0.2])", Schedule([0.1, 0.2])),
            ("n_steps", "50", 50),
            ("network", "UNet(channels=(16, 32), n_blocks=1)", UNet(channels=(16, 32), n_blocks=1)),
            ("network", "ResidualMLP", ResidualMLP()),
            ("network", "none", None),
            ("data_levels", "auto", "auto"),
            ("data_levels", "17", 17),
            ("data_levels", "none", None),
            ("evaluation_levels", "all", "all"),
            ("evaluation_levels", "20", 20),
        ],
    )
    def test_values_are_written_as_they_are(self, name, text, value):
        found = convert(text, inspect.signature(Diffusion, eval_str=True).parameters[name])
        assert repr(found) == repr(value)

    def test_rows_with_holes_are_learnt_from_and_complete_ones_scored(self, folder, tmp_path):
        fit = ("fit", "diffusion", folder / "holes.csv", "--n-steps", 25, "--max-epochs", 1, "--json")
        summary = json.loads(succeed(*fit, "-o", tmp_path / "m"))
        rows = read_dataset(folder / "holes.csv")
        complete = rows.dropna()
        assert (summary["rows"], summary["scored_rows"]) == (100, len(complete))
        assert summary["missing_entries"] == 100 - len(complete)
        scores = jensen.load(tmp_path / "m").score_samples(complete)
        assert summary["nats_per_row"] == pytest.approx(scores.mean(), rel=1e-6)
        assert "impute X first" in fail("score", tmp_path / "m", folder / "holes.csv")

    @pytest.mark.parametrize(
        ("file", "options", "message"),
        [
            (
                "digits.npy",
                ("--schedule", "linear", "--n-steps", 20),
                "--n-steps 20 is too few for the linear schedule",
            ),
            ("digits.npy", ("--data-levels", 5), "--data-levels 5 does not fit X"),
            ("digits.npy", ("--data-levels", 1), "'data_levels' parameter of Diffusion must be"),
            ("digits.npy", ("--schedule", "quadratic"), "'schedule' parameter of Diffusion must be"),
            ("digits.npy", ("--network", "UNet(channel=(8,))"), "unexpected keyword argument 'channel'"),
            ("people.csv", ("--network", "UNet()"), "is not an image"),
        ],
    )
    def test_mistakes_are_one_line(self, folder, tmp_path, file, options, message):
        assert message in fail("fit", "diffusion", folder / file, *options, "-o", tmp_path / "m")
        assert not (tmp_path / "m").exists()


class TestLabels:
    """Of images, which have no columns: a file with one label each."""

    def test_fit_reads_them(self, folder, labels, labelled):
        model = jensen.load(labelled)
        assert model.classes_.tolist() == [0, 1, 2]
        x = read_dataset(folder / "digits.npy", images=True)
        again = Diffusion(n_steps=25, max_epochs=2, network=UNet(channels=(8,), n_blocks=1), random_state=0)
        again.fit(x, np.where(np.arange(100) % 3, labels, -1))
        np.testing.assert_array_equal(model.score_samples(x[:5]), again.score_samples(x[:5]))

    @pytest.mark.parametrize("suffix", [".csv", ".txt", ".npy"])
    def test_any_kind_of_file(self, folder, tmp_path, labels, suffix):
        """What is unlabelled is empty in text and NaN in an array."""
        names = np.array(["zero", "one", "two"])[labels]
        file, known = tmp_path / f"y{suffix}", np.arange(100) % 3 > 0
        if suffix == ".npy":
            np.save(file, np.where(known, labels, np.nan))
        else:
            lines = np.where(known, names, "").tolist()
            file.write_text("\n".join([*(["kind"] if suffix == ".csv" else []), *lines, ""]))
        fit = ("fit", "vae", folder / "scaled.npy", *SMALL_VAE, "--quiet")
        succeed(*fit, "--label", file, "-o", tmp_path / "m")
        expected = [0, 1, 2] if suffix == ".npy" else ["one", "two", "zero"]
        assert jensen.load(tmp_path / "m").classes_.tolist() == expected
        out = succeed("predict", tmp_path / "m", folder / "scaled.npy", "--proba")
        assert out.splitlines()[0] == ",".join(["prediction", *(f"probability_{c}" for c in expected)])

    def test_weights_may_be_a_file_and_tables_may_have_some(self, folder, tmp_path, labels):
        rows = read_dataset(folder / "holes.csv")
        only = int(np.flatnonzero(rows["age"].notna())[0])
        np.save(tmp_path / "w.npy", np.arange(100) == only)
        write_dataset(tmp_path / "y.csv", pd.DataFrame({"kind": labels}))
        fit = ("fit", "gaussian-mixture", folder / "holes.csv", "--covariance-type", "spherical", "--quiet")
        succeed(*fit, "--label", tmp_path / "y.csv", "-o", tmp_path / "m")
        model = jensen.load(tmp_path / "m")
        assert (model.classes_.tolist(), model.feature_names_in_.tolist()) == ([0, 1, 2], ["age", "height"])
        fit = ("fit", "kmeans", folder / "holes.csv", "--n-clusters", 1, "--quiet", "-o", tmp_path / "m")
        result = run(*fit, "--weight", tmp_path / "w.npy", "--label", tmp_path / "y.csv")
        # One row has a weight, so its values are constants.
        constant, ignored = result.stderr.splitlines()
        assert "X has columns with one value: 'age' (" in constant
        assert ignored == f"warning: KMeans ignores --label; {tmp_path / 'y.csv'} is left out"
        np.testing.assert_allclose(jensen.load(tmp_path / "m").cluster_centers_[0], rows.iloc[only])

    def test_predict_gives_a_class_per_row(self, folder, labelled, tmp_path):
        x = read_dataset(folder / "digits.npy", images=True)[:4]
        write_dataset(tmp_path / "x.npy", x)
        model = jensen.load(labelled)
        succeed("predict", labelled, tmp_path / "x.npy", "--proba", "--budget", 16, "-o", tmp_path / "p.csv")
        found = read_dataset(tmp_path / "p.csv")
        assert found.columns.tolist() == ["prediction", "probability_0", "probability_1", "probability_2"]
        np.testing.assert_allclose(found.iloc[:, 1:], model.predict_proba(x, budget=16), rtol=1e-6)
        np.testing.assert_array_equal(found["prediction"], model.predict(x, budget=16))
        words = ("predict", labelled, tmp_path / "x.npy", "--budget", 16)
        assert succeed(*words) == "\n".join(["prediction", *map(str, found["prediction"]), ""])
        simple = model.predict(x, budget=16, weighting="simple", class_prior="uniform")
        out = succeed(*words, "--weighting", "simple", "--class-prior", "uniform")
        assert out == "\n".join(["prediction", *map(str, simple), ""])

    def test_sample_makes_one_class(self, labelled, tmp_path):
        wanted = {"y": 2, "guidance": 1.0, "steps": 5}
        flags = [word for name, value in wanted.items() for word in (f"--{name}", value)]
        succeed("sample", labelled, "-n", 3, "--seed", 0, *flags, "-o", tmp_path / "s.npy")
        expected, _ = jensen.load(labelled).sample(3, random_state=0, **wanted)
        np.testing.assert_array_equal(read_dataset(tmp_path / "s.npy", images=True), expected)

    @pytest.mark.parametrize(
        ("content", "file", "message"),
        [
            (np.arange(99), "y.npy", "y.npy has 99 values, but there are 100 rows; give one value for each row"),
            ("0\n" * 100, "y.csv", "y.csv has 99 values, but there are 100 rows"),
            ("0\n" * 100, "y.csv", "below a first line with a name (its own is '0')"),
            (np.zeros((100, 2)), "y.npy", "y.npy has 2 columns; give a file of one column"),
            (np.full(100, -1), "y.npy", "y.npy has no label in any row; leave --label out to fit without"),
            (np.full(100, np.nan), "y.npy", "y.npy has no label in any row"),
            (np.arange(100) + 0.5, "y.npy", "labels are classes"),
            ("3\n" * 101, "y.txt", "y.txt has 101 values, but there are 100 rows; give one value for each row"),
            ("a\n", "y.xyz", "y.xyz has the suffix '.xyz'"),
            (
                None,
                "y.npy",
                "images of shape (8, 8) have no columns; labels and weights may be files with one value per",
            ),
        ],
    )
    def test_mistakes(self, folder, tmp_path, monkeypatch, content, file, message):
        monkeypatch.chdir(tmp_path)
        if isinstance(content, str):
            Path(file).write_text(content)
        elif content is not None:
            np.save(file, content)
        fit = ("fit", "diffusion", folder / "digits.npy", *UNET, *SHORT, "--label", file, "-o", "m")
        result = run(*fit)
        assert result.exit_code == 2
        # Of a name that is a number there is a warning first.
        assert message in result.stderr.splitlines()[-1]
        assert not Path("m").exists()

    def test_a_column_comes_before_a_file(self, folder, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("town").write_text("a")
        succeed("fit", "vae", folder / "people.csv", "--label", "town", *SMALL_VAE, "--quiet", "-o", "m")
        assert jensen.load("m").classes_.tolist() == ["Bonn", "Oslo", "Rome"]

    def test_other_models_have_no_budget(self, folder, tmp_path):
        succeed("fit", "gaussian-mixture", folder / "holes.csv", "--quiet", "-o", tmp_path / "m")
        message = "--budget is for diffusions, which GaussianMixture is not; leave it out"
        assert message in fail("predict", tmp_path / "m", folder / "holes.csv", "--budget", 50)
        assert "Diffusion has no predict" in fail("predict", folder / "digits.jensen", folder / "digits.npy")


class TestImpute:
    """Images go to an .npy file or a picture, whichever model fills them."""

    def test_files(self, folder, filling, tmp_path):
        succeed("impute", filling, folder / "half.npy", "-o", tmp_path / "f.npy")
        filled, half = (read_dataset(path, images=True) for path in (tmp_path / "f.npy", folder / "half.npy"))
        np.testing.assert_array_equal(filled[:, 4:], half[:, 4:])
        np.testing.assert_array_equal(filled, jensen.load(filling).impute(half))
        succeed("impute", filling, folder / "half.npy", "--draws", 2, "--seed", 1, "-o", tmp_path / "f.npy")
        draws = [read_dataset(tmp_path / f"f-{i}.npy", images=True) for i in (1, 2)]
        np.testing.assert_array_equal(draws, list(jensen.load(filling).impute_draws(half, 2, random_state=1)))

    def test_a_diffusion_fills_images_too(self, folder, filling, tmp_path):
        half = np.rint(16 * read_dataset(folder / "half.npy", images=True))
        write_dataset(tmp_path / "half.npy", half)
        fast = ("--steps", 4, "--resamplings", 1)
        impute = ("impute", folder / "digits.jensen", tmp_path / "half.npy", *fast)
        succeed(*impute, "-o", tmp_path / "f.npy")
        model, filled = jensen.load(folder / "digits.jensen"), read_dataset(tmp_path / "f.npy", images=True)
        np.testing.assert_array_equal(filled[:, 4:], half[:, 4:])
        np.testing.assert_array_equal(filled, model.impute(half, steps=4, resamplings=1))
        succeed(*impute, "--draws", 2, "--seed", 1, "-o", tmp_path / "f.npy")
        draws = [read_dataset(tmp_path / f"f-{i}.npy", images=True) for i in (1, 2)]
        np.testing.assert_array_equal(draws, model.impute_draws(half, 2, random_state=1, steps=4, resamplings=1))

    def test_a_picture(self, folder, filling, tmp_path):
        succeed("impute", filling, folder / "half.npy", "-o", tmp_path / "f.png")
        with Image.open(tmp_path / "f.png") as picture:
            assert picture.format == "PNG"

    def test_mistakes(self, folder, filling, tmp_path):
        message = (
            "rows of shape (8, 8) are not a table; write them to an .npy or .png file, or to a folder, with --output"
        )
        assert message in fail("impute", filling, folder / "half.npy")
        assert message in fail("impute", filling, folder / "half.npy", "-o", tmp_path / "f.csv")
        message = "--steps is for diffusions, which VAE is not; leave it out"
        assert message in fail("impute", filling, folder / "half.npy", "--steps", 4, "-o", tmp_path / "f.npy")


class TestScore:
    def test_levels_are_of_the_bound(self, folder, tmp_path):
        model, x = jensen.load(folder / "digits.jensen"), read_dataset(folder / "digits.npy", images=True)[:20]
        write_dataset(tmp_path / "x.npy", x)
        score = ("score", folder / "digits.jensen", tmp_path / "x.npy", "--json")
        for levels, given in (("all", "all"), (5, 5)):
            out = json.loads(succeed(*score, "--levels", given, "-o", tmp_path / "s.csv"))
            total = model.bound(x, levels=levels).total
            np.testing.assert_allclose(read_dataset(tmp_path / "s.csv")["log_likelihood"], total, rtol=1e-6)
            assert out["nats_per_row"] == pytest.approx(total.mean(), rel=1e-6)
            assert out["bits_per_dimension"] == pytest.approx(model.bits_per_dimension(x, levels).mean(), rel=1e-6)
            assert out["standard_error"] == pytest.approx(total.std(ddof=1) / np.sqrt(len(x)), rel=1e-6)

    def test_without_levels_it_is_the_models_score(self, folder):
        out = json.loads(succeed("score", folder / "people.jensen", folder / "people.csv", "--json"))
        scores = jensen.load(folder / "people.jensen").score_samples(read_dataset(folder / "people.csv"))
        assert out["nats_per_row"] == pytest.approx(scores.mean(), rel=1e-6)
        assert out["bits_per_dimension"] == pytest.approx(-scores.mean() / (3 * np.log(2)), rel=1e-6)

    @pytest.mark.parametrize("levels", ["many", 3, 4.5])
    def test_mistakes(self, folder, levels):
        message = fail("score", folder / "digits.jensen", folder / "digits.npy", "--levels", levels)
        assert "must be 'all', or a number of levels per row, 4 or more" in message

    def test_pixels_between_the_levels(self, folder):
        assert "X holds 0.3125 in row 0" in fail("score", folder / "digits.jensen", folder / "scaled.npy")


class TestSample:
    def test_a_picture(self, folder, tmp_path):
        succeed("sample", folder / "digits.jensen", "-n", 5, "--steps", 3, "-o", tmp_path / "grid.PNG")
        with Image.open(tmp_path / "grid.PNG") as picture:
            assert (picture.format, picture.mode) == ("PNG", "L")
            assert picture.width == pytest.approx(800, rel=0.1)
            assert picture.height == pytest.approx(2 / 3 * picture.width, rel=0.05)
            shades = np.unique(np.asarray(picture))
        # The model's least level is black and its greatest white, whatever was drawn; 224 is the lines' grey.
        assert set(shades) <= {*np.rint(np.arange(17) / 16 * 255), 224}

    def test_images(self, folder, tmp_path):
        succeed("sample", folder / "digits.jensen", "-n", 3, "--seed", 1, "-o", tmp_path / "s.npy")
        found = read_dataset(tmp_path / "s.npy", images=True)
        np.testing.assert_array_equal(found, jensen.load(folder / "digits.jensen").sample(3, random_state=1)[0])
        assert found.shape == (3, 8, 8)

    @pytest.mark.parametrize(
        "options",
        [{"steps": 4}, {"sampler": "dpm", "steps": 5}, {"sampler": "ddim", "steps": 5, "eta": 0.5}],
    )
    def test_the_way_down_is_the_models(self, folder, tmp_path, options):
        flags = [word for name, value in options.items() for word in (f"--{name}", value)]
        succeed("sample", folder / "people.jensen", "-n", 6, "--seed", 0, *flags, "-o", tmp_path / "s.csv")
        expected, _ = jensen.load(folder / "people.jensen").sample(6, random_state=0, **options)
        pd.testing.assert_frame_equal(read_dataset(tmp_path / "s.csv"), expected, check_dtype=False)

    @pytest.mark.parametrize(
        ("model", "options", "message"),
        [
            ("people", ("-o", "a.png"), "a.png is a picture, but Diffusion was fitted on a table and not on images; "),
            ("people", ("-o", "a.png"), "give a file that ends in .csv, .tsv, .jsonl, .parquet"),
            ("people", ("-o", "a.jpg"), "a.jpg has the suffix '.jpg'; give a file that ends in .csv, .tsv"),
            ("digits", ("-o", "a.csv"), "rows of shape (8, 8) are not a table; write them to an .npy or .png file"),
            ("digits", (), "rows of shape (8, 8) are not a table; write them to an .npy or .png file"),
            (
                "digits",
                ("-o", "nowhere/a.png"),
                "nowhere/a.png cannot be written: there is no folder nowhere;",
            ),
            ("digits", ("-o", "a.png", "--sampler", "euler"), "--sampler euler is not known; choose 'ancestral', "),
            ("digits", ("-o", "a.png", "--steps", 26), "from 1 to the 25 levels"),
            ("digits", ("-o", "a.png", "--eta", 0.5), "--eta 0.5 is for --sampler ddim"),
            ("digits", ("-o", "a.png", "--y", 3), "fitted without labels"),
        ],
    )
    def test_mistakes(self, folder, tmp_path, monkeypatch, model, options, message):
        monkeypatch.chdir(tmp_path)
        assert message in fail("sample", folder / f"{model}.jensen", *options)
        assert not list(tmp_path.iterdir())


class TestOtherModels:
    def test_know_no_levels_of_noise(self, folder, tmp_path):
        mixture = tmp_path / "mixture.jensen"
        succeed("fit", "gaussian-mixture", folder / "holes.csv", "--quiet", "-o", mixture)
        for flag, value in (("--steps", 5), ("--sampler", "ddim"), ("--eta", 0.0)):
            message = f"{flag} is for diffusions, which GaussianMixture is not; leave it out"
            assert message in fail("sample", mixture, flag, value)
        message = (
            "--mean is for models with a decoder (vae, latent-diffusion), which GaussianMixture is not; leave it out"
        )
        assert message in fail("sample", mixture, "--mean")
        message = "--levels is for diffusions, which GaussianMixture is not; leave it out"
        assert message in fail("score", mixture, folder / "holes.csv", "--levels", "all")
        assert "GaussianMixture was fitted on a table" in fail("sample", mixture, "-o", tmp_path / "a.png")

    def test_draw_pictures_of_one_or_three_channels(self, folder, tmp_path):
        x = read_dataset(folder / "scaled.npy", images=True)[:, None]
        for n_channels in (1, 2, 3):
            model = VAE(2, encoder=MLP((8,)), decoder=MLP((8,)), max_epochs=1, random_state=0)
            model.fit(np.repeat(x, n_channels, axis=1)).save(tmp_path / f"{n_channels}.jensen")
        succeed("sample", tmp_path / "1.jensen", "-n", 2, "-o", tmp_path / "grey.png")
        succeed("sample", tmp_path / "3.jensen", "-n", 2, "-o", tmp_path / "colours.png")
        for name, mode in (("grey", "L"), ("colours", "RGB")):
            with Image.open(tmp_path / f"{name}.png") as picture:
                assert picture.mode == mode
        message = fail("sample", tmp_path / "2.jensen", "-o", tmp_path / "a.png")
        assert "2 channels; a picture has 1, 3 or 4" in message
        assert "an .npy file can hold all images" in message


def test_help_says_what_there_is():
    words = " ".join(succeed("sample", "--help").split())
    for part in ("--steps", "ancestral|ddim|dpm", "--eta", ".png", "--output grid.png"):
        assert part in words
    assert "all|N" in succeed("score", "--help")
    assert "fit diffusion" in succeed("fit", "--help")
    for verb in ("score", "predict", "transform"):
        assert ".png" not in succeed(verb, "--help")
    words = " ".join(succeed("fit", "--help").split())
    for part in ("COLUMN|FILE", "--label labels.npy"):
        assert part in words
