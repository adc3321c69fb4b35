"""Test oracle of leadership (I8): one process at a time writes, and it keeps its Lease."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import attrs

from kubedsm.kube.client.port import ClusterFront, Request, Response
from kubedsm_lab.chaos.faults import loop_time
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import LEASES
from kubedsm_lab.emulator.api.store import ObjectChange

#: methods that change nothing; the product's own list is under test
_READS = frozenset({"GET", "HEAD"})


@attrs.frozen
class Write:
    """Write request to the API server: time of sending (loop clock, seconds), sender and path."""

    at: float
    who: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} by {self.who} at {self.at:.2f} s"


class Ledger:
    """Test oracle for I8 (writes by the leader only): records all write requests and the terms of
    the Lease's holders.

    Lease renewals are not recorded. `duration` is the Lease's duration in seconds.
    """

    def __init__(self, api: ApiServer, duration: float) -> None:
        self._duration = duration
        self.writes: list[Write] = []
        #: start and holder of each term; "" for no holder
        self.terms = [(0.0, "")]
        #: times of renewals by holder
        self.renewals: defaultdict[str, list[float]] = defaultdict(list)
        self.wrong: list[str] = []
        api.store.subscribe(self._notice)

    def judge_request(self, request: Request, who: str) -> None:
        """Check that the scheduler holds the Lease when sending a write request."""
        if request.method in _READS or "/leases" in request.path:
            return
        write = Write(loop_time(), who, request.method, request.path)
        self.writes.append(write)
        if who != self.holder:
            self.wrong.append(f"I8: {write}, while {self.holder or 'nobody'} held the Lease")
        elif write.at >= self.renewals[who][-1] + self._duration:
            self.wrong.append(f"I8: {write}, renewed at {self.renewals[who][-1]:.2f} s")

    def _notice(self, change: ObjectChange) -> None:
        if change.resource is not LEASES or change.type == "DELETED":
            return
        holder = change.object["spec"]["holderIdentity"]
        self.renewals[holder].append(loop_time())
        if holder != self.holder:
            self.terms.append((loop_time(), holder))

    def check_renewals(self) -> Iterator[str]:
        """Yield the leaders that led on without a renewal for half the Lease's duration.

        A single lost request must not keep a leader from writing for so long.
        """
        for who, times in self.renewals.items():
            if not who:
                continue  # the Lease was released
            gap, at = max(((b - a, a) for a, b in pairwise(times)), default=(0.0, 0.0))
            if gap > self._duration / 2:
                yield f"I8: {who} did not renew the Lease for {gap:.1f} s from {at:.2f} s on"

    @property
    def holder(self) -> str:
        return self.terms[-1][1]

    def since(self, who: str) -> float:
        """Return the start (seconds) of the last term in which the scheduler held the Lease."""
        return next(since for since, holder in reversed(self.terms) if holder == who)

    def by(self, who: str) -> list[Write]:
        return [write for write in self.writes if write.who == who]


@attrs.define(eq=False)
class LedgerCluster(ClusterFront):
    """Cluster connection of the scheduler `who`, with its writes recorded."""

    ledger: Ledger
    who: str

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.ledger.judge_request(request, self.who)
        return await self.cluster.request(request, timeout=timeout)
