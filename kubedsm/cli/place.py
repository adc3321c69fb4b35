"""The command `kubedsm place`."""

import click

from kubedsm.cli.options import config_file, dump_file, output


@click.command()
@dump_file("Dump: the output of `kubectl get nodes,pods -A -o json`", required=True)
@config_file
@output
def place(dump_path: str, config_path: str | None, output: str) -> None:
    """Decide, offline, where the waiting pods of a dump would go."""
    from kubedsm.cli import placement
    from kubedsm.cli.console import remark
    from kubedsm.cli.inputs import configuration_at, read_dump, start_batch_deadline
    from kubedsm.cli.tables import print_timed
    from kubedsm.planner.plurals import counted

    configuration = configuration_at(config_path)
    dump = read_dump(dump_path)
    placed = print_timed(
        lambda: placement.place_pods(dump, configuration, start_batch_deadline(configuration)),
        placement.placement_tables,
        output,
    )
    if placed.foreign:
        remark(
            f"ignored: {counted(placed.foreign, 'waiting pod')} whose schedulerName is not"
            f" {configuration.scheduler_name}"
        )
