"""A real worker process: what it knows, answers, and does not live to answer."""

import asyncio
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path

import attrs
import pytest
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.model.events import (
    HistoryRewound,
    KindKnown,
    MeasuredApplied,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
)
from kubedsm.model.measured import NOTHING_MEASURED, Measured, Usage
from kubedsm.model.mirror import ClusterMirror, ReplacementClaim
from kubedsm.model.model import NodeName, Uid
from kubedsm.model.sites import Away
from kubedsm.model.surroundings import Claim, Namespace, StorageClass, Volume
from kubedsm.objective.lasting import Quiet
from kubedsm.optimizer.programming.programme import Status
from kubedsm.planner import worker as worker_module
from kubedsm.planner.rebalancing_requests import SuggestRequest
from kubedsm.planner.requests import (
    InProcessPlanner,
    NoResponseError,
    PlaceRequest,
    PlanningContext,
    PreemptRequest,
)
from kubedsm.planner.worker import FAILURE, RESPONSE, RequestFailedError, Worker
from kubedsm.process.clock import SystemClock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.solvers.process import stop_all
from support import drawing
from support.histories import happen
from support.questions import Broken, Dawdle, Files, PodNamed, Ponder, Process, Repeat, Solve, State
from support.suggest_instances import drawn_case


def happen_beside(mirror, rng):
    """Apply one random change other than a watch event: a decision, or a change of surroundings."""
    uid, move = Uid(f"p{rng.randrange(14)}-{rng.randrange(2)}"), f"move-{rng.randrange(3)}"
    known = mirror.pod(uid)
    match rng.randrange(10):
        case 0 | 1 if known is not None and known.waits_for_node:
            mirror.nominate(known, NodeName(f"n{rng.randrange(4)}"))
        case 2:
            mirror.withdraw(uid, silently=rng.random() < 0.5)
        case 3 | 4 if known is not None:
            mirror.claim(move, ReplacementClaim.of(known))
        case 5:
            mirror.end_claim(move)
        case 6:
            mirror.apply(KindKnown(Namespace))
            mirror.apply(SurroundingApplied(Namespace("shop", {"team": move})))
        case 7:
            mirror.apply(SurroundingDeleted(Namespace, ("shop",)))
            if rng.random() < 0.1:
                mirror.apply(KindKnown(StorageClass))
        case 8:
            mirror.apply(HistoryRewound(rng.choice((None, Claim, Volume))))
        case 9:
            usage = {NodeName("n0"): Usage(cpu=float(rng.randrange(4000)))}
            sample = Measured(rng.randrange(1, 99), usage)
            mirror.apply(MeasuredApplied(rng.choice((sample, sample, NOTHING_MEASURED))))


pytestmark = pytest.mark.http


@attrs.define
class Thinking:
    mirror: ClusterMirror
    followed: set
    configuration: CurrentConfiguration
    unanswered: Counter
    worker: Worker
    #: form that answers in this process
    here: InProcessPlanner


@pytest.fixture
def on():
    stop_all()  # solver processes of other tests, so that the only child is the planner's
    clock, unanswered, current = SystemClock(), Counter(), CurrentConfiguration()
    followed = set()
    mirror = ClusterMirror(followed=followed)
    context = PlanningContext(
        mirror, followed, lambda: current.current, lambda: current.current.policy, clock
    )
    worker = Worker(context, LogThrottle(clock), lambda name: unanswered.update([name]))
    return Thinking(mirror, followed, current, unanswered, worker, InProcessPlanner(context))


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter if it goes while it is read
        return False
    return state != "Z"


def children_of(pid):
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def find_child():
    """Return a function to the first child that this process has started meanwhile, or None."""
    earlier = children_of(os.getpid())
    return lambda: next((x for x in children_of(os.getpid()) if x not in earlier), None)


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


async def test_it_knows_what_the_scheduler_knows_at_the_request(on):
    rng = random.Random(3)
    for version in range(120):
        happen(on.mirror, rng, version)
        happen_beside(on.mirror, rng)
        if rng.random() < 0.1:
            marked = {pod.uid for pod in on.mirror.pods() if pod.detached}
            on.followed.symmetric_difference_update(marked)
            here = await on.here.solve(State())
            asking = asyncio.ensure_future(on.worker.solve(State()))
            await asyncio.sleep(0)
            happen(on.mirror, rng, version)
            assert await asking == here


async def test_its_answers_are_those_that_are_worked_out_here(on):
    seen, moves = Counter(), SuggestRequest(frozenset(), frozenset(), Quiet(), 60.0)
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


async def test_it_is_nicer_than_the_scheduler_and_hears_no_signal_meant_for_that(on, find_child):
    signalled = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, signalled.append, 1)
    pid, niceness, session = await on.worker.solve(Process())
    assert pid != os.getpid()
    assert niceness == min(19, os.nice(0) + 5)
    _, niceness, _ = await on.worker.solve(Process(urgent=True))
    assert niceness == os.nice(0)  # pods wait
    assert session == pid
    asking = asyncio.ensure_future(on.worker.solve(Dawdle(30.0)))
    await asyncio.sleep(0.1)
    os.kill(find_child(), signal.SIGUSR1)
    with pytest.raises(NoResponseError, match="status -10"):
        await asking
    asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
    assert not signalled


async def test_it_holds_no_file_but_its_own(on):
    with socket.create_server(("127.0.0.1", 0)) as served:
        files = await on.worker.solve(Files())
        assert len(files) <= 5, files
        assert all(str(served.fileno()) != name for name in files)


async def test_after_a_killed_process_the_next_request_has_another(on, find_child):
    with structlog.testing.capture_logs() as logs:
        asking = asyncio.ensure_future(on.worker.solve(Dawdle(30.0)))
        await asyncio.sleep(0.1)
        os.kill(find_child(), signal.SIGKILL)
        with pytest.raises(NoResponseError, match="status -9"):
            await asking
    assert on.unanswered == {"dawdle": 1}
    assert [(line["event"], line["log_level"]) for line in logs] == [("no response", "warning")]
    assert await on.worker.solve(State()) == await on.here.solve(State())


@pytest.mark.parametrize("last", [RESPONSE, FAILURE])
async def test_part_of_an_answer_is_no_response(on, find_child, last):
    asking = asyncio.ensure_future(on.worker.solve(Repeat(last)))
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251 - nothing is to be read meanwhile
    os.kill(find_child(), signal.SIGKILL)
    with pytest.raises(NoResponseError, match="status -9"):
        await asking


async def test_no_process_is_no_response(on, monkeypatch):
    def fails():
        raise BlockingIOError("no memory")

    monkeypatch.setattr(os, "fork", fails)
    with pytest.raises(NoResponseError, match="did not start: no memory"):
        await on.worker.solve(State())
    assert on.unanswered == {"state": 1}


async def test_one_that_takes_too_long_is_ended_and_nothing_else_waits_for_it(
    on, find_child, monkeypatch
):
    monkeypatch.setattr(worker_module, "PATIENCE", 0.2)
    asking = asyncio.ensure_future(on.worker.solve(Dawdle(60.0, budget=0.1)))
    turns = 0
    while not asking.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(NoResponseError, match="took more than"):
        await asking
    assert turns > 3
    assert on.unanswered == {"dawdle": 1}
    assert find_child() is None


async def test_a_request_that_waits_for_its_turn_has_its_time_then(on, monkeypatch):
    monkeypatch.setattr(worker_module, "PATIENCE", 2.0)
    first = asyncio.ensure_future(on.worker.solve(Dawdle(2.5)))
    await asyncio.sleep(0.1)
    assert await on.worker.solve(Dawdle(0.0, budget=0.1), idle=True) == 0.0
    assert first.done()


async def test_an_urgent_request_has_the_time_that_it_may_take_on_a_busy_machine(on, monkeypatch):
    monkeypatch.setattr(worker_module, "PATIENCE", 0.2)
    assert await on.worker.solve(Dawdle(1.5, budget=1.0, urgent=True)) == 1.5


async def test_a_request_that_is_given_up_leaves_no_process(on, find_child):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await on.worker.solve(Dawdle(30.0))
    assert find_child() is None
    assert await on.worker.solve(Dawdle(0.0)) == 0.0


async def test_a_mistake_is_told_as_ours(on):
    with pytest.raises(RequestFailedError, match="ValueError: a mistake"):
        await on.worker.solve(Broken())
    assert await on.worker.solve(Dawdle(0.0)) == 0.0


async def test_an_answer_is_about_the_pods_as_they_were(on):
    rng = random.Random(0)
    while not on.mirror.pods():
        happen(on.mirror, rng, 1)
    pod = on.mirror.pods()[0]
    asking = asyncio.ensure_future(on.worker.solve(PodNamed(pod.uid)))
    await asyncio.sleep(0)
    on.mirror.apply(PodDeleted(pod.uid, pod.namespace, pod.name))
    assert await asking is pod


async def test_an_urgent_question_interrupts_those_that_are_not(on):
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
    await asyncio.wait(long[1:])


async def test_an_idle_question_is_interrupted_by_any_and_they_are_not(on):
    idle = asyncio.ensure_future(on.worker.solve(Ponder(600.0), idle=True))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(60):
        assert await on.worker.solve(Ponder(0.1)) is False
        assert await idle is True
        # Nothing waits any more for which another one would have to hurry.
        assert await on.worker.solve(Ponder(0.1), idle=True) is False


@pytest.mark.parametrize("idle", [True, False])
async def test_so_many_questions_that_are_not_urgent_have_one_process_at_a_time(on, idle):
    earlier = set(children_of(os.getpid()))
    asking = [asyncio.ensure_future(on.worker.solve(Dawdle(0.1), idle=idle)) for _ in range(4)]
    while not all(question.done() for question in asking):
        assert len(set(children_of(os.getpid())) - earlier) <= 1
        await asyncio.sleep(0.02)
    assert [await question for question in asking] == [0.1] * 4


async def test_the_solver_of_a_question_that_is_interrupted_stops_and_ends(on, find_child):
    solving = asyncio.ensure_future(on.worker.solve(Solve(600.0)))
    async with asyncio.timeout(60):
        while not (child := find_child()) or not (solvers := children_of(child)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
        [solver] = solvers
        await on.worker.solve(PodNamed(Uid("x"), urgent=True))
        assert await solving is not Status.OPTIMAL
    assert not alive(solver)


SCHEDULER = """
import asyncio, sys
from kubedsm.config.current import CurrentConfiguration
from kubedsm.model.mirror import ClusterMirror
from kubedsm.planner.requests import PlanningContext
from kubedsm.planner.worker import Worker
from kubedsm.process.clock import SystemClock
from kubedsm.process.log_throttle import LogThrottle
from support.questions import Solve
current, clock = CurrentConfiguration().current, SystemClock()
known = PlanningContext(ClusterMirror(), (), lambda: current, lambda: current.policy, clock)
asyncio.run(Worker(known, LogThrottle(clock), print).solve(Solve(600.0)))
"""


async def test_it_ends_with_a_killed_scheduler_and_has_nothing_to_say():
    scheduler = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SCHEDULER),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=asyncio.subprocess.PIPE,
    )
    pid = solver = None
    async with asyncio.timeout(60):
        while not solver:
            await asyncio.sleep(0.02)
            for pid in children_of(scheduler.pid):
                solver = next(iter(children_of(pid)), None)
    scheduler.kill()
    assert await scheduler.stderr.read() == b""
    await scheduler.wait()
    for ended in (pid, solver):
        await until_gone(ended)
