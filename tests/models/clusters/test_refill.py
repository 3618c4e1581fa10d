"""Empty clusters move to rows that are served badly, whatever their number in one sweep."""

import numpy as np
import pytest
import torch

import jensen
from jensen.engines.em.batch import Batch
from jensen.models.clusters.kmeans_em import refilled


def batch_of(x, weight=None):
    """Rows (n, d) with NaN for missing values, as the engine holds them."""
    x = torch.from_numpy(x).T
    observed = ~x.isnan() if x.isnan().any() else None
    return Batch(x.nan_to_num(), torch.arange(x.shape[1]), weight, observed, None, torch.zeros(1))


class Swept(list):
    """Batches that count the sweeps over them."""

    n_sweeps = 0

    def __iter__(self):
        self.n_sweeps += 1
        return super().__iter__()


def farthest_first(x, centres, is_empty):
    """The definition, one row at a time over all rows."""
    centres = centres.copy()
    served = centres[~is_empty]
    for number in np.flatnonzero(is_empty):
        distance = np.nansum((x[:, None] - served) ** 2, 2).min(1)
        row = x[distance.argmax()]
        centres[number] = np.where(np.isnan(row), centres[number], row)
        served = np.vstack([served, centres[number]])
    return centres


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_farthest_row_first_in_one_sweep(missing):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    x[rng.random(x.shape) < missing] = np.nan
    centres, is_empty = rng.normal(size=(6, 3)), np.array([False, True, False, True, True, False])
    source = Swept(batch_of(part) for part in np.array_split(x, 4))
    found = refilled(torch.from_numpy(centres), torch.from_numpy(is_empty), source)
    np.testing.assert_allclose(found, farthest_first(x, centres, is_empty), rtol=1e-12)
    assert source.n_sweeps == 1


def test_rows_of_weight_0_are_nobodys():
    rows, weight = np.array([[1.0], [5.0], [100.0]]), torch.tensor([1.0, 1.0, 0.0])
    found = refilled(
        torch.tensor([[0.0], [9.0]], dtype=torch.float64), torch.tensor([False, True]), [batch_of(rows, weight)]
    )
    assert found.tolist() == [[0.0], [5.0]]


def test_given_centres_are_left_as_they_are():
    centres = torch.tensor([[0.0], [9.0]], dtype=torch.float64)
    refilled(centres, torch.tensor([False, True]), [batch_of(np.array([[1.0], [2.0]]))])
    assert centres.tolist() == [[0.0], [9.0]]


def test_a_scan_ends_where_the_rows_in_memory_end(tmp_path):
    rng = np.random.default_rng(1)
    x = 5 * rng.integers(0, 4, (3000, 2)) + rng.normal(size=(3000, 2))
    np.save(tmp_path / "rows.npy", x)
    # All but one of these centres are empty.
    init = np.vstack([x[:1], 1000 + np.arange(10.0).reshape(5, 2)])
    scanned = jensen.KMeans(6, init=init, tol=0).fit(jensen.scan(tmp_path / "rows.npy", block_rows=500))
    assert (scanned.cluster_weights_ > 0).all()
    held = jensen.KMeans(6, init=scanned.cluster_centers_, tol=0).fit(x)
    np.testing.assert_allclose(held.inertia_, scanned.inertia_, rtol=1e-9)
