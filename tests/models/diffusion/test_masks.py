"""Diffusions whose network is told what is known of a row: draws against a known posterior, in one reverse chain."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from torch import nn

import jensen
from jensen import MLP, VAE, Diffusion, LatentDiffusion, ResidualMLP, Schedule, UNet
from jensen.models.diffusion.build import NoisedView
from jensen.models.diffusion.inference import Chain
from jensen.models.diffusion.masks import Known, Masks, rectangles
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.samplers.ancestral import ancestral
from jensen.models.diffusion.space import Space
from jensen.report.imputation import SHORT, shortened
from known_denoisers import conditional, unit_columns

NAN = math.nan
COVARIANCE = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.6], [0.5, 0.6, 1.0]])
FLAT = ResidualMLP(width=32, n_blocks=1)
SMALL = UNet(channels=(8,), n_blocks=1, middle_attention=False)


def quick(**arguments):
    options = {"n_steps": 20, "max_epochs": 3, "network": FLAT, "batch_size": 64, "random_state": 0}
    return Diffusion(**(options | {"imputation": "masks"} | arguments))


def holed(x, share=0.3, seed=0):
    return np.where(np.random.default_rng(seed).random(x.shape) < share, np.nan, x)


# Against the posterior of a Gaussian


class ToldGaussian(nn.Module):
    """The velocity of N(0, Σ) given x_t of the hidden entries and x_0 of the known ones; there is nothing to train."""

    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule

    def forward(self, x, t, y=None):
        out = torch.zeros(len(x), 3)
        for i, row in enumerate(x.double().numpy()):
            xt, values, known = row[:3], row[3:6], row[6:].astype(bool)
            place = round(float(t[i]) * self.schedule.n_levels / 1000)
            bar = self.schedule.alpha_bar[place]
            mean, cov = conditional(np.zeros(3), COVARIANCE, np.where(known, values, NAN))
            gain = math.sqrt(bar) * cov @ np.linalg.inv(bar * cov + (1 - bar) * np.eye(len(cov)))
            x0 = mean + gain @ (xt[~known] - math.sqrt(bar) * mean)
            out[i, ~known] = torch.tensor((math.sqrt(bar) * xt[~known] - x0) / math.sqrt(1 - bar)).float()
        return out


def told_module(network, schedule, has_missing=False):
    view = NoisedView((3,), (), n_beside=6 + 3 * has_missing)
    space = Space(unit_columns(3), "velocity", "beta")
    options = {"is_uniform": True, "has_missing": has_missing, "masks": Masks((3,))}
    return DiffusionModule(view, network, space, schedule, **options).eval()


def test_one_chain_of_the_exact_network_draws_from_the_posterior():
    """No resampling and no bias, where RePaint stays short of the mean."""
    schedule, n = Schedule.cosine(100), 1000
    module = told_module(ToldGaussian(schedule), schedule)
    row = np.array([1.5, NAN, NAN])
    points, generator = torch.tensor(row).float().expand(n, -1), torch.Generator().manual_seed(0)
    chain = Chain(ancestral, schedule, True, known=Known(points, ~points.isnan()))
    with torch.no_grad():
        *_, last = chain(module, torch.randn(n, 3, generator=generator), generator)
        drawn = chain.decoded(module, last, generator).numpy()[:, 1:]
    mean, cov = conditional(np.zeros(3), COVARIANCE, row)
    std = np.sqrt(np.diag(cov))
    # Four standard errors; of the deviations also 2 % that variance β leaves in a hundred steps.
    assert_allclose((drawn.mean(0) - mean) / std, 0, atol=4 / math.sqrt(n))
    assert_allclose(np.log(drawn.std(0) / std), 0, atol=4 / math.sqrt(2 * n) + 0.02)
    assert_allclose(np.corrcoef(drawn.T)[0, 1], cov[0, 1] / std.prod(), atol=4 / math.sqrt(n))


@pytest.fixture(scope="module")
def gaussian():
    """A trained model, the mean and the covariance of its rows, in units of their own."""
    x = np.random.default_rng(0).multivariate_normal(np.zeros(3), COVARIANCE, 2000) * [1.0, 0.1, 20.0] + [3, -1, 50]
    options = {"n_steps": 50, "data_levels": None, "max_epochs": 60, "learning_rate": 5e-3, "batch_size": 128}
    return quick(**options).fit(x), x.mean(0), np.cov(x.T)


@pytest.mark.parametrize("entries", [(1.0, NAN, NAN), (NAN, -1.0, -0.5), (0.5, NAN, -0.5), (NAN, NAN, 1.0)])
def test_means_and_deviations_are_those_of_the_conditional(gaussian, entries):
    model, mean, covariance = gaussian
    row, n = mean + np.sqrt(np.diag(covariance)) * entries, 2000
    drawn = np.stack(model.impute_draws(row[None], n, random_state=0))[:, 0, np.isnan(row)]
    truth, cov = conditional(mean, covariance, row)
    std = np.sqrt(np.diag(cov))
    # Four standard errors of the draws, and what 900 steps of training leave: over eight seeds the largest errors were
    # 0.28 deviations of a mean and 0.18 of the logarithm of a deviation; 0.11 and 0.11 with this one.
    assert_allclose((drawn.mean(0) - truth) / std, 0, atol=4 / math.sqrt(n) + 0.2)
    assert_allclose(np.log(drawn.std(0) / std), 0, atol=4 / math.sqrt(2 * n) + 0.15)
    filled = model.impute(row[None], n_draws=400)[0, np.isnan(row)]
    assert_allclose((filled - truth) / std, 0, atol=4 / math.sqrt(400) + 0.2)


def test_what_is_known_moves_the_imputation_and_comes_back_as_it_was(gaussian):
    model, mean, covariance = gaussian
    std = np.sqrt(np.diag(covariance))
    rows = mean + std * [[a, NAN, 0.0] for a in (-1.0, 0.0, 1.0)]
    filled = model.impute(rows, n_draws=400)
    assert_array_equal(filled[:, [0, 2]], rows[:, [0, 2]])
    gain = (covariance[1, [0, 2]] @ np.linalg.inv(covariance[np.ix_([0, 2], [0, 2])]))[0]
    # Two means of 400 draws with a deviation below 0.6, each with its error, and that of training.
    assert_allclose(np.diff(filled[:, 1]) / std[1], gain * std[0] / std[1], atol=4 * math.sqrt(2 / 400) * 0.6 + 0.15)


def test_a_row_of_which_nothing_is_known_is_a_sample(gaussian):
    model, mean, covariance = gaussian
    drawn = model.impute_draws(np.full((1000, 3), NAN), random_state=0)[0]
    std = np.sqrt(np.diag(covariance))
    assert_allclose((drawn.mean(0) - mean) / std, 0, atol=4 / math.sqrt(1000) + 0.15)
    assert_allclose(np.corrcoef(drawn.T), COVARIANCE, atol=4 / math.sqrt(1000) + 0.05)


# What the network is told, and what it is asked


class Looking(nn.Module):
    """Zeros for what it is given, which it keeps."""

    def __init__(self):
        super().__init__()
        self.given = []

    def forward(self, x, t, y=None):
        self.given.append(x)
        return torch.zeros(len(x), 3)


@pytest.mark.parametrize("has_missing", [False, True])
def test_known_values_are_given_without_noise_and_the_others_with(has_missing):
    schedule = Schedule.linear(30)
    module = told_module(Looking(), schedule, has_missing)
    xt, x0 = torch.full((2, 3), 5.0), torch.tensor([[1.0, 2.0, 3.0], [NAN, NAN, 4.0]])
    mask = torch.tensor([[True, False, True], [False, False, True]])
    ones = torch.ones(2, 3)
    module.belief(xt, torch.tensor([3, 4]), known=Known(x0, mask))
    expected = [torch.where(mask, 0, xt), *([ones] if has_missing else []), torch.where(mask, x0, 0), mask.float()]
    assert_array_equal(module.network.given[0], torch.cat(expected, 1))
    module.belief(xt, torch.tensor([3, 4]))
    unknown = [xt, *([ones] if has_missing else []), 0 * ones, 0 * ones]
    assert_array_equal(module.network.given[1], torch.cat(unknown, 1))


def test_an_image_has_channels_of_the_known_values_and_of_the_mask():
    view = NoisedView((3, 4, 4), (1.0,), n_beside=6)
    known, mask = torch.randn(2, 48), torch.rand(2, 48) < 0.5
    seen = view(torch.ones(2, 48), known, mask)
    assert seen.shape == (2, *view.in_shape) == (2, 15, 4, 4)
    assert_array_equal(seen[:, 9:12], known.view(2, 3, 4, 4))
    assert_array_equal(seen[:, 12:], mask.view(2, 3, 4, 4))


@pytest.mark.parametrize("prediction", ["velocity", "levels"])
def test_terms_are_sums_over_what_is_hidden_and_observed(prediction):
    """Known entries and missing ones enter no term, whatever they would have been."""
    x = holed(load_digits().images[:31].reshape(31, -1)[:, 20:24], seed=1)
    model = quick(prediction=prediction).fit(x)
    module, (x, _) = model.module_, model._read_events(x)
    level = torch.arange(31) % 20 + 1
    noise = torch.randn(31, 4, generator=torch.Generator().manual_seed(0))
    mask = (torch.rand(31, 4, generator=torch.Generator().manual_seed(1)) < 0.5) & ~x.isnan()
    x0 = module.space.embed(x)
    with torch.no_grad():
        found = module.terms(x, x0, level, noise, known=Known(x0, mask))
        other_noise = torch.where(mask | x.isnan(), -noise, noise)
        other = module.terms(x, x0, level, other_noise, known=Known(x0, mask))
        # The sum over one entry at a time: the others are missing as targets, but the network is told the same.
        parts = []
        for j in range(4):
            only = torch.where(torch.arange(4) == j, x, NAN)
            parts.append(told_terms(module, only, x, x0, level, noise, mask))
    for term in ("nats", "simple", "error"):
        assert_array_equal(getattr(found, term), getattr(other, term))
        assert_allclose(getattr(found, term), sum(getattr(part, term) for part in parts), rtol=1e-4, atol=1e-5)
    everything = Known(x0, ~x.isnan())
    assert_array_equal(module.terms(x, x0, level, noise, known=everything).simple.detach(), torch.zeros(31))


def told_terms(module, targets, x, x0, level, noise, mask):
    """Terms of the targets alone, from a network that sees everything."""
    sees, module.given = module.given, lambda xt, observed, known: sees(xt, ~x.isnan(), Known(x0, mask))
    try:
        return module.terms(targets, x0, level, noise, known=Known(x0, mask & ~targets.isnan()))
    finally:
        del module.given


def test_masks_have_any_number_of_known_entries_among_the_observed_ones():
    torch.manual_seed(0)
    n, d = 20000, 4
    observed = torch.rand(n, d) < 0.8
    whole = Masks((d,)).draw(torch.zeros(n, d), None, d).mask
    some = Masks((d,)).draw(torch.zeros(n, d), observed, d).mask
    assert not (some & ~observed).any()
    # Of half of the rows each number from 0 to 4 of entries is known equally often, and of the others none.
    shares = torch.bincount(whole.sum(1), minlength=d + 1) / n
    assert_allclose(shares, [0.6, 0.1, 0.1, 0.1, 0.1], atol=4 * 0.5 / math.sqrt(n))


def test_rectangles_are_cut_by_all_sides_and_shared_by_channels():
    torch.manual_seed(0)
    n = 20000
    masks = rectangles(n, 2, 8, 8, torch.device("cpu")).view(n, 2, 8, 8)
    assert_array_equal(masks[:, 0], masks[:, 1])
    first = masks[:, 0]
    # Half of the rectangles are known and half are hidden, so each pixel is known half of the time.
    assert_allclose(first.float().mean(0), np.full((8, 8), 0.5), atol=4 * 0.5 / math.sqrt(n))
    lower = torch.zeros(8, 8, dtype=torch.bool)
    lower[4:] = True
    for half in (lower, ~lower, lower.T, ~lower.T):
        assert (first == half).flatten(1).all(1).any()


# Fits


def test_the_bound_samples_and_classes_are_those_of_nothing_known():
    """What the network does with known values does not matter to them."""
    x, y = load_iris(return_X_y=True)
    model = quick().fit(x, y)

    def unconditional():
        return (
            model.score_samples(x[:5]),
            model.sample(3)[0],
            model.predict_proba(x[:5]),
            model.ode_log_prob(x[:5]).value,
        )

    before = unconditional()
    filled = model.impute(holed(x), n_draws=2, steps=5)
    d = x.shape[1]
    with torch.no_grad():
        weight = model.module_.network.first.weight[:, d : 3 * d]
        weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    for one, other in zip(before, unconditional(), strict=True):
        assert_array_equal(one, other)
    assert not np.array_equal(model.impute(holed(x), n_draws=2, steps=5), filled)


def mixed(n=150):
    rng = np.random.default_rng(0)
    town = rng.choice(["Bonn", "Oslo", "Rome"], n)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 3, n).round(2) + 25 * (town == "Oslo"),
            "gain": np.where(rng.random(n) < 0.5, 0.0, rng.normal(9, 1, n)),
            "town": pd.Categorical(town),
            "smokes": rng.random(n) < 0.5,
        }
    )


@pytest.mark.parametrize("network", [FLAT, MLP(hidden=(16,))])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("has_labels", [False, True])
def test_tables_of_any_kind(network, share, has_labels, tmp_path):
    frame = mixed()
    hidden = np.random.default_rng(1).random(frame.shape) < share
    y = np.where(np.arange(len(frame)) % 3, np.arange(len(frame)) % 2, -1) if has_labels else None
    columns = {"gain": {"kind": "number", "atoms": [0]}}
    model = quick(network=network, columns=columns).fit(frame.mask(hidden), y)
    assert model._facts.has_missing == bool(share)
    model.save(tmp_path / "m.jensen")
    loaded = jensen.load(tmp_path / "m.jensen")
    assert loaded.get_params()["imputation"] == clone(model).imputation == "masks"
    rows = frame.mask(np.random.default_rng(2).random(frame.shape) < 0.3)
    filled = model.impute(rows, n_draws=2, steps=5)
    assert not filled.isna().any(axis=None)
    pd.testing.assert_frame_equal(filled[rows.notna()], rows.astype(filled.dtypes), check_dtype=False)
    pd.testing.assert_frame_equal(loaded.impute(rows, n_draws=2, steps=5), filled)
    assert np.isfinite(model.score_samples(frame[:5])).all()


# With 300 levels training takes some columns of a row at a time.
@pytest.mark.parametrize("n_levels", [17, 300])
@pytest.mark.parametrize("objective", ["simple", "variational", "hybrid"])
def test_images_of_any_objective_with_missing_pixels(n_levels, objective):
    images = np.rint(load_digits().images[:60] * ((n_levels - 1) / 16)).astype(np.float32)
    model = quick(network=SMALL, data_levels=n_levels, objective=objective, max_epochs=2).fit(holed(images, 0.1))
    rows = images[:3].copy()
    rows[:, :4] = NAN
    filled = model.impute(rows, n_draws=2, steps=5)
    assert_array_equal(filled[:, 4:], rows[:, 4:])
    assert np.isfinite(model.score_samples(images[:3])).all()


def test_one_chain_goes_through_the_network_once_per_step(monkeypatch):
    x = load_iris().data
    model, asked = quick().fit(x), []
    denoise = model.module_.denoise

    def counted(x, *arguments, **keywords):
        asked.append(len(x))
        return denoise(x, *arguments, **keywords)

    monkeypatch.setattr(model.module_, "denoise", counted)
    rows = x[:9].copy()
    rows[4, 2] = rows[7, 0] = NAN
    model.impute(rows, n_draws=3, steps=4)
    assert asked == [6] * 4


def test_a_fit_decides_not_an_argument_that_was_changed_later():
    x = load_iris().data
    model, plain = quick().fit(x), quick(imputation="repaint").fit(x)
    rows = holed(x)
    filled = [one.impute(rows, n_draws=1, steps=3) for one in (model, plain)]
    model.set_params(imputation="repaint")
    plain.set_params(imputation="masks")
    for one, before in zip((model, plain), filled, strict=True):
        assert_array_equal(one.impute(rows, n_draws=1, steps=3), before)


def test_ten_resamplings_are_the_default_of_repaint():
    x = load_iris().data
    model, rows = quick(imputation="repaint").fit(x), holed(x)[:9]
    assert model.module_.masks is None
    plain, ten = (model.impute(rows, n_draws=1, steps=3, **how) for how in ({}, {"resamplings": 10}))
    assert_array_equal(plain, ten)
    assert not np.array_equal(plain, model.impute(rows, n_draws=1, steps=3, resamplings=9))


# Errors


def test_resamplings_are_for_repaint():
    x = load_iris().data
    model = quick(max_epochs=1).fit(x)
    for ask in (model.impute, model.impute_draws):
        with pytest.raises(ValueError, match=r"resamplings=5 is for imputation='repaint'.*leave resamplings out"):
            ask(holed(x), resamplings=5)


def test_reports_repeat_no_step_of_masks():
    for by, left_out in (("masks", {"resamplings"}), ("repaint", set())):
        subject = SimpleNamespace(model=quick(imputation=by), quick=SimpleNamespace(n_draws=None))
        assert set(SHORT) - set(shortened(subject)) == left_out


def test_only_two_ways_are_known():
    with pytest.raises(ValueError, match="'imputation' parameter of Diffusion must be a str among"):
        quick(imputation="mask").fit(load_iris().data)


def test_a_latent_prior_has_no_masks():
    model = LatentDiffusion(VAE(2, max_epochs=1), quick(), random_state=0)
    with pytest.raises(ValueError, match="diffusion has imputation='masks', but a LatentDiffusion imputes"):
        model.fit(load_iris().data)


def test_pipelines_have_no_inputs_beside_the_image(tmp_path):
    images = load_digits().images[:60]
    network = UNet(channels=(8,), n_blocks=1, position_map=False)
    model = quick(network=network, n_steps=1000, prediction="noise", data_levels=17, max_epochs=1)
    with pytest.raises(ValueError, match="imputation='masks' gives the network inputs beside the image"):
        model.to_diffusers(tmp_path / "p")
    model.fit(images).set_params(imputation="repaint")
    with pytest.raises(ValueError, match="imputation='masks' gives the network inputs beside the image"):
        model.to_diffusers(tmp_path / "p")
