"""What belongs to the user's process is as it was after every method of every model, after errors and after Ctrl-C."""

import locale
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import warnings

import matplotlib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from matplotlib import pyplot

import jensen
from cases import CASES

OWN = os.path.dirname(jensen.__file__)
VERBS = ("score_samples", "bound", "posterior", "predict", "predict_proba", "transform", "impute")


def process():
    """What belongs to the whole process."""
    python, numpy = random.getstate(), np.random.get_state()
    return {
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "random": python,
        "numpy.random": (numpy[1].tolist(), *numpy[2:]),
        "torch.random": torch.get_rng_state().tolist(),
        "torch threads": torch.get_num_threads(),
        "torch interop threads": torch.get_num_interop_threads(),
        "torch dtype": torch.get_default_dtype(),
        "torch device": torch.get_default_device(),
        "torch gradients": torch.is_grad_enabled(),
        "torch deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch precision": torch.get_float32_matmul_precision(),
        "torch anomalies": torch.is_anomaly_enabled(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "numpy errors": np.geterr(),
        "numpy prints": np.get_printoptions(),
        "pandas": {name: pd.get_option(name) for name in ("mode.copy_on_write", "display.max_rows")},
        "scikit-learn": sklearn.get_config(),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)},
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook),
        "streams": (sys.stdout, sys.stderr),
        "logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "locale": locale.setlocale(locale.LC_ALL),
        "matplotlib": dict(matplotlib.rcParams),
        "backend": matplotlib.get_backend(),
        "figures": pyplot.get_fignums(),
    }


def changed(before):
    now = process()
    return {name: (before[name], now[name]) for name in before if before[name] != now[name]}


def use(case, folder):
    model = case.brief().fit(case.learnt, case.y)
    for name in VERBS:
        if case.offers(name):
            getattr(model, name)(case.x)
    if case.offers("score"):
        model.score(case.x, case.y)
    if case.offers("sample"):
        model.sample(3)
    if case.offers("impute_draws"):
        model.impute_draws(case.x, 2)
    model.save(folder / "m.jensen")
    jensen.load(folder / "m.jensen", case.classes)


class StoppedError(Exception):
    """An error in the middle of a fit."""


def stop():
    raise StoppedError


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


def fit_until(case, at=None, act=None):
    """The number of jensen's functions that a fit calls; at the call of this number it acts."""
    n_calls = 0

    def count(frame, event, argument):
        nonlocal n_calls
        if event == "call" and frame.f_code.co_filename.startswith(OWN):
            n_calls += 1
            if n_calls == at:
                act()

    sys.setprofile(count)
    try:
        case.brief().fit(case.learnt, case.y)
    except (StoppedError, KeyboardInterrupt):
        pass
    finally:
        sys.setprofile(None)
    return n_calls


@pytest.fixture(autouse=True)
def _listening():
    """Workers of pytest may ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    signal.signal(signal.SIGINT, before)
    torch.set_num_threads(1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_process_of_the_user_is_left_as_it_was(case, tmp_path):
    # First of all, because packages that torch imports when it trains add filters of their own.
    use(case, tmp_path)
    torch.set_num_threads(2)
    before = process()
    use(case, tmp_path)
    assert not changed(before)
    n_calls = fit_until(case)
    for share, act in ((0.6, stop), (0.4, ctrl_c), (0.9, ctrl_c)):
        fit_until(case, max(int(share * n_calls), 1), act)
        assert not changed(before), act.__name__


def test_a_change_would_be_seen(monkeypatch):
    before = process()
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    torch.rand(1)
    with np.errstate(over="raise"):
        assert set(changed(before)) == {"environment", "torch.random", "numpy errors"}
