"""`kubedsm demo`: a minute of it, over real HTTP, with the same code as `kubedsm run`."""

import asyncio
import contextlib
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from kubedsm.clock import SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.commands.console import log_to, output, print_json
from kubedsm.commands.private_files import written_kubeconfig
from kubedsm.demo.run import (
    CONFIGURATION,
    create_services,
    demo_scenario,
    demo_world,
    watch_demo,
)
from kubedsm.demo.view import Frame, LineByLine, as_json, render, summary
from kubedsm.emulator.http.server import HttpFront
from kubedsm.runtime.assembly import Runtime
from loadgen.whole_files import write_whole

#: of the summary, where there is no terminal to tell
WIDTH = 100


@click.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the scenario.")
@click.option(
    "--cycles", type=click.IntRange(1, 60), default=12, show_default=True, help="Of 5 s each."
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also save the last table, as SVG.",
)
@click.option(
    "--disconnect", is_flag=True, help="Cut a site of the edge off in the middle, for a while."
)
@output
def demo(seed: int, cycles: int, picture: Path | None, disconnect: bool, output: str) -> None:
    """Watch it place and move pods for a minute, emulated.

    The paper's services under a generated load on the paper's cluster, over real HTTP.
    """
    log_to(level="ERROR")
    console = Console(stderr=output == "json")
    if not console.is_terminal:
        console.width = WIDTH
    frame = asyncio.run(_demo(seed, cycles, console, disconnect=disconnect))
    if picture is not None:
        recorded = Console(record=True, width=WIDTH, file=io.StringIO())
        recorded.print(summary(frame))
        write_whole(picture, recorded.export_svg(title="kubedsm demo"))
    if output == "json":
        print_json(as_json(frame))
    else:
        console.print(summary(frame))


async def _demo(seed: int, cycles: int, console: Console, *, disconnect: bool) -> Frame:
    clock, rng = SystemClock(), random.Random(seed)
    async with (
        demo_world(demo_scenario(seed, cycles), clock, rng, disconnect=disconnect) as world,
        HttpFront(world.cluster.routes) as front,
    ):
        with written_kubeconfig(front.url, None, None) as path:
            console.print(
                f"An emulated cluster serves at {front.url}. Watch it from another terminal:\n"
                f"  kubectl --kubeconfig {path} get pods -o wide -w\n",
                soft_wrap=True,
            )
            async with (
                await KubernetesCluster.connect(path) as client,
                asyncio.TaskGroup() as tasks,
            ):
                runtime = Runtime(client, CONFIGURATION, clock, random.Random(seed))
                scheduler = tasks.create_task(runtime.run())
                await runtime.synced.wait()
                create_services(world)
                with _live(console) as show:
                    frame = await watch_demo(world, show)
                scheduler.cancel()
    return frame


@contextlib.contextmanager
def _live(console: Console) -> Iterator[Callable[[Frame], None]]:
    """A table that changes in place; without a terminal, a line a cycle."""
    if not console.is_terminal:
        yield LineByLine(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda frame: live.update(render(frame), refresh=True)
