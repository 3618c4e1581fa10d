"""Rows that each miss other entries: the same E-step as in blocks, and draws with the right moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from jensen.engines.em.batch import Batch
from jensen.engines.em.frame import Frame
from jensen.engines.em.loop import sweep
from jensen.engines.em.sources import ArraySource
from jensen.models.mixtures.em import MixtureTheta, MixtureVerbs
from jensen.models.mixtures.gaussians import STRUCTURES
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.inference import given_observed

K, D = 2, 6


def gaussians(structure: str, least: float = 0.1):
    """Means and covariances, of which the first has an eigenvalue of `least`."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(K, D, D)))[0]
    values = np.stack([np.r_[least, np.linspace(0.5, 2, D - 1)], np.linspace(0.3, 3, D)])
    full = torch.from_numpy((vectors * values[:, None]) @ vectors.transpose(0, 2, 1))
    return STRUCTURES[structure].from_full(torch.from_numpy(rng.normal(size=(K, D))), full)


@pytest.mark.parametrize("least", [0.1, 1e-9], ids=["regular", "nearly singular"])
@pytest.mark.parametrize("structure", ["full", "tied"])
def test_rows_and_blocks_have_the_same_statistics(structure, least):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(D, 300))
    x[rng.random(x.shape) < 0.3] = np.nan
    components = gaussians(structure, least)
    verbs = MixtureVerbs(GaussianFamily(STRUCTURES[structure], 0.0, None), K, D)
    theta = MixtureTheta(torch.tensor([0.3, 0.7], dtype=torch.float64), components)
    weight = torch.from_numpy(rng.random(300))

    def swept(fewest: int):
        footprint = replace(components.footprint, fewest_in_block=fewest)
        source = ArraySource(torch.from_numpy(x.copy()), Frame.identity(D), weight=weight, footprint=footprint)
        return sweep(verbs, theta, source), {batch.x.ndim for batch in source if batch.observed is not None}

    (blocks, of_blocks), (rows, of_rows) = swept(1), swept(1000)
    assert (of_blocks, of_rows) == ({3}, {2})
    # Squares of a nearly singular component are about 1e9.
    assert_allclose(rows.bound, blocks.bound, rtol=1e-9)
    for name in ("mass", "first", "second"):
        assert_allclose(getattr(rows.stats, name), getattr(blocks.stats, name), rtol=1e-9, atol=1e-9)


def test_patterns_of_many_rows_are_blocks():
    x = torch.zeros(D, 40, dtype=torch.float64)
    x[0, :20], x[1, 20:25] = torch.nan, torch.nan
    source = ArraySource(x, Frame.identity(D), footprint=gaussians("full").footprint)
    found = {batch.x.ndim: sorted(batch.rows.flatten().tolist()) for batch in source if batch.observed is not None}
    assert found == {3: list(range(20)), 2: list(range(20, 25))}


def test_draws_given_what_is_observed():
    components, n = gaussians("full"), 40_000
    row = torch.tensor([0.5, torch.nan, -1.0, torch.nan, torch.nan, 0.2], dtype=torch.float64)
    x = row.nan_to_num()[:, None].expand(-1, n)
    observed = ~row.isnan()[:, None].expand(-1, n)
    batch = Batch(x, torch.arange(n), None, observed, None, torch.zeros(1).double())
    mean, cov = given_observed(components, row)
    component = torch.ones(n, dtype=torch.int64)
    drawn = components.given(batch).draw(component, torch.Generator().manual_seed(0))
    assert_allclose(drawn[observed], x[observed], atol=1e-12)
    deviation = cov[1].diagonal().sqrt()
    # Five standard errors of a mean, and of a (co)variance.
    assert (drawn.mean(1) - mean[1]).abs().le(5 * deviation / n**0.5 + 1e-12).all()
    assert (torch.cov(drawn) - cov[1]).abs().le(5 * (2 / n) ** 0.5 * torch.outer(deviation, deviation) + 1e-12).all()
