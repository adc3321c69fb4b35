"""Bursts under one scheduler after the other, on an emulated cluster in virtual time."""

import asyncio
import math
import random
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import attrs
import orjson
import pytest
from structlog.testing import capture_logs

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import Configuration
from kubedsm.kube.client.port import ClusterError
from kubedsm_lab.baselines.cache_scheduler import Why
from kubedsm_lab.bench.api import Api
from kubedsm_lab.bench.burst.policy_process import (
    build_runtime,
    decode_lookups,
    encode_lookups,
    find_policy,
)
from kubedsm_lab.bench.burst.result import (
    BurstResult,
    Round,
    Side,
    rankings,
    sections,
    summarize_evenness,
    summarize_times,
)
from kubedsm_lab.bench.burst.run import Plan, run
from kubedsm_lab.bench.hollow_nodes import delete_nodes
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS
from kubedsm_lab.emulator.front import EmulatedFront
from support.answering_cluster import AnsweringCluster
from support.printed import printed
from support.worlds import CLOUD, EDGE, emulated


def ours(name, front, clock, rng):
    return Runtime(front, attrs.evolve(Configuration(), scheduler_name=name), clock, rng)


def another(name, *rest):
    return build_runtime(name, find_policy(name), *rest)


@asynccontextmanager
async def scheduling(world, *names, of=ours):
    """Our scheduler, or another one, under each of these names."""
    async with asyncio.TaskGroup() as tasks:
        running = []
        for name in names:
            front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
            runtime = of(name, front, world.clock, random.Random(0))
            running.append(tasks.create_task(runtime.run()))
            await runtime.synced.wait()
        yield
        for task in running:
            task.cancel()


async def bursts(world, *schedulers, **more):
    plan = {"pods": 5, "rounds": 1, "patience": 20.0, "image": "pause", **more}
    alone = plan.pop("alone", nullcontext)
    front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
    plan = Plan(schedulers=schedulers, **plan)
    return await run(front, world.clock, pytest.fail, plan, alone)


def left_of(world):
    own = "kubedsm-burst-"
    return [n["metadata"]["name"] for n in world.api.list(NAMESPACES) if own in str(n)]


async def test_each_scheduler_has_its_rounds_and_its_figures():
    async with emulated(EDGE, CLOUD) as world, scheduling(world, "kubedsm", "another"):
        bound_by = []

        def note(change):
            if change.resource is PODS and change.type == "ADDED":
                bound_by.append(change.object["spec"]["schedulerName"])

        world.api.store.subscribe(note)
        result = await bursts(world, "kubedsm", "another", rounds=2)
        assert bound_by == ["kubedsm"] * 5 + ["another"] * 10 + ["kubedsm"] * 5
        few = (await bursts(world, "kubedsm", pods=1)).sides[0]
    kubedsm, another = result.sides
    assert (kubedsm.scheduler, another.scheduler) == ("kubedsm", "another")
    assert len(kubedsm.rounds) == len(another.rounds) == 2
    medians = kubedsm.medians
    assert 0 < medians["watch.createdToBound.p50"] <= medians["watch.makespan"] < 500
    # QUICK has a pod Ready half a second after it is bound.
    assert medians["watch.boundToReady.mean"] == pytest.approx(500, abs=100)
    written = [each.figures["api.createdToReady.max"] for each in kubedsm.rounds]
    assert set(written) <= {0, 1000}
    for source in ("watch", "api"):
        assert medians[f"{source}.createdToReady.missing"] == 0
    assert medians["onAllNodes.pods.nodes"] == 2
    assert medians["onAllNodes.pods.mean"] == 2.5
    assert medians["onNodesUsed.cpu.jain"] == pytest.approx(1)
    assert kubedsm.ratios_to(another)["watch.boundToReady.mean"] == pytest.approx(1, abs=0.2)
    assert sum(kubedsm.fullest_nodes.values()) == 5
    said = result.as_json()
    assert (said["rounds"], said["emulated"]) == (2, True)
    assert said["topNodes"]["kubedsm"] == kubedsm.fullest_nodes
    # Nodes without a pod count among all nodes only.
    assert list(few.fullest_nodes.values()) == [1, 0]
    for what in ("pods", "cpu", "memory"):
        for where, nodes, jain in (("onAllNodes", 2, 0.5), ("onNodesUsed", 1, 1)):
            assert few.medians[f"{where}.{what}.nodes"] == nodes
            assert few.medians[f"{where}.{what}.jain"] == jain


async def test_an_interrupt_leaves_nothing_behind_either():
    async with emulated(EDGE, CLOUD) as world:
        running = asyncio.ensure_future(bursts(world, "absent"))
        await asyncio.sleep(2)
        assert len(left_of(world)) == 1
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(5)
        assert left_of(world) == []


@pytest.mark.parametrize(
    ("name", "decided_together"), [("kube-scheduler", {1}), ("kube-scheduler.batched", {20})]
)
async def test_other_policies_take_one_pod_at_a_time_or_all_that_wait(name, decided_together):
    with capture_logs() as logs:
        async with emulated(EDGE, CLOUD) as world, scheduling(world, name, of=another):
            result = await bursts(world, name, pods=20)
    batches = [log["pods"] for log in logs if log["event"] == "batch"]
    assert (sum(batches), set(batches)) == (20, decided_together)
    assert result.sides[0].medians["watch.createdToReady.missing"] == 0


async def test_what_a_score_cache_did_is_told_at_the_end():
    # On two nodes each ranking serves floor(.5 * 2) + 1 pods, which is all of it.
    name, policy = "cache-scheduler", find_policy("cache-scheduler")
    runs = partial(build_runtime, name, policy)
    async with emulated(EDGE, CLOUD) as world, scheduling(world, name, of=lambda _, *r: runs(*r)):
        await bursts(world, name, pods=20)
    assert decode_lookups(encode_lookups(policy)) == {"cold": 1, "hit": 10, "exhausted": 9}


@pytest.mark.parametrize(
    "line", [encode_lookups(find_policy("random")), b"watching", b'{"event":"a"}']
)
def test_others_have_no_cache_to_tell_of(line):
    assert decode_lookups(line) is None


async def test_pods_that_fit_nowhere_are_missing():
    async with emulated(EDGE) as world, scheduling(world, "kubedsm"):
        medians = (await bursts(world, "kubedsm", pods=120)).sides[0].medians
        assert medians["watch.createdToBound.missing"] == 10
        assert medians["api.createdToReady.missing"] == 10
        assert medians["onAllNodes.pods.max"] == 110


def rounds(*means, jain=1.0, pods=None):
    return [
        Round(
            {
                "watch.createdToBound.mean": mean,
                "watch.createdToBound.p99": 2 * mean,
                "watch.createdToBound.missing": 0.0,
                "api.createdToBound.mean": 1000.0,
                "onAllNodes.pods.jain": jain,
                "onNodesUsed.pods.jain": jain,
            },
            pods or {"n1": 3, "n2": 1},
        )
        for mean in means
    ]


RESULT = BurstResult(
    4,
    2,
    True,
    (
        Side("kubedsm", rounds(100.0, 300.0, 200.0)),
        Side("kube-scheduler", rounds(400.0, 400.0, 600.0, jain=0.8)),
        Side(
            "cache-scheduler",
            rounds(500.0, 100.0, 800.0),
            {Why.HIT: 9, Why.COLD: 1, Why.CONSUMED: 2},
        ),
    ),
)


def test_a_ratio_is_of_the_same_rounds_and_not_of_medians_and_says_who_is_ahead():
    first, _, third = RESULT.sides
    # 100 / 500, 300 / 100, 200 / 800; the medians' would be .4.
    assert first.ratios_to(third)["watch.createdToBound.mean"] == 0.25
    by_name = {ranking.what: ranking for ranking in rankings(RESULT)}
    mean = by_name["mean from created to bound"]
    assert mean.values == {"kubedsm": 200.0, "kube-scheduler": 400.0, "cache-scheduler": 500.0}
    assert mean.winners == ["kubedsm"]
    assert by_name["Jain's index of pods, all nodes"].winners == ["kubedsm", "cache-scheduler"]


def lines_of(result, title):
    return next(one.table[1] for one in sections(result) if one.title == title)


def test_table_3_and_the_score_caches_stand_beside_ours():
    lines = lines_of(RESULT, "Comparison with published figures")
    assert ["kubedsm, by watch", "200.0", "400.0", "-", "-", "1.0000", "-"] in lines
    published = ["default, published", "1175.0", "2673.3", "4958.3", "8673.3", "0.9919", "0.090"]
    assert published in lines
    assert ["cache, published", "801.7", "2000.0", "4818.3", "8670.0", "0.9917", "0.091"] in lines
    assert "the kubelets are emulated" in " ".join(printed(RESULT.report().rendered, 100).split())
    [line] = lines_of(RESULT, "Score caches")
    assert line == ["cache-scheduler", "3", "0.750", "9", "1", "0", "2", "0"]
    assert orjson.loads(orjson.dumps(RESULT.as_json()))["scoreCaches"] == {
        "cache-scheduler": {
            "passes": 3,
            "hitRate": 0.75,
            "looks": {"hit": 9, "cold": 1, "consumed": 2},
        }
    }
    without = BurstResult(4, 2, False, RESULT.sides[:2])
    shown = printed(without.report().rendered, 200)
    assert "Fullest nodes" in shown
    assert "Score caches" not in shown
    assert "emulated" not in shown


def test_quantiles_are_interpolated_linearly_between_the_ranks_from_0_to_n_minus_1():
    # 0, 10, .. 100 ms: rank (11 - 1) p is at 100 p ms; the order they come in is nothing to it.
    said = summarize_times([n / 100 for n in (10, 3, 4, 5, 0, 6, 1, 7, 8, 2, 9)], 13)
    assert said == pytest.approx(
        {"mean": 50, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100, "missing": 2}
    )
    assert summarize_times([0.1, 0.2], 2)["p90"] == pytest.approx(190)
    assert summarize_times([], 3) == {"missing": 3}


def test_evenness_of_four_nodes():
    # Sum 10, squares 9 + 1 + 36 = 46; the population's variance 46 / 4 - 2.5^2 = 5.25.
    said = summarize_evenness([3, 1, 6, 0])
    assert said == pytest.approx(
        {
            "nodes": 4,
            "min": 0,
            "max": 6,
            "mean": 2.5,
            "std": math.sqrt(5.25),
            "cv": math.sqrt(5.25) / 2.5,
            "jain": 100 / (4 * 46),
        }
    )


async def test_a_refused_deletion_leaves_no_other_hollow_node():
    cluster = AnsweringCluster({"message": "etcd is full"}, status=500)
    with pytest.raises(ClusterError, match="etcd is full"):
        await delete_nodes(Api(cluster), ["n1", "n2"])
    assert [r.path.rpartition("/")[2] for r in cluster.asked] == ["n1", "n1", "n2", "n2"]
