"""The models that a comparison enters by itself, with settings that follow from the rows and the effort alone.

Steps are fixed per effort, not seconds, so that a seed gives one result on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator, clone

from jensen.engines.sgd.plan import Trainer
from jensen.evaluate.footing import FEW_LEVELS, Footing
from jensen.evaluate.select import select
from jensen.models.autoencoders.vae import VAE
from jensen.models.clusters.kmeans import KMeans
from jensen.models.curves.latent_curve import LatentCurve
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.factors.factor_analysis import FactorAnalysis
from jensen.models.factors.mixtures import MixtureOfPPCA
from jensen.models.factors.probabilistic_pca import ProbabilisticPCA
from jensen.models.latent_diffusion.latent_diffusion import LatentDiffusion
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.nets.mlp import MLP, ResidualMLP
from jensen.nets.unet import UNet

__all__ = ["EFFORTS", "NAMES", "Chosen", "Effort", "entrants"]

# The command line's names of entrants.
NAMES = {
    "diffusion": "diffusion",
    "factor-analysis": "factor analysis",
    "gaussian-mixture": "Gaussian mixture",
    "kmeans": "k-means",
    "latent-curve": "latent curve",
    "latent-diffusion": "latent diffusion",
    "mixture-of-ppca": "mixture of PPCA",
    "probabilistic-pca": "PPCA",
    "vae": "VAE",
}


# Every step of a mixture of subspaces costs as many small matrices of this side as there are components.
MOST_LATENT = 32


@dataclass(frozen=True)
class Effort:
    """
    Args:
        steps: of the training of a network.
        image_steps: of that of a U-Net, whose steps are long.
        channels: of the U-Net.
        n_components: numbers of components that are tried.
        width: of networks for tables.
    """

    steps: int
    image_steps: int
    channels: tuple[int, ...]
    n_components: tuple[int, ...]
    width: int


EFFORTS = {
    "quick": Effort(1000, 300, (16, 32), (1, 2, 5, 10), 128),
    "normal": Effort(5000, 2000, (32, 64), (1, 2, 3, 5, 10, 20), 256),
    "thorough": Effort(20_000, 10_000, (32, 64), (1, 2, 3, 5, 8, 12, 20, 30, 50), 256),
}


class Chosen(BaseEstimator):
    """A model whose parameters are chosen from a grid by BIC, on the rows that it is fitted to.

    Args:
        model: the estimator.
        grid: values for some of its parameters.
    """

    def __init__(self, model: Any, grid: Mapping[str, Any]) -> None:
        self.model = model
        self.grid = grid

    def find_measure(self, X: Any) -> tuple[str, ...]:
        """Of every column what the model gives it, a density or a probability."""
        return tuple(self.model.find_measure(X))

    def fit(self, X: Any, y: Any = None) -> Any:
        """The winner, fitted."""
        return select(self.model, X, self.grid, "bic", y=y).winner


def entrants(footing: Footing, n_rows: int, n_classes: int, effort: Effort, seed: int) -> dict[str, Any]:
    """Estimators by name that suit rows of this kind."""
    deep = deep_entrants(footing, n_rows, effort, seed)
    if footing.unit == "mixed":
        return deep
    d = footing.n_entries
    counts = [k for k in effort.n_components if n_classes <= k <= max(n_rows // 10, 1)] or [max(n_classes, 1)]
    m = sorted({max(1, d // 8), max(1, d // 4), max(1, d // 2)} - {d}) or [1]
    structures = ("full", "diag") if d <= 100 else ("diag",)
    mixture = partial(GaussianMixture, prior=ConjugatePrior(), random_state=seed)
    exact: dict[str, Any] = {
        "k-means": Chosen(KMeans(random_state=seed), {"n_clusters": [k for k in counts if k > 1] or counts}),
        "Gaussian" if n_classes < 2 else "Gaussian per class": Chosen(
            mixture(n_components=max(n_classes, 1)),
            {"covariance_type": structures if n_classes < 2 else ("tied", *structures)},
        ),
        "Gaussian mixture": Chosen(mixture(), {"n_components": counts, "covariance_type": structures}),
    }
    if d > 1:
        exact |= {
            "PPCA": Chosen(ProbabilisticPCA(random_state=seed), {"n_components": m}),
            "factor analysis": Chosen(FactorAnalysis(random_state=seed), {"n_components": m}),
            "mixture of PPCA": Chosen(
                MixtureOfPPCA(prior=ConjugatePrior(), random_state=seed),
                {"n_components": counts, "n_latent": [k for k in m if k <= MOST_LATENT] or m[:1]},
            ),
            "latent curve": LatentCurve(random_state=seed),
        }
    return exact | deep


def deep_entrants(footing: Footing, n_rows: int, effort: Effort, seed: int) -> dict[str, Any]:
    def epochs(steps: int, batch_size: int = 128) -> int:
        return max(1, round(steps / max(1, int(0.9 * n_rows) // batch_size)))

    network = MLP(hidden=(effort.width, effort.width))
    likelihood = (
        "categorical" if 2 < footing.n_levels <= FEW_LEVELS else "bernoulli" if footing.n_levels == 2 else "auto"
    )
    trainer = Trainer(patience=10)
    vae = VAE(
        likelihood=likelihood,
        encoder=network,
        decoder=network,
        max_epochs=epochs(effort.steps),
        trainer=trainer,
        random_state=seed,
    )
    image_steps = effort.image_steps if footing.is_image else effort.steps
    diffusion = Diffusion(
        network=UNet(channels=effort.channels) if footing.is_image else ResidualMLP(effort.width),
        max_epochs=epochs(image_steps),
        learning_rate=2e-3,
        trainer=trainer,
        random_state=seed,
    )
    prior = Diffusion(
        objective="variational", network=ResidualMLP(effort.width), max_epochs=epochs(effort.steps), trainer=trainer
    )
    return {
        "VAE": vae,
        "diffusion": diffusion,
        "latent diffusion": LatentDiffusion(clone(vae), prior, random_state=seed),
    }
