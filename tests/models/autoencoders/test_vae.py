"""The variational autoencoder against models whose likelihood is known, and against quadrature."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_digits, load_iris, load_wine

import jensen
from jensen import MLP, VAE, Bernoulli, Elbo, FactorAnalysis, Gaussian, ProbabilisticPCA, Recipe, Trainer, compare
from jensen.bound import HeavyTailWarning
from jensen.engines.sgd.feeds import TensorFeed
from jensen.engines.sgd.loop import Phase, Plan, fit_sgd
from jensen.models.autoencoders.inference import elbo
from jensen.models.autoencoders.module import binary_draws
from jensen.runtime.row_draws import RowDraws

LINE = MLP(hidden=())
ALL_ROWS = Trainer(validation_fraction=0.0, averaging=None)
SMALL = {"encoder": MLP((20,)), "decoder": MLP((20,)), "random_state": 0}


def standardised(data):
    x = data.data
    return (x - x.mean(0)) / x.std(0)


def linear_vae(m, variance, n_epochs=1500):
    return VAE(
        m,
        likelihood=Gaussian(variance),
        encoder=LINE,
        decoder=LINE,
        max_epochs=n_epochs,
        batch_size=1000,
        learning_rate=0.02,
        trainer=ALL_ROWS,
        random_state=0,
    )


def exact_evidence(model, x):
    """ln p(x) of a linear decoder: N(b, W Wᵀ + noise)."""
    layer = model.module_.decoder[0]
    w, mean = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    noise = np.broadcast_to(model.noise_variance_ / np.asarray(model.columns_.scale) ** 2, mean.shape)
    z = (x - np.asarray(model.columns_.location)) / np.asarray(model.columns_.scale)
    density = multivariate_normal.logpdf(z, mean, w @ w.T + np.diag(noise))
    return density - float(model.columns_.scale.log().sum())


class TestOracles:
    def test_a_linear_vae_reaches_probabilistic_pca_and_never_exceeds_it(self):
        x = standardised(load_wine())
        best = ProbabilisticPCA(3).fit(x).score(x)
        model = linear_vae(3, "learned", 500).set_params(learning_rate=0.05).fit(x)
        evidence = exact_evidence(model, x).mean()
        assert best - 0.01 < evidence < best + 1e-6
        # And so does the bound itself: with orthogonal loadings a diagonal q is the posterior.
        bound = model.bound(x)
        error = 3 * np.sqrt(np.mean(bound.standard_error**2) / len(x))
        assert best - 0.02 - error < bound.total.mean() < best + error

    def test_with_a_variance_per_feature_the_oracle_is_factor_analysis(self):
        x = standardised(load_iris())[:, :3]
        best = FactorAnalysis(1, tol=1e-8, max_iter=5000).fit(x).score(x)
        evidence = exact_evidence(linear_vae(1, "feature", 2500).fit(x), x).mean()
        assert best - 0.02 < evidence < best + 1e-3

    def test_the_linear_oracle_holds_in_any_units(self):
        """One scale for all columns keeps PPCA's round noise round."""
        x = load_iris().data * 100 + 7
        best = ProbabilisticPCA(2).fit(x).score(x)
        evidence = exact_evidence(linear_vae(2, "learned").set_params(scaling="common").fit(x), x).mean()
        assert best - 0.01 < evidence < best + 1e-6


@pytest.fixture(scope="module")
def curve():
    """A small model with one latent dimension, whose evidence is an integral over a line."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 300)
    x = np.stack([3 * np.cos(angle), 2 * np.sin(angle), angle], 1) + 0.2 * rng.normal(size=(300, 3))
    x[rng.random(x.shape) < 0.1] = np.nan
    model = VAE(1, max_epochs=400, learning_rate=5e-3, **SMALL).fit(x)
    return model, x


def by_quadrature(model, x):
    """ln p(x, z) on a fine grid of z and ln of its weights."""
    z = np.linspace(-7, 7, 2801)
    mean = model.inverse_transform(z[:, None])
    log_joint = np.nansum(norm.logpdf(x[:, None], mean, np.sqrt(model.noise_variance_)), 2)
    return log_joint + norm.logpdf(z) + np.log(z[1] - z[0]), mean


class TestBound:
    def test_the_importance_weighted_bound_rises_with_k_to_the_evidence(self, curve):
        model, x = curve
        evidence = logsumexp(by_quadrature(model, x)[0], axis=1).mean()
        means, errors = [], []
        for k in (1, 5, 50, 2000):
            draws = [model.set_params(random_state=s).score_samples(x, importance_samples=k) for s in range(8)]
            means.append(np.mean(draws))
            errors.append(np.std(np.mean(draws, 1)) / np.sqrt(8))
        model.set_params(random_state=0)
        assert (np.diff(means) > 2 * np.array(errors)[:-1]).all()
        assert means[-1] == pytest.approx(evidence, abs=0.01)
        assert np.all(np.array(means) < evidence + 3 * np.array(errors) + 1e-3)

    def test_the_standard_error_is_the_spread_over_seeds(self, curve):
        model, x = curve
        runs = [model.set_params(random_state=s).bound(x[:50]) for s in range(30)]
        model.set_params(random_state=0)
        spread = np.std([run.total for run in runs], axis=0, ddof=1)
        claimed = np.sqrt(np.mean([run.standard_error**2 for run in runs], axis=0))
        assert np.sqrt(np.mean((spread / claimed) ** 2)) == pytest.approx(1, abs=0.15)

    def test_rows_with_holes_have_the_bound_of_what_is_observed(self, curve):
        model, x = curve
        rows = x[np.isnan(x).any(1)]
        difference = model.score_samples(rows, importance_samples=5000) - logsumexp(
            by_quadrature(model, rows)[0], axis=1
        )
        # Where two arms of the curve explain what is left of a row, q knows one of them, and few draws find the other.
        assert np.median(np.abs(difference)) < 0.01
        assert np.abs(difference).mean() < 0.1

    def test_with_nothing_missing_the_bound_is_the_plain_one(self, curve):
        model, x = curve
        full = torch.tensor(x[~np.isnan(x).any(1)][:20], dtype=torch.float32)
        module = model.module_
        with torch.no_grad():
            latent, _ = module.latents(full)
            outputs = module.decode(latent.mean)
            masked = module.emission.log_prob(outputs, full, ~full.isnan())
            assert_array_equal(masked, module.emission.log_prob(outputs, full))

    def test_a_row_with_nothing_has_a_bound_of_zero_at_most(self, curve):
        model, _ = curve
        bound = model.bound(np.full((1, 3), np.nan))
        assert bound.reconstruction[0] == 0
        assert bound.total[0] <= 0

    def test_beta_is_an_objective_and_not_the_bound(self):
        x = standardised(load_iris())
        model = VAE(2, objective=Elbo(beta=5.0, warm_up=0.3), max_epochs=60, **SMALL).fit(x)
        bound = model.bound(x)
        assert_allclose(bound.total, bound.reconstruction - bound.kl["latent"])
        last = model.history_.iloc[-1]
        assert last["objective"] == pytest.approx(last["reconstruction"] - 5 * last["latent"], rel=1e-5)

    def test_units_change_the_score_by_the_jacobian(self):
        x = load_iris().data
        model = VAE(2, max_epochs=30, **SMALL)
        one = model.fit(x).score(x)
        other = model.fit(1e-3 * x + 10).score(1e-3 * x + 10)
        # In single precision, after standardising in double.
        assert other == pytest.approx(one - 4 * np.log(1e-3), abs=1e-3)


@pytest.fixture(scope="module")
def scored(curve):
    """The bound of rows with half of their entries missing, ln p(x) by quadrature, and the warnings."""
    model, x = curve
    rows = np.tile(x, (4, 1))
    rows[np.random.default_rng(1).random(rows.shape) < 0.45] = np.nan
    with pytest.warns(HeavyTailWarning) as heard:
        bound = model.bound(rows, importance_samples=100)
    return rows, bound, logsumexp(by_quadrature(model, rows)[0], axis=1), heard


class TestDiagnostics:
    def test_intervals_of_rows_that_are_not_flagged_cover_the_evidence(self, scored):
        _, bound, evidence, _ = scored
        trusted = bound.diagnostics["pareto_k"] <= 0.7
        covered = np.abs(bound.total - evidence) < 1.96 * bound.standard_error
        assert trusted.mean() > 0.5
        assert covered[trusted].mean() > 0.95
        # The spread of the weights alone, as if there were nothing beyond the draws, is too sure of itself.
        plain = np.sqrt((100 / bound.diagnostics["effective_samples"] - 1) / 99)
        assert (np.abs(bound.total - evidence) < 1.96 * plain)[trusted].mean() < 0.85

    def test_a_score_far_above_the_evidence_is_flagged(self, scored):
        """By luck a row may have twice its probability; then a few draws have all the weight."""
        _, bound, evidence, _ = scored
        lucky = bound.total - evidence > np.log(2)
        assert lucky.any()
        assert (bound.diagnostics["pareto_k"][lucky] > 0.7).all()
        assert (bound.diagnostics["effective_samples"][lucky] < 20).all()
        assert (bound.diagnostics["effective_samples"] <= 100 * (1 + 1e-9)).all()

    def test_one_warning_counts_the_rows(self, scored, curve):
        rows, bound, _, heard = scored
        n = ((bound.diagnostics["pareto_k"] > 0.7) & (bound.standard_error > 0.1)).sum()
        assert len(heard) == 1
        assert f"the scores of {n} of {len(rows)} rows are uncertain" in str(heard[0].message)
        assert "raise evaluation_samples or importance_samples" in str(heard[0].message)
        with pytest.warns(HeavyTailWarning, match=f"of {n} of"):
            assert_array_equal(curve[0].score_samples(rows), bound.total)

    def test_what_does_not_depend_on_luck_is_not_warned_of(self, curve):
        model, x = curve
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model.score(x) < 0  # a mean over rows
            plain = model.bound(x)  # a mean of logarithms, of which no draw has the most
            assert np.isnan(model.bound(x, importance_samples=20).diagnostics["pareto_k"]).all()
            compare(x[:60], models=[VAE(1, max_epochs=1, **SMALL)], cv=2)
        # The same draws as the score's, seen as what they would be worth.
        with pytest.warns(HeavyTailWarning):
            weighted = model.bound(x, importance_samples=model.evaluation_samples)
        for name in ("pareto_k", "effective_samples"):
            assert_allclose(plain.diagnostics[name], weighted.diagnostics[name])
        assert_array_equal(plain.in_bits().diagnostics["pareto_k"], plain.diagnostics["pareto_k"])


class TestPosterior:
    def test_a_full_covariance_is_at_least_as_good_as_a_diagonal_one(self):
        """Loadings that are not orthogonal make the coordinates of z depend on each other given x."""
        w = torch.tensor([[1.0, 0.9], [0.9, 1.0], [0.5, 0.6]])
        generator = torch.Generator().manual_seed(0)
        x = torch.randn((400, 2), generator=generator) @ w.T + 0.3 * torch.randn((400, 3), generator=generator)
        found = {}
        for covariance in ("diagonal", "full"):
            model = VAE(2, posterior_covariance=covariance, encoder=LINE, decoder=LINE, likelihood=Gaussian(0.09))
            model.set_params(max_epochs=1, trainer=ALL_ROWS, random_state=0, scaling="common").fit(x)
            module = model.module_
            with torch.no_grad():
                module.decoder[0].weight.copy_(w / model.columns_.scale[0])
                module.decoder[0].bias.copy_(-model.columns_.location / model.columns_.scale)
            plan = Plan(800, 400, 0.02, ALL_ROWS, seed=0, phases=[Phase("E", module.inference_parameters())])
            encoded = model.columns_.encode(x).float()
            fit_sgd(module, TensorFeed((encoded,)), Elbo(), plan)
            found[covariance] = model.bound(x).total.mean()
        evidence = multivariate_normal.logpdf(x.numpy(), np.zeros(3), (w @ w.T).numpy() + 0.09 * np.eye(3)).mean()
        assert found["diagonal"] + 0.3 < found["full"] < evidence + 0.02
        assert found["full"] == pytest.approx(evidence, abs=0.02)

    def test_the_posterior_has_the_means_of_transform(self, curve):
        model, x = curve
        assert_allclose(model.posterior(x).mean, model.transform(x), rtol=1e-6)
        full = VAE(2, posterior_covariance="full", max_epochs=3, **SMALL).fit(x)
        assert isinstance(full.posterior(x), torch.distributions.MultivariateNormal)
        assert_allclose(full.posterior(x).mean, full.transform(x), rtol=1e-6)


class TestTraining:
    def test_alternating_moves_one_network_at_a_time_by_the_joint_gradient(self):
        x = torch.tensor(standardised(load_iris()), dtype=torch.float32)
        start = VAE(2, max_epochs=1, trainer=ALL_ROWS, **SMALL).fit(x.numpy()).module_
        after = {}
        for name in ("joint", "E", "M"):
            module = copy.deepcopy(start)
            moving = {"joint": (), "E": [Phase("E", module.inference_parameters())]}.get(
                name, [Phase("M", module.generative_parameters())]
            )
            torch.manual_seed(3)
            fit_sgd(module, TensorFeed((x,)), Elbo(), Plan(1, 150, 0.01, Trainer(averaging=None, clip=None), 0, moving))
            after[name] = dict(module.named_parameters())
        for name, parameter in start.named_parameters():
            of_decoder = name.startswith(("decoder", "emission"))
            assert torch.equal(after["M" if of_decoder else "E"][name], after["joint"][name])
            assert torch.equal(after["E" if of_decoder else "M"][name], parameter)
            assert not torch.equal(after["joint"][name], parameter)

    def test_alternating_shows_its_phases_and_learns(self):
        x = standardised(load_iris())
        model = VAE(2, training="alternating", max_epochs=600, learning_rate=5e-3, trainer=ALL_ROWS, **SMALL).fit(x)
        history = model.history_
        assert history["phase"].tolist()[:4] == ["E", "M", "E", "M"]
        assert history["objective"].iloc[-1] > history["objective"].iloc[0] + 1

    def test_decoder_alone_from_pairs_is_least_squares(self):
        rng = np.random.default_rng(0)
        z = rng.normal(size=(200, 2))
        x = z @ rng.normal(size=(2, 4)) + 3 + 0.1 * rng.normal(size=(200, 4))
        model = VAE(2, decoder=LINE, max_epochs=1000, batch_size=200, learning_rate=0.05, trainer=ALL_ROWS)
        model.set_params(random_state=0).fit_decoder(x, z)
        design = np.column_stack([np.ones(200), z])
        expected = design @ np.linalg.lstsq(design, x, rcond=None)[0]
        assert_allclose(model.inverse_transform(z), expected, atol=5e-3)

    def test_decoder_alone_leaves_the_encoder(self):
        x = standardised(load_iris())
        model = VAE(2, max_epochs=5, **SMALL).fit(x)
        z = model.transform(x)
        model.fit_decoder(x, z)
        assert_array_equal(model.transform(x), z)

    def test_bad_pairs(self):
        x = load_iris().data
        with pytest.raises(ValueError, match=r"Z has shape \(150, 3\); expected \(150, 2\)"):
            VAE(2).fit_decoder(x, np.zeros((150, 3)))
        with pytest.raises(ValueError, match="Z holds NaN or infinity"):
            VAE(2).fit_decoder(x, np.full((150, 2), np.nan))

    def test_rows_on_disk_and_datasets_are_the_same_rows(self, tmp_path):
        x = load_iris().data.astype(np.float32)
        np.save(tmp_path / "x.npy", x)

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return len(x)

            def __getitem__(self, i):
                return torch.from_numpy(x[i]), 0

        model = VAE(2, max_epochs=5, batch_size=150, **SMALL)
        in_memory = model.fit(x).history_["objective"]
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        for rows in (mapped, Rows()):
            # The encoder is told of holes that rows on disk may have, which changes its start.
            assert len(model.fit(rows).history_["objective"]) == len(in_memory)
            assert model.score(x) < 0
            assert model.n_features_in_ == 4
            assert_array_equal(model.impute(rows), x)

    def test_a_diverging_learning_rate_is_named(self):
        x = load_iris().data
        with pytest.raises(
            ValueError, match=r"training diverged in epoch \d+, step \d+: .* lower learning_rate=1e\+20"
        ):
            VAE(2, learning_rate=1e20, trainer=Trainer(clip=None, warm_up=0), max_epochs=300, **SMALL).fit(x)


class TestMissing:
    def test_imputation_is_the_conditional_mean_by_quadrature(self, curve):
        model, x = curve
        rows = x[np.isnan(x).any(1)][:30]
        log_joint, mean = by_quadrature(model, rows)
        share = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
        expected = np.where(np.isnan(rows), share @ mean, rows)
        difference = np.abs(model.impute(rows, importance_samples=20_000) - expected)[np.isnan(rows)]
        assert np.median(difference) < 0.01
        assert difference.mean() < 0.05

    def test_draws_have_the_conditional_mean_and_spread(self, curve):
        model, x = curve
        row = x[~np.isnan(x).any(1)][:1].copy()
        row[0, 2] = np.nan
        log_joint, mean = by_quadrature(model, row)
        share = np.exp(log_joint - logsumexp(log_joint))[0]
        expected = share @ mean[:, 2]
        variance = share @ (mean[:, 2] - expected) ** 2 + model.noise_variance_[-1]
        model.set_params(evaluation_samples=5000)
        draws = np.concatenate(model.impute_draws(row, 4000, random_state=0))[:, 2]
        model.set_params(evaluation_samples=100)
        assert draws.mean() == pytest.approx(expected, abs=5 * np.sqrt(variance / 4000))
        assert draws.std() == pytest.approx(np.sqrt(variance), rel=0.1)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 300
    old = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "age": np.where(old, 60, 30) + 5 * rng.normal(size=n),
            "retired": old ^ (rng.random(n) < 0.05),
            "town": pd.Categorical(np.where(old, "Rome", np.where(rng.random(n) < 0.5, "Oslo", "Bonn"))),
            "children": np.where(old, "many", "none"),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


@pytest.fixture(scope="module")
def of_people(people):
    return VAE(2, max_epochs=400, learning_rate=5e-3, **SMALL).fit(people)


class TestMixedTables:
    def test_a_frame_of_any_columns_is_learnt_as_it_is(self, people, of_people):
        model = of_people
        assert model.columns_.kinds == ("number", "yes/no", "level", "yes/no")
        drawn, z = model.sample(200)
        assert list(drawn.columns) == list(people.columns)
        assert set(drawn["town"]) <= {"Rome", "Oslo", "Bonn"}
        assert z.shape == (200, 2)
        old = drawn["age"] > 45
        assert (drawn["children"][old] == "many").mean() > 0.8
        assert np.isfinite(model.score_samples(people)).all()

    def test_holes_are_filled_and_the_rest_is_kept(self, people, of_people):
        expected = of_people.impute(people)
        for filled in (expected, *of_people.impute_draws(people, 2)):
            assert not filled.isna().any().any()
            seen = people.notna().to_numpy()
            assert_array_equal(filled.to_numpy(dtype=object)[seen], people.to_numpy(dtype=object)[seen])
        hole = people["children"].isna() & people["age"].notna()
        right = expected["children"][hole] == np.where(people["age"][hole] > 45, "many", "none")
        assert right.mean() > 0.8

    def test_kinds_may_be_said(self):
        table = pd.DataFrame({"a": [0, 1, 2, 1] * 20, "b": [1.5, 2.5, 0.5, 3.0] * 20})
        model = VAE(1, likelihood={"a": "categorical"}, max_epochs=2, **SMALL).fit(table)
        assert model.columns_.kinds == ("level", "number")
        assert set(model.sample(50)[0]["a"]) <= {0, 1, 2}

    def test_a_probability_has_no_jacobian(self):
        """Two levels that are equally frequent and independent of all cost ln 2 each, whatever they are called."""
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"a": rng.choice(["x", "y"], 400), "b": rng.choice([10, 2000], 400)})
        model = VAE(1, likelihood={"b": "bernoulli"}, max_epochs=60, **SMALL).fit(table)
        assert model.score(table) == pytest.approx(-2 * np.log(2), abs=0.05)


class TestImages:
    def test_images_keep_their_shape(self):
        images = load_digits().images[:300]
        model = VAE(4, max_epochs=2, random_state=0).fit(images)
        assert model.transform(images).shape == (300, 4)
        assert model.reconstruct(images).shape == images.shape
        assert model.sample(3)[0].shape == (3, 8, 8)
        assert model.interpolate(images[0], images[1], 5).shape == (5, 8, 8)
        with pytest.raises(
            ValueError, match=r"rows of shape \(8, 7\), but the model was fitted on rows of shape \(8, 8\)"
        ):
            model.transform(images[:, :, :7])
        with pytest.raises(ValueError, match=r"rows of shape \(64,\), but the model was fitted"):
            model.transform(images.reshape(300, 64))

    def test_channels_come_first(self):
        images = np.random.default_rng(0).random((20, 8, 8, 3))
        with pytest.warns(UserWarning, match=r"images with 8 channels; if the channels are the last axis, move them"):
            VAE(2, max_epochs=1, random_state=0).fit(images)
        with pytest.raises(ValueError, match=r"expected rows \(n, d\) or images \(n, h, w\) or \(n, c, h, w\)"):
            VAE(2).fit(images[None])

    def test_channels_and_holes(self):
        rng = np.random.default_rng(0)
        images = rng.normal(size=(60, 2, 7, 5))
        images[0, 0, :3] = np.nan
        model = VAE(2, max_epochs=2, random_state=0).fit(images)
        filled = model.impute(images)
        assert filled.shape == images.shape
        assert_array_equal(filled[1:], images[1:])
        assert np.isfinite(filled).all()

    def test_grey_levels_as_categories(self):
        images = load_digits().images[:100]
        model = VAE(2, likelihood="categorical", max_epochs=1, **SMALL).fit(images)
        assert set(np.unique(model.sample(5)[0])) <= set(range(17))
        assert (model.score_samples(images) < 0).all()

    def test_values_outside_the_unit_interval_are_not_probabilities(self):
        images = load_digits().images[:50]
        with pytest.raises(ValueError, match=r"outside \[0, 1\]; scale it to \[0, 1\] or model it as"):
            VAE(2, likelihood="bernoulli").fit(images)

    def test_resampled_pixels_are_learnt_from(self):
        images = load_digits().images[:200] / 16
        model = VAE(2, likelihood=Bernoulli(resample=True), max_epochs=3, **SMALL).fit(images)
        assert set(np.unique(model.sample(5)[0])) <= {0, 1}
        binary = (images > 0.5).astype(float)
        assert (model.score_samples(binary) < 0).all()


class TestLabels:
    def test_a_few_labels_name_the_clusters(self):
        x, y = load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        some = np.where(np.arange(150) % 10 == 0, names, "")
        model = VAE(2, max_epochs=400, learning_rate=5e-3, **SMALL).fit(x, some)
        assert (model.predict(x) == names).mean() > 0.85
        proba = model.predict_proba(x)
        assert_allclose(proba.sum(1), 1, rtol=1e-5)
        assert_array_equal(model.classes_, np.unique(names))
        drawn, _ = model.sample(200, y="setosa")
        assert np.abs(drawn.mean(0) - x[y == 0].mean(0)).max() < 0.5
        assert (model.bound(x).kl["class"] >= 0).all()
        assert model.score(x) >= model.bound(x).total.mean() - 0.05
        assert model.interpolate(x[0], x[-1], 4).shape == (4, 4)
        assert_allclose(model.posterior(x).mean, model.transform(x), atol=1e-4)

    def test_all_labels_are_a_classifier(self):
        x, y = load_iris(return_X_y=True)
        model = VAE(2, max_epochs=300, learning_rate=5e-3, **SMALL).fit(x, y)
        assert (model.predict(x) == y).mean() > 0.95

    def test_a_weight_counts_labels_as_well(self):
        x, y = load_iris(return_X_y=True)
        weight = np.where(y == 0, 4.0, 1.0)
        model = VAE(2, max_epochs=1, **SMALL).fit(x, np.where(y == 2, -1, y), sample_weight=weight)
        # 200 + 1 and 50 + 1 of 252.
        assert_allclose(np.exp(model.module_.log_prior_class()), [201 / 252, 51 / 252], rtol=1e-5)

    def test_without_labels_there_is_no_class(self):
        x = load_iris().data
        model = VAE(2, max_epochs=1, **SMALL).fit(x)
        with pytest.raises(AttributeError, match="predict") as error:
            model.predict(x)
        assert "fitted without labels" in str(error.value.__cause__)
        with pytest.raises(ValueError, match="y=1 asks for a class, but the model was fitted without labels"):
            model.sample(3, y=1)

    def test_bad_classes(self):
        x, y = load_iris(return_X_y=True)
        model = VAE(2, max_epochs=1, **SMALL).fit(x, y)
        with pytest.raises(ValueError, match=r"y=7 is not among \[0, 1, 2\]"):
            model.sample(3, y=7)
        with pytest.raises(ValueError, match="the decoder needs classes"):
            model.inverse_transform(np.zeros((2, 2)))
        with pytest.raises(ValueError, match="importance_samples=5 cannot be used with labels"):
            VAE(2, importance_samples=5).fit(x, y)


class Sines(Recipe):
    """A network that jensen does not know."""

    def __init__(self, width=5):
        self.width = width

    def build(self, in_shape, out_shape):
        return torch.nn.Sequential(torch.nn.Linear(*in_shape, self.width), torch.nn.Linear(self.width, *out_shape))


class Broad(Sines):
    def build(self, in_shape, out_shape):
        return super().build(in_shape, (out_shape[0] + 3,))


class Function(Sines):
    def build(self, in_shape, out_shape):
        return lambda x: x


def test_a_network_of_another_shape_is_named():
    x = load_iris().data
    with pytest.raises(
        ValueError, match=r"encoder=Broad\(\) returns \(7,\) for a row of shape \(4,\); .* must return \(4,\)"
    ):
        VAE(2, encoder=Broad()).fit(x)
    with pytest.raises(ValueError, match=r"decoder=Function\(\) builds a function; return a torch.nn.Module"):
        VAE(2, decoder=Function()).fit(x)


def test_a_checkpoint_beyond_max_epochs_is_pointed_out(tmp_path):
    x = load_iris().data
    model = VAE(2, max_epochs=5, checkpoint=tmp_path / "run.ckpt", **SMALL).fit(x)
    with pytest.raises(ValueError, match="is at epoch 5, beyond max_epochs=3; delete it"):
        model.set_params(max_epochs=3).fit(x)


def test_a_recipe_of_ones_own_is_never_imported_from_a_file(tmp_path):
    x = load_iris().data
    model = VAE(2, encoder=Sines(3), max_epochs=1, random_state=0).fit(x)
    model.save(tmp_path / "model.jensen")
    with pytest.raises(ValueError, match="the file names the recipe 'Sines', which is not known"):
        jensen.load(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen", recipes=[Sines])
    assert_array_equal(loaded.transform(x), model.transform(x))
    assert loaded.history_.equals(model.history_)


def test_one_draw_has_no_spread(recwarn):
    x = np.random.default_rng(0).normal(size=(50, 3))
    bound = VAE(1, max_epochs=1, **SMALL).fit(x).bound(x, importance_samples=1)
    assert bound.standard_error.shape == (50,)
    assert np.isnan(bound.standard_error).all()
    assert not [one for one in recwarn if "degrees of freedom" in str(one.message)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"class_weight": 3.0}, r"class_weight=3.0 is not used: there are no labels; pass them as y"),
        ({"class_length": 1.0}, r"class_length=1.0 is not used: there are no labels; pass them as y"),
        ({"class_weight": 3.0, "classifier": MLP((4,))}, r"classifier is not used: there are no labels"),
        ({"objective": Elbo(beta=0, warm_up=0.5)}, r"warm_up=0.5 is not used: beta=0"),
        ({"trainer": Trainer(validation_fraction=0, patience=3)}, r"patience=3 is not used"),
        ({"trainer": Trainer(checkpoint_every=5.0)}, r"checkpoint_every=5.0 is not used: .* checkpoint"),
    ],
)
def test_an_argument_without_effect_warns(arguments, message):
    x = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.warns(UserWarning, match=message):
        VAE(1, max_epochs=1, **SMALL, **arguments).fit(x)


def test_arguments_with_an_effect_do_not_warn(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    trainer = Trainer(patience=3, checkpoint_every=5.0)
    used = {"class_weight": 3.0, "classifier": MLP((4,)), "objective": Elbo(warm_up=0.5), "trainer": trainer}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VAE(1, max_epochs=1, **SMALL, **used, checkpoint=tmp_path / "run").fit(x, y)


def test_a_latent_space_as_wide_as_the_data_warns():
    with pytest.warns(UserWarning, match="n_components=4 is not less than the 4 features"):
        VAE(4, max_epochs=1, **SMALL).fit(load_iris().data)


def test_weights_leave_rows_out_and_count_them(curve):
    x = load_iris().data
    weight = (np.arange(150) < 100).astype(float)
    model = VAE(2, max_epochs=5, **SMALL)
    left_out = model.fit(x, sample_weight=weight).transform(x)
    assert_array_equal(model.fit(x[:100]).transform(x), left_out)
    weight[:50] = 50
    heavy = VAE(2, max_epochs=200, **SMALL).fit(x[:100], sample_weight=weight[:100])
    even = VAE(2, max_epochs=200, **SMALL).fit(x[:100])
    assert heavy.score(x[:50]) - heavy.score(x[50:100]) > even.score(x[:50]) - even.score(x[50:100])


def test_interpolation_begins_and_ends_at_the_reconstructions(curve):
    model, x = curve
    rows = x[~np.isnan(x).any(1)]
    way = model.interpolate(rows[0], rows[1], 7)
    assert_allclose(way[[0, -1]], model.reconstruct(rows[:2]), rtol=1e-5)


def test_the_closed_form_terms_are_those_of_the_draws(curve):
    """ELBO with the KL in closed form = the mean of ln w over many draws."""
    model, x = curve
    rows = torch.tensor(x[:10])
    encoded = model.columns_.encode(rows.numpy()).float()
    with torch.no_grad():
        closed = elbo(model.module_, encoded, 4000, RowDraws.of(encoded, 0), torch.device("cpu"))
    drawn = np.mean([model.set_params(random_state=s).bound(x[:10], importance_samples=1).total for s in range(400)], 0)
    model.set_params(random_state=0)
    total = closed.reconstruction - closed.kl["latent"] + model.columns_.log_jacobian(~encoded.isnan())
    assert_allclose(drawn, total, atol=0.35)


def test_drawn_pixels_have_their_grey_values_as_means():
    p = torch.tensor([0.0, 0.2, 0.9, 1.0, torch.nan]).expand(20_000, -1)
    torch.manual_seed(0)
    draws = binary_draws(p)
    assert set(draws.unique().tolist()) == {0.0, 1.0}
    expected = torch.tensor([0.0, 0.2, 0.9, 1.0, 0.0])
    # Four standard errors; 0 and 1 are certain, and a missing value is 0.
    assert ((draws.mean(0) - expected).abs() <= 4 * (expected * (1 - expected) / 20_000).sqrt()).all()
