"""Batches that are kept in temporary files have the bits of those that were read."""

import errno
import pickle
import tempfile

import numpy as np
import pandas as pd
import pytest
import torch

import jensen
from jensen.contract import rows
from jensen.engines.em import checkpoint, spool
from jensen.engines.em.batch import Batch

RNG = np.random.default_rng(0)
KIND = RNG.integers(0, 3, 600)
TABLE = pd.DataFrame(
    {
        "a": np.where(RNG.random(600) < 0.1, np.nan, RNG.normal(size=600) + 3 * KIND),
        "b": RNG.normal(size=600) - KIND,
        "town": np.array(["Bonn", "Kiel", "Ulm"])[(KIND + (RNG.random(600) < 0.2)) % 3],
        "n": RNG.poisson(2 + KIND),
    }
)


def bits(model):
    return {name: value.numpy().tobytes() for name, value in checkpoint.leaves(model.theta_).items()}


class Counted:
    """A source of blocks that counts its sweeps."""

    def __init__(self, n_columns=4):
        self.n_sweeps, self.table = 0, TABLE.iloc[:, :n_columns]

    def __call__(self):
        self.n_sweeps += 1
        return iter([self.table.iloc[i : i + 100] for i in range(0, 600, 100)])


def mixture():
    return jensen.Mixture(3, random_state=0, max_iter=6, tol=0)


def gaussian():
    return jensen.GaussianMixture(3, random_state=0, max_iter=6, tol=0, noise=True)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize(("make", "n_columns"), [(mixture, 4), (gaussian, 2)])
def test_a_cached_fit_has_the_bits_of_one_that_reads_every_sweep(make, n_columns):
    kept, read = Counted(n_columns), Counted(n_columns)
    cached = make().fit(jensen.scan(kept))
    anew = make().fit(jensen.scan(read, cache=False))
    assert bits(cached) == bits(anew)
    # Seven sweeps for six steps: all but the first come from the cache.
    assert read.n_sweeps - kept.n_sweeps == 6


@pytest.mark.parametrize(("free", "is_cached"), [(2 * 8 * TABLE[["b", "n"]].size, False), (2**30, True)])
def test_plain_numbers_in_fast_files_are_cached_if_memory_holds_them_twice(tmp_path, monkeypatch, free, is_cached):
    np.save(tmp_path / "x.npy", TABLE[["b", "n"]].to_numpy())
    written = []
    monkeypatch.setattr(spool.SpooledPart, "write", lambda *given: written.append(1))
    monkeypatch.setattr(rows, "available_bytes", lambda: free)
    jensen.GaussianMixture(2, random_state=0, max_iter=0).fit(jensen.scan(tmp_path / "x.npy"))
    assert bool(written) == is_cached
    written.clear()
    jensen.GaussianMixture(2, random_state=0, max_iter=0).fit(jensen.scan(tmp_path / "x.npy", cache=not is_cached))
    assert bool(written) != is_cached


@pytest.mark.parametrize("place", ["begin", "write", "room"])
def test_a_disk_without_room_costs_time_only(place, monkeypatch):
    whole = mixture().fit(jensen.scan(Counted(), cache=False))

    def full(*given, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    if place == "begin":
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
    elif place == "write":
        monkeypatch.setattr(spool.SpooledPart, "write", full)
    else:
        usage = spool.shutil.disk_usage("/")
        monkeypatch.setattr(spool.shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.warns(
        UserWarning, match=r"the cache of the scan in .* is not written: .*; every sweep reads the source"
    ):
        found = mixture().fit(jensen.scan(Counted()))
    assert bits(found) == bits(whole)


def test_a_folder_for_the_cache(tmp_path):
    with pytest.raises(ValueError, match=r"cache='.*nowhere' is no folder; make it first"):
        jensen.scan(Counted(), cache=tmp_path / "nowhere")
    mixture().fit(jensen.scan(Counted(), cache=tmp_path))
    assert not list(tmp_path.iterdir())


def test_sparse_and_turned_tensors_come_back_as_they_were():
    x = torch.arange(12.0).reshape(3, 4).T
    sparse = torch.eye(4, dtype=torch.float64).to_sparse_csr()
    part = spool.SpooledPart(spool.SpoolFile(None))
    part.write([Batch(x, torch.arange(4), None, None, None, torch.zeros(1), held=(sparse.mT, "word", np.arange(3)))])
    ((found,),) = part
    assert torch.equal(found.x, x)
    assert found.x.stride() == x.stride()
    assert found.held[0].layout == torch.sparse_csc
    assert torch.equal(found.held[0].to_dense(), torch.eye(4, dtype=torch.float64))
    assert found.held[1] == "word"
    assert found.held[2].tolist() == [0, 1, 2]
    assert found.weight is None


def test_a_spool_in_another_process_is_one_per_fit():
    own = spool.Spool(None, 10)
    once, again = (pickle.loads(pickle.dumps(own)) for _ in range(2))
    assert once is again
    assert once is not pickle.loads(pickle.dumps(spool.Spool(None, 10)))


def test_many_parts_share_one_file(tmp_path, monkeypatch):
    for number, part in enumerate(np.array_split(TABLE[["b", "n"]].to_numpy(), 12)):
        np.save(tmp_path / f"{number:02}.npy", part)
    opened, begin = [], tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: opened.append(1) or begin(**options))
    kept = gaussian().fit(jensen.scan(tmp_path, cache=True))
    assert len(opened) == 1
    assert bits(kept) == bits(gaussian().fit(jensen.scan(tmp_path, cache=False)))
