"""Report of `kubedsm config show`: effective values, QoS targets, and where each comes from."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
import msgspec

from kubedsm.app.live_configuration import find_document_in
from kubedsm.cli.cluster import connect_cluster, find_scheduler, names_scheduler
from kubedsm.cli.console import print_json
from kubedsm.cli.inputs import read_dump, snapshot_of
from kubedsm.cli.options import Kubeconfig
from kubedsm.config.origins import DEFAULT, Origins
from kubedsm.config.settings import load, text_at
from kubedsm.explain.client import qos_targets_at
from kubedsm.explain.facts import QosTargetFacts, TierTimes
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.model import MIGRATION_ANNOTATION, QOS_ANNOTATION, RATE_ANNOTATION, Pod
from kubedsm.objective.qos_targets import newest_pods
from kubedsm.planner.plurals import short_number
from kubedsm.planner.rebalancing_requests import migration_mode
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import FittedTable, table


async def read_origins(
    path: str | None, name: ObjectName | None, kubeconfig: Kubeconfig
) -> Origins:
    """Read the configuration in the ConfigMap or the file; without either, the defaults."""
    text: str | bytes = b""
    source = ""
    if name is not None:
        async with connect_cluster(kubeconfig) as cluster:
            found, source = await find_document_in(cluster, name)
        if found is None:
            remedy = "`kubectl get configmaps -A` lists others"
            raise click.ClickException(f"{source}: there is none in the cluster; {remedy}")
        text = found
    elif path is not None:
        text, source = text_at(path)
    return Origins.of(load(text, source), text, source)


async def read_targets(
    server: str, kubeconfig: Kubeconfig, *, names_cluster: bool
) -> list[QosTargetFacts]:
    """Request the workloads' QoS targets from the scheduler at `server`.

    Raises ClickException without a responding scheduler, or for a scheduler of another cluster.
    """
    if names_cluster or not names_scheduler(kubeconfig):
        async with connect_cluster(kubeconfig) as cluster:
            if await find_scheduler(server, cluster) is None:
                raise click.ClickException(f"no scheduler of {cluster.server} responds at {server}")
    targets = await qos_targets_at(server)
    if targets is None:
        raise click.ClickException(f"no running scheduler responds at {server}")
    return targets


def list_workloads(dump_path: str, origins: Origins) -> list[dict[str, Any]]:
    """Return QoS target, weight and migration mode of each workload in the dump, with the origin of
    each value.

    The newest pod's annotations count.
    """
    configuration = origins.configuration
    snapshot = snapshot_of(read_dump(dump_path, decide=False), configuration)
    targets = configuration.policy.qos_targets_in(snapshot)
    pods = newest_pods(snapshot, snapshot.census.shares)
    found = []
    for workload in snapshot.census.shares:
        pod, target = pods[workload], targets(workload)
        mode = migration_mode(pod, configuration)
        values = {
            "qos": (target.qos, _find_qos_origin(pod, target.qos, origins)),
            "weight": (target.weight, _find_weight_origin(pod, origins)),
            "migration": (mode, _find_mode_origin(pod, mode, origins)),
        }
        shown = {key: {"value": value, "from": where} for key, (value, where) in values.items()}
        found.append({"workload": str(workload), **shown})
    return found


def _find_qos_origin(pod: Pod, effective: float, origins: Origins) -> str:
    if pod.wishes is None or pod.wishes.qos is None:
        return origins.of_service(pod.workload, pod.labels, "qos", "latency_target")
    capped = f", at most {effective:g}" if effective < pod.wishes.qos else ""
    return f"annotation {QOS_ANNOTATION} of {pod}{capped}"


def _find_weight_origin(pod: Pod, origins: Origins) -> str:
    """Return the origin of the weight, and of the request rate if weights follow traffic."""
    own = origins.of_service(pod.workload, pod.labels, "weight")
    if origins.configuration.objective.weight == "equal":
        return own
    rate_from = origins.of_service(pod.workload, pod.labels, "rate")
    declared = pod.wishes is not None and pod.wishes.rate is not None
    if rate_from == DEFAULT and declared and origins.configuration.tenants.max_rate:
        rate_from = f"annotation {RATE_ANNOTATION} of {pod}"
    if rate_from == DEFAULT:
        rate_from = "the same for each pod"
    return f"{own}; traffic: {rate_from}"


def _find_mode_origin(pod: Pod, mode: str, origins: Origins) -> str:
    if mode != migration_mode(attrs.evolve(pod, wishes=None), origins.configuration):
        return f"annotation {MIGRATION_ANNOTATION} of {pod}"
    own = origins.of_service(pod.workload, pod.labels, "mode")
    return own if own != DEFAULT else origins.of_key(("migration", "mode"))


def print_report(
    origins: Origins,
    workloads: Sequence[Mapping[str, Any]],
    targets: Sequence[QosTargetFacts],
    output: str,
    *,
    settings: bool,
) -> None:
    """Print effective values and QoS targets with origin; `settings`: include table of values."""
    if output == "yaml":
        echo(msgspec.yaml.encode(origins.effective).decode(), nl=False)
        return
    values = list(origins.values())
    if output == "json":
        print_json(
            {
                "configuration": origins.effective,
                "from": {".".join(key): where for key, _, where in values},
                "workloads": workloads,
                "targets": msgspec.to_builtins(targets),
            }
        )
        return
    console = Console()
    if settings:
        rows = ((".".join(key), _show_value(value), where) for key, value, where in values)
        console.print(table(("key", "value", "from"), rows, look="compact"))
    if workloads:
        keys = ("qos", "weight", "migration")
        cells = (
            [each["workload"], *(_show_value(of) for key in keys for of in each[key].values())]
            for each in workloads
        )
        headings = (h for key in keys for h in (key, f"{key} from"))
        console.print(table(("workload", *headings), cells))
    if targets:
        console.print(_targets_table(targets))


def _targets_table(targets: Sequence[QosTargetFacts]) -> FittedTable:
    """Return a table of the workloads' QoS targets and the underlying response times."""
    headings: Sequence[str] = (
        "workload",
        "QoS factor",
        "measured at the edge",
        "in the cloud",
        "latency target",
        "assumed at the edge",
        "in the cloud",
    )
    # Without response times, the other columns would be empty.
    timed = any(each.latency_target is not None or each.measured != TierTimes() for each in targets)
    headings = headings if timed else headings[:2]
    rows = (
        (
            each.workload,
            f"{each.qos:.3g}",
            *map(_show_time, (each.measured.edge, each.measured.cloud)),
            _show_time(each.latency_target),
            *map(_show_time, (each.taken.edge, each.taken.cloud)),
        )[: len(headings)]
        for each in targets
    )
    return table(headings, rows, numbers=headings[1:])


def _show_time(seconds: float | None) -> str:
    return "" if seconds is None else f"{short_number(1000 * seconds)}ms"


def _show_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
