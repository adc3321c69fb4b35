"""Verdict of a soak: each guarantee of the scheduler, checked against the recorded observations."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.processes import LogCount, MemorySample
from kubedsm_lab.bench.report import Report
from kubedsm_lab.bench.soak.leftovers import Leftovers
from kubedsm_lab.bench.soak.pod_watch import Wait
from kubedsm_lab.replay.measures import Latency

#: Waiting times are usual up to TIMES_USUAL, and below NEVER_MATTERS seconds.
TIMES_USUAL, NEVER_MATTERS = 3.0, 0.5
MEMORY_GROWTH = 0.10
#: Tolerated decrease of migrations, which depend on chance, as a factor.
FEWER_MOVES = 5.0
#: Tolerated excess of odd pods, from migrations and rollouts.
SURPLUS = 20
#: Most seconds from SIGTERM to the end.
QUICKLY = 10.0
#: Process ages in seconds for comparing memory under fault injection.
YOUNG = (10.0, 20.0)
#: Seconds to recover from the last fault: a Lease expires, a process starts.
RECOVERING = 20.0
_MEBI = 2**20
_FIFTHS = 5


@attrs.frozen(slots=True)
class Guarantee:
    name: str
    what: str
    #: in words, with units
    measured: str
    kept: bool


@attrs.frozen(kw_only=True)
class SoakResult:
    """Observations of a soak, from which the scheduler's guarantees are checked; times are in
    seconds on the monotonic clock.
    """

    started: float
    #: start of the odd tenant and of fault injection
    odd_since: float
    unharmed_since: float
    ended: float
    workloads: int
    namespaces_deleted: int
    #: waiting times of all pods except the odd tenant's
    waits: Sequence[Wait]
    #: pod and node events with checked invariants
    events: int
    amiss: Sequence[str]
    left: Leftovers
    most_odd: int
    asked_odd: int
    replicas: int
    #: faults by kind
    harm: Counter[str]
    #: number of successive leaders
    leaders: int
    ends: int
    log: LogCount
    memory: Sequence[MemorySample]
    #: number of live pods, of all tenants, after each event of a pod or node
    pods: Sequence[tuple[float, int]]
    seconds_to_stop: float

    @property
    def kept(self) -> bool:
        return all(guarantee.kept for guarantee in self.guarantees())

    def report(self) -> Report:
        guarantees = list(self.guarantees())
        bound = sum(wait.bound for wait in self.waits)
        moves = Counter(outcome for _, outcome in self.log.moves)
        figures = {
            "emulated": True,
            "seconds": round(self.ended - self.started, 1),
            "workloads": self.workloads,
            "podsBound": bound,
            "namespacesDeleted": self.namespaces_deleted,
            "moves": dict(moves),
            "errors": dict(self.log.errors),
            "warnings": dict(self.log.warnings),
            "replicas": self.replicas,
            "leaders": self.leaders,
            "gaveWay": self.log.gave_way,
            "harm": dict(self.harm),
            "guarantees": {each.name: attrs.asdict(each) for each in guarantees},
            "kept": self.kept,
        }
        rows = ((each.what, each.measured, "yes" if each.kept else "NO") for each in guarantees)
        migrations = ", ".join(f"{times} {outcome}" for outcome, times in moves.items())
        warnings = ", ".join(f"{n} x {what}" for what, n in self.log.warnings.most_common(5))
        notes = [
            (
                f"{(self.ended - self.started) / 60:.1f} minutes on an emulated cluster:"
                f" {self.workloads} workloads, {bound} pods bound,"
                f" {self.namespaces_deleted} namespaces deleted;"
                f" migrations: {migrations or 'none'}; warnings: {warnings or 'none'}."
            ),
            "Every guarantee was kept." if self.kept else "A guarantee was broken.",
        ]
        return Report(figures, [table(("guarantee", "measured", "kept"), rows)], notes)

    def guarantees(self) -> Iterator[Guarantee]:
        errors, tracebacks = self.log.errors.total(), self.log.tracebacks
        measured = f"{errors} error lines, {tracebacks} tracebacks"
        for event, times in self.log.errors.most_common(3):
            measured += f"; {times} x {event}"
        is_clean = not errors and not tracebacks
        yield Guarantee("caught", "the supervisor catches no error", measured, is_clean)
        yield self._check_ends()
        usual = self._latency_between(self.started, self.odd_since)
        since = self.unharmed_since + RECOVERING if self.harm else self.odd_since
        later = self._latency_between(since, self.ended)
        yield _require_usual("usual", "other tenants' pods wait no longer than usual", usual, later)
        first, last = (
            self._latency_between(*self._fifth_bounds(number)) for number in (0, _FIFTHS - 1)
        )
        yield _require_usual(
            "even", "pods of the last fifth wait no longer than the first", first, last
        )
        yield self._check_migrations()
        what = "no pod is bound twice, no node overfull, no last Ready pod migrated"
        yield _require_none("never", what, f"{len(self.amiss)} in {self.events} events", self.amiss)
        yield from self._check_leftovers()
        measured = f"{self.most_odd} at a time, {self.asked_odd} requested"
        within = self.most_odd <= self.asked_odd + SURPLUS
        yield Guarantee("multiply", "odd pods do not multiply", measured, within)
        yield self._check_memory()
        measured, in_time = f"after {self.seconds_to_stop:.1f} s", self.seconds_to_stop <= QUICKLY
        yield Guarantee("stops", "the scheduler ends on SIGTERM", measured, in_time)

    def _check_ends(self) -> Guarantee:
        """Check that no scheduler process exits by itself, as opposed to an injected kill.

        Injected kills do not count, nor exits after another replica acquired the Lease.
        """
        gave_way = self.log.gave_way
        ends = self.ends + (gave_way if self.replicas == 1 else 0)
        measured = f"{ends} ends"
        if self.harm:
            measured += f", {gave_way} gave way, {self.leaders} led; " + ", ".join(
                f"{times} {what}" for what, times in sorted(self.harm.items())
            )
        return Guarantee("ends", "the scheduler does not end by itself", measured, not ends)

    def _check_leftovers(self) -> Iterator[Guarantee]:
        left = self.left
        waiting = f"{left.waiting} wait"
        yield Guarantee("bound", "pods that fit are bound at the end", waiting, not left.waiting)
        for name, what, unit, items in (
            ("marks", "no migration labels and annotations at the end", "pods", left.marked),
            ("replicas", "Deployments have their desired replicas", "not", left.replicas),
            ("room", "every node can be allocated completely then", "nodes not", left.room),
            ("work", "no plan, migration or pod in progress then", "are", left.under_way),
        ):
            yield _require_none(name, what, f"{len(items)} {unit}", items)
        alive = f"{left.processes} live"
        yield Guarantee("processes", "no process outlives its scheduler", alive, not left.processes)

    def _latency_between(self, since: float, until: float) -> Latency | None:
        return Latency.of([w.seconds for w in self.waits if since <= w.created < until])

    def _fifth_bounds(self, number: int) -> tuple[float, float]:
        """Return start and end of the `number`-th fifth of the time with odd tenant and faults, in
        seconds.
        """
        until = self.unharmed_since
        fifth = (until - self.odd_since) / _FIFTHS
        since = self.odd_since + number * fifth
        return since, until if number == _FIFTHS - 1 else since + fifth

    def _check_migrations(self) -> Guarantee:
        """Check that the odd tenant does not stop the migrations of other tenants' pods."""
        usual, later = (
            60
            * sum(done == "completed" and since <= at < until for at, done in self.log.moves)
            / max(1.0, until - since)
            for since, until in ((self.started, self.odd_since), (self.odd_since, self.ended))
        )
        measured = f"{usual:.1f} a minute, then {later:.1f}"
        return Guarantee("moves", "migrations go on", measured, 0 < usual <= later * FEWER_MOVES)

    def _check_memory(self) -> Guarantee:
        """Check that the scheduler's memory does not grow with time: the last fifth of the
        disturbed time is compared with the second, at equal numbers of live pods.

        The first fifth fills caches. Under fault injection processes die early; then the first and
        the last fifth are compared at equal process ages. Bytes of a live pod are a least-squares
        fit of all samples to a constant, the live pods and the time.
        """
        ages = YOUNG if self.harm else (0.0, math.inf)
        early, late = self._fifth_bounds(0 if self.harm else 1), self._fifth_bounds(_FIFTHS - 1)
        samples = [
            sample
            for sample in self.memory
            if early[0] <= sample.at < late[1] and ages[0] <= sample.age < ages[1]
        ]
        what = f"memory grows by less than {MEMORY_GROWTH:.0%} once warm, at equal numbers of pods"
        if not any(each.at < early[1] for each in samples) or samples[-1].at < late[0]:
            return Guarantee("memory", what, "no sample", kept=False)
        at = np.array([each.at for each in samples])
        resident = np.array([each.resident for each in samples], float)
        changed, live = np.array(self.pods).T
        live = live[np.maximum(np.searchsorted(changed, at, side="right") - 1, 0)]
        terms = np.column_stack([live - live.mean(), at - at.mean(), np.ones(len(at))])
        a_pod = np.linalg.lstsq(terms, resident, rcond=None)[0][0]
        resident -= a_pod * (live - live.mean())
        warm, end = np.median(resident[at < early[1]]), np.median(resident[at >= late[0]])
        growth = float(end / warm - 1)
        measured = (
            f"{warm / _MEBI:.1f} MiB, then {end / _MEBI:.1f} MiB: {growth:+.1%}, at"
            f" {live.mean():.0f} pods of {a_pod / 1000:.1f} kB"
        )
        return Guarantee("memory", what, measured, growth <= MEMORY_GROWTH)


def _require_none(name: str, what: str, number: str, items: Sequence[str]) -> Guarantee:
    return Guarantee(name, what, "; ".join((number, *items[:3])), not items)


def _require_usual(
    name: str, what: str, before: Latency | None, after: Latency | None
) -> Guarantee:
    if before is None or after is None:
        return Guarantee(name, what, "no pod was bound", kept=False)
    measured = " then ".join(f"p50 {lat.p50:.3f} s, p99 {lat.p99:.3f} s" for lat in (before, after))
    kept = all(
        late <= max(early * TIMES_USUAL, NEVER_MATTERS)
        for early, late in ((before.p50, after.p50), (before.p99, after.p99))
    )
    return Guarantee(name, what, measured, kept)
