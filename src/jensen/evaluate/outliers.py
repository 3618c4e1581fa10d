"""How unusual rows are.

    bound     -ln p(x), or minus its lower bound
    profile   a diffusion's bound spelt out over bands of noise levels:
        v_b(x) = Σ_{t in band b} L_{t-1}(x),   f_b = ln(v_b + δ),   score = (f - m)ᵀ S⁻¹ (f - m)
with mean m and shrunk covariance S (Ledoit & Wolf 2004) of the f of reference rows. A row may be unusual at one level
of detail and have an ordinary sum: a strange shape in smooth strokes, or a picture that is simpler than any real one.
"""

from __future__ import annotations

from typing import Any

import torch
from sklearn.base import is_regressor
from sklearn.covariance import LedoitWolf
from torch import Tensor

from jensen.contract.gradient import blocks
from jensen.data.container import Kind
from jensen.models.diffusion.base import DenoisingModel
from jensen.models.diffusion.inference import number_of_levels
from jensen.models.diffusion.module import DiffusionModule
from jensen.runtime.progress import progress

__all__ = ["outlier_scores", "profile"]

N_BANDS = 10
# δ, as a share of what usual rows cost: bands that cost next to nothing are not told apart by their last digits.
FLOOR = 1e-3
# Rows so far away that their squares overflow still have a logarithm.
LARGEST = 1e300
# Means and covariances of ten bands need some rows.
LEAST_REFERENCE = 20


def outlier_scores(model: Any, X: Any, reference: Any = None, *, by: str = "bound") -> Any:
    """How unusual every row is, (n,); larger is more unusual.

    Args:
        model: a fitted model that scores rows; for "profile" a diffusion.
        X: rows.
        reference: for "profile", usual rows, best such that the model was not fitted on.
        by: "bound" is minus `score_samples`; "profile" compares what a diffusion pays at coarse to fine levels of
            detail with what it pays for the reference, from as many levels as its `evaluation_levels`.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture, outlier_scores
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = GaussianMixture(random_state=0).fit(X)
        >>> ordinary, odd = outlier_scores(model, [[0.0, 0.0], [5.0, -5.0]])
        >>> bool(odd > ordinary + 20)
        True
    """
    if isinstance(model, type):
        raise TypeError(f"model={model.__name__} is a class; give a fitted model, {model.__name__}().fit(X)")
    if not hasattr(model, "fit"):
        raise TypeError(f"model={model!r} is no model; give a fitted one")
    if by not in ("bound", "profile"):
        raise ValueError(f"by={by!r} is not known; choose 'bound' or 'profile'")
    if by == "profile":
        return by_profile(model, X, reference)
    if reference is not None:
        raise ValueError("reference is for by='profile'; leave it out, or choose that")
    return -scores_of(model, X)


def scores_of(model: Any, X: Any) -> Any:
    """What the model says of every row, or why it says nothing."""
    name = type(model).__name__
    if is_regressor(model):
        raise TypeError(f"{name} is a model of y given x, and cannot say how unusual x is; give a model of rows")
    try:
        score = model.score_samples
    except AttributeError as error:
        reason = f": {error.__cause__}" if error.__cause__ else ""
        instead = "give a model that scores rows"
        if hasattr(model, "reconstruction_error"):
            instead = f"use {type(model).__name__}.reconstruction_error(X), or {instead}"
        raise TypeError(f"{name} has no score_samples{reason}; {instead}") from None
    return score(X)


def by_profile(model: Any, X: Any, reference: Any) -> Any:
    if not isinstance(model, DenoisingModel):
        raise TypeError(
            f"by='profile' is for diffusions of rows, which {type(model).__name__} is not; give one, or by='bound'"
        )
    if reference is None:
        raise ValueError("by='profile' compares rows with usual ones; give them as reference, or by='bound'")
    # One state for both, also where the model has no seed: rows are compared under the same noise.
    noise = model._generator().get_state()
    usual, _ = profile(model, reference, noise)
    if len(usual) < LEAST_REFERENCE:
        raise ValueError(f"reference has {len(usual)} rows; give {LEAST_REFERENCE} or more to tell what is usual")
    if bool((usual == usual[0]).all()):
        raise ValueError(f"reference has {len(usual)} rows that are all alike; give rows that differ as usual ones do")
    asked, kind = profile(model, X, noise)
    least = FLOOR * usual.sum(1).quantile(0.5)
    features = [torch.log(nats.clamp_min(0.0) + least).numpy() for nats in (usual, asked)]
    return kind.values(torch.from_numpy(LedoitWolf().fit(features[0]).mahalanobis(features[1])))


def profile(model: DenoisingModel, X: Any, noise: Tensor | None = None) -> tuple[Tensor, Kind]:
    """v (n, B) of rows, finest band first, under the noise of this state of a generator, and their kind."""
    x, kind = model._read_complete(X)
    n_levels = number_of_levels(model.evaluation_levels, model.schedule_)
    generator = model._generator()
    if noise is not None:
        generator.set_state(noise)
    with model._answering() as (module, device):
        return band_nats(module, x.to(device), n_levels, generator, bool(model.verbose)), kind


def band_nats(module: DiffusionModule, x: Tensor, n_levels: int, generator: torch.Generator, is_shown: bool) -> Tensor:
    """v (n, B) of rows (n, d), from about so many levels.

    All rows are compared at the same levels with the same noise: what these add to all of them is then no difference
    between rows, and a row's score does not depend on the rows beside it. Neighbours among the levels have noise of
    opposite signs, so that the product of row and noise, which does differ between rows, nearly cancels in their sum.
    """
    level, weight, band = band_levels(module.share.cpu(), n_levels)
    if "continuous" not in module.space.columns.kinds:
        # L_0 is a probability, and belongs to the finest band; as a density it has no zero to take logarithms from.
        level = torch.cat([level.new_ones(1), level])
        weight, band = torch.cat([weight.new_ones(1), weight]), torch.cat([band.new_zeros(1), band])
    found = torch.zeros((len(x), int(band.max()) + 1), dtype=torch.float64)
    half = torch.randn(((len(level) + 1) // 2, 1, module.space.n_dims), generator=generator)
    noises = torch.stack([half, -half], 1).flatten(0, 1)[: len(level)].to(x.device)
    for t, w, b, noise in progress(list(zip(level, weight, band, noises, strict=True)), "Levels", is_shown):
        for rows in blocks(len(x), module.n_entries):
            x0 = module.space.embed(x[rows])
            at = torch.full((len(x0),), int(t), device=x.device)
            nats = module.terms(x[rows], x0, at, noise.expand_as(x0)).nats.double().cpu()
            found[rows, int(b)] += w * nats.nan_to_num(nan=LARGEST, posinf=LARGEST)
    return found


def band_levels(share: Tensor, n_levels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Levels from 2 on, weights with which their terms sum to those of all, and the band of each.

    Bands are equal parts of the distribution (T,) that scores draw levels from, and levels the middles of equal parts
    of these; as many as there are, or more, are all of them.
    """
    if len(share) < 2:
        raise ValueError("by='profile' needs 2 levels of noise or more, and the model has 1; choose by='bound'")
    others = share[1:] / share[1:].sum()
    end = others.cumsum(0)
    if n_levels >= len(share):
        level, weight, place = torch.arange(2, len(share) + 1), torch.ones(len(others)), end - others / 2
    else:
        n_levels = max(n_levels // N_BANDS, 1) * N_BANDS
        place = (torch.arange(n_levels, dtype=share.dtype) + 0.5) / n_levels
        index = torch.searchsorted(end, place).clamp_max(len(others) - 1)
        level, weight = index + 2, 1 / (n_levels * others[index])
    band = (place * N_BANDS).long().clamp_max(N_BANDS - 1)
    # Of few levels some bands have none.
    return level, weight.double(), band.unique(return_inverse=True)[1]
