"""The training loop of all deep models: stochastic gradient steps that raise an objective.

A model provides a module whose forward returns the terms of its bound by name, one value per row, and an objective that
combines them: the bound itself, or the bound with other weights on its terms. The loop adds fused Adam with warm-up and
decay, gradient clipping, averaged weights, early stopping on the held-out bound and checkpoints.

    g = ∇ mean_rows objective(forward(batch)),   θ ← Adam(θ, g / max(1, |g| / clip)),   θ̄ ← a θ̄ + (1 - a) θ
Kingma & Ba (2015); weight averages Polyak & Juditsky (1992). Seed and epoch determine the order of the rows, so a
killed run that resumes from its checkpoint reaches the same weights, bit for bit in one process on the CPU.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import torch
from torch import nn

from jensen.engines.sgd.checkpoint import WAY_OUT, check_moments, check_place, read_checkpoint, write_checkpoint
from jensen.engines.sgd.feeds import Feed, HeldOut, Minibatch, Order
from jensen.engines.sgd.objective import (
    Loss,
    WeightAverage,
    are_finite,
    clip_gradients,
    copy_weights,
    mean_score,
    row_mean,
    to_device,
)
from jensen.engines.sgd.pace import Pace, line_of
from jensen.engines.sgd.plan import HistoryRow, Objective, Phase, Plan, Position, Run, Terms
from jensen.engines.sgd.processes import World
from jensen.nets.allowance import check_weights
from jensen.runtime.interrupt import Interrupt, Interrupted
from jensen.runtime.messages import levels_inside
from jensen.runtime.progress import Bar
from jensen.runtime.randomness import mixed

# Steps of a round, about: a round is one epoch or several. After each, weights are checked and held-out rows scored.
STEPS_PER_ROUND = 50
# Held-out rows that are scored at a time, at least.
HELD_OUT_ROWS = 512


class DivergenceError(ValueError):
    """Training diverged before there were weights worth keeping."""


def fit_sgd(
    module: nn.Module,
    feed: Feed,
    objective: Objective,
    plan: Plan,
    *,
    held_out: HeldOut | None = None,
    score: Objective | None = None,
    world: World | None = None,
) -> Run:
    """Raise the mean objective of the rows; the module ends with the weights that are kept.

    Ctrl-C ends the training after the current step, with a warning; within `propagating_interrupts` it raises instead.

    Args:
        module: forward returns the terms of a batch by name.
        feed: the rows to train on; their weights have mean 1.
        objective: what is raised.
        plan: how.
        held_out: rows whose `score` decides when training stops and which weights are kept.
        score: what is measured on the held-out rows; None is the objective at the end of its schedule.
        world: the processes that share the work; None is those that were launched with this one.
    """
    training = Training(module, feed, objective, plan, held_out, score or objective, world or World.of_environment())
    at = training.at
    try:
        with Interrupt() as interrupt:
            is_interrupted = training.run(interrupt)
    except DivergenceError as error:
        training.keep(is_last=False)
        if at.best_round < 0:
            raise
        is_interrupted = False
        if training.world.is_main:
            message = f"{error}; the weights of epoch {at.history[at.best_round]['epoch']} are kept"
            warnings.warn(message, RuntimeWarning, stacklevel=levels_inside())
    else:
        training.keep(is_last=at.best_round < 0)
    run = Run(at.history, at.epoch, training.objective_kept(), is_interrupted)
    if not is_interrupted:
        return run
    resumes = f", and a fit with this checkpoint resumes here: {plan.checkpoint}" if training.is_written else ""
    message = f"interrupted after step {at.step} of epoch {at.epoch + 1}; the best weights so far are kept{resumes}"
    return Interrupted(message, run).kept(warns=training.world.is_main)


class Training:
    """One run: weights, averages, optimiser and position."""

    def __init__(
        self,
        module: nn.Module,
        feed: Feed,
        objective: Objective,
        plan: Plan,
        held_out: HeldOut | None,
        score: Objective,
        world: World,
    ) -> None:
        self.module, self.feed, self.held_out, self.world = module, feed, held_out, world
        self.objective, self.score, self.plan, self.trainer = objective, score, plan, plan.trainer
        if len(feed) < world.size:
            raise ValueError(f"there are {len(feed)} rows to train on, too few for {world.size} processes; use one")
        self.batch_size = max(min(plan.batch_size, len(feed)) // world.size * world.size, world.size)
        self.steps_per_epoch = len(feed) // self.batch_size
        self.epochs_per_round = math.ceil(STEPS_PER_ROUND / self.steps_per_epoch)
        self.pace = Pace(plan.max_epochs * self.steps_per_epoch, plan.trainer.max_seconds, world)
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.forward = world.wrap(Loss(module, objective)).train()
        # fused: one kernel for all parameters, three times as fast as the loop over them.
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=plan.learning_rate, weight_decay=plan.trainer.weight_decay, fused=True
        )
        decay = plan.trainer.averaging
        self.average = None if decay is None else WeightAverage(module, decay)
        self.at = Position()
        self.identity = {**plan.identity, "seed": plan.seed, "steps per epoch": self.steps_per_epoch}
        self.kept = copy_weights(module)
        self.is_written = False
        self.restore()

    def run(self, interrupt: Interrupt) -> bool:
        """Train to the last epoch, or until the held-out score stops rising; returns whether Ctrl-C ended it."""
        at, plan, world = self.at, self.plan, self.world
        bar = Bar(plan.progress if world.is_main else None, plan.max_epochs, unit="epoch", initial=at.epoch, leave=True)
        began, written, is_cut = time.monotonic() - at.seconds, time.monotonic(), False
        try:
            if plan.may_keep_start and self.held_out is not None and not at.history and not at.epoch and not at.step:
                self.score_start()
            while at.epoch < plan.max_epochs and not at.is_done and not self.pace.is_over(at.seconds):
                self.move(self.phase(at.epoch))
                for batch in self.feed.batches(self.order()):
                    self.take_step(batch)
                    at.step += 1
                    bar.beat()
                    now, at.seconds = time.monotonic(), self.pace.since(began)
                    self.pace.show(bar, self.at.n_steps(self.steps_per_epoch), at.seconds)
                    if world.any(interrupt.is_set):
                        self.write()
                        return True
                    if is_cut := self.pace.is_over(at.seconds) and at.step < self.steps_per_epoch:
                        break
                    if now - written >= self.trainer.checkpoint_every:
                        self.write()
                        written = time.monotonic()
                if is_cut:
                    self.close_round()
                    break
                at.epoch, at.step = at.epoch + 1, 0
                is_over = at.epoch == plan.max_epochs or self.pace.is_over(at.seconds)
                if at.epoch % self.epochs_per_round == 0 or is_over:
                    self.close_round()
                    bar.note(line_of(at.history[-1]), at.history[-1])
                bar.update()
            if at.history and at.best_round < 0:
                n = len(at.history)
                raise DivergenceError(f"the held-out bound is not finite after any of {n} rounds; {self.way_out()}")
            self.write()
        finally:
            self.move(None)
            bar.close()
        return False

    def order(self) -> Order:
        """The remaining steps of this epoch."""
        return Order(self.plan.seed, self.at.epoch, self.at.step, self.batch_size, self.world.rank, self.world.size)

    def take_step(self, batch: Minibatch) -> None:
        at, step = self.at, self.at.n_steps(self.steps_per_epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate(step)
        names, (number, *amounts) = self.descend(batch, self.pace.done(step, at.seconds))
        if self.trainer.clip is not None:
            length = clip_gradients(self.parameters, self.trainer.clip)
            if not math.isfinite(length):
                raise self.diverged({"the gradient": torch.tensor(length)})
        self.optimiser.step()
        self.optimiser.zero_grad()
        if self.average is not None:
            self.average.update(step)
        for name, amount in zip(("objective", *names), (-number, *amounts), strict=True):
            at.sums[name] = at.sums.get(name, 0.0) + amount
        at.mass += 1.0 if batch.weight is None else float(batch.weight.mean())

    def descend(self, batch: Minibatch, done: float) -> tuple[list[str], list[float]]:
        """Add up the gradient of a batch in pieces; returns the names of the terms, and the means of loss and terms."""
        total, found, pieces = torch.zeros(()), [], batch.pieces(self.trainer.accumulate)
        for number, piece in enumerate(pieces, 1):
            weight, *inputs = to_device((piece.weight, *piece.inputs), self.world.device)
            # Gradients travel between processes once per step, with those of the last piece.
            with self.world.apart(self.forward, number < len(pieces)):
                loss, terms = self.forward(done, weight, *inputs)
                share, means = len(piece) / len(batch), [row_mean(term, weight) for term in terms.values()]
                self.world.backward(loss if len(pieces) == 1 else share * loss)
            total = total.to(loss.device) + share * torch.stack([loss.detach(), *means])
            found.append(terms)
        # All in one transfer: reading a number makes a device wait.
        numbers = total.tolist()
        if self.world.any(not math.isfinite(numbers[0])):
            raise self.diverged({name: torch.cat([terms[name] for terms in found]) for name in found[0]})
        return list(found[0]), numbers

    def learning_rate(self, step: int) -> float:
        return self.plan.learning_rate * self.trainer.rate(step, self.pace.done(step, self.at.seconds))

    def phase(self, epoch: int) -> Phase | None:
        phases = self.plan.phases
        return phases[epoch // self.epochs_per_round % len(phases)] if phases else None

    def move(self, phase: Phase | None) -> None:
        """Train only the parameters of a phase, or all of them if there is none."""
        if self.plan.phases:
            moving = set(map(id, self.parameters if phase is None else phase.parameters))
            for parameter in self.parameters:
                parameter.requires_grad_(id(parameter) in moving)

    def diverged(self, terms: Terms) -> DivergenceError:
        """An error with the names of the terms that are not finite in any process."""
        flags = self.world.mean([float(not term.isfinite().all()) for term in terms.values()])
        bad = [name for name, flag in zip(terms, flags, strict=True) if flag] or ["objective"]
        return DivergenceError(
            f"training diverged in epoch {self.at.epoch + 1}, step {self.at.step + 1}: "
            f"{' and '.join(bad)} {'is' if len(bad) == 1 else 'are'} not finite; {self.way_out()}"
        )

    def way_out(self) -> str:
        clip = self.trainer.clip
        shorter = "set Trainer(clip=1.0)" if clip is None else f"set Trainer(clip=...) below {clip:g}"
        return f"lower learning_rate={self.plan.learning_rate:g}, or {shorter}"

    def close_round(self) -> None:
        """Add the round to the history and keep its weights if it is the best."""
        at, current = self.at, self.current()
        epoch = at.epoch + (at.step > 0)  # the time may run out within an epoch
        phase = self.phase(epoch - 1)
        if self.world.any(not are_finite(current.state_dict())):
            raise DivergenceError(f"training diverged in epoch {epoch}: a weight is not finite; {self.way_out()}")
        row: HistoryRow = {"epoch": epoch, **({} if phase is None else {"phase": phase.name}), **self.means()}
        value = float(len(at.history))  # without held-out rows the last round is kept
        if self.held_out is not None:
            value = row["held_out"] = self.held_out_mean(current, self.score)
        row |= {"learning_rate": self.learning_rate(self.at.n_steps(self.steps_per_epoch) - 1), "seconds": at.seconds}
        at.history.append(row)
        at.sums, at.mass = {}, 0.0
        if value > at.best:
            at.best, at.best_round, self.kept = value, len(at.history) - 1, copy_weights(current)
        at.is_done = len(at.history) - 1 - at.best_round >= self.trainer.patience

    def score_start(self) -> None:
        """Score the initial weights as a round of their own, on the held-out rows only."""
        objective = self.held_out_mean(self.module, self.objective)
        score = self.held_out_mean(self.module, self.score)
        row: HistoryRow = {"epoch": 0, "objective": objective, "held_out": score, "learning_rate": 0.0, "seconds": 0.0}
        self.at.history.append(row)
        if score > self.at.best:
            self.at.best, self.at.best_round = score, 0

    def held_out_mean(self, module: nn.Module, score: Objective) -> float:
        assert self.held_out is not None
        value = mean_score(module, self.held_out, score, self.world, max(self.batch_size, HELD_OUT_ROWS))
        self.module.train()
        return value

    def means(self) -> dict[str, float]:
        """The weighted mean of every term over the rows of the round so far, over all processes."""
        *sums, mass = self.world.mean([*self.at.sums.values(), self.at.mass])
        return {name: total / mass for name, total in zip(self.at.sums, sums, strict=True)}

    def current(self) -> nn.Module:
        """The module with the weights that are scored: the averaged ones, if there are any."""
        return self.module if self.average is None else self.average.module

    def keep(self, *, is_last: bool) -> None:
        """Load the weights of the best round, or those of the last step if they are finite."""
        if is_last and are_finite(last := copy_weights(self.current())):
            self.kept = last
        self.optimiser.zero_grad()
        self.module.load_state_dict(self.kept)
        # Every process has its own statistics in the buffers of layers.
        self.world.share(self.module.state_dict().values())
        self.module.eval()

    def objective_kept(self) -> float:
        at = self.at
        if at.best_round >= 0:
            return float(at.history[at.best_round]["objective"])
        return self.means()["objective"] if at.sums else math.nan

    def write(self) -> None:
        if self.plan.checkpoint is not None and self.world.is_main:
            parts: dict[str, Any] = {
                "module": self.module.state_dict(),
                "optimiser": self.optimiser.state_dict()["state"],
                "kept": self.kept,
            }
            if self.average is not None:
                parts["average"] = self.average.module.state_dict()
            try:
                write_checkpoint(self.plan.checkpoint, parts, vars(self.at), self.identity)
                self.is_written = True
            except OSError as error:
                self.is_written = False
                message = f"training continues without its checkpoint: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=levels_inside())

    def restore(self) -> None:
        """Resume from the checkpoint, if there is one."""
        path, world = self.plan.checkpoint, self.world
        if path is None:
            return
        check_place(path)
        found = read_checkpoint(path, self.identity)
        if 0 < world.mean([float(found is None)])[0] < 1:
            raise ValueError(f"checkpoint={path!r} is visible to some processes only; give a file that all can read")
        if found is None:
            return
        try:
            at, module, parts = Position(**found.position), self.module.state_dict(), found.parts
            at.check()
            check_moments(parts["optimiser"], self.parameters)
            for name in ("module", "kept", *(("average",) if self.average is not None else ())):
                check_weights(parts[name], module)
            self.module.load_state_dict(parts["module"])
            if self.average is not None:
                self.average.module.load_state_dict(parts["average"])
            state = {"state": parts["optimiser"], "param_groups": self.optimiser.state_dict()["param_groups"]}
            self.optimiser.load_state_dict(state)
            if world.size == 1:
                found.restore_randomness()
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"checkpoint={path!r} does not fit this model's networks: {error}; {WAY_OUT}") from None
        self.at, self.kept = at, parts["kept"]
        if at.epoch > self.plan.max_epochs:
            raise ValueError(
                f"checkpoint={path!r} is at epoch {at.epoch}, beyond max_epochs={self.plan.max_epochs}; {WAY_OUT}"
            )
        if world.size > 1:
            torch.manual_seed(mixed(self.plan.seed, world.rank, self.at.epoch, self.at.step))
