"""The fourteen structures: M-steps against a general optimiser, with and without a floor; coordinates."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from jensen.formulas.coordinates import (
    axes_of,
    pack_covariances,
    pack_variances,
    pivoting_signs,
    skew_of,
    unpack_covariances,
    unpack_variances,
)
from jensen.formulas.structures import rounds_of_pairs, structured_covariances, structured_variances, turn

NAMES = ["EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"]
K, D = 3, 3


def problem(seed=0, k=K, d=D):
    """Scatter matrices of groups of different size, with axes of their own."""
    rng = np.random.default_rng(seed)
    mass = torch.tensor(rng.uniform(5, 30, k))
    spread = rng.uniform(0.1, 2.0, (k, d, 1)) * rng.normal(size=(k, d, 3 * d))
    return torch.tensor(spread @ spread.swapaxes(1, 2)) * mass[:, None, None], mass


def solve(name, scatter, mass, floor=0.0, last=None, n_steps=500):
    """Σ_k (K, d, d)."""
    if name[2] == "I":
        start = None if last is None else last.diagonal(dim1=1, dim2=2)
        squares = scatter.diagonal(dim1=1, dim2=2)
        variances = structured_variances(name, squares, mass, floor, start, n_steps)
        return torch.diag_embed(variances.expand(len(mass), D))
    return structured_covariances(name, scatter, mass, floor, last, n_steps).expand_as(scatter)


def objective(covariances, scatter, mass):
    squares = (torch.linalg.inv(covariances) * scatter).sum()
    return squares + (mass * torch.logdet(covariances)).sum()


class Parametrisation:
    """ln λ, ln A and a skew matrix whose exponential is D, as many of each as the letters say."""

    def __init__(self, name, k=K, d=D):
        self.name, self.k, self.d = name, k, d
        self.sizes = [{"E": 1, "V": k}[name[0]], {"I": 0, "E": d, "V": k * d}[name[1]]]
        self.sizes.append({"I": 0, "E": 1, "V": k}[name[2]] * d * (d - 1) // 2)
        self.size = sum(self.sizes)

    def log_variances(self, vector):
        volume, shape, _ = vector.split(self.sizes)
        shape = shape.reshape(-1, self.d) if len(shape) else torch.zeros(1, self.d).double()
        return (volume[:, None] + shape - shape.mean(1, keepdim=True)).expand(self.k, self.d)

    def axes(self, vector):
        skew = torch.zeros(max(1, self.sizes[2] * 2 // (self.d * (self.d - 1))), self.d, self.d).double()
        if self.sizes[2]:
            rows, cols = torch.tril_indices(self.d, self.d, -1)
            skew[:, rows, cols] = vector.split(self.sizes)[2].reshape(len(skew), -1)
        return torch.linalg.matrix_exp(skew - skew.mT)

    def objective(self, vector, scatter, mass):
        logs, axes = self.log_variances(vector), self.axes(vector)
        squares = (axes.mT @ scatter @ axes).diagonal(dim1=1, dim2=2)
        return (squares * (-logs).exp() + mass[:, None] * logs).sum()

    def minimum(self, scatter, mass, floor, seed):
        """The least of several runs of a sequential quadratic programme."""

        def value(vector):
            point = torch.tensor(vector, requires_grad=True)
            found = self.objective(point, scatter, mass)
            found.backward()
            return found.item(), point.grad.numpy()

        # Logarithms are linear in the coordinates, and a constraint that occurs twice has no unique multiplier.
        slope = torch.autograd.functional.jacobian(self.log_variances, torch.zeros(self.size).double())
        slope = np.unique(slope.flatten(0, 1).numpy().round(12), axis=0)

        def room(vector):
            return slope @ vector - np.log(floor)

        constraints = [{"type": "ineq", "fun": room, "jac": lambda vector: slope}] if floor else []
        rng, best = np.random.default_rng(seed), np.inf
        for _ in range(3):
            start = 0.3 * rng.normal(size=self.size)
            start[: self.sizes[0]] += 3.0
            how = {"method": "SLSQP", "constraints": constraints, "options": {"maxiter": 400, "ftol": 1e-13}}
            run = minimize(value, start, jac=True, **(how if floor else {"method": "BFGS"}))
            if np.isfinite(run.fun) and (not floor or room(run.x).min() > -1e-9):
                best = min(best, run.fun)
        return best


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("floor", [0.0, 12.0])
def test_no_optimiser_finds_a_better_value(name, floor):
    """With a floor that binds for some eigenvalues, not for all."""
    scatter, mass = problem()
    found = solve(name, scatter, mass, floor)
    values = torch.linalg.eigvalsh(found)
    if floor:
        assert (values > floor * (1 - 1e-9)).all()
        assert name == "EII" or (values < floor * (1 + 1e-9)).any()
        assert (values > floor * 1.1).any()
    ours = float(objective(found, scatter, mass))
    theirs = Parametrisation(name).minimum(scatter, mass, floor, seed=1)
    assert ours == pytest.approx(theirs, rel=1e-7) or ours < theirs


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("floor", [0.0, 12.0])
def test_what_the_letters_say_is_shared(name, floor):
    found = solve(name, *problem(), floor)
    values = torch.linalg.eigvalsh(found)
    volume = values.log().mean(1)
    shape = values / volume.exp()[:, None]
    if name[0] == "E":
        assert_allclose(volume, volume[:1].expand_as(volume), rtol=1e-10)
    if name[1] == "I":
        assert_allclose(shape, 1)
    if name[1] == "E":
        assert_allclose(shape, shape[:1].expand_as(shape), rtol=1e-8)
    if name[2] == "I":
        assert_allclose(found, torch.diag_embed(found.diagonal(dim1=1, dim2=2)))
    if name[2] == "E":
        assert_allclose(found[0] @ found[1], found[1] @ found[0], atol=1e-7 * float(values.max()) ** 2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("floor", [0.0, 12.0])
def test_a_start_is_never_lost(name, floor):
    """From any covariances of the structure, the result is at least as good, even after one step."""
    scatter, mass = problem()
    for seed in range(1, 6):
        last = solve(name, *problem(seed), max(floor, 1.0))
        before = objective(last, scatter, mass)
        for n_steps in (1, 500):
            after = solve(name, scatter, mass, floor, last, n_steps)
            assert objective(after, scatter, mass) <= before


@pytest.mark.parametrize("name", NAMES)
def test_covariances_of_the_structure_are_their_own_answer(name):
    scatter, mass = problem()
    found = solve(name, scatter, mass)
    assert_allclose(solve(name, found * mass[:, None, None], mass), found, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_one_group_has_its_own_covariance(name):
    scatter, mass = problem(k=1)
    full = scatter / mass
    expected = {"E": full, "V": full, "I": torch.diag_embed(full.diagonal(dim1=1, dim2=2))}[name[2]]
    if name[1] == "I":
        expected = torch.eye(D).double()[None] * full.diagonal(dim1=1, dim2=2).mean()
    assert_allclose(solve(name, scatter, mass), expected, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if name[1] != "I"])
def test_a_group_in_a_plane_stays_above_the_floor(name):
    scatter, mass = problem()
    scatter[1, :, 2] = scatter[1, 2, :] = 0
    values = torch.linalg.eigvalsh(solve(name, scatter, mass, 1e-6))
    assert values.isfinite().all()
    assert values.min() > 0.999e-6


@pytest.mark.parametrize("d", [2, 3, 6, 7])
def test_every_pair_of_axes_turns_once(d):
    rounds = rounds_of_pairs(d)
    pairs = [pair for i, j in rounds for pair in zip(i.tolist(), j.tolist(), strict=True)]
    assert sorted(pairs) == [(i, j) for i in range(d) for j in range(i + 1, d)]
    assert all(len({*i.tolist(), *j.tolist()}) == 2 * len(i) for i, j in rounds)


def test_a_turn_is_a_rotation():
    scatter, _ = problem(k=4, d=6)
    rotation, slope = turn(scatter.numpy(), np.random.default_rng(0).uniform(size=(4, 6)))
    assert_allclose(rotation @ rotation.T, np.eye(6), atol=1e-12)
    assert slope > 0


@pytest.mark.parametrize("name", NAMES)
def test_coordinates_lead_back_and_any_vector_has_the_structure(name):
    found = solve(name, *problem())
    if name[2] == "I":
        values = found.diagonal(dim1=1, dim2=2)
        shape = (1 if "V" not in name else K, 1 if name[1] == "I" else D)
        vector = pack_variances(values[: shape[0], : shape[1]])
        assert_allclose(unpack_variances(name, vector, shape).expand_as(values), values)
        return
    found = found[:1] if name == "EEE" else found
    vector = pack_covariances(name, found)
    assert_allclose(unpack_covariances(name, vector, found.shape), found, rtol=1e-9)
    noise = torch.randn(len(vector), generator=torch.Generator().manual_seed(1)).double()
    other = unpack_covariances(name, vector + noise, found.shape)
    assert_allclose(solve(name, other, torch.ones(len(found)).double()), other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in NAMES if name[2] != "I"])
def test_one_feature_has_coordinates_and_no_axes(name):
    found = torch.tensor([[[2.0]], [[2.0]]]).double()[: 1 if name == "EEE" else 2]
    assert_allclose(unpack_covariances(name, pack_covariances(name, found), found.shape), found)


def test_any_orthogonal_matrix_has_coordinates():
    """A swap of two axes has the eigenvalue -1, at which Cayley's map is singular without a change of signs."""
    swap = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]).double()
    rng = np.random.default_rng(0)
    drawn = [torch.linalg.qr(torch.tensor(rng.normal(size=(50, d, d)))).Q for d in (2, 5)]
    for axes in (swap, -torch.eye(3).double()[None], *drawn):
        again = axes_of(skew_of(axes), axes.shape[-1])
        assert_allclose(again * pivoting_signs(axes)[:, None, :], axes, atol=1e-10)
