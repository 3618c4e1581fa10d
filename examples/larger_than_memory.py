"""Rows that stay on disk: a fit to blocks of rows is the fit to all of them, in the memory of a block.

    python examples/larger_than_memory.py [picture.png]
Statistics of EM add: S = Σ_blocks s(block). A fit therefore holds a few blocks at a time, and its parameters are those
of the fit to all rows, up to rounding. Left: the largest difference between the means of both fits after every step,
for 60 000 rows, in units of float64's precision ε. Right: the peak memory of a process that fits ten Gaussians to more
and more rows of eight columns, beyond what it holds before, from an array and from its file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from drawing import COLOURS, figure, picture_path, save, title
from jensen import GaussianMixture, scan

PICTURE = picture_path(__doc__)
CENTRES = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])
STEPS, SIZES = range(1, 13), (250_000, 500_000, 1_000_000, 2_000_000)
PEAK = """
import sys
import numpy as np, torch
from jensen import GaussianMixture, scan
torch.set_num_threads(1)
small = GaussianMixture(2, max_iter=1, tol=0).fit(np.random.default_rng(0).normal(size=(2000, 8)))
def peak():  # in kB, of this process alone
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
rows = scan(sys.argv[1]) if sys.argv[2] == "scan" else np.load(sys.argv[1])
GaussianMixture(10, max_iter=2, tol=0, init_params="random_from_data", random_state=0).fit(rows)
print((peak() - before) / 1024)
"""

# Fits are stopped after a number of steps on purpose.
warnings.simplefilter("ignore", ConvergenceWarning)


def fit(rows: object, n_steps: int) -> GaussianMixture:
    start = {"means_init": CENTRES + 1.0, "weights_init": np.ones(3) / 3, "precisions_init": np.stack([np.eye(2)] * 3)}
    return GaussianMixture(3, max_iter=n_steps, tol=0, **start).fit(rows)


def peak(path: Path, kind: str) -> float:
    """Megabytes above what a process holds before it reads the rows."""
    command = [sys.executable, "-W", "ignore", "-c", PEAK, str(path), kind]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    table = CENTRES[rng.integers(3, size=60_000)] + rng.normal(size=(60_000, 2))
    for number, part in enumerate(np.split(table, 12)):
        np.save(folder / f"{number:02}.npy", part)
    rows = scan(folder, block_rows=1000)
    fits = [(fit(rows, n), fit(table, n)) for n in STEPS]
    apart = [np.abs(streamed.means_ - whole.means_).max() / np.finfo(float).eps for streamed, whole in fits]
    peaks: dict[str, list[float]] = {"array": [], "scan": []}
    for n in SIZES:
        np.save(folder / "large.npy", rng.normal(size=(n, 8)))
        for kind, found in peaks.items():
            found.append(peak(folder / "large.npy", kind))

print("peak memory in MB:", {kind: [round(value) for value in found] for kind, found in peaks.items()})
assert max(apart) < 1e5, "blocks of rows have the parameters of all rows"
assert peaks["scan"][-1] < peaks["array"][-1] / 3, "a scan does not hold the rows"

fig = figure(11, 4)
left, right = fig.subplots(1, 2)
left.plot(STEPS, apart, "o-", color=COLOURS[0])
left.set(xlabel="EM steps", ylabel="largest difference of the means / ε", ylim=(0, None))
left.set_title("the same parameters, up to rounding")
for found, colour, label in zip(peaks.values(), COLOURS, ("from an array", "from its file"), strict=False):
    right.plot([n / 1e6 for n in SIZES], found, "o-", color=colour, label=label)
right.set(xlabel="million rows of 8 columns", ylabel="peak memory of the fit / MB", ylim=(0, None))
right.set_title("the memory of some blocks")
right.legend()
title(fig, "Statistics add, so rows can stay on disk")
save(fig, PICTURE)
