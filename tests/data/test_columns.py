"""Columns: what goes in comes back, whatever the container; densities keep their units; errors name the cell."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from scipy.stats import norm

from jensen.data.cells import read_cells
from jensen.data.columns import Columns
from jensen.data.infer import learn_columns
from jensen.data.scaled import learn_scaled
from jensen.files.records import read_record, write_record

NAN = float("nan")
N = 12


def cycle(values):
    return [values[i % len(values)] for i in range(N)]


# One column each, with a hole where its type can have one.
PANDAS = {
    "float": pd.Series(cycle([1.5, NAN, -2.0, 0.25, 7.0])),
    "float32": pd.Series(cycle([1.5, NAN, -2.1, 0.3]), dtype="float32"),
    "int": pd.Series(cycle([3, 1, 4, 1, 5])),
    "Int64": pd.Series(cycle([3, None, 4, 7]), dtype="Int64"),
    "Float64": pd.Series(cycle([0.5, None, 2.5]), dtype="Float64"),
    "zero one": pd.Series(cycle([0, 1, 1])),
    "zero one with holes": pd.Series(cycle([0.0, 1.0, NAN])),
    "bool": pd.Series(cycle([True, False, False])),
    "boolean": pd.Series(cycle([True, None, False]), dtype="boolean"),
    "bool objects": pd.Series(cycle([True, None, False]), dtype=object),
    "object": pd.Series(cycle(["b", None, "a", "c"]), dtype=object),
    "two objects": pd.Series(cycle(["no", "yes", None]), dtype=object),
    "str": pd.Series(cycle(["b", None, "a", "c"]), dtype="str"),
    "string": pd.Series(cycle(["b", None, "a", "c"]), dtype="string"),
    "category": pd.Series(pd.Categorical(cycle(["low", "mid", None, "high"]), ["low", "mid", "high"])),
    "ordered": pd.Series(pd.Categorical(cycle(["low", "mid", None, "high"]), ["low", "mid", "high"], ordered=True)),
    "numeric category": pd.Series(pd.Categorical(cycle([30, 10, None, 20]), [30, 10, 20])),
}
POLARS = {
    "float": pl.Series(cycle([1.5, None, -2.0, 0.25])),
    "float with NaN": pl.Series(cycle([1.5, NAN, None, 0.25])),
    "float32": pl.Series(cycle([1.5, None, -2.1]), dtype=pl.Float32),
    "int": pl.Series(cycle([3, None, 4, 7])),
    "zero one": pl.Series(cycle([0, None, 1])),
    "bool": pl.Series(cycle([True, None, False])),
    "string": pl.Series(cycle(["b", None, "a", "c"])),
    "categorical": pl.Series(cycle(["b", None, "a", "c"]), dtype=pl.Categorical),
    "enum": pl.Series(cycle(["low", None, "mid", "high"]), dtype=pl.Enum(["low", "mid", "high"])),
    "decimal": pl.Series(cycle([decimal.Decimal("1.25"), None]), dtype=pl.Decimal(10, 2)),
}


def pandas_table():
    return pd.DataFrame(PANDAS).set_axis([f"r{i}" for i in range(N)])


def polars_table():
    return pl.DataFrame({name: series.alias(name) for name, series in POLARS.items()})


def one(values, **kwargs):
    """A frame of one column 'b' after one of numbers."""
    return pd.DataFrame({"a": np.arange(len(values), dtype=float) + 0.5, "b": pd.Series(values, **kwargs)})


def filled_with(columns, encoded):
    """Holes get values that no observed cell has: -3 standard deviations, or the last level."""
    last = torch.tensor([-3.0 if kind == "number" else n - 1 for kind, n in zip(columns.kinds, columns.n_levels)])  # noqa: B905
    return torch.where(encoded.isnan(), last.double(), encoded)


class TestKinds:
    def test_of_a_pandas_frame(self):
        columns = learn_columns(pandas_table())
        kinds = dict(zip(columns.names, columns.kinds, strict=True))
        continuous = {"float", "float32", "int", "Int64", "Float64"}
        binary = {"zero one", "zero one with holes", "bool", "boolean", "bool objects", "two objects"}
        assert {name for name, kind in kinds.items() if kind == "number"} == continuous
        assert {name for name, kind in kinds.items() if kind == "yes/no"} == binary
        levels = dict(zip(columns.names, columns.levels, strict=True))
        assert levels["float"] == ()
        assert levels["zero one"] == (0, 1)
        assert levels["bool objects"] == (False, True)
        assert levels["two objects"] == ("no", "yes")
        assert levels["str"] == ("a", "b", "c")
        # Categories keep their own order.
        assert levels["category"] == ("low", "mid", "high")
        assert levels["numeric category"] == (30, 10, 20)

    def test_of_a_polars_frame(self):
        columns = learn_columns(polars_table())
        kinds = dict(zip(columns.names, columns.kinds, strict=True))
        assert {name for name, kind in kinds.items() if kind == "level"} == {"string", "categorical", "enum"}
        assert {name for name, kind in kinds.items() if kind == "yes/no"} == {"zero one", "bool"}
        assert columns.levels[columns.names.index("enum")] == ("low", "mid", "high")

    def test_numbers_of_an_array_are_continuous(self):
        assert learn_columns(np.array([[0.0], [1.0]])).kinds == ("number",)
        assert learn_columns(np.array([[False], [True]])).kinds == ("number",)
        assert learn_columns(torch.tensor([[0], [1]])).kinds == ("number",)
        assert learn_columns([[0], [1]]).kinds == ("number",)

    def test_one_kind_for_all_or_kinds_for_some(self):
        x = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.25]])
        assert learn_columns(x, "yes/no").levels == ((0, 1), (0, 1))
        assert learn_columns(x, "level").levels == ((0, 0.5, 1), (0, 0.25, 1))
        assert learn_columns(x, {1: "yes/no"}).kinds == ("number", "yes/no")
        frame = pd.DataFrame(x, columns=["a", "b"])
        assert learn_columns(frame, {"b": "level"}).kinds == ("number", "level")
        assert learn_columns(frame, {1: "level", "a": "auto"}).kinds == ("number", "level")
        assert learn_columns(frame.set_axis([1, 0], axis=1), {1: "yes/no"}).kinds == ("yes/no", "number")

    def test_two_numbers_become_the_levels_of_a_binary_column(self):
        x = np.array([[1.0], [2.0], [NAN], [2.0]])
        columns = learn_columns(x, "yes/no")
        assert columns.levels == ((1, 2),)
        assert_array_equal(columns.encode(x)[:, 0], [0, 1, NAN, 1])
        assert_array_equal(columns.decode(columns.encode(x)), x)

    def test_grey_values_are_probabilities(self):
        x = np.array([[0.2], [0.9], [0.5]])
        columns = learn_columns(x, "yes/no")
        assert_array_equal(columns.encode(x), x)
        # A grey value stays what it is: an expectation need not be 0 or 1.
        assert_array_equal(columns.decode(columns.encode(x)), x)

    def test_a_truth_value_that_is_asked_for_has_two_levels_even_if_one_is_not_seen(self):
        columns = learn_columns(one([True, True, True]), {"b": "yes/no"})
        assert columns.kinds[1] == "yes/no"
        assert_array_equal(columns.encode(one([False, True]))[:, 1], [0, 1])

    @pytest.mark.parametrize("values", [["x", "x", None], [True, True, True], [7, 7, 7], [0.5, None, 0.5]])
    def test_one_value_is_a_constant(self, values):
        with pytest.warns(UserWarning, match=r"X has columns with one value: .*'b' \("):
            columns = learn_columns(one(values))
        assert columns.kinds[1] == "constant"
        assert columns.levels[1] == (values[0],)
        assert_array_equal(columns.encode(one(values))[:, 1], [NAN if value is None else 0 for value in values])

    def test_categories_that_nobody_has_are_no_levels(self):
        columns = learn_columns(one(pd.Categorical(["a", "c", "a"], ["a", "b", "c", "d"])))
        assert columns.kinds[1] == "yes/no"
        assert columns.levels[1] == ("a", "c")
        assert learn_columns(one(pd.Categorical([0.2, 0.8], [0.2, 0.8]))).levels[1] == (0.2, 0.8)

    def test_objects_that_are_numbers_are_numbers(self):
        for values in ([1, None, 2], [1.5, pd.NA, 2], [decimal.Decimal("1.5"), None, decimal.Decimal(2)]):
            columns = learn_columns(one(values, dtype=object))
            assert columns.kinds[1] == "number"
            assert_allclose(columns.encode(one(values, dtype=object))[:, 1], [-1, NAN, 1])

    @pytest.mark.parametrize("dtype", [None, object])
    def test_text_that_writes_out_numbers_can_be_continuous(self, dtype):
        x = one(["1.5", None, "2.5"], dtype=dtype)
        columns = learn_columns(x, {"b": "number"})
        assert_allclose(columns.encode(x)[:, 1], [-1, NAN, 1])
        assert columns.restore(x, torch.zeros(3, 2))["b"].tolist() == ["1.5", "2.0", "2.5"]


class TestScale:
    def test_mean_and_deviation_of_what_is_observed(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(50, 4)) * [1, 1e-3, 10, 1e6] + [0, 5, -3, 1e6]
        x[rng.random(x.shape) < 0.3] = NAN
        columns = learn_columns(x)
        assert_allclose(columns.location, np.nanmean(x, axis=0))
        assert_allclose(columns.scale, np.nanstd(x, axis=0))
        assert columns.scale.dtype == torch.float64

    def test_one_scale_for_all(self):
        x = np.random.default_rng(0).normal(size=(20, 3)) * [1, 2, 3] + 5
        x[2, 1] = NAN
        columns = learn_columns(x, shared_scale=True)
        assert_allclose(columns.location, [np.nanmean(x)] * 3)
        assert_allclose(columns.scale, [np.nanstd(x)] * 3)
        mixed = learn_columns(pd.DataFrame(x).assign(text="t"), shared_scale=True)
        assert_allclose(mixed.scale, [np.nanstd(x)] * 3 + [1])

    def test_a_constant_column_is_scaled_by_its_own_size(self):
        x = np.array([[0.0, 0.1, -3.0, NAN], [0.0, 0.1, NAN, 7.0]])
        columns = learn_scaled(read_cells(x), "auto", constants=False)
        assert_array_equal(columns.location, [0, 0.1, -3, 7])
        assert_array_equal(columns.scale, [1, 0.1, 3, 7])
        assert_array_equal(columns.decode(columns.encode(x)), x)

    @pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-200, 1e200, 1e307])
    def test_numbers_too_extreme_to_square(self, size):
        x = np.array([[1.0, 5.0], [2.0, NAN], [-4.0, 6.0]]) * size
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            columns = learn_columns(x)
            encoded = columns.encode(x)
        assert (columns.scale > 0).all()
        if size > 1e-308:
            assert_allclose(encoded.nanmean(dim=0), 0, atol=1e-12)
            assert_allclose(np.nanstd(encoded, axis=0), 1)
            assert_allclose(columns.decode(encoded), x, rtol=1e-14)

    def test_the_smallest_numbers_have_a_scale(self):
        assert learn_columns(np.array([[0.0], [5e-324]])).scale.item() > 0

    def test_log_jacobian_against_scipy(self):
        """ln N(x; m, s²) = ln N(encoded; 0, 1) - ln s, over the observed cells of the continuous columns."""
        x = pandas_table()
        columns = learn_columns(x)
        encoded = columns.encode(x)
        continuous = np.array([kind == "number" for kind in columns.kinds])
        raw = np.column_stack([x[name].to_numpy(float, na_value=NAN) for name in np.array(columns.names)[continuous]])
        density = norm.logpdf(raw, columns.location[continuous], columns.scale[continuous])
        expected = np.nansum(density - norm.logpdf(encoded[:, continuous]), axis=1)
        assert_allclose(columns.log_jacobian(~encoded.isnan()), expected)

    def test_levels_have_no_jacobian(self):
        columns = learn_columns(one(["x", "y", "z"]), {"a": "level"})
        assert_array_equal(columns.log_jacobian(torch.ones(4, 2, dtype=torch.bool)), np.zeros(4))


class TestRoundTrips:
    def test_pandas(self):
        x = pandas_table()
        columns = learn_columns(x)
        back = columns.frame(columns.encode(x), index=x.index)
        assert_frame_equal(back, x, rtol=1e-6, check_column_type=False)

    def test_polars(self):
        x = polars_table()
        columns = learn_columns(x)
        back = columns.frame(columns.encode(x), container="polars")
        changed = {"decimal": pl.Float64}
        assert back.schema == dict(x.schema) | changed
        for name in x.columns:
            given, found = x[name].cast(changed.get(name, x[name].dtype)), back[name]
            if given.dtype.is_float():
                assert_allclose(found.to_numpy(), given.to_numpy(), rtol=1e-6)
            else:
                assert found.to_list() == given.to_list()

    def test_decoded_columns_are_arrays_of_their_types(self):
        x = pandas_table()
        columns = learn_columns(x)
        decoded = columns.decode(filled_with(columns, columns.encode(x)))
        kinds = {name: values.dtype.name for name, values in decoded.items()}
        assert kinds == {
            "float": "float64",
            "float32": "float32",
            "int": "int64",
            "Int64": "int64",
            "Float64": "float64",
            "zero one": "int64",
            "zero one with holes": "float64",
            "bool": "bool",
            "boolean": "bool",
            "bool objects": "bool",
            "object": "object",
            "two objects": "object",
            "str": "object",
            "string": "object",
            "category": "object",
            "ordered": "object",
            "numeric category": "int64",
        }
        assert decoded["category"].tolist() == cycle(["low", "mid", "high", "high"])

    def test_missing_comes_back_as_missing(self):
        columns = learn_columns(pandas_table())
        nothing = torch.full((2, len(columns.names)), NAN)
        assert columns.frame(nothing).isna().all(axis=None)
        decoded = columns.decode(nothing)
        assert decoded["str"].tolist() == decoded["bool"].tolist() == [None, None]
        assert np.isnan(decoded["zero one"]).all()
        table = learn_columns(polars_table())
        empty = table.frame(torch.full((2, len(table.names)), NAN), container="polars")
        assert all(series.fill_nan(None).is_null().all() for series in empty if series.dtype.is_float())
        assert all(series.is_null().all() for series in empty if not series.dtype.is_float())

    @pytest.mark.parametrize("kind", ["number", "yes/no", "level"])
    @pytest.mark.parametrize("make", [np.array, torch.tensor, np.asfortranarray, lambda x: np.array(x, dtype=object)])
    def test_arrays(self, kind, make):
        rows = [[0.0, 1.0], [1.0, NAN], [1.0, 0.0], [NAN, 0.0]]
        columns = learn_columns(make(rows), kind)
        encoded = columns.encode(make(rows))
        assert encoded.dtype == torch.float64
        decoded = columns.decode(encoded)
        assert isinstance(decoded, np.ndarray)
        assert_allclose(decoded, rows, atol=1e-15)
        assert_array_equal(columns.decode(encoded.float()).dtype, np.float64)

    def test_a_masked_array(self):
        x = np.ma.array([[1, 2], [3, 4], [2, 8]], mask=[[False, True], [False, False], [False, False]])
        columns = learn_columns(x)
        assert_array_equal(columns.encode(x)[:, 1], [NAN, -1, 1])
        assert_array_equal(columns.restore(x, torch.tensor([[0.0, 1.0]] * 3)), [[1, 8], [3, 4], [2, 8]])

    def test_a_frame_in_another_container(self):
        x = pd.DataFrame({"n": [1.0, 2.0, NAN], "t": ["u", None, "v"]})
        columns = learn_columns(x)
        other = pl.DataFrame({"n": [1.0, 2.0, None], "t": ["u", None, "v"]})
        assert_array_equal(columns.encode(other), columns.encode(x))
        assert columns.frame(columns.encode(x), container="polars")["t"].to_list() == ["u", None, "v"]
        assert learn_columns(other).frame(columns.encode(x))["t"].tolist()[::2] == ["u", "v"]
        array = learn_columns(np.eye(2))
        assert_frame_equal(array.frame(array.encode(np.eye(2))), pd.DataFrame(np.eye(2)), check_column_type=False)

    @pytest.mark.parametrize("index", [[0, 0, 1], ["x", "x", "x"], pd.MultiIndex.from_tuples([(0, 1), (0, 1), (1, 1)])])
    def test_rows_that_share_a_name(self, index):
        x = one(pd.Series(["u", None, "v"], dtype=object)).set_axis(index)
        columns = learn_columns(x)
        assert_frame_equal(columns.frame(columns.encode(x), index=index), x, check_column_type=False)
        assert columns.restore(x, torch.ones(3, 2))["b"].tolist() == ["u", "v", "v"]

    def test_no_rows(self):
        columns = learn_columns(pandas_table())
        assert columns.encode(pandas_table().iloc[:0]).shape == (0, len(PANDAS))
        assert len(columns.frame(torch.zeros(0, len(PANDAS)))) == 0


class TestRestore:
    def test_pandas(self):
        x = pandas_table()
        columns = learn_columns(x)
        values = filled_with(columns, columns.encode(x))
        full = columns.restore(x, values)
        assert full.index.equals(x.index)
        assert not full.isna().any(axis=None)
        changed = {name for name in x if full[name].dtype != x[name].dtype}
        assert changed == set()
        expected = columns.frame(values, index=x.index)
        for name in x:
            seen = x[name].notna()
            assert full[name][seen].tolist() == x[name][seen].tolist()
            assert full[name][~seen].tolist() == expected[name][~seen].tolist()

    def test_polars(self):
        x = polars_table()
        columns = learn_columns(x)
        full = columns.restore(x, filled_with(columns, columns.encode(x)))
        changed = {name for name in x.columns if full[name].dtype != x[name].dtype}
        assert changed == {"decimal"}
        for name in x.columns:
            seen = x[name].fill_nan(None).is_not_null() if x[name].dtype.is_float() else x[name].is_not_null()
            assert full[name].filter(seen).to_list() == x[name].filter(seen).to_list()
            assert full[name].fill_nan(None).is_not_null().all() if x[name].dtype.is_float() else True
            assert full[name].is_not_null().all()

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_arrays_and_tensors_bit_for_bit(self, dtype):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(30, 4)).astype(dtype)
        x[rng.random(x.shape) < 0.3] = NAN
        columns = learn_columns(x)
        values = torch.full(x.shape, 2.0)
        full = columns.restore(x, values)
        assert full.dtype == dtype
        assert_array_equal(full, np.where(np.isnan(x), columns.decode(values).astype(dtype), x))
        tensor = columns.restore(torch.from_numpy(x), values)
        assert isinstance(tensor, torch.Tensor)
        assert_array_equal(tensor, full)

    def test_objects_and_whole_numbers_in_arrays(self):
        x = np.array([[1.0, None], [2.0, 5.0]], dtype=object)
        assert learn_columns(x).restore(x, torch.zeros(2, 2)).tolist() == [[1.0, 5.0], [2.0, 5.0]]
        whole = np.array([[1, 2], [3, 4]])
        assert_array_equal(learn_columns(whole).restore(whole, torch.zeros(2, 2)), whole)

    @pytest.mark.parametrize("values", [["u", "v", "w"], [3, 1, 2], [True, False, True], [0.5, 1.5, 2.5]], ids=str)
    @pytest.mark.parametrize("kind", ["auto", "level"])
    def test_a_column_that_is_empty_now(self, values, kind):
        """Its type may be any that can be empty, and its values are still those learnt."""
        columns = learn_columns(one(values), {"b": kind})
        encoded = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        expected = columns.frame(encoded)["b"].tolist()
        frame = pd.DataFrame({"a": [1.0, 2.0]})
        for dtype in ("float64", "object", "str", "string", "Float64", "boolean", "category"):
            empty = pd.Series([None, None], dtype=dtype)
            full = columns.restore(frame.assign(b=empty), encoded)
            # Text holds the text of a number; "str" is a name for objects before pandas 3.
            is_text = dtype in ("str", "string") and empty.dtype != object
            assert full["b"].tolist() == (list(map(str, expected)) if is_text else expected)
        for dtype in (pl.Null, pl.Float64, pl.String, pl.Boolean, pl.Enum(["u"]), pl.Categorical):
            empty = pl.DataFrame({"a": [1.0, 2.0], "b": pl.Series([None, None], dtype=dtype)})
            full = columns.restore(empty, encoded)["b"]
            text = pl.Series(expected).cast(pl.String).to_list()
            assert full.to_list() == (expected if full.dtype.is_numeric() or full.dtype == pl.Boolean else text)

    def test_a_category_that_the_frame_does_not_list(self):
        columns = learn_columns(one(["u", "v", "w"]))
        x = one(pd.Categorical(["u", None, "u"]))
        full = columns.restore(x, torch.full((3, 2), 2.0))
        assert full["b"].tolist() == ["u", "w", "u"]
        assert isinstance(full["b"].dtype, pd.CategoricalDtype)

    def test_truth_values_that_are_to_be_continuous(self):
        x = one([True, None, False], dtype="boolean")
        columns = learn_columns(x, {"b": "number"})
        assert columns.restore(x, torch.zeros(3, 2))["b"].tolist() == [True, 0.5, False]

    def test_a_hole_without_a_value_stays(self):
        x = pd.DataFrame({"a": [1.0, NAN], "b": ["u", None]})
        columns = learn_columns(x)
        assert_frame_equal(columns.restore(x, columns.encode(x)), x)


def test_nothing_given_is_changed():
    for x, copy in ((pandas_table(), pandas_table()), (polars_table(), polars_table())):
        columns = learn_columns(x)
        encoded = columns.encode(x)
        kept = encoded.clone()
        full = columns.restore(x, filled_with(columns, encoded))
        columns.expand(encoded)
        columns.frame(encoded)
        if isinstance(full, pd.DataFrame):
            full.iloc[0, 0] = 99.0
        assert x.equals(copy)
        assert torch.equal(encoded.nan_to_num(nan=-9), kept.nan_to_num(nan=-9))
    for kind in ("number", "yes/no", "level"):
        x = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, NAN]])
        columns = learn_columns(x, kind)
        x.flags.writeable = False
        encoded = columns.encode(x)
        encoded += 1
        columns.restore(x, encoded.clip(max=1))
    row = columns.decode(torch.zeros(1, 2))
    row += 1
    assert columns.levels == ((0, 1), (0, 1))


class TestExpand:
    def test_of_mixed_columns(self):
        x = pd.DataFrame({"t": ["u", "v", "w", None], "n": [1.0, 3.0, NAN, 2.0], "b": [True, None, False, True]})
        columns = learn_columns(x)
        expanded = columns.expand(columns.encode(x))
        s = 1.5**0.5  # 1 / std of 1, 2, 3
        expected = [[1, 0, 0, -s, 1], [0, 1, 0, s, 0], [0, 0, 1, 0, -1], [0, 0, 0, 0, 1]]
        assert_allclose(expanded, expected)
        assert columns.n_levels == (3, 1, 2)
        assert columns.n_expanded == 5
        assert not columns.is_uniform

    @pytest.mark.parametrize("kind", ["number", "yes/no", "level"])
    def test_of_columns_of_one_kind(self, kind):
        x = np.array([[0.0, 1.0], [1.0, NAN], [1.0, 0.0]])
        columns = learn_columns(x, kind)
        assert columns.is_uniform
        expected = {
            "number": columns.encode(x).nan_to_num(nan=0.0),
            "yes/no": [[-1, 1], [1, 0], [1, -1]],
            "level": [[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]],
        }
        assert_array_equal(columns.expand(columns.encode(x)), expected[kind])
        assert columns.n_expanded == len(expected[kind][0])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_any_precision_and_gradients(self, dtype):
        x = pandas_table()
        columns = learn_columns(x)
        encoded = columns.encode(x)
        narrow = encoded.to(dtype, copy=True).requires_grad_()
        expanded = columns.expand(narrow)
        assert expanded.dtype == dtype
        assert expanded.shape == (N, columns.n_expanded)
        assert_allclose(expanded.detach().double(), columns.expand(encoded), atol=0.02)
        expanded.sum().backward()
        assert narrow.grad.isfinite().all()


class TestRecord:
    def columns(self):
        x = pd.DataFrame(
            {
                "text": ["a", "ß", "", "a"],
                "int": [3, 1, 2, 2],
                "bool": [True, False, True, True],
                "float": [0.1, 1 / 3, 1e300, 0.1],
                "number": [1.0, 2.0, NAN, 5.0],
                7: [1.0, 2.0, 3.0, 4.0],
            }
        )
        return x, learn_columns(x, {"int": "level", "float": "level"})

    def test_survives_a_file(self, tmp_path):
        x, columns = self.columns()
        write_record(tmp_path / "columns.jensen", {"columns": columns.record()})
        back = Columns.from_record(read_record(tmp_path / "columns.jensen")["columns"])
        assert (back.names, back.kinds, back.dtypes, back.container) == (
            columns.names,
            columns.kinds,
            columns.dtypes,
            columns.container,
        )
        assert repr(back.levels) == repr(columns.levels)  # 1, 1.0 and True are equal, but not written alike
        assert_array_equal(back.encode(x), columns.encode(x))
        assert_frame_equal(back.frame(back.encode(x)), columns.frame(columns.encode(x)))

    @pytest.mark.parametrize("make", [pandas_table, polars_table, lambda: np.eye(3), lambda: torch.eye(3)])
    def test_of_every_container(self, make):
        columns = learn_columns(make())
        back = Columns.from_record(columns.record())
        assert_array_equal(back.encode(make()), columns.encode(make()))

    @pytest.mark.parametrize(
        ("what", "value"),
        [
            ("names", ("a", "a", "b", "c", "d", "e")),
            ("names", ()),
            ("names", ([], "b", "c", "d", "e", "f")),
            ("names", "abcdef"),
            ("kinds", ("number",)),
            ("kinds", ("cubic",) * 6),
            ("levels", ((),) * 6),
            ("levels", (("a", "b"), (1,), (False, True, None), (0.5,), (), ())),
            ("levels", (("a", "a", "b"), (1, 2, 3), (False, True), (0.1, 0.2), (), ())),
            ("levels", (("a", 1, "b"), (1, 2, 3), (False, True), (0.1, 0.2), (), ())),
            ("levels", (("a",), (1,), (False, True), (NAN,), (), ())),
            ("levels", (("a",), (1,), (False, True), (0.5,), (), (1,))),
            ("levels", None),
            ("dtypes", (1, 2, 3, 4, 5, 6)),
            ("container", "excel"),
            ("location", torch.zeros(5, dtype=torch.float64)),
            ("location", torch.full((6,), 3.0, dtype=torch.float64)),
            ("location", [0.0] * 6),
            ("scale", torch.ones(6)),
            ("scale", torch.full((6,), NAN, dtype=torch.float64)),
            ("scale", torch.tensor([1, 1, 1, 1, 0, 1], dtype=torch.float64)),
        ],
    )
    def test_refuses_nonsense(self, what, value):
        _, columns = self.columns()
        with pytest.raises(ValueError, match=f"(?s)^{what}=.* does not describe columns; the file is damaged"):
            Columns.from_record(columns.record() | {what: value})

    @pytest.mark.parametrize("record", [{}, {"names": ()}, None, 3, [1]])
    def test_refuses_other_records(self, record):
        with pytest.raises(ValueError, match=r"columns are described by .*'kinds', .*'levels'.*; the file is damaged"):
            Columns.from_record(record)


DATE = datetime.date(2020, 1, 1)


class TestErrorsOfLearning:
    @pytest.mark.parametrize(
        ("x", "kinds", "message"),
        [
            (np.zeros((0, 2)), "auto", r"X has 0 rows and 2 columns; give at least one of each"),
            (np.zeros((2, 0)), "auto", r"X has 2 rows and 0 columns"),
            (np.zeros(3), "auto", r"X has shape \(3,\); expected rows and columns \(n, d\): reshape it"),
            (
                np.array([["a"]]),
                "auto",
                r"X is an array of type <U1, .*; give a data frame, whose columns may hold text",
            ),
            (
                np.array([["a", 1]], dtype=object),
                "auto",
                r"X is an array of type object, and arrays are read as numbers",
            ),
            (
                np.array([["2020"]], dtype="M8[Y]"),
                "auto",
                r"X holds dates or times \(datetime64\[Y\]\); turn them into",
            ),
            (np.array([[1.0, NAN]] * 2), "auto", r"X has no observed value in column 1; drop it"),
            (
                one([None, None]),
                "auto",
                r"X has no observed value in column 'b'; drop it: there is nothing to learn from",
            ),
            (one([None, None], dtype="str"), "auto", r"X has no observed value in column 'b'"),
            (
                np.array([[0, 1.0]] * 3 + [[0, np.inf]]),
                "auto",
                r"X contains infinity, first in row 3, column 1; replace",
            ),
            (
                one([1.0, -np.inf]),
                "auto",
                r"X contains infinity, first in row 1, column 'b'; replace it by NaN to treat",
            ),
            (one(["1", "inf"]), {"b": "number"}, r"X contains infinity, first in row 1, column 'b'"),
            (one([0.5, 1.0, 3.5]), "yes/no", r"holds 1\.5 in row 1, column 'a', outside \[0, 1\]"),
            (
                one([0.5, 1.0, 3.5]),
                {"b": "yes/no"},
                r"X holds 3\.5 in row 2, column 'b', outside \[0, 1\]; scale it to \[0, 1\] or model it as a n",
            ),
            (one([5, 5, 5]), {"b": "yes/no"}, r"X holds 5 in row 0, column 'b', outside \[0, 1\]"),
            (
                one(list("xyz")),
                {"b": "yes/no"},
                r"X has the values 'x', 'y', 'z' in column 'b', but a yes/no column has",
            ),
            (
                np.arange(1001.0)[:, None],
                "level",
                r"X has 1001 distinct values in column 0, and a column of levels has at most 1000; merge rare values",
            ),
            (one([f"id{i}" for i in range(1500)] * 2), "auto", r"X has 1500 distinct values in column 'b'"),
            (
                one([2**60, 1]),
                {"b": "level"},
                r"X holds 1152921504606846976 in column 'b', too large a number to",
            ),
            (
                one(["a", 1, 2.5], dtype=object),
                "auto",
                r"X mixes values of the kinds float, int, str in column 'b'; give",
            ),
            (
                one(["1", "two", "3"]),
                {"b": "number"},
                r"X holds 'two' in row 1, column 'b', which is a column of numbers, .* not one; leave the cell",
            ),
            (
                one(pd.to_datetime(["2020-01-01", "2020-02-01"])),
                {"b": "level"},
                r"X holds dates or times in column 'b'; their kind is 'date'",
            ),
            (
                pl.DataFrame({"b": [[1]]}),
                "auto",
                r"X holds values of the type List\(Int64\) in column 'b', which are neither",
            ),
            (
                one([[1], [2]], dtype=object),
                "auto",
                r"X holds values of the type list in column 'b', which are neither",
            ),
            (one([1j, 2j]), "auto", r"X holds values of the type complex128 in column 'b'.* or drop the column"),
            (
                pd.DataFrame([[1, 2]], columns=["a", "a"]),
                "auto",
                r"X has more than one column of the name 'a'; rename them",
            ),
            (
                one([1.0]),
                "cubic",
                r"columns='cubic' asks for 'cubic'; choose 'auto', 'number', 'count', 'yes/no' or 'level'",
            ),
            (one([1.0]), {"b": None}, r"columns=\{'b': None\} asks for None; choose"),
            (
                one([1.0]),
                {"z": "yes/no"},
                r"likelihood names the column 'z', which X does not have; its columns are 'a'",
            ),
            (np.eye(2), {5: "yes/no"}, r"likelihood names the column 5, which X does not have; its columns are 0, 1"),
        ],
        ids=lambda value: None if isinstance(value, str) else type(value).__name__,
    )
    def test_names_the_place_and_the_way_out(self, x, kinds, message):
        with pytest.raises(ValueError, match=message):
            learn_columns(x, kinds)


class TestErrorsOfUse:
    def test_an_unknown_level(self):
        columns = learn_columns(one(list("abcdefghijkl")))
        message = (
            r"X holds 'z' in row 1, column 'b', which is none of its levels 'a', 'b', .*, 'j' and 2 more; "
            "leave the cell empty, or fit with rows that hold this value"
        )
        with pytest.raises(ValueError, match=message):
            columns.encode(one(["a", "z"]))
        with pytest.raises(ValueError, match=r"X holds 7\.0 in row 0, column 'b', which is none of its levels"):
            columns.encode(one([7.0]))
        with pytest.raises(ValueError, match=r"X holds 2\.5 in row 0, column 1, which is none"):
            columns.encode(np.array([[0.0, 2.5]]))

    def test_an_unknown_number(self):
        columns = learn_columns(one([3, 1, 2]), {"b": "level"})
        with pytest.raises(ValueError, match=r"X holds 4 in row 1, column 'b', which is none of its levels 1, 2, 3;"):
            columns.encode(one([3, 4]))
        with pytest.raises(ValueError, match=r"X holds '3' in row 0, column 'b', which is none of its levels 1, 2, 3;"):
            columns.encode(one(["3"]))
        two = learn_columns(one([1, 2]), {"b": "yes/no"})
        with pytest.raises(ValueError, match=r"X holds 3 in row 0, column 'b', which is none of its levels 1, 2;"):
            two.encode(one([3]))

    def test_a_binary_number_out_of_range(self):
        columns = learn_columns(one([0, 1]))
        with pytest.raises(ValueError, match=r"X holds -2 in row 1, column 'b', outside \[0, 1\]"):
            columns.encode(one([1, -2]))

    def test_text_among_numbers(self):
        columns = learn_columns(one([1.0, 2.0]))
        with pytest.raises(
            ValueError, match=r"X holds 'n/a' in row 1, column 'b', which is a column of numbers, but this is not one"
        ):
            columns.encode(one([1.0, "n/a"], dtype=object))
        assert_allclose(columns.encode(one(["1", None]))[:, 1], [-1, NAN])

    def test_infinity(self):
        with pytest.raises(ValueError, match="X contains infinity, first in row 1, column 0"):
            learn_columns(np.eye(2)).encode(np.array([[0, 0], [np.inf, 0]]))

    def test_other_columns(self):
        columns = learn_columns(one([1.0, 2.0]))
        with pytest.raises(ValueError, match=r"X has 3 columns, but the model was fitted on 2: 'a', 'b'; give these"):
            columns.encode(np.zeros((2, 3)))
        with pytest.raises(
            ValueError, match=r"X has 'b' as column 0, but the model was fitted on 'a'; give the columns 'a', 'b' in"
        ):
            columns.encode(one([1.0, 2.0])[["b", "a"]])
        with pytest.raises(ValueError, match=r"X has 'c' as column 1, but the model was fitted on 'b'"):
            columns.restore(one([1.0, 2.0]).rename(columns={"b": "c"}), torch.zeros(2, 2))
        assert_array_equal(columns.encode(one([1.0, 2.0]).to_numpy()), columns.encode(one([1.0, 2.0])))

    def test_values_of_another_shape(self):
        columns = learn_columns(one([1.0, 2.0]))
        with pytest.raises(ValueError, match=r"values has shape \(2, 3\); expected \(n, 2\), as encoded"):
            columns.decode(torch.zeros(2, 3))
        with pytest.raises(ValueError, match=r"values has shape \(3, 2\), but X has \(2, 2\)"):
            columns.restore(one([1.0, NAN]), torch.zeros(3, 2))

    def test_levels_that_do_not_exist(self):
        columns = learn_columns(one(["u", "v", "w"]))
        for wrong in (3.0, -1.0):
            message = rf"values holds {wrong} in row 1, column 'b', whose levels are numbered 0 to 2"
            with pytest.raises(ValueError, match=message):
                columns.decode(torch.tensor([[0.0, 1.0], [0.0, wrong]]))

    def test_text_does_not_go_into_an_array(self):
        columns = learn_columns(one(["u", "v", "w"]))
        with pytest.raises(ValueError, match=r"column 'b' has text as levels, 'u', 'v', 'w'; give a data frame"):
            columns.restore(np.array([[1.0, NAN]]), torch.zeros(1, 2))

    def test_another_container(self):
        with pytest.raises(ValueError, match='container=\'excel\' is not known; choose "pandas" or "polars"'):
            learn_columns(np.eye(2)).frame(torch.eye(2), container="excel")


def test_a_column_of_names_is_told():
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(40)], "town": ["Bonn", "Oslo", "Rome", "Graz"] * 10})
    with pytest.warns(UserWarning, match="identify rows or hold free text, which are left out: 'id'; keep") as told:
        assert learn_columns(frame).left_out == ("id",)
    assert len(told) == 1


@pytest.mark.parametrize("kinds", ["all", "scaled"])
def test_a_column_of_more_texts_than_levels_is_not_told_to_be_one(kinds):
    many = [f"note {i}" for i in range(1200)]
    frame = pd.DataFrame({"note": many, "town": ["Bonn", "Oslo", "Rome", "Graz"] * 300})
    with pytest.warns(UserWarning, match=r"left out: 'note'; drop them, or merge values: .* at most 1000$"):
        learn_columns(frame, kinds=kinds)
    with pytest.warns(UserWarning, match=r"'note', 'id'; keep one by its kind, such as columns={'id': 'number'}"):
        learn_columns(frame.assign(id=np.arange(1200)), kinds=kinds)
