"""Cluster events that the mirror applies, and the resulting changes of the mirror."""

from typing import Literal

import msgspec

from kubedsm.model.measured import Measured
from kubedsm.model.model import Node, NodeName, Pod, Resources, Uid
from kubedsm.model.surroundings import Key, Surrounding


class PodApplied(msgspec.Struct, frozen=True, gc=False):
    """Cluster event: a pod was created or changed."""

    pod: Pod


class PodDeleted(msgspec.Struct, frozen=True, gc=False):
    """Event: a pod was deleted, or is missing from a complete new list of pods."""

    uid: Uid
    namespace: str
    name: str


class HistoryRewound(msgspec.Struct, frozen=True, gc=False):
    """Event: the cluster was restored from a backup, so observed resource versions are void."""

    #: kind of the objects; None for pods
    kind: type[Surrounding] | None = None


class NodeApplied(msgspec.Struct, frozen=True, gc=False):
    node: Node


class NodeDeleted(msgspec.Struct, frozen=True, gc=False):
    name: NodeName


class SurroundingApplied(msgspec.Struct, frozen=True, gc=False):
    """Event: a namespace, claim, volume, storage class or CSI node was created or changed."""

    thing: Surrounding


class SurroundingDeleted(msgspec.Struct, frozen=True, gc=False):
    kind: type[Surrounding]
    key: Key


class KindKnown(msgspec.Struct, frozen=True, gc=False):
    """Event: all objects of one kind, such as PersistentVolumes, have been listed."""

    kind: type[Surrounding]


class NodeAvoided(msgspec.Struct, frozen=True, gc=False):
    """Event: provisioning a claim's volume failed for the node, or may be tried there again."""

    claim: Key
    node: NodeName
    avoided: bool


class MeasuredApplied(msgspec.Struct, frozen=True, gc=False):
    """Event: a measurement was taken, or measurements are lost (`NOTHING_MEASURED`)."""

    measured: Measured


ClusterEvent = (
    PodApplied
    | PodDeleted
    | HistoryRewound
    | NodeApplied
    | NodeDeleted
    | SurroundingApplied
    | SurroundingDeleted
    | KindKnown
    | NodeAvoided
    | MeasuredApplied
)


#: digits of a 64-bit number
_DIGITS = 20
#: kinds of change
Matter = Literal["room", "node", "pod", "surrounding"]


class Freed(msgspec.Struct, frozen=True, gc=False):
    """Capacity released on a node by a change; negative for resources used more after the
    change.
    """

    node: NodeName
    amount: Resources


class Change(msgspec.Struct, frozen=True, gc=False):
    """Change of the cluster mirror by one event or released reservation: affected object before and
    after; equal if unchanged.
    """

    pod_before: Pod | None = None
    pod_after: Pod | None = None
    node_before: Node | None = None
    node_after: Node | None = None
    surrounding_before: Surrounding | None = None
    surrounding_after: Surrounding | None = None
    #: kind whose objects are all known from now on
    known: type[Surrounding] | None = None
    freed: Freed | None = None
    #: measurements before and after
    measured_before: Measured | None = None
    measured_after: Measured | None = None

    @property
    def matters(self) -> set[Matter]:
        """Kinds of change that may make pending pods schedulable: free capacity, node, pod, or
        surrounding object; empty for none.
        """
        matters: set[Matter] = set()
        if self.freed is not None:
            matters.add("room")
        if self.node_before != self.node_after:
            matters.add("node")
        if self.surrounding_before != self.surrounding_after:
            matters.add("surrounding")
        before, after = self.there_before, self.there_after
        if (before is None) != (after is None) or (
            before is not None
            and after is not None
            and (before.labels != after.labels or before.terminating != after.terminating)
        ):
            matters.add("pod")
        return matters

    @property
    def there_before(self) -> Pod | None:
        """Pod as it occupied a node before the change; None if the pod occupied no node."""
        return _keep_holding(self.pod_before)

    @property
    def there_after(self) -> Pod | None:
        return _keep_holding(self.pod_after)

    @property
    def gone(self) -> Pod | None:
        """Pod that no longer occupies a node because of the change, or None."""
        return self.there_before if self.there_after is None else None

    @property
    def node_left(self) -> bool:
        return self.node_before is not None and self.node_after is None

    @property
    def node_relabelled(self) -> bool:
        before, after = self.node_before, self.node_after
        return before is not None and after is not None and before.labels != after.labels


def is_older(version: str, other: str) -> bool:
    """Return True if the first resourceVersion is older than the second; False unless both are
    numbers.
    """
    if len(version) == len(other) and version >= other:
        return False  # the usual case: numbers of one length are ordered like text
    if not (version.isdecimal() and other.isdecimal() and version.isascii() and other.isascii()):
        return False
    return max(len(version), len(other)) <= _DIGITS and int(version) < int(other)


def _keep_holding(pod: Pod | None) -> Pod | None:
    return pod if pod is not None and pod.held else None
