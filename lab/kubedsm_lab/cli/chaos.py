"""Definition of the command `kubedsm chaos`."""

import secrets
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import attrs
import click

from kubedsm.cli.options import OneOf, kubeconfig_context, output
from kubedsm_lab.cli.options import executor, list_given, paced, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kubedsm_lab.chaos.faults import Fault
    from kubedsm_lab.chaos.sweep import Report, Verdict
    from kubedsm_lab.chaos.trace import Injection
    from kubedsm_lab.replay.runner import Workers

SHORT, LONG = 3_200, 25_000
SHORT_PAIRS = 2_500
#: incidents on a cluster
ON_A_CLUSTER = 30
#: kinds of broken guarantees with printed traces
_TRACED = 10
#: parameters that each use of the command takes, by the parameter that chooses the use
_USES = {
    "kubeconfig_path": ("number", "seed", "context", "yes"),
    "explore": ("jobs", "executor"),
    "faults": ("workloads", "seed", "paced"),
}
WORKLOADS = (
    "burst",
    "scaling",
    "cloud-to-edge",
    "asked-to-move",
    "edge-to-cloud",
    "swap",
    "new-pods",
    "contended",
    "single-replica",
    "stateful-set",
    "volumes",
    "rollout",
    "owner-deleted",
    "budgeted",
    "finalizer",
    "slow-termination",
    "namespace-deleted",
    "node-loss",
    "site-loss",
    "site-demand",
    "configuration",
    "preemption",
    "packing",
    "long-quiet",
    "lying-prometheus",
    "leader-change",
    "version-change",
    "slow-leader",
    "fast-leader",
)


def _parse_faults(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> "list[Fault]":
    from kubedsm_lab.chaos.faults import Fault, UnknownFaultError

    try:
        return list(map(Fault.parse, value))
    except UnknownFaultError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("--short", is_flag=True, help=f"{SHORT} injections instead of {LONG}.")
@click.option("--injections", "number", type=click.IntRange(1), help="Number of injections.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the injections.")
@click.option(
    "--workload",
    "workloads",
    type=OneOf(WORKLOADS),
    multiple=True,
    show_default="all",
    help="Only this workload; repeatable.",
)
@click.option(
    "--fault",
    "faults",
    metavar="FAULT",
    callback=_parse_faults,
    multiple=True,
    help="Replay this fault, and print the trace; given twice: two faults in one run.",
)
@click.option(
    "--pairs",
    is_flag=True,
    help="Two faults in each run: the second strikes during the recovery from the first.",
)
@click.option(
    "--explore", is_flag=True, help="Visit all states of a model of plans, instead of faults."
)
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Cause incidents on this cluster instead; asks first, and deletes all that it creates.",
)
@kubeconfig_context
@click.option("--yes", is_flag=True, help="With --kubeconfig: do not ask.")
@paced
@processes
@executor
@output
def chaos(
    short: bool,
    number: int | None,
    seed: int,
    workloads: tuple[str, ...],
    faults: "list[Fault]",
    pairs: bool,
    explore: bool,
    kubeconfig_path: Path | None,
    context: str | None,
    yes: bool,
    paced: bool,
    jobs: int | None,
    executor: str | None,
    output: str,
) -> None:
    """Inject faults, one in each run or two, into an emulated cluster.

    Each run is a workload in virtual time with one fault: a call that fails, an event that is lost,
    a crash. The invariants are checked after every change and at the end.

    With --kubeconfig, users' incidents (30, or --injections) strike pods on hollow nodes of any
    cluster, next to kills and broken connections of two `kubedsm run` that the command starts.
    """
    from kubedsm.cli.console import print_json
    from kubedsm.terminal.echo import echo
    from kubedsm_lab.chaos import sweep
    from kubedsm_lab.chaos.hostile_connections import attack
    from kubedsm_lab.chaos.sweep import Report
    from kubedsm_lab.replay.runner import choose_workers

    _refuse_options(click.get_current_context())
    if kubeconfig_path is not None:
        _strike_cluster(kubeconfig_path, context, number or ON_A_CLUSTER, seed, output, yes=yes)
    workers = choose_workers(jobs, executor)
    if explore:
        _explore_plans(workers, output)
    if faults:
        _replay_faults(_find_injection(workloads, faults, seed, paced=paced), output)
    found = sweep.list_injections(workloads or WORKLOADS, seed, paced=paced)
    if pairs:
        report = _sweep_pairs(found, number or (SHORT_PAIRS if short else LONG), seed, workers)
    else:
        planned = sweep.choose_injections(found, number or (SHORT if short else LONG), seed)
        with _show_alarms("faults", len(planned)) as on_done:
            report = Report(sweep.run_sweep(planned, workers, on_done), found)
    violations = [] if workloads or pairs else attack()
    if output == "json":
        print_json(report.as_json() | {"hostileConnections": violations})
    else:
        _print_report(report)
        for violation in violations:
            echo(f"hostile connections: {violation}")
    sys.exit(1 if report.broken or violations else 0)


def _refuse_options(context: click.Context) -> None:
    """Reject options that have no effect with the chosen use of the command. Raises UsageError."""
    given = list_given(context)
    use = next((use for use in _USES if use in given), None)
    for name, flag in given.items():
        if use is None and name in ("context", "yes"):
            raise click.UsageError(f"{flag} needs --kubeconfig")
        if use is not None and name not in (use, "output", *_USES[use]):
            raise click.UsageError(f"{flag} has no effect with {given[use]}")


def _sweep_pairs(
    found: "Sequence[Injection]", number: int, seed: int, workers: "Workers"
) -> "Report":
    """Execute runs with one fault, then runs with a second fault in addition; report the latter,
    and the former that broke a guarantee.
    """
    from kubedsm_lab.chaos import pairs
    from kubedsm_lab.chaos.sweep import Report, run_sweep
    from kubedsm_lab.replay.runner import spread

    begun = pairs.draw_covering(found, pairs.count_traces(number), seed)
    traces = []
    with _show_alarms("first faults", len(begun)) as on_done:
        for trace in spread(pairs.trace, begun, workers):
            traces.append(trace)
            on_done(trace.verdict)
    reached = [pair for trace in traces for pair in trace.pairs]
    planned = pairs.draw_covering(reached, number, seed)
    with _show_alarms("pairs of faults", len(planned)) as on_done:
        verdicts = run_sweep(planned, workers, on_done)
    broken = [trace.verdict for trace in traces if trace.verdict.violations]
    return Report([*broken, *verdicts], reached)


@contextmanager
def _show_alarms(what: str, total: int) -> "Iterator[Callable[[Verdict], object]]":
    """Show a progress bar on stderr, and each run that breaks a guarantee as soon as it ends."""
    from kubedsm.terminal.echo import echo
    from kubedsm_lab.replay.runner import show_progress

    with show_progress(what, total) as advance:

        def show_alarm(verdict: "Verdict") -> None:
            advance()
            for violation in verdict.violations[:1]:
                echo(f"{verdict.injection.command}: {violation}", err=True)

        yield show_alarm


def _strike_cluster(
    kubeconfig: Path, context: str | None, number: int, seed: int, output: str, *, yes: bool
) -> NoReturn:
    """Cause incidents on a cluster after confirmation. Raises ClickException without rights."""
    from kubedsm.cli.console import remark, until_interrupted
    from kubedsm.kube.client.environment import choose_context
    from kubedsm_lab.chaos import any_cluster
    from kubedsm_lab.cli.bench import show_report
    from kubedsm_lab.emulator.api.errors import ApiError
    from kubedsm_lab.replay.runner import show_progress

    name = f"kubedsm-chaos-{secrets.token_hex(3)}"
    where = f"context {choose_context((kubeconfig,), context)} of {kubeconfig}"
    remark(f"{where}: {number} incidents in namespace {name}, on three hollow nodes {name}-*")
    if not yes:
        click.confirm("Create them, and delete them at the end?", abort=True, err=True)
    plan = any_cluster.Plan(kubeconfig, context, number, seed, name)

    async def strike() -> int:
        with show_progress("incidents", number) as advance:
            result = await any_cluster.run(plan, advance)
        show_report(result.report(), output)
        return 1 if result.violations or result.left else 0

    try:
        sys.exit(until_interrupted(strike()))
    except ApiError as error:
        raise click.ClickException(error.message) from None


def _explore_plans(workers: "Workers", output: str) -> NoReturn:
    from kubedsm.cli.console import print_json
    from kubedsm.terminal.echo import echo
    from kubedsm_lab.chaos.exploration.model import explore_scenario
    from kubedsm_lab.chaos.exploration.states import SCENARIOS
    from kubedsm_lab.replay.runner import spread

    results = list(spread(explore_scenario, SCENARIOS, workers))
    if output == "json":
        print_json([attrs.asdict(result) for result in results])
    else:
        for result in results:
            echo(str(result))
    sys.exit(1 if any(result.violation for result in results) else 0)


def _find_injection(
    workloads: tuple[str, ...], faults: "list[Fault]", seed: int, *, paced: bool
) -> "Injection":
    from kubedsm_lab.chaos import sweep
    from kubedsm_lab.chaos.trace import Injection

    if len(workloads) != 1:
        raise click.UsageError("--fault needs one --workload")
    injection = Injection(workloads[0], (), seed, paced)
    for fault in faults:
        before, injection = injection, injection.add_fault(fault)
        if injection not in sweep.list_next(sweep.replay(before)):
            where = before.command.removeprefix("kubedsm chaos ")
            raise click.UsageError(f"--fault {fault} finds no such call or event, with {where}")
    return injection


def _replay_faults(injection: "Injection", output: str) -> NoReturn:
    from kubedsm.cli.console import print_json
    from kubedsm.terminal.echo import echo
    from kubedsm_lab.chaos.sweep import replay
    from kubedsm_lab.chaos.trace import describe_outcome

    outcome = replay(injection)
    trace = describe_outcome(outcome)
    if output == "json":
        print_json({"trace": trace, "violations": outcome.violations})
    else:
        for line in trace:
            echo(line)
    sys.exit(1 if outcome.violations else 0)


def _print_report(report: "Report") -> None:
    from kubedsm.terminal.console import Console
    from kubedsm.terminal.echo import echo
    from kubedsm_lab.chaos.pairs import shrink
    from kubedsm_lab.chaos.sweep import replay
    from kubedsm_lab.chaos.trace import describe_outcome

    console = Console()
    console.print(report.fault_table())
    for first, *others in report.failure_groups[:_TRACED]:
        smallest = shrink(first)
        echo(f"{smallest.command} (and {len(others)} alike)")
        for line in describe_outcome(replay(smallest)):
            echo(f"  {line}")
    console.print(report.summary)
