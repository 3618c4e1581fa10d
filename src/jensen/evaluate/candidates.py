"""The models that `compare` enters with models="auto"; their settings depend on the rows and the effort alone.

An effort is an amount of work, not of time (`sizing`), so that a seed gives the same result on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator

from jensen.evaluate.footing import FEW_LEVELS, Footing
from jensen.evaluate.select import select
from jensen.evaluate.sizing import (
    TOPIC,
    WORD,
    Effort,
    Training,
    affordable,
    curve_work,
    diffusion_training,
    factor_work,
    mixture_work,
    reduction,
    subspaces_work,
    table_training,
    words_work,
)
from jensen.evaluate.words import WORDS
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
    "topics": "topics",
    "vae": "VAE",
}


# Every step of a mixture of subspaces inverts one matrix of this size per component.
MOST_LATENT = 32
# With more entries Gaussians have no full covariances.
WIDE = 100
# Tried where an eighth of the entries is more.
SMALL_LATENT = (8, 16, 32)
# Pseudo-counts of every word in a multinomial mixture: how often words are new differs from corpus to corpus.
ALPHAS = (0.1, 1.0)


class Chosen(BaseEstimator):
    """A model whose parameters are chosen from a grid by a criterion, on the rows that it is fitted to.

    Args:
        model: the estimator.
        grid: values for some of its parameters.
        criterion: of `select`.
    """

    def __init__(self, model: Any, grid: Mapping[str, Any], criterion: str = "bic") -> None:
        self.model = model
        self.grid = grid
        self.criterion = criterion

    def find_measure(self, X: Any) -> tuple[str, ...]:
        """Density or probability, for every column."""
        return tuple(self.model.find_measure(X))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """The chosen model, fitted."""
        return select(self.model, X, self.grid, self.criterion, y=y, sample_weight=sample_weight).winner


class Entrants(Mapping[str, Any]):
    """Estimators by name; each is built, and its libraries are imported, when it is looked up.

    Args:
        makers: of the models that "auto" enters.
        others: of models that are entered by their name only.
        reduced: for the caption, what is smaller than the effort has it; empty if nothing is.
        names: of the command line.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Any]],
        others: Mapping[str, Callable[[], Any]],
        reduced: str = "",
        names: Mapping[str, str] = NAMES,
    ) -> None:
        self.names = names
        self._makers = makers
        self._others = others
        self.reduced = reduced

    def __getitem__(self, name: str) -> Any:
        return (self._makers[name] if name in self._makers else self._others[name])()

    def __contains__(self, name: object) -> bool:
        return name in self._makers or name in self._others

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def entrants(
    footing: Footing, n_rows: int, n_classes: int, effort: Effort, seed: int, n_scored: int = 500, n_folds: int = 1
) -> Entrants:
    """Estimators by name that suit rows of this kind; all folds share the work of the effort."""
    effort = replace(effort, share=effort.share / n_folds)
    if footing.unit == WORDS:
        return word_entrants(footing, n_rows, n_classes, effort, seed)
    deep, reduced = deep_entrants(footing, n_rows, effort, seed, n_scored)
    d, share = footing.n_entries, effort.share
    counts = [k for k in effort.n_components if n_classes <= k <= max(n_rows // 10, 1)] or [max(n_classes, 1)]
    structures = ("full", "diag") if d <= WIDE else ("diag",)
    # A portfolio of starts turns rows to their principal axes, which takes d³.
    start = {} if d <= WIDE else {"init_params": "kmeans"}
    counts = affordable(counts, lambda k: mixture_work(n_rows, d, k, "full" in structures), share)
    m = sorted({max(1, d // 8), max(1, d // 4), max(1, d // 2)} - {d}) or [1]
    # Rows have no more directions than there are rows.
    m = [k for k in m if 2 * k < n_rows] or [max(1, n_rows // 4)]

    def factors(k: int) -> float:
        return factor_work(n_rows, d, k, effort.em_steps)

    # PPCA has a closed form and takes all of them.
    of_ppca = sorted({*m, *SMALL_LATENT}) if max(m) > SMALL_LATENT[-1] else sorted(m)
    m = affordable(of_ppca, factors, share)
    few = [k for k in sorted(m) if k <= MOST_LATENT] or sorted(m)[:1]
    few = affordable(few, lambda k: subspaces_work(n_rows, d, counts[0], k), share)
    many = affordable(counts, lambda k: sum(subspaces_work(n_rows, d, k, m) for m in few), share)

    # A pixel that hardly varies in the training rows may vary in others; pixels have the same unit. So Gaussians have a
    # pooled prior, factors a floor of noise and the VAE a pooled scale: each counts for about one more row.
    def chosen(name: str, grid: Mapping[str, Any], **options: Any) -> Callable[[], Chosen]:
        return lambda: Chosen(model_class(name)(random_state=seed, **options), grid)

    def chosen_mixture(name: str, grid: Mapping[str, Any], **options: Any) -> Callable[[], Chosen]:
        def make() -> Chosen:
            from jensen.models.mixtures.conjugate_prior import ConjugatePrior

            return chosen(name, grid, prior=ConjugatePrior(scale="pooled" if footing.is_image else None), **options)()

        return make

    # A pseudo-count for every level, so that new combinations of levels have a probability.
    grid = {"n_components": counts, "covariance_type": structures}
    mixture = {"mixture of columns": chosen_mixture("mixture", grid, alpha=1.0)}
    sizes, subspaces = (
        {"n_components": counts},
        {"n_components": many, "n_latent": few},
    )
    others = {
        "Bernoulli mixture": chosen("bernoulli-mixture", sizes, alpha=1.0),
        "latent classes": chosen("latent-class-analysis", sizes, alpha=1.0),
        "Poisson mixture": chosen("poisson-mixture", sizes),
        "mixture of factor analysers": chosen_mixture("mixture-of-factor-analysers", subspaces),
    }
    if footing.unit == "mixed":
        return Entrants(mixture | deep, others, reduced)
    exact: dict[str, Callable[[], Any]] = {
        "k-means": chosen("kmeans", {"n_clusters": [k for k in counts if k > 1] or counts}),
        "Gaussian" if n_classes < 2 else "Gaussian per class": chosen_mixture(
            "gaussian-mixture",
            {"covariance_type": structures if n_classes < 2 else ("tied", *structures)},
            n_components=max(n_classes, 1),
            **start,
        ),
        "Gaussian mixture": chosen_mixture("gaussian-mixture", grid, **start),
    }
    if d > 1:
        exact |= {
            "PPCA": chosen("probabilistic-pca", {"n_components": of_ppca}),
            "factor analysis": chosen(
                "factor-analysis",
                {"n_components": sorted(m)},
                max_iter=effort.em_steps,
                noise_floor=1 / (n_rows + 1) if footing.is_image else 0.0,
            ),
            # One noise variance for all entries needs no prior, and that of a whole covariance shrinks wide rows.
            "mixture of PPCA": chosen("mixture-of-ppca", subspaces),
        }
        curve = {"latent curve": lambda: model_class("latent-curve")(random_state=seed)}
        if curve_work(n_rows, d) <= share:
            exact |= curve
        else:
            others |= curve
            reduced = "; ".join([*([reduced] if reduced else []), "no latent curve of so many entries"])
    return Entrants(exact | deep, mixture | others, reduced)


def word_entrants(footing: Footing, n_rows: int, n_classes: int, effort: Effort, seed: int) -> Entrants:
    """Models of words; their sizes and pseudo-counts are chosen by completion of some of the training documents."""
    least = max(n_classes, 1)
    many = [k for k in effort.n_components if max(least, 2) <= k <= n_rows // 10] or [least]
    topics = [k for k in effort.n_topics if least <= k <= n_rows // 2] or [least]

    def chosen(name: str, counts: Sequence[int], rate: float, grid: Mapping[str, Any], **options: Any) -> Chosen:
        sizes = affordable(counts, lambda k: words_work(n_rows, footing.held, k, rate), effort.share)
        return Chosen(
            model_class(name)(random_state=seed, **options), {"n_components": sorted(sizes), **grid}, "completion"
        )

    def mixture(counts: Sequence[int]) -> Chosen:
        return chosen("mixture", counts, WORD * len(ALPHAS), {"alpha": ALPHAS}, families="multinomial")

    makers = {
        "unigram" if n_classes < 2 else "multinomial per class": lambda: mixture([least]),
        "multinomial mixture": lambda: mixture(many),
        "topics": lambda: chosen("topics", topics, TOPIC, {}),
    }
    return Entrants(makers, {}, names=NAMES | {"mixture": "multinomial mixture"})


def deep_entrants(
    footing: Footing, n_rows: int, effort: Effort, seed: int, n_scored: int
) -> tuple[dict[str, Callable[[], Any]], str]:
    d, levels = footing.n_entries, footing.n_levels
    n_outputs = d * levels if 2 < levels <= FEW_LEVELS else 2 * d
    of_table = table_training(d, n_outputs, n_scored, effort)
    diffused = diffusion_training(footing, n_rows, n_scored, effort)

    def epochs(training: Training) -> int:
        n_trained = 0.9 * n_rows if training.is_stopped else n_rows
        return max(1, int(training.steps / max(1, n_trained // training.batch_size)))

    def trainer(training: Training) -> Any:
        from jensen.engines.sgd.plan import Trainer

        # The learning rate rises in a tenth of few steps, and no row is taken from so short a training.
        stopping: dict[str, Any] = {} if training.is_stopped else {"validation_fraction": 0.0}
        return Trainer(patience=10, warm_up=min(100, training.steps // 10), **stopping)

    def vae() -> Any:
        from jensen.models.autoencoders.vae import VAE
        from jensen.nets.likelihoods import Gaussian
        from jensen.nets.mlp import MLP

        network = MLP(hidden=(effort.width, effort.width))
        dense: Any = Gaussian(variance="point") if footing.is_image else "auto"
        return VAE(
            likelihood="categorical" if 2 < levels <= FEW_LEVELS else "bernoulli" if levels == 2 else dense,
            encoder=network,
            decoder=network,
            scaling="pooled" if footing.is_image else None,
            max_epochs=epochs(of_table),
            evaluation_samples=of_table.levels,
            trainer=trainer(of_table),
            random_state=seed,
        )

    def diffusion() -> Any:
        from jensen.models.diffusion.diffusion import Diffusion
        from jensen.nets.mlp import ResidualMLP
        from jensen.nets.unet import UNet

        return Diffusion(
            network=(
                UNet(effort.channels, dropout=0.0, patch=diffused.patch)
                if diffused.is_unet
                else ResidualMLP(effort.width)
            ),
            prediction="auto" if diffused.has_levels else "velocity",
            max_epochs=epochs(diffused),
            batch_size=diffused.batch_size,
            evaluation_levels=diffused.levels,
            learning_rate=2e-3,
            trainer=trainer(diffused),
            random_state=seed,
        )

    def latent_diffusion() -> Any:
        from jensen.models.diffusion.diffusion import Diffusion
        from jensen.models.latent_diffusion.latent_diffusion import LatentDiffusion
        from jensen.nets.mlp import ResidualMLP

        prior = Diffusion(
            objective="variational",
            network=ResidualMLP(effort.width),
            max_epochs=epochs(of_table),
            evaluation_levels=of_table.levels,
            trainer=trainer(of_table),
        )
        return LatentDiffusion(vae(), prior, random_state=seed)

    makers = {"VAE": vae, "diffusion": diffusion, "latent diffusion": latent_diffusion}
    return makers, reduction(of_table, diffused, footing.is_image, effort)
