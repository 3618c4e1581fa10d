"""`jensen compare` as a person meets it."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from jensen import Diffusion
from jensen.evaluate.sizing import Effort
from shell import fail, run, succeed


def test_data_that_come_with_scikit_learn():
    out = succeed("compare", "iris", "--models", "kmeans,probabilistic-pca", "--effort", "quick", "--quiet", "--json")
    found = json.loads(out)
    assert {row["model"] for row in found["table"]} == {"kmeans", "probabilistic-pca"}
    assert found["best"] == found["table"][0]["model"]
    assert "30 of 150 rows held out" in found["caption"]


def test_a_file_with_labels_and_columns_to_leave_out(tmp_path):
    frame = load_iris(as_frame=True).frame
    frame["number"] = np.arange(len(frame))
    frame.to_csv(tmp_path / "iris.csv", index=False)
    words = ("compare", tmp_path / "iris.csv", "--label", "target", "--drop", "number", "--models", "gaussian-mixture")
    told = json.loads(succeed(*words, "--cv", 2, "--json", "-o", tmp_path / "board.csv"))
    assert told["files"] == {"table": str(tmp_path / "board.csv")}
    board = pd.read_csv(tmp_path / "board.csv")
    assert board["model"].tolist() == ["gaussian-mixture"]
    assert np.isfinite(board["nats"]).all()


def test_images(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3, 3)))
    out = succeed("compare", tmp_path / "x.npy", "--models", "factor-analysis,kmeans", "--cv", 2)
    assert "dequantised" in out
    assert "at most 2 levels" in " ".join(out.split())


def test_the_labels_that_come_with_the_data():
    found = json.loads(succeed("compare", "iris", "--label", "target", "--models", "gaussian-mixture", "--json"))
    # Three classes make three components: as many parameters as three Gaussians and their shares have.
    assert found["table"][0]["n_parameters"] == 3 * (4 + 10) + 2


def test_several_columns_are_left_out_by_one_word(tmp_path):
    load_iris(as_frame=True).frame.to_csv(tmp_path / "iris.csv", index=False)
    words = ("compare", tmp_path / "iris.csv", "--drop", "target,petal width (cm)", "--models", "probabilistic-pca")
    found = json.loads(succeed(*words, "--json"))
    assert found["table"][0]["n_parameters"] <= 3 + 3 * 2
    assert "there is no column 'none'" in fail(*words[:3], "target,none")


class TestFiles:
    def test_a_report_and_samples_of_a_table(self, tmp_path):
        files = ("--report", tmp_path / "page.html", "--samples", tmp_path / "new.csv")
        result = run("compare", "iris", "--models", "kmeans,probabilistic-pca", "--effort", "quick", *files)
        assert f"wrote the report to {tmp_path / 'page.html'}" in result.stderr
        assert f"wrote samples to {tmp_path / 'new.csv'}" in result.stderr
        assert "<title>Models of iris</title>" in (tmp_path / "page.html").read_text()
        new = pd.read_csv(tmp_path / "new.csv")
        assert new["model"].value_counts().to_dict() == {"kmeans": 100, "probabilistic-pca": 100}
        assert list(new)[1:] == load_iris().feature_names

    def test_samples_of_images_are_a_picture(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3, 3)))
        words = ("compare", tmp_path / "x.npy", "--models", "kmeans", "--cv", 2, "--quiet")
        succeed(*words, "--samples", tmp_path / "new.png")
        assert (tmp_path / "new.png").read_bytes()[:4] == b"\x89PNG"

    def test_a_wrong_kind_is_told_before_any_fit(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros((60, 3, 3)))
        assert "new.png must be a .csv or .parquet file for the rows of a table" in fail(
            "compare", "iris", "--samples", tmp_path / "new.png"
        )
        assert "new.csv must be an image file (.png) for images of shape (3, 3)" in fail(
            "compare", tmp_path / "x.npy", "--samples", tmp_path / "new.csv"
        )
        assert "has the suffix '.docx'" in fail("compare", "iris", "-o", tmp_path / "board.docx")
        for option in ("--output", "--samples"):
            assert "x.npy cannot hold text" in fail("compare", "iris", option, tmp_path / "x.npy")
        assert "--report y.pdf must end in .html" in fail("compare", "iris", "--report", "y.pdf")
        assert "has the suffix '.txt'" in fail("compare", "iris", "--samples", tmp_path / "new.txt")
        np.save(tmp_path / "two.npy", np.zeros((60, 2, 3, 3)))
        assert "2 channels" in fail("compare", tmp_path / "two.npy", "--samples", tmp_path / "new.png")
        page = tmp_path / "none" / "page.html"
        assert f"--report {page} cannot be written" in fail("compare", "iris", "--report", page)


class TestReport:
    def test_a_page_of_one_model(self, tmp_path):
        succeed("fit", "gaussian-mixture", "iris", "--n-components", 3, "--quiet", "-o", tmp_path / "m")
        result = run("report", tmp_path / "m", "iris", "--label", "target", "-o", tmp_path / "page.html")
        assert result.stderr == f"wrote the report to {tmp_path / 'page.html'}\n"
        text = (tmp_path / "page.html").read_text()
        assert "<title>GaussianMixture of iris</title>" in text
        assert "Least likely rows" in text
        assert ">of setosa<" in text or ">of 0<" in text
        assert "verbose" not in text
        assert "--output page.pdf must end in .html" in fail("report", tmp_path / "m", "iris", "-o", "page.pdf")

    def test_of_a_regression_needs_what_it_predicts(self, tmp_path):
        load_iris(as_frame=True).data.to_csv(tmp_path / "x.csv", index=False)
        fit = ("fit", "ridge-regression", tmp_path / "x.csv", "--label", "petal width (cm)", "--quiet")
        succeed(*fit, "-o", tmp_path / "m")
        report = ("report", tmp_path / "m", tmp_path / "x.csv", "-o", tmp_path / "page.html")
        assert "name it with --label" in fail(*report)
        succeed(*report, "--label", "petal width (cm)", "--title", "Widths")
        text = (tmp_path / "page.html").read_text()
        assert "<title>Widths</title>" in text
        assert "Coefficients" in text


def test_mistakes_are_one_line(tmp_path):
    assert "there is no model 'none'" in fail("compare", "iris", "--models", "none")
    assert "--effort slow is not known" in fail("compare", "iris", "--effort", "slow")
    assert "--discrete maybe is unknown" in fail("compare", "iris", "--discrete", "maybe")
    assert "no-such.csv" in fail("compare", tmp_path / "no-such.csv")


class TestBitsOfADensity:
    """They may be negative and are not a code length; those of a probability are one."""

    def test_in_the_caption_and_on_the_page(self, tmp_path):
        words = ("compare", "iris", "--models", "probabilistic-pca", "--effort", "quick", "--cv", 2)
        text = " ".join(succeed(*words, "--report", tmp_path / "page.html").split())
        assert "bits per observed entry: bits of a density may be negative and are not a code length" in text
        assert "it is not a code length" in (tmp_path / "page.html").read_text()
        np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3, 3)))
        assert "negative" not in succeed("compare", tmp_path / "x.npy", "--models", "kmeans", "--cv", 2)

    def test_below_the_table_of_one_model(self, tmp_path):
        fit = ("fit", "probabilistic-pca", "iris", "-o", tmp_path / "m")
        assert "may be negative and are not a code length" in " ".join(succeed(*fit).split())
        assert "may be negative and are not a code length" in " ".join(succeed("score", tmp_path / "m", "iris").split())
        np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3, 3)))
        small = ("--n-steps", 5, "--max-epochs", 1, "--network", "UNet(channels=(8,))", "-o", tmp_path / "d")
        out = succeed("fit", "diffusion", tmp_path / "x.npy", *small)
        assert "bits per dimension" in out
        assert "negative" not in out


def test_a_model_of_other_units_and_rows_left_out_are_told(tmp_path):
    rows = np.tile(np.arange(4)[:, None], (20, 2))
    rows[77, 1] = 9
    frame = pd.DataFrame(rows, columns=["a", "b"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    words = ("compare", tmp_path / "x.csv", "--models", "kmeans,diffusion", "--cv", 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jensen.evaluate.compare.EFFORTS", {"quick": Effort(1, 1, (8,), (2,), 8)})
        found = json.loads(succeed(*words, "--effort", "quick", "--json"))
        assert "1 of 80 held-out rows are left out for all models" in found["caption"]
        patched.setattr("jensen.models.diffusion.diffusion.Diffusion", partial(Diffusion, data_levels=10))
        found = json.loads(succeed(*words, "--effort", "quick", "--discrete", "no", "--json"))
    (left,) = (row for row in found["table"] if row["failure"])
    assert left["model"] == "diffusion"
    assert "it gives columns 'a', 'b' a probability, where ranked models give a density" in left["failure"]
