"""PCA as encoder and decoder: its squared error is the sum of the remaining eigenvalues.

    python examples/encoder_decoder.py [picture.png]
    min over W (m, d) and U (d, m) of  Σ_i ‖x_i - U W x_i‖²  =  Σ_{j>m} λ_j        rows centred
with λ the eigenvalues of the scatter matrix S = Σ_i x_i x_iᵀ. The best encoder is W = Uᵀ, where the columns of U are
the first m eigenvectors; this U also maximises tr(UᵀSU), with the value Σ_{j≤m} λ_j. Two other methods find the same
plane without eigenvectors. Alternating least squares uses that the best codes given U are (UᵀU)⁻¹Uᵀx, and that the best
U given the codes is a regression. A linear autoencoder is trained by gradients (Baldi & Hornik 1989). The columns that
these methods find need not be the eigenvectors, but they span the same plane.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from drawing import COLOURS, INK, figure, image_rows, picture_path, save, title
from jensen import MLP, Autoencoder, ProbabilisticPCA, Trainer

PICTURE = picture_path(__doc__)
M, SHOWN, N_TURNS = 4, (1, 2, 4, 8, 16, 32), 30

digits = load_digits()
mean = digits.data.mean(0)
X = digits.data - mean
n, d = X.shape
values, vectors = np.linalg.eigh(X.T @ X)
values, vectors = values[::-1], vectors[:, ::-1]
left_out = values.sum() - values.cumsum()


def error(U: np.ndarray, codes: np.ndarray) -> float:
    return float(((X - codes @ U.T) ** 2).sum())


errors = {}
for m in SHOWN:
    U = ProbabilisticPCA(m).fit(digits.data).components_.T
    errors[m] = error(U, X @ U)
    # Only rounding differs: sums of 10⁵ squares, relative to their total.
    assert abs(errors[m] - left_out[m - 1]) < 1e-8 * values.sum()
    assert np.isclose(np.trace(U.T @ X.T @ X @ U), values[:m].sum())
    print(
        f"m = {m:2d}: squared error {left_out[m - 1] / n:8.3f} per digit, {left_out[m - 1] / values.sum():.1%} of all"
    )
rng, best = np.random.default_rng(0), vectors[:, :M]
# Rounding, 1e-8 of the error, is far below the effect of the smallest rotation, 1e-3² times some eigenvalues.
for angle in np.repeat([1e-3, 1e-2, 0.1, 1.0], 25):
    other = np.linalg.qr(best + angle * rng.normal(size=(d, M)))[0]
    assert error(other, X @ other) > (1 + 1e-8) * left_out[M - 1], "no other plane is better"
for j, k in ((0, M), (M - 1, M), (M - 1, d - 20)):
    other = best.copy()
    other[:, j] = np.cos(0.01) * vectors[:, j] + np.sin(0.01) * vectors[:, k]
    more = (values[j] - values[k]) * np.sin(0.01) ** 2
    # Rounding of two sums of size 10⁶ that differ by at least 10.
    assert np.isclose(error(other, X @ other) - left_out[M - 1], more, rtol=1e-4), (
        "error of a plane with one eigenvector rotated out"
    )

# Alternating least squares from a random decoder.
U, turns = rng.normal(size=(d, M)), []
for _ in range(N_TURNS):
    codes = X @ U @ np.linalg.inv(U.T @ U)
    turns.append(error(U, codes))
    U = X.T @ codes @ np.linalg.inv(codes.T @ codes)
assert np.diff(turns).max() < 0, "every step lowers the error"
assert min(turns) >= left_out[M - 1]

# A linear autoencoder: one linear layer in, one out.
model = Autoencoder(
    M,
    encoder=MLP(()),
    decoder=MLP(()),
    scaling="common",
    max_epochs=120,
    learning_rate=0.02,
    trainer=Trainer(validation_fraction=0.0),
    random_state=0,
).fit(digits.data)
found = float(((model.reconstruct(digits.data) - digits.data) ** 2).sum())
history = model.history_
scale = float(model.columns_.scale[0]) ** 2
steps, losses = history["epoch"].to_numpy(), -history["objective"].to_numpy() * scale
weight = model.inverse_transform(np.eye(M)) - model.inverse_transform(np.zeros((1, M)))
cosines = np.linalg.svd(np.linalg.qr(weight.T)[0].T @ vectors[:, :M])[1]
print(f"m = {M}: best {left_out[M - 1] / n:.3f}, alternating {turns[-1] / n:.3f}, gradients {found / n:.3f} per digit")
print(f"smallest cosine between the planes: {cosines.min():.5f}")
assert left_out[M - 1] * (1 - 1e-6) < found < 1.01 * left_out[M - 1], "within 1 % of the smallest error"
assert turns[-1] < 1.001 * left_out[M - 1]
assert cosines.min() > 0.99, "and the same plane"

fig = figure(13.5, 6.6)
above, below = fig.subfigures(2, 1, height_ratios=(1.15, 1))
of_values, of_turns, of_gradients = above.subplots(1, 3)
of_values.semilogy(np.arange(d + 1), np.append(values.sum(), np.maximum(left_out, 1e-3)) / n, color=INK)
of_values.plot(SHOWN, np.array(list(errors.values())) / n, "o", color=COLOURS[0])
of_values.set(xlabel="dimensions m", ylabel="sum of remaining eigenvalues, per digit", xlim=(-1, 64), ylim=(1, 2000))
of_values.set_title("line: eigenvalues; dots: errors of PCA")
of_turns.semilogy(np.arange(1, N_TURNS + 1), np.array(turns) / left_out[M - 1] - 1, "o-", color=COLOURS[2], ms=4)
of_turns.set(xlabel="steps", ylabel="relative error above minimum", title=f"m = {M}: alternating least squares")
of_gradients.plot(steps, losses, color=COLOURS[1], label="linear autoencoder")
of_gradients.axhline(left_out[M - 1] / n, color=INK, lw=1, ls="--")
of_gradients.text(steps[-1], left_out[M - 1] / n - 12, "Σ λ, j > m", ha="right", va="top")
of_gradients.set(
    xlabel="epoch", ylabel="squared error per digit", ylim=(550, 1300), title=f"m = {M}: trained by gradients"
)

ten = [np.flatnonzero(digits.target == k)[3] for k in range(10)]
rows = {"digit": digits.images[ten]}
for m in (2, 8, 32):
    U = vectors[:, :m]
    rows[f"from {m} numbers"] = (mean + X[ten] @ U @ U.T).reshape(-1, 8, 8)
pictures, axes = below.subplots(1, 2, width_ratios=(1.6, 1))
image_rows(pictures, rows, 16)
pictures.set_title("digits encoded by Uᵀ and decoded by U")
dark = np.abs(vectors[:, :8]).max()
image_rows(
    axes,
    {"1 to 4": vectors[:, :4].T.reshape(4, 8, 8) + dark, "5 to 8": vectors[:, 4:8].T.reshape(4, 8, 8) + dark},
    2 * dark,
)
axes.set_title("first eight eigenvectors; grey is 0")
title(fig, "The best linear encoder and decoder lose exactly the remaining eigenvalues")
save(fig, PICTURE)
