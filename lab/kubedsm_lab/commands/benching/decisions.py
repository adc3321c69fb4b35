"""What decisions cost, and what they are worth: no server, no cluster."""

import math

import click
from rich.progress import Progress

from kubedsm.cli.console import log_to
from kubedsm.solvers.available import installed
from kubedsm.terminal.console import Console
from kubedsm_lab.bench import match as bench_match
from kubedsm_lab.commands.benching.showing import report, say
from kubedsm_lab.commands.tables import pack_table, sites_table, solve_table
from kubedsm_lab.replay.runner import processors


def match(pods: int, nodes: int, output: str) -> None:
    report(bench_match.run(pods=pods, nodes=nodes), output)


def suggest(output: str) -> None:
    from kubedsm_lab.bench import suggest as bench_suggest  # noqa: PLC0415  of no use elsewhere

    report(bench_suggest.run(), output)


def solve(
    number: int,
    seed: int,
    seconds: float,
    nodes: int | None,
    patience: float,
    jobs: int | None,
    output: str,
) -> None:
    if not installed("highs"):
        raise click.ClickException("highspy is not installed: the best cannot be found")
    from kubedsm_lab.bench.solve import run as bench_solve  # noqa: PLC0415  of no use elsewhere

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


def pack(instances: int, seconds: float, gaps: bool, output: str) -> None:
    from kubedsm_lab.bench import pack as bench_pack  # noqa: PLC0415  of no use elsewhere

    results = bench_pack.run(instances, seconds, gaps=gaps)
    say([result.as_json() for result in results], pack_table(results), output)


def ingest(events: int, output: str) -> None:
    from kubedsm_lab.bench import ingest as bench_ingest  # noqa: PLC0415  they take long to load

    report(bench_ingest.run(events=events), output)


def rules(pods: int, nodes: int, output: str) -> None:
    from kubedsm_lab.bench import rules as bench_rules  # noqa: PLC0415  of no use elsewhere

    report(bench_rules.run(pods=pods, nodes=nodes), output)


def load(output: str) -> None:
    from kubedsm_lab.bench import load as bench_load  # noqa: PLC0415  of no use elsewhere

    report(bench_load.run(), output)


def look(nodes: int, pods: int, changes: int, output: str) -> None:
    from kubedsm_lab.bench import look as bench_look  # noqa: PLC0415  of no use elsewhere

    report(bench_look.run(nodes=nodes, pods=pods, changes=changes), output)


def queue(pods: int, classes: int, minutes: int, output: str) -> None:
    from kubedsm_lab.bench import queue as bench_queue  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    report(bench_queue.run(pods=pods, classes=classes, minutes=minutes), output)


def site(output: str) -> None:
    from kubedsm_lab.bench import sites  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    result = sites.run()
    say(result, sites_table(result), output)
