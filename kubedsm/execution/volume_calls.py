"""API calls that have the volume claims of a pod bound before the pod, as kube-scheduler's PreBind.

A claim gets a PersistentVolume, by the volume's claimRef, or the annotation `selected-node`, upon
which its provisioner creates a volume. Lost plans withdraw the annotation, since it restricts the
pod to that node. The watch shows bound claims. Each call has the resourceVersion as precondition,
so two schedulers never have one volume.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.execution.bind_calls import IsPending, Report
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import (
    ClusterError,
    Conflict,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from kubedsm.model.events import Change, ClusterEvent, NodeAvoided, SurroundingApplied
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.node_index import NodeIndex
from kubedsm.model.surroundings import Claim, Key, Volume, key_of
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.storage import Assignment
from kubedsm.plugins.volume_binding import assign_claims, list_waiting
from kubedsm.process.backoff import Doubling
from kubedsm.process.supervisor import Work
from plans.events import CallRefused, VolumesSeen
from plans.steps import Step, StepKind

log = structlog.get_logger()

#: seconds between attempts
RETRY = Doubling(0.5, most=16.0)
#: seconds between live reads of claims that are not bound yet, should the watch miss a change
REREAD = Doubling(15.0, most=60.0)
#: seconds in which a claim's pods avoid a node that failed to provision the volume
AVOIDED = 60.0
#: errors after which the objects are read again
_RETRIED = (Conflict, OutcomeUnknown, ServerError, TooManyRequests, Unreachable)


@attrs.define(eq=False, repr=False)
class VolumeCalls(Controller):
    """Calls about the claims of pods in bind plans. `on_event` applies an event to the mirror, and
    notifies all observers. `spawn` runs a background task.
    """

    _on_event: Callable[[ClusterEvent], None]
    #: claims of each pod whose plan is in progress
    _keys: dict[Uid, tuple[Key, ...]] = attrs.field(factory=dict, init=False)
    #: pods for whose claims all calls succeeded
    _sent: set[Uid] = attrs.field(factory=set, init=False)

    def follow(self, pod: Pod) -> bool:
        """Return True if the pod has claims that wait for its node; follow them until `forget`."""
        keys = tuple(pod.pod_class.rules.claim_keys)
        if not (keys and list_waiting(self.mirror.surroundings, keys)):
            return False
        self._keys[pod.uid] = keys
        return True

    def forget(self, uid: Uid) -> None:
        self._keys.pop(uid, None)
        self._sent.discard(uid)

    def concerned(self, change: Change) -> list[Uid]:
        """Return the followed pods whose volumes the change may concern."""
        if change.node_left:
            return list(self._keys)
        match change.surrounding_after or change.surrounding_before:
            case Claim(namespace, name):
                return [uid for uid, keys in self._keys.items() if (namespace, name) in keys]
            case Volume():
                return list(self._keys)
        return []

    # Observation.

    def observation(self, step: Step, *, live: bool = False) -> VolumesSeen:
        """Return the state of the claims of the step's pod, as the mirror shows it."""
        claims = [self.mirror.surroundings.of(Claim).get(key) for key in self._list_keys(step)]
        return VolumesSeen(
            step.pod,
            bound=all(claim is not None and self._is_reachable(claim) for claim in claims),
            released=not any(self._list_pinned(step)),
            obstacle=next(filter(None, map(self._obstacle_of(step), claims)), ""),
            live=live,
        )

    def _list_keys(self, step: Step) -> tuple[Key, ...]:
        return self._keys.get(Uid(step.pod), ())

    def _is_reachable(self, claim: Claim) -> bool:
        """Return True if the claim is bound to a volume that the mirror knows."""
        return claim.bound and (claim.volume,) in self.mirror.surroundings.of(Volume)

    def _obstacle_of(self, step: Step) -> Callable[[Claim | None], str]:
        """Return a function from a claim to the reason why it cannot be bound for the step's
        node.
        """
        node, sent = self.mirror.node(NodeName(step.node)), Uid(step.pod) in self._sent

        def obstacle(claim: Claim | None) -> str:
            if claim is None or claim.terminating or claim.lost:
                return "a volume claim of the pod is gone"
            if node is None:
                return f"node {step.node} is gone"
            if claim.bound:
                volume = self.mirror.surroundings.of(Volume).get((claim.volume,))
                terms = volume.nodes if volume is not None else None
                if terms is None or NodeIndex.index_node(node).match_terms(terms)[0]:
                    return ""
                return f"claim {claim} is bound to a volume that node {node.name} does not reach"
            if claim.selected_node not in ("", node.name):
                return f"the volume of claim {claim} is provisioned for node {claim.selected_node}"
            if sent and not (claim.selected_node or self._is_reserved(claim)):
                return f"no volume for claim {claim} can be provisioned for node {node.name}"
            return ""

        return obstacle

    def _is_reserved(self, claim: Claim) -> bool:
        volumes = self.mirror.surroundings.of(Volume).values()
        return any(volume.is_for(claim) for volume in volumes)

    def _list_pinned(self, step: Step) -> Iterator[Claim]:
        """Yield the unbound claims of the step's pod that name the step's node, except for claims
        of other pods on the node.
        """
        for claim in self.mirror.surroundings.claims_at(self._list_keys(step)):
            pinned = not claim.bound and claim.selected_node == step.node
            if pinned and not self._is_wanted(claim, step):
                yield claim

    def _is_wanted(self, claim: Claim, step: Step) -> bool:
        """Return True if another pod on the step's node uses the claim."""
        placed = self.mirror.snapshot().placed
        return any(
            claim.key in pod.pod_class.rules.claim_keys
            and placed.get(pod.uid) == step.node
            and pod.uid != step.pod
            for pod in self.mirror.pods()
            if pod.pod_class.rules.claims
        )

    # Calls.

    async def bind_volumes(self, step: Step, is_pending: IsPending, report: Report) -> None:
        """Have the volumes of the step's pod bound for the step's node; retry until sent, and read
        the claims until bound.
        """

        async def send() -> None:
            for assignment in self._list_unsent(step):
                if assignment.node != step.node or not is_pending():
                    return
                await self._send(assignment)
            self._sent.add(Uid(step.pod))

        for pause in map(REREAD.delay_after, itertools.count()):
            await self._repeat(step, is_pending, report, send)
            if not is_pending():
                return
            await self.clock.sleep(pause)
            if is_pending():
                await self.read(step)

    async def release(self, step: Step, is_pending: IsPending, report: Report) -> None:
        """Remove the selected node from the pod's volume claims that are still unbound; retry until
        done.
        """

        async def send() -> None:
            for claim in list(self._list_pinned(step)):
                await self._select_node(claim, None)

        await self._repeat(step, is_pending, report, send)

    async def _repeat(self, step: Step, is_pending: IsPending, report: Report, send: Work) -> None:
        for pause in map(RETRY.delay_after, itertools.count()):
            if not is_pending():
                return
            try:
                await send()
            except _RETRIED as error:
                self.throttle.log(log.warning, "volume not bound yet", error, pod=step.pod)
                await self.clock.sleep(pause)
                await self.read(step)
            except ClusterError as error:
                self.throttle.log(log.warning, "volume refused", error, pod=step.pod)
                report(CallRefused(step.id, f"binding volumes: {error}"))
                return
            else:
                report(self.observation(step))
                return

    def _list_unsent(self, step: Step) -> Iterator[Assignment]:
        for key in self._list_keys(step):
            # Computed for each: during a call, another claim may have taken the next volume.
            scene = Feasibility.of(self.mirror.snapshot()).scene
            each = assign_claims(scene).get(key)
            if each is None or each.claim.selected_node or self._is_reserved(each.claim):
                continue
            position = scene.nodes.positions[each.node]
            if each.volume or scene.storage.provisionable(each.claim)[position]:
                yield each

    async def _send(self, assignment: Assignment) -> None:
        claim, node, name = assignment
        volume = self.mirror.surroundings.of(Volume).get((name,))
        if volume is None:
            await self._select_node(claim, node)
            return
        self._apply(await writes.reserve_volume(self.cluster, volume, claim))

    async def _select_node(self, claim: Claim, node: NodeName | None) -> None:
        self._apply(await writes.select_node(self.cluster, claim, node))

    def _apply(self, found: Claim | Volume, *, is_new: bool = False) -> None:
        """Apply the response to a call, unless the watch has shown the object's deletion since."""
        if is_new or key_of(found) in self.mirror.surroundings.of(type(found)):
            self._on_event(SurroundingApplied(found))

    async def read(self, step: Step) -> VolumesSeen | None:
        """Read the claims of the step's pod, and their volumes, from the API server; return None if
        unreadable.
        """
        try:
            for namespace, name in self._list_keys(step):
                claim = await reads.get_claim(self.cluster, namespace, name)
                self._apply(claim)
                if claim.bound:
                    is_new = (claim.volume,) not in self.mirror.surroundings.of(Volume)
                    volume = await reads.get_volume(self.cluster, claim.volume)
                    self._apply(volume, is_new=is_new)
        except ClusterError as error:
            self.throttle.log(log.warning, "claim unreadable", error, pod=step.pod)
            return None
        return self.observation(step, live=True)

    # Lost plans.

    def list_failed(self, step: Step) -> list[Claim]:
        """Return the claims for which the step's node failed to provision a volume."""
        pod = self.mirror.pod(Uid(step.pod))
        if pod is None or not pod.waits_for_node or pod.uid not in self._sent:
            return []
        claims = self.mirror.surroundings.claims_at(self._list_keys(step))
        return [claim for claim in claims if not (claim.bound or self._is_reserved(claim))]

    async def avoid_node(self, claims: list[Claim], node: NodeName) -> None:
        """Have the claims' pods avoid a node for `AVOIDED` seconds."""
        avoid = partial(NodeAvoided, node=node)
        for claim in claims:
            self._on_event(avoid(claim.key, avoided=True))
        await self.clock.sleep(AVOIDED)
        for claim in claims:
            self._on_event(avoid(claim.key, avoided=False))

    def follow_stranded(self) -> Iterator[tuple[Pod, NodeName]]:
        """Yield pending pods whose unbound claims name a node that rejects the pod, with the node,
        and follow the claims.

        A terminated scheduler process, or a change of the cluster, may leave such claims.
        """
        waiting = self.mirror.surroundings.waiting_claims
        selected = {key: claim for key, claim in waiting.items() if claim.selected_node}
        if not selected:
            return
        snapshot = self.mirror.snapshot()
        feasibility = Feasibility.of(snapshot)
        for pod in snapshot.schedulable(snapshot.pods.values()):
            for key in pod.pod_class.rules.claim_keys:
                if key in selected and pod.uid not in self._keys:
                    node = NodeName(selected[key].selected_node)
                    if node not in snapshot.nodes or feasibility.rejection(pod, node):
                        self._keys[pod.uid] = tuple(pod.pod_class.rules.claim_keys)
                        yield pod, node


#: steps whose observations are those of claims
OF_VOLUMES = frozenset({StepKind.BIND_VOLUMES, StepKind.RELEASE_VOLUMES})
