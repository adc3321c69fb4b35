"""Hypothetical changes in a what-if request, and the snapshot and configuration that would result.

Nodes can be drained, lost, cordoned or added; workloads can have other QoS or latency targets,
requests or replica counts. Nothing is carried out.
"""

from collections.abc import Iterator, Mapping

import attrs

from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Node, NodeName, Pod, PodClass, Resources, Uid, Workload
from kubedsm.model.snapshot import Snapshot

#: prefix of the uids of added pods
ADDED = "what-if/"
#: kinds whose pods belong to one node: nothing starts the pods on another
_OF_A_NODE = ("DaemonSet", "Node")
#: kind of pods without a controller, which nothing starts again
UNMANAGED = "Pod"


@attrs.frozen(slots=True)
class Hypothesis:
    """Hypothetical changes of nodes and workloads; empty for the cluster as it is."""

    #: QoS factors, and latency targets in seconds, by the keys of `services`
    qos: tuple[tuple[str, float], ...] = ()
    latency: tuple[tuple[str, float], ...] = ()
    #: number of added pods by workload; negative: removed
    replicas: tuple[tuple[Workload, int], ...] = ()
    #: changed requests of each pod, by workload and resource: millicores, bytes
    requests: tuple[tuple[Workload, Mapping[str, int]], ...] = ()
    drained: frozenset[NodeName] = frozenset()
    #: pods that stay on drained nodes, because PodDisruptionBudgets allow no eviction
    kept: frozenset[Uid] = frozenset()
    lost: frozenset[NodeName] = frozenset()
    cordoned: frozenset[NodeName] = frozenset()
    #: number of added nodes, by the node that the new nodes equal
    added: tuple[tuple[NodeName, int], ...] = ()

    def configure(self, configuration: Configuration) -> Configuration:
        """Return the configuration with the hypothetical targets."""
        services = dict(configuration.services)
        for key, factor in self.qos:
            service = services.get(key, Service())
            services[key] = attrs.evolve(service, qos=factor, latency_target=None)
        for key, seconds in self.latency:
            service = services.get(key, Service())
            services[key] = attrs.evolve(service, qos=None, latency_target=seconds)
        return attrs.evolve(configuration, services=services)

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot after the changes of nodes and pods; pods that would start again
        elsewhere wait for a node.
        """
        if attrs.evolve(self, qos=(), latency=()) == Hypothesis():
            return snapshot
        stopped = self._stop_pods(snapshot)
        nodes, free = dict(snapshot.nodes), dict(snapshot.without(stopped).free)
        # The cluster may have changed since the request: a node may be gone.
        for name in (self.drained | self.cordoned) & nodes.keys():
            nodes[name] = attrs.evolve(nodes[name], unschedulable=True)
        for name in self.lost & nodes.keys():
            del nodes[name], free[name]
        for node in self._new_nodes(snapshot):
            nodes[node.name], free[node.name] = node, node.allocatable
        placed = {uid: node for uid, node in snapshot.placed.items() if uid not in stopped}
        pods = {uid: pod for uid, pod in snapshot.pods.items() if uid not in stopped}
        pods |= {uid: pod for uid, pod in stopped.items() if pod is not None}
        for workload, number in self.replicas:
            newest = _find_newest(snapshot, workload)
            if newest is not None:
                changed = attrs.evolve(newest, pod_class=self._class_of(newest))
                pods |= {pod.uid: pod for pod in _copies(changed, number, snapshot.at)}
        return attrs.evolve(
            snapshot, nodes=nodes, pods=pods, free=free, placed=placed, counted=None
        )

    def _stop_pods(self, snapshot: Snapshot) -> dict[Uid, Pod | None]:
        """Return the pods that would stop, each as the pending pod that starts instead; None for
        pods that nothing starts again.

        A change of requests restarts all pods of a workload, as a rollout does.
        """
        removed = set(self._list_removed(snapshot))
        restarted = {workload for workload, _ in self.requests}
        stopped: dict[Uid, Pod | None] = {}
        for uid, pod in snapshot.pods.items():
            node = snapshot.placed.get(uid)
            kind = pod.workload.kind
            evicted = node in self.lost or (uid not in self.kept and self.drains(pod, snapshot))
            ours = snapshot.is_replica(pod)
            if uid in removed or (evicted and (not ours or kind in (*_OF_A_NODE, UNMANAGED))):
                stopped[uid] = None
            elif evicted or (ours and pod.workload in restarted):
                pod_class = self._class_of(pod)
                stopped[uid] = attrs.evolve(
                    pod, pod_class=pod_class, node_name=None, phase="Pending", ready=False
                )
        return stopped

    def drains(self, pod: Pod, snapshot: Snapshot) -> bool:
        """Return True if a drain evicts the pod, subject to its PodDisruptionBudgets."""
        is_movable = pod.workload.kind not in _OF_A_NODE
        return is_movable and snapshot.placed.get(pod.uid) in self.drained

    def _class_of(self, pod: Pod) -> PodClass:
        """Return the pod's class with the hypothetical requests."""
        amounts = dict(self.requests).get(pod.workload)
        if amounts is None:
            return pod.pod_class
        requests = Resources.of({**dict(pod.requests.items()), **amounts})
        return attrs.evolve(pod.pod_class, requests=requests)

    def _list_removed(self, snapshot: Snapshot) -> Iterator[Uid]:
        """Yield the pods that fewer replicas would remove: pending pods, then the newest."""
        for workload, number in self.replicas:
            pods = sorted(
                _list_replicas(snapshot, workload),
                key=lambda pod: (pod.uid in snapshot.placed, -pod.created, pod.name),
            )
            yield from (pod.uid for pod in pods[: max(0, -number)])

    def _new_nodes(self, snapshot: Snapshot) -> Iterator[Node]:
        for name, number in self.added:
            model = snapshot.nodes.get(name)
            if model is None:
                continue
            for count in range(1, number + 1):
                added = NodeName(f"{name}-added-{count}")
                labels = {**model.labels, "kubernetes.io/hostname": added}
                yield attrs.evolve(
                    model, name=added, labels=labels, unschedulable=False, addresses=()
                )


def _list_replicas(snapshot: Snapshot, workload: Workload) -> list[Pod]:
    pods = (pod for pod in snapshot.pods.values() if pod.workload == workload)
    return list(filter(snapshot.is_replica, pods))


def _find_newest(snapshot: Snapshot, workload: Workload) -> Pod | None:
    replicas = _list_replicas(snapshot, workload)
    return max(replicas, key=lambda pod: (pod.created, pod.name), default=None)


def _copies(newest: Pod, number: int, at: float) -> Iterator[Pod]:
    pod_class = newest.pod_class
    if newest.workload.kind == "StatefulSet":
        # Each pod has separate claims, with unknown location of the volumes.
        rules = attrs.evolve(pod_class.rules, claims=())
        pod_class = attrs.evolve(pod_class, rules=rules)
    for count in range(1, number + 1):
        yield attrs.evolve(
            newest,
            uid=Uid(f"{ADDED}{newest.workload}/{count}"),
            name=f"{newest.workload.name}-added-{count}",
            pod_class=pod_class,
            node_name=None,
            phase="Pending",
            ready=False,
            gated=False,
            created=max(at, newest.created),
        )
