"""The space in which rows are diffused, and the belief about x_0 that a network's outputs encode.

A row of `Columns` becomes a point (D,): numbers as they are, a grid from -1 to 1, two levels as -1 and 1, categories
one-hot. The network's outputs become a belief about x_0:
    numbers   x̂_0 from the prediction; L_0 is a density N(x_0; x̂_0, σ_1²), or on a grid the discretised decoder: the
              mass of the cell of x_0
    levels    P(x_0 = level k | x_t) ∝ exp(logit_k) q(x_t | level k), and x̂_0 is the mean of the levels
The second factor is known, so the network only models what x_t does not already determine: Austin et al. (2021) and
Kingma et al. (2021, section E) use it in other forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from jensen.data.columns import Columns
from jensen.data.network_columns import atom_pairs
from jensen.formulas.noising import Noising, data_of, discretised_gaussian, observed_sum
from jensen.runtime.row_draws import Source, normals, uniforms

# The least probability of a level, times the number of levels: rare levels stay possible.
LEAST_SHARE = 1e-2
# Outputs per pixel for the logits of all levels, at most: 256 would cost as much as the rest of the network.
MOST_OUTPUTS = 32
# Above this √ᾱ_t, x_t itself shows an unusual x_0, and a limit on x̂_0 would cost much of the bound.
CLIPPED_SIGNAL = 0.5


@dataclass(frozen=True)
class Belief:
    """The belief about x_0 given x_t.

    Args:
        mean: x̂_0 (b, D).
        log_levels: ln P(level) of the columns with levels (b, L, J), or None.
        log_variance: ln σ_t² (b, D) or (b, 1).
    """

    mean: Tensor
    log_levels: Tensor | None
    log_variance: Tensor


class Space(nn.Module):
    """
    Args:
        columns: kind, levels and scaling of every column.
        prediction: "noise", "data", "mean" or "velocity" for numbers; "levels" for data on a grid.
        variance: σ_t² of numbers, "beta", "posterior" or "learned".
        level_variance: σ_t² of levels, "beta", "posterior", or "own" for the variance of their probabilities.
        start: added to the network's logits of levels (L, J), or None.
        is_trained_by_levels: whether levels get their gradient from the cross-entropy alone, not from the bound.
        least_signal: the smallest √ᾱ_t at which a chain of few steps, or without noise, starts.
        clip: limit ± of x̂_0 of numbers in a trained network, or None. On a grid, which has no points beyond it, it
            applies at every level, but with a `least_signal` of 0 not at the first; elsewhere where √ᾱ_t is below
            CLIPPED_SIGNAL.
    """

    source: Tensor
    numbers: Tensor
    level_columns: Tensor
    place: Tensor
    size: Tensor
    is_level: Tensor
    log_scale: Tensor
    start: Tensor | None

    def __init__(
        self,
        columns: Columns,
        prediction: str,
        variance: str,
        level_variance: str = "own",
        start: Tensor | None = None,
        is_trained_by_levels: bool = False,
        least_signal: float = 0.0,
        clip: float | None = None,
    ) -> None:
        super().__init__()
        self.columns, self.prediction = columns, prediction
        self.variance, self.level_variance = variance, level_variance
        self.is_trained_by_levels, self.least_signal = is_trained_by_levels, least_signal
        self.clip = clip
        self.n_dims, self.atoms = columns.n_expanded, atom_pairs(columns)
        self.grid_levels = columns.n_levels[0] if columns.is_grid else 0
        has_levels = [kind != "number" and (kind != "grid" or prediction == "levels") for kind in columns.kinds]
        source = columns.plan.source
        self.register_buffer("source", source, persistent=False)
        is_number = torch.tensor([not has_levels[j] for j in source.tolist()])
        self.register_buffer("numbers", is_number.nonzero()[:, 0], persistent=False)
        self.register_buffer("log_scale", columns.scale.log().float()[source[is_number]], persistent=False)
        level_columns = torch.tensor([j for j, flag in enumerate(has_levels) if flag], dtype=torch.long)
        self.register_buffer("level_columns", level_columns, persistent=False)
        place, size, is_level = level_points(columns, level_columns.tolist())
        for name, table in (("place", place), ("size", size), ("is_level", is_level)):
            self.register_buffer(name, table, persistent=False)
        # If all levels are points on a line, no look-up is needed.
        self.is_line = bool(len(level_columns)) and not len(self.numbers) and self.n_dims == len(level_columns)
        self.register_buffer("start", start, persistent=False)
        n_levels = len(is_level)
        self.waves = nn.Parameter(cosines(n_levels, MOST_OUTPUTS)) if self.is_line and n_levels > MOST_OUTPUTS else None

    @property
    def n_numbers(self) -> int:
        return len(self.numbers)

    @property
    def n_outputs(self) -> int:
        """Number of network outputs per row: for numbers, for their variances and for levels."""
        return self.n_numbers * (1 + self.has_variance) + self.n_logits

    @property
    def n_logits(self) -> int:
        """Number of outputs for levels."""
        return self.is_level.numel() if self.waves is None else MOST_OUTPUTS * len(self.level_columns)

    @property
    def has_variance(self) -> bool:
        """Whether the network predicts the variance of numbers; that of levels follows from their probabilities."""
        return self.variance == "learned" and bool(self.n_numbers)

    def embed(self, x: Tensor) -> Tensor:
        """Points (b, D) of rows (b, d) in the units of `Columns`."""
        return self.columns.expand(x)

    def spread(self, observed: Tensor) -> Tensor:
        """Mask of the observed dimensions (b, D), from that of the columns (b, d)."""
        return observed if self.is_line or self.n_dims == observed.shape[-1] else observed[:, self.source]

    def some_columns(self, n_rows: int, device: torch.device) -> Tensor | None:
        """For every row columns (b, m), one from each of m equal parts, that stand for all in a training step, or None.

        Probabilities of 256 levels for every pixel would cost more than the network; those of an eighth of the pixels
        have the same mean gradient.
        """
        if self.waves is None:
            return None
        n_columns = len(self.level_columns)
        n_some = max(1, n_columns * MOST_OUTPUTS // len(self.is_level))
        within = torch.rand((n_rows, n_some), device=device)
        place = (torch.arange(n_some, device=device) + within) * (n_columns / n_some)
        return place.long().clamp_max(n_columns - 1)

    def belief(self, output: Tensor, xt: Tensor, at: Noising, columns: Tensor | None = None) -> Belief:
        """The belief from outputs (b, n_outputs), or that about some columns (b, m) of a grid alone."""
        n = self.n_numbers
        predicted, spread, logits = output.split([n, n * self.has_variance, self.n_logits], -1)
        log_levels = None
        if n:
            numbers = xt[:, self.numbers] if self.n_logits else xt
            mean = self.clipped(data_of(self.prediction, predicted, numbers, at), at)
            log_variance = self.between(spread, at) if self.has_variance else at.log_variance(self.variance)
        if self.n_logits:
            log_levels = self.log_levels(logits.unflatten(-1, (-1, len(self.level_columns))), xt, at, columns)
            of_levels = self.moments(log_levels, at)
            if not n:
                mean, log_variance = of_levels
            else:
                mean = of_levels[0].index_copy(-1, self.numbers, mean)
                log_variance = of_levels[1].expand_as(mean).index_copy(-1, self.numbers, log_variance.expand(-1, n))
        return Belief(mean, log_levels, log_variance)

    def clipped(self, x0: Tensor, at: Noising) -> Tensor:
        """x̂_0 of numbers within the limit; not in training, because clipped values have no gradient."""
        if self.clip is None or self.training:
            return x0
        inside = x0.clamp(-self.clip, self.clip)
        if not self.grid_levels:
            return torch.where(at.signal < CLIPPED_SIGNAL, inside, x0)
        # No L_{t-1} rises, because x_0 is inside. At the first level, where w_1 = 0, x̂_0 beyond the last level gives it
        # more probability, up to 1, in the discretised decoder; but a quotient may be far off there, too.
        is_limited = at.of_noised > 0 if not self.least_signal else torch.ones_like(at.signal, dtype=torch.bool)
        return torch.where(is_limited, inside, x0)

    def largest_number(self, x: Tensor) -> float:
        """The largest absolute number in rows x (n, d), at least 1; on a grid it is 1."""
        if self.grid_levels or not self.n_numbers:
            return 1.0
        return max(1.0, float(self.embed(x)[:, self.numbers].abs().max()))

    def moments(self, log_levels: Tensor, at: Noising) -> tuple[Tensor, Tensor]:
        """x̂_0 and ln σ_t² (b, D) of levels with these probabilities."""
        share = (log_levels.detach() if self.is_trained_by_levels else log_levels).exp()
        if self.level_variance != "own":
            return self.gather(share, self.size[None])[0], at.log_variance(self.level_variance)
        mean, square = self.gather(share, torch.stack([self.size, self.size.square()]))
        # The best Gaussian for x_{t-1}: β̃ plus the variance of x_0 under its probabilities.
        left = (square - mean.square()).clamp_min(0.0)
        return mean, torch.log(at.log_posterior.exp() + at.of_data.square() * left)

    def between(self, output: Tensor, at: Noising) -> Tensor:
        """ln σ² between ln β̃ and ln β; output 0 is ln β."""
        return at.log_beta + output * (at.log_beta - at.log_posterior)

    def log_levels(self, logits: Tensor, xt: Tensor, at: Noising, columns: Tensor | None = None) -> Tensor:
        """ln P(level | x_t) (b, L, J): the network's logits and ln q(x_t | level)."""
        if self.waves is not None:
            start = logits.new_zeros(1, 1) if self.start is None else self.start
            if columns is not None:
                logits, xt = logits.gather(2, columns[:, None].expand(-1, logits.shape[1], -1)), xt.gather(1, columns)
                start = start if self.start is None else start.T[columns].transpose(1, 2)
            logits = torch.baddbmm(start, self.waves.expand(len(logits), -1, -1), logits)
        elif self.start is not None:
            logits = logits + self.start
        signal, noise = at.signal[..., None], at.noise[..., None]
        if self.is_line:
            # As few passes over (b, L, J) as possible: it is the largest tensor.
            size = self.size[:, :1]
            scores = logits.addcmul(size, signal / noise**2 * xt[:, None, :]) - 0.5 * (signal * size / noise).square()
            return log_softmax(scores, -2)
        point = signal * self.size
        scores = logits + point * (xt[:, self.place] - 0.5 * point) / noise**2
        return log_softmax(scores.masked_fill(~self.is_level, -math.inf), -2)

    def gather(self, share: Tensor, values: Tensor) -> Tensor:
        """Σ_k share_k v_k (m, b, D) over the levels of each dimension, for m tables of values v (m, L, J)."""
        if self.is_line:
            # A product of matrices reads the largest tensor once, and einsum would transpose it first.
            return (values[:, :, 0] @ share).movedim(1, 0)
        weighted = (share * values[:, None]).flatten(2)
        none = weighted.new_zeros(*weighted.shape[:2], self.n_dims)
        return none.index_add(-1, self.place.flatten(), weighted)

    def cross_entropy(self, belief: Belief, x: Tensor) -> Tensor:
        """-ln P(level of x | x_t), (b, J)."""
        assert belief.log_levels is not None
        level = (x if self.is_line else x[:, self.level_columns]).long()[:, None]
        return -belief.log_levels.gather(-2, level).squeeze(-2)

    def log_prob(self, belief: Belief, x: Tensor, x0: Tensor, observed: Tensor | None = None) -> Tensor:
        """ln p(x_0|x_1) of every row (b,), or of its observed values (b, d), in the units of the data."""
        of_levels, of_numbers = self.observed_parts(observed)
        total = -observed_sum(self.cross_entropy(belief, x), of_levels) if belief.log_levels is not None else 0.0
        if not self.n_numbers:
            return torch.as_tensor(total)
        mean, truth = belief.mean[:, self.numbers], x0[:, self.numbers]
        log_variance = belief.log_variance
        log_variance = log_variance if log_variance.shape[-1] == 1 else log_variance[:, self.numbers]
        if self.grid_levels:
            mass = discretised_gaussian(truth, mean, (0.5 * log_variance).exp(), self.grid_levels)
            return total + observed_sum(mass, of_numbers)
        squares = (truth - mean).square() * (-log_variance).exp()
        density = -0.5 * (squares + log_variance + math.log(2 * math.pi)) - self.log_scale
        return total + observed_sum(density, of_numbers)

    def observed_parts(self, observed: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The mask (b, d) of observed columns, split into columns with levels (b, J) and columns of numbers."""
        if observed is None:
            return None, None
        if self.is_line:
            return observed, None
        return observed[:, self.level_columns], observed[:, self.source[self.numbers]]

    def draw(self, belief: Belief, generator: Source | None) -> Tensor:
        """Rows (b, d) in the units of `Columns`, drawn from p(x_0|x_1); without a generator the most probable rows."""
        out = belief.mean.new_empty(len(belief.mean), len(self.columns.names))
        if self.n_numbers:
            mean = belief.mean[:, self.numbers]
            if generator is not None:
                std = (0.5 * belief.log_variance).exp().expand_as(belief.mean)[:, self.numbers]
                mean = mean + std * normals(generator, *mean.shape).to(mean)
            if self.grid_levels:
                top = self.grid_levels - 1
                mean = ((mean + 1) * (top / 2)).round().clamp(0, top)
            out[:, self.source[self.numbers]] = mean
        if belief.log_levels is not None:
            scores = belief.log_levels
            if generator is not None:
                # Gumbel's trick: the largest of ln p + Gumbel noise is a draw from p.
                noise = uniforms(generator, *scores.shape, dtype=scores.dtype).clamp(1e-30, 1 - 1e-7)
                scores = scores - (-noise.log()).log().to(scores)
            out[:, self.level_columns] = scores.argmax(-2).to(out)
        return out

    def rows_of(self, points: Tensor) -> Tensor:
        """The rows (b, d) nearest to points (b, D); on a grid they may lie between or beyond the levels."""
        plan, columns = self.columns.plan, self.columns
        first = torch.tensor([int((plan.source == j).nonzero()[0, 0]) for j in range(len(columns.names))])
        rows = points[:, first]
        for j, (kind, n) in enumerate(zip(columns.kinds, columns.n_levels, strict=True)):
            if kind == "level":
                rows[:, j] = points[:, first[j] : first[j] + n].argmax(-1).to(rows)
            elif kind == "yes/no":
                rows[:, j] = (rows[:, j] > 0).to(rows)
            elif kind == "grid":
                rows[:, j] = (rows[:, j] + 1) * ((n - 1) / 2)
        return rows

    def marginal_start(self, x: Tensor) -> Tensor | None:
        """Initial logits (L, J): the frequencies of levels in rows x (n, d); missing values do not count."""
        if not self.is_level.numel():
            return None
        own = x[:, self.level_columns]
        n_levels, n_seen = self.is_level.sum(0), (~own.isnan()).sum(0)
        counts = torch.stack([(own == k).float().sum(0) for k in range(len(self.is_level))])
        # Additive smoothing: as many pseudo-rows as levels, so that no level is impossible. On a grid half of their
        # weight has the frequencies of all columns together, which rest on more data.
        added = self.is_level / n_levels
        if self.is_line:
            added = 0.5 * (added + counts.sum(1, keepdim=True) / n_seen.sum())
        share = (counts + n_levels * added) / (n_seen + n_levels)
        return share.clamp_min(LEAST_SHARE / n_levels).log()

    def log_frequencies(self, place: int) -> Tensor:
        """ln of the training frequencies of the levels of a column, by its place among those with levels.

        Files of earlier versions lack them: all levels then have the same.
        """
        n = int(self.is_level[:, place].sum())
        logits = torch.zeros(n) if self.start is None else self.start[:n, place].cpu()
        return log_softmax(logits, 0)


def cosines(n_levels: int, n_waves: int) -> Tensor:
    """(n_levels, n_waves): smooth functions of the level, from a constant to fine waves, of mean square 1."""
    place = (torch.arange(n_levels)[:, None] + 0.5) / n_levels
    return math.sqrt(2) * torch.cos(math.pi * torch.arange(n_waves) * place)


def level_points(columns: Columns, with_levels: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """For the levels (L, J) of columns: the dimension and the coordinate of each, and whether the level exists."""
    n_levels = [columns.n_levels[j] for j in with_levels]
    shape = (max(n_levels, default=0), len(with_levels))
    place, size = torch.zeros(shape, dtype=torch.long), torch.zeros(shape)
    is_level = torch.arange(shape[0])[:, None] < torch.tensor(n_levels, dtype=torch.long)
    source = columns.plan.source.tolist()
    for column, j in enumerate(with_levels):
        first, n = source.index(j), n_levels[column]
        if columns.kinds[j] == "level":
            place[:n, column] = torch.arange(first, first + n)
            size[:n, column] = 1.0
        else:
            place[:, column] = first
            size[:n, column] = torch.linspace(-1, 1, n)
    return place, size, is_level
