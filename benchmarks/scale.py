"""Fits of files that are larger than memory: peak memory, time per row, and k-means beside its peers.

    python benchmarks/scale.py generate FOLDER 1e6 1e7          # Parquet files of 16 columns, 128 MB per million rows
    python benchmarks/scale.py memory FOLDER 1e6 1e7            # peak memory and seconds per step, a process each
    python benchmarks/scale.py in-memory FOLDER 1e6             # the same steps on rows in memory
    python benchmarks/scale.py executors FOLDER 1e6             # threads, spawned processes and dask
    python benchmarks/scale.py kmeans FOLDER 1e7                # beside dask-ml and MiniBatchKMeans
    python benchmarks/scale.py deep FOLDER 1e5 1e6              # peak memory of an epoch of a VAE, a process each
    python benchmarks/scale.py mixed FOLDER 1e6                 # columns of all kinds: text, Parquet and memory
    python benchmarks/scale.py sent FOLDER 1e6                  # bytes of a task and of its result
    python benchmarks/scale.py chart FIGURES.jsonl PICTURE.png  # of the figures that the others printed

Rows come from twenty Gaussians in 16 dimensions. Every figure is a line of JSON. Delete the folder afterwards.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

D, CENTRES, GROUP = 16, 20, 125_000
STEPS = 3


def path_of(folder: str, n: float) -> Path:
    return Path(folder) / f"rows-{int(n)}.parquet"


def generate(folder: str, n: float) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(CENTRES, D))
    Path(folder).mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(D)])
    with pq.ParquetWriter(path_of(folder, n), schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, int(n), GROUP):
            m = min(GROUP, int(n) - start)
            x = centres[rng.integers(0, CENTRES, m)] + rng.normal(size=(m, D))
            writer.write_table(pa.table({f"x{j}": x[:, j] for j in range(D)}, schema=schema))


def models():
    import jensen

    options = {"max_iter": STEPS, "tol": 0, "random_state": 0}
    return {
        "gaussian mixture, 10 full": lambda: jensen.GaussianMixture(10, init_params="kmeans", **options),
        "k-means, 50": lambda: jensen.KMeans(50, **options),
        "probabilistic PCA, 5": lambda: jensen.ProbabilisticPCA(5),
    }


def step_seconds(make, rows) -> tuple[float, float]:
    """Seconds of the fit, and of each of its sweeps."""
    from jensen.engines.em import loop

    times, sweep = [], loop.sweep

    def timed(*given):
        began = time.perf_counter()
        found = sweep(*given)
        if getattr(given[2], "n_rows", 0) and given[2].n_rows > 50_000:
            times.append(time.perf_counter() - began)
        return found

    loop.sweep = timed
    began = time.perf_counter()
    try:
        make().fit(rows)
    finally:
        loop.sweep = sweep
    return time.perf_counter() - began, float(np.median(times)) if times else float("nan")


def one(folder: str, n: float, name: str, kind: str) -> None:
    """One fit in a process of its own, for its peak memory."""
    import pandas as pd
    import torch

    import jensen

    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    path = path_of(folder, n)
    # What torch and pyarrow load at their first use is not memory of the rows.
    models()[name]().fit(jensen.scan(lambda: [next(iter(jensen.scan(path, block_rows=2000))).table]))
    base = peak_megabytes()
    rows = jensen.scan(path) if kind == "scan" else pd.read_parquet(path).to_numpy()
    before = peak_megabytes()
    cpu = time.process_time()
    total, sweep = step_seconds(models()[name], rows)
    peak = peak_megabytes()
    report(
        rows=int(n), model=name, kind=kind, seconds=total, sweep=sweep, microseconds_per_row=1e6 * sweep / n,
        cpu=time.process_time() - cpu, peak_mb=peak, base_mb=base, before_mb=before,
    )  # fmt: skip


def peak_megabytes() -> float:
    """Of this process alone; getrusage also knows that of the process it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def memory(folder: str, n: float, kind: str = "scan") -> None:
    for name in models():
        subprocess.run([sys.executable, __file__, "one", folder, str(n), name, kind], check=True)


def deep(folder: str, n: float) -> None:
    subprocess.run([sys.executable, __file__, "epoch", folder, str(n)], check=True)


def epoch(folder: str, n: float) -> None:
    """The first sweep and one epoch of a VAE in a process of its own."""
    from dataclasses import replace

    import torch

    import jensen

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = jensen.scan(path_of(folder, n))
    options = {"max_epochs": 1, "batch_size": 1000, "random_state": 0, "trainer": jensen.Trainer(shuffle_rows=2**15)}
    # What torch and pyarrow load at their first use is not memory of the rows.
    jensen.VAE(4, **options).fit(jensen.scan(lambda: [next(iter(replace(rows, block_rows=2000))).table]))
    before, began = peak_megabytes(), time.perf_counter()
    jensen.VAE(4, **options).fit(rows)
    report(rows=int(n), model="VAE", seconds=time.perf_counter() - began, peak_mb=peak_megabytes(), before_mb=before)


def executors(folder: str, n: float) -> None:
    from concurrent.futures import ProcessPoolExecutor

    import dask
    import torch
    from distributed import Client, LocalCluster

    import jensen

    warnings.simplefilter("ignore")
    name, rows = "gaussian mixture, 10 full", jensen.scan(path_of(folder, n))
    for threads, where in ((1, "1 thread"), (2, "2 threads")):
        torch.set_num_threads(threads)
        report(rows=int(n), where=where, sweep=step_seconds(models()[name], rows)[1])
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        report(rows=int(n), where="2 spawned processes", sweep=fit_in(executor, name, rows))
    # Dask's own setting gives freed memory back at once; the second keeps it for the next block.
    for where, kept in (("dask, 2 workers, own setting", 2**16), ("dask, 2 workers", 2**30)):
        names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_") if kept > 2**16 else ("MALLOC_TRIM_THRESHOLD_",)
        dask.config.set({"distributed.nanny.pre-spawn-environ": dict.fromkeys(names, kept)})
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            report(rows=int(n), where=where, sweep=fit_in(client.get_executor(), name, rows))


def mixed(folder: str, n: float) -> None:
    """Sweeps of a mixture of any columns over a table that has to be parsed and encoded."""
    import pandas as pd
    import torch

    import jensen

    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    rng, n = np.random.default_rng(0), int(n)
    z = rng.integers(0, 5, n)
    table = pd.DataFrame(
        {
            "age": rng.normal(40 + 5 * z, 10),
            "gain": np.where(rng.random(n) < 0.8, 0, rng.lognormal(7, 1, n)),
            "job": np.array(list("abcdefghij"))[(2 * z + rng.integers(0, 3, n)) % 10],
            "town": np.array([f"town {i}" for i in range(40)])[rng.integers(0, 40, n)],
            "visits": rng.poisson(3 + z),
            "member": rng.random(n) < 0.1 + 0.15 * z,
            "x": rng.normal(z),
            "y": rng.normal(-z),
        }
    )
    parquet, text = Path(folder) / "mixed.parquet", Path(folder) / "mixed.csv"
    table.to_parquet(parquet, row_group_size=GROUP // 2)
    table.to_csv(text, index=False)
    make = lambda: jensen.Mixture(5, random_state=0, max_iter=8, tol=0)  # noqa: E731
    rows = {"memory": table, "parquet": jensen.scan(parquet), "csv": jensen.scan(text)}
    rows["parquet, no cache"] = jensen.scan(parquet, cache=False)
    for where, one in rows.items():
        seconds, sweep = step_seconds(make, one)
        report(rows=n, model="mixture of 8 columns", where=where, seconds=seconds, sweep=sweep)


class Weighed(ThreadPoolExecutor):
    """Threads that weigh what would be sent to a process and back."""

    def __init__(self):
        super().__init__(1)
        self.there, self.back = [], []

    def submit(self, function, /, *items, **options):
        self.there.append(len(pickle.dumps((function, items))))
        found = super().submit(function, *items, **options)
        found.add_done_callback(lambda one: self.back.append(len(pickle.dumps(one.result()))))
        return found


def sent(folder: str, n: float) -> None:
    from dataclasses import replace

    import jensen

    warnings.simplefilter("ignore")
    rows = jensen.scan(path_of(folder, n))
    for name, make in models().items():
        with Weighed() as executor:
            make().fit(replace(rows, executor=executor))
        # The last tasks are those of an EM step; the first ones are those of the survey.
        report(rows=int(n), model=name, there=executor.there[-1], back=executor.back[-1])


def chart(figures: str, picture: str) -> None:
    """Seconds of a step and peak memory against the number of rows."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    found = [json.loads(line) for line in Path(figures).read_text(encoding="utf-8").splitlines() if line[:1] == "{"]
    name = "gaussian mixture, 10 full"
    of_model = [f for f in found if f.get("model") == name and "kind" in f]
    curves = {
        "in memory, 2 threads": [f for f in of_model if f["kind"] == "memory"],
        "one file, 2 threads": [f for f in of_model if f["kind"] == "scan"],
        "one file, 1 thread": [f for f in found if f.get("where") == "1 thread"],
        "one file, 2 processes": [f for f in found if f.get("where") == "2 spawned processes"],
        "one file, 2 workers of dask": [f for f in found if f.get("where") == "dask, 2 workers"],
    }
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for (label, own), colour, mark in zip(
        curves.items(), ("#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7"), "os^Dv", strict=True
    ):
        own = sorted(own, key=lambda f: f["rows"])
        rows = [f["rows"] / 1e6 for f in own]
        left.loglog(rows, [f["sweep"] for f in own], marker=mark, color=colour, label=label)
        if "peak_mb" in own[0]:
            right.loglog(rows, [f["peak_mb"] - f["base_mb"] for f in own], marker=mark, color=colour, label=label)
    left.set(xlabel="million rows of 16 columns", ylabel="seconds", title="one EM step of ten full Gaussians")
    right.set(xlabel="million rows of 16 columns", ylabel="MB", title="peak memory of the fit, rows included")
    for axes in (left, right):
        axes.legend()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    fig.savefig(picture, dpi=110)


def fit_in(executor, name, rows) -> float:
    from dataclasses import replace

    return step_seconds(models()[name], replace(rows, executor=executor))[1]


@contextmanager
def costs_by_time():
    """When a k-means step was done, and its cost in the engine's units."""
    from jensen.engines.em import loop

    curve, sweep = [], loop.sweep

    def noted(*given):
        found = sweep(*given)
        curve.append((time.perf_counter(), -float(found.bound)))
        return found

    loop.sweep = noted
    try:
        yield curve
    finally:
        loop.sweep = sweep


def kmeans(folder: str, n: float, k: int = 50) -> None:
    """K-means to the same inertia as its peers, all on two threads or workers."""
    import dask.dataframe as dd
    import pandas as pd
    import torch
    from sklearn.cluster import MiniBatchKMeans

    import jensen

    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    path = path_of(folder, n)
    cpu, began = time.process_time(), time.perf_counter()
    with costs_by_time() as curve:
        ours = jensen.KMeans(k, random_state=0).fit(jensen.scan(path))
    report(rows=int(n), who="jensen, scan", seconds=time.perf_counter() - began, cpu=time.process_time() - cpu,
           inertia=ours.inertia_, steps=ours.n_iter_)  # fmt: skip
    unit = ours.inertia_ / min(cost for _, cost in curve)

    def compare(who: str, inertia: float, **figures) -> None:
        """Beside a peer's seconds ours until the same inertia."""
        ours_until = next((seconds - began for seconds, cost in curve if cost * unit <= inertia), None)
        report(rows=int(n), who=who, inertia=inertia, jensen_scan_to_it=ours_until, **figures)

    x = pd.read_parquet(path).to_numpy()
    cpu, start = time.process_time(), time.perf_counter()
    held = jensen.KMeans(k, random_state=0).fit(x)
    report(rows=int(n), who="jensen, memory", seconds=time.perf_counter() - start, cpu=time.process_time() - cpu,
           inertia=held.inertia_, steps=held.n_iter_)  # fmt: skip
    cpu, start = time.process_time(), time.perf_counter()
    mini = MiniBatchKMeans(k, random_state=0, batch_size=8192).fit(x)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    compare("MiniBatchKMeans", -mini.score(x), seconds=seconds, cpu=cpu)
    try:
        from dask_ml.cluster import KMeans as DaskKMeans

        lazy = dd.read_parquet(path).to_dask_array(lengths=True).persist()
        cpu, start = time.process_time(), time.perf_counter()
        peer = DaskKMeans(k, random_state=0).fit(lazy)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        # Its own inertia_ adds distances that are not squared.
        mini.cluster_centers_ = np.ascontiguousarray(peer.cluster_centers_, dtype=np.float64)
        compare("dask-ml, rows in memory", -mini.score(x), seconds=seconds, cpu=cpu, steps=int(peer.n_iter_))
    except Exception as error:
        report(who="dask-ml", error=f"{type(error).__name__}: {error}")


def report(**figures) -> None:
    print(json.dumps({name: round(v, 4) if isinstance(v, float) else v for name, v in figures.items()}), flush=True)


if __name__ == "__main__":
    task, folder, *rest = sys.argv[1:]
    if task == "one":
        one(folder, float(rest[0]), rest[1], rest[2])
    elif task == "chart":
        chart(folder, rest[0])
    else:
        for size in map(float, rest):
            tasks = {"generate": generate, "memory": memory, "executors": executors, "kmeans": kmeans}
            tasks |= {"deep": deep, "epoch": epoch, "mixed": mixed, "sent": sent}
            memory(folder, size, "memory") if task == "in-memory" else tasks[task](folder, size)
