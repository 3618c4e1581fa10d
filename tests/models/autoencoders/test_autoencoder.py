"""Autoencoder: PCA where it is linear, the posterior mean where it is linear with noise, and what it does not claim."""

import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jensen
from jensen import MLP, Autoencoder, ConvDecoder, ConvEncoder, ProbabilisticPCA, Trainer
from jensen.models.autoencoders.autoencoder import AutoencoderModule

IRIS = load_iris().data
STANDARD = (IRIS - IRIS.mean(0)) / IRIS.std(0)
LINEAR = MLP(hidden=())
SMALL = {"encoder": MLP((20,)), "decoder": MLP((20,)), "max_epochs": 20, "random_state": 0}


def linear(m, **arguments):
    """Both networks are one linear layer, and every step takes all rows."""
    trainer = Trainer(warm_up=0, validation_fraction=0, averaging=None)
    given = {"max_epochs": 800, "learning_rate": 0.1, "trainer": trainer}
    return Autoencoder(m, encoder=LINEAR, decoder=LINEAR, batch_size=150, random_state=0, **(given | arguments))


@cache
def linear_fit(m):
    return linear(m).fit(IRIS)


def with_holes(x, share=0.2, seed=0):
    return np.where(np.random.default_rng(seed).random(x.shape) < share, np.nan, x)


def mixed_frame():
    iris = load_iris(as_frame=True)
    frame = iris.data.set_axis(["a", "b", "c", "d"], axis=1)
    return frame.assign(kind=iris.target_names[iris.target], large=frame["c"] > 4.0)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_linear_networks_span_the_plane_of_pca(m):
    """No linear pair has less error than PCA's (Eckart & Young 1936), and the best pair has its plane."""
    model, pca = linear_fit(m), PCA(m).fit(STANDARD)
    best = ((STANDARD - pca.inverse_transform(pca.transform(STANDARD))) ** 2).mean(1)
    # Networks compute in single precision.
    assert model.reconstruction_error(IRIS).mean() > best.mean() * (1 - 1e-6)
    assert model.reconstruction_error(IRIS).mean() == pytest.approx(best.mean(), rel=1e-4)
    assert_allclose(model.reconstruction_error(IRIS), best, atol=0.01)
    axes = model.module_.decoder[-1].weight.detach().numpy()
    assert np.degrees(subspace_angles(axes, pca.components_.T)).max() < 0.1


def test_linear_networks_reconstruct_as_probabilistic_pca_does():
    ours = linear_fit(2).reconstruct(IRIS)
    assert_allclose(
        (ours - IRIS.mean(0)) / IRIS.std(0), ProbabilisticPCA(2).fit(STANDARD).reconstruct(STANDARD), atol=0.02
    )


def test_linear_denoising_shrinks_as_the_best_linear_guess_does():
    """min E‖x - A(x+ε)‖² over A of rank m is A = U_m diag(λ / (λ + σ²)) U_mᵀ."""
    noise, m = 1.0, 2
    model = linear(m, noise=noise, learning_rate=0.03, trainer=Trainer(validation_fraction=0)).fit(IRIS)
    values, vectors = np.linalg.eigh(np.corrcoef(IRIS.T))
    values, vectors = values[::-1][:m], vectors[:, ::-1][:, :m]
    expected = STANDARD @ (vectors * values / (values + noise**2)) @ vectors.T
    found = (model.reconstruct(IRIS) - IRIS.mean(0)) / IRIS.std(0)
    # Noise of 800 batches, and of their average.
    assert_allclose(found, expected, atol=0.05)


def test_denoised_rows_are_nearer_the_clean_ones():
    """A circle in six dimensions: without noise in training the plane is learnt, with noise the circle as well."""
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.normal(size=(6, 6)))[0][:2]
    angle = rng.uniform(0, 2 * np.pi, 700)
    rows = np.stack([np.cos(angle), np.sin(angle)], 1) @ plane
    train, clean = rows[:500], rows[500:]
    noisy = clean + 0.3 * rng.normal(size=clean.shape)
    networks = {"encoder": MLP((50,)), "decoder": MLP((50,)), "max_epochs": 150, "learning_rate": 1e-2}

    def distance(noise):
        model = Autoencoder(2, noise=noise, scaling="common", **networks, random_state=0).fit(train)
        return np.linalg.norm(model.reconstruct(noisy) - clean, axis=1).mean()

    given = np.linalg.norm(noisy - clean, axis=1).mean()
    plain, denoising = distance(0.0), distance(0.5)
    assert denoising < 0.7 * plain < 0.7 * given


def test_noise_is_for_training_only():
    model = Autoencoder(2, noise=2.0, **SMALL).fit(IRIS)
    assert_array_equal(model.reconstruct(IRIS), model.reconstruct(IRIS))
    quiet = Autoencoder(2, **SMALL).fit(IRIS)
    # Of one epoch's rows, noise included, and of the same rows without.
    assert model.history_["error"].iloc[-1] > -model.score(IRIS) * 4
    assert quiet.history_["error"].iloc[-1] == pytest.approx(-quiet.score(IRIS) * 4, rel=0.3)


def test_the_error_is_the_mean_of_standardised_squares():
    x = with_holes(IRIS)
    x[3] = np.nan
    model = Autoencoder(2, **SMALL).fit(x)
    squares = ((x - model.reconstruct(x)) / np.nanstd(x, 0)) ** 2
    seen = ~np.isnan(x).all(1)
    assert_allclose(model.reconstruction_error(x)[seen], np.nanmean(squares[seen], 1), rtol=1e-3, atol=1e-5)
    assert model.reconstruction_error(x)[3] == 0
    assert model.score(x) == pytest.approx(-model.reconstruction_error(x).mean())
    assert model.score(x, np.zeros(150)) == model.score(x)


def test_the_error_does_not_depend_on_units():
    moved = IRIS * [1e6, 1e-6, 1.0, 100.0] + [0.0, 1.0, -50.0, 3.0]
    expected = Autoencoder(2, **SMALL).fit(IRIS).reconstruction_error(IRIS)
    # Both were rounded to single precision, and trained.
    assert_allclose(Autoencoder(2, **SMALL).fit(moved).reconstruction_error(moved), expected, rtol=0.02, atol=1e-3)


def test_one_scale_for_all_gives_the_users_units():
    model = Autoencoder(2, scaling="common", **SMALL).fit(IRIS)
    assert_allclose(model.columns_.scale.numpy(), IRIS.std())
    squares = ((IRIS - model.reconstruct(IRIS)) ** 2).mean(1)
    assert_allclose(model.reconstruction_error(IRIS) * float(model.columns_.scale[0]) ** 2, squares, rtol=1e-3)


def test_outliers_come_back_worst():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.05 * rng.normal(size=(300, 6))
    odd = rng.normal(size=(20, 6)) * x.std(0)
    model = Autoencoder(2, encoder=LINEAR, decoder=LINEAR, max_epochs=200, learning_rate=0.02, random_state=0).fit(x)
    assert np.median(model.reconstruction_error(odd)) > 10 * np.quantile(model.reconstruction_error(x), 0.9)


def test_what_is_missing_counts_in_no_error_and_is_guessed_from_the_rest():
    x = with_holes(IRIS, 0.15)
    model = Autoencoder(2, encoder=MLP((50,)), decoder=MLP((50,)), max_epochs=300, learning_rate=3e-3, random_state=0)
    filled = model.fit(x).reconstruct(x)
    missing = np.isnan(x)
    assert np.isfinite(filled).all()
    error, by_means = (np.sqrt(((rows - IRIS)[missing] ** 2).mean()) for rows in (filled, np.nanmean(x, 0)))
    assert error < 0.6 * by_means
    # A row without entries has a place, too.
    assert np.isfinite(model.transform(np.full((1, 4), np.nan))).all()


def test_levels_count_by_their_probability():
    frame = mixed_frame()
    model = Autoencoder(2, encoder=MLP((50,)), decoder=MLP((50,)), max_epochs=150, learning_rate=3e-3, random_state=0)
    model.fit(frame)
    assert model.columns_.kinds == ("number",) * 4 + ("level", "yes/no")
    back = model.reconstruct(frame)
    assert list(back.columns) == list(frame.columns)
    assert (back["kind"] == frame["kind"]).mean() > 0.9
    assert (back["large"] == frame["large"]).mean() > 0.9
    # -2 ln p of the level that is there, beside the squares.
    x = model.columns_.encode(frame).float()
    with torch.inference_mode():
        outputs = model.module_.decoder(model.module_.encode(x))
        mean, logit, levels = outputs.split([4, 1, 3], -1)
        expected = (x[:, :4] - mean).square().sum(1)
        expected -= 2 * levels.log_softmax(-1).gather(1, x[:, 4:5].long())[:, 0]
        expected -= 2 * torch.nn.functional.logsigmoid(logit[:, 0] * (2 * x[:, 5] - 1))
    assert_allclose(model.reconstruction_error(frame), expected.numpy() / 6, rtol=1e-4, atol=1e-6)


def test_levels_alone():
    frame = mixed_frame()[["kind", "large"]].astype({"kind": "category"})
    frame.loc[5, "kind"] = np.nan
    model = Autoencoder(1, **SMALL).fit(frame)
    assert model.transform(frame).shape == (150, 1)
    assert model.reconstruct(frame)["kind"].isna().sum() == 0
    with pytest.raises(ValueError, match=r"noise=0.5 is added to numbers, but X has none.*set noise=0"):
        Autoencoder(1, noise=0.5).fit(frame)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8), (2, 8, 4)])
def test_images(shape, holes):
    x = load_digits().images[:200].reshape(-1, *shape)
    x = with_holes(x, 0.1) if holes else x
    convolutions = {"encoder": ConvEncoder((4, 8), 16), "decoder": ConvDecoder((8, 4), 16)}
    model = Autoencoder(3, **convolutions, max_epochs=2, random_state=0).fit(x)
    assert model.transform(x).shape == (200, 3)
    assert model.reconstruct(x).shape == x.shape
    assert model.inverse_transform(np.zeros((2, 3))).shape == (2, *shape)
    assert model.reconstruction_error(x).shape == (200,)
    with pytest.raises(ValueError, match=r"X has rows of shape \(64,\), but the model was fitted on rows of shape"):
        model.transform(x.reshape(200, 64))


def test_images_have_convolutions_by_default():
    model = Autoencoder(2, max_epochs=1, random_state=0).fit(load_digits().images[:60])
    assert any(isinstance(layer, torch.nn.Conv2d) for layer in model.module_.encoder)
    assert any(isinstance(layer, torch.nn.Conv2d) for layer in model.module_.decoder)
    assert not any(isinstance(layer, torch.nn.Conv2d) for layer in Autoencoder(2, **SMALL).fit(IRIS).module_.encoder)


def test_what_it_does_not_know_it_does_not_offer():
    model = Autoencoder(2, **SMALL).fit(IRIS)
    for name in ("score_samples", "bound", "posterior", "sample", "impute", "impute_draws"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=name) as error:
            getattr(model, name)
        assert "an autoencoder has no likelihood" in str(error.value.__cause__)
    assert not hasattr(model, "lower_bound_")


def test_weight_two_is_the_row_twice_in_the_error():
    """All rows in every step: only the standardisation, which counts rows once, tells the two apart."""
    weight = np.random.default_rng(0).integers(0, 3, 150)
    fixed = linear(2, scaling="common", max_epochs=100)
    weighted = fixed.fit(STANDARD, sample_weight=weight).reconstruct(STANDARD)
    repeated = clone(fixed).set_params(batch_size=300).fit(np.repeat(STANDARD, weight, axis=0)).reconstruct(STANDARD)
    assert_allclose(weighted, repeated, atol=0.02)


def test_frames_and_tensors_come_back_in_kind():
    frame = pd.DataFrame(IRIS, columns=list("abcd"), index=[f"row {i}" for i in range(150)])
    model = Autoencoder(2, **SMALL).fit(frame).set_output(transform="pandas")
    assert list(model.get_feature_names_out()) == ["autoencoder0", "autoencoder1"]
    latent = model.transform(frame)
    assert list(latent.columns) == ["autoencoder0", "autoencoder1"]
    assert list(latent.index) == list(model.reconstruct(frame).index) == list(frame.index)
    assert list(model.inverse_transform(latent).columns) == list("abcd")
    assert isinstance(model.reconstruction_error(frame), np.ndarray)

    polars = pl.DataFrame(IRIS, schema=list("abcd"))
    assert Autoencoder(2, **SMALL).fit(polars).reconstruct(polars).columns == list("abcd")

    plain = Autoencoder(2, **SMALL)
    tensor = torch.tensor(IRIS, dtype=torch.float32)
    for answer in (plain.fit(tensor).transform, plain.reconstruct, plain.reconstruction_error):
        assert answer(tensor).dtype == torch.float32
    for dtype in (np.float32, np.float64):
        rows = IRIS.astype(dtype)
        assert plain.fit_transform(rows).dtype == plain.reconstruct(rows).dtype == dtype
    assert isinstance(plain.inverse_transform(torch.zeros(3, 2)), torch.Tensor)
    assert isinstance(plain.inverse_transform([[0.0, 0.0]]), np.ndarray)


def test_a_seed_gives_one_result_and_leaves_the_global_state_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    one, other = (Autoencoder(2, noise=0.3, **SMALL).fit_transform(IRIS) for _ in range(2))
    assert torch.rand(1) == expected
    assert_array_equal(one, other)


def test_a_file_and_a_pickle_keep_everything(tmp_path):
    for rows in (IRIS, with_holes(IRIS), mixed_frame(), with_holes(load_digits().images[:60])):
        model = Autoencoder(2, noise=0.1, max_epochs=1, random_state=0).fit(rows)
        model.save(tmp_path / "model.jensen")
        for copy in (jensen.load(tmp_path / "model.jensen"), pickle.loads(pickle.dumps(model))):
            assert repr(copy.get_params()) == repr(model.get_params())
            assert_array_equal(copy.transform(rows), model.transform(rows))
            assert copy.loss_ == model.loss_
            assert len(copy.history_) == len(model.history_)


def test_a_killed_run_goes_on_with_the_same_noise(tmp_path, monkeypatch):
    model = Autoencoder(2, noise=0.5, **SMALL | {"max_epochs": 40}, trainer=Trainer(checkpoint_every=0))
    expected = model.fit_transform(IRIS)
    model.set_params(checkpoint=tmp_path / "run")
    forward, calls = AutoencoderModule.forward, []

    def dying(self, x):
        calls.append(1)
        if len(calls) == 25:
            raise MemoryError
        return forward(self, x)

    with monkeypatch.context() as patch:
        patch.setattr(AutoencoderModule, "forward", dying)
        with pytest.raises(MemoryError):
            model.fit(IRIS)
    assert (tmp_path / "run").exists()
    assert_array_equal(model.fit_transform(IRIS), expected)


def test_it_can_be_searched_over_and_stand_in_a_pipeline():
    search = GridSearchCV(linear(1, max_epochs=100), {"n_components": [1, 3]}, cv=2).fit(IRIS)
    assert search.best_params_ == {"n_components": 3}
    assert make_pipeline(StandardScaler(), Autoencoder(2, **SMALL)).fit_transform(IRIS).shape == (150, 2)


def test_history_tells_the_error_of_every_round():
    model = Autoencoder(2, **SMALL | {"max_epochs": 200}).fit(IRIS)
    history = model.history_
    assert {"epoch", "objective", "error", "held_out"} <= set(history.columns)
    assert_allclose(history["objective"], -history["error"])
    assert history["error"].iloc[-1] < 0.5 * history["error"].iloc[0]
    assert model.loss_ in history["error"].to_list()
    assert model.n_iter_ == history["epoch"].iloc[-1]


def test_mistakes_have_a_way_out():
    with pytest.raises(ValueError, match=r"The 'noise' parameter of Autoencoder must be .*\[0.0, inf\). Got -1.0"):
        Autoencoder(noise=-1.0).fit(IRIS)
    with pytest.warns(
        UserWarning, match="n_components=4 is not less than the 4 features of X, so z does not compress x"
    ):
        Autoencoder(4, **SMALL).fit(IRIS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # With noise a copy is not the best answer.
        Autoencoder(4, noise=0.5, **SMALL).fit(IRIS)
    with pytest.raises(
        ValueError, match=r"training diverged in epoch \d, step 1: error is .*lower learning_rate=1e\+30"
    ):
        Autoencoder(2, **SMALL, learning_rate=1e30, trainer=Trainer(warm_up=0)).fit(IRIS)
    with pytest.raises(ValueError, match=r"in_shape=\(4,\) is not an image .*use MLP for tables"):
        Autoencoder(2, encoder=ConvEncoder()).fit(IRIS)
    model = Autoencoder(2, **SMALL).fit(IRIS)
    with pytest.raises(ValueError, match=r"Z has shape \(3, 4\); expected \(n, 2\)"):
        model.inverse_transform(IRIS[:3])
    with pytest.raises(ValueError, match="Z holds NaN or infinity; give a finite latent vector"):
        model.inverse_transform([[0.0, np.nan]])
    with pytest.raises(ValueError, match="X has 3 features, but Autoencoder is expecting 4 features"):
        model.transform(IRIS[:, :3])
