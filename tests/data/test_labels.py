"""Labels of any kind, and which of them are none."""

import numpy as np
import pytest

from jensen.data.labels import decode_labels, encode_labels


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        (np.array([b"b", b"a", b"nan", b"-1", b""]), [b"a", b"b"], [1, 0, -1, -1, -1]),
        (np.array([b"b", None, b"a"], dtype=object), [b"a", b"b"], [1, -1, 0]),
        # One nanosecond before 1970 is a date, and no number -1.
        (
            np.array(["2020", "NaT", "1969-12-31T23:59:59.999999999"], dtype="datetime64[ns]"),
            [-1, 1577836800000000000],
            [1, -1, 0],
        ),
        (np.array([2, "NaT", 1], dtype="timedelta64[s]"), None, [1, -1, 0]),
    ],
)
def test_unlabelled_rows(y, classes, codes):
    found, values = encode_labels(y, len(y))
    assert found.tolist() == codes
    assert classes is None or values.tolist() == classes


def test_a_component_beyond_the_dates_has_none():
    classes = np.array(["2020", "2021"], dtype="datetime64[ns]")
    decoded = decode_labels(np.array([1, 2, 0]), classes)
    np.testing.assert_array_equal(decoded, np.array(["2021", "NaT", "2020"], dtype="datetime64[ns]"))


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([1j, 2j]), "complex128"),
        (np.array([(1, 2), (3, 4)], dtype="i4,i4"), "f0"),
        (np.array([[1], {2}, None], dtype=object)[:2], "list, set"),
    ],
)
def test_labels_that_no_file_could_hold(y, kind):
    with pytest.raises(ValueError, match=f"y holds labels of the kind .*{kind}.*; give numbers, texts, bytes or dates"):
        encode_labels(y, 2)
