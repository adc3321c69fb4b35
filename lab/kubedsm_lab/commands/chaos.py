"""`kubedsm chaos`: everything that can go wrong, one thing at a time."""

import sys

import click
from rich.progress import Progress

from kubedsm.commands.console import print_json
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.hostile_connections import attack
from kubedsm_lab.chaos.sweep import Report, chosen, injections, reference, sweep
from kubedsm_lab.chaos.trace import Injection, Outcome, play, told
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.replay.runner import processors

#: sorts of broken promises of which one is told
_TOLD = 10


def chaos(
    number: int,
    seed: int,
    workloads: tuple[str, ...],
    fault: Fault | None,
    paced: bool,
    jobs: int | None,
    output: str,
) -> None:
    if fault is not None:
        if len(workloads) != 1:
            raise click.UsageError("--fault needs one --workload")
        injection = Injection(workloads[0], fault, seed, paced)
        if injection not in injections(workloads, seed, paced=paced):
            where = f"--workload {workloads[0]} --seed {seed}{' --paced' * paced}"
            raise click.UsageError(f"--fault {fault} finds no such call or event, with {where}")
        _replay(injection)
        return
    found = injections(workloads or tuple(WORKLOADS), seed, paced=paced)
    planned = chosen(found, number, seed)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("faults", total=len(planned))
        verdicts = sweep(planned, jobs or processors(), lambda _: progress.advance(task))
    report = Report(verdicts, found)
    attacked = [] if workloads else attack()
    if output == "json":
        print_json(report.as_json() | {"hostileConnections": attacked})
    else:
        _show(report)
        for violation in attacked:
            echo(f"hostile connections: {violation}")
    sys.exit(1 if report.broken or attacked else 0)


def _show(report: Report) -> None:
    console = Console()
    console.print(report.table())
    for first, *others in report.sorts[:_TOLD]:
        echo(f"{first.injection.command} (and {len(others)} alike)")
        for line in told(_played(first.injection)):
            echo(f"  {line}")
    console.print(
        f"{len(report.verdicts)} injections, {len(report.broken)} broke a promise;"
        f" {len(report.covered)} of {len(report.cells)} cells (emulated)"
    )


def _replay(injection: Injection) -> None:
    outcome = _played(injection)
    for line in told(outcome):
        echo(line)
    sys.exit(1 if outcome.violations else 0)


def _played(injection: Injection) -> Outcome:
    usual = reference(injection.workload, injection.seed, paced=injection.paced)
    return play(injection, usual)
