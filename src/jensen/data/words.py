"""Words of documents, counted: rows (n, V) of a sparse table."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from torch import Tensor

from jensen.data.sparse import rows_matrix, rows_tensor


def halves(counts: Tensor) -> tuple[Tensor, Tensor]:
    """The words of every document in two halves: in vocabulary order the 1st, 3rd, ... and the others.

    Of a document with fractions the distinct words are dealt in turn, each with all its weight: half of a count in both
    would score words that were seen.
    """
    matrix = csr_array(rows_matrix(counts))
    rows, has_fraction = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), np.zeros(matrix.shape[0], bool)
    np.logical_or.at(has_fraction, rows, matrix.data != np.rint(matrix.data))
    in_parts = has_fraction[rows]
    # Running numbers of words are exact, because they are whole.
    ends = np.concatenate([[0.0], np.cumsum(np.where(in_parts, 1.0, matrix.data))])
    first = ends[matrix.indptr[:-1]][rows]
    odd = np.ceil((ends[1:] - first) / 2) - np.ceil((ends[:-1] - first) / 2)
    given = np.where(in_parts, odd * matrix.data, odd)
    parts = []
    for values in (given, matrix.data - given):
        part = csr_array((values, matrix.indices, matrix.indptr), matrix.shape).copy()
        part.eliminate_zeros()
        parts.append(rows_tensor(part))
    return parts[0], parts[1]
