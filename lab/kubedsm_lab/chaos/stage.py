"""Environment of a chaos run: an emulated cluster, its schedulers, and the oracles."""

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
from kubedsm_lab.chaos.faults import LASTING, Fault
from kubedsm_lab.chaos.hands import CONFIGURATION, NAMESPACE, Hands
from kubedsm_lab.chaos.incidents import begin_incident
from kubedsm_lab.chaos.ledger import Ledger, LedgerCluster
from kubedsm_lab.chaos.linearizability import History, RecordedCluster
from kubedsm_lab.chaos.lying_prometheus import LyingPrometheus
from kubedsm_lab.chaos.oracles import Invariants, Witness, WitnessedCluster, list_selected
from kubedsm_lab.chaos.process import Process
from kubedsm_lab.chaos.seam import ProcessSeam, Seam
from kubedsm_lab.chaos.versions import NewerVersion, known_to_newer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import is_active, is_terminating, labels_of, node_of
from kubedsm_lab.emulator.api.pacing import DELIVERY
from kubedsm_lab.emulator.api.resources import LEASES, NODES, PODS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.steps import Plan

#: seconds from a request to its response
LATENCY = 0.01
#: restart delay in seconds, as the kubelet's
RESTART = Doubling(1.0, most=16.0)
#: seconds from an event until requests sent in ignorance have arrived
REACTION_TIME = 0.05
#: seconds within which the suggester runs again
SOON = 5.0
#: seconds without writes before the end of a run, and deadline: longer than any grace period
QUIET, PATIENCE = 30.0, 900.0
#: pods of a run that are never reached unless each fails and is replaced
MOST_PODS = 300

#: remark about a scheduler with an invalid configuration
NOT_STARTED = "not started"


@attrs.frozen(slots=True)
class Placed:
    """Number of a workload's pods at the edge, in the cloud, and pending; and at each edge site."""

    edge: int = 0
    cloud: int = 0
    waiting: int = 0
    #: in name order
    sites: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        sites = ", ".join(f"{site} {number}" for site, number in self.sites)
        at_sites = f" ({sites})" if sites else ""
        return (
            f"{self.edge} at the edge{at_sites}, {self.cloud} in the cloud, {self.waiting} waiting"
        )


#: by workload; workloads without pods are left out
End = Mapping[str, Placed]


class Stage:
    """Environment of a chaos run: emulated cluster, scheduler processes and test oracles."""

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
        self.hands = Hands(cluster.api, cluster)
        self.clock = VirtualClock()
        self.prometheus = LyingPrometheus(self.hands, self.clock)
        self.seam = seam
        seam.on_incident = self._begin_incident
        #: time until which faults may hide changes from schedulers
        self.hidden_until: Callable[[], float] = lambda: 0.0
        self.invariants = Invariants(self.api)
        self.witness = Witness(self.api)
        #: every process of the run, with a separate name after each restart
        self.processes: dict[str, Process] = {}
        #: pods created and deleted, by workload
        self.created: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        #: I9: seconds of another tenant's migration, usually and next to a slow one
        self.neighbour_took = (0.0, 0.0)
        #: by incident: namespace and name of the pod
        self.struck_pods: dict[Fault, str] = {}
        self._tasks = tasks
        self._seed = seed
        self._times = times
        self.paced = paced
        self._reaction_time = REACTION_TIME + (DELIVERY[1] if paced else 0.0)
        #: None without leader election
        self.ledger = None if times is None else Ledger(self.api, times.duration)
        #: None for a single scheduler
        self.history = None if times is None else History(self.api)
        self._last_write = 0.0
        #: by replica
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self.api.store.subscribe(self._count_pod)

    # Schedulers.

    def start_scheduler(self, replica: str, rate: float = 1.0, *, newer: bool = False) -> None:
        """Start a scheduler, and restart it whenever it ends, as the kubelet does.

        `newer`: of the version that follows this one.
        """
        keeping = self._keep_running(replica, rate, newer=newer)
        self._keeping[replica] = self._tasks.create_task(keeping)

    def remove_scheduler(self, replica: str, *, graceful: bool = True) -> None:
        """End a scheduler by SIGTERM, or else SIGKILL, and do not restart it."""
        self._keeping.pop(replica).cancel()
        for process in self.running:
            if process.name.startswith(f"{replica}-") and graceful:
                process.stopping.set()
            elif process.name.startswith(f"{replica}-"):
                process.kill()

    def stop_schedulers(self) -> None:
        """End all scheduler processes and do not restart any."""
        for keeping in self._keeping.values():
            keeping.cancel()
        for process in self.running:
            process.kill()

    async def _keep_running(self, replica: str, rate: float, *, newer: bool) -> None:
        for incarnation in itertools.count(1):
            name = f"{replica}-{incarnation}"
            try:
                process = self._create_process(name, rate, newer=newer)
            except DocumentError as error:
                self.seam.add_remark(name, NOT_STARTED, str(error))
            else:
                process.start()
                await process.wait()
                self.seam.add_remark(process.name, "ended")
            await self.clock.sleep(RESTART.delay_after(incarnation - 1))

    def _create_process(self, name: str, rate: float, *, newer: bool) -> Process:
        """Create a scheduler process from the ConfigMap; raise DocumentError if that is invalid."""
        text = self.hands.read_configuration()
        seam = ProcessSeam(self.seam, name)
        front = EmulatedFront(self.cluster.routes, self.clock, faults=seam, latency=LATENCY)
        observed = self._observe_requests(front, name)
        process = Process(
            name,
            NewerVersion(observed) if newer else observed,
            self._tasks,
            _parse_configuration(known_to_newer(text) if newer else text),
            CONFIGURATION,
            rate=rate,
            times=self._times,
            rng=random.Random(f"{self._seed} {name}"),
            listener=_PlanRecorder(partial(self.seam.add_remark, name)),
            prometheus=self.prometheus,
        )
        if self.history is not None:
            self.history.record_mirror(name, process.runtime.mirror)
        seam.attach(process)
        self.processes[name] = process
        return process

    def _observe_requests(self, cluster: Cluster, name: str) -> Cluster:
        witnessed = WitnessedCluster(cluster, self.witness, lambda: self.processes[name].runtime)
        if self.ledger is None or self.history is None:
            return witnessed
        return LedgerCluster(RecordedCluster(witnessed, self.history, name), self.ledger, name)

    @property
    def leader(self) -> Process | None:
        """Return the scheduler process that holds the Lease, if any."""
        return None if self.ledger is None else self.processes.get(self.ledger.holder)

    @property
    def running(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.over]

    # Incidents.

    def _begin_incident(self, fault: Fault, pod: str, node: str) -> None:
        self.struck_pods[fault] = pod
        self.excuse_losses()
        self.invariants.is_incident = True
        try:
            end = begin_incident(self.hands, fault.what, pod, node)
        except ApiError as error:
            self.seam.add_remark("", "incident impossible", error.message)
            return
        finally:
            self.invariants.is_incident = False
        if end is not None and fault.lasting:
            self.seam.extend_fault(LASTING)
            asyncio.get_running_loop().call_later(LASTING, self._end_incident, end)

    def _end_incident(self, end: Callable[[], object]) -> None:
        self.seam.add_remark("", "incident ends")
        try:
            end()
        except ApiError as error:
            self.seam.add_remark("", "incident had ended", error.message)
        self.excuse_losses()

    def excuse_losses(self) -> None:
        """Suspend the test oracles after an incident for the reaction time, in which schedulers may
        be unaware of the loss; longer if another fault hides changes.
        """
        until = max(self.clock.monotonic(), self.hidden_until()) + self._reaction_time
        self.invariants.excused_until = self.witness.excused_until = until

    def extend_excuse(self) -> None:
        """Suspend the test oracles again, unless schedulers had time to notice all incidents."""
        if self.clock.monotonic() <= self.invariants.excused_until:
            self.excuse_losses()

    async def restart_schedulers(self) -> None:
        """Kill all scheduler processes, and wait until the restarted ones have had time to act."""
        for process in self.running:
            process.kill()
        await self.clock.sleep(QUIET)

    # Observations.

    def count_placements(self) -> End:
        nodes = {n["metadata"]["name"]: labels_of(n) for n in self.api.list(NODES)}
        tiers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        sites: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in filter(is_active, self.hands.list_pods()):
            app, labels = labels_of(pod).get("app", ""), nodes.get(node_of(pod), {})
            where = labels.get("kubedsm.io/tier", "cloud") if node_of(pod) else "waiting"
            tiers[app][where] += 1
            if site := labels.get("topology.kubernetes.io/zone"):
                sites[app][site] += 1
        return {
            app: Placed(**counts, sites=tuple(sorted(sites[app].items())))
            for app, counts in sorted(tiers.items())
        }

    def list_leftovers(self) -> list[str]:
        """Return violations of I5: migration plans, reservations and migration labels that remain
        at the end of a run.

        Nominations count only without terminating victims.
        """
        pods = self.hands.list_pods()
        leaving = any(map(is_terminating, pods))
        found = [f"I5: {pod['metadata']['name']} is marked" for pod in pods if _is_marked(pod)]
        found += list_selected(self.api)
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

    def list_mirror_errors(self) -> Iterator[str]:
        """Yield contradictions between the schedulers' mirrors and the cluster, and within each
        mirror.
        """
        placed = {p["metadata"]["uid"]: node_of(p) or None for p in self.api.list(PODS)}
        for process in self.running:
            mirror = process.runtime.mirror
            if {pod.uid: pod.node_name for pod in mirror.pods()} != placed:
                yield f"{process.name}: the mirror has other pods or nodes than the cluster"
            try:
                mirror.check_invariants()
            except AssertionError as error:
                yield f"{process.name}: {error}"

    def record_plans(self) -> None:
        """Add the schedulers' migration plans in progress to the run's history."""
        for process in self.running:
            for history in process.runtime.manager.histories:
                self.seam.add_remark(process.name, "in progress", history)

    @property
    def resting(self) -> bool:
        """Return whether a workload is in its pause after a migration, or a returned edge site in
        its stabilisation period.
        """
        return any(
            process.runtime.manager.migrations.resting() or process.runtime.sites.away().stabilising
            for process in self.running
        )

    @property
    def has_deferrals(self) -> bool:
        """Return whether a scheduler defers migrations of a workload, for example after failures;
        a restarted scheduler may not.
        """
        return any(process.runtime.manager.migrations.list_deferred() for process in self.running)

    @property
    def quiet_for(self) -> float:
        """Return the seconds since the last write request, without Lease renewals."""
        return self.clock.monotonic() - self._last_write

    async def wait_until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Wait until the condition holds; return False after the deadline."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.1)
        return True

    def _count_pod(self, change: ObjectChange) -> None:
        if change.resource is LEASES:
            return
        self._last_write = self.clock.monotonic()
        here = change.object["metadata"].get("namespace") == NAMESPACE
        if here and change.resource is PODS and change.type != "MODIFIED":
            counter = self.created if change.type == "ADDED" else self.deleted
            counter[labels_of(change.object).get("app", "")] += 1
            if self.created.total() > MOST_PODS:
                self.cluster.stop_controllers()  # no replacements that fail without end


@cache
def _parse_configuration(text: str) -> Configuration:
    """Parse a configuration document, cached for the thousands of runs that share it.

    Raises DocumentError.
    """
    return load(text, "the ConfigMap")


class _PlanRecorder(Listener):
    """Scheduler listener that adds completed migration plans to the run's history."""

    def __init__(self, add_remark: Callable[[str, str], None]) -> None:
        self._add_remark = add_remark

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        steps = (f"{step.kind} {step.state} {step.reason}".rstrip() for step in plan.steps)
        self._add_remark(f"{plan.id} ended after {seconds:.2f} s", ", ".join(steps))


def _is_marked(pod: Object) -> bool:
    return MIGRATING_LABEL in labels_of(pod) and not is_terminating(pod)
