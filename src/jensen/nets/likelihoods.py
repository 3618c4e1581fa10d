"""p(x|z): the distribution of every column, given the outputs of a decoder.

    continuous   x_j ~ N(mean_j, σ_j²)            binary   x_j ~ Bernoulli(sigmoid(logit_j))
    categorical  x_j ~ Categorical(softmax(logits_j))
x is in the units of `Columns`: standardised numbers, 0 and 1, and level numbers. Adding the log-Jacobian of the
standardisation gives densities in the units of the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeVar

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from jensen.data.network_columns import AtomPair

# In standardised units: noise below a thousandth of a feature's spread is a collapse.
LEAST_STD = 1e-3
# The least initial probability of a level: rare levels stay possible.
LEAST_SHARE = 1e-3


class Gaussian(BaseEstimator):
    """Gaussian likelihood for continuous columns: a normal density around the decoder's mean.

    Args:
        variance: "learned" for one σ², as a fraction of the variance of each feature; "feature" for one σ² per feature;
            "point" for a σ² that the decoder predicts for every row; or a number, the variance in the units of the
            data.

    Example:
        >>> from jensen import Gaussian
        >>> Gaussian(variance="feature").variance
        'feature'
    """

    def __init__(self, variance: str | float = "learned") -> None:
        self.variance = variance

    def check(self) -> None:
        """Raise a ValueError if an option is not valid."""
        if self.variance in ("learned", "feature", "point"):
            return
        if not isinstance(self.variance, (str, bool)) and 0 < self.variance < math.inf:
            return
        raise ValueError(
            f"Gaussian(variance={self.variance!r}) must be 'learned', 'feature', 'point' or a number above 0"
        )


class Bernoulli(BaseEstimator):
    """Bernoulli likelihood for binary columns; grey values between 0 and 1 are probabilities of a 1.

    Args:
        resample: whether every training step draws new values 0 and 1 from the grey ones.

    Example:
        >>> from jensen import Bernoulli
        >>> Bernoulli(resample=True).resample
        True
    """

    def __init__(self, resample: bool = False) -> None:
        self.resample = resample

    def check(self) -> None:
        """Raise a ValueError if an option is not valid."""
        if not isinstance(self.resample, bool):
            raise ValueError(f"Bernoulli(resample={self.resample!r}) must be True or False")


class Categorical(BaseEstimator):
    """Categorical likelihood: a probability for every level of a column.

    Example:
        >>> from jensen import Categorical
        >>> Categorical()
        Categorical()
    """

    def check(self) -> None:
        """There are no options."""


Distribution = Gaussian | Bernoulli | Categorical
# A user's likelihood: a name or a distribution for all columns, or one of these by column.
Likelihood = str | Distribution | Mapping[str, str | Distribution]
D = TypeVar("D", Gaussian, Bernoulli)
NAMES: dict[str, type[Distribution]] = {"gaussian": Gaussian, "bernoulli": Bernoulli, "categorical": Categorical}
KINDS: dict[type[Distribution], str] = {Gaussian: "number", Bernoulli: "yes/no", Categorical: "level"}


def likelihood_of(given: Likelihood) -> tuple[str | dict[str, str], Gaussian, Bernoulli]:
    """The kinds of columns of a user's likelihood, and its options for Gaussian and Bernoulli columns."""
    if given == "auto":
        return "auto", Gaussian(), Bernoulli()
    if isinstance(given, Mapping):
        values = {column: value_of(value) for column, value in given.items()}
        gaussian = one_of(Gaussian, list(values.values()))
        bernoulli = one_of(Bernoulli, list(values.values()))
        return {column: KINDS[type(value)] for column, value in values.items()}, gaussian, bernoulli
    value = value_of(given)
    gaussian = value if isinstance(value, Gaussian) else Gaussian()
    return KINDS[type(value)], gaussian, value if isinstance(value, Bernoulli) else Bernoulli()


def value_of(given: str | Distribution) -> Distribution:
    value = NAMES[given]() if isinstance(given, str) and given in NAMES else given
    if isinstance(value, str) or type(value) not in KINDS:
        raise ValueError(
            f"likelihood={given!r} must be 'auto', 'gaussian', 'bernoulli', 'categorical', Gaussian(...), "
            "Bernoulli(...), or a dictionary of these by column"
        )
    value.check()
    return value


def one_of(kind: type[D], values: Sequence[Distribution]) -> D:
    """The distribution of this kind among the values, or the default."""
    found = {repr(value): value for value in values if isinstance(value, kind)}
    if len(found) > 1:
        raise ValueError(f"likelihood has {' and '.join(found)}; columns of one kind must share one")
    return next(iter(found.values()), kind())


class Emission(nn.Module):
    """ln p(x | outputs of a decoder), and expected or sampled rows.

    Args:
        kinds: kinds of the columns.
        n_levels: numbers of levels of the columns.
        gaussian: options of the continuous columns.
        scale: scale of the columns, in the units of the data.
        atoms: the continuous columns with atoms, each with the column of its levels: 0 for none, 1 for the first.
        least_variance: of learned noise, for every continuous column in units of its scale; None is LEAST_STD².
    """

    continuous: Tensor
    binary: Tensor
    categorical: Tensor
    places: Tensor
    is_level: Tensor
    log_scale: Tensor
    log_least: Tensor

    def __init__(
        self,
        kinds: Sequence[str],
        n_levels: Sequence[int],
        gaussian: Gaussian,
        scale: Tensor,
        atoms: Sequence[AtomPair] = (),
        least_variance: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.n_columns, self.atoms = len(kinds), tuple(atoms)
        for name, own in (("continuous", "number"), ("binary", "yes/no"), ("categorical", "level")):
            numbers = torch.tensor([j for j, kind in enumerate(kinds) if kind == own], dtype=torch.long)
            self.register_buffer(name, numbers, persistent=False)
        self.only = kinds[0] if len(set(kinds)) == 1 else None
        self.has_point_variance = gaussian.variance == "point"
        self.register_buffer("log_scale", scale.log().float(), persistent=False)
        self.has_units = bool(self.log_scale.any())
        least = torch.full((1,), LEAST_STD**2) if least_variance is None else least_variance.clamp(min=LEAST_STD**2)
        # Saved with the weights, where it follows from the rows of the fit.
        self.register_buffer("log_least", least.log().float(), persistent=least_variance is not None)
        n_continuous = len(self.continuous)
        if isinstance(gaussian.variance, Real):
            fixed = math.log(gaussian.variance) - 2 * scale[self.continuous].log()
            self.register_buffer("log_variance", fixed.float(), persistent=False)
        elif n_continuous and not self.has_point_variance:
            self.log_variance = nn.Parameter(torch.zeros(n_continuous if gaussian.variance == "feature" else 1))
        # The logits are sorted by level: the first level of all columns, then the second, and so on.
        sizes = torch.tensor([n_levels[j] for j in self.categorical.tolist()], dtype=torch.long)
        widest = int(sizes.max()) if len(sizes) else 0
        places = torch.zeros((widest, len(sizes)), dtype=torch.long)
        is_level = torch.arange(widest)[:, None] < sizes
        places[is_level] = torch.arange(int(is_level.sum()))
        self.register_buffer("places", places, persistent=False)
        self.register_buffer("is_level", is_level, persistent=False)
        self.sizes = [
            n_continuous,
            n_continuous if self.has_point_variance else 0,
            len(self.binary),
            int(is_level.sum()),
        ]

    @property
    def n_outputs(self) -> int:
        return sum(self.sizes)

    def marginal_outputs(self, x: Tensor) -> Tensor:
        """Outputs (D,) that give every level its frequency in rows x (n, d), as initial values."""
        outputs = torch.zeros(self.n_outputs)
        first, second, third = self.sizes[0] + self.sizes[1], self.sizes[2], self.sizes[3]
        if second:
            share = x[:, self.binary].nanmean(0).clamp(LEAST_SHARE, 1 - LEAST_SHARE)
            outputs[first : first + second] = share.logit()
        if third:
            levels = torch.arange(len(self.is_level))[:, None, None]
            share = (x[:, self.categorical] == levels).to(x).mean(1).clamp_min(LEAST_SHARE)
            outputs[first + second :] = share.log()[self.is_level]
        return outputs

    def log_prob(self, outputs: Tensor, x: Tensor, observed: Tensor | None = None) -> Tensor:
        """ln p of every row, summed over its observed values; outputs may have more leading axes than x."""
        terms = self.log_prob_entries(outputs, x)
        return (terms if observed is None else terms * observed).sum(-1)

    def log_jacobian(self, observed: Tensor | None = None) -> Tensor | float:
        """-Σ ln scale over the observed values of every row, to add to `log_prob`."""
        if not self.has_units:
            return 0.0
        return -self.log_scale.sum() if observed is None else -(observed.to(self.log_scale) @ self.log_scale)

    def log_prob_entries(self, outputs: Tensor, x: Tensor) -> Tensor:
        mean, log_variance, logits, level_logits = outputs.split(self.sizes, -1)
        if self.only == "yes/no":
            return bernoulli(x, logits)
        if self.only == "number":
            return gaussian(x, mean, self.log_noise(log_variance))
        parts = []
        if self.sizes[0]:
            parts.append(gaussian(x[..., self.continuous], mean, self.log_noise(log_variance)))
        if self.sizes[2]:
            parts.append(bernoulli(x[..., self.binary], logits))
        if self.sizes[3]:
            level = x[..., self.categorical].long()
            chosen = self.log_levels(level_logits).gather(-2, level.expand(*outputs.shape[:-1], -1)[..., None, :])
            parts.append(chosen.squeeze(-2))
        return self.in_order(parts)

    def log_noise(self, point: Tensor) -> Tensor:
        """ln σ²; a learned one is σ² = e^v + the least variance."""
        if not self.has_point_variance and not isinstance(self.log_variance, nn.Parameter):
            return self.log_variance
        value = point if self.has_point_variance else self.log_variance
        return self.log_least + softplus(value - self.log_least)

    def log_levels(self, logits: Tensor) -> Tensor:
        """Log-probabilities (..., L, columns), -inf beyond a column's levels."""
        return log_softmax(logits[..., self.places].masked_fill(~self.is_level, -math.inf), -2)

    def expectation(self, outputs: Tensor) -> Tensor:
        """Expectations, which may be averaged over z: means, probabilities of 1 and of every level (..., D)."""
        mean, _, logits, level_logits = outputs.split(self.sizes, -1)
        if not self.sizes[3]:
            return torch.cat([mean, logits.sigmoid(), level_logits], -1)
        levels = self.log_levels(level_logits).exp()
        return torch.cat([self.with_atoms(mean, levels), logits.sigmoid(), levels.flatten(-2)], -1)

    def with_atoms(self, mean: Tensor, levels: Tensor) -> Tensor:
        """P(no atom) E[x | no atom] + Σ_a P(a) a of continuous columns (..., J), from P(level) (..., L, columns)."""
        if self.atoms:
            mean = mean.clone()
        for pair in self.atoms:
            place = int((self.continuous == pair.number).nonzero()[0, 0])
            share = levels[..., int((self.categorical == pair.level).nonzero()[0, 0])]
            atoms = mean.new_tensor(pair.values)
            mean[..., place] = share[..., 0] * mean[..., place] + share[..., 1 : 1 + len(atoms)] @ atoms
        return mean

    def decide(self, expected: Tensor) -> Tensor:
        """Rows from expectations: means, probabilities of 1, and the most probable levels."""
        shape = (len(self.is_level), len(self.categorical))
        parts = list(expected.split([self.sizes[0], self.sizes[2], shape[0] * shape[1]], -1))
        parts[2] = parts[2].unflatten(-1, shape).argmax(-2).to(expected) if self.sizes[3] else parts[2]
        return self.in_order(parts)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Rows drawn from p(x | outputs)."""
        mean, log_variance, logits, level_logits = outputs.split(self.sizes, -1)
        parts = []
        if self.sizes[0]:
            noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype).to(mean)
            parts.append(mean + (0.5 * self.log_noise(log_variance)).exp() * noise)
        if self.sizes[2]:
            parts.append((uniform(logits, generator) < logits.sigmoid()).to(outputs))
        if self.sizes[3]:
            log_levels = self.log_levels(level_logits)
            # Gumbel's trick: the largest of ln p + Gumbel noise is a draw from p.
            gumbel = -uniform(log_levels, generator).clamp_min(1e-30).log().neg().clamp_min(1e-30).log()
            parts.append((log_levels + gumbel).argmax(-2).to(outputs))
        return self.in_order(parts)

    def in_order(self, parts: Sequence[Tensor]) -> Tensor:
        """The columns in their original order."""
        if self.only is not None:
            return next(part for part in parts if part.shape[-1])
        order = torch.cat([self.continuous, self.binary, self.categorical]).argsort()
        return torch.cat(list(parts), -1)[..., order]


def gaussian(x: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * ((x - mean).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi))


def bernoulli(x: Tensor, logits: Tensor) -> Tensor:
    """x ln p + (1-x) ln(1-p)."""
    return x * logits - softplus(logits)


def uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, dtype=like.dtype).to(like)
