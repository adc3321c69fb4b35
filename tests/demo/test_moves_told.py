"""What a move is made for, in words."""

import attrs
import pytest

from kubedsm.core.moving.suggestion import Move, MoveKind
from kubedsm.core.world.model import Pod, PodClass, Resources, SchedulingRules, Share, Uid, Workload
from kubedsm.demo.moves_told import MovesTold, made_for
from kubedsm.why.entries import MoveOutcome, Outcome
from support.fixed_clock import FixedClock

PROMISES = {"a": 1.0, "b": 0.5}
SHARES = {"a": Share(3, 4), "b": Share(2, 3)}


def move(service, kind, **changes):
    owner = Workload("default", "Deployment", service)
    pod_class = PodClass(Resources(cpu=1, pods=1), SchedulingRules())
    pod = Pod(Uid(service), "default", f"{service}-1", owner, pod_class, "kubedsm")
    return Move(pod, "n1", "n2", kind, **changes)


def why(of, *beside):
    return made_for(of, [of, *beside], SHARES, PROMISES)


UP_A, UP_B = move("a", MoveKind.CLOUD_TO_EDGE), move("b", MoveKind.CLOUD_TO_EDGE)
DOWN_B = move("b", MoveKind.EDGE_TO_CLOUD)
INSIDE = move("b", MoveKind.EDGE_TO_EDGE)
CASES = {
    "to the edge": (why(UP_A), "its promise lacks 1 pod of 4"),
    "beyond its promise": (why(UP_B), "the edge has room for more than its promise"),
    "to the cloud for one that goes to the edge": (
        why(DOWN_B, UP_A),
        "to make room at the edge for a, whose promise lacks 1 pod of 4",
    ),
    "to the cloud for several": (
        why(DOWN_B, UP_A, UP_B),
        "to make room at the edge for a and b",
    ),
    "beside another group": (why(DOWN_B, attrs.evolve(UP_A, group=1)), ""),
    "inside the edge": (why(INSIDE), "to join what is left of the edge's room"),
    "spread": (
        why(attrs.evolve(INSIDE, rebalances=True)),
        "so that no single node holds all of default/b",
    ),
}


@pytest.mark.parametrize(("said", "expected"), CASES.values(), ids=CASES)
def test_why_it_is_made(said, expected):
    assert said == expected


class Cluster:
    """What is seen of it: shares, and which pods are being moved."""

    def __init__(self):
        self.moving = []

    def shares(self):
        return SHARES

    def detached(self):
        return self.moving


def test_a_move_is_told_from_its_beginning_to_its_end():
    cluster = Cluster()
    told = MovesTold(cluster, PROMISES, FixedClock())
    told.suggested([UP_A, UP_B], "apply", 0.0)
    assert told.begun() == []
    cluster.moving.append(UP_A.pod.uid)
    (begun,) = told.begun()
    assert (begun.where, begun.state) == ("default/a-1 from n1 to n2", "moving")
    told.move_ended(MoveOutcome("p/1", UP_A, Outcome.COMPLETED))
    (ended,) = told.begun()
    assert (ended.why, ended.state) == (begun.why, "moved")


@pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.FAILED])
def test_a_move_that_never_began_is_not_told_of(outcome):
    told = MovesTold(Cluster(), PROMISES, FixedClock())
    told.suggested([UP_A], "apply", 0.0)
    told.move_ended(MoveOutcome("p/1", UP_A, outcome, "a site is cut off"))
    assert told.begun() == []
