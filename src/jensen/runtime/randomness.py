"""torch's own generators, which layers, dropout and draws use, from a seed; the caller's come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# torch has one generator for the whole process, and layers, dropout and draws know no other: two threads at once would
# take numbers from each other, and the one that ends last would leave the other's seed to the user. They take turns.
# Re-entrant, because a training measures its held-out rows with a seed of their own.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within it torch's generators, of the CPU and of this device, start from the seed; other threads wait."""
    devices = [] if device.type == "cpu" else [device]
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield


def mixed(*numbers: int) -> int:
    """One seed of several numbers, such as a seed for every epoch of a seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
