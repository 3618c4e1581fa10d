"""Samplers with a denoiser that is known: the right distribution, and step for step what diffusers does."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp
from torch import nn

from jensen import Schedule
from jensen.models.diffusion.inference import Chain
from jensen.models.diffusion.samplers.ancestral import ancestral
from jensen.models.diffusion.samplers.ddim import ddim
from jensen.models.diffusion.samplers.dpm_solver import dpm_solver
from jensen.models.diffusion.samplers.repaint import put_known, repaint
from known_denoisers import MEANS, STD, known_module, mixture_rows


@pytest.fixture(scope="module")
def diffusers():
    return pytest.importorskip("diffusers")


def drawn(sampler, schedule, n, *, variance="beta", steps=None, is_drawn=True, seed=0):
    module = known_module(Schedule.linear(200) if schedule is None else schedule, variance=variance)
    kept = module.schedule if steps is None else module.schedule.respace(steps)
    generator = torch.Generator().manual_seed(seed)
    chain = Chain(sampler, kept, is_drawn)
    *_, last = chain(module, torch.randn(n, 2, generator=generator), generator)
    return chain.decoded(module, last, generator).detach().numpy()


def assert_same_distribution(x, y):
    """Kolmogorov and Smirnov's two-sample test along four directions; 1e-4 fails by chance once in 2500 runs."""
    for direction in ([1, 0], [0, 1], [1, 1], [1, -1]):
        assert ks_2samp(x @ direction, y @ direction).pvalue > 1e-4


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        (ancestral, {"variance": "beta"}),
        (ancestral, {"variance": "posterior"}),
        (ancestral, {"variance": "beta", "schedule": Schedule.cosine(200)}),
        (partial(ddim, eta=1.0), {}),
        (partial(ddim, eta=0.0), {}),
        (partial(ddim, eta=0.5), {"steps": 100}),
        (dpm_solver, {"steps": 40}),
    ],
)
def test_samples_are_of_the_mixture(sampler, options):
    arguments = {"schedule": None, "is_drawn": sampler is ancestral} | options
    assert_same_distribution(drawn(sampler, n=1500, **arguments), mixture_rows(1500, seed=1))


def test_a_wrong_denoiser_is_noticed():
    """The two-sample test has the power to tell: a mixture whose means are half a deviation off fails it."""
    with pytest.raises(AssertionError):
        assert_same_distribution(mixture_rows(1500, 0) + 0.15, mixture_rows(1500, 1))


def test_ddim_with_all_noise_is_ancestral_sampling_with_the_posterior_variance():
    """Step for step: from one x_t and one draw of the noise both come to the same x_{t-1}."""
    schedule, x = Schedule.linear(50), torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    module = known_module(schedule, variance="posterior")

    def path(sampler):
        chain = Chain(sampler, schedule, is_drawn=True)
        return list(chain(module, x, torch.Generator().manual_seed(1)))

    for one, other in zip(path(ancestral), path(partial(ddim, eta=1.0)), strict=True):
        assert_allclose(one.detach(), other.detach(), atol=2e-5)


BETAS = {"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "linear", "clip_sample": False}


class TestBesideDiffusers:
    """The same noise prediction, the same noise, the same levels."""

    class Noise(nn.Module):
        """Some smooth function of x and t as ε_θ."""

        def __init__(self):
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, x, t, y=None):
            return torch.tanh(0.8 * x.flip(-1) + 0.3 * x) * (1 + t[:, None] / 2000)

    def walk(self, sampler, schedule, x, variance="posterior"):
        module = known_module(schedule, "noise", variance, self.Noise())
        chain = Chain(sampler, schedule, is_drawn=False)
        path = list(chain(module, x, torch.Generator().manual_seed(3)))
        return [point.detach() for point in path], module

    def peer(self, scheduler, x, timesteps, **options):
        network, path = self.Noise(), [x]
        for t in timesteps:
            out = network(path[-1], torch.full((len(x),), float(t)))
            path.append(scheduler.step(out, t, path[-1], **options).prev_sample.detach())
        return path

    @pytest.fixture
    def x(self):
        return torch.randn(4, 2, generator=torch.Generator().manual_seed(0))

    @pytest.mark.parametrize(("variance", "theirs"), [("posterior", "fixed_small"), ("beta", "fixed_large")])
    def test_ddpm(self, diffusers, x, variance, theirs):
        scheduler = diffusers.DDPMScheduler(1000, variance_type=theirs, **BETAS)
        scheduler.set_timesteps(1000)
        full = Schedule.linear(1000)
        path, _ = self.walk(ancestral, full, x, variance)
        generator = torch.Generator().manual_seed(3)
        peers = self.peer(scheduler, x, scheduler.timesteps[:-1], generator=generator)
        # A thousand steps of rounding in single precision.
        for ours, other in zip(path, peers, strict=True):
            assert_allclose(ours, other, rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("eta", [0.0, 0.7])
    def test_ddim_leading(self, diffusers, x, eta):
        scheduler = diffusers.DDIMScheduler(1000, set_alpha_to_one=True, timestep_spacing="leading", **BETAS)
        scheduler.set_timesteps(20)
        levels = scheduler.timesteps.numpy()[::-1] + 1
        schedule = Schedule.linear(1000).respace(levels.copy())
        path, module = self.walk(partial(ddim, eta=eta), schedule, x)
        generator = torch.Generator().manual_seed(3)
        peers = self.peer(scheduler, x, scheduler.timesteps, eta=eta, generator=generator)
        # Theirs takes a step of 50 levels down from the lowest, and so to x_0; ours leaves that to the model.
        assert len(peers) == len(path) + 1
        for ours, other in zip(path, peers, strict=False):
            assert_allclose(ours, other, rtol=1e-5, atol=2e-5)
        if not eta:
            last = Chain(ddim, schedule, is_drawn=False).decoded(module, path[-1], generator)
            assert_allclose(last.detach(), peers[-1], rtol=1e-5, atol=2e-5)

    def test_dpm_solver(self, diffusers, x):
        options = {key: value for key, value in BETAS.items() if key != "clip_sample"}
        scheduler = diffusers.DPMSolverMultistepScheduler(
            1000, timestep_spacing="trailing", lower_order_final=False, final_sigmas_type="zero", **options
        )
        scheduler.set_timesteps(25)
        levels = scheduler.timesteps.numpy()[::-1] + 1
        path, _ = self.walk(dpm_solver, Schedule.linear(1000).respace(levels.copy()), x)
        peers = self.peer(scheduler, x, scheduler.timesteps[:-1])
        for ours, other in zip(path, peers, strict=True):
            assert_allclose(ours, other, rtol=1e-5, atol=5e-5)


def test_the_solver_needs_fewer_steps_than_ddim():
    """Second order: against the path of 400 steps its error falls four times when steps double, DDIM's two times."""
    schedule = Schedule.linear(1000)
    module = known_module(schedule)
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))

    def end(sampler, steps):
        # To one low level, the same for all: x_1 of the respaced schedules.
        levels = np.rint(np.linspace(100, 1000, steps)).astype(int)
        *_, last = Chain(sampler, schedule.respace(levels), False)(module, x, torch.Generator())
        return last.detach()

    truth = end(dpm_solver, 400)
    errors = {
        (sampler, steps): float((end(sampler, steps) - truth).square().mean().sqrt())
        for sampler in (ddim, dpm_solver)
        for steps in (15, 30)
    }
    assert errors[dpm_solver, 30] < 0.5 * errors[ddim, 30]
    assert errors[ddim, 15] / errors[ddim, 30] == pytest.approx(2, rel=0.25)
    assert math.log2(errors[dpm_solver, 15] / errors[dpm_solver, 30]) > 1.5


class TestRepaint:
    """The mixture whose first number is known; against a Gaussian it is measured in tests/models."""

    SCHEDULE = Schedule.cosine(1000)

    def path(self, known, is_known, resamplings=10, steps=100, seed=0):
        module, kept = known_module(self.SCHEDULE), self.SCHEDULE.respace(steps)
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(known.shape, generator=generator)
        start = put_known(noise, kept, steps, generator, known, is_known)
        chain = Chain(partial(repaint, known=known, is_known=is_known, resamplings=resamplings), kept, True)
        with torch.inference_mode():
            path = list(chain(module, start, generator))
            return path, chain.decoded(module, path[-1], generator), kept

    def test_the_known_part_is_noised_at_every_level(self):
        known = torch.tensor([[0.7, 0.0]]).expand(4000, 2)
        path, _, schedule = self.path(known, torch.tensor([[True, False]]).expand(4000, 2), resamplings=2, steps=5)
        assert len(path) == 5
        for t, x in zip(range(5, 0, -1), path, strict=True):
            std = math.sqrt(schedule.noise_variance[t - 1])
            assert abs(float(x[:, 0].mean()) - 0.7 * math.sqrt(schedule.alpha_bar[t - 1])) < 4 * std / math.sqrt(4000)
            assert_allclose(x[:, 0].std(), std, rtol=4 / math.sqrt(8000))

    def share_of_first(self, number, resamplings):
        """Of draws of x_2 given x_1, how many are of the first component: by their mean."""
        known = torch.tensor([[number, 0.0]]).expand(2000, 2)
        _, rows, _ = self.path(known, torch.tensor([[True, False]]).expand(2000, 2), resamplings)
        return (float(rows[:, 1].mean()) - MEANS[1, 1]) / (MEANS[0, 1] - MEANS[1, 1])

    def test_both_components_may_have_made_what_is_known(self):
        """p(k|x_1) ∝ N(x_1; m_k1, s²): in the middle either, elsewhere as docs/diffusion-reference.md tells."""
        expected = 1 / (1 + math.exp(-2 * 0.1 * MEANS[0, 0] / STD**2))
        assert abs(expected - 0.9) < 0.01
        # Four standard errors of a mean whose deviation is 0.58 at most.
        error = 4 * 0.58 / math.sqrt(2000)
        assert abs(self.share_of_first(0.0, 10) - 0.5) < error
        for resamplings, share in ((1, 0.63), (10, 0.81), (50, 0.87)):
            assert abs(self.share_of_first(0.1, resamplings) - share) < error

    def test_with_nothing_known_it_is_ancestral_sampling(self):
        """Noising a level again and coming back leaves its distribution as it is."""
        nothing = torch.zeros(1500, 2)
        _, rows, _ = self.path(nothing, nothing.bool(), resamplings=3, steps=200)
        assert_same_distribution(rows.numpy(), mixture_rows(1500, seed=1))
