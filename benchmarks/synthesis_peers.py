"""Rows of Adult by SDV's CTGAN or TVAE, for `benchmarks/synthesis.py FOLDER --judge FILE`.

    python benchmarks/synthesis_peers.py FOLDER CTGAN rows.csv [--seconds 540] [--epochs 300]
Needs the package ctgan, which may need an environment of its own. The arguments are its defaults (300 epochs, batches
of 500), but training ends after the epoch in which --seconds of the processor are used up, columns read included; the
epochs that were trained are printed. The columns of text are its discrete columns, as in its own example on Adult.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctgan
import pandas as pd
from ctgan.synthesizers import ctgan as ctgan_module
from ctgan.synthesizers import tvae as tvae_module
from synthesis import read


class Epochs:
    """In place of the progress bar that the training loop iterates over: stops when the time is used up."""

    def __init__(self, until: float) -> None:
        self.until, self.n_trained = until, 0

    def __call__(self, epochs: range, **options: Any) -> Iterator[int]:
        for epoch in epochs:
            if time.process_time() > self.until:
                return
            yield epoch
            self.n_trained += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", choices=("CTGAN", "TVAE"))
    parser.add_argument("rows", type=Path, help="file for the synthetic rows")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--epochs", type=int, default=300)
    asked = parser.parse_args()
    train, _ = read(asked.folder)
    texts = [name for name in train if not pd.api.types.is_numeric_dtype(train[name])]
    epochs = Epochs(asked.seconds)
    ctgan_module.tqdm = tvae_module.tqdm = epochs
    model = getattr(ctgan, asked.model)(epochs=asked.epochs, enable_gpu=False)
    model.set_random_state(0)
    model.fit(train, texts)
    print(
        f"{asked.model}, ctgan {ctgan.__version__}: {epochs.n_trained} epochs, {time.process_time():.0f} s", flush=True
    )
    model.sample(len(train)).to_csv(asked.rows, index=False)


if __name__ == "__main__":
    main()
