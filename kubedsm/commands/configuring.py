"""`kubedsm config`: is a configuration right, what does it come to, and what can be in one."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click
import msgspec

from kubedsm.app.configuration_source import said_in
from kubedsm.commands import offline
from kubedsm.commands.console import log_to, print_json, remark, until_interrupted
from kubedsm.commands.inputs import (
    read_dump,
)
from kubedsm.commands.on_cluster import find_scheduler, names_scheduler
from kubedsm.config.origins import DEFAULT, Origins, mistakes
from kubedsm.config.settings import Configuration, load, schema, text_at
from kubedsm.explain.client import promises_at
from kubedsm.explain.facts import QosTarget
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.model.model import Pod, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.wishes import MIGRATION_ANNOTATION, QOS_ANNOTATION, RATE_ANNOTATION
from kubedsm.objective.wishes import newest_wishing
from kubedsm.planner.suggest_request import migration_of
from kubedsm.solvers.available import lacking
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import FittedTable, table


def check(path: str, output: str) -> None:
    found = mistakes(*text_at(path))
    if output == "json":
        listed = [{"key": ".".join(m.place) or None, "reason": m.reason} for m in found]
        print_json({"file": path, "valid": not found, "mistakes": listed})
    else:
        echo("\n".join(map(str, found)) or "ok")
    sys.exit(1 if found else 0)


def show(
    path: str | None,
    config_map: ConfigMapName | None,
    kubeconfig_path: Path | None,
    context: str | None,
    dump_path: str | None,
    running: bool,
    server: str,
    output: str,
) -> None:
    if path is not None and config_map is not None:
        raise click.UsageError("FILE and --configmap: only one of them")
    log_to(level="WARNING")

    async def ask() -> None:
        text: str | bytes = b""
        source = ""
        if config_map is not None:
            async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
                asked = ExplainedCluster(cluster, cluster.server)
                text, source = await said_in(asked, config_map)
        elif path is not None:
            text, source = text_at(path)
        origins = Origins.of(load(text, source), text, source)
        if said := lacking(origins.configuration.solver.kind):
            remark(said)
        workloads: list[ShownWorkload] = []
        if dump_path is not None:
            configuration = origins.configuration
            dump = read_dump(dump_path, decide=False)
            workloads = list(shown_workloads(offline.snapshot_of(dump, configuration), origins))
        promised: list[QosTarget] = []
        if running:
            if config_map is not None or not names_scheduler(kubeconfig_path, context):
                await _require_scheduler(server, kubeconfig_path, context)
            promised = await _promised_by(server)
        settings = config_map is not None or path is not None or not running
        _print(origins, workloads, promised, output, settings=settings)

    until_interrupted(ask())


async def _require_scheduler(server: str, kubeconfig: Path | None, context: str | None) -> None:
    """Raise ClickException unless the scheduler at `server` serves the named cluster."""
    async with await KubernetesCluster.connect(kubeconfig, context) as cluster:
        if await find_scheduler(server, ExplainedCluster(cluster, cluster.server)) is None:
            raise click.ClickException(f"no scheduler of {cluster.server} answers at {server}")


async def _promised_by(server: str) -> list[QosTarget]:
    said = await promises_at(server)
    if said is None:
        raise click.ClickException(f"no running scheduler answers at {server}")
    return said


def schema_() -> None:
    echo(json.dumps(schema(), indent=2, ensure_ascii=False))


@attrs.frozen
class ShownWorkload:
    """What is promised to a workload, and who says so."""

    workload: str
    qos: float
    qos_from: str
    weight: float
    weight_from: str
    migration: str
    migration_from: str

    def as_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            "qos": {"value": self.qos, "from": self.qos_from},
            "weight": {"value": self.weight, "from": self.weight_from},
            "migration": {"value": self.migration, "from": self.migration_from},
        }


def shown_workloads(snapshot: Snapshot, origins: Origins) -> Iterator[ShownWorkload]:
    """Of each workload that is ours, by its newest pod."""
    configuration: Configuration = origins.configuration
    promises = configuration.policy.promises_in(snapshot)
    wishing = newest_wishing(snapshot)
    pods = {pod.workload: pod for pod in snapshot.pods.values()} | wishing
    for workload in snapshot.shares():
        pod, promise = pods[workload], promises(workload)
        wishes = pod.wishes
        qos_from = origins.of_service(workload, "qos", "latency_target")
        if wishes is not None and wishes.qos is not None:
            capped = f", at most {promise.qos:g}" if promise.qos < wishes.qos else ""
            qos_from = f"annotation {QOS_ANNOTATION} of {pod}{capped}"
        migration_from = _mode_from(workload, origins)
        if migration_of(pod, configuration) != migration_of(
            attrs.evolve(pod, wishes=None), configuration
        ):
            migration_from = f"annotation {MIGRATION_ANNOTATION} of {pod}"
        yield ShownWorkload(
            str(workload),
            promise.qos,
            qos_from,
            promise.weight,
            _weight_from(pod, origins),
            migration_of(pod, configuration),
            migration_from,
        )


def _weight_from(pod: Pod, origins: Origins) -> str:
    """Who says what the workload of the pod weighs, and how many requests it answers."""
    own = origins.of_service(pod.workload, "weight")
    if origins.configuration.objective.weight == "equal":
        return own
    rate_from = origins.of_service(pod.workload, "rate")
    declared = pod.wishes is not None and pod.wishes.rate is not None
    if rate_from == DEFAULT and declared and origins.configuration.tenants.max_rate:
        rate_from = f"annotation {RATE_ANNOTATION} of {pod}"
    if rate_from == DEFAULT:
        rate_from = "as much for each pod as others"
    return f"{own}; traffic: {rate_from}"


def _mode_from(workload: Workload, origins: Origins) -> str:
    own = origins.of_service(workload, "mode")
    return own if own != DEFAULT else origins.of_key(("migration", "mode"))


def _print(
    origins: Origins,
    workloads: list[ShownWorkload],
    promised: list[QosTarget],
    output: str,
    *,
    settings: bool,
) -> None:
    """settings: whether the tables begin with what the document comes to."""
    if output == "yaml":
        echo(msgspec.yaml.encode(origins.effective).decode(), nl=False)
        return
    values = list(origins.values())
    if output == "json":
        print_json(
            {
                "configuration": origins.effective,
                "from": {".".join(key): where for key, _, where in values},
                "workloads": [workload.as_json() for workload in workloads],
                "promised": msgspec.to_builtins(promised),
            }
        )
        return
    rows = ((".".join(key), _written(value), where) for key, value, where in values)
    console = Console()
    if settings:
        console.print(table(("key", "value", "from"), rows, look="compact"))
    if workloads:
        headings = ("workload", "qos", "from", "weight", "from", "migration", "from")
        cells = (map(_written, attrs.astuple(workload)) for workload in workloads)
        console.print(table(headings, cells))
    if promised:
        console.print(_promised_table(promised))


def _promised_table(promised: list[QosTarget]) -> FittedTable:
    """With the response times of each, measured and as they make a promise of its target."""
    headings = ("workload", "promised", "answers in: edge", "cloud", "target", "by edge", "cloud")
    rows = (
        (
            each.workload,
            f"{each.qos:.3g}",
            *map(_time, (each.measured.edge, each.measured.cloud)),
            _time(each.latency_target),
            *map(_time, (each.taken.edge, each.taken.cloud)),
        )
        for each in promised
    )
    return table(headings, rows, numbers=headings[1:])


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.3g}ms"


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
