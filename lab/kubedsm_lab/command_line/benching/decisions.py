"""What benchmarks of decisions are called with."""

from typing import Any

import click

from kubedsm.cli.options import output
from kubedsm_lab.cli.options import processes


@click.command("match")
@click.option("--pods", type=click.IntRange(1, 18), default=16, help="How many.")
@click.option("--nodes", type=click.IntRange(1, 10), default=3, help="How many.")
@output
def match(**given: Any) -> None:
    """Algorithm 8 on counts, beside its textbook bitmask form (10 s)."""
    from kubedsm_lab.commands.benching import decisions

    decisions.match(**given)


@click.command("suggest")
@output
def suggest(**given: Any) -> None:
    """The suggester, beside its literal form and enumeration (40 s)."""
    from kubedsm_lab.commands.benching import decisions

    decisions.suggest(**given)


@click.command("solve")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1, 10_000),
    default=200,
    help="Batches; half as many with rules, and clusters.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Draws them.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=1.0, help="Of the solver, for each programme."
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    show_default="none: by seconds",
    help="Of the solver's search, instead of seconds: the same results, however busy the machine.",
)
@click.option(
    "--oracle-seconds",
    "patience",
    type=click.FloatRange(1),
    default=60.0,
    help="How long the best may be looked for; what is not found by then is bounded.",
)
@processes
@output
def solve(**given: Any) -> None:
    """Decisions beyond the bounds, beside the best (20 minutes).

    Batches to place, half as many with rules among their pods, and as many clusters of 9 to 16
    workloads to move pods in until nothing more is suggested: KubeDSM with its solver and without,
    kube-scheduler's rules, and the best, which HiGHS finds by a model of its own.
    """
    from kubedsm_lab.commands.benching import decisions

    decisions.solve(**given)


@click.command("pack")
@click.option("-n", "--instances", type=click.IntRange(1, 1000), default=3, help="Of each size.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 1000), default=1.0, help="That each may take."
)
@click.option(
    "--gaps/--no-gaps",
    default=True,
    help="Whether pods that move may be missing meanwhile, as in the paper.",
)
@output
def pack(**given: Any) -> None:
    """Packing all pods, with each solver beside none (60 s).

    The instances of "Priority Matters", 4 x 4 to 32 x 8, full to the brim, without evictions.
    """
    from kubedsm_lab.commands.benching import decisions

    decisions.pack(**given)


@click.command("ingest")
@click.option("--events", type=click.IntRange(1, 100_000), default=400, help="How many.")
@output
def ingest(**given: Any) -> None:
    """Reading watch lines, beside kubernetes_asyncio's typed models."""
    from kubedsm_lab.commands.benching import decisions

    decisions.ingest(**given)


@click.command("rules")
@click.option("--pods", type=click.IntRange(1, 2000), default=200, help="Of the batch.")
@click.option("--nodes", type=click.IntRange(1, 5000), default=500, help="How many.")
@output
def rules(**given: Any) -> None:
    """Hard spread and anti-affinity, beside asking every rule (30 s).

    A batch of pods; 500 that want to be even over the zones of 1,000 nodes, and 50 that want to be
    apart there, both beside 10,000 others; and one class of pods on 5,000 nodes.
    """
    from kubedsm_lab.commands.benching import decisions

    decisions.rules(**given)


@click.command("load")
@output
def load(**given: Any) -> None:
    """Placing by measured load, beside where nothing is measured (5 s)."""
    from kubedsm_lab.commands.benching import decisions

    decisions.load(**given)


@click.command("look")
@click.option("--nodes", type=click.IntRange(1), default=500, help="How many.")
@click.option("--pods", type=click.IntRange(1), default=10_000, help="How many.")
@click.option("--changes", type=click.IntRange(1), default=25, help="From one look to the next.")
@output
def look(**given: Any) -> None:
    """What changed, seen for the page, beside seeing all anew (5 s).

    Four looks a second are taken while somebody views.
    """
    from kubedsm_lab.commands.benching import decisions

    decisions.look(**given)


@click.command("queue")
@click.option("--pods", type=click.IntRange(1, 100_000), default=5000, help="That wait in vain.")
@click.option("--classes", type=click.IntRange(1, 1000), default=10, help="Of pods alike.")
@click.option("--minutes", type=click.IntRange(1, 1000), default=10, help="Of virtual time.")
@output
def queue(**given: Any) -> None:
    """Events while many pods wait, beside asking each of them (60 s).

    And what is written about these pods, while nothing happens that could help them.
    """
    from kubedsm_lab.commands.benching import decisions

    decisions.queue(**given)


@click.command("site")
@output
def site(**given: Any) -> None:
    """Sites that are cut off, beside not knowing of sites (5 s).

    An emulated edge site goes away and comes back, in virtual time: for 4 minutes, for 15, and
    again and again. And beside kube-scheduler's rules, which move nothing.
    """
    from kubedsm_lab.commands.benching import decisions

    decisions.site(**given)
