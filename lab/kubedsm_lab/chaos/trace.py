"""Trace of one run: a workload with one fault, from its start until the cluster is quiet."""

import asyncio
import random
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import attrs
import structlog

from kubedsm.kube.watching.reflector import LIST_TIMEOUT, SILENT_AFTER
from kubedsm.process.clock import VirtualClock
from kubedsm_lab.chaos.faults import APPLIED_LATE, LASTING, WORLD, Fault
from kubedsm_lab.chaos.hands import NAMESPACE
from kubedsm_lab.chaos.incidents import INCIDENTS
from kubedsm_lab.chaos.oracles import OURS, out_of_place
from kubedsm_lab.chaos.perturbations import LATE
from kubedsm_lab.chaos.process import GRACE, INTERRUPTIONS, PROCESS
from kubedsm_lab.chaos.seam import Moment, Seam
from kubedsm_lab.chaos.stage import NOT_STARTED, PATIENCE, QUIET, SOON, End, Stage
from kubedsm_lab.chaos.workloads import WORKLOADS, Workload
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import run_in_virtual_time

BYSTANDER_NAMESPACE = "beside"
#: node for the bystander only
BYSTANDER_NODE = node("b1", "cloud", "100m", "200Mi")
#: seconds from the fault to the arrival of the bystander
COMES_AFTER = 0.1
#: seconds within which a pod is bound, even by a scheduler that has just started
USUAL = 3.0
#: longest back-off after a lasting fault in seconds
_BACK_OFF = 45.0


class Bystander:
    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._came: float | None = None
        #: seconds until bound
        self.waited: float | None = None
        api.create(NAMESPACES, {"metadata": {"name": BYSTANDER_NAMESPACE}})
        api.store.subscribe(self._notice)

    @property
    def waits(self) -> bool:
        return self._came is not None and self.waited is None

    def come(self) -> None:
        """Create the bystander soon."""
        asyncio.get_running_loop().call_later(COMES_AFTER, self._come)

    def _come(self) -> None:
        requests = {"cpu": "50m", "memory": "50Mi"}
        container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
        spec = {
            "schedulerName": OURS,
            "nodeSelector": {"kubernetes.io/hostname": BYSTANDER_NODE["metadata"]["name"]},
            "containers": [container],
        }
        self._came = asyncio.get_running_loop().time()
        metadata = {"name": "bystander", "labels": {"app": "bystander"}}
        self._api.create(PODS, {"metadata": metadata, "spec": spec}, namespace=BYSTANDER_NAMESPACE)

    def _notice(self, change: ObjectChange) -> None:
        thing = change.object
        if self.waits and self._came is not None and change.resource is PODS:
            beside = thing["metadata"]["namespace"] == BYSTANDER_NAMESPACE
            if beside and node_of(thing):
                self.waited = asyncio.get_running_loop().time() - self._came


def longest_wait(fault: Fault, handover: float, slowest: float) -> float:
    """Return the longest acceptable wait of the bystander: the outage of the scheduler.

    `handover`: seconds of a failover; 0 without another replica. `slowest`: rate of the slowest
    clock.
    """
    if fault.family == PROCESS:
        interruption = INTERRUPTIONS[fault.what]
        replaced = handover and interruption.end is not None
        return USUAL + handover + (0.0 if replaced else interruption.lasts)
    return handover + _measure_outage(fault) / slowest


def _measure_outage(fault: Fault) -> float:
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


#: seconds between the starts of schedulers, so that the first one leads
_APART = 0.5
_TIMING = Timing(start_delay=0.5, stop_delay=0.5, orphan_delay=10.0)
#: factors of extra migrations: back and forth after a failure; retries of a lasting fault
_BACK_AND_FORTH, _IN_A_MINUTE = 2, 8
#: I9: longest delay by another tenant, as a multiple of the usual time
MOST_DELAYS = 2


@attrs.frozen(order=True)
class Injection:
    """One run. `seed` draws the order of ready tasks; 0: first in, first out."""

    workload: str
    fault: Fault | None = None
    seed: int = 0
    #: whether with the latencies of a real control plane, drawn by `EmulatedCluster`
    paced: bool = False

    @property
    def command(self) -> str:
        fault = f" --fault {self.fault}" if self.fault else ""
        paced = " --paced" if self.paced else ""
        return f"kubedsm chaos --workload {self.workload} --seed {self.seed}{paced}{fault}"


@attrs.frozen
class Outcome:
    injection: Injection
    end: End
    created: int
    deleted: int
    #: by workload: most pods not Ready at once, after all had been
    missed: Mapping[str, int]
    struck: bool
    history: tuple[Moment, ...]
    violations: tuple[str, ...]


def play(injection: Injection, reference: Outcome | None = None) -> Outcome:
    """Play a run, and compare it with its reference, if any."""
    order = random.Random(injection.seed) if injection.seed else None
    return run_in_virtual_time(_play(injection, reference), order)


async def _play(injection: Injection, reference: Outcome | None) -> Outcome:
    workload = WORKLOADS[injection.workload]
    clock = VirtualClock()
    spec = ClusterSpec((*workload.nodes, BYSTANDER_NODE), _TIMING)
    rng = random.Random(injection.seed)
    async with EmulatedCluster(
        spec, clock, rng, tracks_managers=False, paced=injection.paced
    ) as cluster:
        beside = Bystander(cluster.api)
        seam = Seam(cluster.routes, injection.fault)
        seam.on_strike = beside.come
        with _record_logs(seam) as errors:
            async with asyncio.TaskGroup() as tasks:
                stage = Stage(
                    cluster, seam, tasks, injection.seed, workload.times, paced=injection.paced
                )
                await _run_workload(workload, stage, beside, reference)
                violations = [
                    *_list_violations(stage, reference),
                    *_check_bystander(beside, seam, workload),
                    *errors,
                ]
                stage.tell_plans()
                violations += await _compare_with_new_schedulers(stage)
                stage.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    violations += [f"leaked: {task.get_name()}" for task in left]
    if cluster.routes.open_watches:
        violations.append(f"leaked: {cluster.routes.open_watches} watches")
    return Outcome(
        injection,
        stage.end(),
        stage.created.total(),
        stage.deleted.total(),
        stage.invariants.missed,
        seam.struck is not None,
        tuple(seam.history),
        tuple(violations),
    )


async def _run_workload(
    workload: Workload, stage: Stage, beside: Bystander, reference: Outcome | None
) -> None:
    for number, rate in enumerate(workload.rates):
        stage.start(f"kubedsm-{number}", rate)
        if workload.times is not None:
            await stage.clock.sleep(_APART)
    await workload.course(stage)
    course_ended = unsettled = now = stage.clock.monotonic()
    while now < unsettled + SOON and now <= max(course_ended, stage.seam.ended) + PATIENCE:
        await stage.clock.sleep(1.0)
        now = stage.clock.monotonic()
        if beside.waits or not _is_settled(stage, reference):
            unsettled = now


def _is_settled(stage: Stage, reference: Outcome | None) -> bool:
    due = reference is None or stage.clock.monotonic() >= stage.seam.ended + QUIET
    if _is_after_incident(stage):
        as_usual = not stage.resting and not any(
            out_of_place(stage.api, stage.hands.pods(), NAMESPACE)
        )
    else:
        as_usual = not stage.resting if reference is None else stage.end() == reference.end
    return due and as_usual and stage.quiet_for >= QUIET and not _has_orphans(stage)


def _has_orphans(stage: Stage) -> bool:
    return bool(stage.orphans()) or any(stage.contradictions())


def _is_after_incident(stage: Stage) -> bool:
    """Return whether the outcome may differ from the reference: after an incident."""
    return stage.seam.fault is not None and stage.seam.fault.family == WORLD


def _list_violations(stage: Stage, reference: Outcome | None) -> Iterator[str]:
    fault = stage.seam.fault
    # A late bind may arrive after its reservation was released: no precondition prevents that,
    # and the kubelet rejects one of the two pods.
    late = fault is not None and fault.what == APPLIED_LATE
    yield from (what for what in stage.invariants.wrong if not (late and what.startswith("I2")))
    yield from (f"I3: {what}" for what in stage.witness.wrong)
    if stage.ledger is not None:
        yield from stage.ledger.wrong
    usual, beside = stage.neighbour_took
    if beside > (1 + MOST_DELAYS) * usual and (fault is None or _is_of_tenant(stage, fault)):
        yield f"I9: a neighbour's migration took {beside:.1f} s, and usually {usual:.1f} s"
    yield from stage.orphans()
    yield from stage.contradictions()
    if stage.quiet_for < QUIET:
        yield "I6: it does not come to rest"
    for process in stage.processes.values():
        yield from (f"{process.name} caught {what}" for what in process.runtime.supervisor.caught)
        if process.failure is not None:
            yield f"{process.name} ended by {process.failure!r}"
    if _is_after_incident(stage):
        yield from out_of_place(stage.api, stage.hands.pods(), NAMESPACE)
    elif reference is not None:
        yield from _compare_with_reference(stage, reference)


def _is_of_tenant(stage: Stage, fault: Fault) -> bool:
    """Return whether a tenant caused the fault, with a pod of that tenant."""
    incident = INCIDENTS.get(fault.what)
    tenant = incident is not None and incident.by_tenant
    return tenant and stage.struck_pod.rpartition("/")[2].startswith("web-")


def _compare_with_reference(stage: Stage, reference: Outcome) -> Iterator[str]:
    """Yield differences from the reference: placement, missing pods, extra pods."""
    fault = stage.seam.fault
    lasting = fault is not None and (fault.lasting or fault.family == PROCESS)
    allowed = reference.deleted * (_IN_A_MINUTE if lasting else _BACK_AND_FORTH)
    if stage.paced:
        # Pods are scheduled one by one: a failed bind may send another pod to the cloud, and then
        # that pod is migrated once.
        allowed += reference.created
    yield from _compare_placements(stage.end(), reference.end, "usually")
    # The node of a pod, and so the number of pods lost with a node, depends on timing.
    usually = max(reference.missed.values(), default=0)
    for app, missed in stage.invariants.missed.items():
        if missed > usually:
            yield f"I3: {missed} pods of {app} were not Ready at once, and usually {usually}"
    for what, here, usual in (
        ("created", stage.created.total(), reference.created),
        ("deleted", stage.deleted.total(), reference.deleted),
    ):
        if here - usual > allowed:  # what it spares harms nobody
            yield f"{here} pods were {what}, and usually {usual}"


def _check_bystander(beside: Bystander, seam: Seam, workload: Workload) -> Iterator[str]:
    fault = seam.fault
    if seam.struck is None or fault is None:
        return
    if any(moment.point == NOT_STARTED for moment in seam.history):
        return  # the configuration was wrong meanwhile: nobody can serve anybody
    longest = longest_wait(fault, workload.handover, min(workload.rates))
    if fault.family == WORLD and workload.handover:
        longest += GRACE  # a leader that is told to end waits for moves that are held up
    if beside.waited is None:
        yield "the bystander was never bound"
    elif beside.waited > longest:
        yield f"the bystander waited for {beside.waited:.1f} s, {longest:.1f} at most"


async def _compare_with_new_schedulers(stage: Stage) -> list[str]:
    """Yield differences from the placement by new schedulers without memory."""
    if not _is_after_incident(stage):
        return []
    before = stage.end()
    await stage.replace_schedulers()
    return list(_compare_placements(before, stage.end(), "from a scheduler started anew"))


def _compare_placements(end: End, other: End, whose: str) -> Iterator[str]:
    for app in sorted({*end, *other}):
        if end.get(app) != other.get(app):
            yield f"I7: {app} has {end.get(app)}, and {whose} {other.get(app)}"


@contextmanager
def _record_logs(seam: Seam) -> Iterator[list[str]]:
    """Record the log of the schedulers in the history; collect errors."""
    errors: list[str] = []
    before = structlog.get_config()

    def hear(_: Any, level: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        story = " ".join(f"{key}={value}" for key, value in entry.items() if key != "event")
        seam.tell("", f"{level} {entry['event']}", story)
        if level in ("error", "critical", "exception"):
            errors.append(f"logged: {entry['event']} {story}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[hear], wrapper_class=structlog.make_filtering_bound_logger("INFO")
    )
    try:
        yield errors
    finally:
        structlog.configure(**before)


_NAME = re.compile(r"[\w.-]+")
#: parts that differ between similar violations: numbers, suffixes of names, replicas
_PARTICULAR = re.compile(r"\bkubedsm-[\d-]+|-[0-9a-z]{8,10}-[0-9a-z]{5}\b|[0-9a-f-]{36}|[\d.]+")


def trace_lines(outcome: Outcome) -> list[str]:
    """Return the trace: the history from the fault on, of objects named in violations."""
    lines = [str(moment) for moment in _select_moments(outcome)]
    lines += [f"{app}: {placed}" for app, placed in outcome.end.items()]
    return lines + [f"BROKEN {violation}" for violation in outcome.violations]


def without_particulars(violations: Iterable[str]) -> frozenset[str]:
    """Return the violations without the particulars of the run."""
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
    """Return whether a part of a name is named, or belongs to a named workload."""
    pieces = part.split("-")
    return any("-".join(pieces[:count]) in named for count in range(1, len(pieces) + 1))
