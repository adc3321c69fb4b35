"""Disconnection of an edge site in the middle of the demo, and its effects."""

from collections.abc import Sequence

import attrs

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.replay.capacity import evicts_by_taint, list_serving, list_wanted, up_to_wanted

SITE, NODES = "north", ("edge-1", "edge-2")
#: stabilisation period of the site in seconds: 2 minutes, shortened
SETTLE = 6.0
_LABEL = {"kubedsm.io/site": SITE}
#: beginning and end as parts of the demo
BEGINS, ENDS = 0.25, 0.65


@attrs.frozen(slots=True)
class Disconnection:
    """Disconnection until now."""

    site: str
    nodes: Sequence[str]
    #: seconds from the start of the demo
    begins: float
    ends: float
    away: bool
    #: serving part of the wanted pods since the beginning: mean and least
    serving: float
    lowest: float
    #: pods that Kubernetes evicted as unreachable
    evicted: int
    #: migrations begun since
    moves: int = 0


def with_site(spec: ClusterSpec) -> ClusterSpec:
    """Label some nodes with the site."""

    def labelled(node: Object) -> Object:
        metadata = node["metadata"]
        if metadata["name"] not in NODES:
            return node
        return {**node, "metadata": {**metadata, "labels": {**metadata["labels"], **_LABEL}}}

    return attrs.evolve(spec, nodes=tuple(map(labelled, spec.nodes)))


@attrs.define
class Course:
    """Disconnects the site on time; `notice` subscribes to the cluster's store."""

    cluster: EmulatedCluster
    begins: float
    ends: float
    _away: bool = attrs.field(default=False, init=False)
    #: serving part of the wanted pods at each call
    _parts: list[float] = attrs.field(factory=list, init=False)
    _evicted: int = attrs.field(default=0, init=False)

    def notice(self, change: ObjectChange) -> None:
        self._evicted += evicts_by_taint(change)

    def look(self, elapsed: float) -> Disconnection:
        """Disconnect or reconnect if due; return the state."""
        away = self.begins <= elapsed < self.ends
        if away is not self._away:
            self._away = away
            (self.cluster.disconnect if away else self.cluster.reconnect)(*NODES)
        if elapsed >= self.begins:
            self._parts.append(self._serving_share())
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

    def _serving_share(self) -> float:
        replicas = list_wanted(self.cluster)
        return up_to_wanted(list_serving(self.cluster), replicas) / max(1, sum(replicas.values()))
