"""Recorder of the pods of some services, from a cluster's watches or an emulated store."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import attrs

from kubedsm.kube.wire import decoding
from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Tiers, Uid
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay import sightings
from kubedsm_lab.replay.sightings import (
    DeploymentGone,
    DeploymentSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    Sighting,
)
from kubedsm_lab.replay.timeline import Life, MoveRecord, Span, Timeline

#: label that a Service selects; migrations do not change it
SERVICE_LABEL = "app"


@attrs.frozen
class Record:
    timeline: Timeline
    #: allocatable without the requests of other pods
    nodes: tuple[Node, ...]
    #: one pod of each service
    samples: Mapping[str, Pod]

    @property
    def edge(self) -> tuple[Node, ...]:
        """Return the nodes of the edge."""
        return tuple(node for node in self.nodes if node.tier is Tier.EDGE)


@attrs.define
class _Life:
    service: str
    created: float
    bound: float | None = None
    node: NodeName | None = None
    evicted: bool = False
    served: list[Span] = attrs.field(factory=list)
    serving_since: float | None = None
    gone: float | None = None


@attrs.define
class _Move:
    service: str
    began: float
    ready_before: int
    #: evicted instead of detached: over when the service has all pods again
    recreates: bool
    ended: float | None = None
    taken_back: bool = False


class TimelineRecorder:
    """Recorder of sightings (`take`), and of changes of an emulated store (`notice`).

    A service is identified by the label of its pods, or by their workload's name. A migration is
    identified by its label on the pod (surge) or by an eviction (recreate) by any client. Changes
    during a lost watch count from the next list on.
    """

    def __init__(self, services: tuple[str, ...], tiers: Tiers, namespace: str = NAMESPACE) -> None:
        self._tiers = tiers
        self.namespace = namespace
        self._nodes: dict[NodeName, Node] = {}
        self._lives: dict[Uid, _Life] = {}
        self._moves: list[_Move] = []
        self._moving: dict[Uid, _Move] = {}
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
        """Apply a change of the store at `now`, in seconds."""
        metadata, deleted = change.object["metadata"], change.type == "DELETED"
        if change.resource is PODS and deleted:
            self.take(PodGone(Uid(metadata["uid"])), now)
        elif change.resource is PODS:
            self.take(sightings.PODS.value(change.object), now)
        elif change.resource is DEPLOYMENTS and deleted:
            self.take(DeploymentGone(metadata["namespace"], metadata["name"]), now)
        elif change.resource is DEPLOYMENTS:
            self.take(sightings.DEPLOYMENTS.value(change.object), now)
        elif change.resource is NODES:
            self.take(sightings.NODES.value(change.object), now)

    def take(self, seen: Sighting, now: float) -> None:
        """Apply a sighting at `now`, in seconds."""
        match seen:
            case PodSeen():
                self._take_pod(seen, now)
            case PodGone():
                self._take_leave(seen.uid, now)
            case DeploymentSeen():
                service = self._service(seen.namespace, seen.labels, seen.name)
                if service is not None:
                    self._take_replicas(seen.name, service, seen.replicas, now)
            case DeploymentGone():
                known = self._deployments.get(seen.name)
                if known is not None and seen.namespace == self.namespace:
                    self._take_replicas(seen.name, known[0], 0, now)
            case NodeSeen():
                tier = self._tiers.of(seen.node.labels)
                self._nodes[seen.node.name] = attrs.evolve(seen.node, tier=tier)
                self.emulated |= seen.emulated
        self._end_recreations(now)

    def _service(self, namespace: str, labels: Mapping[str, str], workload: str) -> str | None:
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
        service = self._service(pod.namespace, pod.labels, pod.workload.name)
        if service is None:
            self._others[pod.uid] = pod
            return
        self._samples.setdefault(service, pod)
        self.schedulers.add(pod.scheduler_name)
        life = self._lives.setdefault(pod.uid, _Life(service, now))
        life.evicted = seen.evicted
        self._take_move(pod, life, now)
        if pod.node_name is not None and life.bound is None:
            life.bound, life.node = now, pod.node_name
            self._placed[pod.name] = pod.node_name
        self._serves(life, now, serving=pod.ready and not pod.terminating)

    def _serves(self, life: _Life, now: float, *, serving: bool) -> None:
        if serving and life.serving_since is None:
            life.serving_since = now
            self._ready[life.service] += 1
        elif not serving and life.serving_since is not None:
            life.served.append((life.serving_since, now))
            life.serving_since = None
            self._ready[life.service] -= 1

    def _take_leave(self, uid: Uid, now: float) -> None:
        self._others.pop(uid, None)
        life = self._lives.get(uid)
        if life is None:
            return
        move = self._moving.get(uid)
        if move is None and life.evicted:
            self._begin_move(uid, life, now, recreates=True)
        elif move is not None and not move.recreates:
            self._end_move(uid, now, taken_back=False)
        self._serves(life, now, serving=False)
        life.gone = now

    def _take_move(self, pod: Pod, life: _Life, now: float) -> None:
        """Apply before readiness: the Ready pods before a migration include its pod."""
        move = self._moving.get(pod.uid)
        if move is None:
            # An eviction first sets a condition on the pod.
            if pod.detached or (life.evicted and pod.terminating):
                self._begin_move(pod.uid, life, now, recreates=not pod.detached)
        elif not move.recreates and not pod.detached:
            self._end_move(pod.uid, now, taken_back=not pod.terminating)

    def _begin_move(self, uid: Uid, life: _Life, now: float, *, recreates: bool) -> None:
        move = _Move(life.service, now, self._ready[life.service], recreates=recreates)
        self._moves.append(move)
        self._moving[uid] = move

    def _end_move(self, uid: Uid, now: float, *, taken_back: bool) -> None:
        move = self._moving.pop(uid)
        move.ended, move.taken_back = now, taken_back

    def _end_recreations(self, now: float) -> None:
        for move in self._moves:
            if move.recreates and move.ended is None:
                steps = self._replicas[move.service]
                wanted = steps[-1][1] if steps else move.ready_before
                if self._ready[move.service] >= min(move.ready_before, wanted):
                    move.ended = now

    def record(self, start: float, end: float) -> Record:
        """Return the record until `end`, in seconds from `start`."""
        seen = dict.fromkeys([*self._nodes, *self._placed.values()])
        nodes = tuple(map(self._left_by_others, seen))
        return Record(self.timeline(start, end), nodes, dict(self._samples))

    def _left_by_others(self, name: NodeName) -> Node:
        """Deduct the requests of other pods; an unknown node has no capacity."""
        node = self._nodes.get(name) or Node(name, {}, Resources())
        here = (p for p in self._others.values() if p.node_name == name and not p.finished)
        left = sum((Resources() - pod.requests for pod in here), node.allocatable)
        return attrs.evolve(node, allocatable=left)

    def tier_of(self, name: str) -> Tier | None:
        """Return the tier of the sender of an answer: a pod, a node, or a tier; None if unknown."""
        node = self._nodes.get(self._placed.get(name, NodeName(name)))
        return node.tier if node is not None else next((t for t in Tier if t == name), None)

    def timeline(self, start: float, end: float) -> Timeline:
        """Return the timeline until `end`, in seconds from `start`."""

        def since(moment: float) -> float:
            # Sums of floats of the clock vary below a microsecond.
            return round(moment - start, 6)

        lives = []
        for life in self._lives.values():
            if life.created > end:
                continue
            node = None if life.node is None else self._nodes.get(life.node)
            served = list(life.served)
            if life.serving_since is not None:
                served.append((life.serving_since, end))
            lives.append(
                Life(
                    life.service,
                    since(life.created),
                    None if life.bound is None else since(life.bound),
                    None if node is None else node.tier,
                    tuple((since(first), since(last)) for first, last in served),
                    None if life.gone is None else since(life.gone),
                    life.node,
                )
            )
        return Timeline(
            since(end),
            tuple(lives),
            {
                name: tuple((since(moment), number) for moment, number in steps)
                for name, steps in self._replicas.items()
            },
            tuple(
                MoveRecord(
                    move.service,
                    since(move.began),
                    since(end if move.ended is None else move.ended),
                    move.ready_before,
                    move.taken_back,
                )
                for move in self._moves
                if move.began <= end
            ),
        )


class Serving(NamedTuple):
    """Ready pod of a service."""

    name: str
    service: str
    node: NodeName


def serving_after(
    serving: Mapping[Uid, Serving], change: ObjectChange, services: Collection[str]
) -> Mapping[Uid, Serving]:
    """Return the Ready pods after the change, oldest first; the same mapping if none changed."""
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
