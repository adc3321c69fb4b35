"""Where a run takes place: an emulated cluster, the schedulers on it, and what is seen of both."""

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

import attrs
from kubedsm.explain.listener import Listener

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, load
from kubedsm.kube.client.port import Cluster
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import VirtualClock
from kubedsm_lab.chaos.faults import LASTING, Fault
from kubedsm_lab.chaos.hands import CONFIGURED_BY, NAMESPACE, Hands
from kubedsm_lab.chaos.incidents import strike
from kubedsm_lab.chaos.lying_prometheus import LyingPrometheus
from kubedsm_lab.chaos.oracles import Invariants, Ledger, Witness
from kubedsm_lab.chaos.process import Process
from kubedsm_lab.chaos.seam import ProcessSeam, Seam
from kubedsm_lab.emulator.actors.pod_state import is_active, is_terminating, labels_of, node_of
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.pacing import DELIVERY
from kubedsm_lab.emulator.api.resources import LEASES, NODES, PODS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from plans.steps import Plan

#: seconds for a request and its answer
LATENCY = 0.01
#: seconds until a scheduler that ended is started again, as the kubelet does
RESTART = Doubling(1.0, most=16.0)
#: seconds for an event to be heard of, and for what is decided then to come in
ON_ITS_WAY = 0.05
#: seconds in which the suggester comes to think again
SOON = 5.0
#: seconds without a write after which all is over, and that a run has to come to that
QUIET, PATIENCE = 30.0, 300.0

#: what the history says of a scheduler that finds a wrong configuration
NOT_STARTED = "not started"


@attrs.frozen(slots=True)
class Placed:
    """Where the pods of a workload are."""

    edge: int = 0
    cloud: int = 0
    waiting: int = 0

    def __str__(self) -> str:
        return f"{self.edge} at the edge, {self.cloud} in the cloud, {self.waiting} waiting"


#: by workload; those without pods left out
End = Mapping[str, Placed]


class Stage:
    def __init__(
        self,
        cluster: EmulatedCluster,
        seam: Seam,
        tasks: asyncio.TaskGroup,
        seed: int,
        times: LeaseTimes | None,
        *,
        paced: bool = False,
    ) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.hands = Hands(cluster)
        self.clock = VirtualClock()
        self.prometheus = LyingPrometheus(self.hands, self.clock)
        self.seam = seam
        seam.on_incident = self._happen
        self.invariants = Invariants(self.api)
        self.witness = Witness(self.api)
        #: all that ever ran, by name; an incarnation has a name of its own
        self.processes: dict[str, Process] = {}
        #: pods that came and went, by workload
        self.created: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        #: I9: seconds that another tenant's migration takes usually, and beside one that is slow
        self.neighbour_took = (0.0, 0.0)
        #: what the fault of the world was about: namespace and name of a pod
        self.struck_pod = ""
        self._tasks = tasks
        self._seed = seed
        self._times = times
        self.paced = paced
        self._on_its_way = ON_ITS_WAY + (DELIVERY[1] if paced else 0.0)
        #: None without an election
        self.ledger = None if times is None else Ledger(self.api, times.duration)
        self._last_write = 0.0
        self._kept: list[asyncio.Task[None]] = []
        self.api.store.subscribe(self._notice)

    # Schedulers.

    def start(self, replica: str, rate: float = 1.0) -> None:
        """Have a scheduler run, and started again whenever it ends, as the kubelet does."""
        self._kept.append(self._tasks.create_task(self._keep(replica, rate)))

    def close(self) -> None:
        """End all schedulers, and start none again."""
        for kept in self._kept:
            kept.cancel()
        for process in self.running:
            process.kill()

    async def _keep(self, replica: str, rate: float) -> None:
        for incarnation in itertools.count(1):
            name = f"{replica}-{incarnation}"
            try:
                process = self._process(name, rate)
            except DocumentError as error:
                self.seam.tell(name, NOT_STARTED, str(error))
            else:
                process.start()
                await process.wait()
                self.seam.tell(process.name, "ended")
            await self.clock.sleep(RESTART.after(incarnation - 1))

    def _process(self, name: str, rate: float) -> Process:
        """Raises DocumentError, as `kubedsm run` does if it is not configured well."""
        seam: ProcessSeam = self.seam.of(name)
        front = EmulatedFront(self.cluster.routes, self.clock, faults=seam, latency=LATENCY)
        process = Process(
            name,
            self._judged(front, name),
            self._tasks,
            _configured(self.hands.configuration()),
            CONFIGURED_BY,
            rate=rate,
            times=self._times,
            rng=random.Random(f"{self._seed} {name}"),
            listener=_PlansTold(partial(self.seam.tell, name)),
            prometheus=self.prometheus,
        )
        seam.attach(process)
        self.processes[name] = process
        return process

    def _judged(self, cluster: Cluster, name: str) -> Cluster:
        witnessed = self.witness.before(cluster, lambda: self.processes[name].runtime)
        return witnessed if self.ledger is None else self.ledger.before(witnessed, name)

    @property
    def leader(self) -> Process | None:
        """Who holds the Lease."""
        return None if self.ledger is None else self.processes.get(self.ledger.holder)

    @property
    def running(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.over]

    # The world.

    def _happen(self, fault: Fault, pod: str, node: str) -> None:
        self.struck_pod = pod
        self._excuse()
        try:
            end = strike(self.hands, fault.what, pod, node)
        except ApiError as error:
            self.seam.tell("", "it cannot happen", error.message)
            return
        if end is not None and fault.lasting:
            self.seam.ended += LASTING
            asyncio.get_running_loop().call_later(LASTING, self._end, end)

    def _end(self, end: Callable[[], object]) -> None:
        self.seam.tell("", "it is over")
        try:
            end()
        except ApiError as error:
            self.seam.tell("", "it was over", error.message)
        self._excuse()

    def _excuse(self) -> None:
        """What is on its way was sent by who could not know of what has just happened."""
        until = self.clock.monotonic() + self._on_its_way
        self.invariants.excused_until = self.witness.excused_until = until

    async def begin_anew(self) -> None:
        """Have other schedulers take over that know nothing of what was."""
        for process in self.running:
            process.kill()
        await self.clock.sleep(QUIET)

    # What is seen.

    def end(self) -> End:
        """Where all pods are now."""
        tiers = {n["metadata"]["name"]: labels_of(n) for n in self.api.list(NODES)}
        counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in filter(is_active, self.hands.pods()):
            tier = tiers.get(node_of(pod), {}).get("kubedsm.io/tier", "cloud")
            where = tier if node_of(pod) else "waiting"
            counted[labels_of(pod).get("app", "")][where] += 1
        return {app: Placed(**counts) for app, counts in sorted(counted.items())}

    def left_behind(self) -> list[str]:
        """Plans, reservations, claims and marks that are there now.

        What is held for a pod until those that make room for it have gone, is not.
        """
        pods = self.hands.pods()
        leaving = any(map(is_terminating, pods))
        found = [f"I5: {pod['metadata']['name']} is marked" for pod in pods if _is_marked(pod)]
        for process in self.running:
            held = process.runtime.mirror.held
            found += [
                f"I5: {process.name} holds {what}"
                for what in held
                if not (leaving and what.startswith("nomination"))
            ]
            if not process.runtime.manager.quiet.is_set():
                found.append(f"I5: {process.name} has a plan")
        return found

    def misunderstood(self) -> Iterator[str]:
        """Where the books of a scheduler disagree with themselves, or with the cluster."""
        there = {p["metadata"]["uid"]: node_of(p) or None for p in self.api.list(PODS)}
        for process in self.running:
            mirror = process.runtime.mirror
            if {pod.uid: pod.node_name for pod in mirror.pods()} != there:
                yield f"{process.name} takes other pods to be there, or elsewhere"
            try:
                mirror.check_invariants()
            except AssertionError as error:
                yield f"{process.name}: {error}"

    def tell_plans(self) -> None:
        """Have the history tell of those that are still under way."""
        for process in self.running:
            for story in process.runtime.manager.histories:
                self.seam.tell(process.name, "under way", story)

    @property
    def resting(self) -> bool:
        """Whether a workload or a site is left alone, and will be seen to when time has passed."""
        return any(
            process.runtime.manager.move_limits.resting(process.clock.monotonic())
            or process.runtime.sites.away().unsteady
            for process in self.running
        )

    @property
    def quiet_for(self) -> float:
        """Seconds since anybody wrote anything but a Lease."""
        return self.clock.monotonic() - self._last_write

    async def until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Wait for it. Returns whether it came about in time."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.1)
        return True

    def _notice(self, change: ObjectChange) -> None:
        if change.resource is LEASES:
            return
        self._last_write = self.clock.monotonic()
        here = change.object["metadata"].get("namespace") == NAMESPACE
        if here and change.resource is PODS and change.type != "MODIFIED":
            counter = self.created if change.type == "ADDED" else self.deleted
            counter[labels_of(change.object).get("app", "")] += 1


@cache
def _configured(text: str) -> Configuration:
    """Raises DocumentError. Thousands of runs have the same few."""
    return load(text, "the ConfigMap")


class _PlansTold(Listener):
    """Has the history tell how plans ended."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        steps = (f"{step.kind} {step.state} {step.reason}".rstrip() for step in plan.steps)
        self._tell(f"{plan.id} ended after {seconds:.2f} s", ", ".join(steps))


def _is_marked(pod: Object) -> bool:
    return MIGRATING_LABEL in labels_of(pod) and not is_terminating(pod)
