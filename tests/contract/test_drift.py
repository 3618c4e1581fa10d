"""A stream whose clusters move: with a decay the model follows, without it lags."""

import numpy as np
import pytest

from jensen import DiscriminantAnalysis, GaussianMixture, KMeans, LatentCurve, NaiveBayes, ProbabilisticPCA

SPEED, N_BATCHES, DECAY = 0.15, 80, 0.7


def batch(t, rng):
    """Two clusters 12 apart that move by SPEED with every batch."""
    label = np.repeat([0, 1], 60)
    centres = np.array([[0.0, 0.0], [12.0, 0.0]]) + SPEED * t
    return centres[label] + rng.normal(size=(120, 2)), label, centres


def errors(model, with_labels, **options):
    """How far the means are from the truth after every batch of the second half."""
    rng, found = np.random.default_rng(0), []
    for t in range(N_BATCHES):
        x, label, centres = batch(t, rng)
        model.partial_fit(x, label if with_labels else None, **options)
        means = means_of(model)
        truth = centres if len(means) == 2 else centres.mean(0, keepdims=True)
        if t >= N_BATCHES // 2:
            found.append(np.abs(means[means[:, 0].argsort()] - truth).max())
    return np.array(found)


def means_of(model):
    if hasattr(model, "parameters_"):
        return np.stack([values["mean"] for values in model.parameters_.values()], 1)
    for name in ("cluster_centers_", "means_"):
        if hasattr(model, name):
            return getattr(model, name)
    return model.mean_[None]


@pytest.mark.parametrize(
    ("model", "with_labels"),
    [
        (GaussianMixture(2, random_state=0), False),
        (KMeans(2, random_state=0), False),
        (NaiveBayes(), True),
        (DiscriminantAnalysis(), True),
        (ProbabilisticPCA(1), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_with_a_decay_the_model_follows(model, with_labels):
    # The mean lags by SPEED γ/(1-γ) = 0.35; the rest is noise of the means, 1/√200 each.
    decayed = errors(model, with_labels, decay=DECAY)
    assert decayed.max() < 0.35 + 4 / np.sqrt(200)
    assert decayed[-10:].mean() < decayed[:10].mean() + 0.1


def test_a_latent_curve_follows_rows_that_move_across_it():
    rng, model, lags = np.random.default_rng(0), LatentCurve(random_state=0), []
    for t in range(40):
        place = rng.uniform(-3, 3, size=200)
        model.partial_fit(np.stack([place, SPEED * t + 0.2 * rng.normal(size=200)], 1), decay=DECAY)
        lags.append(SPEED * t - model.inverse_transform([[0.5]])[0, 1])
    # SPEED γ/(1-γ), and noise of the same size as that of the mean of the rows that are remembered.
    assert np.mean(lags[20:]) == pytest.approx(SPEED * DECAY / (1 - DECAY), abs=0.1)


@pytest.mark.parametrize(
    ("model", "with_labels"), [(GaussianMixture(2, random_state=0), False), (NaiveBayes(), True)], ids=str
)
def test_without_a_decay_it_lags_further_and_further(model, with_labels):
    lagging = errors(model, with_labels)
    assert lagging[-1] > lagging[0] + 0.3
    assert lagging[-1] > 1


def test_a_decay_of_1_counts_all_rows_alike():
    rng = np.random.default_rng(1)
    parts = [rng.normal(t, size=(n, 3)) for t, n in enumerate((50, 20, 90))]
    model = GaussianMixture(1)
    for part in parts:
        model.partial_fit(part, decay=1.0)
    rows = np.concatenate(parts)
    assert model.means_[0] == pytest.approx(rows.mean(0))
    assert model.covariances_[0] == pytest.approx(np.cov(rows.T, bias=True))
    assert model.total_weight_ == len(rows)


def test_two_columns_of_a_decayed_mixture_by_hand():
    """One component: the weighted Gaussian of maximum likelihood."""
    rng = np.random.default_rng(2)
    parts = [rng.normal(3 * t, 1 + t, size=(40, 2)) for t in range(4)]
    model = GaussianMixture(1)
    for part in parts:
        model.partial_fit(part, decay=0.5)
    rows, weight = np.concatenate(parts), np.repeat([0.125, 0.25, 0.5, 1.0], 40)
    assert model.means_[0] == pytest.approx(np.average(rows, axis=0, weights=weight))
    assert model.covariances_[0] == pytest.approx(np.cov(rows.T, aweights=weight, bias=True))
