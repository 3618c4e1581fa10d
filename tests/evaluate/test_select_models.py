"""Every model can be selected, the deep ones by rows held out; and several processes come to the same."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from joblib.externals.loky.backend.reduction import dumps, loads
from matplotlib.figure import Figure
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit
from torch.utils.data import TensorDataset

from jensen import MLP, VAE, Autoencoder, Diffusion, GaussianMixture, KMedoids, LatentDiffusion, ResidualMLP, select
from jensen.evaluate import parallel as pool
from jensen.registry import MODELS, model_class
from jensen.runtime.interrupt import Interrupted

IRIS, SPECIES = load_iris(return_X_y=True)
IMAGES = load_digits().images[:80]
HOLES = np.where(np.random.default_rng(0).random(IRIS.shape) < 0.15, np.nan, IRIS)
COUNTS = (IRIS.mean(0) < IRIS).astype(int)
TINY = MLP(hidden=(4,))


def vae(**others) -> VAE:
    return VAE(1, encoder=TINY, decoder=TINY, max_epochs=1, evaluation_samples=2, **others)


def diffusion(**others) -> Diffusion:
    return Diffusion(n_steps=6, network=ResidualMLP(8), max_epochs=1, evaluation_levels=4, **others)


# What every model is selected by unless told, or the way out; and a grid for it.
USUAL = {
    "autoencoder": ("reconstruction", Autoencoder(encoder=TINY, decoder=TINY, max_epochs=1), {"n_components": [1, 2]}),
    "bernoulli-mixture": ("bic", None, {"n_components": [1, 2]}),
    "blend": ("held_out", None, {"held_out": [0.2, 0.3]}),
    "diffusion": ("held_out", diffusion(), {"n_steps": [5, 6]}),
    "discriminant-analysis": ("DiscriminantAnalysis requires y to be passed", None, {"tol": [1e-6]}),
    "factor-analysis": ("bic", None, {"n_components": [1, 2]}),
    "gaussian-mixture": ("bic", None, {"n_components": [1, 2]}),
    "kmeans": ("bic", None, {"n_clusters": [2, 3]}),
    "kmedoids": ("KMedoids has none; choose 'silhouette' or 'gap'", None, {"n_clusters": [2, 3]}),
    "latent-class-analysis": ("bic", None, {"n_components": [1, 2]}),
    "latent-curve": ("bic", None, {"n_basis": [0, 2]}),
    "latent-diffusion": (
        "held_out",
        LatentDiffusion(vae(), diffusion(objective="variational")),
        {"training": ["two-stage", "joint"]},
    ),
    "mixture": ("bic", None, {"n_components": [1, 2]}),
    "mixture-of-factor-analysers": ("bic", None, {"n_components": [1, 2]}),
    "mixture-of-ppca": ("bic", None, {"n_components": [1, 2]}),
    "naive-bayes": ("NaiveBayes requires y to be passed", None, {"alpha": [1.0]}),
    "poisson-mixture": ("bic", None, {"n_components": [1, 2]}),
    "probabilistic-pca": ("bic", None, {"n_components": [1, 2]}),
    "ridge-regression": ("RidgeRegression is a regression; fit it with alpha='evidence'", None, {"alpha": [1.0]}),
    "topics": ("completion", None, {"n_components": [1, 2]}),
    "vae": ("held_out", vae(), {"n_components": [1, 2]}),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_has_a_usual_criterion_or_a_way_out(name):
    expected, model, grid = USUAL[name]
    model = model_class(name)() if model is None else model
    if " " in expected:
        with pytest.raises((ValueError, TypeError), match=expected):
            select(model, IRIS, grid)
        return
    found = select(model, COUNTS if model.capabilities.values == "counts" else IRIS, grid)
    assert found.criterion == expected
    assert (found.table["failure"] == "").all()
    assert (found.table["n_parameters"] > 0).all()
    assert found.winner.n_features_in_ == 4
    (parameter,) = grid
    assert getattr(found.winner, parameter) == found.best_params[parameter]


class TestHeldOut:
    def test_is_the_mean_bound_of_rows_not_learnt_from(self):
        found = select(vae(), IRIS, {"n_components": [1, 2]}, held_out=0.3, random_state=7)
        ((learnt, scored),) = ShuffleSplit(1, test_size=45, random_state=7).split(IRIS)
        by_hand = [
            vae(random_state=7)
            .set_params(n_components=m)
            .fit(IRIS[np.sort(learnt)])
            .score_samples(IRIS[np.sort(scored)])
            for m in (1, 2)
        ]
        table, best = found.table, found.best_index
        np.testing.assert_allclose(table["held_out"], np.mean(by_hand, 1), rtol=1e-12)
        np.testing.assert_allclose(table["standard_error"], np.std(by_hand, 1, ddof=1) / math.sqrt(45), rtol=1e-9)
        apart = by_hand[1 - best] - by_hand[best]
        assert table["behind"][1 - best] == pytest.approx(apart.mean(), rel=1e-9)
        assert table["behind_error"][1 - best] == pytest.approx(apart.std(ddof=1) / math.sqrt(45), rel=1e-9)
        assert table["behind"][best] == table["behind_error"][best] == 0
        # The winner has learnt from all rows.
        again = vae(random_state=7).set_params(**found.best_params).fit(IRIS)
        np.testing.assert_array_equal(found.winner.transform(IRIS), again.transform(IRIS))

    def test_of_one_split_is_cross_validation_with_one(self):
        grid, share = {"n_components": [1, 2]}, ShuffleSplit(1, test_size=30, random_state=0)
        one = select(GaussianMixture(), IRIS, grid, "held_out").table
        cv = select(GaussianMixture(), IRIS, grid, "cv", cv=share).table
        np.testing.assert_allclose(one["held_out"], cv["cv"], rtol=1e-9)
        np.testing.assert_allclose(one["behind_error"], cv["behind_error"], rtol=1e-6)

    def test_weights_count_and_rows_of_weight_zero_are_neither_learnt_nor_scored(self):
        X, weight = np.vstack([np.full((5, 4), 1e6), IRIS]), np.append(np.zeros(5), np.full(150, 2.0))
        with_them = select(GaussianMixture(), X, {"n_components": [1, 2]}, "held_out", sample_weight=weight).table
        without = select(GaussianMixture(), IRIS, {"n_components": [1, 2]}, "held_out").table
        np.testing.assert_allclose(with_them["held_out"], without["held_out"], rtol=1e-6)

    FRAME = pd.DataFrame(HOLES, columns=list("abcd")).assign(species=load_iris().target_names[SPECIES])

    @pytest.mark.parametrize(
        "X",
        [IMAGES, HOLES, FRAME, pl.from_pandas(FRAME), torch.tensor(IRIS), TensorDataset(torch.tensor(IRIS).float())],
        ids=["images", "holes", "mixed frame", "polars", "tensor", "Dataset"],
    )
    def test_takes_whatever_the_model_takes(self, X):
        found = select(vae(), X, {"n_components": [1, 2]})
        assert (found.table["failure"] == "").all()
        assert len(found.winner.transform(X)) == len(X)

    def test_takes_labels(self):
        assert select(vae(), IRIS, {"n_components": [1, 2]}, y=SPECIES).winner.classes_.tolist() == [0, 1, 2]

    def test_of_a_diffusion_scores_the_complete_ones(self):
        found = select(diffusion(), HOLES, {"n_steps": [5, 6]}, held_out=0.5)
        ((learnt, scored),) = ShuffleSplit(1, test_size=75, random_state=0).split(HOLES)
        complete = np.sort(scored[~np.isnan(HOLES[scored]).any(1)])
        by_hand = diffusion(random_state=0).set_params(n_steps=5).fit(HOLES[np.sort(learnt)])
        assert found.table["held_out"][0] == pytest.approx(by_hand.score_samples(HOLES[complete]).mean(), rel=1e-9)
        X = HOLES.copy()
        X[5:, 0] = np.nan
        with pytest.raises(ValueError, match=r"all 30 held-out rows have NaN, and Diffusion scores complete rows only"):
            select(diffusion(), X, {"n_steps": [5, 6]}, random_state=4)

    def test_of_an_autoencoder_is_its_reconstruction_error(self):
        model = Autoencoder(encoder=TINY, decoder=TINY, max_epochs=1)
        found = select(model, IRIS, {"n_components": [1, 2]})
        ((learnt, scored),) = ShuffleSplit(1, test_size=30, random_state=0).split(IRIS)
        by_hand = model.set_params(n_components=1, random_state=0).fit(IRIS[np.sort(learnt)])
        expected = by_hand.reconstruction_error(IRIS[np.sort(scored)]).mean()
        assert found.table["reconstruction"][0] == pytest.approx(expected, rel=1e-9)
        assert found.table["reconstruction"].idxmin() == found.best_index
        with pytest.raises(ValueError, match=r"an autoencoder has no likelihood.*VAE.*; use 'reconstruction'"):
            select(model, IRIS, {"n_components": [1, 2]}, "held_out")

    def test_bars_are_of_the_difference_to_the_winner(self):
        found = select(GaussianMixture(), IRIS, {"n_components": [1, 2, 3]}, "held_out")
        ((_, _, (bars,)),) = (c.lines for c in found.plot(Figure().subplots()).containers)
        heights = [np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()]
        np.testing.assert_allclose(heights, found.table["behind_error"], atol=1e-12)


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (vae(), {"held_out": 1.5}, r"held_out=1.5 is no share of the rows to score; give a number between 0 and 1"),
        (vae(), {"held_out": 0.001}, r"held_out=0.001 of 150 rows leaves none to train on, or none to score"),
        (vae(checkpoint="a.ckpt"), {}, r"checkpoint='a.ckpt' is one file, and select fits many models; leave it out"),
        (GaussianMixture(), {"n_jobs": 0}, r"n_jobs=0 is no number of processes; give 1 or more, or -1"),
        (GaussianMixture(), {"n_jobs": 1.5}, r"n_jobs=1.5 is no number of processes"),
    ],
)
def test_mistakes(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        select(model, IRIS, {"n_components": [1, 2]}, **arguments)


@pytest.mark.parametrize("model", [KMedoids(), SklearnKMeans()])
def test_auto_does_not_guess_where_nothing_is_probable(model):
    with pytest.raises(ValueError, match=r"criterion='auto' needs a likelihood, a bound or a reconstruction error"):
        select(model, IRIS, {"n_clusters": [2, 3]})


class TestPlot:
    def test_joins_numbers_but_not_words_and_names_the_structures(self):
        structures = {"n_components": [1, 2], "covariance_type": ["diag", "spherical"]}
        ax = select(GaussianMixture(), IRIS, structures, warm_start=False).plot(Figure().subplots())
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["diag", "spherical", "chosen"]
        assert ax.get_legend().get_title().get_text() == "covariance_type"
        assert ax.get_xticks().tolist() == [1, 2]
        assert [line.get_linestyle() for line in ax.lines[:2]] == ["-", "-"]
        words = select(GaussianMixture(2), IRIS, {"covariance_type": ["diag", "spherical"]}).plot(Figure().subplots())
        assert words.lines[0].get_linestyle() == "None"

    def test_is_logarithmic_over_numbers_far_apart_and_leaves_failures_out(self):
        grid = {"reg_covar": [1e-6, 1e-4, 1e-2]}
        assert select(GaussianMixture(2), IRIS, grid).plot(Figure().subplots()).get_xscale() == "log"
        failed = select(GaussianMixture(), IRIS[:20], {"n_components": [1, 2, 500]}).plot(Figure().subplots())
        assert failed.get_xscale() == "linear"
        assert failed.get_xlim()[1] < 3


def as_if_in_processes(jobs, n_processes):
    """What goes to a process and comes back is a copy, and the last may be done first."""
    assert n_processes == 2
    for number, job in reversed(list(enumerate(jobs))):
        done = pool.do(number, loads(dumps(job)))
        yield loads(dumps(done))


class TestProcesses:
    @pytest.mark.parametrize("are_real", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_several_come_to_the_same_as_one(self, are_real, monkeypatch):
        """A failure, a warning of a fit that did not converge and starts from neighbours are told alike."""
        if not are_real:
            monkeypatch.setattr(pool, "in_processes", as_if_in_processes)
        model, grid = GaussianMixture(init_params="random", max_iter=9), {"n_components": [1, 2, 3, 4, 500]}
        found = []
        for n_jobs in (1, 2):
            with pytest.warns(ConvergenceWarning, match="GaussianMixture did not converge") as heard:
                found.append(select(model, IRIS, grid, n_jobs=n_jobs))
            assert {one.filename for one in heard} == {__file__}
        one, two = (selection.table.drop(columns="seconds") for selection in found)
        pd.testing.assert_frame_equal(one, two, check_exact=True)
        np.testing.assert_array_equal(found[0].winner.means_, found[1].winner.means_)
        # Deep models seed the generator of their process, and the caller's stays as it was.
        state = torch.get_rng_state()
        deep = [select(vae(), IMAGES, {"n_components": [1, 2]}, n_jobs=n_jobs).table["held_out"] for n_jobs in (1, 2)]
        pd.testing.assert_series_equal(*deep, check_exact=True)
        assert torch.equal(state, torch.get_rng_state())

    def test_the_bar_counts_the_entries_that_are_done(self, monkeypatch):
        counted = []

        class Bar:
            def __init__(self, name, total, **_):
                self.what = (name, total)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                counted.append((*self.what, self.n_done))

            n_done = 0

            def update(self):
                self.n_done += 1

        monkeypatch.setattr(pool, "Bar", Bar)
        select(GaussianMixture(), IRIS, {"n_components": [1, 2, 3]}, verbose=1)
        assert counted[:2] == [("select", 3, 3), ("warm starts", 3, 3)]

    def test_an_interrupted_training_ends_the_search(self):
        def interrupted() -> None:
            Interrupted("the best weights so far are kept", None).kept()

        with pytest.raises(KeyboardInterrupt):
            pool.run_all([interrupted], None, "select", False)

    def test_other_warnings_do_not(self):
        def warned() -> None:
            warnings.warn("interrupted after all", RuntimeWarning, stacklevel=1)

        with pytest.warns(RuntimeWarning, match="interrupted after all"):
            pool.run_all([warned], None, "select", False)
