"""Reports of `kubedsm check`, `status`, `version` and `logs`."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import click
from rich.text import Text

from kubedsm import __version__
from kubedsm.cli.cluster import (
    connect_cluster,
    find_scheduler,
    read_snapshot,
    require_namespace,
    select_pods,
)
from kubedsm.cli.console import log_to, print_document, remark, until_interrupted
from kubedsm.cli.installation import Installation
from kubedsm.inspection.checks import Finding, parts_needed, run_checks
from kubedsm.inspection.gathering import ClusterState, Gatherer
from kubedsm.inspection.overview import PARTS, Overview, Scope, summarise
from kubedsm.kube.client.port import (
    CORE,
    TIMEOUT,
    ClusterError,
    NotFound,
    Request,
    Unreachable,
    path_of,
)
from kubedsm.planner.plurals import counted
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import FittedTable, table

#: exit codes of `kubedsm status`
EXIT_CODES = {"healthy": 0, "degraded": 1, "down": 2}
_STYLES: dict[str, str] = {
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
    "healthy": "green",
    "degraded": "bold yellow",
    "down": "bold red",
}
#: rows of services in the short form
_FEW = 10


@asynccontextmanager
async def open_gatherer(installation: Installation) -> AsyncIterator[Gatherer]:
    """Connect to the cluster and the scheduler at --server (if it serves this cluster), to read
    their state.
    """
    async with connect_cluster(installation.kubeconfig) as cluster:
        found, server = None, installation.server
        try:
            found = await find_scheduler(server, cluster)
        except Unreachable:
            pass  # the next request says so
        except click.ClickException as error:
            remark(f"{error.message}; the cluster alone is read")

        # A standby has no metrics of decisions.
        url = server if found is not None and not found.standby else ""
        name = installation.config_map
        yield Gatherer(cluster, name, SystemClock(), __version__, read_snapshot, url)


def run_to_code(act: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run the coroutine function to its end, and return its exit code."""
    log_to(level="ERROR")
    return until_interrupted(act())


def report_checks(installation: Installation, output: str, *, before: bool) -> None:
    """Print the findings of all checks, and exit with 1 if one failed."""

    async def act() -> int:
        async with open_gatherer(installation) as gatherer:
            parts = parts_needed(before=before)
            state = await gatherer.gather(parts, installing=before)
        findings = run_checks(state, before=before)
        if output == "text":
            _print_findings(findings)
        else:
            print_document(describe_findings(findings), output)
        return int(any(each.verdict == "fail" for each in findings))

    sys.exit(run_to_code(act))


def describe_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the document of `kubedsm check -o json`."""
    return {
        "ok": not any(each.verdict == "fail" for each in findings),
        "checks": list(map(attrs.asdict, findings)),
    }


def _print_findings(findings: Sequence[Finding]) -> None:
    console, group = Console(), ""
    for finding in findings:
        if finding.group != group:
            console.print(Text(finding.group, style="bold"))
        group = finding.group
        line = Text.assemble("  ", (f"{finding.verdict:4}", _STYLES[finding.verdict]), "  ")
        console.print(line + Text(finding.text), soft_wrap=True)
        if finding.remedy:
            text = f"        {finding.remedy}  [{finding.docs}]"
            console.print(Text(text, style="dim"), soft_wrap=True)
    numbers = Counter(finding.verdict for finding in findings)
    console.print(
        f"\n{numbers['fail']} failed, {counted(numbers['warn'], 'warning')}, {numbers['ok']} ok"
    )


def report_status(
    installation: Installation,
    namespace: str | None,
    selector: str | None,
    output: str,
    repeat: float | None,
) -> None:
    """Print the overview once, or every `repeat` seconds; exit by health."""

    async def act() -> int:
        console, clock = Console(), SystemClock()
        async with open_gatherer(installation) as gatherer:
            while True:
                began = clock.monotonic()
                try:
                    overview = await _read_overview(gatherer, namespace, selector)
                except (ClusterError, click.ClickException) as error:
                    if repeat is None:
                        raise
                    remark(f"{error}; trying again")
                else:
                    if repeat is not None and console.is_terminal and output in ("text", "wide"):
                        console.clear()
                    print_overview(overview, output, console)
                    if repeat is None:
                        return EXIT_CODES[overview.health.state]
                # Reading takes a small part of the time, however large the cluster is.
                await asyncio.sleep(max(repeat or 0.0, 4 * (clock.monotonic() - began)))

    sys.exit(run_to_code(act))


async def _read_overview(
    gatherer: Gatherer, namespace: str | None, selector: str | None
) -> Overview:
    """Read the overview of the namespace and the selected pods. Raises ClickException if nodes and
    pods, from which health follows, cannot be read; ClusterError.
    """
    await require_namespace(gatherer.cluster, namespace)
    state = await gatherer.gather(PARTS)
    if why := state.errors.get("snapshot"):
        raise click.ClickException(f"health unknown, nodes and pods not read: {why}")
    selected = None if selector is None else await select_pods(gatherer.cluster, selector)
    return summarise(state, Scope(namespace, selected))


def print_overview(overview: Overview, output: str, console: Console) -> None:
    """Print the overview: as text, wide text, JSON, YAML, or names of services below target."""
    if output in ("json", "yaml"):
        print_document(overview.as_json(), output)
        return
    if output == "name":
        for share in overview.below:
            echo(f"{share.kind.lower()}/{share.workload}")
        return
    health, state = overview.health, overview.state
    first = Text.assemble((health.state, _STYLES[health.state]), f": {_describe_health(overview)}")
    console.print(first, soft_wrap=True)
    for text in (*health.troubles[1:], *health.notices):
        console.print(Text(f"  {text}"), soft_wrap=True)
    for part, why in state.errors.items():
        console.print(Text(f"  {part} not read: {why}", style="dim"), soft_wrap=True)
    if state.pause_reason:
        console.print(Text(f"  {state.pause_reason} (ConfigMap {state.name})"), soft_wrap=True)
    console.print(Text(f"leader  {_describe_leader(state)}"), soft_wrap=True)
    edge, share_deviation = overview.facts.edge, overview.facts.share_deviation
    deviation = ""
    if share_deviation is not None:
        deviation = f"; deviation of edge shares {share_deviation:.3f}"
    text = f"edge    {counted(edge.nodes, 'node')}, {edge}{deviation}"
    console.print(Text(text), soft_wrap=True)
    for each in _list_tables(overview, wide=output == "wide"):
        console.print(each)


def _describe_health(overview: Overview) -> str:
    """Describe the first problem; without any, the services."""
    if overview.health.troubles:
        return overview.health.troubles[0]
    if not overview.services:
        return f"no pod has schedulerName: {overview.state.snapshot.scheduler_name}"
    if short := len(overview.facts.below_target):
        services = counted(len(overview.facts.shares), "service")
        return f"{short} of {services} slightly below target"
    return "every service has its edge share"


def _describe_leader(state: ClusterState) -> str:
    process = state.scheduler
    versions = f"scheduler {process.version}, " if process and process.version else ""
    age = "" if state.lease_age is None else f", Lease renewed {max(0, state.lease_age):.0f} s ago"
    return f"{state.leader or 'none'}{age}; {versions}API server {state.version}"


def _list_tables(overview: Overview, *, wide: bool) -> Sequence[FittedTable | Text]:
    parts: list[FittedTable | Text] = []
    below = overview.below if wide else overview.below[:_FEW]
    if below:
        rows = (
            [
                share.workload,
                f"{share.edge} of {share.total}",
                f"{share.qos or 0:.0%}",
                str(share.missing),
                str(share.waiting),
                *([share.kind] if wide else []),
            ]
            for share in below
        )
        headings = ("service", "at the edge", "target", "missing", "waiting")
        kind = ("kind",) if wide else ()
        title = f"{len(overview.below)} of {counted(overview.services, 'service')} below target"
        parts.append(table((*headings, *kind), rows, title=title, look="compact"))
    if more := len(overview.below) - len(below):
        parts.append(Text(f"{more} more below target: -o wide"))
    if overview.migrations:
        now = overview.state.now
        moves = (
            [str(pod), pod.source, pod.target, f"{max(0.0, now - pod.since):.0f} s"]
            for pod in overview.migrations
        )
        title = f"{counted(len(overview.migrations), 'migration')} in progress"
        parts.append(table(("pod", "from", "to", "for"), moves, title=title, look="compact"))
    parts += [
        Text(f"{why} ({counted(len(of), 'workload')}, such as {of[0]})")
        for why, of in overview.deferred.items()
    ]
    if overview.waiting:
        number = sum(map(len, overview.waiting.values()))
        groups = ([why, str(len(pods)), pods[0]] for why, pods in overview.waiting.items())
        title = f"{counted(number, 'pod')} waiting"
        parts.append(table(("reason", "pods", "such as"), groups, title=title, look="compact"))
    return parts


def report_versions(installation: Installation, output: str, *, only_client: bool) -> None:
    """Print the versions; exit with 1 if the cluster cannot be read."""
    versions: dict[str, str | None] = {"client": __version__}

    async def act() -> int:
        try:
            async with open_gatherer(installation) as gatherer:
                state = await gatherer.gather(("user", "lease", "deployment", "scheduler"))
        except ClusterError as error:
            remark(f"cluster not read: {error}")
            return 1
        versions["scheduler"] = found = _find_scheduler_version(state)
        unread = [
            state.errors[p] for p in ("lease", "deployment", "scheduler") if p in state.errors
        ]
        if found is None and unread:
            remark(f"scheduler not found: {unread[0]}")
        versions["apiServer"] = state.version
        return 0

    code = 0 if only_client else run_to_code(act)
    if output == "text":
        for name in ("client", "scheduler"):
            if name in versions:
                echo(f"{name}: {versions[name] or 'not found'}")
        if "apiServer" in versions:
            echo(f"API server: {versions['apiServer']}")
    else:
        print_document(versions, output)
    sys.exit(code)


def _find_scheduler_version(state: ClusterState) -> str | None:
    """Return the version that the scheduler reports, else its image."""
    if state.scheduler is not None and state.scheduler.version:
        return state.scheduler.version
    images = state.deployment.images if state.deployment else ()
    return next((f"image {image}" for image in images), None)


def print_logs(installation: Installation, tail: int | None, *, follow: bool) -> None:
    """Print the leader's log. Raises ClickException without a leader in a pod."""

    async def act() -> int:
        async with open_gatherer(installation) as gatherer:
            state = await gatherer.gather(("user", "lease"))
            name = installation.config_map
            if not state.leader:
                why = state.errors.get("lease", f"Lease {name} has no holder")
                raise click.ClickException(
                    f"no replica leads: {why}; `kubectl -n {name.namespace} logs"
                    f" deployment/{name.name}` has the log of a replica"
                )
            query = {"follow": "true"} if follow else {}
            query |= {} if tail is None else {"tailLines": str(tail)}
            path = path_of(CORE, name.namespace, "pods", state.leader, "log")
            request = Request("GET", path, query)
            try:
                async with gatherer.cluster.stream(request, timeout=TIMEOUT) as lines:
                    async for line in lines:
                        echo(line.decode(errors="replace"))
            except NotFound:
                raise click.ClickException(
                    f"the leader, {state.leader}, is not a pod in namespace {name.namespace}: read"
                    " the log where its process runs"
                ) from None
        return 0

    sys.exit(run_to_code(act))
