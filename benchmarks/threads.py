"""A training step of a U-Net, alone and beside busy processes: how threads should wait for each other.

    python benchmarks/threads.py [--steps 7] [--busy 0 2] [--policies default passive]
Images have 28x28 pixels, in batches of 32; the U-Net has 16 and 32 channels. Every line is a separate process, because
OpenMP reads its settings when it is loaded. Figures are the minimum and the median over the steps, without the first
two. Processor time, a median, counts all threads: the excess over one thread is time that threads spend spinning. Busy
processes are endless loops, started and ended by the script.

default: OpenMP's default, in which a thread spins for milliseconds before it sleeps. passive:
OMP_WAIT_POLICY=PASSIVE, which the command `jensen` sets unless the variable is already set.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

POLICIES = {"default": {}, "passive": {"OMP_WAIT_POLICY": "PASSIVE"}, "spin 10000": {"GOMP_SPINCOUNT": "10000"}}
SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
STEP = """if True:
    import json, statistics, sys, time
    import torch
    from jensen import UNet
    torch.manual_seed(0)
    network = UNet(channels=(16, 32)).build((1, 28, 28), (1, 28, 28))
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
    x, t = torch.randn(32, 1, 28, 28), torch.rand(32)
    wall, processor = [], []
    for _ in range(int(sys.argv[1]) + 2):
        began, used = time.perf_counter(), time.process_time()
        network(x, t).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    print(json.dumps([min(wall[2:]), statistics.median(wall[2:]), statistics.median(processor[2:])]))
"""


@contextmanager
def busy(n: int) -> Iterator[None]:
    """Run n processes that use one core each."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def step(n_threads: int, policy: str, n_steps: int) -> tuple[float, float, float]:
    """Minimum and median seconds of a step, and processor seconds."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    environment = {**kept, **POLICIES[policy], "OMP_NUM_THREADS": str(n_threads)}
    done = subprocess.run(
        [sys.executable, "-c", STEP, str(n_steps)], env=environment, capture_output=True, text=True, check=True
    )
    least, middle, processor = json.loads(done.stdout)
    return least, middle, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--policies", nargs="*", choices=list(POLICIES), default=["default", "passive"])
    given = parser.parse_args()
    print(f"{'busy':>5} {'threads':>8} {'waiting':>12} {'min s':>9} {'median s':>9} {'processor s':>12}")
    for n in given.busy:
        with busy(n):
            for n_threads, policy in [(1, "default"), *((2, policy) for policy in given.policies)]:
                least, middle, processor = step(n_threads, policy, given.steps)
                print(f"{n:5} {n_threads:8} {policy:>12} {least:9.3f} {middle:9.3f} {processor:12.3f}", flush=True)


if __name__ == "__main__":
    main()
