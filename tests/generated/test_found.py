"""What generated tables found, each in its smallest form."""

import gc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import jensen
from jensen import (
    Autoencoder,
    BernoulliMixture,
    Blend,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentCurve,
    LatentDiffusion,
    LatentDirichletAllocation,
    Mixture,
    NaiveBayes,
    ProbabilisticPCA,
)
from jensen.data.levels import find_grid

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
CONSTANT = "ignore:X has columns with one value"


def few(kind, *arguments, **options):
    return kind(*arguments, random_state=0, max_iter=3, **options)


@pytest.mark.filterwarnings(CONSTANT, "ignore::jensen.data.codes.UnseenValueWarning")
@pytest.mark.parametrize("make", [lambda: few(GaussianMixture), lambda: few(ProbabilisticPCA, 1)])
def test_a_model_of_constants_returns_as_many_draws_as_asked_for(make):
    rows = pd.DataFrame({"a": [np.nan, 0.0, np.nan]})
    drawn = make().fit(rows).impute_draws(rows, 3)
    assert len(drawn) == 3
    assert all((table["a"] == 0).all() for table in drawn)


@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize("structure", ["EVI", "VVE", "full", "diag"])
def test_a_mixture_of_constants_can_be_saved(structure, tmp_path):
    model = few(GaussianMixture, 2, covariance_type=structure).fit(np.zeros((8, 2)))
    model.save(tmp_path / "m.jensen")
    assert_array_equal(jensen.load(tmp_path / "m.jensen").sample(2)[0], np.zeros((2, 2)))


@pytest.mark.parametrize(
    "fit",
    [
        lambda rows: few(GaussianMixture, 2).fit(X).partial_fit(rows),
        lambda rows: KMedoids(2).fit(rows),
        lambda rows: Blend([GaussianMixture(), ProbabilisticPCA(1)]).fit(rows),
    ],
    ids=["partial_fit", "medoids", "blend"],
)
def test_a_scan_where_rows_must_be_in_memory_has_a_way_out(fit):
    frame = pd.DataFrame(np.abs(X).round(), columns=list("abc"))
    with pytest.raises(
        TypeError, match=r"X is a scan.*read the table if it fits, or take the first rows, X\.head\(\)\.table"
    ):
        fit(jensen.scan(lambda: iter([frame])))


@pytest.mark.parametrize("rows", [X + 1j, torch.tensor(X + 1j)], ids=["array", "tensor"])
@pytest.mark.parametrize("make", [KMeans, Autoencoder, LatentDiffusion, KMedoids])
def test_complex_numbers_are_refused(make, rows):
    with pytest.raises(ValueError, match=r"Complex data not supported: X holds complex numbers; give real ones"):
        make().fit(rows)


def test_weights_in_a_tensor_are_read_without_a_warning():
    weight = RNG.random(20)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        found = KMeans(2, random_state=0).fit(X, sample_weight=torch.tensor(weight, requires_grad=True))
    assert_array_equal(found.cluster_centers_, KMeans(2, random_state=0).fit(X, sample_weight=weight).cluster_centers_)


def test_infinite_labels_are_named():
    y = np.where(np.arange(20) == 4, np.inf, 1.0)
    with pytest.raises(ValueError, match="y contains infinity, first in row 4; labels are classes"):
        GaussianMixture(2).fit(X, y)


def test_the_search_for_a_grid_of_levels_stands_the_ends_of_float64():
    """The number of steps from 0 to 1e13 by the smallest gap is infinite."""
    assert find_grid(np.array([[5e-324, 0.0], [1e13, 1.0]]), "auto", True) is None


def test_a_value_outside_of_a_family_names_the_table():
    with pytest.raises(ValueError, match="X: column '1' holds 3, but a Bernoulli column has only 0 and 1"):
        BernoulliMixture(1).fit(np.array([[0.0, 1.0], [1.0, 3.0]]))


def test_a_scan_with_two_kinds_in_a_column_names_the_table():
    blocks = [pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": ["x", "y"]})]
    with pytest.raises(ValueError, match="X: column 'a' holds float in some rows and text in others"):
        Mixture(1).fit(jensen.scan(lambda: iter(blocks)))


@pytest.mark.parametrize("weight", [1e-12, 1e-20, 1e-29])
def test_a_penalty_far_above_the_weights_leaves_a_straight_curve(weight):
    """Features without a penalty were taken for rounding, and the objective fell."""
    angle = RNG.uniform(0, np.pi, 30)
    rows = np.stack([3 * np.cos(angle), 0.002 * np.sin(angle), 0.001 * angle], 1)
    given = LatentCurve(penalty=5.0, n_grid=20, n_basis=5, init="pca", random_state=0, max_iter=30)
    straight = given.fit(rows, sample_weight=np.full(30, 1e-9)).lower_bound_
    # The limit of an infinite penalty; with a weight of 1e-9 the bumps still change the seventh digit.
    assert_allclose(given.fit(rows, sample_weight=np.full(30, weight)).lower_bound_, straight, rtol=1e-5)


def test_documents_of_a_trillion_words_are_fitted():
    """Sums of 1e13 nats are exact to a thousandth only, and a fall of that size is rounding."""
    counts = np.array([[1e12, 0, 0], [0, 0, 0], [1e12, 0, 0], [0, 0, 0]])
    assert np.isfinite(few(LatentDirichletAllocation, 2).fit(counts).score_samples(counts)).all()


@pytest.mark.parametrize("size", [2e4, 1e9, 1e14, 1e20])
def test_samples_of_long_documents_are_drawn_by_their_counts(size):
    """Word by word they took more memory than there is."""
    model = few(LatentDirichletAllocation, 2, doc_topic_prior=50.0).fit(np.abs(X) * size)
    drawn, shares = model.sample(400)
    topics = model.components_ / model.components_.sum(1, keepdims=True)
    length = np.abs(X).sum(1).mean() * size
    # Standardised by the Poisson deviation, counts have mean 0 and variance 1; rounding adds to it beyond 1e15.
    apart = (drawn - length * shares @ topics) / np.sqrt(length * shares @ topics)
    assert abs(apart.mean()) < 4 / np.sqrt(drawn.size)
    assert_allclose(apart.var(), 1, atol=4 * np.sqrt(2 / drawn.size))


def test_a_curve_from_a_file_draws_the_same_samples(tmp_path):
    """The last digits of f depend on the order of the coefficients in memory."""
    for seed in range(5):
        rows = np.random.default_rng(seed).normal(size=(12, 6)) * 10.0 ** np.arange(6)
        model = few(LatentCurve, n_latent=2, n_grid=6, n_basis=2, init="pca").fit(rows)
        model.save(tmp_path / "m.jensen")
        loaded = jensen.load(tmp_path / "m.jensen")
        assert_array_equal(loaded.sample(9, random_state=0)[0], model.sample(9, random_state=0)[0])


def test_noise_around_rows_of_a_tiny_scale_takes_further_batches():
    """The sizes of the box were in single precision, where 1e-139 is 0."""
    rows = RNG.normal(size=(40, 3)) * [1, 1, 1e-139]
    model = few(GaussianMixture, 2, noise=True).fit(rows).partial_fit(rows)
    assert_allclose(model.theta_.noise.size[2], np.ptp(rows[:, 2]), rtol=1e-12)


def test_factor_analysis_without_noise_takes_further_batches():
    rows = RNG.normal(size=(10, 1)) @ np.ones((1, 3))
    rows[1] = np.nan
    more = np.where(RNG.random(rows.shape) < 0.6, np.nan, rows + 1)
    assert np.isfinite(few(FactorAnalysis, 1, tol=1e-5).fit(rows).partial_fit(more).score_samples(more)).all()


def test_gowers_distance_at_the_ends_of_float64():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "b": [0.5, 0.25, 1.5, 2.5]})
    expected = KMedoids(2, metric="gower", random_state=0).fit(table)
    for scale in (5e-324, 1e300):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = KMedoids(2, metric="gower", random_state=0).fit(table.assign(a=table["a"] * scale))
        assert_array_equal(found.labels_, expected.labels_)
    with pytest.raises(ValueError, match=r"X ranges from -1e\+308 to 1e\+308 in column 'a', too far to subtract"):
        KMedoids(2, metric="gower").fit(table.assign(a=[-1e308, 1e308, 0.5, 1.5]))


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "pandas"])
def test_whole_numbers_beyond_a_signed_integer_come_back(kind):
    table = pl.DataFrame({"a": RNG.normal(size=30), "id": RNG.integers(2**63, 2**64 - 2**12, 30, dtype=np.uint64)})
    holes = table.with_columns(id=pl.when(pl.int_range(30) < 8).then(None).otherwise(pl.col("id")))
    own, asked = (
        {"polars": rows, "pyarrow": rows.to_arrow(), "pandas": rows.to_pandas()}[kind] for rows in (table, holes)
    )
    model = few(Mixture, 2).fit(own)
    assert min(np.asarray(model.sample(9)[0]["id"], dtype=float)) >= 2**63
    assert min(np.asarray(model.impute(asked)["id"], dtype=float)[:8]) >= 2**63


@pytest.mark.parametrize("make", [lambda: few(Mixture, 2), lambda: NaiveBayes(max_iter=3)])
def test_columns_too_small_to_square_are_named_in_models_of_columns_too(make):
    rows = pd.DataFrame({"a": X[:, 0] * 1e-155, "b": X[:, 1]})
    with pytest.raises(ValueError, match=r"X varies by .*e-155 in column 'a', too small to square; rescale it"):
        make().fit(rows, [0, 1] * 10 if isinstance(make(), NaiveBayes) else None)


def test_a_warning_from_inside_of_a_context_points_at_the_caller():
    with pytest.warns(UserWarning, match="X has columns with one value") as heard:
        Blend([GaussianMixture(), ProbabilisticPCA(1)], random_state=0).fit(X * [1, 1, 0])
    assert {warning.filename for warning in heard if "one value" in str(warning.message)} == {__file__}


def test_a_score_beyond_single_precision_stays_finite():
    model = few(GaussianMixture, 1).fit((X * 1e-15).astype(np.float32))
    scores = model.score_samples(np.full((1, 3), 1e15, dtype=np.float32))
    assert scores.dtype == np.float32
    assert scores == np.finfo(np.float32).min
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.score(np.full((2, 3), 1e15, dtype=np.float32)))


def test_a_fit_to_a_scan_closes_its_files():
    frame = pd.DataFrame(X, columns=list("abc"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        few(GaussianMixture, 2).fit(jensen.scan(lambda: iter([frame])))
        gc.collect()


@pytest.mark.parametrize("seen", [0.0, 1.0])
def test_a_value_of_little_weight_stays_possible(seen):
    """1 - 1e-25 is 1, and the objective fell to -inf."""
    rows = np.array([[1 - seen], [1 - seen], [seen]] * 5)
    model = few(BernoulliMixture, 1, alpha=0.0).fit(rows, sample_weight=np.array([1e10, 1e10, 1e-15] * 5))
    assert np.isfinite(model.score_samples(rows)).all()
    assert_allclose(model.score_samples(rows)[0], 0, atol=1e-12)
