"""Leader election: of all processes with the same Lease, only the holder may write.

Rules.
1. The holder renews the Lease with optimistic concurrency (resourceVersion). A successful renewal
   proves uninterrupted leadership since the previous renewal.
2. The holder may write during a *window* after sending a renewal. Without a renewal, writes stop
   until renewals succeed again.
3. A standby acquires the Lease after one whole duration without a renewal, on the standby's own
   monotonic clock, or immediately after a release. Wall clocks are never compared. A duration above
   `LONGEST_WAIT` times the standby's own duration is capped.
4. The window is at most a fifth of the duration. Hence no write remains in flight at a takeover,
   even if the holder's clock runs at half speed and the standby's clock at double speed.
5. A holder that observes another holder terminates, since the remembered state is obsolete.

Source: client-go's leaderelection, with the same Lease format and settings. client-go terminates
after `renew_deadline`; this implementation pauses instead until another process takes over.
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
from kubedsm.kube.calls.leases import Lease, Term
from kubedsm.kube.client.port import Cluster, ClusterError, Conflict, NotFound, ObjectName
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.terminal.problems import Problem

log = structlog.get_logger()

#: of the duration: another's clock may run four times as fast as the holder's, and a twentieth of
#: the duration is left for what is on its way
WINDOW = 0.2
#: minimum renewals per window: individual failures remain harmless
RENEWALS = 3
#: reads by a standby per retry period: a released Lease is acquired within the period
LOOKS = 2
#: limit of the wait for an expired Lease, as a multiple of the standby's own duration: a
#: duration of years is a mistake, and would keep every replica waiting
LONGEST_WAIT = 10
#: seconds after which a standby reports an expired Lease
LONG_WAIT = 60.0


class NotLeadingError(Problem):
    """Error: another process holds the Lease, or the leader cannot be determined."""


@attrs.frozen(slots=True)
class LeaseTimes:
    """Durations of leader election in seconds, with kube-scheduler's defaults."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def window(self) -> float:
        """Seconds after a renewal request during which the Lease holder may write to the
        cluster.
        """
        return min(self.renew_deadline, self.duration * WINDOW)

    @property
    def pause(self) -> float:
        """Seconds between two renewals of the Lease by the leader."""
        return min(self.retry_period, self.window / RENEWALS)

    @property
    def look(self) -> float:
        """Seconds that a standby waits between two reads of the Lease."""
        return self.retry_period / LOOKS

    def patience(self, failures: int) -> float:
        """Return the time limit of a Lease request in seconds, after a number of consecutive failed
        requests: as long as the window is open, as the API server may be slow.
        """
        return min((self.window - self.pause) * (1 + failures), self.renew_deadline / 2)


def identity_of(hostname: str) -> str:
    """Return a unique leader-election identity of this process, different after a restart."""
    return f"{hostname}_{uuid.uuid4()}"


def host_of(identity: str) -> str:
    """Return the host part of a leader-election identity: in a cluster, the pod's name."""
    return identity.partition("_")[0]


class Elector:
    """Candidate of the leader election: opens this process's write gate while the Lease is held.

    Requests for the Lease bypass the gate, and have individual timeouts.
    """

    def __init__(
        self,
        cluster: Cluster,
        gate: WriteGate,
        clock: Clock,
        lease: ObjectName,
        times: LeaseTimes,
        identity: str,
    ) -> None:
        self._cluster = cluster
        self._gate = gate
        self._clock = clock
        self._name = lease
        self._times = times
        self._throttle = LogThrottle(clock)
        self.identity = identity
        #: last known holder of the Lease; empty without a holder
        self.holder = ""
        #: beginning of leadership, in seconds since the epoch; None for a standby
        self.since: float | None = None
        #: set at the first acquisition
        self.elected = asyncio.Event()
        #: set when the first attempt to acquire the Lease has ended
        self.tried = asyncio.Event()
        #: last read or written state; None if absent or unknown
        self._lease: Lease | None = None
        self._seen: Term | None = None
        self._seen_at = -math.inf
        #: monotonic time at which an unchanged Lease expires
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
        """Context manager: acquire the Lease for the block, and release the Lease afterwards.

        If the holder seems dead, wait for the end of the Lease, and report that by `tell`. Raises
        NotLeadingError if the holder is alive or another takes over, and ClusterError.
        """
        seen: Term | None = None
        while (wait := await self._try_acquire()) > 0:
            if self.holder and seen not in (None, self._seen):
                raise NotLeadingError(f"{self.holder} holds the lease {self._name}, and renews it")
            if seen is None:
                tell(f"{self.holder} holds the lease {self._name}: checking whether it is alive")
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
        """Release the Lease, once all earlier writes of this process have arrived or failed.

        Requires that writes and renewals have ended.
        """
        await self._gate.settle()
        try:
            lease = await self._read_lease()
            if lease is not None and lease.term.holder == self.identity:
                term = lease.term.release_at(self._clock.wall())
                await self._write_term(lease, term)
                log.info("lease released", lease=str(self._name))
        except ClusterError as error:
            log.warning("lease not released", lease=str(self._name), error=str(error))
        self.since = None

    async def _stand_by(self) -> None:
        """Wait as a standby until this process acquires the Lease."""
        told, warned = "", None
        while True:
            wait = self._times.look
            try:
                free_in = await self._try_acquire()
            except (ClusterError, NotLeadingError) as error:
                self._failures += 1
                self._throttle.log(log.warning, "not elected", error, lease=str(self._name))
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
            finally:
                self.tried.set()
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
        """Acquire the Lease if free, and return 0; otherwise return the seconds until expiry."""
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
            return self._times.look  # another candidate was faster
        except NotFound:
            if known is None:
                where = f"namespace {self._name.namespace} is not there"
                raise NotLeadingError(f"no lease {self._name}: {where}") from None
            return self._times.look  # deleted meanwhile
        self._note_renewal(sent, wall)
        self.since = wall
        log.info("leading", lease=str(self._name), identity=self.identity, transitions=changes)
        self.elected.set()
        return 0.0

    async def _observe_lease(self) -> None:
        """Read the Lease, and compute when the Lease expires unless the holder renews again."""
        self._lease = await self._read_lease()
        term = None if self._lease is None else self._lease.term
        if term is None:
            # The former holder may not know of the deletion: the observed expiry remains valid.
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
        pause = self._seconds_to_renewal()
        while True:
            await self._clock.sleep(pause)
            try:
                await self._renew_lease()
                pause = self._seconds_to_renewal()
            except ClusterError as error:
                self._failures += 1
                self._throttle.log(log.warning, "lease not renewed", error, lease=str(self._name))
                # Try again immediately: the window ends, or another client changed the Lease.
                pause = 0.0 if self._failures % 2 else self._times.pause

    def _seconds_to_renewal(self) -> float:
        return max(0.0, self._renewal_sent + self._times.pause - self._clock.monotonic())

    async def _renew_lease(self) -> None:
        known, self._lease = self._lease, None  # unknown until the response arrives
        if known is None:
            known = await self._read_lease()
            if known is not None and known.term.holder != self.identity:
                self._stop_leading(known.term.holder)
        mine = self._seen  # as last written here, whatever users have written since
        if mine is None:
            raise RuntimeError("nothing to renew: never elected")
        sent, wall = self._clock.monotonic(), self._clock.wall()
        await self._write_term(known, mine.renew_at(wall))
        self._note_renewal(sent, wall)

    def _note_renewal(self, sent: float, wall: float) -> None:
        self._renewal_sent = sent
        self._failures = 0
        window = self._times.window
        self._gate.open_until(sent + window, wall + window)

    def _stop_leading(self, holder: str) -> NoReturn:
        self._gate.shut()
        self.since, self.holder = None, holder
        raise NotLeadingError(
            f"not leading any more: the lease {self._name} is held by {holder or 'nobody'} now"
        )

    async def _read_lease(self) -> Lease | None:
        """Read the Lease; None if absent. Raises ClusterError."""
        timeout = self._times.patience(self._failures)
        return await leases.read(self._cluster, self._name, timeout=timeout)

    async def _write_term(self, known: Lease | None, term: Term) -> None:
        """Write a term to the Lease with optimistic concurrency. Raises ClusterError."""
        timeout = self._times.patience(self._failures)
        self._lease = await leases.write(self._cluster, self._name, known, term, timeout=timeout)
        self._seen, self.holder = term, term.holder
