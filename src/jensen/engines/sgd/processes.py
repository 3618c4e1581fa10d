"""The processes that train one model together: one, or as many as accelerate has launched.

Every process has all rows and the same weights, takes its share of every batch and steps with everyone's mean gradient.
What decides how the training goes on, a held-out score or Ctrl-C, is made known to all, so that they stay together.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["World", "choose_device"]


@dataclass(frozen=True)
class World:
    """Which process this is, and how what they know is put together.

    Args:
        device: where this process computes.
        accelerator: accelerate's, where there are several processes.
    """

    device: torch.device
    accelerator: Any = None

    @classmethod
    def of_environment(cls, device: str = "auto") -> World:
        """Alone, unless `accelerate launch`, `torchrun` or `jensen fit --processes` has started several processes."""
        chosen = choose_device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(chosen)
        try:
            from accelerate import Accelerator, DistributedDataParallelKwargs
        except ImportError:
            raise ImportError("several processes need accelerate: pip install 'jensen[scale]'") from None
        # Parameters may rest for a phase, or have no part in a batch without labels.
        options = DistributedDataParallelKwargs(find_unused_parameters=True)
        accelerator = Accelerator(cpu=chosen.type == "cpu", kwargs_handlers=[options])
        atexit.unregister(part)
        atexit.register(part)
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
        """The module whose backward pass averages gradients over processes, from the weights of the first."""
        if self.accelerator is None:
            return module
        wrapped: nn.Module = self.accelerator.prepare_model(module)
        return wrapped

    def backward(self, loss: Tensor) -> None:
        if self.accelerator is None:
            loss.backward()
        else:
            self.accelerator.backward(loss)

    def mean(self, values: Sequence[float]) -> list[float]:
        """The means of what every process knows."""
        if self.accelerator is None:
            return list(values)
        together: list[float] = self.accelerator.reduce(
            torch.tensor(values, device=self.device).double(), "mean"
        ).tolist()
        return together

    def any(self, flag: bool) -> bool:
        """Whether some process says so; all get the same answer."""
        return flag if self.accelerator is None else self.mean([float(flag)])[0] > 0

    def agree(self, number: int) -> int:
        """The number of the first process."""
        if self.accelerator is None:
            return number
        told = torch.tensor(number, device=self.device)
        self.share([told])
        return int(told)

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give all processes what the first one holds."""
        if self.accelerator is not None:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)


def part() -> None:
    """Leave the other processes.

    Threads that talked to them put their messages away under Python's lock. One that still waits for it when Python
    ends aborts the process; while this thread sleeps, all of them get it.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        time.sleep(0.2)


def choose_device(device: str) -> torch.device:
    """ "auto" is the accelerator that torch finds, or else the CPU."""
    if device != "auto":
        try:
            return torch.empty(0, device=device).device
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device={device!r} cannot be used: {error}; device='auto' takes what there is") from None
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if found is None else found
