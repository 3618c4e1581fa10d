"""The training path on modules of its own: a line with a closed form, and walks whose every step is known."""

import copy
import math
import signal

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from torch import nn

from jensen import VAE, Trainer
from jensen.engines.sgd import loop as sgd
from jensen.engines.sgd.feeds import TensorFeed
from jensen.engines.sgd.loop import DivergenceError, Phase, Plan, fit_sgd
from jensen.runtime.interrupt import Interrupted, propagating_interrupts

PLAIN = Trainer(warm_up=0, decay=None, clip=None, averaging=None)


def plan(max_epochs=1, batch_size=8, learning_rate=0.1, trainer=PLAIN, **options):
    return Plan(max_epochs, batch_size, learning_rate, trainer, **({"seed": 0} | options))


class Line(nn.Module):
    """ln p of y = x w + b + noise of variance 1, up to a constant."""

    def __init__(self, n_features=3):
        super().__init__()
        self.line = nn.Linear(n_features, 1)
        nn.init.zeros_(self.line.weight)
        nn.init.zeros_(self.line.bias)

    def forward(self, x, y):
        return {"fit": -0.5 * (y - self.line(x)[:, 0]).square()}

    @property
    def coefficients(self):
        return torch.cat([self.line.bias, self.line.weight[0]]).detach().double().numpy()


def fit_of(terms, done):
    return terms["fit"]


def rows_on_a_line(n=64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = x @ [1.0, -2.0, 0.5] + 3 + 0.3 * rng.normal(size=n)
    return torch.tensor(x).float(), torch.tensor(y).float()


def least_squares(x, y, weight=None):
    root = np.ones(len(y)) if weight is None else np.sqrt(weight)
    design = np.column_stack([np.ones(len(x)), x.numpy()])
    return np.linalg.lstsq(design * root[:, None], y.numpy() * root, rcond=None)[0]


class Walk(nn.Module):
    """One weight θ whose gradient is 1, so that every step of Adam is the learning rate, θ_t = t · rate."""

    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return {"height": self.theta + x[:, 0]}


def height(terms, done):
    return terms["height"]


ZEROS = TensorFeed((torch.zeros(8, 1),))


class TestWhatIsLearnt:
    @pytest.mark.parametrize("averaging", [None, 0.99])
    def test_a_line_comes_to_least_squares(self, averaging):
        x, y = rows_on_a_line()
        module = Line()
        trainer = Trainer(averaging=averaging)
        run = fit_sgd(module, TensorFeed((x, y)), fit_of, plan(1500, 64, 0.05, trainer))
        assert_allclose(module.coefficients, least_squares(x, y), atol=2e-3)
        assert run.objective == run.history[-1]["objective"]
        assert run.n_epochs == 1500

    def test_weight_2_is_the_row_twice(self):
        x, y = rows_on_a_line()
        weight = torch.arange(64) % 3
        module = Line()
        feed = TensorFeed((x, y), weight / weight.float().mean())
        run = fit_sgd(module, feed, fit_of, plan(1500, 64, 0.05, Trainer(averaging=None)))
        assert_allclose(module.coefficients, least_squares(x, y, weight.numpy()), atol=2e-3)
        repeated = torch.arange(64).repeat_interleave(weight)
        final = module(x[repeated], y[repeated])["fit"].detach().mean()
        assert run.history[-1]["fit"] == pytest.approx(float(final), rel=1e-4)

    def test_means_are_of_rows_and_weights_count(self):
        """With a rate of almost nothing θ stays 0, and the mean height is the weighted mean of x over the epoch."""
        x, weight = torch.arange(8.0)[:, None], torch.tensor([3.0, 1, 1, 1, 1, 1, 0, 0])
        run = fit_sgd(Walk(), TensorFeed((x,), weight), height, plan(batch_size=4, learning_rate=1e-12))
        assert run.history[0]["height"] == pytest.approx(15 / 8)
        assert run.history[0]["objective"] == pytest.approx(15 / 8)

    def test_phases_take_turns_and_move_only_their_own(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

            def forward(self, x):
                return {"height": self.a + self.b + x[:, 0]}

        module = Two()
        phases = [Phase("A", [module.a]), Phase("B", [module.b])]
        # A round is 50 steps: A, B and a third that the last epoch cuts off.
        run = fit_sgd(module, ZEROS, height, plan(120, 8, 0.01, phases=phases))
        assert [row["phase"] for row in run.history] == ["A", "B", "A"]
        assert [row["epoch"] for row in run.history] == [50, 100, 120]
        assert module.a.item() == pytest.approx(0.70, abs=1e-5)
        assert module.b.item() == pytest.approx(0.50, abs=1e-5)
        assert all(p.requires_grad and p.grad is None for p in module.parameters())


class TestSteps:
    def test_warm_up_rises_and_a_cosine_falls(self):
        trainer = Trainer(warm_up=4, decay="cosine")
        rates = [trainer.rate(step, step / 100) for step in (0, 1, 3, 25, 50, 99, 100)]
        cosine = [0.5 * (1 + math.cos(math.pi * step / 100)) for step in (0, 1, 3, 25, 50, 99, 100)]
        assert_allclose(rates, np.array([0.25, 0.5, 1, 1, 1, 1, 1]) * cosine, atol=1e-15)
        assert Trainer(warm_up=0, decay=None).rate(17, 0.17) == 1.0

    def test_the_schedule_decides_about_every_step(self):
        module = Walk()
        trainer = Trainer(warm_up=10, averaging=None, clip=None)
        run = fit_sgd(module, ZEROS, height, plan(60, 4, 0.01, trainer))
        assert module.theta.item() == pytest.approx(0.01 * sum(trainer.rate(t, t / 120) for t in range(120)), rel=1e-4)
        assert run.history[-1]["learning_rate"] == pytest.approx(0.01 * trainer.rate(119, 119 / 120))

    def test_the_average_is_the_formula(self):
        """θ̄ ← a θ̄ + (1 - a) θ, a = min(decay, (1 + t) / (10 + t)), with θ_t = (t + 1) · rate."""
        module, average = Walk(), 0.0
        fit_sgd(module, ZEROS, height, plan(30, 8, 0.01, Trainer(warm_up=0, decay=None, clip=None, averaging=0.6)))
        for t in range(30):
            a = min(0.6, (1 + t) / (10 + t))
            average = a * average + (1 - a) * 0.01 * (t + 1)
        assert module.theta.item() == pytest.approx(average, rel=1e-5)

    def test_buffers_are_those_of_the_last_step(self):
        class Counting(Walk):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros((), dtype=torch.long))

            def forward(self, x):
                self.count += self.training
                return super().forward(x)

        module = Counting()
        fit_sgd(module, ZEROS, height, plan(7, 8, trainer=Trainer(averaging=0.9)), held_out=ZEROS)
        assert module.count == 7

    @pytest.mark.parametrize("limit", [0.5, 1.5])
    def test_long_gradients_are_cut_to_the_limit(self, limit):
        """g = (0.6, 0.8) has length 1; Adam keeps (1 - β₁) of what it was given as its first moment."""
        weight = nn.Parameter(torch.zeros(2))
        weight.grad = torch.tensor([0.6, 0.8])
        assert sgd.clip_gradients([weight, nn.Parameter(torch.zeros(1))], limit) == pytest.approx(1.0)
        assert_allclose(weight.grad, min(limit, 1.0) * np.array([0.6, 0.8]), rtol=1e-6)

    def test_weight_decay_shrinks(self):
        module = Walk()
        module.theta.data.fill_(1.0)

        def nothing(terms, done):
            return 0 * terms["height"]

        trainer = Trainer(weight_decay=0.5, warm_up=0, decay=None, averaging=None)
        fit_sgd(module, ZEROS, nothing, plan(10, 8, 0.1, trainer))
        # AdamW: θ ← (1 - rate · decay) θ.
        assert module.theta.item() == pytest.approx(0.95**10, rel=1e-5)

    def test_the_objective_is_told_how_much_is_done(self):
        shares = []

        def objective(terms, done):
            shares.append(done)
            return terms["height"]

        fit_sgd(Walk(), ZEROS, objective, plan(2, 2))
        assert_allclose(shares, np.arange(8) / 8)

    @pytest.mark.parametrize(("n_rows", "batch_size", "n_steps"), [(1, 100, 3), (7, 100, 3), (7, 3, 6), (7, 1, 21)])
    def test_a_batch_is_no_larger_than_the_rows_and_the_rest_is_dropped(self, n_rows, batch_size, n_steps):
        sizes = []

        def objective(terms, done):
            sizes.append(len(terms["height"]))
            return terms["height"]

        run = fit_sgd(Walk(), TensorFeed((torch.zeros(n_rows, 1),)), objective, plan(3, batch_size))
        assert sizes == [min(batch_size, n_rows)] * n_steps
        # Fewer epochs than a round has: the last one closes it.
        assert [row["epoch"] for row in run.history] == [3]


class TestHeldOut:
    def test_the_best_round_is_kept_and_the_run_ends(self):
        """θ walks past 1, where held-out rows like it best: rounds of 50 steps of 0.004 come to 0.2, 0.4, ..."""
        module = Walk()

        def score(terms, done):
            assert done == 1.0
            return -(terms["height"] - 1.0).square()

        trainer = Trainer(warm_up=0, decay=None, clip=None, averaging=None, patience=3)
        run = fit_sgd(module, ZEROS, height, plan(1000, 8, 0.004, trainer), held_out=ZEROS, score=score)
        assert module.theta.item() == pytest.approx(1.0, abs=1e-3)
        assert len(run.history) == 5 + 3
        assert run.n_epochs == 400
        held_out = [row["held_out"] for row in run.history]
        assert_allclose(held_out, [-((0.2 * r - 1) ** 2) for r in range(1, 9)], atol=1e-3)
        assert run.objective == run.history[4]["objective"]

    def test_the_start_may_be_the_best_round(self):
        """θ = 0 is where held-out rows like it best, and every step leads away."""
        module = Walk()

        def score(terms, done):
            return -terms["height"].square()

        trainer = Trainer(warm_up=0, decay=None, clip=None, averaging=0.9, patience=3)
        run = fit_sgd(
            module, ZEROS, height, plan(1000, 8, 0.004, trainer, may_keep_start=True), held_out=ZEROS, score=score
        )
        assert module.theta.item() == 0
        assert [row["epoch"] for row in run.history] == [0, 50, 100, 150]
        assert (run.history[0]["held_out"], run.history[0]["objective"], run.objective) == (0, 0, 0)

    def test_a_start_that_is_passed_by_changes_nothing(self):
        def score(terms, done):
            return terms["height"]

        modules = [Walk(), Walk()]
        for module, may_keep_start in zip(modules, (False, True), strict=True):
            fit_sgd(module, ZEROS, height, plan(100, 8, may_keep_start=may_keep_start), held_out=ZEROS, score=score)
        assert modules[0].theta.item() == modules[1].theta.item() > 0

    def test_without_held_out_rows_the_last_weights_are_kept(self):
        module = Walk()
        run = fit_sgd(module, ZEROS, height, plan(200, 8, 0.01))
        assert module.theta.item() == pytest.approx(2.0, abs=1e-3)
        assert "held_out" not in run.history[0]
        assert run.objective == run.history[-1]["objective"]

    def test_the_score_is_the_weighted_mean_and_uses_the_same_noise_every_time(self):
        class Noisy(Walk):
            def forward(self, x):
                return {"height": 0 * self.theta + x[:, 0] + torch.randn(len(x))}

        x, weight = torch.arange(2000.0)[:, None], (torch.arange(2000) < 500).float()
        feed = TensorFeed((x,), weight)
        run = fit_sgd(Noisy(), ZEROS, height, plan(150, 8), held_out=feed)
        first, second, third = (row["held_out"] for row in run.history)
        assert first == second == third
        # 500 rows of noise of variance 1.
        assert first == pytest.approx(np.arange(500).mean(), abs=5 / math.sqrt(500))

    def test_held_out_rows_that_are_never_finite_are_an_error(self):
        def score(terms, done):
            return terms["height"] * math.inf

        with pytest.raises(
            DivergenceError, match="the held-out bound is not finite after any of 2 rounds; lower learn"
        ):
            fit_sgd(Walk(), ZEROS, height, plan(100, 8), held_out=ZEROS, score=score)


class Fragile(nn.Module):
    """Like a walk, until a step from which one of its terms is no number."""

    def __init__(self, breaks_at, how=math.nan):
        super().__init__()
        self.theta, self.breaks_at, self.how, self.n_calls = nn.Parameter(torch.zeros(1)), breaks_at, how, 0

    def forward(self, x):
        self.n_calls += self.training
        bad = self.how if self.n_calls > self.breaks_at else 0.0
        return {"height": self.theta + x[:, 0], "depth": self.theta + bad + x[:, 0]}


def both(terms, done):
    return terms["height"] + terms["depth"]


class TestDivergence:
    def test_before_any_round_it_raises_and_leaves_the_start(self):
        module = Fragile(13)
        with pytest.raises(
            DivergenceError, match="diverged in epoch 4, step 2: depth is not finite; lower learning_rate"
        ):
            fit_sgd(module, ZEROS, both, plan(100, 2))
        assert module.theta.item() == 0
        assert not module.training

    def test_after_a_round_it_warns_and_keeps_its_weights(self):
        module = Fragile(60, math.inf)
        message = (
            r"epoch 61, step 1: depth is not finite; .* or set Trainer\(clip=1.0\); the weights of epoch 50 are kept"
        )
        with pytest.warns(RuntimeWarning, match=message):
            run = fit_sgd(module, ZEROS, both, plan(100, 8, 0.01))
        assert module.theta.item() == pytest.approx(0.5, abs=1e-5)
        assert (len(run.history), run.n_epochs) == (1, 60)

    def test_a_gradient_can_be_the_first_to_go(self):
        """√θ is 0 at 0, but its slope is infinite."""

        class Root(Walk):
            def forward(self, x):
                return {"height": self.theta.sqrt() + x[:, 0]}

        with pytest.raises(
            DivergenceError, match=r"epoch 1, step 1: the gradient is not finite; .* Trainer\(clip=...\) below 9"
        ):
            fit_sgd(Root(), ZEROS, height, plan(trainer=Trainer(clip=9.0)))

    @pytest.mark.parametrize("averaging", [None, 0.9])
    def test_weights_that_are_no_numbers_are_never_kept(self, averaging):
        """Without clipping nobody looks at gradients: in the last step of a round only the weights show it."""

        class Root(Walk):
            def forward(self, x):
                self.n_calls = getattr(self, "n_calls", 0) + 1
                # √(θ - θ) is 0, and its slope infinite.
                nothing = (self.theta - self.theta).sqrt() if self.n_calls == 100 else 0.0
                return {"height": self.theta + nothing + x[:, 0]}

        module = Root()
        trainer = Trainer(warm_up=0, decay=None, clip=None, averaging=averaging)
        with pytest.warns(RuntimeWarning, match=r"in epoch 100: a weight is not finite; .* of epoch 50 are kept"):
            run = fit_sgd(module, ZEROS, height, plan(100, 8, 0.01, trainer))
        assert len(run.history) == 1
        assert module.theta.isfinite().all()


class TestReproducibility:
    def test_seed_and_epoch_determine_the_order_of_rows(self):
        def orders(seed):
            found = []

            class Seen(Walk):
                def forward(self, x):
                    found.append(x[:, 0].tolist())
                    return super().forward(x)

            fit_sgd(Seen(), TensorFeed((torch.arange(12.0)[:, None],)), height, plan(2, 5, seed=seed))
            return found

        first = orders(0)
        assert first == orders(0) != orders(1)
        # Two batches of five of the twelve rows: nobody is seen twice in an epoch, and epochs differ.
        assert [len(set(first[i] + first[i + 1])) for i in (0, 2)] == [10, 10]
        assert first[:2] != first[2:]

    def test_same_seed_same_weights_and_the_users_generator_is_untouched(self):
        x = load_iris().data
        torch.manual_seed(5)
        before = torch.get_rng_state()
        one, other, third = (VAE(2, max_epochs=60, random_state=seed).fit(x) for seed in (0, 0, 1))
        assert torch.equal(torch.get_rng_state(), before)
        for name, weight in one.module_.state_dict().items():
            assert torch.equal(weight, other.module_.state_dict()[name])
        assert one.history_.drop(columns="seconds").equals(other.history_.drop(columns="seconds"))
        assert one.lower_bound_ != third.lower_bound_


class TestWhatIsShown:
    def test_history_and_bar_have_every_term(self, monkeypatch):
        told = []
        monkeypatch.setattr(sgd.Bar, "note", lambda self, text, values=None: told.append(text))
        run = fit_sgd(Fragile(math.inf), ZEROS, both, plan(60, 8, 0.01, progress="fit"), held_out=ZEROS)
        first = run.history[0]
        assert list(first) == ["epoch", "objective", "height", "depth", "held_out", "learning_rate", "seconds"]
        # The mean of θ = 0, 0.01, ..., 0.49 over the steps of the round, and where they came to.
        assert first["height"] == pytest.approx(0.245, abs=1e-5)
        assert first["objective"] == pytest.approx(0.49, abs=1e-5)
        assert first["held_out"] == pytest.approx(1.0, abs=1e-5)
        assert told[0] == "objective 0.49, height 0.245, depth 0.245, held_out 1"

    def test_the_bar_is_quiet_unless_on_a_terminal(self, capsys):
        fit_sgd(Walk(), ZEROS, height, plan(progress="fit"))
        assert capsys.readouterr().err == ""


@pytest.fixture
def _listening():
    """Ctrl-C as a terminal's program has it, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_listening")
class TestInterrupt:
    def test_ctrl_c_ends_after_the_step_and_keeps_what_there_is(self):
        steps = []

        def objective(terms, done):
            steps.append(done)
            if len(steps) == 30:
                signal.raise_signal(signal.SIGINT)
            return terms["height"]

        module = Walk()
        with pytest.warns(
            RuntimeWarning, match="interrupted after step 2 of epoch 8; the best weights so far are kept$"
        ):
            run = fit_sgd(module, ZEROS, objective, plan(1000, 2, 0.01))
        assert run.is_interrupted
        assert (len(steps), run.n_epochs, run.history) == (30, 7, [])
        assert module.theta.item() == pytest.approx(0.3, abs=1e-5)
        assert run.objective == pytest.approx(0.145, abs=1e-5)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_ctrl_c_ends_everything_where_many_fits_make_one_result(self):
        def objective(terms, done):
            signal.raise_signal(signal.SIGINT)
            return terms["height"]

        module = Walk()
        with (
            propagating_interrupts(),
            pytest.raises(Interrupted, match="interrupted after step 1 of epoch 1") as caught,
        ):
            fit_sgd(module, ZEROS, objective, plan(1000, 2, 0.01))
        assert caught.value.best.is_interrupted
        assert module.theta.item() == pytest.approx(0.01, abs=1e-5)

    def test_the_second_ctrl_c_does_not_wait(self):
        def objective(terms, done):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            return terms["height"]

        with pytest.raises(KeyboardInterrupt):
            fit_sgd(Walk(), ZEROS, objective, plan())

    def test_a_job_that_ignores_ctrl_c_goes_on_ignoring_it(self):
        def objective(terms, done):
            signal.raise_signal(signal.SIGINT)
            return terms["height"]

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert not fit_sgd(Walk(), ZEROS, objective, plan(3)).is_interrupted
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_decay": -1}, r"Trainer\(weight_decay=-1\) must be a number, 0 or more"),
        ({"warm_up": None}, r"Trainer\(warm_up=None\) must be a number, 0 or more"),
        ({"checkpoint_every": math.nan}, r"Trainer\(checkpoint_every=nan\) must be a number, 0 or more"),
        ({"decay": "linear"}, r"Trainer\(decay='linear'\) must be 'cosine' or None"),
        ({"clip": 0}, r"Trainer\(clip=0\) must be a number above 0, or None"),
        ({"averaging": 1.0}, r"Trainer\(averaging=1.0\) must lie between 0 and 1, or be None"),
        ({"validation_fraction": 1}, r"Trainer\(validation_fraction=1\) must be 0 or more and below 1"),
        ({"patience": 0}, r"Trainer\(patience=0\) must be 1 or more"),
    ],
)
def test_a_trainer_refuses_what_cannot_be_meant(options, message):
    with pytest.raises(ValueError, match=message):
        VAE(2, trainer=Trainer(**options)).fit(load_iris().data)


def test_a_module_is_trained_in_place_and_its_copy_is_not():
    module = Walk()
    other = copy.deepcopy(module)
    fit_sgd(module, ZEROS, height, plan())
    assert module.theta.item() != 0
    assert other.theta.item() == 0
