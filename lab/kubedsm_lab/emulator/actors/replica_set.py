"""ReplicaSet controller: creates and deletes pods until the desired number is active.

Terminating pods do not count, so a replacement is created before the old pod is gone.

With pacing, missing pods are created in slow-start batches of 1, 2, 4, ...: requests of one batch
run at the same time, each with a latency of its own, and the next batch starts after the last
response. Sources: `slowStartBatch` of k8s.io/kubernetes/pkg/controller/replicaset and
`ActivePodsWithRanks` of k8s.io/kubernetes/pkg/controller.
"""

import math
import random
from collections.abc import Iterable, Mapping
from functools import cmp_to_key

import attrs

from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller, Requeue
from kubedsm_lab.emulator.actors.ownership import build_owned_pod, claim
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import (
    annotations_of,
    available_at,
    conditions_of,
    controller_of,
    find_condition,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    new_condition,
    node_of,
    ready_since,
    without_condition,
)
from kubedsm_lab.emulator.api.pacing import CREATION
from kubedsm_lab.emulator.api.resources import PODS, REPLICA_SETS, Object
from kubedsm_lab.emulator.api.values import seconds

#: limit on pods created or deleted at once
_BURST = 500


@attrs.define
class _SlowStart:
    """Slow-start batch of a ReplicaSet's pod creations: number of pods, and times of the
    outstanding API responses.
    """

    #: number of pods in the batch that runs now
    size: int = 0
    #: times of outstanding responses, in order
    answers: list[float] = attrs.field(factory=list)


class ReplicaSetController(Controller):
    """ReplicaSet controller; without `pacing`, all missing pods are created at once."""

    component = "replicaset-controller"

    def __init__(self, cache: Cache, pacing: random.Random | None = None) -> None:
        super().__init__(cache)
        self._pacing = pacing
        self._slow_starts: dict[Key, _SlowStart] = {}

    def subscribe(self) -> None:
        self.follow_with_pods(REPLICA_SETS)

    def reconcile(self, key: Key) -> None:
        replica_set = self.cache.get(REPLICA_SETS, key)
        if replica_set is None:
            self._slow_starts.pop(key, None)
            return
        pods = claim(self, REPLICA_SETS, replica_set, eligible=is_active)
        refused = None if is_terminating(replica_set) else self._adjust_pods(replica_set, pods)
        replica_set = self.cache.get(REPLICA_SETS, key)
        if replica_set is not None:
            self.write_status(REPLICA_SETS, replica_set, self._status(replica_set, refused))
        if refused is not None and not _is_namespace_terminating(refused):
            if replica_set is not None:
                why = f"Error creating: {refused.message}"
                self.warn(REPLICA_SETS, replica_set, "FailedCreate", why)
            raise Requeue

    def _adjust_pods(self, replica_set: Object, pods: list[Object]) -> ApiError | None:
        """Create missing or delete surplus pods; return the API server's refusal, if any."""
        surplus = len(pods) - replica_set["spec"].get("replicas", 1)
        due = self._count_due(key_of(replica_set), -surplus)
        if surplus > 0:
            for pod in self._choose_victims(replica_set, pods, min(surplus, _BURST)):
                self.api.delete(PODS, *key_of(pod), uid=pod["metadata"]["uid"])
                deleted = f"Deleted pod: {pod['metadata']['name']}"
                self.note(REPLICA_SETS, replica_set, "SuccessfulDelete", deleted)
        elif surplus < 0:
            pod = build_owned_pod(
                REPLICA_SETS, replica_set, generateName=f"{replica_set['metadata']['name']}-"
            )
            for _ in range(min(due, _BURST)):
                try:
                    made = self.api.create(
                        PODS, pod, namespace=replica_set["metadata"]["namespace"]
                    )
                except ApiError as error:
                    self._slow_starts.pop(key_of(replica_set), None)
                    return error
                created = f"Created pod: {made['metadata']['name']}"
                self.note(REPLICA_SETS, replica_set, "SuccessfulCreate", created)
        return None

    def _count_due(self, key: Key, missing: int) -> int:
        """Return the number of missing pods to create now; enqueue the ReplicaSet's key to create
        the remaining pods later.
        """
        if self._pacing is None:
            return missing
        if missing <= 0:
            self._slow_starts.pop(key, None)
            return 0
        start, due = self._slow_starts.setdefault(key, _SlowStart()), 0
        while start.answers and self.has_come(start.answers[0], key):
            start.answers.pop(0)
            due += 1
        due = min(due, missing)
        if due < missing and not start.answers:
            start.size = max(1, 2 * start.size)
            now = self.clock.monotonic()
            batch = range(min(start.size, missing - due))
            start.answers = sorted(now + self._pacing.uniform(*CREATION) for _ in batch)
            self.has_come(start.answers[0], key)
        return due

    def _choose_victims(self, replica_set: Object, pods: list[Object], count: int) -> list[Object]:
        if count >= len(pods):
            return pods
        on_node: dict[str, int] = {}
        for pod in self._list_related(replica_set):
            on_node[node_of(pod)] = on_node.get(node_of(pod), 0) + 1
        return deletion_order(pods, on_node, self.clock.wall())[:count]

    def _list_related(self, replica_set: Object) -> list[Object]:
        """Return the active pods of all ReplicaSets with the same owner."""
        owner = controller_of(replica_set)
        siblings = (
            self.cache.list_controlled(REPLICA_SETS, owner["uid"]) if owner else [replica_set]
        )
        return [
            pod
            for sibling in siblings
            for pod in self.cache.list_controlled(PODS, sibling["metadata"]["uid"])
            if is_active(pod)
        ]

    def _status(self, replica_set: Object, refused: ApiError | None) -> Object:
        spec, uid = replica_set["spec"], replica_set["metadata"]["uid"]
        now = self.clock.wall()
        wanted_labels = labels_of(spec["template"]).items()
        counts = dict.fromkeys(
            ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), 0
        )
        terminating = 0
        for pod in self.cache.list_controlled(PODS, uid):
            if not is_active(pod):
                terminating += is_terminating(pod) and not is_finished(pod)
                continue
            counts["replicas"] += 1
            counts["fullyLabeledReplicas"] += wanted_labels <= labels_of(pod).items()
            counts["readyReplicas"] += is_ready(pod)
            available = available_at(pod, spec.get("minReadySeconds", 0))
            if available is not None:
                counts["availableReplicas"] += available <= now
                if available > now:
                    self.enqueue_after(key_of(replica_set), available - now)
        # The API omits zeros, except these.
        status: Object = {name: n for name, n in counts.items() if n or name == "replicas"}
        status["terminatingReplicas"] = terminating
        status["observedGeneration"] = replica_set["metadata"]["generation"]
        if found := self._conditions(replica_set, refused):
            status["conditions"] = found
        return status

    def _conditions(self, replica_set: Object, refused: ApiError | None) -> list[Object]:
        before = conditions_of(replica_set["status"])
        if refused is None:
            return without_condition(before, "ReplicaFailure")
        if find_condition(before, "ReplicaFailure"):
            # Each attempt has another pod name in the message: rewriting would never converge.
            return before
        failed = ("ReplicaFailure", True, self.now(), "FailedCreate", refused.message)
        return [*before, new_condition(*failed)]


def _is_namespace_terminating(refused: ApiError) -> bool:
    causes = (refused.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS = 1e9
#: below every magnitude of an age
_SHORTEST = -2


def deletion_order(pods: Iterable[Object], on_node: Mapping[str, int], now: float) -> list[Object]:
    """Return the pods in the order in which a ReplicaSet deletes surplus pods, preferred victims
    first.

    Unassigned before assigned, Pending before Unknown before Running, not ready before ready, lower
    deletion cost, more pods of the same owner on the node (`on_node`), ready for a shorter time,
    more restarts, younger; then by uid. Times are compared by order of magnitude (powers of two) of
    the age, as in Kubernetes. `now` is a Unix timestamp.
    """

    def rank(pod: Object) -> tuple[object, ...]:
        since = ready_since(pod)
        metadata = pod["metadata"]
        return (
            bool(node_of(pod)),
            _PHASES.get(pod["status"].get("phase", ""), 2),
            is_ready(pod),
            _deletion_cost(pod),
            -on_node.get(node_of(pod), 0),
            _SHORTEST if since is None else _age_magnitude(now - since),
            -_restarts(pod),
            _age_magnitude(now - seconds(metadata["creationTimestamp"])),
            metadata["uid"],
        )

    def compare(first: Object, second: Object) -> int:
        one, other = rank(first), rank(second)
        # Restarts and age count only between equal times of readiness.
        if one[:6] == other[:6] and ready_since(first) != ready_since(second):
            one, other = one[-1:], other[-1:]
        return -1 if one < other else 1

    return sorted(pods, key=cmp_to_key(compare))


def _deletion_cost(pod: Object) -> int:
    text = annotations_of(pod).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        # The API server accepts arbitrary text; the controller assumes the default.
        return 0


def _age_magnitude(age: float) -> int:
    return int(math.log2(age * _NANOSECONDS)) if age > 0 else -1


def _restarts(pod: Object) -> int:
    statuses = pod["status"].get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)
