"""Files of earlier versions load, and their models return what they returned then."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jensen
from golden.golden import FOLDER, VARIANTS, answers, rows_of

# They are of version 1, which had no checksums.
pytestmark = pytest.mark.filterwarnings("ignore:.* has no checksum:UserWarning")
# Networks compute in single precision, and kernels of other processors add in another order.
SINGLE = {"rtol": 1e-4, "atol": 1e-4}
DOUBLE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_golden_file_loads_and_returns_what_it_returned(variant):
    model = jensen.load(variant.path)
    with np.load(variant.answers_path) as held:
        expected = dict(held)
        rows, gaps = rows_of(variant)
        found = answers(model, expected.pop("rows", rows), expected.pop("gaps", gaps), variant.y)
        assert found.keys() == set(expected)
        for name, values in expected.items():
            tolerance = SINGLE if hasattr(model, "module_") else DOUBLE
            assert_allclose(found[name], values, err_msg=name, **tolerance)


def test_every_golden_file_has_a_variant():
    names = {variant.name for variant in VARIANTS}
    assert {path.stem for path in FOLDER.glob("*.jensen")} == names
    assert {path.stem for path in FOLDER.glob("*.npz")} == names


def test_every_class_that_can_be_saved_has_a_golden_file():
    classes = {type(jensen.load(variant.path)).__name__ for variant in VARIANTS}
    assert classes == {*jensen.registry.MODELS.values()}
