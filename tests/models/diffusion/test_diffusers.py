"""What comes from diffusers says here what it said there, and goes back as it was."""

import math
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

import jensen
from jensen import DiffusersUNet, Diffusion, ResidualMLP, Schedule, UNet, from_diffusers
from jensen.models.diffusion.inference import Chain
from jensen.models.diffusion.samplers.ancestral import ancestral
from jensen.nets.denoiser import build_denoiser

diffusers = pytest.importorskip("diffusers")

T = 12
# So much noise that no pixel is far out in the tails of what a network without training says.
BETAS = {"num_train_timesteps": T, "beta_start": 0.2, "beta_end": 0.4}
CONFIG = {
    "sample_size": 8,
    "in_channels": 3,
    "out_channels": 3,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
}
# Our words and theirs.
PREDICTIONS = {"noise": "epsilon", "data": "sample", "velocity": "v_prediction"}
VARIANCES = {"posterior": "fixed_small", "beta": "fixed_large"}


def unet(seed=0, **config):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return diffusers.UNet2DModel(**(CONFIG | config)).eval()


def pipeline(config=None, **scheduler):
    options = {"clip_sample": False} | BETAS | scheduler
    made = diffusers.DDPMPipeline(unet(**(config or {})), diffusers.DDPMScheduler(**options))
    made.set_progress_bar_config(disable=True)
    return made


def images(n=4, shape=(3, 8, 8), seed=0):
    X = np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)
    X[0].flat[:2] = 0, 255
    return X


@torch.no_grad()
def said(network, x, t, **options):
    """What a UNet2DModel says."""
    return network(x, t, **options).sample


def points(n=4, shape=(3, 8, 8)):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(0))


class TestFromDiffusers:
    def test_nothing_is_wrong_with_a_usual_pipeline(self, tmp_path):
        source = pipeline()
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            model = from_diffusers(source)
            model.save(tmp_path / "m.jensen")
            assert jensen.load(tmp_path / "m.jensen").score_samples(images()).shape == (4,)

    def test_the_network_is_theirs(self):
        source = pipeline()
        model = from_diffusers(source)
        x, t = points(), torch.tensor([0, 3, 7, T - 1])
        with torch.no_grad():
            ours = model.module_.network(x, t.float())
        expected = said(source.unet, x, t)
        assert expected.std() > 1e-2
        assert_allclose(ours, expected, atol=1e-6)

    @pytest.mark.parametrize("prediction", PREDICTIONS)
    @pytest.mark.parametrize("variance", VARIANCES)
    @pytest.mark.parametrize("clip", [None, 0.8])
    def test_the_terms_of_the_bound_are_the_formulas(self, prediction, variance, clip):
        source = pipeline(
            prediction_type=PREDICTIONS[prediction],
            variance_type=VARIANCES[variance],
            clip_sample=clip is not None,
            clip_sample_range=clip or 1.0,
        )
        model = from_diffusers(source)
        assert (model.prediction, model.variance) == (prediction, variance)
        beta = source.scheduler.betas.double().numpy()
        bar = np.cumprod(1 - beta)
        before = np.append(1.0, bar[:-1])
        tilde = beta * (1 - before) / (1 - bar)
        sigma2 = beta if variance == "beta" else np.append(tilde[1], tilde[1:])
        X, noise, d = images(T), points(T), 3 * 8 * 8
        x0 = torch.from_numpy(X / 127.5 - 1).float()
        module, level = model.module_, torch.arange(1, T + 1)
        with torch.no_grad():
            found = module.terms(torch.from_numpy(X).float().flatten(1), x0.flatten(1), level, noise.flatten(1)).nats
        signal, spread = (torch.from_numpy(part).float().view(T, 1, 1, 1).sqrt() for part in (bar, 1 - bar))
        points_t = signal * x0 + spread * noise
        for i, (xt, out) in enumerate(zip(points_t, said(source.unet, points_t, level - 1), strict=True)):
            guess = {
                "noise": (xt - math.sqrt(1 - bar[i]) * out) / math.sqrt(bar[i]),
                "data": out,
                "velocity": math.sqrt(bar[i]) * xt - math.sqrt(1 - bar[i]) * out,
            }[prediction]
            guess = guess if clip is None else guess.clamp(-clip, clip)
            if i == 0:
                std, x, mean = math.sqrt(sigma2[0]), x0[i].double().numpy(), guess.double().numpy()
                above = np.where(x > 1 - 1 / 255, 1.0, norm.cdf(x + 1 / 255, mean, std))
                below = np.where(x < 1 / 255 - 1, 0.0, norm.cdf(x - 1 / 255, mean, std))
                expected = -np.log(above - below).sum()
            else:
                error = (x0[i] - guess).double().square().sum().item()
                expected = before[i] * beta[i] ** 2 / (2 * sigma2[i] * (1 - bar[i]) ** 2) * error
                expected += d / 2 * (tilde[i] / sigma2[i] - 1 + math.log(sigma2[i] / tilde[i]))
            assert_allclose(found[i], expected, rtol=1e-4)

    @pytest.mark.parametrize("prediction", PREDICTIONS)
    @pytest.mark.parametrize(
        ("variance", "clips"), [("fixed_small", False), ("fixed_small_log", True), ("fixed_large", True)]
    )
    def test_the_same_noise_becomes_the_same_images(self, prediction, variance, clips):
        source = pipeline(prediction_type=PREDICTIONS[prediction], variance_type=variance, clip_sample=clips)
        theirs = source(2, torch.Generator().manual_seed(3), T, output_type="np").images
        model = from_diffusers(source)
        module, generator = model.module_, torch.Generator().manual_seed(3)
        noise = torch.randn(2, 3, 8, 8, generator=generator).flatten(1)
        with torch.no_grad():
            *_, last = Chain(ancestral, model.schedule_, is_drawn=False)(module, noise, generator)
            mean = module.belief(last, torch.ones(2, dtype=torch.long)).mean
        ours = (mean.view(2, 3, 8, 8) / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1)
        assert 0.05 < ours.mean() < 0.95
        # A dozen steps of rounding in single precision.
        assert_allclose(ours, theirs, atol=2e-4)

    def test_it_answers_like_a_model_that_was_fitted_here(self):
        model, X = from_diffusers(pipeline(clip_sample=True)).set_params(random_state=0), images()
        bound = model.bound(X, levels="all")
        costs = model.bound_by_level(X)
        assert costs.shape == (4, T)
        assert_allclose(bound.total, model.score_samples(X.astype(float)), rtol=1e-5)
        assert_allclose(model.bits_per_dimension(X), -bound.total / (3 * 8 * 8 * math.log(2)), rtol=1e-5)
        rows, noise = model.sample(2)
        assert rows.shape == (2, 3, 8, 8)
        assert noise.shape == (2, 192)
        assert np.isin(rows, np.arange(256)).all()
        assert model.sample(2, sampler="ddim", steps=4)[0].shape == rows.shape
        assert model.rate_distortion(X).shape == (T, 3)
        assert (model.n_features_in_, model.n_iter_, len(model.history_)) == (192, 0, 0)
        assert math.isnan(model.lower_bound_)
        with pytest.raises(ValueError, match=r"X holds 0.5 in row 0, .* none of the 256 levels 0, 1, ..., 255"):
            model.score_samples(np.full((1, 3, 8, 8), 0.5))

    def test_it_fills_holes(self):
        """By conditional sampling, which asks nothing of the training."""
        model, X = from_diffusers(pipeline(clip_sample=True)).set_params(random_state=0), images(2).astype(np.float32)
        X[0, :, :4] = np.nan
        filled = model.impute_draws(X, steps=4, resamplings=2)[0]
        assert_allclose(filled[~np.isnan(X)], X[~np.isnan(X)], rtol=0)
        assert np.isin(filled, np.arange(256)).all()

    def test_a_file_keeps_it(self, tmp_path):
        model = from_diffusers(pipeline(clip_sample=True)).set_params(random_state=0)
        model.save(tmp_path / "model")
        loaded = jensen.load(tmp_path / "model")
        assert loaded.bound_by_level(images()).tolist() == model.bound_by_level(images()).tolist()
        assert loaded.network.get_params(deep=False).keys() == model.network.get_params(deep=False).keys()

    def test_other_sources(self, tmp_path):
        source = pipeline()
        reference = from_diffusers(source).set_params(random_state=0).bound_by_level(images())
        source.save_pretrained(tmp_path)
        ddim = diffusers.DDIMPipeline(source.unet, diffusers.DDIMScheduler(clip_sample=False, **BETAS))
        for given in (tmp_path, str(tmp_path), ddim, SimpleNamespace(unet=source.unet, scheduler=source.scheduler)):
            model = from_diffusers(given).set_params(random_state=0)
            assert_allclose(model.bound_by_level(images()), reference, rtol=1e-6)
        alone = from_diffusers(source.unet, source.scheduler).set_params(random_state=0)
        assert_allclose(alone.bound_by_level(images()), reference, rtol=1e-6)
        usual = from_diffusers(source.unet)
        assert usual.schedule_.n_levels == 1000
        assert (usual.variance, usual.network.clip) == ("posterior", 1.0)

    def test_the_source_stays_as_it_was_and_half_precision_becomes_single(self):
        source = pipeline({"sample_size": (8, 4)})
        source.unet.half()
        model = from_diffusers(source)
        assert next(source.unet.parameters()).dtype == torch.float16
        assert model.score_samples(images(2, (3, 8, 4))).shape == (2,)

    def test_one_class_of_many(self):
        source = pipeline({"num_class_embeds": 5})
        x, t = points(), torch.tensor([0, 3, 7, T - 1])
        with torch.no_grad():
            ours = from_diffusers(source, y=2).module_.network(x, t.float())
        assert_allclose(ours, said(source.unet, x, t, class_labels=torch.full((4,), 2)), atol=1e-5)

    @pytest.mark.parametrize(
        ("source", "options", "message"),
        [
            (lambda: 3, {}, r"source is a int without a UNet2DModel; give a DDPMPipeline, a UNet2DModel or the folder"),
            (
                lambda: SimpleNamespace(unet=unet(), scheduler=None, components={"unet": 1, "vqvae": 1}),
                {},
                r"source is a SimpleNamespace with vqvae, so its network does not see pixels; give a pipeline of pix",
            ),
            (lambda: pipeline(variance_type="learned_range"), {}, r"variance_type='learned_range' is neither .*config"),
            (
                lambda: pipeline(prediction_type="other"),
                {},
                r"prediction_type='other' is none of epsilon, sample, v_pr",
            ),
            (lambda: pipeline(thresholding=True), {}, r"thresholding=True of the scheduler is not supported; give sch"),
            (lambda: pipeline(rescale_betas_zero_snr=True), {}, r"last β is 1 \(rescale_betas_zero_snr=True\).*; give"),
            (
                pipeline,
                {"scheduler": diffusers.KarrasVeScheduler()},
                r"KarrasVeScheduler has no betas; give scheduler=",
            ),
            (lambda: pipeline({"sample_size": None}), {}, r"sample_size=None leaves .*; call unet.register_to_config"),
            (
                lambda: pipeline({"out_channels": 6}),
                {},
                r"out_channels=6 differs from in_channels=3; give",
            ),
            (lambda: pipeline({"num_class_embeds": 5}), {}, r"y=None, but the network has 5 classes, .* from 0 to 4"),
            (lambda: pipeline({"num_class_embeds": 5}), {"y": np.arange(2)}, r"y=array\(\[0, 1\]\), but the network"),
            (pipeline, {"y": 1}, r"y=1 asks for a class, but the network has none; leave y out"),
            (
                lambda: pipeline({"time_embedding_type": "fourier"}),
                {},
                r"time_embedding_type='fourier' belongs to networks",
            ),
            (lambda: pipeline({"class_embed_type": "timestep"}), {}, r"class_embed_type='timestep' embeds something"),
            (lambda: pipeline({"sample_size": 7}), {}, r"images of 7 x 7 cannot be halved 1 times, .* multiples of 2"),
        ],
    )
    def test_errors_name_the_way_out(self, source, options, message):
        with pytest.raises(ValueError, match=message):
            from_diffusers(source(), **options)


class TestRecipe:
    def test_classes_and_none(self):
        network = build_denoiser(DiffusersUNet(CONFIG), (3, 8, 8), (3, 8, 8), 4)
        x, t = points(), torch.full((4,), 5.0)
        with torch.no_grad():
            assert network(x, t).equal(network(x, t, torch.full((4,), 4)))
            assert not network(x, t).equal(network(x, t, torch.full((4,), 1)))

    def test_clipping_is_of_the_model(self):
        schedule = Schedule(np.linspace(1e-3, 0.2, 10), times=range(10))
        images = np.zeros((4, 3, 8, 8), np.uint8)
        for options, message in (
            ({"prediction": "velocity"}, "prediction='noise'.* whose prediction is 'velocity'; give both the same"),
            ({"prediction": "noise", "schedule": "cosine"}, "differs from the model's schedule"),
        ):
            model = Diffusion(
                **({"schedule": schedule, "data_levels": 256} | options),
                network=DiffusersUNet(CONFIG, 0.5, schedule, "noise"),
            )
            with pytest.raises(ValueError, match=message):
                model.fit(images)

    def test_clipping_goes_with_holes(self):
        model, X = from_diffusers(pipeline(clip_sample=True)), images(4).astype(np.float32)
        X[::2, :, :2] = np.nan
        model.set_params(random_state=0, max_epochs=1).fit(X)
        assert np.isfinite(model.impute(X, n_draws=1, steps=2, resamplings=1)).all()

    def test_clipping_needs_to_know_the_data(self):
        with pytest.raises(ValueError, match=r"clip=1.0 needs x̂_0, but schedule=None .* or leave clip out"):
            DiffusersUNet(CONFIG, clip=1.0).build((3, 8, 8), (3, 8, 8))

    def test_without_the_library(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "diffusers", None)
        for call in (lambda: from_diffusers("anywhere"), lambda: DiffusersUNet(CONFIG).build((3, 8, 8), (3, 8, 8))):
            with pytest.raises(ImportError, match=r"pip install 'jensen\[diffusers\]'"):
                call()


def fitted(X=None, y=None, **options):
    network = options.pop("network", UNet(channels=(8, 16), position_map=False))
    options = {"prediction": "noise", "max_epochs": 2, "batch_size": 8, "random_state": 0} | options
    model = Diffusion(network=network, **options).fit(images(16, (1, 8, 8)) if X is None else X, y)
    # As if it had learnt for long: away from a last layer and classes of 0.
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for parameter in model.module_.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def model():
    return fitted()


class TestToDiffusers:
    def test_the_pipeline_says_what_the_model_says(self, model, tmp_path):
        model.to_diffusers(tmp_path)
        read = diffusers.DDPMPipeline.from_pretrained(tmp_path)
        x, t = points(shape=(1, 8, 8)), torch.tensor([0, 10, 500, 999])
        with torch.no_grad():
            ours = model.module_.network(x, t.float())
        assert ours.std() > 0.1
        assert_allclose(said(read.unet, x, t), ours, atol=1e-5)
        assert (read.scheduler.config.clip_sample, read.scheduler.config.clip_sample_range) == (True, 1.0)
        assert_allclose(read.scheduler.betas, model.schedule_.beta, rtol=1e-6)

    def test_there_and_back_scores_are_the_same(self, model, tmp_path):
        model.to_diffusers(tmp_path)
        back, X = from_diffusers(tmp_path).set_params(random_state=0), images(3, (1, 8, 8))
        # Their betas are single precision.
        assert_allclose(back.bound_by_level(X), model.bound_by_level(X), rtol=1e-4, atol=1e-5)
        assert_allclose(back.score_samples(X), model.score_samples(X), rtol=1e-3)

    @pytest.mark.parametrize("clips", [False, True])
    def test_back_and_there(self, clips, tmp_path):
        source = pipeline(prediction_type="v_prediction", variance_type="fixed_large", clip_sample=clips)
        from_diffusers(source).to_diffusers(tmp_path)
        read = diffusers.DDPMPipeline.from_pretrained(tmp_path)
        read.set_progress_bar_config(disable=True)
        ours, theirs = (p(2, torch.Generator().manual_seed(1), T, output_type="np").images for p in (read, source))
        assert_allclose(ours, theirs, atol=1e-6)

    @pytest.mark.parametrize(
        ("network", "shape"),
        [
            (UNet(channels=(8, 16, 8), n_blocks=2, attention=(1,), position_map=False), (2, 8, 12)),
            (UNet(channels=(6, 12), attention=(0, 1), position_map=False), (1, 4, 4)),
            (UNet(channels=(4,), middle_attention=False, dropout=0.0, position_map=False), (5, 5)),
            (DiffusersUNet(CONFIG), (1, 8, 8)),
        ],
    )
    def test_networks_and_sizes(self, network, shape, tmp_path):
        model = fitted(images(8, shape), network=network, prediction="velocity", variance="beta", max_epochs=1)
        model.to_diffusers(tmp_path)
        read = diffusers.DDPMPipeline.from_pretrained(tmp_path)
        x, t = points(shape=model._image_shape), torch.tensor([0, 10, 500, 999])
        with torch.no_grad():
            assert_allclose(said(read.unet, x, t), model.module_.network(x, t.float()), atol=1e-5)
        # x̂_0 of data on a grid is limited to the range of the data.
        assert read.scheduler.config.clip_sample is True
        assert (read.scheduler.config.prediction_type, read.scheduler.config.variance_type) == (
            "v_prediction",
            "fixed_large",
        )

    @pytest.mark.parametrize("network", [UNet(channels=(8, 16), position_map=False), DiffusersUNet(CONFIG)], ids=repr)
    def test_classes(self, network, tmp_path):
        labels = np.array(["a", "b"] * 8)
        model = fitted(y=labels, network=network)
        x, t = points(shape=(1, 8, 8)), torch.tensor([0, 10, 500, 999])
        for y, number in (("a", 0), ("b", 1), (None, 2)):
            model.to_diffusers(tmp_path / str(number), y)
            read = diffusers.DDPMPipeline.from_pretrained(tmp_path / str(number))
            with torch.no_grad():
                ours = model.module_.network(x, t.float(), torch.full((4,), number))
            assert_allclose(said(read.unet, x, t), ours, atol=1e-5)
        with pytest.raises(ValueError, match=r"y='c' is not among \['a', 'b'\]"):
            model.to_diffusers(tmp_path, "c")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"X": np.eye(8), "network": ResidualMLP(width=8)}, r"make images, but .* rows of shape \(8,\); use save"),
            ({"X": images(8, (5, 8, 8))}, r"images of 1 to 4 channels, not 5; use save"),
            (
                {"data_levels": None},
                r"fitted on numbers that have no levels; fit on images that have levels, such as u",
            ),
            (
                {"prediction": "levels"},
                r"prediction='levels' does not exist in diffusers; fit with 'noise', 'data', 'vel",
            ),
            ({"prediction": "mean"}, r"prediction='mean' does not exist in diffusers"),
            (
                {"variance": "learned", "objective": "hybrid"},
                r"variance='learned' is .*; fit with 'beta' or 'posterior'",
            ),
            ({"n_steps": 50}, r"has times up to 980 for the 50 levels, .*; fit with n_steps=1000, or with a Schedule"),
            (
                {"network": ResidualMLP(width=8)},
                r"network=ResidualMLP\(...\) has no counterpart in .*position_map=False",
            ),
            ({"network": None}, r"UNet\(position_map=True\) adds a learned image, .*; fit with UNet\(position_map=Fal"),
            ({"network": UNet(channels=(5, 10), position_map=False)}, r"channels=\(5, 10\) begins with an odd number,"),
            (
                {"network": UNet(channels=(8, 12), attention=(0,), position_map=False)},
                r"channels=\(8, 12\) has stages with attention .*; fit with multiples of 8",
            ),
            ({"X": images(8, (1, 7, 8))}, r"images of 7 x 8 cannot be halved 1 times, .* or use fewer stages"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_errors_name_the_way_out(self, options, message, tmp_path):
        model = fitted(**options, max_epochs=1)
        with pytest.raises(ValueError, match=message):
            model.to_diffusers(tmp_path / "pipeline")
        assert not (tmp_path / "pipeline").exists()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"prediction": "auto"}, "prediction='levels' does not exist in diffusers; fit with 'noise'"),
            ({"prediction": "mean"}, "prediction='mean' does not exist in diffusers"),
            ({"variance": "learned", "objective": "hybrid"}, "variance='learned' is .*; fit with 'beta' or"),
            ({"n_steps": 50}, "has times up to 980 for the 50 levels"),
            ({"data_levels": None}, "data_levels=None has no levels, .*; choose data_levels='auto' or 256"),
            ({"network": ResidualMLP(width=8)}, r"network=ResidualMLP\(...\) has no counterpart"),
            ({"network": None}, r"UNet\(position_map=True\) adds a learned image"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_what_cannot_be_written_is_said_before_a_fit(self, options, message, tmp_path):
        writable = {"prediction": "noise", "network": UNet(channels=(8, 16), position_map=False)}
        with pytest.raises(ValueError, match=message):
            Diffusion(**writable | options).to_diffusers(tmp_path / "pipeline")
        with pytest.raises(NotFittedError):
            Diffusion(**writable).to_diffusers(tmp_path / "pipeline")

    def test_a_class_of_none(self, model, tmp_path):
        with pytest.raises(ValueError, match=r"y=1 asks for a class, but the model was fitted without labels"):
            model.to_diffusers(tmp_path, 1)

    def test_any_number_of_levels_with_their_numbers_as_times(self, tmp_path):
        betas = Schedule.linear(30).beta
        model = fitted(schedule=Schedule(betas, times=range(30)), max_epochs=1)
        model.to_diffusers(tmp_path)
        assert from_diffusers(tmp_path).schedule_.n_levels == 30
