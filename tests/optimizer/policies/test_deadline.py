"""Decisions have a deadline; what was found by then is taken, and no pod is forgotten."""

import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.deadline import STEPS_PER_SECOND, URGENT_SHARE, Deadline
from kubedsm.model.model import NodeName, Tier, levels_of, serving_order, shares_after
from kubedsm.model.residents import Selection
from kubedsm.objective.objective import Objective, QosTarget, quality
from kubedsm.optimizer.placing import immediate
from kubedsm.optimizer.placing.preemption import PreemptionSearch
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm_lab.baselines.registry import KUBEDSM, POLICIES
from support import drawing
from support.placement_instances import drawn as placement_instance
from support.placement_instances import node, resources, snapshot
from support.placement_instances import pod as plain
from support.placement_literal import is_allowed, is_allowed_in_turn, is_sound, joined
from support.rule_instances import HOST, app, cluster, drawn_batch, evenly, near, pod, zoned
from support.suggest_instances import drawn_case

POLICY = KubeDSM(lambda _: QosTarget(), Objective())
NO_TIME = Deadline(lambda: 1.0)
ZONED = [
    *(zoned(f"e{n}", "xyz"[n], cpu=40, memory=64) for n in range(3)),
    *(zoned(f"c{n}", "uv"[n], tier=Tier.CLOUD, cpu=200, memory=800) for n in range(2)),
]


def test_a_part_ends_after_its_fraction_of_what_is_left():
    work = Deadline(lambda: 0.5, seconds=8.0).part(0.25)
    assert (work.left, work.passed) == (1.0, False)
    over = Deadline(lambda: 1.0, seconds=8.0).part(0.25)
    assert (over.left, over.passed) == (0.0, True)


class Looks:
    """A deadline that passes after so many looks at it, and how many there were."""

    def __init__(self, most=10**9):
        self.number = 0
        self._most = most

    @property
    def deadline(self):
        return Deadline(self._spent)

    def _spent(self):
        self.number += 1
        return float(self.number > self._most)


def limit_work(steps):
    """A deadline after so many steps of work, without any time limit."""
    return Deadline.within((1 + steps) / (URGENT_SHARE * STEPS_PER_SECOND), lambda: 0.0)


def overlapping(number):
    """Pods that look at the next ones of other kinds, all round."""
    return [
        pod(
            f"p{n}",
            {"app": f"a{n}"},
            requests=resources(0.1, 0.1),
            spread=(evenly(app(*(f"a{(n + k) % number}" for k in range(8)))),),
        )
        for n in range(number)
    ]


def uids(bindings):
    return {binding.pod.uid for binding in bindings}


@pytest.mark.parametrize("number", [64, 128])
def test_pods_that_look_at_each_other_are_decided_on_in_few_looks(number):
    pods, looks = overlapping(number), Looks()
    shot = cluster(ZONED, pods)
    decision = POLICY.decide_batch(shot, pods, looks.deadline)
    assert len(decision.bindings) >= 0.85 * number
    assert looks.number <= number**2
    for at in range(0, len(decision.bindings), 8):
        assert is_allowed(shot, decision.bindings[:at], decision.bindings[at])
    assert all(refused.keys() == shot.nodes.keys() for refused in decision.unplaced.values())


@pytest.mark.parametrize("rule", ["anti_affinity", "spread"])
def test_workloads_with_constraints_of_their_own_are_not_compared_with_each_other(
    monkeypatch, rule
):
    compared, covers = Counter(), Selection.covers

    def count(selection, *args):
        compared[rule] += 1
        return covers(selection, *args)

    monkeypatch.setattr(Selection, "covers", count)
    held = [(app(f"a{n}"), f"a{n}") for n in range(64)]
    constraint = {"anti_affinity": lambda own: near(own, key=HOST), "spread": evenly}[rule]
    pods = [pod(name, {"app": name}, **{rule: (constraint(own),)}) for own, name in held]
    assert len(POLICY.decide_batch(cluster(ZONED, pods), pods).bindings) == 64
    assert compared[rule] <= 4 * 64


def test_without_time_all_that_fits_in_turn_is_placed():
    pods = overlapping(64)
    shot = cluster(ZONED, pods)
    decision = POLICY.decide_batch(shot, pods, NO_TIME)
    assert not decision.proof.whole
    assert not decision.late
    assert len(decision.bindings) >= 0.9 * len(pods)
    assert is_allowed_in_turn(shot, decision.bindings)
    assert all(refused.keys() == shot.nodes.keys() for refused in decision.unplaced.values())


def test_a_batch_of_too_many_ruled_pods_is_split_fairly_between_namespaces(monkeypatch):
    monkeypatch.setattr(immediate, "MOST_RULED", 30)
    odd = [attrs.evolve(p, created=-1.0) for p in overlapping(64)]
    others = [pod(f"q{n}", namespace=f"other-{n % 2}") for n in range(10)]
    urgent = [pod(f"r{n}", namespace="urgent", priority=1) for n in range(5)]
    batch = [*odd, *others, *urgent]
    shot = cluster(ZONED, batch)
    for deadline in (Deadline(), NO_TIME):
        decision = POLICY.decide_batch(shot, batch, deadline)
        assert {p.uid for p in (*others, *urgent)} <= uids(decision.bindings)
        assert {p.uid for p in decision.late} | uids(decision.bindings) == shot.pods.keys()
        assert len(decision.late) == len(batch) - 30
        assert not decision.proof.whole
    assert not POLICY.decide_batch(shot, others, NO_TIME).late


def one_at_a_time(policy, shot, pods):
    """The bindings of one decision per pod, each without a deadline, on what the last one left."""
    bindings = []
    for each in sorted(pods, key=serving_order):
        made = policy.decide_batch(shot, [each]).bindings
        bindings += made
        shot = joined(shot, made)
    return bindings


def value(policy, shot, pods, bindings):
    """Pods placed by priority, whether all keep their rules in the end, then QoS by level."""
    placed = Counter(binding.pod.pod_class.priority for binding in bindings)
    priorities = sorted({p.pod_class.priority for p in pods}, reverse=True)
    on_edge = Counter(b.pod.workload for b in bindings if b.tier is Tier.EDGE)
    levels = levels_of((each.workload, each.pod_class.priority) for each in pods) or {}
    after = shares_after(shot.census.shares, on_edge)
    by_level = dict.fromkeys(sorted(set(levels.values()) or {0}, reverse=True), 0)
    for workload in {p.workload for p in pods} & after.keys():
        of_workload = {workload: after[workload]}
        worth = quality(of_workload, policy.qos_targets_in(shot), policy.objective)
        by_level[levels.get(workload, 0)] += worth
    return [placed[priority] for priority in priorities], list(by_level.values())


#: batches with rules that would come to less without the floor, if no time is left
SPOILED = (54, 94, 136, 175, 251, 472, 477)


def batches(seeds):
    for seed in SPOILED:
        yield POLICY, *drawn_batch(seed)
    for seed in seeds:
        case = placement_instance(seed, most=9)
        yield attrs.evolve(POLICY, qos_targets=case.qos_targets), case.snapshot, case.batch
        yield POLICY, *drawn_batch(seed)


def list_late_looks(policy, shot, pods):
    """Deadlines that pass at different looks."""
    looks = Looks()
    policy.decide_batch(shot, pods, looks.deadline)
    for most in range(0, looks.number + 2, max(1, looks.number // 8)):
        yield Looks(most).deadline


def list_work_limits(policy, shot, pods):
    """Deadlines with different parts of the whole work."""
    whole = Deadline()
    policy.decide_batch(shot, pods, whole)
    for part in range(1, 12, 2):
        yield limit_work(whole.meter.steps * part / 10)


DEADLINES = {"looks": list_late_looks, "work": list_work_limits}


@pytest.mark.parametrize("limited", DEADLINES)
def test_no_deadline_makes_a_decision_worse_than_one_pod_at_a_time(limited):
    """And whenever it passes, a batch keeps the rules as it comes."""
    contended = cut_short = 0
    for policy, shot, pods in batches(range(6)):
        floor, whole = one_at_a_time(policy, shot, pods), policy.decide_batch(shot, pods)
        least = value(policy, shot, pods, floor)
        for deadline in DEADLINES[limited](policy, shot, pods):
            decision = policy.decide_batch(shot, pods, deadline)
            reached = value(policy, shot, pods, decision.bindings)
            assert is_allowed_in_turn(shot, decision.bindings)
            assert not decision.proof.whole or decision.bindings == whole.bindings
            assert not decision.late
            assert uids(decision.bindings) | decision.unplaced.keys() == {p.uid for p in pods}
            if reached < least:  # only ever for rules that one at a time breaks in the end
                assert reached[0] == least[0]
                assert is_sound(shot, decision.bindings)
                assert not is_sound(shot, floor)
            cut_short += decision.bindings != whole.bindings
        contended += len(floor) < len(pods)
    assert contended > 3
    assert cut_short > 10


def waiting_small(number):
    """The start of 990 small pods of 30 workloads, on 50 empty nodes: all fit at the edge."""
    nodes = [node(f"e{n}", Tier.EDGE, 8, 16) for n in range(35)]
    nodes += [node(f"c{n}", Tier.CLOUD, 16, 64) for n in range(15)]
    pods = [
        plain(f"s{n % 30}-{n}", f"s{n % 30}", resources(0.1 + 0.05 * (n % 3), 0.125 * (1 + n % 3)))
        for n in range(990)
    ]
    return snapshot(nodes, pods), pods[:number]


@pytest.mark.parametrize("looks", [0, 2, 5, 10, 20, 30, 50])
def test_small_pods_go_to_an_empty_edge_whenever_the_deadline_passes(looks):
    shot, pods = waiting_small(64)
    seen = iter(range(10**9))
    deadline = Deadline(lambda: 9.0 * (next(seen) >= looks), 0.025)
    decision, _ = POLICY.decide_ahead(shot, pods, frozenset(), deadline, 0)
    assert [b.tier for b in decision.bindings] == [Tier.EDGE] * 64


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - {KUBEDSM}))
def test_policies_that_place_one_pod_at_a_time_stop_when_time_is_up(name):
    pods = [pod(f"p{n}") for n in range(4)]
    policy = POLICIES[name](lambda _: QosTarget(), Objective())
    decision = policy.place(cluster(ZONED, pods), pods, random.Random(0), NO_TIME)
    assert [b.pod.name for b in decision.bindings] == ["p0"]
    assert [p.name for p in decision.late] == ["p1", "p2", "p3"]


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
def test_whenever_the_deadline_passes_a_suggestion_loses_nothing(algorithm):
    fewer = 0
    # A third has too few that gain anything.
    for seed in drawing.drawn(range(60), one_in=2):
        case = drawn_case(seed)
        policy = KubeDSM(case.qos_targets, case.objective, case.limits, algorithm)
        looks = Looks()
        whole = policy.suggest(case.snapshot, lambda _: "", looks.deadline)
        for most in range(0, looks.number, max(1, looks.number // 5)):
            found = policy.suggest(case.snapshot, lambda _: "", Looks(most).deadline)
            assert not found.proven
            assert found.after.qos >= found.before.qos
            fewer += len(found.moves) < len(whole.moves)
        assert looks.number < 500
    assert fewer > 10


def test_a_search_for_victims_ends_with_the_node_it_is_at():
    nodes = [node(f"e{n}", Tier.EDGE, 1) for n in range(3)]
    nodes[0] = attrs.evolve(nodes[0], unschedulable=True)
    there = [plain(f"low-{n}", "low", resources(1, 1), on=f"e{n}") for n in range(3)]
    high = plain("high", "high", resources(1, 1), priority=1)
    shot = snapshot(nodes, [*there, high])

    def search(deadline):
        return PreemptionSearch(
            shot, high, lambda _: QosTarget(), Objective(), deadline=deadline
        ).best()

    assert search(Deadline()).node == NodeName("e1")
    assert search(NO_TIME) is None


def test_pods_with_rules_are_decided_on_once_while_others_leave():
    old = pod("old", {"app": "b"}, on="e0")
    pods = [pod(f"p{n}", {"app": "a"}, anti_affinity=(near(app("a"), key=HOST),)) for n in range(8)]
    shot, deadlines = cluster(ZONED, [old, *pods]), (limit_work(10**9), limit_work(10**9))
    decisions = [
        POLICY.decide_ahead(shot, pods, leaving, deadline)
        for leaving, deadline in zip(([], [old.uid]), deadlines, strict=True)
    ]
    assert decisions[0] == decisions[1]
    assert deadlines[0].meter.steps == deadlines[1].meter.steps > 0
