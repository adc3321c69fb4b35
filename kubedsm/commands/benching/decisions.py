"""What decisions cost, and what they are worth: no server, no cluster."""

import math

import click
from rich.console import Console
from rich.progress import Progress

from kubedsm.bench import match as bench_match
from kubedsm.commands.benching.showing import report, say
from kubedsm.commands.console import log_to
from kubedsm.commands.options import output
from kubedsm.commands.tables import pack_table, sites_table, solve_table
from kubedsm.replay.runner import processors
from kubedsm.solvers.available import installed


@click.command("match")
@click.option("--pods", type=click.IntRange(1, 18), default=16, help="How many.")
@click.option("--nodes", type=click.IntRange(1, 10), default=3, help="How many.")
@output
def match(pods: int, nodes: int, output: str) -> None:
    """Algorithm 8 on counts, beside its textbook bitmask form (10 s)."""
    report(bench_match.run(pods=pods, nodes=nodes), output)


@click.command("suggest")
@output
def suggest(output: str) -> None:
    """The suggester, beside its literal form and enumeration (40 s)."""
    from kubedsm.bench import suggest as bench_suggest  # noqa: PLC0415  of no use elsewhere

    report(bench_suggest.run(), output)


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
@click.option(
    "--jobs", type=click.IntRange(1, 1024), show_default="one a processor", help="Processes."
)
@output
def solve(
    number: int,
    seed: int,
    seconds: float,
    nodes: int | None,
    patience: float,
    jobs: int | None,
    output: str,
) -> None:
    """Decisions beyond the bounds, beside the best (20 minutes).

    Batches to place, half as many with rules among their pods, and as many clusters of 9 to 16
    workloads to move pods in until nothing more is suggested: KubeDSM with its solver and without,
    kube-scheduler's rules, and the best, which HiGHS finds by a model of its own.
    """
    if not installed("highs"):
        raise click.ClickException("highspy is not installed: the best cannot be found")
    from kubedsm.bench.solve import run as bench_solve  # noqa: PLC0415  of no use elsewhere

    planned = bench_solve.tasks(
        number,
        seed,
        seconds=math.inf if nodes else seconds,
        nodes=nodes,
        patience=patience,
    )
    with Progress(console=Console(stderr=True), transient=True) as progress:
        at = progress.add_task("instances", total=sum(map(len, planned)))
        result = bench_solve.run(*planned, jobs or processors(), lambda: progress.advance(at))
    say(result.as_json(), solve_table(result), output)


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
def pack(instances: int, seconds: float, gaps: bool, output: str) -> None:
    """Packing all pods, with each solver beside none (60 s).

    The instances of "Priority Matters", 4 x 4 to 32 x 8, full to the brim, without evictions.
    """
    from kubedsm.bench import pack as bench_pack  # noqa: PLC0415  of no use elsewhere

    results = bench_pack.run(instances, seconds, gaps=gaps)
    say([result.as_json() for result in results], pack_table(results), output)


@click.command("ingest")
@click.option("--events", type=click.IntRange(1, 100_000), default=400, help="How many.")
@output
def ingest(events: int, output: str) -> None:
    """Reading watch lines, beside kubernetes_asyncio's typed models."""
    from kubedsm.bench import ingest as bench_ingest  # noqa: PLC0415  they take long to load

    report(bench_ingest.run(events=events), output)


@click.command("rules")
@click.option("--pods", type=click.IntRange(1, 2000), default=200, help="Of the batch.")
@click.option("--nodes", type=click.IntRange(1, 5000), default=500, help="How many.")
@output
def rules(pods: int, nodes: int, output: str) -> None:
    """Hard spread and anti-affinity, beside asking every rule (30 s).

    A batch of pods; 500 that want to be even over the zones of 1,000 nodes, and 50 that want to be
    apart there, both beside 10,000 others; and one class of pods on 5,000 nodes.
    """
    from kubedsm.bench import rules as bench_rules  # noqa: PLC0415  of no use elsewhere

    report(bench_rules.run(pods=pods, nodes=nodes), output)


@click.command("load")
@output
def load(output: str) -> None:
    """Placing by measured load, beside where nothing is measured (5 s)."""
    from kubedsm.bench import load as bench_load  # noqa: PLC0415  of no use elsewhere

    report(bench_load.run(), output)


@click.command("queue")
@click.option("--pods", type=click.IntRange(1, 100_000), default=5000, help="That wait in vain.")
@click.option("--classes", type=click.IntRange(1, 1000), default=10, help="Of pods alike.")
@click.option("--minutes", type=click.IntRange(1, 1000), default=10, help="Of virtual time.")
@output
def queue(pods: int, classes: int, minutes: int, output: str) -> None:
    """Events while many pods wait, beside asking each of them (60 s).

    And what is written about these pods, while nothing happens that could help them.
    """
    from kubedsm.bench import queue as bench_queue  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    report(bench_queue.run(pods=pods, classes=classes, minutes=minutes), output)


@click.command("site")
@output
def site(output: str) -> None:
    """Sites that are cut off, beside not knowing of sites (5 s).

    An emulated edge site goes away and comes back, in virtual time: for 4 minutes, for 15, and
    again and again. And beside kube-scheduler's rules, which move nothing.
    """
    from kubedsm.bench import sites  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    result = sites.run()
    say(result, sites_table(result), output)
