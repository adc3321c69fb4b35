"""Decisions that take no time are those that would be made with all the time, or none."""

import itertools
from collections import Counter

import attrs

from kubedsm.model.deadline import NO_DEADLINE, STEPS_PER_SECOND, URGENT_SHARE, Deadline
from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.policies import kubedsm
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support import drawing
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.rule_instances import HOST, app, cluster, drawn_batch, evenly, zoned
from support.rule_instances import pod as ruled_pod


class Unasked:
    name = "unasked"

    def maximise(self, *_):
        raise AssertionError("a solver takes its time")


POLICY = KubeDSM(lambda _: QosTarget(), Objective(), solver=Unasked())
WITHOUT = attrs.evolve(POLICY, solver=None)


def passing(looks):
    """A deadline that has passed after so many looks at it."""
    seen = iter(range(10**9))
    return Deadline(lambda: float(next(seen) >= looks))


def batches():
    for seed in drawing.drawn(range(40)):
        instance = drawn(seed)
        yield instance.snapshot, instance.batch
        yield drawn_batch(seed)


def test_what_is_decided_at_once_would_not_be_decided_otherwise():
    """What could be better is left to who has time."""
    seen = Counter()
    for shot, batch in batches():
        whole = WITHOUT.decide_batch(shot, batch)
        enough = len(batch) <= 1 or (whole.proof.placed and whole.proof.qos)
        for policy, looks in itertools.product((POLICY, WITHOUT), (0, 3, 10**6)):
            found = policy.at_once(shot, batch, (), passing(looks))
            assert found in (None, (whole, ()))
            seen["given up" if found is None else "decided"] += 1
        assert (POLICY.at_once(shot, batch, (), NO_DEADLINE) is not None) == enough
        assert WITHOUT.at_once(shot, batch, (), NO_DEADLINE) == (whole, ())
        seen["left"] += not enough
    assert min(seen["decided"], seen["given up"]) > 24
    assert seen["left"]


def test_many_classes_on_many_nodes_are_not_even_looked_at(monkeypatch):
    pods = [pod(f"a-{n}", "a", resources(1 + n)) for n in range(3)]
    shot = snapshot([node("e1", Tier.EDGE, 20), node("c1", Tier.CLOUD, 20)], pods)
    assert POLICY.at_once(shot, pods, (), NO_DEADLINE) is not None
    monkeypatch.setattr(kubedsm, "_AT_ONCE", 5)
    assert POLICY.at_once(shot, pods, (), NO_DEADLINE) is None
    assert POLICY.at_once(shot, pods[:2], (), NO_DEADLINE) is not None


def test_pods_are_placed_one_at_a_time_only_within_a_strict_deadline():
    # Ten kinds of pods on a nearly full edge: too many choices for a proof.
    pods = [
        pod(f"{kind}-{n}", kind, resources(0.3 + at / 9, 1 + at / 7))
        for at, kind in enumerate("abcdefghij")
        for n in range(10)
    ]
    nodes = [node(f"e{n}", Tier.EDGE, 3, 12) for n in range(9)]
    shot = snapshot([*nodes, node("c1", Tier.CLOUD, 500, 2000)], pods)
    spent = Deadline.within(1e9, lambda: 0.0)
    decision, _ = WITHOUT.at_once(shot, pods, (), spent)
    assert not decision.proof.qos
    one_pod_at_a_time = 400_000 * len(pods)
    assert spent.meter.steps > one_pod_at_a_time
    seconds = (spent.meter.steps - one_pod_at_a_time // 2) / (URGENT_SHARE * STEPS_PER_SECOND)
    assert WITHOUT.at_once(shot, pods, (), Deadline.within(seconds, lambda: 0.0)) is None
    assert WITHOUT.decide_batch(shot, pods, Deadline.within(seconds, lambda: 0.0)) == decision


def test_pods_with_very_many_constraints_are_for_the_planner():
    """Also if the clock stands still: such work counts."""
    spread = [tuple(evenly(app(f"x{n}-{i}"), HOST) for i in range(20)) for n in range(40)]
    pods = [ruled_pod(f"p{n}", {"app": f"p{n}"}, spread=each) for n, each in enumerate(spread)]
    shot = cluster([zoned(f"n{n}", cpu=64, memory=64) for n in range(2)], pods)
    assert WITHOUT.at_once(shot, pods[:2], (), Deadline.within(0.075, lambda: 0.0)) is not None
    assert WITHOUT.at_once(shot, pods, (), Deadline.within(0.075, lambda: 0.0)) is None
