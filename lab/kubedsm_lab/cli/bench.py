"""`kubedsm bench`: one function per benchmark.

Modules of benchmarks are imported on execution, never for help and completion.
"""

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubedsm.cli.options import OneOf, kubeconfig_context, output
from kubedsm.terminal.running import Commands, nearest
from kubedsm_lab.cli.options import (
    executor,
    interrupt_on_sigterm,
    list_given,
    parse_names,
    parse_sizes,
    processes,
    require_libraries,
)

if TYPE_CHECKING:
    from kubedsm_lab.bench.burst.run import Plan
    from kubedsm_lab.bench.report import Report

#: Capacity of one emulated node in pods of the benchmarks `board` and `footprint`.
PODS_OF_A_NODE = 50
ODDITIES = ("absurd", "overlapping", "forged")
#: Seconds of silence before a round of bursts on an emulated cluster.
_SILENCE = 30.0
#: Parameters of `bench burst` for real and for emulated clusters.
_REAL = ("context", "schedulers", "image", "hollow_nodes")
_EMULATED = ("policies", "keepalive")


@click.group(cls=Commands)
@click.pass_context
def bench(context: click.Context) -> None:
    """Measure KubeDSM against an alternative, and print the ratio.

    In brackets: approximate duration on 2 cores.
    """
    context.with_resource(interrupt_on_sigterm())


def show_report(report: "Report", output: str) -> None:
    from kubedsm.cli.console import print_json
    from kubedsm.terminal.console import Console

    if output == "json":
        print_json(report.figures)
    else:
        Console().print(report.rendered)


def _log_only(level: str) -> None:
    from kubedsm.cli.console import log_to

    log_to(level=level)


@bench.command()
@output
def site(output: str) -> None:
    """Partitioned edge sites, with and without site labels (5 s).

    An emulated edge site is partitioned and returns, in virtual time: after 4 minutes, after 15,
    and five times. Also compared: kube-scheduler's rules, which migrate nothing.
    """
    from kubedsm_lab.bench import sites

    _log_only("ERROR")
    show_report(sites.run(), output)


@bench.command()
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1, 10_000),
    default=200,
    help="Batches; half as many with rules, and clusters.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the instances.")
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=1.0,
    help="Time limit of the solver for each programme.",
)
@processes
@executor
@output
def solve(
    number: int,
    seed: int,
    seconds: float,
    jobs: int | None,
    executor: str | None,
    output: str,
) -> None:
    """Decisions above the exact limit, against the optimum (20 min).

    Batches of pending pods, half as many with rules among pods, and as many clusters of 9 to 16
    workloads with possible migrations: KubeDSM with and without solver, kube-scheduler's rules, and
    the optimum, found by HiGHS with an independent model.
    """
    from kubedsm.solvers.available import is_installed
    from kubedsm_lab.bench.solve import run
    from kubedsm_lab.replay.runner import choose_workers, show_progress

    if not is_installed("highs"):
        raise click.ClickException("highspy is not installed: the best cannot be found")
    planned = run.tasks(number, seed, seconds)
    with show_progress("instances", sum(map(len, planned))) as advance:
        result = run.run(*planned, choose_workers(jobs, executor), advance)
    show_report(result.report(), output)


@bench.command()
@click.option(
    "--nodes",
    default="100,1000,5000",
    callback=parse_sizes,
    help="Of each size, separated by commas.",
)
@click.option("--pods", type=click.IntRange(1, 100_000), default=1000, help="New pods.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="Of each, in turns.")
@output
def nodes(nodes: tuple[int, ...], pods: int, rounds: int, output: str) -> None:
    """Scoring a part of many nodes, against scoring all (6 min).

    kube-scheduler's policy with percentageOfNodesToScore 0, 10, 50 and 100 (0: the formula), and
    KubeDSM with the same as cloud.percentageOfNodes: cost and quality of decisions, evenness of the
    pods, and fairness of the search. Decisions alone: no API server.
    """
    from kubedsm_lab.bench.nodes.contenders import contenders, run
    from kubedsm_lab.replay.runner import show_progress

    with show_progress("decisions", len(nodes) * rounds * len(contenders())) as advance:
        result = run(nodes, pods, rounds, advance)
    show_report(result.report(), output)


@bench.command()
@click.option(
    "--nodes",
    default="100,1000,5000",
    callback=parse_sizes,
    help="Of each size, separated by commas.",
)
@click.option(
    "--pods",
    default="1000,10000,50000",
    callback=parse_sizes,
    help="Of each size, separated by commas.",
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=11, help="Of each pair, in turns.")
@click.option(
    "--suggestions", type=click.IntRange(0, 1000), default=3, help="Rounds of suggestions."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 100_000),
    default=30.0,
    help="Time with pod events, and time without after it; 0: no `kubedsm run`.",
)
@output
def scale(
    nodes: tuple[int, ...],
    pods: tuple[int, ...],
    rounds: int,
    suggestions: int,
    seconds: float,
    output: str,
) -> None:
    """CPU and memory cost of each operation, by cluster size.

    Decisions and suggestions are compared with the same without cached aggregates, decoding with
    kubernetes_asyncio's typed models. Then `kubedsm run` on `kubedsm emulate`: 200 pod events a
    second, bursts, suggestions. At last the growth of each operation's cost with the cluster.
    """
    if len(nodes) != len(pods):
        raise click.UsageError("--nodes and --pods: not as many of the one as of the other")
    from kubedsm_lab.bench.scale import pairs
    from kubedsm_lab.bench.scale.world import Size

    _log_only("ERROR")
    figures = []
    for size in map(Size, nodes, pods):
        report = pairs.run(size, rounds=rounds, suggestions=suggestions, seconds=seconds)
        show_report(report, output)
        figures.append(report.figures)
    if len(set(nodes)) > 1:
        show_report(pairs.fit_growth(figures), output)


@bench.command()
@click.option("--nodes", type=click.IntRange(1, 5000), default=5000, help="Nodes while idle.")
@click.option("--pods", type=click.IntRange(1, 10_000), default=1000, help="Pods while idle.")
@click.option(
    "--seconds", type=click.FloatRange(1, 100_000), default=60.0, help="Time of observation."
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(1, 100_000),
    default=300.0,
    help="Seconds between two reports of a node; a kubelet without news waits for 300.",
)
@click.option("--rounds", type=click.IntRange(1, 50), default=5, help="Starts.")
@output
def footprint(
    nodes: int, pods: int, seconds: float, heartbeat: float, rounds: int, output: str
) -> None:
    """Start of `kubedsm run`, and its cost while idle (2 min).

    The first bind, of a Deployment on the paper's four nodes, next to importing the program. Then
    CPU and memory once all pods are bound, while nodes report their status and metrics are scraped
    every 15 seconds. The API server is `kubedsm emulate` in a separate process.
    """
    import asyncio

    from kubedsm_lab.bench import footprint

    if pods > nodes * PODS_OF_A_NODE:
        raise click.UsageError(f"--pods: more than {PODS_OF_A_NODE} for each node")
    _log_only("ERROR")
    shape = footprint.Shape(nodes, pods, seconds, heartbeat, rounds)
    show_report(asyncio.run(footprint.run(shape)), output)


@bench.command()
@click.option("--nodes", type=click.IntRange(10, 1000), default=100, help="A tenth at the edge.")
@click.option("--pods", type=click.IntRange(100, 10_000), default=1000, help="Waiting pods.")
@click.option("--burst", type=click.IntRange(1, 1000), default=200, help="Pods of the burst.")
@click.option(
    "--quotas",
    default="100,50,25",
    callback=parse_sizes,
    help="Percentages of one core, separated by commas.",
)
@click.option(
    "--load",
    type=click.IntRange(0, 64),
    default=8,
    help="Busy processes next to the scheduler in the last run; 0: no such run.",
)
@output
def board(
    nodes: int, pods: int, burst: int, quotas: tuple[int, ...], load: int, output: str
) -> None:
    """Cold start, burst and migration on little CPU (6 min).

    `kubedsm run` starts with waiting pods, receives a burst, and migrates pods to released edge
    capacity: without limit, with a part of one core, and next to busy processes. Times are ratios
    to the first run. The API server is `kubedsm emulate` in a separate process without limit. Exit
    code 1 if pods placed, pods at the edge or the least edge share of a Deployment are not those of
    the first run.
    """
    import asyncio

    from kubedsm_lab.bench import board as measured
    from kubedsm_lab.replay.runner import show_progress

    if pods + burst > nodes * PODS_OF_A_NODE:
        raise click.UsageError(f"--pods: more than {PODS_OF_A_NODE} for each node")
    _log_only("ERROR")
    shares = tuple(percent / 100 for percent in quotas)
    shape = measured.Shape(nodes, pods, burst, shares, load)
    with show_progress("runs", 1 + len(shares) + bool(load)) as advance:
        runs = asyncio.run(measured.run(shape, advance))
    show_report(measured.build_report(shape, runs), output)
    if measured.list_deviations(runs):
        sys.exit(1)


@bench.command()
@click.option("--minutes", type=click.FloatRange(0.1, 10_000), default=30.0, help="Duration.")
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 100),
    default=2.0,
    show_default=True,
    help="New Deployments a second.",
)
@click.option(
    "--odd",
    type=OneOf([*ODDITIES, "none"]),
    multiple=True,
    default=list(ODDITIES),
    show_default=True,
    help="Objects of the odd tenant.",
)
@click.option(
    "--odd-pods",
    type=click.IntRange(1, 500),
    default=48,
    show_default=True,
    help="Pods that it creates at once, of each kind.",
)
@click.option("--seed", type=int, default=0, help="Seed of the load.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="Number of `kubedsm run`.",
)
@click.option(
    "--kill-every",
    type=click.FloatRange(0, 10_000),
    default=0.0,
    show_default="never",
    help="Seconds from one SIGKILL to the next, of the leader for the most part. Every fifth time"
    " the leader is also paused for longer than its Lease lasts.",
)
@click.option(
    "--cut-every",
    type=click.FloatRange(0, 10_000),
    default=0.0,
    show_default="never",
    help="Seconds until connections to the API server fail again: reset, stalled, or broken off in"
    " the middle of a response.",
)
@output
def soak(
    minutes: float,
    rate: float,
    odd: tuple[str, ...],
    odd_pods: int,
    seed: int,
    replicas: int,
    kill_every: float,
    cut_every: float,
    output: str,
) -> None:
    """Many tenants and an odd one: are all others served as usual?

    Tenants come and go over HTTP. The odd tenant creates absurd requests, overlapping spread
    selectors and forged labels. The API server, `kubedsm emulate`, and `kubedsm run` are separate
    processes. --kill-every and --cut-every inject faults, except at the beginning and at the end.
    Exit code 1 if a guarantee is broken.
    """
    import asyncio

    from kubedsm_lab.bench.soak import run

    _log_only("ERROR")
    shape = run.SoakShape(
        seconds=60 * minutes,
        rate=rate,
        odd=tuple(way for way in dict.fromkeys(odd) if way != "none"),
        odd_pods=odd_pods,
        replicas=replicas,
        kill_every=kill_every,
        cut_every=cut_every,
    )
    result = asyncio.run(run.run(shape, seed))
    show_report(result.report(), output)
    if not result.kept:
        sys.exit(1)


@bench.command()
@click.option("-n", "--pods", type=click.IntRange(1, 500), default=200, help="Pods of the burst.")
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the audit log of a real API server during a burst instead.",
)
@output
def requests(pods: int, audit_log: Path | None, output: str) -> None:
    """Requests to the API server for each pod bound (30 s).

    A burst is bound by `kubedsm run` on `kubedsm emulate`, whose audit log is read. With
    --audit-log FILE, kube-scheduler and KubeDSM are compared by the log of an API server that had
    bursts of both.
    """
    import asyncio

    from kubedsm_lab.bench import requests as measured

    _log_only("ERROR")
    if audit_log is not None:
        found = measured.summarize(measured.read_log(audit_log))
    else:
        found = asyncio.run(measured.record_burst(pods))
    show_report(measured.build_report(found, emulated=audit_log is None), output)


@bench.command()
@click.option("-n", "--pods", type=click.IntRange(1, 5000), default=200, help="Pods of a burst.")
@click.option("--rounds", type=click.IntRange(1, 50), default=11, help="Of each, in turns.")
@click.option(
    "--policies",
    default="kubedsm,bare-loop",
    callback=parse_names,
    help="Policies (docs/reference/policies.md), or bare-loop. All but kubedsm take one pod at a"
    " time; with .batched after the name, all pending pods. Ratios are the first one's to the"
    " others.",
)
@click.option(
    "--silence",
    type=click.FloatRange(0, 3600),
    show_default="30; on a real cluster 0",
    help="Seconds before each round.",
)
@click.option(
    "--keepalive",
    type=click.FloatRange(0, 1e6),
    default=1e6,
    show_default="for ever",
    help="Seconds after which the bare loop closes an idle connection; aiohttp's: 15.",
)
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    help="Kubeconfig of a real cluster, to compare schedulers that run there instead.",
)
@kubeconfig_context
@click.option(
    "--schedulers",
    default="kubedsm,default-scheduler",
    callback=parse_names,
    help="On a real cluster: schedulers, separated by commas. Ratios are the first one's.",
)
@click.option(
    "--image", default="registry.k8s.io/pause:3.9", help="On a real cluster: image of the pods."
)
@click.option(
    "--hollow-nodes",
    type=click.IntRange(0, 2000),
    default=0,
    help="On a real cluster: number of hollow nodes that the command creates, serves as"
    " kubelet, and deletes.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 100_000),
    default=120.0,
    help="Seconds until the pods of a burst must be Ready, and gone.",
)
@output
def burst(
    pods: int,
    rounds: int,
    policies: tuple[str, ...],
    silence: float | None,
    keepalive: float,
    kubeconfig_path: Path | None,
    context: str | None,
    schedulers: tuple[str, ...],
    image: str,
    hollow_nodes: int,
    timeout: float,
    output: str,
) -> None:
    """Burst of pods under several schedulers: times and evenness.

    All pods of one Deployment are created at once. Measured: times from created to bound to Ready,
    and the distribution over the nodes, next to the published results of the rotating-score-cache
    paper. The API server, `kubedsm emulate --tls` with the paper's five workers, and all schedulers
    are separate processes; bare-loop only posts binds. With --kubeconfig the bursts run on a real
    cluster, in a temporary namespace.
    """
    is_real = kubeconfig_path is not None
    _check_schedulers(schedulers)
    _refuse_options(click.get_current_context(), is_real=is_real)
    from kubedsm_lab.bench.burst.run import Plan

    if not is_real:
        _check_policies(policies, pods)
        require_libraries("trustme")
    default_silence = 0.0 if is_real else _SILENCE
    plan = Plan(
        schedulers=schedulers if is_real else policies,
        pods=pods,
        rounds=rounds,
        patience=timeout,
        image=image,
        hollow=bool(hollow_nodes),
        silence=default_silence if silence is None else silence,
    )
    _log_only("WARNING")
    _run_bursts(plan, keepalive, kubeconfig_path, context, hollow_nodes, output)


def _run_bursts(
    plan: "Plan",
    keepalive: float,
    kubeconfig: Path | None,
    context: str | None,
    hollow: int,
    output: str,
) -> None:
    """Run the bursts on an emulated or a real cluster. Raises Abort after an interrupt."""
    import structlog

    from kubedsm.cli.console import until_interrupted
    from kubedsm.kube.client.kubernetes import KubernetesCluster
    from kubedsm.process.clock import SystemClock
    from kubedsm_lab.bench.burst import contenders, run
    from kubedsm_lab.bench.hollow_nodes import serve_in_process

    async def measure_bursts() -> None:
        warn = structlog.get_logger().warning
        if kubeconfig is None:
            result = await contenders.run(plan, warn, keepalive)
        else:
            clock = SystemClock()
            async with AsyncExitStack() as stack:
                cluster = await stack.enter_async_context(
                    await KubernetesCluster.connect(kubeconfig, context)
                )
                if hollow:
                    serving = serve_in_process(kubeconfig, context, plan.namespace, hollow, clock)
                    await stack.enter_async_context(serving)
                result = await run.run(cluster, clock, warn, plan)
        show_report(result.report(), output)

    if until_interrupted(measure_bursts()):
        raise click.Abort


def _refuse_options(context: click.Context, *, is_real: bool) -> None:
    """Reject options that do not apply to the chosen kind of cluster. Raises UsageError."""
    given = list_given(context)
    for name in _EMULATED if is_real else _REAL:
        if name in given:
            where = "not for a real cluster" if is_real else "for a real cluster, with --kubeconfig"
            raise click.UsageError(f"{given[name]} is {where}")
    if "keepalive" in given and "bare-loop" not in context.params["policies"]:
        raise click.UsageError("--keepalive is about bare-loop, which --policies leaves out")


def _check_schedulers(names: tuple[str, ...]) -> None:
    from kubedsm.kube.client.port import is_name

    for name in names:
        if not is_name(name):
            problem = f"{name!r} is no name of a scheduler"
            raise click.BadParameter(problem, param_hint="'--schedulers'")


def _check_policies(names: tuple[str, ...], pods: int) -> None:
    from kubedsm_lab.bench.burst import contenders

    for name in names:
        if name not in contenders.NAMES:
            known = [known for known in contenders.NAMES if not known.endswith(".batched")]
            problem = f"no policy {name!r}: there are {', '.join(known)}.{nearest(name, known)}"
            raise click.BadParameter(problem, param_hint="'--policies'")
    if pods > contenders.MOST_PODS:
        most = contenders.MOST_PODS
        raise click.UsageError(f"the paper's five workers take {most} pods, not {pods}")
