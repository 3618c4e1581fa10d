"""Shared by the benchmarks: thread counts, seconds, peak memory and the command line. Import it first."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)
warnings.simplefilter("ignore")


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call()
    return time.perf_counter() - began, answer


def peak_memory(setup: str, call: str, *arguments: str) -> float:
    """MB of peak memory above that after `setup`, in a separate process; both may read sys.argv[1:]."""
    script = (
        "import sys, warnings, numpy as np, torch\n"
        f"torch.set_num_threads({THREADS})\n"
        "warnings.simplefilter('ignore')\n"
        f"{setup}\n"
        "status = lambda key: int(open('/proc/self/status').read().split(key + ':')[1].split()[0])\n"
        "open('/proc/self/clear_refs', 'w').write('5')  # forget the peak so far\n"
        "before = status('VmRSS')\n"
        f"{call}\n"
        "print((status('VmHWM') - before) / 1024)"
    )
    command = [sys.executable, "-c", script, *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run_parts(description: str | None, parts: Mapping[str, Callable[[bool, Path | None], None]]) -> None:
    """Run the parts named on the command line, or all."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(parts)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--data", type=Path, help="folder with real data sets")
    arguments = parser.parse_args()
    for part in arguments.parts or parts:
        print(f"\n## {part}", flush=True)
        parts[part](arguments.quick, arguments.data)
