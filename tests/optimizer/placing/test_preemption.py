"""Whom to evict for a pod that no node takes: beside kube-scheduler's procedure, word by word."""

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import HostPort, NodeName, SchedulingRules, Tier
from kubedsm.model.selecting import Budget
from kubedsm.model.snapshot import Counted
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.placing.preemption import Preemption, PreemptionSearch, makes_room
from kubedsm.planner.requests import PREEMPTION_BUDGET
from kubedsm.plugins.feasibility import Feasibility
from support.drawing import examples
from support.literal_rules import literal_rule
from support.placement_instances import node, resources, snapshot
from support.pods import made_pod
from support.rule_instances import app, drawn


def pod(name, cpu, priority=0, on=None, *, created=0.0, labels=(), **more):
    rules = SchedulingRules(**more.pop("rules", {}))
    given = {"requests": resources(cpu), "rules": rules, "priority": priority, **more}
    given |= {"node_name": on or None, "created": created, "labels": dict(labels)}
    return made_pod(name, workload=name.partition("-")[0], **given)


def search(cluster, waiting, *, qos=1.0, **more):
    return PreemptionSearch(cluster, waiting, lambda _: QosTarget(qos), Objective(), **more)


def best(nodes, pods, waiting, **more):
    shunned = more.pop("shunned", ())
    return search(snapshot(nodes, [*pods, waiting]), waiting, **more).best(shunned)


def names(found):
    return found and (found.node, [victim.name for victim in found.victims])


def importance(other):
    return (-other.pod_class.priority, other.created, other.namespace, other.name)


def without(cluster, gone):
    free = dict(cluster.free)
    for uid in gone:
        free[cluster.placed[uid]] += cluster.pods[uid].requests
    return attrs.evolve(
        cluster,
        pods={uid: p for uid, p in cluster.pods.items() if uid not in gone},
        placed={uid: at for uid, at in cluster.placed.items() if uid not in gone},
        free=free,
    )


def fits(cluster, waiting, on, gone):
    return on.tier is not None and literal_rule(without(cluster, gone), waiting, on) is None


def here(cluster, on):
    return [p for uid, p in cluster.pods.items() if cluster.placed.get(uid) == on.name]


def leaving(cluster, on):
    return {p.uid for p in here(cluster, on) if p.terminating and not p.finished}


def potential(cluster, waiting, on):
    found = [
        p
        for p in here(cluster, on)
        if p.pod_class.priority < waiting.pod_class.priority and not (p.terminating or p.finished)
    ]
    return sorted(found, key=importance)


def over_budget(pods, budgets):
    """Those whose eviction a budget would not allow any more, in kube-scheduler's order."""
    allowed = [budget.allowed for budget in budgets]
    over = set()
    for each in pods:
        for number, budget in enumerate(budgets):
            if budget.covers(each):
                allowed[number] -= 1
                if allowed[number] < 0:
                    over.add(each.uid)
    return over


def literal_victims(cluster, waiting, on, budgets=()):
    """kube-scheduler's SelectVictimsOnNode; None if evictions do not help."""
    candidates = potential(cluster, waiting, on)
    gone = leaving(cluster, on) | {p.uid for p in candidates}
    if not fits(cluster, waiting, on, gone):
        return None
    over = over_budget(candidates, budgets)
    violating = [p for p in candidates if p.uid in over]
    others = [p for p in candidates if p.uid not in over]
    victims = []
    for each in (*violating, *others):
        if fits(cluster, waiting, on, gone - {each.uid}):
            gone -= {each.uid}
        else:
            victims.append(each)
    return victims, sum(victim.uid in over for victim in victims)


def literal_choice(cluster, waiting, budgets, *, edge_first):
    """kube-scheduler's pickOneNodeForPreemption, criterion by criterion, and ours."""
    nodes = sorted(cluster.nodes.values(), key=lambda n: n.name)
    if any(fits(cluster, waiting, on, leaving(cluster, on)) for on in nodes):
        return None
    found = {}
    for on in nodes:
        victims = literal_victims(cluster, waiting, on, budgets)
        if victims is not None:
            found[on.name] = victims
    left = [on for on in nodes if on.name in found]

    def keep_least(criterion):
        least = min(map(criterion, left), default=None)
        left[:] = [on for on in left if criterion(on) == least]

    def priorities(on):
        return [victim.pod_class.priority for victim in found[on.name][0]]

    def earliest(on):
        worst = max(priorities(on))
        return min(v.created for v in found[on.name][0] if v.pod_class.priority == worst)

    keep_least(lambda on: found[on.name][1])
    if edge_first:
        keep_least(lambda on: on.tier is not Tier.EDGE)
    keep_least(lambda on: max(priorities(on)))
    keep_least(lambda on: sum(p + 2**31 for p in priorities(on)))
    keep_least(lambda on: len(priorities(on)))
    keep_least(lambda on: -earliest(on))
    return None if not left else (left[0].name, {v.uid for v in found[left[0].name][0]})


def drawn_cluster(seed):
    rng = random.Random(seed)
    tiers = (Tier.EDGE, Tier.CLOUD, None)
    nodes = [
        node(f"n{i}", rng.choice(tiers), rng.randint(2, 6), rng.choice((4, 8)))
        for i in range(rng.randint(1, 4))
    ]
    pods = [
        attrs.evolve(
            pod(
                f"{rng.choice('abc')}-{i}",
                rng.choice((0.5, 1, 2)),
                rng.choice((-5, 0, 0, 1, 2, 100)),
                rng.choice(nodes).name,
                created=float(rng.randint(0, 3)),
                labels={"app": rng.choice("abc")},
                terminating=rng.random() < 0.1,
                phase=rng.choice(("Running",) * 9 + ("Succeeded",)),
            )
        )
        for i in range(rng.randint(0, 10))
    ]
    waiting = pod("p-0", rng.choice((2, 4, 6)), rng.choice((1, 2, 50, 50)))
    cluster = snapshot(nodes, [p for p in pods if not p.finished] + [waiting])
    finished = {p.uid: p for p in pods if p.finished}
    placed = {**cluster.placed, **{uid: p.node_name for uid, p in finished.items()}}
    cluster = attrs.evolve(cluster, pods={**cluster.pods, **finished}, placed=placed)
    budgets = [
        Budget("shop", "", app(rng.choice("abc")), allowed=rng.randint(0, 2))
        for _ in range(rng.randint(0, 2))
    ]
    return cluster, waiting, budgets, rng.choice((0.0, 1.0))


@examples(166)
@given(st.integers(0, 2**40))
def test_the_same_victims_as_kube_schedulers_procedure(seed):
    cluster, waiting, budgets, qos = drawn_cluster(seed)
    found = search(cluster, waiting, qos=qos, budgets=budgets).best()
    expected = literal_choice(cluster, waiting, budgets, edge_first=True)
    assert (found and (found.node, {v.uid for v in found.victims})) == expected


@examples(66)
@given(st.integers(0, 2**40))
def test_the_same_with_every_rule_about_other_pods(seed):
    cluster, waiting = drawn(seed)
    for each in waiting:
        if each.gated:
            continue
        for on in cluster.nodes.values():
            found = search(cluster, each).on(on.name)
            expected = literal_victims(cluster, each, on)
            assert (found and {v.uid for v in found.victims}) == (
                expected and {v.uid for v in expected[0]}
            )


EDGE = node("e1", Tier.EDGE, 2)
CLOUD = node("c1", Tier.CLOUD, 2)


@pytest.mark.parametrize(
    "victim",
    [
        pod("v", 2, 10, "e1"),
        pod("v", 2, 11, "e1"),
        pod("v", 2, 0, "e1", untouchable=True),
        pod("v", 2, 0, "e1", detached=True),
    ],
    ids=["equal priority", "higher priority", "untouchable", "detached"],
)
def test_who_is_never_a_victim(victim):
    assert best([EDGE], [victim], pod("p", 1, 10)) is None


def test_pods_that_are_being_moved_are_spared():
    victim = pod("v", 2, 0, "e1")
    assert names(best([EDGE], [victim], pod("p", 1, 10))) == ("e1", ["v"])
    assert best([EDGE], [victim], pod("p", 1, 10), spared=["v"]) is None


def test_a_pod_that_never_preempts():
    assert best([EDGE], [pod("v", 2, 0, "e1")], pod("p", 1, 10, preempts=False)) is None


def test_room_that_comes_anyway_makes_it_needless():
    low = pod("low", 2, 0, "e1")
    going = pod("going", 2, 50, "c1", terminating=True)
    waiting = pod("p", 1, 10)
    assert best([EDGE, CLOUD], [low, going], waiting) is None
    cluster = snapshot([EDGE, CLOUD], [low, going, waiting])
    assert search(cluster, waiting).room_to_come == "c1"
    granted = search(snapshot([EDGE], [low, waiting]), waiting, leaving=["low"])
    assert (granted.room_to_come, granted.best()) == ("e1", None)
    assert granted.on(NodeName("e1")) == Preemption(NodeName("e1"), (), 0)


def test_the_edge_comes_first_if_the_workload_gains_by_it():
    on_edge, on_cloud = pod("a", 2, 5, "e1"), pod("b", 2, 0, "c1")
    waiting = pod("p", 2, 10)
    assert names(best([EDGE, CLOUD], [on_edge, on_cloud], waiting)) == ("e1", ["a"])
    ecmus = PreemptionSearch(
        snapshot([EDGE, CLOUD], [on_edge, on_cloud, waiting]),
        waiting,
        lambda _: QosTarget(0.0),
        Objective("ecmus"),
    )
    assert names(ecmus.best()) == ("c1", ["b"])


def test_shunned_nodes_are_left_alone():
    pods = [pod("a", 2, 0, "e1"), pod("b", 2, 0, "c1")]
    waiting = pod("p", 2, 10)
    assert names(best([EDGE, CLOUD], pods, waiting, shunned={"e1"})) == ("c1", ["b"])
    assert best([EDGE, CLOUD], pods, waiting, shunned={"e1", "c1"}) is None


def test_no_more_nodes_are_compared_than_kube_scheduler_does():
    nodes = [node(f"n{i:03}", Tier.CLOUD, 2) for i in range(150)]
    pods = [pod(f"v-{i:03}", 2, 5 if i < 120 else 0, f"n{i:03}") for i in range(150)]
    assert names(best(nodes, pods, pod("p", 2, 10))) == ("n000", ["v-000"])


def test_the_victims_of_a_node_are_searched_without_the_other_nodes(monkeypatch):
    nodes = [node(f"n{i}", cpu=1, tier=Tier.EDGE) for i in range(3)]
    waiting, seen = pod("new", 1, 10), []
    ports = {"ports": (HostPort(9100),)}
    old = [pod(f"old-{each.name}", 1, on=each.name, rules=ports) for each in nodes]
    cluster = snapshot(nodes, [*old, waiting])
    counted = Counted(cluster.census, cluster.index, cluster.room, cluster.residents)
    read = Feasibility.of
    monkeypatch.setattr(Feasibility, "of", lambda of: seen.append(len(of.index)) or read(of))
    assert names(search(attrs.evolve(cluster, counted=counted), waiting).best())
    assert set(seen) == {1}


def test_the_victims_on_the_last_node_of_a_large_cluster_are_found_in_time():
    nodes = [node(f"n{i:04}", Tier.CLOUD, 2) for i in range(1500)]
    pods = [pod(f"v-{each.name}", 2, 50, each.name) for each in nodes[:-1]]
    waiting = pod("p", 2, 10)
    cluster = snapshot(nodes, [*pods, pod("low", 2, 5, "n1499"), waiting])
    deadline = Deadline.within(PREEMPTION_BUDGET, lambda: 0.0)
    assert names(search(cluster, waiting, deadline=deadline).best()) == ("n1499", ["low"])


def test_what_was_found_a_moment_ago_is_compared_with_what_is_there():
    low, other = pod("low", 1, 0, "e1"), pod("other", 1, 50, "e1")
    waiting = pod("p", 1, 10)
    found = best([EDGE], [low, other], waiting)
    assert names(found) == ("e1", ["low"])

    def still(*pods, nodes=(EDGE,), **more):
        return makes_room(snapshot(nodes, [*pods, waiting]), waiting, found, **more)

    assert still(low, other)
    assert still(low)
    assert not still(other)  # it has left
    assert not still(attrs.evolve(low, node_name=NodeName("c1")), other, nodes=(EDGE, CLOUD))
    assert not still(low, other, pod("more", 1, 50, "e1"))
    assert still(low, other, pod("going", 1, 50, "e1", terminating=True))
    assert still(low, other, pod("going", 1, 50, "e1"), leaving=["going"])
    there = snapshot([EDGE], [low, other, waiting])
    assert not makes_room(attrs.evolve(there, nodes={}, free={}), waiting, found)
