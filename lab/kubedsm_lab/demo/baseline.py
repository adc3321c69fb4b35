"""kube-scheduler under the demo's load: a replay in virtual time, in a child process.

The process has a lower priority than the demo, and ends with it, however the demo ends.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection

import attrs

from kubedsm.process.clock import ends_within
from kubedsm_lab.demo.setting import (
    CONFIGURATION,
    STABILIZATION_SECONDS,
    demo_cluster,
    demo_scenario,
)
from kubedsm_lab.replay.runner import begin_worker
from kubedsm_lab.replay.timeline import Timeline
from kubedsm_lab.replay.world import Run, Setup, play

POLICY = "kube-scheduler"
#: added to the niceness of the demo, which must not wait for the core
NICENESS = 15


def replay_baseline(seed: int, cycles: int) -> Timeline:
    setup = Setup(
        cluster=demo_cluster(),
        configuration=CONFIGURATION,
        stabilization_seconds=STABILIZATION_SECONDS,
    )
    return play(Run("demo", demo_scenario(seed, cycles), POLICY, seed, setup)).timeline


def _send_replay(results: Connection, seed: int, cycles: int) -> None:
    begin_worker()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    os.nice(NICENESS)
    results.send(replay_baseline(seed, cycles))


@attrs.define
class Baseline:
    #: None while the replay goes on, and if it failed
    timeline: Timeline | None = None
    over: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def follow(self, results: Connection) -> None:
        with suppress(EOFError):
            self.timeline = await asyncio.to_thread(results.recv)
        self.over.set()

    async def wait(self, seconds: float) -> None:
        """Wait until kube-scheduler's replay of the demo's load ends, for at most `seconds`."""
        await ends_within(seconds, self.over.wait())


@asynccontextmanager
async def baseline(seed: int, cycles: int) -> AsyncIterator[Baseline]:
    """Replay the demo's load under kube-scheduler in a child process, during the block."""
    found = Baseline()
    context = multiprocessing.get_context("spawn")
    results, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_replay, args=(theirs, seed, cycles), daemon=True)
    # Inherited by the process: Ctrl-C reaches it as well, and the demo decides.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.start()
    signal.signal(signal.SIGINT, before)
    theirs.close()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(found.follow(results))
        try:
            yield found
        finally:
            process.kill()
            process.join()
