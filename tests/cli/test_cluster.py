"""`jensen cluster`: a file in, labels, a page and a model out."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import jensen
from jensen.cli.app import app


def invoke(*words):
    return CliRunner().invoke(app, [*map(str, words)], prog_name="jensen")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 40)
    frame = pd.DataFrame({"code": [f"c{i}" for i in range(80)], "x": rng.normal(9 * z), "y": rng.normal(size=80)})
    path = tmp_path_factory.mktemp("cluster") / "x.csv"
    frame.assign(group=np.where(np.arange(80) % 8 == 0, np.array(["low", "high"])[z], "")).to_csv(path, index=False)
    return path


def test_a_table_becomes_labels_a_page_and_a_model(file):
    labels, page, model = (file.with_name(name) for name in ("labels.csv", "page.html", "m.jensen"))
    done = invoke(
        "cluster", file, "--drop", "group", "--effort", "quick", "-o", labels, "--report", page, "--model", model
    )
    assert done.exit_code == 0, done.output
    assert "2 clusters" in done.stdout
    assert "left out: code" in done.stdout
    written = pd.read_csv(labels)
    assert written.columns.tolist() == ["code", "x", "y", "group", "cluster"]
    assert written.groupby("cluster")["x"].mean().round(-1).tolist() == pytest.approx([0, 10], abs=10)
    assert written["cluster"].nunique() == 2
    assert "Clusters of x.csv" in page.read_text()
    assert len(jensen.load(model).weights_) == 2


def test_labels_in_and_json_out(file):
    done = invoke("cluster", file, "--label", "group", "--effort", "quick", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["cluster"] for one in found["clusters"]] == ["high", "low"]
    assert found["labels"] == ["low"] * 40 + ["high"] * 40
    assert found["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--effort", "fast"], "--effort fast is not known"),
        (["--report", "page.txt"], "must end in .html"),
        (["--label", "nothing"], "nothing"),
        (["--label", "group", "--n-clusters", "2"], "the clusters are the classes of --label"),
    ],
)
def test_mistakes_are_one_line(file, words, message):
    done = invoke("cluster", file, *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
