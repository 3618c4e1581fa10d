"""The time of a training: limited, told, and the same in its learning rate."""

import warnings

import numpy as np
import pytest
import torch
from tests.engines.sgd.test_loop import ZEROS, Walk, height

from jensen import MLP, VAE, Trainer
from jensen.engines.sgd import pace
from jensen.engines.sgd.loop import fit_sgd
from jensen.engines.sgd.pace import Pace
from jensen.engines.sgd.plan import Plan
from jensen.engines.sgd.processes import World
from jensen.runtime import progress
from jensen.runtime.progress import Bar, duration

WORLD = World(torch.device("cpu"))


@pytest.fixture
def clock(monkeypatch):
    """A clock that a training step moves by a second."""
    now = [1000.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])

    class Ticking(Walk):
        def forward(self, *inputs):
            now[0] += 1.0
            return super().forward(*inputs)

    return Ticking


def test_the_fraction_is_that_of_the_steps_or_of_the_time_whichever_is_more():
    assert [Pace(100, None, WORLD).done(step, 1e6) for step in (0, 25, 100)] == [0.0, 0.25, 1.0]
    assert [Pace(100, 60.0, WORLD).done(step, seconds) for step, seconds in ((10, 3), (10, 30), (99, 90))] == [
        0.1,
        0.5,
        1,
    ]


def test_what_is_left_follows_from_the_steps_since_the_first_call():
    own = Pace(1000, None, WORLD)
    assert own.left(100, 500.0) is None  # resumed at step 100
    assert own.left(103, 560.0) is None  # too few steps
    assert own.left(110, 520.0) == pytest.approx(890 * 2)
    limited = Pace(1000, 600.0, WORLD)
    limited.left(100, 500.0)
    assert limited.left(110, 520.0) == pytest.approx(80)


def test_a_limit_ends_the_training_and_its_learning_rate(clock):
    trainer = Trainer(max_seconds=50, warm_up=0, averaging=None, clip=None, validation_fraction=0)
    module = clock()
    run = fit_sgd(module, ZEROS, height, Plan(1000, 8, 0.01, trainer, seed=0))
    rates = [0.01 * trainer.rate(t, t / 50) for t in range(50)]
    assert module.theta.item() == pytest.approx(sum(rates), rel=1e-4)
    assert run.history[-1]["seconds"] == 50
    assert not run.is_interrupted


@pytest.mark.parametrize("n_rows", [40, 60])
def test_time_counts_before_an_interruption(tmp_path, clock, n_rows):
    """A fit that has used its time is over; with more time it goes on where it stopped."""
    path, feed = str(tmp_path / "c"), ZEROS

    def fit(max_seconds):
        module = clock()
        trainer = Trainer(
            max_seconds=max_seconds, warm_up=0, averaging=None, clip=None, validation_fraction=0, decay=None
        )
        run = fit_sgd(module, feed, height, Plan(100, 8, 0.01, trainer, seed=0, checkpoint=path))
        return module.theta.item(), run.history[-1]["seconds"]

    assert fit(n_rows) == pytest.approx((0.01 * n_rows, n_rows), rel=1e-4)
    assert fit(n_rows) == pytest.approx((0.01 * n_rows, n_rows), rel=1e-4)
    assert fit(100) == pytest.approx((1.0, 100), rel=1e-4)


def test_a_long_training_tells_once_how_long(monkeypatch):
    def show(n_steps):
        own = Pace(n_steps, None, WORLD)
        for step in range(40):
            monkeypatch.setattr(pace.time, "monotonic", lambda now=step: 2.0 * now)
            own.show(Bar(None), step, float(step))

    expected = r"training takes about 2\.8 h \(10000 steps\), .* Trainer\(max_seconds="
    with pytest.warns(UserWarning, match=expected) as told:
        show(10_000)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        show(1000)


def test_lines_tell_the_time_that_is_left(monkeypatch):
    lines = []
    with progress.shown_progress(lines.append):
        progress.DISPLAY.get().has_terminal = False
        bar, own = Bar("VAE", 4, unit="epoch"), Pace(1000, None, WORLD)
        for step in range(40):
            monkeypatch.setattr(pace.time, "monotonic", lambda now=step: 2.0 * now)
            own.show(bar, step, float(step))
        bar.note("objective -3")
        assert bar.line() == "VAE, epoch 0 of 4, about 16 min left, objective -3"
        assert "training takes about 17 min (1000 steps)" in lines[0]
        bar.close()
    assert len(lines) == 1


def test_times_as_people_say_them():
    assert [duration(s) for s in (3, 89, 90, 3600, 5400, 40_000)] == ["3 s", "89 s", "2 min", "60 min", "1.5 h", "11 h"]


@pytest.mark.parametrize("limit", [0, -1, "5", float("nan")])
def test_a_limit_is_a_number_above_0(limit):
    model = VAE(1, encoder=MLP((4,)), decoder=MLP((4,)), trainer=Trainer(max_seconds=limit))
    with pytest.raises(ValueError, match=r"Trainer\(max_seconds=.*\) must be a number above 0, or None"):
        model.fit(np.random.default_rng(0).normal(size=(50, 2)))
