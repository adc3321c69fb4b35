"""Faults injected into schedulers during a soak: kills, pauses and broken connections."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import attrs
import orjson

from kubedsm.process.clock import Clock
from kubedsm_lab.bench.processes import Scheduler
from kubedsm_lab.bench.soak.line import Line

#: Lease duration in seconds; shorter than the default, so that leaders change often.
LEASE = 6.0
LEASE_OPTIONS = (
    *("--leader-elect-lease-duration", f"{LEASE:g}s"),
    *("--leader-elect-renew-deadline", "4s", "--leader-elect-retry-period", "1s"),
)
#: Configuration with maximal concurrent migrations, regardless of benefit.
_EAGER = {
    "apiVersion": "kubedsm.io/v1alpha1",
    "kind": "KubeDSMConfiguration",
    "suggester": {"period": "1s"},
    "migration": {"price": "0s"},
}
#: One kill in `KILLS_OF_ANY` hits any scheduler, the others the leader.
KILLS_OF_ANY = 4
#: Pause of a leader in seconds: longer than an election.
PAUSE = 1.5 * LEASE
#: Kills between two pauses.
KILLS_PER_PAUSE = 5
#: Longest stall of a connection in seconds: longer than a leader may write without renewal.
LONGEST_STALL = 8.0


@attrs.define
class FaultInjector:
    """Fault injector of the soak: kills and pauses scheduler processes, and disturbs their API
    connections.

    Periods are in seconds; 0 disables the kind of fault.
    """

    schedulers: Sequence[Scheduler]
    lines: Sequence[Line]
    clock: Clock
    rng: random.Random
    kill_every: float
    cut_every: float
    done: Counter[str] = attrs.field(factory=Counter, init=False)
    _kills: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    async def run(self) -> None:
        """Inject faults until cancelled; resume paused schedulers at the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.kill_every:
                    kill, pause = self.kill_every, self.kill_every * KILLS_PER_PAUSE
                    tasks.create_task(self._inject_periodically(kill, kill, self._kill_scheduler))
                    # Pauses begin half-way between two kills.
                    tasks.create_task(
                        self._inject_periodically(pause - kill / 2, pause, self._pause_leader)
                    )
                if self.cut_every:
                    tasks.create_task(
                        self._inject_periodically(
                            self.cut_every, self.cut_every, self._disturb_lines
                        )
                    )
        finally:
            for scheduler in self.schedulers:
                scheduler.send(signal.SIGCONT)

    async def _inject_periodically(
        self, first: float, period: float, fault: Callable[[], Awaitable[None]]
    ) -> None:
        due = self.clock.monotonic() + first
        while True:
            await self.clock.sleep(due - self.clock.monotonic())
            await fault()
            due += period

    async def _kill_scheduler(self) -> None:
        number = next(self._kills)
        victim = (
            self._choose_leader() if number % KILLS_OF_ANY else self.rng.choice(self.schedulers)
        )
        self.done["leaders killed" if victim.log.leading else "standbys killed"] += 1
        victim.kill()

    async def _pause_leader(self) -> None:
        victim = self._choose_leader()
        self.done["leaders paused" if victim.log.leading else "standbys paused"] += 1
        victim.send(signal.SIGSTOP)
        await self.clock.sleep(PAUSE)
        victim.send(signal.SIGCONT)

    async def _disturb_lines(self) -> None:
        """Reset, truncate or stall each scheduler's connections to the API server, at random."""
        async with asyncio.TaskGroup() as tasks:
            for line in self.lines:
                how = self.rng.choice(("cut", "broken off", "stalled"))
                self.done[f"lines {how}"] += 1
                if how == "cut":
                    line.cut()
                elif how == "broken off":
                    line.break_off()
                else:
                    tasks.create_task(line.stall(self.rng.uniform(1.0, LONGEST_STALL)))

    def _choose_leader(self) -> Scheduler:
        """Return the scheduler that holds the Lease; a random scheduler if none leads."""
        leading = [each for each in self.schedulers if each.log.leading]
        return self.rng.choice(leading or self.schedulers)


def scheduler_options(folder: Path) -> tuple[str, ...]:
    """Write a scheduler configuration for fault injection; return options of `kubedsm run`."""
    config = folder / "eager.json"
    config.write_bytes(orjson.dumps(_EAGER))
    return ("--config", str(config), *LEASE_OPTIONS)
