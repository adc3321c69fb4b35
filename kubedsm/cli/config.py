"""The commands `kubedsm config check`, `show` and `schema`."""

import sys
from typing import TYPE_CHECKING

import click

from kubedsm.cli.options import (
    Kubeconfig,
    config_map_name,
    dump_file,
    kubeconfig,
    output,
    output_or_yaml,
    scheduler_address,
)

if TYPE_CHECKING:
    from kubedsm.kube.client.port import ObjectName

_FILE = click.Path(dir_okay=False, allow_dash=True)


@click.group()
def config() -> None:
    """Check a configuration, or show its values or its schema."""


@config.command()
@click.argument("path", metavar="FILE", type=_FILE)
@output
def check(path: str, output: str) -> None:
    """Report every mistake in a configuration file.

    One line per mistake, and exit code 1; or ok.
    """
    from kubedsm.cli.console import print_json, remark
    from kubedsm.config.settings import list_deprecated, list_mistakes, text_at
    from kubedsm.terminal.echo import echo

    text, source = text_at(path)
    found = list_mistakes(text, source)
    deprecated = [] if found else list_deprecated(text)
    if output == "json":
        listed = [{"key": ".".join(m.place) or None, "reason": m.reason} for m in found]
        print_json({"file": path, "valid": not found, "mistakes": listed, "deprecated": deprecated})
    else:
        for line in deprecated:
            remark(f"{source}: {line}")
        echo("\n".join(map(str, found)) or "ok")
    sys.exit(1 if found else 0)


@config.command()
@click.argument("path", metavar="[FILE]", required=False, type=_FILE)
@config_map_name
@kubeconfig
@dump_file("Also show the QoS target of each workload in a dump")
@click.option(
    "--running",
    is_flag=True,
    help="Also show the QoS target of each workload in the running scheduler, with the response"
    " times it follows from.",
)
@scheduler_address
@output_or_yaml
def show(
    path: str | None,
    config_map: "ObjectName | None",
    kubeconfig: Kubeconfig,
    dump_path: str | None,
    running: bool,
    server: str,
    output: str,
) -> None:
    """Show every effective value, and where it comes from.

    Without a FILE, the defaults. With --configmap, the configuration in a cluster. -o yaml prints a
    whole document.
    """
    from kubedsm.cli import configuration_report as report
    from kubedsm.cli.console import log_to, remark, until_interrupted
    from kubedsm.solvers.available import explain_missing

    if path is not None and config_map is not None:
        raise click.UsageError("FILE and --configmap: only one of them")
    log_to(level="WARNING")

    async def print_report() -> None:
        origins = await report.read_origins(path, config_map, kubeconfig)
        if missing := explain_missing(origins.configuration.solver.kind):
            remark(missing)
        workloads = [] if dump_path is None else report.list_workloads(dump_path, origins)
        targets = []
        if running:
            names_cluster = config_map is not None
            targets = await report.read_targets(server, kubeconfig, names_cluster=names_cluster)
        settings = config_map is not None or path is not None or not running
        report.print_report(origins, workloads, targets, output, settings=settings)

    until_interrupted(print_report())


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    import json

    from kubedsm.config import settings
    from kubedsm.terminal.echo import echo

    echo(json.dumps(settings.schema(), indent=2, ensure_ascii=False))
