"""The objective, its evenness, and those of the paper's first version and its authors' program."""

from fractions import Fraction

import numpy as np
import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import Objective, QosTarget, count_target_pods, quality

#: as the paper has it: promises kept come first
DEFAULT = Objective(gamma=10)
LATENCY, ECMUS = Objective("latency", tier_gap=0.06), Objective("ecmus")
EVEN, HALF_EVEN = Objective(evenness=0.65), Objective(evenness=0.5)
NANO = 10**9
CART = Workload("shop", "Deployment", "cart")


def exact(objective, edge, total, qos, weight):
    """Eq. 1-5 in fractions; the promise in whole pods."""
    alpha, beta, gamma = (
        Fraction(str(v)) for v in (objective.alpha, objective.beta, objective.gamma)
    )
    targets = Fraction(str(qos))
    excess = Fraction(edge, total) - targets
    value = alpha * excess if excess < 0 else beta * excess + gamma
    return round(NANO * Fraction(str(weight)) * value)


EXACT = (DEFAULT, Objective(alpha=2, beta=0, gamma=7))


@pytest.mark.parametrize("objective", [*EXACT, EVEN, LATENCY, ECMUS])
def test_scalar_vector_and_exact_forms_agree_and_never_fall(objective):
    for total in (1, 2, 3, 7, 10, 49, 100):
        for hundredths in range(0, 101, 7):
            qos_target = QosTarget(hundredths / 100, 1.5)
            edge = np.arange(total + 1)
            scores = objective.scores(edge, total, qos_target)
            scalars = [objective.worth_of(Share(k, total), qos_target) for k in edge.tolist()]
            assert scores.tolist() == scalars
            assert (np.diff(scores) >= 0).all()
            if objective in EXACT:
                wanted = [exact(objective, k, total, hundredths / 100, 1.5) for k in edge.tolist()]
                assert np.abs(scores - np.array(wanted)).max() <= 1
            square = objective.scores(np.array([edge, edge[::-1]]), total, qos_target)
            assert square.tolist() == [scores.tolist(), scores[::-1].tolist()]


def exceeded(share, target, cloud, edge=0.02):
    """The first paper's own words: seconds above the target, below zero."""
    return -max(0.0, (1 - share) * (cloud - edge) - (target - edge))


@pytest.mark.parametrize("target", [0.02, 0.035, 0.05, 0.08])
@pytest.mark.parametrize("edge", range(5))
@pytest.mark.parametrize("cloud", [0.08, 0.2])
def test_latency_is_what_the_target_is_exceeded_by(edge, target, cloud):
    targets = f"services: {{'*': {{latencyTarget: {target * 1000}ms}}}}"
    latency = f"latency: {{cloud: {cloud * 1000}ms}}"
    configuration = load(f"{{objective: {{kind: latency}}, {targets}, {latency}}}", "given")
    qos_target = configuration.qos_target(CART)
    score = configuration.objective_function.worth_of(Share(edge, 4), qos_target)
    assert score == pytest.approx(1e9 * exceeded(edge / 4, target, cloud), abs=2)


@pytest.mark.parametrize(
    ("objective", "edge", "total", "qos", "points"),
    [
        (ECMUS, 0, 4, 1.0, 0.0),
        (ECMUS, 1, 4, 1.0, 0.4),
        (ECMUS, 4, 4, 1.0, 0.99),
        (ECMUS, 2, 4, 0.5, 0.99),
        (ECMUS, 3, 4, 0.5, 0.995),
        (ECMUS, 4, 4, 0.5, 1.0),
        (ECMUS, 1, 8, 0.5, 0.4),
        (ECMUS, 0, 4, 0.0, 1.0),
        (ECMUS, 3, 4, 0.0, 1.0),
        (HALF_EVEN, 0, 4, 1.0, -1.0),
        (HALF_EVEN, 1, 4, 1.0, -0.65625),
        (HALF_EVEN, 2, 4, 1.0, -0.375),
        (HALF_EVEN, 4, 4, 1.0, 0.0),
        (HALF_EVEN, 2, 4, 0.5, 0.0),
        (HALF_EVEN, 1, 8, 0.5, -0.328125),
        (HALF_EVEN, 3, 4, 0.5, 0.025),
        (HALF_EVEN, 0, 4, 0.0, 0.0),
        (HALF_EVEN, 3, 4, 0.0, 0.075),
    ],
)
def test_scores_by_hand(objective, edge, total, qos, points):
    assert objective.worth_of(Share(edge, total), QosTarget(qos)) == round(1e9 * points)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0.1), (2, 0), (1, 0.99)])
@pytest.mark.parametrize("evenness", [0.2, 0.65, 1.0])
def test_evenness_gives_the_more_for_a_pod_the_fewer_there_are(alpha, beta, evenness):
    objective = Objective(alpha=alpha, beta=beta, evenness=evenness)
    for total in (2, 3, 7, 10, 49, 100):
        for hundredths in range(0, 101, 7):
            scores = objective.scores(np.arange(total + 1), total, QosTarget(hundredths / 100))
            gains = np.diff(scores)
            # Each score is rounded by half a unit.
            assert (np.diff(gains) <= 2).all()
            assert (gains > 0).all() or not beta
            assert (gains[: int(total * hundredths / 100)] > 0).all()


def test_evenness_takes_a_target_of_nearly_nothing_as_it_takes_none():
    few = EVEN.gain(Share(1, 4), QosTarget(0.01))
    assert abs(few - EVEN.gain(Share(1, 4), QosTarget(0.0))) <= 1


def test_a_workload_without_pods_is_worth_nothing():
    for objective in (EVEN, LATENCY, ECMUS):
        assert objective.worth_of(Share(0, 0), QosTarget()) == 0
        assert objective.scores(np.zeros(1, dtype=np.int64), 0, QosTarget()).tolist() == [0]


def test_a_promise_is_kept_by_whole_pods_whatever_floats_say():
    assert 0.07 * 100 > 7
    numbers = [count_target_pods(*of) for of in ((0.07, 100), (0.5, 3), (0.0, 3), (1.0, 3))]
    assert numbers == [7, 2, 0, 3]


def test_quality_sums_over_workloads():
    a, b = Workload("x", "Deployment", "a"), Workload("x", "Deployment", "b")
    qos_targets = {a: QosTarget(0.5), b: QosTarget(1.0, weight=3.0)}
    shares = {a: Share(1, 2), b: Share(1, 2)}
    assert quality(shares, qos_targets.__getitem__, DEFAULT) == 10 * NANO - 3 * NANO // 2
    assert quality({}, qos_targets.__getitem__, DEFAULT) == 0


@pytest.mark.parametrize(("alpha", "beta", "gamma"), [(1, 1, 10), (1, -0.1, 10), (1, 0.1, -1)])
def test_an_objective_out_of_order_is_refused(alpha, beta, gamma):
    with pytest.raises(ValueError, match="0 <= beta < alpha <= 1000 and 0 <= gamma"):
        Objective(alpha=alpha, beta=beta, gamma=gamma)


@pytest.mark.parametrize(("qos", "weight"), [(-0.1, 1), (1.1, 1), (float("nan"), 1), (1, -1)])
def test_a_promise_out_of_range_is_refused(qos, weight):
    with pytest.raises(ValueError, match="must be"):
        QosTarget(qos, weight)
