from fractions import Fraction

import numpy as np
import pytest

from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import Objective, QosTarget, count_target_pods, quality

#: as the paper has it: promises kept come first
DEFAULT = Objective(gamma=10)
NANO = 10**9


def exact(objective, edge, total, qos, weight):
    """Eq. 1-5 in fractions; the promise in whole pods."""
    alpha, beta, gamma = (
        Fraction(str(v)) for v in (objective.alpha, objective.beta, objective.gamma)
    )
    targets = Fraction(str(qos))
    excess = Fraction(edge, total) - targets
    value = alpha * excess if excess < 0 else beta * excess + gamma
    return round(NANO * Fraction(str(weight)) * value)


@pytest.mark.parametrize("objective", [DEFAULT, Objective(alpha=2, beta=0, gamma=7)])
def test_scalar_vector_and_exact_forms_agree_and_never_fall(objective):
    for total in (1, 2, 3, 7, 10, 49, 100):
        for hundredths in range(0, 101, 7):
            qos_target = QosTarget(hundredths / 100, 1.5)
            edge = np.arange(total + 1)
            scores = objective.scores(edge, total, qos_target)
            scalars = [objective.worth_of(Share(k, total), qos_target) for k in edge]
            assert scores.tolist() == scalars
            wanted = [exact(objective, k, total, hundredths / 100, 1.5) for k in edge.tolist()]
            assert np.abs(scores - np.array(wanted)).max() <= 1
            assert (np.diff(scores) >= 0).all()


def test_a_promise_is_kept_by_whole_pods_whatever_floats_say():
    assert 0.07 * 100 > 7
    assert count_target_pods(0.07, 100) == 7
    assert count_target_pods(0.5, 3) == 2
    assert count_target_pods(0.0, 3) == 0
    assert count_target_pods(1.0, 3) == 3


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
