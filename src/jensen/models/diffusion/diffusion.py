"""Denoising diffusion.

    q(x_t|x_{t-1}) = N(√(1-β_t) x_{t-1}, β_t I)
    p(x_T) = N(0, I),   p(x_{t-1}|x_t) = N(w_t x_t + u_t x̂_0(x_t), σ_t² I)
    ln p(x) ≥ E_q[ln p(x_0|x_1)] - KL(q(x_T|x_0) ‖ N(0, I)) - Σ_{t=2}^T E_q KL(q(x_{t-1}|x_t,x_0) ‖ p(x_{t-1}|x_t))
A network is trained to say x̂_0, or what determines it, from x_t. Sohl-Dickstein et al. (2015); Ho et al. (2020); the
bound as a training objective Nichol & Dhariwal (2021), Kingma et al. (2021); missing entries Ouyang et al. (2023) and
Lugmayr et al. (2022). A bound, never exact.
"""

from __future__ import annotations

import os
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from jensen.contract.gradient import GradientEstimator, Lesson
from jensen.data.labels import encode_labels
from jensen.data.rows import Events, learn_events
from jensen.engines.sgd.loop import Terms
from jensen.engines.sgd.plan import Trainer
from jensen.formulas.schedule import LARGEST_BETA, Schedule
from jensen.models.diffusion.base import DenoisingModel
from jensen.models.diffusion.build import build_module, class_facts, decide, marginal_start
from jensen.models.diffusion.objective import denoising_objective
from jensen.models.diffusion.to_diffusers import check_arguments, write_pipeline
from jensen.nets.recipe import Recipe

__all__ = ["Diffusion"]


class Diffusion(DenoisingModel):
    """A denoising diffusion of tables and images, with its whole bound.

    NaN is missing, in training and for `impute` and `impute_draws`; scores are of complete rows.

    Args:
        schedule: "cosine", "linear", a `Schedule`, or β_1, ..., β_T as an array. With prediction "noise" or "mean" the
            last β of "cosine" are at most 50/T or 0.75: larger ones multiply the errors of the network.
        n_steps: T, the levels of noise, at most a million; None is 1000, or as many as the schedule has.
        prediction: what the network says of numbers: "noise", "data", "mean" or "velocity"; "levels" says how probable
            each level of a grid is. "auto" is "levels" for data on a grid and "velocity" for others. Categories have
            levels whatever is chosen here. The errors of "noise" and "mean" grow with the level, so x̂_0 is then held
            within the range of the rows where most of x_t is noise.
        objective: what training raises: "simple", minus the mean squared error of what is predicted, for levels the
            cross-entropy; "variational", the bound; "hybrid", simple with a little of the bound, which trains a
            learned variance.
        variance: σ_t² of the reverse steps: "beta" for β_t, "posterior" for β̃_t, "learned" between them. "auto" is
            "beta" for numbers, "posterior" for those of a grid, and for levels what their probabilities leave open;
            "learned" is an error where every column has levels.
        network: recipe of the network, such as UNet() or ResidualMLP(), or a `Denoiser` of your own; None is UNet() for
            images and ResidualMLP() for tables.
        data_levels: the number of values that data on a grid have, such as 256 for pixels; None for numbers that have
            a density. "auto" finds whole numbers of at most 256 levels; in images scaled ones, too.
        evaluation_levels: levels per row that scores are estimated from, or "all".
        scaling: "feature" standardises every column, "common" all by one number, None is common for images; scores
            are in the units of the data all the same.
        max_epochs: passes over the rows; None is enough for 5000 steps, at least 20.
        batch_size: rows per step.
        learning_rate: of Adam.
        trainer: everything else about training, `Trainer(...)`.
        checkpoint: file that training writes to from time to time, and goes on from if it is there.
        device: "auto", "cpu", "cuda", ...
        random_state: seed or RandomState, of the training and of every call that draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        module_: the network; forward gives the terms of the bound.
        schedule_: the noise, level by level.
        history_: a data frame with one row per round, and a `plot()`.
        columns_: kind, levels and scaling of every column.
        classes_: after a fit with labels.
        n_iter_: epochs.
        pixel_range_: of images, the least and the greatest value of a pixel; pictures are cut off there.
        lower_bound_: what training raised, at the weights that were kept.

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
        "evaluation_levels": [StrOptions({"all"}), Interval(Integral, 4, None, closed="left")],
        "scaling": [StrOptions({"feature", "common"}), None],
        **GradientEstimator._training_constraints,
    }

    def __init__(
        self,
        schedule: str | Schedule | Any = "cosine",
        n_steps: int | None = None,
        *,
        prediction: str = "auto",
        objective: str = "simple",
        variance: str = "auto",
        network: Recipe | None = None,
        data_levels: str | int | None = "auto",
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network.

        Args:
            X: a table (n, d), images (n, h, w) or (n, c, h, w), a memory-mapped array or a torch Dataset; NaN, None or
                an empty cell is missing. Then the network sees what is observed, and what training raises covers that
                alone: an objective, and a bound only for complete rows.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        self._schedule()  # a mistake in it need not wait for the rows
        events, weight, kept = self._learn(X, sample_weight)
        label, classes = encode_labels(y, len(kept), None, kept)
        if hasattr(self, "classes_"):
            del self.classes_
        if label is not None:
            self.classes_ = classes
        lesson = Lesson(events, () if label is None else (label[torch.from_numpy(kept)],), weight)
        facts = decide(self, events.columns) | class_facts(self, lesson) | {"has_holes": lesson.has_holes()}

        def bound(terms: Terms, done: float) -> Tensor:
            return terms["reconstruction"] - terms["denoising"] - terms["prior"]

        objective = denoising_objective(self.objective, bound, len(events.columns.names))
        self._train(lesson, facts, objective, bound, found=partial(marginal_start, lesson, facts))
        return self

    def to_diffusers(self, path: str | os.PathLike[str], y: Any = None) -> None:
        """Write a folder that `DDPMPipeline.from_pretrained(path)` of the library diffusers reads; `jensen[diffusers]`.

        It is for images with levels, of which the pipeline makes the lowest black and the highest white, with a network
        `UNet(position_map=False)`, n_steps=1000, prediction "noise", "data" or "velocity", and variance "beta" or
        "posterior". Pipelines take the mean of p(x_0|x_1), from which `sample` draws. Before a fit the error is about
        the arguments that cannot be written, or, if all can, that there is no fit yet.

        Args:
            path: the folder.
            y: after a fit with labels, the class that the pipeline is to make; None is of no particular class.
        """
        if not hasattr(self, "theta_"):
            self._validate_params()
            check_arguments(self)
        check_is_fitted(self)
        write_pipeline(self, path, y)

    def _schedule(self, largest_beta: float = LARGEST_BETA) -> Schedule:
        """The noise that the arguments ask for; the last β of the cosine are left to what is predicted."""
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

    def _learn(self, X: Any, sample_weight: Any = None) -> tuple[Events, Tensor | None, np.ndarray]:
        return learn_events(self, X, "auto", self.scaling, sample_weight, self.data_levels)

    def _build(self, facts: dict[str, Any]) -> nn.Module:
        # A model without this fact has the cosine as it is defined.
        schedule = self._schedule(facts.get("largest_beta", LARGEST_BETA))
        return build_module(self, self._columns, self._image_shape, schedule, facts)
