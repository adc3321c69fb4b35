"""Why a pod is where it is, or waits: one sentence first, then every node by rule."""

import attrs
import pytest

from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.pod import NOT_RECORDED, explain_pod
from kubedsm.model.events import PodApplied
from support.asked import lines_of, links_of, section
from support.worlds import CLOUD, EDGE, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


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
        world.deploy("web", 5)
        await world.until_bound(5, 10)
        await world.until(lambda: all(pod["spec"].get("nodeName") for pod in world.pods()), 5)
        [edge, cloud] = (
            about_pod(runtime.decisions, named(runtime, "web", node)) for node in ("e1", "c1")
        )
        assert lines_of(edge)[0].endswith(
            "an edge node: default/web targets 5 of its 5 pods at the edge (100%) and had 0."
        )
        assert lines_of(edge)[1].endswith("scheduled it there, together with 4 more.")
        assert {("decision", "1"), ("node", "e1"), ("workload", "default/web")} <= links_of(edge)
        assert section(edge, "Nodes by rule") == ["2: e1, c1 | feasible | "]
        assert lines_of(cloud)[0].endswith(
            "c1, a cloud node: no edge node was feasible (1 Insufficient cpu)."
        )
        assert section(cloud, "Nodes by rule")[1] == (
            "e1 | NodeResourcesFit: Insufficient cpu | free 1 cpu on the node"
        )


async def test_a_pod_that_waits_is_told_the_rule_that_holds_it_in_the_first_sentence():
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        world.deploy("big", 1, cpu="30")
        await world.until(lambda: world.events("FailedScheduling"), 10)
        name = named(runtime, "big")
        told = about_pod(runtime.decisions, name)
        assert told.title == f"Why {name} waits"
        assert lines_of(told)[0] == (f"{name} waits for a node: NodeResourcesFit rejects 2 nodes.")
        assert lines_of(told)[1].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        [row] = section(told, "Nodes by rule")
        assert row == (
            "2: c1, e1 | NodeResourcesFit: Insufficient cpu | c1: use a larger node, or request at"
            " most 20 cpu; e1: use a larger node, or request at most 4 cpu"
        )


async def test_what_is_not_remembered_is_told_from_what_is_so_now():
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        world.deploy("web", 1)
        await world.until_bound(1, 10)
        name = named(runtime, "web", "e1")
        runtime.decisions.record = DecisionRecord(world.clock)
        told = about_pod(runtime.decisions, name)
        assert lines_of(told)[1] == NOT_RECORDED
        assert section(told, "Nodes by rule, as they are now") == ["2: e1, c1 | feasible | "]


async def test_a_decision_for_another_node_is_not_what_put_it_there():
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        world.deploy("web", 1)
        await world.until_bound(1, 10)
        mirror, name = runtime.mirror, named(runtime, "web", "e1")
        await world.until(lambda: all(p.node_name for p in mirror.snapshot().pods.values()), 5)
        [pod] = mirror.snapshot().pods.values()
        mirror.apply(PodApplied(attrs.evolve(pod, node_name="c1")))
        told = about_pod(runtime.decisions, name)
        assert lines_of(told)[:2] == [f"{name} is on c1, a cloud node.", NOT_RECORDED]
        mirror.apply(PodApplied(pod))


async def test_what_is_another_schedulers_is_left_alone_and_one_nobody_knows_is_nothing():
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        world.deploy("theirs", 1, schedulerName="default-scheduler")
        await world.until(lambda: runtime.mirror.snapshot().pods, 10)
        told = about_pod(runtime.decisions, named(runtime, "theirs"))
        assert (
            "its schedulerName is default-scheduler, so KubeDSM leaves it alone."
            in lines_of(told)[0]
        )
        assert lines_of(told)[1].startswith("To opt in, set spec.template.spec.schedulerName")
        assert about_pod(runtime.decisions, "default/nobody") is None
