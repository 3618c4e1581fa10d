"""The noise level by level: closed forms, limits and respacing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from jensen import Schedule

SCHEDULES = [
    Schedule.linear(1000),
    Schedule.linear(50),
    Schedule.cosine(1000),
    Schedule.cosine(7),
    Schedule([0.3, 0.1]),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.name}-{s.n_levels}")
class TestEverySchedule:
    def test_what_follows_from_beta(self, schedule):
        beta, bar = schedule.beta, np.cumprod(1 - schedule.beta)
        before = np.append(1.0, bar[:-1])
        assert_allclose(schedule.alpha, 1 - beta)
        assert_allclose(schedule.alpha_bar, bar)
        assert_allclose(schedule.alpha_bar_before, before)
        assert_allclose(schedule.noise_variance, 1 - bar, rtol=1e-9)
        assert_allclose(schedule.snr, bar / (1 - bar), rtol=1e-9)
        assert_allclose(schedule.posterior_variance, beta * (1 - before) / (1 - bar), rtol=1e-9)

    def test_the_posterior_is_bayes_rule(self, schedule):
        """q(x_{t-1}|x_t,x_0) ∝ q(x_t|x_{t-1}) q(x_{t-1}|x_0): two Gaussians multiplied, with x_0 and x_t as numbers."""
        x0, xt = 0.7, -1.3
        of_noised, of_data = schedule.posterior_weights
        for t in range(1, schedule.n_levels):
            prior_mean, prior_var = np.sqrt(schedule.alpha_bar[t - 1]) * x0, 1 - schedule.alpha_bar[t - 1]
            slope, var = np.sqrt(schedule.alpha[t]), schedule.beta[t]
            precision = 1 / prior_var + slope**2 / var
            assert_allclose(schedule.posterior_variance[t], 1 / precision, rtol=1e-6)
            mean = (prior_mean / prior_var + slope * xt / var) / precision
            assert_allclose(of_noised[t] * xt + of_data[t] * x0, mean, rtol=1e-6, atol=1e-9)

    def test_at_the_first_level_the_posterior_is_the_data(self, schedule):
        of_noised, of_data = schedule.posterior_weights
        assert of_noised[0] == schedule.posterior_variance[0] == 0
        assert_allclose(of_data[0], 1)

    def test_arrays_are_frozen(self, schedule):
        for name in ("beta", "alpha", "alpha_bar", "snr", "posterior_variance", "noise_variance"):
            array = getattr(schedule, name)
            assert array.dtype == np.float64
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.5

    def test_respaced_levels_keep_their_noise(self, schedule):
        n = max(2, schedule.n_levels // 3)
        kept = schedule.respace(n)
        places = [np.argmin(abs(schedule.alpha_bar - bar)) for bar in kept.alpha_bar]
        assert len(set(places)) == n
        assert_allclose(kept.alpha_bar, schedule.alpha_bar[places], rtol=1e-10)
        assert_allclose(kept.time, schedule.time[places])
        assert_allclose(kept.alpha_bar[[0, -1]], schedule.alpha_bar[[0, -1]], rtol=1e-10)

    def test_all_levels_respaced_are_the_schedule(self, schedule):
        for spacing in ("uniform", "trailing"):
            assert_allclose(schedule.respace(schedule.n_levels, spacing).beta, schedule.beta, rtol=1e-8)

    def test_clones(self, schedule):
        assert_allclose(clone(schedule).alpha_bar, schedule.alpha_bar)


def test_the_linear_schedule_is_scaled_by_its_number_of_levels():
    assert_allclose(Schedule.linear(1000).beta[[0, -1]], [1e-4, 0.02])
    assert_allclose(Schedule.linear(100).beta[[0, -1]], [1e-3, 0.2])


def test_the_cosine_schedule_follows_its_cosine():
    schedule = Schedule.cosine(1000)
    f = np.cos((np.arange(1001) / 1000 + 0.008) / 1.008 * np.pi / 2) ** 2
    # The last β is cut at 0.999, so the last ᾱ is not the cosine's.
    assert_allclose(schedule.alpha_bar[:-1], (f[1:] / f[0])[:-1], rtol=1e-9)
    assert schedule.beta[-1] == 0.999


def test_trailing_levels_end_with_the_last():
    kept = Schedule.linear(1000).respace(10, "trailing")
    assert_allclose(kept.time, np.arange(99, 1000, 100))


def test_one_step_is_the_last_level():
    schedule = Schedule.linear(1000)
    assert_allclose(schedule.respace(1).alpha_bar, schedule.alpha_bar[-1:])


def test_levels_by_name():
    schedule = Schedule.linear(1000)
    kept = schedule.respace(np.array([1, 500, 1000]))
    assert_allclose(kept.alpha_bar, schedule.alpha_bar[[0, 499, 999]], rtol=1e-10)


def test_the_plot_shows_two_curves():
    import matplotlib.pyplot as plt

    ax = Schedule.linear(100).plot()
    assert [line.get_label() for line in ax.lines] == ["linear", "cosine"]
    plt.close(ax.figure)


@pytest.mark.parametrize(
    ("betas", "message"),
    [
        ([0.1, 1.0], r"betas\[1\]=1 must lie between 0 and 1"),
        ([0.0], r"betas\[0\]=0 must lie"),
        ([0.1, -0.2], r"betas\[1\]=-0.2"),
        ([np.nan], r"betas\[0\]=nan"),
        ([], r"shape \(0,\)"),
        ([[0.1]], r"shape \(1, 1\)"),
    ],
)
def test_wrong_variances(betas, message):
    with pytest.raises(ValueError, match=message):
        Schedule(betas)


@pytest.mark.parametrize("n_levels", [1, 20])
def test_too_few_levels_for_the_linear_schedule(n_levels):
    with pytest.raises(ValueError, match=rf"n_steps={n_levels} is too few for the linear schedule.*'cosine'"):
        Schedule.linear(n_levels)
    assert Schedule.cosine(n_levels).n_levels == n_levels


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.respace(0), "steps=0 must be a whole number from 1 to the 30"),
        (lambda s: s.respace(31), "steps=31"),
        (lambda s: s.respace(5, "leading"), "spacing='leading' is not known"),
        (lambda s: s.respace([3, 2]), r"levels=\[3, 2\] must be increasing numbers from 1 to 30"),
        (lambda s: s.respace([0, 2]), r"levels=\[0, 2\] must be increasing"),
        (lambda s: s.respace([0.5]), r"levels=\[0.5\] must be a number of levels"),
        (lambda s: Schedule.linear(2.5), "n_steps=2.5 must be a whole number"),
        (lambda s: Schedule([0.1, 0.2], times=[1.0]), r"times has shape \(1,\)"),
    ],
)
def test_wrong_respacing(call, message):
    with pytest.raises(ValueError, match=message):
        call(Schedule.linear(30))
