"""A site of the demo's edge that is cut off in the middle, and what is counted of that."""

from collections.abc import Sequence

import attrs

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.replay.capacity import evicts_by_taint, serving, up_to_wanted, wanted

SITE, NODES = "north", ("edge-1", "edge-2")
#: of the site, seconds: 2 minutes in the shortened day
SETTLE = 6.0
_LABEL = {"kubedsm.io/site": SITE}
#: parts of the demo: when it is cut off, and when it is back
BEGINS, ENDS = 0.25, 0.65


@attrs.frozen(slots=True)
class Disconnection:
    """How it went so far."""

    site: str
    nodes: Sequence[str]
    #: seconds from the start of the demo
    begins: float
    ends: float
    away: bool
    #: since it began, of the pods that are wanted, the part that served: on average, and at least
    serving: float
    lowest: float
    #: pods that Kubernetes deleted, and replaced, for it did not hear of them
    evicted: int
    #: moves begun since, each of which creates a pod
    moves: int = 0


def with_site(spec: ClusterSpec) -> ClusterSpec:
    """The same with some of the nodes at that site."""

    def labelled(node: Object) -> Object:
        metadata = node["metadata"]
        if metadata["name"] not in NODES:
            return node
        return {**node, "metadata": {**metadata, "labels": {**metadata["labels"], **_LABEL}}}

    return attrs.evolve(spec, nodes=tuple(map(labelled, spec.nodes)))


@attrs.define
class Course:
    """Cuts the site off, and counts; subscribe `notice` to the cluster's store."""

    cluster: EmulatedCluster
    begins: float
    ends: float
    _away: bool = attrs.field(default=False, init=False)
    #: of each look: which part of the wanted pods served
    _parts: list[float] = attrs.field(factory=list, init=False)
    _evicted: int = attrs.field(default=0, init=False)

    def notice(self, change: ObjectChange) -> None:
        self._evicted += evicts_by_taint(change)

    def look(self, elapsed: float) -> Disconnection:
        """Do what is due, and tell how it went so far."""
        away = self.begins <= elapsed < self.ends
        if away is not self._away:
            self._away = away
            (self.cluster.disconnect if away else self.cluster.reconnect)(*NODES)
        if elapsed >= self.begins:
            self._parts.append(self._serving())
        parts = self._parts or [1.0]
        return Disconnection(
            SITE,
            NODES,
            self.begins,
            self.ends,
            away,
            sum(parts) / len(parts),
            min(parts),
            self._evicted,
        )

    def _serving(self) -> float:
        replicas = wanted(self.cluster)
        return up_to_wanted(serving(self.cluster), replicas) / max(1, sum(replicas.values()))
