"""One thread for small work, all threads for large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# With fewer numbers per sweep, an operation takes tens of microseconds: threads would mostly wait for each other, and
# on a busy machine this was measured to cost twenty times the work itself.
FEW = 1_000_000


@contextmanager
def threads_for(n_numbers: int) -> Iterator[None]:
    """One torch thread while the work is small; the number of the caller is restored at the end."""
    before = torch.get_num_threads()
    if n_numbers >= FEW or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
