"""The diffusion classifier of digits: accuracy and work by weighting and budget, and with few labels.

    python benchmarks/diffusion_classifier.py [--epochs 10 60] [--rows 240] [--few]
scikit-learn's digits, 1437 training and 360 test images, stratified by class. A U-Net with 16 and 32 channels, trained
for so many epochs with all labels; the classes of some test images are then predicted by the bound ("variational") and
by the simple loss, with two budgets. The 120 test images that chose the rule by which classes are dropped are left out.

With --few the network has 20 labels per class, and all images. Few labels were tuned on another draw of labels and on
images that are held out of the training images.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import time
from typing import Any

import measuring  # noqa: F401 (first: it sets the number of threads)

import numpy as np
import torch
from diffusion_judged import Images, few_labels, real_digits

from jensen import Diffusion, UNet

ASKED = tuple((weighting, budget) for weighting in ("variational", "simple") for budget in (16, 48))


def fitted(real: Images, epochs: int, is_few: bool) -> Diffusion:
    y = few_labels(real.train_y) if is_few else real.train_y
    own: dict[str, Any] = {"network": UNet(channels=(16, 32), n_blocks=1), "learning_rate": 2e-3, "random_state": 0}
    return Diffusion(max_epochs=epochs, **own).fit(real.train, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 60])
    parser.add_argument("--rows", type=int, default=120, help="test images at most")
    parser.add_argument("--few", action="store_true", help="20 labels per class")
    options = parser.parse_args()
    torch.set_num_threads(1)
    real = real_digits()
    chosen_on = np.linspace(0, len(real.test) - 1, 120).astype(int)
    rows = np.setdiff1d(np.arange(len(real.test)), chosen_on)[: options.rows]
    print("| epochs | weighting | budget | correct, % | passes per image | ms per image |\n" + "| --- " * 6 + "|")
    for epochs in options.epochs:
        model = fitted(real, epochs, options.few)
        for weighting, budget in ASKED:
            began = time.process_time()
            found = model.classify(real.test[rows], weighting=weighting, budget=budget)
            took = 1000 * (time.process_time() - began) / len(rows)
            right = model.classes_[np.asarray(found.probabilities).argmax(1)] == real.test_y[rows]
            error = 100 * (right.mean() * (1 - right.mean()) / len(rows)) ** 0.5
            cells = (f"{100 * right.mean():.1f} ± {error:.1f}", f"{np.mean(found.n_evaluations):.0f}", f"{took:.0f}")
            print(f"| {epochs} | {weighting} | {budget} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
