"""Counts in a VAE: Poisson and negative binomial columns."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import nbinom, norm

from jensen import MLP, VAE, NegativeBinomial, Poisson

SMALL = {"encoder": MLP((8,)), "decoder": MLP((8,)), "learning_rate": 0.01, "random_state": 0}


def visits(n=300, seed=0):
    """Overdispersed counts of two columns with a common cause, and a number."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    counts = {f"visits{j}": rng.negative_binomial(2, 2 / (2 + np.exp(1 + z))) for j in range(2)}
    return pd.DataFrame({**counts, "age": 40 + 5 * rng.normal(size=n)})


def counted(**arguments):
    options = {"max_epochs": 30, "columns": dict.fromkeys(("visits0", "visits1"), "count")} | SMALL | arguments
    return VAE(1, **options).fit(visits())


@pytest.fixture(scope="module")
def model():
    return counted()


def test_the_score_is_that_of_scipys_negative_binomial(model):
    """ln ∫ p(z) Π_j p(x_j | z) dz on a grid of z, with a missing value left out."""
    X = visits(5, seed=1).astype(float)
    X.loc[0, "visits1"] = np.nan
    z = np.linspace(-7, 7, 1401)[:, None]
    # A decoder's mean of a frame is rounded; the network's own is not.
    with torch.no_grad():
        mean = np.exp(
            model.module_.emission.split(model.module_.decode(torch.tensor(z).float()))[1][1].double().numpy()
        )
    size = model.module_.emission.counts.log_size.detach().double().exp().numpy()
    counts = X[["visits0", "visits1"]].to_numpy()[:, None]
    of_counts = nbinom.logpmf(np.nan_to_num(counts), size, size / (size + mean))
    age = norm.logpdf(X["age"].to_numpy()[:, None], model.inverse_transform(z)["age"], np.sqrt(model.noise_variance_))
    joint = np.where(np.isnan(counts), 0.0, of_counts).sum(2) + age + norm.logpdf(z[:, 0])
    exact = logsumexp(joint, axis=1) + np.log(z[1, 0] - z[0, 0])
    bound = model.bound(X, importance_samples=4000)
    assert_allclose(bound.total, exact, atol=0.02)
    assert model.measure_ == ("probability", "probability", "density")


def test_samples_and_imputations_are_whole_and_overdispersed(model):
    drawn = model.sample(4000, random_state=1)[0]
    assert drawn["visits0"].dtype.kind == "i"
    assert drawn["visits0"].min() >= 0
    assert drawn["visits0"].mean() == pytest.approx(visits(20_000)["visits0"].mean(), rel=0.25)
    assert drawn["visits0"].var() > 1.5 * drawn["visits0"].mean()
    missing = visits(40).astype(float)
    missing.iloc[::3, 0] = np.nan
    for filled in (model.impute(missing), model.impute_draws(missing, 1)[0]):
        values = filled["visits0"].to_numpy()
        assert (values % 1 == 0).all()
        assert (values >= 0).all()
        assert_array_equal(values[1::3], missing["visits0"].to_numpy()[1::3])


def test_overdispersed_counts_are_better_as_negative_binomial():
    poisson = counted(columns=None, likelihood={"visits0": "poisson", "visits1": Poisson()})
    binomial = counted(columns=None, likelihood={"visits0": NegativeBinomial(), "visits1": "negative-binomial"})
    new = visits(seed=2)
    assert binomial.score(new) > poisson.score(new) + 0.05


def test_missing_counts_are_trained_on():
    X = visits().astype(float)
    X.iloc[::4, 0] = np.nan
    model = VAE(1, columns={"visits0": "count"}, max_epochs=3, **SMALL).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    X.iloc[:, 0] = np.nan
    assert np.isfinite(model.score_samples(X[:5])).all()


@pytest.mark.parametrize("wrong", [-1.0, 0.5])
def test_what_is_no_count_is_an_error(model, wrong):
    X = visits(50).astype(float)
    X.iloc[3, 1] = wrong
    with pytest.raises(ValueError, match=rf"columns={{'visits1': 'count'}}, but X holds {wrong:g}"):
        VAE(1, columns={"visits1": "count"}, max_epochs=1, **SMALL).fit(X)
    with pytest.raises(ValueError, match=rf"X holds {wrong} in row 3, column 'visits1'"):
        model.score_samples(X)
