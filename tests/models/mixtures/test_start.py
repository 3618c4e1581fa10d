"""Where a mixture starts: the rows that partitions are compared on, and wide rows."""

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from jensen import GaussianMixture
from jensen.engines.em.sources import source_of
from jensen.formulas.moments import HeldExtent
from jensen.models.mixtures import partitions
from jensen.models.mixtures.em import MixtureVerbs
from jensen.models.mixtures.gaussians import STRUCTURES
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.partitions import Sample


def sample_of(x, weight, label, k=3):
    """The sample of rows (n, d), and the verbs it is for."""
    family = GaussianFamily(STRUCTURES["diag"], 1e-6)
    verbs = MixtureVerbs(family, k, x.shape[1])
    rows, mass = torch.from_numpy(x), torch.from_numpy(weight)
    frame = family.frame(HeldExtent(rows.mT, mass))
    standard = verbs.standard
    source = source_of(
        rows,
        frame,
        weight=mass,
        label=None if label is None else torch.from_numpy(label),
        footprint=standard.footprint,
        by_pattern=standard.by_pattern,
        hold=standard.hold,
    )
    return Sample.of(source, verbs, frame), verbs


def test_every_so_many_rows_keep_the_total_weight_and_their_labels():
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=300)
    # The first column names the class, so that a label that left its row would show.
    x = np.column_stack([10.0 * label, rng.normal(size=300)])
    sample, verbs = sample_of(x, rng.uniform(0.5, 2.0, size=300), label)
    some = sample.every(7, verbs)
    assert len(some.weight) == 43
    assert_allclose(float(some.weight.sum()), float(sample.weight.sum()))
    # Weights keep their ratios.
    assert_allclose(some.weight / some.weight[0], sample.weight[::7] / sample.weight[0])
    assert_array_equal(some.x, sample.x[:, ::7])
    column = some.rows[0].numpy()
    assert_array_equal(np.unique(column, return_inverse=True)[1], some.label.numpy())
    assert not some.is_everything
    # The rows of the engine are these rows, with these weights.
    assert_allclose(sum(float(batch.weight.sum()) for batch in some.source), float(sample.weight.sum()))


def test_separated_clusters_of_wide_rows_are_found():
    rng = np.random.default_rng(1)
    d, k = 100, 8
    own = rng.integers(k, size=3000)
    # Centres are about 14 deviations apart, over all features; a feature alone tells little.
    x = rng.normal(size=(k, d))[own] + rng.normal(size=(3000, d))
    assert d > partitions.WIDE
    for seed in range(3):
        model = GaussianMixture(k, covariance_type="diag", random_state=seed).fit(x)
        assert adjusted_rand_score(own, model.predict(x)) > 0.999
