"""Linear regression with a Gaussian prior: least squares, ridge, and the choice of λ by the evidence.

    y = Xβ + b + ε,  ε ~ N(0, σ²I),  β ~ N(0, σ²/λ I),  b flat
    β | y ~ N((XᵀX+λI)⁻¹Xᵀy, σ²(XᵀX+λI)⁻¹),  X and y centred;   y | x ~ N(x·β̂ + b̂, σ²(1 + 1/n + (x-x̄)ᵀ(XᵀX+λI)⁻¹(x-x̄)))
Hoerl & Kennard (1970); MacKay (1992); Bishop (2006) 3.3-3.5. The coefficients are the latent variable. Their posterior,
the evidence and the predictive density are exact given λ and σ². The formulas are in `formulas.ridge`.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import warn_unused
from jensen.contract.capabilities import Capabilities
from jensen.contract.files import write_model
from jensen.contract.fitted import Fitted
from jensen.data.container import Kind
from jensen.data.labels import read_targets
from jensen.data.reader import check_spread, column_names, read_table, read_weights
from jensen.formulas import ridge
from jensen.formulas.gaussian import LOG_2PI
from jensen.models.regression.evidence import maximise_evidence
from jensen.models.regression.posterior import Line
from jensen.runtime.memory import need_memory
from jensen.runtime.messages import levels_inside
from jensen.runtime.threads import threads_for


def log_evidence(model: RidgeRegression) -> Tensor:
    """ln p(y | X, λ, σ²) per target."""
    theta = model.theta_
    if (theta.alpha == 0).any():
        raise AttributeError("alpha=0 is a flat prior, which has no density, so y has no evidence; set alpha > 0")
    if theta.spectrum.n_contrasts <= 0:
        raise AttributeError("one row with an intercept has no contrast and therefore no evidence; give more rows")
    return ridge.log_evidence(theta.spectrum, theta.alpha, theta.noise).reshape(model.target_shape_)


def effective_dof(model: RidgeRegression) -> Tensor:
    """Σ s²/(s²+λ) per target."""
    return ridge.effective_dof(model.theta_.spectrum, model.theta_.alpha).reshape(model.target_shape_)


class RidgeRegression(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Least squares and ridge regression with error bars, the evidence of y, and λ and σ² estimated from it.

    Args:
        alpha: λ, the penalty on ‖β‖²: 0 for least squares (the shortest solution if there are several), or a positive
            number; one number per target; or "evidence", which estimates λ (and σ²) for every target by EM.
        fit_intercept: whether there is an intercept, which is not penalised.
        noise_variance: σ², one number or one per target; None takes the σ² with the largest evidence, or the unbiased
            residual variance if alpha is 0.
        tol: with "evidence", stop when a step gains less than this many nats.
        max_iter: with "evidence", largest number of steps; 0 returns the start, the best λ of a coarse grid.

    Attributes:
        coef_: posterior mean of β, (n_features,) or (n_targets, n_features).
        intercept_: posterior mean of the intercept, a number or one per target.
        alpha_: λ.
        noise_variance_: σ²; NaN if alpha is 0 and there are no more rows than coefficients.
        log_evidence_: ln p(y | X, λ, σ²) in nats, for the n - 1 contrasts of y if there is an intercept; does not exist
            if alpha is 0, because the flat prior has no density.
        effective_dof_: Σ s²/(s²+λ), without the intercept.
        rank_, singular_: rank and singular values of the centred X.
        n_iter_: steps of "evidence"; 1 for the closed form.
        target_shape_: shape of one row of y, () or (n_targets,).
        theta_: all of this as one frozen record of tensors.

    Example:
        >>> import numpy as np
        >>> from jensen import RidgeRegression
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
        >>> model = RidgeRegression(alpha="evidence").fit(X, [1.0, 2.9, 5.1, 7.0, 9.1])
        >>> mean, std = model.predict([[5.0]], return_std=True)
        >>> print(f"{mean[0]:.2f} ± {std[0]:.2f}")
        11.11 ± 0.12
    """

    theta_: Line
    coef_ = Fitted[np.ndarray](lambda model: model.theta_.beta.reshape(*model.target_shape_, -1))
    intercept_ = Fitted[Any](lambda model: model.theta_.intercepts(model.theta_.beta).reshape(model.target_shape_))
    alpha_ = Fitted[Any](lambda model: model.theta_.alpha.reshape(model.target_shape_), dtype="float64")
    noise_variance_ = Fitted[Any](lambda model: model.theta_.noise.reshape(model.target_shape_), dtype="float64")
    log_evidence_ = Fitted[Any](log_evidence, dtype="float64")
    effective_dof_ = Fitted[Any](effective_dof, dtype="float64")
    rank_ = Fitted[int](lambda model: model.theta_.spectrum.rank)
    singular_ = Fitted[np.ndarray](lambda model: model.theta_.spectrum.singular)

    capabilities = Capabilities(score="exact", labels="needed", predict=True, weights=True)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"evidence"}), "array-like"],
        "fit_intercept": ["boolean"],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alpha: float | str | Sequence[float] = 1.0,
        *,
        fit_intercept: bool = True,
        noise_variance: float | Sequence[float] | None = None,
        tol: float = 1e-8,
        max_iter: int = 300,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.noise_variance = noise_variance
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Compute the posterior of the coefficients.

        Args:
            X: rows (n, d) without missing values.
            y: targets (n,) or (n, n_targets).
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        if not isinstance(self.alpha, str):
            closed = "a given alpha has a closed form; only alpha='evidence' takes steps"
            warn_unused(self, {"tol": closed, "max_iter": closed})
        x, kind = read_table(self, X, reset=True)
        weight = read_weights(sample_weight, len(x))
        counts = None if weight is None else weight > 0
        target, shape = read_targets(y, len(x), counts)
        self._check_complete(x, counts)
        if weight is not None and counts is not None and not counts.all():
            x, target, weight = x[counts], target[counts], weight[counts]
        check_spread(x.numpy(), column_names(self))
        n_targets = target.shape[1]
        given = None if self.noise_variance is None else per_target("noise_variance", self.noise_variance, n_targets)
        with threads_for(x.numel()):
            zeros = ridge.Centred(torch.zeros_like(x[0]), torch.zeros_like(target[0]))
            centred = ridge.centre(x, target, weight) if self.fit_intercept else zeros
            spectrum = ridge.decompose(x, target, weight, centred, self.fit_intercept)
            alpha, noise, n_iter = self._choose(spectrum, given, n_targets)
        self.theta_ = Line(spectrum, centred, alpha, noise, self.fit_intercept)
        self.target_shape_, self.n_iter_, self._kind = shape, n_iter, kind.of_other_rows()
        return self

    def _choose(self, spectrum: ridge.Spectrum, given: Tensor | None, n_targets: int) -> tuple[Tensor, Tensor, int]:
        """λ and σ² (t,), and the number of steps."""
        if not isinstance(self.alpha, str):
            alpha = per_target("alpha", self.alpha, n_targets)
            return alpha, ridge.noise_variance(spectrum, alpha) if given is None else given, 1
        if spectrum.n_contrasts <= 0:
            raise ValueError(
                "alpha='evidence' needs differences between rows, got "
                f"n_samples={spectrum.n_contrasts + self.fit_intercept:g}; give more rows, or a number as alpha"
            )
        found = maximise_evidence(spectrum, given, tol=self.tol, max_iter=self.max_iter)
        if not found.converged and self.max_iter > 0:
            warnings.warn(
                f"the evidence still rose by more than tol={self.tol} in step max_iter={self.max_iter}; "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=levels_inside(),
            )
        exact = (found.noise == 0).nonzero().flatten().tolist()
        if exact:
            warnings.warn(
                f"target {exact[0]} is fitted without any noise, like a constant y, so its evidence is unbounded; drop "
                "the target, or give noise_variance",
                UserWarning,
                stacklevel=levels_inside(),
            )
        return found.alpha, found.noise, found.n_iter

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of y for each row; with `return_std` also its standard deviation, as in scikit-learn's BayesianRidge.

        The standard deviation is that of a new y: it includes the noise and the uncertainty of the coefficients and the
        intercept.
        """
        x, kind = self._read(X)
        mean = kind.values(self.theta_.mean(x).reshape(len(x), *self.target_shape_))
        if not return_std:
            return mean
        self.theta_.check_proper()
        return mean, kind.values(self.theta_.variance(x).sqrt().reshape(len(x), *self.target_shape_))

    def score_samples(self, X: Any, y: Any) -> Any:
        """ln p(y|x) per row under the predictive density, summed over targets; nats in the units of y."""
        x, kind = self._read(X)
        target, shape = read_targets(y, len(x))
        if shape != self.target_shape_:
            raise ValueError(f"y has rows of shape {shape}, but the model was fitted on {self.target_shape_}")
        self.theta_.check_density()
        variance, deviation = self.theta_.variance(x), target - self.theta_.mean(x)
        return kind.values(-0.5 * (LOG_2PI + variance.log() + deviation.square() / variance).sum(1))

    def posterior(self) -> torch.distributions.MultivariateNormal:
        """The posterior of β: N(coef_, σ²(XᵀX+λI)⁻¹), a batch over targets if y has several."""
        check_is_fitted(self)
        self.theta_.check_density()
        t, d = self.theta_.beta.shape
        need_memory(2 * 8 * t * d**2, f"the posterior of {d} coefficients of {t} targets", "give fewer features")
        root = ridge.covariance_cholesky(self.theta_.spectrum, self.theta_.alpha, self.theta_.noise)
        shape = self.target_shape_
        mean, root = self.theta_.beta.reshape(*shape, -1), root.reshape(*shape, *root.shape[1:])
        return torch.distributions.MultivariateNormal(mean, scale_tril=root)

    def path(self, alphas: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (n_alphas, *coef_.shape) and intercepts for each λ, without another decomposition."""
        lam = self._lambdas(alphas)
        beta = ridge.coefficients(self.theta_.spectrum, lam)
        lead = (*lam.shape[:-1], *self.target_shape_)
        return self._array(beta.reshape(*lead, -1)), self._array(self.theta_.intercepts(beta).reshape(lead))

    def bias(self, beta: Any, alpha: Any = None) -> np.ndarray:
        """E[coef_] - β for true coefficients `beta`, over draws of the noise with X fixed.

        Args:
            beta: true coefficients, of the shape of coef_.
            alpha: one λ, or several (m,), which become the first axis of the result; None is the fitted one.
        """
        lam, true = self._lambdas(alpha), self._true(beta)
        found = ridge.bias(self.theta_.spectrum, lam, true)
        return np.array(found.reshape(*lam.shape[:-1], *self.target_shape_, -1).numpy())

    def variance(self, sigma2: Any, alpha: Any = None) -> Any:
        """Total variance of coef_, Σ_j Var[coef_j], for noise of variance `sigma2`; alpha as in `bias`."""
        lam = self._lambdas(alpha)
        return self._figures(ridge.variance(self.theta_.spectrum, lam, self._noises(sigma2)), lam)

    def risk(self, beta: Any, sigma2: Any, alpha: Any = None) -> Any:
        """E‖coef_ - β‖² = ‖bias‖² + variance; arguments as in `bias` and `variance`.

        At λ = 0 its slope is -2σ² Σ s_j⁻⁴: if all columns are independent, some λ > 0 is always better than least
        squares.
        """
        lam, true = self._lambdas(alpha), self._true(beta)
        squared = ridge.bias(self.theta_.spectrum, lam, true).square().sum(-1)
        return self._figures(squared + ridge.variance(self.theta_.spectrum, lam, self._noises(sigma2)), lam)

    def _read(self, X: Any) -> tuple[Tensor, Kind]:
        check_is_fitted(self)
        x, kind = read_table(self, X, reset=False)
        self._check_complete(x)
        return x, kind

    def _check_complete(self, x: Tensor, counts: Tensor | None = None) -> None:
        # The sum is NaN if any entry is: one fast pass for complete rows.
        if not x.sum().isnan():
            return
        missing = x.isnan() if counts is None else x.isnan() & counts[:, None]
        if missing.any():
            row, column = missing.nonzero()[0].tolist()
            raise ValueError(
                f"X contains NaN, first in row {row}, column {column_names(self)[column]}; a regression needs complete "
                "rows: impute them first, jensen.GaussianMixture().fit(X).impute(X), or drop them"
            )

    def _lambdas(self, alpha: Any) -> Tensor:
        """λ as (*lead, t), where lead is the shape of `alpha`; None is the fitted λ (t,)."""
        check_is_fitted(self)
        if alpha is None:
            return self.theta_.alpha
        lam = numbers("alpha", alpha)
        if lam.ndim > 1 or lam.numel() == 0:
            raise ValueError(f"alpha has shape {tuple(lam.shape)}; give one λ, or many in one dimension")
        return lam[..., None].expand(*lam.shape, len(self.theta_.alpha))

    def _true(self, beta: Any) -> Tensor:
        true = torch.as_tensor(np.array(beta, dtype=np.float64))
        expected = (*self.target_shape_, self.n_features_in_)
        if true.shape != expected:
            raise ValueError(f"beta has shape {tuple(true.shape)}, but the coefficients have {expected}")
        return true.reshape(-1, self.n_features_in_)

    def _noises(self, sigma2: Any) -> Tensor:
        return per_target("sigma2", sigma2, len(self.theta_.alpha))

    def _array(self, values: Tensor) -> np.ndarray:
        """In the dtype of the training rows."""
        return np.array(values.numpy(), dtype=self._kind.dtype)

    def _figures(self, values: Tensor, lam: Tensor | None = None) -> Any:
        """One number per λ and target, float64; a float if there is one of each."""
        lead = () if lam is None else lam.shape[:-1]
        return np.array(values.reshape((*lead, *self.target_shape_)).numpy())[()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file; `jensen.load` reads it back."""
        write_model(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self.capabilities.write_tags(tags)
        return tags

    def _theta_record(self) -> dict[str, Tensor]:
        return self.theta_.record()

    def _theta_from(self, record: dict[str, Tensor]) -> Line:
        return Line.from_record(record, self.n_features_in_, math.prod(self.target_shape_), self.fit_intercept)


def numbers(name: str, value: Any) -> Tensor:
    """Finite numbers, 0 or more."""
    try:
        found = torch.as_tensor(np.array(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r} must be numbers: {error}") from None
    if not (found.isfinite() & (found >= 0)).all():
        raise ValueError(f"{name}={value!r} must be finite and 0 or more")
    return found


def per_target(name: str, value: Any, n_targets: int) -> Tensor:
    """One number for all targets, or one for each, as (t,)."""
    found = numbers(name, value)
    if found.ndim and found.shape != (n_targets,):
        raise ValueError(f"{name} has shape {tuple(found.shape)}, but y has {n_targets} targets; give one for each")
    return found.expand(n_targets).clone()
