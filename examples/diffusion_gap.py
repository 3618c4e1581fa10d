"""The gap of a diffusion's bound is a KL divergence between two distributions of the path.

    python examples/diffusion_gap.py [picture.png]
A diffusion is a latent-variable model. Its z is the whole path x_1, ..., x_T, and q(z|x_0), the noising, is fixed.
    ln p(x_0) = E_q ln[p(x_{0:T}) / q(x_{1:T}|x_0)] + KL(q(x_{1:T}|x_0) ‖ p(x_{1:T}|x_0))
    E_q ln[p(x_{0:T}) / q(x_{1:T}|x_0)] = -(L_T + Σ_{t=2}^T L_{t-1} + L_0)
For rows from N(0, v) and a denoiser x̂_0 = c_t x_t everything is Gaussian: p(x_{t-1}|x_t) = N(a_t x_t, σ_t²). The path
then has a covariance matrix, and all three numbers can be computed separately. The denoiser is c times the best one.
The gap is 0 only for c = 1 and σ_t² = β̃_t + E(μ̃_t - μ_θ)², when the paths of the model are distributed like those of
the noising. With another c the bound is lower for two reasons, a wrong p(x_0) and a wrong distribution of the path; the
second effect can be the larger one. Sohl-Dickstein et al. (2015).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import Schedule, gaussian_kl

PICTURE = picture_path(__doc__)
V, T, WRONG, SEEN = 0.25, 6, 1.3, 1.0
VARIANCES = {"beta": "σ² = β", "posterior": "σ² = β̃", "best": "the best σ²"}
FACTORS = np.linspace(0.4, 1.6, 61)
schedule = Schedule.cosine(T)


def chain(schedule: Schedule, factor: float, variance: str) -> tuple[np.ndarray, np.ndarray]:
    """c_t and σ_t² of the reverse chain."""
    bar, noise = schedule.alpha_bar, schedule.noise_variance
    c = factor * np.sqrt(bar) * V / (bar * V + noise)
    if variance != "best":
        return c, schedule.variances(variance)
    error = V - 2 * c * np.sqrt(bar) * V + c**2 * (bar * V + noise)
    return c, schedule.posterior_variance + schedule.posterior_weights[1] ** 2 * error


def terms(schedule: Schedule, c: np.ndarray, var: np.ndarray, square: float) -> np.ndarray:
    """L_T, L_{T-1}, ..., L_0 for a row with x_0² = square, or their means if E x_0² = square."""
    bar, noise, back = schedule.alpha_bar, schedule.noise_variance, schedule.posterior_variance
    error = (1 - c * np.sqrt(bar)) ** 2 * square + c**2 * noise
    first = 0.5 * (error[0] / var[0] + np.log(2 * np.pi * var[0]))
    ratio = back[1:] / var[1:]
    levels = 0.5 * (schedule.posterior_weights[1][1:] ** 2 * error[1:] / var[1:] + ratio - 1 - np.log(ratio))
    last = 0.5 * (bar[-1] * square - bar[-1] - np.log(noise[-1]))
    return np.array([last, *levels[::-1], first])


def noising(schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """q(x_{1:T}|x_0): mean per unit of x_0, and covariance √(ᾱ_t/ᾱ_s) (1-ᾱ_s) for s ≤ t."""
    bar = schedule.alpha_bar
    early, late = np.maximum.outer(bar, bar), np.minimum.outer(bar, bar)
    return np.sqrt(bar), np.sqrt(late / early) * (1 - early)


def precision(schedule: Schedule, c: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Precision matrix of p(x_{0:T}): x_{t-1} - a_t x_t has variance σ_t², and x_T variance 1."""
    of_noised, of_data = schedule.posterior_weights
    steps = np.eye(len(c) + 1) - np.diag(of_noised + of_data * c, 1)
    return steps.T @ (steps / np.append(var, 1.0)[:, None])


def three(c: np.ndarray, var: np.ndarray, x_0: float) -> tuple[float, float, float]:
    """ln p(x_0), the bound and the KL between paths, each from the covariance of the whole path."""
    mean, cov = noising(schedule)
    whole, centre = precision(schedule, c, var), np.append(x_0, mean * x_0)
    square = centre @ whole @ centre + np.trace(whole[1:, 1:] @ cov)
    bound = -0.5 * (square + (T + 1) * np.log(2 * np.pi) - np.linalg.slogdet(whole)[1])
    bound += 0.5 * (T * np.log(2 * np.pi * np.e) + np.linalg.slogdet(cov)[1])
    of_paths = np.linalg.inv(whole[1:, 1:])
    gap = gaussian_kl(mean * x_0, cov, -of_paths @ whole[1:, 0] * x_0, of_paths)
    return float(norm.logpdf(x_0, scale=np.linalg.inv(whole)[0, 0] ** 0.5)), float(bound), float(gap)


# For 1000 levels the sums are known to five digits; E x_0² = v.
linear, entropy = Schedule.linear(1000), 0.5 * np.log(2 * np.pi * np.e * V)
for variance, expected in {"beta": 0.72688, "posterior": 1.29572, "best": entropy}.items():
    assert abs(terms(linear, *chain(linear, 1.0, variance), V).sum() - expected) < 1e-5

for variance in VARIANCES:
    for factor in (WRONG, 1.0, 0.7):
        way = chain(schedule, factor, variance)
        for x_0 in (0.0, SEEN, -2.3):
            log_p, bound, gap = three(*way, x_0)
            # Rounding: the matrices have condition numbers of a few thousand.
            assert abs(bound + terms(schedule, *way, x_0**2).sum()) < 1e-9, "the sum over levels is the same bound"
            assert abs(log_p - bound - gap) < 1e-9, "and the gap is the KL between paths"
# All are linear in x_0², so their means over the data are their values at x_0² = v.
mean_of = {v: np.array([three(*chain(schedule, f, v), V**0.5) for f in FACTORS]) for v in VARIANCES}
for variance, values in mean_of.items():
    log_p, bound, gap = values[np.abs(FACTORS - 1).argmin()]
    print(
        f"{VARIANCES[variance]:12s} best denoiser: -ln p {-log_p:.5f} + KL {gap:.5f} = -bound {-bound:.5f} on average"
    )
    assert (values[:, 0] <= -entropy + 1e-12).all(), "no model exceeds the true density on average"
exact, others = mean_of["best"], [mean_of["beta"], mean_of["posterior"]]
# The remaining gap comes from q(x_T), which is not exactly N(0, 1): ᾱ_T is 7e-5.
assert FACTORS[exact[:, 2].argmin()] == 1
assert exact[:, 2].min() < 1e-6 < 0.01 < min(values[:, 2].min() for values in others), (
    "only the best denoiser with the best variance is exact"
)

fig = figure(14, 4.9)
rows, paths, gaps = fig.subplots(1, 3, width_ratios=(1, 1.1, 1))
way = chain(schedule, WRONG, "posterior")
x = np.linspace(-1.6, 1.6, 81)
log_p, bound, gap = np.transpose([three(*way, value) for value in x])
rows.plot(x, norm.logpdf(x, scale=V**0.5), color=GREY, lw=1.2, ls="--", label="log-density of the data")
rows.plot(x, log_p, color=INK, label="ln p(x₀) of the model")
rows.plot(x, bound, color=COLOURS[1], label="the bound, −(L₀ + … + $L_T$)")
rows.fill_between(x, bound, log_p, color=COLOURS[1], alpha=0.15, lw=0, label="gap: KL between paths")
rows.set(xlabel="x₀", ylabel="nats", xlim=(-1.6, 1.6), title=f"T = {T}, c = {WRONG}, σ² = β̃")
rows.legend(loc="lower center")

mean, cov = noising(schedule)
of_paths = np.linalg.inv(precision(schedule, *way)[1:, 1:])
believed = -of_paths @ precision(schedule, *way)[1:, 0]
for along, spread, colour, name in (
    (mean, cov, COLOURS[0], "q: the noising"),
    (believed, of_paths, COLOURS[1], "p: the model"),
):
    middle, wide = np.append(SEEN, along * SEEN), np.append(0, np.sqrt(np.diag(spread)))
    paths.fill_between(range(T + 1), middle - wide, middle + wide, color=colour, alpha=0.2, lw=0)
    paths.plot(range(T + 1), middle, "o-", color=colour, ms=5, label=name + ", mean ± standard deviation")
paths.set(
    xlabel="level t",
    ylabel="$x_t$ given x₀ = 1",
    title=f"distributions of the path, KL = {three(*way, SEEN)[2]:.2f} nats",
)
paths.legend(loc="lower left")

for (variance, values), colour in zip(mean_of.items(), COLOURS, strict=False):
    gaps.plot(FACTORS, -values[:, 1], color=colour, label=VARIANCES[variance])
    gaps.plot(FACTORS, -values[:, 0], color=colour, lw=1.2, ls=":")
gaps.axhline(entropy, color=INK, lw=1, ls="--")
gaps.text(1.6, entropy - 0.03, "entropy of the data", ha="right", va="top")
gaps.set(xlabel="c, factor on the best denoiser", ylabel="nats, mean over rows", ylim=(0.6, None))
gaps.set_title("negative bound; dotted: −ln p")
gaps.legend(loc="upper center")
title(fig, "The gap of a diffusion's bound is the KL between two distributions of the path")
save(fig, PICTURE)
