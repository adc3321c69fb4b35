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
from kubedsm_lab.emulator.actors.pod_state import node_of
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import run_in_virtual_time

BYSTANDER_NAMESPACE = "beside"
#: its own node, where there is no room for others
BYSTANDER_NODE = node("b1", "cloud", "100m", "200Mi")
#: seconds after the fault
COMES_AFTER = 0.1
#: seconds in which whoever is heard of is served, also by a scheduler that was just started anew
USUAL = 3.0
#: seconds that it may take after a lasting fault until all is tried again
_BACK_OFF = 45.0


class Bystander:
    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._came: float | None = None
        #: seconds until it was bound
        self.waited: float | None = None
        api.create(NAMESPACES, {"metadata": {"name": BYSTANDER_NAMESPACE}})
        api.store.subscribe(self._notice)

    @property
    def waits(self) -> bool:
        return self._came is not None and self.waited is None

    def come(self) -> None:
        """To be called when something has gone wrong."""
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
    """Seconds that it may wait: not longer than the scheduler cannot hear of it, or not bind it.

    `handover`: seconds until another one leads; 0 if there is none. `slowest`: the rate of the
    slowest clock.
    """
    if fault.family == PROCESS:
        interruption = INTERRUPTIONS[fault.what]
        replaced = handover and interruption.end is not None
        return USUAL + handover + (0.0 if replaced else interruption.lasts)
    return handover + _unserved(fault) / slowest


def _unserved(fault: Fault) -> float:
    if fault.lasting and fault.family != WORLD:
        return LASTING + _BACK_OFF
    if fault.what == "silence":
        return SILENT_AFTER + USUAL
    if fault.what == "delay":
        return LATE + USUAL
    if fault.what.startswith("timeout") and fault.site.startswith(
        ("list-", "watch-", "get-version")
    ):
        return LIST_TIMEOUT + USUAL
    return USUAL


#: seconds from one scheduler's start to the next, so that the first leads
_APART = 0.5
_TIMING = Timing(start_delay=0.5, stop_delay=0.5, orphan_delay=10.0)
#: how often all that is moved may be moved more on account of a fault: back, while others rest
#: after a move that failed, and there again; and of one that lasts, for it is tried ever again
_BACK_AND_FORTH, _IN_A_MINUTE = 2, 8
#: I9: times its usual time that a migration may be delayed by another tenant
MOST_DELAYS = 2


@attrs.frozen(order=True)
class Injection:
    """What is run. The `seed` draws in which order tasks that are ready go on; 0: as they came."""

    workload: str
    fault: Fault | None = None
    seed: int = 0
    #: with the latencies of a real control plane, as `EmulatedCluster` draws them
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
    #: by workload: how many of the pods that it wants were not Ready at once, when all had been
    missed: Mapping[str, int]
    struck: bool
    history: tuple[Moment, ...]
    violations: tuple[str, ...]


def play(injection: Injection, reference: Outcome | None = None) -> Outcome:
    """Run it; what it comes to is compared with the same without a fault, if there is one."""
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
        with _heard(seam) as errors:
            async with asyncio.TaskGroup() as tasks:
                stage = Stage(
                    cluster, seam, tasks, injection.seed, workload.times, paced=injection.paced
                )
                await _carry_out(workload, stage, beside, reference)
                violations = [
                    *_violations(stage, reference),
                    *_waited(beside, seam, workload),
                    *errors,
                ]
                stage.tell_plans()
                violations += await _done_anew(stage)
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


async def _carry_out(
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
        if beside.waits or not _settled(stage, reference):
            unsettled = now


def _settled(stage: Stage, reference: Outcome | None) -> bool:
    due = reference is None or stage.clock.monotonic() >= stage.seam.ended + QUIET
    if _judged_by_itself(stage):
        as_usual = not stage.resting and not any(
            out_of_place(stage.api, stage.hands.pods(), NAMESPACE)
        )
    else:
        as_usual = not stage.resting if reference is None else stage.end() == reference.end
    return due and as_usual and stage.quiet_for >= QUIET and not _unfinished(stage)


def _unfinished(stage: Stage) -> bool:
    return bool(stage.left_behind()) or any(stage.misunderstood())


def _judged_by_itself(stage: Stage) -> bool:
    """Of what becomes of the world nobody else tells what is right."""
    return stage.seam.fault is not None and stage.seam.fault.family == WORLD


def _violations(stage: Stage, reference: Outcome | None) -> Iterator[str]:
    fault = stage.seam.fault
    # A bind that was looked up and not found may still come, when its room was given away: no
    # precondition keeps it out, and the kubelet refuses one of both.
    late = fault is not None and fault.what == APPLIED_LATE
    yield from (what for what in stage.invariants.wrong if not (late and what.startswith("I2")))
    yield from (f"I3: {what}" for what in stage.witness.wrong)
    if stage.ledger is not None:
        yield from stage.ledger.wrong
    usual, beside = stage.neighbour_took
    if beside > (1 + MOST_DELAYS) * usual and (fault is None or _is_of_tenant(stage, fault)):
        yield f"I9: a neighbour's migration took {beside:.1f} s, and usually {usual:.1f} s"
    yield from stage.left_behind()
    yield from stage.misunderstood()
    if stage.quiet_for < QUIET:
        yield "I6: it does not come to rest"
    for process in stage.processes.values():
        yield from (f"{process.name} caught {what}" for what in process.runtime.supervisor.caught)
        if process.failure is not None:
            yield f"{process.name} ended by {process.failure!r}"
    if _judged_by_itself(stage):
        yield from out_of_place(stage.api, stage.hands.pods(), NAMESPACE)
    elif reference is not None:
        yield from _beside(stage, reference)


def _is_of_tenant(stage: Stage, fault: Fault) -> bool:
    """Whether a tenant brought the fault about, with a pod of its own."""
    incident = INCIDENTS.get(fault.what)
    tenant = incident is not None and incident.by_tenant
    return tenant and stage.struck_pod.rpartition("/")[2].startswith("web-")


def _beside(stage: Stage, reference: Outcome) -> Iterator[str]:
    """What ended otherwise than without a fault, or took more pods."""
    fault = stage.seam.fault
    lasting = fault is not None and (fault.lasting or fault.family == PROCESS)
    allowed = reference.deleted * (_IN_A_MINUTE if lasting else _BACK_AND_FORTH)
    if stage.paced:
        # Pods are decided on one after the other: one may be in the cloud because another held
        # room that its failed bind then gave back, and is migrated there once.
        allowed += reference.created
    yield from _differences(stage.end(), reference.end, "usually")
    # Whose pods are on a node that is lost, may depend on when they were placed.
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


def _waited(beside: Bystander, seam: Seam, workload: Workload) -> Iterator[str]:
    fault = seam.fault
    if seam.struck is None or fault is None:
        return
    if any(moment.site == NOT_STARTED for moment in seam.history):
        return  # the configuration was wrong meanwhile: nobody can serve anybody
    longest = longest_wait(fault, workload.handover, min(workload.rates))
    if fault.family == WORLD and workload.handover:
        longest += GRACE  # a leader that is told to end waits for moves that are held up
    if beside.waited is None:
        yield "the bystander was never bound"
    elif beside.waited > longest:
        yield f"the bystander waited for {beside.waited:.1f} s, {longest:.1f} at most"


async def _done_anew(stage: Stage) -> list[str]:
    """Whether who knows nothing of what has happened would have the pods elsewhere."""
    if not _judged_by_itself(stage):
        return []
    before = stage.end()
    await stage.begin_anew()
    return list(_differences(before, stage.end(), "from a scheduler started anew"))


def _differences(end: End, other: End, whose: str) -> Iterator[str]:
    for app in sorted({*end, *other}):
        if end.get(app) != other.get(app):
            yield f"I7: {app} has {end.get(app)}, and {whose} {other.get(app)}"


@contextmanager
def _heard(seam: Seam) -> Iterator[list[str]]:
    """Have what schedulers log told in the history; errors come into the list."""
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
#: what differs between two failures of the same sort: numbers, ends of names, who it was
_PARTICULAR = re.compile(r"\bkubedsm-[\d-]+|-[0-9a-z]{8,10}-[0-9a-z]{5}\b|[0-9a-f-]{36}|[\d.]+")


def told(outcome: Outcome) -> list[str]:
    """The shortest history: from where the fault struck, and of whom something is wrong with."""
    lines = [str(moment) for moment in _concerning(outcome)]
    lines += [f"{app}: {placed}" for app, placed in outcome.end.items()]
    return lines + [f"BROKEN {violation}" for violation in outcome.violations]


def alike(violations: Iterable[str]) -> frozenset[str]:
    """What the same goes wrong by has in common, whoever and whenever it was."""
    return frozenset(_PARTICULAR.sub("#", violation) for violation in violations)


def _concerning(outcome: Outcome) -> Iterator[Moment]:
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
    """Whether it is one of these, or a pod or ReplicaSet of one of these workloads."""
    pieces = part.split("-")
    return any("-".join(pieces[:count]) in named for count in range(1, len(pieces) + 1))
