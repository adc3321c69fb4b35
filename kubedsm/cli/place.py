"""The command `kubedsm place`."""

import click

from kubedsm.cli.options import config_file, dump_file, output


@click.command()
@dump_file("Dump: the output of `kubectl get nodes,pods -A -o json`", required=True)
@config_file
@output
def place(dump_path: str, config_path: str | None, output: str) -> None:
    """Decide, offline, where the waiting pods of a dump would go."""
    import time

    from kubedsm.cli import placement
    from kubedsm.cli.console import print_json, remark
    from kubedsm.cli.inputs import configuration_at, read_dump, start_batch_deadline
    from kubedsm.planner.plurals import counted
    from kubedsm.terminal.console import Console

    configuration = configuration_at(config_path)
    dump = read_dump(dump_path)
    started = time.perf_counter()
    placed = placement.place_pods(dump, configuration, start_batch_deadline(configuration))
    elapsed = 1000 * (time.perf_counter() - started)
    if placed.foreign:
        remark(
            f"ignored: {counted(placed.foreign, 'waiting pod')} whose schedulerName is not"
            f" {configuration.scheduler_name}"
        )
    if output == "json":
        print_json(placed.as_json() | {"elapsedMs": round(elapsed, 3)})
    else:
        Console().print(placement.placement_tables(placed, elapsed))
