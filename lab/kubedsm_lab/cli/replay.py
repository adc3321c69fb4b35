"""Definition of the command `kubedsm replay`."""

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from kubedsm.cli.options import OneOf, collect, output
from kubedsm_lab.cli.options import (
    cluster_file,
    executor,
    paced,
    parse_names,
    processes,
    report_folder,
    require_libraries,
)

if TYPE_CHECKING:
    from kubedsm.solvers.available import SolverKind

PRESETS = ("paper", "packing", "load-aware", "hpa", "judgement", "sites", "functions")
SOLVERS = ("highs", "cp-sat", "off")


@attrs.frozen
class ReplayOptions:
    """Options of `kubedsm replay`: scenarios or preset, cluster, and outputs."""

    scenarios: tuple[str, ...]
    preset: str | None
    full: bool
    solver: "SolverKind | None"
    #: time limits of packing
    seconds: tuple[float, ...]
    policies: tuple[str, ...]
    cluster_name: str
    services_path: str | None
    config_path: str | None
    seeds: int | None
    paced: bool
    #: one client per service, which waits for each response
    closed_loop: bool
    jobs: int | None
    #: address of a Dask scheduler
    executor: str | None
    out: Path | None
    page: Path | None
    output: str


@click.command()
@collect(
    "options",
    ReplayOptions,
    click.argument("scenarios", nargs=-1, metavar="[SCENARIO]..."),
    click.option(
        "--preset",
        type=OneOf(PRESETS),
        help="`paper`: its ten scenarios, all policies. `packing`:"
        " whole clusters repacked, compared with kube-scheduler; no emulation. `load-aware`:"
        " placement by measured load; response times are modelled. `hpa`: time for an autoscaled"
        " service to recover; response times are modelled. `judgement`: an operator's scenes."
        " `sites`: requests served near users at several sites, over a day; traffic is modelled."
        " `functions`: serverless applications, drawn from published statistics.",
    ),
    click.option(
        "--full",
        is_flag=True,
        help="With --preset, all tables of the page in docs/explanation: evaluation.md, 5 seeds;"
        " packing.md, 100 seeds; load-aware.md, 10 seeds; hpa.md, 50 seeds; judgement.md, 5 seeds;"
        " site-demand.md, 5 seeds; functions.md, 20 seeds.",
    ),
    click.option(
        "--solver",
        type=click.Choice(SOLVERS),
        show_default="highs, if it is installed",
        help="With --preset packing: solver to compare with the heuristic.",
    ),
    click.option(
        "--seconds",
        type=click.FloatRange(0.01, 3600),
        multiple=True,
        show_default="1; with --full, 1, 10 and 20",
        help="With --preset packing: time limit; repeatable.",
    ),
    click.option(
        "--policies",
        callback=parse_names,
        help="Policies (docs/reference/policies.md), separated by commas; or settings of KubeDSM,"
        " such as suggester.period=5s+migration.cooldown=0s.",
        show_default="the first six of that page",
    ),
    cluster_file,
    click.option(
        "--services",
        "services_path",
        show_default="the paper's a, b, c, d",
        help="File: {services: [{name, cpu, memory, replicas: {min, max}, targetRate}]}.",
    ),
    click.option(
        "--config",
        "config_path",
        show_default="none: every key has its own default",
        help="Configuration file (docs/reference/configuration.md).",
    ),
    click.option(
        "--seeds",
        type=click.IntRange(1, 1000),
        show_default="1; with --full, 5; packing: 2, 100; load-aware: 1, 10; hpa: 20, 50; sites:"
        " 1, 5; functions: 3, 20",
        help="Number of seeds, from 1 up.",
    ),
    paced,
    click.option(
        "--closed-loop",
        is_flag=True,
        help="One client per service that waits for each response, as DrStress; with --preset"
        " paper, response times in both loops.",
    ),
    processes,
    executor,
    report_folder,
    click.option(
        "--page",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Self-contained HTML file that plays the first scenario, seed 1, under the first two"
        " policies, side by side.",
    ),
    output,
)
def replay(options: ReplayOptions) -> None:
    """Replay scenarios under several policies, in virtual time.

    The cluster is emulated, and the results of the policies stand side by side. A SCENARIO is a
    DrStress file, or MEAN-SIGMA (such as 1.5-.4) for the paper's recipe.
    """
    from kubedsm_lab.cli.replay_session import run_replay

    if options.out is not None:
        require_libraries("matplotlib")
    run_replay(options)
