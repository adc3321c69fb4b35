"""Lifecycle of a scheduler process: standby, leadership, and graceful shutdown.

A standby follows the cluster like the leader, and can schedule immediately after the election.
A new leader first lists all pods again: the watch may lag behind the predecessor's last writes.
Elected at once, it has not listed any pods yet, so one list is enough.
"""

import asyncio

from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import Elector
from kubedsm.execution.migrations import STARTS, WAITS_FOR_REPLACEMENT
from kubedsm.process.clock import ends_within

STOPPING = "the scheduler stops"
#: fractions of the grace period for finishing migrations, and for rolling back the others
FINISHING, TAKING_BACK = 0.7, 0.2
#: maximum seconds for writing unwritten Events
FLUSHING = 2.0


async def serve(
    runtime: Runtime, elector: Elector | None, stopping: asyncio.Event, grace: float
) -> None:
    """Run the scheduler: follow the cluster, and schedule while leading, until `stopping` is set.

    Then plans end within `grace` seconds, and the Lease is released last. Raises NotLeadingError,
    in a group, when another process leads.
    """
    async with asyncio.TaskGroup() as tasks:
        beside = [] if elector is None else [tasks.create_task(elector.run())]
        acting = tasks.create_task(_act_until_stopped(runtime, elector, stopping, grace))
        if elector is not None:
            await elector.tried.wait()
        beside.append(tasks.create_task(runtime.follow()))
        await stopping.wait()
        await asyncio.wait([acting])
        for task in beside:
            task.cancel()
    if elector is not None:
        await elector.release()


async def _act_until_stopped(
    runtime: Runtime, elector: Elector | None, stopping: asyncio.Event, grace: float
) -> None:
    async with asyncio.TaskGroup() as tasks:
        carrying_out = tasks.create_task(runtime.carry_out())
        deciding = tasks.create_task(_decide_once_elected(runtime, elector))
        await stopping.wait()
        deciding.cancel()
        await wind_down(runtime, grace)
        carrying_out.cancel()


async def _decide_once_elected(runtime: Runtime, elector: Elector | None) -> None:
    if elector is not None:
        await elector.elected.wait()
        await runtime.followed.list_pods_anew()
    await runtime.decide()


async def wind_down(runtime: Runtime, grace: float) -> None:
    """Shut down gracefully: finish or roll back the binds and migrations in progress.

    Slow migrations are rolled back. Plans unfinished after `grace` seconds are left to the next
    leader.
    """
    manager = runtime.manager
    manager.abort_steps(STARTS, STOPPING)
    if not await ends_within(grace * FINISHING, manager.quiet.wait()):
        manager.abort_steps(WAITS_FOR_REPLACEMENT, STOPPING)
        await ends_within(grace * TAKING_BACK, manager.quiet.wait())
    await ends_within(min(grace, FLUSHING), runtime.flush_writes())
