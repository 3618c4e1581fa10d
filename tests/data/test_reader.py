"""One reader: every container holds the same rows, each cell is looked at once, and results go back in kind."""

import datetime
import subprocess
import sys

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone

from jensen import VAE, Diffusion, GaussianMixture, KMeans, Mixture, write_report
from jensen.data import cells, columns, container, opening, reader, rows
from jensen.data.cells import read_cells
from jensen.data.codes import UnseenValueWarning
from jensen.data.infer import learn_columns
from jensen.data.reader import read_array, read_table

NAN = float("nan")
NUMBERS = np.random.default_rng(0).normal([0, 5, -3], size=(40, 3))
NUMBERS[[2, 7], [0, 1]] = NAN
NAMES = ["a", "b", "c"]


def as_polars(x):
    return pl.DataFrame({name: pl.Series(x[:, j]).fill_nan(None) for j, name in enumerate(NAMES)})


def as_pyarrow(x):
    return pa.table({name: pa.array(x[:, j], from_pandas=True) for j, name in enumerate(NAMES)})


def as_nullable(x):
    return pd.DataFrame(x, columns=NAMES).convert_dtypes()


def as_objects(x):
    return pd.DataFrame(x, columns=NAMES).astype(object).where(~np.isnan(x), None)


CONTAINERS = {
    "list": np.ndarray.tolist,
    "masked": np.ma.masked_invalid,
    "memmap": lambda x: x,  # written below
    "reversed": lambda x: x[::-1].copy()[::-1],
    "fortran": np.asfortranarray,
    "torch": torch.from_numpy,
    "pandas": lambda x: pd.DataFrame(x, columns=NAMES),
    "nullable": as_nullable,
    "objects": as_objects,
    "text": lambda x: as_objects(x).map(str, na_action="ignore"),
    "polars": as_polars,
    "pyarrow": as_pyarrow,
}


def given(name, tmp_path):
    if name != "memmap":
        return CONTAINERS[name](NUMBERS)
    np.save(tmp_path / "x.npy", NUMBERS)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_same_numbers_from_every_container(name, tmp_path):
    values, kind = read_table(BaseEstimator(), given(name, tmp_path), reset=True)
    assert values.dtype == torch.float64
    assert_array_equal(values, NUMBERS)
    assert kind.dtype == "float64"


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    "model", [GaussianMixture(2, random_state=0), VAE(1, max_epochs=1, random_state=0)], ids=["em", "deep"]
)
def test_a_frame_comes_back_as_a_frame_of_its_library(model, name, tmp_path):
    table = given(name, tmp_path)
    model = model.fit(table)
    full = model.impute(table)
    assert type(full) is type(table)
    seen = ~np.isnan(NUMBERS)
    assert_array_equal(np.asarray(full)[seen], NUMBERS[seen])
    assert np.isfinite(np.asarray(full)).all()
    drawn, _ = model.sample(3, random_state=0)
    assert type(drawn) is type(table)
    assert list(model.feature_names_in_) == NAMES
    by_array = model.score_samples(pd.DataFrame(NUMBERS, columns=NAMES))
    assert_allclose(model.score_samples(table), by_array, rtol=1e-6)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_the_columns_of_a_mixed_frame(make):
    table = make(
        {
            "number": [1.5, None, 2.5],
            "whole": [1, 2, None],
            "flag": [True, None, False],
            "word": ["u", None, "v"],
            "day": [datetime.date(2020, 1, 1)] * 3,
        }
    )
    found = cells.read_frame(table)
    assert found.names == ("number", "whole", "flag", "word", "day")
    whole = "float" if make is pd.DataFrame else "int"  # pandas has no missing whole numbers
    assert found.sorts == ("float", whole, "bool", "text", "time")
    day = 1577836800  # seconds since 1970
    expected = [[1.5, 1, 1, 0, day], [NAN, 2, NAN, NAN, day], [2.5, NAN, 0, 0, day]]
    assert_array_equal(found.numbers, expected)
    assert found.texts[3].tolist()[::2] == ["u", "v"]
    with pytest.raises(ValueError, match=r"X holds dates or times in column 'day' \((date|Date)\); turn them into"):
        read_cells(table)
    with pytest.raises(ValueError, match=r"not numbers: 'word' \(.*, first 'u' in row 0\), 'day' \(.*\); encode them"):
        GaussianMixture().fit(table)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_single_precision_stays(make, dtype):
    values = NUMBERS.astype(dtype)
    array, kind = read_array(BaseEstimator(), make({name: values[:, j] for j, name in enumerate(NAMES)}), reset=True)
    assert array.dtype == kind.dtype == dtype
    assert_array_equal(array, values)


def test_columns_of_a_sparse_frame_are_a_sparse_matrix():
    counts = pd.DataFrame(np.eye(6), columns=list("abcdef"))
    model = KMeans(2, n_init=1, random_state=0)
    sparse = counts.astype(pd.SparseDtype(float, 0.0))
    assert_array_equal(model.fit(sparse).labels_, model.fit(counts.to_numpy()).labels_)
    with pytest.raises(TypeError, match="toarray"):
        GaussianMixture().fit(sparse)


@pytest.fixture
def passes(monkeypatch):
    """How often the cells of a call were checked and its frame was converted: [checked cells, converted frames]."""
    counted = [0, 0]

    def check(table, *arguments, real=cells.check_finite, **keywords):
        counted[0] += table.numbers.size
        return real(table, *arguments, **keywords)

    def read(X, real=cells.read_frame):
        counted[1] += 1
        return real(X)

    for module in (cells, reader, opening):
        monkeypatch.setattr(module, "check_finite", check)
    for module in (cells, reader):
        monkeypatch.setattr(module, "read_frame", read)
    return counted


def small(model):
    return model.set_params(max_epochs=1, random_state=0) if hasattr(model, "max_epochs") else model


@pytest.mark.parametrize("name", ["array", "pandas", "polars"])
@pytest.mark.parametrize("make", [GaussianMixture, KMeans, VAE, Diffusion])
def test_a_cell_is_checked_once_in_a_call_and_a_frame_read_once(make, name, passes):
    complete = np.nan_to_num(NUMBERS)
    X = {"array": complete, "pandas": pd.DataFrame(complete, columns=NAMES), "polars": as_polars(complete)}[name]
    model, is_frame = small(make()), name != "array"
    if make is KMeans:
        model.set_params(n_clusters=2)
    calls = [lambda: model.fit(X), lambda: model.score_samples(X), lambda: model.bound(X), lambda: model.impute(X)]
    for call in calls:
        passes[:] = 0, 0
        call()
        assert passes == [complete.size, int(is_frame)]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_pixel_is_checked_once_in_a_call(dtype, passes):
    images = np.random.default_rng(0).integers(0, 9, size=(50, 3, 4)).astype(dtype)
    model = VAE(1, max_epochs=1, random_state=0)
    for call in (model.fit, model.score_samples, model.impute):
        passes[:] = 0, 0
        call(images)
        assert passes[0] == (images.size if dtype == "float32" else 0)  # whole numbers are finite


def test_rows_are_named_in_large_tables():
    """Rows are encoded in blocks, and an error counts from the first row of the table."""
    x = pd.DataFrame({"a": np.arange(6000) / 2, "b": np.arange(6000) / 2, "c": ["u", "v", "w"] * 2000})
    model = VAE(1, max_epochs=1, random_state=0).fit(x.iloc[:100])
    wrong = {
        ("b", np.inf): "X contains infinity, first in row 5000, column 'b'",
        ("b", 1e30): r"X holds 1e\+30 in row 5000, column 'b'",
    }
    for (name, value), message in wrong.items():
        table = x.copy()
        table.loc[5000, name] = value
        with pytest.raises(ValueError, match=message):
            model.score_samples(table)
    table = x.assign(c=np.where(x.index % 5000 == 10, "z", x["c"]))
    with pytest.warns(UnseenValueWarning, match="'z' in row 10, column 'c', .* and 1 more cells hold") as told:
        model.transform(table)
    assert len(told) == 1


def test_other_libraries_are_not_needed():
    """numpy rows are read without pandas and polars."""
    script = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import numpy as np, torch
from sklearn.base import BaseEstimator, clone
import jensen.data.rows
from jensen.data.infer import learn_columns
from jensen.data.reader import read_table
x = np.arange(6.0).reshape(3, 2)
read_table(BaseEstimator(), x, reset=True)
read_table(BaseEstimator(), torch.from_numpy(x), reset=True)
learn_columns(x).encode(x)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_module_of_data_imports_no_other_library():
    for module in (cells, columns, container, opening, reader, rows):
        assert not {"pd", "pl", "pandas", "polars"} & vars(module).keys()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_missing_cells_of_a_mixed_frame_are_filled_in_its_own_types(make):
    table = make(
        {
            "number": [1.5, None, 2.5, 3.5],
            "whole": pd.array([1, None, 4, 4], dtype="Int64") if make is pd.DataFrame else [1, None, 4, 4],
            "flag": [True, None, False, True],
            "word": ["u", None, "v", "w"],
        }
    )
    columns = learn_columns(table)
    assert columns.kinds == ("number", "number", "yes/no", "level")
    values = torch.where(columns.encode(table).isnan(), torch.tensor([0.0, 0.0, 1.0, 2.0]), columns.encode(table))
    expected = [[1.5, 2.5, 2.5, 3.5], [1.0, 3.0, 4.0, 4.0], [True, True, False, True], ["u", "w", "v", "w"]]
    for full in (columns.restore(table, values), columns.frame(values, container=columns.container)):
        assert type(full) is type(table)
        frame = nw.from_native(full)
        assert frame.columns == ["number", "whole", "flag", "word"]
        for name, cells_of_column in zip(frame.columns, expected, strict=True):
            assert frame[name].to_list() == cells_of_column


def test_pyarrow_names_that_occur_twice_are_named():
    table = pa.table([[1.0, 2.0], [3.0, 4.0]], names=["a", "a"])
    with pytest.raises(ValueError, match="X has more than one column of the name 'a'; rename them"):
        GaussianMixture(1).fit(table)


def test_a_report_on_a_pyarrow_table(tmp_path):
    table = pa.table({"a": np.arange(30.0) % 7, "b": np.arange(30.0) ** 2})
    write_report(GaussianMixture(1).fit(table), table, tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("to", [lambda f: f, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("model", [Mixture(n_components=2), VAE(n_components=1, max_epochs=1, random_state=0)])
def test_columns_left_out_may_be_absent_from_a_frame(model, to):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(60)], "age": rng.normal(size=60), "town": ["x", "y"] * 30})
    frame["note"] = frame["id"] + "!"
    frame.loc[3, "age"], frame.loc[4, "town"] = np.nan, None
    with pytest.warns(UserWarning, match="left out"):
        model = clone(model).fit(to(frame))
    assert model.columns_.left_out == ("id", "note")
    few = to(frame[["age", "town", "note"]])
    np.testing.assert_array_equal(model.score_samples(few), model.score_samples(to(frame)))
    pandas = [x if isinstance(x, pd.DataFrame) else x.to_pandas() for x in (model.impute(few), model.impute(to(frame)))]
    pd.testing.assert_frame_equal(pandas[0], pandas[1][["age", "town", "note"]])
    assert not pandas[0].isna().any(axis=None)
    drawn, _ = model.sample(5, random_state=0)
    assert np.isfinite(model.score_samples(drawn)).all()
    with pytest.raises(ValueError, match="age"):
        model.score_samples(to(frame[["id", "town", "note"]]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("model", [Mixture(), GaussianMixture()])
def test_single_precision_with_gaps_does_not_overflow(model):
    model.fit(NUMBERS.astype(np.float32))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(np.isnan(NUMBERS), np.inf, NUMBERS).astype(np.float32))
