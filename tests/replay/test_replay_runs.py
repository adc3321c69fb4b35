"""Whole runs in virtual time: the real scheduler on the emulated cluster, minutes in an instant."""

import json
import os
import subprocess
import sys
import time
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
from kubedsm_lab.replay.measures import measure
from kubedsm_lab.replay.plain_bindings import PlainBindings
from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.variants import BASELINES, CONTENDERS
from kubedsm_lab.replay.world import Run, Setup, play
from loadgen.generators import normal, serve_replicas
from loadgen.scenario import dumps
from support import command_line, processes
from support.answering_cluster import AnsweringCluster

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


#: next to this no process is forked
THREAD = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"


# The run, two workers, and next to a thread multiprocessing's resource tracker.
@pytest.mark.parametrize(("before", "processes"), [("", 3), (THREAD, 4)])
def test_workers_end_with_a_run_that_is_killed(before, processes):
    spreading = (
        "from kubedsm_lab.replay.runner import spread; list(spread(time.sleep, [60, 60], 2))"
    )
    script = f"import threading, time; {before}\n{spreading}"
    with subprocess.Popen([sys.executable, "-c", script]) as run:
        while len(started := family(run.pid)) < processes and run.poll() is None:
            time.sleep(0.05)
        run.kill()
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
