"""Mixtures of subspaces on handwritten digits, compared with other densities in bits per pixel.

    python examples/digits_subspaces.py [picture.png]
Pixels are whole numbers, for which a density can be arbitrarily large. With noise u, uniform in [0, 1) on every pixel,
ln P(x) ≥ E_u ln p(x+u) (Theis et al. 2016). So -ln p(x+u) / (d ln 2) is a code length in bits per pixel, and all models
can be compared. The number of components K and of dimensions m, up to 20, are chosen from a small grid by the bits of
validation rows; the table shows the bits of test rows. One noise variance for all pixels does not fit the margin, which
is always white. One variance per pixel, factor analysis, saves half a bit, and a mixture of factor analysers is best.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.datasets import load_digits

from drawing import COLOURS, GREY, figure, image_rows, picture_path, save, title
from jensen import FactorAnalysis, GaussianMixture, MixtureOfFactorAnalysers, MixtureOfPPCA, ProbabilisticPCA

PICTURE = picture_path(__doc__)
N_TRAIN, N_VALIDATION, SIDE, GREYS = 1000, 397, 8, 17

rng = np.random.default_rng(0)
digits = rng.permutation(load_digits().data)
train, validation, test = np.split(digits + rng.random(digits.shape), [N_TRAIN, N_TRAIN + N_VALIDATION])


def bits(model, rows: np.ndarray) -> float:
    """Code length in bits per pixel; cells have width 1, so no ln h is added."""
    return -model.score(rows) / (rows.shape[1] * np.log(2))


em = {"tol": 1e-2, "random_state": 0}
candidates = {
    "one PPCA": [ProbabilisticPCA(m) for m in (5, 10, 20)],
    "one factor analysis": [FactorAnalysis(m, tol=1) for m in (5, 10, 20)],
    "mixture of PPCAs": [MixtureOfPPCA(k, m, **em) for k, m in product((5, 10, 20), (10, 20))],
    "Gaussian mixture, full": [GaussianMixture(k, **em) for k in (1, 2, 3, 5)],
    "Gaussian mixture, diag": [GaussianMixture(k, covariance_type="diag", **em) for k in (20, 40, 80)],
    "mixture of factor analysers": [MixtureOfFactorAnalysers(k, m, **em) for k, m in product((10, 20), (2, 4, 8))],
}
chosen = {
    name: min((model.fit(train) for model in models), key=lambda model: bits(model, validation))
    for name, models in candidates.items()
}


def choice(model) -> str:
    if isinstance(model, GaussianMixture):
        return f"K={model.n_components}"
    return f"K={model.n_components}, m={model.n_latent}" if hasattr(model, "n_latent") else f"m={model.n_components}"


table = {name: (choice(model), bits(model, train), bits(model, test)) for name, model in chosen.items()}
print(f"{N_TRAIN} training, {len(validation)} validation and {len(test)} test rows of {test.shape[1]} pixels")
print(f"bits per pixel; {np.log2(GREYS):.2f} without a model")
print(f"{'model':28s} {'choice':12s} {'train':>6s} {'test':>6s}  parameters")
for name, (text, old, new) in table.items():
    print(f"{name:28s} {text:12s} {old:6.3f} {new:6.3f} {chosen[name].n_parameters_:11d}")

test_bits = {name: new for name, (_, _, new) in table.items()}
assert test_bits["mixture of PPCAs"] < test_bits["one PPCA"], "several subspaces are better than one"
assert min(test_bits, key=test_bits.__getitem__) == "mixture of factor analysers"
for one_noise, noise_per_pixel in (
    ("one PPCA", "one factor analysis"),
    ("mixture of PPCAs", "mixture of factor analysers"),
):
    saved = (chosen[noise_per_pixel].score_samples(test) - chosen[one_noise].score_samples(test)) / 64 / np.log(2)
    error = saved.std(ddof=1) / np.sqrt(len(saved))
    print(f"one variance per pixel, {noise_per_pixel}: saves {saved.mean():.3f} ± {error:.3f} bits")
    assert abs(saved.mean() - 0.5) + 4 * error < 0.15, "about half a bit, with paired differences"


def images(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, SIDE, SIDE)


fig = figure(14, 8.4)
left, right = fig.subfigures(1, 2, width_ratios=(1.05, 1))
top, bottom = left.subfigures(2, 1, height_ratios=(0.85, 1))
samples, dots, atlas = top.subplots(), bottom.subplots(), right.subplots()
shown = {
    "factor\nanalysers": "mixture of factor analysers",
    "full\nGaussians": "Gaussian mixture, full",
    "PPCAs": "mixture of PPCAs",
    "one PPCA": "one PPCA",
}
lines = {"digits": images(digits[-10:])}
lines |= {
    text: images(rng.permutation(chosen[name].sample(500, random_state=0)[0])[:10]) for text, name in shown.items()
}
image_rows(samples, lines, GREYS - 1)
samples.set_title("ten digits, and ten samples from each model")

order = sorted(table, key=lambda name: -test_bits[name])
for place, name in enumerate(order):
    text, old, new = table[name]
    dots.plot([old, new], [place, place], color=GREY, lw=1, zorder=0)
    dots.plot(old, place, "o", color=GREY, ms=6, label="training rows" if place == 0 else None)
    dots.plot(new, place, "o", color=COLOURS[0], ms=8, label="test rows" if place == 0 else None)
    dots.text(max(old, new) + 0.03, place, f"{new:.2f}", va="center")
dots.set(yticks=range(len(order)), yticklabels=[f"{name} ({table[name][0]})" for name in order])
dots.set(xlabel="bits per pixel", ylim=(len(order) - 0.5, -0.5), title="code length: shorter is better")
dots.legend(loc="lower right")

mixture = chosen["mixture of PPCAs"]
heaviest = np.argsort(-mixture.weights_)[:10]
columns = {"mean": mixture.means_[heaviest]}
for i in range(3):
    # z has variance 1, so 2 is two standard deviations.
    step = 2 * mixture.loadings_[heaviest, :, i]
    columns[f"- axis {i + 1}"], columns[f"+ axis {i + 1}"] = columns["mean"] - step, columns["mean"] + step
image_rows(atlas, dict(enumerate(np.stack([images(rows) for rows in columns.values()], 1))), GREYS - 1)
atlas.set_yticks(np.arange(10) + 0.5, [f"{weight:.2f}" for weight in mixture.weights_[heaviest]])
atlas.set_xticks(np.arange(len(columns)) + 0.5, columns)
atlas.xaxis.tick_top()
atlas.set(ylabel="weight", title=f"mixture of PPCAs, {choice(mixture)}: means ± 2 s.d. along three axes")
title(fig, "Digits lie near several subspaces; one noise variance per pixel saves half a bit")
save(fig, PICTURE)
