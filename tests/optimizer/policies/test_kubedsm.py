"""Decisions of the whole policy: slower edges, machine load, odd objects, and the event loop."""

import itertools
from collections import Counter

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model.deadline import NO_DEADLINE, STEPS_PER_SECOND, URGENT_SHARE, Deadline
from kubedsm.model.measured import Measured
from kubedsm.model.model import MOST_OF_A_NODE, NodeName, Resources, SchedulingRules, Tier
from kubedsm.objective.fragmentation import Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Cause, MoveKind, SuggestLimits
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.policies import kubedsm
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.plugins.fit import unschedulable_message
from kubedsm.solvers.available import Highs
from support import drawing
from support.any_objects import objectives, qos_targets, snapshots
from support.drawing import examples
from support.placement_instances import GPU, drawn, node, pod, resources, snapshot
from support.placement_instances import drawn as placement_instance
from support.rule_instances import HOST, app, cluster, drawn_batch, evenly, zoned
from support.rule_instances import pod as ruled_pod
from support.suggest_instances import crowded_case, drawn_case, running

SSD = SchedulingRules(node_selector=(("disk", "ssd"),))
NONE = Bounds(states=0, steps=0, loads=0)
POLICY = KubeDSM(lambda _: QosTarget(), Objective())


@pytest.mark.parametrize("bounds", [Bounds(), NONE], ids=["tables", "beyond"])
@pytest.mark.parametrize("number", [1, 4])
def test_it_comes_to_a_crowded_cloud_rather_than_to_an_empty_edge(number, bounds):
    """Though on the edge it would join no replica; and where the cloud is full it comes there."""
    nodes = [node("e1", Tier.EDGE, 9, 64), node("e2", Tier.EDGE, 9, 64)]
    pods = [running(f"old-{at}", "web", resources(1), on="c1") for at in range(3)]
    pods.append(running("edge", "web", resources(1), on="e1"))
    batch = [pod(f"new-{at}", "web", resources(1)) for at in range(number)]
    for room, expected in ((9, 0), (4, number - 1)):
        shot = snapshot([*nodes, node("c1", Tier.CLOUD, room, 64)], [*pods, *batch])
        measured = Measured(1.0, slower=frozenset({pods[0].workload}))
        shot = attrs.evolve(shot, measured=measured)
        qos_targets = POLICY.qos_targets_in(shot)
        decision = immediate_schedule(shot, batch, qos_targets, POLICY.objective, bounds=bounds)
        assert len(decision.bindings) == number
        assert sum(b.tier is Tier.EDGE for b in decision.bindings) == expected


def test_no_move_brings_it_to_the_edge_and_it_is_said_why():
    seen = 0
    for seed in drawing.drawn(range(40)):
        case = crowded_case(seed, roomy=True)
        limits = attrs.evolve(case.limits, spread=False)
        args = case.objective, limits
        free = suggest(case.snapshot, case.qos_targets, *args)
        fetched = {m.pod.workload for m in free.moves if m.kind is MoveKind.CLOUD_TO_EDGE}
        if not fetched:
            continue
        shot = attrs.evolve(case.snapshot, measured=Measured(1.0, slower=frozenset({min(fetched)})))
        policy = KubeDSM(case.qos_targets, case.objective, limits)
        found = policy.suggest(shot, lambda _: None)
        assert found.after.qos >= found.before.qos
        to_edge = {m.pod.workload for m in found.moves if m.kind is MoveKind.CLOUD_TO_EDGE}
        assert min(fetched) not in to_edge
        said = {left.why.cause for left in found.rejected if left.pod.workload == min(fetched)}
        assert said <= {Cause.EDGE_SLOWER}
        seen += bool(said)
    assert seen >= 2


def two_tiers(*pods, cloud=2):
    nodes = [node("e1", Tier.EDGE, 4, 64), node("c1", Tier.CLOUD, cloud, 64)]
    shot = snapshot(nodes, [*pods])
    slower = frozenset({pods[0].workload})
    return attrs.evolve(shot, measured=Measured(1.0, slower=slower))


def test_no_pod_of_it_takes_the_place_of_another_at_the_edge():
    """A large one could leave, and a small one come, to free capacity for more beside it."""
    shot = two_tiers(
        running("web-0", "web", resources(4), on="e1"),
        running("web-1", "web", resources(1), on="c1"),
        running("api-0", "api", resources(1), on="c1"),
        cloud=9,
    )
    policy = attrs.evolve(
        POLICY, qos_targets=lambda w: QosTarget(weight=9 if w.name == "api" else 1)
    )
    found = policy.suggest(shot, lambda _: None)
    assert {move.pod.name for move in found.moves} == {"web-0", "api-0"}


def tight(cloud, *pods):
    """Cloud nodes of so much memory and an edge node of 2 GiB; the disk is on the first."""
    nodes = [node(f"c{at}", Tier.CLOUD, 4, size) for at, size in enumerate(cloud)]
    nodes[0] = attrs.evolve(nodes[0], labels={"disk": "ssd"})
    return snapshot([node("e0", Tier.EDGE, 4, 2), *nodes], [*pods])


def test_its_replicas_in_the_cloud_are_spread_there():
    nodes = [node("e1", Tier.EDGE, 4, 64), *(node(f"c{n}", Tier.CLOUD, 4, 64) for n in (1, 2))]
    pods = [running(f"web-{n}", "web", resources(1), on="c1") for n in range(2)]
    measured = Measured(1.0, slower=frozenset({pods[0].workload}))
    shot = attrs.evolve(snapshot(nodes, pods), measured=measured)
    policy = attrs.evolve(POLICY, limits=SuggestLimits(spread=True))
    found = policy.suggest(shot, lambda _: None)
    assert [(move.source, move.target) for move in found.moves] == [("c1", "c2")]


STUCK = pod("stuck", "stuck", resources(1, 3), rules=SSD)


def test_room_is_made_for_others_without_it():
    """There would be room if it went to the edge; as it may not, there is none."""
    web = running("web", "web", resources(1, 2), on="c0")
    shot = tight([4], web, STUCK)
    assert [move.pod.name for move in POLICY.pack_pods(shot, lambda _: None).moves] == ["web"]
    measured = Measured(1.0, slower=frozenset({web.workload}))
    assert not POLICY.pack_pods(attrs.evolve(shot, measured=measured), lambda _: None).moves


def test_one_that_waits_is_packed_into_the_cloud():
    db, web = running("db", "db", resources(1, 2), on="c0"), pod("web", "web", resources(1, 2))
    shot = tight([4, 2, 2], db, web, STUCK)
    shot = attrs.evolve(shot, measured=Measured(1.0, slower=frozenset({web.workload})))
    policy = attrs.evolve(
        POLICY, solver=Highs(), qos_targets=lambda w: QosTarget(weight=float(w.name == "web"))
    )
    found = policy.pack_pods(shot, lambda _: None)
    assert {move.pod.name: move.target[0] for move in found.awaited} == {"stuck": "c", "web": "c"}
    assert found.proven


def test_one_that_waits_is_told_the_same():
    """The cloud is full, and what is at the edge could make room for it there."""
    full = running("db-0", "db", resources(2), on="c1")
    edge = running("db-1", "db", resources(4), on="e1")
    waiting = pod("web-0", "web", resources(1))
    found = POLICY.suggest(two_tiers(waiting, full, edge), lambda _: None)
    assert (waiting, Cause.EDGE_SLOWER) in [(left.pod, left.why.cause) for left in found.rejected]


#: Seconds of a look at the clock on an idle machine, and the time limit.
IDLE, SECONDS = 1e-4, 2.0


def on_machine(slower, seconds=SECONDS, work=None):
    """The deadline on a machine that is so many times slower; `work`: seconds of work at most."""
    looks = iter(range(10**9))
    now = lambda: next(looks) * IDLE * slower  # noqa: E731
    return Deadline.within(seconds, now, 1 / 3 if work is None else work / seconds)


def drawn_decisions():
    """Functions from a deadline to a decision: of plain batches, ruled batches and suggestions."""
    for seed in range(8):
        case = placement_instance(seed, most=9)
        policy = attrs.evolve(POLICY, qos_targets=case.qos_targets)
        yield lambda d, p=policy, c=case: p.decide_batch(c.snapshot, c.batch, d)
        shot, waiting = drawn_batch(seed)
        yield lambda d, s=shot, w=waiting: POLICY.decide_batch(s, w, d)
        of = drawn_case(seed)
        mover = KubeDSM(of.qos_targets, of.objective, of.limits)
        yield lambda d, p=mover, c=of: p.suggest(c.snapshot, lambda _: None, d)


@pytest.mark.parametrize("part", [0.1, 0.5, 2.0])
def test_ten_times_slower_machines_decide_the_same(part):
    """Also where the work limit ends the search: after some part of the whole work."""
    limited = 0
    for decide in drawn_decisions():
        whole = Deadline()
        decide(whole)
        work = max(1, whole.meter.steps) * part / STEPS_PER_SECOND
        deadlines = [on_machine(slower, work=work) for slower in (1, 10)]
        idle, busy = map(decide, deadlines)
        assert idle == busy
        assert not busy.out_of_time
        assert deadlines[0].meter.steps == deadlines[1].meter.steps
        limited += deadlines[0].passed
    assert (limited > 5) == (part < 1)


def test_a_decision_says_that_the_time_limit_passed_first():
    struck = 0
    for decide in drawn_decisions():
        deadline = on_machine(1, seconds=IDLE / 2)
        decided = decide(deadline)
        assert decided.out_of_time == deadline.meter.out_of_time
        struck += decided.out_of_time
    assert struck > 10


def test_a_part_of_a_deadline_counts_for_the_whole():
    deadline = Deadline.within(6.0, lambda: 1.0)
    part = deadline.part(0.5)
    assert part.seconds == pytest.approx(1.0)
    assert part.spend(STEPS_PER_SECOND)
    assert not deadline.passed
    assert deadline.left == pytest.approx(1.0)
    assert deadline.spend(STEPS_PER_SECOND)


def test_solver_work_counts_and_does_not_depend_on_the_time_limit():
    case = placement_instance(3, most=60)
    policy = attrs.evolve(POLICY, qos_targets=case.qos_targets, solver=Highs(3.0))
    deadlines = [Deadline.within(seconds, lambda: 60.0, 0.05 / seconds) for seconds in (3, 30)]
    first, second = (policy.decide_batch(case.snapshot, case.batch, d) for d in deadlines)
    assert first == second
    assert deadlines[0].meter.steps == deadlines[1].meter.steps


NODES = [node("e1", Tier.EDGE), node("e2", Tier.EDGE), node("c", Tier.CLOUD, 64, 64)]


@examples(35)
@given(
    snapshots(),
    qos_targets,
    objectives,
    st.sampled_from(("exact", "paper")),
    st.sampled_from(Measure),
    st.sampled_from((0, 1, 6, 20)),
)
def test_every_object_that_the_api_accepts_is_decided_on(
    drawn, qos_target, objective, algorithm, measure, most
):
    limits = SuggestLimits(most, most, most, defragment=True)
    policy = KubeDSM(lambda _: qos_target, objective, limits, algorithm, measure)
    waiting = drawn.schedulable(drawn.pods.values())
    decision = policy.decide_batch(drawn, waiting)
    placed = {binding.pod.uid for binding in decision.bindings}
    assert placed | decision.unplaced.keys() == {pod.uid for pod in waiting}
    policy.suggest(drawn, lambda _: "")


def on_cloud(waiting):
    return attrs.evolve(waiting, node_name=NodeName("c"), phase="Running", ready=True)


def test_what_no_node_can_hold_is_set_aside_and_told():
    for amount in (MOST_OF_A_NODE + 1, 10**17, 10**18, 2**60, 2**63 - 1, 2**64):
        for asked in (Resources(cpu=amount), Resources(memory=amount), Resources.of({GPU: amount})):
            absurd = pod("absurd", "absurd", asked, priority=10)
            waiting = [pod(f"b-{i}", "b", resources(1, 1)) for i in range(3)]
            running = [
                attrs.evolve(
                    pod(f"a-{i}", "a", resources(2, 1), on="c"), phase="Running", ready=True
                )
                for i in range(3)
            ]
            there = snapshot(NODES, [*running, *waiting, absurd])
            gone = snapshot(NODES, [*running, *waiting])
            decision = POLICY.decide_batch(there, [absurd, *waiting])
            without = POLICY.decide_batch(gone, waiting)
            assert decision.bindings == without.bindings
            assert request_mix(there) == request_mix(gone)
            message = unschedulable_message(decision.unplaced[absurd.uid])
            [name] = [name for name, n in asked.items() if n]
            assert message == f"0/3 nodes are available: 3 Insufficient {name}."
            moves = POLICY.suggest(there, lambda _: "").moves
            assert moves
            assert moves == POLICY.suggest(gone, lambda _: "").moves


def test_a_running_pod_that_no_node_could_hold_is_left_where_it_is():
    asked = Resources(cpu=10**17)
    absurd = on_cloud(pod("a-0", "a", asked))
    suggestion = POLICY.suggest(snapshot(NODES, [absurd]), lambda _: "")
    assert [r.reason for r in suggestion.rejected] == ["it requests more than any node has"]


class Unasked:
    name = "unasked"

    def maximise(self, *_):
        raise AssertionError("a solver takes its time")


AT_ONCE = KubeDSM(lambda _: QosTarget(), Objective(), solver=Unasked())
WITHOUT = attrs.evolve(AT_ONCE, solver=None)


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
        for policy, looks in itertools.product((AT_ONCE, WITHOUT), (0, 3, 10**6)):
            found = policy.at_once(shot, batch, (), passing(looks))
            assert found in (None, (whole, ()))
            seen["given up" if found is None else "decided"] += 1
        assert (AT_ONCE.at_once(shot, batch, (), NO_DEADLINE) is not None) == enough
        assert WITHOUT.at_once(shot, batch, (), NO_DEADLINE) == (whole, ())
        seen["left"] += not enough
    assert min(seen["decided"], seen["given up"]) > 24
    assert seen["left"]


def test_many_classes_on_many_nodes_are_not_even_looked_at(monkeypatch):
    pods = [pod(f"a-{n}", "a", resources(1 + n)) for n in range(3)]
    shot = snapshot([node("e1", Tier.EDGE, 20), node("c1", Tier.CLOUD, 20)], pods)
    assert AT_ONCE.at_once(shot, pods, (), NO_DEADLINE) is not None
    monkeypatch.setattr(kubedsm, "_AT_ONCE", 5)
    assert AT_ONCE.at_once(shot, pods, (), NO_DEADLINE) is None
    assert AT_ONCE.at_once(shot, pods[:2], (), NO_DEADLINE) is not None


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
