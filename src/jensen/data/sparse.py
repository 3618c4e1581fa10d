"""Sparse rows, such as counts of words: entries that are 0 take no memory.

Rows (n, d) are a CSR tensor. The engine holds rows feature-major: there they are the CSC tensor (d, n) on the same
memory. An E-step needs two products of them, W x and r xᵀ. Both are scipy's, which run on every platform and in a
fraction of the time of torch's.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csc_array, csr_array, issparse, vstack
from torch import Tensor

from jensen.runtime.messages import own_filters


def is_sparse(x: Tensor) -> bool:
    return x.layout != torch.strided


def rows_tensor(matrix: Any) -> Tensor:
    """Rows (n, d) of an array or of a CSR matrix as a tensor in double precision, which may share memory."""
    is_matrix: bool = issparse(matrix)
    if not is_matrix:
        return torch.from_numpy(matrix.astype(np.float64, copy=False))
    ends, columns = (torch.from_numpy(part.astype(np.int64, copy=False)) for part in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data.astype(np.float64, copy=not matrix.data.flags.writeable))
    with own_filters():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(ends, columns, values, matrix.shape, check_invariants=False)


def rows_matrix(x: Tensor) -> Any:
    """Undo `rows_tensor`: an array, or a CSR or CSC matrix, on the same memory."""
    if not is_sparse(x):
        return x.numpy()
    n, d = x.shape
    if x.layout == torch.sparse_csr:
        return csr_array((x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), (n, d))
    return csc_array((x.values().numpy(), x.row_indices().numpy(), x.ccol_indices().numpy()), (n, d))


def held_values(x: Tensor) -> Tensor:
    """The entries that are held: all of a dense tensor, those that are not 0 of a sparse one."""
    return x.values() if is_sparse(x) else x


def some_rows(x: Tensor, rows: slice | Tensor) -> Tensor:
    """Rows by a slice or by their numbers."""
    if not is_sparse(x):
        return x[rows]
    return rows_tensor(rows_matrix(x)[rows if isinstance(rows, slice) else rows.numpy()])


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """Rows (n, d) of one tensor below those of another; sparse if the first are."""
    if not is_sparse(parts[0]):
        return torch.cat(list(parts))
    return rows_tensor(vstack([rows_matrix(part) for part in parts], format="csr"))


def some_features(x: Tensor, features: Sequence[int]) -> Tensor:
    """Some features of feature-major rows (d, n), without a copy where they are all or a run."""
    first, last = features[0], features[-1]
    if len(features) == x.shape[0]:
        return x
    return x[first : last + 1] if tuple(features) == tuple(range(first, last + 1)) else x[list(features)]


def times(left: Tensor, right: Tensor) -> Tensor:
    """The product of a dense with a dense or a sparse tensor, which is dense."""
    if not is_sparse(right):
        return left @ right
    return torch.from_numpy(rows_matrix(right.mT) @ np.ascontiguousarray(left.numpy().T)).mT
