"""Samples of digits by sampler and number of steps, judged by an independent classifier.

    python benchmarks/diffusion_samplers.py MODEL [--n 20] [--samplers ancestral ddim dpm] [--steps 10 20 50 100 1000]
MODEL is the file of a diffusion of digits with classes, from `diffusion_judged.py train`. n samples of every class are
drawn without guidance. The table has the share that a support vector machine, trained on the real training images,
recognises as the class they were drawn for, and the milliseconds of processor time per sample.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import time
from pathlib import Path

import measuring  # noqa: F401 (first: it sets the number of threads)

import numpy as np
import torch
from diffusion_judged import real_digits, vector_machine

import jensen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="file of a diffusion of digits with classes")
    parser.add_argument("--n", type=int, default=20, help="samples per class")
    parser.add_argument("--samplers", nargs="+", default=["ancestral", "ddim", "dpm"])
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 20, 50, 100, 1000])
    options = parser.parse_args()
    torch.set_num_threads(1)
    real = real_digits()
    judge, model = vector_machine(real), jensen.load(options.model)
    y = np.repeat(model.classes_, options.n)
    print(f"judge: {100 * (judge(real.test) == real.test_y).mean():.1f} % of the real test images\n")
    print("| sampler | steps | recognised, % | ms per sample |\n" + "| --- " * 4 + "|", flush=True)
    for steps in options.steps:
        for sampler in options.samplers:
            began = time.process_time()
            samples = np.asarray(model.sample(len(y), y, random_state=0, steps=steps, sampler=sampler)[0])
            took = 1000 * (time.process_time() - began) / len(y)
            right = float((judge(samples) == y).mean())
            error = (right * (1 - right) / len(y)) ** 0.5
            print(f"| {sampler} | {steps} | {100 * right:.1f} ± {100 * error:.1f} | {took:.1f} |", flush=True)


if __name__ == "__main__":
    main()
