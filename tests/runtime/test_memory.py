"""What takes more memory than there is ends before it is asked for, and says how much it would take."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from jensen import (
    MLP,
    VAE,
    ConjugatePrior,
    Depot,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentCurve,
    ProbabilisticPCA,
    RidgeRegression,
)
from jensen.files.tables import read_npy
from jensen.runtime import memory

WIDE = np.zeros((4, 100_000))
WIDE[:, 0] = np.arange(4)


@pytest.fixture
def little(monkeypatch):
    """A machine with half a MiB left."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**19)


def test_sizes_as_people_write_them():
    assert [memory.in_units(n) for n in (0, 1000, 2048, 5 * 2**30, 2**41, 2**60)] == [
        "0 bytes",
        "1e+03 bytes",
        "2 KiB",
        "5 GiB",
        "2 TiB",
        "1.05e+06 TiB",
    ]


def test_what_is_available(monkeypatch, tmp_path):
    """By Linux' own account, else by POSIX, else unknown; and where it is unknown nothing is refused."""
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  5 kB\nSwapFree: 2 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory.available_bytes() == 7 * 1024
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert memory.available_bytes() > 0
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.available_bytes() is None
    memory.need_memory(2**80, "nothing", "buy some")


def test_a_full_covariance_of_100_000_columns():
    with pytest.raises(
        ValueError,
        match=r"covariance_type='full' with n_components=400 and 100000 features takes 87\.3 TiB of memory, and .* are "
        "available; choose covariance_type='diag'",
    ):
        GaussianMixture(400).fit(np.tile(np.arange(4.0)[:, None], (100, 100_000)))


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: GaussianMixture(2, covariance_type="tied").fit(x),
            "covariance_type='tied' with n_components=2 and 300",
        ),
        (lambda x: LatentCurve(n_latent=2, n_grid=500).fit(x[:, :3]), "n_grid=500 and n_basis=.* for 2 axes takes"),
        (
            lambda x: KMedoids(2).fit(x.T),
            "distances between all pairs of its 300 distinct rows takes .*, or use KMeans",
        ),
        (lambda x: ProbabilisticPCA(1).fit(x).get_covariance(), "a covariance of 300 features takes 1.37 MiB"),
        (lambda x: FactorAnalysis(1).fit(x).get_precision(), "a covariance of 300 features takes 1.37 MiB"),
        (
            lambda x: RidgeRegression(alpha=1.0).fit(x, x[:, 0]).posterior(),
            "the posterior of 300 coefficients of 1 targets",
        ),
        (
            lambda x: KMeans(2, depot=Depot(np.zeros(30_000))).fit(scipy.sparse.csr_array((5, 30_000))),
            r"a sparse X of shape \(5, 30000\) as a dense array takes 2.29 MiB",
        ),
    ],
)
def test_what_is_too_large(call, message):
    x = np.random.default_rng(0).normal(size=(20, 300))
    with pytest.raises(ValueError, match=message):
        call(x)


def test_an_npy_file_that_claims_more_than_it_holds(tmp_path, little):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((3, 2)))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(3, 2), }" + b" " * 20, b"(274877906944, 1), }" + b" " * 9))
    with pytest.raises(ValueError, match=r"x.npy .*claims the shape \(274877906944, 1\), 2 TiB .* holds 48 bytes"):
        read_npy(path)
    # Version 3 has four bytes for the length of its header, where version 1 has two.
    claims = b"{'descr': '<f8', 'fortran_order': False, 'shape': (274877906944, 1), }\n"
    path.write_bytes(b"\x93NUMPY\x03\x00" + len(claims).to_bytes(4, "little") + claims + bytes(48))
    with pytest.raises(ValueError, match=r"claims the shape \(274877906944, 1\), 2 TiB .* holds 48 bytes"):
        read_npy(path)
    path.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match=r"48 bytes of numbers, and it holds 40 bytes; it is damaged or was cut off"):
        read_npy(path)
    path.write_bytes(whole)
    assert read_npy(path).shape == (3, 2)
    np.save(path, np.zeros((2**17, 2)))
    with pytest.raises(
        ValueError, match=r"an array of shape \(131072, 2\) takes 2 MiB of memory, and 512 KiB are available"
    ):
        read_npy(path)


@pytest.mark.parametrize(
    "model", [GaussianMixture(), KMeans(2), ProbabilisticPCA(1)], ids=lambda model: type(model).__name__
)
def test_samples_that_do_not_fit_are_refused(model):
    fitted = model.fit(np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(ValueError, match=r"n_samples=1000000000000 takes 43.7 TiB of memory, .*; draw fewer rows"):
        fitted.sample(10**12)


def test_a_network_that_does_not_fit_is_refused():
    x = np.random.default_rng(0).normal(size=(20, 3))
    with (
        pytest.warns(UserWarning, match="n_components"),
        pytest.raises(
            ValueError, match=r"the network of VAE takes more memory than there is, .* at once; choose a smaller"
        ),
    ):
        VAE(10**11, encoder=MLP((200,)), decoder=MLP((200,)), max_epochs=1).fit(x)
    with pytest.raises(RuntimeError, match="another"), memory.allocating("nothing", "no way"):
        raise RuntimeError("another")


# In a process of its own: where an allocation has failed, glibc gives the thread another arena, without large blocks.
KEPT = """
import resource
from pathlib import Path
import torch
from jensen.runtime import memory

def faults(n_times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n_times):
        torch.ones(25_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def held():
    return int(Path("/proc/self/statm").read_text().split()[1])

with memory.keeping_memory(), memory.keeping_memory():
    faults(12)  # the first allocations leave small pieces between them, until there are enough of these
    found = faults(4), held()
print(*found, held(), memory.KEEPING.depth)
"""


@pytest.mark.skipif(memory.glibc() is None, reason="only glibc can keep memory")
def test_memory_is_kept_between_steps_and_given_back_at_the_end():
    """The pages of 100 MB are touched anew on every allocation, unless memory is kept."""
    answer = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    faults, while_kept, afterwards, depth = (int(word) for word in answer.stdout.split())
    pages = 100_000_000 // os.sysconf("SC_PAGESIZE")
    assert faults < 0.1 * pages
    assert afterwards < while_kept - 0.5 * pages
    assert depth == 0


def test_without_glibc_nothing_is_kept(monkeypatch):
    memory.glibc.cache_clear()
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("musl", "1"))
    with memory.keeping_memory():
        assert memory.KEEPING.depth == 0
    memory.glibc.cache_clear()


def test_a_read_only_prior_is_read_in_silence(recwarn):
    scale = np.diag(np.eye(3))
    GaussianMixture(2, covariance_type="diag", prior=ConjugatePrior(scale=scale), random_state=0).fit(WIDE[:, :3] + 1)
    assert not [one for one in recwarn if "writable" in str(one.message)]
