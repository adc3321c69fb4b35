"""The commands `explain`, `watch`, `place`, `suggest`, `pack`, `approve` and `completion`.

A command imports its implementation when it runs: `--help` and completion import this module.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from kubedsm.cli.options import (
    EXIT_CODES,
    DurationType,
    Kubeconfig,
    MigrationOptions,
    OneOf,
    cluster_config_file,
    config_file,
    dump_file,
    kubeconfig,
    migration_options,
    migration_requests,
    output,
    output_of_names,
    pod_selection,
    scheduler_address,
)

if TYPE_CHECKING:
    from kubedsm.app.assembly import Runtime
    from kubedsm.cli.execution import Errand
    from kubedsm.explain.facts import Answering
    from kubedsm.kube.client.port import ObjectName
    from kubedsm.model.snapshot import Snapshot


@click.command()
@click.argument("names", metavar="[POD | KIND/NAME]", nargs=-1)
@pod_selection(
    "Namespace of the pod or workload; with --all, pending pods of this namespace only.",
    "any",
    "With --all, pending pods with these labels only, such as app=cart,tier!=batch.",
)
@click.option(
    "--all", "everyone", is_flag=True, help="Every pending pod, each as if it were alone."
)
@dump_file(
    "Dump: the output of `kubectl get nodes,pods,namespaces,pvc,pv,storageclasses,csinodes -A"
    " -o json`",
    show_default="none: ask the running scheduler",
)
@scheduler_address
@cluster_config_file
@kubeconfig
@output_of_names
def explain(everywhere: bool, **given: Any) -> None:
    """Explain a pod, node, workload, migration or decision.

    POD is NAME or NAMESPACE/NAME. KIND/NAME is pod/NAME, node/NAME, deployment/NAME,
    statefulset/NAME, job/NAME, migration/ID or decision/NUMBER; NAMESPACE/NAME works there, too.

    The running scheduler explains its decisions. If there is none, or it has no decision about a
    pod, the cluster does: by the pod's Events, and its nodes as they are now. `feasible` is
    kube-scheduler's verdict; a node that belongs to no tier is reported apart. For another
    scheduler's pod the command says how to opt in. With --all -o json there is one object a line;
    -o name prints names for a next command.
    """
    from kubedsm.cli import explaining

    if everywhere and given["namespace"] is not None:
        raise click.UsageError("-n and -A: only one of them")
    if given["selector"] is not None and not given["everyone"]:
        raise click.UsageError("-l: only with --all")
    if given["selector"] is not None and given["dump_path"] is not None:
        raise click.UsageError("-l and --from: only one of them, the API server selects")
    explaining.explain(**given)


@click.command()
@scheduler_address
@click.option(
    "--token-file",
    "token_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token of the page: `kubedsm run --page-token-file`.",
)
@output
def watch(server: str, token_path: Path | None, output: str) -> None:
    """Browse a running scheduler's dashboard in a terminal.

    Tables of services, sites, nodes, pods and migrations need the extra `kubedsm[watch]`; `?` lists
    the keys. Without the extra or a terminal, and with -o json, each news is one line.

    The scheduler must run with `kubedsm run --page`, or with --page-address, which --server then
    names. The command is read-only.
    """
    from kubedsm.cli.console import log_to, until_interrupted
    from kubedsm.cli.inputs import read_token
    from kubedsm.cli.live_view import show_updates
    from kubedsm.dashboard.terminal.following import Page
    from kubedsm.process.clock import SystemClock

    log_to(level="CRITICAL")
    token = None if token_path is None else read_token(token_path)
    until_interrupted(show_updates(Page(server, token), SystemClock(), output))


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


@click.command(epilog=EXIT_CODES)
@migration_options("Plan for")
@click.option(
    "--budget",
    type=DurationType(),
    default="30s",
    help="Time limit; at its end the best migrations found so far are the result.",
)
def suggest(options: MigrationOptions, budget: float) -> None:
    """Suggest migrations, with reasons; with --apply, execute them.

    A running scheduler executes them on request, in every suggester.mode. If none runs, this
    process takes the scheduler's Lease and executes them. Measured response times come from the
    running scheduler, if it answers.
    """
    from kubedsm.cli.inputs import read_dump, snapshot_of
    from kubedsm.cli.migration_advice import report_advice

    configuration = options.load_configuration()
    if options.dump_path is not None:
        snapshot = snapshot_of(read_dump(options.dump_path), configuration)
        report_advice(snapshot, configuration, options.output, budget)
        return

    from kubedsm.cli.execution import Errand, ask_cluster
    from kubedsm.rebalancing.migration_requests import list_requested_moves

    def decide(snapshot: "Snapshot", scheduler: "Answering | None") -> "Errand | None":
        slower = frozenset() if scheduler is None else scheduler.slower
        measured = attrs.evolve(snapshot.measured, slower=slower)
        snapshot = attrs.evolve(snapshot, measured=measured)
        suggestion = report_advice(snapshot, configuration, options.output, budget).suggestion

        async def begin(runtime: "Runtime") -> None:
            if runtime.migrator is not None:
                runtime.migrator.execute(runtime.mirror.snapshot(), suggestion)

        if not (options.carry_out and suggestion.moves):
            return None
        return Errand(begin, suggestion.id, list_requested_moves(suggestion))

    sys.exit(ask_cluster(options, configuration, decide))


@click.command(epilog=EXIT_CODES)
@migration_options("Pack")
def pack(options: MigrationOptions) -> None:
    """Plan migrations that free capacity; --apply executes them.

    A migrated pod serves until its replacement is ready. Pods are evicted only with
    optimiser.allowEvictions, and only for pods of higher priority.

    Meanwhile --apply acts as the scheduler. It takes the scheduler's Lease, and refuses to act if
    another scheduler runs.
    """
    from kubedsm.cli.console import remark
    from kubedsm.cli.inputs import read_dump, snapshot_of
    from kubedsm.cli.packing_advice import report_packing
    from kubedsm.solvers.available import explain_missing

    configuration = options.load_configuration()
    if missing := explain_missing(configuration.solver.kind):
        remark(missing)
    if options.dump_path is not None:
        snapshot = snapshot_of(read_dump(options.dump_path), configuration)
        report_packing(snapshot, configuration, options.output)
        return

    from kubedsm.cli.execution import Errand, ask_cluster

    def decide(snapshot: "Snapshot", _: "Answering | None") -> "Errand | None":
        advice = report_packing(snapshot, configuration, options.output)
        return Errand(advice.carry_out) if options.carry_out and advice.packed.better else None

    sys.exit(ask_cluster(options, configuration, decide))


@click.command()
@click.argument("shell", type=OneOf(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands in a shell.

    bash, in ~/.bashrc: source <(kubedsm completion bash); zsh, in ~/.zshrc: source <(kubedsm
    completion zsh); fish: kubedsm completion fish > ~/.config/fish/completions/kubedsm.fish
    """
    from click.shell_completion import get_completion_class

    from kubedsm.cli.main import commands
    from kubedsm.terminal.echo import echo

    made = get_completion_class(shell)
    if made is not None:  # click has all three
        echo(made(commands, {}, "kubedsm", "_KUBEDSM_COMPLETE").source())


def _check_id(_: click.Context, __: click.Parameter, value: str) -> str:
    from kubedsm.optimizer.moving.suggestion import ID_LENGTH

    if not re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", value):
        raise click.BadParameter(
            f"{value} is not the id of a proposal, such as 3f2a91c0: read it in the Events"
            " MigrationProposed of the pods, or in the scheduler's log"
        )
    return value


@click.command(epilog=EXIT_CODES)
@click.argument("proposal", metavar="ID", callback=_check_id)
@kubeconfig
@migration_requests
def approve(
    proposal: str,
    kubeconfig: Kubeconfig,
    config_map: "ObjectName",
    wait: float,
) -> None:
    """Have the running scheduler execute migrations that it proposed.

    In mode suggest, the Events MigrationProposed of the pods and the log contain its ID. The
    scheduler executes it only while it would still propose the same.
    """
    from kubedsm.cli.cluster import connect_cluster
    from kubedsm.cli.console import log_to, remark, until_interrupted
    from kubedsm.cli.migration_requests import PAUSED, Requests
    from kubedsm.process.clock import SystemClock

    log_to(level="ERROR")

    async def request() -> int:
        async with connect_cluster(kubeconfig) as cluster:
            requests = Requests(cluster, config_map, SystemClock())
            code = PAUSED if await requests.is_paused(wait) else await requests.send(proposal)
            if not code:
                remark("all migrations are done")
            return code

    sys.exit(until_interrupted(request()))
