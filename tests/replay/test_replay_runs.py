"""Whole runs in virtual time, their films, and virtual time itself."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import attrs
import pytest

from kubedsm.config import settings
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.execution.bind_calls import DELETION_COST_ANNOTATION
from kubedsm.kube.client.port import Request
from kubedsm_lab.bench.processes import family
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay import virtual_time
from kubedsm_lab.replay.films import PICTURE
from kubedsm_lab.replay.measures import measure
from kubedsm_lab.replay.plain_bindings import PlainBindings
from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.variants import BASELINES, CONTENDERS
from kubedsm_lab.replay.virtual_time import StandstillError, run_in_virtual_time
from kubedsm_lab.replay.world import Run, Setup, play
from loadgen.generators import normal, serve_replicas
from loadgen.scenario import dumps
from support import command_line, processes
from support.answering_cluster import AnsweringCluster
from support.forked import Forked

#: three cycles of half a minute
SHORT = normal(1.5, 0.4, seed=3, cycles=3, cycle_seconds=30)


def short(policy, *, seed=1, **setup):
    return Run("short", SHORT, policy, seed, Setup(**setup))


@pytest.mark.parametrize("policy", CONTENDERS)
def test_everybody_places_the_paper_s_services(policy):
    result = carry_out(short(policy)).measures
    assert 0 <= result.edge_ratio <= result.edge_ratio / (result.optimum_share or 1) <= 1
    assert result.optimum_share <= 1
    assert result.unanswered == 0
    assert result.lost_pod_seconds == 0
    assert 0 < result.pending_seconds.mean < 1
    if policy in BASELINES or policy == "no-migration":
        assert result.migrations == 0


def test_in_the_closed_loop_nothing_queues_and_slow_answers_need_fewer_pods():
    """With 100 ms a service has 8 answers a second at most: two pods of 5 requests a second."""
    found = carry_out(short("kubedsm", closed_loop=True))
    for times in found.measures.latency_ms.values():
        assert times.mean == pytest.approx(times.network + 100, abs=0.01)
    most = {max(pods for _, _, pods in steps) for steps in found.placements.values()}
    assert max(most) <= 2
    assert found == carry_out(short("kubedsm", closed_loop=True))


def test_with_a_rest_the_load_begins_and_ends_with_one_pod_of_each_service():
    found = carry_out(short("kube-scheduler", rest=60.0))
    assert found.end == pytest.approx(SHORT.duration + 60)
    for steps in found.placements.values():
        assert (steps[0][2], steps[-1][2]) == (1, 1)
    assert 0 < found.measures.pod_ratio < 1
    assert carry_out(short("kube-scheduler")).measures.pod_ratio is None


def test_nobody_is_asked_whose_answers_depend_on_the_machine(monkeypatch):
    asked = set()
    monkeypatch.setattr(settings, "solver_of", lambda kind, _: asked.add(kind))
    carry_out(short("kubedsm"))
    assert asked == {"off"}


def test_twins_have_the_same_on_an_edge_for_half_of_them():
    nodes = [("e1", "edge", "3"), ("e2", "edge", "3"), ("c1", "cloud", "100")]
    cluster = ClusterSpec([node(name, tier, cpu, "99Gi") for name, tier, cpu in nodes])
    twins = tuple(ServiceSpec(name, "250m", "256Mi", replicas=(1, 60)) for name in "xy")
    scenario = serve_replicas({"x": [24, 24], "y": [24, 24]}, 30.0, "http://{service}/")
    result = carry_out(Run("twins", scenario, "kubedsm", 1, Setup(cluster, twins))).measures
    assert result.shares["x"] == pytest.approx(0.5, abs=1 / 24)
    assert result.shares["y"] == pytest.approx(0.5, abs=1 / 24)


def test_the_timeline_begins_with_the_scenario_and_ends_with_it():
    record = play(short("kubedsm"))
    timeline = record.timeline
    assert timeline.end == pytest.approx(SHORT.duration)
    assert timeline.beginning < -10
    assert set(timeline.levels()[0].shares) == {"a", "b", "c", "d"}
    assert {name: steps[0][1] for name, steps in timeline.replicas.items()} == dict.fromkeys(
        "abcd", 1
    )
    assert [node.name for node in record.edge] == ["n2", "n3", "n4"]


def test_pods_evicted_before_their_successors_are_ready_are_moves_that_cost():
    recreating = attrs.evolve(Configuration(), migration=MigrationSettings(mode="recreate"))
    runs = [
        Run("1.3-.4", normal(1.3, 0.4, seed=1, cycles=4), "kubedsm", 1, Setup(configuration=c))
        for c in (Configuration(), recreating)
    ]
    surge, recreate = (measure(run, play(run)) for run in runs)
    assert surge.migrations > 0
    assert surge.lost_pod_seconds == 0
    assert recreate.migrations > 0
    # one start of 3 s a move, and the way to the replacement
    assert 2 < recreate.lost_pod_seconds / recreate.migrations < 6


def test_a_cluster_without_room_leaves_pods_waiting_and_says_nothing_of_the_ratio():
    small = ClusterSpec((node("e1", "edge", "2", "4Gi"),))
    result = carry_out(short("kubedsm", cluster=small)).measures
    assert result.edge_ratio is None
    assert result.pending_seconds.p95 > SHORT.duration
    assert result.unanswered > 0


def runs_still(pid):
    """Whether it has not ended; one that has may be waited for by nobody."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


#: next to the thread no process is forked
BESIDE_A_THREAD = """
import threading, time
from kubedsm_lab.replay.runner import spread
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
list(spread(time.sleep, [60, 60], 2))
"""
#: two workers each
RUNS = {
    "forked": lambda: Forked(("replay", "1.5-.4", "--seeds", 20, "--jobs", 2)),
    "spawned": lambda: subprocess.Popen([sys.executable, "-c", BESIDE_A_THREAD]),
}


# The run, two workers, and for those that are spawned multiprocessing's resource tracker.
@pytest.mark.parametrize(("workers", "processes"), [("forked", 3), ("spawned", 4)])
def test_workers_end_with_a_run_that_is_killed(workers, processes):
    run = RUNS[workers]()
    while len(started := family(run.pid)) < processes and run.poll() is None:
        time.sleep(0.05)
    run.kill()
    run.communicate(timeout=60)
    assert len(started) == processes
    while any(map(runs_still, started)):
        time.sleep(0.05)


def test_another_hash_seed_gives_the_same_bytes(tmp_path):
    scenario = tmp_path / "short.json"
    scenario.write_text(dumps(normal(1.5, 0.4, seed=3, cycles=2, cycle_seconds=20)))
    command = ("replay", scenario, "-o", "json", "--policies", "kubedsm,paper-suggester")
    here = command_line.kubedsm(*command, "--jobs", "1")
    another = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = processes.kubedsm(*command, "--jobs", "1", env=another)
    assert (here.stdout, here.stderr) == (there.stdout, "")
    assert json.loads(here.stdout)["emulated"] is True


async def test_baselines_bind_without_our_word_on_scaling_down():
    body = {
        "metadata": {"name": "a", "annotations": {DELETION_COST_ANNOTATION: "-100", "other": "1"}},
        "target": {"name": "n5"},
    }
    cluster = AnsweringCluster()
    plain = PlainBindings(cluster)
    await plain.request(
        Request("POST", "/api/v1/namespaces/x/pods/a/binding", body=body), timeout=1
    )
    await plain.request(Request("PATCH", "/api/v1/namespaces/x/pods/a", body=body), timeout=1)
    bound, patched = (request.body for request in cluster.asked)
    assert bound == {
        "metadata": {"name": "a", "annotations": {"other": "1"}},
        "target": body["target"],
    }
    assert patched == body


#: Replicas of one service while its twin has the other number: twice the capacity of the edge.
OSCILLATIONS = {"osc": (20, 26), "osc2": (22, 24)}
NODES = (("e1", "edge", "3", "8Gi"), ("e2", "edge", "3", "8Gi"), ("c1", "cloud", "100", "200Gi"))


def played(name, policy):
    few, many = OSCILLATIONS[name]
    replicas = {"x": (few, many) * 3, "y": (many, few) * 3}
    scenario = serve_replicas(replicas, 90.0, "http://{service}/")
    services = tuple(ServiceSpec(twin, "250m", "256Mi", replicas=(1, 60)) for twin in replicas)
    usual = Setup()
    cluster = ClusterSpec(tuple(node(*each) for each in NODES), usual.cluster.timing)
    setup = attrs.evolve(usual, cluster=cluster, services=services)
    return carry_out(Run(name, scenario, policy, 1, setup)).measures


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("osc2", "kubedsm"),
        pytest.param("osc", "migration.price=0s", marks=pytest.mark.long),
    ],
)
def test_moving_is_never_worse_than_not_to_move(name, policy):
    moving, still = played(name, policy), played(name, "no-migration")
    assert moving.edge_ratio >= still.edge_ratio
    assert moving.migrations <= 20
    assert still.migrations == 0


SCENARIO = normal(1.5, 0.4, seed=1, cycles=3)


@cache
def filmed(policy):
    return carry_out(Run("short", SCENARIO, policy, 1, Setup(), filmed=True))


def messages(outcome):
    return [json.loads(line) for line in outcome.film.splitlines()]


@pytest.mark.parametrize("policy", ["kubedsm", "kube-scheduler"])
def test_a_run_goes_the_same_way_when_it_is_filmed(policy):
    outcome = filmed(policy)
    assert outcome.film
    run = Run("short", SCENARIO, policy, 1, Setup())
    assert attrs.evolve(outcome, film=b"") == carry_out(run)


def test_a_film_goes_from_the_beginning_of_the_scenario_to_its_end():
    first, *rest = messages(filmed("kubedsm"))
    assert (first["type"], {each["type"] for each in rest}) == ("snapshot", {"changes"})
    assert set(first["rows"]["workloads"]) == {f"default/{name}" for name in "abcd"}
    versions = [each["version"] for each in (first, *rest)]
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    moments = [each["at"] for each in (first, *rest)]
    assert all(b - a > PICTURE - 0.01 for a, b in itertools.pairwise(moments[:-1]))
    assert moments[-1] - moments[0] == pytest.approx(SCENARIO.duration)


def test_moves_are_seen_step_by_step():
    rows = [
        row
        for each in messages(filmed("objective.evenness=0"))
        for row in each["rows"].get("moves", {}).values()
    ]
    assert {"moving", "completed"} <= {row["state"] for row in rows if row}
    assert len({row["step"].partition(" ")[0] for row in rows if row and row.get("step")}) > 1


def test_the_same_run_is_the_same_film():
    outcome = filmed("kubedsm")
    assert outcome == filmed.__wrapped__("kubedsm")
    # In another process sets have another order.
    tables = [rows for each in messages(outcome) for rows in each["rows"].values()]
    assert all(list(rows) == sorted(rows) for rows in tables)


def test_a_day_takes_no_time():
    async def day():
        async with asyncio.TaskGroup() as tasks:
            for hour in range(24):
                tasks.create_task(asyncio.sleep(3600 * hour + 3600))
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(day()) == pytest.approx(86_400)


def test_waiting_for_ever_is_an_error():
    async def forever():
        await asyncio.Event().wait()

    with pytest.raises(StandstillError):
        run_in_virtual_time(forever())


def test_a_moment_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(virtual_time, "TURNS", 1_000)

    async def spin():
        for _ in range(5_000):
            await asyncio.sleep(0)

    with pytest.raises(StandstillError, match="the moment 0 s goes on for 1,000 turns"):
        run_in_virtual_time(spin())


def test_each_moment_is_seen_when_all_of_it_is_done():
    done, seen = [], []

    async def ticks():
        async def tick(name, seconds):
            await asyncio.sleep(seconds)
            await asyncio.sleep(0)
            done.append(name)

        async with asyncio.TaskGroup() as tasks:
            for name, seconds in (("a", 1), ("b", 1), ("c", 3)):
                tasks.create_task(tick(name, seconds))

    run_in_virtual_time(ticks(), passing=lambda then: seen.append((then, "".join(done))))
    assert seen == [(1, ""), (3, "ab")]
