"""Writes down what happens to the pods of some services, as the store of the cluster shows it."""

from collections.abc import Mapping

import attrs

from kubedsm.cluster.wire import decoding
from kubedsm.core.world.model import NodeName, Pod, Tier, Uid
from kubedsm.emulator.api.resources import DEPLOYMENTS, PODS, Object
from kubedsm.emulator.api.store import ObjectChange
from kubedsm.replay.timeline import Life, MoveRecord, Span, Timeline

#: which service a pod serves, by the label that its Service selects; a migration leaves it alone
SERVICE_LABEL = "app"


@attrs.define
class _Life:
    service: str
    created: float
    bound: float | None = None
    tier: Tier | None = None
    node: NodeName | None = None
    served: list[Span] = attrs.field(factory=list)
    serving_since: float | None = None
    gone: float | None = None


@attrs.define
class _Move:
    service: str
    began: float
    ready_before: int
    #: evicted without having been detached: over when the service is whole again
    recreates: bool
    ended: float | None = None
    taken_back: bool = False


class TimelineRecorder:
    """To be subscribed to the store with `notice`.

    A migration is known by its label on the pod (surge) or by an eviction (recreate):
    nothing else is evicted in a replay.
    """

    def __init__(self, services: tuple[str, ...], tiers: Mapping[NodeName, Tier | None]) -> None:
        self._tiers = tiers
        self._lives: dict[Uid, _Life] = {}
        self._moves: list[_Move] = []
        self._moving: dict[Uid, _Move] = {}
        self._ready = dict.fromkeys(services, 0)
        self._replicas: dict[str, list[tuple[float, int]]] = {name: [] for name in services}
        #: a pod of each service
        self.samples: dict[str, Pod] = {}

    def notice(self, change: ObjectChange, now: float) -> None:
        """Take in a change that came at `now`, in seconds."""
        if change.resource is DEPLOYMENTS:
            self._note_replicas(change.object, now)
        elif change.resource is PODS:
            self._note_pod(change, now)
        self._end_recreations(now)

    def _note_replicas(self, deployment: Object, now: float) -> None:
        steps = self._replicas.get(deployment["metadata"]["name"])
        replicas = deployment["spec"]["replicas"]
        if steps is not None and (not steps or steps[-1][1] != replicas):
            steps.append((now, replicas))

    def _note_pod(self, change: ObjectChange, now: float) -> None:
        pod = decoding.pod(change.object)
        service = pod.labels.get(SERVICE_LABEL, "")
        if service not in self._replicas:
            return
        self.samples.setdefault(service, pod)
        life = self._lives.setdefault(pod.uid, _Life(service, now))
        deleted = change.type == "DELETED"
        self._note_move(pod, change.object, deleted=deleted, now=now)
        if pod.node_name is not None and life.bound is None:
            life.bound, life.tier = now, self._tiers.get(pod.node_name)
            life.node = pod.node_name
        serving = pod.ready and not pod.terminating and not deleted
        if serving and life.serving_since is None:
            life.serving_since = now
            self._ready[service] += 1
        elif not serving and life.serving_since is not None:
            life.served.append((life.serving_since, now))
            life.serving_since = None
            self._ready[service] -= 1
        if deleted:
            life.gone = now

    def _note_move(self, pod: Pod, obj: Object, *, deleted: bool, now: float) -> None:
        """Before the change counts: what was Ready when a move began includes its pod."""
        move = self._moving.get(pod.uid)
        service = self._lives[pod.uid].service
        if move is None:
            # An eviction first says on the pod why it is about to go.
            if pod.detached or (_evicted(obj) and (pod.terminating or deleted)):
                move = _Move(service, now, self._ready[service], recreates=not pod.detached)
                self._moves.append(move)
                self._moving[pod.uid] = move
        elif not move.recreates and (deleted or not pod.detached):
            move.ended, move.taken_back = now, not (deleted or pod.terminating)
            del self._moving[pod.uid]

    def _end_recreations(self, now: float) -> None:
        for move in self._moves:
            if move.recreates and move.ended is None:
                replicas = self._replicas[move.service][-1][1]
                if self._ready[move.service] >= min(move.ready_before, replicas):
                    move.ended = now

    def timeline(self, start: float, end: float) -> Timeline:
        """Everything until `end`, in seconds from `start`."""

        def since(moment: float) -> float:
            # The clock adds up floats; nothing is known better than to a microsecond.
            return round(moment - start, 6)

        lives = []
        for life in self._lives.values():
            served = list(life.served)
            if life.serving_since is not None:
                served.append((life.serving_since, end))
            lives.append(
                Life(
                    life.service,
                    since(life.created),
                    None if life.bound is None else since(life.bound),
                    life.tier,
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
            ),
        )


def _evicted(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        c["type"] == "DisruptionTarget" and c.get("reason") == "EvictionByEvictionAPI"
        for c in conditions
    )
