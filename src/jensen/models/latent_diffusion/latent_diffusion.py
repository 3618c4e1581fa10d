"""Latent diffusion: a variational autoencoder whose prior over latent vectors is a diffusion.

    z ~ a reverse chain,  x | z ~ p(x | decoder(z)),   q(z|x) = N(μ(x), L(x) L(x)ᵀ)
    ln p(x) ≥ E_q[ln p(x|z) + bound of ln p(z) - ln q(z|x)],   ln p(x|y) with the bound of ln p(z|y)
A VAE samples z from N(0, I), but the latent vectors of the data are not distributed like that; the diffusion closes
this gap. With variance β_t and velocity 0 its chain is N(0, I) for every schedule, so training begins at the bound of
the autoencoder. Vahdat, Kreis & Kautz (2021); Rombach et al. (2022). A bound, never exact.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from jensen.contract import warn_unused, whole_number
from jensen.contract.gradient import GradientEstimator
from jensen.contract.scanning import without_labels
from jensen.contract.training import TrainingSpec
from jensen.data.container import Table
from jensen.data.rows import ColumnRules
from jensen.engines.sgd.streams import TrainingData
from jensen.formulas.schedule import Schedule
from jensen.models.autoencoders import inference as vae_answers
from jensen.models.autoencoders.build import build_module as build_vae
from jensen.models.autoencoders.vae import VAE
from jensen.models.diffusion.build import with_classes
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.diffusion.inference import chain_of, sample
from jensen.models.diffusion.objective import denoising_objective
from jensen.models.latent_diffusion import inference as answers
from jensen.models.latent_diffusion.base import LatentModel
from jensen.models.latent_diffusion.module import (
    FirstStage,
    LatentFacts,
    LatentModule,
    build_prior,
    copy_features,
    decide_prior,
    latent_moments,
    try_prior,
)
from jensen.models.latent_diffusion.objective import bound, minus_latent

# Levels that compare the densities of the draws of z of a row.
IMPUTATION_LEVELS = 20


class LatentDiffusion(LatentModel):
    """Variational autoencoder with a diffusion as its prior, which may have classes.

    Args:
        vae: recipe of the autoencoder, an unfitted `VAE(...)`; None is VAE().
        diffusion: recipe of the prior, an unfitted `Diffusion(...)`; its arguments about training apply to the second
            stage. None is Diffusion(objective="variational"). The defaults are variance "beta", prediction "velocity"
            and network ResidualMLP(). With scaling=None latent vectors are not scaled, and the prior begins as N(0, I).
        training: "two-stage" trains the autoencoder and then only the prior; "joint" then trains all networks together,
            which needs objective="variational".
        columns: {column: kind or options}, as in `VAE`; None uses that of the recipe.
        checkpoint: file from which an interrupted fit resumes; that of the autoencoder has the suffix ".vae". None uses
            the checkpoints of the recipes.
        device: "auto", "cpu", "cuda", ...; this argument and the next two replace those of the recipes.
        random_state: seed or RandomState of the training and of every method that draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        vae_: the autoencoder, with its own prior N(0, I).
        module_: all networks; forward returns the terms of the bound.
        schedule_: the noise schedule.
        history_: data frame of the second stage with one row per round. Round 0 is the start, which is kept unless a
            later round scores better on the held-out rows.
        columns_: kind, levels, atoms and scaling of every column.
        classes_: the classes, after a fit with labels.
        n_iter_: number of epochs of the second stage.
        pixel_range_: for images, the smallest and the largest value of a pixel; sampled images are clipped to it.
        lower_bound_: mean objective per row of the second stage at the weights that were kept.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import VAE, Diffusion, LatentDiffusion
        >>> X = load_iris().data
        >>> prior = Diffusion(n_steps=50, objective="variational", max_epochs=10)
        >>> model = LatentDiffusion(VAE(2, max_epochs=10), prior, random_state=0).fit(X)
        >>> model.transform(X).shape, model.sample(5)[0].shape
        ((150, 2), (5, 4))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "vae": [VAE, None],
        "diffusion": [Diffusion, None],
        "training": [StrOptions({"two-stage", "joint"})],
        "columns": [Mapping, None],
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
        columns: Mapping[str | int, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.vae = vae
        self.diffusion = diffusion
        self.training = training
        self.columns = columns
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the autoencoder, and then the prior of its latent vectors, alone or together with it.

        Ctrl-C during the first stage ends the fit: the prior is not trained.

        Args:
            X: table (n, d), images (n, h, w) or (n, c, h, w), memory-mapped array, torch Dataset or `jensen.scan`;
                NaN, None and empty cells are missing values.
            y: labels (n,) for the prior, with -1, None or NaN where unknown; None ignores labels. A scan has them in a
                column. The autoencoder has no classes.
            sample_weight: weight of every row: 2 counts the row twice, 0 leaves it out.
        """
        self._validate_params()
        self._warn_of_unused_arguments()
        vae, recipe, is_joint = self._recipe_of_vae(), self._training_arguments(), self.training == "joint"
        of_prior = decide_prior(recipe, is_joint)
        data = vae._training_set(without_labels(X), None, sample_weight)
        labelled = self._with_labels(data, X, y, sample_weight)
        of_prior = with_classes(of_prior, labelled, len(self.classes_) if labelled.has_labels else 0)
        try_prior(recipe, vae._derived_facts(data).n_latent, of_prior)
        # Both stages have the same seed and so hold out the same rows.
        seed = self._seed()
        first = vae._fit_set(data, seed)
        copy_features(vae, self)
        stage = FirstStage(vae._history, vae.n_iter_, vae.lower_bound_)

        def facts(rows: Any) -> LatentFacts:
            location, scale = latent_moments(vae.theta_, labelled.some_rows(rows), recipe.scaling)
            return LatentFacts(vae._facts, stage, of_prior, location, scale)

        def build(facts: LatentFacts) -> LatentModule:
            module = self._build(facts)
            module.vae.load_state_dict(vae.theta_.state_dict())
            return module

        of_prior_alone = denoising_objective(recipe.objective, minus_latent, vae.theta_.n_latent)
        self._train(
            labelled,
            TrainingSpec(
                objective=bound if is_joint else of_prior_alone,
                score=bound,
                facts=facts,
                build=build,
                seed=seed,
                may_keep_start=True,
                is_skipped=first.is_interrupted,
            ),
        )
        return self

    def _warn_of_unused_arguments(self) -> None:
        names = ["device", "random_state", "verbose"] + ["checkpoint"] * (self.checkpoint is not None)
        for part in (self.vae, self.diffusion):
            if part is not None:
                others = [name for name in names if getattr(part, name) != getattr(self, name)]
                warn_unused(
                    part, dict.fromkeys(others, "set it on the LatentDiffusion, whose own applies to both parts")
                )

    @property
    def vae_(self) -> VAE:
        """The autoencoder, with its own prior N(0, I)."""
        check_is_fitted(self)
        vae, stage = self._recipe_of_vae(), self._facts.stage
        vae.theta_, vae._facts = self.theta_.vae, self._facts.vae
        vae._columns, vae._shape, vae._kind = self._columns, self._shape, self._kind
        vae._history, vae.n_iter_, vae.lower_bound_ = stage.history, stage.n_iter, stage.lower_bound
        copy_features(self, vae)
        return vae

    @property
    def schedule_(self) -> Schedule:
        """The noise schedule."""
        check_is_fitted(self)
        return self.theta_.prior.schedule

    def posterior(self, X: Table) -> torch.distributions.Distribution:
        """q(z|x), a Gaussian per row."""
        return self.vae_.posterior(X)

    def transform(self, X: Table) -> Any:
        """The posterior mean of every row's latent vector, (n, m)."""
        return self.vae_.transform(X)

    def inverse_transform(self, Z: Any) -> Any:
        """The expected rows at latent vectors (n, m)."""
        return self.vae_.inverse_transform(Z)

    def reconstruct(self, X: Table) -> Any:
        """The expected row at the posterior mean of every row's latent vector."""
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
        guidance: float = 0.0,
        mean: bool = False,
    ) -> tuple[Any, Any]:
        """New rows, and the latent vector of each.

        Args:
            n_samples: number of rows.
            y: after a fit with labels, the class of all rows, or one per row; None samples without a class.
            random_state: seed or RandomState; None is the model's own.
            steps: number of number of levels to use; None uses all.
            sampler: "ancestral" samples the model whose bound is scored; "ddim" and "dpm" need few steps.
            eta: the fraction of the noise that "ddim" keeps, 0 for none.
            guidance: strength of classifier-free guidance of the prior towards the class y.
            mean: whether rows are the decoder's means and most probable levels, without the noise of p(x|z).
        """
        check_is_fitted(self)
        n, generator = self._n_samples(n_samples), self._generator(random_state)
        label = self._classes_to_draw(y, n, guidance)
        chain = chain_of(self.schedule_, steps, sampler, eta, guidance)
        with self._inference() as (module, device):
            noise = torch.randn((n, module.vae.n_latent), generator=generator)
            drawn = sample(module.prior, chain, noise, generator, device, label, bool(self.verbose))
            z = module.restored(drawn.to(device)).cpu()
        decoded = self.vae_._decoded(z, None, None if mean else generator)
        return self._present(decoded, self._kind, is_expected=mean), self._kind.values(z)

    def impute(self, X: Table, *, importance_samples: int | None = None) -> Any:
        """X with missing values at their posterior mean or most probable level; observed values are unchanged.

        Draws of z from q are weighted by p(x|z) p(z) / q(z|x), with the bound of p(z) at common levels for all draws of
        a row.
        """
        rows = self._read_fitted(X)
        k = self._recipe_of_vae().evaluation_samples if importance_samples is None else importance_samples
        k, x = whole_number("importance_samples", k), rows.x[rows.missing.any(1)]
        with self._inference() as (module, device):
            tilt = answers.tilt_of(module, IMPUTATION_LEVELS)
            filled = vae_answers.fill(module.vae, x, k, self._draws(x), device, tilt)
        return self._with_rows(X, rows, self._parts.join(filled, is_expected=True))

    def impute_draws(self, X: Table, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing values drawn from their posterior, for multiple imputation."""
        rows, generator = self._read_fitted(X), self._generator(random_state)
        n, k = whole_number("n_draws", n_draws), self._recipe_of_vae().evaluation_samples
        with self._inference() as (module, device):
            tilt = answers.tilt_of(module, IMPUTATION_LEVELS)
            drawn = vae_answers.fill_draws(module.vae, rows.x[rows.missing.any(1)], n, k, generator, device, tilt)
        return [self._with_rows(X, rows, self._parts.join(filled)) for filled in drawn]

    @property
    def _n_features_out(self) -> int:
        return self.theta_.vae.n_latent

    def _recipe_of_vae(self) -> VAE:
        """The autoencoder to fit, with the arguments that apply to both parts."""
        vae: VAE = VAE() if self.vae is None else clone(self.vae)
        vae.set_params(device=self.device, random_state=self.random_state, verbose=self.verbose)
        if self.columns is not None:
            vae.set_params(columns=self.columns)
        if vae.condition_on is not None:
            raise ValueError(f"condition_on={vae.condition_on!r} is for VAE alone; the diffusion sees no covariates")
        if self.checkpoint is not None:
            vae.set_params(checkpoint=f"{os.fspath(self.checkpoint)}.vae")
        return vae

    def _training_arguments(self) -> Diffusion:
        recipe: Diffusion = Diffusion(objective="variational") if self.diffusion is None else self.diffusion
        return recipe if self.checkpoint is None else clone(recipe).set_params(checkpoint=self.checkpoint)

    def _checkpoints(self) -> list[str | os.PathLike[str] | None]:
        # The prior's first: it is written later than that of the autoencoder.
        return [*super()._checkpoints(), self._recipe_of_vae().checkpoint]

    def _identity(self, data: TrainingData) -> dict[str, object]:
        stage = self._facts.stage
        own = {"epochs of the autoencoder": stage.n_iter, "the bound of the autoencoder": stage.lower_bound}
        return super()._identity(data) | own

    def _column_rules(self) -> ColumnRules:
        return self._recipe_of_vae()._column_rules()

    def _build(self, facts: LatentFacts) -> LatentModule:
        vae = build_vae(self._recipe_of_vae(), self._parts, self._image_shape, facts.vae)
        prior = build_prior(self._training_arguments(), facts.location, facts.scale, facts.diffusion)
        return LatentModule(vae, prior, is_joint=self.training == "joint")

    def _facts_from(self, record: dict[str, Any]) -> LatentFacts:
        return LatentFacts.from_record(record)
