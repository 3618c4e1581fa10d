"""An altered file is refused with one clear error, at once, or it is the same model; no other exception gets out."""

import random
import time
import warnings
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

import jensen
from altered import KINDS, altered
from jensen import (
    MLP,
    VAE,
    Autoencoder,
    ConjugatePrior,
    ConvDecoder,
    ConvEncoder,
    Diffusion,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentCurve,
    LatentDiffusion,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    ProbabilisticPCA,
    ResidualMLP,
    RidgeRegression,
    Schedule,
    UNet,
)

R = np.random.default_rng(0)
X = R.normal(size=(60, 3)) + np.repeat([[0.0], [4.0]], 30, axis=0)
Y = np.repeat(["a", "b"], 30)
IMAGES = R.integers(0, 3, size=(20, 4, 4)) / 2
# Of one class, over all kinds of alterations.
N_ALTERED = 1000
DEEP = {"max_epochs": 1, "random_state": 0}
SMALL = {"encoder": MLP((4,)), "decoder": MLP((4,)), **DEEP}


def levels():
    import pandas as pd

    return pd.DataFrame({"number": X[:, 0], "word": np.where(X[:, 1] > 2, "yes", "no"), "three": R.integers(0, 3, 60)})


def fits():
    """One file per class, and more where a class has several kinds."""
    prior = Diffusion(n_steps=10, network=ResidualMLP(4, 1), objective="variational", **DEEP)
    pictures = {"encoder": ConvEncoder((2,), 4), "decoder": ConvDecoder((2,), 4), **DEEP}
    return {
        "Autoencoder": lambda: Autoencoder(2, **SMALL).fit(X),
        "Diffusion": lambda: Diffusion(n_steps=10, network=ResidualMLP(4, 2), **DEEP).fit(X, Y),
        "Diffusion of images": lambda: Diffusion(Schedule.linear(30), network=UNet((4, 8)), **DEEP).fit(IMAGES),
        "FactorAnalysis": lambda: FactorAnalysis(1).fit(X),
        "GaussianMixture": lambda: GaussianMixture(2, prior=ConjugatePrior(), random_state=0).fit(X, Y),
        "GaussianMixture with a constant": lambda: GaussianMixture(2, random_state=0).fit(X * [1, 1, 0]),
        "KMeans": lambda: KMeans(2, random_state=0).fit(X),
        "KMedoids": lambda: KMedoids(2, random_state=0).fit(X),
        "LatentCurve": lambda: LatentCurve(n_grid=10, n_basis=3, max_iter=3).fit(X),
        "LatentDiffusion": lambda: LatentDiffusion(VAE(2, **SMALL), prior, random_state=0).fit(X),
        "MixtureOfFactorAnalysers": lambda: MixtureOfFactorAnalysers(2, 1, max_iter=3, random_state=0).fit(X),
        "MixtureOfPPCA": lambda: MixtureOfPPCA(2, 1, max_iter=3, random_state=0).fit(X),
        "ProbabilisticPCA": lambda: ProbabilisticPCA(1).fit(X),
        "RidgeRegression": lambda: RidgeRegression().fit(X[:, :2], X[:, 2]),
        "VAE": lambda: VAE(2, **SMALL).fit(levels(), Y),
        "VAE of images": lambda: VAE(2, **pictures).fit(IMAGES),
    }


def resumed(path):
    return VAE(2, checkpoint=path, **SMALL).fit(X)


@cache
def saved(name, folder):
    """The bytes of a file, and rows to ask its model about."""
    if name == "checkpoint":
        resumed(folder / "run.ckpt")
        return (folder / "run.ckpt").read_bytes(), X
    model = fits()[name]()
    model.save(folder / "model.jensen")
    rows = levels() if name == "VAE" else IMAGES if "images" in name else X[:, : model.n_features_in_]
    return (folder / "model.jensen").read_bytes(), rows


def answer_of(model, rows):
    for question in ("score_samples", "reconstruction_error", "predict", "transform"):
        if hasattr(model, question) and (question != "score_samples" or not isinstance(model, RidgeRegression)):
            return np.asarray(getattr(model, question)(rows))
    raise AssertionError


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


def check_many(name, kind, n, folder, tmp_path):
    raw, rows = saved(name, folder)
    path, rng, slowest = tmp_path / "altered.jensen", random.Random(f"{name} {kind} {n}"), 0.0
    path.write_bytes(raw)
    read = resumed if name == "checkpoint" else jensen.load
    whole = answer_of(read(path), rows)
    for i in range(n):
        is_signed = altered(raw, path, kind, rng)
        begun = time.process_time()
        try:
            with warnings.catch_warnings(action="ignore"):
                model = read(path)
        except (ValueError, ImportError):
            model = None
        except BaseException as error:
            raise AssertionError(f"{name}, {kind}, alteration {i}: {error!r}") from error
        slowest = max(slowest, time.process_time() - begun)
        if model is not None and not is_signed:
            np.testing.assert_array_equal(answer_of(model, rows), whole)
        elif model is not None and not hasattr(model, "module_"):
            # With a sum of its own it is another model, whose answers are its own; a network's may take any time.
            with suppress(ValueError), warnings.catch_warnings(action="ignore"):
                answer_of(model, rows)
    assert slowest < 2, f"{name}, {kind}: {slowest:.1f} s"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["GaussianMixture", "GaussianMixture with a constant", "VAE", "Diffusion", "checkpoint"]
)
def test_some_altered_files(name, kind, folder, tmp_path):
    check_many(name, kind, 20, folder, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*fits(), "checkpoint"])
def test_a_thousand_altered_files_of_a_class(name, kind, folder, tmp_path):
    check_many(name, kind, N_ALTERED // len(KINDS), folder, tmp_path)
