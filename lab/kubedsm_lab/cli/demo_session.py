"""Session of `kubedsm demo`: emulated cluster, scheduler, and the live display."""

import asyncio
import contextlib
import io
import os
import random
import shutil
import sys
import termios
import webbrowser
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import attrs
from rich.console import ConsoleDimensions
from rich.live import Live

from kubedsm.app.assembly import Runtime
from kubedsm.cli.console import Stop
from kubedsm.dashboard.server.app import page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.explain.listener import Listeners
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.observability.instruments import watch_the_loop
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.running import PIPE_CLOSED
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.cli.credentials import written_kubeconfig
from kubedsm_lab.demo.baseline import Baseline, baseline
from kubedsm_lab.demo.frame import Frame
from kubedsm_lab.demo.run import World, create_services, demo_world, watch_demo
from kubedsm_lab.demo.setting import CONFIGURATION, demo_scenario
from kubedsm_lab.demo.view import LineByLine, render, summary
from kubedsm_lab.emulator.http.server import HttpFront

#: columns of the summary without a terminal, and of the picture
WIDTH = 100
#: seconds to wait at the end for the replayed baseline
PATIENCE = 5.0
#: environment variables of a desktop, or of a configured browser
_BROWSERS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_DESKTOPS = ("darwin", "win32")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        try:
            super().on_broken_pipe()
        except SystemExit:
            # Converted here: exceptions lose their context when leaving task groups.
            raise SystemExit(PIPE_CLOSED) from None


def make_console(*, stderr: bool) -> Console:
    """Return the console of the session, with a default size if the terminal reports none."""
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    elif console.is_dumb_terminal:
        # A dumb terminal cannot move the cursor, but has a width.
        console.size = ConsoleDimensions(*shutil.get_terminal_size())
    return console


@attrs.define
class DemoSession:
    """One run of `kubedsm demo`, from starting the cluster to printing the summary."""

    seed: int
    cycles: int
    shows_page: bool = attrs.field(kw_only=True)
    opens_page: bool = attrs.field(kw_only=True)
    #: the result is a document on stdout: the terminal is stderr, and no summary follows
    as_document: bool = attrs.field(kw_only=True)
    stop: Stop = attrs.field(factory=Stop, init=False)
    console: Console = attrs.field(init=False)
    #: final frame; None until the session is over
    last: Frame | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.console = make_console(stderr=self.as_document)

    def save_picture(self, path: Path) -> None:
        """Save the summary as an SVG file. Raises OSError."""
        if self.last is not None:
            recorded = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
            recorded.print(summary(self.last, WIDTH))
            write_whole(path, recorded.export_svg(title="kubedsm demo"))

    async def run(self) -> None:
        """Run the demo until the load's last cycle, or until a stop is requested."""
        clock, rng = SystemClock(), random.Random(self.seed)
        scenario = demo_scenario(self.seed, self.cycles)
        async with (
            demo_world(scenario, clock, rng) as world,
            HttpFront(world.cluster.routes) as front,
        ):
            with written_kubeconfig(front.url, None, None) as path:
                self._print_addresses(front.url, path)
                async with (
                    await KubernetesCluster.connect(path) as client,
                    asyncio.TaskGroup() as tasks,
                    baseline(self.seed, self.cycles) as replayed,
                ):
                    scene = Scene(clock)
                    scene.cluster = "demo"
                    heard = Listeners(world.scene, *([scene] if self.shows_page else []))
                    own = random.Random(self.seed)
                    runtime = Runtime(client, CONFIGURATION, clock, own, listener=heard)
                    scheduler = tasks.create_task(runtime.run())
                    await runtime.synced.wait()
                    async with self._serve_page(runtime, scene, clock) as url:
                        create_services(world)
                        with self._live(path, url) as show:
                            await self._run_unless_stopped(
                                watch_demo(world, runtime, show, replayed)
                            )
                        self.last = await self._finish(world, runtime, replayed)
                        if not self.as_document:
                            self.console.print(summary(self.last, self.console.width))
                        await self._keep_page(url)
                    scheduler.cancel()

    @contextlib.asynccontextmanager
    async def _serve_page(self, runtime: Runtime, scene: Scene, clock: Clock) -> AsyncIterator[str]:
        """Serve the page and yield its URL; an empty URL without a page."""
        if not self.shows_page:
            yield ""
            return
        async with page_of(runtime, scene, clock) as url, asyncio.TaskGroup() as tasks:
            loop = tasks.create_task(watch_the_loop(clock, scene.loop_late))
            self.console.print(f"The page that shows it is {url}\n", soft_wrap=True)
            if self.opens_page and can_open_browser():
                await asyncio.to_thread(webbrowser.open, url)
            yield url
            loop.cancel()

    async def _keep_page(self, url: str) -> None:
        """Keep serving the page until the user presses Enter."""
        if url and is_at_terminal() and not self.stop.asked.is_set():
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # typed before it was asked for
            self.console.print(f"\nThe page stays, at {url}, until you press Enter.")
            await self._run_unless_stopped(wait_for_enter())

    def _print_addresses(self, url: str, kubeconfig: Path) -> None:
        console, whole = self.console, not self.console.is_terminal
        line = f"An emulated cluster serves at {url}. Watch it from another terminal:"
        console.print(line, soft_wrap=whole)
        console.print(f"{show_command(kubeconfig, console.width)}\n", soft_wrap=True)

    async def _run_unless_stopped(self, work: Coroutine[Any, Any, object]) -> None:
        """Run the coroutine `work` until done or until a stop is requested."""
        self.stop.heeded = True
        async with asyncio.TaskGroup() as tasks:
            both: set[asyncio.Task[Any]] = {
                tasks.create_task(work),
                tasks.create_task(self.stop.asked.wait()),
            }
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()

    async def _finish(self, world: World, runtime: Runtime, replayed: Baseline) -> Frame:
        interrupted = self.stop.asked.is_set()
        if not interrupted and not replayed.done():
            self.console.print("Waiting for the replay of kube-scheduler.")
            await self._run_unless_stopped(asyncio.wait({replayed}, timeout=PATIENCE))
        return world.frame(runtime, replayed, interrupted=interrupted)

    @contextlib.contextmanager
    def _live(self, kubeconfig: Path, url: str) -> Iterator[Callable[[Frame], None]]:
        """Yield a function that draws frames: in place if the terminal can, else line by line."""
        console = self.console
        if not console.is_terminal or console.is_dumb_terminal:
            yield LineByLine(console)
            return
        # Alternate screen: after a resize, no artefacts of the previous frame remain.
        with Live(console=console, auto_refresh=False, screen=True) as live:

            def draw_frame(frame: Frame) -> None:
                width, height = console.size
                header = "\n".join(filter(None, (url, show_command(kubeconfig, width))))
                live.update(render(frame, width, height, header), refresh=True)

            yield draw_frame


def show_command(kubeconfig: Path, width: int) -> str:
    """Return the kubectl command that watches the cluster, split into lines that can be copied."""
    line = f"kubectl --kubeconfig {kubeconfig} get pods -o wide -w"
    if len(line) <= width:
        return line
    return f"kubectl --kubeconfig \\\n  {kubeconfig} \\\n  get pods -o wide -w"


def is_at_terminal() -> bool:
    """Return whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def can_open_browser() -> bool:
    """Return whether a graphical browser is available to the user."""
    has_desktop = sys.platform in _DESKTOPS or any(map(os.environ.get, _BROWSERS))
    return is_at_terminal() and has_desktop


async def wait_for_enter() -> None:
    """Wait for Enter or the end of stdin."""
    pressed, loop, terminal = asyncio.Event(), asyncio.get_running_loop(), sys.stdin.fileno()

    def read_input() -> None:
        os.read(terminal, 1024)
        pressed.set()

    loop.add_reader(terminal, read_input)
    try:
        await pressed.wait()
    finally:
        loop.remove_reader(terminal)
