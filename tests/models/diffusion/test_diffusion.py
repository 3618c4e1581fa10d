"""Denoising diffusion: its bound against known denoisers, and what is special about the model."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from torch import nn
from torch.utils.data import TensorDataset

import jensen
from jensen import MLP, Denoiser, Diffusion, ResidualMLP, Schedule, Trainer, UNet
from jensen.contract.image_sizes import default_steps, image_network
from jensen.data.infer import learn_columns
from jensen.data.levels import Grid, find_grid
from jensen.data.rows import learn_events
from jensen.data.scaled import with_grid
from jensen.models.diffusion.build import decide
from jensen.models.diffusion.inference import all_levels, some_levels
from jensen.models.diffusion.module import DiffusionModule, evaluation_levels, level_shares, training_levels
from jensen.models.diffusion.space import Space
from jensen.runtime.row_draws import streams_of
from known_denoisers import MEANS, STD, known_module, mixture_log_density, mixture_rows

CPU = torch.device("cpu")
# Where no claim is about the network, images are rows of 64 numbers: a fit takes a fifth of the time of the U-Net's.
FLAT = ResidualMLP(width=32, n_blocks=1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def streams(n, seed=0):
    """Random numbers of n rows, each with a stream of its own."""
    return streams_of(seeded(seed), n)


@torch.inference_mode()
def bound_of(module, x, n_levels=None, seed=0):
    rows = torch.as_tensor(x, dtype=torch.float32)
    found = some_levels(module, rows, n_levels or module.schedule.n_levels, streams(len(rows), seed), CPU)
    return (found.reconstruction - found.prior - found.denoising).numpy(), found.standard_error.numpy()


class Silent(nn.Module):
    """Says 0, which with velocities and variance β is the standard normal itself."""

    def __init__(self, n_outputs):
        super().__init__()
        self.n_outputs = n_outputs

    def forward(self, x, t, y=None):
        return torch.zeros(len(x), self.n_outputs)


# Denoisers that are known


@pytest.mark.parametrize("schedule", [Schedule.linear(1000), Schedule.cosine(100), Schedule([0.9, 0.01, 0.5])])
def test_no_velocity_is_a_standard_normal(schedule):
    """Row by row ln N(x; 0, I), up to the noise that is drawn: on average over draws exactly."""
    module = known_module(schedule, network=Silent(3), d=3)
    x = np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [0.1, 3.0, -1.0]])
    draws = np.stack([bound_of(module, x, seed=seed)[0] for seed in range(40)])
    error = draws.std(0) / math.sqrt(len(draws))
    assert (abs(draws.mean(0) - norm.logpdf(x).sum(1)) < 4 * error + 1e-4).all()


def test_every_prediction_has_the_same_bound():
    schedule = Schedule.linear(200)
    x = mixture_rows(20, seed=0)
    noise, *others = (bound_of(known_module(schedule, name), x)[0] for name in ("noise", "data", "velocity", "mean"))
    for other in others:
        # Single precision; the mean is divided by u_t, which falls to 1e-4.
        assert_allclose(other, noise, atol=0.02)


@cache
def entropy_of_the_mixture():
    return -mixture_log_density(mixture_rows(400_000, seed=9)).mean()


def expected_gap(schedule, n_grid=61):
    """E[ln p(x) - bound] of the mixture with its own denoiser and variance β, by quadrature.

    E(x_0 - x̂_0)² is what x_t leaves open of x_0, integrated over a grid of x_t; everything else is closed form. The
    grid has three points per deviation or more: a finer one changes the gap by less than 1e-5.
    """
    total = 0.0
    second = STD**2 + (MEANS**2).mean(0)  # E x_0² of each number
    of_data = schedule.posterior_weights[1]
    variance, posterior = schedule.beta, schedule.variances("posterior")
    for t in range(schedule.n_levels):
        bar, noise = schedule.alpha_bar[t], schedule.noise_variance[t]
        var = bar * STD**2 + noise
        reach = math.sqrt(bar) * abs(MEANS).max() + 6 * math.sqrt(var)
        axis = np.linspace(-reach, reach, n_grid)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
        squares = ((points[..., None, :] - math.sqrt(bar) * MEANS) ** 2).sum(-1)
        density = np.exp(-squares / (2 * var)) / (2 * math.pi * var) / 2
        share = density / density.sum(-1, keepdims=True)
        centre = share @ MEANS
        guess = centre + math.sqrt(bar) * STD**2 / var * (points - math.sqrt(bar) * centre)
        left = second.sum() - (density.sum(-1)[..., None] * guess**2).sum() * (axis[1] - axis[0]) ** 2
        if t == 0:
            total += 0.5 * (left / variance[0] + 2 * math.log(2 * math.pi * variance[0]))
        else:
            ratio = posterior[t] / variance[t]
            total += 0.5 * (of_data[t] ** 2 * left / variance[t] + 2 * (ratio - 1 - math.log(ratio)))
    last = schedule.alpha_bar[-1]
    total += 0.5 * (last * second.sum() - 2 * last - 2 * math.log1p(-last))
    return total - entropy_of_the_mixture()


@pytest.mark.parametrize("n_levels", [30, 200])
def test_a_mixture_with_its_own_denoiser_lies_below_by_the_right_gap(n_levels):
    schedule = Schedule.linear(n_levels)
    x = mixture_rows(4000, seed=2)
    bound, _ = bound_of(known_module(schedule), x, n_levels=30 if n_levels > 30 else None)
    gap = mixture_log_density(x) - bound
    error = gap.std() / math.sqrt(len(gap))
    expected = expected_gap(schedule)
    assert expected > 0.01
    assert abs(gap.mean() - expected) < 4 * error + 0.005


def test_the_gap_closes_with_more_levels():
    assert expected_gap(Schedule.linear(400)) < 0.5 * expected_gap(Schedule.linear(100)) < 0.3


def one_number(n_levels, prediction, share, n_steps=200, level_variance="own"):
    """A diffusion of one number on a grid, untrained; with levels its denoiser is that of the shares themselves."""
    columns = with_grid(learn_columns(np.array([[0.0], [1.0]]), "number"), Grid(0.0, 1.0, n_levels))
    start = torch.tensor(share, dtype=torch.float32).log()[:, None] if prediction == "levels" else None
    space = Space(columns, prediction, "posterior", level_variance, start)
    network = Silent(space.n_outputs)
    return DiffusionModule(lambda x: x, network, space, Schedule.linear(n_steps), is_uniform=False).eval()


@pytest.mark.parametrize(("n_levels", "n_steps", "n_draws"), [(2, 200, 100), (17, 1000, 15), (256, 200, 3)])
def test_levels_lose_little_of_the_entropy(n_levels, n_steps, n_draws):
    """Σ P bound lies below Σ P ln P by little: p(x_{t-1}|x_t) is a Gaussian where it should be a mixture of levels."""
    share = np.random.default_rng(0).dirichlet(np.ones(n_levels))
    module = one_number(n_levels, "levels", share, n_steps)
    draws = np.stack([bound_of(module, np.arange(n_levels)[:, None], seed=s)[0] for s in range(n_draws)])
    gap = share @ np.log(share) - draws @ share
    error = gap.std(ddof=1) / math.sqrt(n_draws)
    assert -4 * error < gap.mean() < 0.05 + 4 * error


def test_levels_know_their_variance_better_than_the_schedule():
    share = np.random.default_rng(0).dirichlet(np.ones(17))
    x = np.arange(17)[:, None]
    own, posterior = (one_number(17, "levels", share, level_variance=kind) for kind in ("own", "posterior"))
    gains = [share @ (bound_of(own, x, seed=s)[0] - bound_of(posterior, x, seed=s)[0]) for s in range(10)]
    assert np.mean(gains) > 0.3


@pytest.mark.parametrize("prediction", ["levels", "velocity"])
def test_probabilities_of_levels_sum_to_one_at_most(prediction):
    share = np.random.default_rng(0).dirichlet(np.ones(17))
    module = one_number(17, prediction, share)
    draws = np.stack([bound_of(module, np.arange(17)[:, None], seed=seed)[0] for seed in range(60)])
    # The exponential of an estimate is too large on average, by half the variance of the estimate.
    mean, var = draws.mean(0), draws.var(0) / len(draws)
    assert np.exp(mean - var / 2).sum() < 1.005


def test_levels_have_the_variance_that_their_probabilities_leave():
    columns = with_grid(learn_columns(np.array([[0.0], [1.0]]), "number"), Grid(0.0, 1.0, 3))
    share = torch.tensor([0.2, 0.5, 0.3])
    space = Space(columns, "levels", "posterior", start=share.log()[:, None])
    # At the last level nothing is known of x_0 but its frequencies.
    module = DiffusionModule(lambda x: x, Silent(3), space, Schedule.linear(100), is_uniform=False)
    belief = module.belief(torch.zeros(1, 1), torch.tensor([100]))
    values = torch.tensor([-1.0, 0.0, 1.0])
    mean = (share * values).sum()
    left = (share * values**2).sum() - mean**2
    schedule = module.schedule
    expected = schedule.posterior_variance[-1] + schedule.posterior_weights[1][-1] ** 2 * float(left)
    assert_allclose(belief.mean, [[mean]], atol=1e-3)
    assert_allclose(belief.log_variance.exp(), [[expected]], rtol=1e-3)


def test_mixed_columns_know_the_level_from_its_point():
    """Without a network P(level | x_t) is Bayes' rule with the frequencies and the density of the noise."""
    frame = pd.DataFrame(
        {
            "a": [0.1, 0.5, 2.0, 1.0],
            "b": [True, False, True, True],
            "c": ["u", "v", "w", "u"],
            "d": [1.5, 2.5, 3.0, 0.0],
        }
    )
    columns = learn_columns(frame)
    space = Space(columns, "velocity", "beta")
    start = space.marginal_start(columns.encode(frame).float())
    space = Space(columns, "velocity", "beta", start=start)
    schedule = Schedule.linear(100)
    module = DiffusionModule(lambda x: x, Silent(space.n_outputs), space, schedule, is_uniform=False)
    xt = torch.tensor([[0.3, 0.4, 0.2, -0.1, 0.9, -1.0]])
    belief = module.belief(xt, torch.tensor([40]))
    bar, noise = schedule.alpha_bar[39], schedule.noise_variance[39]
    # Frequencies of four rows, and one row more for every level.
    binary = np.array([2, 4]) * norm.pdf(0.4, math.sqrt(bar) * np.array([-1.0, 1.0]), math.sqrt(noise))
    places = norm.pdf(np.array([0.2, -0.1, 0.9]), math.sqrt(bar) * np.eye(3), math.sqrt(noise)).prod(1)
    text = np.array([3, 2, 2]) * places
    assert_allclose(belief.log_levels.exp()[0, :2, 0], binary / binary.sum(), rtol=1e-4)
    assert_allclose(belief.log_levels.exp()[0, :, 1], text / text.sum(), rtol=1e-4)
    assert_allclose(belief.mean[0, 2:5], text / text.sum(), rtol=1e-4)
    assert_allclose(belief.mean[0, 1], np.array([-1, 1]) @ (binary / binary.sum()), rtol=1e-4)
    # No velocity: x̂_0 = √ᾱ x_t.
    assert_allclose(belief.mean[0, [0, 5]], math.sqrt(bar) * xt[0, [0, 5]], rtol=1e-5)


# Levels drawn


def test_levels_of_a_batch_are_spread_and_weights_make_sums():
    share = torch.tensor(level_shares(Schedule.linear(1000)))
    assert_allclose(share.sum(), 1)
    value = torch.sin(torch.arange(1000.0)) + 2
    torch.manual_seed(0)
    level, weight = training_levels(share, 2000)
    assert_allclose((weight * value[level - 1]).mean(), value.sum(), rtol=0.01)
    edges = share.cumsum(0)[:-1:100]
    counts = torch.stack([(level <= 100 * i + 1).double().mean() for i in range(10)])
    assert_allclose(counts, edges, atol=2 / 2000)


@pytest.mark.parametrize("k", [4, 5, 16, 50])
def test_weighted_levels_of_a_row_estimate_the_sum(k):
    share = torch.tensor(level_shares(Schedule.linear(200)))
    value = torch.linspace(3, 1, 200).double()
    value[0] = -40.0
    level, weight = evaluation_levels(share, 4000, k, streams(4000))
    estimates = (weight * value[level - 1]).sum(1)
    assert_allclose(estimates.mean(), value.sum(), atol=4 * float(estimates.std()) / math.sqrt(4000))
    assert (level[:, :2] == 1).all()


def test_as_many_levels_as_there_are_is_all_of_them():
    level, weight = evaluation_levels(torch.full((5,), 0.2).double(), 3, 7)
    assert level[0].tolist() == [1, 1, 2, 3, 4, 5]
    assert weight[0].tolist() == [0.5, 0.5, 1, 1, 1, 1]


def test_some_levels_agree_with_all_within_their_standard_error():
    module = known_module(Schedule.linear(1000))
    x = mixture_rows(200, seed=3)
    exact = np.stack([bound_of(module, x, seed=seed)[0] for seed in range(4)])
    found, error = (np.stack(part) for part in zip(*(bound_of(module, x, 50, seed=s) for s in range(12)), strict=True))
    spread = math.sqrt((error**2).mean() / found.size + exact.var(0).mean() / exact.size)
    assert abs(found.mean() - exact.mean()) < 3 * spread
    # The errors are what they say: their mean square is the variance over seeds, here known to a twentieth.
    assert_allclose((error**2).mean(), found.var(0, ddof=1).mean(), rtol=0.2)


# Fits


@pytest.fixture(scope="module")
def digits():
    return load_digits().images[:300]


def quick(**arguments):
    options = {"network": FLAT, "max_epochs": 16, "n_steps": 50, "batch_size": 64, "random_state": 0} | arguments
    return Diffusion(**options)


@pytest.fixture(scope="module")
def fitted(digits):
    return quick(max_epochs=40, learning_rate=3e-3).fit(digits)


def test_training_raises_the_held_out_bound(fitted):
    history = fitted.history_
    assert history["held_out"].iloc[-1] > history["held_out"].iloc[0]
    assert {"objective", "reconstruction", "denoising", "prior", "simple"} <= set(history)
    assert_allclose(history["objective"], -history["simple"])


def test_digits_are_found_to_be_a_grid(fitted):
    assert fitted.columns_.is_grid
    assert fitted.columns_.levels[0] == tuple(float(k) for k in range(17))


def test_the_start_is_the_frequency_of_every_pixel(digits):
    """An untrained network knows independent pixels: its bound is near their entropy, and above it."""
    model = quick(max_epochs=1, n_steps=1000, learning_rate=1e-12, trainer=Trainer(validation_fraction=0.0)).fit(digits)
    counts = np.stack([(digits == k).mean(0) for k in range(17)])
    entropy = -np.sum(counts * np.log(np.maximum(counts, 1e-3)), 0).sum() / (64 * math.log(2))
    bits = model.bits_per_dimension(digits[:40], levels="all").mean()
    assert entropy - 0.15 < bits < entropy + 0.3


def test_terms_by_level_add_up_to_the_bound(fitted, digits):
    rows = digits[:5]
    by_level = fitted.bound_by_level(rows)
    bound = fitted.bound(rows, levels="all")
    assert by_level.shape == (5, 50)
    # Other draws of the noise.
    error = 5 * math.sqrt(2) * np.asarray(bound.standard_error)
    assert (abs(by_level[:, 1:].sum(1) - bound.kl["denoising"]) < error).all()
    assert (by_level >= 0).all()
    assert not bound.is_exact
    assert set(bound.kl) == {"prior", "denoising"}
    assert (bound.kl["prior"] >= 0).all()


def test_bits_per_dimension(fitted, digits):
    rows = digits[:5]
    assert_allclose(fitted.bits_per_dimension(rows), -fitted.score_samples(rows) / (64 * math.log(2)))


def test_rate_and_distortion(fitted, digits):
    table = fitted.rate_distortion(digits[:50])
    assert list(table) == ["level", "rate", "distortion"]
    assert table["level"].tolist() == list(range(1, 51))
    assert (np.diff(table["rate"]) <= 0).all()
    bits = fitted.bits_per_dimension(digits[:50], levels="all").mean()
    first = fitted.bound_by_level(digits[:50])[:, 0].mean() / (64 * math.log(2))
    assert_allclose(table["rate"][0] + first, bits, rtol=0.05)
    assert table["distortion"].iloc[0] < 0.5 * table["distortion"].iloc[-1]


@pytest.mark.parametrize("sampler", ["ancestral", "ddim", "dpm"])
@pytest.mark.parametrize("steps", [None, 1, 5])
def test_samples_are_values_of_the_grid(fitted, sampler, steps):
    rows, noise = fitted.sample(3, steps=steps, sampler=sampler)
    assert rows.shape == (3, 8, 8)
    assert noise.shape == (3, 64)
    assert set(np.unique(rows)) <= set(range(17))


def test_the_path_begins_with_the_noise_and_ends_with_the_sample(fitted):
    rows, noise = fitted.sample(3, random_state=5, steps=10)
    path = fitted.sample_path(3, random_state=5, steps=10)
    assert len(path) == 11
    assert_array_equal(path[-1], rows)
    assert_allclose(path[0].reshape(3, -1), (noise + 1) * 8, rtol=1e-5)


def test_noised_rows(fitted, digits):
    rows = digits[:200]
    assert_allclose(fitted.q_sample(rows, 0), rows)
    nearly, lost = fitted.q_sample(rows, 1, random_state=0), fitted.q_sample(rows, 50, random_state=0)
    assert nearly.shape == lost.shape == rows.shape
    assert abs(nearly - rows).mean() < 0.5
    assert abs(np.corrcoef(lost.ravel(), rows.ravel())[0, 1]) < 0.05
    schedule = fitted.schedule_
    posterior = fitted.posterior(rows, level=10)
    assert_allclose(posterior.stddev.numpy(), math.sqrt(schedule.noise_variance[9]), rtol=1e-5)
    assert_allclose(
        posterior.mean.numpy(), math.sqrt(schedule.alpha_bar[9]) * (rows.reshape(200, 64) / 8 - 1), atol=1e-5
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"prediction": "noise"},
        {"prediction": "data", "objective": "simple"},
        {"prediction": "mean"},
        {"prediction": "velocity", "variance": "learned", "objective": "variational"},
        {"prediction": "noise", "variance": "learned", "objective": "hybrid"},
        {"prediction": "levels", "objective": "variational"},
        {"prediction": "levels", "variance": "posterior"},
        {"prediction": "levels", "objective": "hybrid", "variance": "beta"},
        {"schedule": "linear"},
        {"schedule": np.linspace(0.01, 0.3, 30), "n_steps": None},
        {"schedule": Schedule.cosine(30), "n_steps": None},
        {"network": UNet(channels=(8,), n_blocks=1, middle_attention=False)},
        {"network": MLP((32,), "relu")},
        {"data_levels": 17},
        {"data_levels": None},
    ],
    ids=lambda a: "-".join(f"{key}={value}"[:25] for key, value in a.items()),
)
def test_every_choice_learns_and_is_kept_by_a_file(arguments, digits, tmp_path):
    model = quick(**arguments, max_epochs=26, learning_rate=3e-3).fit(digits)
    raised = model.history_["objective"]
    assert raised.iloc[-1] > raised.iloc[0]
    model.save(tmp_path / "m.jensen")
    loaded = jensen.load(tmp_path / "m.jensen")
    assert_array_equal(loaded.score_samples(digits[:5]), model.score_samples(digits[:5]))
    assert_array_equal(loaded.sample(2, steps=5)[0], model.sample(2, steps=5)[0])


def test_choices_that_are_left_to_the_data(digits):
    facts = quick(max_epochs=1).fit(digits)._facts
    assert (facts.prediction, facts.variance, facts.level_variance) == ("levels", "posterior", "own")
    facts = quick(max_epochs=1, network=None).fit(load_iris().data)._facts
    assert (facts.prediction, facts.variance) == ("velocity", "beta")


@pytest.mark.parametrize("shape", [(40, 7, 5), (40, 3, 6, 6), (40, 1, 1, 9)])
def test_images_of_any_size_and_number_of_channels(shape):
    x = np.random.default_rng(0).integers(0, 4, shape).astype(np.uint8)
    model = quick(network=UNet(channels=(8, 8), n_blocks=1), max_epochs=1).fit(x)
    assert model.sample(2, steps=3)[0].shape == (2, *shape[1:])
    assert model.score_samples(x).shape == (40,)


def test_tensors_come_back_as_tensors(digits):
    x = torch.tensor(digits[:60])
    model = quick(max_epochs=1).fit(x)
    assert isinstance(model.score_samples(x), torch.Tensor)
    assert isinstance(model.sample(2, steps=3)[0], torch.Tensor)


def test_rows_on_disk_and_datasets(digits, tmp_path):
    np.save(tmp_path / "x.npy", digits[:100].astype(np.uint8))
    rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    memory = quick(max_epochs=1).fit(rows)
    dataset = quick(max_epochs=1).fit(TensorDataset(torch.tensor(digits[:100], dtype=torch.float32)))
    assert memory.columns_.is_grid
    assert dataset.columns_.is_grid
    assert_allclose(memory.score(digits[:50]), dataset.score(digits[:50]), rtol=0.05)


def test_a_killed_run_goes_on_to_the_same_weights(digits, tmp_path):
    """Level and noise of every row are drawn again as they would have been."""
    path = tmp_path / "run.ckpt"
    stopped = Trainer(checkpoint_every=0.0)
    whole = quick(max_epochs=4).fit(digits)

    class KilledError(Exception):
        pass

    from jensen.engines.sgd import loop as sgd

    write, count = sgd.Training.write, [0]

    def dying(self):
        write(self)
        count[0] += 1
        if count[0] == 7:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sgd.Training, "write", dying)
        with pytest.raises(KilledError):
            quick(max_epochs=4, trainer=stopped, checkpoint=path).fit(digits)
    resumed = quick(max_epochs=4, trainer=stopped, checkpoint=path).fit(digits)
    for name, weight in whole.module_.state_dict().items():
        assert torch.equal(resumed.module_.state_dict()[name], weight), name


# Tables


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 400
    town = rng.choice(["Bonn", "Oslo", "Rome"], n, p=[0.5, 0.3, 0.2])
    age = rng.normal(40, 10, n) + 15 * (town == "Oslo")
    smokes = rng.random(n) < np.where(town == "Rome", 0.8, 0.1)
    return pd.DataFrame({"age": age, "smokes": smokes, "town": town})


def test_mixed_tables(people, tmp_path):
    network = ResidualMLP(width=64, n_blocks=2)
    model = Diffusion(n_steps=50, network=network, max_epochs=300, learning_rate=3e-3, random_state=0).fit(people)
    drawn, _ = model.sample(2000, random_state=0)
    assert list(drawn) == ["age", "smokes", "town"]
    assert drawn["smokes"].dtype == bool
    shares, truth = drawn["town"].value_counts(normalize=True), people["town"].value_counts(normalize=True)
    assert (abs(shares - truth) < 0.08).all()
    smokers = [table[table["town"] == "Rome"]["smokes"].mean() for table in (drawn, people)]
    assert abs(smokers[0] - smokers[1]) < 0.15
    assert abs(drawn.groupby("town")["age"].mean()["Oslo"] - 55) < 4
    # -ln p of the generating process, whose terms are known: entropies of town, smokes and a normal age.
    share = np.array([0.5, 0.3, 0.2])
    entropy = -(share @ np.log(share)) + share @ [0.325, 0.325, 0.5] + 0.5 * math.log(2 * math.pi * math.e * 100)
    assert model.score(people) > -entropy - 0.35
    for table in (*model.sample_path(200, steps=5, random_state=0), model.q_sample(people, 40, random_state=0)):
        assert table["smokes"].dtype == bool
        assert set(table["town"]) <= {"Bonn", "Oslo", "Rome"}
    model.save(tmp_path / "m.jensen")
    assert_array_equal(jensen.load(tmp_path / "m.jensen").score_samples(people), model.score_samples(people))


def test_scores_are_in_the_units_of_the_data():
    """Ten times as large numbers have ln 10 nats per column less."""
    x = load_iris().data
    options = {"n_steps": 50, "max_epochs": 20, "random_state": 0, "data_levels": None}
    one, ten = Diffusion(**options).fit(x), Diffusion(**options).fit(10 * x + 3)
    assert_allclose(one.score(x) - ten.score(10 * x + 3), 4 * math.log(10), rtol=1e-3)


def test_weights_count_rows():
    x = np.concatenate([np.random.default_rng(0).normal(-2, 0.3, (100, 1)), np.full((100, 1), 50.0)])
    weight = np.repeat([1.0, 0.0], 100)
    model = Diffusion(n_steps=50, max_epochs=5, random_state=0).fit(x, sample_weight=weight)
    assert abs(model.sample(200, random_state=0)[0].mean() + 2) < 0.3


def test_a_learned_variance_gains_on_a_narrow_normal():
    """Of N(0, ¼) after a known scaling: with β fixed the bound stays 1e-3 below, with variances in between less."""
    x = np.random.default_rng(0).normal(0, 1, (500, 2)) @ np.array([[1.0, 0.99], [0.0, 0.141]])
    scores = {}
    options = {"n_steps": 30, "objective": "variational", "network": ResidualMLP(32, 1), "learning_rate": 5e-3}
    for variance in ("posterior", "beta", "learned"):
        model = Diffusion(variance=variance, max_epochs=40, random_state=0, **options).fit(x)
        scores[variance] = model.bound(x, levels="all").total.mean()
    assert scores["learned"] > scores["beta"] > scores["posterior"]


class Shift(Denoiser):
    """A recipe of one's own: f(x, t, y) with one weight."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def build(self, in_shape, out_shape, n_classes=0):
        class Network(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(1))

            def forward(self, x, t, y=None):
                return self.weight * x + 0 * t[:, None]

        return Network()


class Known(Denoiser):
    """No velocity: the standard normal, in standardised units."""

    def build(self, in_shape, out_shape, n_classes=0):
        return Silent(*out_shape)


def test_a_network_that_is_known_is_taken_as_it_is():
    x = np.random.default_rng(0).normal(3, 2, (500, 2))
    model = Diffusion(n_steps=50, network=Known(), random_state=0).fit(x)
    assert model.n_iter_ == len(model.history_) == 0
    exact = norm.logpdf(x, x.mean(0), x.std(0)).sum(1).mean()
    bound = model.bound(x, levels="all")
    assert abs(bound.total.mean() - exact) < 4 * np.sqrt((bound.standard_error**2).sum()) / len(x)


def test_a_network_of_ones_own(tmp_path):
    x = load_iris().data
    model = Diffusion(n_steps=50, network=Shift(2.0), max_epochs=3, random_state=0).fit(x)
    model.save(tmp_path / "m.jensen")
    with pytest.raises(ValueError, match="recipe 'Shift'"):
        jensen.load(tmp_path / "m.jensen")
    loaded = jensen.load(tmp_path / "m.jensen", recipes=[Shift])
    assert_array_equal(loaded.score_samples(x), model.score_samples(x))


# Grids


@pytest.mark.parametrize(
    ("values", "is_image", "expected"),
    [
        ([0, 1, 1, 0], False, Grid(0.0, 1.0, 2)),
        ([3, 5, 19], False, Grid(3.0, 1.0, 17)),
        ([0, 255, 37], True, Grid(0.0, 1.0, 256)),
        ([0, 256], False, None),
        ([0.0, 0.5, 1.0], False, None),
        (np.arange(256) / 255, True, Grid(0.0, 1 / 255, 256)),
        ((np.arange(17) / 8 - 1).astype(np.float32), True, Grid(-1.0, 1 / 8, 17)),
        ([0.0, 0.31, 1.0, 0.777], True, None),
        ([4.0, 4.0], True, None),
        ([0.0, np.nan, 2.0], False, Grid(0.0, 1.0, 3)),
    ],
)
def test_which_numbers_are_a_grid(values, is_image, expected):
    found = find_grid(np.array(values, dtype=float)[:, None], "auto", is_image)
    if expected is None:
        assert found is None
    else:
        assert found.n_levels == expected.n_levels
        assert_allclose((found.low, found.step), (expected.low, expected.step), rtol=1e-6)


def test_held_out_rows_are_not_looked_at(digits):
    """Of pixels that are drawn evenly held-out rows cost the entropy and more, however few rows there are."""
    x = np.random.default_rng(0).integers(0, 256, (64, 4, 4))
    model = quick(max_epochs=13, batch_size=16, n_steps=100, trainer=Trainer(validation_fraction=0.5)).fit(x)
    entropy = 16 * math.log(256)
    assert (-model.history_["held_out"] > entropy - 0.5).all()
    assert (-model.history_["held_out"] < 1.1 * entropy).all()


@pytest.mark.parametrize(
    ("shape", "channels", "patch", "points", "steps"),
    [
        ((1, 8, 8), (32, 64), 1, (8, 8), (None, None)),
        ((1, 16, 16), (32, 64), 1, (16, 16), (1800, 5)),
        ((1, 28, 20), (32, 64), 2, (14, 10), (1800, 5)),
        ((3, 33, 9), (48, 96), 4, (9, 3), (1800, 5)),
        ((3, 128, 100), (48, 96), 8, (16, 13), (1800, 5)),
    ],
)
def test_the_default_network_works_on_at_most_16_points_per_side(shape, channels, patch, points, steps):
    assert image_network(shape) == (list(channels), patch)
    network = UNet(channels, patch=patch).build(shape, shape)
    assert network.position_map.shape[1:] == points
    assert default_steps(shape) == steps


def test_the_default_network_is_kept_in_the_file(tmp_path):
    x = np.random.default_rng(0).integers(0, 4, (60, 18, 18))
    model = Diffusion(n_steps=5, max_epochs=1, random_state=0).fit(x)
    assert model.module_.network.patch == 2
    model.save(tmp_path / "m.jensen")
    found = jensen.load(tmp_path / "m.jensen")
    assert found.module_.network.patch == 2
    assert_allclose(found.sample(2, random_state=0)[0], model.sample(2, random_state=0)[0])


def test_few_rows_of_many_values_with_many_levels_are_predicted_as_numbers():
    rng = np.random.default_rng(0)
    small, large = rng.integers(0, 256, (45, 3, 32, 32)), rng.integers(0, 256, (45, 3, 40, 40))
    for x, prediction in ((small, "levels"), (large, "velocity"), (large // 16, "levels")):
        assert decide(Diffusion(), grid_columns(x)).prediction == prediction


def grid_columns(x):
    return learn_events(Diffusion(), x, Diffusion()._column_rules())[0].columns


@pytest.mark.parametrize("prediction", ["velocity", "noise"])
def test_a_limit_of_the_guess_raises_no_term_but_that_of_the_first_level(digits, prediction):
    """x_0 lies within the limit, and the projection of x̂_0 onto it is no farther away.

    At the first level a velocity keeps its x̂_0, and that of a noise is limited as at the others.
    """
    x = torch.tensor(digits[:40].reshape(40, -1)).float()
    module = quick(max_epochs=1, prediction=prediction).fit(digits).module_.eval()
    level, noise = torch.arange(40) % module.schedule.n_levels + 1, torch.randn(40, 64)
    with torch.no_grad():
        limited = module.terms(x, module.space.embed(x), level, noise)
        assert module.space.clip == 1.0
        module.space.clip = None
        free = module.terms(x, module.space.embed(x), level, noise)
    later = level > 1
    assert (limited.nats[later] <= free.nats[later] + 1e-5 * free.nats[later].abs()).all()
    assert (limited.nats[level > 1] < free.nats[level > 1] - 1e-3).any()
    if prediction == "velocity":
        assert limited.nats[level == 1].equal(free.nats[level == 1])


def test_some_pixels_stand_for_all_in_a_training_step():
    """Of many levels a step takes the probabilities of some pixels, which have the mean of all of them."""
    x = np.random.default_rng(0).integers(0, 64, (48, 5, 6))
    module = quick(max_epochs=2, batch_size=16, network=UNet((4,), dropout=0.0)).fit(x).module_.train()
    rows = torch.tensor(x.reshape(48, 30)).float()
    level, noise = torch.randint(1, module.schedule.n_levels + 1, (48,)), torch.randn(48, 30)
    level[:4] = 1

    def terms():
        found = module.terms(rows, module.space.embed(rows), level, noise)
        return torch.stack([found.nats, found.simple, found.error])

    with torch.no_grad():
        columns = module.space.some_columns(2000, rows.device)
        drawn = torch.stack([terms() for _ in range(400)])
        module.space.some_columns = lambda n_rows, device: None
        every = terms()
    assert columns.shape == (2000, 15)
    # Every pixel as often as any other: 1000 times, with a standard deviation of at most 32.
    assert (torch.bincount(columns.flatten(), minlength=30) - 1000).abs().max() < 160
    error = drawn.std(0) / 20
    assert error.max() > 0
    assert ((drawn.mean(0) - every).abs() < 5 * error + 1e-4 * every.abs()).all()


@pytest.mark.parametrize(
    ("values", "data_levels", "n_levels"),
    [([0, 255], "auto", 2), ([3, 250], 256, 256), ([0.0, 0.5], 3, 3), ([0, 15, 45, 240], "auto", 17)],
)
def test_pixels_of_a_wider_or_narrower_range(values, data_levels, n_levels):
    x = np.random.default_rng(0).choice(values, (40, 3, 3))
    assert find_grid(x.reshape(40, 9).astype(float), data_levels, is_image=True).n_levels == n_levels


def test_scaled_pixels_are_the_same_grid(digits):
    whole, scaled = quick(max_epochs=1).fit(digits), quick(max_epochs=1).fit((digits / 16).astype(np.float32))
    assert scaled.columns_.is_grid
    assert_allclose(whole.score_samples(digits[:5]), scaled.score_samples(digits[:5] / 16), rtol=1e-5)
    assert_allclose(np.unique(scaled.sample(5, steps=5)[0] * 16) % 1, 0, atol=1e-5)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schedule": "linear", "n_steps": 20}, "n_steps=20 is too few for the linear schedule"),
        ({"schedule": [0.1, 1.5]}, r"betas\[1\]=1.5 must lie between 0 and 1"),
        ({"schedule": [0.1, 0.2], "n_steps": 3}, "n_steps=3 is not the number of levels of the schedule, 2"),
        ({"data_levels": 5}, "data_levels=5 does not fit X: 5 is none of 5 equal steps from 0 to 16"),
        ({"data_levels": None, "prediction": "levels"}, "prediction='levels' needs data on a grid"),
        ({"prediction": "noise", "variance": "learned", "objective": "simple"}, "variance='learned' has no part"),
        ({"network": jensen.ConvEncoder()}, "network=ConvEncoder"),
    ],
)
def test_bad_arguments(digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        quick(**arguments).fit(digits)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.score_samples(np.where(x == 3, np.nan, x)), "X holds NaN in row"),
        (lambda m, x: m.score_samples(x + 0.5), "X holds 0.5 in row 0, column 0, which is none of the 17 levels 0, 1"),
        (lambda m, x: m.score_samples(x + 1), "X holds 17 in row"),
        (lambda m, x: m.score_samples(x[:, :4]), r"rows of shape \(4, 8\)"),
        (lambda m, x: m.bound(x, levels=2), "levels=2 must be 'all', or a number of levels per row, 4 or more"),
        (lambda m, x: m.bound(x, levels="some"), "levels='some'"),
        (lambda m, x: m.sample(0), "n_samples=0"),
        (lambda m, x: m.sample(1, steps=51), "steps=51 must be a whole number from 1 to the 50 levels"),
        (lambda m, x: m.sample(1, sampler="euler"), "sampler='euler' is not known; choose 'ancestral', 'ddim', 'dpm'"),
        (lambda m, x: m.sample(1, eta=0.5), "eta=0.5 is for sampler='ddim'"),
        (lambda m, x: m.sample(1, sampler="ddim", eta=2), r"eta=2 is the fraction of the noise .* \[0, 1\]"),
        (lambda m, x: m.sample(1, y=3), "y=3 asks for a class"),
        (lambda m, x: m.sample(1, guidance=-1.0), "guidance=-1.0 must be a number, 0 or more"),
        (lambda m, x: m.sample(1, guidance=math.nan), "guidance=nan must be"),
        (lambda m, x: m.score_samples(x[:0]), "no rows"),
        (lambda m, x: m.posterior(x, level=51), "level=51 is beyond the 50 levels"),
    ],
)
def test_bad_questions(fitted, digits, call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted, digits[:20])


def test_an_unfitted_model():
    with pytest.raises(NotFittedError):
        Diffusion().sample(1)


def test_all_levels_have_their_own_term():
    module = known_module(Schedule.linear(50))
    with torch.inference_mode():
        profile = all_levels(module, torch.tensor(mixture_rows(3, 0), dtype=torch.float32), streams(3), CPU)
    assert profile.nats.shape == profile.error.shape == (3, 50)
