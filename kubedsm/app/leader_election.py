"""Leader election: of all processes with the same Lease, one at a time may write.

Rules.
1. The holder renews the Lease by its resourceVersion, so a renewal that succeeds proves that nobody
   else held it since the one before.
2. The holder may write for a *window* after the moment at which it sent its last renewal; whoever
   cannot renew in time stops writing, and goes on when it can again.
3. Others take the Lease when it was not renewed for its whole duration, counted on their own clock
   from when they saw the last renewal, or at once when its holder gave it back. Wall clocks are
   never compared. A duration above `LONGEST_WAIT` times their own counts as that.
4. A window is a fifth of the duration at most: so no write is left when another takes over, even if
   the holder's clock runs at half speed, and the other's at double.
5. A holder that finds the Lease in another's hands ends: what it remembers is of no use any more.

Source: client-go's leaderelection, whose Leases and settings these are. It ends a holder that could
not renew for `renew_deadline`; ours keeps its place, silent, until somebody else has taken it.
"""

import asyncio
import math
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import attrs
import structlog

from kubedsm.kube.calls import leases
from kubedsm.kube.calls.leases import Lease, LeaseName, Term
from kubedsm.kube.client.port import Cluster, ClusterError, Conflict, NotFound
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.kube.wire.errors import WireError
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.terminal.problems import Problem

log = structlog.get_logger()

#: of the duration: another's clock may run four times as fast as the holder's, and a twentieth of
#: the duration is left for what is on its way
WINDOW = 0.2
#: renewals that are sent within a window at least: one of them may fail
RENEWALS = 3
#: looks of a standby within a retry period, so that a Lease that is given back is taken within one
LOOKS = 2
#: longest wait for a Lease that is not renewed, as a multiple of the standby's own duration: a
#: duration of years is a mistake, and would keep every replica waiting
LONGEST_WAIT = 10
#: seconds of waiting from which on a standby reports a Lease that is not renewed
LONG_WAIT = 60.0


class NotLeadingError(Problem):
    """Another process leads, or the leader cannot be determined."""


@attrs.frozen(slots=True)
class LeaseTimes:
    """In seconds; kube-scheduler's defaults."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def window(self) -> float:
        """Seconds for which the holder may write after it sent a renewal."""
        return min(self.renew_deadline, self.duration * WINDOW)

    @property
    def pause(self) -> float:
        """Seconds between two renewals."""
        return min(self.retry_period, self.window / RENEWALS)

    @property
    def look(self) -> float:
        """Seconds between two reads of a standby."""
        return self.retry_period / LOOKS

    def patience(self, failures: int) -> float:
        """Return the time limit of a request after consecutive failures."""
        return min(self.pause * (1 + failures), self.renew_deadline / 2)


def identity_of(hostname: str) -> str:
    """Return a unique name of this process, which differs after a restart."""
    return f"{hostname}_{uuid.uuid4()}"


def host_of(identity: str) -> str:
    """Return the host in an identity: in a cluster, the name of the pod."""
    return identity.partition("_")[0]


class Elector:
    """Candidate of the election, which opens the gate for its process's writes.

    Its own requests bypass the gate, and each has its own timeout.
    """

    def __init__(
        self,
        cluster: Cluster,
        gate: WriteGate,
        clock: Clock,
        lease: LeaseName,
        times: LeaseTimes,
        identity: str,
    ) -> None:
        self._cluster = cluster
        self._gate = gate
        self._clock = clock
        self._name = lease
        self._times = times
        self._said = SaidByCause(clock)
        self.identity = identity
        #: who holds the Lease, as far as is known; empty if nobody does
        self.holder = ""
        #: since when this process holds it, in seconds since the epoch; None if it does not
        self.since: float | None = None
        #: set once it holds the Lease for the first time
        self.elected = asyncio.Event()
        #: as it was last read or written; None if it is not there, or not known any more
        self._lease: Lease | None = None
        self._seen: Term | None = None
        self._seen_at = -math.inf
        #: from when on a Lease that stays as it is may be taken; on the clock
        self._free_at = -math.inf
        self._renewal_sent = -math.inf
        #: in a row
        self._failures = 0

    @property
    def leading(self) -> bool:
        """Return True if this process holds the Lease, renewed within the renew deadline."""
        lately = self._clock.monotonic() - self._renewal_sent < self._times.renew_deadline
        return self.since is not None and lately

    async def run(self) -> None:
        """Stand by until elected, then renew. Raises NotLeadingError if the Lease is lost."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._gate.watch())
            await self._stand_by()
            await self._keep_renewing()

    @asynccontextmanager
    async def hold_lease(self, tell: Callable[[str], None]) -> AsyncIterator[None]:
        """Hold the Lease in a `with` block, and release it.

        If the holder seems dead, wait for the end of the Lease, and report that by `tell`. Raises
        NotLeadingError if the holder is alive or another takes over, ClusterError, and WireError.
        """
        seen: Term | None = None
        while (wait := await self._try_acquire()) > 0:
            if self.holder and seen not in (None, self._seen):
                raise NotLeadingError(f"{self.holder} holds the lease {self._name}, and renews it")
            if seen is None:
                tell(f"{self.holder} holds the lease {self._name}: looking whether it is alive")
            seen = self._seen
            await self._clock.sleep(min(wait, self._times.retry_period))
        try:
            async with asyncio.TaskGroup() as tasks:
                kept = [
                    tasks.create_task(self._gate.watch()),
                    tasks.create_task(self._keep_renewing()),
                ]
                yield
                for task in kept:
                    task.cancel()
        finally:
            if self.since is not None:
                await self.release()

    async def release(self) -> None:
        """Release the Lease, once no earlier write can arrive any more.

        Call this when nothing writes or renews any more.
        """
        await self._gate.settle()
        try:
            lease = await self._read_lease()
            if lease is not None and lease.term.holder == self.identity:
                term = lease.term.release_at(self._clock.wall())
                await self._write_term(lease, term)
                log.info("lease released", lease=str(self._name))
        except (ClusterError, WireError) as error:
            log.warning("lease not released", lease=str(self._name), error=str(error))
        self.since = None

    async def _stand_by(self) -> None:
        """Return when elected."""
        told, warned = "", None
        while True:
            wait = self._times.look
            try:
                free_in = await self._try_acquire()
            except (ClusterError, WireError, NotLeadingError) as error:
                self._failures += 1
                self._said.log(log.warning, "not elected", error, lease=str(self._name))
            else:
                if not free_in:
                    return
                wait = min(wait, free_in)
                if self.holder != told:
                    told = self.holder
                    log.info("standing by", lease=str(self._name), holder=told or "nobody")
                silent = self._clock.monotonic() - self._seen_at
                if (
                    self._lease is not None
                    and silent >= self._times.renew_deadline
                    and silent + free_in > LONG_WAIT
                    and self._seen != warned
                ):
                    warned = self._seen
                    self._report_long_wait(free_in)
            await self._clock.sleep(wait)

    def _report_long_wait(self, seconds: float) -> None:
        name = self._name
        log.warning(
            "lease not renewed by its holder, waiting",
            lease=str(name),
            holder=self.holder,
            wait_seconds=round(seconds),
            remedy="if the holder no longer runs:"
            f" kubectl -n {name.namespace} patch lease {name.name} --type merge"
            """ -p '{"spec":{"holderIdentity":""}}'""",
        )

    async def _try_acquire(self) -> float:
        """Acquire the Lease if it is free; return 0, or the seconds until it may be free."""
        await self._observe_lease()
        left = self._free_at - self._clock.monotonic()
        if left > 0:
            return left
        known, sent, wall = self._lease, self._clock.monotonic(), self._clock.wall()
        changes = 0
        if known is not None:
            # Ours already, if the answer to an earlier try was lost.
            changes = known.term.transitions + (known.term.holder != self.identity)
        try:
            term = leases.term_of(self.identity, self._times.duration, wall, changes)
            await self._write_term(known, term)
        except Conflict:
            return self._times.look  # another one was quicker
        except NotFound:
            if known is None:
                where = f"namespace {self._name.namespace} is not there"
                raise NotLeadingError(f"no lease {self._name}: {where}") from None
            return self._times.look  # it was deleted meanwhile
        self._note_renewal(sent)
        self.since = wall
        log.info("leading", lease=str(self._name), identity=self.identity, transitions=changes)
        self.elected.set()
        return 0.0

    async def _observe_lease(self) -> None:
        """Read the Lease, and compute when it may be acquired if it is not renewed."""
        self._lease = await self._read_lease()
        term = None if self._lease is None else self._lease.term
        if term is None:
            # Whoever held it may not know yet that it was deleted: what was seen counts on.
            self.holder = ""
            return
        self.holder = term.holder
        if term.holder in ("", self.identity):
            self._free_at = -math.inf
        elif term != self._seen:
            own = self._times.duration
            lasts = own if term.seconds is None else min(term.seconds, own * LONGEST_WAIT)
            self._seen_at = self._clock.monotonic()
            self._free_at = self._seen_at + lasts
        self._seen = term

    async def _keep_renewing(self) -> NoReturn:
        """Renew the Lease forever. Raises NotLeadingError if another process holds it."""
        pause = self._times.pause
        while True:
            await self._clock.sleep(pause)
            conflict = False
            try:
                await self._renew_lease()
            except (ClusterError, WireError) as error:
                self._failures += 1
                self._said.log(log.warning, "lease not renewed", error, lease=str(self._name))
                conflict = isinstance(error, Conflict)
            # Somebody has changed it: who holds it now is read at once.
            pause = 0.0 if conflict and pause else self._times.pause

    async def _renew_lease(self) -> None:
        known, self._lease = self._lease, None  # what became of it, the answer says
        if known is None:
            known = await self._read_lease()
            if known is not None and known.term.holder != self.identity:
                self._stop_leading(known.term.holder)
        mine = self._seen if known is None else known.term
        if mine is None:
            raise RuntimeError("nothing to renew: never elected")
        sent = self._clock.monotonic()
        await self._write_term(known, mine.renew_at(self._clock.wall()))
        self._note_renewal(sent)

    def _note_renewal(self, sent: float) -> None:
        self._renewal_sent = sent
        self._failures = 0
        self._gate.open_until(sent + self._times.window)

    def _stop_leading(self, holder: str) -> NoReturn:
        self._gate.shut()
        self.since, self.holder = None, holder
        raise NotLeadingError(
            f"not leading any more: the lease {self._name} is held by {holder or 'nobody'} now"
        )

    async def _read_lease(self) -> Lease | None:
        """Read the Lease; None if it does not exist. Raises ClusterError, WireError."""
        timeout = self._times.patience(self._failures)
        try:
            return await leases.read(self._cluster, self._name, timeout=timeout)
        except NotFound:
            return None

    async def _write_term(self, known: Lease | None, term: Term) -> None:
        """Write the term, if the Lease is unchanged. Raises ClusterError, WireError."""
        timeout = self._times.patience(self._failures)
        if known is None:
            self._lease = await leases.create(self._cluster, self._name, term, timeout=timeout)
        else:
            self._lease = await leases.replace(
                self._cluster, self._name, known, term, timeout=timeout
            )
        self._seen, self.holder = term, term.holder
