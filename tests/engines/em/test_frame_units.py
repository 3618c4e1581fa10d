"""Units of columns whose values are nearly all alike: their range, which pixels share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture as Theirs

from jensen import GaussianMixture
from jensen.engines.em.frame import ROOM, sharp_units


def units(x):
    x = np.asarray(x, dtype=np.float64)
    return sharp_units(*map(torch.from_numpy, (x.var(0), x.min(0), x.max(0)))).sqrt().numpy()


def test_an_ordinary_column_keeps_its_deviation():
    x = np.random.default_rng(0).normal(size=(100_000, 3)) * [1.0, 10.0, 0.01]
    assert_allclose(units(x), x.std(0))


def test_a_column_of_zeros_but_for_one_has_its_range():
    x = np.zeros((1000, 2))
    x[0, 0], x[:, 1] = 0.2, np.arange(1000)
    assert_allclose(units(x), [0.2 * np.sqrt(ROOM), x[:, 1].std()])


def test_a_column_with_a_few_other_values_keeps_its_deviation():
    """One row in a hundred is enough for components of their own, as in columns of counts that are mostly 0."""
    x = np.zeros((2000, 1))
    x[::100] = 1.0
    assert_allclose(units(x), x.std(0))


def test_pixels_share_their_range_and_other_columns_do_not():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 17, size=(500, 20)).astype(float)
    pixels[0], pixels[1] = 0, 16
    dark = np.zeros((500, 2))
    dark[7] = 3
    other = rng.normal(size=(500, 1))
    found = units(np.hstack([pixels, dark, other]))
    assert_allclose(found, [16 * np.sqrt(ROOM)] * 22 + [other.std()])
    # Too few columns to tell a unit.
    assert_allclose(
        units(np.hstack([pixels[:, :5], dark])), [*pixels[:, :5].std(0), dark[:, 0].std(), dark[:, 1].std()]
    )
    dark = np.vstack([dark, np.zeros((500, 2))])
    assert_allclose(units(dark), 3 * np.sqrt(ROOM))


@pytest.mark.parametrize("unit", [1.0, 1 / 16, 1000.0])
def test_held_out_pixels_score_alike_in_every_unit(unit):
    x = load_digits().data
    trained, held_out = x[::2] * unit, x[1::2] * unit
    keep = trained.std(0) > 0  # a constant has no density
    model = GaussianMixture(10, covariance_type="diag", init_params="kmeans", random_state=0).fit(trained[:, keep])
    score = model.score(held_out[:, keep]) + keep.sum() * np.log(unit)
    theirs = Theirs(10, covariance_type="diag", reg_covar=1e-6, random_state=0).fit(trained[:, keep] / unit / 16)
    least = theirs.score(held_out[:, keep] / unit / 16) - keep.sum() * np.log(16)
    assert score > least - 1.0
