"""Reads and writes of the Lease for leader election.

Responses of a real API server 1.36 are recorded in the contract test's scene lease.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs
import msgspec

from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import LEASES, TIMEOUT, Cluster, NotFound, ObjectName, path_of
from kubedsm.kube.wire.decoding import read_json
from kubedsm.process.clock import rfc3339


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@attrs.frozen(slots=True)
class Term:
    """Holder and times of a leader-election Lease; equal values stand for the same renewal."""

    #: empty if the Lease is free
    holder: str
    #: duration in seconds after each renewal; None if the Lease names none
    seconds: float | None
    #: RFC 3339, for people: never compared with a clock
    acquired: str
    renewed: str
    #: number of changes of holder
    transitions: int

    @property
    def renewed_at(self) -> float | None:
        """Time of the last renewal in seconds since the epoch; None if absent or malformed."""
        try:
            return datetime.fromisoformat(self.renewed).timestamp()
        except ValueError:
            return None

    def renew_at(self, wall: float) -> "Term":
        return attrs.evolve(self, renewed=rfc3339(wall))

    def release_at(self, wall: float) -> "Term":
        """Return a released term: no holder, and 1 s duration for clients comparing only times."""
        return attrs.evolve(self.renew_at(wall), holder="", seconds=1.0)


class Lease(msgspec.Struct, frozen=True):
    #: with the resourceVersion, the precondition of a write
    metadata: dict[str, Any] = {}
    spec: _Spec = _Spec()

    @property
    def term(self) -> Term:
        spec, seconds = self.spec, self.spec.lease_duration_seconds
        return Term(
            holder=spec.holder_identity or "",
            seconds=float(seconds) if seconds is not None and seconds > 0 else None,
            acquired=spec.acquire_time or "",
            renewed=spec.renew_time or "",
            transitions=spec.lease_transitions or 0,
        )


def term_of(holder: str, seconds: float, wall: float, transitions: int) -> Term:
    """Return the Lease content for a holder that acquires the Lease at `wall`, in epoch seconds."""
    now = rfc3339(wall)
    return Term(holder, math.ceil(seconds), now, now, transitions)


async def read(cluster: Cluster, name: ObjectName, *, timeout: float = TIMEOUT) -> Lease | None:
    """Read the Lease; None if absent."""
    path = path_of(LEASES, name.namespace, "leases", name.name)
    try:
        return read_json("Lease", await send(cluster, "GET", path, timeout=timeout), Lease)
    except NotFound:
        return None


async def write(
    cluster: Cluster,
    name: ObjectName,
    known: Lease | None,
    term: Term,
    *,
    timeout: float = TIMEOUT,
    annotations: Mapping[str, str] | None = None,
) -> Lease:
    """Update the Lease, or create the Lease if absent at the last read; set annotations, if any.

    Raises Conflict if it changed since `known`, NotFound if it or its namespace does not exist.
    """
    if known is None:
        method, path = "POST", path_of(LEASES, name.namespace, "leases")
        metadata: dict[str, Any] = {"name": name.name, "namespace": name.namespace}
    else:
        method, path = "PUT", path_of(LEASES, name.namespace, "leases", name.name)
        metadata = known.metadata
    if annotations:
        kept = metadata.get("annotations") or {}
        metadata = {**metadata, "annotations": {**kept, **annotations}}
    body = {
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
    return read_json("Lease", await send(cluster, method, path, body, timeout=timeout), Lease)
