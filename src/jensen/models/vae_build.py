"""The networks of a VAE from its recipes, and batches in which labelled rows are not lost among the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from jensen.contract.gradient import Lesson
from jensen.engines.feeds import Feed, Minibatch
from jensen.formulas.latent_gaussian import n_posterior_outputs
from jensen.interop.columns import Columns
from jensen.models.network_views import plan_networks
from jensen.models.vae_module import ClassVAEModule, VAEModule
from jensen.nets.conv import ConvEncoder
from jensen.nets.likelihoods import Emission, likelihood_of
from jensen.nets.mlp import MLP
from jensen.nets.recipe import build_network

if TYPE_CHECKING:
    from jensen.models.vae import VAE

__all__ = ["build_module", "labelled_feed", "marginal_start"]

# Numbers that the encoder of a model with classes says of x, before it is told the class.
N_SUMMARY = 128


def build_module(model: VAE, columns: Columns, shape: tuple[int, ...], facts: dict[str, Any]) -> VAEModule:
    """New networks for rows of this shape, (d,) or (c, h, w)."""
    _, gaussian, bernoulli = likelihood_of(model.likelihood)
    emission = Emission(columns.kinds, columns.n_levels, gaussian, columns.scale)
    m, n_classes, is_full = facts["n_latent"], facts["n_classes"], model.posterior_covariance == "full"
    networks = plan_networks(model, columns, shape, emission.n_outputs, facts["has_holes"])
    n_says = n_posterior_outputs(m, is_full)
    options = {
        "n_latent": m,
        "is_full": is_full,
        "n_draws": model.importance_samples,
        "has_holes": facts["has_holes"],
        "resamples": bernoulli.resample and "binary" in columns.kinds,
        "start": facts["start"],
    }
    parts = (
        networks.view,
        build_network("encoder", networks.encoder, networks.in_shape, (N_SUMMARY if n_classes else n_says,)),
        build_network("decoder", networks.decoder, (m + n_classes,), networks.out_shape),
        emission,
    )
    if not n_classes:
        return VAEModule(*parts, **options)
    head = MLP(hidden=(N_SUMMARY,), activation="relu").build((N_SUMMARY + n_classes,), (n_says,))
    # Few labels are learnt by heart at once: without dropout a classifier of 100 of them has twice the errors.
    usual = ConvEncoder(dropout=0.5) if len(shape) == 3 else MLP(activation="relu", dropout=0.5)
    classifier = build_network("classifier", model.classifier or usual, networks.in_shape, (n_classes,))
    return ClassVAEModule(
        torch.tensor(facts["prior"]).log(), classifier, head, facts["class_weight"], *parts, **options
    )


def marginal_start(model: VAE, lesson: Lesson, rows: np.ndarray) -> dict[str, Tensor | None]:
    """Outputs of a decoder that knows the frequencies of levels; standardised numbers have mean 0 as it is."""
    columns = lesson.events.columns
    if set(columns.kinds) == {"continuous"}:
        return {"start": None}
    emission = Emission(columns.kinds, columns.n_levels, likelihood_of(model.likelihood)[1], columns.scale)
    return {"start": emission.marginal_outputs(lesson.some_rows(rows))}


@dataclass(frozen=True)
class LabelledFeed:
    """Rows without a label by number, each batch joined by labelled rows drawn at random.

    Weights make the mean over a batch an unbiased estimate of the mean over all rows.
    """

    unlabelled: Feed
    labelled: Feed
    share: float

    def __len__(self) -> int:
        return len(self.unlabelled)

    def take(self, index: Tensor) -> Minibatch:
        # Where a few labelled rows outweigh all others, the share of these may round to 0.
        fair = self.share / max(1 - self.share, torch.finfo(torch.float32).eps) * len(index)
        n = min(len(self.labelled), max(round(fair), len(index) // 2))
        # torch's own generator, whose state a checkpoint keeps.
        extra = self.labelled.take(torch.randperm(len(self.labelled))[:n])
        base = self.unlabelled.take(index)
        total = len(index) + n
        weights, device = [], next(tensor.device for tensor in base.inputs if tensor is not None)
        for batch, rows, share in ((base, len(index), 1 - self.share), (extra, n, self.share)):
            weight = torch.full((rows,), share * total / rows, device=device)
            weights.append(weight if batch.weight is None else weight * batch.weight)
        inputs = [
            None if a is None or b is None else torch.cat([a, b])
            for a, b in zip(base.inputs, extra.inputs, strict=True)
        ]
        return Minibatch(tuple(inputs), torch.cat(weights))


def labelled_feed(lesson: Lesson, rows: np.ndarray, device: torch.device) -> Feed:
    """Both kinds of rows in every batch, where there are both."""
    label = lesson.extra[0]
    assert label is not None
    is_known = (label[torch.from_numpy(rows)] >= 0).numpy()
    if is_known.all() or not is_known.any():
        return lesson.feed(rows, device)
    mass = torch.ones(len(label)) if lesson.weight is None else lesson.weight.float()
    known, unknown = rows[is_known], rows[~is_known]
    share = float(mass[torch.from_numpy(known)].sum() / mass[torch.from_numpy(rows)].sum())
    return LabelledFeed(lesson.feed(unknown, device), lesson.feed(known, device), share)
