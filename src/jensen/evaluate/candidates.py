"""The models that `compare` enters with models="auto"; their settings depend on the rows and the effort alone.

An effort is a number of steps, not of seconds, so that a seed gives the same result on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from jensen.evaluate.footing import FEW_LEVELS, Footing
from jensen.evaluate.select import select
from jensen.registry import model_class

# The command line's names of entrants.
NAMES = {
    "bernoulli-mixture": "Bernoulli mixture",
    "diffusion": "diffusion",
    "factor-analysis": "factor analysis",
    "gaussian-mixture": "Gaussian mixture",
    "kmeans": "k-means",
    "latent-class-analysis": "latent classes",
    "latent-curve": "latent curve",
    "latent-diffusion": "latent diffusion",
    "mixture": "mixture of columns",
    "mixture-of-factor-analysers": "mixture of factor analysers",
    "mixture-of-ppca": "mixture of PPCA",
    "poisson-mixture": "Poisson mixture",
    "probabilistic-pca": "PPCA",
    "vae": "VAE",
}


# Every step of a mixture of subspaces inverts one matrix of this size per component.
MOST_LATENT = 32


@dataclass(frozen=True)
class Effort:
    """
    Args:
        steps: training steps of a network.
        image_steps: training steps of a U-Net, which take longer.
        channels: channels of the U-Net.
        n_components: numbers of components to try.
        width: width of networks for tables.
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
        """Density or probability, for every column."""
        return tuple(self.model.find_measure(X))

    def fit(self, X: Any, y: Any = None) -> Any:
        """The chosen model, fitted."""
        return select(self.model, X, self.grid, "bic", y=y).winner


class Entrants(Mapping[str, Any]):
    """Estimators by name; each is built, and its libraries are imported, when it is looked up.

    Args:
        makers: of the models that "auto" enters.
        others: of models that are entered by their name only.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Any]], others: Mapping[str, Callable[[], Any]]) -> None:
        self._makers = makers
        self._others = others

    def __getitem__(self, name: str) -> Any:
        return (self._makers[name] if name in self._makers else self._others[name])()

    def __contains__(self, name: object) -> bool:
        return name in self._makers or name in self._others

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def entrants(footing: Footing, n_rows: int, n_classes: int, effort: Effort, seed: int) -> Entrants:
    """Estimators by name that suit rows of this kind."""
    deep = deep_entrants(footing, n_rows, effort, seed)
    d = footing.n_entries
    counts = [k for k in effort.n_components if n_classes <= k <= max(n_rows // 10, 1)] or [max(n_classes, 1)]
    m = sorted({max(1, d // 8), max(1, d // 4), max(1, d // 2)} - {d}) or [1]
    structures = ("full", "diag") if d <= 100 else ("diag",)

    def chosen(name: str, grid: Mapping[str, Any], **options: Any) -> Callable[[], Chosen]:
        return lambda: Chosen(model_class(name)(random_state=seed, **options), grid)

    def chosen_mixture(name: str, grid: Mapping[str, Any], **options: Any) -> Callable[[], Chosen]:
        def make() -> Chosen:
            from jensen.models.mixtures.conjugate_prior import ConjugatePrior

            return chosen(name, grid, prior=ConjugatePrior(), **options)()

        return make

    # A pseudo-count for every level, so that new combinations of levels have a probability.
    grid = {"n_components": counts, "covariance_type": structures}
    mixture = {"mixture of columns": chosen_mixture("mixture", grid, alpha=1.0)}
    sizes, subspaces = (
        {"n_components": counts},
        {"n_components": counts, "n_latent": [k for k in m if k <= MOST_LATENT] or m[:1]},
    )
    others = {
        "Bernoulli mixture": chosen("bernoulli-mixture", sizes, alpha=1.0),
        "latent classes": chosen("latent-class-analysis", sizes, alpha=1.0),
        "Poisson mixture": chosen("poisson-mixture", sizes),
        "mixture of factor analysers": chosen_mixture("mixture-of-factor-analysers", subspaces),
    }
    if footing.unit == "mixed":
        return Entrants(mixture | deep, others)
    exact: dict[str, Callable[[], Any]] = {
        "k-means": chosen("kmeans", {"n_clusters": [k for k in counts if k > 1] or counts}),
        "Gaussian" if n_classes < 2 else "Gaussian per class": chosen_mixture(
            "gaussian-mixture",
            {"covariance_type": structures if n_classes < 2 else ("tied", *structures)},
            n_components=max(n_classes, 1),
        ),
        "Gaussian mixture": chosen_mixture("gaussian-mixture", grid),
    }
    if d > 1:
        exact |= {
            "PPCA": chosen("probabilistic-pca", {"n_components": m}),
            "factor analysis": chosen("factor-analysis", {"n_components": m}),
            "mixture of PPCA": chosen_mixture("mixture-of-ppca", subspaces),
            "latent curve": lambda: model_class("latent-curve")(random_state=seed),
        }
    return Entrants(exact | deep, mixture | others)


def deep_entrants(footing: Footing, n_rows: int, effort: Effort, seed: int) -> dict[str, Callable[[], Any]]:
    def epochs(steps: int, batch_size: int = 128) -> int:
        return max(1, round(steps / max(1, int(0.9 * n_rows) // batch_size)))

    def vae() -> Any:
        from jensen.engines.sgd.plan import Trainer
        from jensen.models.autoencoders.vae import VAE
        from jensen.nets.mlp import MLP

        network, levels = MLP(hidden=(effort.width, effort.width)), footing.n_levels
        return VAE(
            likelihood="categorical" if 2 < levels <= FEW_LEVELS else "bernoulli" if levels == 2 else "auto",
            encoder=network,
            decoder=network,
            max_epochs=epochs(effort.steps),
            trainer=Trainer(patience=10),
            random_state=seed,
        )

    def diffusion() -> Any:
        from jensen.engines.sgd.plan import Trainer
        from jensen.models.diffusion.diffusion import Diffusion
        from jensen.nets.mlp import ResidualMLP
        from jensen.nets.unet import UNet

        return Diffusion(
            network=UNet(channels=effort.channels) if footing.is_image else ResidualMLP(effort.width),
            max_epochs=epochs(effort.image_steps if footing.is_image else effort.steps),
            learning_rate=2e-3,
            trainer=Trainer(patience=10),
            random_state=seed,
        )

    def latent_diffusion() -> Any:
        from jensen.engines.sgd.plan import Trainer
        from jensen.models.diffusion.diffusion import Diffusion
        from jensen.models.latent_diffusion.latent_diffusion import LatentDiffusion
        from jensen.nets.mlp import ResidualMLP

        prior = Diffusion(
            objective="variational",
            network=ResidualMLP(effort.width),
            max_epochs=epochs(effort.steps),
            trainer=Trainer(patience=10),
        )
        return LatentDiffusion(vae(), prior, random_state=seed)

    return {"VAE": vae, "diffusion": diffusion, "latent diffusion": latent_diffusion}
