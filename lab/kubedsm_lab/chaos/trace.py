"""One chaos run: a workload with its faults, until the cluster no longer changes."""

import asyncio
import random
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import attrs
import structlog

from kubedsm.kube.watching.reflector import LIST_TIMEOUT, SILENT_AFTER
from kubedsm.rebalancing.packer import IN_VAIN
from kubedsm_lab.chaos.faults import (
    APPLIED_LATE,
    CALL,
    LASTING,
    PROCESS,
    WATCH,
    WORLD,
    Fault,
    loop_time,
)
from kubedsm_lab.chaos.hands import NAMESPACE
from kubedsm_lab.chaos.incidents import INCIDENTS
from kubedsm_lab.chaos.oracles import Delays, out_of_place
from kubedsm_lab.chaos.perturbations import LATE
from kubedsm_lab.chaos.process import GRACE, INTERRUPTIONS, STOPPED_LATE
from kubedsm_lab.chaos.seam import Moment, Seam
from kubedsm_lab.chaos.stage import NOT_STARTED, PATIENCE, QUIET, SOON, End, Stage
from kubedsm_lab.chaos.workloads import WORKLOADS, Workload
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.paper import node, pod_spec
from kubedsm_lab.replay.virtual_time import StandstillError, VirtualClock, run_in_virtual_time

BYSTANDER_NAMESPACE = "beside"
#: node without capacity for other pods
BYSTANDER_NODE = node("b1", "cloud", "100m", "200Mi")
#: remark in the history
RESTART = "the run has ended; restart to compare the placements"
#: seconds from the fault to the bystander's creation
ARRIVAL_DELAY = 0.1
#: seconds until a known pod is bound, also by a newly started scheduler
USUAL = 3.0
#: longest back-off after a lasting fault in seconds
_BACK_OFF = 45.0
#: further back-off of a watch in seconds, if the failures of two faults follow each other without
#: success in between: two after each fault, with delays that double
_DOUBLED_BACK_OFF = 12.0


class Bystander:
    """Pods of another tenant, one created after each fault, to check that no bind is delayed
    unduly.
    """

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        #: time of creation by name of the pod
        self._created: dict[str, float] = {}
        #: seconds until the bind, by name of the pod
        self.waited: dict[str, float] = {}
        api.create(NAMESPACES, {"metadata": {"name": BYSTANDER_NAMESPACE}})
        api.store.subscribe(self._record_bind)

    @property
    def is_pending(self) -> bool:
        return len(self.waited) < len(self._created)

    def schedule_arrival(self) -> None:
        """Schedule the creation of the other tenant's pod shortly after a fault is injected."""
        asyncio.get_running_loop().call_later(ARRIVAL_DELAY, self._create_pod)

    def _create_pod(self) -> None:
        here = {"kubernetes.io/hostname": BYSTANDER_NODE["metadata"]["name"]}
        spec = pod_spec({"cpu": "50m", "memory": "50Mi"}, nodeSelector=here)
        name = f"bystander-{len(self._created)}"
        self._created[name] = loop_time()
        metadata = {"name": name, "labels": {"app": "bystander"}}
        self._api.create(PODS, {"metadata": metadata, "spec": spec}, namespace=BYSTANDER_NAMESPACE)

    def _record_bind(self, change: ObjectChange) -> None:
        metadata = change.object["metadata"]
        if change.resource is not PODS or metadata["namespace"] != BYSTANDER_NAMESPACE:
            return
        if node_of(change.object) and metadata["name"] not in self.waited:
            self.waited[metadata["name"]] = loop_time() - self._created[metadata["name"]]


def longest_wait(fault: Fault, handover: float, slowest: float, *, replaced: bool) -> float:
    """Return the longest acceptable seconds until the bind of the other tenant's pod, given the
    fault's duration.

    `handover` is the seconds until another replica leads (0 without another replica), `slowest` the
    rate of the slowest clock. `replaced` is whether a replica is left that no fault interrupts.
    """
    if fault.family == PROCESS:
        interruption = INTERRUPTIONS[fault.what]
        is_served = replaced and interruption.end is not None
        # A Lease that is renewed late counts from the arrival.
        late = 0.0 if interruption.delivery is None else interruption.delivery.late
        return USUAL + handover + late + (0.0 if is_served else interruption.lasts)
    return handover + _longest_disturbance(fault) / slowest


def _longest_disturbance(fault: Fault) -> float:
    if fault.lasting and fault.family != WORLD:
        return LASTING + _BACK_OFF
    if fault.what == "silence":
        return SILENT_AFTER + USUAL
    if fault.what == "delay":
        return LATE + USUAL
    if fault.what.startswith("timeout") and fault.point.startswith(
        ("list-", "watch-", "get-version")
    ):
        return LIST_TIMEOUT + USUAL
    return USUAL


#: unit of coverage: family, injection point and kind of a fault, or the classes of several faults
Cell = tuple[str, ...] | tuple[tuple[str, str], ...]

#: seconds between the starts of two schedulers; the first becomes the leader
_APART = 0.5
#: seconds between samples of the state
_SAMPLE = 1.0
_TIMING = Timing(start_delay=0.5, stop_delay=0.5, orphan_delay=10.0)
#: additional migrations caused by a fault, per usual migration: back and forth after a failure;
#: and by a lasting fault, with repeated attempts
_EXTRA_MIGRATIONS, _LASTING_MIGRATIONS = 2, 8
#: families of faults after which no list is outdated, no capacity lost, and no pod bound by others
_LISTED_TRULY = (CALL, PROCESS)
#: faults after which a bind may arrive that was given up
_LATE = (APPLIED_LATE, STOPPED_LATE)
#: I9: most delay of a migration by another tenant, in times of the usual duration
MOST_DELAYS = 2


@attrs.frozen(order=True)
class Injection:
    """Parameters of a chaos run: workload, faults in the order of their strikes, and seed.

    A nonzero `seed` shuffles the order of ready tasks.
    """

    workload: str
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    #: with the latencies of a real control plane
    paced: bool = False

    @property
    def command(self) -> str:
        faults = "".join(f" --fault {fault}" for fault in self.faults)
        paced = " --paced" if self.paced else ""
        return f"kubedsm chaos --workload {self.workload} --seed {self.seed}{paced}{faults}"

    @property
    def cell(self) -> Cell:
        """Return the unit of coverage: the cell of a single fault, or the classes of several."""
        if len(self.faults) == 1:
            return self.faults[0].cell
        return self.fault_classes

    @property
    def fault_classes(self) -> tuple[tuple[str, str], ...]:
        """Class of each fault, as (kind, class of injection points)."""
        return tuple(fault.fault_class for fault in self.faults)

    def add_fault(self, fault: Fault) -> Self:
        """Return the same run with one more fault, which strikes after the others."""
        return attrs.evolve(self, faults=(*self.faults, fault))


@attrs.frozen
class Outcome:
    """Result of a chaos run: final placements, numbers of pods created and deleted, history, and
    violated guarantees.
    """

    injection: Injection
    end: End
    created: int
    deleted: int
    #: by workload: most unready replicas at once, after all were Ready
    missed: Mapping[str, int]
    #: whether each fault was injected
    struck: bool
    #: time when the last fault ended
    ended: float
    history: tuple[Moment, ...]
    violations: tuple[str, ...]


def play(injection: Injection, reference: Outcome | None = None) -> Outcome:
    """Execute a chaos run in virtual time and return the outcome; with `reference`, also compare
    the final placements. A run that stands still has only that violation.
    """
    order = random.Random(injection.seed) if injection.seed else None
    try:
        return run_in_virtual_time(_play_injection(injection, reference), order)
    except StandstillError as error:
        return Outcome(injection, {}, 0, 0, {}, True, 0.0, (), (f"I6: {error}",))


async def _play_injection(injection: Injection, reference: Outcome | None) -> Outcome:
    workload = WORKLOADS[injection.workload]
    clock = VirtualClock()
    spec = ClusterSpec((*workload.nodes, BYSTANDER_NODE), _TIMING)
    rng = random.Random(injection.seed)
    async with EmulatedCluster(spec, clock, rng, paced=injection.paced) as cluster:
        bystander = Bystander(cluster.api)
        seam = Seam(cluster.routes, injection.faults)
        with _capture_log(seam) as errors:
            async with asyncio.TaskGroup() as tasks:
                stage = Stage(
                    cluster, seam, tasks, injection.seed, workload.times, paced=injection.paced
                )
                stage.hidden_until = partial(_hidden_until, seam, min(workload.rates))
                seam.on_strike = partial(_notice_strike, stage, bystander)
                delays = Delays(cluster.api, workload.handover)
                sampling = tasks.create_task(_sample_delays(delays, stage, workload))
                await _run_workload(workload, stage, bystander, reference)
                sampling.cancel()
                violations = [
                    *_list_violations(workload, stage, reference),
                    *_check_bystander(bystander, seam, workload),
                    *delays.wrong,
                    *errors,
                ]
                stage.record_plans()
                violations += await _compare_with_restart(stage)
                stage.stop_schedulers()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    violations += [f"leaked: {task.get_name()}" for task in left]
    if cluster.routes.open_watches:
        violations.append(f"leaked: {cluster.routes.open_watches} watches")
    return Outcome(
        injection,
        stage.count_placements(),
        stage.created.total(),
        stage.deleted.total(),
        stage.invariants.missed,
        seam.has_struck,
        seam.ended,
        tuple(seam.history),
        tuple(violations),
    )


def _notice_strike(stage: Stage, bystander: Bystander) -> None:
    bystander.schedule_arrival()
    stage.extend_excuse()


def _hidden_until(seam: Seam, slowest: float) -> float:
    """Return the time until which a fault may hide changes from a scheduler: one of a watch, a
    list or the process; 0 without any. A watch that hides changes now does so until the next
    sample at least.
    """
    ends = (
        struck + longest_wait(fault, 0.0, slowest, replaced=False)
        for fault, struck in seam.struck.items()
        if fault.family in (WATCH, PROCESS) or fault.point.startswith(("list-", "watch-"))
        if fault.family != WORLD
    )
    return max(loop_time() + _SAMPLE if seam.hides_changes else 0.0, max(ends, default=0.0))


async def _run_workload(
    workload: Workload, stage: Stage, bystander: Bystander, reference: Outcome | None
) -> None:
    """Run the workload's user actions, then wait until the cluster no longer changes, or until the
    deadline.
    """
    for number, rate in enumerate(workload.rates):
        stage.start_scheduler(f"kubedsm-{number}", rate)
        if workload.times is not None:
            await stage.clock.sleep(_APART)
    await workload.course(stage)
    course_ended = unsettled = now = stage.clock.monotonic()
    while now < unsettled + SOON and now <= max(course_ended, stage.seam.ended) + PATIENCE:
        await stage.clock.sleep(_SAMPLE)
        now = stage.clock.monotonic()
        if bystander.is_pending or not _is_settled(stage, reference):
            unsettled = now


def _is_settled(stage: Stage, reference: Outcome | None) -> bool:
    due = reference is None or stage.clock.monotonic() >= stage.seam.ended + QUIET
    due = due and not stage.seam.hides_changes
    quiet = QUIET
    if _has_incident(stage):
        due = due and stage.clock.monotonic() >= stage.hidden_until() + QUIET
        pods = stage.hands.list_pods()
        as_usual = not stage.resting and not any(out_of_place(stage.api, pods, NAMESPACE))
        if not all(map(node_of, pods)):
            quiet += IN_VAIN.most  # until packing makes its next attempt
    elif reference is None:
        as_usual = not stage.resting
    else:
        as_usual = stage.count_placements() == reference.end
    unfinished = stage.list_leftovers() or any(stage.list_mirror_errors())
    return due and as_usual and stage.quiet_for >= quiet and not unfinished


def _has_incident(stage: Stage) -> bool:
    """Return whether a fault changed the cluster, so that final placements may differ."""
    return any(fault.family == WORLD for fault in stage.seam.struck)


def _list_violations(workload: Workload, stage: Stage, reference: Outcome | None) -> Iterator[str]:
    faults = stage.seam.faults
    # A bind considered lost may still arrive after its capacity is reserved again: no precondition
    # prevents a late bind, and the kubelet refuses either pod.
    late = any(fault.what in _LATE for fault in faults)
    yield from (what for what in stage.invariants.wrong if not (late and what.startswith("I2")))
    yield from (f"I3: {what}" for what in stage.witness.wrong)
    yield from _check_leaders(stage)
    usual, delayed = stage.neighbour_took
    by_tenant = all(_is_of_tenant(stage, fault) for fault in faults)
    if delayed > (1 + MOST_DELAYS) * usual and by_tenant:
        yield f"I9: a neighbour's migration took {delayed:.1f} s, and usually {usual:.1f} s"
    yield from stage.list_leftovers()
    yield from stage.list_mirror_errors()
    if stage.quiet_for < QUIET:
        yield "I6: the cluster does not come to rest"
    for process in stage.processes.values():
        yield from (f"{process.name} caught {what}" for what in process.runtime.supervisor.caught)
        if process.failure is not None:
            yield f"{process.name} ended by {process.failure!r}"
    if _has_incident(stage):
        yield from out_of_place(stage.api, stage.hands.list_pods(), NAMESPACE)
    elif reference is not None:
        yield from _compare_with_reference(stage, reference)
    elif not faults:
        yield from _list_differences(stage.count_placements(), workload.end, "should have")
        yield from (f"I3: {what}" for what in stage.witness.hasty)


def _check_leaders(stage: Stage) -> Iterator[str]:
    """Yield violations by one of several schedulers: of I8, and books that no order explains."""
    faults = stage.seam.faults
    if stage.ledger is None or stage.history is None:
        return
    yield from stage.ledger.wrong
    if not any(fault.lasting or fault.family == PROCESS for fault in faults):
        yield from stage.ledger.check_renewals()
    if all(f.family in _LISTED_TRULY and f.what not in _LATE for f in faults):
        yield from stage.history.check()


def _is_of_tenant(stage: Stage, fault: Fault) -> bool:
    """Return whether the fault is an incident that a tenant can cause, on a pod of the tenant's
    workload `web`.
    """
    incident = INCIDENTS.get(fault.what)
    tenant = incident is not None and incident.by_tenant
    return tenant and stage.struck_pods.get(fault, "").rpartition("/")[2].startswith("web-")


def _compare_with_reference(stage: Stage, reference: Outcome) -> Iterator[str]:
    """Yield differences between the final placements and those of the run without fault, and
    surplus pods.
    """
    repeated = [
        _LASTING_MIGRATIONS if fault.lasting or fault.family == PROCESS else _EXTRA_MIGRATIONS
        for fault in stage.seam.faults
    ]
    allowed = reference.deleted * sum(repeated or [_EXTRA_MIGRATIONS])
    # A bind that arrives late at a full node is refused by the kubelet, and its pod replaced.
    late = [fault for fault in stage.seam.faults if fault.what == APPLIED_LATE]
    allowed += sum(_LASTING_MIGRATIONS if fault.lasting else 1 for fault in late)
    if stage.paced:
        # Pods arrive one after the other: a pod may go to the cloud while a bind that fails later
        # reserves the edge, and is migrated once.
        allowed += reference.created
    yield from _list_differences(stage.count_placements(), reference.end, "usually")
    # The workload that loses pods with a node may depend on the order of binds.
    usually = max(reference.missed.values(), default=0)
    if usually and late:
        # A bind that was given up, and arrives late, takes the capacity of the first victim.
        usually += 1
    for app, missed in stage.invariants.missed.items():
        if missed > usually:
            yield f"I3: {missed} pods of {app} were not Ready at once, and usually {usually}"
    for what, here, usual in (
        ("created", stage.created.total(), reference.created),
        ("deleted", stage.deleted.total(), reference.deleted),
    ):
        if here - usual > allowed:
            yield f"{here} pods were {what}, and usually {usual}"


async def _sample_delays(delays: Delays, stage: Stage, workload: Workload) -> None:
    """Measure delays from the time on at which another tenant's pod must have been bound, and no
    watch hides a change; meanwhile losses remain excused.
    """
    hidden = 0.0
    while True:
        await stage.clock.sleep(_SAMPLE)
        if stage.seam.hides_changes:
            hidden = stage.clock.monotonic()
            stage.extend_excuse()
        struck = max(stage.seam.struck.values(), default=0.0)
        settled = max(stage.seam.ended, hidden, struck + _longest_wait(stage.seam, workload))
        delays.sample(stage.hands.list_pods(), settled)


def _longest_wait(seam: Seam, workload: Workload) -> float:
    """Return the longest acceptable seconds until a pod is bound after the faults so far."""
    handover, slowest = workload.handover, min(workload.rates)
    interrupted = sum(fault.family == PROCESS for fault in seam.struck)
    replaced = interrupted < len(workload.rates)
    longest = sum(longest_wait(each, handover, slowest, replaced=replaced) for each in seam.struck)
    if sum(fault.family in (CALL, WATCH) for fault in seam.struck) > 1:
        longest += _DOUBLED_BACK_OFF / slowest
    if workload.handover and any(fault.family == WORLD for fault in seam.struck):
        longest += GRACE  # a terminating leader waits for delayed migrations
    return longest


def _check_bystander(bystander: Bystander, seam: Seam, workload: Workload) -> Iterator[str]:
    if any(moment.point == NOT_STARTED for moment in seam.history):
        return  # with an invalid configuration no scheduler starts
    longest = _longest_wait(seam, workload)
    if bystander.is_pending:
        yield "the bystander was never bound"
    for waited in bystander.waited.values():
        if waited > longest:
            yield f"the bystander waited for {waited:.1f} s, {longest:.1f} at most"


async def _compare_with_restart(stage: Stage) -> list[str]:
    """Return changes of placements after all schedulers restart without memory of the run."""
    if not _has_incident(stage) or stage.has_deferrals:
        return []
    before = stage.count_placements()
    stage.seam.add_remark("", RESTART)
    await stage.restart_schedulers()
    after = stage.count_placements()
    return list(_list_differences(before, after, "after a restart of the schedulers"))


def _list_differences(end: End, other: End, whose: str) -> Iterator[str]:
    for app in sorted({*end, *other}):
        if end.get(app) != other.get(app):
            yield f"I7: {app} has {end.get(app)}, and {whose} {other.get(app)}"


@contextmanager
def _capture_log(seam: Seam) -> Iterator[list[str]]:
    """Add the schedulers' log entries to the history; yield the list of errors."""
    errors: list[str] = []
    before = structlog.get_config()

    def add_entry(_: Any, level: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        fields = " ".join(f"{key}={value}" for key, value in entry.items() if key != "event")
        seam.add_remark("", f"{level} {entry['event']}", fields)
        if level in ("error", "critical", "exception"):
            errors.append(f"logged: {entry['event']} {fields}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[add_entry], wrapper_class=structlog.make_filtering_bound_logger("INFO")
    )
    try:
        yield errors
    finally:
        structlog.configure(**before)


_NAME = re.compile(r"[\w.-]+")
#: run-specific parts of violations: numbers, generated names, schedulers
_PARTICULAR = re.compile(r"\bkubedsm-[\d-]+|-[0-9a-z]{8,10}-[0-9a-z]{5}\b|[0-9a-f-]{36}|[\d.]+")


def describe_outcome(outcome: Outcome) -> list[str]:
    """Return text lines: the history from the fault on, limited to the objects with violations,
    final placements and violations.
    """
    lines = [str(moment) for moment in _select_moments(outcome)]
    lines += [f"{app}: {placed}" for app, placed in outcome.end.items()]
    return lines + [f"BROKEN {violation}" for violation in outcome.violations]


def normalize_violations(violations: Iterable[str]) -> frozenset[str]:
    """Replace run-specific names in descriptions of violations, so that equal violations of several
    runs compare equal.
    """
    return frozenset(_PARTICULAR.sub("#", violation) for violation in violations)


def _select_moments(outcome: Outcome) -> Iterator[Moment]:
    history = outcome.history
    struck = next((n for n, moment in enumerate(history) if moment.is_fault), 0)
    since = history[max(0, struck - 1) :]
    named = {name for text in outcome.violations for name in _NAME.findall(text)}
    concerned = {part for moment in since for part in _name_parts(moment) if _is_of(part, named)}
    for moment in since:
        parts = _name_parts(moment)
        if moment.is_fault or not moment.family or not concerned or concerned & parts:
            yield moment


def _name_parts(moment: Moment) -> set[str]:
    return set(moment.about.split("/")[1:])


def _is_of(part: str, named: set[str]) -> bool:
    """Return whether an object's name is in `named`, or is that of a ReplicaSet or pod of a name in
    `named`.
    """
    pieces = part.split("-")
    return any("-".join(pieces[:count]) in named for count in range(1, len(pieces) + 1))
