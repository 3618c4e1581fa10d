"""γ of the documents of a scan between two sweeps: in files, since there are as many as documents.

A sweep reads what the last one left, block by block in the same order, and writes anew.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
        self.before = self.folder / "before"
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"{number}.gamma"

    def load(self, number: int) -> list[np.ndarray]:
        """All γ of a part, to be sent to a worker."""
        return list(arrays_in(self.path(number)))

    def store(self, number: int, arrays: list[np.ndarray]) -> None:
        """Keep what a worker sent back."""
        with rewriting(self.path(number)) as (_, keep):
            for array in arrays:
                keep(torch.from_numpy(array))

    def forget(self) -> None:
        for path in self.folder.glob("*.gamma"):
            path.unlink()

    def remember(self) -> None:
        """Keep what a sweep starts from until the next one."""
        self.before.mkdir(exist_ok=True)

    def begin(self) -> None:
        """A sweep begins."""
        if not self.before.exists():
            return
        for path in self.before.iterdir():
            path.unlink()
        for path in self.folder.glob("*.gamma"):
            # A sweep replaces files and never changes one, so a second name is enough.
            try:
                os.link(path, self.before / path.name)
            except OSError:
                shutil.copyfile(path, self.before / path.name)

    def write(self, file: IO[bytes]) -> None:
        """What the last sweep started from."""
        with tarfile.open(fileobj=file, mode="w") as archive:
            for path in sorted(self.before.iterdir()):
                archive.add(path, path.name)

    def read(self, file: IO[bytes]) -> None:
        """Let the next sweep start from it."""
        self.forget()
        with tarfile.open(fileobj=file, mode="r") as archive:
            for member in archive:
                own = archive.extractfile(member)
                assert own is not None
                with open(self.folder / Path(member.name).name, "wb") as target:
                    shutil.copyfileobj(own, target)


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
