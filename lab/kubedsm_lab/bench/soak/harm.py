"""What is done to schedulers while they soak: killed, paused, cut off; and how often."""

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
from kubedsm_lab.bench.soak.line import Line
from kubedsm_lab.bench.soak.processes import Scheduler

#: seconds that a Lease lasts: less than kubedsm's own, so that it changes hands often
LEASE = 6.0
#: Deployments that come at once, now and then
BURST = 10
#: with which as many moves are under way as can be, however short their gain lasts
_EAGER = {
    "apiVersion": "kubedsm.io/v1alpha1",
    "kind": "KubeDSMConfiguration",
    "suggester": {"period": "1s"},
    "migration": {"price": "0s"},
}
#: of those killed, one in so many is any of them, not the leader
KILLS_OF_ANY = 4
#: seconds that a leader is paused for: until another leads, and longer
PAUSE = 1.5 * LEASE
#: kills from one pause to the next
KILLS_A_PAUSE = 5
#: seconds that a line stalls for, at most: longer than a leader may write unheard
LONGEST_STALL = 8.0


@attrs.define
class Harm:
    """Seconds; 0 for never."""

    schedulers: Sequence[Scheduler]
    lines: Sequence[Line]
    clock: Clock
    rng: random.Random
    kill_every: float
    cut_every: float
    done: Counter[str] = attrs.field(factory=Counter, init=False)
    _kills: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    async def run(self) -> None:
        """Do harm until cancelled; what was only paused goes on then."""
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.kill_every:
                    kill, pauses = self.kill_every, self.kill_every * KILLS_A_PAUSE
                    tasks.create_task(self._each(kill, kill, self._kill))
                    # Between two kills.
                    tasks.create_task(self._each(pauses - kill / 2, pauses, self._pause))
                if self.cut_every:
                    tasks.create_task(self._each(self.cut_every, self.cut_every, self._cut))
        finally:
            for scheduler in self.schedulers:
                scheduler.send(signal.SIGCONT)

    async def _each(
        self, first: float, seconds: float, harm: Callable[[], Awaitable[None]]
    ) -> None:
        due = self.clock.monotonic() + first
        while True:
            await self.clock.sleep(due - self.clock.monotonic())
            await harm()
            due += seconds

    async def _kill(self) -> None:
        number = next(self._kills)
        one = self._leader() if number % KILLS_OF_ANY else self.rng.choice(self.schedulers)
        self.done["leaders killed" if one.log.leading else "standbys killed"] += 1
        one.kill()

    async def _pause(self) -> None:
        one = self._leader()
        self.done["leaders paused" if one.log.leading else "standbys paused"] += 1
        one.send(signal.SIGSTOP)
        await self.clock.sleep(PAUSE)
        one.send(signal.SIGCONT)

    async def _cut(self) -> None:
        """All lines at once, or each in its own way."""
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

    def _leader(self) -> Scheduler:
        """Anyone if nobody leads."""
        leading = [each for each in self.schedulers if each.log.leading]
        return self.rng.choice(leading or self.schedulers)


def options(folder: Path) -> tuple[str, ...]:
    """Of a `kubedsm run` to which harm is done. Writes a file there."""
    config = folder / "eager.json"
    config.write_bytes(orjson.dumps(_EAGER))
    return (
        *("--config", str(config), "--leader-elect-lease-duration", f"{LEASE:g}s"),
        *("--leader-elect-renew-deadline", "4s", "--leader-elect-retry-period", "1s"),
    )
