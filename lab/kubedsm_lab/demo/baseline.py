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

from kubedsm_lab.demo.setting import (
    CONFIGURATION,
    STABILIZATION_SECONDS,
    demo_cluster,
    demo_scenario,
)
from kubedsm_lab.replay.runner import begin_worker
from kubedsm_lab.replay.timeline import Timeline
from kubedsm_lab.replay.world import Run, Setup, play

#: kube-scheduler's replay; None if it failed
Baseline = asyncio.Task[Timeline | None]
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


async def _receive(results: Connection) -> Timeline | None:
    with suppress(EOFError):
        found: Timeline = await asyncio.to_thread(results.recv)
        return found
    return None


@asynccontextmanager
async def baseline(seed: int, cycles: int) -> AsyncIterator[Baseline]:
    """Replay the demo's load under kube-scheduler in a child process, during the block."""
    context = multiprocessing.get_context("spawn")
    results, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_replay, args=(theirs, seed, cycles), daemon=True)
    # Inherited by the process: Ctrl-C reaches it as well, and the demo decides.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.start()
    signal.signal(signal.SIGINT, before)
    theirs.close()
    async with asyncio.TaskGroup() as tasks:
        try:
            yield tasks.create_task(_receive(results))
        finally:
            process.kill()
            process.join()
