"""Scores of synthetic rows against scipy and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp, pearsonr

from jensen.tasks.synthesis.metrics import c2st, nearer_share, shapes, trends, utility

NUMBER = np.array([True, True, False, False])


def tables(n=400, seed=0):
    rng = np.random.default_rng(seed)
    real, new = (
        np.stack([rng.normal(size=n), rng.poisson(2 + shift, n), rng.integers(0, 3, n), rng.random(n) < 0.3 + shift], 1)
        for shift in (0.0, 0.2)
    )
    real[:, 1] += real[:, 0]
    real[:30, 0], new[:10, 2] = np.nan, np.nan
    return real, new


def test_shape_of_numbers_is_scipys_and_of_levels_by_counting():
    real, new = tables()
    found = shapes(real, new, NUMBER)
    for j in (0, 1):
        a, b = (x[~np.isnan(x[:, j]), j] for x in (real, new))
        assert found[j] == pytest.approx(1 - ks_2samp(a, b).statistic)
    for j in (2, 3):
        p, q = (pd.Series(x[:, j]).value_counts(normalize=True, dropna=False) for x in (real, new))
        assert found[j] == pytest.approx(1 - p.sub(q, fill_value=0).abs().sum() / 2)


def test_trend_of_numbers_is_by_correlation_and_of_others_by_counting_pairs():
    real, new = tables()
    found = trends(real, new, NUMBER)
    rhos = [pearsonr(*x[~np.isnan(x[:, :2]).any(1), :2].T)[0] for x in (real, new)]
    assert found[0, 1] == pytest.approx(1 - abs(rhos[0] - rhos[1]) / 2)
    edges = np.linspace(real[:, 1].min(), real[:, 1].max(), 11)
    binned = [x.copy() for x in (real, new)]
    for x in binned:
        x[:, 1] = np.clip(np.digitize(x[:, 1], edges) - 1, 0, 9)
    for i, j in combinations((1, 2, 3), 2):
        p, q = (pd.DataFrame(x[:, [i, j]]).value_counts(normalize=True, dropna=False) for x in binned)
        assert found[i, j] == found[j, i] == pytest.approx(1 - p.sub(q, fill_value=0).abs().sum() / 2)


def test_equal_tables_have_the_best_scores():
    real, _ = tables()
    assert shapes(real, real, NUMBER) == pytest.approx(1)
    assert trends(real, real, NUMBER)[np.triu_indices(4, 1)] == pytest.approx(1)


def test_the_two_sample_test_finds_a_difference_and_nothing_else():
    a, b = tables(seed=1)[0], tables(seed=2)[0]
    assert c2st(a, b, NUMBER) > 0.8
    shifted = b.copy()
    shifted[:, 0] += 10
    assert c2st(a, shifted, NUMBER) < 0.1


def test_utility_is_of_the_column_that_is_asked_for():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    rows = np.stack([x[:, 0], x[:, 1], x[:, 0] + 0.1 * x[:, 1], (x[:, 0] > 0)], 1)
    number = np.array([True, True, True, False])
    assert utility(rows[:300], rows[300:], number, 2) > 0.9
    assert utility(rows[:300], rows[300:], number, 3) > 0.99
    assert utility(rows[:300], rows[300:], number, 1) < 0.9
    permuted = np.stack([rng.permutation(column) for column in rows.T], 1)
    assert utility(permuted[:300], rows[300:], number, 3) == pytest.approx(0.5, abs=0.25)


def test_the_nearest_rows_by_brute_force():
    (train, held_out), new = tables(60), tables(30, seed=3)[0]
    both = np.concatenate([train, held_out])
    width = np.nanmax(both, 0) - np.nanmin(both, 0)

    def distance(a, b):
        parts = []
        for j in range(4):
            if np.isnan(a[j]) or np.isnan(b[j]):
                parts.append(float(np.isnan(a[j]) != np.isnan(b[j])))
            else:
                parts.append(abs(a[j] - b[j]) / width[j] if NUMBER[j] else float(a[j] != b[j]))
        return sum(parts)

    votes = []
    for row in new:
        a, b = (min(distance(row, other) for other in rows) for rows in (train, held_out))
        votes.append(0.5 if a == b else float(a < b))
    assert nearer_share(new, train, held_out, NUMBER) == pytest.approx(np.mean(votes))
    assert nearer_share(train, train, held_out, NUMBER) > 0.95


def test_a_row_as_near_to_both_counts_half():
    real, _ = tables(60)
    assert nearer_share(real, real, real[::-1], NUMBER) == 0.5
