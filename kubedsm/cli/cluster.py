"""Cluster access for commands: connection, one-time listing, and the scheduler in charge."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kubedsm.app.live_configuration import find_document_in
from kubedsm.cli.console import remark
from kubedsm.cli.options import Kubeconfig
from kubedsm.config.settings import Configuration, load
from kubedsm.explain.client import SilentError, answering
from kubedsm.explain.facts import Answering
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.calls.inspection import list_selected
from kubedsm.kube.calls.reads import namespace_uid
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Forbidden,
    NotFound,
    ObjectName,
    OutcomeUnknown,
    Unreachable,
)
from kubedsm.kube.joining import PATIENCE
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.wire.decoding import NODES, PODS, SURROUNDINGS, Watched
from kubedsm.model.events import ClusterEvent, KindKnown
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.snapshot import Snapshot
from kubedsm.process.clock import SystemClock

if TYPE_CHECKING:
    from kubedsm.app.assembly import Runtime


@asynccontextmanager
async def connect_cluster(kubeconfig: Kubeconfig) -> AsyncIterator[ExplainedCluster]:
    """Connect to the cluster that the options --kubeconfig and --context select."""
    async with await KubernetesCluster.connect(*kubeconfig) as cluster:
        yield ExplainedCluster(cluster, cluster.server)


def names_scheduler(kubeconfig: Kubeconfig) -> bool:
    """Return True if the user gave --server, but neither --kubeconfig nor --context."""
    source = click.get_current_context().get_parameter_source("server")
    return source is not ParameterSource.DEFAULT and kubeconfig == Kubeconfig()


async def describe_scheduler(server: str, *, expected: bool = False) -> Answering | None:
    """Return the self-description of the scheduler at `server`, whichever cluster it schedules;
    None without one, with a line on stderr if `expected` or if the server stays silent.
    """
    found, why = None, f"no scheduler responds at {server}"
    try:
        found = await answering(server)
    except SilentError as error:
        expected, why = True, str(error)
    if found is None and expected:
        remark(f"{why}; the cluster is read instead")
    return found


async def require_namespace(cluster: Cluster, name: str | None) -> None:
    """Raise ClickException if the cluster has no such namespace, as far as the user may know."""
    if name is None:
        return
    try:
        await namespace_uid(cluster, name)
    except Forbidden:
        return
    except NotFound:
        raise click.ClickException(
            f"there is no namespace {name}; `kubectl get namespaces` lists them"
        ) from None


async def select_pods(cluster: Cluster, selector: str) -> dict[str, str]:
    """Return the pods that match a label selector, `namespace/name` by uid. Raises
    ClickException.
    """
    try:
        return await list_selected(cluster, selector)
    except (ClusterError, OSError) as error:
        raise click.ClickException(f"-l {selector}: {error}") from None


async def find_scheduler(server: str, cluster: ExplainedCluster) -> Answering | None:
    """Return the scheduler responding at `server`, if responsible for the selected cluster.

    Another cluster's scheduler is ignored, with a line on stderr. Raises ClickException if the
    clusters cannot be compared, and Unreachable.
    """
    found = await describe_scheduler(server)
    if found is None:
        return None
    try:
        uid = await namespace_uid(cluster)
    except Unreachable:
        raise
    except ClusterError as error:
        raise click.ClickException(
            f"cannot tell whether the scheduler at {server} serves {cluster.server}: {error}"
        ) from None
    if found.cluster == uid:
        return found
    serves = "serves another cluster" if found.cluster else "does not say which cluster it serves"
    remark(f"the scheduler at {server} {serves}; ignored: {cluster.server} is read instead")
    return None


async def read_snapshot(cluster: Cluster, configuration: Configuration) -> Snapshot:
    """List the cluster once. Raises ClusterError if nodes or pods cannot be listed."""
    mirror = ClusterMirror(configuration.scheduler_name, configuration.tiers)

    def apply(event: ClusterEvent) -> None:
        mirror.apply(event)

    async def list_kind(watched: Watched[Any, ClusterEvent]) -> None:
        retries = SystemClock(), random.Random()  # of a watch, which does not follow
        reflector = Reflector(cluster, watched, *retries, apply, lambda: None, remark)
        await reflector.list_once()

    for watched in (NODES, PODS):
        await list_kind(watched)
    for kind, watched in SURROUNDINGS.items():
        try:
            await list_kind(watched)
        except (Forbidden, NotFound) as error:
            remark(f"decided without knowing them: {error}")
        else:
            mirror.apply(KindKnown(kind))
    return mirror.snapshot()


async def wait_until_synced(runtime: "Runtime") -> None:
    """Wait until all reflectors have listed objects. Raises OutcomeUnknown after a timeout."""
    try:
        async with asyncio.timeout(PATIENCE):
            await runtime.synced.wait()
    except TimeoutError:
        troubles = (watch.trouble for watch in runtime.followed.watches.values() if watch.trouble)
        why = next(troubles, "the API server did not answer every request")
        raise OutcomeUnknown(
            f"the cluster could not be read within {PATIENCE:g} s: {why}"
        ) from None


def _warn_of_defaults(error: str) -> None:
    remark(f"{error}; the defaults apply")


async def read_configuration(
    cluster: Cluster, name: ObjectName, warn: Callable[..., None] = _warn_of_defaults
) -> Configuration:
    """Read the configuration in the ConfigMap; with a warning, the defaults without one, or without
    the right to read it. Raises ClusterError, DocumentError.
    """
    try:
        text, source = await find_document_in(cluster, name)
    except Forbidden as error:
        warn(error=str(error))
        return Configuration()
    if text is None:
        warn(error=f"{source}: not found")
    return load(text or "", source)


def configuration_in(name: ObjectName, kubeconfig: Kubeconfig) -> Configuration:
    """Read the configuration in the ConfigMap of the named cluster, as `read_configuration`."""

    async def read() -> Configuration:
        async with connect_cluster(kubeconfig) as cluster:
            return await read_configuration(cluster, name)

    return asyncio.run(read())
