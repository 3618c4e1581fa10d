"""Attributes read from theta_, and parameters read from files and arguments."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from jensen import KMeans, LatentCurve, RidgeRegression
from jensen.contract.fitted import Values, not_negative, positive, probabilities, read_values

X = np.random.default_rng(0).normal(size=(40, 2))
SCHEMA = {
    "weights": Values("K", check=probabilities),
    "means": Values("K", "d"),
    "variance": Values(check=positive),
}
RECORD = {"weights": torch.tensor([0.25, 0.75]), "means": torch.zeros(2, 3), "variance": torch.tensor(2.0)}


class TestAttributes:
    def test_before_a_fit_there_are_none(self):
        with pytest.raises(NotFittedError):
            _ = KMeans().cluster_centers_
        assert not hasattr(LatentCurve(), "points_")

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_arrays_have_the_dtype_of_the_training_rows(self, dtype):
        model = KMeans(2, random_state=0).fit(X.astype(dtype))
        assert model.cluster_centers_.dtype == dtype
        assert model.cluster_weights_.dtype == np.float64

    def test_one_number_is_no_array(self):
        model = RidgeRegression().fit(X[:, :1], X[:, 1])
        assert isinstance(model.alpha_, float)
        assert isinstance(model.rank_, int)

    def test_what_cannot_be_set_says_so(self):
        model = LatentCurve(max_iter=1, tol=10.0).fit(X)
        with pytest.raises(AttributeError, match="points_ is read from theta_ and cannot be set; fit the model again"):
            model.points_ = model.points_ + 1

    def test_a_change_inside_an_array_is_an_error(self):
        model = KMeans(2, random_state=0).fit(X)
        with pytest.raises(ValueError, match="read-only"):
            model.cluster_centers_[0] = 0

    def test_nothing_is_set_before_a_fit(self):
        with pytest.raises(AttributeError, match="cluster_centers_ can only be set on a fitted KMeans; call fit first"):
            KMeans().cluster_centers_ = X[:2]


class TestValues:
    def test_a_record_of_a_fit_is_read_as_float64(self):
        found = read_values(RECORD, SCHEMA, d=3)
        assert list(found) == list(SCHEMA)
        assert {value.dtype for value in found.values()} == {torch.float64}
        assert_array_equal(found["weights"], [0.25, 0.75])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"means": torch.zeros(2, 4)}, r"means has shape \(2, 4\), but \(2, 3\) is needed"),
            ({"means": torch.zeros(3, 3)}, r"means has shape \(3, 3\), but \(2, 3\) is needed"),
            ({"means": torch.full((2, 3), torch.nan)}, "means holds NaN or infinity"),
            ({"weights": torch.zeros(0)}, r"weights has shape \(0,\), but \(K,\) is needed"),
            ({"weights": torch.tensor(1.0)}, r"weights has shape \(\), but \(K,\) is needed"),
            ({"weights": torch.tensor([0.5, 0.6])}, "weights must be 0 or more and sum to 1"),
            ({"variance": torch.tensor(0.0)}, r"variance must be positive, got 0\.0"),
            ({"variance": torch.tensor([1.0])}, r"variance has shape \(1,\), but \(\) is needed"),
        ],
    )
    def test_what_no_fit_could_have_left_is_refused(self, change, message):
        with pytest.raises(ValueError, match=message):
            read_values(RECORD | change, SCHEMA, d=3)

    def test_only_what_may_be_unknown_may_be_nan(self):
        unknown = torch.tensor([1.0, torch.nan])
        assert Values("t", allows_nan=True, check=not_negative).read("noise", unknown).isnan().tolist() == [False, True]
        with pytest.raises(ValueError, match="noise holds NaN or infinity"):
            Values("t", allows_nan=True).read("noise", [1.0, np.inf])

    def test_whole_numbers(self):
        assert Values(2, is_whole=True).read("space", [1, 2]).dtype == torch.int64
        with pytest.raises(ValueError, match="space must be whole numbers, got float64"):
            Values(2, is_whole=True).read("space", [1.0, 2.0])

    def test_values_are_copied(self):
        given = np.zeros(2)
        Values(2).read("means_init", given).fill_(1.0)
        assert_array_equal(given, 0)
