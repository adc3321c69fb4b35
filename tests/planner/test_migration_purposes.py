"""What a move is made for, in words."""

import attrs
import pytest

from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTarget
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.planner.what_if import describe_purpose
from support.pods import made_pod

A, B = (Workload("default", "Deployment", name) for name in "ab")
SHARES = {A: Share(3, 4), B: Share(2, 3)}


def qos_targets(workload):
    return QosTarget(qos={A: 1.0, B: 0.5}[workload])


def move(service, kind, **changes):
    pod = made_pod(f"{service}-1", namespace="default", workload=service)
    return Move(pod, "n1", "n2", kind, **changes)


def why(of, *beside):
    return describe_purpose(of, [of, *beside], SHARES, qos_targets)


UP_A, UP_B = move("a", MoveKind.CLOUD_TO_EDGE), move("b", MoveKind.CLOUD_TO_EDGE)
DOWN_B = move("b", MoveKind.EDGE_TO_CLOUD)
INSIDE = move("b", MoveKind.EDGE_TO_EDGE)
CASES = {
    "to the edge": (why(UP_A), "1 of 4 pods missing at the edge"),
    "beyond its target": (why(UP_B), "the edge has free capacity for more than its QoS target"),
    "to the cloud for one that goes to the edge": (
        why(DOWN_B, UP_A),
        "to free edge capacity for a, 1 of 4 pods missing at the edge",
    ),
    "to the cloud for several": (why(DOWN_B, UP_A, UP_B), "to free edge capacity for a and b"),
    "beside another group": (
        why(DOWN_B, attrs.evolve(UP_A, group=1)),
        "QoS score +0.000 per migration",
    ),
    "inside the edge": (why(INSIDE), "to join fragments of free edge capacity"),
    "spread": (why(attrs.evolve(INSIDE, rebalances=True)), "to spread default/b over nodes"),
}


@pytest.mark.parametrize(("said", "expected"), CASES.values(), ids=CASES)
def test_why_it_is_made(said, expected):
    assert said == expected
