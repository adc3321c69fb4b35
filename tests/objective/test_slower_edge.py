"""What a pod is worth on an edge that wants no more of its workload."""

import random

import attrs
import numpy as np
import pytest

from kubedsm.model.measured import Measured
from kubedsm.model.model import Share, Tier
from kubedsm.objective.gains import Gains, Worths
from kubedsm.objective.lasting import assume_prior
from kubedsm.objective.objective import NANO, Objective, QosTarget
from kubedsm.objective.qos_targets import cap_slower_edge, without_caps
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support.drawn_problems import OBJECTIVES
from support.placement_instances import node, pod, resources, snapshot


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: f"{o.kind}-{o.beta}-{o.gamma}")
def test_beyond_what_is_wanted_each_pod_is_a_loss_and_up_to_it_nothing_changes(objective):
    rng = random.Random(1)
    for _ in range(100):
        total, qos_target = (
            rng.randint(1, 9),
            QosTarget(rng.choice((0.0, 0.3, 0.5, 1.0)), rng.uniform(0.1, 9)),
        )
        limited = attrs.evolve(qos_target, most=rng.randint(0, total))
        edge = np.arange(total + 1)
        values = [objective.worth_of(Share(n, total), limited) for n in edge.tolist()]
        free = [objective.worth_of(Share(n, total), qos_target) for n in edge.tolist()]
        assert values[: limited.most + 1] == free[: limited.most + 1]
        assert all(np.diff(values[limited.most :]) < 0)
        assert objective.scores(edge, total, limited).tolist() == values
        steps = np.diff(values[limited.most :])
        assert all(abs(steps + NANO * qos_target.weight * objective.most / total) <= 1)
        gained = objective.gain(Share(limited.most, total), limited, total - limited.most)
        assert gained == values[-1] - values[limited.most]


def serving(edge, pending, cloud=0):
    """A snapshot in which the edge is slower for `web`, and not for `api`."""
    nodes = [node("e1", Tier.EDGE, 9, 64), node("c1", Tier.CLOUD, 9, 64)]
    where = ["e1"] * edge + ["c1"] * cloud + [None] * pending
    pods = [pod(f"web-{at}", "web", resources(1), on=on) for at, on in enumerate(where)]
    pods.append(pod("api-0", "api", resources(1)))
    slower = frozenset({pods[0].workload, pod("gone", "gone", resources(1)).workload})
    shot = snapshot(nodes, pods)
    return (
        attrs.evolve(shot, measured=Measured(1.0, slower=slower)),
        pods[0].workload,
        pods[-1].workload,
    )


def test_no_more_is_wanted_of_a_slower_workload_than_the_edge_has():
    shot, web, api = serving(2, 3)
    qos_targets = cap_slower_edge(lambda _: QosTarget(0.8, 2.0), shot)
    assert qos_targets(web) == QosTarget(0.8, 2.0, most=2)
    assert qos_targets(api) == QosTarget(0.8, 2.0)
    assert without_caps(qos_targets)(web) == QosTarget(0.8, 2.0)
    assert qos_targets(web).count_wanted(5) == 2
    assert qos_targets(api).count_wanted(5) == 4
    resolved = KubeDSM(lambda _: QosTarget(0.8, 2.0), Objective()).qos_targets_in(shot)
    assert resolved(web) == QosTarget(0.8, 2.0, most=2)


def test_values_by_label_are_set_for_the_workload_that_they_match():
    shot, web, api = serving(2, 3)
    labelled = lambda workload, _: {"qos": 0.2} if workload == web else {}  # noqa: E731
    policy = KubeDSM(lambda _: QosTarget(0.8), Objective(), labelled=labelled)
    found = policy.qos_targets_in(attrs.evolve(shot, measured=Measured(1.0)))
    assert (found(web).qos, found(api).qos) == (0.2, 0.8)


def test_points_are_counted_by_pods_that_are_wanted():
    """Two of four pods make half a point, and one of one makes one: 3 pods for 1.5 points."""
    shot, _, api = serving(2, 0, cloud=2)
    qos_targets = cap_slower_edge(lambda _: QosTarget(), shot)
    worths = Worths(Gains.of(shot, qos_targets, Objective()), assume_prior)
    assert worths.of_workload(api, 1) == pytest.approx(2 * NANO * assume_prior(api), rel=1e-3)
