"""How long bursts of hard pods hold the event loop up, by who did it.

A scheduler with its worker process, on a cluster that is only told of: what binds ask for is so.
Milliseconds of CPU of the loop's thread in one turn of the loop, so that it does not count what
else the machine does; the longest of each.
"""

import asyncio
import gc
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import load
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.listener import Listener
from kubedsm.kube.client.port import Request, Response
from kubedsm.model.events import ClusterEvent, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Resources, Uid, Workload
from kubedsm.process.clock import SystemClock
from kubedsm.scheduling.planned_batches import Application
from kubedsm.scheduling.scheduling_cycle import Scheduler
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.scale.world import Size, mirror
from kubedsm_lab.bench.telling import span

#: that nothing here takes
PATIENCE = 600.0
#: what the parts of the scheduler do in their turns
STEPS: tuple[tuple[str, type, str], ...] = (
    ("snapshot", ClusterMirror, "snapshot"),
    ("how many at once", Scheduler, "_batch_limit"),
    ("quick decision", Scheduler, "decide_inline"),
    ("hasty decision", Scheduler, "decide_fallback"),
    ("placing what was thought", Application, "_place"),
    ("saying why not", Application, "_park_unschedulable"),
    ("record", DecisionRecord, "batch"),
)
_LOOK = 0.05
#: seconds from which on it is worth a word
_TOLD = 0.001
Tell = Callable[[ClusterEvent], None]


@attrs.frozen(slots=True)
class HardBurst:
    """So many pods at once, of so many classes; a share of the room that they would need is there.

    room: of the millicores of the largest of them, in parts of the smallest's.
    """

    pods: int
    classes: int
    #: the greatest requests; millicores
    largest: int = 4000

    def __str__(self) -> str:
        return f"{self.pods:,} pods of {self.classes} classes, up to {self.largest:,}m"

    def waiting(self, seed: int = 3) -> list[Pod]:
        rng, now = random.Random(seed), time.time()
        requests = [
            Resources(rng.randrange(150, self.largest), rng.randrange(128, 6000) * instances.MI, 1)
            for _ in range(self.classes)
        ]
        return [
            instances.pod(
                f"hard-{self.pods}-{number:05}",
                Workload("shop", "Deployment", f"hard-{number % self.classes}"),
                requests[number % self.classes],
                created=now,
            )
            for number in range(self.pods)
        ]


BURSTS = (HardBurst(256, 40), HardBurst(2000, 100), HardBurst(2000, 100, 32_000))


@attrs.frozen(slots=True)
class Held:
    """Milliseconds at a time, by part of the scheduler, and by step of those parts."""

    burst: HardBurst
    bound: int
    #: until each pod was bound, or told why not
    seconds: float
    turns: dict[str, float]
    steps: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        return {
            "bound": self.bound,
            "seconds": round(self.seconds, 2),
            "longestTurnMs": _rounded(self.turns),
            "longestStepMs": _rounded(self.steps),
        }

    @property
    def sentence(self) -> str:
        return (
            f"{self.burst}: {self.bound:,} bound, {self.burst.pods - self.bound:,} told why not,"
            f" within {span(self.seconds)}. Longest at a time: {_longest(self.turns)}. Longest"
            f" steps in these: {_longest(self.steps)}."
        )


@attrs.frozen(slots=True)
class LoopResult:
    size: Size
    held: list[Held]

    def as_json(self) -> dict[str, Any]:
        return {str(each.burst): each.as_json() for each in self.held}

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"How long the event loop is held up, in CPU time, on a cluster of {self.size} that"
                " is only told of:"
            ),
            *(each.sentence for each in self.held),
            (
                "What took less than 1 ms is left out. Nothing was run beside it: these are no"
                " ratios, and go by the machine."
            ),
        ]


def _longest(seconds: dict[str, float]) -> str:
    ordered = sorted(seconds.items(), key=lambda entry: -entry[1])
    told = [f"{name} {span(took)}" for name, took in ordered if took >= _TOLD]
    return ", ".join(told) or "nothing"


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    ordered = sorted(seconds.items(), key=lambda entry: -entry[1])
    return {name: round(1000 * value, 1) for name, value in ordered}


@attrs.define
class _Told(Listener):
    """The pods that are told why they wait."""

    refused: set[Uid] = attrs.field(factory=set)
    worker: asyncio.Event = attrs.field(factory=asyncio.Event)

    def attempt_ended(self, pod: Pod, result: str) -> None:
        if result == "unschedulable":
            self.refused.add(pod.uid)

    def worker_started(self) -> None:
        self.worker.set()


@attrs.define
class _Obeying:
    """A cluster where each pod is on its node once that is asked for."""

    bound: dict[str, str] = attrs.field(factory=dict)
    on_bound: Callable[[str, str], object] = lambda _name, _node: None

    async def request(self, request: Request, *, timeout: float) -> Response:  # noqa: ARG002
        await asyncio.sleep(0)
        if isinstance(request.body, dict) and request.path.endswith("/binding"):
            name = request.path.split("/")[-2]
            node = request.body["target"]["name"]
            asyncio.get_running_loop().call_soon(self.on_bound, name, node)
        return Response(201, b'{"metadata": {"name": "x", "namespace": "x", "uid": "x"}}')

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError


@contextmanager
def _turns_timed(turns: dict[str, float]) -> Iterator[None]:
    """The longest of each part; what belongs to none is left out."""
    handle_class: Any = asyncio.Handle
    run = handle_class._run  # noqa: SLF001 - turns show nowhere else

    def timed(handle: Any) -> None:
        part = _part(handle)
        began = time.thread_time()
        run(handle)
        if part:
            turns[part] = max(turns[part], time.thread_time() - began)

    handle_class._run = timed  # noqa: SLF001
    try:
        yield
    finally:
        handle_class._run = run  # noqa: SLF001


def _part(handle: Any) -> str:
    task = getattr(handle._callback, "__self__", None)  # noqa: SLF001
    if not isinstance(task, asyncio.Task):
        return ""
    coroutine: Any = task.get_coro()
    frame = getattr(coroutine, "cr_frame", None)
    if frame is None or task.get_name() == "bench":
        return ""
    return str(frame.f_locals.get("part", coroutine.__qualname__))


@contextmanager
def _step_timed(steps: dict[str, float], name: str, owner: Any, method: str) -> Iterator[None]:
    original = getattr(owner, method)

    @wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        try:
            return original(*args, **kwargs)
        finally:
            steps[name] = max(steps[name], time.thread_time() - began)

    setattr(owner, method, timed)
    try:
        yield
    finally:
        setattr(owner, method, original)


def run(size: Size, bursts: tuple[HardBurst, ...] = BURSTS) -> LoopResult:
    """Each burst on the same cluster; its pods are gone before the next."""
    return LoopResult(size, asyncio.run(_run(size, bursts)))


async def _run(size: Size, bursts: tuple[HardBurst, ...]) -> list[Held]:
    task = asyncio.current_task()
    if task is not None:
        task.set_name("bench")
    clock, told, cluster = SystemClock(), _Told(), _Obeying()
    configuration = load("{suggester: {mode: 'off'}, preemption: disabled}", "bench")
    runtime = Runtime(cluster, configuration, clock, random.Random(0), listener=told, apart=True)
    there = mirror(size)
    tell = runtime.handler.handle
    for node in there.nodes():
        tell(NodeApplied(node))
    for pod in there.pods():
        tell(PodApplied(pod))
    runtime.synced.set()
    # As `kubedsm run` does once all is listed.
    gc.collect()
    gc.freeze()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part()) for part in (runtime.carry_out, runtime.decide)]
        await told.worker.wait()
        held = [await _held(burst, tell, told, cluster, clock) for burst in bursts]
        for each in running:
            each.cancel()
    return held


async def _held(
    burst: HardBurst, tell: Tell, told: _Told, cluster: _Obeying, clock: SystemClock
) -> Held:
    waiting = {pod.name: pod for pod in burst.waiting()}
    bound: set[Uid] = set()

    def on_bound(name: str, node: str) -> None:
        pod = attrs.evolve(waiting[name], node_name=NodeName(node))
        bound.add(pod.uid)
        tell(PodApplied(pod))

    cluster.on_bound = on_bound
    told.refused.clear()
    turns, steps = defaultdict[str, float](float), defaultdict[str, float](float)
    began = clock.monotonic()
    with ExitStack() as timing:
        timing.enter_context(_turns_timed(turns))
        for name, owner, method in STEPS:
            timing.enter_context(_step_timed(steps, name, owner, method))
        for pod in waiting.values():
            tell(PodApplied(pod))
        async with asyncio.timeout(PATIENCE):
            while len(bound | told.refused) < len(waiting):
                await clock.sleep(_LOOK)
    seconds = clock.monotonic() - began
    for pod in waiting.values():
        tell(PodDeleted(pod.uid, pod.namespace, pod.name))
    await clock.sleep(1.0)
    return Held(burst, len(bound), seconds, dict(turns), dict(steps))
