"""What the benchmark of many nodes is called with."""

from typing import Any

import click

from kubedsm.cli.options import output
from kubedsm_lab.cli.options import sizes


@click.command("nodes")
@click.option(
    "--nodes", default="100,1000,5000", callback=sizes, help="Of each size, separated by commas."
)
@click.option("--pods", type=click.IntRange(1, 100_000), default=1000, help="That come.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="Of each, in turns.")
@output
def nodes(**given: Any) -> None:
    """Looking at some of many nodes, beside all of them (6 minutes).

    kube-scheduler's policy with percentageOfNodesToScore 0, 10, 50 and 100 (0: its formula), and
    KubeDSM with the same as cloud.percentageOfNodes: what a decision costs, what it loses, how even
    the pods lie, and whether each node has its turn. Decisions alone: no API server.
    """
    from kubedsm_lab.commands.benching import nodes

    nodes.nodes(**given)
