"""Columns that are joined give what they give one by one, by direct sums over the entries."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from column_families import batch_of, tensor
from jensen.engines.em.batch import Batch, Footprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.loop import sweep
from jensen.engines.em.sources import ArraySource
from jensen.models.mixtures.em import MixtureTheta, SmoothMixtureVerbs
from jensen.models.mixtures.families.bernoulli import BernoulliFamily
from jensen.models.mixtures.families.categorical import CategoricalFamily
from jensen.models.mixtures.families.lookup import Codes, Table, groups_of, layout_of, numbers_of
from jensen.models.mixtures.families.negative_binomial import NegativeBinomialFamily
from jensen.models.mixtures.gaussians import STRUCTURES
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.product import ProductFamily

SIZES = (2, 3, 1, 2, 40, 2, 2, 7, 300)
K = 3


def rows(n, share_missing, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.integers(0, size, n) for size in SIZES]).astype(float)
    x[rng.random(x.shape) < share_missing] = np.nan
    return x


def codes_of(batch):
    return Codes.of(batch, *numbers_of(batch.x, SIZES), SIZES)


@pytest.mark.parametrize("share_missing", [0.0, 0.2])
@pytest.mark.parametrize("n", [5, 100, 3000, 20_000])
def test_a_look_up_is_the_sum_over_the_columns(n, share_missing):
    rng, x = np.random.default_rng(1), rows(n, share_missing)
    values = np.log(rng.random((K, sum(SIZES))))
    values[0, 1] = values[1, 6] = -np.inf  # an impossible value stays impossible, and makes no other one so
    first = np.cumsum(SIZES) - SIZES
    numbers = np.nan_to_num(x).astype(int) + first
    expected = np.where(np.isnan(x), 0, values[:, numbers]).sum(2)
    codes = codes_of(batch_of(x))
    assert (codes.matrices is codes.matrices) == (n <= 3000)
    found = codes.lookup(Table(tensor(values), layout_of(SIZES)))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    r = rng.random((K, n))
    tally, mass = codes.tally(tensor(r))
    for j, size in enumerate(SIZES):
        for level in range(size):
            np.testing.assert_allclose(tally[:, first[j] + level], r @ (x[:, j] == level), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mass, r.sum(1))


def test_many_rows_join_columns_and_few_do_not():
    assert len(codes_of(batch_of(rows(5, 0))).groups) == len(SIZES)
    assert len(codes_of(batch_of(rows(3000, 0))).groups) == 3
    wide = (2,) * 100
    batch = batch_of(np.zeros((10_000, 100)))
    codes = Codes.of(batch, *numbers_of(batch.x, wide), wide)
    assert codes.index.shape == (10_000, 13)
    assert codes.index.dtype == np.uint8


def test_the_joint_values_are_all_combinations():
    (group,) = groups_of((2, 3), 6)
    one_hot = [np.r_[np.eye(2)[a], np.eye(3)[b]] for a, b in product(range(2), range(3))]
    np.testing.assert_array_equal(group.members, one_hot)
    assert len(groups_of((2, 3), 5)) == 2


@pytest.mark.parametrize("wrong", [-1.0, 0.5, 2.0, 258.0, 1e200, np.inf])
def test_a_value_outside_excludes_its_row_alone(wrong):
    x = rows(50, 0.2)
    x[7, 0], x[8, 0] = wrong, np.nan
    values = np.log(np.random.default_rng(0).random((K, sum(SIZES))))
    found = codes_of(batch_of(x)).lookup(Table(tensor(values), layout_of(SIZES)))
    assert torch.isneginf(found[:, 7]).all()
    assert torch.isfinite(found[:, np.arange(50) != 7]).all()


def test_blocks_keep_their_shape():
    x = rows(12, 0.0)
    values = tensor(np.log(np.random.default_rng(0).random((K, sum(SIZES)))))
    flat, table = batch_of(x), Table(values, layout_of(SIZES))
    blocks = flat.x.unflatten(1, (3, 4)).permute(1, 0, 2)
    batch = Batch(blocks, torch.arange(12).reshape(3, 4), None, None, None, torch.zeros(1))
    codes = Codes.of(batch, *numbers_of(flat.x, SIZES), SIZES)
    found = codes.lookup(table)
    assert found.shape == (3, K, 4)
    torch.testing.assert_close(found.permute(1, 0, 2).flatten(1), codes_of(flat).lookup(table))


def test_a_pickle_has_no_joint_tables():
    table = Table(torch.zeros(K, sum(SIZES), dtype=torch.float64), layout_of(SIZES))
    codes_of(batch_of(rows(3000, 0))).lookup(table)
    assert table.joints
    assert not pickle.loads(pickle.dumps(table)).joints


@pytest.mark.parametrize("share_missing", [0.0, 0.3])
@pytest.mark.parametrize("structure", ["diag", "full"])
def test_a_sweep_over_what_is_held_is_the_sweep_over_the_rows(structure, share_missing):
    rng, n = np.random.default_rng(0), 400
    x = np.column_stack(
        [rng.normal(size=(n, 2)), rng.integers(0, 2, (n, 3)), rng.integers(0, 4, n), rng.poisson(3, (n, 2))]
    )
    x[rng.random(x.shape) < share_missing] = np.nan
    x, columns = tensor(x), ((0, 1), (2, 3, 4), (5,), (6, 7))
    counts = NegativeBinomialFamily.of(x[:, 6:])
    parts = (GaussianFamily(STRUCTURES[structure], 1e-6), BernoulliFamily(), CategoricalFamily((4,)), counts)
    family = ProductFamily(parts, columns)
    standard = family.standard(K, 8)
    options = {"footprint": Footprint(10**4, 10**4), "by_pattern": standard.by_pattern}
    raw = ArraySource.of_rows(x, Frame.identity(8), **options)
    held = ArraySource.of_rows(x, Frame.identity(8), hold=standard.hold, **options)
    assert all(batch.x.numel() == 0 for batch in held)
    verbs, theta = SmoothMixtureVerbs(family, K, 8), MixtureTheta(tensor([0.2, 0.3, 0.5]), standard)
    for _ in range(3):
        one, two = sweep(verbs, theta, raw), sweep(verbs, theta, held)
        torch.testing.assert_close(one.bound, two.bound, rtol=1e-13, atol=0)
        theta, other = verbs.m_step(theta, one.stats), verbs.m_step(theta, two.stats)
        torch.testing.assert_close(verbs.pack(theta), verbs.pack(other), rtol=1e-10, atol=1e-10)
        # Components that start alike stay alike.
        theta = MixtureTheta(
            theta.weights, replace(theta.components, parts=(apart(theta), *theta.components.parts[1:]))
        )


def apart(theta):
    gaussians = theta.components.parts[0]
    return replace(gaussians, means=gaussians.means + torch.arange(K)[:, None])
