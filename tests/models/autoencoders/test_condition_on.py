"""Covariates that are given and not modelled."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from jensen import MLP, VAE, Elbo, LatentDiffusion, Trainer, load

SMALL = {"encoder": MLP((8,)), "decoder": MLP((8,)), "max_epochs": 2, "evaluation_samples": 20, "random_state": 0}


def table(n=80, seed=0):
    """Two numbers whose mean is that of the batch."""
    rng = np.random.default_rng(seed)
    batch = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    shift = pd.Series(batch).map({"a": 0.0, "b": 4.0, "c": 8.0}).to_numpy()
    own = rng.normal(size=n)
    x, y = shift + own + 0.1 * rng.normal(size=n), shift - own + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "batch": batch, "y": y})


@pytest.fixture(scope="module")
def model():
    return VAE(1, condition_on=["batch"], **SMALL).fit(table())


def test_a_decoder_that_ignores_the_covariate_scores_as_without_it(model):
    """ln p(x | c) = ln p(x), and q(z | x, c) = q(z | x)."""
    X = table()
    without = VAE(1, **SMALL).fit(X[["x", "y"]])
    theirs, ours = without.module_, model.module_
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    try:
        with torch.no_grad():
            for own, other, seen in ((ours.encoder, theirs.encoder, [0, 4]), (ours.decoder, theirs.decoder, [0])):
                own[0].weight.zero_()
                # The encoder sees x, batch one-hot, y; the decoder z, then batch.
                own[0].weight[:, seen] = other[0].weight
                own[0].bias.copy_(other[0].bias)
                own[2].load_state_dict(other[2].state_dict())
            ours.emission.numbers.log_variance.copy_(theirs.emission.numbers.log_variance)
        found, expected = (m.bound(rows, importance_samples=500) for m, rows in ((model, X), (without, X[["x", "y"]])))
        # A row's draws of z depend on its content, of which the covariate is a part.
        error = np.hypot(found.standard_error, expected.standard_error)
        assert (np.abs(found.total - expected.total) < 5 * error + 1e-4).all()
        bits = model.bits_per_dimension(X, importance_samples=500)
        assert_allclose(bits, -found.total / (2 * np.log(2)), rtol=1e-5)
    finally:
        ours.load_state_dict(before)


def test_the_latent_vector_does_not_encode_the_covariate():
    """Within batches x - y varies, between them x + y: given the batch, z is left with x - y."""
    X, shift = table(600), table(600)["batch"].map({"a": 0.0, "b": 4.0, "c": 8.0})
    options = {"encoder": MLP((16,)), "decoder": MLP((16,)), "max_epochs": 60, "learning_rate": 0.01, "random_state": 0}

    def explained(z):
        """The share of the variance of z between batches."""
        return pd.Series(z[:, 0]).groupby(shift).transform("mean").var() / z.var()

    assert explained(VAE(1, condition_on=["batch"], **options).fit(X).transform(X)) < 0.1
    assert explained(VAE(1, **options).fit(X[["x", "y"]]).transform(X[["x", "y"]])) > 0.5


def test_samples_have_the_given_or_the_observed_covariates(model):
    X, z = model.sample(400, random_state=1)
    assert list(X.columns) == ["x", "batch", "y"]
    assert z.shape == (400, 1)
    assert_allclose(X["batch"].value_counts(normalize=True)["a"], (table()["batch"] == "a").mean(), atol=0.1)
    assert set(model.sample(5, given={"batch": "c"})[0]["batch"]) == {"c"}
    many = ["a", "b", "c", "a"]
    assert list(model.sample(4, given={"batch": many})[0]["batch"]) == many
    assert list(model.inverse_transform(np.zeros((4, 1)), given={"batch": many})["batch"]) == many


def test_rows_keep_their_covariates(model):
    X = table(6)
    assert_array_equal(model.reconstruct(X)["batch"], X["batch"])
    ends = model.interpolate(X.iloc[0], X.iloc[1], 4)["batch"]
    assert list(ends) == [X["batch"][0]] * 2 + [X["batch"][1]] * 2
    missing = X.copy()
    missing.loc[0, "x"] = np.nan
    filled = model.impute(missing)
    assert filled["x"].notna().all()
    assert_array_equal(filled["batch"], X["batch"])
    assert model.measure_ == ("density", "given", "density")
    assert VAE(1, condition_on=["batch"], **SMALL).find_measure(X) == model.measure_


def test_a_file_keeps_them(model, tmp_path):
    model.save(tmp_path / "m.jensen")
    back = load(tmp_path / "m.jensen")
    assert_array_equal(back.score_samples(table(10)), model.score_samples(table(10)))
    pd.testing.assert_frame_equal(back.sample(9, random_state=2)[0], model.sample(9, random_state=2)[0])


@pytest.mark.parametrize("covariates", [[0], [1], [0, 1]])
def test_numbers_atoms_and_classes(covariates):
    """A covariate with an atom is a number and a level; labels add classes."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.where(rng.random(80) < 0.4, 0.0, rng.gamma(2.0, size=80)), rng.normal(size=(80, 3))])
    model = VAE(1, condition_on=covariates, **SMALL).fit(X, rng.integers(2, size=80))
    rows, (z, y) = model.sample(30, random_state=0)
    assert rows.shape == (30, 4)
    assert z.shape == (30, 1)
    assert set(y) <= {0, 1}
    known = {tuple(row) for row in X[:, covariates].round(4)}
    assert all(tuple(row) in known for row in np.asarray(rows)[:, covariates].round(4))
    assert np.isfinite(model.score_samples(X)).all()
    fixed = dict.fromkeys(covariates, 1.5)
    assert_allclose(np.asarray(model.sample(3, given=fixed)[0])[:, covariates], 1.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("condition_on", "message"),
    [
        (["town"], r"condition_on names the column 'town', which X does not have; its columns are 'x', 'batch', 'y'"),
        ("batch", r"condition_on='batch' must be a list of columns; write condition_on=\['batch'\]"),
        (["x", "batch", "y"], "names all columns of X, so there is nothing to model"),
    ],
)
def test_a_bad_covariate_is_named(condition_on, message):
    with pytest.raises(ValueError, match=message):
        VAE(1, condition_on=condition_on, **SMALL).fit(table())


def test_every_row_needs_its_covariates(model):
    X = table()
    X.loc[3, "batch"] = None
    with pytest.raises(ValueError, match="X has no value of 'batch' in 1 rows, first in row 3, but condition_on needs"):
        VAE(1, condition_on=["batch"], **SMALL).fit(X)
    with pytest.raises(ValueError, match="X has no value of 'batch' in 1 rows, first in row 3"):
        model.score_samples(X)
    X.loc[3, "batch"] = "d"
    unseen = pytest.raises(ValueError, match="X has a level of 'batch' that the model was not trained on in 1 rows")
    with pytest.warns(UserWarning, match="batch"), unseen:
        model.score_samples(X)
    with pytest.raises(ValueError, match=r"given=\['town'\] must have a value, or one per row, of each of 'batch'"):
        model.sample(2, given={"town": "a"})
    with pytest.raises(ValueError, match="given has 3 values of 'batch'; expected one, or 2, one per row"):
        model.sample(2, given={"batch": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="is for models with condition_on; leave it out"):
        VAE(1, **SMALL).fit(X[["x", "y"]]).sample(2, given={"batch": "a"})
    with pytest.raises(ValueError, match=r"condition_on=\['batch'\] is for VAE alone"):
        LatentDiffusion(vae=VAE(1, condition_on=["batch"], **SMALL)).fit(table())


def test_an_objective_and_a_trainer_work_with_them():
    options = SMALL | {"objective": Elbo(warm_up=0.5), "trainer": Trainer(validation_fraction=0.2)}
    assert np.isfinite(VAE(1, condition_on=["batch"], training="alternating", **options).fit(table()).score(table()))
