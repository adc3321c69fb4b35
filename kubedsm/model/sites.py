"""Edge sites (groups of edge nodes by label), and the consequences of a network partition of a
site.

All nodes of a site unreachable together do not mean that anything has died: kubelets continue to
run their pods. Single nodes are not partitions, nor nodes that report Ready False.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Taint, Tier, Workload, shares_after
from kubedsm.model.node_index import site_of
from kubedsm.model.snapshot import Snapshot

#: the first label that an edge node carries names the site
SITE_LABELS = ("kubedsm.io/site", "topology.kubernetes.io/zone")
#: taint of a node whose Ready condition is Unknown
_UNREACHABLE = "node.kubernetes.io/unreachable"
#: key of a taint in snapshots only, which keeps pods away and explains why
AWAY_TAINT = "kubedsm.io/site"
#: a site of fewer nodes cannot be distinguished from a lost node
_FEWEST = 2


def sites_of(nodes: Iterable[Node], labels: Sequence[str]) -> dict[str, list[Node]]:
    """Group the edge nodes by site."""
    sites = defaultdict[str, list[Node]](list)
    for node in nodes:
        if site := site_of(node, labels):
            sites[site].append(node)
    return dict(sites)


def is_partitioned(nodes: Sequence[Node]) -> bool:
    """Return True if the site counts as partitioned: all of its nodes are unreachable."""
    return len(nodes) >= _FEWEST and all(map(is_unreachable, nodes))


def is_unreachable(node: Node) -> bool:
    return any(taint.key == _UNREACHABLE for taint in node.taints)


@attrs.frozen(slots=True)
class Away:
    """Edge sites that are partitioned from the cluster, or not yet stable after a partition, with
    the workloads of their pods.
    """

    #: nodes by site
    partitioned: Mapping[str, frozenset[NodeName]] = attrs.field(factory=dict)
    stabilising: Mapping[str, frozenset[NodeName]] = attrs.field(factory=dict)
    #: workloads with pods there now, or at the time of the partition
    workloads: frozenset[Workload] = frozenset()
    #: terminating pods of each workload at partitioned sites, which go on serving,
    #: since their kubelets are unreachable
    serving: Mapping[Workload, int] = attrs.field(factory=dict)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, labels: Sequence[str]) -> "Away":
        """Determine the partitioned edge sites from a snapshot alone, without history."""
        sites = sites_of(snapshot.nodes.values(), labels)
        partitioned = {
            s: frozenset(n.name for n in there)
            for s, there in sites.items()
            if is_partitioned(there)
        }
        names = frozenset[NodeName]().union(*partitioned.values())
        return cls.of(
            partitioned, {}, (pod for pod in snapshot.pods.values() if pod.node_name in names)
        )

    @classmethod
    def of(
        cls,
        partitioned: Mapping[str, frozenset[NodeName]],
        stabilising: Mapping[str, frozenset[NodeName]],
        at_partitioned: Iterable[Pod],
        workloads: Iterable[Workload] = (),
    ) -> "Away":
        """Construct from lists of sites with their nodes; at_partitioned: pods on nodes of
        partitioned sites.
        """
        serving = defaultdict[Workload, int](int)
        there = set(workloads)
        for pod in at_partitioned:
            there.add(pod.workload)
            if pod.terminating and not pod.finished:
                serving[pod.workload] += 1
        return cls(partitioned, stabilising, frozenset(there), dict(serving))

    def __bool__(self) -> bool:
        return bool(self.partitioned or self.stabilising)

    @property
    def partitioned_nodes(self) -> frozenset[NodeName]:
        return frozenset[NodeName]().union(*self.partitioned.values())

    @property
    def nodes(self) -> frozenset[NodeName]:
        return self.partitioned_nodes.union(*self.stabilising.values())

    def close_sites(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the unavailable edge sites closed to new pods; their running
        pods still count.
        """
        why = {
            name: f"{site} {state}"
            for sites, state in (
                (self.partitioned, "is partitioned"),
                (self.stabilising, "is stabilising"),
            )
            for site, names in sites.items()
            for name in names
        }
        return self._close_nodes(snapshot, why)

    def in_cloud(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot in which only cloud nodes accept pods, for replacing the pods of
        partitioned edge sites.
        """
        why = f"{', '.join(self.partitioned)} partitioned, its pods are replaced in the cloud"
        return self._close_nodes(snapshot, {node.name: why for node in snapshot.of_tier(Tier.EDGE)})

    def _close_nodes(self, snapshot: Snapshot, why: Mapping[NodeName, str]) -> Snapshot:
        taints = {name: Taint(AWAY_TAINT, said, "NoSchedule") for name, said in why.items()}
        counted = shares_after(snapshot.census.shares, self.serving)
        return snapshot.with_taints(taints).with_shares(counted)

    def close_waiting(self, snapshot: Snapshot) -> Snapshot:
        """Close unavailable edge sites to new pods, and gate pending pods of their workloads so no
        capacity is released for them.
        """
        return self.close_sites(snapshot).with_gated(lambda pod: pod.workload in self.workloads)


NOTHING_AWAY = Away()
