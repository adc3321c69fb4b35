"""Removal of all traces of KubeDSM from a cluster, in an order that strands no pod.

1. The Deployment of the scheduler is scaled to zero: its leader finishes or rolls back migrations.
2. This process takes the Lease, and restores pods that an interrupted migration has detached.
3. Namespaces and workloads opt out, if requested.
4. Labels and annotations are removed from pods.
"""

import asyncio
import random
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import click

from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import Elector, LeaseTimes, identity_of
from kubedsm.app.live_configuration import find_document_in
from kubedsm.cli.cluster import connect_cluster, read_snapshot
from kubedsm.cli.console import print_json, remark, until_interrupted
from kubedsm.cli.execution import carry_out
from kubedsm.cli.options import RemovalOptions
from kubedsm.config.settings import Configuration, load
from kubedsm.execution.bind_calls import list_removable_marks
from kubedsm.inspection.stranded import Stranded, find_stranded
from kubedsm.kube.calls import adoption, leases, writes
from kubedsm.kube.calls.adoption import Template
from kubedsm.kube.client.port import Cluster, ClusterError, Invalid, NotFound, ObjectName
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.kube.joining import greet
from kubedsm.model.model import MIGRATING_LABEL, PULL_LABEL, Pod, Workload
from kubedsm.planner.plurals import counted, named
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.echo import echo

#: exit code if something is left that the command should have removed
NOT_ALL = 3
#: seconds for the leader to end, which has a grace period of 25 s, and for restoring pods
STOPPING, RESTORING = 60.0, 90.0
POLL = 1.0
#: concurrent requests
AT_ONCE = 16


@attrs.frozen
class Traces:
    """Labels, annotations and settings of KubeDSM on cluster objects outside its own namespace."""

    #: pods with the keys of removable labels and annotations
    marked: tuple[tuple[Pod, tuple[str, ...], tuple[str, ...]], ...]
    #: pods that a migration has detached from their owner
    migrating: tuple[Pod, ...]
    #: pods that only pull images for a migration
    pulling: tuple[Pod, ...]
    #: namespaces that have opted in, and workloads that name the scheduler or refuse the policy
    namespaces: tuple[str, ...]
    templates: tuple[Template, ...]
    #: workloads of other kinds with pods of the scheduler, such as Jobs
    others: tuple[str, ...]
    stranded: Stranded
    #: nodes with a label of KubeDSM, which administrators set
    nodes: tuple[str, ...]

    @property
    def opted_in(self) -> tuple[str, ...]:
        namespaces = tuple(f"namespace/{name}" for name in self.namespaces)
        return (*namespaces, *map(str, self.templates))

    def less(self, left: "Traces") -> "Traces":
        """Return the removable traces without those that are left."""
        pods = {pod.uid for pod, *_ in left.marked}
        detached = {pod.uid for pod in (*left.migrating, *left.pulling)}
        return attrs.evolve(
            self,
            marked=tuple(each for each in self.marked if each[0].uid not in pods),
            migrating=tuple(pod for pod in self.migrating if pod.uid not in detached),
            pulling=tuple(pod for pod in self.pulling if pod.uid not in detached),
            namespaces=tuple(name for name in self.namespaces if name not in left.namespaces),
            templates=tuple(each for each in self.templates if str(each) not in left.opted_in),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "markedPods": [str(pod) for pod, *_ in self.marked],
            "detachedPods": [str(pod) for pod in self.migrating],
            "pullingPods": [str(pod) for pod in self.pulling],
            "optedIn": list(self.opted_in),
            "waitingPods": [str(pod) for pod in (*self.stranded.pods, *self.stranded.bare)],
            "otherWorkloads": list(self.others),
            "labelledNodes": list(self.nodes),
        }

    def list_remaining(self) -> Iterator[str]:
        """Yield a line for each kind of KubeDSM label, annotation or setting that `kubedsm
        uninstall` does not remove.
        """
        if self.opted_in:
            yield (
                f"opt-in of {named(self.opted_in)}: new pods wait for a scheduler of this name;"
                " --opt-out opts them out"
            )
        if self.others:
            yield f"{named(self.others)}: change the schedulerName, if their pods name one, by hand"
        waiting = (*self.stranded.pods, *self.stranded.bare)
        if waiting:
            remedies = "; ".join(self.stranded.list_remedies()) or "create them again"
            yield f"waiting for the scheduler: {named([str(pod) for pod in waiting])}: {remedies}"
        if self.nodes:
            yield (
                f"labels of {counted(len(self.nodes), 'node')}, set by administrators:"
                " kubectl label nodes --all kubedsm.io/tier- kubedsm.io/site-"
            )
        yield "Events about decisions, which the API server deletes after an hour"


async def find_traces(cluster: Cluster, configuration: Configuration) -> Traces:
    """List all labels, annotations and settings of KubeDSM on cluster objects. Raises
    ClusterError.
    """
    snapshot = await read_snapshot(cluster, configuration)
    templates = await adoption.list_templates(cluster)
    ours = configuration.scheduler_name
    of = {each.workload: each for each in templates}
    pods = sorted(snapshot.pods.values(), key=str)
    mine = [pod for pod in pods if pod.scheduler_name == ours and not pod.finished]
    owners = dict.fromkeys(pod.workload for pod in mine if pod.workload.kind not in adoption.KINDS)
    return Traces(
        tuple(_list_marked(mine, of)),
        tuple(pod for pod in pods if MIGRATING_LABEL in pod.labels and not pod.terminating),
        tuple(pod for pod in pods if PULL_LABEL in pod.labels and not pod.terminating),
        tuple(await adoption.list_opted_in(cluster)),
        tuple(each for each in templates if each.scheduler_name == ours or each.refuses_policy),
        tuple(f"{owner.kind.lower()}/{owner}" for owner in owners),
        find_stranded(pods, templates, ours),
        tuple(
            node.name
            for node in snapshot.nodes.values()
            if any(label.startswith("kubedsm.io/") for label in node.labels)
        ),
    )


def _list_marked(
    pods: Iterable[Pod], templates: Mapping[Workload, Template]
) -> Iterator[tuple[Pod, tuple[str, ...], tuple[str, ...]]]:
    for pod in pods:
        template = templates.get(pod.workload)
        given = (template.labels, template.annotations) if template else ({}, {})
        labels, annotations = list_removable_marks(pod, *given)
        if (labels or annotations) and not pod.terminating:
            yield pod, labels, annotations


def uninstall(options: RemovalOptions) -> int:
    """List the traces of KubeDSM on cluster objects, or remove them; return the exit code."""

    async def act() -> int:
        async with connect_cluster(options.kubeconfig) as cluster:
            await greet(cluster)
            return await remove_traces(cluster, options, SystemClock(), random.Random())

    return until_interrupted(act())


async def remove_traces(
    cluster: Cluster, options: RemovalOptions, clock: Clock, rng: random.Random
) -> int:
    """List the traces of KubeDSM, remove them if requested, and report the remaining traces.

    Raises NotLeadingError if a scheduler keeps leading, ClusterError.
    """
    text, source = await find_document_in(cluster, options.config_map)
    configuration = load(text or "", source)
    traces = await find_traces(cluster, configuration)
    if not options.carry_out:
        _print(traces, options, "would be removed")
        return 0
    lease, before = options.config_map, traces
    await _stop_scheduler(cluster, lease, clock)
    gate = WriteGate(cluster, clock)
    identity = identity_of(socket.gethostname())
    elector = Elector(cluster, gate, clock, lease, LeaseTimes(), identity)
    async with elector.hold_lease(remark):
        if traces.migrating:
            await _restore_detached(gate, configuration, clock, rng)
        await _remove_pullers(gate, traces.pulling)
        if options.opt_out:
            await _opt_out_all(gate, await find_traces(gate, configuration))
        await _clear_marks(gate, (await find_traces(gate, configuration)).marked)
        traces = await find_traces(gate, configuration)
    if options.output == "text":
        _print_removable(before.less(traces), options, "removed")
    _print(traces, options, "not removed, try again")
    left = (
        traces.marked or traces.migrating or traces.pulling or (options.opt_out and traces.opted_in)
    )
    return NOT_ALL if left else 0


def _print(traces: Traces, options: RemovalOptions, verdict: str) -> None:
    if options.output == "json":
        print_json(traces.as_json())
        return
    _print_removable(traces, options, verdict)
    for line in traces.list_remaining():
        if not (options.opt_out and line.startswith("opt-in")):
            echo(f"stays: {line}")
    echo("afterwards: kubectl delete -k manifests (your overlay) removes everything else")


def _print_removable(traces: Traces, options: RemovalOptions, verdict: str) -> None:
    if traces.migrating:
        count = counted(len(traces.migrating), "detached pod")
        echo(f"{verdict}: migration of {count}: {named([str(pod) for pod in traces.migrating])}")
    if traces.pulling:
        echo(f"{verdict}: {counted(len(traces.pulling), 'pod')} for pulling images")
    if traces.marked:
        echo(f"{verdict}: labels and annotations of {counted(len(traces.marked), 'pod')}")
    if options.opt_out and traces.opted_in:
        if not options.carry_out:
            for each in traces.templates:
                echo(each.describe_rollout())
        else:
            echo(f"{verdict}: opt-in of {named(traces.opted_in)}")


async def _stop_scheduler(cluster: Cluster, lease: ObjectName, clock: Clock) -> None:
    """Scale the scheduler's Deployment to zero, and wait until its leader releases the Lease."""
    try:
        await adoption.scale_to_zero(cluster, lease)
    except NotFound:
        remark(f"there is no Deployment {lease}: a scheduler elsewhere has to be stopped by hand")
    else:
        remark(f"Deployment {lease} is scaled to zero; its migrations finish or are rolled back")
    until = clock.monotonic() + STOPPING
    while clock.monotonic() < until:
        found = await leases.read(cluster, lease)
        if found is None or not found.term.holder:
            return
        await clock.sleep(POLL)


async def _restore_detached(
    cluster: Cluster, configuration: Configuration, clock: Clock, rng: random.Random
) -> None:
    """Return detached pods to their owners, as a new leader does."""

    async def restore(runtime: Runtime) -> None:
        until = clock.monotonic() + RESTORING
        while clock.monotonic() < until and any(
            pod.detached and not pod.terminating for pod in runtime.mirror.pods()
        ):
            await clock.sleep(POLL)

    await carry_out(cluster, configuration, restore, clock, rng)


async def _remove_pullers(cluster: Cluster, pods: Iterable[Pod]) -> None:
    """Evict the pods that only pull images; report refusals."""
    for pod in pods:
        try:
            await writes.evict(cluster, pod)
        except NotFound:
            pass
        except ClusterError as error:
            remark(f"{pod} not removed: {error}")


async def _opt_out_all(cluster: Cluster, traces: Traces) -> None:
    """Opt out all namespaces, then all workloads with a rollout each; report refusals."""
    for name in traces.namespaces:
        try:
            await adoption.label_namespace(cluster, name, None)
        except ClusterError as error:
            remark(f"namespace/{name} not opted out: {error}")
    for found in traces.templates:
        remark(found.describe_rollout())
        try:
            await adoption.set_scheduler(cluster, found, adoption.DEFAULT_SCHEDULER, exempt=False)
        except ClusterError as error:
            remark(f"{found} not opted out: {error}")


async def _clear_marks(
    cluster: Cluster, marked: Iterable[tuple[Pod, tuple[str, ...], tuple[str, ...]]]
) -> None:
    """Remove labels and annotations from pods; report the first reason of failures."""
    slots, refused = asyncio.Semaphore(AT_ONCE), []

    async def clear(pod: Pod, labels: tuple[str, ...], annotations: tuple[str, ...]) -> None:
        async with slots:
            try:
                await writes.annotate(
                    cluster, pod, dict.fromkeys(labels), dict.fromkeys(annotations)
                )
            except (NotFound, Invalid):
                pass  # deleted or replaced meanwhile
            except ClusterError as error:
                refused.append(f"pod {pod}: {error}")

    async with asyncio.TaskGroup() as tasks:
        for each in marked:
            tasks.create_task(clear(*each))
    if refused:
        more = f" (and {len(refused) - 1} more)" if refused[1:] else ""
        raise click.ClickException(f"{refused[0]}{more}")
