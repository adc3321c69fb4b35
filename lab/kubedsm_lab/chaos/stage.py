"""Stage of a run: the emulated cluster, the schedulers on it, and their oracles."""

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

import attrs

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, load
from kubedsm.explain.listener import Listener
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

#: round-trip time of a request in seconds
LATENCY = 0.01
#: restart back-off of a scheduler in seconds, like that of the kubelet
RESTART = Doubling(1.0, most=16.0)
#: seconds from an event until the last request of a scheduler that had not received the event
ON_ITS_WAY = 0.05
#: seconds until the suggester runs again
SOON = 5.0
#: seconds without a write that end a run, and the time limit for reaching that
QUIET, PATIENCE = 30.0, 300.0

#: history entry of a scheduler with an invalid configuration
NOT_STARTED = "not started"


@attrs.frozen(slots=True)
class Placed:
    """Placement of the pods of a workload."""

    edge: int = 0
    cloud: int = 0
    waiting: int = 0

    def __str__(self) -> str:
        return f"{self.edge} at the edge, {self.cloud} in the cloud, {self.waiting} waiting"


#: placement by workload, without empty ones
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
        seam.on_incident = self._begin_incident
        self.invariants = Invariants(self.api)
        self.witness = Witness(self.api)
        #: every incarnation of a scheduler by name
        self.processes: dict[str, Process] = {}
        #: created and deleted pods by workload
        self.created: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        #: I9: seconds of the migration of another tenant: usual, and next to a slow one
        self.neighbour_took = (0.0, 0.0)
        #: namespace and name of the pod of the incident
        self.struck_pod = ""
        self._tasks = tasks
        self._seed = seed
        self._times = times
        self.paced = paced
        self._on_its_way = ON_ITS_WAY + (DELIVERY[1] if paced else 0.0)
        #: None without leader election
        self.ledger = None if times is None else Ledger(self.api, times.duration)
        self._last_write = 0.0
        self._kept: list[asyncio.Task[None]] = []
        self.api.store.subscribe(self._on_change)

    # Schedulers.

    def start(self, replica: str, rate: float = 1.0) -> None:
        """Run a scheduler, and restart it with back-off like the kubelet."""
        self._kept.append(self._tasks.create_task(self._keep_running(replica, rate)))

    def close(self) -> None:
        """Kill all schedulers for good."""
        for kept in self._kept:
            kept.cancel()
        for process in self.running:
            process.kill()

    async def _keep_running(self, replica: str, rate: float) -> None:
        for incarnation in itertools.count(1):
            name = f"{replica}-{incarnation}"
            try:
                process = self._create_process(name, rate)
            except DocumentError as error:
                self.seam.tell(name, NOT_STARTED, str(error))
            else:
                process.start()
                await process.wait()
                self.seam.tell(process.name, "ended")
            await self.clock.sleep(RESTART.delay_after(incarnation - 1))

    def _create_process(self, name: str, rate: float) -> Process:
        """Create a process. Raises DocumentError if its configuration is invalid."""
        seam: ProcessSeam = self.seam.of(name)
        front = EmulatedFront(self.cluster.routes, self.clock, faults=seam, latency=LATENCY)
        process = Process(
            name,
            self._put_under_oracles(front, name),
            self._tasks,
            _parse_configuration(self.hands.configuration()),
            CONFIGURED_BY,
            rate=rate,
            times=self._times,
            rng=random.Random(f"{self._seed} {name}"),
            listener=_PlanRecorder(partial(self.seam.tell, name)),
            prometheus=self.prometheus,
        )
        seam.attach(process)
        self.processes[name] = process
        return process

    def _put_under_oracles(self, cluster: Cluster, name: str) -> Cluster:
        witnessed = self.witness.before(cluster, lambda: self.processes[name].runtime)
        return witnessed if self.ledger is None else self.ledger.before(witnessed, name)

    @property
    def leader(self) -> Process | None:
        """Return the holder of the Lease."""
        return None if self.ledger is None else self.processes.get(self.ledger.holder)

    @property
    def running(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.over]

    # Incidents.

    def _begin_incident(self, fault: Fault, pod: str, node: str) -> None:
        self.struck_pod = pod
        self._excuse_requests()
        try:
            end = strike(self.hands, fault.what, pod, node)
        except ApiError as error:
            self.seam.tell("", "it cannot happen", error.message)
            return
        if end is not None and fault.lasting:
            self.seam.ended += LASTING
            asyncio.get_running_loop().call_later(LASTING, self._end_incident, end)

    def _end_incident(self, end: Callable[[], object]) -> None:
        self.seam.tell("", "it is over")
        try:
            end()
        except ApiError as error:
            self.seam.tell("", "it was over", error.message)
        self._excuse_requests()

    def _excuse_requests(self) -> None:
        """Excuse requests that were sent before their sender could observe the incident."""
        until = self.clock.monotonic() + self._on_its_way
        self.invariants.excused_until = self.witness.excused_until = until

    async def replace_schedulers(self) -> None:
        """Replace all schedulers by new ones, without their memory."""
        for process in self.running:
            process.kill()
        await self.clock.sleep(QUIET)

    # Observations.

    def end(self) -> End:
        """Return the present placement."""
        tiers = {n["metadata"]["name"]: labels_of(n) for n in self.api.list(NODES)}
        counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in filter(is_active, self.hands.pods()):
            tier = tiers.get(node_of(pod), {}).get("kubedsm.io/tier", "cloud")
            where = tier if node_of(pod) else "waiting"
            counted[labels_of(pod).get("app", "")][where] += 1
        return {app: Placed(**counts) for app, counts in sorted(counted.items())}

    def orphans(self) -> list[str]:
        """Return orphaned plans, reservations, claims and migration labels.

        A nomination is no orphan while its victims terminate.
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

    def contradictions(self) -> Iterator[str]:
        """Yield contradictions within a mirror, and between a mirror and the cluster."""
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
        """Record plans that are still in progress."""
        for process in self.running:
            for story in process.runtime.manager.histories:
                self.seam.tell(process.name, "under way", story)

    @property
    def resting(self) -> bool:
        """Return whether a cooldown of a workload, or stabilisation of a site, is pending."""
        return any(
            process.runtime.manager.move_limits.resting(process.clock.monotonic())
            or process.runtime.sites.away().unsteady
            for process in self.running
        )

    @property
    def quiet_for(self) -> float:
        """Return the seconds since the last write, except those of Leases."""
        return self.clock.monotonic() - self._last_write

    async def until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Wait for a condition; return whether it held before the deadline."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.1)
        return True

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource is LEASES:
            return
        self._last_write = self.clock.monotonic()
        here = change.object["metadata"].get("namespace") == NAMESPACE
        if here and change.resource is PODS and change.type != "MODIFIED":
            counter = self.created if change.type == "ADDED" else self.deleted
            counter[labels_of(change.object).get("app", "")] += 1


@cache
def _parse_configuration(text: str) -> Configuration:
    """Parse a configuration. Raises DocumentError. Cached: thousands of runs share a few."""
    return load(text, "the ConfigMap")


class _PlanRecorder(Listener):
    """Records the results of plans."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        steps = (f"{step.kind} {step.state} {step.reason}".rstrip() for step in plan.steps)
        self._tell(f"{plan.id} ended after {seconds:.2f} s", ", ".join(steps))


def _is_marked(pod: Object) -> bool:
    return MIGRATING_LABEL in labels_of(pod) and not is_terminating(pod)
