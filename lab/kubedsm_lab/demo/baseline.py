"""What kube-scheduler makes of the same load: a replay in a process beside the demo.

In virtual time, so that it is over in a second or two. The process gives way to the demo, hears
none of the signals that the terminal sends, and ends with the demo, however that ends.
"""

import asyncio
import os
import pickle
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import attrs
import structlog

from kubedsm.terminal.running import reserve_stdout
from kubedsm_lab.demo.setting import (
    CONFIGURATION,
    STABILIZATION_SECONDS,
    demo_cluster,
    demo_scenario,
)
from kubedsm_lab.replay.timeline import Timeline
from kubedsm_lab.replay.world import Run, Setup, play

POLICY = "kube-scheduler"
#: added to the demo's own niceness: the demo must not have to wait for the core
NICENESS = 15


def replayed(seed: int, cycles: int) -> Timeline:
    setup = Setup(
        cluster=demo_cluster(),
        configuration=CONFIGURATION,
        stabilization_seconds=STABILIZATION_SECONDS,
    )
    return play(Run("demo", demo_scenario(seed, cycles), POLICY, seed, setup)).timeline


@attrs.define
class Baseline:
    """How far the replay is."""

    #: None as long as it goes on, and if it failed
    timeline: Timeline | None = None
    over: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def follow(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise RuntimeError("the replay's output is not piped")
        answer = await process.stdout.read()
        if await process.wait() == 0:
            self.timeline = pickle.loads(answer)  # noqa: S301 - of a process that we started
        self.over.set()

    async def wait(self, seconds: float) -> None:
        """Return when it is over, but wait no longer than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()


@asynccontextmanager
async def baseline(seed: int, cycles: int) -> AsyncIterator[Baseline]:
    """Enter a replay that goes on beside; it is over at the latest when the context is left."""
    found = Baseline()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "kubedsm_lab.demo.baseline", str(seed), str(cycles)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(found.follow(process))
        try:
            yield found
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def _end_with_the_demo() -> None:
    """Whose end closes our input, from which nothing else ever comes."""
    # Not through a buffer, whose lock would still be held when we are done.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main() -> None:
    reserve_stdout()
    os.nice(NICENESS)
    Thread(target=_end_with_the_demo, daemon=True).start()
    # Its times never were, so its logs would tell of nothing.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("CRITICAL"))
    seed, cycles = map(int, sys.argv[1:])
    sys.stdout.buffer.write(pickle.dumps(replayed(seed, cycles)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
