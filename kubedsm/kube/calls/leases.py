"""The Lease by which replicas agree on which of them acts.

What a real API server 1.36 makes of these requests is recorded in the contract test's scene lease.
"""

import math
from datetime import UTC, datetime
from typing import Any

import attrs
import msgspec

from kubedsm.kube.client.api_errors import body_of
from kubedsm.kube.client.paths import LEASES, path_of
from kubedsm.kube.client.port import Cluster, Request
from kubedsm.kube.wire.errors import UNREADABLE, unreadable


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}
    spec: _Spec = _Spec()


@attrs.frozen(slots=True)
class Term:
    """Who holds it. Two that are equal are the same renewal."""

    #: empty if nobody does
    holder: str
    #: seconds that it is the holder's after each renewal; None if it does not say
    seconds: float | None
    #: RFC 3339, for people: nobody compares them with clocks of their own
    acquired: str
    renewed: str
    #: how often it went from one holder to another
    transitions: int

    def renewed_at(self, wall: float) -> "Term":
        return attrs.evolve(self, renewed=_moment(wall))

    def released_at(self, wall: float) -> "Term":
        """Nobody's: in a moment, for those who look at nothing but the time."""
        return attrs.evolve(self.renewed_at(wall), holder="", seconds=1.0)


@attrs.frozen(slots=True)
class Lease:
    term: Term
    #: as it was read, its resourceVersion included: what a write is conditional on
    metadata: dict[str, Any]


@attrs.frozen(slots=True)
class LeaseName:
    namespace: str = "kubedsm"
    name: str = "kubedsm"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def term_of(holder: str, seconds: float, wall: float, transitions: int) -> Term:
    """A term that begins now: `wall`, seconds since the epoch."""
    now = _moment(wall)
    return Term(holder, math.ceil(seconds), now, now, transitions)


async def read(cluster: Cluster, lease: LeaseName, *, timeout: float) -> Lease:
    """The Lease as it is now. Raises NotFound, WireError."""
    path = path_of(LEASES, lease.namespace, "leases", lease.name)
    return _lease(body_of(await cluster.request(Request("GET", path), timeout=timeout)))


async def create(cluster: Cluster, lease: LeaseName, term: Term, *, timeout: float) -> Lease:
    """Raises Conflict if there is one, NotFound if there is no such namespace."""
    path = path_of(LEASES, lease.namespace, "leases")
    body = _body({"name": lease.name, "namespace": lease.namespace}, term)
    return _lease(body_of(await cluster.request(Request("POST", path, body=body), timeout=timeout)))


async def replace(
    cluster: Cluster, lease: LeaseName, known: Lease, term: Term, *, timeout: float
) -> Lease:
    """Raises Conflict if it was changed since `known` was read, NotFound if it is gone."""
    path = path_of(LEASES, lease.namespace, "leases", lease.name)
    request = Request("PUT", path, body=_body(known.metadata, term))
    return _lease(body_of(await cluster.request(request, timeout=timeout)))


def _body(metadata: dict[str, Any], term: Term) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": term.holder,
            "leaseDurationSeconds": int(term.seconds or 1),
            "acquireTime": term.acquired,
            "renewTime": term.renewed,
            "leaseTransitions": term.transitions,
        },
    }


def _lease(body: bytes) -> Lease:
    try:
        read = msgspec.json.decode(body, type=_Lease)
    except UNREADABLE as error:
        raise unreadable("Lease", error, body) from None
    spec = read.spec
    seconds = spec.lease_duration_seconds
    term = Term(
        holder=spec.holder_identity or "",
        seconds=float(seconds) if seconds is not None and seconds > 0 else None,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
    )
    return Lease(term, read.metadata)


def _moment(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
