"""Opportunistic batching: when the scores of one pod serve the next, and when they are void."""

import random

import attrs
import pytest

from kubedsm.model.model import (
    PodAffinityTerm,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Tier,
)
from kubedsm.model.selectors import Requirement
from kubedsm_lab.baselines.in_turn import InTurn, NodeUsage
from kubedsm_lab.baselines.kube_scheduler import KubeScheduler, scores, total_scores
from support.drawing import drawn
from support.placement_instances import snapshot
from support.policy_clusters import TARGETS, node, pod

HOSTNAME = "kubernetes.io/hostname"
WEB = (Requirement("app", "In", ("web",)),)
NEAR_WEB = PodAffinityTerm(HOSTNAME, WEB, ("default",))
NEAR_DB = PodAffinityTerm("all", (Requirement("app", "In", ("db",)),), ("default",))
NEAR_NOBODY = PodAffinityTerm(HOSTNAME, (Requirement("app", "In", ("x",)),), ("default",))
#: each takes one pod of 4 cores; the largest is the best
SIZES = {"n4": 4, "n5": 5, "n6": 6, "n7": 7}


class Stage:
    """A scheduler, and the cluster that its pods come to one by one."""

    def __init__(self, sizes=SIZES, there=()):
        self.nodes = {
            name: node(name, Tier.CLOUD, cores, 64 * 10**9) for name, cores in sizes.items()
        }
        self.pods = list(there)
        self.scheduler = KubeScheduler(opportunistic=True)
        self.policy = InTurn(self.scheduler, *TARGETS, on_unplaced=self.scheduler.interrupted)

    def come(self, one, at=0.0):
        """Where it goes, and whether nodes were scored for it."""
        before = self.scheduler.passes
        shot = attrs.evolve(snapshot(self.nodes.values(), [*self.pods, one]), at=at)
        bindings = self.policy.place(shot, [one], random.Random(0)).bindings
        for binding in bindings:
            self.pods.append(attrs.evolve(one, node_name=binding.node))
        return bindings and bindings[0].node, self.scheduler.passes > before


def large(name, cores=4, service="web", **rules):
    one = attrs.evolve(pod(name, cores=cores, service=service), labels={"app": service})
    asked = attrs.evolve(one.pod_class, rules=SchedulingRules(**rules))
    return attrs.evolve(one, pod_class=asked)


def test_pods_alike_that_come_one_after_the_other_are_scored_for_once():
    stage = Stage()
    came = [stage.come(large(f"w-{n}")) for n in range(4)]
    assert came == [("n7", True), ("n6", False), ("n5", False), ("n4", False)]
    assert stage.come(large("w-4")) == ((), False)
    stage = Stage()
    pods = [large(f"w-{n}") for n in range(4)]
    decision = stage.policy.place(snapshot(stage.nodes.values(), pods), pods, random.Random(0))
    assert [binding.node for binding in decision.bindings] == ["n7", "n6", "n5", "n4"]
    assert stage.scheduler.passes == 1


def test_scores_are_void_when_used_up_or_when_another_pod_comes_or_fails():
    stage = Stage({"n4": 4, "n5": 5})
    assert [stage.come(large(f"w-{n}")) for n in range(2)] == [("n5", True), ("n4", False)]
    more = {name: node(name, Tier.CLOUD, cores, 64 * 10**9) for name, cores in SIZES.items()}
    stage.nodes |= {"n6": more["n6"], "n7": more["n7"]}
    assert [stage.come(large(f"w-{n}")) for n in (2, 3)] == [("n7", True), ("n6", False)]
    stage = Stage({**SIZES, "n8": 8, "n9": 9})
    assert stage.come(large("w-0")) == ("n9", True)
    assert stage.come(large("x-0", cores=4.5)) == ("n8", True)
    assert stage.come(large("x-1", cores=4.5)) == ("n7", False)
    assert stage.come(large("w-1")) == ("n6", True)
    stage = Stage()
    stage.come(large("w-0"))
    assert stage.come(attrs.evolve(large("w-1"), images=("web:2",))) == ("n6", True)
    stage = Stage()
    stage.come(large("w-0"))
    assert stage.come(large("x-0", cores=40)) == ((), False)
    assert stage.come(large("w-1")) == ("n6", True)


@pytest.mark.parametrize(("seconds", "scored"), [(0.5, False), (0.51, True)])
def test_it_lasts_half_a_second_from_when_the_first_came(seconds, scored):
    stage = Stage()
    stage.come(large("w-0"), at=100.0)
    assert stage.come(large("w-1"), at=100.25) == ("n6", False)
    assert stage.come(large("w-2"), at=100 + seconds) == ("n5", scored)


def test_scores_are_void_if_the_node_takes_another_one_or_the_next_does_not():
    stage = Stage()
    assert stage.come(large("w-0", cores=2)) == ("n7", True)
    # 5 of 7 cores are left, fewer than 6 of 6 in share; the next one goes to n6, scored anew
    assert stage.come(large("w-1", cores=2)) == ("n6", True)
    stage = Stage()
    stage.come(large("w-0"))
    stage.pods.append(attrs.evolve(large("x-0", cores=3), node_name="n6"))
    assert stage.come(large("w-1")) == ("n5", True)
    assert stage.come(large("w-2")) == ("n4", False)


@pytest.mark.parametrize(
    "rules",
    [
        {"affinity": (NEAR_DB,)},
        {"anti_affinity": (NEAR_NOBODY,)},
        {"preferences": Preferences(affinity=((1, NEAR_NOBODY),))},
        {"preferences": Preferences(anti_affinity=((1, NEAR_NOBODY),))},
        {"preferences": Preferences(spread=(SpreadConstraint(HOSTNAME, 1, WEB, "default"),))},
        {"spread": (SpreadConstraint(HOSTNAME, 5, WEB, "default"),)},
    ],
)
def test_pods_with_rules_about_pods_are_scored_for_each(rules):
    db = attrs.evolve(large("db", cores=0.1, service="db"), node_name="n5")
    stage = Stage({"n5": 5, "n6": 6, "n7": 7}, there=[db])
    stage.nodes = {
        name: attrs.evolve(each, labels={**each.labels, "all": "here"})
        for name, each in stage.nodes.items()
    }
    assert [stage.come(large(f"w-{n}", **rules)) for n in range(2)] == [("n7", True), ("n6", True)]


def test_pods_that_pods_on_nodes_have_rules_about_are_scored_for_each_and_none_is_spread():
    apart = {"anti_affinity": (NEAR_WEB,)}
    there = attrs.evolve(large("x", cores=0.1, service="x", **apart), node_name="n4")
    stage = Stage(there=[there])
    assert [stage.come(large(f"w-{n}"))[1] for n in range(2)] == [True, True]
    others = Stage(there=[there])
    assert [others.come(large(f"y-{n}", service="y"))[1] for n in range(2)] == [True, False]
    # One of the service is on the best node: by default that would be the worst.
    there = attrs.evolve(pod("w", cores=1, service="web"), node_name="n9")
    for opportunistic, where in ((True, "n9"), (False, "n8")):
        policy = InTurn(KubeScheduler(opportunistic=opportunistic), *TARGETS)
        nodes = [node(name, Tier.CLOUD, n, 64 * 10**9) for name, n in (("n9", 9), ("n8", 2))]
        one = pod("w-1", service="web")
        found = policy.place(snapshot(nodes, [there, one]), [one], random.Random(0)).bindings
        assert [binding.node for binding in found] == [where]


def test_what_it_finds_is_as_good_as_what_scoring_anew_finds():
    """Where a node takes one pod only."""
    for seed in drawn(range(30)):
        rng = random.Random(seed)
        sizes = rng.sample(range(10, 100), rng.randint(2, 12))
        nodes = [node(f"n{n:02}", rng.choice(tuple(Tier)), n, 10**12) for n in sizes]
        full = [
            attrs.evolve(pod(f"f{n}", cores=n - rng.randint(9, 17)), node_name=f"n{n}")
            for n in sizes
            if n > 17
        ]
        room, scheduler = NodeUsage.of(snapshot(nodes, full)), KubeScheduler(opportunistic=True)
        for number in range(len(nodes)):
            one = large(f"w-{number}", cores=9)
            fitting = room.fitting(one)
            totals = total_scores(scores(one, fitting, room, batching=True))
            chosen = scheduler(one, fitting, room, rng)
            assert totals[fitting.index(chosen)] == max(totals)
            room.put(one, chosen)
        assert scheduler.passes == 1
