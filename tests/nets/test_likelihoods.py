"""p(x | outputs) against scipy and torch's own distributions."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import bernoulli, norm

from jensen import Bernoulli, Categorical, Gaussian
from jensen.nets.likelihoods import LEAST_STD, Emission, likelihood_of

KINDS = ("number", "yes/no", "level", "number", "level")
LEVELS = (1, 2, 3, 1, 4)


def mixed(variance="learned"):
    return Emission(KINDS, LEVELS, Gaussian(variance), torch.tensor([2.0, 1.0, 1.0, 4.0, 1.0]))


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


@pytest.mark.parametrize("kind", ["number", "yes/no", "level"])
def test_columns_of_one_kind_are_as_in_company(kind):
    """The short way for one kind gives what the long way gives."""
    emission = Emission(
        (kind,) * 3,
        {"number": (1,) * 3, "yes/no": (2,) * 3, "level": (3,) * 3}[kind],
        Gaussian(),
        torch.ones(3),
    )
    x = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    outputs = outputs_for(emission, 2)
    short = emission.log_prob(outputs, x)
    emission.only = None
    assert_allclose(short.detach(), emission.log_prob(outputs, x).detach(), rtol=1e-6)


def test_probabilities_sum_to_one():
    emission = Emission(("yes/no", "level"), (2, 3), Gaussian(), torch.ones(2))
    outputs = outputs_for(emission, 1)
    every = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))
    assert emission.log_prob(outputs.expand(6, -1), every).exp().sum() == pytest.approx(1, abs=1e-6)


def test_samples_follow_the_expectation():
    emission = mixed("feature")
    with torch.no_grad():
        emission.log_variance.copy_(torch.tensor([0.0, math.log(0.25)]))
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
    emission = Emission(("number",), (1,), Gaussian(), torch.ones(1))
    with torch.no_grad():
        emission.log_variance.fill_(-1e6)
    assert emission.log_noise(torch.empty(0)).exp().item() == pytest.approx(LEAST_STD**2, rel=1e-5)


def test_likelihoods_are_read():
    assert likelihood_of("auto")[0] == "auto"
    assert likelihood_of("bernoulli")[0] == "yes/no"
    kinds, gaussian, drawn = likelihood_of({"a": Gaussian("point"), 1: "categorical", "c": Bernoulli(resample=True)})
    assert kinds == {"a": "number", 1: "level", "c": "yes/no"}
    assert gaussian.variance == "point"
    assert drawn.resample
    assert likelihood_of(Categorical())[0] == "level"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("poisson", "likelihood='poisson' must be 'auto', 'gaussian'"),
        (Gaussian("wide"), r"Gaussian\(variance='wide'\) must be"),
        (Gaussian(-1.0), r"Gaussian\(variance=-1.0\) must be"),
        (Bernoulli("often"), r"Bernoulli\(resample='often'\) must be True or False"),
        ({"a": Gaussian(1.0), "b": Gaussian(2.0)}, "columns of one kind must share one"),
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
    emission = Emission(("number", "number"), (1, 1), Gaussian(variance), torch.ones(2), (), least)
    low = torch.full((3, 2), -60.0)
    with torch.no_grad():
        if variance != "point":
            emission.log_variance.fill_(-60.0)
    # The second is below what any noise may be.
    assert_allclose(emission.log_noise(low).detach().exp().expand(3, 2)[0], [0.25, LEAST_STD**2], rtol=1e-5)
    assert "log_least" in emission.state_dict()
    assert "log_least" not in mixed(variance).state_dict()
