"""Half of a digit is hidden: imputations by a mixture, a VAE and a diffusion.

    python examples/inpainting.py [picture.png]
All three models are trained on complete digits. In test digits the lower or the right half is hidden. A posterior mean
has a small error on average, but is blurred where several digits are possible; `impute_draws` returns one possible
digit at a time. A diffusion is not trained for this task: RePaint conditions its reverse chain on the observed pixels.
This diffusion was trained for six seconds only. Many of its draws are digits, but the means of the mixture are closer
to the truth.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from drawing import figure, image_rows, picture_path, save, title
from jensen import MLP, VAE, ConjugatePrior, Diffusion, GaussianMixture, ResidualMLP

PICTURE = picture_path(__doc__)
N_DRAWS, N_SHOWN = 10, 12

digits = load_digits()
X, X_test, _, y_test = train_test_split(
    digits.images, digits.target, test_size=360, random_state=0, stratify=digits.target
)
truth = X_test[:N_SHOWN]
given = truth.copy()
given[::2, 4:] = np.nan
given[1::2, :, 4:] = np.nan
hidden = np.isnan(given)

network = MLP(hidden=(128,), dropout=0.2)
mixture = GaussianMixture(12, prior=ConjugatePrior(), tol=0.1, random_state=0).fit(X.reshape(-1, 64))
vae = VAE(16, likelihood="categorical", encoder=network, decoder=network, max_epochs=20, random_state=0).fit(X)
diffusion = Diffusion(
    n_steps=100, network=ResidualMLP(256), max_epochs=22, batch_size=64, learning_rate=5e-3, random_state=0
).fit(X)

draws = np.stack(diffusion.impute_draws(given, N_DRAWS, random_state=1, steps=20, resamplings=15))
filled = {
    "pixel mean": np.where(hidden, X.mean(0), given),
    "mixture, mean": mixture.impute(given.reshape(-1, 64)).reshape(truth.shape),
    # `impute` returns the most probable level; the mean of draws has a smaller squared error.
    "VAE, mean": np.mean(vae.impute_draws(given, 50, random_state=1), 0),
    "diffusion, mean": draws.mean(0),
}
error = {name: float(np.sqrt(np.mean((rows - truth)[hidden] ** 2))) for name, rows in filled.items()}
print("RMSE of hidden pixels, in grey levels: " + ", ".join(f"{name} {value:.2f}" for name, value in error.items()))

# The mean is grey where the draws differ from each other, and there it also differs from the truth.
spread, grey = draws.std(0)[hidden], np.minimum(draws.mean(0), 16 - draws.mean(0))[hidden]
missed = np.abs(draws.mean(0) - truth)[hidden]
unsure = spread > np.median(spread)
print(
    f"draws differ by {spread.mean():.2f} levels on average; the mean's error where they differ more than the median ",
    end="",
)
print(f"{missed[unsure].mean():.2f}, elsewhere {missed[~unsure].mean():.2f}")

for rows in (*draws, *filled.values()):
    assert np.array_equal(rows[~hidden], truth[~hidden]), "observed pixels are returned bit for bit"
assert set(np.unique(draws)) <= set(range(17)), "draws have the levels of the data"
assert all(error[name] < error["pixel mean"] for name in list(filled)[1:]), "the halves are dependent"
assert grey[unsure].mean() > 2 * grey[~unsure].mean(), "the mean is grey where draws differ"
assert missed[unsure].mean() > 2 * missed[~unsure].mean(), "and there its error is larger"

shown = {"truth": truth, "given": given, **dict(list(filled.items())[1:])}
shown |= {f"diffusion, draw {i + 1}": draws[i] for i in range(3)}
fig = figure(12.0, 7.8)
image_rows(fig.subplots(), shown, 16)
title(fig, "Half of a digit hidden: the posterior mean is blurred, a draw is one possible digit")
save(fig, PICTURE)
