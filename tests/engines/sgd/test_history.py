"""What a training came to, as a table and as a picture."""

import matplotlib.pyplot as plt
import pytest

from jensen.engines.sgd.history import History

ROWS = [
    {"epoch": 5 * r, "objective": -9.0 / r, "reconstruction": -8.0 / r, "latent": 1.0 / r, "held_out": -10.0 / r}
    | {"learning_rate": 1e-3, "seconds": float(r)}
    for r in (1, 2, 3, 4)
]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_part_of_a_history_can_draw_itself_too():
    history = History(ROWS)
    assert isinstance(history[history["epoch"] > 5], History)
    assert history["held_out"].max() == -2.5


def test_totals_and_terms_stand_side_by_side():
    left, right = History(ROWS).plot().axes
    assert labels(left) == ["objective", "held out"]
    assert labels(right) == ["reconstruction", "latent"]
    assert {axes.get_xlabel() for axes in (left, right)} == {"epoch"}
    assert left.get_ylabel() == "nats per row"
    assert left.lines[1].get_xdata().tolist() == [5, 10, 15, 20]
    assert left.lines[1].get_ydata().tolist() == [-10, -5, -10 / 3, -2.5]


def test_axes_of_ones_own_show_the_totals():
    figure, axes = plt.subplots()
    assert History(ROWS).plot(axes) is figure
    assert labels(axes) == ["objective", "held out"]


def test_without_terms_there_is_one_panel():
    (axes,) = History([{"epoch": 1, "objective": -1.0}]).plot().axes
    assert labels(axes) == ["objective"]


def test_phases_are_marked():
    history = History([row | {"phase": "EM"[i % 2]} for i, row in enumerate(ROWS)])
    left, right = history.plot().axes
    assert labels(left) == ["objective", "held out", "E phase", "M phase"]
    assert right.lines[-1].get_xdata().tolist() == [10, 20]


def test_before_the_first_round_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match="the training ended before its first round, so there is nothing to plot"):
        History([]).plot()
