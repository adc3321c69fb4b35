"""Command `kubedsm explain`: requests to the running scheduler, or reads of the cluster."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from kubedsm.cli.cluster import (
    connect_cluster,
    describe_scheduler,
    find_scheduler,
    names_scheduler,
    read_configuration,
    read_snapshot,
    require_namespace,
    select_pods,
)
from kubedsm.cli.console import (
    log_to,
    print_document,
    remark,
    until_interrupted,
)
from kubedsm.cli.inputs import configuration_at, mirror_of, read_dump
from kubedsm.cli.options import Kubeconfig
from kubedsm.config.settings import Configuration
from kubedsm.explain import client
from kubedsm.explain.explainer import Explainer, has_tiers, list_pending
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.facts import Answering
from kubedsm.explain.migration import with_mobility
from kubedsm.explain.node import NodeExplainer
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import as_json, render_text
from kubedsm.explain.subjects import (
    FORMS,
    Subject,
    SubjectError,
    explain_absence,
    find_workload,
    parse_subject,
)
from kubedsm.explain.workload import WorkloadExplainer
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.port import ClusterError, ObjectName
from kubedsm.kube.joining import greet
from kubedsm.kube.wire.dump import Malformed
from kubedsm.model.model import NodeName, Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo

Explanations = Sequence[Explanation[Any]]


def explain(
    names: tuple[str, ...],
    namespace: str | None,
    selector: str | None,
    everyone: bool,
    dump_path: str | None,
    server: str,
    config_path: str | None,
    kubeconfig: Kubeconfig,
    output: str,
) -> None:
    if everyone == bool(names):
        raise click.UsageError(f"name {FORMS}; or --all")
    try:
        subject = parse_subject(names, namespace) if names else None
    except SubjectError as error:
        raise click.UsageError(str(error)) from None
    log_to(level="ERROR")

    show = partial(_show, subject=subject, namespace=namespace, output=output)
    if dump_path is not None:
        configuration = configuration_at(config_path)
        dump = read_dump(dump_path)
        snapshot = mirror_of(dump, configuration).snapshot()
        if subject is not None and subject.kind != "pod":
            show([_explain_without_scheduler(subject, snapshot, configuration)])
            return
        explainer = _explainer(snapshot, configuration)
        pods = _pods(subject, snapshot, dump.malformed)
        facts = (with_mobility(explainer.explain(p), p, snapshot, configuration) for p in pods)
        show(map(explain_pod, facts))
        return
    given = configuration_at(config_path) if config_path else None

    async def ask() -> None:
        chosen = None if selector is None else await _select_pods(selector, kubeconfig)
        # The pods are those of the named cluster, so the scheduler must be that cluster's.
        trusted = chosen is None and names_scheduler(kubeconfig)
        asked = server, subject, namespace, given, kubeconfig
        show(await _ask(*asked, trusted=trusted), chosen=chosen)

    until_interrupted(ask())


def _show(
    explanations: Iterable[Explanation[Any]],
    subject: Subject | None,
    namespace: str | None,
    output: str,
    chosen: Collection[str] | None = None,
) -> None:
    """Print explanations; without a subject, those of pending pods in the namespace, if given.

    chosen: names of the only pods to print, as `namespace/name`; None for all.
    """
    console, shown = Console(), 0
    for explanation in explanations:
        document = as_json(explanation)
        if subject is None and namespace and not document["pod"].startswith(f"{namespace}/"):
            continue
        if chosen is not None and document["pod"] not in chosen:
            continue
        shown += 1
        if output == "text":
            console.print(render_text(explanation))
        elif output == "name":
            echo(_name_subject(subject, document))
        else:
            if output == "yaml" and shown > 1:
                echo("---")
            print_document(document, output)
    if not shown and output == "text":
        where = f" in namespace {namespace}" if namespace else ""
        where += "" if chosen is None else " with these labels"
        console.print(f"No pod{where} waits for a node.")


def _name_subject(subject: Subject | None, document: Mapping[str, Any]) -> str:
    """Return the subject in the form that the command accepts, such as pod/shop/cart-1."""
    if subject is None:
        return f"pod/{document['pod']}"
    return subject.name if subject.kind == "workload" else f"{subject.kind}/{subject.name}"


async def _ask(
    server: str,
    subject: Subject | None,
    namespace: str | None,
    configuration: Configuration | None,
    kubeconfig: Kubeconfig,
    *,
    trusted: bool,
) -> Explanations:
    """Request explanations from the scheduler of the named cluster, or else read the cluster.

    configuration: None for that of the cluster. trusted: the scheduler at `server` may schedule any
    cluster.
    """
    found = await describe_scheduler(server, expected=True) if trusted else None
    explanations = await _ask_scheduler(server, subject, found)
    if explanations is not None:
        return explanations
    async with connect_cluster(kubeconfig) as cluster:
        await require_namespace(cluster, None if subject else namespace)
        if found is not None or not trusted:
            found = await find_scheduler(server, cluster)
        explanations = await _ask_scheduler(server, subject, found)
        if explanations is not None:
            return explanations
        return await _ask_cluster(server, subject, configuration, cluster)


async def _select_pods(selector: str, kubeconfig: Kubeconfig) -> Collection[str]:
    """Return the names of the pods that match a label selector, as `namespace/name`."""
    async with connect_cluster(kubeconfig) as cluster:
        return set((await select_pods(cluster, selector)).values())


async def _ask_scheduler(
    server: str, subject: Subject | None, found: Answering | None
) -> Explanations | None:
    """Return the scheduler's explanations; None without a scheduler, or if it knows nothing."""
    if found is None:
        return None
    if found.standby:
        leads = f"{found.leader} leads" if found.leader else "the leader is not known"
        remark(
            f"the scheduler at {server} is a standby and remembers no decisions; {leads}:"
            " ask that process for past decisions"
        )
    explanations: Explanations | None
    try:
        if subject is None:
            pending = await client.explain_pending(server)
            explanations = None if pending is None else [*map(explain_pod, pending)]
        else:
            explanation = await client.explain(server, subject)
            explanations = None if explanation is None else [explanation]
    except client.RequestRefusedError as error:
        raise click.ClickException(str(error)) from None
    except client.SilentError as error:
        remark(f"{error}; the cluster is read instead")
        return None
    if explanations is None and subject is not None and subject.kind in ("decision", "migration"):
        has = "remembers no" if found.standby else "has no"
        raise click.ClickException(f"the scheduler at {server} {has} {subject}")
    return explanations


async def _ask_cluster(
    server: str,
    subject: Subject | None,
    configuration: Configuration | None,
    cluster: ExplainedCluster,
) -> Explanations:
    try:
        await greet(cluster)
        if configuration is None:
            configuration = await read_configuration(cluster, ObjectName())
        snapshot = await read_snapshot(cluster, configuration)
        if subject is not None and subject.kind != "pod":
            return [_explain_without_scheduler(subject, snapshot, configuration)]
        pods = _pods(subject, snapshot, ())
        explainer = _explainer(snapshot, configuration)
        facts = [await client.facts_from_cluster(cluster, explainer, pod) for pod in pods]
        known = zip(facts, pods, strict=True)
        return [explain_pod(with_mobility(f, p, snapshot, configuration)) for f, p in known]
    except (ClusterError, OSError) as error:
        raise click.ClickException(
            f"no running scheduler at {server} knows it; from the cluster: {error}"
        ) from None


def _explain_without_scheduler(
    subject: Subject, snapshot: Snapshot, configuration: Configuration
) -> Explanation[Any]:
    """Explain a node or a workload from the cluster's current objects."""
    if subject.kind == "node":
        node = snapshot.nodes.get(NodeName(subject.name))
        if node is not None:
            return NodeExplainer(node, snapshot, configuration).explain()
    elif subject.kind == "workload":
        try:
            workload = find_workload(snapshot, subject.name)
        except SubjectError as error:
            raise click.ClickException(str(error)) from None
        if workload is not None:
            return WorkloadExplainer(snapshot, configuration, workload).explain()
    else:
        raise click.ClickException(
            f"only the scheduler that decided {subject} can explain it, and none that did responds"
        )
    raise click.ClickException(explain_absence(snapshot, subject))


def _explainer(snapshot: Snapshot, configuration: Configuration) -> Explainer:
    if snapshot.nodes and not has_tiers(snapshot):
        remark(
            f"no node has a label {' or '.join(configuration.tiers.labels)}, and without one no pod"
            " is placed; verdicts are by kube-scheduler's rules alone"
        )
    return Explainer(snapshot, configuration.policy)


def _pods(subject: Subject | None, snapshot: Snapshot, malformed: Iterable[Malformed]) -> list[Pod]:
    if subject is None:
        return list_pending(snapshot)
    name = subject.name
    found = [pod for pod in snapshot.pods.values() if name in (str(pod), pod.name)]
    if len(found) > 1:
        several = ", ".join(sorted(map(str, found)))
        raise click.ClickException(f"several pods are called {name}: {several}")
    unreadable = [
        m for m in malformed if m.kind == "Pod" and name in (m.name, m.name.partition("/")[2])
    ]
    if not found and unreadable:
        raise click.ClickException(f"pod {name} cannot be read: {unreadable[0]}")
    if not found:
        raise click.ClickException(explain_absence(snapshot, subject))
    return found
