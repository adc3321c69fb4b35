"""`kubedsm bench`: one side beside the other, and the ratio."""

import click

from kubedsm.commands.benching import bursts, decisions, nodes, processes
from kubedsm.commands.soaking import soak

_COMMANDS = (
    soak,
    decisions.match,
    decisions.suggest,
    decisions.solve,
    decisions.pack,
    decisions.ingest,
    decisions.rules,
    decisions.load,
    decisions.queue,
    bursts.burst_command,
    processes.loop,
    processes.scale,
    nodes.nodes,
    processes.idle,
    processes.start,
    decisions.site,
)


@click.group()
def bench() -> None:
    """Measure one side beside another, and print the ratio."""


for _command in _COMMANDS:
    bench.add_command(_command)
