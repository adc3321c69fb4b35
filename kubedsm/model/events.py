"""What can happen to a cluster, as the mirror is told it."""

import attrs

from kubedsm.model.measured import Measured
from kubedsm.model.model import Node, NodeName, Pod, Uid
from kubedsm.model.surroundings import Key, Surrounding


@attrs.frozen(slots=True)
class PodApplied:
    """A pod was created or changed."""

    pod: Pod


@attrs.frozen(slots=True)
class PodDeleted:
    """A pod is gone: seen in a watch, or missing from a fresh list."""

    uid: Uid
    namespace: str
    name: str


@attrs.frozen(slots=True)
class HistoryRewound:
    """The cluster was restored from a backup: no version of a pod seen so far means anything."""


@attrs.frozen(slots=True)
class NodeApplied:
    node: Node


@attrs.frozen(slots=True)
class NodeDeleted:
    name: NodeName


@attrs.frozen(slots=True)
class SurroundingApplied:
    """A namespace, a claim, a volume or a storage class was created or changed."""

    thing: Surrounding


@attrs.frozen(slots=True)
class SurroundingDeleted:
    kind: type[Surrounding]
    key: Key


@attrs.frozen(slots=True)
class KindKnown:
    """We are told of everything of this kind: what we were not told of does not exist."""

    kind: type[Surrounding]


@attrs.frozen(slots=True)
class MeasuredApplied:
    """A sample was taken, or nothing is known any more: `NOTHING_MEASURED`."""

    measured: Measured


SurroundingEvent = SurroundingApplied | SurroundingDeleted | KindKnown
ClusterEvent = (
    PodApplied
    | PodDeleted
    | HistoryRewound
    | NodeApplied
    | NodeDeleted
    | SurroundingEvent
    | MeasuredApplied
)
