"""Recorder of services' pods, from a cluster's watches or an emulated store."""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import attrs

from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import Identity
from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Tiers, Uid
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.sightings import (
    READERS,
    DeploymentSeen,
    Gone,
    NodeSeen,
    PodSeen,
    Sighting,
)
from kubedsm_lab.replay.timeline import Life, MoveRecord, Timeline

#: label that a Service selects; migrations do not change it
SERVICE_LABEL = "app"


@attrs.frozen
class Record:
    """Recorded run: timeline of pods, nodes with the capacity available to the services, and one
    sample pod per service.
    """

    timeline: Timeline
    #: allocatable without the requests of other pods
    nodes: tuple[Node, ...]
    #: one pod of each service
    samples: Mapping[str, Pod]

    @property
    def edge(self) -> tuple[Node, ...]:
        """Return the nodes of the edge tier."""
        return tuple(node for node in self.nodes if node.tier is Tier.EDGE)


class TimelineRecorder:
    """Recorder that builds a run's timeline (pods, desired replicas, migrations) from observed
    Kubernetes objects.

    A service is identified by the label of its pods, or by their workload's name. A migration is
    identified by its label on the pod (surge) or by an eviction (recreate) by any client. Changes
    during a lost watch count from the next list on.
    """

    def __init__(self, services: tuple[str, ...], tiers: Tiers, namespace: str = NAMESPACE) -> None:
        self._tiers = tiers
        self.namespace = namespace
        self._nodes: dict[NodeName, Node] = {}
        #: lives and migrations in clock time; an infinite end is still open
        self._lives: dict[Uid, Life] = {}
        self._evicted: set[Uid] = set()
        self._moves: list[MoveRecord] = []
        #: indices of the migrations of present pods
        self._moving: dict[Uid, int] = {}
        self._ready = dict.fromkeys(services, 0)
        self._replicas: dict[str, list[tuple[float, int]]] = {name: [] for name in services}
        #: service and replicas by name
        self._deployments: dict[str, tuple[str, int]] = {}
        #: one pod of each service
        self._samples: dict[str, Pod] = {}
        #: pods of other workloads, which hold capacity
        self._others: dict[Uid, Pod] = {}
        #: node by the name of a service's pod
        self._placed: dict[str, NodeName] = {}
        #: scheduler names of the services' pods
        self.schedulers: set[str] = set()
        #: whether a node declares itself emulated
        self.emulated = False

    def notice(self, change: ObjectChange, now: float) -> None:
        """Record a change of an object in the emulated API server's store; `now` is in seconds."""
        kind = change.resource.kind
        if kind not in READERS:
            return
        if change.type == "DELETED":
            metadata = change.object["metadata"]
            name = metadata.get("namespace", ""), metadata["name"]
            self.take(Gone(kind, Identity(*name, metadata["uid"], "")), now)
        else:
            self.take(READERS[kind].value(change.object), now)

    def take(self, seen: Sighting, now: float) -> None:
        """Record the latest state of an observed pod, node or Deployment, or its deletion; `now` is
        in seconds.
        """
        match seen:
            case PodSeen():
                self._take_pod(seen, now)
            case Gone("Pod", gone):
                self._take_leave(Uid(gone.uid), now)
            case DeploymentSeen():
                service = self._find_service(seen.namespace, seen.labels, seen.name)
                if service is not None:
                    self._take_replicas(seen.name, service, seen.replicas, now)
            case Gone("Deployment", gone):
                known = self._deployments.get(gone.name)
                if known is not None and gone.namespace == self.namespace:
                    self._take_replicas(gone.name, known[0], 0, now)
            case NodeSeen():
                tier = self._tiers.of(seen.node.labels)
                self._nodes[seen.node.name] = attrs.evolve(seen.node, tier=tier)
                self.emulated |= seen.emulated
        self._end_recreations(now)

    def _find_service(self, namespace: str, labels: Mapping[str, str], workload: str) -> str | None:
        if namespace != self.namespace:
            return None
        names = (labels.get(SERVICE_LABEL, ""), workload)
        return next((name for name in names if name in self._replicas), None)

    def _take_replicas(self, deployment: str, service: str, replicas: int, now: float) -> None:
        self._deployments[deployment] = service, replicas
        wanted = sum(number for name, number in self._deployments.values() if name == service)
        steps = self._replicas[service]
        if not steps or steps[-1][1] != wanted:
            steps.append((now, wanted))

    def _take_pod(self, seen: PodSeen, now: float) -> None:
        pod = seen.pod
        service = self._find_service(pod.namespace, pod.labels, pod.workload.name)
        if service is None:
            self._others[pod.uid] = pod
            return
        self._samples.setdefault(service, pod)
        self.schedulers.add(pod.scheduler_name)
        self._lives.setdefault(pod.uid, Life(service, now))
        (self._evicted.add if seen.evicted else self._evicted.discard)(pod.uid)
        self._take_move(pod, now)
        if pod.node_name is not None and self._lives[pod.uid].bound is None:
            self._change_life(pod.uid, bound=now, node=pod.node_name)
            self._placed[pod.name] = pod.node_name
        self._take_readiness(pod.uid, now, serving=pod.ready and not pod.terminating)

    def _change_life(self, uid: Uid, **changes: Any) -> None:
        self._lives[uid] = attrs.evolve(self._lives[uid], **changes)

    def _take_readiness(self, uid: Uid, now: float, *, serving: bool) -> None:
        life = self._lives[uid]
        if serving == life.is_serving:
            return
        served = life.served[:-1] if life.is_serving else life.served
        since, until = (now, math.inf) if serving else (life.served[-1][0], now)
        self._change_life(uid, served=(*served, (since, until)))
        self._ready[life.service] += 1 if serving else -1

    def _take_leave(self, uid: Uid, now: float) -> None:
        self._others.pop(uid, None)
        if uid not in self._lives:
            return
        index = self._moving.get(uid)
        if index is None and uid in self._evicted:
            self._begin_move(uid, now, recreates=True)
        elif index is not None and not self._moves[index].recreates:
            self._end_move(uid, now, taken_back=False)
        self._take_readiness(uid, now, serving=False)
        self._change_life(uid, gone=now)

    def _take_move(self, pod: Pod, now: float) -> None:
        """Record that a pod's migration starts (the pod is detached or evicted) or ends (deleted or
        reattached).

        Called before readiness is recorded, so that Ready pods before a migration include this pod.
        """
        index = self._moving.get(pod.uid)
        if index is None:
            # An eviction first sets a condition on the pod.
            if pod.detached or (pod.uid in self._evicted and pod.terminating):
                self._begin_move(pod.uid, now, recreates=not pod.detached)
        elif not self._moves[index].recreates and not pod.detached:
            self._end_move(pod.uid, now, taken_back=not pod.terminating)

    def _begin_move(self, uid: Uid, now: float, *, recreates: bool) -> None:
        life = self._lives[uid]
        age = math.inf if life.bound == life.created else now - life.created
        ready = self._ready[life.service]
        self._moving[uid] = len(self._moves)
        self._moves.append(
            MoveRecord(life.service, now, math.inf, ready, recreates=recreates, age=age)
        )

    def _end_move(self, uid: Uid, now: float, *, taken_back: bool) -> None:
        index = self._moving.pop(uid)
        self._moves[index] = attrs.evolve(self._moves[index], ended=now, taken_back=taken_back)

    def _end_recreations(self, now: float) -> None:
        for index, move in enumerate(self._moves):
            if move.recreates and move.ended == math.inf:
                steps = self._replicas[move.service]
                wanted = steps[-1][1] if steps else move.ready_before
                if self._ready[move.service] >= min(move.ready_before, wanted):
                    self._moves[index] = attrs.evolve(move, ended=now)

    def record(self, start: float, end: float) -> Record:
        """Return the recorded run until `end`, in seconds from `start`."""
        seen = dict.fromkeys([*self._nodes, *self._placed.values()])
        nodes = tuple(map(self._deduct_others, seen))
        return Record(self.timeline(start, end), nodes, dict(self._samples))

    def _deduct_others(self, name: NodeName) -> Node:
        """Return the node with its allocatable resources reduced by the requests of pods that
        belong to no recorded service.

        An unknown node has no capacity.
        """
        node = self._nodes.get(name) or Node(name, {}, Resources())
        here = (p for p in self._others.values() if p.node_name == name and not p.finished)
        left = sum((Resources() - pod.requests for pod in here), node.allocatable)
        return attrs.evolve(node, allocatable=left)

    def tier_of(self, name: str) -> Tier | None:
        """Return the tier of a responding server, named by pod, node or tier; None if unknown."""
        node = self._nodes.get(self._placed.get(name, NodeName(name)))
        return node.tier if node is not None else next((t for t in Tier if t == name), None)

    def timeline(self, start: float, end: float) -> Timeline:
        """Return the timeline of pods, replicas and migrations until `end`, in seconds from
        `start`.
        """

        def since(moment: float) -> float:
            # Sums of floats of the clock vary below a microsecond.
            return round((end if moment == math.inf else moment) - start, 6)

        def shift(life: Life) -> Life:
            node = None if life.node is None else self._nodes.get(life.node)
            return attrs.evolve(
                life,
                created=since(life.created),
                bound=None if life.bound is None else since(life.bound),
                tier=None if node is None else node.tier,
                served=tuple((since(first), since(last)) for first, last in life.served),
                gone=None if life.gone is None else since(life.gone),
            )

        return Timeline(
            since(end),
            tuple(shift(life) for life in self._lives.values() if life.created <= end),
            {
                name: tuple((since(moment), number) for moment, number in steps)
                for name, steps in self._replicas.items()
            },
            tuple(
                attrs.evolve(move, began=since(move.began), ended=since(move.ended))
                for move in self._moves
                if move.began <= end
            ),
        )


class Serving(NamedTuple):
    """Ready pod of a service: its name, service and node."""

    name: str
    service: str
    node: NodeName


def serving_after(
    serving: Mapping[Uid, Serving], change: ObjectChange, services: Collection[str]
) -> Mapping[Uid, Serving]:
    """Return the Ready pods of the services after a store change, oldest first; `serving` has those
    before.

    The same mapping is returned if none changed.
    """
    if change.resource is not PODS:
        return serving
    pod = decoding.pod(change.object)
    service = pod.labels.get(SERVICE_LABEL, "")
    serves = pod.ready and not pod.terminating and change.type != "DELETED"
    if serves == (pod.uid in serving) or service not in services or not pod.node_name:
        return serving
    if serves:
        return {**serving, pod.uid: Serving(pod.name, service, pod.node_name)}
    return {uid: each for uid, each in serving.items() if uid != pod.uid}
