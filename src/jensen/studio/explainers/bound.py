"""The bound of one number for every q, and its gap."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom

from jensen.formulas.information import kl
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.studio.explainer import Explainer, Slider

MEANS = np.array([[0.0], [1.5]])
AXIS = np.linspace(0, 1, 101)


def values(q: float, x: float, share: float, draws: int) -> dict[str, Any]:
    """The bound over all q, its terms at one q, and the bound of several draws."""
    prior = np.array([share, 1 - share])
    model = GaussianMixture.from_parameters(prior, MEANS, [1.0, 1.0], "spherical")
    here = np.array([q, 1 - q])
    shares = np.stack([AXIS, 1 - AXIS], 1)
    curve = model.bound(np.full((len(AXIS), 1), x), q=shares)
    bound, log_p = model.bound([[x]], q=here[None]), float(model.score_samples([[x]])[0])
    posterior = model.predict_proba([[x]])[0]
    # The weights p(x, z)/q(z): their mean is p(x).
    weights = posterior * np.exp(log_p) / here
    first = np.arange(draws + 1)
    mean_log = np.log((first * weights[0] + (draws - first) * weights[1]) / draws)
    return {
        "axis": AXIS,
        "curve": curve.total,
        "likelihood": curve.reconstruction,
        "log_p": log_p,
        "posterior": posterior,
        "prior": prior,
        "q": here,
        "bound": bound.total[0],
        "reconstruction": bound.reconstruction[0],
        "kl_prior": sum(term[0] for term in bound.kl.values()),
        "gap": kl(here, posterior),
        "weights": weights,
        "evidence": np.exp(log_p),
        "many": binom.pmf(first, draws, q) @ mean_log,
    }


EXPLAINER = Explainer(
    name="bound",
    title="Any q gives a bound",
    group="Information and bounds",
    lead="z is 1 or 2, and x|z is N(0, 1) or N(1.5, 1). One x is observed. Whatever distribution q of z you choose, "
    "the ELBO is below ln p(x), and the gap is a KL divergence: it is zero only if q is the posterior.",
    formula="ln p(x) = ln E_q[p(x,z)/q(z)]\n"
    "        ≥ E_q ln[p(x,z)/q(z)] = ELBO(q)\n"
    "ELBO(q) = E_q[ln p(x|z)] − KL(q ‖ p(z))\n"
    "ln p(x) − ELBO(q) = KL(q ‖ p(z|x)) ≥ 0\n"
    "k draws:  L_k = E ln (1/k) Σⱼ p(x,zⱼ)/q(zⱼ)",
    tries=(
        "Move q until the gap is zero: you have found the posterior.",
        "In the picture of the logarithm, the bound lies on a chord. Its ends meet when both weights are equal: "
        "then q is the posterior.",
        "More draws per logarithm, k, raise the bound towards ln p(x) for every q.",
    ),
    controls=(
        Slider(
            "q", "q(1), your probability of z = 1", 0.02, 0.98, 0.02, 0.9, still=tuple(i / 50 for i in range(1, 50, 2))
        ),
        Slider("x", "x, the number observed", -2, 4, 0.25, 2.0, still=(0, 1, 2)),
        Slider("share", "π, prior probability of z = 1", 0.1, 0.9, 0.1, 0.6, still=(0.3, 0.6)),
        Slider("draws", "k, draws per logarithm", 1, 50, 1, 1, still=(1, 10)),
    ),
    values=values,
    guide="one-bound.html",
    exercise="exercises/jensens-inequality-and-em.html#the-bound-three-ways",
)
