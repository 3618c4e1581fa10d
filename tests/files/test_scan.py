"""Scans: the same rows from every kind of source, as often as they are asked for, and errors that name the place."""

import gzip
import os
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import jensen
from jensen.data.codes import UnseenValueWarning
from jensen.files import text_parts
from jensen.files.parts import ChangedError


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": np.where(rng.random(500) < 0.1, np.nan, rng.normal(size=500)),
            "count": rng.integers(0, 9, 500),
            "town": rng.choice(["Bonn", 'a "quoted", town\nof two lines', None], 500),
            "when": pd.date_range("2020", periods=500, freq="h"),
            "open": rng.random(500) < 0.5,
        }
    )


def written(table, folder, kind):
    if kind == "parquet":
        table.to_parquet(folder / "t.parquet", row_group_size=120)
    elif kind == "feather":
        table.to_feather(folder / "t.feather", chunksize=90)
    elif kind == "csv":
        table.to_csv(folder / "t.csv", index=False)
    else:
        table.to_csv(folder / "t.tsv", index=False, sep="\t")
    return folder / f"t.{kind}"


def sources(table, folder):
    path = written(table, folder, "parquet")
    yield from (written(table, folder, kind) for kind in ("parquet", "feather", "csv", "tsv"))
    yield pl.scan_parquet(path)
    yield duckdb.sql(f"select * from '{path}'")
    yield lambda: iter([table.iloc[:200], table.iloc[200:]])


def test_every_source_gives_the_same_rows_in_every_sweep(table, tmp_path, monkeypatch):
    monkeypatch.setattr(text_parts, "PART_BYTES", 5000)
    monkeypatch.setattr(text_parts, "TEXT_BLOCK", 2048)
    for source in sources(table, tmp_path):
        scan = jensen.scan(source, block_rows=50)
        for _ in range(2):
            blocks = [block.table for block in scan]
            assert max(map(len, blocks)) <= 200
            found = pd.concat([b if isinstance(b, pd.DataFrame) else b.to_pandas() for b in blocks], ignore_index=True)
            assert found.columns.tolist() == table.columns.tolist()
            np.testing.assert_array_equal(found["size"], table["size"])
            np.testing.assert_array_equal(found["count"], table["count"])
            town = found["town"].astype(object)
            assert town.where(town.notna(), None).tolist() == [
                None if pd.isna(one) else one for one in table["town"].tolist()
            ]
            assert (pd.to_datetime(found["when"]) == table["when"]).all()
            assert (found["open"].astype(bool) == table["open"]).all()


def test_a_large_text_file_comes_in_several_parts(table, tmp_path, monkeypatch):
    monkeypatch.setattr(text_parts, "PART_BYTES", 5000)
    monkeypatch.setattr(text_parts, "TEXT_BLOCK", 2048)
    scan = jensen.scan(written(table, tmp_path, "csv"))
    assert len(scan.parts) > 3
    assert sum(block.n_rows for block in scan) == 500


def test_arrays_and_datasets(tmp_path):
    x = np.random.default_rng(0).normal(size=(300, 3))
    np.save(tmp_path / "x.npy", x)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x))
    for source in (tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r"), dataset):
        scan = jensen.scan(source, block_rows=70)
        assert scan.n_rows == 300
        np.testing.assert_array_equal(np.concatenate([block.table for block in scan]), x)


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_a_mapped_array(tmp_path, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32), order=order)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for rows, expected in ((mapped, x), (mapped[50:], x[50:]), (mapped[:, 1:], x[:, 1:]), (mapped[::2], x[::2])):
        found = np.concatenate([block.table for block in jensen.scan(rows, block_rows=70)])
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.float32


def test_labels_and_weights_in_the_tuples_of_a_dataset():
    rng = np.random.default_rng(0)
    y, weight = np.repeat([0, 1], 100), rng.integers(1, 3, 200)
    x = rng.normal(size=(200, 2)) + 5 * y[:, None]
    data = torch.utils.data.TensorDataset(*map(torch.from_numpy, (x, y, weight)))
    found = jensen.NaiveBayes().fit(jensen.scan(data, label="1", weight="2", block_rows=30))
    assert found.score(x, y) == 1
    assert found.total_weight_ == weight.sum()
    assert jensen.GaussianMixture(2, random_state=0).fit(jensen.scan(data)).means_.shape == (2, 2)
    deep = jensen.VAE(1, encoder=jensen.MLP((4,)), decoder=jensen.MLP((4,)), max_epochs=1, random_state=0)
    assert deep.fit(jensen.scan(data, label="1")).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"tuples of 3, and labels and weights go by their place .*'y' is none of '1'"):
        jensen.scan(data, label="y")
    with pytest.raises(TypeError, match=r"X is a Dataset, and this takes tables; give jensen.scan\(X\)"):
        jensen.GaussianMixture(2).fit(data)


def test_a_warning_about_rows_is_said_once():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "t": rng.choice(["x", "y"], 200)})
    model = jensen.Mixture(2, random_state=0).fit(frame)
    frame.loc[50:, "t"] = "z"
    answers = model.score_samples(jensen.scan(lambda: [frame], block_rows=20))
    for _ in range(2):  # and once more the next time
        with pytest.warns(UnseenValueWarning, match="said of the first block with such rows") as heard:
            answers.collect()
        assert len(heard) == 1


def test_a_folder_a_pattern_and_a_list_are_read_in_the_order_of_names(tmp_path):
    for number in (2, 0, 1):
        pd.DataFrame({"x": [float(number)] * 2}).to_parquet(tmp_path / f"{number}.parquet")
    for source in (tmp_path, tmp_path / "*.parquet", [tmp_path / f"{n}.parquet" for n in range(3)]):
        found = np.concatenate([block.table["x"] for block in jensen.scan(source)])
        assert found.tolist() == [0, 0, 1, 1, 2, 2]


def test_labels_weights_and_columns(table, tmp_path):
    path = written(table.assign(w=2), tmp_path, "parquet")
    block = jensen.scan(path, label="town", weight="w", drop=["when"], block_rows=40).head()
    assert block.table.columns.tolist() == ["size", "count", "open"]
    assert (len(block.y), block.weight.tolist()) == (40, [2] * 40)
    assert jensen.scan(path, columns=["size"], label="town").head().table.columns.tolist() == ["size"]


def test_files_whose_columns_are_in_another_order(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"])
    for suffix, write in {"parquet": "to_parquet", "feather": "to_feather", "csv": "to_csv"}.items():
        folder = tmp_path / suffix
        folder.mkdir()
        for number, names in enumerate((["a", "b", "c"], ["c", "a", "b"])):
            options = {"index": False} if suffix == "csv" else {}
            getattr(table[names], write)(folder / f"{number}.{suffix}", **options)
        found = pd.concat([block.table for block in jensen.scan(folder)], ignore_index=True)
        pd.testing.assert_frame_equal(found, pd.concat([table, table], ignore_index=True))


def test_files_without_rows_are_left_out(tmp_path):
    for suffix, content in {"csv": b"a,b\n", "npy": None}.items():
        folder = tmp_path / suffix
        folder.mkdir()
        if content is None:
            np.save(folder / "0.npy", np.zeros((0, 2)))
            np.save(folder / "1.npy", np.ones((3, 2)))
        else:
            (folder / "0.csv").write_bytes(content)
            (folder / "1.csv").write_bytes(content + b"1,2\n3,4\n5,6\n")
        assert sum(block.n_rows for block in jensen.scan(folder)) == 3
        with pytest.raises(ValueError, match="has no rows; give files with at least one"):
            jensen.scan(folder / f"0.{suffix}")


def test_a_scan_and_its_answers_are_shown_in_one_line(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 2)))
    rows = jensen.scan(tmp_path / "x.npy")
    assert repr(rows).startswith("<Scan of one part, 30 rows; the first: ")
    model = jensen.KMeans(2, random_state=0).fit(rows)
    assert repr(model.predict(rows)).startswith("<predict of <Scan of one part")


def test_figures_of_a_scan_are_those_of_its_rows(tmp_path):
    x = np.random.default_rng(0).normal(size=(200, 2))
    np.save(tmp_path / "x.npy", x)
    rows = jensen.scan(tmp_path / "x.npy", block_rows=30)
    clusters, mixture = jensen.KMeans(2, random_state=0).fit(x), jensen.GaussianMixture(2, random_state=0).fit(x)
    assert clusters.score(rows) == pytest.approx(clusters.score(x), rel=1e-12)
    assert mixture.bic(rows) == pytest.approx(mixture.bic(x), rel=1e-12)
    assert mixture.aic(rows) == pytest.approx(mixture.aic(x), rel=1e-12)


class TestWhatGoesWrong:
    def test_files_with_other_columns(self, tmp_path):
        pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(tmp_path / "0.parquet")
        pd.DataFrame({"a": [1.0], "c": [2.0]}).to_parquet(tmp_path / "1.parquet")
        message = r"1\.parquet has other columns than .*0\.parquet: it lacks b and also has c; make them alike"
        with pytest.raises(ValueError, match=message):
            jensen.scan(tmp_path)
        assert jensen.scan(tmp_path, columns=["a"]).n_rows == 2

    def test_files_with_labels_of_two_types(self, tmp_path):
        x = np.random.default_rng(0).normal(size=20)
        for number, labels in enumerate((["u", "v"], [0, 1])):
            pd.DataFrame({"x": x, "y": labels * 10}).to_parquet(tmp_path / f"{number}.parquet")
        with pytest.raises(ValueError, match="y has labels of two types, such as u and 0; give all files one of them"):
            jensen.GaussianMixture(2).fit(jensen.scan(tmp_path, label="y"))

    def test_a_function_that_returns_other_rows_in_every_sweep(self):
        x, calls = np.random.default_rng(0).normal(size=(2000, 2)), []

        def more():
            calls.append(1)
            yield x[: 200 * len(calls)]

        with pytest.raises(ChangedError, match="the rows are not those of the first sweep: their total weight was"):
            jensen.GaussianMixture(2, random_state=0).fit(jensen.scan(more))

    def test_answers_do_not_replace_what_is_read(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 2)))
        rows = jensen.scan(tmp_path)
        model = jensen.GaussianMixture(1).fit(rows)
        with pytest.raises(ValueError, match=r"x\.npy is one of the files that are read; write to another one"):
            model.impute(rows).write(tmp_path / "x.npy")

    def test_files_that_are_not_what_they_seem(self, tmp_path):
        (tmp_path / "x.csv").write_bytes(bytes(range(128, 256)) * 20)
        np.save(tmp_path / "x.npy", np.zeros((100, 2)))
        (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:400])
        for name, message in {"x.csv": r"x\.csv", "x.npy": r"x\.npy cannot be read: .*; replace the file"}.items():
            with pytest.raises(ValueError, match=message):
                jensen.scan(tmp_path / name)

    def test_a_path_is_not_rows(self):
        with pytest.raises(TypeError, match=r"X is 'rows'; give the rows, or jensen\.scan\('rows'\) if it is a path"):
            jensen.GaussianMixture(2).fit("rows")

    def test_a_file_that_changes_between_sweeps(self, table, tmp_path):
        path = written(table, tmp_path, "parquet")
        scan = jensen.scan(path)
        table.iloc[:300].to_parquet(path)
        with pytest.raises(ChangedError, match=r"t\.parquet has changed since it was scanned"):
            list(scan)

    def test_a_file_that_changes_during_a_sweep(self, tmp_path):
        pd.DataFrame({"x": np.arange(3000.0)}).to_parquet(tmp_path / "t.parquet", row_group_size=1000)
        scan = jensen.scan(tmp_path / "t.parquet")
        blocks = iter(scan)
        next(blocks)
        os.utime(tmp_path / "t.parquet", (1, 1))
        with pytest.raises(ChangedError, match="scan it again"):
            list(blocks)

    def test_text_files_that_cannot_be_read_in_blocks(self, tmp_path):
        rows = "a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(100))
        (tmp_path / "first.csv").write_text("# made by us\n" + rows)
        (tmp_path / "middle.csv").write_text(rows + "# half of it\n" + rows[4:])
        (tmp_path / "x.csv.gz").write_bytes(gzip.compress(rows.encode()))
        with pytest.raises(ValueError, match=r"first\.csv begins with a comment; .* remove those that begin with #"):
            jensen.scan(tmp_path / "first.csv")
        with pytest.raises(ValueError, match=r"middle\.csv cannot be read: .*: # half of it; .* remove those that"):
            jensen.scan(tmp_path / "middle.csv")
        with pytest.raises(ValueError, match=r"x\.csv\.gz is packed, .*; unpack it, or write it as Parquet"):
            jensen.scan(tmp_path / "x.csv.gz")
        # A name may begin so.
        (tmp_path / "name.csv").write_text("#" + rows)
        assert jensen.scan(tmp_path / "name.csv").head().table.columns.tolist() == ["#a", "b"]

    def test_a_scan_where_rows_are_needed(self, tmp_path):
        np.save(tmp_path / "x.npy", np.eye(4))
        for needs_rows in (jensen.KMedoids(2).fit, jensen.cluster, jensen.compare):
            with pytest.raises(
                TypeError, match=r"X is a scan, and this needs rows in memory; read the table if it fit"
            ):
                needs_rows(jensen.scan(tmp_path / "x.npy"))

    def test_a_file_that_is_gone(self, table, tmp_path):
        scan = jensen.scan(written(table, tmp_path, "csv"))
        (tmp_path / "t.csv").unlink()
        with pytest.raises(ChangedError, match=r"t\.csv is gone since it was scanned"):
            list(scan)

    def test_a_damaged_row_group_is_named(self, tmp_path):
        path = tmp_path / "t.parquet"
        pd.DataFrame({"x": np.random.default_rng(0).normal(size=3000)}).to_parquet(path, row_group_size=1000)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 4000] = b"\xff" * 4000
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"t\.parquet, row group 1 cannot be read"):
            list(jensen.scan(path))

    def test_a_column_that_holds_text_further_down(self, tmp_path, monkeypatch):
        monkeypatch.setattr(text_parts, "TEXT_BLOCK", 100)
        (tmp_path / "t.csv").write_text("x\n" + "1.5\n" * 500 + "oops\n")
        with pytest.raises(ValueError, match=r"t\.csv.*cannot be read.*oops"):
            list(jensen.scan(tmp_path / "t.csv"))

    @pytest.mark.parametrize(
        ("source", "options", "error", "message"),
        [
            ("nothing*.parquet", {}, FileNotFoundError, "no file matches it"),
            ("t.parquet", {"label": "nobody"}, ValueError, "no column 'nobody'; there are x"),
            ("t.parquet", {"columns": ["nobody"]}, ValueError, "no column 'nobody'; it has x"),
            ("t.parquet", {"block_rows": 0}, ValueError, "block_rows=0 must be a whole number"),
            (17, {}, TypeError, "scan cannot read int"),
        ],
    )
    def test_bad_arguments(self, tmp_path, source, options, error, message):
        pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(error, match=message):
            jensen.scan(tmp_path / source if isinstance(source, str) else source, **options)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".npy"])
def test_answers_are_written_block_by_block(tmp_path, suffix):
    x = np.random.default_rng(0).normal(size=(500, 2))
    np.save(tmp_path / "x.npy", x)
    model = jensen.GaussianMixture(2, random_state=0).fit(x)
    scan = jensen.scan(tmp_path / "x.npy", block_rows=70)
    assert model.predict_proba(scan).write(tmp_path / f"p{suffix}") == 500
    readers = {
        ".parquet": pd.read_parquet,
        ".csv": pd.read_csv,
        ".tsv": lambda path: pd.read_csv(path, sep="\t"),
        ".npy": np.load,
    }
    found = np.asarray(readers[suffix](tmp_path / f"p{suffix}"))
    np.testing.assert_allclose(found, model.predict_proba(x), rtol=1e-12)


def test_a_duckdb_relation_without_pyarrow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"relation are read with pyarrow: pip install 'jensen\[scale\]'"):
        jensen.scan(duckdb.sql("select 1.0 as a"))
