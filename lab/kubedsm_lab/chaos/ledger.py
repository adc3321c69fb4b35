"""I8 of the design: who held the Lease, and that nobody else began to write.

Judged when a write is sent. What is on its way then cannot be called back: its preconditions must
make it harmless.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import attrs

from kubedsm.kube.client.port import Cluster, Request, Response
from kubedsm.kube.client.write_gate import READS
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import LEASES
from kubedsm_lab.emulator.api.store import ObjectChange


@attrs.frozen
class Write:
    """One that was sent: when, on the loop's clock, and by whom."""

    at: float
    who: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} by {self.who} at {self.at:.2f} s"


class Ledger:
    """All writes but those of Leases, and who held the Lease since when.

    `duration`: seconds that the Lease lasts after each renewal.
    """

    def __init__(self, api: ApiServer, duration: float) -> None:
        self._duration = duration
        self.writes: list[Write] = []
        #: since when, and who: empty if nobody
        self.terms = [(0.0, "")]
        #: when it was renewed, by holder
        self.renewals: defaultdict[str, list[float]] = defaultdict(list)
        self.wrong: list[str] = []
        api.store.subscribe(self._notice)

    def before(self, cluster: Cluster, who: str) -> Cluster:
        """The cluster, as `who` has it."""
        return _Signed(cluster, self, who)

    def note(self, request: Request, who: str) -> None:
        """Judge a request that is sent."""
        if request.method in READS or "/leases" in request.path:
            return
        write = Write(_now(), who, request.method, request.path)
        self.writes.append(write)
        if who != self.holder:
            self.wrong.append(f"I8: {write}, while {self.holder or 'nobody'} held the Lease")
        elif write.at >= self.renewals[who][-1] + self._duration:
            self.wrong.append(f"I8: {write}, renewed at {self.renewals[who][-1]:.2f} s")

    def _notice(self, change: ObjectChange) -> None:
        if change.resource is not LEASES or change.type == "DELETED":
            return
        holder = change.object["spec"]["holderIdentity"]
        self.renewals[holder].append(_now())
        if holder != self.holder:
            self.terms.append((_now(), holder))

    @property
    def holder(self) -> str:
        return self.terms[-1][1]

    def since(self, who: str) -> float:
        """When it began to hold the Lease, the last time."""
        return next(since for since, holder in reversed(self.terms) if holder == who)

    def by(self, who: str) -> list[Write]:
        return [write for write in self.writes if write.who == who]


def _now() -> float:
    return asyncio.get_running_loop().time()


@attrs.frozen
class _Signed:
    cluster: Cluster
    ledger: Ledger
    who: str

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.ledger.note(request, self.who)
        return await self.cluster.request(request, timeout=timeout)

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.cluster.stream(request, timeout=timeout)
