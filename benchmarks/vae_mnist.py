"""A variational autoencoder on MNIST, compared with a plain torch loop, pythae, and the figures of two papers.

    python benchmarks/vae_mnist.py speed --data DIR [--quick]
    python benchmarks/vae_mnist.py train --data DIR --output k1.jensen --checkpoint k1.ckpt [--importance-samples 5] ...
    python benchmarks/vae_mnist.py evaluate --data DIR k1.jensen k5.jensen
    python benchmarks/vae_mnist.py labels --data DIR [--seeds 0 1 2]
784-200-200-50 with tanh, Bernoulli pixels and a diagonal Gaussian posterior. Burda et al. (2015) report -ln p of 86.76
with one importance sample in training and 85.54 with five, on test rows binarised at random; Kingma et al. (2014)
11.97 % errors of M2 with 100 labels. Two threads.

In `speed` the plain loop is the reference. pythae 0.1.2 has neither clipping nor averaged weights, so its steps do
less. It does not draw new binary pixels either, so its model is wrapped to do so for every batch.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measuring import THREADS, peak_memory, seconds  # first: it sets the number of threads

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import jensen
import mnist
from jensen import MLP, VAE, Bernoulli, Elbo, Trainer

torch.set_num_threads(THREADS)

N_LATENT = 50
HIDDEN = 200
LEARNING_RATE = 1e-3
CLIP = 100.0  # the norm is 17 to 55 in the first two epochs, so only outliers are clipped
AVERAGING = 0.999

Epochs = tuple[list[float], float]  # seconds of every epoch, and the mean bound of the last


# speed: three loops


class BareVAE(nn.Module):
    """The same network in plain torch; forward is the mean bound of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = layers(mnist.N_PIXELS, 2 * N_LATENT)
        self.decoder = layers(N_LATENT, mnist.N_PIXELS)

    def forward(self, x: Tensor) -> Tensor:
        mean, log_std = self.encoder(x).chunk(2, -1)
        std = log_std.exp()
        logits = self.decoder(torch.addcmul(mean, std, torch.randn_like(mean)))
        reconstruction = -binary_cross_entropy_with_logits(logits, x, reduction="sum")
        kl = 0.5 * (mean.square() + std.square() - 1).sum() - log_std.sum()
        return (reconstruction - kl) / len(x)


def layers(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_in, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, n_out)
    )


def bare_loop(rows: np.ndarray, batch_size: int, n_epochs: int) -> Epochs:
    torch.manual_seed(0)
    x, module = torch.from_numpy(rows), BareVAE()
    optimiser = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, fused=True)
    average = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(AVERAGING))
    times, total = [], 0.0
    for _ in range(n_epochs):
        began, total = time.perf_counter(), 0.0
        batches = torch.randperm(len(x)).split(batch_size)[: len(x) // batch_size]
        for index in batches:
            bound = module(torch.bernoulli(x[index]))
            optimiser.zero_grad()
            (-bound).backward()
            nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            optimiser.step()
            average.update_parameters(module)
            total += float(bound.detach())
        times.append(time.perf_counter() - began)
    return times, total / len(batches)


def jensen_fit(rows: np.ndarray, batch_size: int, n_epochs: int) -> Epochs:
    trainer = Trainer(averaging=AVERAGING, clip=CLIP, warm_up=0, decay=None, validation_fraction=0.0)
    model = vae(max_epochs=n_epochs, batch_size=batch_size, learning_rate=LEARNING_RATE, trainer=trainer).fit(rows)
    history = model.history_
    n_passes = np.diff(history["epoch"], prepend=0)  # a round may have several epochs
    times = np.repeat(np.diff(history["seconds"], prepend=0.0) / n_passes, n_passes)
    return times.tolist(), float(history["objective"].iloc[-1])


def pythae_train(rows: np.ndarray, batch_size: int, n_epochs: int) -> Epochs:
    """pythae's model, loss, data loader and trainer, which also keeps a copy of the best weights."""
    import pythae.models
    from pythae.data.datasets import BaseDataset
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.trainers import BaseTrainer, BaseTrainerConfig
    from pythae.trainers.training_callbacks import TrainingCallback

    class Encoder(BaseEncoder):
        def __init__(self) -> None:
            super().__init__()
            self.network = layers(mnist.N_PIXELS, 2 * N_LATENT)

        def forward(self, x: Tensor) -> ModelOutput:
            mean, log_variance = self.network(x).chunk(2, -1)
            return ModelOutput(embedding=mean, log_covariance=log_variance)

    class Decoder(BaseDecoder):
        def __init__(self) -> None:
            super().__init__()
            self.network = layers(N_LATENT, mnist.N_PIXELS)

        def forward(self, z: Tensor) -> ModelOutput:
            return ModelOutput(reconstruction=self.network(z).sigmoid())

    class Redrawn(pythae.models.VAE):
        def forward(self, inputs: dict[str, Tensor], **options: object) -> ModelOutput:
            return super().forward({"data": torch.bernoulli(inputs["data"])}, **options)

    class Clock(TrainingCallback):
        def __init__(self) -> None:
            self.times, self.losses, self.began = [], [], 0.0

        def on_epoch_begin(self, *_: object, **__: object) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, *_: object, **__: object) -> None:
            self.times.append(time.perf_counter() - self.began)

        def on_log(self, training_config: object, logs: dict[str, float], **_: object) -> None:
            self.losses.append(logs["train_epoch_loss"])

    logging.disable(logging.INFO)
    config = pythae.models.VAEConfig(input_dim=(mnist.N_PIXELS,), latent_dim=N_LATENT, reconstruction_loss="bce")
    x, clock = torch.from_numpy(rows), Clock()
    # Its progress bar goes to stderr and cannot be turned off.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        training = BaseTrainerConfig(
            output_dir=folder,
            per_device_train_batch_size=batch_size,
            num_epochs=n_epochs,
            learning_rate=LEARNING_RATE,
            optimizer_params={"fused": True},
            no_cuda=True,
        )
        peer = Redrawn(config, Encoder(), Decoder())
        BaseTrainer(peer, BaseDataset(x, torch.zeros(len(x))), None, training, [clock]).train()
    return clock.times, -clock.losses[-1]


LOOPS: dict[str, Callable[[np.ndarray, int, int], Epochs]] = {
    "plain loop": bare_loop,
    "jensen": jensen_fit,
    "pythae": pythae_train,
}


def speed(options: argparse.Namespace) -> None:
    """Seconds of an epoch, measured alternately; peak memory in separate processes."""
    rows = mnist.grey(options.data)[: 6_000 if options.quick else None]
    for loop in LOOPS.values():  # the first call includes imports
        loop(rows[:1000], 100, 1)
    for batch_size in options.batch_sizes:
        print(f"\n{rows.shape}, batches of {batch_size}, {THREADS} threads, median of {2 * options.rounds} epochs")
        times: dict[str, list[float]] = {name: [] for name in LOOPS}
        walls, bounds = dict.fromkeys(LOOPS, 0.0), {}
        for _ in range(options.rounds):
            for name, loop in LOOPS.items():
                wall, (took, bounds[name]) = seconds(partial(loop, rows, batch_size, 2))
                times[name] += took
                walls[name] += (wall - sum(took)) / options.rounds
        medians = {name: statistics.median(took) for name, took in times.items()}
        for name, median in medians.items():
            print(
                f"{name:>10}: {median:6.3f} s per epoch ({min(times[name]):.3f} to {max(times[name]):.3f}), "
                f"{median / medians['plain loop']:.2f} x the plain loop; {walls[name]:.2f} s around a fit; "
                f"bound {bounds[name]:.2f} in epoch 2",
                flush=True,
            )
        print(f"pythae / jensen: {medians['pythae'] / medians['jensen']:.2f}")
    setup = (
        "sys.path.insert(0, sys.argv[1])\nimport vae_mnist, mnist, pathlib\n"
        f"x = mnist.grey(pathlib.Path(sys.argv[2]))[:{len(rows)}]\n"
        "loop = vae_mnist.LOOPS[sys.argv[3]]\nloop(x[:1000], 100, 1)"
    )
    for name in LOOPS:
        above = peak_memory(setup, "loop(x, 100, 1)", str(Path(__file__).parent), str(options.data), name)
        print(f"{name:>10}: peak memory {above:.0f} MB above the data's {rows.nbytes / 2**20:.0f} MB", flush=True)


# ln p: train, then evaluate


def vae(**options: object) -> VAE:
    """The network of the papers, with a fixed seed by default."""
    network = MLP(hidden=(HIDDEN, HIDDEN), activation="tanh")
    usual = {"n_components": N_LATENT, "likelihood": Bernoulli(resample=True), "random_state": 0}
    return VAE(**(usual | {"encoder": network, "decoder": network} | options))


def trainer_of(options: argparse.Namespace) -> Trainer:
    return Trainer(
        averaging=options.averaging or None,
        clip=options.clip or None,
        warm_up=options.warm_up,
        decay=None if options.decay == "none" else options.decay,
        validation_fraction=options.validation_fraction,
        checkpoint_every=60.0,
    )


def train(options: argparse.Namespace) -> None:
    """Train one configuration; a run that was killed resumes from its checkpoint."""
    is_fixed = options.binarisation == "fixed"
    rows = (mnist.fixed if is_fixed else mnist.grey)(options.data)[: 6_000 if options.quick else None]
    for file in (options.output, options.checkpoint):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
    model = vae(
        likelihood=Bernoulli(resample=not is_fixed),
        importance_samples=options.importance_samples,
        max_epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        objective=Elbo(warm_up=options.kl_warm_up),
        trainer=trainer_of(options),
        checkpoint=None if options.checkpoint is None else str(options.checkpoint),
        random_state=options.seed,
        verbose=1,
    )
    wall, _ = seconds(partial(model.fit, rows))
    model.save(options.output)
    last = model.history_.iloc[-1]
    print(
        f"{options.output.name}: k={options.importance_samples}, {options.binarisation} binarisation, "
        f"{len(rows)} rows, {int(last['epoch'])} epochs of batches of {options.batch_size}, "
        f"learning rate {options.learning_rate:g}, KL warm-up {options.kl_warm_up:g}, seed {options.seed}: "
        f"{last['seconds']:.0f} s of training "
        f"({wall:.0f} s since this start), training objective {last['objective']:.2f}"
    )


def evaluate(options: argparse.Namespace) -> None:
    """-ln p of test rows by importance sampling, with draws from the encoder."""
    sets = {
        f"random, seed {options.seed}": mnist.binarised(mnist.grey(options.data, "test"), options.seed),
        "fixed": mnist.fixed(options.data, "test"),
    }
    k = options.importance_samples
    print(f"{options.rows} test rows, {k} importance samples, float32, nats; s.e. over rows and of the sampling\n")
    print(f"| model | k in training | binarisation of test rows | -ln p ({k}) | rows | sampling | -bound | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for file in options.models:
        model = jensen.load(file)
        for name, x in sets.items():
            x = x[: options.rows]
            took, answer = seconds(partial(model.bound, x, importance_samples=k))
            total, error = (np.asarray(part, dtype=np.float64) for part in (answer.total, answer.standard_error))
            bound = np.mean(model.bound(x).total)
            print(
                f"| {Path(file).stem} | {model.importance_samples} | {name} | {-total.mean():.2f} | "
                f"{total.std() / math.sqrt(len(total)):.2f} | {math.sqrt((error**2).sum()) / len(error):.3f} | "
                f"{-bound:.2f} | {took:.0f} |",
                flush=True,
            )


# M2: a few labels


def labels(options: argparse.Namespace) -> None:
    """Ten labels of every digit, the other rows unlabelled: errors on the 10000 test rows."""
    rows, y = mnist.grey(options.data)[: options.rows], mnist.labels(options.data)[: options.rows]
    if options.quick:
        rows, y = rows[:6_000], y[:6_000]
    x_test, y_test = mnist.grey(options.data, "test"), mnist.labels(options.data, "test")
    network = MLP(hidden=tuple(options.hidden), activation=options.activation)
    dropping = MLP(hidden=tuple(options.hidden), activation=options.activation, dropout=options.dropout)
    errors = []
    for seed in options.seeds:
        model = vae(
            n_components=options.latent,
            encoder=dropping,
            classifier=dropping,
            decoder=network,
            class_length=options.class_length,
            max_epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            trainer=trainer_of(options),
            checkpoint=None if options.checkpoint is None else f"{options.checkpoint}.{seed}",
            random_state=seed,
            verbose=1,
        )
        known = mnist.few_labels(y, options.per_class, seed)
        took, _ = seconds(partial(model.fit, rows, known))
        grey, drawn = (
            100 * float(np.mean(model.predict(x) != y_test)) for x in (x_test, mnist.binarised(x_test, seed))
        )
        errors.append(grey)
        print(
            f"seed {seed}: {(known >= 0).sum()} labels of {len(rows)} rows, {options.epochs} epochs in {took:.0f} s "
            f"({took / options.epochs:.2f} s each): {grey:.2f} % errors on test rows, {drawn:.2f} % when binarised",
            flush=True,
        )
    spread = statistics.stdev(errors) if len(errors) > 1 else float("nan")
    print(f"errors {statistics.mean(errors):.2f} % ± {spread:.2f} (standard deviation of {len(errors)} seeds)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, required=True, help="folder with mnist/ and binarized_mnist/")
    common.add_argument("--quick", action="store_true", help="6000 rows")
    training = argparse.ArgumentParser(add_help=False)
    training.add_argument("--learning-rate", type=float, default=LEARNING_RATE, help="largest learning rate")
    training.add_argument("--averaging", type=float, default=AVERAGING, help="decay of the weight average; 0 for none")
    training.add_argument("--clip", type=float, default=CLIP, help="largest norm of the gradient; 0 for none")
    training.add_argument("--warm-up", type=int, default=100, help="steps")
    training.add_argument("--decay", choices=("cosine", "none"), default="cosine")
    training.add_argument("--validation-fraction", type=float, default=0.0, help="share of rows for early stopping")
    training.add_argument("--checkpoint", type=Path, help="checkpoint file, from which training resumes")
    parts = parser.add_subparsers(required=True)

    part = parts.add_parser("speed", parents=[common], help=speed.__doc__)
    part.add_argument("--rounds", type=int, default=3, help="rounds of two epochs of every loop")
    part.add_argument("--batch-sizes", type=int, nargs="+", default=[100, 256])
    part.set_defaults(run=speed)

    part = parts.add_parser("train", parents=[common, training], help=train.__doc__)
    part.add_argument("--output", type=Path, required=True, help="file for the model")
    part.add_argument("--importance-samples", type=int, default=1)
    part.add_argument("--epochs", type=int, default=100)
    part.add_argument("--batch-size", type=int, default=100)
    part.add_argument(
        "--kl-warm-up", type=float, default=0.3, help="share of the training over which the KL's weight rises"
    )
    part.add_argument(
        "--binarisation",
        choices=("random", "fixed"),
        default="random",
        help="new draws in every batch, or one fixed draw",
    )
    part.add_argument("--seed", type=int, default=0)
    part.set_defaults(run=train)

    part = parts.add_parser("evaluate", parents=[common], help=evaluate.__doc__)
    part.add_argument("models", nargs="+", help="files written by `train`")
    part.add_argument("--importance-samples", type=int, default=5000)
    part.add_argument("--rows", type=int, default=10_000)
    part.add_argument("--seed", type=int, default=0, help="seed of the binarisation of test rows")
    part.set_defaults(run=evaluate)

    part = parts.add_parser("labels", parents=[common, training], help=labels.__doc__)
    part.add_argument("--per-class", type=int, default=10)
    part.add_argument("--rows", type=int, default=60_000)
    part.add_argument("--seeds", type=int, nargs="+", default=[0])
    part.add_argument("--epochs", type=int, default=8)
    part.add_argument(
        "--class-length", type=float, default=1.0, help="of what the decoder sees of a class; 1 in the paper"
    )
    part.add_argument("--latent", type=int, default=10, help="dimensions of z")
    part.add_argument("--batch-size", type=int, default=200)
    part.add_argument("--hidden", type=int, nargs="+", default=[500])
    part.add_argument("--activation", default="relu")
    part.add_argument("--dropout", type=float, default=0.5, help="dropout of encoder and classifier")
    part.set_defaults(run=labels)

    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
