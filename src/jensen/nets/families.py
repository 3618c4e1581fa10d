"""The distributions of columns of one kind, given the outputs of a decoder.

A number is Gaussian, yes or no Bernoulli, a level categorical, a count Poisson or negative binomial. Numbers that are
all on one grid, such as pixels, are discretised logistics with a share ε of a uniform distribution:
    x_j ~ (1-ε) Logistic(location_j, scale_j) in cells of the grid + ε Uniform,   ε = 1/(nd+1) after n rows of d pixels
so that a level where training had none is improbable, but by no more than ln(nd L) nats.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from jensen.formulas import logistic
from jensen.nets.likelihoods import Gaussian, NegativeBinomial, Poisson

# In standardised units: noise below a thousandth of a feature's spread is a collapse.
LEAST_STD = 1e-3
# The least initial probability of a level, and the least initial mean of a count: rare values stay possible.
LEAST_SHARE = 1e-3
# Largest ln of a mean count: beyond it single precision has no whole numbers.
MOST_LOG_MEAN = 16.0


class Family(nn.Module, ABC):
    """Columns of one kind.

    Args:
        columns: their places in a row.
        per_column: outputs for each of them.
    """

    columns: Tensor

    def __init__(self, columns: Sequence[int], per_column: int = 1) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.long), persistent=False)
        # The width of the outputs, and that of what `expectation` returns.
        self.n_outputs, self.n_expected = per_column * len(columns), len(columns)

    @abstractmethod
    def marginal(self, x: Tensor) -> Tensor:
        """Outputs (D,) that give these columns about their distribution in rows x (n, J)."""

    def begun(self, outputs: Tensor, start: Tensor) -> Tensor:
        """The outputs of a decoder whose training starts from these."""
        return outputs + start

    @abstractmethod
    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        """ln p of every value (..., J)."""

    @abstractmethod
    def expectation(self, outputs: Tensor) -> Tensor:
        """What may be averaged over z: means, or probabilities of all levels."""

    def decide(self, expected: Tensor) -> Tensor:
        """Values (..., J) from expectations."""
        return expected

    @abstractmethod
    def sample(self, outputs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Drawn values (..., J)."""


class Numbers(Family):
    """
    Args:
        columns: their places in a row.
        gaussian: the user's options.
        scale: of all columns, in the units of the data.
        least_variance: of learned noise, for every number in units of its scale; None is LEAST_STD².
    """

    log_least: Tensor

    def __init__(
        self, columns: Sequence[int], gaussian: Gaussian, scale: Tensor, least_variance: Tensor | None = None
    ) -> None:
        has_point_variance = gaussian.variance == "point"
        super().__init__(columns, 2 if has_point_variance else 1)
        self.has_point_variance, n = has_point_variance, len(columns)
        least = torch.full((1,), LEAST_STD**2) if least_variance is None else least_variance.clamp(min=LEAST_STD**2)
        # Saved with the weights, where it follows from the rows of the fit.
        self.register_buffer("log_least", least.log().float(), persistent=least_variance is not None)
        if isinstance(gaussian.variance, Real):
            fixed = math.log(gaussian.variance) - 2 * scale[self.columns].log()
            self.register_buffer("log_variance", fixed.float(), persistent=False)
        elif n and not self.has_point_variance:
            self.log_variance = nn.Parameter(torch.zeros(n if gaussian.variance == "feature" else 1))

    def marginal(self, x: Tensor) -> Tensor:
        return torch.zeros(self.n_outputs)

    def log_noise(self, point: Tensor) -> Tensor:
        """ln σ²; a learned one is σ² = e^v + the least variance."""
        if not self.has_point_variance and not isinstance(self.log_variance, nn.Parameter):
            return self.log_variance
        value = point if self.has_point_variance else self.log_variance
        return self.log_least + softplus(value - self.log_least)

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        n = len(self.columns)
        mean, log_variance = outputs[..., :n], self.log_noise(outputs[..., n:])
        return -0.5 * ((x - mean).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi))

    def expectation(self, outputs: Tensor) -> Tensor:
        return outputs[..., : len(self.columns)]

    def sample(self, outputs: Tensor, generator: torch.Generator | None) -> Tensor:
        n = len(self.columns)
        mean = outputs[..., :n]
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype).to(mean)
        return mean + (0.5 * self.log_noise(outputs[..., n:])).exp() * noise


class YesNo(Family):
    def marginal(self, x: Tensor) -> Tensor:
        return x.nanmean(0).clamp(LEAST_SHARE, 1 - LEAST_SHARE).logit()

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        """x ln p + (1-x) ln(1-p), also of grey values."""
        return x * outputs - softplus(outputs)

    def expectation(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def sample(self, outputs: Tensor, generator: torch.Generator | None) -> Tensor:
        return (uniform(outputs, generator) < outputs.sigmoid()).to(outputs)


class Levels(Family):
    """
    Args:
        columns: their places in a row.
        n_levels: of all columns of a row.
    """

    places: Tensor
    is_level: Tensor

    def __init__(self, columns: Sequence[int], n_levels: Sequence[int]) -> None:
        super().__init__(columns)
        # The logits are sorted by level: the first level of all columns, then the second, and so on.
        sizes = torch.tensor([n_levels[j] for j in columns], dtype=torch.long)
        widest = int(sizes.max()) if len(sizes) else 0
        places = torch.zeros((widest, len(sizes)), dtype=torch.long)
        is_level = torch.arange(widest)[:, None] < sizes
        places[is_level] = torch.arange(int(is_level.sum()))
        self.register_buffer("places", places, persistent=False)
        self.register_buffer("is_level", is_level, persistent=False)
        self.shape = tuple(is_level.shape)
        self.n_outputs, self.n_expected = int(is_level.sum()), is_level.numel()

    def marginal(self, x: Tensor) -> Tensor:
        levels = torch.arange(len(self.is_level))[:, None, None]
        return (x == levels).to(x).mean(1).clamp_min(LEAST_SHARE).log()[self.is_level]

    def log_levels(self, logits: Tensor) -> Tensor:
        """Log-probabilities (..., L, J), -inf beyond a column's levels."""
        found: Tensor = log_softmax(logits[..., self.places].masked_fill(~self.is_level, -math.inf), -2)
        return found

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        level = x.long().expand(*outputs.shape[:-1], -1)[..., None, :]
        return self.log_levels(outputs).gather(-2, level).squeeze(-2)

    def expectation(self, outputs: Tensor) -> Tensor:
        return self.log_levels(outputs).exp().flatten(-2)

    def decide(self, expected: Tensor) -> Tensor:
        chosen: Tensor = expected.unflatten(-1, self.shape).argmax(-2)
        return chosen.to(expected)

    def sample(self, outputs: Tensor, generator: torch.Generator | None) -> Tensor:
        log_levels = self.log_levels(outputs)
        # Gumbel's trick: the largest of ln p + Gumbel noise is a draw from p.
        gumbel = -uniform(log_levels, generator).clamp_min(1e-30).log().neg().clamp_min(1e-30).log()
        return (log_levels + gumbel).argmax(-2).to(outputs)


class Counts(Family):
    """
    Args:
        columns: their places in a row.
        distribution: Poisson, or negative binomial with a learned size r per column: variance μ + μ²/r.
    """

    def __init__(self, columns: Sequence[int], distribution: Poisson | NegativeBinomial) -> None:
        super().__init__(columns)
        self.is_poisson = isinstance(distribution, Poisson)
        if len(columns) and not self.is_poisson:
            self.log_size = nn.Parameter(torch.zeros(len(columns)))

    def marginal(self, x: Tensor) -> Tensor:
        return x.nanmean(0).clamp_min(LEAST_SHARE).log()

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        """x ln μ - μ - ln x!, or ln Γ(x+r) - ln Γ(r) - ln x! + r ln(r/(r+μ)) + x ln(μ/(r+μ))."""
        log_mean = outputs.clamp_max(MOST_LOG_MEAN)
        if self.is_poisson:
            return x * log_mean - log_mean.exp() - torch.lgamma(x + 1)
        size, log_odds = self.log_size.exp(), log_mean - self.log_size
        chosen = torch.lgamma(x + size) - torch.lgamma(size) - torch.lgamma(x + 1)
        return chosen - size * softplus(log_odds) - x * softplus(-log_odds)

    def expectation(self, outputs: Tensor) -> Tensor:
        return outputs.clamp_max(MOST_LOG_MEAN).exp()

    def sample(self, outputs: Tensor, generator: torch.Generator | None) -> Tensor:
        rate = self.expectation(outputs).cpu()
        if not self.is_poisson:
            # A Poisson whose rate is Gamma with mean μ and shape r.
            size = self.log_size.detach().cpu().exp().expand_as(rate).contiguous()
            rate = torch._standard_gamma(size, generator=generator) * rate / size
        return torch.poisson(rate, generator=generator).to(outputs)


class Grid(Family):
    """Numbers that are all on one grid: outputs are their locations, then ln scale, on a grid from -1 to 1.

    Args:
        columns: all columns of a row, or none.
        n_levels: of the grid.
        n_rows: the number of training rows.
    """

    log_shares: Tensor

    def __init__(self, columns: Sequence[int], n_levels: int, n_rows: int) -> None:
        super().__init__(columns, 2)
        self.n_levels, self.least_scale = n_levels, logistic.half_step(n_levels) / 8 if columns else 1.0
        # ln ε and ln(1-ε)
        n = max(n_rows * len(columns), 1)
        self.register_buffer("log_shares", torch.tensor([1 / (n + 1), n / (n + 1)]).log(), persistent=False)

    def marginal(self, x: Tensor) -> Tensor:
        place = torch.arange(x.shape[1]) * self.n_levels + x.nan_to_num().long()
        counts = torch.bincount(place[~x.isnan()], minlength=x.shape[1] * self.n_levels).reshape(-1, self.n_levels).T
        location, scale = logistic.fit(counts)
        return torch.cat([location, scale.log()]).float()

    def begun(self, outputs: Tensor, start: Tensor) -> Tensor:
        """A location that the decoder shifts in units of the column's own scale."""
        (shift, log_factor), (location, log_scale) = outputs.chunk(2, -1), start.chunk(2, -1)
        return torch.cat([location + log_scale.exp() * shift, log_scale + log_factor], -1)

    def parameters_of(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale (..., J); the scale is e^o + an eighth of half a step, below which levels are certain."""
        location, log_scale = outputs.chunk(2, -1)
        return location, log_scale.exp() + self.least_scale

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        location, scale = self.parameters_of(outputs)
        level = x * (2 * logistic.half_step(self.n_levels)) - 1
        log_mass = logistic.log_mass(level, location, scale, self.n_levels)
        return torch.logaddexp(self.log_shares[1] + log_mass, self.log_shares[0] - math.log(self.n_levels))

    def expectation(self, outputs: Tensor) -> Tensor:
        mean = self.log_shares[1].exp() * logistic.mean(*self.parameters_of(outputs))
        return (mean + 1) * ((self.n_levels - 1) / 2)

    def sample(self, outputs: Tensor, generator: torch.Generator | None) -> Tensor:
        location, scale = self.parameters_of(outputs)
        drawn = logistic.draw(location, scale, self.n_levels, uniform(location, generator))
        other = (uniform(drawn, generator) * self.n_levels).floor()
        return torch.where(uniform(drawn, generator) < self.log_shares[0].exp(), other, drawn)


def uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, dtype=like.dtype).to(like)
