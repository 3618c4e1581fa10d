"""Every kind of file: what is written in it is what is read, and what cannot be read is named."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import sys
import warnings
import zipfile

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import pytest
import zstandard

from jensen.files.places import WRITTEN, numbered
from jensen.files.tables import read_file, read_understood, write_dataset
from jensen.files.understood import Reported

FRAME = pd.DataFrame(
    {
        "n": [1, 2, 3],
        "x": [0.1 + 0.2, np.nan, -1e-300],
        "text": ["=1+1", None, "naïve, or not"],
        "when": pd.to_datetime(["2024-05-31", None, "2024-06-01"]),
    }
)
CSV = "a,b\n1,x\n2,y\n"
EXPECTED = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: zstandard.ZstdCompressor().compress(content),
}


@pytest.fixture(autouse=True)
def silence():
    """Nothing here is worth a report, unless a test expects it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Reported)
        yield


@pytest.mark.parametrize(
    "suffix", [*(s for s in WRITTEN if s != ".npy"), ".csv.gz", ".csv.zst", ".tsv.xz", ".jsonl.bz2"]
)
def test_a_table_is_read_as_it_was_written(tmp_path, suffix):
    before = FRAME.copy()
    write_dataset(tmp_path / f"x{suffix}", FRAME)
    pd.testing.assert_frame_equal(read_file(tmp_path / f"x{suffix}"), FRAME, check_dtype=False)
    pd.testing.assert_frame_equal(FRAME, before)


def test_lines_of_json_are_records_for_other_programs(tmp_path):
    write_dataset(tmp_path / "x.jsonl", FRAME)
    records = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()]
    assert records[1] == {"n": 2, "x": None, "text": None, "when": None}
    assert records[0]["x"] == 0.1 + 0.2


def test_text_of_a_workbook_is_no_formula(tmp_path):
    write_dataset(tmp_path / "x.xlsx", FRAME)
    cell = openpyxl.load_workbook(tmp_path / "x.xlsx").active["C2"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")


@pytest.mark.parametrize("packing", PACKERS)
def test_text_may_be_packed(tmp_path, packing):
    (tmp_path / f"x.csv{packing}").write_bytes(PACKERS[packing](CSV.encode()))
    pd.testing.assert_frame_equal(read_file(tmp_path / f"x.csv{packing}"), EXPECTED)
    (tmp_path / f"y.csv{packing}").write_bytes(PACKERS[packing](CSV.encode())[:-9] if packing != ".zst" else b"bad")
    with pytest.raises(ValueError, match=r"y\.csv.* cannot be (unpacked|read)"):
        read_file(tmp_path / f"y.csv{packing}")


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("_", "."), content)
    return path


def test_an_archive_has_one_table_or_a_name_tells_which(tmp_path):
    one = archive(tmp_path / "one.zip", x_csv=CSV, readme_txt="about")
    pd.testing.assert_frame_equal(read_file(one), EXPECTED)
    two = archive(tmp_path / "two.zip", x_csv=CSV, y_csv="c\n3\n4\n", readme_txt="about")
    with pytest.raises(ValueError, match=r"two\.zip holds the tables x\.csv, y\.csv; name one .* two\.zip::x\.csv"):
        read_file(two)
    assert read_file(f"{two}::y.csv")["c"].tolist() == [3, 4]
    text = archive(tmp_path / "text.zip", x_txt=CSV)
    assert read_file(text).shape == read_file(one).shape
    with pytest.raises(ValueError, match=r"none\.zip does not look like a table: no comma"):
        read_file(archive(tmp_path / "none.zip", readme_txt="about"))
    (tmp_path / "bad.zip").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"bad\.zip cannot be unpacked"):
        read_file(tmp_path / "bad.zip")


def database(path, connect):
    connection = connect(str(path))
    connection.execute("create table people (a integer, b text)")
    connection.execute("insert into people values (1, 'x'), (2, 'y')")
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("name", "connect"),
    [("x.db", sqlite3.connect), ("x.sqlite", sqlite3.connect), ("x.duckdb", duckdb.connect), ("y.db", duckdb.connect)],
)
def test_a_table_of_a_database(tmp_path, name, connect):
    path = database(tmp_path / name, connect)
    pd.testing.assert_frame_equal(read_file(path), EXPECTED, check_dtype=False)
    connection = connect(str(path))
    connection.execute('create table "a ""b""" (c integer)')
    connection.execute('insert into "a ""b""" values (5)')
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match=r'has the tables a "b", people; name one, as in .*::a "b"'):
        read_file(path)
    assert read_file(f'{path}::a "b"')["c"].tolist() == [5]
    with pytest.raises(ValueError, match=r'has no table .gone.; there are a "b", people'):
        read_file(f"{path}::gone")


@pytest.mark.parametrize("name", ["x.db", "x.sqlite3"])
def test_a_file_that_is_no_database(tmp_path, name):
    (tmp_path / name).write_bytes(b"nonsense" * 100)
    with pytest.raises(ValueError, match="cannot be read as an SQLite database"):
        read_file(tmp_path / name)


def test_the_first_sheet_of_a_workbook_is_said(tmp_path):
    with pd.ExcelWriter(tmp_path / "x.xlsx") as writer:
        EXPECTED.to_excel(writer, sheet_name="one", index=False, startrow=2)
        pd.DataFrame([[5, 6], [7, 9]]).to_excel(writer, sheet_name="two", index=False, header=False)
    with pytest.warns(Reported, match=r"it has 2 sheets; this is the first, one: .*x\.xlsx::two for another"):
        pd.testing.assert_frame_equal(read_file(tmp_path / "x.xlsx"), EXPECTED, check_dtype=False)
    table, understood = read_understood(f"{tmp_path / 'x.xlsx'}::two")
    assert table.to_numpy().tolist() == [[5, 6], [7, 9]]
    assert not understood.has_header
    with pytest.raises(ValueError, match="has no sheet 'three'; there are one, two"):
        read_file(f"{tmp_path / 'x.xlsx'}::three")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "[1, 2]", r"x\.json holds no records; write"),
        ("x.json", '{"a": [1, 2], "b": [1]}', "columns of different lengths"),
        ("x.json", "{", r"x\.json is not JSON"),
        ("x.json", '[{"a": [1]}]', r"holds \[1\] in record 0, column 'a'; a table has one value per cell: flatten"),
        ("x.jsonl", '{"a": 1}\nb', "has no JSON in line 2"),
        ("x.xlsx", "nonsense", r"x\.xlsx cannot be read as a workbook"),
        ("x.feather", "nonsense", r"x\.feather cannot be read as Feather"),
        ("x.parquet.gz", "nonsense", r"suffix '\.parquet\.gz'; give a file that ends in"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_file(tmp_path / name)


def test_json_has_rows_or_columns(tmp_path):
    for text in ('[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]', '{"a": [1, 2], "b": ["x", "y"]}'):
        (tmp_path / "x.json").write_text(text)
        pd.testing.assert_frame_equal(read_file(tmp_path / "x.json"), EXPECTED)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("x.xlsx", "openpyxl", r"jensen\[files\]"),
        ("x.csv.zst", "zstandard", r"jensen\[files\]"),
        ("x.duckdb", "duckdb", r"jensen\[files\]"),
        ("x.feather", "pyarrow", r"jensen\[scale\]"),
    ],
)
def test_a_missing_library_names_its_extra(tmp_path, monkeypatch, name, module, extra):
    (tmp_path / name).write_bytes(b"........DUCK....")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"{name}: .*{module}: pip install '{extra}'"):
        read_file(tmp_path / name)
    if module != "duckdb":
        with pytest.raises(ImportError, match=extra):
            write_dataset(tmp_path / f"new{name[1:]}", EXPECTED)


def bytes_of(suffix):
    packed = {f".csv{packing}": pack(CSV.encode()) for packing, pack in PACKERS.items()}
    if suffix in packed:
        return packed[suffix]
    file = io.BytesIO()
    if suffix == ".zip":
        with zipfile.ZipFile(file, "w") as made:
            made.writestr("x.csv", CSV)
    writers = {".parquet": EXPECTED.to_parquet, ".feather": EXPECTED.to_feather}
    if suffix in writers:
        writers[suffix](file)
    elif suffix == ".xlsx":
        EXPECTED.to_excel(file, index=False)
    texts = {".csv": CSV, ".tsv": CSV.replace(",", "\t"), ".jsonl": '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n'}
    texts[".json"] = '[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]'
    return texts[suffix].encode() if suffix in texts else file.getvalue()


@pytest.mark.parametrize(
    "suffix",
    [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".feather", ".xlsx", ".zip", ".csv.gz", ".csv.xz", ".csv.zst"],
)
def test_standard_input_tells_its_format(monkeypatch, suffix):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes_of(suffix))))
    pd.testing.assert_frame_equal(read_file("-"), EXPECTED, check_dtype=False)


def test_an_array_may_come_from_standard_input(monkeypatch):
    file = io.BytesIO()
    np.save(file, np.eye(3))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.getvalue())))
    np.testing.assert_array_equal(read_file("-"), np.eye(3))


def test_the_number_of_a_file_stands_before_its_suffixes(tmp_path):
    assert numbered(tmp_path / "a.b.csv.gz", 2).name == "a.b-2.csv.gz"
    assert numbered(tmp_path / "filled.csv", 1).name == "filled-1.csv"
