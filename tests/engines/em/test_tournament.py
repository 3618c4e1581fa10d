"""Short runs from several starts."""

import pytest

from jensen.engines.em.tournament import rounded, tournament


def towards(target):
    """Runs that halve the distance to a target in every step."""

    def run(candidate, n_steps):
        candidate = target + (candidate - target) / 2**n_steps
        return candidate, abs(candidate - target)

    return run


def test_the_best_after_the_last_round_wins_with_all_its_steps():
    assert tournament([16.0, -8.0, 64.0], [(1, 2), (2, 1)], towards(0.0)) == (1, -1.0)


def test_only_those_that_are_kept_run_on():
    steps = []

    def run(candidate, n_steps):
        steps.append((candidate, n_steps))
        return candidate, candidate

    assert tournament([3, 1, 2], [(5, 2), (10, 1)], run) == (1, 1)
    assert steps == [(3, 5), (1, 5), (2, 5), (1, 10), (2, 10)]


def test_of_equally_good_candidates_the_first_wins():
    assert tournament([-4.0, 4.0], [(1, 1)], towards(0.0)) == (0, -2.0)


def test_without_rounds_the_first_wins():
    assert tournament(["a", "b"], [], lambda candidate, n_steps: pytest.fail("no run was asked for")) == (0, "a")


def test_losses_that_differ_by_rounding_tie():
    assert rounded(1.23456789012) == rounded(1.23456789019)
    assert rounded(1.2345678) != rounded(1.2345679)
