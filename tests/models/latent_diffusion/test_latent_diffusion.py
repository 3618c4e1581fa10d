"""What is special about a diffusion in the place of a VAE's prior."""

import signal

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris

import jensen
from jensen import MLP, VAE, Diffusion, LatentDiffusion, ResidualMLP, Trainer, UNet
from jensen.engines.sgd.checkpoint import seed_in
from jensen.models.autoencoders.module import VAEModule
from jensen.models.latent_diffusion.inference import log_tilt

X = load_iris().data
SMALL = ResidualMLP(width=32, n_blocks=1)


def prior(**options):
    defaults = {"n_steps": 20, "objective": "variational", "network": SMALL, "max_epochs": 30, "learning_rate": 5e-3}
    return Diffusion(**(defaults | options))


def latent_diffusion(vae=None, training="two-stage", **options):
    own = VAE(2, encoder=MLP((20,)), decoder=MLP((20,)), max_epochs=60, learning_rate=5e-3) if vae is None else vae
    return LatentDiffusion(own, prior(**options), training=training, random_state=0)


def held_out_rows(model, n):
    """The rows that stopped both stages."""
    order = np.random.default_rng(model._seed()).permutation(n)
    return np.sort(order[: round(0.1 * n)])


@pytest.fixture(scope="module")
def at_start():
    """A prior whose network still says 0: steps of such a length lead nowhere."""
    return latent_diffusion(max_epochs=1, learning_rate=1e-12).fit(X)


def two_clusters(seed, n=600):
    rng = np.random.default_rng(seed)
    side = np.where(rng.random(n) < 0.3, -1.0, 1.0)[:, None]
    return side * [3.0, 2.0, -2.0] + rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def clusters():
    """A line through two clusters: the latent vectors of a linear autoencoder have two modes."""
    vae = VAE(1, encoder=MLP(()), decoder=MLP(()), max_epochs=150, learning_rate=0.02)
    return LatentDiffusion(vae, prior(n_steps=50, max_epochs=150), random_state=0).fit(two_clusters(0))


@torch.no_grad()
def tilts(model, z, n_repeats):
    """ln p(z) - ln N(z; 0, I) of latent vectors (k, m), estimated so many times (k, n_repeats)."""
    rows = torch.as_tensor(z).float()[:, None, None].expand(-1, 1, n_repeats, -1)
    return log_tilt(model.module_, 1000, rows, torch.Generator().manual_seed(0))[:, 0]


def paired(model, x, levels="all", n_repeats=1):
    """What the diffusion adds to the bound of every row, averaged over calls with other draws."""
    more = []
    for seed in range(n_repeats):
        own = clone(model)
        own.__dict__.update(model.__dict__)
        own.random_state = seed
        more.append(own.bound(x, levels=levels).total - own.vae_.bound(x).total)
    return np.mean(more, 0)


class TestTheStart:
    def test_is_the_bound_of_the_autoencoder(self, at_start):
        more = paired(at_start, X, n_repeats=40)
        # Rows share no draws, so the error of their mean is that of independent numbers.
        assert abs(more.mean()) < 4 * more.std() / np.sqrt(len(X))
        assert more.std() / np.sqrt(len(X)) < 0.05

    @pytest.mark.parametrize("schedule", ["linear", "cosine"])
    def test_is_the_standard_gaussian_whatever_the_schedule(self, schedule):
        model = latent_diffusion(schedule=schedule, n_steps=100, max_epochs=1, learning_rate=1e-12).fit(X)
        found = tilts(model, [[0.0, 0.0], [1.0, -2.0], [3.0, 0.5]], 500)
        # Of estimates, within their own error.
        assert (found.mean(1).abs() < 4 * found.std(1) / 500**0.5).all()

    def test_is_a_round_of_the_history(self, at_start):
        first = at_start.history_.iloc[0]
        assert (first["epoch"], first["seconds"]) == (0, 0)
        assert_allclose(first["held_out"], at_start.history_["held_out"].iloc[-1], rtol=1e-6)

    def test_is_kept_if_held_out_rows_gain_by_nothing_else(self):
        model = latent_diffusion(learning_rate=3.0, max_epochs=20).fit(X)
        history = model.history_
        assert history["held_out"].idxmax() == 0
        with torch.no_grad():
            said = model.module_.prior.network(torch.randn(5, 2), torch.arange(5.0))
        assert (said == 0).all()
        assert model.lower_bound_ == history["objective"][0]

    def test_has_the_simple_loss_of_uniform_levels(self):
        """Of N(0, I) and a velocity of 0 it is E v² = 1 at every level, however levels are drawn to judge it."""
        model = latent_diffusion(objective="simple", n_steps=100, max_epochs=1, learning_rate=1e-12).fit(X)
        module = model.module_.prior.eval()
        z = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0))
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            assert abs(module(z)["simple"].mean() - 1) < 0.01

    def test_a_learned_variance_starts_there_too(self):
        model = latent_diffusion(variance="learned", max_epochs=1, learning_rate=1e-12).fit(X)
        more = paired(model, X, n_repeats=20)
        assert abs(more.mean()) < 4 * more.std() / np.sqrt(len(X))

    def test_the_posterior_variance_is_below_it(self, at_start):
        model = latent_diffusion(variance="posterior", max_epochs=1, learning_rate=1e-12).fit(X)
        more = paired(model, X, n_repeats=5)
        assert more.mean() < -4 * more.std() / np.sqrt(len(X))


class TestTheBound:
    def test_is_at_least_the_autoencoders_on_the_rows_that_stopped_it(self, clusters):
        model, x = clusters, two_clusters(0)
        rows = held_out_rows(model, len(x))
        more = paired(model, x[rows], n_repeats=20)
        assert more.mean() > -2 * more.std() / np.sqrt(len(rows))
        history = model.history_
        assert model.lower_bound_ == history["objective"][history["held_out"].idxmax()]

    def test_a_prior_that_is_no_gaussian_is_learnt(self, clusters):
        """Two modes with 0.3 and 0.7 of all rows are 0.3 nats or more from a Gaussian; half of that is asked for."""
        more = paired(clusters, two_clusters(1, 400), n_repeats=5)
        assert more.mean() > 0.15

    def test_joint_training_goes_on_from_the_autoencoder(self):
        model = latent_diffusion(training="joint", max_epochs=40).fit(X)
        alone = latent_diffusion(max_epochs=40).fit(X)
        assert_allclose(model.history_["held_out"][0], alone.history_["held_out"][0], rtol=1e-6)
        moved = [
            not torch.equal(a, b)
            for a, b in zip(model.vae_.module_.parameters(), alone.vae_.module_.parameters(), strict=True)
        ]
        assert all(moved)

    def test_the_first_stage_is_the_autoencoder_itself(self):
        vae = VAE(2, encoder=MLP((20,)), decoder=MLP((20,)), max_epochs=20, random_state=0)
        model = LatentDiffusion(vae, prior(max_epochs=2), random_state=0).fit(X)
        # The second stage has moved nothing of it.
        for mine, theirs in zip(model.vae_.module_.parameters(), vae.fit(X).module_.parameters(), strict=True):
            assert torch.equal(mine, theirs)
        assert_array_equal(model.transform(X), vae.transform(X))

    def test_scaling_changes_the_units_of_the_prior_only(self):
        """A Gaussian with the moments of the latent vectors, seen from outside as a density of z."""
        model = latent_diffusion(scaling="feature", max_epochs=1, learning_rate=1e-12).fit(X)
        module = model.module_
        z = torch.randn((4, 2), generator=torch.Generator().manual_seed(0)) + module.location
        found = tilts(model, z, 500)
        normal = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
        own = torch.distributions.Normal(module.location, module.scale).log_prob(z).sum(-1)
        assert ((found.mean(1) - (own - normal)).abs() < 4 * found.std(1) / 500**0.5).all()

    def test_levels_spare_work_and_cost_precision(self, clusters):
        model, x = clusters, two_clusters(0)
        few, all_levels = model.bound(x, levels=8), model.bound(x, levels="all")
        error = np.sqrt((few.standard_error**2 + all_levels.standard_error**2).mean() / len(x))
        assert abs(few.total.mean() - all_levels.total.mean()) < 4 * error
        assert few.standard_error.mean() > all_levels.standard_error.mean()
        with pytest.raises(ValueError, match="levels=3 must be 'all', or a number of levels per row, 4 or more"):
            model.bound(x, levels=3)


class TestAnswers:
    def test_samples_fall_into_the_clusters(self, clusters):
        x = two_clusters(0)
        along = np.array([3.0, 2.0, -2.0]) / np.sqrt(17)

        def between(rows):
            """The share that lies where no cluster is."""
            return np.mean(np.abs(rows @ along) < 2)

        mine, latent = clusters.sample(1000, random_state=1)
        theirs, _ = clusters.vae_.sample(1000, random_state=1)
        assert mine.shape == (1000, 3)
        assert latent.shape == (1000, 1)
        # q(z|x) is about as wide as the gap is, so the diffusion cannot leave it quite empty.
        assert between(x) < between(mine) < 0.65 * between(theirs)

    @pytest.mark.parametrize("sampler", ["ddim", "dpm"])
    def test_fast_samplers(self, clusters, sampler):
        rows, _ = clusters.sample(1000, sampler=sampler, steps=20)
        assert_allclose(rows.mean(0), two_clusters(0).mean(0), atol=0.5)

    def test_imputation_weighs_draws_by_the_diffusion(self, clusters):
        """Quadrature of p(z | the first number), with the bound of ln p(z) that the tilt says, on a grid of z."""
        row = np.array([[0.4, np.nan, np.nan]])
        grid = np.linspace(-5, 5, 501)[:, None]
        means, var = clusters.inverse_transform(grid), clusters.vae_.noise_variance_
        log_prior = tilts(clusters, grid, 50).mean(1).numpy() - 0.5 * grid[:, 0] ** 2
        log_joint = log_prior - 0.5 * (row[0, 0] - means[:, 0]) ** 2 / var[0]
        share = np.exp(log_joint - log_joint.max())
        expected = share @ means[:, 1:] / share.sum()
        found = []
        for seed in range(20):
            clusters.set_params(random_state=seed)
            found.append(clusters.impute(row, importance_samples=1000)[0, 1:])
        clusters.set_params(random_state=0)
        # A call estimates the bound at 20 levels, so calls differ; twenty of them tell by how much. What is left is the
        # bias of weights that are exponentials of estimates.
        assert (np.abs(np.mean(found, 0) - expected) < 4 * np.std(found, 0) / np.sqrt(20) + 0.05).all()

    def test_observed_entries_come_back_bit_for_bit(self, at_start):
        holed = X.astype(np.float32)
        holed[::7, 2] = np.nan
        kept = holed.copy()
        filled = at_start.impute(holed)
        assert_array_equal(holed, kept)
        assert filled.dtype == np.float32
        assert not np.isnan(filled).any()
        assert_array_equal(filled[~np.isnan(holed)], holed[~np.isnan(holed)])
        draws = at_start.impute_draws(holed, 3, random_state=1)
        assert len(draws) == 3
        assert not np.array_equal(draws[0], draws[1])

    def test_images(self):
        rng = np.random.default_rng(0)
        images = (rng.random((60, 8, 8)) < 0.5).astype(np.float32)
        model = LatentDiffusion(VAE(2, likelihood="bernoulli", max_epochs=2), prior(max_epochs=2), random_state=0)
        model.fit(images)
        assert model.sample(3)[0].shape == (3, 8, 8)
        assert model.transform(images).shape == (60, 2)
        assert np.isfinite(model.score_samples(images)).all()

    def test_files(self, at_start, tmp_path):
        at_start.save(tmp_path / "model.jensen")
        read = jensen.load(tmp_path / "model.jensen")
        assert_array_equal(read.score_samples(X), at_start.score_samples(X))
        assert_array_equal(read.vae_.score_samples(X), at_start.vae_.score_samples(X))
        assert read.vae_.history_.equals(at_start.vae_.history_)

    def test_a_seed_gives_one_result_and_the_stages_hold_out_the_same_rows(self):
        models = [latent_diffusion(max_epochs=3).fit(X) for _ in range(2)]
        assert_array_equal(models[0].score_samples(X), models[1].score_samples(X))
        for state in (np.random.RandomState(3), None):
            model = latent_diffusion(max_epochs=1).set_params(random_state=state).fit(X)
            assert np.isfinite(model.score(X))

    def test_a_killed_second_stage_goes_on(self, tmp_path):
        path = str(tmp_path / "prior.ckpt")
        trainer = Trainer(validation_fraction=0.0)
        whole = latent_diffusion(max_epochs=6, trainer=trainer).fit(X)
        latent_diffusion(max_epochs=6, trainer=trainer, checkpoint=path).fit(X)
        again = latent_diffusion(max_epochs=6, trainer=trainer, checkpoint=path).fit(X)
        assert_array_equal(again.score_samples(X), whole.score_samples(X))
        # The file is read: one of another fit is refused, and names what differs.
        with pytest.raises(ValueError, match=r"another fit, with diffusion__learning_rate '0.005' instead of '0.001'"):
            latent_diffusion(max_epochs=6, trainer=trainer, checkpoint=path, learning_rate=1e-3).fit(X)

    @pytest.mark.parametrize("seed", [0, None])
    def test_ctrl_c_in_the_first_stage_ends_both_and_a_checkpoint_goes_on(self, tmp_path, monkeypatch, seed):
        steps, forward = iter(range(10**6)), VAEModule.forward

        def interrupted(module, *batch):
            if next(steps) == 5:
                signal.raise_signal(signal.SIGINT)
            return forward(module, *batch)

        resumed = latent_diffusion(max_epochs=3).set_params(checkpoint=tmp_path / "run.ckpt", random_state=seed)
        # A shell that starts tests in the background has them ignore the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with monkeypatch.context() as patched:
            patched.setattr(VAEModule, "forward", interrupted)
            with pytest.warns(RuntimeWarning, match="interrupted after step") as heard:
                resumed.fit(X)
            assert {warning.filename for warning in heard} == {__file__}
        signal.signal(signal.SIGINT, before)
        assert (resumed.n_iter_, len(resumed.history_)) == (0, 0)
        assert np.isfinite(resumed.score_samples(X)).all()
        assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt.vae"]
        used = seed_in(str(tmp_path / "run.ckpt.vae"))
        resumed.fit(X)
        assert resumed.n_iter_ == 3
        if seed is None:
            assert seed_in(str(tmp_path / "run.ckpt")) == used
        else:
            whole = latent_diffusion(max_epochs=3).fit(X)
            assert_array_equal(resumed.score_samples(X), whole.score_samples(X))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["run.ckpt", "run.ckpt.vae"]

    def test_a_second_stage_of_another_autoencoder_is_refused(self, tmp_path):
        path = tmp_path / "prior.ckpt"
        latent_diffusion(max_epochs=3, checkpoint=str(path)).fit(X)
        other = latent_diffusion(max_epochs=3, checkpoint=str(path))
        other.vae.set_params(max_epochs=other.vae.max_epochs + 1)
        with pytest.raises(ValueError, match="another fit, with epochs of the autoencoder"):
            other.fit(X)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"data_levels": 17}, "diffusion has data_levels=17, but latent vectors are on no grid"),
            ({"prediction": "levels"}, "diffusion has prediction='levels', with which the prior does not begin as"),
            ({"prediction": "noise"}, "diffusion has prediction='noise', .* choose 'velocity'"),
            ({"objective": "simple", "variance": "learned"}, "variance='learned' has no part in objective='simple'"),
            ({"n_steps": 10, "schedule": "linear"}, "n_steps=10 is too few for the linear schedule"),
            ({"trainer": Trainer(validation_fraction=2.0)}, r"Trainer\(validation_fraction=2.0\) must be"),
            ({"network": UNet()}, r"in_shape=\(2,\)"),
            ({"checkpoint": "/nowhere/run.ckpt"}, "checkpoint='/nowhere/run.ckpt' cannot be written"),
        ],
    )
    def test_recipes_that_suit_no_latent_vector(self, monkeypatch, options, message):
        """Before the first stage, which may take long."""
        monkeypatch.delattr(VAE, "_fit_set")
        with pytest.raises(ValueError, match=message):
            latent_diffusion(**options).fit(X)

    def test_joint_training_raises_the_bound(self):
        with pytest.raises(ValueError, match=r"training='joint' raises one bound .* objective='simple'"):
            latent_diffusion(training="joint", objective="simple").fit(X)

    def test_what_is_no_recipe(self):
        with pytest.raises(ValueError, match="'vae' parameter of LatentDiffusion must be"):
            LatentDiffusion(vae="vae").fit(X)


def test_arguments_that_count_for_both_parts_are_the_models_own():
    vae, own = VAE(2, max_epochs=1, random_state=7), prior(max_epochs=1, random_state=0)
    with pytest.warns(UserWarning, match=r"random_state=7 is not used: set it on the LatentDiffusion") as heard:
        LatentDiffusion(vae, own, random_state=0).fit(X[:40])
    assert len(heard) == 1
