"""Tables that are read block by block from the shell: the results of Python, from file to file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jensen
from jensen.cli import scans
from jensen.files.tables import write_dataset
from shell import fail, run, succeed

NUMBERS = ["a", "b", "c"]
FIT = ("fit", "gaussian-mixture", "--n-components", 2, "--quiet")
ASIDE = ("--drop", "kind,id")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 600)
    rows = (rng.normal(size=(600, 3)) + 5 * z[:, None]).round(2)
    frame = pd.DataFrame(np.where(rng.random(rows.shape) < 0.05, np.nan, rows), columns=NUMBERS)
    return frame.assign(kind=np.array(["u", "v"])[z], id=[f"{i:04d}" for i in range(600)])


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory) -> Path:
    """The table in three files of each kind and in one, and a model of it."""
    path = tmp_path_factory.mktemp("scans")
    for kind in ("parquet", "csv", "npy"):
        (path / kind).mkdir()
    for i in range(3):
        part = table.iloc[200 * i : 200 * (i + 1)]
        part.to_parquet(path / "parquet" / f"{i}.parquet", row_group_size=80)
        part.to_csv(path / "csv" / f"{i}.csv", index=False)
        np.save(path / "npy" / f"{i}.npy", np.c_[part[NUMBERS], part["kind"] == "v"])
    table.to_csv(path / "one.csv", index=False)
    succeed(*FIT, path / "parquet", *ASIDE, "-o", path / "m.jensen")
    return path


def means(path: Path) -> np.ndarray:
    return jensen.load(path).means_


def test_a_fit_is_that_of_python(folder, table, tmp_path):
    rows = jensen.scan(folder / "parquet", drop=["kind", "id"])
    wanted = jensen.GaussianMixture(2, random_state=0).fit(rows).means_
    np.testing.assert_array_equal(means(folder / "m.jensen"), wanted)
    for source in (folder / "csv", folder / "csv" / "*.csv", folder / "one.csv"):
        succeed(*FIT, source, *ASIDE, "--scan", "--block-rows", 70, "-o", tmp_path / "m.jensen")
        np.testing.assert_allclose(means(tmp_path / "m.jensen"), wanted, atol=1e-6)
    # The same rows at once have another start, and the same maximum.
    succeed(*FIT, folder / "one.csv", *ASIDE, "-o", tmp_path / "m.jensen")
    np.testing.assert_allclose(np.sort(means(tmp_path / "m.jensen"), 0), np.sort(wanted, 0), atol=0.02)


def test_a_fit_tells_what_it_reads_and_reports_what_it_reports_of_a_table(folder, table, tmp_path):
    found = run(*FIT[:-1], folder / "parquet", "--label", "kind", "--drop", "id", "-o", tmp_path / "m.jensen", "--json")
    assert "parquet: 3 files, 600 rows, 5 columns (3 of numbers, 2 of text)" in found.stderr
    streamed = json.loads(found.stdout)
    at_once = json.loads(
        succeed(*FIT[:-1], folder / "one.csv", "--label", "kind", "--drop", "id", "-o", tmp_path / "a", "--json")
    )
    assert streamed.keys() == at_once.keys()
    for name in ("rows", "features", "missing_entries"):
        assert streamed[name] == at_once[name]
    assert streamed["nats_per_row"] == pytest.approx(at_once["nats_per_row"], abs=1e-3)
    assert jensen.load(tmp_path / "m.jensen").classes_.tolist() == ["u", "v"]


def test_weights_count_rows(folder, table, tmp_path):
    weighted = table.assign(w=np.arange(600) % 3)
    weighted.to_parquet(tmp_path / "w.parquet")
    weighted.loc[weighted.index.repeat(weighted["w"]), table.columns].to_parquet(tmp_path / "r.parquet")
    summaries = [
        json.loads(succeed(*FIT[:-1], tmp_path / f, "--scan", *ASIDE, *more, "-o", tmp_path / "m.jensen", "--json"))
        for f, more in (("w.parquet", ("--weight", "w")), ("r.parquet", ()))
    ]
    assert summaries[0]["nats_per_row"] == pytest.approx(summaries[1]["nats_per_row"], abs=1e-4)


def test_columns_of_arrays_have_numbers(folder, tmp_path):
    succeed(*FIT, folder / "npy", "--label", 3, "-o", tmp_path / "m.jensen")
    assert jensen.load(tmp_path / "m.jensen").n_features_in_ == 3
    assert "there is no column '4'" in fail(*FIT, folder / "npy", "--label", 4, "-o", tmp_path / "m.jensen")


def test_whole_numbers_in_a_text_file_are_whole_classes(table, tmp_path):
    coded = table.assign(code=np.where(table.index % 3 == 0, "", (table["kind"] == "v").astype(int).astype(str)))
    coded.to_csv(tmp_path / "t.csv", index=False)
    words = (*FIT, tmp_path / "t.csv", "--label", "code", *ASIDE)
    succeed(*words, "--scan", "-o", tmp_path / "s.jensen")
    succeed(*words, "-o", tmp_path / "a.jensen")
    found, wanted = (jensen.load(tmp_path / name) for name in ("s.jensen", "a.jensen"))
    assert found.classes_.tolist() == wanted.classes_.tolist() == [0, 1]
    assert found.classes_.dtype == wanted.classes_.dtype
    np.testing.assert_allclose(found.means_, wanted.means_, atol=1e-3)


class TestAnswers:
    """Those about several files are those about one table."""

    @pytest.mark.parametrize("source", ["csv", "parquet"])
    def test_predict(self, folder, table, tmp_path, source):
        words = ("predict", folder / "m.jensen", folder / source, "--keep", "id,a", "--proba", "--block-rows", 64)
        succeed(*words, "--output", tmp_path / "p.parquet")
        found = pd.read_parquet(tmp_path / "p.parquet")
        model = jensen.load(folder / "m.jensen")
        assert found["id"].tolist() == table["id"].tolist()
        np.testing.assert_array_equal(found["prediction"], model.predict(table[NUMBERS]))
        np.testing.assert_allclose(found.filter(like="probability"), model.predict_proba(table[NUMBERS]))
        printed = succeed(*words)
        assert len(printed.splitlines()) == 601

    def test_score(self, folder, table, tmp_path):
        words = ("score", folder / "m.jensen")
        streamed = json.loads(succeed(*words, folder / "csv", "--keep", "id", "--output", tmp_path / "s.csv", "--json"))
        at_once = json.loads(succeed(*words, folder / "one.csv", "--output", tmp_path / "o.csv", "--json"))
        assert streamed.keys() == at_once.keys()
        for name in ("nats_per_row", "bits_per_dimension", "standard_error"):
            assert streamed[name] == pytest.approx(at_once[name], rel=1e-9)
        assert [one["row"] for one in streamed["least_likely"]] == [one["row"] for one in at_once["least_likely"]]
        written = pd.read_csv(tmp_path / "s.csv", dtype={"id": str})
        assert written["id"].tolist() == table["id"].tolist()
        np.testing.assert_allclose(written["log_likelihood"], pd.read_csv(tmp_path / "o.csv")["log_likelihood"])

    def test_score_of_a_regression(self, table, tmp_path):
        rows = table[NUMBERS].dropna()
        write_dataset(tmp_path / "d.csv", rows)
        succeed("fit", "ridge-regression", tmp_path / "d.csv", "--label", "c", "-q", "-o", tmp_path / "r.jensen")
        words = ("score", tmp_path / "r.jensen", tmp_path / "d.csv", "--label", "c", "--json")
        streamed = json.loads(succeed(*words, "--scan", "--block-rows", 50))
        at_once = json.loads(succeed(*words))
        assert streamed.keys() == at_once.keys()
        assert streamed["r2"] == pytest.approx(at_once["r2"], rel=1e-9)

    def test_impute_leaves_other_cells_as_they_are_written(self, folder, table, tmp_path):
        succeed("impute", folder / "m.jensen", folder / "csv", "--output", tmp_path / "f.csv")
        before = pd.read_csv(folder / "one.csv", dtype=str, keep_default_na=False)
        after = pd.read_csv(tmp_path / "f.csv", dtype=str, keep_default_na=False)
        is_missing = before == ""
        assert after.where(~is_missing, "").equals(before)
        wanted = jensen.load(folder / "m.jensen").impute(table[NUMBERS])
        np.testing.assert_allclose(after[NUMBERS].astype(float), wanted, atol=0.006)  # cells have two decimals
        told = json.loads(
            succeed("impute", folder / "m.jensen", folder / "parquet", "-o", tmp_path / "f.npy.parquet", "--json")
        )
        assert told["filled_entries"] == int(is_missing.to_numpy().sum())
        np.testing.assert_array_equal(pd.read_parquet(tmp_path / "f.npy.parquet")[NUMBERS], wanted)

    def test_transform(self, folder, table, tmp_path):
        succeed("fit", "probabilistic-pca", folder / "csv", "--n-components", 1, *ASIDE, "-q", "-o", tmp_path / "p")
        succeed("transform", tmp_path / "p", folder / "csv", "--keep", "id", "-o", tmp_path / "z.csv")
        wanted = jensen.load(tmp_path / "p").transform(table[NUMBERS])
        np.testing.assert_allclose(pd.read_csv(tmp_path / "z.csv").iloc[:, 1:], wanted, rtol=1e-9)

    @pytest.mark.parametrize(("verb", "output"), [("predict", ()), ("predict", ("-o", "p.csv")), ("impute", ())])
    def test_json_has_the_keys_of_a_table(self, folder, tmp_path, monkeypatch, verb, output):
        monkeypatch.chdir(tmp_path)
        words = (verb, folder / "m.jensen", folder / "one.csv", *output, "--json")
        assert json.loads(succeed(*words, "--scan")).keys() == json.loads(succeed(*words)).keys()


def test_a_checkpoint_resumes_a_fit(folder, tmp_path, capsys):
    for source in (folder / "parquet", folder / "one.csv"):
        place = tmp_path / "run.ckpt"
        place.unlink(missing_ok=True)
        words = (*FIT, source, *ASIDE, "--checkpoint", place)
        succeed(*words, "-o", tmp_path / "a.jensen")
        assert place.is_file()
        succeed(*words, "-o", tmp_path / "b.jensen")
        np.testing.assert_array_equal(means(tmp_path / "a.jensen"), means(tmp_path / "b.jensen"))
        assert "is of another fit" in fail(*words, "--tol", 0.5, "-o", tmp_path / "b.jensen")
    words = ("fit", "kmedoids", folder / "one.csv", *ASIDE, "--checkpoint", place, "-o", tmp_path / "k")
    assert "KMedoids has nothing to resume" in fail(*words)


def test_a_file_is_scanned_if_it_is_large_for_the_memory(folder, monkeypatch):
    path = folder / "one.csv"
    size = path.stat().st_size
    monkeypatch.setattr(scans, "available_bytes", lambda: 4 * size)
    assert not scans.is_scanned(path, None)
    monkeypatch.setattr(scans, "available_bytes", lambda: 4 * size - 4)
    assert scans.is_scanned(path, None)
    assert not scans.is_scanned(path, False)
    monkeypatch.setattr(scans, "available_bytes", lambda: None)
    assert not scans.is_scanned(path, None)


@pytest.mark.slow
def test_sweeps_in_processes_give_the_same_model(folder, tmp_path):
    succeed(*FIT, folder / "parquet", *ASIDE, "--processes", 2, "-o", tmp_path / "m.jensen")
    np.testing.assert_array_equal(means(tmp_path / "m.jensen"), means(folder / "m.jensen"))


def test_sweeps_on_dask_give_the_same_model(folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "processes": False}
    with distributed.LocalCluster(**options) as cluster:
        succeed(*FIT, folder / "parquet", *ASIDE, "--dask", cluster.scheduler_address, "-o", tmp_path / "m.jensen")
    np.testing.assert_array_equal(means(tmp_path / "m.jensen"), means(folder / "m.jensen"))


class TestMistakes:
    """One line each, with the way out."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((*FIT, "nothing/*.csv"), "no file matches it as a pattern"),
            ((*FIT, "mixed"), "give a pattern, such as mixed/"),
            ((*FIT, "empty"), "holds no images and no tables"),
            ((*FIT, "headless.csv", "--scan"), "has no header line; write one, or give --no-header"),
            ((*FIT, "one.csv", "--scan", *ASIDE, "--label", "x"), "there is no column 'x'"),
            ((*FIT, "parquet", *ASIDE, "--label", "one.csv"), "--label one.csv is a file"),
            ((*FIT, "parquet", "--drop", "kind,x"), "there is no column 'x'; there are a, b, c, kind, id"),
            ((*FIT, "parquet", *ASIDE, "--missing", "-999"), "--missing is for text files"),
            ((*FIT, "csv", *ASIDE, "--types", "a=day-first"), "have columns of text, number, date"),
            ((*FIT, "csv", "--no-scan"), "--no-scan reads one table"),
            ((*FIT, "iris", "--scan"), "iris is none; leave it out"),
            ((*FIT, "one.csv", *ASIDE, "--block-rows", 5), "add --scan"),
            ((*FIT, "one.csv", *ASIDE, "--dask", "x:1"), "add --scan"),
            ((*FIT, "one.csv", *ASIDE, "--processes", 2), "add --scan"),
            (("fit", "kmedoids", "parquet", *ASIDE), "KMedoids needs all rows at once"),
            (("predict", "m.jensen", "csv", "-o", "p.xlsx"), "cannot be written block by block"),
            (("predict", "m.jensen", "csv", "-o", "csv/p.csv"), "would be one of the tables of csv"),
            (("predict", "m.jensen", "csv", "--keep", "x"), "there is no column 'x'"),
            (("predict", "m.jensen", "other"), "there is no column 'b', which the model was fitted on"),
            (("impute", "m.jensen", "csv", "--draws", 2, "-o", "f.csv"), "--draws 2 draws tables in memory"),
            (("impute", "one.csv", "--scan"), "fit one with `jensen fit`"),
            (("compare", "csv"), "reads one table into memory"),
            (("cluster", "csv/*.csv"), "is a pattern of tables"),
            (("outliers", "parquet"), "is a folder of tables"),
            (("synthesize", "csv", "-n", 3, "-o", "new.csv"), "reads one table into memory"),
            (("select", "kmeans", "csv", "--grid", "n-clusters=1:2", "-o", "k"), "reads one table into memory"),
            (("report", "m.jensen", "csv"), "reads one table into memory"),
        ],
    )
    def test_are_named(self, folder, table, monkeypatch, words, message):
        monkeypatch.chdir(folder)
        for name in ("mixed", "empty", "other"):
            Path(name).mkdir(exist_ok=True)
        table.to_csv("mixed/a.csv")
        np.save("mixed/b.npy", table[NUMBERS])
        table[["a", "c"]].to_csv("other/a.csv", index=False)
        table[NUMBERS].to_csv("headless.csv", index=False, header=False)
        given = () if "-o" in words or words[0] != "fit" else ("-o", "new.jensen")
        result = run(*words, *given)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert message in result.stderr.splitlines()[-1]

    def test_text_further_down_in_a_column_of_numbers(self, folder, tmp_path, monkeypatch):
        from jensen.files import text_parts

        monkeypatch.setattr(text_parts, "TEXT_BLOCK", 500)
        (tmp_path / "t.csv").write_text("a,b\n" + "1.5,2.5\n3,4\n" * 400 + "oops,2\n")
        found = run(*FIT, tmp_path / "t.csv", "--scan", "-o", tmp_path / "m.jensen")
        assert found.exit_code == 2
        assert "t.csv, bytes 4 to" in found.stderr
        assert "'oops'" in found.stderr

    def test_a_column_that_a_file_lacks(self, folder, table, tmp_path):
        table[NUMBERS].to_parquet(tmp_path / "0.parquet")
        table[["a", "c"]].to_parquet(tmp_path / "1.parquet")
        found = run(*FIT, tmp_path, "-o", tmp_path / "m.jensen")
        assert found.exit_code == 2
        assert "1.parquet has other columns than" in found.stderr
        assert "it lacks b" in found.stderr


def test_a_level_that_is_a_code_of_missing_values(tmp_path):
    rng = np.random.default_rng(0)
    signs = pd.DataFrame({"a": rng.normal(size=200).round(3), "s": rng.choice(["+", "-", "?"], 200)})
    signs.to_csv(tmp_path / "t.csv", index=False)
    succeed("fit", "mixture", tmp_path / "t.csv", "--n-components", 1, "-q", "-o", tmp_path / "m.jensen")
    assert "give --missing only" in fail("score", tmp_path / "m.jensen", tmp_path / "t.csv", "--scan")
    found = json.loads(
        succeed("score", tmp_path / "m.jensen", tmp_path / "t.csv", "--scan", "--missing", "only", "--json")
    )
    at_once = json.loads(succeed("score", tmp_path / "m.jensen", tmp_path / "t.csv", "--json"))
    assert found["nats_per_row"] == pytest.approx(at_once["nats_per_row"])


def test_text_files_with_true_and_false(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200).round(3), "member": rng.random(200) < 0.3})
    frame.to_csv(tmp_path / "t.csv", index=False)
    succeed("fit", "mixture", tmp_path / "t.csv", "--scan", "--n-components", 1, "-q", "-o", tmp_path / "m.jensen")
    found = json.loads(succeed("score", tmp_path / "m.jensen", tmp_path / "t.csv", "--scan", "--json"))
    assert found["nats_per_row"] == pytest.approx(jensen.load(tmp_path / "m.jensen").score(frame))
