"""The rules by which every column of a table gets a kind: one test per rule, and what users may change."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from jensen.data.infer import learn_columns

RNG = np.random.default_rng(0)
N = 60
NAN = float("nan")
HEAD_END = ("missing", "measure")


def cycle(values, n=N):
    return [values[i % len(values)] for i in range(n)]


def learn(values, asked=None, **options):
    """The columns of a table of numbers 'a' and this column 'b'."""
    frame = pd.DataFrame({"a": np.linspace(0.5, 7.25, len(values)), "b": values})
    return learn_columns(frame, None if asked is None else {"b": asked}, kinds="all", **options)


def kind(values, asked=None):
    return learn(values, asked).kinds[1]


class TestOneRuleAfterTheOther:
    @pytest.mark.filterwarnings("ignore:X has columns with one value")
    @pytest.mark.parametrize(
        "values", [[3] * N, ["x"] * N, [True] * N, [0.5, None] * 30, [pd.Timestamp(2020, 1, 1)] * N]
    )
    def test_one_value_is_a_constant(self, values):
        columns = learn(values)
        assert columns.kinds[1] == "constant"
        assert len(columns.levels[1]) == 1
        assert columns.measure[1] == "probability"

    def test_one_warning_names_all_constants(self):
        frame = pd.DataFrame({"a": RNG.normal(size=N), "b": 3, "c": "x"})
        with pytest.warns(UserWarning, match="one value") as heard:
            learn_columns(frame, kinds="all")
        assert [str(warning.message) for warning in heard] == [
            "X has columns with one value: 'b' (3), 'c' ('x'); this value has probability 1, so the column changes no "
            "score"
        ]

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (cycle([True, False]), "yes/no"),
            (cycle([True, None, False]), "yes/no"),
            (cycle(["u", "v"]), "yes/no"),
            (cycle(["u", "v", "w", None]), "level"),
            (pd.Categorical(cycle([30, 10, 20])), "level"),
            (pd.Categorical(cycle([30, 10])), "yes/no"),
            (pd.Categorical(cycle([0.25, 0.5, 0.75])), "level"),
        ],
    )
    def test_truth_values_text_and_categories_have_levels(self, values, expected):
        assert kind(values) == expected

    @pytest.mark.parametrize(
        "values", [cycle([0, 1]), cycle([0.0, 1.0, NAN]), [0, 1], cycle([1, 2]), cycle([0.2, 0.7])]
    )
    def test_two_numbers_are_yes_no(self, values):
        assert kind(values) == "yes/no"

    def test_two_numbers_in_few_rows_are_numbers(self):
        assert kind([1.5, 2.5, 1.5]) == "number"
        assert kind([40, 60, 40]) == "number"

    def test_fractions_are_numbers(self):
        assert kind(cycle([1.0, 2.0, 3.5])) == "number"
        assert kind(RNG.normal(size=N)) == "number"

    @pytest.mark.parametrize("values", [[1, 2, 3, 4, 5], [0, 1, 2, 3], [3, 6, 7], [-2, -1, 0, 1, 2], range(1, 11)])
    def test_codes_are_levels(self, values):
        assert kind(cycle(list(values))) == "level"

    def test_codes_need_few_values_a_small_range_and_rows(self):
        assert kind(cycle(list(range(1, 12)), 66)) != "level"
        assert kind(cycle([100, 200, 300])) == "number"
        assert kind([1, 2, 3, 2, 3, 1, 1]) != "level"

    def test_codes_in_a_wide_range_need_more_rows(self):
        """Postcodes of seven towns; measurements rarely have so few values."""
        codes = [10115, 20095, 50667, 53111, 60311, 70173, 80331]
        assert kind(cycle(codes, 7 * 30)) == "level"
        assert kind(cycle(codes, 7 * 30 - 1)) == "number"
        assert kind(cycle([*codes, 1, 2, 3, 4], 11 * 30)) == "number"
        assert kind([code + 0.5 for code in cycle(codes, 7 * 30)]) == "number"

    def test_a_missing_value_changes_no_kind(self):
        for values in (cycle([1, 2, 3, 4]), RNG.poisson(4, 200).tolist(), RNG.integers(20, 80, 200).tolist()):
            assert kind(values) == kind([None, *values]) == kind(pd.array([None, *values], dtype="Int64"))

    def test_small_counts_are_counts(self):
        visits = RNG.negative_binomial(2, 0.2, 300)
        columns = learn(visits)
        assert columns.kinds[1] == "count"
        assert columns.bounds[1].tolist() == [0, np.inf]
        assert columns.measure[1] == "probability"

    def test_whole_numbers_far_from_zero_below_it_or_huge_are_numbers(self):
        assert kind(RNG.integers(17, 90, 300)) == "number"  # age
        assert kind(RNG.integers(-40, 40, 300)) == "number"
        assert kind(RNG.integers(0, 10_000, 300)) == "number"

    def test_dates_are_dates(self):
        days = pd.to_datetime(["2020-01-01", None, "2020-03-01"])
        assert kind(days) == "date"
        assert kind(days + pd.Timedelta(3, "h")) == "date"
        assert kind(pd.to_timedelta([3, None, 5], unit="s")) == "date"
        assert kind(pd.Series([datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 5)], dtype=object)) == "date"
        assert kind([datetime.time(1), None, datetime.time(2)]) == "date"

    def test_adult_as_its_users_expect_it(self):
        """Ages, years of schooling, hours and gains are numbers, and gains of 0 are an atom."""
        n = 2000
        gain = np.where(RNG.random(n) < 0.08, RNG.integers(114, 99_999, n), 0)
        frame = pd.DataFrame(
            {
                "age": RNG.integers(17, 91, n),
                "education-num": RNG.normal(10, 2.5, n).round().clip(1, 16).astype(int),
                "hours": np.where(RNG.random(n) < 0.5, 40, RNG.normal(40, 12, n).round().clip(1, 99)).astype(int),
                "gain": gain,
                "sex": cycle(["Male", "Female"], n),
            }
        )
        columns = learn_columns(frame, kinds="all", atoms=True)
        assert columns.kinds == ("number", "number", "number", "number", "yes/no")
        assert columns.atoms == ((), (), (40.0,), (0.0,), ())
        assert columns.measure == ("density", "density", "both", "both", "probability")
        assert learn_columns(frame, kinds="all").atoms == ((),) * 5


class TestLeftOut:
    @pytest.mark.parametrize(
        "ids",
        [
            [f"row {i}" for i in range(N)],
            cycle([f"name {i}" for i in range(31)]),
            list(range(N)),
            RNG.permutation(N) + 1000,
            np.sort(RNG.choice(2 * N - 1, N, replace=False)),
            [*range(N - 1), None],
        ],
        ids=["text", "half", "running", "permuted", "with gaps", "missing"],
    )
    def test_identifiers_are_left_out_with_one_line(self, ids):
        own = "level" if isinstance(ids[0], str) else "number"
        message = rf"left out: 'b'; keep one by its kind, such as columns=\{{'b': '{own}'\}}, or drop it"
        with pytest.warns(UserWarning, match=message):
            columns = learn(ids)
        assert (columns.names, columns.left_out, columns.kept) == (("a",), ("b",), (0,))
        assert learn(ids, own).names == ("a", "b")

    def test_text_that_repeats_and_short_tables_stay(self):
        assert kind(cycle([f"name {i}" for i in range(30)])) == "level"
        assert kind([f"name {i}" for i in range(29)]) == "level"
        assert kind(range(29)) != "left out"
        assert kind(RNG.choice(1000, N, replace=False)) in ("count", "number")

    def test_a_user_can_leave_a_column_out_without_a_warning(self, recwarn):
        assert learn([None] * N, "left out").left_out == ("b",)
        assert not recwarn

    def test_they_do_not_come_back_and_stay_in_what_is_restored(self):
        frame = pd.DataFrame({"id": [f"row {i}" for i in range(N)], "x": RNG.normal(size=N), "y": cycle(["u", "v"])})
        frame.loc[3, "x"], frame.loc[4, "id"] = None, None
        with pytest.warns(UserWarning, match="left out"):
            columns = learn_columns(frame, kinds="all")
        codes = columns.codes(frame)
        assert codes.x.shape == (N, 2)
        back = columns.frame(codes.x)
        assert back.columns.tolist() == ["x", "y"]
        filled = columns.restore(frame, codes.x.nan_to_num(nan=9.0))
        assert filled.loc[3, "x"] == columns.ranges[0, 1]  # a data frame gets no number beyond the observed ones
        pd.testing.assert_frame_equal(filled.drop(index=3), frame.drop(index=3))

    def test_nothing_left_is_an_error(self):
        with pytest.warns(UserWarning, match="left out"), pytest.raises(ValueError, match="no column left to model"):
            learn_columns(pd.DataFrame({"id": range(N)}), kinds="all")


class TestEdits:
    def test_by_name_or_number_or_for_all(self):
        frame = pd.DataFrame({"zip": cycle([10, 200, 3000, 40_000]), "visits": cycle([1, 2, 3])})
        assert learn_columns(frame, {"zip": "level", 1: "count"}, kinds="all").kinds == ("level", "count")
        assert learn_columns(frame, "level", kinds="all").kinds == ("level", "level")
        assert learn_columns(frame, {"visits": {"kind": "number"}}, kinds="all").kinds == ("number", "number")
        assert learn_columns(frame, {"visits": "auto"}, kinds="all").kinds == ("number", "level")

    def test_text_that_writes_out_numbers(self):
        columns = learn(cycle(["1.5", "2", None]), "number")
        assert columns.kinds[1] == "number"
        assert_array_equal(columns.codes(pd.DataFrame({"a": [0.0], "b": ["7.5"]})).x, [[0, 7.5]])

    def test_truth_values_may_lack_one(self):
        assert learn([True] * N, "yes/no").levels[1] == (False, True)
        assert learn([0] * N, "yes/no").levels[1] == (0, 1)

    def test_bounds_and_atoms(self):
        gain = np.where(np.arange(N) % 3 == 0, 0.0, RNG.gamma(2, size=N))
        columns = learn(gain, {"kind": "number", "atoms": [0], "low": 0})
        assert (columns.bounds[1].tolist(), columns.atoms[1]) == ([0, np.inf], (0.0,))
        assert learn(gain, {"low": 0}).atoms[1] == (0.0,)  # a value at its bound is an atom
        assert learn(gain, {"low": -1, "high": 99}).atoms[1] == ()
        assert learn(gain, {"atoms": [2.5]}).atoms[1] == (2.5,)
        assert learn(gain, {"atoms": 0}).atoms[1] == (0.0,)

    @pytest.mark.parametrize(
        ("values", "asked", "message"),
        [
            (cycle([1, 2]), "cubic", r"columns=\{'b': 'cubic'\} asks for 'cubic'; choose one of 'auto', 'number'"),
            (cycle([1, 2]), 3, r"columns=\{'b': 3\} must be one of the kinds"),
            (cycle([1, 2]), {"kinds": "level"}, r"must be one of the kinds .*, or a dictionary of kind, atoms, low, h"),
            (cycle([-1, 2, 3]), "count", r"columns=\{'b': 'count'\}, but X holds -1 in column 'b'; a count is 0, 1, 2"),
            (cycle([0.5, 2, 3]), "count", r"but X holds 0\.5 in column 'b'; a count is"),
            (cycle(["u", "v"]), "number", r"X holds 'u' in row 0, column 'b', which is a column of numbers, but this"),
            (cycle(["u", "v", "w"]), "yes/no", r"but X holds 3 distinct values in column 'b' \(values 'u', 'v', 'w'\)"),
            (cycle([1, 2]), "constant", r"but X holds 2 distinct values in column 'b'"),
            (cycle(["2020-01-01", "2020-01-02"]), "date", r"no dates or times in column 'b'; convert it first, for ex"),
            (
                pd.to_datetime(cycle(["2020-01-01", "2020-02-01"])),
                "number",
                r"dates or times in column 'b'; their kind",
            ),
            (pd.to_datetime(cycle(["2020-01-01", "2020-02-01"])), "level", r"dates or times in column 'b'; their kind"),
            (cycle([1, 2, 3]), {"kind": "level", "low": 0}, r"has bounds or atoms, which only a column of the kind 'n"),
            (cycle([1, 2, 3]), {"low": 2, "high": 1}, r"low=2 and high=1; low must be less than high"),
            (cycle([1, 2, 3]), {"low": "x"}, r"holds 'x'; bounds and atoms must be finite numbers"),
            (cycle([1, 2, 3]), {"low": 2}, r"holds 1 in column 'b', outside of its bounds 2 and inf"),
            (cycle([1, 2, 3]), {"low": 2}, r"^columns=\{'b': \{'low': 2\.0\}\}, but X holds 1 in column 'b', outside"),
            (cycle(["u", "v"]), "number", r"make the column a level: columns=\{'b': 'level'\}$"),
            (cycle([1, 2, 3]), {"low": 1, "atoms": []}, r"its bound 1 in column 'b', which has no density there; add"),
            (cycle(["a", 1, 2.5]), None, r"X mixes values of the kinds float, int, str in column 'b'"),
            ([None] * N, None, r"X has no observed value in column 'b'; drop it: there is nothing to learn from"),
            (cycle([2**60, 1, 5]), "level", r"X holds 1152921504606846976 in column 'b', too large a number to"),
            (cycle([[1], [2]]), None, r"X holds values of the type list in column 'b'"),
        ],
    )
    def test_what_the_values_contradict_is_an_error(self, values, asked, message):
        with pytest.raises(ValueError, match=message):
            learn(values, asked)

    def test_unknown_names_and_other_arguments(self):
        frame = pd.DataFrame({"a": [1.5, 2.5]})
        with pytest.raises(
            ValueError, match="columns names the column 'z', which X does not have; its columns are 'a'"
        ):
            learn_columns(frame, {"z": "level"}, kinds="all")
        with pytest.raises(ValueError, match="columns=3 must be a kind, or a dictionary of kinds by column, or None"):
            learn_columns(frame, 3, kinds="all")
        with pytest.raises(ValueError, match="kinds='some' is not known; choose 'all' or 'scaled'"):
            learn_columns(frame, kinds="some")
        with pytest.raises(ValueError, match="X has 0 rows and 1 columns"):
            learn_columns(frame.iloc[:0], kinds="all")

    @pytest.mark.parametrize("n_levels", [1001, 10_000, 30_000])
    def test_too_many_levels_are_an_error_with_two_ways_out(self, n_levels):
        values = [f"{i:05}" for i in range(n_levels)] * 3
        message = (
            r"X has (more than )?\d+ distinct values in column 'b', .* at most 1000; merge rare values, give "
            r"columns=\{'b': 'number'\} if it holds numbers, or leave it out by columns=\{'b': 'left out'\}"
        )
        with pytest.raises(ValueError, match=message):
            learn(values)
        assert kind(values, "number") == "number"
        assert learn(values, "left out").left_out == ("b",)


class TestAtoms:
    def test_iris_has_none(self):
        iris = load_iris(as_frame=True).data
        assert learn_columns(iris, kinds="all", atoms=True).atoms == ((),) * 4
        for seed in range(50):
            part = iris.sample(100, random_state=seed)
            assert learn_columns(part, kinds="all", atoms=True).atoms == ((),) * 4

    def test_ten_per_cent_and_five_times_the_neighbours(self):
        rest = RNG.normal(size=900)
        found = [learn(np.r_[rest, np.full(n, 0.25)], atoms=True).atoms[1] for n in (90, 110)]
        assert found == [(), (0.25,)]
        beside = np.r_[rest, np.full(200, 0.25), np.full(50, np.nextafter(0.25, 1))]
        assert learn(beside, atoms=True).atoms[1] == ()

    def test_zero_as_the_least_value(self):
        rest = RNG.gamma(2, size=970)
        assert learn(np.r_[rest, np.zeros(30)], atoms=True).atoms[1] == (0.0,)
        assert learn(np.r_[rest - 9, np.zeros(30)], atoms=True).atoms[1] == ()
        assert learn(np.r_[rest, 0.0], atoms=True).atoms[1] == ()

    def test_only_numbers_have_them(self):
        columns = learn(np.r_[np.zeros(500, int), RNG.poisson(5, 500)], "count", atoms=True)
        assert columns.atoms[1] == ()

    def test_what_is_left_varies(self):
        columns = learn(np.r_[np.zeros(7), 0.5], atoms=True)
        assert (columns.kinds[1], columns.atoms[1]) == ("number", ())


class TestBounds:
    """The open interval of a density: given bounds, or natural ones at atoms; never an observed range."""

    def support(self, values, asked=None, atoms=True):
        return tuple(learn(values, asked, atoms=atoms).support[1].tolist())

    def test_given_ones(self):
        values = RNG.uniform(0.1, 0.9, N)
        assert self.support(values, {"low": 0}, atoms=False) == (0, np.inf)
        assert self.support(values, {"high": 1}) == (-np.inf, 1)
        assert self.support(values, {"low": -3, "high": 5}) == (-3, 5)

    def test_zero_if_it_is_an_atom_and_no_value_is_less(self):
        rest = RNG.gamma(2, size=970) + 0.01
        assert self.support(np.r_[rest, np.zeros(30)]) == (0, np.inf)
        assert self.support(np.r_[rest, np.zeros(30)], atoms=False) == (-np.inf, np.inf)
        assert self.support(rest) == (-np.inf, np.inf)
        assert self.support(np.r_[rest, np.zeros(200), -0.5]) == (-np.inf, np.inf)
        assert self.support(np.r_[rest, np.zeros(30)], {"atoms": [0]}) == (0, np.inf)
        assert self.support(np.r_[rest, np.zeros(30)], {"atoms": []}) == (-np.inf, np.inf)

    def test_one_if_it_is_an_atom_and_all_values_are_shares(self):
        rest = RNG.uniform(0.05, 0.95, 900)
        assert self.support(np.r_[rest, np.ones(200)]) == (-np.inf, 1)
        assert self.support(np.r_[rest, np.ones(200), np.zeros(30)]) == (0, 1)
        assert self.support(np.r_[rest, np.ones(200), 1.5]) == (-np.inf, np.inf)

    def test_none_if_none_is_asked_for(self):
        values = np.r_[RNG.gamma(2, size=970) + 0.01, np.zeros(30)]
        columns = learn(values, {"low": None}, atoms=True)
        assert (columns.atoms[1], columns.support[1].tolist()) == ((0.0,), [-np.inf, np.inf])

    def test_other_columns_have_none(self):
        iris = load_iris(as_frame=True).data
        assert not learn_columns(iris, kinds="all", atoms=True).support.isfinite().any()
        assert self.support(RNG.poisson(3, 200)) == (-np.inf, np.inf)


class TestUnseen:
    def columns(self):
        frame = pd.DataFrame({"x": [0.5, 1.5, 2.5], "town": ["Bonn", "Rome", None], "one": [1, 1, 1]})
        with pytest.warns(UserWarning, match="one value"):
            return learn_columns(frame, kinds="all")

    def test_one_warning_names_the_first_and_counts_the_rest(self):
        columns = self.columns()
        new = pd.DataFrame({"x": [0.5, None, 0.0], "town": ["Rome", "Oslo", "Paris"], "one": [1, 1, 2]})
        message = r"X holds 'Oslo' in row 1, column 'town', which was not in the training data, and 2 more cells hold"
        with pytest.warns(UserWarning, match=message) as heard:
            codes = columns.codes(new)
        assert len(heard) == 1
        assert_array_equal(codes.x, [[0.5, 1, 0], [NAN, NAN, 0], [0, NAN, NAN]])
        assert_array_equal(codes.unseen, [[0, 0, 0], [0, 1, 0], [0, 1, 1]])
        assert codes.x.dtype == torch.float64

    def test_unseen_and_seen_share_the_probability_one(self):
        """ε_j = 1/(n_j + 1): the levels' probabilities times 1 - ε_j, and ε_j for all others, sum to 1."""
        columns = self.columns()
        assert columns.n_observed.tolist() == [3, 2, 3]
        unseen = torch.tensor([[False, True, False], [False, False, True], [False, True, True], [False] * 3])
        assert_allclose(columns.log_unseen(unseen).exp(), [1 / 3, 1 / 4, 1 / 12, 1])
        seen = torch.ones(1, 3, dtype=torch.bool)
        assert_allclose(columns.log_seen_discount(seen).exp(), [2 / 3 * 3 / 4])
        assert_allclose(columns.log_unseen(unseen[:1]).exp() + columns.log_seen_discount(unseen[:1]).exp(), 1)

    def test_the_discount_of_carcinoma(self):
        """118 rows of 7 levels each: it would cost 6.9705 nats in all (MATH, section 13)."""
        frame = pd.DataFrame({name: cycle([1, 2], 118) for name in "ABCDEFG"})
        columns = learn_columns(frame, kinds="all")
        seen = torch.ones(118, 7, dtype=torch.bool)
        assert_allclose(columns.log_seen_discount(seen).sum(), -6.9705, atol=5e-5)

    @pytest.mark.parametrize(
        ("asked", "value", "message"),
        [
            ("count", -1, r"X holds -1 in row 0, column 'b', which is a column of counts: 0, 1, 2, \.\.\.; correct"),
            ("count", 1.5, r"X holds 1\.5 in row 0, column 'b', which is a column of counts"),
            ({"low": 0}, -0.5, r"X holds -0\.5 in row 0, column 'b', which is between 0 and inf; correct the value or"),
            ("number", "x", r"X holds 'x' in row 0, column 'b', which is a column of numbers, but this is not one"),
            (
                "number",
                pd.Timestamp(2020, 1, 1),
                r"X holds dates or times in column 'b' .*, but the model was fitted on",
            ),
            ("number", np.inf, r"X contains infinity, first in row 0, column 'b'"),
        ],
    )
    def test_a_number_that_cannot_be_is_an_error(self, asked, value, message):
        columns = learn(cycle([1, 2, 3]), asked)
        with pytest.raises(ValueError, match=message):
            columns.codes(pd.DataFrame({"a": [0.5], "b": [value]}))

    def test_numbers_are_not_copied(self):
        x = RNG.normal(size=(50, 3))
        assert np.shares_memory(learn_columns(x, kinds="all").codes(x).x.numpy(), x)


class TestPrint:
    def test_one_line_per_column(self):
        frame = pd.DataFrame(
            {
                "id": [f"row {i}" for i in range(100)],
                "gain": np.r_[np.zeros(40), np.linspace(1, 3.25, 60)],
                "day": pd.date_range("2020-01-01", periods=100),
                "one": 1,
                "town": cycle(["Bonn", None, "Rome", "Oslo"], 100),
                "visits": RNG.negative_binomial(2, 0.1, 100).clip(0, 40),
            }
        )
        frame.loc[0, "visits"], frame.loc[1, "visits"] = 0, 40
        with pytest.warns(UserWarning, match="left out|one value"):
            columns = learn_columns(frame, kinds="all", atoms=True)
        assert str(columns).splitlines() == [
            "column  kind      values                             bounds   atoms  missing  measure",
            "gain    number    0 to 3.25                          above 0  0      0.0%     both",
            "day     date      2020-01-01 to 2020-04-09, in days                  0.0%     density",
            "one     constant  1                                                  0.0%     probability",
            "town    level     Bonn, Oslo, Rome                                   25.0%    probability",
            "visits  count     0 to 40                                            0.0%     probability",
            "left out: 'id'",
        ]

    def test_bounds_are_shown_where_there_are_any(self):
        columns = learn(RNG.uniform(0.1, 0.9, N), {"low": 0, "high": 1})
        assert str(columns).splitlines()[0].split() == ["column", "kind", "values", "bounds", "atoms", *HEAD_END]
        assert " 0 to 1 " in str(columns)
        assert " below 2 " in str(learn(RNG.uniform(0.1, 0.9, N), {"high": 2}))
        assert "bounds" not in str(learn(RNG.uniform(0.1, 0.9, N)))

    def test_scaled_numbers_of_arrays_have_a_mean_and_a_deviation(self):
        assert str(learn_columns(np.array([[1.0, 0.0], [3.0, 1.0]]), {1: "yes/no"})).splitlines() == [
            "column  kind    values  atoms  missing  measure",
            "0       number  2 ± 1          0.0%     density",
            "1       yes/no  0, 1           0.0%     probability",
        ]

    def test_many_columns_are_cut(self):
        assert str(learn_columns(RNG.normal(size=(9, 784)))).endswith("... and 744 more columns")


def test_polars_and_arrays_have_the_same_rules():
    table = {"a": cycle([0.5, 1.5, 2.5]), "b": cycle([1, 2, 3, 4]), "c": cycle(["u", "v", "w"]), "d": cycle([0, 1])}
    expected = ("number", "level", "level", "yes/no")
    assert learn_columns(pd.DataFrame(table), kinds="all").kinds == expected
    assert learn_columns(pl.DataFrame(table), kinds="all").kinds == expected
    array = np.column_stack([table["a"], table["b"], table["d"]])
    assert learn_columns(array, kinds="all").kinds == ("number", "level", "yes/no")
    assert learn_columns(torch.from_numpy(array), kinds="all").kinds == ("number", "level", "yes/no")


def test_whole_numbers_that_floats_cannot_tell_apart_are_no_constant():
    table = pd.DataFrame({"account": [10**17, 10**17 + 1] * 20, "size": [1.5, 2.5] * 20})
    with pytest.raises(ValueError, match=r"X holds 1000.* in column 'account', too large a number to"):
        learn_columns(table, kinds="all")
    assert learn_columns(table, {"account": "left out"}, kinds="all").left_out == ("account",)
