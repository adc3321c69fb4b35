"""`kubedsm replay --preset load-aware`: the model by hand, what is measured of it, the tables."""

import json

import attrs
import msgspec
import numpy as np
import pytest

from kubedsm.app.load_reading import queries_of
from kubedsm.config.load_aware import LoadAware
from kubedsm.config.settings import Configuration
from kubedsm_lab.cli.replay_session import EXPERIMENTS
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.replay.load_aware import trial
from kubedsm_lab.replay.load_aware.application import (
    CAPACITY,
    GRAPHS,
    SCENARIOS,
    SERVICES,
    Function,
    Resource,
)
from kubedsm_lab.replay.load_aware.experiment import PRESET, TABLES, Plan, Tried
from kubedsm_lab.replay.load_aware.history import LoadHistory, ModelledPrometheus
from kubedsm_lab.replay.load_aware.model import Chance, Traffic, end_to_end, visit_seconds
from kubedsm_lab.replay.load_aware.trial import OURS, PAPER, Outcome, Trial, play
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.tables import as_markdown, fill_sections
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.command_line import kubedsm
from support.evaluations import lines_in
from support.wire_pods import serving_pod

#: all as long as on average, and at the first pod
PLAIN = Chance(np.zeros((16, 1)), np.ones((16, 1)))
ON_TWO = ((0, 1),) * 16
ONE = Function(Resource.CPU, 1.0, 1.0)


def used(cpu=0.0, memory=0.0, net=0.0, disk=0.0):
    return np.array([[cpu, memory, net, disk]])


@pytest.mark.parametrize(
    ("busy", "seconds"),
    [
        # 1 + .1 + .1 + .1
        (used(), 1.3),
        # 1 / .5 + .1 + .1 / .8 + .1 / .1
        (used(cpu=0.5, net=0.2, disk=0.9), 2 + 0.1 + 0.125 + 1),
        # 1 / .05, however much more is asked for
        (used(cpu=0.95), 20.3),
        (used(cpu=7.0), 20.3),
        # .1 / .05 of memory, and all of it four times as long
        (used(memory=1.01), 4 * (1 + 0.1 + 0.1 + 2)),
        (used(memory=1.0), 1 + 0.1 + 0.1 + 2),
    ],
)
def test_a_visit_by_hand(busy, seconds):
    assert visit_seconds(ONE, busy) == pytest.approx(seconds)


def test_calls_add_up_and_of_parallel_ones_the_slowest_counts():
    graph = {"m1": (("m2", "m3"), ("m4",)), "m2": (("m5",),)}
    visits = {"m1": 1.0, "m2": 2.0, "m3": 5.0, "m4": 10.0, "m5": 4.0}
    # m2 and m5 take 6 beside the 5 of m3; then m4
    assert end_to_end(graph, {name: np.array([s]) for name, s in visits.items()}) == 1 + 6 + 10


def test_what_users_ask_for_is_what_they_get_answers_to():
    """All pods on two nodes: of 10 MB a request, each writes twice for a user, 4 % of a second."""
    traffic = Traffic(GRAPHS["tree"], SCENARIOS[1], ON_TWO, 10, PLAIN)
    rate = traffic.rate
    # 16 pods of 100 MB, and four of 100 MB more; four times 10 kB, two halves of it each
    busy = used(0.03 * rate, 0.25, rate * 20e3 / 125e6, 0.04 * rate)
    assert traffic.used[0] / CAPACITY == pytest.approx(busy[0])
    assert not traffic.used[2:].any()
    f1, f2, f3, f4 = (visit_seconds(each, busy)[0] for each in SCENARIOS[1].functions)
    (seconds,) = traffic.seconds(PLAIN)
    assert seconds == pytest.approx(2 * f1 + f2 + f3 + f4, rel=1e-3)
    assert rate * (1 + seconds) == pytest.approx(10, abs=0.01)
    assert traffic.waiting < 0.001


def test_what_was_used_is_told_as_means():
    """Nothing is answered, as most services have no pod: pods only hold their memory."""
    history = LoadHistory(_traffic)
    for at, change in [
        (0, ("ADDED", serving_pod("old", "m5", "worker-1"))),
        (40, ("ADDED", serving_pod("new", "m5", "worker-2"))),
        (60, ("MODIFIED", serving_pod("old", "m5", "worker-1", ready=False))),
        (60, ("ADDED", serving_pod("other", "m1", "worker-2", ready=False))),
        (70, ("MODIFIED", serving_pod("other", "m1", "worker-2"))),
    ]:
        history.notice(ObjectChange(0, change[0], PODS, change[1], None), at)
    nodes, pods = history.means(100, 50)
    # 200 MB for 10 of 50 s; 200 MB all the time, and 100 MB for 30 of 50 s
    assert nodes["worker-1"].tolist() == pytest.approx([0, 40e6, 0, 0])
    assert nodes["worker-2"].tolist() == pytest.approx([0, 260e6, 0, 0])
    assert not nodes["worker-3"].any()
    # Of pods that are there, over the time that they were.
    assert pods.keys() == {"new", "other"}
    assert (pods["new"][1], pods["other"][1]) == pytest.approx((200e6, 100e6))


def _traffic(placement, users):
    return Traffic(GRAPHS["tree"], SCENARIOS[1], placement, users, PLAIN)


def outcome(contender, users=10, seed=1, *, scenario=1, p95=1.0, **more):
    given = {"moves": 0, "moves_in_all": 0, "lost_pod_seconds": 0.0}
    given |= {"within_nodes": 0.25, "between_nodes": 0.125} | more
    return Outcome(Trial("tree", scenario, users, contender, seed, 30), p95, **given)


def lines_of(title, made):
    return lines_in(as_markdown(fill_sections("load-aware", TABLES, Tried(made)), "by hand"), title)


def test_tables_have_ours_beside_what_was_published():
    made = [
        *(outcome(REFERENCE, users, p95=2.0) for users in (10, 20)),
        # as means over trials .75 and 1: lower by 62.5 and 50 %
        outcome(OURS, 10, 1, p95=0.5, moves=3, moves_in_all=5),
        outcome(OURS, 10, 2, p95=1.0),
        outcome(OURS, 20, p95=1.0, lost_pod_seconds=6.0),
    ]
    assert lines_of("At a glance", made) == [
        "| p95 lower by, % | published | kubedsm + load |",
        "| tree, scenario 1 | 23 | 56.2 |",
    ]
    assert lines_of("By users", made) == [
        "| p95, s | kube-scheduler | kubedsm + load |",
        "| tree, scenario 1, 10 users | 2.00 | 0.75 |",
        "| tree, scenario 1, 20 users | 2.00 | 1.00 |",
    ]
    assert lines_of("Cost", made)[2] == (
        "| tree, scenario 1: kubedsm + load | 1.0 | 1.7 | 2.0 | 0.250 | 0.125 |"
    )


def test_the_command_from_end_to_end(tmp_path, monkeypatch):
    """In a short form that is the same on every machine: ours is better, and nothing is lost."""
    tiny = Plan(["tree"], (60,), 1, (1,), (REFERENCE, PAPER, OURS), minutes=2)
    monkeypatch.setitem(EXPERIMENTS, "load-aware", attrs.evolve(PRESET, short=tiny))
    monkeypatch.setattr(trial, "ROLLOUT", 60.0)
    arguments = ("replay", "--preset", "load-aware", "--jobs", 1)
    done = kubedsm(*arguments, "--out", tmp_path, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["emulated"], found["modelled"]) == (True, True)
    assert (tmp_path / "results.json").read_text() == done.stdout
    outcomes = {
        each["trial"]["contender"]: msgspec.convert(each, Outcome) for each in found["trials"]
    }
    assert list(outcomes) == [REFERENCE, PAPER, OURS]
    assert outcomes[OURS].p95 < outcomes[REFERENCE].p95
    assert outcomes[OURS].lost_pod_seconds == 0
    assert outcomes[OURS].moves_in_all > 0
    # The seed's evictions cost a pod until its successor is Ready.
    assert outcomes[PAPER].lost_pod_seconds > outcomes[PAPER].moves_in_all > 0
    tables = (tmp_path / "tables.md").read_text()
    assert tables.startswith("**With measured load, KubeDSM's p95 of response times was ")
    assert "## How\n\nA model, not a measurement" in tables
    assert "scenario 1: kubedsm + load</td>" in (tmp_path / "index.html").read_text()
    assert play(outcomes[REFERENCE].trial) == outcomes[REFERENCE]


async def test_it_is_told_as_prometheus_tells_it():
    history, clock = LoadHistory(_traffic), VirtualClock()
    for service in SERVICES:
        for worker in (1, 2):
            pod = serving_pod(f"{service}-{worker}", service, f"worker-{worker}")
            history.notice(ObjectChange(0, "ADDED", PODS, pod, None), 0)
    history.set_users(10, 50)
    await clock.sleep(100)
    queries = queries_of(Configuration(load_aware=LoadAware(prometheus="http://model")))
    whom = LoadAware(window=100)
    told = await ModelledPrometheus(history, clock).ask(whom, queries, 1.0, 1_000_000, dict)
    assert told.keys() == queries.keys()
    rate = _traffic(ON_TWO, 10).rate
    found = {(query, *sorted(s.labels.values())): s.value for query, of in told.items() for s in of}
    # Half of the time there were no users; and requests are shared by two pods.
    assert found["node_cpu", "default", "worker-1"] == pytest.approx(4 * 30 * rate / 2 / 2)
    assert found["pod_disk", "default", "m16-2"] == pytest.approx(10e6 * rate / 2 / 2)
    assert {sample.at for of in told.values() for sample in of} == {clock.wall()}


def test_who_asks_for_more_than_there_is_waits():
    traffic = Traffic(GRAPHS["tree"], SCENARIOS[1], ON_TWO, 200, PLAIN)
    assert traffic.rate == pytest.approx(0.95 / 0.04)
    # Each user is answered once in 200 / rate seconds, one of which is a pause.
    assert traffic.seconds(PLAIN) == pytest.approx(200 / traffic.rate - 1)
