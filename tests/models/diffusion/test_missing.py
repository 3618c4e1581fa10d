"""Diffusions and missing entries: draws against a known posterior, an objective over what is observed."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris
from torch import nn
from torch.utils.data import TensorDataset

import jensen
from jensen import VAE, Denoiser, Diffusion, ResidualMLP, Schedule, UNet
from jensen.data.infer import learn_columns
from jensen.data.levels import Grid
from jensen.data.scaled import with_grid
from jensen.models.diffusion.build import NoisedView
from jensen.models.diffusion.inference import mean_of_draws
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.space import Space
from known_denoisers import GaussianData, conditional, unit_columns

COVARIANCE = [[1.0, 0.8, 0.5], [0.8, 1.0, 0.6], [0.5, 0.6, 1.0]]
SCHEDULE = Schedule.cosine(1000)
SMALL = UNet(channels=(8,), n_blocks=1, middle_attention=False)
FLAT = ResidualMLP(width=32, n_blocks=1)
NAN = math.nan


class Correlated(Denoiser):
    """A Gaussian with the correlations above, of columns that are standardised."""

    def build(self, in_shape, out_shape, n_classes=0):
        return GaussianData(SCHEDULE, COVARIANCE)


@pytest.fixture(scope="module")
def gaussian():
    """The model, its mean and its covariance in the units of the data."""
    x = np.random.default_rng(0).normal([3.0, -1.0, 50.0], [1.0, 0.1, 20.0], (500, 3))
    model = Diffusion(SCHEDULE, network=Correlated(), data_levels=None, random_state=0).fit(x)
    return model, x.mean(0), np.outer(x.std(0), x.std(0)) * COVARIANCE


def in_deviations(mean, std, *entries):
    """A row so many deviations from the mean."""
    return mean + std * np.array(entries)


def biases(gaussian, rows, n_draws, **options):
    """Of every row how far draws of its missing entries lie from the truth: means in deviations, log variances, one
    correlation.
    """
    model, mean, covariance = gaussian
    filled = np.stack(model.impute_draws(rows, n_draws, **options), 1)
    for row, own in zip(rows, filled, strict=True):
        draws, (truth, cov) = own[:, np.isnan(row)], conditional(mean, covariance, row)
        std = np.sqrt(np.diag(cov))
        corr = np.corrcoef(draws.T)[0, 1] - cov[0, 1] / (std[0] * std[1]) if len(std) > 1 else 0.0
        yield (draws.mean(0) - truth) / std, np.log(draws.var(0) / std**2), corr


# Against the posterior of a Gaussian


def test_draws_are_of_the_conditional_gaussian(gaussian):
    _, mean, covariance = gaussian
    entries, n = ((1.0, NAN, NAN), (NAN, -1.0, 1.0), (NAN, NAN, NAN)), 1000
    rows = np.stack([in_deviations(mean, np.sqrt(np.diag(covariance)), *own) for own in entries])
    for centre, log_var, corr in biases(gaussian, rows, n, steps=100, resamplings=40):
        # Four standard errors, which of these few numbers happen by chance once in two thousand runs.
        assert (abs(centre) < 4 / math.sqrt(n)).all()
        assert (abs(log_var) < 4 * math.sqrt(2 / n)).all()
        assert abs(corr) < 4 / math.sqrt(n)


def test_resampling_brings_the_unknown_to_the_known(gaussian):
    """What is left of the way, and of the variance too much, as docs/diffusion-reference.md tells it."""
    _, mean, covariance = gaussian
    row, n = in_deviations(mean, np.sqrt(np.diag(covariance)), 1.5, NAN, NAN), 2000
    told = {
        1: ([-0.80, -0.52], [1.43, 1.13]),
        2: ([-0.50, -0.35], [1.23, 1.10]),
        5: ([-0.21, -0.18], [1.09, 1.04]),
        10: ([-0.10, -0.09], [1.04, 1.02]),
        20: ([-0.04, -0.05], [1.02, 1.01]),
    }
    for resamplings, (lag, var) in told.items():
        ((centre, log_var, _),) = biases(gaussian, row[None], n, steps=100, resamplings=resamplings)
        # Four standard errors of what was told, from ten times as many draws, and of these.
        assert_allclose(centre, lag, atol=4 * math.sqrt(1.5 * 1.1 / n))
        assert_allclose(log_var, np.log(var), atol=4 * math.sqrt(2 * 1.1 / n))


def test_the_mean_of_draws_is_imputed(gaussian):
    model, mean, covariance = gaussian
    rows = np.stack([in_deviations(mean, np.sqrt(np.diag(covariance)), a, NAN, -0.5) for a in (-1.0, 0.0, 1.0)])
    filled = model.impute(rows, n_draws=500, steps=50, resamplings=20)
    expected = [conditional(mean, covariance, row)[0][0] for row in rows]
    std = math.sqrt(conditional(mean, covariance, rows[0])[1][0, 0])
    # The error of 500 draws, and what twenty resamplings leave.
    assert_allclose(filled[:, 1], expected, atol=(4 / math.sqrt(500) + 0.06) * std)
    assert_array_equal(model.impute(rows, n_draws=4), model.impute(rows, n_draws=4))


def test_a_row_with_nothing_is_a_sample(gaussian):
    model, mean, covariance = gaussian
    drawn = np.concatenate(model.impute_draws(np.full((500, 3), np.nan), 2, steps=50, resamplings=2))
    std = np.sqrt(np.diag(covariance))
    assert (abs(drawn.mean(0) - mean) < 4 * std / math.sqrt(1000)).all()
    assert_allclose(np.cov(((drawn - mean) / std).T), COVARIANCE, atol=0.2)


# The objective


class ByColumn(nn.Module):
    """A smooth function of every entry by itself, which knows no others."""

    def forward(self, x, t, y=None):
        return torch.tanh(x) + t[:, None] / 1000


def by_column(columns, network=None):
    space = Space(columns, "velocity", "beta")

    def view(xt, observed=None):
        return xt

    network = ByColumn() if network is None else network
    return DiffusionModule(view, network, space, Schedule.linear(30), is_uniform=False, has_missing=True).eval()


def grid_of(n_columns):
    columns = learn_columns(np.array([[0.0] * n_columns, [1.0] * n_columns]), "number")
    return with_grid(columns, Grid(0.0, 1.0, 5))


@pytest.mark.parametrize("kind", ["number", "grid"])
def test_terms_of_a_row_are_those_of_its_observed_columns(kind):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (31, 3)).astype(float) if kind == "grid" else rng.normal(size=(31, 3))
    whole, part = (by_column(grid_of(d) if kind == "grid" else unit_columns(d)) for d in (3, 2))
    row = torch.tensor(np.where(np.arange(3) == 1, np.nan, x)).float()
    kept = torch.tensor(x[:, [0, 2]]).float()
    level = torch.arange(31) % 30 + 1
    noise = torch.randn(31, 3, generator=torch.Generator().manual_seed(0))
    found = whole.terms(row, whole.space.embed(row), level, noise)
    expected = part.terms(kept, part.space.embed(kept), level, noise[:, [0, 2]])
    assert_allclose(found.nats, expected.nats, rtol=1e-5)
    assert_allclose(found.error, expected.error, rtol=1e-5)
    # A sum over what is observed, by the number of all columns.
    assert_allclose(3 * found.simple, 2 * expected.simple, rtol=1e-5)
    assert_allclose(whole(row)["prior"], part(kept)["prior"], rtol=1e-5)


def mixed_frame():
    return pd.DataFrame(
        {
            "a": [0.1, None, 2.0, 1.0, 0.3],
            "b": [True, False, None, True, False],
            "c": ["u", "v", None, "u", "w"],
            "d": pd.Categorical(["x", None, "y", "y", "x"]),
        }
    )


class Silent(nn.Module):
    def __init__(self, n_outputs):
        super().__init__()
        self.n_outputs = n_outputs

    def forward(self, x, t, y=None):
        return torch.zeros(len(x), self.n_outputs)


@pytest.mark.parametrize("kept", [["a", "d"], ["a", "c"], ["b", "c"], ["d"]])
def test_terms_of_categories_are_those_of_the_observed_columns(kept):
    """Of three levels and of two, beside numbers and by themselves."""
    frame = mixed_frame()
    every, some = learn_columns(frame), learn_columns(frame[kept])
    whole, part = (
        by_column(columns, Silent(Space(columns, "velocity", "beta").n_outputs)) for columns in (every, some)
    )
    row = every.encode(frame.iloc[[3, 3]]).float()
    own = torch.tensor([list(frame).index(name) for name in kept])
    rows, rest = row[:, own], torch.tensor([j for j in range(4) if j not in own])
    row[:, rest] = NAN
    # The first level too, where the units of the data count.
    level = torch.tensor([1, 7])
    noise = torch.randn(2, every.n_expanded, generator=torch.Generator().manual_seed(1))
    found = whole.terms(row, whole.space.embed(row), level, noise)
    expected = part.terms(rows, part.space.embed(rows), level, noise[:, torch.isin(every.plan.source, own)])
    assert_allclose(found.nats, expected.nats, rtol=1e-5)
    assert_allclose(found.error, expected.error, rtol=1e-5)
    assert_allclose(4 * found.simple, len(kept) * expected.simple, rtol=1e-5)


def test_levels_start_at_the_frequencies_of_what_is_observed():
    columns = grid_of(2)
    space = Space(columns, "levels", "posterior")
    x = torch.tensor([[0.0, 4.0], [0.0, NAN], [1.0, NAN], [NAN, NAN]])
    complete = torch.tensor([[0.0, 4.0], [0.0, 4.0], [1.0, 4.0]])
    start = space.marginal_start(x).exp()
    # Three values 0, 0, 1 and the one value 4 in all, and five rows more, half of them with these shares.
    common = np.array([2, 1, 0, 0, 1]) / 4
    expected = (np.array([2, 1, 0, 0, 0]) + 2.5 / 5 + 2.5 * common) / 8
    assert_allclose(start[:, 0], expected, rtol=1e-5)
    assert_allclose(start[4, 1], (1 + 0.5 + 2.5 / 4) / 6, rtol=1e-5)
    assert space.marginal_start(complete).exp()[4, 1] > start[4, 1]


def test_a_network_sees_what_is_observed_and_zero_elsewhere():
    given = []

    class Looking(ByColumn):
        def forward(self, x, t, y=None):
            given.append(x)
            return torch.zeros(len(x), 2)

    space = Space(unit_columns(2), "velocity", "beta")
    view = NoisedView((2,), (), n_beside=2)
    assert view.in_shape == (4,)
    module = DiffusionModule(view, Looking(), space, Schedule.linear(30), is_uniform=True, has_missing=True)
    x = torch.tensor([[0.5, NAN], [NAN, NAN], [1.0, 2.0]])
    module(x)
    assert_array_equal(given[0][:, 2:], [[1, 0], [0, 0], [1, 1]])
    assert_array_equal(given[0][:, :2] == 0, x.isnan())
    module.belief(torch.ones(2, 2), torch.tensor([3, 4]))
    assert_array_equal(given[1], torch.ones(2, 4))
    image = NoisedView((3, 4, 4), (1.0,), n_beside=3)
    assert image(torch.ones(2, 48), torch.ones(2, 48, dtype=torch.bool)).shape == (2, *image.in_shape) == (2, 12, 4, 4)


# Fits


def quick(**arguments):
    options = {"n_steps": 50, "max_epochs": 3, "network": FLAT, "batch_size": 64, "random_state": 0}
    return Diffusion(**(options | arguments))


def holed(x, share=0.3, seed=0):
    return np.where(np.random.default_rng(seed).random(x.shape) < share, np.nan, x)


def weights_of(model):
    return torch.cat([weight.flatten() for weight in model.module_.state_dict().values()])


def test_what_is_hidden_teaches_nothing():
    """Whatever stands in the place of a missing entry before it is noised, and whatever noise it gets."""
    model = quick().fit(holed(load_iris().data))
    x, _ = model._read_events(holed(load_iris().data))
    x0, level = model.module_.space.embed(x), torch.arange(len(x)) % model.schedule_.n_levels + 1
    noise = torch.randn(x0.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = model.module_.terms(x, x0, level, noise)
        other = model.module_.terms(x, torch.where(x.isnan(), 7.0, x0), level, torch.where(x.isnan(), -noise, noise))
    for term in ("nats", "simple", "error"):
        assert_array_equal(getattr(found, term), getattr(other, term))


def test_images_may_be_of_a_type_that_numpy_has_not():
    images = torch.tensor(load_digits().images[:50])
    found, expected = (
        VAE(2, max_epochs=1, random_state=0).fit(x).score_samples(x) for x in (images.bfloat16(), images.float())
    )
    # Whole numbers up to 16 are exact in both.
    assert_array_equal(found, expected)


@pytest.mark.parametrize("model", [Diffusion(n_steps=20, network=SMALL), VAE(2)], ids=["diffusion", "vae"])
def test_a_mask_says_what_is_missing_in_images(model):
    images = load_digits().images[:50].astype(np.float32)
    mask = np.zeros(images.shape, bool)
    mask[::2, :4] = True
    masked = np.ma.masked_array(images, mask)
    model.set_params(max_epochs=1, random_state=0).fit(masked)
    assert model._facts.has_missing
    options = {"n_draws": 1, "steps": 2, "resamplings": 1} if isinstance(model, Diffusion) else {}
    filled = model.impute(masked, **options)
    assert_array_equal(filled[~mask], images[~mask])
    assert (filled != images)[mask].mean() > 0.5
    assert_array_equal(filled, model.impute(np.where(mask, np.nan, images), **options))


def test_complete_rows_are_scored_after_a_fit_with_holes():
    """A third of the numbers less teach less, but not another model; columns without relation cost -4.9."""
    x = load_iris().data
    options = {"max_epochs": 250, "network": ResidualMLP(64, 2), "learning_rate": 3e-3}
    complete, with_holes = quick(**options).fit(x), quick(**options).fit(holed(x))
    assert not complete._facts.has_missing
    assert with_holes._facts.has_missing
    gap = complete.score(x) - with_holes.score(x)
    assert -0.2 < gap < 1.0
    rows, hidden = holed(x, seed=1), np.isnan(holed(x, seed=1))
    for model in (complete, with_holes):
        error = (model.impute(rows, steps=25) - x)[hidden]
        plain = (np.nanmean(rows, 0) - x)[hidden]
        assert (error**2).mean() < 0.5 * (plain**2).mean()


# An objective knows nothing of the network, and one of them is enough for the U-Net.
@pytest.mark.parametrize(
    ("objective", "data_levels", "network"),
    [
        ("simple", "auto", SMALL),
        ("variational", "auto", FLAT),
        ("hybrid", "auto", FLAT),
        ("simple", None, FLAT),
        ("variational", None, FLAT),
        ("hybrid", None, FLAT),
    ],
)
def test_every_objective_learns_from_holes_and_is_kept_by_a_file(objective, data_levels, network, tmp_path):
    x = holed(load_digits().images[:200])
    options = {"network": network, "max_epochs": 30, "batch_size": 32, "learning_rate": 5e-3}
    model = quick(objective=objective, data_levels=data_levels, **options).fit(x)
    raised = model.history_["objective"]
    assert raised.iloc[-1] > raised.iloc[0]
    model.save(tmp_path / "m.jensen")
    loaded, rows = jensen.load(tmp_path / "m.jensen"), x[:2]
    assert_array_equal(loaded.impute(rows, n_draws=1, steps=5), model.impute(rows, n_draws=1, steps=5))
    assert model.score_samples(load_digits().images[:5]).shape == (5,)


def test_rows_on_disk_may_have_holes_unless_they_are_integers(tmp_path):
    images = load_digits().images[:60]
    files = {"whole": images.astype(np.uint8), "holed": holed(images).astype(np.float32)}
    for name, rows in files.items():
        np.save(tmp_path / f"{name}.npy", rows)
    whole, with_holes = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in files)
    assert not quick(network=SMALL, max_epochs=1).fit(whole)._facts.has_missing
    assert not VAE(2, max_epochs=1, random_state=0).fit(whole)._facts.has_missing
    assert not quick(network=SMALL, max_epochs=1).fit(TensorDataset(torch.tensor(files["whole"])))._facts.has_missing
    on_disk = quick(network=SMALL, max_epochs=2).fit(with_holes)
    in_memory = quick(network=SMALL, max_epochs=2).fit(np.array(with_holes))
    assert on_disk._facts.has_missing
    assert on_disk.columns_.is_grid
    assert_allclose(weights_of(on_disk), weights_of(in_memory), atol=1e-4)
    seen = ~np.isnan(with_holes[:2])
    assert_array_equal(on_disk.impute(with_holes[:2], n_draws=2, steps=5)[seen], with_holes[:2][seen])


# Imputations


@pytest.fixture(scope="module")
def images():
    return load_digits().images[:200]


@pytest.fixture(scope="module")
def of_images(images):
    """Hardly trained: what comes back as it was, and what is refused, is so for any weights."""
    return quick(network=SMALL, max_epochs=1).fit(images)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_images_come_back_bit_for_bit(of_images, images, dtype):
    rows = holed(images[:6].astype(dtype))
    before, seen = rows.copy(), ~np.isnan(rows)
    draws = of_images.impute_draws(rows, 2, random_state=0, steps=10)
    mean = of_images.impute(rows, n_draws=3, steps=10)
    for filled in (*draws, mean):
        assert filled.dtype == rows.dtype
        assert_array_equal(filled[seen], rows[seen])
        assert 0 <= filled.min() <= filled.max() <= 16
    for filled in draws:
        assert_array_equal(filled % 1, 0)
    assert not np.array_equal(*draws)
    assert_array_equal(rows, before)
    tensor = of_images.impute_draws(torch.tensor(rows), random_state=0, steps=10)[0]
    assert isinstance(tensor, torch.Tensor)
    assert_array_equal(tensor[torch.tensor(seen)], rows[seen])


def test_numbers_come_back_bit_for_bit_in_any_units():
    x = np.random.default_rng(0).normal(1e5, 1e-3, (60, 3)) * np.array([1.0, 1e-8, 1e8])
    model, rows = quick().fit(holed(x)), holed(x, seed=1)
    for given in (rows, rows.astype(np.float32), torch.tensor(rows)):
        filled = model.impute_draws(given, steps=5)[0]
        assert filled.dtype == given.dtype
        seen = ~np.isnan(np.asarray(given))
        assert_array_equal(np.asarray(filled)[seen], np.asarray(given)[seen])
        assert np.isfinite(np.asarray(filled)).all()


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bonn", "Oslo", "Rome"], n)
    smokes = rng.random(n) < np.where(town == "Rome", 0.95, 0.05)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 3, n) + 25 * (town == "Oslo"),
            "smokes": smokes.astype(object),
            "town": pd.Categorical(town),
            "name": np.where(smokes, "s", "n").astype(object),
        },
        index=[f"row {i}" for i in range(n)],
    )


@pytest.fixture(scope="module")
def of_people():
    frame = people()
    hidden = np.random.default_rng(1).random(frame.shape) < 0.2
    options = {"max_epochs": 150, "learning_rate": 3e-3, "network": ResidualMLP(64, 2)}
    return quick(**options).fit(frame.mask(hidden))


def test_frames_keep_their_types_and_get_likely_levels(of_people):
    frame = people(100, seed=5)
    hidden = np.random.default_rng(2).random(frame.shape) < 0.2
    given = frame.mask(hidden)
    before = given.copy()
    filled, drawn = of_people.impute(given, steps=25), of_people.impute_draws(given, 1, steps=25)[0]
    pd.testing.assert_frame_equal(given, before)
    for table in (filled, drawn):
        assert list(table.index) == list(frame.index)
        assert (table.dtypes == given.dtypes).all()
        assert not table.isna().any().any()
        for j, name in enumerate(frame):
            assert (table[name][~hidden[:, j]] == frame[name][~hidden[:, j]]).all()
        assert set(table["town"]) <= {"Bonn", "Oslo", "Rome"}
        assert set(table["smokes"]) == {True, False}
    for name, share in (("town", 0.6), ("smokes", 0.85), ("name", 0.85)):
        own = hidden[:, list(frame).index(name)]
        assert (filled[name][own] == frame[name][own]).mean() > share
    cells = given.astype(object).where(given.notna(), None)
    as_polars = pl.DataFrame({name: cells[name].tolist() for name in frame})
    other = of_people.impute(as_polars, n_draws=2, steps=5)
    assert other.columns == list(frame)
    assert other.null_count().sum_horizontal().item() == 0


def test_truths_with_empty_cells_stay_truths():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(60) < 0.5, "b": rng.random(60) < 0.3}).astype(object)
    model = quick(max_epochs=2).fit(frame.mask(rng.random(frame.shape) < 0.2))
    assert model.columns_.kinds == ("yes/no", "yes/no")
    assert model.sample(3)[0]["a"].map(type).eq(bool).all()
    given = frame.mask(rng.random(frame.shape) < 0.2)
    for filled in (model.impute(given, n_draws=3), *model.impute_draws(given, steps=5)):
        assert filled.map(lambda cell: isinstance(cell, (bool, np.bool_))).all(axis=None)


def test_empty_cells_of_whole_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"stars": rng.integers(1, 6, 60), "count": rng.integers(0, 9, 60)}).astype("Int64")
    given = frame.mask(rng.random(frame.shape) < 0.2)
    model = quick(max_epochs=2).fit(given)
    assert model.columns_.is_grid
    drawn = model.impute_draws(given, steps=5)[0]
    assert set(drawn["stars"]) | set(drawn["count"]) <= set(range(9))
    assert ((drawn == frame) | given.isna()).to_numpy(bool).all()


def test_the_most_frequent_level_and_the_share_of_ones():
    columns = learn_columns(pd.DataFrame({"a": [0.0, 2.0, 1.0], "b": [True, False, True], "c": ["u", "v", "w"]}))
    draws = torch.tensor([[[1.0, 1.0, 2.0]], [[2.0, 0.0, 0.0]], [[6.0, 1.0, 2.0]]])
    assert_allclose(mean_of_draws(columns, draws), [[3.0, 2 / 3, 2.0]])


def test_complete_rows_ask_nothing_of_the_network(of_images, images, monkeypatch):
    asked = []
    monkeypatch.setattr(of_images.module_, "denoise", lambda *a, **k: asked.append(len(a[0])))
    assert_array_equal(of_images.impute(images[:5]), images[:5])
    for copy in of_images.impute_draws(images[:5], 3):
        assert_array_equal(copy, images[:5])
    assert not asked


def test_only_rows_with_holes_go_through_the_network(of_images, images, monkeypatch):
    rows, asked, denoise = images[:9].copy(), [], of_images.module_.denoise
    rows[4, 2, 2] = rows[7, 0, 0] = np.nan

    def counted(x, *arguments, **keywords):
        asked.append(len(x))
        return denoise(x, *arguments, **keywords)

    monkeypatch.setattr(of_images.module_, "denoise", counted)
    of_images.impute(rows, n_draws=3, steps=4, resamplings=2)
    # Three steps twice each and the last once, three copies of two rows together.
    assert asked == [6] * 7


def test_a_model_with_classes_fills_holes_and_predicts_complete_rows():
    x, y = load_iris(return_X_y=True)
    model, rows = quick().fit(holed(x), np.where(np.arange(150) % 2, y, -1)), holed(x, seed=2)
    filled = model.impute(rows, n_draws=1, steps=5)
    assert np.isfinite(filled).all()
    assert model.predict(x[:3]).shape == (3,)
    with pytest.raises(ValueError, match="impute X first"):
        model.predict(rows)
    assert_array_equal(pickle.loads(pickle.dumps(model)).impute(rows, n_draws=1, steps=5), filled)


def test_fewer_levels_than_steps_are_all_used():
    x = load_iris().data
    model = quick(schedule=[0.1, 0.3, 0.6], n_steps=None).fit(x)
    assert_array_equal(model.impute(holed(x), steps=100), model.impute(holed(x), steps=3))
    one = quick(schedule=[0.5], n_steps=None).fit(x)
    assert np.isfinite(one.impute(holed(x), n_draws=1)).all()


# What is refused


@pytest.mark.parametrize(
    "ask",
    [
        lambda m, x: m.score_samples(x),
        lambda m, x: m.score(x),
        lambda m, x: m.bound(x),
        lambda m, x: m.bound_by_level(x),
        lambda m, x: m.bits_per_dimension(x),
        lambda m, x: m.rate_distortion(x),
        lambda m, x: m.posterior(x),
        lambda m, x: m.q_sample(x, 3),
    ],
)
def test_scores_of_rows_with_holes_are_refused_with_the_reason(of_images, images, ask):
    rows = images[:5].copy()
    rows[3, 2, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"X holds NaN in row 3, but a diffusion has no marginal likelihood.*impute X first"
    ):
        ask(of_images, rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_draws": 0}, "n_draws=0 must be a whole number, 1 or more"),
        ({"steps": 0}, "steps=0 must be a whole number"),
        ({"steps": 2.5}, "steps=2.5 must be"),
        ({"resamplings": 0}, "resamplings=0 must be"),
    ],
)
def test_bad_arguments(of_images, images, arguments, message):
    for ask in (of_images.impute, of_images.impute_draws):
        with pytest.raises(ValueError, match=message):
            ask(images[:2], **arguments)


def test_a_pixel_that_is_never_observed():
    x = load_digits().images[:60].copy()
    x[:, 0, 0] = np.nan
    with pytest.raises(ValueError, match="no observed value in column 0"):
        quick(network=SMALL).fit(x)


def test_pipelines_have_complete_images(images, tmp_path):
    network = UNet(channels=(8,), n_blocks=1, position_map=False)
    options = {"n_steps": 1000, "prediction": "noise", "data_levels": 17, "max_epochs": 1}
    model = quick(network=network, **options).fit(holed(images))
    with pytest.raises(ValueError, match="pipelines of diffusers need complete images"):
        model.to_diffusers(tmp_path / "p")
