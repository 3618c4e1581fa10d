"""How many threads a fit computes with, measured while it does: a function that workers of any kind can run."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from jensen import MLP, VAE, GaussianMixture, LatentCurve
from jensen.engines.em import loop

__all__ = ["MAKES", "threads_in_fit"]

MAKES: dict[str, Callable[[], Any]] = {
    "mixture": lambda: GaussianMixture(3, random_state=0, max_iter=2, init_params="random"),
    "curve": lambda: LatentCurve(n_grid=10, init="pca", random_state=0, max_iter=2),
    "vae": lambda: VAE(1, encoder=MLP((8,)), decoder=MLP((8,)), max_epochs=1, random_state=0),
}


def threads_in_fit(name: str, n_rows: int) -> dict[str, int]:
    """The threads that the process may use before and after a fit, the most that computed at once, and the steps seen.

    A step of EM in a thread of its own counts with the threads that torch uses inside of it.
    """
    lock, running, most, n_steps = threading.Lock(), 0, 0, 0

    def enter() -> int:
        nonlocal running, most, n_steps
        own = torch.get_num_threads()
        with lock:
            running, n_steps = running + own, n_steps + 1
            most = max(most, running)
        return own

    def leave(own: int) -> None:
        nonlocal running
        with lock:
            running -= own

    class Watched:
        """The functions of an EM model, whose E-step is counted."""

        def __init__(self, verbs: Any) -> None:
            self.verbs = verbs

        def e_step(self, *arguments: Any) -> Any:
            own = enter()
            try:
                return self.verbs.e_step(*arguments)
            finally:
                leave(own)

    real = loop.sweep
    loop.sweep = lambda verbs, theta, source: real(Watched(verbs), theta, source)  # type: ignore[assignment,arg-type]
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, given: leave(enter()))
    x = np.random.default_rng(0).normal(size=(n_rows, 4)) + 6 * (np.arange(n_rows) % 3)[:, None]
    before = torch.get_num_threads()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MAKES[name]().fit(x)
    finally:
        loop.sweep = real
        hook.remove()
    return {"before": before, "after": torch.get_num_threads(), "most": most, "steps": n_steps}
