"""K-medoids of mixed tables: Gower's distance by hand and by two loops, missing and unseen values, tables and files."""

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jensen
from jensen import KMedoids, select
from jensen.data.codes import UnseenValueWarning

# Ranges: age 40, visits 4. Town has three levels, smokes two.
HAND = pd.DataFrame(
    {
        "age": [20.5, 60.5, 30.5, np.nan],
        "visits": [0, 4, 1, 1],
        "town": ["Bonn", "Rome", None, "Oslo"],
        "smokes": [True, False, True, True],
    }
)
BY_HAND = [
    [0, 4 / 4, (10 / 40 + 1 / 4 + 0) / 3, (1 / 4 + 1 + 0) / 3],
    [4 / 4, 0, (30 / 40 + 3 / 4 + 1) / 3, (3 / 4 + 1 + 1) / 3],
    [(10 / 40 + 1 / 4 + 0) / 3, (30 / 40 + 3 / 4 + 1) / 3, 0, (0 + 0) / 2],
    [(1 / 4 + 1 + 0) / 3, (3 / 4 + 1 + 1) / 3, (0 + 0) / 2, 0],
]


def gower(k=2, **arguments):
    return KMedoids(k, metric="gower", **{"random_state": 0} | arguments)


def mixed(n=120, share=0.1, seed=0):
    """Two groups of rows with numbers, counts, text, truth values and dates, and the group of each."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {
            "height": np.where(z, 180.3, 160.1) + 5 * rng.normal(size=n),
            "visits": rng.poisson(np.where(z, 30, 3)),
            "town": np.where(rng.random(n) < 0.9, np.array(["Bonn", "Rome"])[z], "Oslo"),
            "smokes": rng.random(n) < np.where(z, 0.9, 0.1),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.where(z, 900, 0) + rng.integers(90, size=n), "D"),
        }
    )
    frame["smokes"] = frame["smokes"].astype("boolean")
    return frame.mask(rng.random(frame.shape) < share), z


def by_loops(a, b, table, numbers, weights):
    """Row by row and column by column, from the table itself."""
    ranges = {name: table[name].max() - table[name].min() for name in numbers}
    typical = 0.0
    for column, weight in weights.items():
        seen = list(table[column].dropna())
        pairs = [abs((x - y) / ranges[column]) if column in numbers else x != y for x in seen for y in seen]
        typical += weight * np.mean(pairs) / sum(weights.values())
    out = np.empty((len(a), len(b)))
    for i, j in itertools.product(range(len(a)), range(len(b))):
        total = compared = 0.0
        for column in a.columns:
            x, y = a[column].iloc[i], b[column].iloc[j]
            if pd.isna(x) or pd.isna(y):
                continue
            apart = abs((x - y) / ranges[column]) if column in numbers else float(x != y)
            total, compared = total + weights[column] * apart, compared + weights[column]
        out[i, j] = total / compared if compared else typical
    return out


def test_a_table_by_hand():
    for init in itertools.combinations(range(4), 2):
        model = gower(init=list(init), max_iter=0).fit(HAND)
        assert_allclose(model.transform(HAND), np.array(BY_HAND)[:, init], atol=1e-15)
    best = gower(n_init=5).fit(HAND)
    assert best.inertia_ == pytest.approx(min(np.array(BY_HAND)[:, m].min(1).sum() for m in ([0, 1], [1, 2], [1, 3])))


@pytest.mark.parametrize("weighted", [False, True])
def test_distances_are_those_of_two_loops(weighted):
    frame, _ = mixed(60)
    numbers = ["height", "visits", "since"]
    weights = dict.fromkeys(frame.columns, 1.0) | ({"town": 2.5, "visits": 0.0} if weighted else {})
    given = {"weights": {"town": 2.5, "visits": 0}} if weighted else None
    model = gower(3, metric_params=given).fit(frame)
    medoids = frame.iloc[model.medoid_indices_]
    expected = by_loops(frame, medoids, frame, numbers, weights)
    assert_allclose(model.transform(frame), expected, atol=1e-13)
    assert_array_equal(model.labels_, model.predict(frame))
    assert model.inertia_ == pytest.approx(expected.min(1).sum())
    assert_allclose(model.pairwise(frame), by_loops(frame, frame, frame, numbers, weights), atol=1e-13)


def test_small_tables_reach_the_optimum_of_all_sets_of_medoids():
    for seed in range(3):
        frame, _ = mixed(14, seed=seed)
        frame = frame.drop(columns="town")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            distances = gower(1).fit(frame).pairwise(frame)
            best = min(distances[list(m)].min(0).sum() for m in itertools.combinations(range(14), 3))
            assert gower(3, n_init=8).fit(frame).inertia_ == pytest.approx(best, rel=1e-9)


def test_groups_of_mixed_rows_are_found():
    frame, z = mixed()
    labels = gower().fit_predict(frame)
    assert max((labels == z).mean(), (labels != z).mean()) > 0.97


def test_medoids_come_back_as_rows_of_the_table():
    frame, _ = mixed()
    model = gower(3).fit(frame)
    medoids = model.cluster_centers_
    expected = frame.iloc[model.medoid_indices_].reset_index(drop=True)
    pd.testing.assert_frame_equal(medoids, expected)
    assert model.columns_.kinds == ("number", "count", "level", "yes/no", "date")
    table = pl.DataFrame({"a": [1.5, 2.5, 9.5, None], "b": ["x", "x", "y", "y"]})
    found = gower().fit(table).cluster_centers_
    assert isinstance(found, pl.DataFrame)
    assert found.schema == table.schema


def test_a_level_that_was_not_in_the_training_data_differs_from_all():
    frame, _ = mixed(share=0)
    model = gower().fit(frame)
    row = frame.iloc[[model.medoid_indices_[0]]].assign(town="Paris")
    with pytest.warns(UnseenValueWarning, match="'Paris'.*differs from every level"):
        found = model.transform(row)
    assert found[0, 0] == pytest.approx(1 / 5)
    same = frame.iloc[[model.medoid_indices_[0]]]
    assert model.transform(same)[0, 0] == 0


def test_a_number_beyond_the_range_may_be_farther_than_1():
    model = gower(1).fit(pd.DataFrame({"a": [0.5, 1.25, 2.5], "b": ["x", "x", "y"]}))
    row = pd.DataFrame({"a": [20.5], "b": ["x"]})
    centre = float(model.cluster_centers_["a"].iloc[0])
    assert model.transform(row)[0, 0] == pytest.approx((20.5 - centre) / 2 / 2)


def test_rows_without_a_common_column_are_as_far_apart_as_two_rows_on_average():
    frame = pd.DataFrame({"a": [1.5, np.nan, 2.5, 4.0], "b": [None, "x", "y", "y"]})
    a, b = frame["a"].dropna().to_numpy(), frame["b"].dropna().to_numpy()
    mean_a, mean_b = np.abs(a[:, None] - a).mean() / 2.5, (b[:, None] != b).mean()
    distances = gower().fit(frame).pairwise(frame)
    assert distances[0, 1] == pytest.approx((mean_a + mean_b) / 2)
    assert distances[0, 2] == pytest.approx(1 / 2.5)
    model = gower(metric_params={"weights": [3, 1]}).fit(frame)
    assert model.pairwise(frame)[0, 1] == pytest.approx((3 * mean_a + mean_b) / 4)
    empty = pd.DataFrame({"a": [np.nan], "b": [None]})
    assert_allclose(model.transform(empty), (3 * mean_a + mean_b) / 4)


def test_constants_do_not_count_and_identifiers_are_left_out():
    frame, _ = mixed()
    plain = gower(3).fit(frame)
    more = frame.assign(same="x", name=[f"row {i}" for i in range(len(frame))])
    with pytest.warns(UserWarning, match="one value: 'same'|left out: 'name'"):
        model = gower(3).fit(more)
    assert_allclose(model.transform(more), plain.transform(frame))
    assert list(model.cluster_centers_.columns) == [*frame.columns, "same"]


def test_columns_can_be_told():
    frame = pd.DataFrame({"grade": [1, 2, 3, 5] * 10, "x": np.linspace(0.1, 1, 40)})
    assert gower().fit(frame).columns_.kinds[0] == "level"
    model = gower(columns={"grade": "number"}).fit(frame)
    assert model.columns_.kinds[0] == "number"
    row = frame.assign(grade=float(model.cluster_centers_["grade"].iloc[0]) + 1)
    near = model.transform(row.iloc[[int(model.medoid_indices_[0])]])[0, 0]
    assert near == pytest.approx(1 / 4 / 2)


def test_weights_are_repetitions_and_weight_0_leaves_a_row_out():
    frame, _ = mixed(80)
    count = np.random.default_rng(1).integers(0, 3, size=80)
    one = gower(3).fit(frame, sample_weight=count)
    other = gower(3).fit(frame.iloc[np.repeat(np.arange(80), count)])
    assert one.inertia_ == pytest.approx(other.inertia_)
    assert_array_equal(one.predict(frame), other.predict(frame))
    odd = frame.assign(town=frame["town"].where(count > 0, "Paris"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseenValueWarning)
        model = gower(3).fit(odd, sample_weight=count)
    assert model.inertia_ == pytest.approx(one.inertia_)
    assert len(model.labels_) == 80


def test_arrays_of_numbers():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=50), rng.integers(3, size=50)])
    model = gower(2).fit(x)
    assert model.columns_.kinds == ("number", "level")
    assert isinstance(model.cluster_centers_, np.ndarray)
    assert_array_equal(model.cluster_centers_, x[model.medoid_indices_])


def test_a_file_keeps_the_table(tmp_path):
    frame, _ = mixed()
    model = gower(3, metric_params={"weights": {"town": 2.0}}).fit(frame)
    model.save(tmp_path / "m.jensen")
    again = jensen.load(tmp_path / "m.jensen")
    pd.testing.assert_frame_equal(again.cluster_centers_, model.cluster_centers_)
    assert_array_equal(again.transform(frame), model.transform(frame))
    assert again.columns_.kinds == model.columns_.kinds


def test_the_silhouette_chooses_the_number_of_clusters():
    frame, _ = mixed(share=0)
    chosen = select(gower(), frame, {"n_clusters": [2, 3, 4]}, "silhouette")
    assert chosen.best_params == {"n_clusters": 2}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"weights": {"twon": 1}}, "weights names the column 'twon'"),
        ({"weights": [1, 2]}, "weights has 2 numbers, but X has 4 columns"),
        ({"weights": [1, 2, 3, -1]}, "weights.*-1.*0 or more"),
        ({"weights": "many"}, "weights='many'"),
        ({"weights": [0, 0, 0, 0]}, "weights.*at least one"),
        ({"p": 3}, "metric_params.*'p'.*weights"),
    ],
)
def test_wrong_parameters_are_named(params, words):
    with pytest.raises(ValueError, match=words):
        gower(metric_params=params).fit(HAND)


def test_columns_need_gower():
    with pytest.warns(UserWarning, match="columns is not used.*gower"):
        KMedoids(2, columns={0: "level"}, random_state=0).fit([[1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match=r"not numbers: 'town'"):
        KMedoids(2).fit(HAND)
