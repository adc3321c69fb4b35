"""Definition of the command `kubedsm record`."""

from pathlib import Path

import click

from kubedsm.cli.options import (
    Kubeconfig,
    config_file,
    kubeconfig,
    output,
    scheduler_address,
)
from kubedsm_lab.cli.options import report_folder, require_libraries


@click.command()
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=click.Path(path_type=Path))
@click.option(
    "--scenario",
    "scenario_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="DrStress file of the load: its services and its duration.",
)
@click.option(
    "--requests",
    "requests_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that `loadgen run -o json` will write: the recording begins and ends with the load,"
    " and has its response times.",
)
@click.option(
    "--policy",
    show_default="by the pods' scheduler",
    help="Name of the results.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 7 * 86_400),
    show_default="as the scenario",
    help="Duration of the recording.",
)
@click.option("--namespace", default="default", help="Namespace of the services.")
@click.option(
    "--compare",
    is_flag=True,
    help="Instead, compare the results in the folders DIR in one report.",
)
@scheduler_address
@config_file
@kubeconfig
@report_folder
@output
def record(
    folders: tuple[Path, ...],
    scenario_path: Path | None,
    requests_path: Path | None,
    policy: str | None,
    seconds: float | None,
    namespace: str,
    compare: bool,
    server: str,
    config_path: str | None,
    kubeconfig: Kubeconfig,
    out: Path | None,
    output: str,
) -> None:
    """Record a cluster under load, and report the measures of a replay.

    The cluster is only read. Ctrl-C or SIGTERM ends the recording with a report of everything
    recorded.
    """
    from kubedsm.cli.cluster import connect_cluster
    from kubedsm.cli.console import Stop, log_to, until_interrupted
    from kubedsm.cli.inputs import configuration_at
    from kubedsm.kube.client.port import is_name
    from kubedsm_lab.cli.recording_session import publish_report, record_load
    from kubedsm_lab.output_files import folder_for
    from kubedsm_lab.replay.following import Plan
    from kubedsm_lab.replay.recording import TimelineRecorder
    from kubedsm_lab.replay.report import join_reports
    from kubedsm_lab.replay.sources import scenario_in

    if bool(folders) != compare or compare == bool(scenario_path):
        raise click.UsageError("give --scenario, or --compare and folders: one of the two")
    if out is not None:
        require_libraries("matplotlib")
        folder_for(out)
    if scenario_path is None:
        publish_report(join_reports(folders), out, output)
        return
    if not is_name(namespace):
        raise click.UsageError(f"--namespace: {namespace!r} is not such a name")
    if requests_path is not None and requests_path.exists() and requests_path.stat().st_size:
        raise click.ClickException(f"{requests_path}: is of load that has ended before")
    scenario = scenario_in(scenario_path)
    log_to(level="ERROR")
    tiers = configuration_at(config_path).tiers
    plan, stop = Plan(scenario.duration if seconds is None else seconds, requests_path), Stop()
    recorder = TimelineRecorder(scenario.services, tiers, namespace)
    reported = False

    async def record_cluster() -> None:
        nonlocal reported
        async with connect_cluster(kubeconfig) as cluster:
            report = await record_load(
                cluster,
                scenario_path.stem,
                scenario.services,
                policy,
                recorder,
                plan,
                stop,
                server,
            )
        # No await from here on: a signal does not interrupt the report.
        publish_report(report, out, output)
        reported = True

    until_interrupted(record_cluster(), stop)
    if not reported:
        raise click.Abort
