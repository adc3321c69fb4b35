"""Why: of a pod, a node, a workload, a migration and a decision, one sentence first."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest
from msgspec.structs import replace

from kubedsm.config.settings import load
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.explainer import Explainer
from kubedsm.explain.explanation import amount
from kubedsm.explain.facts import PodFacts
from kubedsm.explain.migration import MigrationExplainer
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.explain.node import NodeExplainer, recent_migrations
from kubedsm.explain.pod import NOT_RECORDED, explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.explain.subjects import Subject, find_workload
from kubedsm.explain.workload import WorkloadExplainer
from kubedsm.model.events import PodApplied
from kubedsm.model.model import Tier
from kubedsm.model.sites import Away
from kubedsm.optimizer.moving.suggestion import ClusterScore, Move, MoveKind, Suggestion
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm_lab.replay.judgement.scene import run_job
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.migration import MoveMode, MoveOrder, migration_plan
from plans.steps import StepKind, StepState
from support.asked import lines_of, section
from support.placement_instances import node, resources, snapshot
from support.placement_instances import pod as made_pod
from support.printed import printed
from support.worlds import CLOUD, EDGE, emulated, scheduled


def links_of(answer):
    """Return the objects that an explanation links to: kind and key."""
    cells = [
        cell for part in answer.sections if part.table for row in part.table.rows for cell in row
    ]
    lines = [*answer.lines, *(line for part in answer.sections for line in part.lines)]
    words = (word for sentence in (*lines, *cells) for word in sentence)
    return {(word.kind, word.key) for word in words if not isinstance(word, str)}


#: the edge goes to `log` first, to which nothing is promised
CONFIGURATION = load(
    "services: {'*': {qos: 0}, default/web: {qos: 0.8, weight: 2}}\nsuggester: {period: 1s}\n"
    "batch: {migrationWait: 0s}",
    "test",
)


@asynccontextmanager
async def swapped():
    """Of a cluster where two pods were swapped for two others."""
    async with scheduled(emulated(EDGE, CLOUD, configuration=CONFIGURATION)) as world:
        await world.bring_up("log", 4, within=10)
        await asyncio.sleep(5)
        await world.bring_up("web", 2, within=10)
        await world.until(lambda: world.placed("web") == {"e1": 2}, 60)
        await asyncio.sleep(5)
        yield world.runtime


def explained(runtime, kind, name):
    return runtime.explanations.collect(Subject(kind, name))()


async def test_each_is_told_with_its_reason_first():
    async with swapped() as runtime:
        record, snapshot = runtime.decisions.record, runtime.mirror.snapshot()

        node = explained(runtime, "node", "e1")
        assert lines_of(node)[0] == (
            "e1 is an edge node; it holds 4 pods, and 0 of 4 cpu and 4.29 of 8 GiB memory are free"
            " for requests."
        )
        assert section(node, "Pods on it")[1] == (
            "default/web | 2 | 2 cpu, 1.86 GiB memory | 2 of 2 at the edge (80%): met"
        )
        [rejected] = section(node, "Recently rejected")
        assert rejected.startswith("default/web-")
        assert rejected.endswith(" | then | NodeResourcesFit: Insufficient cpu | decision 2")
        # Narrow terminals leave other columns out.
        narrow = printed(render_text(node), 60).partition("Migrations from and to it")[0]
        assert rejected.split(" | ")[0] in narrow
        assert len(section(node, "Migrations from and to it")) == 4
        assert (node.facts.free["cpu"], node.facts.allocatable["cpu"]) == (0, 4000)
        away = Away(partitioned={"s": frozenset({"e1"})})
        cut = NodeExplainer(snapshot.nodes["e1"], snapshot, CONFIGURATION, away).explain()
        assert lines_of(cut)[1] == "It accepts no pods now: it is partitioned."
        assert section(cut, "Recently rejected") is None

        [batch, *_] = [e for e in record.newest_first() if e.pods]
        decision = explained(runtime, "decision", str(batch.number))
        assert lines_of(decision)[0] == "Decision 2 at then scheduled 2 new pods to the cloud."
        suggestion = explained(runtime, "decision", "3")
        assert lines_of(suggestion)[0] == "Decision 3 at then was to migrate 2 pods: 2 completed."
        assert section(suggestion, "Edge shares") == [
            "default/log | 4 of 4 | 3 of 4",
            "default/web | 0 of 2 | 1 of 2",
        ]

        outcome = next(m for m in record.entry(3).moves if m.move.pod.workload.name == "web")
        move = explained(runtime, "migration", outcome.id)
        assert lines_of(move)[0] == (
            f"{outcome.move.pod} was migrated from c1 to e1: 2 of 2 pods missing at the edge."
        )
        assert ("pod", str(outcome.replacement)) in links_of(move)
        assert section(move, "Benefit")[1] == (
            "default/web had 0 of its 2 pods at the edge; all migrations of the decision together"
            " make that 1 of 2."
        )
        [*_, took] = [line for line in section(move, "Cost") if line.startswith("It took")]
        assert took.endswith(" s, until then.")
        assert section(move, "Steps")[:3] == [
            "then | its turn came, and capacity is reserved on e1",
            f"then | {outcome.move.pod} was detached from its owner",
            f"then | the owner created {outcome.replacement}",
        ]
        assert "default/web has 2 of its 2 pods at the edge now." in section(move, "Effect")
        assert move.facts.id == outcome.id

        pod = explained(runtime, "pod", str(outcome.replacement))
        assert (
            f"it replaces {outcome.move.pod} on c1, 2 of 2 pods missing at the edge"
            in lines_of(pod)[0]
        )
        assert ("move", outcome.id) in links_of(pod)

        web = explained(runtime, "workload", "deployment/default/web")
        [first, second] = lines_of(web)
        assert first == (
            "default/web has 2 of its 2 pods at the edge and targets 2 (80%): the QoS target is"
            " met."
        )
        assert second == "Its QoS target is set by the entry default/web of services: qos."
        assert section(web, "Nodes of its pods") == ["e1 | edge | 2"]

        # The decision's targets, mode and price count, not those of today.
        runtime.configuration.replace("migration: {mode: recreate, price: 1s}", "test", 0.0)
        assert explained(runtime, "migration", outcome.id) == move


async def test_a_surplus_at_the_edge_is_told_and_so_is_a_kind_without_a_target():
    configuration = load("services: {default/web: {qos: 0.3}}", "test")
    async with scheduled(emulated(EDGE, CLOUD, configuration=configuration)) as world:
        world.deploy("web", 3)
        run_job("etl", 1, 60)(world.cluster)
        await world.until_bound(4, 10)
        [first, _] = lines_of(explained(world.runtime, "workload", "deployment/default/web"))
        assert first == (
            "default/web has 3 of its 3 pods at the edge and targets 1 (30%): the QoS target is"
            " met, and the surplus of 2 pods stays until others need the capacity."
        )
        assert lines_of(explained(world.runtime, "workload", "job/default/etl")) == [
            "default/etl has 0 of its 1 pod at the edge and targets 0 (0%): the QoS target is met.",
            (
                "A Job targets no pods at the edge unless services says so: default/etl or Job is"
                " the key."
            ),
        ]


async def test_an_annotation_that_sets_a_target_is_named_with_its_limit():
    configuration = load("tenants: {maxQos: 0.5}", "test")
    async with emulated(EDGE, configuration=configuration) as world, world.scheduler() as runtime:
        for name, qos in (("full", "1"), ("half", "0.5")):
            world.create_pod(name, annotations={"kubedsm.io/qos": qos})
        await world.until_bound(2, 10)
        sources = [
            lines_of(explained(runtime, "workload", f"default/{name}"))[1]
            for name in ("full", "half")
        ]
        said = "Its QoS target is set by annotation kubedsm.io/qos of default"
        assert sources == [f"{said}/full, at most 50%.", f"{said}/half."]


async def test_a_migration_in_progress_is_told_with_its_step():
    async with scheduled(emulated(EDGE, CLOUD, configuration=CONFIGURATION)) as world:
        runtime = world.runtime
        await world.bring_up("log", 4, within=10)
        await asyncio.sleep(5)
        world.deploy("web", 1)
        record = runtime.decisions.record
        await world.until(lambda: any(e.moves for e in record.newest_first()), 60)
        [key, *_] = [m.key for e in record.newest_first() for m in e.moves]
        await world.until(
            lambda: explained(runtime, "migration", key).title.endswith("is being migrated"), 60
        )
        migration = explained(runtime, "migration", key)
        assert " is in progress: " in lines_of(migration)[1]
        entry, _ = record.migration(key)
        decision = explained(runtime, "decision", str(entry.number))
        assert " 1 moving" in lines_of(decision)[0]


async def test_what_keeps_the_missing_ones_away_is_told_of_each():
    async with swapped() as runtime:
        asked = load("services: {default/log: {qos: 1}, default/web: {qos: 0.8}}", "test")
        snapshot = runtime.mirror.snapshot()
        log = find_workload(snapshot, "default/log")
        found = await runtime.planner.solve(runtime.migrator.what_if(Hypothesis()))
        answer = WorkloadExplainer(snapshot, asked, log, found).explain()
        assert lines_of(answer)[0] == (
            "default/log has 2 of its 4 pods at the edge and targets 4 (100%): 2 pods missing."
        )
        assert all(" | c1 | " in row for row in section(answer, "Pods kept off the edge"))
        without = WorkloadExplainer(snapshot, asked, log).explain()
        assert {row.split(" | ")[2] for row in section(without, "Pods kept off the edge")} == {
            "no edge node is feasible: NodeResourcesFit rejects 1 node"
        }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("migration: {mode: 'off'}", "its migration mode is off"),
        ("migration: {price: 1h}", "its group gains 65.0 pod-seconds, no more than its price of"),
    ],
)
async def test_a_pod_that_an_edge_node_would_accept_is_told_why_it_stays(text, why):
    """The suggestion names one of several equal pods, and all have its reason."""
    configuration = load(f"{text}\nbatch: {{migrationWait: 0s}}", "test")
    async with scheduled(emulated(EDGE, CLOUD, configuration=configuration)) as world:
        runtime = world.runtime
        await world.bring_up("log", 4, within=10)
        await world.bring_up("web", 2, within=10)
        world.scale("log", 1)
        await asyncio.sleep(5)
        snapshot = runtime.mirror.snapshot()
        web = find_workload(snapshot, "default/web")
        suggested = await runtime.planner.solve(runtime.migrator.what_if(Hypothesis()))
        accepts = "an edge node would accept it"
        stays = why if "off" in why else "no migration of it is suggested now"
        for known, told in (
            (suggested, why),
            (attrs.evolve(suggested, left=()), f"{accepts}, but {stays}"),
            (None, f"{accepts}, but {why}" if "off" in why else accepts),
        ):
            found = WorkloadExplainer(snapshot, configuration, web, known).explain()
            rows = section(found, "Pods kept off the edge")
            assert len(rows) == 2
            assert all(row.split(" | ")[2].startswith(told) for row in rows)
        pending = [attrs.evolve(p, node_name=None) for p in snapshot.pods.values()]
        for pod in pending:
            runtime.mirror.apply(PodApplied(pod))
        found = WorkloadExplainer(runtime.mirror.snapshot(), configuration, web, None).explain()
        rows = section(found, "Pods kept off the edge")
        assert {row.split(" | ")[1:][1] for row in rows} == {accepts}


def named(runtime, app, node=None):
    """A pod of the app that is on the node."""
    snapshot = runtime.mirror.snapshot()
    pods = snapshot.pods.values()
    return min(
        str(p) for p in pods if p.workload.name == app and snapshot.placed.get(p.uid) == node
    )


def about_pod(decisions, name):
    """The explanation by what is recorded; None if nothing is known of the pod."""
    for uid, full_name in decisions.find_pods(name).items():
        return explain_pod(decisions.facts_of_pod(uid, full_name)())
    return None


async def test_where_a_pod_is_is_told_with_its_reason_first():
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        await world.bring_up("web", 5, within=10)
        await world.until(lambda: all(pod["spec"].get("nodeName") for pod in world.pods()), 5)
        [edge, cloud] = (
            about_pod(runtime.decisions, named(runtime, "web", node)) for node in ("e1", "c1")
        )
        assert lines_of(edge)[0].endswith(
            "an edge node: default/web targets 5 of its 5 pods at the edge (100%) and had 0."
        )
        assert (
            lines_of(edge)[1] == "Decision 1 at then, a decision about 5 pods, scheduled it there."
        )
        assert {("decision", "1"), ("node", "e1"), ("workload", "default/web")} <= links_of(edge)
        assert section(edge, "Nodes by rule") == ["2: e1, c1 | feasible | "]
        assert lines_of(cloud)[0].endswith(
            "c1, a cloud node: no edge node was feasible (1 Insufficient cpu)."
        )
        assert section(cloud, "Nodes by rule")[1] == (
            "e1 | NodeResourcesFit: Insufficient cpu | free 1 cpu on the node"
        )


async def test_what_is_not_remembered_is_told_from_what_is_so_now():
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        await world.bring_up("web", 1, within=10)
        mirror, name = runtime.mirror, named(runtime, "web", "e1")
        await world.until(lambda: all(p.node_name for p in mirror.snapshot().pods.values()), 5)
        # A decision for another node is not what put it there.
        [pod] = mirror.snapshot().pods.values()
        mirror.apply(PodApplied(attrs.evolve(pod, node_name="c1")))
        told = about_pod(runtime.decisions, name)
        assert lines_of(told)[:2] == [f"{name} is on c1, a cloud node.", NOT_RECORDED]
        mirror.apply(PodApplied(pod))
        runtime.decisions.record = DecisionRecord(world.clock)
        told = about_pod(runtime.decisions, name)
        assert lines_of(told)[1] == NOT_RECORDED
        assert section(told, "Nodes by rule, as they are now") == ["2: e1, c1 | feasible | "]
        assert about_pod(runtime.decisions, "default/nobody") is None
        assert runtime.explanations.collect(Subject("decision", "9" * 5000)) is None


def test_sentences_about_a_pod_hold_in_every_state():
    """Nodes that were not evaluated are no missing nodes, and a finished pod is on no node."""

    def first(state, **more):
        told = explain_pod(PodFacts("shop/a", (), state=state, **more))
        return told.title, lines_of(told)[0]

    waits = "Why shop/a waits"
    assert first("waiting", nodes_as_of="now", recorded=True) == (
        waits,
        "shop/a waits for a node: there are no nodes.",
    )
    assert first("waiting", recorded=True) == (waits, "shop/a waits for a node.")
    gated = "shop/a is gated: it waits until"
    assert first("gated", gates=("x",)) == (waits, f"{gated} x is removed.")
    assert first("gated", gates=("x", "y")) == (waits, f"{gated} x and y are removed.")
    finished = ("State of shop/a", "shop/a has finished.")
    assert first("finished", bound=True, chosen="e1") == first("finished") == finished


@pytest.mark.parametrize("recorded", [True, False])
def test_the_reason_in_an_event_is_told_once_and_a_time_in_seconds(recorded):
    facts = PodFacts(
        "shop/a", (), state="placed", chosen="e1", decided_at="2026-01-01T00:00:01.5Z",
        decision=1, summary="edge node; 2 of 2 nodes feasible", recorded=recorded,
    )  # fmt: skip
    told = printed(render_text(explain_pod(facts)))
    assert told.count("edge node; 2 of 2 nodes feasible") == 1
    assert " at 2026-01-01T00:00:01Z " in told


def test_amounts_have_all_digits_before_the_point():
    gib = 2**30
    assert amount("ephemeral-storage", 1777 * gib, 1862 * gib) == (
        "1777 of 1862 GiB ephemeral-storage"
    )
    assert amount("hugepages-2Mi", gib, 2 * gib) == "1 of 2 GiB hugepages-2Mi"
    assert amount("cpu", 999_600) == "1000 cpu"
    assert amount("pods", 7, 1100) == "7 of 1100 pods"


def test_a_node_that_holds_one_leaving_pod_is_told_so():
    full = node("e1", Tier.EDGE, pods=1)
    leaving = attrs.evolve(made_pod("a", "a", resources(1), on="e1"), terminating=True)
    new = made_pod("b", "b", resources(1))
    there = snapshot([full], [leaving, new])
    told = NodeExplainer(full, there, CONFIGURATION).explain()
    assert section(told, "Pods on it") == [
        "shop/a | 1 | 1 cpu, 0 GiB memory | none: its pods are being removed"
    ]
    [verdict] = Explainer(there, CONFIGURATION.policy).explain(new).nodes
    assert verdict.change == "free 1 pod on the node"


async def test_a_node_lists_the_latest_of_a_pods_migrations_and_a_rollback_is_no_last_step():
    web = made_pod("web", "web", resources(1))
    move = Move(web, "c1", "e1", MoveKind.CLOUD_TO_EDGE)
    record = DecisionRecord(VirtualClock())
    here, before = snapshot([], [web]), ClusterScore(0, {}, 0)
    for state in (Outcome.PROPOSED, Outcome.PLANNED):
        outcome = MoveOutcome("m", move, state)
        record.suggestion(here, Suggestion(before, before), [outcome], load("", "test"))
    assert [state for *_, state in recent_migrations(record, "e1")] == ["planned"]
    plan = migration_plan("p", [MoveOrder("m", web.uid, "e1", MoveMode.SURGE, 60.0)])
    steps = [
        replace(step, state=StepState.ASKED if step.kind is StepKind.RESTORE else step.state)
        for step in (replace(step, state=StepState.CANCELLED) for step in plan.steps)
    ]
    record.plan_advanced(replace(plan, steps=tuple(steps)), steps)
    told = MigrationExplainer.find(record, "m", here).explain()
    assert lines_of(told)[1] == f"It is being rolled back: restoring {web} to its owner."
