"""Categorical columns: different numbers of levels, one level, naive Bayes, the most probable level."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import dirichlet
from sklearn.naive_bayes import CategoricalNB

from column_families import batch_of, log_density, tensor
from jensen.models.mixtures.families.categorical import CategoricalFamily, Categoricals

LEVELS = (2, 1, 3)
P = [[0.3, 0.7, 1.0, 0.0, 0.4, 0.6], [1.0, 0.0, 1.0, 0.2, 0.5, 0.3]]
EVERY = np.array([*product(*map(range, LEVELS))], dtype=float)


def test_probabilities_sum_to_1():
    found = log_density(Categoricals(tensor(P), LEVELS), EVERY)
    assert not found.isnan().any()
    torch.testing.assert_close(found.exp().sum(0), torch.ones(2, dtype=torch.float64))


def test_a_column_with_one_level_costs_nothing():
    components = Categoricals(tensor(P), LEVELS)
    assert components.n_parameters == 2 * (1 + 0 + 2)
    without = Categoricals(tensor(P)[:, [0, 1, 3, 4, 5]], (2, 3))
    torch.testing.assert_close(log_density(components, EVERY), log_density(without, EVERY[:, [0, 2]]))
    family = CategoricalFamily(LEVELS, 2.0)
    inside = tensor(P).clamp(min=0.05)
    a = family.log_prior(Categoricals(inside, LEVELS))
    b = CategoricalFamily((2, 3), 2.0).log_prior(Categoricals(inside[:, [0, 1, 3, 4, 5]], (2, 3)))
    torch.testing.assert_close(a, b)


def test_a_level_out_of_range_has_probability_0():
    components = Categoricals(tensor(P), LEVELS)
    for wrong in (
        [2.0, 0.0, 1.0],
        [0.0, 1.0, 1.0],
        [0.0, 0.0, 3.0],
        [0.0, 0.0, 0.5],
        [-1.0, 0.0, 1.0],
        [0.0, 0.0, 1e300],
    ):
        assert torch.isneginf(log_density(components, [wrong, [0.0, 0.0, 1.0]])[0]).all()
        with pytest.raises(ValueError, match=r"column .* holds .* raise its number of levels"):
            CategoricalFamily(LEVELS).check(tensor([wrong]), ["a", "b", "c"])
    CategoricalFamily(LEVELS).check(tensor([[1.0, np.nan, 2.0]]), ["a", "b", "c"])


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_the_mode_is_categorical_naive_bayes(alpha):
    rng = np.random.default_rng(0)
    x, y = np.column_stack([rng.integers(0, n, 80) for n in (2, 4, 3)]), rng.integers(0, 3, 80)
    theirs = CategoricalNB(alpha=alpha).fit(x, y)
    family = CategoricalFamily((2, 4, 3), alpha + 1)
    standard = family.standard(3, 3)
    ours = family.m_step(standard, standard.moments(tensor(np.eye(3)[y].T), standard.view(batch_of(x.astype(float)))))
    np.testing.assert_allclose(ours.probabilities.log(), np.concatenate(theirs.feature_log_prob_, 1), rtol=1e-12)


def test_the_prior_is_a_density():
    inside = (tensor(P).clamp(min=0.1)).numpy()
    parts = [inside[:, :2], inside[:, 3:]]
    parts = [part / part.sum(1, keepdims=True) for part in parts]
    expected = sum(dirichlet.logpdf(row, np.full(len(row), 1.7)) for part in parts for row in part)
    p = np.concatenate([parts[0], np.ones((2, 1)), parts[1]], 1)
    assert float(CategoricalFamily(LEVELS, 1.7).log_prior(Categoricals(tensor(p), LEVELS))) == pytest.approx(expected)
    uneven = tensor([1.5, 2.0, 1.0, 3.0, 1.0, 2.5])
    expected = sum(dirichlet.logpdf(row, [1.5, 2.0]) for row in parts[0])
    expected += sum(dirichlet.logpdf(row, [3.0, 1.0, 2.5]) for row in parts[1])
    assert float(CategoricalFamily(LEVELS, uneven).log_prior(Categoricals(tensor(p), LEVELS))) == pytest.approx(
        expected
    )


def test_a_missing_level_becomes_the_most_probable_one():
    components = Categoricals(tensor(P), LEVELS)
    batch = batch_of([[np.nan, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    q = tensor([[1.0, 0.1], [0.0, 0.9]])
    assert components.given(batch).expected(q).T.tolist() == [[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]]
    drawn = components.given(batch).draw(torch.tensor([0, 1]), torch.Generator().manual_seed(0))
    assert drawn.shape == (3, 2)
    assert drawn[0, 1] == 0
    assert (drawn[1] == 0).all()


def test_draws_have_the_probabilities_of_their_levels():
    drawn = Categoricals(tensor(P), LEVELS).draw(
        torch.ones(40_000, dtype=torch.int64), torch.Generator().manual_seed(0)
    )
    for level, p in enumerate(P[1][3:]):
        assert abs(float((drawn[:, 2] == level).double().mean()) - p) < 4 * (p * (1 - p) / 40_000) ** 0.5


def test_levels_and_rows_must_agree():
    with pytest.raises(ValueError, match=r"levels=\(2, 1, 3\) has 3 columns, the rows have 2"):
        CategoricalFamily(LEVELS).standard(2, 2)
    with pytest.raises(ValueError, match=r"levels=\(2, 0\) has a column without levels"):
        CategoricalFamily((2, 0))
