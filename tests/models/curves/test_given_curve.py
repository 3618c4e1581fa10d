"""A latent curve whose f is given, so that only σ² is fitted: p(x) = ∫ N(x; f(z), σ²I) dz by other means."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad_vec
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from typer.testing import CliRunner

import jensen
from jensen import LatentCurve
from jensen.cli.app import app


def parabola(z):
    return np.stack([2 * z - 1, (2 * z - 1) ** 2], 1)


def circle(z):
    return np.stack([np.cos(2 * np.pi * z), np.sin(2 * np.pi * z)], 1)


START, SLOPE = np.array([1.0, -2.0]), np.array([3.0, 4.0])


def line(z):
    return START + z[:, None] * SLOPE


def rows_around(f, n=200, std=0.1, seed=0):
    rng = np.random.default_rng(seed)
    clean = f(rng.random(n))
    return clean + std * rng.normal(size=clean.shape)


def log_p(f, x, variance):
    """ln ∫ N(x; f(z), σ²I) dz of every row by adaptive quadrature, over the observed features."""

    def log_density(z):
        return np.nansum(norm.logpdf(x, f(np.array([z])), np.sqrt(variance)), axis=1)

    top = np.max([log_density(z) for z in np.linspace(0, 1, 101)], axis=0)
    return top + np.log(quad_vec(lambda z: np.exp(log_density(z) - top), 0, 1, epsabs=1e-9, limit=1000)[0])


class TestDensity:
    @pytest.mark.parametrize("f", [parabola, circle])
    def test_it_is_the_integral_over_the_curve(self, f):
        x = rows_around(f, 30)
        x[3, 0] = x[5, 1] = np.nan
        model = LatentCurve(mapping=f, noise_variance=0.02, n_grid=2000).fit(x)
        # Midpoints of 2000 cells err by h² f'' / 24, here up to 1e-5 nats at the ends of the curve.
        assert_allclose(model.score_samples(x), log_p(f, x, 0.02), atol=2e-5)

    def test_of_a_line_it_has_a_closed_form(self):
        """x = a + b z + ε: a normal across the line, and a difference of two normal distribution functions along it."""
        x, std = rows_around(line, 40, 0.3), 0.25
        model = LatentCurve(mapping=line, noise_variance=std**2, n_grid=4000).fit(x)
        length = np.linalg.norm(SLOPE)
        along = (x - START) @ SLOPE / length
        across = (x - START) @ np.array([-SLOPE[1], SLOPE[0]]) / length
        share = norm.cdf(along / std) - norm.cdf((along - length) / std)
        assert_allclose(model.score_samples(x), norm.logpdf(across, 0, std) + np.log(share / length), atol=1e-5)

    def test_scores_do_not_depend_on_the_rows_of_the_fit_if_all_is_given(self):
        x = rows_around(circle)
        one, all_of_them = (LatentCurve(mapping=circle, noise_variance=0.01).fit(rows) for rows in (x[:1], x))
        assert_allclose(one.score_samples(x), all_of_them.score_samples(x), rtol=1e-10)
        assert one.noise_variance_ == 0.01
        assert (one.n_parameters_, LatentCurve(mapping=circle).fit(x).n_parameters_) == (0, 1)

    def test_a_column_with_one_value_has_a_density(self):
        x = rows_around(circle)
        x[:, 1] = 0.5
        model = LatentCurve(mapping=circle, noise_variance=0.01, n_grid=500).fit(x)
        assert model.measure_ == model.find_measure(x) == ("density", "density")
        assert_allclose(model.score_samples(x[:5]), log_p(circle, x[:5], 0.01), atol=1e-5)


class TestFit:
    @pytest.mark.parametrize("acceleration", [None, "squarem"])
    def test_the_noise_is_the_most_likely_one(self, acceleration):
        x = rows_around(parabola)
        x[::7, 1] = np.nan
        model = LatentCurve(mapping=parabola, tol=1e-12, max_iter=2000, acceleration=acceleration).fit(x)

        def loss(log_variance):
            given = LatentCurve(mapping=parabola, noise_variance=float(np.exp(log_variance)))
            return -given.fit(x).score(x)

        best = minimize_scalar(loss, bracket=(-5, -4.5), tol=1e-8)
        # The score is flat at its largest value: it shows σ² to the root of its own precision.
        assert np.log(model.noise_variance_) == pytest.approx(best.x, abs=1e-5)
        assert model.score(x) == pytest.approx(-best.fun, abs=1e-10)
        assert_allclose(model.points_, parabola(model.grid_[:, 0]), atol=1e-14)

    def test_a_step_is_the_mean_squared_distance_under_the_posterior(self):
        x = rows_around(circle, 50)
        before = LatentCurve(mapping=circle, max_iter=4).fit(x)
        after = LatentCurve(mapping=circle, max_iter=5).fit(x)
        q = before.posterior(x).probs.numpy()
        squared = ((x[:, None] - before.points_) ** 2).sum(2)
        assert after.noise_variance_ == pytest.approx((q * squared).sum() / x.size, rel=1e-10)

    def test_a_given_noise_is_kept_while_f_is_fitted(self):
        x = rows_around(parabola)
        model = LatentCurve(noise_variance=0.05, tol=1e-8).fit(x)
        assert model.noise_variance_ == 0.05
        assert model.n_parameters_ == LatentCurve().fit(x).n_parameters_ - 1
        # It fits the rows better than the parabola with the same noise.
        assert model.score(x) > LatentCurve(mapping=parabola, noise_variance=0.05).fit(x).score(x)

    def test_batches_and_weights(self):
        x = rows_around(circle)
        model = LatentCurve(mapping=circle)
        for batch in np.array_split(x, 4):
            model.partial_fit(batch)
        assert model.noise_variance_ == pytest.approx(0.01, rel=0.3)
        weight = np.arange(len(x)) % 3
        weighted = LatentCurve(mapping=circle).fit(x, sample_weight=weight)
        repeated = LatentCurve(mapping=circle).fit(np.repeat(x, weight, axis=0))
        assert weighted.noise_variance_ == pytest.approx(repeated.noise_variance_, rel=1e-8)


class TestCurve:
    def test_points_are_joined_by_straight_lines(self):
        x = rows_around(line, 20)
        ends = LatentCurve(mapping=[START, START + SLOPE], noise_variance=0.1).fit(x)
        assert_allclose(ends.score_samples(x), LatentCurve(mapping=line, noise_variance=0.1).fit(x).score_samples(x))
        assert_allclose(ends.inverse_transform([[0.0], [0.25], [1.0]]), line(np.array([0, 0.25, 1])), atol=1e-12)
        assert_allclose(ends.magnification(), 5, rtol=1e-10)

    def test_places_and_lengths(self):
        x = rows_around(circle, 300, 0.02)
        model = LatentCurve(mapping=circle, n_grid=400).fit(x)
        z = model.transform(x)[:, 0]
        inside = x[:, 0] < 0.9  # not between its two ends, where z may be 0 or 1
        assert_allclose(circle(z)[inside], x[inside], atol=0.1)
        assert_allclose(model.magnification(), 2 * np.pi, rtol=1e-4)

    def test_samples_lie_around_it_and_missing_values_are_filled_from_it(self):
        model = LatentCurve(mapping=circle, noise_variance=0.01, random_state=0).fit(rows_around(circle))
        x, z = model.sample(4000)
        assert np.linalg.norm(x - circle(z[:, 0]), axis=1).std() == pytest.approx(
            0.1 * np.sqrt(2 - np.pi / 2), rel=0.05
        )
        # At x_1 = 1 the other coordinate is 0 by symmetry; at 0 it is 1 or -1.
        filled = model.impute(np.array([[1.0, np.nan], [0.0, np.nan]]))
        assert_allclose(filled[:, 1], 0, atol=1e-8)
        draws = np.array([draw[1, 1] for draw in model.impute_draws(np.array([[1.0, 0.0], [0.0, np.nan]]), 400)])
        assert_allclose(np.abs(draws).mean(), 1, atol=0.05)
        assert (draws > 0).mean() == pytest.approx(0.5, abs=0.1)


class TestFile:
    def test_a_file_holds_the_points_and_no_function(self, tmp_path):
        x = rows_around(circle)
        model = LatentCurve(mapping=circle, random_state=0).fit(x)
        model.save(tmp_path / "curve.jensen")
        loaded = jensen.load(tmp_path / "curve.jensen")
        assert_array_equal(loaded.score_samples(x), model.score_samples(x))
        assert_array_equal(loaded.sample(5)[0], model.sample(5)[0])
        assert_array_equal(loaded.mapping, circle(np.linspace(0, 1, 201)))
        assert callable(model.mapping)
        # It can be fitted again, and a batch continues from it.
        assert loaded.fit(x).noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-12)
        jensen.load(tmp_path / "curve.jensen").partial_fit(x[:20])

    def test_a_fit_resumes_from_its_checkpoint(self, tmp_path):
        """The function of one process is not that of another, but its points are."""
        x, file = rows_around(circle), tmp_path / "fit.ckpt"
        whole, first, second = (LatentCurve(mapping=lambda z: circle(z), tol=1e-9) for _ in range(3))
        first.fit(x, checkpoint=file)
        assert second.fit(x, checkpoint=file).noise_variance_ == whole.fit(x).noise_variance_
        with pytest.raises(ValueError, match="mapping"):
            LatentCurve(mapping=parabola, tol=1e-9).fit(x, checkpoint=file)

    def test_the_command_line_takes_points(self, tmp_path):
        np.save(tmp_path / "x.npy", rows_around(line, 50))
        words = ["fit", "latent-curve", str(tmp_path / "x.npy"), "--mapping", "[[1, -2], [4, 2]]"]
        result = CliRunner().invoke(app, [*words, "--noise-variance", "0.01", "-o", str(tmp_path / "c.jensen")])
        assert result.exit_code == 0, result.output
        assert_allclose(jensen.load(tmp_path / "c.jensen").points_[50], line(np.array([0.505]))[0])


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"mapping": lambda z: z}, r"mapping\(z\) has shape \(201,\) for z of shape \(201,\); return points"),
            ({"mapping": [[0.0, 0.0]]}, r"mapping has shape \(1, 2\); give 2 or more points"),
            ({"mapping": [[0.0], [1.0]]}, "mapping has points of 1 features, but X has n_features=2"),
            ({"mapping": [[0.0, np.inf], [1.0, 1.0]]}, "mapping holds NaN or infinity; give finite points"),
            ({"mapping": lambda z: "far"}, "mapping must give an array of numbers"),
            ({"mapping": circle, "n_latent": 2}, "n_latent=2, but mapping is a curve; leave out"),
            ({"noise_variance": 0.0}, "'noise_variance' parameter of LatentCurve must be a float in the range"),
        ],
    )
    def test_what_is_wrong_is_named(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            LatentCurve(**arguments).fit(rows_around(circle))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"mapping": circle, "n_basis": 3}, "n_basis=3 is not used: f is given by mapping"),
            ({"mapping": circle, "init": "pca"}, "init='pca' is not used: f is given by mapping"),
            ({"noise_variance": 0.1, "reg_covar": 0.1}, "reg_covar=0.1 is not used: σ² is given by noise_variance"),
        ],
    )
    def test_arguments_without_effect_are_named(self, arguments, message):
        with pytest.warns(UserWarning, match=message):
            LatentCurve(**arguments).fit(rows_around(circle))
