"""What is special to a latent curve: the shape it finds, its latent space, its prior, its starts."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import make_swiss_roll
from typer.testing import CliRunner

import jensen
from jensen import GaussianMixture, LatentCurve
from jensen.cli.app import app
from jensen.engines.em.loop import CollapseError


def arc(n, std, seed=0):
    """Rows about half a circle, and their place on it in [0, 1]."""
    rng = np.random.default_rng(seed)
    z = rng.random(n)
    clean = np.stack([np.cos(np.pi * z), np.sin(np.pi * z)], 1)
    return clean + std * rng.normal(size=(n, 2)), z


def spiral(n, std, seed=0):
    """Two turns, with equal density along the arc."""
    rng = np.random.default_rng(seed)
    radius = np.sqrt(rng.uniform(0.05, 1, n))
    angle = 4 * np.pi * radius
    clean = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return clean + std * rng.normal(size=(n, 2)), radius


def rank_correlation(a, b):
    return abs(np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1])


@pytest.fixture
def rows():
    return arc(150, 0.1)[0]


class TestShape:
    def test_an_arc_is_found_with_its_noise(self):
        x, z = arc(600, 0.1)
        model = LatentCurve().fit(x)
        assert model.noise_variance_ == pytest.approx(0.1**2, rel=0.15)
        # The curve runs along the half circle, whose radius is 1.
        assert np.abs(np.linalg.norm(model.curve()[10:-10], axis=1) - 1).max() < 0.1
        assert rank_correlation(model.transform(x)[:, 0], z) > 0.98

    def test_a_curve_says_more_of_new_rows_than_a_line(self):
        x, new = arc(300, 0.1)[0], arc(1000, 0.1, seed=1)[0]
        curve, line = LatentCurve().fit(x), LatentCurve(n_basis=0).fit(x)
        assert curve.score(new) > line.score(new) + 0.5
        assert curve.bic(x) < line.bic(x)

    def test_an_infinite_penalty_leaves_a_line(self, rows):
        straight = LatentCurve(penalty=1e12, init="pca", tol=1e-10, max_iter=1000).fit(rows)
        line = LatentCurve(n_basis=0, tol=1e-10, max_iter=1000).fit(rows)
        assert_allclose(straight.score_samples(rows), line.score_samples(rows), atol=1e-4)
        assert_allclose(straight.magnification(), straight.magnification()[0], rtol=1e-4)

    def test_a_line_through_uniform_rows_has_their_length_and_noise(self):
        """With a linear f this is a one-factor model whose factor is uniform."""
        rng = np.random.default_rng(0)
        x = np.outer(rng.random(4000), [3.0, 4.0]) + 0.2 * rng.normal(size=(4000, 2))
        model = LatentCurve(n_basis=0).fit(x)
        assert model.magnification()[0] == pytest.approx(5, rel=0.02)
        assert model.noise_variance_ == pytest.approx(0.04, rel=0.05)
        assert_allclose(np.abs(model.inverse_transform([[0.0], [1.0]])).max(0), [3, 4], atol=0.1)

    def test_a_spiral_needs_more_than_a_straight_start(self):
        x, z = spiral(400, 0.03)
        straight, geodesic, auto = (LatentCurve(init=init).fit(x) for init in ("pca", "geodesic", "auto"))
        assert geodesic.score(x) > straight.score(x) + 0.3
        assert auto.score(x) >= geodesic.score(x) - 1e-6
        assert rank_correlation(auto.transform(x)[:, 0], z) > 0.98

    def test_a_swiss_roll_is_unrolled(self):
        x, angle = make_swiss_roll(800, noise=0.2, random_state=0)
        model = LatentCurve(2, n_grid=20).fit(x)
        z = model.transform(x)
        assert max(rank_correlation(z[:, axis], angle) for axis in (0, 1)) > 0.95
        assert max(rank_correlation(z[:, axis], x[:, 1]) for axis in (0, 1)) > 0.9

    def test_a_surface_has_its_area(self):
        rng = np.random.default_rng(0)
        u, v = rng.random((2, 2000))
        x = np.stack([2 * u, 3 * v, u * 0], 1) + 0.05 * rng.normal(size=(2000, 3))
        model = LatentCurve(2, n_grid=12, penalty=10.0).fit(x)
        assert model.magnification().mean() == pytest.approx(6, rel=0.05)
        assert model.surface(7).shape == (7, 7, 3)
        assert_allclose(model.surface(7)[2, 5], model.inverse_transform([[2 / 6, 5 / 6]])[0])


class TestDensity:
    @pytest.mark.parametrize("n_latent", [1, 2])
    def test_it_is_a_mixture_of_round_gaussians_on_the_curve(self, rows, n_latent):
        model = LatentCurve(n_latent, n_grid=7, n_basis=3).fit(rows)
        covariance = model.noise_variance_ * np.eye(2)
        log_joint = np.stack([multivariate_normal.logpdf(rows, mean, covariance) for mean in model.points_], 1)
        expected = logsumexp(log_joint, axis=1) - np.log(7**n_latent)
        assert_allclose(model.score_samples(rows), expected)
        k = len(model.points_)
        mixture = GaussianMixture.from_parameters(
            np.full(k, 1 / k), model.points_, np.full(k, model.noise_variance_), covariance_type="spherical"
        )
        assert_allclose(mixture.score_samples(rows), expected)
        assert_allclose(mixture.predict_proba(rows), model.posterior(rows).probs, atol=1e-9)

    def test_any_q_gives_a_lower_bound(self, rows):
        model = LatentCurve(n_grid=9, n_basis=3).fit(rows)
        posterior = model.posterior(rows).probs.numpy()
        exact = model.bound(rows, posterior)
        assert_allclose(exact.total, model.score_samples(rows))
        assert not exact.is_exact
        assert model.bound(rows).is_exact
        q = np.random.default_rng(0).dirichlet(np.ones(9), size=len(rows))
        gap = (q * np.log(q / posterior)).sum(1)
        assert_allclose(model.score_samples(rows) - model.bound(rows, q).total, gap, rtol=1e-6)
        one_hot = np.eye(9)[[4] * len(rows)]
        assert_allclose(model.bound(rows, one_hot).kl["latent"], np.log(9))

    def test_a_finer_grid_changes_little_once_it_resolves_the_noise(self, rows):
        coarse, fine = (LatentCurve(n_grid=n).fit(rows).score(rows) for n in (100, 400))
        assert coarse == pytest.approx(fine, abs=1e-3)

    def test_means_and_modes_of_z(self, rows):
        model = LatentCurve().fit(rows)
        q = model.posterior(rows).probs.numpy()
        assert_allclose(model.transform(rows), q @ model.grid_)
        assert_array_equal(model.mode(rows), model.grid_[q.argmax(1)])
        nothing = np.full((1, 2), np.nan)
        assert_allclose(model.transform(nothing), [[0.5]])

    def test_samples_come_from_the_places_they_name(self, rows):
        model = LatentCurve(n_grid=20).fit(rows)
        x, z = model.sample(50_000, random_state=0)
        residual = x - model.inverse_transform(z)
        assert_allclose(np.cov(residual.T), model.noise_variance_ * np.eye(2), atol=0.03 * model.noise_variance_)
        assert set(z.ravel().round(6)) == set(model.grid_.ravel().round(6))


class TestStep:
    def test_a_step_is_the_papers(self):
        """Bishop, Svensén & Williams (1998), one row, grid point and feature at a time, with holes and weights."""
        x = arc(40, 0.2)[0]
        rng = np.random.default_rng(1)
        x[rng.random(x.shape) < 0.2] = np.nan
        weight = rng.random(40)
        start, stepped = (
            LatentCurve(n_grid=6, n_basis=3, penalty=0.5, init="pca", max_iter=n).fit(x, sample_weight=weight)
            for n in (0, 1)
        )
        density = norm.pdf(x[:, None], start.points_, np.sqrt(start.noise_variance_))
        joint = np.where(np.isnan(density), 1.0, density).prod(2)
        r = weight[:, None] * joint / joint.sum(1, keepdims=True)

        z, places = start.grid_[:, 0], np.array([0, 0.5, 1])
        phi = np.column_stack([np.ones(6), z - 0.5, np.exp(-((z[:, None] - places) ** 2) / (2 * 0.5**2))])
        # The prior is in units of the data's deviation.
        seen = ~np.isnan(x)
        mean = np.nansum(weight[:, None] * x, 0) / (weight @ seen)
        unit = (np.nansum(weight[:, None] * (x - mean) ** 2, 0) / (weight @ seen)).mean()
        ridge = 0.5 * start.noise_variance_ / unit * np.diag([0, 0, 1, 1, 1])
        loss = 0.0
        for j in range(2):
            rows = seen[:, j]
            normal = phi.T @ np.diag(r[rows].sum(0)) @ phi + ridge
            w = np.linalg.solve(normal, phi.T @ (r[rows].T @ (x[rows, j] - mean[j])))
            assert_allclose(stepped.points_[:, j], mean[j] + phi @ w, rtol=1e-9)
            loss += (r[rows] * (x[rows, j, None] - stepped.points_[:, j]) ** 2).sum()
        assert stepped.noise_variance_ == pytest.approx(loss / (weight @ seen).sum())


class TestPrior:
    def test_the_objective_is_the_log_posterior(self, rows):
        """In units of the data's deviation, to which the prior refers."""
        model = LatentCurve(penalty=2.0).fit(rows)
        unit = np.sqrt(rows.var(0).mean())
        bumps = model.theta_.coefficients[2:].numpy() / unit
        expected = model.score(rows) - 0.5 * 2.0 * (bumps**2).sum() / len(rows)
        assert model.lower_bound_ == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize("acceleration", [None, "squarem"])
    @pytest.mark.parametrize("penalty", [0.0, 1.0, 100.0])
    def test_it_never_falls(self, penalty, acceleration):
        x = spiral(200, 0.05)[0]
        x[::7, 0] = np.nan
        model = LatentCurve(penalty=penalty, init="pca", tol=0, max_iter=60, acceleration=acceleration).fit(x)
        assert (np.diff(model.lower_bounds_) >= -1e-9).all()

    def test_acceleration_needs_fewer_steps(self, rows):
        plain = LatentCurve(init="pca", tol=1e-7, max_iter=2000).fit(rows)
        fast = LatentCurve(init="pca", tol=1e-7, max_iter=2000, acceleration="squarem").fit(rows)
        assert fast.n_iter_ < plain.n_iter_
        assert fast.lower_bound_ > plain.lower_bound_ - 1e-3

    def test_the_noise_stays_above_its_floor(self):
        """Rows on a curve without noise."""
        t = np.linspace(0, 1, 40)
        x = np.stack([t, t**2], 1)
        unit = x.var(0).mean()
        model = LatentCurve(reg_covar=1e-3, max_iter=300).fit(x)
        assert model.noise_variance_ == pytest.approx(1e-3 * unit)

    def test_without_a_floor_a_collapse_is_an_error(self):
        with pytest.raises(CollapseError, match=r"reg_covar=0 sets no floor; raise reg_covar or penalty"):
            LatentCurve(reg_covar=0, n_grid=2, penalty=0).fit(np.array([[0.0, 0.0], [1.0, 3.0]] * 3))


class TestHoles:
    def test_holes_are_filled_from_the_curve(self):
        x, _ = arc(600, 0.05)
        rng = np.random.default_rng(1)
        holes = np.where(rng.random(x.shape) < 0.2, np.nan, x)
        model = LatentCurve().fit(holes)
        # Knowing x₂ leaves two places on the arc, one to the left and one to the right; x₁ leaves one.
        missing = np.isnan(holes[:, 1]) & ~np.isnan(holes[:, 0]) & (np.abs(x[:, 0]) < 0.8)
        error = model.impute(holes)[missing, 1] - x[missing, 1]
        assert np.sqrt((error**2).mean()) < 0.1
        assert x[:, 1].std() > 0.2

    def test_an_ambiguous_row_has_a_posterior_with_two_peaks(self):
        x, _ = arc(600, 0.05)
        model = LatentCurve().fit(x)
        half_height = np.array([[np.nan, 0.5]])
        q = model.posterior(half_height).probs[0].numpy()
        middle = np.abs(model.grid_[:, 0] - 0.5) < 0.2
        assert q[middle].sum() < 0.01
        assert 0.2 < q[model.grid_[:, 0] < 0.5].sum() < 0.8
        draws = np.stack(model.impute_draws(half_height, 400, random_state=0))[:, 0, 0]
        assert np.abs(np.abs(draws) - np.sqrt(0.75)).mean() < 0.1
        assert 0.2 < (draws > 0).mean() < 0.8

    def test_rows_that_are_all_incomplete_start_straight(self):
        x, _ = arc(200, 0.1)
        x = np.column_stack([x, x[:, 0] + x[:, 1]])
        x[np.arange(200), np.arange(200) % 3] = np.nan
        straight, auto, geodesic = (LatentCurve(init=init).fit(x) for init in ("pca", "auto", "geodesic"))
        assert_allclose(auto.points_, straight.points_)
        assert_allclose(geodesic.points_, straight.points_)
        assert straight.score(x) > LatentCurve(n_basis=0).fit(x).score(x)


class TestWeights:
    def test_a_start_does_not_depend_on_how_a_count_is_written(self):
        x, _ = spiral(150, 0.03)
        weight = np.random.default_rng(0).integers(0, 3, len(x))
        weighted = LatentCurve().fit(x, sample_weight=weight)
        repeated = LatentCurve().fit(np.repeat(x, weight, axis=0)[::-1])
        assert_allclose(weighted.points_, repeated.points_, rtol=1e-6, atol=1e-8)

    def test_a_start_on_some_of_many_rows(self, monkeypatch):
        monkeypatch.setattr("jensen.models.curves.start.MANY_ROWS", 300)
        x, z = spiral(2000, 0.03)
        model = LatentCurve().fit(x)
        assert rank_correlation(model.transform(x)[:, 0], z) > 0.98
        assert_allclose(LatentCurve().fit(x[::-1]).points_, model.points_, rtol=1e-6, atol=1e-8)

    def test_batches_go_on_from_a_file(self, rows, tmp_path):
        model = LatentCurve().fit(rows)
        model.save(tmp_path / "model.jensen")
        loaded = jensen.load(tmp_path / "model.jensen")
        for batch in np.split(arc(900, 0.1, seed=3)[0], 6):
            model.partial_fit(batch)
            loaded.partial_fit(batch)
        new = arc(500, 0.1, seed=4)[0]
        assert loaded.total_weight_ == model.total_weight_ == 1050
        assert loaded.score(new) == pytest.approx(model.score(new), abs=0.1)
        assert model.score(new) > LatentCurve().fit(rows).score(new) - 0.05


class TestTables:
    def test_names_of_latent_columns(self, rows):
        model = LatentCurve().set_output(transform="pandas")
        frame = pd.DataFrame(rows, columns=["a", "b"], index=np.arange(len(rows)) + 5)
        z = model.fit_transform(frame)
        assert list(z.columns) == ["latentcurve0"]
        assert list(z.index) == list(frame.index)
        assert list(model.inverse_transform(z).columns) == ["a", "b"]

    def test_tensors(self, rows):
        tensor = torch.tensor(rows)
        model = LatentCurve().fit(tensor)
        assert isinstance(model.transform(tensor), torch.Tensor)
        assert isinstance(model.inverse_transform(model.transform(tensor)), torch.Tensor)
        assert isinstance(model.magnification(), torch.Tensor)

    def test_the_command_line(self, rows, tmp_path):
        data, path = tmp_path / "data.csv", tmp_path / "model.jensen"
        holes = pd.DataFrame(rows, columns=["a", "b"])
        holes.loc[3, "a"] = np.nan
        holes.to_csv(data, index=False)

        def run(*arguments):
            result = CliRunner().invoke(app, [str(argument) for argument in arguments])
            assert result.exit_code == 0, result.output

        run("fit", "latent-curve", data, "--n-basis", 6, "--output", path)
        run("score", path, data)
        run("impute", path, data, "--output", tmp_path / "filled.csv")
        run("sample", path, "-n", 5, "--output", tmp_path / "new.csv")
        assert jensen.load(path).n_basis == 6
        assert pd.read_csv(tmp_path / "filled.csv").notna().all().all()
        assert len(pd.read_csv(tmp_path / "new.csv")) == 5


class TestErrors:
    def test_more_latent_dimensions_than_features(self):
        with pytest.raises(ValueError, match=r"n_latent=2 needs at least 2 features, but X has n_features=1; lower"):
            LatentCurve(2).fit(np.arange(5.0)[:, None])

    def test_a_curve_is_no_surface(self, rows):
        curve, surface = LatentCurve().fit(rows), LatentCurve(2).fit(rows)
        with pytest.raises(AttributeError, match="surface") as error:
            curve.surface()
        assert str(error.value.__cause__) == "n_latent=1: draw it with curve"
        with pytest.raises(AttributeError, match="curve"):
            surface.curve()
        # A fit does not change with the arguments of the next one.
        assert curve.set_params(n_latent=2).curve(3).shape == (3, 2)

    def test_places_outside_of_latent_space(self, rows):
        model = LatentCurve().fit(rows)
        with pytest.raises(ValueError, match=r"Z holds 1.5; z must be in \[0, 1\]"):
            model.inverse_transform([[0.5], [1.5]])
        with pytest.raises(ValueError, match=r"Z has shape \(3,\); n_latent=1 needs points \(n, 1\)"):
            model.magnification([0.1, 0.2, 0.3])
        with pytest.raises(ValueError, match="n_points=0 must be a whole number"):
            model.curve(0)

    def test_classes_are_not_known(self, rows):
        with pytest.raises(ValueError, match="y=1: a LatentCurve has no classes"):
            LatentCurve().fit(rows).sample(3, y=1)

    def test_a_q_of_another_shape(self, rows):
        with pytest.raises(ValueError, match=r"q has shape \(150, 3\); expected .* \(150, 100\)"):
            LatentCurve().fit(rows).bound(rows, np.full((150, 3), 1 / 3))

    @pytest.mark.parametrize(
        ("name", "value"), [("n_latent", 3), ("n_grid", 1), ("n_basis", -1), ("basis_width", 0), ("init", "random")]
    )
    def test_arguments(self, rows, name, value):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of LatentCurve must be"):
            LatentCurve(**{name: value}).fit(rows)

    def test_a_file_that_no_fit_could_have_left(self, rows):
        model = LatentCurve().fit(rows)
        record = model._theta_record()
        with pytest.raises(ValueError, match=r"coefficients has shape \(3, 2\), but \(14, 2\) is needed"):
            model._theta_from(record | {"coefficients": record["coefficients"][:3]})
        with pytest.raises(ValueError, match=r"variance must be positive, got -1\.0"):
            model._theta_from(record | {"variance": torch.tensor(-1.0)})
