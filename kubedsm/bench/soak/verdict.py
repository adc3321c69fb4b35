"""What a soak has shown, and which of our promises it has kept."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from kubedsm.bench.soak.processes import LogCount
from kubedsm.replay.summaries import Latency

#: how many times as long as usual is still usual, and how many seconds never matter
TIMES_USUAL, NEVER_MATTERS = 3.0, 0.5
MEMORY_GROWTH = 0.10
#: by how much moves may become fewer: they depend on chance
FEWER_MOVES = 5.0
#: pods that moves and rollouts may add to what the odd tenant asks for
SURPLUS = 20
#: seconds
QUICKLY = 10.0
_MEBI = 2**20
_FIFTHS = 5


@attrs.frozen(slots=True)
class Wait:
    """When a pod was first seen, and for how long it waited until it was bound, or went."""

    created: float
    seconds: float
    bound: bool


@attrs.frozen(slots=True)
class Promise:
    name: str
    what: str
    #: in words, with units
    measured: str
    kept: bool


@attrs.frozen(kw_only=True)
class SoakResult:
    """Moments are of the monotonic clock."""

    started: float
    odd_since: float
    ended: float
    workloads: int
    namespaces_deleted: int
    #: of all pods but the odd tenant's
    waits: Sequence[Wait]
    left_waiting: int
    left_marked: Sequence[str]
    most_odd: int
    asked_odd: int
    scheduler_ends: int
    log: LogCount
    memory: Sequence[tuple[float, int]]
    seconds_to_stop: float

    @property
    def promises(self) -> tuple[Promise, ...]:
        return tuple(self._promises())

    @property
    def kept(self) -> bool:
        return all(promise.kept for promise in self.promises)

    @property
    def bound(self) -> int:
        return sum(wait.bound for wait in self.waits)

    @property
    def moves(self) -> Counter[str]:
        """How often they ended in which way."""
        return Counter(outcome for _, outcome in self.log.moves)

    def _promises(self) -> Iterator[Promise]:
        errors, tracebacks = self.log.errors.total(), self.log.tracebacks
        said = f"{errors} error lines, {tracebacks} tracebacks"
        for event, times in self.log.errors.most_common(3):
            said += f"; {times} x {event}"
        kept = not errors and not tracebacks
        yield Promise("caught", "nothing is caught by the supervisor", said, kept)
        ends = self.scheduler_ends
        yield Promise("ends", "nothing ends the scheduler", f"{ends} ends", not ends)
        usual = self._latency(self.started, self.odd_since)
        later = self._latency(self.odd_since, self.ended)
        yield _no_slower("usual", "others' pods are bound in their usual time", usual, later)
        fifth = (self.ended - self.odd_since) / _FIFTHS
        first = self._latency(self.odd_since, self.odd_since + fifth)
        last = self._latency(self.ended - fifth, self.ended)
        yield _no_slower("even", "the last fifth is as the first one", first, last)
        yield self._moves()
        waiting, marked = self.left_waiting, len(self.left_marked)
        yield Promise("bound", "all that fit are bound at the end", f"{waiting} wait", not waiting)
        yield Promise("marks", "no marks are left at the end", f"{marked} pods", not marked)
        number = f"{self.most_odd} at once, {self.asked_odd} asked for"
        kept = self.most_odd <= self.asked_odd + SURPLUS
        yield Promise("multiply", "odd pods do not multiply", number, kept)
        yield self._memory()
        after = self.seconds_to_stop
        yield Promise("stops", "it stops when told to", f"after {after:.1f} s", after <= QUICKLY)

    def _latency(self, since: float, until: float) -> Latency | None:
        return Latency.of([w.seconds for w in self.waits if since <= w.created < until])

    def _moves(self) -> Promise:
        """Completed ones: an odd tenant keeps no other's pods where they are."""
        usual, later = (
            60
            * sum(done == "completed" and since <= at < until for at, done in self.log.moves)
            / max(1.0, until - since)
            for since, until in ((self.started, self.odd_since), (self.odd_since, self.ended))
        )
        shown = f"{usual:.1f} a minute, then {later:.1f}"
        return Promise("moves", "moves go on", shown, later >= usual / FEWER_MOVES)

    def _memory(self) -> Promise:
        """Warm is what has met the odd tenant for a fifth of its time."""
        fifth = (self.ended - self.odd_since) / _FIFTHS
        warm = self._resident(self.odd_since + fifth, self.odd_since + 2 * fifth)
        end = self._resident(self.ended - fifth, self.ended)
        what = f"memory grows by less than {MEMORY_GROWTH:.0%} once warm"
        if warm is None or end is None:
            return Promise("memory", what, "not seen", kept=False)
        growth = end / warm - 1
        measured = f"{warm / _MEBI:.1f} MiB, then {end / _MEBI:.1f} MiB: {growth:+.1%}"
        return Promise("memory", what, measured, growth <= MEMORY_GROWTH)

    def _resident(self, since: float, until: float) -> float | None:
        seen = [size for at, size in self.memory if since <= at < until]
        return statistics.median(seen) if seen else None

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "seconds": round(self.ended - self.started, 1),
            "workloads": self.workloads,
            "podsBound": self.bound,
            "namespacesDeleted": self.namespaces_deleted,
            "moves": dict(self.moves),
            "errors": dict(self.log.errors),
            "warnings": dict(self.log.warnings),
            "promises": {promise.name: attrs.asdict(promise) for promise in self.promises},
            "kept": self.kept,
        }


def _no_slower(name: str, what: str, before: Latency | None, after: Latency | None) -> Promise:
    if before is None or after is None:
        return Promise(name, what, "no pod was bound", kept=False)
    shown = " then ".join(f"p50 {lat.p50:.3f} s, p99 {lat.p99:.3f} s" for lat in (before, after))
    kept = all(
        late <= max(early * TIMES_USUAL, NEVER_MATTERS)
        for early, late in ((before.p50, after.p50), (before.p99, after.p99))
    )
    return Promise(name, what, shown, kept)
