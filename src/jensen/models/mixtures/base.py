"""What every mixture answers, whatever its components.

    p(x) = Σ_k π_k p_k(x),   q(k|x) = π_k p_k(x) / p(x)
A final class says by `_problem` what its components are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import Answers, Rows
from jensen.contract.capabilities import Capabilities
from jensen.contract.em import IteratedModel
from jensen.data.container import read_weights
from jensen.data.labels import decode_labels, numbers_of_classes
from jensen.models.mixtures.em import RESOLUTION, MixtureTheta
from jensen.models.mixtures.inference import draw, fill, fill_draws, log_evidence, responsibilities
from jensen.models.mixtures.neighbours import copies, starts

__all__ = ["MixtureModel"]

# A variance below so many times the floor is at the floor.
AT_FLOOR = 2.0


class MixtureModel(IteratedModel):
    """A mixture fitted by EM, with labels for some rows."""

    theta_: MixtureTheta[Any]
    capabilities = Capabilities(
        score="exact", missing_in_fit=True, missing_in_score=True, weights=True, batches=True, labels=True, predict=True
    )
    reg_covar: float
    classes_: np.ndarray
    _answers = Answers(log_evidence, fill, fill_draws)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, then `predict` the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def predict_proba(self, X: Any) -> Any:
        """q(k|x), (n, K)."""
        x, kind = self._read(X)
        return kind.values(responsibilities(self.theta_, x))

    def predict(self, X: Any) -> Any:
        """The most probable component, or after a fit with labels its class."""
        x, kind = self._read(X)
        component = responsibilities(self.theta_, x).argmax(1)
        if not hasattr(self, "classes_"):
            return kind.values(component)
        labels = decode_labels(component.cpu().numpy(), self.classes_)
        return torch.as_tensor(labels) if kind.container == "torch" and labels.dtype.kind in "iufb" else labels

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the component each came from; y asks for a class (or component), one for all rows or one each."""
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        component = None if y is None else self._components_of(y, n)
        x, component = draw(self.theta_, n, self._generator(random_state), component)
        return self._kind.table(x), self._kind.values(component)

    def icl(self, X: Any) -> float:
        """bic + 2 Σ H(q): also asks that components be apart (Biernacki, Celeux & Govaert 2000)."""
        x, _ = self._read(X)
        q = responsibilities(self.theta_, x)
        return self.bic(X) - 2 * float(torch.special.xlogy(q, q).sum())

    @property
    def at_floor_(self) -> np.ndarray:
        """Which components (K,) have a variance, or an eigenvalue of the covariance, at the floor of `reg_covar`: rows
        that lie in fewer dimensions than there are, or all in one place, so that the likelihood means nothing.
        """
        check_is_fitted(self)
        local = self.theta_.within(self.theta_.frame()).components
        # The floor is a share of the data's variance, and the mixture's own may differ from that a little.
        found = local.collapsed(AT_FLOOR * max(self.reg_covar, RESOLUTION)).cpu().numpy()
        return np.array(np.broadcast_to(found, len(self.theta_.weights)))

    @property
    def n_parameters_(self) -> int:
        """Free parameters: weights, and those of the components."""
        check_is_fitted(self)
        k, d = self.theta_.components.means.shape
        n_parameters: int = k - 1 + self.theta_.components.family().n_parameters(k, d)
        return n_parameters

    def plausibility(self) -> float:
        """The objective of the fit less Chen & Tan's (2009) penalty on singular components, by which starts compare."""
        check_is_fitted(self)
        roughness = self.theta_.within(self.theta_.frame()).components.roughness()
        return float(self.lower_bound_ * self.total_weight_ - roughness / self.total_weight_)

    def starts_near(self, n_components: int, X: Any, sample_weight: Any = None) -> Iterator[MixtureTheta[Any]]:
        """Values of `theta_` with so many components that lie near this fit to X: `warm_start=True` fits from one."""
        x, _ = self._read(X)
        q, weight = responsibilities(self.theta_, x).cpu().numpy(), read_weights(sample_weight, len(x))
        counts = np.ones(len(x)) if weight is None else weight.numpy()
        rows = x.double().cpu().numpy()
        return starts(self.theta_, n_components, rows, q, counts, len(getattr(self, "classes_", ())))

    def with_copies(self, n_components: int) -> MixtureTheta[Any]:
        """A `theta_` of the same density with more components, some of which are equal."""
        check_is_fitted(self)
        return copies(self.theta_, n_components)

    def _unused(self, rows: Rows) -> dict[str, str]:
        return {} if rows.label is not None else {"label_weight": "no row has a label; give y to fit"}

    def _remember(self, rows: Rows) -> None:
        super()._remember(rows)
        if hasattr(self, "classes_"):
            del self.classes_
        if rows.label is not None:
            self.classes_ = rows.classes

    def _components_of(self, y: Any, n: int) -> Tensor:
        return numbers_of_classes(y, getattr(self, "classes_", np.arange(len(self.theta_.weights))), n)
