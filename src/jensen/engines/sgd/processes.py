"""The processes that train one model together: one, or as many as were launched.

Every process has all rows, or its share of the parts of a scan, and the same weights, computes its part of every batch
and steps with the mean gradient of all. Events that end the training, such as a held-out score or Ctrl-C, are shared,
so that all stop at the same step.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class World:
    """This process among all, and the communication between them.

    Args:
        device: the device of this process.
        accelerator: accelerate's `Accelerator` if there are several processes, else None.
    """

    device: torch.device
    accelerator: Any = None

    @classmethod
    def of_environment(cls, device: str = "auto") -> World:
        """One process, unless `accelerate launch`, `torchrun` or `jensen fit --processes` has started several."""
        chosen = choose_device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(chosen)
        try:
            from accelerate import Accelerator, DistributedDataParallelKwargs
        except ImportError:
            raise ImportError("several processes need accelerate: pip install 'jensen[scale]'") from None
        # Parameters may be unused: in a phase that does not train them, or in a batch without labels.
        options = DistributedDataParallelKwargs(find_unused_parameters=True)
        accelerator = Accelerator(cpu=chosen.type == "cpu", kwargs_handlers=[options])
        atexit.unregister(leave)
        atexit.register(leave)
        return cls(accelerator.device, accelerator)

    @property
    def rank(self) -> int:
        return 0 if self.accelerator is None else int(self.accelerator.process_index)

    @property
    def size(self) -> int:
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with gradients averaged over processes, starting from the weights of the first process."""
        if self.accelerator is None:
            return module
        wrapped: nn.Module = self.accelerator.prepare_model(module)
        return wrapped

    @contextmanager
    def apart(self, module: nn.Module, is_apart: bool) -> Iterator[None]:
        """Within it, gradients of a wrapped module stay in this process if `is_apart`."""
        if self.accelerator is None or not is_apart:
            yield
            return
        with self.accelerator.no_sync(module):
            yield

    def backward(self, loss: Tensor) -> None:
        if self.accelerator is None:
            loss.backward()
        else:
            self.accelerator.backward(loss)

    def mean(self, values: Sequence[float]) -> list[float]:
        """The means of the values over all processes."""
        if self.accelerator is None:
            return list(values)
        together: list[float] = self.accelerator.reduce(
            torch.tensor(values, device=self.device).double(), "mean"
        ).tolist()
        return together

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; the same in all of them."""
        return flag if self.accelerator is None else self.mean([float(flag)])[0] > 0

    def agree(self, number: int) -> int:
        """The number of the first process."""
        if self.accelerator is None:
            return number
        shared = torch.tensor(number, device=self.device)
        self.share([shared])
        return int(shared)

    def gather(self, found: Sequence[Any]) -> list[Any]:
        """The objects of all processes, in the order of the processes."""
        if self.accelerator is None:
            return list(found)
        every: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(every, list(found))
        return [item for own in every for item in own]

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Copy the tensors of the first process to all others."""
        if self.accelerator is not None:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)


def leave() -> None:
    """Leave the process group at exit.

    Communication threads need Python's lock to free their messages, and a thread that still waits for the lock when
    Python ends aborts the process. They get the lock while this thread sleeps.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        time.sleep(0.2)


def choose_device(device: str) -> torch.device:
    """ "auto" is the accelerator that torch finds, otherwise the CPU."""
    if device != "auto":
        try:
            return torch.empty(0, device=device).device
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"device={device!r} cannot be used: {error}; device='auto' chooses an available one"
            ) from None
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if found is None else found
