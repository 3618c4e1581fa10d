"""Half of a digit, and what could be the other half: a mixture's, an autoencoder's and a diffusion's answers.

    python examples/inpainting.py [picture.png]
All three learn from complete digits. Of test digits the lower half is hidden, or the right one. A mean over all that
fits is right on average, and blurred where several digits would do; `impute_draws` answers with one of them at a time.
A diffusion knows nothing of halves: RePaint leads its way from noise along what is given. This one had six seconds to
learn: many of its draws are digits, and the mixture's means are nearer to the truth.
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
    # Of levels `impute` takes the most probable one; the least squared error has the mean.
    "VAE, mean": np.mean(vae.impute_draws(given, 50, random_state=1), 0),
    "diffusion, mean": draws.mean(0),
}
error = {name: float(np.sqrt(np.mean((rows - truth)[hidden] ** 2))) for name, rows in filled.items()}
print("RMSE of hidden pixels, in grey levels: " + ", ".join(f"{name} {value:.2f}" for name, value in error.items()))

# A mean is grey where its draws differ, from each other as well as from the truth.
spread, grey = draws.std(0)[hidden], np.minimum(draws.mean(0), 16 - draws.mean(0))[hidden]
missed = np.abs(draws.mean(0) - truth)[hidden]
unsure = spread > np.median(spread)
print(
    f"draws differ by {spread.mean():.2f} levels on average; the mean's error where they differ more than the median ",
    end="",
)
print(f"{missed[unsure].mean():.2f}, elsewhere {missed[~unsure].mean():.2f}")

for rows in (*draws, *filled.values()):
    assert np.array_equal(rows[~hidden], truth[~hidden]), "observed pixels come back bit for bit"
assert set(np.unique(draws)) <= set(range(17)), "draws have the levels of the data"
assert all(error[name] < error["pixel mean"] for name in list(filled)[1:]), "one half tells of the other"
assert grey[unsure].mean() > 2 * grey[~unsure].mean(), "the mean is grey where draws differ"
assert missed[unsure].mean() > 2 * missed[~unsure].mean(), "and there it is wrong"

shown = {"truth": truth, "given": given, **dict(list(filled.items())[1:])}
shown |= {f"diffusion, draw {i + 1}": draws[i] for i in range(3)}
fig = figure(12.0, 7.8)
image_rows(fig.subplots(), shown, 16)
title(fig, "Half a digit: a mean over all that it could be is blurred, a draw is one of them")
save(fig, PICTURE)
