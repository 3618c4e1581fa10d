"""A fit to blocks of rows is the fit to all of them, and answers about blocks are the answers about all rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import jensen
from jensen.contract import EMEstimator

pytestmark = pytest.mark.asks("untrained")


def in_blocks(rows, y=None, weight=None, size=7):
    """A scan of data frames with so many rows each, labels and weights among the columns."""
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])
    columns = {name: given for name, given in (("label", y), ("weight", weight)) if given is not None}
    frame = frame.assign(**columns)
    blocks = [frame.iloc[i : i + size] for i in range(0, len(frame), size)]
    return jensen.scan(lambda: iter(blocks), block_rows=size, **{name: name for name in columns})


def few_steps(case):
    return case.make().set_params(max_iter=20)


def refuses(model, scan):
    """Whether a model says that it needs all rows at once."""
    if not isinstance(model, EMEstimator):
        return True
    if getattr(model, "size_limits", None) is not None or getattr(model, "metric", "euclidean") != "euclidean":
        with pytest.raises(ValueError, match="scan"):
            model.fit(scan)
        return True
    model.fit(scan)
    return False


def as_frame(rows):
    return pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])


def test_blocks_add_up_to_the_whole(case, some_rows, parameters):
    weight = np.random.default_rng(1).integers(0, 3, size=len(case.x))
    weight[:7], weight[7:14] = 0, 1  # one block counts for nothing, and one has no weights to speak of
    for rows in some_rows:
        for mass in (None, weight):
            streamed = few_steps(case)
            if refuses(streamed, in_blocks(rows, case.y, mass)):
                return
            whole = few_steps(case).fit(as_frame(rows), case.y, sample_weight=mass)
            # Sums of the same numbers in another order. With a depot, the last search moves rows one by one, in order
            # of their content: rounding decides between moves, and so between optima that are nearly as good.
            is_searched = case.name == "kmeans-depot"
            assert_allclose(case.objective(streamed), case.objective(whole), rtol=1e-4 if is_searched else 1e-8)
            if not is_searched:
                assert_allclose(parameters(streamed), parameters(whole), rtol=1e-5, atol=1e-7)


@pytest.mark.asks("score_samples")
def test_answers_about_blocks_are_those_about_all_rows(case, model, some_rows):
    for rows in some_rows:
        frame, scan = as_frame(rows), in_blocks(rows)
        fitted = case.make().fit(as_frame(case.learnt), case.y)
        for verb in ("score_samples", "predict", "transform", "impute"):
            if not hasattr(fitted, verb):
                continue
            found, expected = getattr(fitted, verb)(scan).collect(), getattr(fitted, verb)(frame)
            if np.asarray(expected).dtype.kind in "OUS":
                assert np.asarray(found).tolist() == np.asarray(expected).tolist()
            else:
                assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=1e-12)
        if type(fitted).score is jensen.GaussianMixture.score:
            assert fitted.score(scan) == pytest.approx(float(np.mean(fitted.score_samples(frame))), rel=1e-12)
