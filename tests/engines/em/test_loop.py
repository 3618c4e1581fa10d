"""The engine on a model of its own: Poisson counts from two rates, in thirty lines."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from jensen.engines.em import loop as em
from jensen.engines.em.batch import Additive, Summary


@dataclass(frozen=True)
class Stats(Additive):
    mass: torch.Tensor
    total: torch.Tensor


class PoissonMixture:
    """π_k, λ_k; deaths reported in The Times (Hasselblad 1969), a classic slow case of EM."""

    def e_step(self, theta, counts):
        weights, rates = theta
        values = torch.arange(len(counts)).double()
        log_joint = weights.log()[:, None] - rates[:, None] + values * rates.log()[:, None] - torch.lgamma(values + 1)
        log_p = log_joint.logsumexp(0)
        r = (log_joint - log_p).exp() * counts
        return Summary(Stats(r.sum(1), r @ values), (counts * log_p).sum(), counts.sum())

    def m_step(self, theta, stats):
        return stats.mass / stats.mass.sum(), stats.total / stats.mass

    def log_prior(self, theta):
        return torch.zeros(())

    def resolution(self, theta):
        return 0.0

    def surrogate(self, theta, stats):
        weights, rates = theta
        return (stats.mass * (weights.log() - rates) + stats.total * rates.log()).sum()

    def pack(self, theta):
        return torch.cat([theta[0].log(), theta[1].log()])

    def unpack(self, vector):
        return vector[:2].softmax(0), vector[2:].exp()

    def project(self, theta):
        return theta


COUNTS = torch.tensor([162, 267, 271, 185, 111, 61, 27, 8, 3, 1]).double()
START = torch.tensor([0.3, 0.7]).double(), torch.tensor([1.0, 2.5]).double()


def run(algorithm, **options):
    options = {"max_iter": 5000, "tol": 1e-12} | options
    stop = em.small_gain(options.pop("tol"))
    return em.fit(PoissonMixture(), START, [COUNTS], algorithm=algorithm, stop=stop, **options)


def test_published_maximum_likelihood():
    """Weights .3599, .6401 and rates 1.2561, 2.6634 (Lange 1995; Varadhan & Roland 2008)."""
    weights, rates = run(em.squarem).theta
    assert_allclose(weights, [0.3599, 0.6401], atol=2e-4)
    assert_allclose(rates, [1.2561, 2.6634], atol=2e-4)


@pytest.mark.parametrize("algorithm", [em.plain, em.squarem, em.gradient(1.0)])
def test_no_algorithm_ever_falls(algorithm):
    history = np.array(run(algorithm, max_iter=300).history)
    assert (np.diff(history) >= -1e-12).all()


def test_squarem_needs_far_fewer_steps():
    plain, fast = run(em.plain, tol=1e-11), run(em.squarem, tol=1e-11)
    assert fast.n_iter * 10 < plain.n_iter
    assert fast.objective >= plain.objective - 1e-9


def test_gradient_em_climbs_to_the_same_place():
    assert run(em.gradient(4.0)).objective == pytest.approx(run(em.squarem).objective, abs=1e-6)


def test_the_gradient_of_the_surrogate_is_that_of_the_likelihood():
    """∇ ln p = Σ q ∇ ln p(x,z) at the θ that q came from."""
    verbs = PoissonMixture()
    stats = verbs.e_step(START, COUNTS).stats
    point = verbs.pack(START).requires_grad_()
    (one,) = torch.autograd.grad(verbs.surrogate(verbs.unpack(point), stats), point)
    (other,) = torch.autograd.grad(verbs.e_step(verbs.unpack(point), COUNTS).bound, point)
    assert_allclose(one, other, atol=1e-10)


def test_convergence_is_tested_between_e_and_m():
    fitted = run(em.plain, tol=1e-4)
    assert fitted.converged
    assert fitted.objective == fitted.history[-1]
    assert fitted.objective == pytest.approx(float(PoissonMixture().e_step(fitted.theta, COUNTS).bound / COUNTS.sum()))
    assert not run(em.plain, max_iter=3).converged
    assert run(em.plain, max_iter=0).theta is START


def test_a_fall_is_a_bug_that_names_its_step():
    class Broken(PoissonMixture):
        def m_step(self, theta, stats):
            weights, rates = super().m_step(theta, stats)
            return weights, rates + 0.5

    with pytest.raises(ArithmeticError, match=r"the objective fell from .* in EM step 1; EM cannot do that"):
        em.fit(Broken(), run(em.plain).theta, [COUNTS], max_iter=5, stop=em.small_gain(0.0))


@pytest.mark.parametrize("fall", [1e-6, 1e-3])
def test_a_fall_by_rounding_of_theta_is_not_taken_and_ends_the_fit(fall):
    """Within what the verbs say of their digits; beyond it is a wrong M-step, as it always was."""

    class Rounded(PoissonMixture):
        def e_step(self, theta, counts):
            summary = super().e_step(theta, counts)
            lost = fall * float(counts.sum()) * (theta is not best)
            return Summary(summary.stats, summary.bound - lost, summary.weight)

        def resolution(self, theta):
            return 1e-5

    best = run(em.squarem).theta
    if fall > 1e-5:
        with pytest.raises(ArithmeticError, match="the objective fell"):
            em.fit(Rounded(), best, [COUNTS], max_iter=5, stop=em.small_gain(0.0))
        return
    fitted = em.fit(Rounded(), best, [COUNTS], max_iter=5, stop=em.small_gain(0.0))
    assert fitted.theta is best
    assert fitted.converged
    assert fitted.history == [fitted.objective] * 2


@pytest.mark.parametrize("algorithm", [em.squarem, em.gradient(100.0)])
@pytest.mark.parametrize("error", [torch.linalg.LinAlgError, em.CollapseError, None])
def test_a_point_that_cannot_be_evaluated_is_not_taken(algorithm, error):
    class Fragile(PoissonMixture):
        def project(self, theta):
            """Far from the data there is nothing but an error, or an objective that is no number."""
            if theta[1].max() < 4:
                return theta
            if error is not None:
                raise error("singular")
            return theta[0], theta[1] * torch.nan

    start = torch.tensor([0.3, 0.7]).double(), torch.tensor([1.0, 3.9]).double()
    fitted = em.fit(Fragile(), start, [COUNTS], max_iter=300, stop=em.small_gain(1e-9), algorithm=algorithm)
    assert fitted.objective == pytest.approx(run(em.squarem).objective, abs=1e-5)


def test_batches_add_up():
    first, second = COUNTS.clone(), COUNTS.clone()
    first[3:], second[:3] = 0, 0
    split = em.sweep(PoissonMixture(), START, [first, second])
    whole = em.sweep(PoissonMixture(), START, [COUNTS])
    assert_allclose(split.bound, whole.bound)
    assert_allclose(split.stats.total, whole.stats.total)


def test_stepwise_em_converges_to_the_maximum():
    rng = np.random.default_rng(0)
    verbs, theta, running = PoissonMixture(), START, None
    shares = (COUNTS / COUNTS.sum()).numpy()
    for _ in range(3000):
        batch = torch.tensor(rng.multinomial(200, shares)).double()
        theta, running = em.stepwise(verbs, theta, [batch], running)
    best = run(em.squarem).objective
    # Online EM stays within the sampling noise of its averaged batches.
    assert float(verbs.e_step(theta, COUNTS).bound / COUNTS.sum()) > best - 1e-3


def test_the_bar_is_quiet_unless_on_a_terminal(capsys):
    run(em.plain, max_iter=3, progress="fit")
    assert capsys.readouterr().err == ""


def test_the_bar_tells_the_objective_every_so_often(monkeypatch):
    told = []
    monkeypatch.setattr(em.Bar, "note", lambda self, text: told.append(text))
    steps = run(em.plain, max_iter=6, tol=0.0, progress="fit", progress_every=3).history
    assert told == [f"{steps[3]:.6f} per row", f"{steps[6]:.6f} per row"]


def test_an_algorithm_that_may_fall_keeps_the_best_theta_seen():
    def wandering(verbs, state, evaluate):
        good = next(em.plain(verbs, state, evaluate))
        while True:
            yield good
            yield state

    with pytest.raises(ArithmeticError, match="the objective fell"):
        run(wandering, max_iter=2)
    fitted = run(wandering, max_iter=2, is_monotone=False)
    assert fitted.history == [fitted.history[0], fitted.objective, fitted.objective]
    assert fitted.objective == run(em.plain, max_iter=1).objective
    circling = run(wandering, is_monotone=False)
    assert circling.converged
    assert circling.n_iter == em.PATIENCE
