"""Small models of digits that some explainers need: trained once, when first opened, and kept in the user's cache.

A model takes seconds to a minute. Meanwhile the page shows how far it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from jensen import __version__
from jensen.registry import load
from jensen.runtime.watching import StoppedFit, Watch, watched

TEST = 360


@lru_cache(maxsize=1)
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 64) with values from 0 to 1 and their classes, to train on; and held out."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))
    train, test = order[:-TEST], order[-TEST:]
    return found.data[train] / 16, found.target[train], found.data[test] / 16, found.target[test]


def fit_vae() -> Any:
    """A map of the digits: two latent numbers."""
    from jensen.models.autoencoders.vae import VAE
    from jensen.nets.mlp import MLP

    networks: dict[str, Any] = {"encoder": MLP((128,), "relu"), "decoder": MLP((128,), "relu")}
    model = VAE(2, scaling="common", max_epochs=150, learning_rate=3e-3, random_state=0, verbose=1, **networks)
    return model.fit(digits()[0])


def fit_diffusion() -> Any:
    """Digits by class: grey levels from 0 to 16, and one hundred noise levels."""
    from jensen.models.diffusion.diffusion import Diffusion
    from jensen.nets.mlp import ResidualMLP

    model = Diffusion(
        "cosine",
        100,
        network=ResidualMLP(256),
        max_epochs=60,
        batch_size=64,
        learning_rate=3e-3,
        random_state=0,
        verbose=1,
    )
    X, y, _, _ = digits()
    return model.fit((16 * X).reshape(-1, 8, 8), y)


FITS: dict[str, tuple[str, Callable[[], Any]]] = {
    "digits-vae": ("a variational autoencoder of digits", fit_vae),
    "digits-diffusion": ("a diffusion of digits", fit_diffusion),
}
# Models in memory; trainings under way, with their threads, and one lock for each model.
READY: dict[str, Any] = {}
RUNNING: dict[str, Watch] = {}
THREADS: dict[str, threading.Thread] = {}
LOCKS = {name: threading.Lock() for name in FITS}
STARTING = threading.Lock()


def cache_folder() -> Path:
    """Where trained models are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "jensen" / "studio"


def trained(name: str) -> Any:
    """The model, from memory or from the cache; trained now if need be."""
    with LOCKS[name]:
        if name not in READY:
            READY[name] = from_cache(name) or to_cache(name, FITS[name][1]())
        return READY[name]


def from_cache(name: str) -> Any:
    path = place_of(name)
    try:
        return load(path) if path.is_file() else None
    except (OSError, ValueError):
        # Damaged: it is trained again.
        return None


def to_cache(name: str, model: Any) -> Any:
    """The model, without its bar; it is kept if the cache can be written."""
    model.set_params(verbose=0)
    path = place_of(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    except OSError:
        pass
    return model


def place_of(name: str) -> Path:
    return cache_folder() / f"{name}-{__version__}.jensen"


def progress_of(names: Sequence[str]) -> dict[str, Any] | None:
    """How far the training of models is; None if all can be used. What is missing is started."""
    missing = next((name for name in names if name not in READY), None)
    if missing is None:
        return None
    with STARTING:
        watch = RUNNING.get(missing)
        if watch is None:
            watch = RUNNING[missing] = Watch(FITS[missing][0])
            THREADS[missing] = threading.Thread(target=train_watched, args=(missing, watch), daemon=True)
            THREADS[missing].start()
        elif watch.end is not None:
            # The next request tries again.
            del RUNNING[missing]
            raise ValueError(f"{watch.title} could not be trained: {watch.end}")
    # Read once: the training goes on meanwhile.
    last = next(reversed(watch.steps), None)
    far = "This takes up to a minute." if last is None else f"Step {last['step']} of {last['total']}."
    text = f"Training {watch.title}, which is done once and kept. {far}"
    return {"text": text, "done": last["step"] if last else 0, "total": last["total"] if last else None}


def train_watched(name: str, watch: Watch) -> None:
    """Train a model in a thread of its own; what went wrong is the end of the watch."""
    try:
        with watched(watch):
            trained(name)
    except StoppedFit:
        watch.end = "it was stopped"
    except Exception as error:
        watch.end = f"{type(error).__name__}: {error}"


def stop_trainings() -> None:
    """End what is training after its current step: a process whose threads still compute ends by an abort."""
    with STARTING:
        for watch in RUNNING.values():
            watch.is_stopped = True
        threads = [*THREADS.values()]
        THREADS.clear()
    for thread in threads:
        thread.join()
