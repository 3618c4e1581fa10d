"""`jensen statistics` and `jensen merge`: rows stay where they are."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import jensen
from shell import fail, run, succeed

FRAME = pd.DataFrame(load_iris().data, columns=list("abcd")).assign(
    kind=np.array(["x", "y", "z"])[load_iris().target], count=np.arange(150) % 3 + 1
)


def said(line):
    return succeed(*line.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sites, and a model of the first."""
    monkeypatch.chdir(tmp_path)
    FRAME[::2].to_csv("a.csv", index=False)
    FRAME[1::2].to_csv("b.csv", index=False)
    said("fit gaussian-mixture a.csv --drop kind,count --n-components 3 -o m.jensen")


def statistics(name, *options):
    return json.loads(succeed("statistics", "m.jensen", f"{name}.csv", *options, "-o", f"{name}.stats", "--json"))


def test_repeated_merges_are_a_fit_to_all_rows(folder):
    model = jensen.load("m.jensen")
    rows = FRAME[list("abcd")]
    for _ in range(5):
        a, b = statistics("a"), statistics("b")
        found = json.loads(succeed("merge", "m.jensen", "a.stats", "b.stats", "-o", "m.jensen", "--json"))
        assert (a["rows"], b["rows"], found["rows"], found["sites"]) == (75, 75, 150, 2)
        assert found["lower_bound"] == pytest.approx(model.score(rows), rel=1e-9)
        assert found["lower_bound"] == pytest.approx((a["bound"] + b["bound"]) / 2)
        with pytest.warns(UserWarning, match="did not converge"):
            model.set_params(warm_start=True, max_iter=1, tol=0.0).fit(rows)
        assert_allclose(jensen.load("m.jensen").means_, model.means_, rtol=1e-9)


def test_labels_and_weights_are_columns_or_files(folder):
    said("fit gaussian-mixture a.csv --label kind --weight count -o m.jensen")
    np.save("w.npy", FRAME["count"].to_numpy()[1::2])
    model = jensen.load("m.jensen")
    own = statistics("a", "--label", "kind", "--weight", "count")
    statistics("b", "--weight", "w.npy")
    assert own["weight"] == FRAME["count"][::2].sum()
    succeed("merge", "m.jensen", "a.stats", "b.stats", "-o", "m2.jensen")
    rows, kind, count = (FRAME[list("abcd")], FRAME["kind"].where(FRAME.index % 2 == 0, None), FRAME["count"])
    with pytest.warns(UserWarning, match="did not converge"):
        model.set_params(warm_start=True, max_iter=1, tol=0.0).fit(rows, kind, sample_weight=count)
    assert_allclose(jensen.load("m2.jensen").means_, model.means_, rtol=1e-9)


def test_a_folder_of_tables_is_read_block_by_block(folder, tmp_path):
    (tmp_path / "rows").mkdir()
    for number in range(3):
        FRAME[number::6][list("abcd")].to_parquet(tmp_path / "rows" / f"{number}.parquet")
    found = json.loads(succeed("statistics", "m.jensen", "rows", "-o", "c.stats", "--json"))
    assert found["rows"] == 75


def test_topics_of_texts(folder):
    pd.DataFrame({"body": ["rain and wind", "bread and milk", "wind and sun", "milk"] * 6}).to_csv("t.csv", index=False)
    said("fit topics t.csv --text body --n-components 2 -o t.jensen")
    said("statistics t.jensen t.csv --text body -o t.stats")
    before = jensen.load("t.jensen").lower_bound_
    found = json.loads(said("merge t.jensen t.stats -o t.jensen --json"))
    assert found["lower_bound"] == pytest.approx(before, abs=1e-3)


def test_mistakes_are_one_line(folder):
    statistics("a")
    succeed("merge", "m.jensen", "a.stats", "-o", "m2.jensen")
    assert "a.stats was taken with other parameters" in fail("merge", "m2.jensen", "a.stats", "-o", "m3.jensen")
    assert "there is no file z.stats" in fail("merge", "m.jensen", "z.stats", "-o", "m3.jensen")
    assert "m.jensen holds no statistics" in fail("merge", "m.jensen", "m.jensen", "-o", "m3.jensen")
    assert "a.stats holds statistics of a site, and no model" in fail("score", "a.stats", "a.csv")
    assert "there is no folder no" in fail("statistics", "m.jensen", "a.csv", "-o", "no/a.stats")
    said("fit kmeans a.csv --drop kind,count --n-clusters 2 --size-limits 10,60 -o k.jensen")
    assert "KMeans has no statistics" in fail("statistics", "k.jensen", "a.csv", "-o", "k.stats")


def test_few_rows_are_warned_about(folder):
    FRAME[:3].to_csv("few.csv", index=False)
    found = run("statistics", "m.jensen", "few.csv", "-o", "few.stats")
    assert found.exit_code == 0
    assert "warning: statistics of 3 rows tell much about each of them" in found.stderr


def test_a_folder_and_a_pattern_are_sites_of_several_files(folder, tmp_path):
    (tmp_path / "rows").mkdir()
    for number in range(3):
        FRAME[number::3].to_csv(tmp_path / "rows" / f"{number}.csv", index=False)
    whole = jensen.load("m.jensen").statistics(FRAME[list("abcd")])
    for source in ("rows", "rows/*.csv"):
        found = json.loads(succeed("statistics", "m.jensen", source, "-o", "c.stats", "--json"))
        assert found["rows"] == 150
        assert found["bound"] == pytest.approx(whole.bound / 150)
