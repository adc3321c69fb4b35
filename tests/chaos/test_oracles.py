"""What is promised is looked at: each promise broken once, in the code, and seen."""

import asyncio

import attrs
import pytest

from kubedsm.app.leader_election import Elector
from kubedsm.execution.limits import Limits
from kubedsm.execution.migration_calls import Fate, MigrationCalls
from kubedsm.kube.calls import writes
from kubedsm.kube.client.port import not_sent
from kubedsm.kube.client.write_gate import READS, WriteGate
from kubedsm.model.mirror import ClusterMirror
from kubedsm.rebalancing.suggester import Suggester
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.sweep import reference
from kubedsm_lab.chaos.trace import Bystander, Injection, play
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.http.watching import WatchStream
from plans.events import CallRefused
from support.faults import lost_answers_forget_reservations

#: oracles that catch each seeded fault: proof machinery, which a normal run takes as given
pytestmark = pytest.mark.long


def deletions_unheard(monkeypatch):
    monkeypatch.setattr("kubedsm.kube.watching.reflector.KnownObjects.remove", unheard)


def unheard(*_):
    return None


async def nothing(*_, **__):
    pass


def books_without_reservations(monkeypatch):
    monkeypatch.setattr(ClusterMirror, "reserve", lambda *_: None)
    monkeypatch.setattr(ClusterMirror, "release", lambda *_: None)


def binds_without_uid(monkeypatch):
    bind = writes.bind

    async def bind_any(cluster, pod, *rest, **more):
        await bind(cluster, attrs.evolve(pod, uid=None), *rest, **more)

    monkeypatch.setattr(writes, "bind", bind_any)


def lost_answers_are_refusals(monkeypatch):
    monkeypatch.setattr("kubedsm.execution.bind_calls.OutcomeLost", CallRefused)


def pods_never_given_back(monkeypatch):
    monkeypatch.setattr(MigrationCalls, "restore", nothing)


def unrest(monkeypatch):
    workload = WORKLOADS["burst"]

    async def course(stage):
        await workload.course(stage)

        def touch():
            metadata = {"labels": {"at": str(stage.clock.monotonic())}}
            stage.api.patch(NODES, "", "c1", {"metadata": metadata}, "application/merge-patch+json")
            asyncio.get_running_loop().call_later(10.0, touch)

        touch()

    monkeypatch.setitem(WORKLOADS, "burst", attrs.evolve(workload, course=course))


def binds_one_at_a_time(monkeypatch):
    monkeypatch.setattr("kubedsm.app.assembly.Limits", lambda: Limits(1))


def a_bug(monkeypatch):
    async def failing(*_, **__):
        raise KeyError("a bug")

    monkeypatch.setattr(MigrationCalls, "check", failing)


def a_task_nobody_waits_for(monkeypatch):
    tasks = []

    def leave_task(_):
        tasks.append(asyncio.get_running_loop().create_task(asyncio.sleep(1e9), name="stray"))

    monkeypatch.setattr(Bystander, "schedule_arrival", leave_task)


def too_many_moved(monkeypatch):
    """Whatever is Ready, all may go."""
    monkeypatch.setattr("kubedsm.execution.migration_calls.fate", lambda *_, **__: Fate.EVICT)


def watches_left_open(monkeypatch):
    async def left_open(_):
        pass

    monkeypatch.setattr(WatchStream, "aclose", left_open)


def leaders_act_too_long(monkeypatch):
    monkeypatch.setattr("kubedsm.app.leader_election.WINDOW", 0.6)


def writes_leave_whenever_they_can(monkeypatch):
    async def request(gate, request, *, timeout):
        if request.method in READS or gate.is_open:
            return await gate.cluster.request(request, timeout=timeout)
        raise not_sent(request)

    monkeypatch.setattr(WriteGate, "request", request)


def pods_never_bound(monkeypatch):
    monkeypatch.setattr("kubedsm.execution.bind_calls.writes.bind", nothing)


def pods_never_evicted(monkeypatch):
    monkeypatch.setattr("kubedsm.execution.migration_calls.writes.evict", nothing)


def no_pod_is_told_of_free_capacity(monkeypatch):
    monkeypatch.setattr(SchedulingQueue, "help", lambda *_: None)


def suggestions_of_a_new_scheduler_only(monkeypatch):
    is_due = Suggester._is_due

    def is_due_soon(suggester):
        return suggester.migrator.clock.monotonic() > 45 and is_due(suggester)

    monkeypatch.setattr(Suggester, "_is_due", is_due_soon)


def nobody_takes_over(monkeypatch):
    attempt = Elector._try_acquire

    async def patient(elector):
        await elector._observe_lease()
        return 5.0 if elector.holder not in ("", elector.identity) else await attempt(elector)

    monkeypatch.setattr(Elector, "_try_acquire", patient)


BIND = "process:create-pods/binding:4"
ASKED = "call:create-pods/binding:2"


@pytest.mark.parametrize(
    ("broken", "workload", "fault", "seen"),
    [
        (leaders_act_too_long, "slow-leader", f"{BIND}:leases-lost", "I8: "),
        (writes_leave_whenever_they_can, "leader-change", f"{BIND}:stopped-before", "I8: "),
        (nobody_takes_over, "leader-change", f"{BIND}:stopped-after", "the bystander"),
        (books_without_reservations, "scaling", "watch:pods.MODIFIED:0:unseen", "I2: "),
        (lost_answers_forget_reservations, "burst", f"{ASKED}:timeout", "I3: "),
        (lost_answers_forget_reservations, "burst", f"{ASKED}:500-applied", "I2: "),
        (lost_answers_forget_reservations, "cloud-to-edge", f"{ASKED}:500", "I3: "),
        (lost_answers_are_refusals, "burst", f"{ASKED}:reset", "I3: "),
        (lost_answers_are_refusals, "burst", f"{ASKED}:reset-applied", "I2: "),
        (lost_answers_are_refusals, "burst", f"{ASKED}:timeout-applied-late", "I3: "),
        (binds_without_uid, "burst", "call:create-events:0:409", "I3: "),
        (pods_never_given_back, "cloud-to-edge", "call:create-pods/binding:2:400", "I5: "),
        (unrest, "burst", "call:create-events:0:409", "I6: "),
        (binds_one_at_a_time, "burst", "call:create-pods/binding:0:timeout", "the bystander"),
        (too_many_moved, "cloud-to-edge", "call:create-pods/binding:2:400", "I3: 1 pods of"),
        (a_bug, "cloud-to-edge", "call:create-events:0:409", "kubedsm-0-1 caught step start"),
        (a_bug, "cloud-to-edge", "call:create-events:0:409", "logged: internal error"),
        (deletions_unheard, "scaling", "call:create-events:0:409", "kubedsm-0-1: the mirror"),
        (a_task_nobody_waits_for, "burst", "call:create-events:0:409", "leaked: stray"),
        (watches_left_open, "burst", "watch:pods.MODIFIED:0:broken", "leaked: 12 watches"),
        (pods_never_bound, "burst", "call:create-events:0:409", "I7: "),
        (pods_never_bound, "burst", "world:pods.MODIFIED:0:node-cordoned/minute", "I4: "),
        (pods_never_evicted, "owner-deleted", "world:patch-pods.detach:0:one-more", "marked"),
        (
            suggestions_of_a_new_scheduler_only,
            "cloud-to-edge",
            "world:pods.MODIFIED:0:one-more",
            "after a restart",
        ),
        (
            no_pod_is_told_of_free_capacity,
            "contended",
            "call:patch-pods.detach:0:timeout",
            "waits although it fits",
        ),
    ],
)
def test_a_broken_promise_is_seen(broken, workload, fault, seen, monkeypatch, caught):
    usual = reference(workload, 0)
    broken(monkeypatch)
    outcome = play(Injection(workload, (Fault.parse(fault),)), usual)
    caught.clear()
    assert outcome.struck
    assert any(seen in violation for violation in outcome.violations)


def test_pods_that_come_and_go_needlessly_are_seen():
    usual = attrs.evolve(reference("cloud-to-edge", 0), created=0, deleted=1)
    violations = play(Injection("cloud-to-edge"), usual).violations
    assert violations == ("4 pods were created, and usually 0",)
