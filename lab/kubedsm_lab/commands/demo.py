"""`kubedsm demo`: a minute of it, over real HTTP, with the same code as `kubedsm run`."""

import asyncio
import contextlib
import io
import random
import shutil
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import ConsoleDimensions
from rich.live import Live

from kubedsm.app.assembly import Runtime
from kubedsm.commands.console import Stop, log_to, print_json, until_interrupted
from kubedsm.commands.lookers_on import at_terminal, can_open, enter_pressed
from kubedsm.dashboard.server.app import page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.explain.listener import Listeners
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.observability.loop_lag import watch_the_loop
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.running import PIPE_CLOSED
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.commands.kubeconfigs import written_kubeconfig
from kubedsm_lab.demo.baseline import Baseline, baseline
from kubedsm_lab.demo.document import as_json
from kubedsm_lab.demo.frame import Frame
from kubedsm_lab.demo.run import World, create_services, demo_world, watch_demo
from kubedsm_lab.demo.setting import CONFIGURATION, demo_scenario
from kubedsm_lab.demo.view import LineByLine, render, summary
from kubedsm_lab.emulator.http.server import HttpFront

#: of the summary, where there is no terminal to tell, and of the picture
WIDTH = 100
#: seconds for which the end waits for what the replay beside came to
PATIENCE = 5.0


def demo(
    seed: int,
    cycles: int,
    picture: Path | None,
    disconnect: bool,
    page: bool,
    no_open: bool,
    output: str,
) -> None:
    if no_open and not page:
        raise click.UsageError("--no-open is about the page of --page")
    log_to(level="ERROR")
    as_document = output == "json"
    stop = Stop()
    run = _Run(
        seed,
        cycles,
        disconnect,
        _console(stderr=as_document),
        stop,
        page=page,
        opens=not no_open,
        summarises=not as_document,
    )
    until_interrupted(run.go(), stop)
    if run.last is None:
        raise KeyboardInterrupt
    if as_document:
        print_json(as_json(run.last))
    if picture is not None:
        recorded = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        recorded.print(summary(run.last, WIDTH))
        write_whole(picture, recorded.export_svg(title="kubedsm demo"))
    sys.exit(stop.exit_code)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        try:
            super().on_broken_pipe()
        except SystemExit:
            # Said here: on its way out of tasks it loses what it came from.
            raise SystemExit(PIPE_CLOSED) from None


def _console(*, stderr: bool) -> Console:
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    elif console.is_dumb_terminal:
        # It cannot move the cursor, and is as wide as it is all the same.
        console.size = ConsoleDimensions(*shutil.get_terminal_size())
    return console


@attrs.define
class _Run:
    seed: int
    cycles: int
    disconnect: bool
    console: Console
    stop: Stop
    #: whether there is a page, and it is opened
    page: bool
    opens: bool
    #: whether it ends with words
    summarises: bool
    #: None until it is over
    last: Frame | None = None

    async def go(self) -> None:
        clock, rng = SystemClock(), random.Random(self.seed)
        scenario = demo_scenario(self.seed, self.cycles)
        async with (
            demo_world(scenario, clock, rng, disconnect=self.disconnect) as world,
            HttpFront(world.cluster.routes) as front,
        ):
            with written_kubeconfig(front.url, None, None) as path:
                self._introduce(front.url, path)
                async with (
                    await KubernetesCluster.connect(path) as client,
                    asyncio.TaskGroup() as tasks,
                    self._beside() as beside,
                ):
                    scene = Scene(clock)
                    heard = Listeners(world.scene, *([scene] if self.page else []))
                    own = random.Random(self.seed)
                    runtime = Runtime(client, CONFIGURATION, clock, own, listener=heard)
                    scheduler = tasks.create_task(runtime.run())
                    await runtime.synced.wait()
                    async with self._page(runtime, scene, clock) as url:
                        create_services(world)
                        with self._live(path, url) as show:
                            await self._unless_asked(watch_demo(world, runtime, show, beside))
                        self.last = await self._ended(world, runtime, beside)
                        if self.summarises:
                            self.console.print(summary(self.last, self.console.width))
                        await self._looked_at(url)
                    scheduler.cancel()

    @contextlib.asynccontextmanager
    async def _page(self, runtime: Runtime, scene: Scene, clock: Clock) -> AsyncIterator[str]:
        """Its URL; nothing if there is none."""
        if not self.page:
            yield ""
            return
        async with page_of(runtime, scene, clock) as url, asyncio.TaskGroup() as tasks:
            loop = tasks.create_task(watch_the_loop(clock, scene.loop_late))
            self.console.print(f"The page that shows it is {url}\n", soft_wrap=True)
            if self.opens and can_open():
                await asyncio.to_thread(webbrowser.open, url)
            yield url
            loop.cancel()

    async def _looked_at(self, url: str) -> None:
        """Return when somebody at the terminal has seen enough of the page."""
        if url and at_terminal() and not self.stop.asked.is_set():
            self.console.print(f"\nThe page stays, at {url}, until you press Enter.")
            await self._unless_asked(enter_pressed())

    def _introduce(self, url: str, kubeconfig: Path) -> None:
        console, whole = self.console, not self.console.is_terminal
        said = f"An emulated cluster serves at {url}. Watch it from another terminal:"
        console.print(said, soft_wrap=whole)
        console.print(f"{beside(kubeconfig, console.width)}\n", soft_wrap=True)

    @contextlib.asynccontextmanager
    async def _beside(self) -> AsyncIterator[Baseline | None]:
        """Nothing beside a cut, which replays do not know."""
        if self.disconnect:
            yield None
            return
        async with baseline(self.seed, self.cycles) as beside:
            yield beside

    async def _unless_asked(self, work: Coroutine[Any, Any, None]) -> None:
        """Return when it is done, or when the end is asked for."""
        self.stop.heeded = True
        async with asyncio.TaskGroup() as tasks:
            both = {tasks.create_task(work), tasks.create_task(self._asked())}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()

    async def _asked(self) -> None:
        await self.stop.asked.wait()

    async def _ended(self, world: World, runtime: Runtime, beside: Baseline | None) -> Frame:
        interrupted = self.stop.asked.is_set()
        if beside is not None and not interrupted and not beside.over.is_set():
            self.console.print("Waiting for what kube-scheduler made of it.")
            await self._unless_asked(beside.wait(PATIENCE))
        return world.frame(runtime, beside, interrupted=interrupted)

    @contextlib.contextmanager
    def _live(self, kubeconfig: Path, url: str) -> Iterator[Callable[[Frame], None]]:
        """A picture that changes in place; without a terminal that can, line by line."""
        console = self.console
        if not console.is_terminal or console.is_dumb_terminal:
            yield LineByLine(console)
            return
        # A screen of its own, so that nothing is left askew when the terminal's size changes.
        with Live(console=console, auto_refresh=False, screen=True) as live:

            def show(frame: Frame) -> None:
                width, height = console.size
                told = "\n".join(filter(None, (url, beside(kubeconfig, width))))
                live.update(render(frame, width, height, told), refresh=True)

            yield show


def beside(kubeconfig: Path, width: int) -> str:
    """How to look at it from another terminal, in lines that can be copied as they are."""
    line = f"kubectl --kubeconfig {kubeconfig} get pods -o wide -w"
    if len(line) <= width:
        return line
    return f"kubectl --kubeconfig \\\n  {kubeconfig} \\\n  get pods -o wide -w"
