"""Latent curve or surface: generative topographic mapping.

    z ~ Uniform[0,1]^L on a grid,  x | z ~ N(f(z), σ²I),  f(z) = Wᵀφ(z)
    E:  q_ig ∝ N(x_i; f(z_g), σ²I)
    M:  (Φᵀ G_j Φ + α σ² D) w_j = Φᵀ R x_j,  σ² = Σ q_ig (x_ij - f_j(z_g))² / n, over the observed entries;
        with a given f only σ²
Bishop, Svensén & Williams (1998). The bound is exact on the grid, which is a quadrature of p(x) = ∫ N(x; f(z), σ²I) dz.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import Answers, Problem, Rows, whole_number
from jensen.contract.capabilities import Capabilities
from jensen.contract.em import EMEstimator
from jensen.contract.fitted import Fitted
from jensen.data.constants import Constants
from jensen.data.labels import read_posterior
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame, one_unit
from jensen.models.curves.em import (
    CurveTheta,
    CurveVerbs,
    bound_terms,
    draw,
    fill,
    fill_draws,
    latent_means,
    latent_modes,
    log_evidence,
    responsibilities,
)
from jensen.models.curves.given import GivenCurve, points_in, points_of
from jensen.models.curves.mapping import LatentSpace, lattice
from jensen.models.curves.records import record_of, theta_of
from jensen.models.curves.start import STARTS, around
from jensen.runtime.memory import need_memory
from jensen.runtime.threads import threads_for

# Default numbers of grid points and basis functions along each axis, for a curve and for a surface.
GRID, BASIS = {1: 100, 2: 40}, {1: 12, 2: 8}
# Arguments about the basis functions of f.
OF_BASIS = ("basis_width", "penalty")


def has_latent(n_latent: int, other: str) -> Any:
    """A decorator for methods that only curves or only surfaces have; for a fitted model the fit decides."""

    def check(model: LatentCurve) -> bool:
        found = model.theta_.space.n_latent if hasattr(model, "theta_") else model.n_latent
        if found != n_latent:
            raise AttributeError(f"n_latent={found}: draw it with {other}")
        return True

    return available_if(check)


class LatentCurve(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EMEstimator):
    """A smooth curve or surface through the rows, with Gaussian noise: generative topographic mapping.

    Args:
        n_latent: L, 1 for a curve, 2 for a surface.
        mapping: None to fit f; or f itself, which is kept: a function from z (m,) in [0, 1] to points (m, d), or points
            (P, d) along the curve, with equal steps of z from 0 to 1 and straight lines between them.
        noise_variance: None to fit σ²; or σ² itself, which is kept.
        n_grid: grid points along each axis of [0,1]^L; None is 100 for a curve and 40 for a surface.
        n_basis: basis functions of f along each axis, in addition to its linear part; 0 gives a line or plane, None is
            12 for a curve and 8 for a surface.
        basis_width: width of the basis functions, relative to the distance between neighbouring ones.
        penalty: α of the prior N(0, 1/α) on the coefficients of the basis functions, for data scaled to unit variance;
            0 is maximum likelihood, a larger value gives a straighter curve.
        reg_covar: lower limit of σ², as a share of the data's variance; with 0 there is none, and a collapse is an
            error.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        max_iter: largest number of M-steps; 0 returns the start.
        init: "pca" starts with a line or plane along the principal axes, "geodesic" with distances along the data,
            "auto" with the better of both.
        acceleration: None, or "squarem" to extrapolate the steps of EM.
        random_state: seed or RandomState for samples and draws; a fit is deterministic.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        grid_: the grid points z (G, L), each with the prior 1/G.
        points_: f at the grid points (G, d).
        noise_variance_: σ².
        theta_: coefficients, σ² and the latent space as one frozen record.
        total_weight_: total weight of all training rows.
        lower_bound_: the objective per unit of weight; equals score(X) without weights and penalty.
        lower_bounds_: the objective after each step.
        n_iter_, converged_: M-steps after the short runs of the start, and whether the last one gained less than tol.

    Example:
        >>> import numpy as np
        >>> from jensen import LatentCurve
        >>> angle = np.linspace(0, np.pi, 60)
        >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
        >>> X[7, 1] = np.nan
        >>> model = LatentCurve().fit(X)
        >>> bool(np.abs(model.impute(X)[7, 1] - np.sin(angle[7])) < 0.1)
        True
    """

    theta_: CurveTheta
    capabilities = Capabilities(score="exact", missing_in_fit=True, missing_in_score=True, weights=True, batches=True)
    _answers = Answers(log_evidence, fill, fill_draws)
    grid_ = Fitted[np.ndarray](lambda model: model.theta_.space.grid)
    points_ = Fitted[np.ndarray](lambda model: model.theta_.points, columns=(1,), constant=None)
    noise_variance_ = Fitted[float](lambda model: model.theta_.variance)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_latent": [Interval(Integral, 1, 2, closed="both")],
        "mapping": [callable, "array-like", None],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), None],
        "n_grid": [Interval(Integral, 2, None, closed="left"), None],
        "n_basis": [Interval(Integral, 0, None, closed="left"), None],
        "basis_width": [Interval(Real, 0, None, closed="neither")],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "init": [StrOptions(set(STARTS))],
        "acceleration": [StrOptions({"squarem"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_latent: int = 1,
        *,
        mapping: Any = None,
        noise_variance: float | None = None,
        n_grid: int | None = None,
        n_basis: int | None = None,
        basis_width: float = 1.0,
        penalty: float = 1.0,
        reg_covar: float = 1e-6,
        tol: float = 1e-3,
        max_iter: int = 300,
        init: str = "auto",
        acceleration: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_latent = n_latent
        self.mapping = mapping
        self.noise_variance = noise_variance
        self.n_grid = n_grid
        self.n_basis = n_basis
        self.basis_width = basis_width
        self.penalty = penalty
        self.reg_covar = reg_covar
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.acceleration = acceleration
        self.random_state = random_state
        self.verbose = verbose

    def transform(self, X: Any) -> Any:
        """The posterior mean of z per row, (n, L)."""
        x, kind = self._read(X)
        return kind.values(latent_means(self.theta_, x))

    def mode(self, X: Any) -> Any:
        """The most probable grid point per row, (n, L). If the posterior has two peaks, the mean lies between them."""
        x, kind = self._read(X)
        return kind.values(latent_modes(self.theta_, x))

    def inverse_transform(self, Z: Any) -> Any:
        """f(z) at points z (n, L) in [0,1]^L."""
        check_is_fitted(self)
        return self._kind.table(self.theta_.at(self._places(Z)))

    @has_latent(1, "surface")  # type: ignore[untyped-decorator]
    def curve(self, n_points: int = 200) -> np.ndarray:
        """Points of the curve for a plot, (n_points, d), from z = 0 to z = 1."""
        return self._drawn(n_points)

    @has_latent(2, "curve")  # type: ignore[untyped-decorator]
    def surface(self, n_points: int = 50) -> np.ndarray:
        """Points of the surface for a plot, (n_points, n_points, d); the first axis is z_0."""
        return self._drawn(n_points).reshape(n_points, n_points, -1)

    def magnification(self, Z: Any = None) -> Any:
        """√det JᵀJ, J = ∂f/∂z: the length or area in X per unit of z, at points (n, L) or at the grid points."""
        check_is_fitted(self)
        z = self.theta_.space.grid if Z is None else self._places(Z)
        return self._kind.values(self.theta_.magnification(z))

    def bound(self, X: Any, q: Any = None) -> Bound:
        """E_q[ln p(x|z)] and KL(q ‖ uniform) per row: exact on the grid for the posterior, lower for other q (n, G)."""
        x, kind = self._read(X)
        given = None if q is None else read_posterior(q, len(x), len(self.theta_.points))
        reconstruction, kl = bound_terms(self.theta_, x, given)
        return Bound(kind.scores(reconstruction), {"latent": kind.values(kl)}, is_exact=q is None)

    def posterior(self, X: Any) -> torch.distributions.Categorical:
        """q(z|x): for each row of X, a distribution over the rows of `grid_`."""
        return torch.distributions.Categorical(probs=responsibilities(self.theta_, self._read(X)[0]))

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows, and the grid point z (n, L) of each."""
        check_is_fitted(self)
        if y is not None:
            raise ValueError(f"y={y!r}: a LatentCurve has no classes; inverse_transform(Z) returns f(z)")
        x, z = draw(self.theta_, self._n_samples(n_samples), self._generator(random_state))
        return self._kind.table(x), self._kind.values(z)

    @property
    def n_parameters_(self) -> int:
        """Free parameters: the coefficients of f, and σ², less those that were given."""
        check_is_fitted(self)
        theta = self.theta_
        n = 0 if isinstance(theta.space, GivenCurve) else theta.coefficients.numel()
        return n + (self.noise_variance is None and theta.coefficients.numel() > 0)

    @property
    def _n_features_out(self) -> int:
        return self.theta_.space.n_latent

    def _unused(self, rows: Rows) -> dict[str, str]:
        unused: dict[str, str] = {}
        if self.n_basis == 0:
            unused |= dict.fromkeys(OF_BASIS, "with n_basis=0 f has no basis functions; raise n_basis")
        if self.mapping is not None:
            unused |= dict.fromkeys(("n_basis", *OF_BASIS, "init"), "f is given by mapping; leave one of them out")
        if self.noise_variance is not None:
            unused["reg_covar"] = "σ² is given by noise_variance; leave one of them out"
        return unused

    def _find_constants(self, x: Any) -> Constants | None:
        # A given f says where a column lies, so one value in it is as likely as the noise makes it.
        return super()._find_constants(x) if self.mapping is None else None

    def _space(self) -> LatentSpace:
        n_grid = self._n_grid
        n_basis = BASIS[self.n_latent] if self.n_basis is None else int(self.n_basis)
        need_memory(
            8 * (n_grid * n_basis) ** int(self.n_latent),
            f"n_grid={n_grid} and n_basis={n_basis} for {self.n_latent} axes",
            "lower n_grid or n_basis",
        )
        return LatentSpace(int(self.n_latent), n_grid, n_basis, float(self.basis_width))

    @property
    def _n_grid(self) -> int:
        return GRID[self.n_latent] if self.n_grid is None else int(self.n_grid)

    def _problem(self, rows: Rows, start: CurveTheta | None, frame: Frame | None) -> tuple[Problem, Frame]:
        n_features = rows.x.shape[1]
        if start is None and self.n_latent > n_features > 0:
            raise ValueError(
                f"n_latent={self.n_latent} needs at least {self.n_latent} features, but X has n_features={n_features}"
                f"{'' if rows.kind.constants is None else ' that vary'}; lower n_latent"
            )
        given = self._given_points(n_features) if start is None and self.mapping is not None else None
        frame = frame or Frame.of(rows.extent, one_unit)
        if start is not None:
            space = start.space
        else:
            space = self._space() if given is None else GivenCurve(self._n_grid, len(given))
        variance = (
            None if self.noise_variance is None else float(self.noise_variance) / float(frame.scale[:1].prod() ** 2)
        )
        verbs = CurveVerbs(space, float(self.penalty), float(self.reg_covar), variance)
        source = rows.source(frame, footprint=space.footprint(n_features), by_pattern=False)

        def begin(generator: torch.Generator) -> CurveTheta:
            if not n_features:
                return CurveTheta(torch.zeros(len(space.constant), 0, dtype=torch.float64), 1.0, space)
            if given is not None and isinstance(space, GivenCurve):
                return verbs.project(around(points_in(frame, given), space))
            with threads_for(source.n_numbers):
                return verbs.project(STARTS[self.init](verbs, rows, frame, source))

        algorithm = em.squarem if self.acceleration == "squarem" else em.plain
        return Problem(verbs, source, begin, lambda theta, value, w: value, em.small_gain(self.tol), algorithm), frame

    def _given_points(self, n_features: int) -> Tensor:
        """The points (P, d) of a given curve."""
        if self.n_latent != 1:
            raise ValueError(f"n_latent={self.n_latent}, but mapping is a curve; leave out n_latent or mapping")
        return points_of(self.mapping, self._n_grid, n_features)

    def _presented(self, theta: CurveTheta) -> CurveTheta:
        """With what was given to its last digit, which the engine's units round."""
        if isinstance(theta.space, GivenCurve) and self.mapping is not None:
            theta = replace(theta, coefficients=points_of(self.mapping, theta.space.n_grid))
        return theta if self.noise_variance is None else replace(theta, variance=float(self.noise_variance))

    def _stored_params(self) -> dict[str, Any]:
        """A given curve as its points: a file holds no function."""
        return {"mapping": points_of(self.mapping, self._n_grid).numpy()} if callable(self.mapping) else {}

    def _drawn(self, n_points: int) -> np.ndarray:
        check_is_fitted(self)
        n = whole_number("n_points", n_points)
        z = lattice(torch.linspace(0, 1, n, dtype=torch.float64), self.theta_.space.n_latent)
        return self._kind.wide(self.theta_.at(z), 1).numpy().astype(self._kind.dtype)

    def _places(self, Z: Any) -> Tensor:
        """Given points z (n, L); an error if one is outside [0,1]^L."""
        z = torch.from_numpy(np.array(Z.detach().cpu().numpy() if isinstance(Z, Tensor) else Z, dtype=np.float64))
        n_latent = self.theta_.space.n_latent
        if z.ndim != 2 or z.shape[1] != n_latent:
            raise ValueError(f"Z has shape {tuple(z.shape)}; n_latent={n_latent} needs points (n, {n_latent})")
        outside = ~((z >= 0) & (z <= 1))
        if outside.any():
            raise ValueError(f"Z holds {float(z[outside][0])}; z must be in [0, 1], where f is defined")
        return z

    def _theta_record(self) -> dict[str, Tensor]:
        return record_of(self.theta_)

    def _theta_from(self, record: dict[str, Tensor]) -> CurveTheta:
        return theta_of(record, self._n_varying)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
