"""A real worker process: what it knows, answers, and does not live to answer."""

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import structlog

import support
from kubedsm.config.current import CurrentConfiguration
from kubedsm.explain.listener import Listener
from kubedsm.model.events import NodeApplied, NodeDeleted, PodApplied, PodDeleted
from kubedsm.model.model import Tiers, Uid
from kubedsm.model.sites import Away
from kubedsm.objective.lasting import Quiet
from kubedsm.optimizer.programming.programme import Status
from kubedsm.planner import worker as worker_module
from kubedsm.planner.protocol import ReplicatedMirror
from kubedsm.planner.rebalancing_requests import SuggestRequest
from kubedsm.planner.requests import (
    InProcessPlanner,
    NoResponseError,
    PlaceRequest,
    PlanningContext,
    PreemptRequest,
)
from kubedsm.planner.worker import RequestFailedError, Worker
from kubedsm.process.clock import SystemClock
from kubedsm.process.log_throttle import LogThrottle
from support import drawing
from support.histories import happen, happen_beside, state_of
from support.questions import Broken, Dawdle, PodNamed, Ponder, Process, Solve, State
from support.suggest_instances import drawn_case

pytestmark = [pytest.mark.asyncio, pytest.mark.http]


class Counts(Listener):
    def __init__(self):
        self.started = 0
        self.unanswered_of = Counter()

    def worker_started(self):
        self.started += 1

    def request_unanswered(self, question):
        self.unanswered_of[question] += 1


@attrs.define
class Thinking:
    mirror: ReplicatedMirror
    followed: set
    configuration: CurrentConfiguration
    counts: Counts
    worker: Worker

    @property
    def here(self):
        """The form that answers in this process."""
        current = self.configuration.current
        return InProcessPlanner(
            PlanningContext(
                self.mirror, self.followed, lambda: current, lambda: current.policy, SystemClock()
            )
        )

    async def started(self, times=1):
        async with asyncio.timeout(60):
            while self.counts.started < times:  # noqa: ASYNC110 - it is another process that acts
                await asyncio.sleep(0.01)

    async def solve(self, question):
        """Ask until there is an answer, as whoever asks does."""
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.worker.solve(question)
                except NoResponseError:
                    await asyncio.sleep(0.05)


@asynccontextmanager
async def thinking(monkeypatch, mirror=None, followed=()):
    monkeypatch.setenv("PYTHONPATH", str(Path(support.__file__).parents[1]))
    clock, counts, configuration = SystemClock(), Counts(), CurrentConfiguration()
    followed = set(followed)
    mirror = mirror or ReplicatedMirror(followed=followed)
    worker = Worker(
        mirror, followed, configuration, clock, random.Random(1), LogThrottle(clock), counts
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run())
        yield Thinking(mirror, followed, configuration, counts, worker)
        running.cancel()


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter if it goes while it is read
        return False
    return state != "Z"


async def until_gone(pid):
    async with asyncio.timeout(20):
        while alive(pid):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


def now_is(mirror, case):
    """The pods of the case are there, and one that no node takes."""
    for pod in mirror.pods():
        mirror.apply(PodDeleted(pod.uid, pod.namespace, pod.name))
    for name in mirror.snapshot().nodes:
        mirror.apply(NodeDeleted(name))
    for node in case.snapshot.nodes.values():
        labels = {**node.labels, "kubedsm.io/tier": node.tier}
        mirror.apply(NodeApplied(attrs.evolve(node, labels=labels)))
    pods = list(case.snapshot.pods.values())
    urgent = attrs.evolve(
        pods[0],
        uid=Uid("urgent"),
        name="urgent",
        node_name=None,
        phase="Pending",
        pod_class=attrs.evolve(
            pods[0].pod_class, requests=pods[0].requests + pods[0].requests, priority=9
        ),
    )
    for pod in (*pods, urgent):
        mirror.apply(PodApplied(pod))
    return urgent


async def test_its_mirror_is_the_schedulers_whatever_happens_and_whenever_it_began(monkeypatch):
    monkeypatch.setattr(worker_module, "CHUNK", 7)
    rng = random.Random(3)
    async with thinking(monkeypatch, followed=[Uid("p1-0")]) as on:
        for version in range(900):
            happen(on.mirror, rng, version)
            happen_beside(on.mirror, rng)
            if rng.random() < 0.1:
                await asyncio.sleep(rng.choice((0, 0, 0.01, 0.08)))
            if on.counts.started and version < 500 and rng.random() < 0.05:
                marked = {pod.uid for pod in on.mirror.pods() if pod.detached}
                on.followed.symmetric_difference_update(rng.choice((set(), marked)))
                here = await on.here.solve(State())
                assert await on.worker.solve(State()) == here
            if version == 500:
                await on.started()
                os.kill((await on.worker.solve(Process()))[0], signal.SIGKILL)
        await on.started(2)
        assert await on.worker.solve(State()) == await on.here.solve(State())
        assert state_of(on.mirror)["held"]


async def test_its_answers_are_those_that_are_worked_out_here(monkeypatch):
    seen, moves = Counter(), SuggestRequest(frozenset(), frozenset(), Quiet(), 60.0)
    async with thinking(monkeypatch) as on:
        await on.started()
        for seed in drawing.drawn(range(20)):
            urgent = now_is(on.mirror, drawn_case(seed))
            suggested = await on.here.solve(moves)
            assert await on.worker.solve(moves) == suggested, seed
            room = PreemptRequest(urgent, {}, frozenset(), budgets=())
            here = await on.here.solve(room)
            assert await on.worker.solve(room) == here, seed
            away = Away(partitioned={"x": frozenset(list(on.mirror.snapshot().nodes)[:1])})
            for view in (None, away.close_sites, away.in_cloud):
                placing = PlaceRequest((urgent.uid,), 0.0, 60.0, view=view)
                placed = await on.here.solve(placing)
                assert await on.worker.solve(placing) == placed, seed
                seen["placed"] += len(placed.decision.bindings)
                seen["refused"] += len(placed.unplaced)
            seen["moves"] += len(suggested.suggestion.moves)
            seen["found"] += here.found is not None
            seen["freeing"] += here.freeing is not None
    assert all(seen[kind] for kind in ("moves", "found", "freeing", "placed", "refused")), seen


async def test_a_configuration_that_is_changed_is_the_one_it_answers_by(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        on.mirror.tiers = Tiers(("zone",))
        text = "{tiers: {label: [zone]}, suggester: {maxMoves: 0}}"
        on.configuration.replace(text, "test", 0.0)
        rng = random.Random(5)
        for version in range(60):
            happen(on.mirror, rng, version)
        assert await on.worker.solve(State()) == await on.here.solve(State())


async def test_it_is_nicer_than_the_scheduler_and_hears_no_signal_meant_for_that(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        pid, niceness, session = await on.worker.solve(Process())
    assert pid != os.getpid()
    assert niceness == min(19, os.nice(0) + 5)
    assert session == pid
    await until_gone(pid)


async def test_what_is_asked_before_the_first_worker_is_up_is_no_news(monkeypatch):
    async with thinking(monkeypatch) as on:
        with structlog.testing.capture_logs() as logs, pytest.raises(NoResponseError):
            await on.worker.solve(Process())
        assert [line["log_level"] for line in logs] == ["debug"]
        assert on.counts.unanswered_of == {"process": 1}


async def test_a_killed_worker_is_started_again_and_the_question_answered_later(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        pid, *_ = await on.worker.solve(Process())
        with structlog.testing.capture_logs() as logs:
            asking = asyncio.ensure_future(on.worker.solve(Dawdle(30.0)))
            await asyncio.sleep(0.1)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(NoResponseError):
                await asking
        assert on.counts.unanswered_of == {"dawdle": 1}
        said = sorted((line["event"], line["log_level"]) for line in logs)
        assert said == [("no response", "warning"), ("planner process ended", "warning")]
        happen(on.mirror, random.Random(2), 1)
        assert await on.solve(State()) == await on.here.solve(State())
        assert on.counts.started == 2
        assert (await on.worker.solve(Process()))[0] != pid


async def test_one_that_takes_too_long_is_ended_and_nothing_else_waits_for_it(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        pid, *_ = await on.worker.solve(Process())
        monkeypatch.setattr(worker_module, "PATIENCE", 0.2)
        asking = asyncio.ensure_future(on.worker.solve(Dawdle(60.0, budget=0.1)))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(NoResponseError, match="took more than"):
            await asking
        assert turns > 3
        await until_gone(pid)
        assert on.counts.unanswered_of == {"dawdle": 1}
        await on.started(2)


async def test_a_question_that_was_given_up_is_not_taken_for_the_next_one(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await on.worker.solve(Dawdle(0.5))
        assert await on.worker.solve(Dawdle(0.0)) == 0.0
        assert on.counts.started == 1


async def test_a_mistake_is_told_as_ours_and_costs_no_process(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        with pytest.raises(RequestFailedError, match="ValueError: a mistake"):
            await on.worker.solve(Broken())
        assert await on.worker.solve(Dawdle(0.0)) == 0.0
        assert on.counts.started == 1


async def test_one_that_is_out_of_step_is_made_anew(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        on.mirror.changes += 1  # by what it was not told
        with pytest.raises(NoResponseError):
            await on.worker.solve(State())
        assert await on.solve(State()) == await on.here.solve(State())
        assert on.counts.started == 2


async def test_an_answer_is_about_the_pods_as_they_were(monkeypatch):
    rng = random.Random(0)
    async with thinking(monkeypatch) as on:
        await on.started()
        while not on.mirror.pods():
            happen(on.mirror, rng, 1)
        pod = on.mirror.pods()[0]
        asking = asyncio.ensure_future(on.worker.solve(PodNamed(pod.uid)))
        await asyncio.sleep(0)
        on.mirror.apply(PodDeleted(pod.uid, pod.namespace, pod.name))
        assert await asking is pod


async def test_an_urgent_question_interrupts_those_that_are_not(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        long = [asyncio.ensure_future(on.worker.solve(Ponder(600.0))) for _ in range(2)]
        await asyncio.sleep(0.1)
        happen(on.mirror, random.Random(2), 1)
        async with asyncio.timeout(60):
            assert await on.worker.solve(PodNamed(Uid("x"), urgent=True)) is None
            assert await long[0]
        # What was asked behind it has the time that it was given.
        done, _ = await asyncio.wait(long[1:], timeout=0.3)
        assert not done
        long[1].cancel()


async def test_an_idle_question_is_interrupted_by_any_and_they_are_not(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        idle = asyncio.ensure_future(on.worker.solve(Ponder(600.0), idle=True))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(60):
            assert await on.worker.solve(Ponder(0.1)) is False
            assert await idle is True
            # Nothing waits any more for which another one would have to hurry.
            assert await on.worker.solve(Ponder(0.1), idle=True) is False


async def test_the_solver_of_a_question_that_is_interrupted_stops(monkeypatch):
    async with thinking(monkeypatch) as on:
        await on.started()
        solving = asyncio.ensure_future(on.worker.solve(Solve(600.0)))
        await asyncio.sleep(1.0)
        async with asyncio.timeout(60):
            await on.worker.solve(PodNamed(Uid("x"), urgent=True))
            assert await solving is not Status.OPTIMAL
