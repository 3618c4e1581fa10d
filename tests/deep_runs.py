"""Trainings that tests run in processes of their own: `python deep_runs.py NAME FOLDER`; results are files there."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

import jensen
from jensen import MLP, VAE, Trainer
from jensen.engines.sgd import loop as sgd
from jensen.engines.sgd.feeds import Minibatch, NumberedFeed, TensorFeed
from jensen.engines.sgd.loop import DivergenceError, Phase, Plan, fit_sgd
from jensen.engines.sgd.processes import World

__all__ = ["alone", "digits", "digits_vae", "fingerprint", "fit_tables"]


def digits() -> np.ndarray:
    return load_digits().data / 16


def digits_vae(**options: object) -> VAE:
    """Small, with all that a training may have: draws, dropout, averages, warm-up and held-out rows."""
    usual = {"max_epochs": 12, "batch_size": 100, "learning_rate": 3e-3, "random_state": 0}
    network = MLP((30,), dropout=0.05)
    return VAE(4, encoder=network, decoder=network, **(usual | options))


def fingerprint(module: nn.Module) -> str:
    """Equal when all weights are equal bit for bit."""
    weights = {name: weight.numpy().tobytes() for name, weight in module.state_dict().items()}
    return hashlib.sha256(b"".join(name.encode() + weights[name] for name in sorted(weights))).hexdigest()


def fit_tables(rows: Path, **options: object) -> VAE:
    """A fit to the labelled and weighted rows of a folder of tables, with a buffer of a sixth of them."""
    trainer = Trainer(shuffle_rows=1000, checkpoint_every=0)
    usual = {"max_epochs": 2, "batch_size": 100, "random_state": 0, "trainer": trainer}
    model = VAE(2, encoder=MLP((20,)), decoder=MLP((20,)), **usual, **options)
    return model.fit(jensen.scan(rows, label="species", weight="w"))


def dying(epoch: int, step: int) -> None:
    """Let this process be killed before it writes a checkpoint of this step, when the file on disk is a step old."""
    write = sgd.write_checkpoint

    def write_or_die(*arguments: object) -> None:
        if (arguments[2]["epoch"], arguments[2]["step"]) == (epoch, step):
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments)

    sgd.write_checkpoint = write_or_die


def killed(folder: Path) -> None:
    """A fit that is killed in the seventh step of its sixth epoch."""
    dying(5, 7)
    digits_vae(checkpoint=str(folder / "run.ckpt"), trainer=Trainer(checkpoint_every=0)).fit(digits())


def alone(name: str, folder: Path) -> int:
    """Run one of these trainings in a process of its own; returns its exit code."""
    here = Path(__file__)
    places = os.pathsep.join([str(here.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, here, name, folder], env=environment, timeout=120).returncode


def killed_in_a_scan(folder: Path) -> None:
    """A fit to the rows of a scan that is killed in its second epoch."""
    dying(1, 10)
    fit_tables(folder / "rows", checkpoint=str(folder / "run.ckpt"))


# Two processes


class Spy(NumberedFeed):
    """Rows 0, 1, 2, ... of which it remembers who was asked for."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows, self.asked = n_rows, []

    def __len__(self) -> int:
        return self.n_rows

    def take(self, index: torch.Tensor) -> Minibatch:
        self.asked.append(index.tolist())
        return Minibatch((index[:, None].float(),))


class Parts(nn.Module):
    """Three weights, one of which has no part in the objective, and statistics of the rows that were seen here."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.idle = (nn.Parameter(torch.zeros(1)) for _ in range(3))
        self.normal = nn.BatchNorm1d(1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        value = self.normal(x)[:, 0] * 0.1
        return {"fit": -(self.a + value - 1).square() - (self.b - value - 2).square(), "unused": self.idle + value}


def fit_of(terms: sgd.Terms, done: float) -> torch.Tensor:
    return terms["fit"]


class Line(nn.Module):
    """Least squares, without any draws."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 1)
        nn.init.zeros_(self.line.weight)
        nn.init.zeros_(self.line.bias)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"fit": -(self.line(x)[:, 0] - y).square()}


def fit_line(world: World, n_epochs: int, checkpoint: Path | None = None, **options: object) -> list[float]:
    """The weights after a training on weighted rows, from the checkpoint if there is one."""
    x = torch.randn((64, 3), generator=torch.Generator().manual_seed(0))
    feed = TensorFeed((x, x.sum(1) + 1), torch.linspace(0.5, 1.5, 64))
    module, trainer = Line(), Trainer(averaging=None, warm_up=0, decay=None, **options)
    path = None if checkpoint is None else str(checkpoint)
    fit_sgd(module, feed, fit_of, Plan(n_epochs, 16, 0.02, trainer, 0, checkpoint=path), world=world)
    return torch.cat([p.detach().flatten() for p in module.parameters()]).tolist()


def uneven_rows(folder: Path) -> jensen.Scan:
    """Digits in a Parquet file with row groups of 500 rows and a last one of 297, and in a small one."""
    paths = [folder / "large.parquet", folder / "small.parquet"]
    if not paths[1].exists():
        frame = pd.DataFrame(digits()).rename(columns=str)
        frame.iloc[:1700].to_parquet(paths[0], row_group_size=500)
        frame.iloc[1700:].to_parquet(paths[1])
    return jensen.scan(paths)


def scanned_vae() -> VAE:
    return digits_vae(max_epochs=6, trainer=Trainer(shuffle_rows=300))


def together(folder: Path) -> None:
    world = World.of_environment("cpu")
    found: dict[str, object] = {"size": world.size}
    trainer = Trainer(averaging=0.9, warm_up=0)

    spy, module = Spy(21), Parts()
    phases = [Phase("A", [module.a]), Phase("B", [module.b, module.idle])]
    fit_sgd(module, spy, fit_of, Plan(110, 9, 0.05, trainer, 0, phases), held_out=Spy(3), world=world)
    found["rows"], found["batch_size"] = spy.asked[:4], len(spy.asked[0])
    found["phases"] = [fingerprint(module), module.a.item(), module.b.item()]

    module = Parts()
    poison = TensorFeed((torch.full((20, 1), torch.nan if world.rank else 0.0),))
    try:
        fit_sgd(module, poison, fit_of, Plan(3, 10, 0.05, trainer, 0), world=world)
    except DivergenceError as error:
        found["diverged"] = [str(error), fingerprint(module)]

    n_steps = 0

    def interrupting(terms: sgd.Terms, done: float) -> torch.Tensor:
        nonlocal n_steps
        n_steps += 1
        if world.rank == 1 and n_steps == 25:
            signal.raise_signal(signal.SIGINT)
        return terms["fit"]

    signal.signal(signal.SIGINT, signal.default_int_handler)
    plan = Plan(70, 10, 0.05, trainer, 0, checkpoint=str(folder / "run.ckpt"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = fit_sgd(Parts(), Spy(20), interrupting, plan, world=world)
    found["interrupted"] = [run.is_interrupted, n_steps, len(told)]
    module = Parts()
    found["resumed"] = [fit_sgd(module, Spy(20), fit_of, plan, world=world).n_epochs, fingerprint(module)]

    model = digits_vae(random_state=None if world.rank else 0).fit(digits())
    found["vae"] = [fingerprint(model.module_), model.bound(digits()).total.mean(), model.history_["held_out"].max()]
    y = np.where(np.arange(len(digits())) % 10, -1, load_digits().target)
    labelled = digits_vae(max_epochs=4, training="alternating").fit(digits(), y)
    found["labels"] = [
        fingerprint(labelled.module_),
        float((labelled.predict(digits()) == load_digits().target).mean()),
    ]
    found["pieces"] = fit_line(world, 6, accumulate=3)
    found["more"] = fit_line(world, 6, folder / "by_one")
    fit_line(world, 3, folder / "by_two")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scanned = scanned_vae().fit(uneven_rows(folder / "rows"))
    found["scan"] = [fingerprint(scanned.module_), scanned.bound(digits()).total.mean(), scanned.n_iter_]
    (folder / f"{world.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"killed": killed, "killed_in_a_scan": killed_in_a_scan, "together": together}[sys.argv[1]](Path(sys.argv[2]))
