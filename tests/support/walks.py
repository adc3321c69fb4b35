"""Length of a pod's walk, from its watch event to its verified bind, and of one migration.

`PYTHONPATH=lab:tests python -m support.walks [--list]` runs the scheduler on the emulated cluster
in virtual time under `sys.setprofile`. Only functions of `kubedsm` and `plans` count that the
scheduler calls itself. Calls that the emulator, listeners, the decision record, or writers of
Events make are left out. So is the resumption of a suspended coroutine, which the profiler reports
like a call: restart loops and watches were called long before the pod came, and only pass on what
wakes the task.
"""

import asyncio
import inspect
import logging
import sys
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import click
import structlog

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from support.worlds import emulated

ROOT = Path(__file__).parents[2]
PRODUCT = ("kubedsm", "plans")
#: whatever these call is left out, too
OBSERVERS = ("lab", "tests", "kubedsm.events", "kubedsm.explain")
#: parts of a function that the interpreter calls as functions
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
SUSPENDS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
#: no rebalancing, so that no other work falls into the measurement
PLAIN = load("suggester: {mode: 'off'}", "walks")
MIGRATING = load("suggester: {period: 1s}\nmigration: {price: 0s, cooldown: 1s}", "walks")


@attrs.frozen
class Walk:
    calls: int
    #: calls from one module of the scheduler to another one
    crossings: int
    #: calls by module and function
    functions: Counter[tuple[str, str]]

    @property
    def modules(self) -> Counter[str]:
        """Count the functions of each module."""
        return Counter(module for module, _ in self.functions)

    def __str__(self) -> str:
        return (
            f"{len(self.functions)} functions in {len(self.modules)} modules, "
            f"{self.calls} calls, {self.crossings} between modules"
        )


class Profiler:
    """Counter of the scheduler's own calls."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}
        self._functions: Counter[tuple[str, str]] = Counter()
        self._crossings = 0

    @property
    def walk(self) -> Walk:
        return Walk(sum(self._functions.values()), self._crossings, self._functions)

    @contextmanager
    def profiling(self):
        sys.setprofile(self._count)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _count(self, frame, event, _):
        if event != "call" or frame.f_code.co_name in COMPREHENSIONS or _is_resumed(frame):
            return
        module = self._module(frame.f_code)
        if not module.startswith(PRODUCT):
            return
        stack = [self._module(code) for code in _stack(frame)]
        if not any(each.startswith(OBSERVERS) for each in stack):
            self._functions[module, frame.f_code.co_qualname] += 1
            self._crossings += next(filter(None, stack[1:]), module) != module

    def _module(self, code):
        known = self._modules.get(code.co_filename)
        if known is None:
            path, known = Path(code.co_filename), ""
            if path.is_relative_to(ROOT):
                known = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            self._modules[code.co_filename] = known
        return known


def _is_resumed(frame):
    """Return whether a coroutine or generator goes on: it begins at its first line."""
    return bool(frame.f_code.co_flags & SUSPENDS) and frame.f_lineno != frame.f_code.co_firstlineno


def _stack(frame):
    """Yield the code of the frames in this callback of the event loop, innermost first."""
    while frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        yield frame.f_code
        frame = frame.f_back


@asynccontextmanager
async def scheduling(world):
    """Run the scheduler without the checks of `World.scheduler`, which call it too."""
    runtime = world.new_runtime(world.connect())
    running = asyncio.create_task(runtime.run())
    await runtime.synced.wait()
    yield runtime
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until(condition, seconds=60):
    """Wait in steps that are short beside the latency of the API server."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing is set when a plan begins
            await asyncio.sleep(0.0005)


async def one_pod() -> Walk:
    """Measure a plain pod while nothing else happens; one like it has been bound before."""
    nodes = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")
    async with (
        emulated(*nodes, clock=VirtualClock(), configuration=PLAIN) as world,
        scheduling(world) as runtime,
    ):
        world.deploy("first", 1)
        await world.until_bound(1, 5)
        await asyncio.sleep(5)
        profiler = Profiler()
        world.deploy("plain", 1)
        with profiler.profiling():
            await until(lambda: runtime.manager.under_way)
            await until(lambda: not runtime.manager.under_way)
        return profiler.walk


async def one_migration() -> Walk:
    """Measure a migration to the edge, from the new node to the last step of its plan."""
    cloud = node("c1", "cloud", "20", "40Gi")
    async with (
        emulated(cloud, clock=VirtualClock(), configuration=MIGRATING) as world,
        scheduling(world) as runtime,
    ):
        world.deploy("plain", 1)
        await world.until_bound(1, 5)
        await asyncio.sleep(60)
        profiler = Profiler()
        world.api.create(NODES, node("e1", "edge", "2", "8Gi"))
        with profiler.profiling():
            await until(lambda: runtime.manager.under_way)
            await until(lambda: not runtime.manager.under_way)
        return profiler.walk


@click.command(help=__doc__)
@click.option("--list", "listed", is_flag=True, help="List the functions of each module.")
def main(listed: bool) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for name, walk in (
        ("one pod", run_in_virtual_time(one_pod())),
        ("one migration", run_in_virtual_time(one_migration())),
    ):
        click.echo(f"{name}: {walk}")
        for module, count in walk.modules.most_common() if listed else ():
            names = sorted(f"{f}*{n}" for (m, f), n in walk.functions.items() if m == module)
            click.echo(f"  {count:3} {module}: {', '.join(names)}")


if __name__ == "__main__":
    main()
