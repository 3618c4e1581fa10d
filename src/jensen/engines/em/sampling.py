"""A sample of distinct rows, for starts.

Which rows are chosen follows from a hash of their content, so it does not depend on their order, nor on whether a row
stands twice or weighs 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jensen.data.sparse import is_sparse, rows_matrix, some_rows
from jensen.engines.em.seeding import distinct_rows


@dataclass(frozen=True)
class RowSample:
    """Distinct rows.

    Args:
        x: feature-major rows (d, n), NaN where missing, class by class and in an order of their content; sparse if the
            rows are.
        weight: of all copies of a row (n,); every class, and the unlabelled rows, keep their total weight.
        label: the class of every row (n,), -1 where unknown, or None when no row has one.
        is_everything: whether these are all distinct rows.
    """

    x: Tensor
    weight: Tensor
    label: Tensor | None
    is_everything: bool


def sample_of(x: Tensor, weight: Tensor | None, label: Tensor | None, n: int, limit: int) -> RowSample:
    """All distinct rows of x (n, d) when there are at most `limit`, else n/2 to n of them, in equal parts
    of every class and of the unlabelled rows.
    """
    everything = torch.arange(len(x))
    groups = [everything] if label is None else [everything[label == c] for c in torch.unique(label)]
    numbers, counts, is_everything = [], [], True
    for group in groups:
        # Without labels there is one group, all rows, and no copy of them.
        rows = rows_matrix(x if len(group) == len(x) else some_rows(x, group))
        own = np.ones(len(group)) if weight is None else weight[group].numpy()
        chosen, mass, is_whole = distinct_rows(rows, own, limit // len(groups), n // len(groups))
        numbers.append(group[chosen])
        counts.append(torch.from_numpy(mass * (own.sum() / mass.sum())))
        is_everything = is_everything and is_whole
    index = torch.cat(numbers)
    own_rows = some_rows(x, index).mT
    if not is_sparse(x):
        own_rows = own_rows.clone(memory_format=torch.contiguous_format)
    return RowSample(own_rows, torch.cat(counts), None if label is None else label[index], is_everything)
