"""The ways of a pod and of a migration through the code stay short.

The scheduler runs on the emulated cluster under `sys.setprofile`. Only functions of `kubedsm` and
`plans` count that the scheduler calls itself. Calls that the emulator, listeners, the decision
record, or writers of Events make are left out. So is the resumption of a suspended coroutine, which
the profiler reports like a call: restart loops and watches were called long before the pod came,
and only pass on what wakes the task.
"""

import asyncio
import inspect
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from support.manifests import ROOT
from support.worlds import CLOUD, EDGE, emulated

PRODUCT = ("kubedsm", "plans")
#: whatever these call is left out, too
OBSERVERS = ("lab", "tests", "kubedsm.events", "kubedsm.explain")
#: parts of a function that the interpreter calls as functions
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
SUSPENDS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Walk:
    """Profiler that counts the scheduler's own calls."""

    def __init__(self):
        #: calls by module and function
        self.functions = Counter()
        #: calls from one module of the scheduler to another one
        self.crossings = 0
        self._names = {}

    def __call__(self, frame, event, _):
        if event != "call" or frame.f_code.co_name in COMPREHENSIONS or _is_resumed(frame):
            return
        module = self._module(frame.f_code)
        if module.startswith(PRODUCT):
            stack = [self._module(code) for code in _stack(frame)]
            if not any(each.startswith(OBSERVERS) for each in stack):
                self.functions[module, frame.f_code.co_qualname] += 1
                self.crossings += next(filter(None, stack[1:]), module) != module

    def _module(self, code):
        file = code.co_filename
        if file not in self._names:
            path, self._names[file] = Path(file), ""
            if path.is_relative_to(ROOT):
                parts = path.relative_to(ROOT).with_suffix("").parts
                self._names[file] = ".".join(parts)
        return self._names[file]

    @property
    def modules(self):
        """Count the functions of each module."""
        return Counter(module for module, _ in self.functions)


def _is_resumed(frame):
    """Return whether a coroutine or generator goes on: it begins at its first line."""
    return bool(frame.f_code.co_flags & SUSPENDS) and frame.f_lineno != frame.f_code.co_firstlineno


def _stack(frame):
    """Yield the code of the frames in this callback of the event loop, innermost first."""
    while frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        yield frame.f_code
        frame = frame.f_back


@asynccontextmanager
async def walking(settings, *nodes):
    """Run the scheduler without the checks of `World.scheduler`, which call it too, until all is
    quiet after a pod; yield the world, and profile what the block causes.
    """
    walk = Walk()
    async with emulated(*nodes, configuration=load(settings, "walks")) as world:
        runtime = world.new_runtime(world.connect())
        running = asyncio.create_task(runtime.run())
        await runtime.synced.wait()
        await world.bring_up("first", 1, within=5)
        await asyncio.sleep(60)
        yield world, walk
        sys.setprofile(walk)
        try:
            await _until(lambda: runtime.manager.under_way)
            await _until(lambda: not runtime.manager.under_way)
        finally:
            sys.setprofile(None)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _until(condition, seconds=60):
    """Wait in steps that are short beside the latency of the API server."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing is set when a plan begins
            await asyncio.sleep(0.0005)


async def test_a_plain_pod_passes_few_functions_from_created_to_bound():
    # No rebalancing, so that no other work falls into the measurement.
    async with walking("suggester: {mode: 'off'}", EDGE, CLOUD) as (world, walk):
        world.deploy("plain", 1)
    assert len(walk.functions) <= 180, walk.functions
    assert len(walk.modules) <= 45, walk.modules


async def test_a_migration_crosses_few_borders_of_modules():
    settings = "suggester: {period: 1s}\nmigration: {price: 0s, cooldown: 1s}"
    async with walking(settings, CLOUD) as (world, walk):
        world.api.create(NODES, node("e1", "edge", "2", "8Gi"))
    assert 100 <= walk.crossings <= 900, walk.modules
