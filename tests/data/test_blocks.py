"""Rows in blocks: one memory for the user's rows and ours where encoding changes nothing."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from jensen import VAE, Bernoulli
from jensen.data import blocks, scaled
from jensen.data.blocks import read_all, row_blocks
from jensen.data.rows import ColumnRules, learn_events

RNG = np.random.default_rng(0)
GREY = RNG.random((50, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "MOST_ENTRIES", 60)
    monkeypatch.setattr(scaled, "MOST_AT_ONCE", 60)


def test_blocks_are_all_rows_in_order():
    found = list(row_blocks(50, 6))
    assert_array_equal(np.concatenate(found), np.arange(50))
    assert {len(numbers) for numbers in found} == {10}


def test_rows_that_encoding_does_not_change_are_not_copied():
    x = GREY.copy()
    x[3, 2] = np.nan
    events = learn_events(VAE(), x, ColumnRules("yes/no"))[0]
    assert events.all().data_ptr() == x.ctypes.data
    assert_array_equal(events.all(), x)


@pytest.mark.parametrize("row", [0, 49])
def test_one_changed_bit_makes_a_copy_and_leaves_the_users_rows(row):
    x, before = GREY.copy(), GREY.copy()

    def read(numbers):
        block = torch.from_numpy(x[numbers].copy())
        block[numbers == row] += 1
        return block

    out = read_all(read, x.shape, x)
    assert out.data_ptr() != x.ctypes.data
    assert_array_equal(x, before)
    assert_array_equal(out, before + (np.arange(50) == row)[:, None])


@pytest.mark.parametrize("own", [None, GREY.astype(np.float64), GREY[:, ::-1], GREY[:40]])
def test_other_memory_cannot_be_shared(own):
    out = read_all(lambda numbers: torch.from_numpy(GREY[numbers]), GREY.shape, own)
    assert_array_equal(out, GREY)
    assert own is None or out.data_ptr() != own.ctypes.data


def test_rows_that_may_not_be_written_to_are_copied():
    x = GREY.copy()
    x.flags.writeable = False
    assert read_all(lambda numbers: torch.from_numpy(x[numbers]), x.shape, x).data_ptr() != x.ctypes.data


@pytest.mark.parametrize("likelihood", ["bernoulli", Bernoulli(resample=True), "gaussian"])
def test_training_writes_to_no_row_of_the_user(likelihood):
    x = GREY.copy()
    VAE(2, likelihood=likelihood, max_epochs=2, random_state=0).fit(x)
    assert_array_equal(x, GREY)


def test_moments_of_parts_are_those_of_the_whole():
    x = 1e3 + RNG.normal(size=(50, 6))
    x[RNG.random(x.shape) < 0.2] = np.nan
    mean, std = scaled.moments(x)
    # Sums of parts round otherwise: 1e3 is held to 1e-13.
    assert_allclose(mean, np.nanmean(x, 0), rtol=1e-13)
    assert_allclose(std, np.nanstd(x, 0), rtol=1e-11)
