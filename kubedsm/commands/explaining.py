"""`kubedsm explain`: every node, why it would take a pod or not, and what was chosen."""

import random
from collections.abc import Iterable
from pathlib import Path

import click

from kubedsm.commands import offline
from kubedsm.commands.console import log_to, print_json, remark, until_interrupted
from kubedsm.commands.inputs import (
    configuration_at,
    read_dump,
)
from kubedsm.commands.on_cluster import (
    describe_scheduler,
    find_scheduler,
    names_scheduler,
    read_snapshot,
)
from kubedsm.config.settings import Configuration
from kubedsm.explain import client
from kubedsm.explain.client import Answering
from kubedsm.explain.explainer import Explainer, has_tiers, list_pending
from kubedsm.explain.facts import PodFacts
from kubedsm.explain.rendering import render_text
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import ClusterError
from kubedsm.kube.joining import TIMEOUT, greet
from kubedsm.kube.wire.dump import Malformed
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.model import Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.console import Console


def explain(
    pod_name: str | None,
    everyone: bool,
    dump_path: str | None,
    server: str,
    config_path: str | None,
    kubeconfig_path: Path | None,
    context: str | None,
    output: str,
) -> None:
    if everyone == (pod_name is not None):
        raise click.UsageError("name a pod, or say --all")
    log_to(level="ERROR")
    configuration = configuration_at(config_path)

    def show(answers: Iterable[PodFacts]) -> None:
        console, said = Console(), None
        for said in answers:
            if output == "json":
                print_json(said.as_json())
            else:
                console.print(render_text(said))
        if said is None and output == "text":
            console.print("No pod waits for a node.")

    if dump_path is not None:
        dump = read_dump(dump_path)
        snapshot = offline.mirror_of(dump, configuration).snapshot()
        explainer = _explainer(snapshot, configuration)
        pods = _pods(pod_name, snapshot, dump.malformed)
        show(explainer.explain(pod) for pod in pods)
        return

    async def ask() -> None:
        show(await _answers(server, pod_name, configuration, kubeconfig_path, context))

    until_interrupted(ask())


async def _answers(
    server: str,
    pod_name: str | None,
    configuration: Configuration,
    kubeconfig: Path | None,
    context: str | None,
) -> list[PodFacts]:
    """Ask the scheduler of the named cluster, or else the cluster itself."""
    if names_scheduler(kubeconfig, context):
        answers = await _from_scheduler(server, pod_name, await describe_scheduler(server))
        if answers is not None:
            return answers
    async with await KubernetesCluster.connect(kubeconfig, context) as connection:
        cluster = ExplainedCluster(connection, connection.server)
        found = await find_scheduler(server, cluster)
        answers = await _from_scheduler(server, pod_name, found)
        if answers is not None:
            return answers
        return await _from_cluster(server, pod_name, configuration, cluster)


async def _from_scheduler(
    server: str, pod_name: str | None, found: Answering | None
) -> list[PodFacts] | None:
    """Return the scheduler's answers; None if there is no scheduler, or it has no answer."""
    if found is None:
        return None
    if found.standby:
        leads = f"{found.leader} leads" if found.leader else "the leader is not known"
        remark(
            f"the scheduler at {server} is a standby and remembers no decisions; {leads}:"
            " ask that process for all that is known"
        )
    try:
        return await client.ask(server, pod_name)
    except client.QuestionRefusedError as error:
        raise click.ClickException(str(error)) from None
    except client.SilentError as error:
        remark(f"{error}; the cluster is asked instead")
        return None


async def _from_cluster(
    server: str, pod_name: str | None, configuration: Configuration, cluster: ExplainedCluster
) -> list[PodFacts]:
    clock, rng = SystemClock(), random.Random()
    try:
        await greet(cluster, timeout=TIMEOUT)
        snapshot = await read_snapshot(cluster, configuration, clock, rng)
        pods = _pods(pod_name, snapshot, ())
        explainer = _explainer(snapshot, configuration)
        return [await client.from_cluster(cluster, explainer, pod) for pod in pods]
    except (ClusterError, WireError, OSError) as error:
        raise click.ClickException(
            f"no running scheduler knows of it at {server}, and in the cluster: {error}"
        ) from None


def _explainer(snapshot: Snapshot, configuration: Configuration) -> Explainer:
    if snapshot.nodes and not has_tiers(snapshot):
        remark(
            f"no node has a label {' or '.join(configuration.tiers.labels)}, and until one has no"
            " pod is placed; judged by kube-scheduler's rules alone"
        )
    return Explainer(snapshot, configuration.policy)


def _pods(name: str | None, snapshot: Snapshot, malformed: Iterable[Malformed]) -> list[Pod]:
    return list_pending(snapshot) if name is None else [_named(name, snapshot, malformed)]


def _named(name: str, snapshot: Snapshot, malformed: Iterable[Malformed]) -> Pod:
    found = [pod for pod in snapshot.pods.values() if name in (str(pod), pod.name)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(sorted(map(str, found)))
        raise click.ClickException(f"several pods are called {name}: {several}")
    unreadable = [
        m for m in malformed if m.kind == "Pod" and name in (m.name, m.name.partition("/")[2])
    ]
    raise click.ClickException(
        f"pod {name} cannot be read: {unreadable[0]}" if unreadable else f"there is no pod {name}"
    )
