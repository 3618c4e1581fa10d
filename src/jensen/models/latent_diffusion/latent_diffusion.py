"""Latent diffusion: an autoencoder whose latent vectors come from a diffusion.

    z ~ a reverse chain,  x | z ~ p(x | decoder(z)),   q(z|x) = N(μ(x), L(x) L(x)ᵀ)
    ln p(x) ≥ E_q[ln p(x|z) + bound of ln p(z) - ln q(z|x)]
The latent vectors of all rows together are not N(0, I), from which a variational autoencoder draws them: that gap the
diffusion closes. With variance β_t and a velocity of 0 its chain is N(0, I) itself, for every schedule, so it begins at
the autoencoder's own bound. Vahdat, Kreis & Kautz (2021); Rombach et al. (2022). A bound, never exact.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from jensen.bound import Bound
from jensen.contract import warn_unused, whole_number
from jensen.contract.gradient import GradientEstimator, Lesson, blocks
from jensen.data.rows import Events
from jensen.engines.sgd.loop import Terms
from jensen.formulas.schedule import Schedule
from jensen.models.autoencoders import inference as vae_answers
from jensen.models.autoencoders.build import build_module as build_vae
from jensen.models.autoencoders.build import choose_n_latent
from jensen.models.autoencoders.vae import VAE
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.diffusion.inference import chain_of, number_of_levels
from jensen.models.diffusion.objective import denoising_objective
from jensen.models.latent_diffusion import inference as answers
from jensen.models.latent_diffusion.module import LatentModule, build_prior, decide_prior, latent_moments, try_prior
from jensen.runtime.progress import progress

__all__ = ["LatentDiffusion"]

# Levels that decide how probable a draw of z is beside the other draws of the same row.
IMPUTATION_LEVELS = 20


class LatentDiffusion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientEstimator):
    """A variational autoencoder with a diffusion for its prior.

    Args:
        vae: recipe of the autoencoder, an unfitted `VAE(...)`; None is VAE().
        diffusion: recipe of the prior, an unfitted `Diffusion(...)`, whose arguments about training count for the
            second stage; None is Diffusion(objective="variational"). Its variance is "beta" unless given, its network
            ResidualMLP(), its prediction "velocity", and with scaling=None latent vectors stay as they are: then the
            prior begins as N(0, I).
        training: "two-stage" trains the autoencoder and then the prior alone; "joint" goes on with all networks
            together, which needs objective="variational".
        checkpoint: a file from which a fit that was ended goes on; the autoencoder's is beside it, with the suffix
            ".vae". None leaves it to the recipes.
        device: "auto", "cpu", "cuda", ...; this and the next two count, not those of the recipes.
        random_state: seed or RandomState, of the training and of every call that draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        vae_: the autoencoder, whose own prior is N(0, I).
        module_: all networks; forward gives the terms of the bound.
        schedule_: the noise, level by level.
        history_: of the second stage, a data frame with one row per round; round 0 is the start, which is kept unless
            held-out rows gain by another.
        columns_: kind, levels and scaling of every column.
        n_iter_: epochs of the second stage.
        pixel_range_: of images, the least and the greatest value of a pixel; pictures are cut off there.
        lower_bound_: what it raised, at the weights that were kept.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import VAE, Diffusion, LatentDiffusion
        >>> X = load_iris().data
        >>> prior = Diffusion(n_steps=50, objective="variational", max_epochs=10)
        >>> model = LatentDiffusion(VAE(2, max_epochs=10), prior, random_state=0).fit(X)
        >>> model.transform(X).shape, model.sample(5)[0].shape
        ((150, 2), (5, 4))
    """

    theta_: LatentModule
    capabilities = replace(GradientEstimator.capabilities, score="bound", missing_in_score=True)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "vae": [VAE, None],
        "diffusion": [Diffusion, None],
        "training": [StrOptions({"two-stage", "joint"})],
        **{
            name: GradientEstimator._training_constraints[name]
            for name in ("checkpoint", "device", "random_state", "verbose")
        },
    }

    def __init__(
        self,
        vae: VAE | None = None,
        diffusion: Diffusion | None = None,
        *,
        training: str = "two-stage",
        checkpoint: str | os.PathLike[str] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.vae = vae
        self.diffusion = diffusion
        self.training = training
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the autoencoder, and then the prior of its latent vectors, alone or with it.

        Ctrl-C during the first stage ends both: the prior stays as it begins.

        Args:
            X: a table (n, d), images (n, h, w) or (n, c, h, w), a memory-mapped array or a torch Dataset; NaN, None
                or an empty cell is missing.
            y: ignored.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        names = ["device", "random_state", "verbose"] + ["checkpoint"] * (self.checkpoint is not None)
        for part in (self.vae, self.diffusion):
            if part is not None:
                others = [name for name in names if getattr(part, name) != getattr(self, name)]
                warn_unused(
                    part, dict.fromkeys(others, "set it on the LatentDiffusion, whose own counts for both parts")
                )
        vae, recipe, is_joint = self._recipe_of_vae(), self._training_arguments(), self.training == "joint"
        of_prior = decide_prior(recipe, is_joint)
        lesson = vae._lesson(X, None, sample_weight)
        try_prior(recipe, choose_n_latent(vae.n_components, len(lesson.events.columns.names)), of_prior)
        # One seed for both stages, so that both hold out the same rows.
        seed = self._seed()
        is_over = vae._fit_lesson(lesson, seed)
        copy_features(vae, self)

        def bound(terms: Terms, done: float) -> Tensor:
            return terms["reconstruction"] - terms["latent"]

        def minus_latent(terms: Terms, done: float) -> Tensor:
            return -terms["latent"]

        def found(rows: np.ndarray) -> dict[str, Any]:
            return latent_moments(vae.theta_, lesson.some_rows(rows), recipe.scaling)

        def with_autoencoder(module: LatentModule) -> nn.Module:
            module.vae.load_state_dict(vae.theta_.state_dict())
            return module

        facts = {
            "vae": vae._facts,
            "stage": {"history": vae._history, "n_iter": vae.n_iter_, "lower_bound": vae.lower_bound_},
            "diffusion": of_prior,
        }
        raised = denoising_objective(recipe.objective, minus_latent, vae.theta_.n_latent)
        self._train(
            lesson,
            facts,
            bound if is_joint else raised,
            bound,
            wrap=with_autoencoder,
            found=found,
            seed=seed,
            judges_start=True,
            keeps_start=is_over,
        )
        return self

    @property
    def vae_(self) -> VAE:
        """The autoencoder, whose own prior is N(0, I)."""
        check_is_fitted(self)
        vae, stage = self._recipe_of_vae(), self._facts["stage"]
        vae.theta_, vae._facts = self.theta_.vae, self._facts["vae"]
        vae._columns, vae._shape, vae._kind = self._columns, self._shape, self._kind
        vae._history, vae.n_iter_, vae.lower_bound_ = stage["history"], stage["n_iter"], stage["lower_bound"]
        copy_features(self, vae)
        return vae

    @property
    def schedule_(self) -> Schedule:
        """The noise, level by level."""
        check_is_fitted(self)
        return self.theta_.prior.schedule

    def score_samples(self, X: Any) -> Any:
        """The bound of ln p(x) per row, over the entries that are observed; `bound` tells its standard error.

        What the diffusion adds is seen beside `vae_.bound(X)`: scores of `vae_` are importance-weighted, and tighter.
        """
        return self.bound(X).total

    def describe_score(self) -> str:
        return f"bound, {self._training_arguments().evaluation_levels} levels"

    def bound(self, X: Any, *, levels: str | int | None = None) -> Bound:
        """The evidence lower bound: reconstruction E_q ln p(x|z), and what q(z|x) costs by the diffusion's bound.

        Args:
            X: rows.
            levels: "all", or a number of levels per row that the prior's bound is estimated from; None is the recipe's
                `evaluation_levels`. Every level has a draw of z of its own.
        """
        x, kind = self._read_events(X)
        n_levels = self._training_arguments().evaluation_levels if levels is None else levels
        n_levels, n_draws = number_of_levels(n_levels, self.schedule_), self._recipe_of_vae().evaluation_samples
        with self._answering() as (module, device):
            found = answers.evidence(module, x, n_levels, n_draws, self._generator(), device, bool(self.verbose))
        return Bound(
            kind.values(found.reconstruction + self._columns.log_jacobian(~x.isnan())),
            {name: kind.values(value) for name, value in found.kl.items()},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
        )

    def posterior(self, X: Any) -> torch.distributions.Distribution:
        """q(z|x), a Gaussian per row."""
        return self.vae_.posterior(X)

    def transform(self, X: Any) -> Any:
        """The posterior mean of every row's latent vector, (n, m)."""
        return self.vae_.transform(X)

    def inverse_transform(self, Z: Any) -> Any:
        """The rows that the decoder expects at latent vectors (n, m)."""
        return self.vae_.inverse_transform(Z)

    def reconstruct(self, X: Any) -> Any:
        """What the decoder expects at the posterior mean of every row."""
        return self.vae_.reconstruct(X)

    def sample(
        self,
        n_samples: int = 1,
        y: Any = None,
        random_state: Any = None,
        *,
        steps: int | None = None,
        sampler: str = "ancestral",
        eta: float = 0.0,
    ) -> tuple[Any, Any]:
        """New rows, and the latent vector each came from.

        Args:
            n_samples: how many.
            y: None; there are no classes.
            random_state: seed or RandomState; None is the model's own.
            steps: levels to go through; None is all of them.
            sampler: "ancestral" draws from the model whose bound is scored; "ddim" and "dpm" need few steps.
            eta: the share of the noise that "ddim" keeps, 0 for none.
        """
        check_is_fitted(self)
        if y is not None:
            raise ValueError(f"y={y!r} asks for a class, and a latent diffusion knows none; pass y=None")
        n, chain = self._n_samples(n_samples), chain_of(self.schedule_, steps, sampler, eta)
        generator, parts = self._generator(random_state), []
        with self._answering() as (module, device):
            noise = torch.randn((n, module.vae.n_latent), generator=generator)
            for rows in blocks(n, module.prior.n_entries):
                walk = chain(module.prior, noise[rows].to(device), generator)
                *_, last = progress(walk, "Samples", bool(self.verbose), chain.schedule.n_levels)
                parts.append(module.restored(chain.decoded(module.prior, last, generator).to(device)).cpu())
        z = torch.cat(parts)
        return self._present(self.vae_._decoded(z, None, generator), self._kind), self._kind.values(z)

    def impute(self, X: Any, *, importance_samples: int | None = None) -> Any:
        """X with missing entries at their posterior mean, or most probable level; observed ones bit for bit.

        Draws of z from q are weighted by p(x|z) p(z) / q(z|x), p(z) by its bound, at common levels for all of a row.
        """
        x, kind = self._read_events(X)
        k = self._recipe_of_vae().evaluation_samples if importance_samples is None else importance_samples
        filled, holes, generator = x.clone(), x.isnan(), self._generator()
        some = holes.any(1)
        with self._answering() as (module, device):
            tilt = answers.tilt_of(module, IMPUTATION_LEVELS, generator)
            filled[some] = vae_answers.fill(
                module.vae, x[some], whole_number("importance_samples", k), generator, device, tilt
            )
        return self._restored(X, holes, filled, kind)

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        x, kind = self._read_events(X)
        n, k = whole_number("n_draws", n_draws), self._recipe_of_vae().evaluation_samples
        holes, generator = x.isnan(), self._generator(random_state)
        some = holes.any(1)
        with self._answering() as (module, device):
            tilt = answers.tilt_of(module, IMPUTATION_LEVELS, generator)
            drawn = vae_answers.fill_draws(module.vae, x[some], n, k, generator, device, tilt)
        copies = []
        for values in drawn:
            filled = x.clone()
            filled[some] = values
            copies.append(self._restored(X, holes, filled, kind))
        return copies

    @property
    def _n_features_out(self) -> int:
        return self.theta_.vae.n_latent

    def _recipe_of_vae(self) -> VAE:
        """The autoencoder to fit, with what is said here for both."""
        vae: VAE = VAE() if self.vae is None else clone(self.vae)
        vae.set_params(device=self.device, random_state=self.random_state, verbose=self.verbose)
        if self.checkpoint is not None:
            vae.set_params(checkpoint=f"{os.fspath(self.checkpoint)}.vae")
        return vae

    def _training_arguments(self) -> Diffusion:
        recipe: Diffusion = Diffusion(objective="variational") if self.diffusion is None else self.diffusion
        return recipe if self.checkpoint is None else clone(recipe).set_params(checkpoint=self.checkpoint)

    def _checkpoints(self) -> list[str | os.PathLike[str] | None]:
        # The prior's first: it is written after the autoencoder's.
        return [*super()._checkpoints(), self._recipe_of_vae().checkpoint]

    def _identity(self, lesson: Lesson) -> dict[str, Any]:
        stage = self._facts["stage"]
        own = {"epochs of the autoencoder": stage["n_iter"], "the bound of the autoencoder": stage["lower_bound"]}
        return super()._identity(lesson) | own

    def _learn(self, X: Any, sample_weight: Any = None) -> tuple[Events, Tensor | None, np.ndarray]:
        return self._recipe_of_vae()._learn(X, sample_weight)

    def _build(self, facts: dict[str, Any]) -> nn.Module:
        vae = build_vae(self._recipe_of_vae(), self._columns, self._image_shape, facts["vae"])
        prior = build_prior(self._training_arguments(), vae.n_latent, facts)
        return LatentModule(vae, prior, is_joint=self.training == "joint")


def copy_features(source: GradientEstimator, target: GradientEstimator) -> None:
    """What is remembered of X."""
    for name in ("n_features_in_", "feature_names_in_", "pixel_range_"):
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))
        elif hasattr(target, name):
            delattr(target, name)
