"""What a soak has shown, and which of our promises it has kept."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from kubedsm_lab.bench.soak.processes import LogCount, Look
from kubedsm_lab.replay.measures import Latency

#: how many times as long as usual is still usual, and how many seconds never matter
TIMES_USUAL, NEVER_MATTERS = 3.0, 0.5
MEMORY_GROWTH = 0.10
#: by how much moves may become fewer: they depend on chance
FEWER_MOVES = 5.0
#: pods that moves and rollouts may add to what the odd tenant asks for
SURPLUS = 20
#: seconds
QUICKLY = 10.0
#: since a process began: what is killed again and again is compared at the same age
YOUNG = (10.0, 20.0)
#: seconds after the last harm until all is as usual: a Lease runs out, a process starts
RECOVERING = 20.0
_MEBI = 2**20
_FIFTHS = 5


@attrs.frozen(slots=True)
class Wait:
    """When a pod was first seen, and for how long it waited until it was bound, or went."""

    created: float
    seconds: float
    bound: bool


@attrs.frozen(slots=True, kw_only=True)
class Left:
    """What is left when the tenants rest: pods that wait or are marked, Deployments miscounted.

    Then, when they are gone: room that nobody can have, what schedulers are still at; and when
    these are gone, processes of theirs.
    """

    waiting: int = 0
    marked: Sequence[str] = ()
    replicas: Sequence[str] = ()
    room: Sequence[str] = ()
    under_way: Sequence[str] = ()
    processes: int = 0


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
    #: and the harm, if there is any
    odd_since: float
    unharmed_since: float
    ended: float
    workloads: int
    namespaces_deleted: int
    #: of all pods but the odd tenant's
    waits: Sequence[Wait]
    #: about pods and nodes, at each of which it was looked for what must never be
    events: int
    amiss: Sequence[str]
    left: Left
    most_odd: int
    asked_odd: int
    replicas: int
    #: how often what was done to the schedulers and their lines
    harm: Counter[str]
    #: how many of their processes led, one after the other
    leaders: int
    ends: int
    log: LogCount
    memory: Sequence[Look]
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
        yield self._ends()
        usual = self._latency(self.started, self.odd_since)
        since = self.unharmed_since + RECOVERING if self.harm else self.odd_since
        later = self._latency(since, self.ended)
        yield _no_slower("usual", "others' pods are bound in their usual time", usual, later)
        first, last = (self._latency(*fifth) for fifth in self._fifths(0, _FIFTHS - 1))
        yield _no_slower("even", "the last fifth is as the first one", first, last)
        yield self._moves()
        what = "no pod bound twice, no node overfull, no last Ready pod moved away"
        yield _none("never", what, f"{len(self.amiss)} in {self.events} events", self.amiss)
        yield from self._nothing_left()
        number = f"{self.most_odd} at once, {self.asked_odd} asked for"
        kept = self.most_odd <= self.asked_odd + SURPLUS
        yield Promise("multiply", "odd pods do not multiply", number, kept)
        yield self._memory()
        after = self.seconds_to_stop
        yield Promise("stops", "it stops when told to", f"after {after:.1f} s", after <= QUICKLY)

    def _ends(self) -> Promise:
        """Who was killed is none, nor who gave way to another that led."""
        gave_way = self.log.gave_way
        ends = self.ends + (gave_way if self.replicas == 1 else 0)
        said = f"{ends} ends"
        if self.harm:
            said += f", {gave_way} gave way, {self.leaders} led; " + ", ".join(
                f"{times} {what}" for what, times in sorted(self.harm.items())
            )
        return Promise("ends", "nothing ends the scheduler", said, not ends)

    def _nothing_left(self) -> Iterator[Promise]:
        left = self.left
        said, kept = f"{left.waiting} wait", not left.waiting
        yield Promise("bound", "all that fit are bound at the end", said, kept)
        for name, what, of, items in (
            ("marks", "no marks are left at the end", "pods", left.marked),
            ("replicas", "Deployments have as many pods as they ask for", "not", left.replicas),
            ("room", "all room of every node can be had then", "nodes not", left.room),
            ("work", "no plan, move or pod is under way then", "are", left.under_way),
        ):
            yield _none(name, what, f"{len(items)} {of}", items)
        said, kept = f"{left.processes} live", not left.processes
        yield Promise("processes", "no process outlives its scheduler", said, kept)

    def _latency(self, since: float, until: float) -> Latency | None:
        return Latency.of([w.seconds for w in self.waits if since <= w.created < until])

    def _fifths(self, *which: int) -> Iterator[tuple[float, float]]:
        """From when until when they are, of the time with harm, or else with the odd tenant."""
        until = self.unharmed_since
        fifth = (until - self.odd_since) / _FIFTHS
        for number in which:
            since = self.odd_since + number * fifth
            yield since, until if number == _FIFTHS - 1 else since + fifth

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
        """Warm is what has met the odd tenant for a fifth of its time.

        No process is as old as that where they are killed: there, all of the first fifth are
        compared with all of the last one, each at the same age.
        """
        ages = YOUNG if self.harm else (0.0, math.inf)
        early, late = self._fifths(0 if self.harm else 1, _FIFTHS - 1)
        warm, end = self._resident(early, ages), self._resident(late, ages)
        what = f"memory grows by less than {MEMORY_GROWTH:.0%} once warm"
        if warm is None or end is None:
            return Promise("memory", what, "not seen", kept=False)
        growth = end / warm - 1
        measured = f"{warm / _MEBI:.1f} MiB, then {end / _MEBI:.1f} MiB: {growth:+.1%}"
        return Promise("memory", what, measured, growth <= MEMORY_GROWTH)

    def _resident(self, moments: tuple[float, float], ages: tuple[float, float]) -> float | None:
        seen = [
            look.resident
            for look in self.memory
            if moments[0] <= look.at < moments[1] and ages[0] <= look.age < ages[1]
        ]
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
            "replicas": self.replicas,
            "leaders": self.leaders,
            "gaveWay": self.log.gave_way,
            "harm": dict(self.harm),
            "promises": {promise.name: attrs.asdict(promise) for promise in self.promises},
            "kept": self.kept,
        }


def _none(name: str, what: str, number: str, items: Sequence[str]) -> Promise:
    return Promise(name, what, "; ".join((number, *items[:3])), not items)


def _no_slower(name: str, what: str, before: Latency | None, after: Latency | None) -> Promise:
    if before is None or after is None:
        return Promise(name, what, "no pod was bound", kept=False)
    shown = " then ".join(f"p50 {lat.p50:.3f} s, p99 {lat.p99:.3f} s" for lat in (before, after))
    kept = all(
        late <= max(early * TIMES_USUAL, NEVER_MATTERS)
        for early, late in ((before.p50, after.p50), (before.p99, after.p99))
    )
    return Promise(name, what, shown, kept)
