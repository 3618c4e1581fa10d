"""γ of the documents of a scan between two sweeps: in files, since there are as many as documents.

A sweep reads what the last one left, block by block in the same order, and writes anew.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

# Takes to the γ that the last sweep left for the next block, None if there was none; and keeps the γ of a block.
Recall = Callable[[], Tensor | None]
Keep = Callable[[Tensor], None]


class Shares:
    """Files in a temporary folder, which goes when nobody needs it any more."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jensen-topics-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"{number}.gamma"

    def load(self, number: int) -> list[np.ndarray]:
        """All γ of a part, to be sent to a worker."""
        return list(arrays_in(self.path(number)))

    def store(self, number: int, arrays: list[np.ndarray]) -> None:
        """Keep what a worker sent back."""
        with open(self.path(number), "wb") as file:
            for array in arrays:
                np.save(file, array)

    def forget(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()


def arrays_in(path: Path) -> Iterator[np.ndarray]:
    if not path.exists():
        return
    size = path.stat().st_size
    with open(path, "rb") as file:
        while file.tell() < size:
            yield np.load(file, allow_pickle=False)


@contextmanager
def rewriting(path: Path) -> Iterator[tuple[Recall, Keep]]:
    """Read a file and write its successor, which takes its place at the end."""
    before, aside = arrays_in(path), path.with_suffix(".new")
    with open(aside, "wb") as file:
        yield recalling(before), lambda gamma: np.save(file, gamma.numpy())
    aside.replace(path)


def recalling(arrays: Iterator[np.ndarray]) -> Recall:
    def recall() -> Tensor | None:
        found = next(arrays, None)
        return None if found is None else torch.from_numpy(found)

    return recall
