"""Tables of a page: headings stand where their cells do, and values are as people write them."""

import numpy as np
import pandas as pd

from jensen.report.html import table


def test_headings_of_words_stand_to_the_left_as_their_cells():
    frame = pd.DataFrame({"why": ["a", "b"], "score": [1.5, np.nan], "note": [None, "no"], "n": [1, 2]})
    for is_sortable in (False, True):
        page = table(frame, sortable=is_sortable)
        heads = page.split("<tbody>")[0].split("<th ")[1:]
        assert ['class="word"' in head for head in heads] == [True, False, True, False]


def test_dates_have_no_midnight_and_truth_is_yes_or_no():
    page = table(
        pd.DataFrame({"day": pd.to_datetime(["2024-05-31 00:00", "2024-05-31 12:30"]), "is_used": [True, False]})
    )
    assert "<td>2024-05-31</td><td>yes</td>" in page
    assert "<td>2024-05-31 12:30:00</td><td>no</td>" in page
