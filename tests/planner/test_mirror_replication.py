"""A mirror that hears what another one is told is its equal, from whenever on it hears of it."""

import random

import attrs
import pytest

from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.model import Uid
from kubedsm.planner.protocol import (
    ReplicatedMirror,
    dump_message,
    dump_response,
    load_message,
    load_response,
)
from support.drawing import drawn
from support.histories import happen, happen_beside, node, pod, state_of
from support.placement_instances import pod as made
from support.placement_instances import resources

FOLLOWED = {Uid("p1-0"), Uid("p2-1")}


def told(calls, follower):
    """As it is between processes: some together, as bytes."""
    for call in load_message(dump_message(list(calls))):
        call.repeat_on(follower)


@pytest.mark.parametrize("block", range(10))
def test_the_follower_is_equal_whenever_it_began(block):
    held = claimed = 0
    for seed in drawn(range(30 * block, 30 * block + 30)):
        rng = random.Random(seed)
        mirror, follower = ReplicatedMirror(followed=FOLLOWED), ReplicatedMirror(followed=FOLLOWED)
        begins, calls, beginning = rng.randrange(60), [], None
        for version in range(120):
            if version == begins:
                beginning, mirror.publish = mirror.replay(), calls.append
            happen(mirror, rng, version)
            happen_beside(mirror, rng)
            held += bool(mirror._reservations)
            claimed += bool(mirror.claimed)
        told(beginning, follower)
        told(calls, follower)
        assert state_of(follower) == state_of(mirror), seed
        follower.check_invariants()
    assert held > 250
    assert claimed > 5


def test_what_failed_is_not_told():
    calls, mirror = [], ReplicatedMirror()
    mirror.publish = calls.append
    with pytest.raises(Exception, match="gone"):
        mirror.reserve("u", "nowhere", resources(1))
    assert calls == []


def test_what_pods_have_in_common_is_shared_by_those_of_different_frames():
    rng, mirror, follower = random.Random(1), ReplicatedMirror(), ReplicatedMirror()
    first, second = (
        attrs.evolve(made(name, "web", resources(1), on="n0"), labels={"app": "web"})
        for name in ("a", "b")
    )
    told(mirror.replay(), follower)
    mirror.publish = lambda call: told([call], follower)
    mirror.apply(NodeApplied(node(rng)))
    mirror.apply(PodApplied(first))
    mirror.apply(PodApplied(second))
    one, other = (follower.pod(each.uid) for each in (first, second))
    assert one == first
    assert one is not first
    for field in ("pod_class", "workload"):
        assert getattr(one, field) is getattr(other, field), field


def test_a_pod_in_an_answer_is_the_askers_own():
    rng, mirror = random.Random(1), ReplicatedMirror()
    for name in ("a", "b"):
        mirror.apply(PodApplied(pod(rng, name, name, 1)))
    mine = mirror.pod(Uid("a"))
    answer = dump_response({"victims": (mine, mine)})
    assert load_response(answer, mirror.pod)["victims"][1] is mine
