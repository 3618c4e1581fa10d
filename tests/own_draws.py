"""Copies of a row that have draws of their own, for averages over the draws of one row."""

from contextlib import contextmanager
from unittest.mock import patch

import torch

from jensen.runtime.row_draws import RowDraws, streams_of

__all__ = ["own_draws"]


@contextmanager
def own_draws():
    """Within it random numbers depend on the place of a row, not on its content."""
    with patch.object(RowDraws, "of", lambda x, seed: streams_of(torch.Generator().manual_seed(seed), len(x))):
        yield
