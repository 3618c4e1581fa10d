"""Diffusions with classes: conditional bounds, guidance, and the classifier against Bayes' rule."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from torch import nn

import jensen
from jensen import Diffusion, ResidualMLP, Schedule
from jensen.engines.sgd.feeds import Order
from jensen.models.diffusion.classifier import classify_rows
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.space import Space
from jensen.runtime.row_draws import streams_of
from known_denoisers import MEANS, STD, MixtureData, mixture_rows, unit_columns

CPU = torch.device("cpu")


class ClassData(nn.Module):
    """The velocity of each component of the mixture alone; of no class that of both together."""

    def __init__(self, schedule):
        super().__init__()
        self.schedule, self.both = schedule, MixtureData(schedule, "velocity")

    def forward(self, x, t, y=None):
        both = self.both(x, t)
        if y is None:
            return both
        place = (t * self.schedule.n_levels / 1000).round().long()
        bar = torch.tensor(self.schedule.alpha_bar)[place][:, None].to(x)
        noise = torch.tensor(self.schedule.noise_variance)[place][:, None].to(x)
        centre = torch.tensor(MEANS).to(x)[y.clamp_max(1)]
        x0 = centre + bar.sqrt() * STD**2 / (bar * STD**2 + noise) * (x - bar.sqrt() * centre)
        return torch.where((y == 2)[:, None], both, (bar.sqrt() * x - x0) / noise.sqrt())


@pytest.fixture(scope="module")
def known():
    schedule = Schedule.linear(200)
    space = Space(unit_columns(2), "velocity", "beta")
    return DiffusionModule(lambda x: x, ClassData(schedule), space, schedule, n_classes=2, is_uniform=False).eval()


@torch.inference_mode()
def classified(module, x, budget, weighting="variational", prior=(0.5, 0.5), seed=0):
    rows = torch.tensor(x, dtype=torch.float32)
    log_prior = torch.tensor(prior, dtype=torch.float64).log()
    draws = streams_of(torch.Generator().manual_seed(seed), len(rows))
    return classify_rows(module, rows, log_prior, weighting, budget, draws, CPU, False)


def exact_log_odds(x, prior=(0.5, 0.5)):
    log_joint = -((x[:, None] - MEANS) ** 2).sum(-1) / (2 * STD**2) + np.log(prior)
    return log_joint - log_joint.max(1, keepdims=True)


def near_the_border(n):
    """Rows whose class is in doubt: the posterior is no zero and no one."""
    rng = np.random.default_rng(0)
    return rng.normal(0, 1, (n, 1)) * np.array([0.5, -1.0]) + rng.uniform(-0.07, 0.07, (n, 1)) * np.array([1.0, 0.5])


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.9, 0.1)])
def test_log_odds_are_those_of_bayes_rule(known, prior):
    x = near_the_border(60)
    proba, log_odds, error, _ = classified(known, x, budget=200, prior=prior)
    expected = exact_log_odds(x, prior)
    assert_allclose(proba.sum(1), 1)
    # Both differences, to whichever class is thought the best.
    found = (log_odds[:, 0] - log_odds[:, 1]).numpy()
    z = (found - (expected[:, 0] - expected[:, 1])) / error.amax(1).numpy()
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    assert np.sqrt((z**2).mean()) < 1.6


@pytest.mark.parametrize("weighting", ["variational", "simple"])
def test_clear_rows_are_decided_early(known, weighting):
    x = mixture_rows(50, seed=1)
    truth = exact_log_odds(x).argmax(1)
    proba, _, _, n_evaluations = classified(known, x, budget=200, weighting=weighting)
    assert (proba.argmax(1).numpy() == truth).mean() > 0.95
    if weighting == "variational":
        # A class is dropped after a quarter of the budget, and then there is nothing left to ask.
        assert n_evaluations.median() == 2 * 48


class ManyClasses(nn.Module):
    """The velocity of N(centre, I), a class each: v = -√(1-ᾱ_t) centre, with which the bound is ln p(x|y)."""

    def __init__(self, schedule, centres):
        super().__init__()
        self.schedule, self.centres = schedule, torch.tensor(centres).float()

    def forward(self, x, t, y=None):
        place = (t * self.schedule.n_levels / 1000).round().long()
        noise = torch.tensor(self.schedule.noise_variance)[place][:, None].to(x)
        return -noise.sqrt() * self.centres[y]


def many_classes(n_classes, d=60, n_steps=100):
    """A known denoiser of classes, rows of them, and ln p(x, y) but for a constant."""
    rng, schedule = np.random.default_rng(0), Schedule.linear(n_steps)
    centres = rng.normal(size=(n_classes, d)) * 0.6
    network, space = ManyClasses(schedule, centres), Space(unit_columns(d), "velocity", "beta")
    module = DiffusionModule(lambda x: x, network, space, schedule, n_classes=n_classes, is_uniform=False).eval()
    x = (centres[:, None] + rng.normal(size=(n_classes, 60, d))).reshape(-1, d)
    return module, x, -0.5 * ((x[:, None] - centres) ** 2).sum(-1)


def test_a_class_that_is_dropped_does_not_come_back():
    """In 60 dimensions what the draws of a stage add to all classes alike is as large as what tells classes apart."""
    n_classes = 8
    module, x, log_joint = many_classes(n_classes)
    first, second = np.sort(log_joint, 1)[:, :-3:-1].T
    _, log_odds, error, n_evaluations = classified(module, x, 100, prior=(1 / n_classes,) * n_classes)
    was_dropped = n_evaluations.numpy() < 0.6 * 100 * n_classes
    assert was_dropped.mean() > 0.5
    # Far from a border nothing but the error of the estimate can go wrong, and 6 nats are many errors.
    is_clear = first - second > 6
    assert is_clear.mean() > 0.4
    assert_array_equal(log_odds.numpy().argmax(1)[is_clear], log_joint.argmax(1)[is_clear])
    # Of all classes, dropped or not, the log-odds are Bayes' within the errors that are told of them.
    exact = log_joint - log_joint.max(1, keepdims=True)
    off = (log_odds.numpy() - exact)[is_clear] / np.maximum(error.numpy()[is_clear], 0.3)
    assert np.sqrt((off**2).mean()) < 2


class Spreads(nn.Module):
    """The velocity of N(0, s² I), a class each: its differences are quadratic in the noise, so signs do not cancel."""

    def __init__(self, schedule, spreads):
        super().__init__()
        self.schedule, self.variance = schedule, torch.tensor(spreads).float() ** 2

    def forward(self, x, t, y=None):
        place = (t * self.schedule.n_levels / 1000).round().long()
        bar = torch.tensor(self.schedule.alpha_bar)[place][:, None].to(x)
        noise = torch.tensor(self.schedule.noise_variance)[place][:, None].to(x)
        own = self.variance[y][:, None]
        x0 = bar.sqrt() * own / (bar * own + noise) * x
        return (bar.sqrt() * x - x0) / noise.sqrt()


def many_spreads(spreads, d=60, n_steps=60):
    """A known denoiser of classes of these spreads, and rows of them."""
    rng, schedule = np.random.default_rng(0), Schedule.linear(n_steps)
    network, space = Spreads(schedule, spreads), Space(unit_columns(d), "velocity", "beta")
    module = DiffusionModule(lambda x: x, network, space, schedule, n_classes=len(spreads), is_uniform=False).eval()
    return module, (np.array(spreads)[:, None, None] * rng.normal(size=(len(spreads), 60, d))).reshape(-1, d)


@pytest.mark.parametrize("budget", [40, 100, 400])
def test_signs_of_the_noise_cancel_where_classes_differ_in_their_means(budget):
    """What is left is the choice of levels, a fraction of a nat; with independent noise it is two nats and more."""
    module, x, log_joint = many_classes(6, n_steps=60)
    _, log_odds, error, n_evaluations = (part.numpy() for part in classified(module, x, budget, prior=(1 / 6,) * 6))
    best = log_odds.argmax(1)
    assert (np.take_along_axis(error, best[:, None], 1) == 0).all()
    off = (log_odds - (log_joint - np.take_along_axis(log_joint, best[:, None], 1)))[np.arange(6) != best[:, None]]
    assert np.sqrt((off**2).mean()) < 0.6
    # The estimate has no bias, and its error is never told as too small.
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(x))
    assert np.sqrt((off**2 / error[np.arange(6) != best[:, None]] ** 2).mean()) < 1.6
    assert (n_evaluations <= 6 * budget).all()


@pytest.mark.parametrize("budget", [40, 100, 400])
def test_errors_are_of_the_log_odds_that_are_told(budget):
    """Two estimates with other draws differ by their errors, of classes dropped on the way, too."""
    module, x = many_spreads((0.85, 0.95, 1.05, 1.15))
    prior = (0.25,) * 4
    one, two = ([part.numpy() for part in classified(module, x, budget, prior=prior, seed=seed)] for seed in (0, 1))
    best = one[1].argmax(1)
    is_same = best == two[1].argmax(1)
    assert is_same.mean() > 0.6
    others = np.arange(4) != best[is_same][:, None]
    error = np.hypot(one[2], two[2])[is_same][others]
    z = (one[1] - two[1])[is_same][others] / error
    assert 0.7 < np.sqrt((z**2).mean()) < 1.6


def test_a_larger_budget_is_spent():
    module, x = many_spreads((0.95, 1.05), d=4, n_steps=30)
    few, many = (classified(module, x, budget, prior=(0.5, 0.5)) for budget in (200, 3200))
    # Of rows asked to the end a sixteenth of the variance is left.
    asked = (few[3] > 300) & (many[3] > 5000)
    assert asked.sum() > 10
    assert_allclose(many[2][asked].amax(1).mean() / few[2][asked].amax(1).mean(), 0.25, atol=0.06)


@pytest.mark.parametrize("weighting", ["variational", "simple"])
def test_levels_come_in_pairs(known, weighting):
    """Each with both signs, so what is left of a division by 4 is not used, and weighs nothing."""
    even, odd = (classified(known, near_the_border(5), budget, weighting) for budget in (32, 35))
    for a, b in zip(even, odd, strict=True):
        assert_array_equal(a, b)


def test_far_rows_have_the_classes_of_the_prior(known):
    proba, log_odds, error, _ = classified(known, np.full((3, 2), 1e30), budget=40, prior=(0.2, 0.8))
    assert_allclose(proba, [[0.2, 0.8]] * 3)
    assert log_odds.isfinite().all()
    assert error.isfinite().all()


def test_guidance_extrapolates_what_is_said(known):
    from jensen.formulas.noising import Noising

    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    level = torch.full((4,), 50)
    at, time, y = Noising.at(known.table, level), known.times[level - 1], torch.tensor([0, 1, 0, 1])
    with torch.inference_mode():
        plain, none, beyond = (known.denoise(x, time, at, who, w).mean for who, w in ((y, 0.0), (None, 0.0), (y, 1.5)))
    assert_allclose(beyond, plain + 1.5 * (plain - none), atol=1e-5)


@pytest.fixture(scope="module")
def blobs():
    x, y = make_blobs(300, centers=3, n_features=3, cluster_std=1.5, random_state=1)
    names = np.array(["red", "green", "blue"], dtype=object)[y]
    partial = names.copy()
    partial[::2] = None
    return x, names, partial


@pytest.fixture(scope="module")
def model(blobs):
    x, _, partial = blobs
    network = ResidualMLP(width=48, n_blocks=2)
    options = {"n_steps": 50, "max_epochs": 150, "batch_size": 64, "learning_rate": 3e-3, "random_state": 0}
    return Diffusion(network=network, **options).fit(x, partial)


def test_half_of_the_labels_suffice(model, blobs):
    x, names, _ = blobs
    assert model.classes_.tolist() == ["blue", "green", "red"]
    assert (model.predict(x[:100]) == names[:100]).mean() > 0.95
    proba = model.predict_proba(x[:20])
    assert proba.shape == (20, 3)
    assert_allclose(proba.sum(1), 1)


def test_few_labels_are_a_third_of_every_batch(blobs):
    """Each row counts alike: 30 labels of 300 would otherwise hardly train the classes."""
    x, names, _ = blobs
    few = np.where(np.arange(len(x)) % 10 == 0, names, None)
    data = Diffusion()._training_set(x, few, None)
    rows, _ = data.split(0.0, seed=0)
    for batch in data.training_feed(rows, CPU).batches(Order(0, 0, 0, 40, 0, 1)):
        _, label = batch.inputs
        assert (label >= 0).sum() == 20
        assert len(label) == 60
        assert_allclose(batch.weight, 1.0)


def test_the_work_and_its_error_are_told(model, blobs):
    found = model.classify(blobs[0][:10], budget=40)
    assert found.standard_error.shape == found.log_odds.shape == (10, 3)
    assert (found.log_odds.max(1) == 0).all()
    assert (found.n_evaluations <= 3 * 40).all()
    uniform = model.classify(blobs[0][:10], class_prior="uniform")
    assert not np.array_equal(uniform.log_odds, model.classify(blobs[0][:10]).log_odds)


def test_rows_of_a_class(model, blobs):
    x, names, _ = blobs
    for name in ("red", "blue"):
        drawn, _ = model.sample(200, y=name, random_state=0)
        assert_allclose(drawn.mean(0), x[names == name].mean(0), atol=0.8)
    mixed, _ = model.sample(3, y=["red", "blue", "red"], guidance=2.0, random_state=0)
    assert mixed.shape == (3, 3)


def test_the_class_makes_its_rows_more_probable(model, blobs):
    x, names, partial = blobs
    given, wrong = model.bound(x, y=names).total.mean(), model.bound(x, y=np.roll(names, 1)).total.mean()
    none = model.bound(x).total.mean()
    assert given > none > wrong
    assert_array_equal(model.bound(x, y=np.full(len(x), None)).total, model.bound(x).total)
    assert none < model.bound(x, y=partial).total.mean() < given


def test_far_rows_have_a_bound_at_every_level(model):
    found = model.bound_by_level(np.full((1, 3), 1e11))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("label", [0, "only"])
def test_a_single_class_is_certain(label):
    x = np.random.default_rng(0).normal(size=(50, 2))
    y = np.full(50, label)
    model = Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=1, random_state=0).fit(x, y)
    assert_array_equal(model.predict(x), y)
    found = model.classify(x[:3])
    assert_array_equal(found.probabilities, np.ones((3, 1)))
    for field in (found.log_odds, found.standard_error, found.n_evaluations):
        assert not field.any()


def test_known_classes_may_be_asked_about_with_unlabelled_rows(recwarn):
    x = np.random.default_rng(0).normal(size=(50, 2))
    model = Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=1, random_state=0).fit(x, np.arange(50) % 2)
    recwarn.clear()
    model.bound(x[:3], y=[1, -1, 1])
    assert [str(warning.message) for warning in recwarn if "-1 and 1" in str(warning.message)] == []


def test_a_file_keeps_classes(model, blobs, tmp_path):
    model.save(tmp_path / "m.jensen")
    loaded = jensen.load(tmp_path / "m.jensen")
    assert_array_equal(loaded.predict(blobs[0][:10]), model.predict(blobs[0][:10]))


def test_a_later_fit_without_labels_forgets_them(blobs):
    x, names, _ = blobs
    model = Diffusion(n_steps=30, max_epochs=1, random_state=0).fit(x, names)
    assert hasattr(model, "predict")
    model.fit(x)
    with pytest.raises(AttributeError) as error:
        model.predict(x)
    assert "fitted without labels" in str(error.value.__cause__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.sample(2, y="pink"), "y='pink' is not among"),
        (lambda m, x: m.sample(2, sampler="ddim", eta="a"), r"eta='a' is the fraction of the noise .* in \[0, 1\]"),
        (lambda m, x: m.sample(2, guidance=1.0), "guidance=1.0 needs a class; give y"),
        (lambda m, x: m.predict(x, weighting="equal"), "weighting='equal' is not known"),
        (lambda m, x: m.predict(x, class_prior="flat"), "class_prior='flat' is not known"),
        (lambda m, x: m.predict(x, budget=3), "budget=3 is a number of evaluations per row and class"),
        (lambda m, x: m.bound(x, y=["red"]), r"y has shape \(1,\)"),
    ],
)
def test_bad_questions(model, blobs, call, message):
    with pytest.raises(ValueError, match=message):
        call(model, blobs[0])
