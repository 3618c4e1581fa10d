"""Denoising diffusion.

    q(x_t|x_{t-1}) = N(√(1-β_t) x_{t-1}, β_t I)
    p(x_T) = N(0, I),   p(x_{t-1}|x_t) = N(w_t x_t + u_t x̂_0(x_t), σ_t² I)
    ln p(x) ≥ E_q[ln p(x_0|x_1)] - KL(q(x_T|x_0) ‖ N(0, I)) - Σ_{t=2}^T E_q KL(q(x_{t-1}|x_t,x_0) ‖ p(x_{t-1}|x_t))
A network is trained to predict x̂_0 from x_t, or what determines it: the noise ε, the mean or the velocity. Each KL is a
weighted squared error, with the x_0-weight u_t² / (2 σ_t²) on ‖x_0 - x̂_0‖² or the ε-weight
β_t² / (2 σ_t² (1-β_t) (1-ᾱ_t)) on ‖ε - ε̂‖²; the simple loss sets the weight to 1. For data on a grid, p(x_0|x_1) is the
discretised decoder: the probability of a level is the mass of its cell.
Sohl-Dickstein et al. (2015); Ho et al. (2020); the bound as a training objective Nichol & Dhariwal (2021), Kingma et
al. (2021); missing values Ouyang et al. (2023), Lugmayr et al. (2022) and Tashiro et al. (2021). A bound, never exact.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from jensen.contract.gradient import GradientEstimator
from jensen.contract.image_sizes import default_steps, image_network
from jensen.contract.training import TrainingSpec
from jensen.data.container import Table
from jensen.data.rows import ColumnRules, image_shape
from jensen.engines.sgd.plan import Trainer
from jensen.engines.sgd.streams import TrainingData
from jensen.formulas.schedule import LARGEST_BETA, Schedule
from jensen.models.diffusion.base import DenoisingModel
from jensen.models.diffusion.build import (
    DiffusionFacts,
    build_module,
    decide,
    with_classes,
    with_rows,
)
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.objective import denoising_bound, denoising_objective
from jensen.models.diffusion.to_diffusers import check_arguments, write_pipeline
from jensen.nets.recipe import Recipe


class Diffusion(DenoisingModel):
    """Denoising diffusion for tables and images, with its full evidence lower bound (ELBO).

    NaN marks missing values, in training and in `impute` and `impute_draws`. Scores need complete rows.

    Args:
        schedule: "cosine" (the cosine formula of Nichol & Dhariwal, 2021), "linear", a `Schedule`, or β_1, ..., β_T as
            an array. With prediction "noise" or "mean" the last β of "cosine" are at most the smaller of 50/T and 0.75,
            because larger ones multiply the errors of the network.
        n_steps: T, the number of noise levels, at most a million; None is 1000, or the number that the schedule has.
        prediction: what the network predicts for numbers: "noise" (ε), "data" (x_0), "mean" (of x_{t-1}) or "velocity";
            "levels" predicts the probability of each level of a grid. "auto" is "velocity", but "levels" for data on a
            grid, unless rows have more than 4096 values of more than 32 levels. For categories it always predicts
            probabilities. The errors of "noise" and "mean" grow with the noise, so x̂_0 is then limited to the range of
            the rows wherever x_t is mostly noise, and that of numbers on a grid with every prediction.
        objective: what training raises. "simple" is minus the mean squared error of the prediction (all ε- or
            x_0-weights set to 1), with the cross-entropy for levels; "variational" is the bound; "hybrid" is "simple"
            plus a small part of the bound, which trains a learned variance.
        variance: σ_t² of the reverse steps: "beta" for β_t, "posterior" for β̃_t, "learned" for a value between them.
            "auto" is "beta" for numbers and "posterior" for numbers on a grid; for levels it follows from their
            probabilities. "learned" is an error if every column has levels.
        network: recipe of the network, such as UNet() or ResidualMLP(), or your own `Denoiser`; None is
            ResidualMLP() for tables and UNet() for images. Those larger than 16x16 get the smallest of the patches 2,
            4, 8, ... with which the larger side has at most 16 points, and from 4 on channels (48, 96).
        data_levels: number of values of data on a grid, such as 256 for pixels, which are then scored by probability
            (discretised decoder); None treats numbers as continuous, scored by density. "auto" detects whole numbers
            with at most 256 levels and, in images, scaled ones.
        columns: {column: kind} for columns that are not what they look like: "number", "level", "yes/no", "date" or
            "left out"; or {column: {"kind": "number", "atoms": [0]}} for numbers with a probability of their own, []
            for none.
        imputation: how missing values are drawn. "repaint" needs nothing of the training; "masks" tells the network
            the observed values of rows, some of which training hides in half of the rows: draws need a fraction of the
            passes through the network, and the bound is somewhat lower.
        evaluation_levels: number of noise levels per row that scores are estimated from, or "all".
        scaling: "feature" standardises every column, "common" divides all columns by one number; None is "common" for
            images and "feature" for tables. Scores are in the units of the data in any case.
        max_epochs: passes over the rows; None is enough for 5000 steps, at least 20, and for images of more than 64
            pixels for 1800 steps, at least 5.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        trainer: the other options of the training, `Trainer(...)`.
        checkpoint: file that training writes from time to time and resumes from if it exists.
        device: "auto", "cpu", "cuda", ...
        random_state: seed or RandomState of the training and of every method that draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        module_: the network; forward returns the terms of the bound.
        schedule_: the noise schedule.
        history_: data frame with one row per round, and a `plot()`.
        columns_: kind, levels, atoms and scaling of every column.
        classes_: the classes, after a fit with labels.
        n_iter_: number of epochs.
        pixel_range_: for images, the smallest and the largest value of a pixel; sampled images are clipped to it.
        lower_bound_: mean objective per row at the weights that were kept.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import Diffusion
        >>> X = load_iris().data
        >>> model = Diffusion(n_steps=50, max_epochs=20, random_state=0).fit(X)
        >>> model.score_samples(X).shape, model.sample(5)[0].shape
        ((150,), (5, 4))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "schedule": [StrOptions({"linear", "cosine"}), Schedule, "array-like"],
        "n_steps": [Interval(Integral, 1, None, closed="left"), None],
        "prediction": [StrOptions({"auto", "noise", "data", "mean", "velocity", "levels"})],
        "objective": [StrOptions({"simple", "variational", "hybrid"})],
        "variance": [StrOptions({"auto", "beta", "posterior", "learned"})],
        "network": [Recipe, None],
        "data_levels": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left"), None],
        "columns": [Mapping, None],
        "imputation": [StrOptions({"repaint", "masks"})],
        "evaluation_levels": [StrOptions({"all"}), Interval(Integral, 4, None, closed="left")],
        "scaling": [StrOptions({"feature", "common"}), None],
        **GradientEstimator._training_constraints,
    }

    def __init__(
        self,
        schedule: str | Schedule | ArrayLike = "cosine",
        n_steps: int | None = None,
        *,
        prediction: str = "auto",
        objective: str = "simple",
        variance: str = "auto",
        network: Recipe | None = None,
        data_levels: str | int | None = "auto",
        columns: Mapping[str | int, Any] | None = None,
        imputation: str = "repaint",
        evaluation_levels: str | int = 100,
        scaling: str | None = None,
        max_epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        trainer: Trainer | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.schedule = schedule
        self.n_steps = n_steps
        self.prediction = prediction
        self.objective = objective
        self.variance = variance
        self.network = network
        self.data_levels = data_levels
        self.columns = columns
        self.imputation = imputation
        self.evaluation_levels = evaluation_levels
        self.scaling = scaling
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.trainer = trainer
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network.

        Args:
            X: table (n, d), images (n, h, w) or (n, c, h, w), memory-mapped array, torch Dataset or `jensen.scan`;
                NaN, None and empty cells are missing values. With missing values the network sees a mask of the
                observed values, and the objective covers only these; it is then a bound for complete rows only.
            y: labels (n,), with -1, None or NaN where unknown; None ignores labels. A scan has them in a column. If
                some are unknown, labelled rows are a third of every batch, or more if they are more of all rows.
            sample_weight: weight of every row: 2 counts the row twice, 0 leaves it out.
        """
        self._validate_params()
        self._schedule()  # raises errors in the schedule before the rows are read
        data = self._training_set(X, y, sample_weight)
        columns = data.events.columns
        n_classes = len(self.classes_) if data.has_labels else 0
        facts = replace(with_classes(decide(self, columns), data, n_classes), has_missing=data.lacks_values())
        shape = image_shape(data.events.shape)
        if len(shape) == 3 and self.network is None:
            channels, patch = image_network(shape)
            facts = replace(facts, channels=channels, patch=patch)
        n_steps, least_epochs = default_steps(shape)
        self._train(
            data,
            TrainingSpec(
                objective=denoising_objective(self.objective, denoising_bound, len(columns.names)),
                score=denoising_bound,
                facts=lambda rows: with_rows(facts, data, rows),
                n_steps=n_steps,
                least_epochs=least_epochs,
            ),
        )
        return self

    def to_diffusers(self, path: str | os.PathLike[str], y: Any = None) -> None:
        """Write a folder that `DDPMPipeline.from_pretrained(path)` of the library diffusers reads; `jensen[diffusers]`.

        The model must be one of images with levels (the pipeline shows the lowest as black and the highest as white),
        with the network `UNet(position_map=False)`, n_steps=1000, prediction "noise", "data" or "velocity", and
        variance "beta" or "posterior". In the last step pipelines use the mean of p(x_0|x_1), where `sample` draws.
        Before a fit the error names the arguments that cannot be written or, if all can, asks for a fit.

        Args:
            path: the folder.
            y: after a fit with labels, the class that the pipeline samples; None samples without a class.
        """
        if not hasattr(self, "theta_"):
            self._validate_params()
            check_arguments(self)
        check_is_fitted(self)
        write_pipeline(self, path, y)

    def _schedule(self, largest_beta: float = LARGEST_BETA) -> Schedule:
        """The noise schedule of the arguments; `largest_beta` limits the last β of the cosine."""
        given, n = self.schedule, self.n_steps or 1000
        if isinstance(given, str):
            return Schedule.linear(n) if given == "linear" else Schedule.cosine(n, largest_beta)
        schedule = given if isinstance(given, Schedule) else Schedule(np.asarray(given))
        if self.n_steps not in (None, schedule.n_levels):
            raise ValueError(
                f"n_steps={self.n_steps} is not the number of levels of the schedule, {schedule.n_levels}; leave "
                "n_steps out, or respace the schedule"
            )
        return schedule

    def _training_set(self, X: Table, y: Any, sample_weight: Any) -> TrainingData:
        return replace(super()._training_set(X, y, sample_weight), is_mixed=True, is_even=True)

    def _column_rules(self) -> ColumnRules:
        return ColumnRules("auto", self.scaling, self.data_levels, self.columns, atoms=True)

    def _build(self, facts: DiffusionFacts) -> DiffusionModule:
        return build_module(self, self._parts.inner, self._image_shape, self._schedule(facts.largest_beta), facts)
