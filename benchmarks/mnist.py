"""MNIST for benchmarks: grey values, labels, and the fixed binarisation of Larochelle & Murray (2011).

A data folder holds `mnist/` with the four idx files, and `binarized_mnist/` with one MATLAB file per split.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

N_PIXELS = 784
HEADERS = {"images-idx3": 16, "labels-idx1": 8}
FILES = {"train": "train", "test": "t10k"}


def grey(data: Path, split: str = "train") -> np.ndarray:
    """Images of "train" (60000, 784) or "test" (10000, 784), float32 from 0 to 1."""
    return idx(data, split, "images-idx3").reshape(-1, N_PIXELS).astype(np.float32) / 255


def labels(data: Path, split: str = "train") -> np.ndarray:
    """Digits 0 to 9, one per image of `grey`."""
    return idx(data, split, "labels-idx1").astype(np.int64)


def idx(data: Path, split: str, kind: str) -> np.ndarray:
    with gzip.open(data / "mnist" / f"{FILES[split]}-{kind}-ubyte.gz") as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=HEADERS[kind])


def fixed(data: Path, split: str = "train") -> np.ndarray:
    """Binary images of "train" (50000, 784), "valid" (10000, 784) or "test" (10000, 784), float32 of 0 and 1."""
    import scipy.io

    rows = scipy.io.loadmat(data / "binarized_mnist" / f"binarized_mnist_{split}.mat")["X"]
    return np.ascontiguousarray(rows, dtype=np.float32)


def binarised(rows: np.ndarray, seed: int) -> np.ndarray:
    """One draw of binary pixels whose probabilities of a 1 are the grey values."""
    return (np.random.default_rng(seed).random(rows.shape, dtype=np.float32) < rows).astype(np.float32)


def few_labels(y: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """y with -1 for all rows except `per_class` random rows of every class."""
    rng = np.random.default_rng(seed)
    known = np.concatenate([rng.choice(np.flatnonzero(y == value), per_class, replace=False) for value in np.unique(y)])
    answer = np.full_like(y, -1)
    answer[known] = y[known]
    return answer
