"""`jensen select`: deep models, images, pictures, and what is told of the choice."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_iris

import jensen
from jensen.files.tables import write_dataset
from jensen.models.mixtures.gaussians import MCLUST
from shell import fail, run, succeed

TINY = ("--encoder", "MLP(hidden=(4,))", "--decoder", "MLP(hidden=(4,))", "--max-epochs", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("select")
    write_dataset(path / "iris.csv", load_iris(as_frame=True).data)
    np.save(path / "digits.npy", load_digits().images[:60])
    return path


def test_a_deep_model_of_images_is_chosen_by_held_out_rows(folder, tmp_path):
    grid = ("--grid", "n-components=1,2", "--held-out", 0.5, "--seed", 3, "--evaluation-samples", 2)
    command = ("select", "vae", folder / "digits.npy", *grid, *TINY, "-o", tmp_path / "m")
    found = json.loads(succeed(*command, "--json"))
    assert found["criterion"] == "held_out"
    assert found["best"] == {"n_components": 1 + int(np.argmax([row["held_out"] for row in found["table"]]))}
    assert {"standard_error", "behind", "behind_error", "n_parameters"} <= set(found["table"][0])
    assert jensen.load(tmp_path / "m").sample(2)[0].shape == (2, 8, 8)
    assert json.loads(succeed(*command, "--criterion", "held-out", "--json"))["table"][0]["held_out"] == pytest.approx(
        found["table"][0]["held_out"]
    )


def test_an_autoencoder_is_chosen_by_its_error(folder):
    command = ("select", "autoencoder", folder / "iris.csv", "--grid", "n-components=1,2", *TINY)
    assert json.loads(succeed(*command, "--json"))["criterion"] == "reconstruction"


def test_a_matrix_with_the_lead_and_a_picture(folder, tmp_path):
    grid = ("--grid", "n-components=1:3", "--grid", "covariance-type=full,diag")
    result = run("select", "gaussian-mixture", folder / "iris.csv", *grid, "--plot", tmp_path / "bic.png")
    assert result.exit_code == 0, result.output
    assert result.stderr == f"wrote the picture to {tmp_path / 'bic.png'}\n"
    (marked,) = (line for line in result.stdout.splitlines() if "*" in line)
    assert "574.0178*" in marked
    assert "857.5515" in marked
    assert "In the lead" in result.stdout
    # More than paper.
    assert np.asarray(Image.open(tmp_path / "bic.png").convert("L")).std() > 5


def test_a_collapsed_fit_is_marked_and_the_edge_of_the_grid_is_told(tmp_path):
    write_dataset(tmp_path / "few.csv", load_iris(as_frame=True).data[:12])
    command = ("select", "gaussian-mixture", tmp_path / "few.csv", "--grid", "n-components=1,4")
    found = json.loads(succeed(*command, "--json"))
    assert found["best"] == {"n_components": 1}
    assert [bool(row["degenerate"]) for row in found["table"]] == [False, True]
    assert all(word in succeed(*command) for word in ("degenerate", "reg_covar"))
    result = run("select", "kmeans", "iris", "--grid", "n-clusters=6,7", "--json")
    assert result.stderr.count("warning: ") == 1
    assert "--n-clusters 7 is the largest that was tried" in result.stderr


def test_cold_leaves_out_the_neighbours(folder):
    start = (
        "select",
        "gaussian-mixture",
        folder / "iris.csv",
        "--grid",
        "n-components=1:3",
        "--covariance-type",
        "diag",
    )
    start += ("--init-params", "random", "--seed", 2, "--json")
    cold, warm = (json.loads(succeed(*start, *more))["table"] for more in (("--cold",), ()))
    assert warm[2]["bic"] < cold[2]["bic"] - 1


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("gaussian-mixture", ("--plot", "x.txt"), "--plot x.txt must end in .png, .pdf, .svg"),
        ("gaussian-mixture", ("--plot", "nowhere/x.png"), "nowhere/x.png cannot be written"),
        ("gaussian-mixture", ("--n-jobs", 0), "--n-jobs 0 is no number of processes"),
        ("vae", ("--held-out", 2), "--held-out 2.0 is no share of the rows to score"),
        ("kmedoids", (), "KMedoids has none; choose 'silhouette' or 'gap'"),
    ],
)
def test_mistakes(folder, model, arguments, message):
    name = "n-clusters" if model == "kmedoids" else "n-components"
    assert message in fail("select", model, folder / "iris.csv", "--grid", f"{name}=2,3", *arguments)


def test_an_option_that_the_criterion_does_not_use_is_refused(folder):
    words = ("select", "kmeans", folder / "iris.csv", "--grid", "n-clusters=2,3")
    assert "--cv is for the criterion cv, and the criterion is bic; leave it out, or give --criterion" in fail(
        *words, "--cv", 3
    )
    message = fail(*words, "--criterion", "gap", "--held-out", 0.3)
    assert (
        "--held-out is for the criterion completion, held-out and reconstruction, and the criterion is gap" in message
    )
    assert "--n-references is for the criterion gap" in fail(*words, "--criterion", "silhouette", "--n-references", 5)


def test_the_word_mclust_stands_for_all_structures(folder):
    out = succeed(
        "select", "gaussian-mixture", "iris", "--grid", "n-components=2,3", "--grid", "covariance-type=mclust"
    )
    assert "covariance_type='VEV', n_components=2" in out
    assert "561.7285" in out
    # The fourteen go down the page.
    assert sum(line.split("│")[1].strip() in MCLUST for line in out.splitlines() if line.startswith("│")) >= 14
