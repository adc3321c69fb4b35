"""Node rankings that serve several pods: the rotating score cache, and opportunistic batching."""

import random
from collections import Counter

import attrs
import pytest

from kubedsm.kube.wire import decoding
from kubedsm.model.model import (
    PodAffinityTerm,
    Preferences,
    Resources,
    SchedulingRules,
    SpreadConstraint,
    Tier,
    Toleration,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.plugins.feasibility import Feasibility
from kubedsm_lab.baselines.cache_scheduler import CacheScheduler, ScoreCache, Why
from kubedsm_lab.baselines.in_turn import InTurn, NodeUsage
from kubedsm_lab.baselines.kube_scheduler import KubeScheduler, scores, total_scores
from kubedsm_lab.baselines.load_aware import load_aware
from kubedsm_lab.baselines.registry import CACHE_SCHEDULER, POLICIES
from kubedsm_lab.bench.burst.result import summarize_evenness
from kubedsm_lab.replay.variants import contender
from support import placement_instances, rule_instances
from support.drawing import drawn
from support.placement_instances import snapshot
from support.policy_clusters import MI, TARGETS, node, pod
from support.rule_instances import ZONE, app, evenly
from support.wire_pods import made_pod


def nodes(number, **labels):
    return [
        node(f"n{at:04}", Tier.EDGE, 32, 64 * 10**9, labels=labels or None) for at in range(number)
    ]


def burst(number, **more):
    return [
        pod(f"a-{at}", cores=0.01, memory=16 * MI, created=float(at), **more)
        for at in range(number)
    ]


def placed(on, pods, cache=None):
    """Where each went, and the scheduler afterwards."""
    scheduler = CacheScheduler(cache or ScoreCache())
    decision = InTurn(scheduler, *TARGETS).place(snapshot(on, pods), pods, random.Random(0))
    return {b.pod.name: b.node for b in decision.bindings}, scheduler


def test_the_papers_burst_and_one_on_many_nodes():
    # 200 pods on 5 workers: 67 passes, each for 3 pods but the last; then the others are emptier. A
    # ranking that was made anew puts those first that have fewer of the Deployment's pods.
    found, scheduler = placed(nodes(5), burst(200))
    assert scheduler.looks == {Why.COLD: 1, Why.CONSUMED: 66, Why.HIT: 133}
    assert summarize_evenness(list(Counter(found.values()).values()))["jain"] > 0.99
    # At best one pod a node: Jain over all nodes .20. It is had, on the first 200 of 1,000.
    on = nodes(1000)
    found, scheduler = placed(on, burst(200))
    got = Counter(found.values())
    assert sorted(got) == [n.name for n in on[:200]]
    assert summarize_evenness([got[n.name] for n in on])["jain"] == pytest.approx(0.2)
    assert scheduler.looks == {Why.COLD: 1, Why.HIT: 199}


def test_a_ranking_serves_as_many_pods_of_a_kind_as_its_nodes_and_one_run():
    # Two kinds in turn, as many pods of each as one ranking of 10 nodes serves.
    pods = [
        pod(f"{service}-{at}", cores=cores, memory=16 * MI, service=service, created=float(at))
        for at in range(6)
        for service, cores in (("a", 0.01), ("b", 0.02))
    ]
    _, scheduler = placed(nodes(10), pods)
    assert scheduler.looks == {Why.COLD: 2, Why.HIT: 10}
    pods = [pod("a", created=0.0), pod("b", service="b", created=1.0)]
    found, scheduler = placed(nodes(5), pods)
    assert found == {"a": "n0000", "b": "n0001"}
    assert scheduler.looks == {Why.COLD: 1, Why.HIT: 1}
    tolerations = [{"key": "edge", "operator": "Exists"}, {"key": "b", "value": "c"}]
    pods = [
        decoding.pod(
            made_pod(metadata={"uid": f"u{at}", "name": f"p{at}"}, tolerations=tolerations[::turn])
        )
        for at, turn in enumerate((1, -1))
    ]
    _, scheduler = placed(nodes(5), pods)
    assert scheduler.looks == {Why.COLD: 1, Why.HIT: 1}
    found, scheduler = placed(nodes(1), burst(3))
    assert set(found.values()) == {"n0000"}
    assert not scheduler.looks
    assert len(scheduler.cache) == 0
    # The fifth pod has one node left, which is not looked up.
    on = [node(f"n{at}", Tier.EDGE, 1, 64 * 10**9) for at in range(5)]
    pods = [pod(f"a-{at}", cores=0.6, created=float(at)) for at in range(6)]
    found, scheduler = placed(on, pods)
    assert list(found.values()) == ["n0", "n1", "n2", "n3", "n4"]
    assert scheduler.looks == {Why.COLD: 1, Why.CHANGED: 3}
    assert contender(CACHE_SCHEDULER, ()).policy == CACHE_SCHEDULER
    first, second = (POLICIES[CACHE_SCHEDULER](*TARGETS) for _ in range(2))
    pods = burst(2)
    first.place(snapshot(nodes(5), pods), pods, random.Random(0))
    assert (first.choose.looks.total(), second.choose.looks.total()) == (2, 0)


OTHERWISE = {
    "cpu": {"requests": Resources(11, 16 * MI, 1)},
    "memory": {"requests": Resources(10, 17 * MI, 1)},
    "gpu": {"requests": Resources(10, 16 * MI, 1, (("example.com/gpu", 1),))},
    "priority": {"priority": 1},
    "nodeSelector": {"node_selector": (("disk", "ssd"),)},
    "affinity": {"node_affinity": (NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),)),)},
    "tolerations": {"tolerations": (Toleration("old", "Exists"),)},
    "topologySpread": {"spread": (evenly(app("a"), ZONE, namespace="default"),)},
}


@pytest.mark.parametrize("field", OTHERWISE)
def test_what_differs_in_one_field_has_its_own_ranking(field):
    room = {"disk": "ssd", ZONE: "z"}
    on = [
        attrs.evolve(n, allocatable=n.allocatable + Resources(other=(("example.com/gpu", 1),)))
        for n in nodes(5, **room)
    ]
    one, other = burst(2)
    of_class, rules = OTHERWISE[field], one.pod_class.rules
    if not of_class.keys() & {"requests", "priority"}:
        of_class = {"rules": attrs.evolve(rules, **of_class)}
    other = attrs.evolve(other, pod_class=attrs.evolve(other.pod_class, **of_class))
    _, scheduler = placed(on, [one, other])
    assert scheduler.looks == {Why.COLD: 2}


def test_no_pod_goes_where_it_must_not_and_without_reuse_each_gets_the_best():
    """Random clusters, with all rules: without reuse it is kube-scheduler, names for its draws."""
    bound = hits = 0
    for seed in drawn(range(80)):
        for shot in (placement_instances.drawn(seed).snapshot, rule_instances.drawn(seed)[0]):
            pods = shot.schedulable(shot.pods.values())
            scheduler = CacheScheduler(ScoreCache(0.9))
            anew, best, reused = (
                InTurn(choose, *TARGETS).place(shot, pods, random.Random(0))
                for choose in (CacheScheduler(ScoreCache(0.0)), load_aware, scheduler)
            )
            assert anew.bindings == best.bindings, seed
            rules = Feasibility.of(shot)
            for binding in reused.bindings:
                assert binding.node in rules.feasible(binding.pod), seed
                rules = rules.with_pod(binding.pod, binding.node)
            hits += scheduler.looks[Why.HIT]
            bound += len(reused.bindings)
    assert bound > 30
    assert hits > 1


REFRESHES = ("0", ".2", ".5", ".9")


def served(cache, key, ranked):
    """One pod: its node, and what became of the look for it."""
    node, why = cache.take(key, frozenset(ranked))
    if node is None:
        cache.seed(key, ranked)
        node = ranked[0]
    return node, why


class Literal:
    """The algorithm as published, and the least recently used entry the first to go."""

    def __init__(self, tau, most):
        self.tau, self.most, self.entries = tau, most, {}

    def serve(self, key, scored):
        names = sorted(scored)
        e = self.entries.pop(key, None)
        if e and (e["F"] != names or e["popped"] / e["N"] > self.tau or not e["L"]):
            e = None
        anew = e is None
        if anew:
            ranked = sorted(scored, key=lambda name: (-scored[name], name))
            e = {"F": names, "L": ranked, "N": len(ranked), "popped": 0}
        e["popped"] += 1
        self.entries[key] = e
        if len(self.entries) > self.most:
            del self.entries[next(iter(self.entries))]
        return e["L"].pop(0), anew


@pytest.mark.parametrize("refresh", REFRESHES)
def test_any_history_goes_as_published(refresh):
    looks, full = Counter(), 0
    for seed in drawn(range(100)):
        rng = random.Random(seed)
        most = rng.randint(1, 4)
        cache, literal = ScoreCache(float(refresh), most), Literal(float(refresh), most)
        nodes = {f"n{at}" for at in range(rng.randint(2, 8))}
        for _ in range(60):
            if rng.random() < 0.1:
                nodes ^= {f"n{rng.randrange(9)}"}
            if len(nodes) < 2:
                continue
            key, scored = rng.randrange(5), {name: rng.randrange(3) for name in sorted(nodes)}
            ranked = sorted(scored, key=lambda name: (-scored[name], name))
            node, why = served(cache, key, ranked)
            assert (node, why is not Why.HIT) == literal.serve(key, scored), seed
            assert node in nodes
            assert len(cache) <= most
            looks[why] += 1
            full += len(cache) == most
    assert full > 300
    assert looks[Why.COLD] > 30
    assert looks[Why.CHANGED] > 30


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
