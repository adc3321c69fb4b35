"""Evenness of the objective, and those of the paper's first version and of its authors' program."""

import numpy as np
import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import Objective, QosTarget

LATENCY = Objective("latency", tier_gap=0.06)
ECMUS = Objective("ecmus")
EVEN = Objective(evenness=0.65)
CART = Workload("shop", "Deployment", "cart")


def exceeded(share, target, edge=0.02, cloud=0.08):
    """The first paper's own words: seconds above the target, below zero."""
    return -max(0.0, (1 - share) * (cloud - edge) - (target - edge))


@pytest.mark.parametrize("target", [0.02, 0.035, 0.05, 0.08])
@pytest.mark.parametrize("edge", range(5))
def test_latency_is_what_the_target_is_exceeded_by(edge, target):
    targets = f"services: {{'*': {{latencyTarget: {target * 1000}ms}}}}"
    configuration = load(f"{{objective: {{kind: latency}}, {targets}}}", "given")
    qos_target = configuration.qos_target(CART)
    score = configuration.objective_function.worth_of(Share(edge, 4), qos_target)
    assert score == pytest.approx(1e9 * exceeded(edge / 4, target), abs=2)


@pytest.mark.parametrize(
    ("edge", "total", "qos", "points"),
    [
        (0, 4, 1.0, 0.0),
        (1, 4, 1.0, 0.4),
        (4, 4, 1.0, 0.99),
        (2, 4, 0.5, 0.99),
        (3, 4, 0.5, 0.995),
        (4, 4, 0.5, 1.0),
        (1, 8, 0.5, 0.4),
        (0, 4, 0.0, 1.0),
        (3, 4, 0.0, 1.0),
    ],
)
def test_ecmus_by_hand(edge, total, qos, points):
    assert ECMUS.worth_of(Share(edge, total), QosTarget(qos)) == round(1e9 * points)


@pytest.mark.parametrize(
    ("edge", "total", "qos", "points"),
    [
        (0, 4, 1.0, -1.0),
        (1, 4, 1.0, -0.65625),
        (2, 4, 1.0, -0.375),
        (4, 4, 1.0, 0.0),
        (2, 4, 0.5, 0.0),
        (1, 8, 0.5, -0.328125),
        (3, 4, 0.5, 0.025),
        (0, 4, 0.0, 0.0),
        (3, 4, 0.0, 0.075),
    ],
)
def test_evenness_by_hand(edge, total, qos, points):
    assert Objective(evenness=0.5).worth_of(Share(edge, total), QosTarget(qos)) == round(
        1e9 * points
    )


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


@pytest.mark.parametrize("objective", [EVEN, LATENCY, ECMUS])
def test_vector_and_scalar_forms_agree_and_never_fall(objective):
    for total in (1, 2, 3, 7, 10, 49, 100):
        for hundredths in range(0, 101, 7):
            qos_target = QosTarget(hundredths / 100, 1.5)
            edge = np.arange(total + 1)
            scores = objective.scores(edge, total, qos_target)
            assert scores.tolist() == [
                objective.worth_of(Share(k, total), qos_target) for k in edge.tolist()
            ]
            assert (np.diff(scores) >= 0).all()
            square = np.array([edge, edge[::-1]])
            assert objective.scores(square, total, qos_target).tolist() == [
                scores.tolist(),
                scores[::-1].tolist(),
            ]


def test_a_workload_without_pods_is_worth_nothing():
    for objective in (EVEN, LATENCY, ECMUS):
        assert objective.worth_of(Share(0, 0), QosTarget()) == 0
        assert objective.scores(np.zeros(1, dtype=np.int64), 0, QosTarget()).tolist() == [0]
