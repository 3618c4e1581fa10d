"""A denoising autoencoder removes noise; a plain one as wide as the data only copies its input.

    python examples/denoising_autoencoder.py [picture.png]
    plain      min Σ_i ‖x_i - decoder(encoder(x_i))‖²
    denoising  min Σ_i E‖x_i - decoder(encoder(x_i + ε))‖²,   ε ~ N(0, s²I)
With linear networks and as many latent dimensions as features, the plain autoencoder is the identity and has error 0.
The denoising one is the best linear filter, the Wiener filter: along an eigenvector of the covariance with variance λ
it keeps the share λ/(λ+s²) of its input. Its error Σ λs²/(λ+s²) is the smallest of all linear maps. A nonlinear network
removes more noise, because it captures the shapes of digits. Vincent et al. (2008).
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits

from drawing import COLOURS, GREY, figure, image_rows, picture_path, save, title
from jensen import MLP, Autoencoder, Trainer

PICTURE = picture_path(__doc__)
# A plain autoencoder as wide as the data raises a warning because it copies, which is the point here.
warnings.simplefilter("ignore", UserWarning)
NOISE, N_TEST, M = 1.0, 400, 8
rng = np.random.default_rng(0)
digits = load_digits()
order = rng.permutation(len(digits.data))
train, test = digits.data[order[N_TEST:]], digits.data[order[:N_TEST]]

# A small table to check the theory: the eight central pixels, which vary most, on one common scale.
pixels = np.argsort(train.var(0))[-M:]
X = (train[:, pixels] - train[:, pixels].mean(0)) / np.sqrt(train[:, pixels].var(0).mean())
values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
kept = values / (values + NOISE**2)
line = {"encoder": MLP(()), "decoder": MLP(()), "scaling": "common", "batch_size": 128, "learning_rate": 0.02}
line |= {"max_epochs": 100, "trainer": Trainer(validation_fraction=0.0), "random_state": 0}
linear = {"plain": Autoencoder(M, **line).fit(X), "denoising": Autoencoder(M, noise=NOISE, **line).fit(X)}
maps = {name: model.reconstruct(np.eye(M)) - model.reconstruct(np.zeros((1, M))) for name, model in linear.items()}
along = {name: np.einsum("ij,ik,kj->j", vectors, matrix, vectors) for name, matrix in maps.items()}
# Rows are mapped to x A, so along an eigenvector v the error is (A - I)ᵀ v.
error = {
    n: np.square((a - np.eye(M)).T @ vectors * np.sqrt(values)).sum() + NOISE**2 * np.square(a).sum()
    for n, a in maps.items()
}
wiener = float((values * NOISE**2 / (values + NOISE**2)).sum())
print(f"eight pixels, noise {NOISE}: squared error {M * NOISE**2:.3f}, after the best linear map {wiener:.3f}")
for name in linear:
    print(f"  {name}: {error[name]:.3f}; share kept along each eigenvector {along[name].round(2)}")
print(f"  λ/(λ+s²): {kept.round(2)}")
# The last gradients are noisy: tolerances are 0.05 for a share and 3 % for an error.
assert np.abs(along["plain"] - 1).max() < 0.05, "a copy"
assert np.abs(along["denoising"] - kept).max() < 0.05, "the Wiener filter"
assert wiener <= error["denoising"] < 1.03 * wiener < error["plain"]

# All pixels, and networks with a hidden layer.
scale = np.sqrt(train.var(0).mean())
noisy = test + NOISE * scale * rng.normal(size=test.shape)
options = {"encoder": MLP((256,), "relu"), "decoder": MLP((256,), "relu"), "scaling": "common", "max_epochs": 50}
options |= {"batch_size": 64, "learning_rate": 5e-3, "random_state": 0}
models = {
    "plain": Autoencoder(32, **options).fit(train),
    "denoising": Autoencoder(32, noise=NOISE, **options).fit(train),
}
cov = np.cov(train.T, bias=True)
filtered = train.mean(0) + (noisy - train.mean(0)) @ np.linalg.solve(cov + (NOISE * scale) ** 2 * np.eye(64), cov)
shown = {"held-out digits": test, "with noise": noisy, "plain": models["plain"].reconstruct(noisy)}
shown |= {"best linear": filtered, "denoising": models["denoising"].reconstruct(noisy)}
rms = {name: float(np.sqrt(((rows - test) ** 2).mean())) for name, rows in shown.items()}
for name, value in list(rms.items())[1:]:
    print(f"{name}: root mean square error {value:.2f} grey levels")
assert rms["denoising"] < rms["best linear"] < rms["plain"] < rms["with noise"]

fig = figure(13.5, 4.3)
left, right = fig.subfigures(1, 2, width_ratios=(1, 1.6))
ax = left.subplots()
ax.plot(values, along["plain"], "s", color=COLOURS[1], ms=7, label="plain: copies its input")
ax.plot(values, along["denoising"], "o", color=COLOURS[0], ms=7, label="denoising")
grid = np.geomspace(values.min() / 1.5, values.max() * 1.5, 200)
ax.plot(grid, grid / (grid + NOISE**2), color=COLOURS[0], lw=1.3, label="λ / (λ + s²), the Wiener filter")
ax.axvline(NOISE**2, color=GREY, lw=1, ls=":")
ax.text(NOISE**2 * 1.04, 0.05, "λ = s²", color=GREY)
ax.set(xscale="log", xlabel="variance λ along an eigenvector", ylabel="share kept", ylim=(0, 1.4))
ax.set_xticks([0.2, 0.5, 1, 2, 4], ["0.2", "0.5", "1", "2", "4"])
ax.minorticks_off()
ax.set_title("linear networks, eight pixels")
ax.legend(loc="upper left")
pictures = right.subplots()
pick = [np.flatnonzero(digits.target[order[:N_TEST]] == k)[1] for k in range(10)]
rows = {f"{n}\nRMSE {rms[n]:.2f}" if rms[n] else n: r[pick].reshape(-1, 8, 8) for n, r in shown.items()}
image_rows(pictures, rows, 16)
pictures.set_title(f"64 pixels, noise of {NOISE} standard deviations; RMSE in grey levels")
title(fig, "Trained to remove noise, an autoencoder keeps only the directions with signal")
save(fig, PICTURE)
