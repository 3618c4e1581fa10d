"""How commands read data: tables, folders of images, and data of scikit-learn."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_iris

import jensen
from jensen.files.datasets import read_dataset
from shell import fail, run, succeed

SMALL = ("--encoder", "MLP((8,))", "--decoder", "MLP((8,))", "--max-epochs", 2, "--n-components", 2)


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> Path:
    """Digits 0 and 1 as files, in a subfolder each."""
    folder = tmp_path_factory.mktemp("images") / "faces"
    digits = load_digits(n_class=2)
    for i, (image, kind) in enumerate(zip(digits.images[:60] * 15, digits.target, strict=False)):
        (folder / f"kind-{kind}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(folder / f"kind-{kind}" / f"{i:02}.png")
    return folder


@pytest.fixture(scope="module")
def model(faces) -> Path:
    file = faces.parent / "m.jensen"
    succeed("fit", "vae", faces, "--label", "folder", *SMALL, "--evaluation-samples", 3, "--quiet", "-o", file)
    return file


class TestFolders:
    def test_fit_reads_subfolders_as_classes(self, model):
        fitted = jensen.load(model)
        assert fitted.classes_.tolist() == ["kind-0", "kind-1"]
        assert fitted.n_features_in_ == 64

    def test_answers_are_about_its_images(self, model, faces):
        x = read_dataset(faces, images=True)
        told = json.loads(succeed("score", model, f"{faces}/", "--json"))
        assert told["nats_per_row"] == pytest.approx(jensen.load(model).score_samples(np.asarray(x)).mean(), rel=1e-6)
        told = json.loads(succeed("predict", model, faces, "--json"))
        assert told["prediction"] == jensen.load(model).predict(np.asarray(x)).tolist()

    def test_samples_are_a_folder_that_can_be_read(self, model, tmp_path):
        model_of_faces, place = jensen.load(model), tmp_path / "new"
        result = run("sample", model, "-n", 12, "--seed", 1, "--no-mean", "-o", f"{place}/")
        drawn, (_, classes) = model_of_faces.sample(12, random_state=1)
        counted = [f"{(classes == name).sum()} of {name}" for name in sorted(set(classes))]
        order = f"images are sorted by class: {', '.join(counted)}"
        assert result.stderr == f"{order}\nwrote 12 images to {place}\n"
        assert sorted(file.name for file in place.iterdir()) == [f"{i:02}.png" for i in range(12)]
        # The scale of the files that it was fitted on: what lies beyond it is cut off.
        shades = np.rint(np.clip(drawn[np.argsort(classes, kind="stable")], 0, 255))
        np.testing.assert_array_equal(read_dataset(place, images=True), shades)
        assert json.loads(succeed("score", model, place, "--json"))["rows"] == 12
        assert "is a folder with files in it; give a new" in fail("sample", model, "-o", place)
        means = "the images are the decoder's means, without the noise of the pixels; --no-mean draws it, too"
        result = run("sample", model, "-n", 12, "--seed", 1, "-o", tmp_path / "means")
        assert result.stderr == f"{means}\n{order}\nwrote 12 images to {tmp_path / 'means'}\n"

    def test_models_are_compared_on_it(self, faces):
        told = json.loads(succeed("compare", faces, "--models", "kmeans", "--effort", "quick", "--json"))
        assert told["best"] == "kmeans"

    def test_a_model_of_tables_says_so(self, faces, tmp_path):
        message = "faces holds images of shape (8, 8), and the model takes tables"
        assert message in fail("fit", "kmeans", faces, "-o", tmp_path / "m")


class TestEmbedded:
    def test_fit_score_and_impute(self, tmp_path):
        fit = ("fit", "gaussian-mixture", "iris", "--label", "target", "--json", "-o", tmp_path / "m")
        told = json.loads(succeed(*fit))
        fitted = jensen.load(tmp_path / "m")
        assert (told["rows"], fitted.classes_.tolist()) == (150, ["setosa", "versicolor", "virginica"])
        rows = pd.DataFrame(load_iris().data, columns=load_iris().feature_names)
        told = json.loads(succeed("score", tmp_path / "m", "iris", "--json"))
        assert told["nats_per_row"] == pytest.approx(fitted.score_samples(rows).mean(), rel=1e-12)
        succeed("impute", tmp_path / "m", "iris", "-o", tmp_path / "f.csv")
        pd.testing.assert_frame_equal(read_dataset(tmp_path / "f.csv"), rows)
        assert "there is no column 'sepal length (cm)'" in fail("score", tmp_path / "m", "wine")

    def test_digits_are_images(self, tmp_path):
        succeed("fit", "autoencoder", "digits", *SMALL, "--quiet", "-o", tmp_path / "m")
        assert jensen.load(tmp_path / "m")._shape == (8, 8)
        assert len(succeed("transform", tmp_path / "m", "digits").splitlines()) == 1 + len(load_digits().data)

    def test_select_and_compare(self):
        words = ("select", "gaussian-mixture", "iris", "--label", "target", "--grid", "n-components=3", "--json")
        assert json.loads(succeed(*words))["best"] == {"n_components": 3}
        words = ("compare", "iris", "--label", "target", "--models", "gaussian-mixture", "--effort", "quick", "--json")
        assert json.loads(succeed(*words))["best"] == "gaussian-mixture"


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "gaussian-mixture", "x.csv", "--drop", "id", "--label", "kind", "-q", "-o", "new.jensen"),
        ("score", "m.jensen", "x.csv", "--keep", "id", "-o", "scores.csv"),
        ("predict", "m.jensen", "x.csv", "--keep", "kind,id", "-o", "classes.csv"),
        ("impute", "m.jensen", "x.csv", "--draws", 2, "-o", "filled.csv"),
        ("impute", "m.jensen", "x.csv", "--json"),
        ("select", "gaussian-mixture", "x.csv", "--drop", "id,kind", "--grid", "n-components=1:2", "-q"),
    ],
)
def test_a_command_reads_its_table_once(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(30, 2))
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(kind=["u", "v"] * 15)
    frame.insert(0, "id", [f"{i:03d}" for i in range(30)])
    frame.loc[3, "a"] = np.nan
    frame.to_csv("x.csv", index=False)
    succeed("fit", "gaussian-mixture", "x.csv", "--drop", "id", "--label", "kind", "-q", "-o", "m.jensen")
    opened = []
    true_open = builtins.open

    def note(file, mode="r", *rest, **named):
        # As text only the header line is read, to check names before libraries are loaded.
        opened.extend([str(file)] * ("b" in mode))
        return true_open(file, mode, *rest, **named)

    monkeypatch.setattr(builtins, "open", note)
    succeed(*words)
    assert opened.count("x.csv") == 1


def test_kept_columns_are_as_written_and_blank_lines_are_no_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("id,a,code\n007,1,1.50\n\n008,2,NA\n009,4,x\n\n010,3,\n")
    succeed("fit", "gaussian-mixture", "x.csv", "--drop", "id,code", "-q", "-o", "m.jensen")
    for words, expected in ((("id",), "id"), (("code,id",), "code,id"), (("code", "id"), "code,id")):
        keep = [part for word in words for part in ("--keep", word)]
        lines = succeed("predict", "m.jensen", "x.csv", *keep).splitlines()
        assert lines[0] == f"{expected},prediction"
        assert len(lines) == 5
    assert [line.split(",")[:2] for line in lines[1:]] == [["1.50", "007"], ["NA", "008"], ["x", "009"], ["", "010"]]
