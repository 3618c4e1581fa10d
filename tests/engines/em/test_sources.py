"""Batches cover every row once, in blocks that share their holes."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from jensen.engines.em.batch import Footprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.patterns import FEW_CELLS, of_similar_length, stack_by_pattern
from jensen.engines.em.sources import ArraySource
from jensen.formulas.moments import HeldExtent


def frame_of(x, weight=None):
    return Frame.of(HeldExtent(x, weight), torch.sqrt)


def test_the_frame_is_the_weighted_mean_and_deviation_of_observed_entries():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 50)) * 7 + 1e3
    weight = rng.integers(0, 4, size=50).astype(float)
    x[1, :10] = np.nan
    frame = frame_of(torch.tensor(x), torch.tensor(weight))
    for j in range(3):
        seen = ~np.isnan(x[j])
        mean = np.average(x[j, seen], weights=weight[seen])
        assert_allclose(frame.origin[j], mean)
        assert_allclose(frame.scale[j] ** 2, np.average((x[j, seen] - mean) ** 2, weights=weight[seen]))


def test_constant_columns_borrow_the_usual_spread():
    x = torch.tensor([[5.0, 5.0, 5.0], [0.0, 1.0, 2.0]]).double()
    frame = frame_of(x)
    assert frame.scale[0] == frame.scale[1]
    assert (frame_of(torch.full((2, 3), 1e8).double()).scale == 1).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_every_row_comes_once_with_its_own_holes(share):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 300))
    x[rng.random(x.shape) < share] = np.nan
    weight, label = torch.rand(300).double(), torch.arange(300)
    frame = Frame(torch.zeros(5).double(), torch.arange(1.0, 6).double())
    source = ArraySource(torch.tensor(x), frame, weight=weight, label=label, footprint=Footprint(10**6, 10**5))
    seen = []
    for batch in source:
        rows = batch.rows.reshape(-1)
        values = batch.x.movedim(-2, -1).reshape(-1, 5)
        real = rows < 300
        seen.extend(rows[real].tolist())
        expected = torch.tensor(x.T)[rows[real]] / frame.scale
        assert_allclose(values[real], expected.nan_to_num(nan=0.0))
        assert_allclose(batch.weight.reshape(-1)[real], weight[rows[real]])
        assert (batch.weight.reshape(-1)[~real] == 0).all()
        assert (batch.label.reshape(-1)[real] == rows[real]).all()
        if batch.observed is not None:
            pattern = batch.observed[:, None, :].expand(*batch.rows.shape, 5).reshape(-1, 5)
            assert (pattern[real] == ~expected.isnan()).all()
            jacobian = -(batch.observed * frame.scale.log()).sum(1, keepdim=True)
        else:
            jacobian = -frame.scale.log().sum()[None]
        assert_allclose(batch.log_jacobian, jacobian)
    assert sorted(seen) == list(range(300))


def test_large_stacks_are_at_most_half_padding():
    rng = np.random.default_rng(0)
    observed = torch.tensor(rng.random((6, 20_000)) < 0.7)
    seen = []
    for columns in stack_by_pattern(observed, 2048, 10):
        assert columns.numel() <= 2048 or len(columns) == 1
        assert len(columns) <= 10
        assert (columns < 0).float().mean() < 0.5 or columns.numel() <= FEW_CELLS
        seen += columns[columns >= 0].tolist()
    assert sorted(seen) == list(range(20_000))


def test_few_rows_of_many_lengths_are_one_stack():
    lengths = np.array([673, 2, 43, 9, 1, 40, 7])
    assert [group.tolist() for group in of_similar_length(lengths)] == [[1, 2, 3, 4, 5, 6], [0]]
    # 300 rows with a pattern of their own beside 20 blocks of 100 rows would be padded to 30 000 cells.
    assert [len(group) for group in of_similar_length(np.repeat([1, 100], [300, 20]))] == [300, 20]
