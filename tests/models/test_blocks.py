"""Answers of deep models need as much memory for many rows as for some: they are computed in blocks."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cases import CASES
from jensen.contract import gradient
from jensen.contract.gradient import GradientEstimator
from jensen.models.autoencoders import autoencoder
from jensen.models.autoencoders import inference as vae_answers
from jensen.models.autoencoders import module as vae_module

DEEP = {case.name: case for case in CASES if isinstance(case.make(), GradientEstimator)}
ANSWERS = ("score_samples", "bound", "transform", "predict", "impute", "reconstruction_error")


class Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that is made."""

    n_entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() // 4 for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.n_entries = max([self.n_entries, *sizes])
        return out


@pytest.fixture(scope="module", params=["autoencoder", "vae-labels", "diffusion-labels", "latent-diffusion"])
def fitted(request):
    case = DEEP[request.param]
    return case.brief().fit(case.x, case.y), case


@pytest.fixture
def _small_blocks(monkeypatch):
    monkeypatch.setattr(gradient, "ROOM", 2**12)
    for module in (vae_module, vae_answers, autoencoder):
        monkeypatch.setattr(module, "MOST_ROWS", 64)


@pytest.mark.usefixtures("_small_blocks")
def test_no_tensor_grows_with_the_rows_but_the_rows_themselves(fitted):
    model, case = fitted
    is_diffusion = hasattr(model, "classify")
    options = {"impute": {"steps": 2, "resamplings": 1}, "predict": {"budget": 16}} if is_diffusion else {}
    for name in ANSWERS:
        if not hasattr(model, name):
            continue
        found = {}
        for times in (3, 6):
            rows = np.tile(case.x, (times, 1))
            if name == "impute":
                rows[:, 0] = np.nan
            with Largest() as largest:
                getattr(model, name)(rows, **options.get(name, {}))
            found[times] = largest.n_entries
        # Rows, and what is returned of each, are three numbers in double precision at most.
        assert found[6] <= max(1.1 * found[3], 6 * len(rows)), name


def test_blocks_change_nothing_but_draws(fitted, request):
    """Answers that draw nothing are the same in one block and in many."""
    model, case = fitted
    names = [name for name in ("transform", "reconstruction_error") if hasattr(model, name)]
    if hasattr(model, "predict_proba") and not hasattr(model, "classify"):
        names.append("predict_proba")
    before = [getattr(model, name)(case.x) for name in names]
    request.getfixturevalue("_small_blocks")
    for name, expected in zip(names, before, strict=True):
        assert_allclose(getattr(model, name)(case.x), expected, rtol=1e-5, atol=1e-6)


def test_a_decoder_sees_few_draws_at_a_time(monkeypatch):
    monkeypatch.setattr(vae_module, "MOST_ROWS", 64)
    case = DEEP["vae"]
    model, sizes = case.brief().fit(case.x), []
    model.module_.decoder.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    model.score_samples(case.x)
    assert max(sizes) == 64
    # The draws of every row, and as many from the prior that all rows share.
    assert sum(sizes) == (len(case.x) + 1) * model.evaluation_samples
