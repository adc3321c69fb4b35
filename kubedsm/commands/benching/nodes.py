"""Clouds of many nodes: kube-scheduler and KubeDSM that look at some of them only."""

import click
from rich.console import Console
from rich.progress import Progress

from kubedsm.commands.benching.showing import sizes
from kubedsm.commands.console import print_json
from kubedsm.commands.options import output


@click.command("nodes")
@click.option(
    "--nodes", default="100,1000,5000", callback=sizes, help="Of each size, separated by commas."
)
@click.option("--pods", type=click.IntRange(1, 100_000), default=1000, help="That come.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="Of each, in turns.")
@output
def nodes(nodes: tuple[int, ...], pods: int, rounds: int, output: str) -> None:
    """Looking at some of many nodes, beside all of them (6 minutes).

    kube-scheduler's policy with percentageOfNodesToScore 0, 10, 50 and 100 (0: its formula), and
    KubeDSM with the same as cloud.percentageOfNodes: what a decision costs, what it loses, how even
    the pods lie, and whether each node has its turn. Decisions alone: no API server.
    """
    from kubedsm.bench.nodes.contenders import contenders  # noqa: PLC0415  of no use elsewhere
    from kubedsm.bench.nodes.run import run  # noqa: PLC0415
    from kubedsm.bench.nodes.tables import tables  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        at = progress.add_task("decisions", total=len(nodes) * rounds * len(contenders()))
        result = run(nodes, pods, rounds, lambda: progress.advance(at))
    if output == "json":
        print_json(result.as_json())
    else:
        click.echo(tables(result), nl=False)
