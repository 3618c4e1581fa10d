"""Mixture of any columns.

    z ~ Categorical(π),  x | z=k ~ N(x_numbers; μ_k, Σ_k) Π_j p_kj(x_j) over the other columns
    E:  q_ik ∝ π_k p_k(x_i) over the observed columns
    M:  weighted means, covariances, frequencies and rates of each component
Numbers share a covariance within a component; counts, yes/no and levels are independent given the component. A missing
entry is a factor 1. Numbers with bounds are Gaussian after a monotone g, with its log-Jacobian. The bound is exact.
McLachlan & Peel (2000), chapter 5; latent classes: Lazarsfeld & Henry (1968); mixed columns: Hunt & Jorgensen (1999).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import Rows, whole_number
from jensen.contract.given_rest import GivenRest
from jensen.data.cells import Cells, check_finite
from jensen.data.codes import Codes, warn_of_impossible
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table
from jensen.data.growth import grown_columns, seen_codes
from jensen.data.labels import encode_labels, numbers_of_classes, read_posterior
from jensen.data.reader import LARGEST, check_spread_of, known_names, read_rows, read_weights
from jensen.data.some import check_same_columns
from jensen.data.statistics import TableStatistics
from jensen.files.scan import Scan
from jensen.models.mixtures import completion
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.coordinates import Coordinates
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.choice import (
    FAMILIES,
    Options,
    check_not_sparse,
    chosen_families,
    column_parameters,
    learn_for_families,
    measure_of,
    product_family,
    takes_sparse,
    theta_from,
    theta_record,
)
from jensen.models.mixtures.gaussians import MCLUST, STRUCTURES
from jensen.models.mixtures.growth import with_levels_of
from jensen.models.mixtures.inference import bound_terms, draw, fill, fill_draws, log_evidence
from jensen.models.mixtures.noise import Noise
from jensen.models.mixtures.product import Product, ProductFamily
from jensen.models.mixtures.product_cells import table_cells
from jensen.models.mixtures.scanning import find_columns
from jensen.models.mixtures.subset import given_values, of_columns
from jensen.runtime.messages import own_filters


class Mixture(MixtureModel):
    """A mixture for tables with columns of any kind: numbers, counts, yes/no, levels, dates.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        families: "auto" chooses by the kind of each column: numbers and dates are Gaussian with one covariance, counts
            negative binomial, yes/no Bernoulli, levels categorical. {column: family} chooses "gaussian", "gamma",
            "exponential", "log-normal", "poisson", "negative binomial", "multinomial" (one for all its columns, such as
            words), "bernoulli" or "categorical" for some; "multinomial" makes all columns words, and X may be sparse.
        columns: {column: kind} for columns that are not what they look like: "number", "count", "level", "yes/no" or
            "date"; or {column: {"low": 0, "high": 1}} for numbers that have bounds.
        covariance_type: of the Gaussian columns, as in `GaussianMixture`: "full", "tied", "diag", "spherical", "VEV"...
        alpha: pseudo-counts of every level, and of both values of yes/no; 0 is maximum likelihood.
        prior: None for maximum likelihood, or a `ConjugatePrior` of means and covariances.
        noise: whether there is one more component, uniform over the ranges and levels of the columns, for rows that fit
            nowhere; `predict` returns -1 for them, and its weight is the last of weights_.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        reg_covar: no variance of a Gaussian column falls below this share of the data's.
        max_iter: M-steps at most; 0 returns the start.
        n_init: fits from different starts; the most plausible is kept.
        init_params: "portfolio" (several partitions, short runs, the best continues), or scikit-learn's "kmeans",
            "k-means++", "random", "random_from_data".
        label_weight: α, how much a labelled row counts compared to an unlabelled one.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        random_state: seed or RandomState.
        warm_start: start from the last fit.
        verbose: 1 shows a progress bar on a terminal.
        verbose_interval: steps between updates of the objective in the bar.

    Attributes:
        weights_: π (K,).
        columns_: what every column is.
        families_: the family of every modelled column.
        parameters_: {column: {name: array (K, ...)}}, such as mean and variance, rate or probabilities; of numbers with
            bounds the location and variance of g(x).
        theta_: the same parameters as one frozen value of tensors.
        lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_, classes_: as in `GaussianMixture`.

    Example:
        >>> import pandas as pd
        >>> from jensen import Mixture
        >>> X = pd.DataFrame({"age": [20.5, 22.1, 61.0, None, 58.2], "town": ["Bonn", "Bonn", "Rome", "Rome", None]})
        >>> model = Mixture(2, random_state=0).fit(X)
        >>> model.impute(X)["town"].tolist()
        ['Bonn', 'Bonn', 'Rome', 'Rome', 'Rome']
    """

    theta_: MixtureTheta[Product]
    _takes_plain_numbers = False
    capabilities = replace(MixtureModel.capabilities, text=True)
    _columns: Columns
    _families: tuple[str, ...]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MixtureModel._parameter_constraints | {
        "families": [StrOptions({"auto", *FAMILIES}), Mapping],
        "columns": [Mapping, None],
        "covariance_type": [StrOptions(set(STRUCTURES))],
        "alpha": [Interval(Real, 0.0, None, closed="left")],
        "prior": [ConjugatePrior, None],
        "noise": ["boolean"],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "acceleration": [StrOptions({"squarem"}), None],
    }
    STRUCTURES: ClassVar[tuple[str, ...]] = MCLUST

    def __init__(
        self,
        n_components: int | None = None,
        *,
        families: str | Mapping[str | int, str] = "auto",
        columns: Mapping[str | int, Any] | None = None,
        covariance_type: str = "full",
        alpha: float = 0.0,
        prior: ConjugatePrior | None = None,
        noise: bool = False,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 200,
        n_init: int = 1,
        init_params: str = "portfolio",
        label_weight: float = 1.0,
        acceleration: str | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.families = families
        self.columns = columns
        self.covariance_type = covariance_type
        self.alpha = alpha
        self.prior = prior
        self.noise = noise
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.label_weight = label_weight
        self.acceleration = acceleration
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    @property
    def columns_(self) -> Columns:
        """What every column is: kind, levels, range and measure."""
        check_is_fitted(self)
        return self._columns

    @property
    def families_(self) -> dict[str | int, str]:
        """The family of every modelled column."""
        check_is_fitted(self)
        return dict(zip(self._columns.names, self._families, strict=True))

    @property
    def parameters_(self) -> dict[str | int, dict[str, np.ndarray]]:
        """The parameters of every modelled column, by name, with the components first."""
        check_is_fitted(self)
        found, d = column_parameters(self.theta_.components), len(self._columns.names)
        for j in self._coordinates.bounds:
            found[j] = {"location": found[j]["mean"], "variance": found[j]["variance"]}
        for j, extra in zip(self._coordinates.atoms, found[d:], strict=True):
            found[j]["atoms"] = extra["probabilities"][:, 1:]
        return dict(zip(self._columns.names, found, strict=False))

    @property
    def measure_(self) -> tuple[str, ...]:
        """For every column, whether scores are a "density" of its numbers or a "probability" of its values."""
        check_is_fitted(self)
        return measure_of(self._columns, self._families)

    def find_measure(self, X: Table) -> tuple[str, ...]:
        """`measure_` of a fit to X, found without fitting."""
        columns = self._learn(X)
        return measure_of(columns, chosen_families(self.families, columns))

    def score_samples(self, X: Table) -> Any:
        """ln p(x) per row, over the columns that are observed.

        All values of a column that were not in the training rows share one probability, 1/(n+1), in every component.
        """
        codes, kind = self._codes(X, sparse=self._takes_sparse)
        return kind.values(log_evidence(self.theta_, self._coordinates.expand(codes.x)) + self._log_rest(codes))

    def can_score(self, X: Table) -> np.ndarray:
        """Which rows (n,) have a score above -inf: a number outside of its bounds, or of its family's, has none."""
        with own_filters():
            warnings.simplefilter("ignore")
            codes, _ = self._codes(X, sparse=self._takes_sparse)
            return np.asarray(~self._coordinates.outside(codes.x).any(1).expand(codes.x.shape[0]))

    def bound(self, X: Table, q: Any = None) -> Bound:
        """E_q[ln p(x|z)] and KL(q ‖ π) per row: exact with the posterior as q, a lower bound with any other (n, K)."""
        codes, kind = self._codes(X, sparse=self._takes_sparse)
        given = None if q is None else read_posterior(q, len(codes.x), len(self.theta_.weights))
        reconstruction, kl = bound_terms(self.theta_, self._coordinates.expand(codes.x), given)
        reconstruction = reconstruction + self._log_rest(codes)
        return Bound(kind.values(reconstruction), {name: kind.values(v) for name, v in kl.items()}, is_exact=q is None)

    def impute(self, X: Table) -> Any:
        """X with missing entries replaced: numbers by their posterior mean, levels by the most probable one.

        Observed entries are returned bit for bit.
        """
        codes, kind = self._codes(X)
        y = self._coordinates.expand(codes.x)
        ranges = self._columns.ranges if kind.is_frame else None
        filled = self._coordinates.expected(self.theta_, y, fill(self.theta_, y), ranges)
        return self._columns.restore(X, filled, codes.missing)

    def impute_draws(self, X: Table, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        codes, _ = self._codes(X)
        n, generator = whole_number("n_draws", n_draws), self._generator(random_state)
        drawn = fill_draws(self.theta_, self._coordinates.expand(codes.x), n, generator)
        return [self._columns.restore(X, self._coordinates.contract(y), codes.missing) for y in drawn]

    def given_rest(self, X: Table, coverage: float = 0.9) -> GivenRest:
        """How likely every cell is given the rest of its row, and what it should have been; without noise."""
        codes, kind = self._codes(X)
        return table_cells(self.theta_, self._coordinates, self._columns, codes, kind, coverage)

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the component that generated each; y selects a class (or component), one for all or one per row."""
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        classes = getattr(self, "classes_", np.arange(self.theta_.n_components))
        component = None if y is None else numbers_of_classes(y, classes, n)
        y, component = draw(self.theta_, n, self._generator(random_state), component)
        return self._columns.table(self._coordinates.contract(y), self._kind), self._kind.values(component)

    document_completion, completion_samples = completion.document_completion, completion.completion_samples

    def marginal(self, columns: Sequence[str | int]) -> Mixture:
        """The mixture of some columns, by name or number, in the order given."""
        return cast(Mixture, of_columns(self, columns))

    def condition(self, given: Mapping[str | int, Any]) -> Mixture:
        """The mixture of the other columns given values of some, by name or number."""
        return cast(Mixture, given_values(self, given))

    def _find_constants(self, x: Any) -> None: ...  # they are in `columns_`, as columns with one level

    def _codes(self, X: Table, sparse: bool = False) -> tuple[Codes, Kind]:
        """Rows for a fitted model as codes."""
        check_is_fitted(self)
        cells = read_rows(self, X, reset=False, sparse=sparse)
        check_finite(cells, LARGEST, known_names(self))
        codes = self._columns.codes(cells)
        warn_of_impossible(cells, self._columns.kept, self._columns.names, self._coordinates.outside(codes.x).numpy())
        return codes, cells.kind

    def _log_rest(self, codes: Codes) -> Tensor:
        """What a score (n,) has beside the engine's: unseen levels, and the log-Jacobian of numbers with bounds."""
        return self._columns.log_unseen(codes.unseen) + self._coordinates.log_jacobian(codes.x)

    def _read(self, X: Table) -> tuple[Tensor, Kind]:
        codes, kind = self._codes(X, sparse=self._takes_sparse)
        return self._coordinates.expand(codes.x), kind

    def _read_rows(self, X: Table, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        if "families" in self.get_params(deep=False):
            check_not_sparse(X, self.families)
        cells = read_rows(self, X, reset=reset, sparse=self._takes_sparse)
        check_finite(cells, LARGEST, known_names(self))
        weight = read_weights(sample_weight, n := cells.numbers.shape[0])
        known = None if reset else getattr(self, "classes_", np.array([]))
        kept = None if weight is None else (weight > 0).numpy()
        label, classes = encode_labels(y, n, known, kept, self._unlabelled)
        if kept is not None and weight is not None and not kept.all():
            label = None if label is None else label[kept]
            cells, weight = cells.take(np.flatnonzero(kept)), weight[kept]
        is_known = self._is_at_site or not (reset or hasattr(self, "theta_"))  # or of the first sweep over a scan
        columns = self._columns if is_known else self._learn(cells) if reset else grown_columns(self._columns, cells)
        codes = (seen_codes if self._is_at_site else Columns.codes)(columns, cells, is_learnt=reset).x
        if reset:
            check_spread_of(columns, codes)
        if not reset and not is_known:
            self.theta_, self._stream = with_levels_of(columns, self)
        elif reset and self.warm_start and hasattr(self, "_columns"):
            check_same_columns(self._columns, columns)
        self._columns = columns
        self._families = chosen_families(self.families, columns) if reset else self._families
        (coordinates := self._coordinates).check(codes, self._columns.names)
        log_jacobian = coordinates.log_jacobian(codes) if coordinates.bounds else None
        return Rows(coordinates.expand(codes), weight, label, classes, cells.kind, log_jacobian)

    def _begin_scan(self, scan: Scan) -> None:
        self._columns = find_columns(self, scan)
        self._families = chosen_families(self.families, self._columns)

    @property
    def _takes_sparse(self) -> bool:
        return takes_sparse(self.families)

    def _learn(self, X: Table | Cells | TableStatistics) -> Columns:
        return learn_for_families(X, self.families, self.columns)

    @property
    def _coordinates(self) -> Coordinates:
        return Coordinates.of(self._columns, self._families)

    def _family(self, rows: Rows, k: int) -> ProductFamily:
        options = Options(self.covariance_type, self.reg_covar, self.prior, self.alpha)
        labels = [str(name) for name in self._columns.names]
        labels += [labels[j] for j in self._coordinates.atoms]
        return product_family(self._coordinates.engine_families, self._n_levels, labels, rows, options)

    @property
    def _n_levels(self) -> tuple[int, ...]:
        return (*self._columns.n_levels, *self._coordinates.n_levels)

    def _box(self, rows: Rows) -> Noise:
        return self._coordinates.noise(rows.examples, self._n_levels)

    def _theta_record(self) -> dict[str, Any]:
        return theta_record(self.theta_, self._coordinates.engine_families) | {"columns": self._columns.record()}

    def _theta_from(self, record: dict[str, Any]) -> MixtureTheta[Product]:
        self._columns = Columns.from_record(record["columns"])
        self._families = tuple(record["families"][: len(self._columns.names)])
        return theta_from(record, self._n_levels, self.covariance_type)
