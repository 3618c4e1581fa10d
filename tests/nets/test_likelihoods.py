"""p(x | outputs) against scipy and torch's own distributions."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import bernoulli, logistic, nbinom, norm, poisson

from jensen import Bernoulli, Categorical, Gaussian, Poisson
from jensen.data.columns import Columns
from jensen.nets.emission import Emission
from jensen.nets.families import LEAST_STD
from jensen.nets.likelihoods import likelihood_of

KINDS = ("number", "yes/no", "level", "number", "level")
LEVELS = (1, 2, 3, 1, 4)


def emission_of(kinds, n_levels, likelihood="auto", scale=None, **options):
    d = len(kinds)
    levels = tuple(() if n == 1 else tuple(range(n)) for n in n_levels)
    scale = torch.ones(d, dtype=torch.float64) if scale is None else scale
    columns = Columns(tuple(range(d)), kinds, levels, torch.zeros(d, dtype=torch.float64), scale, ("",) * d, "numpy")
    return Emission(columns, likelihood_of(likelihood), **options)


def mixed(variance="learned"):
    return emission_of(KINDS, LEVELS, Gaussian(variance), torch.tensor([2.0, 1.0, 1.0, 4.0, 1.0]).double())


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n), rng.integers(2, size=n), rng.integers(3, size=n), rng.normal(size=n)]
    return torch.tensor(np.stack([*columns, rng.integers(4, size=n)], 1), dtype=torch.float32)


def outputs_for(emission, n, seed=1):
    return torch.randn((n, emission.n_outputs), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("variance", ["learned", "feature", "point", 0.5])
def test_a_mixed_row_is_the_sum_of_its_columns(variance):
    emission = mixed(variance)
    x, outputs = rows(20), outputs_for(emission, 20)
    n_point = 2 if variance == "point" else 0
    mean, point, logit, levels = (part.numpy() for part in outputs.split([2, n_point, 1, 7], 1))
    learnt = np.sqrt(1 + LEAST_STD**2)
    by_point = np.sqrt(np.exp(point) + LEAST_STD**2)
    std = {"learned": learnt, "feature": learnt, "point": by_point, 0.5: np.sqrt(0.5) / np.array([2.0, 4.0])}[variance]
    expected = norm.logpdf(x[:, [0, 3]].numpy(), mean, std).sum(1)
    expected += bernoulli.logpmf(x[:, 1].numpy(), 1 / (1 + np.exp(-logit[:, 0])))
    # Level by level: both columns' first three, then the fourth of the one that has it.
    three, four = levels[:, [0, 2, 4]], levels[:, [1, 3, 5, 6]]
    for logits, column in ((three, 2), (four, 4)):
        distribution = torch.distributions.Categorical(logits=torch.from_numpy(logits))
        expected += distribution.log_prob(x[:, column]).numpy()
    assert_allclose(emission.log_prob(outputs, x).detach().numpy(), expected, rtol=1e-5)


def test_what_is_not_observed_does_not_count():
    emission = mixed()
    x, outputs = rows(30), outputs_for(emission, 30)
    entries = emission.log_prob_entries(outputs, x)
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    assert_allclose(emission.log_prob(outputs, x, observed).detach(), (entries * observed).sum(1).detach())
    assert_allclose(emission.log_prob(outputs, x, observed & False).detach(), 0)


def test_more_axes_of_outputs_are_more_draws():
    emission = mixed()
    x, outputs = rows(6), outputs_for(emission, 24).reshape(4, 6, -1)
    found = emission.log_prob(outputs, x)
    assert found.shape == (4, 6)
    assert_allclose(found[2].detach(), emission.log_prob(outputs[2], x).detach(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["number", "yes/no", "level", "count"])
def test_columns_of_one_kind_are_as_in_company(kind):
    """The short way for one kind gives what the long way gives."""
    emission = emission_of((kind,) * 3, ({"number": 1, "yes/no": 2, "level": 3, "count": 1}[kind],) * 3)
    x = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    outputs = outputs_for(emission, 2)
    short = emission.log_prob(outputs, x)
    emission.of = lambda family, x: x[..., family.columns]
    assert_allclose(short.detach(), emission.log_prob(outputs, x).detach(), rtol=1e-6)


def test_probabilities_sum_to_one():
    emission = emission_of(("yes/no", "level"), (2, 3))
    outputs = outputs_for(emission, 1)
    every = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))
    assert emission.log_prob(outputs.expand(6, -1), every).exp().sum() == pytest.approx(1, abs=1e-6)


def test_samples_follow_the_expectation():
    emission = mixed("feature")
    with torch.no_grad():
        emission.numbers.log_variance.copy_(torch.tensor([0.0, math.log(0.25)]))
        n = 40_000
        outputs = outputs_for(emission, 1).expand(n, -1)
        x = emission.sample(outputs, torch.Generator().manual_seed(0))
        expected = emission.expectation(outputs[:1])[0]
        found = x.mean(0)
        assert_allclose(found[[0, 3]], expected[:2], atol=0.03)
        assert_allclose(x[:, [0, 3]].std(0), [1, 0.5], rtol=0.03)
        assert_allclose(found[1], expected[2], atol=0.015)
        shares = [torch.bincount(x[:, j].long(), minlength=4) / n for j in (2, 4)]
        levels = expected[3:].reshape(4, 2)
        for column, share in enumerate(shares):
            assert_allclose(share, levels[:, column], atol=0.015)


def test_the_most_probable_level_is_decided_on():
    emission = mixed()
    outputs = outputs_for(emission, 50)
    decided = emission.decide(emission.expectation(outputs))
    assert_allclose(decided[:, [0, 3]].detach(), outputs[:, :2])
    assert_allclose(decided[:, 4], outputs[:, 3:][:, [1, 3, 5, 6]].argmax(1))


def test_a_learnt_variance_has_a_floor():
    emission = emission_of(("number",), (1,))
    with torch.no_grad():
        emission.numbers.log_variance.fill_(-1e6)
    assert emission.numbers.log_noise(torch.empty(0)).exp().item() == pytest.approx(LEAST_STD**2, rel=1e-5)


def test_likelihoods_are_read():
    assert likelihood_of("auto").kinds == "auto"
    assert likelihood_of("bernoulli").kinds == "yes/no"
    options = likelihood_of({"a": Gaussian("point"), 1: "categorical", "c": Bernoulli(resample=True), "d": "poisson"})
    assert options.kinds == {"a": "number", 1: "level", "c": "yes/no", "d": "count"}
    assert options.gaussian.variance == "point"
    assert options.bernoulli.resample
    assert isinstance(options.counts, Poisson)
    assert likelihood_of(Categorical()).kinds == "level"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cauchy", "likelihood='cauchy' must be 'auto', 'gaussian'"),
        (Gaussian("wide"), r"Gaussian\(variance='wide'\) must be"),
        (Gaussian(-1.0), r"Gaussian\(variance=-1.0\) must be"),
        (Bernoulli("often"), r"Bernoulli\(resample='often'\) must be True or False"),
        ({"a": Gaussian(1.0), "b": Gaussian(2.0)}, "columns of one kind must share one"),
        ({"a": "poisson", "b": "negative-binomial"}, "columns of one kind must share one"),
        ({"a": "logistic"}, "has a Logistic for one column"),
    ],
)
def test_a_bad_likelihood_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        likelihood_of(given)


def test_marginal_outputs_say_the_frequencies():
    emission = mixed("point")
    x = rows(2000)
    x[:500, 2] = float("nan")
    outputs = emission.marginal_outputs(x)
    expected = emission.expectation(outputs[None])[0]
    assert_allclose(expected[2], x[:, 1].mean(), rtol=1e-5)
    levels = expected[3:].reshape(4, 2)
    for column, j in enumerate((2, 4)):
        seen = x[:, j][~x[:, j].isnan()]
        assert_allclose(levels[:, column], torch.bincount(seen.long(), minlength=4) / len(seen), atol=1e-5)


@pytest.mark.parametrize("variance", ["learned", "feature", "point"])
def test_columns_may_have_floors_of_their_own(variance):
    least = torch.tensor([0.25, 1e-9])
    emission = emission_of(("number", "number"), (1, 1), Gaussian(variance), least_variance=least)
    low = torch.full((3, 2), -60.0)
    with torch.no_grad():
        if variance != "point":
            emission.numbers.log_variance.fill_(-60.0)
    # The second is below what any noise may be.
    assert_allclose(emission.numbers.log_noise(low).detach().exp().expand(3, 2)[0], [0.25, LEAST_STD**2], rtol=1e-5)
    assert "numbers.log_least" in emission.state_dict()
    assert "numbers.log_least" not in mixed(variance).state_dict()


@pytest.mark.parametrize("n_levels", [2, 5, 256])
def test_pixels_have_the_probabilities_of_a_logistic_and_a_uniform_share(n_levels):
    """Against scipy's distribution function, in cells of the grid from -1 to 1 with open ends."""
    emission = emission_of(("grid",) * 3, (n_levels,) * 3, n_rows=9)
    outputs = torch.tensor([0.3, -1.4, 0.99, -1.0, -4.0, 0.5])
    x = torch.arange(float(n_levels))[:, None].expand(-1, 3)
    found = emission.log_prob_entries(outputs.expand(n_levels, -1), x).exp().numpy()
    edges = np.concatenate([[-np.inf], np.linspace(-1, 1, 2 * n_levels - 1)[1::2], [np.inf]])[:, None]
    scale = np.exp([-1.0, -4.0, 0.5]) + 1 / (n_levels - 1) / 8
    mass = np.diff(logistic.cdf(edges, np.array([0.3, -1.4, 0.99]), scale), axis=0)
    assert_allclose(found, 27 / 28 * mass + 1 / 28 / n_levels, rtol=2e-5, atol=1e-7)
    assert_allclose(found.sum(0), 1, rtol=1e-5)


def test_a_pixel_far_away_has_the_uniform_share():
    emission = emission_of(("grid",), (256,), n_rows=999)
    far = emission.log_prob(torch.tensor([[-1.0, -20.0]]), torch.tensor([[255.0]]))
    assert far.item() == pytest.approx(math.log(1e-3 / 256), rel=1e-4)


def test_pixels_start_from_their_frequencies():
    """The start's distribution is nearly that of the training rows, for logistic pixels of 16 levels."""
    rng = np.random.default_rng(0)
    value = rng.logistic([-0.5, 0.2], [0.1, 0.3], size=(20_000, 2))
    x = torch.tensor(((value + 1) / 2 * 15).round().clip(0, 15))
    emission = emission_of(("grid",) * 2, (16,) * 2, n_rows=20_000)
    start = emission.marginal_outputs(x)
    location, log_scale = start.chunk(2)
    assert_allclose(location, [-0.5, 0.2], atol=0.02)
    assert_allclose(log_scale.exp(), [0.1, 0.3], rtol=0.1)
    begun = emission_of(("grid",) * 2, (16,) * 2, n_rows=20_000, start=start)
    zeros = torch.zeros(len(x), 4)
    assert_allclose(begun.log_prob(zeros, x), emission.log_prob(start.expand(len(x), -1), x), rtol=1e-6)


def test_drawn_pixels_and_counts_have_their_expectations():
    n, generator = 100_000, torch.Generator().manual_seed(0)
    pixels = emission_of(("grid",) * 2, (256,) * 2, n_rows=10_000)
    outputs = torch.tensor([0.9, -0.3, -1.0, -3.0])
    drawn = pixels.sample(outputs.expand(n, -1), generator)
    # In levels of 255, of which the mean of the logistic with cut tails is wrong by less than a half.
    assert_allclose(drawn.mean(0), pixels.expectation(outputs), atol=0.6)
    assert drawn.min() >= 0
    assert drawn.max() <= 255
    for likelihood in ("poisson", "negative-binomial"):
        counts = emission_of(("count",) * 2, (1, 1), likelihood)
        with torch.no_grad():
            outputs = torch.tensor([0.0, 2.0])
            drawn = counts.sample(outputs.expand(n, -1), generator)
            assert_allclose(drawn.mean(0), outputs.exp(), rtol=0.03)
            variance = outputs.exp() + (outputs.exp() ** 2 if likelihood == "negative-binomial" else 0)
            assert_allclose(drawn.var(0), variance, rtol=0.05)


def test_counts_against_scipy():
    x, outputs = torch.tensor([[0.0, 3.0], [7.0, 40.0]]), torch.tensor([[0.1, 1.0], [2.0, 4.0]])
    counts = emission_of(("count",) * 2, (1, 1), "poisson")
    assert_allclose(counts.log_prob_entries(outputs, x), poisson.logpmf(x, np.exp(outputs.numpy())), rtol=1e-5)
    counts = emission_of(("count",) * 2, (1, 1), "negative-binomial")
    with torch.no_grad():
        counts.counts.log_size.copy_(torch.tensor([0.5, -1.0]))
        found = counts.log_prob_entries(outputs, x).numpy()
    size, mean = np.exp([0.5, -1.0]), np.exp(outputs.numpy())
    assert_allclose(found, nbinom.logpmf(x, size, size / (size + mean)), rtol=1e-5)
