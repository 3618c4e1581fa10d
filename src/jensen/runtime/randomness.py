"""Seeds for torch's global generators, which layers, dropout and draws use; the state of the caller is restored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# torch has one generator for the whole process, and layers, dropout and draws use no other: two threads at once would
# take numbers from each other, and the one that ends last would leave the seed of the other to the user. So they take
# turns. Re-entrant, because training scores its held-out rows with a seed of their own.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within it torch's generators, of the CPU and of this device, start from the seed; other threads wait."""
    devices = [] if device.type == "cpu" else [device]
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield


def mixed(*numbers: int) -> int:
    """One seed from several numbers, such as the seed of an epoch from a seed and its number."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1
