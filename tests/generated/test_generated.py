"""Generated tables over every method of every model: a documented error or finite, lawful output."""

import json
from collections import Counter
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, seed, settings

from cases import CASES
from generated.examine import Examination
from generated.tables import tables

FEW, MANY = 6, 10_000


def examine(case, n_tables, record_property):
    counts = Counter()

    @seed(crc32(case.name.encode()))
    @settings(
        max_examples=n_tables,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(tables(case.x, has_labels=case.y is not None))
    def check(table):
        Examination(case, table, counts).run()

    try:
        check()
    finally:
        record_property("generated", json.dumps(counts))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_few_tables(case, record_property):
    examine(case, FEW, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_many_tables(case, record_property):
    examine(case, -(-MANY // len(CASES)), record_property)
