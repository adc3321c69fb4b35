"""Test oracles that check the guarantees of docs/explanation/reliability.md on every cluster change
and request.

`Invariants` checks I1 and I2, `Witness` I3 in front of the emulated cluster. Writes are judged when
sent: a request in flight cannot be recalled, so preconditions must make the request harmless. Free
capacity considers the requests of these workloads: CPU, memory, labels.
"""

import asyncio
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import orjson

from kubedsm.app.assembly import Runtime
from kubedsm.kube.client.port import ClusterFront, OutcomeUnknown, Request, Response
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.annotations import MOVE_ANNOTATION, SELECTED_NODE_ANNOTATION
from kubedsm.model.model import MIGRATING_LABEL, Resources
from kubedsm_lab.chaos.faults import injection_point_of, loop_time
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import (
    annotations_of,
    claims_of,
    is_active,
    is_bound,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    node_of,
    requests_of,
)
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Object,
)
from kubedsm_lab.emulator.api.store import ObjectChange

#: seconds within which a pod that fits is bound: the timeout of a request, with a back-off; and one
#: that is detached is restored or evicted: the next sweep as well
BOUND, RESTORED = 15.0, 45.0
#: name of the scheduler under test
SCHEDULER_NAME = "kubedsm"


def free_capacity(api: ApiServer, node: str) -> Resources:
    """Return the node's allocatable resources less the requests of its pods."""
    there = api.list(PODS, fields=f"spec.nodeName={node}")
    held = (requests_of(pod) for pod in there if not is_finished(pod))
    return decoding.node(api.get(NODES, "", node)).allocatable - sum(held, Resources())


def nodes_for(api: ApiServer, pod: Object) -> list[str]:
    """Return the names of the nodes where the pod fits: ready, schedulable, selected, free
    capacity, with the pod's bound volumes.
    """
    wanted, selected = requests_of(pod), pod["spec"].get("nodeSelector", {}).items()
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    volumes = [volume for _, volume in volumes_of(api, pod) if volume is not None]
    return [
        node["metadata"]["name"]
        for node in api.list(NODES)
        if is_ready(node)
        and not node["spec"].get("unschedulable")
        and selected <= labels_of(node).items()
        and _matches_terms(required, node)
        and all(_is_local_to(volume, node) for volume in volumes)
        and _fits(wanted, free_capacity(api, node["metadata"]["name"]))
    ]


def volumes_of(api: ApiServer, pod: Object) -> Iterator[tuple[str, Object | None]]:
    """Yield the name of each existing volume claim of the pod, and its volume; None if unbound."""
    for name in claims_of(pod):
        claim = api.store.get(PERSISTENT_VOLUME_CLAIMS, pod["metadata"]["namespace"], name)
        if claim is not None:
            volume = claim["spec"]["volumeName"] if is_bound(claim) else ""
            yield name, api.store.get(PERSISTENT_VOLUMES, "", volume)


def _is_local_to(volume: Object, node: Object) -> bool:
    """Return whether the node reaches the volume; local volumes name a single label."""
    return _matches_terms(volume["spec"].get("nodeAffinity", {}).get("required"), node)


def _matches_terms(selector: Object | None, node: Object) -> bool:
    """Return whether a node selector, whose operators are In, selects the node; None does."""
    labels = labels_of(node)
    return selector is None or any(
        all(labels.get(rule["key"]) in rule["values"] for rule in term["matchExpressions"])
        for term in selector["nodeSelectorTerms"]
    )


def list_selected(api: ApiServer) -> Iterator[str]:
    """Yield violations of I5: unbound volume claims that still name a node."""
    for claim in api.list(PERSISTENT_VOLUME_CLAIMS):
        if SELECTED_NODE_ANNOTATION in annotations_of(claim) and not is_bound(claim):
            yield f"I5: {claim['metadata']['name']} names a node, and is not bound"


def out_of_place(api: ApiServer, pods: Sequence[Object], namespace: str) -> Iterator[str]:
    """Yield violations of I4 (final placement): pods pending despite feasible nodes, and workloads
    with a wrong number of pods.

    `pods` are all pods of the scheduler in the namespace.
    """
    active = [pod for pod in pods if is_active(pod)]
    for pod in active:
        if not node_of(pod) and (roomy := nodes_for(api, pod)):
            yield f"I4: {pod['metadata']['name']} waits, and {', '.join(roomy)} has room"
    limited = api.list(RESOURCE_QUOTAS)
    for owner in (*api.list(DEPLOYMENTS, namespace), *api.list(STATEFUL_SETS, namespace)):
        name, wanted = owner["metadata"]["name"], owner["spec"]["replicas"]
        mine = [pod for pod in active if labels_of(pod)["app"] == name]
        running = sum(map(bool, map(node_of, mine)))
        # a StatefulSet waits for successive pods, a rollout for capacity
        may_lack = limited or owner["kind"] == "StatefulSet"
        if running > wanted or (len(mine) < wanted and not may_lack):
            yield f"I5: {name} has {len(mine)} pods, {running} on nodes, and wants {wanted}"


def _fits(requests: Resources, capacity: Resources) -> bool:
    return all(amount <= capacity.amount(name) for name, amount in requests.items())


class Invariants:
    """Test oracle for I1 and I2: every pod is bound once, and no bind overcommits a node."""

    def __init__(self, api: ApiServer, scheduler: str = SCHEDULER_NAME) -> None:
        self._api = api
        self._scheduler = scheduler
        #: time until which schedulers may be unaware of a loss of capacity
        self.excused_until = 0.0
        #: true while an incident begins: its binds are those of another scheduler
        self.is_incident = False
        self._bound: dict[str, str] = {}
        #: accepted binds of this scheduler's pods, by uid
        self.binds: Counter[str] = Counter()
        self.writes = 0
        self.wrong: list[str] = []
        #: by workload: most unready replicas at once since all were Ready
        self.missed: Counter[str] = Counter()
        self._complete: set[str] = set()
        api.store.subscribe(self._notice)

    def _notice(self, change: ObjectChange) -> None:
        self.writes += 1
        if change.resource is not PODS:
            return
        pod = change.object
        self._count_ready(pod)
        uid, node = pod["metadata"]["uid"], node_of(pod)
        before = self._bound.get(uid)
        if change.type == "DELETED" or not node or node == before:
            return
        if before is not None:
            self.wrong.append(f"I1: {pod['metadata']['name']} was on {before}, now on {node}")
        self._bound[uid] = node
        if pod["spec"]["schedulerName"] == self._scheduler:
            self.binds[uid] += 1
            if self._api.clock.monotonic() > self.excused_until:
                self._check_room(pod, node)
            if not self.is_incident:
                self._check_volumes(pod, node)

    def _count_ready(self, pod: Object) -> None:
        namespace, app = pod["metadata"]["namespace"], labels_of(pod).get("app", "")
        owners = (
            self._api.store.get(kind, namespace, app) for kind in (DEPLOYMENTS, STATEFUL_SETS)
        )
        wanted = next((owner["spec"]["replicas"] for owner in owners if owner), 0)
        pods = self._api.list(PODS, namespace, labels=f"app={app}")
        ready = [pod for pod in pods if is_ready(pod) and not is_terminating(pod)]
        missing = wanted - len(ready)
        # A detached pod next to the replacement does not make the workload complete.
        if wanted <= sum(MIGRATING_LABEL not in labels_of(pod) for pod in ready):
            self._complete.add(app)
        elif missing > 0 and app in self._complete:
            self.missed[app] = max(self.missed[app], missing)

    def _check_room(self, bound: Object, node: str) -> None:
        if not self._api.exists(NODES, "", node):
            return  # as a real API server, which binds to any name
        for resource, amount in free_capacity(self._api, node).items():
            if amount < 0:
                name = bound["metadata"]["name"]
                self.wrong.append(f"I2: {resource} on {node} lacks {-amount} with {name}")

    def _check_volumes(self, bound: Object, node: str) -> None:
        """Check that a pod is bound after its volumes, and to a node that reaches them."""
        there = self._api.store.get(NODES, "", node)
        for claim, volume in volumes_of(self._api, bound):
            if volume is None:
                self.wrong.append(f"I2: {bound['metadata']['name']} bound before {claim}")
            elif there is not None and not _is_local_to(volume, there):
                self.wrong.append(f"I2: {bound['metadata']['name']} bound apart from {claim}")


class Delays:
    """Test oracle of liveness: pods that wait although they fit, and pods that stay detached.

    `handover` is the most seconds from the end of a leader until another scheduler leads.
    """

    def __init__(self, api: ApiServer, handover: float) -> None:
        self._api = api
        self._handover = handover
        #: by pod and state: time since which the state lasts
        self._since: dict[str, float] = {}
        self.wrong: dict[str, None] = {}

    def sample(self, pods: Sequence[Object], settled: float) -> None:
        """Check that no pod of the scheduler has been in a state that must end for too long, since
        `settled` or later.
        """
        now = self._api.clock.monotonic()
        lasting = dict(self._list_states(pods))
        self._since = {state: self._since.get(state, now) for state in lasting}
        for state, since in self._since.items():
            if now - max(since, settled) > lasting[state]:
                self.wrong[f"I4: {state} for more than {lasting[state]:.0f} s"] = None

    def _list_states(self, pods: Sequence[Object]) -> Iterator[tuple[str, float]]:
        """Yield states that must end, and the most seconds until then."""
        for pod in filter(is_active, pods):
            name, grace = pod["metadata"]["name"], pod["spec"]["terminationGracePeriodSeconds"]
            if is_detached(pod):
                yield f"{name} stays detached", RESTORED + grace + self._handover
            elif not node_of(pod) and nodes_for(self._api, pod):
                yield f"{name} waits although it fits", BOUND + self._handover


TEMPLATE_HASH = "pod-template-hash"
#: lowest status of a possibly applied write
_SERVER_ERROR = 500
#: seconds for clients to find a replacement, in the configuration of every run
DRAIN_DELAY = 1.0
#: status of a bind of a pod that is bound
_CONFLICT = 409
#: seconds from a lost response until a scheduler has recorded the loss, but not read the pod
_RECORDED_AFTER = 0.001
#: steps of binds and migrations by injection point
_STEPS = {
    "create-pods/binding": "bind",
    "create-pods/eviction": "evict",
    "create-pods/eviction.dry-run": "dry-run",
    "create-events": "event",
    "patch-pods.detach": "detach",
    "patch-pods.reattach": "reattach",
}


@attrs.define
class Asked:
    """Request observed by a test oracle, with times of sending and response in seconds on the
    loop's clock.
    """

    request: Request
    at: float
    answered: float = math.inf
    #: migration step that the request performs, such as detach or evict; otherwise the HTTP method
    kind: str = attrs.field(init=False)

    @kind.default
    def _kind(self) -> str:
        return _STEPS.get(injection_point_of(self.request)[0], self.request.method)

    @property
    def pod(self) -> str:
        """Return the pod's name in the request path, or ""."""
        plural, name, *_ = [*self.request.path.split("/")[5:7], "", ""]
        return name if plural == "pods" else ""


class Witness:
    """Test oracle for I3 (safe migrations): records all requests and checks the preconditions of
    migration steps.
    """

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.asked: list[Asked] = []
        self.wrong: list[str] = []
        #: time until which schedulers may be unaware of a loss
        self.excused_until = 0.0
        #: evictions before clients had the time to find the replacement
        self.hasty: list[str] = []
        #: by uid: time since which the pod is Ready
        self._ready_since: dict[str, float] = {}
        #: by uid: Ready pods of the app, including the pod, at the last reads of the
        #: pod before it was detached
        self._ready_before: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=3))
        api.store.subscribe(self._notice)

    def of(self, *kinds: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.kind in kinds]

    def judge_request(self, request: Request, runtime: Runtime) -> Asked:
        asked = Asked(request, loop_time())
        self.asked.append(asked)
        judges: dict[str, Callable[[Asked], None]] = {
            "bind": partial(self._judge_bind, runtime),
            "evict": self._judge_eviction,
            "dry-run": self._judge_eviction_uid,
            "detach": self._judge_detaching,
            "reattach": self._judge_reattaching,
            "event": self._judge_event,
            "GET": self._record_ready,
        }
        if asked.kind in judges:
            judges[asked.kind](asked)
        return asked

    def judge_lost_response(self, asked: Asked, runtime: Runtime) -> None:
        """Check the sender's mirror shortly after a bind whose outcome is unknown."""
        if asked.kind == "bind":
            asyncio.get_running_loop().call_later(
                _RECORDED_AFTER, self._judge_reservation, asked, runtime
            )

    def _judge_reservation(self, asked: Asked, runtime: Runtime) -> None:
        """Require that the scheduler's mirror still reserves the node's capacity for a pod whose
        bind may have been applied.

        The obligation ends once the scheduler reads the pod.
        """
        uid, node = asked.request.body["metadata"].get("uid"), asked.request.body["target"]["name"]
        pod = runtime.mirror.pod(uid)
        read = any(a.kind == "GET" and a.pod == asked.pod for a in self._list_answered(asked.at))
        if read or pod is None or pod.terminating or pod.finished or pod.node_name is not None:
            return
        self._require(
            runtime.mirror.snapshot().placed.get(uid) == node,
            f"{asked.pod} may be bound to {node}, where nothing is reserved for it any more",
        )

    def _list_answered(self, moment: float) -> Iterator[Asked]:
        for asked in reversed(self.asked):
            if asked.at < moment:
                return
            if asked.answered < math.inf:
                yield asked

    def _require(self, truth: object, otherwise: str) -> None:
        if not truth:
            self.wrong.append(otherwise)

    def _record_ready(self, asked: Asked) -> None:
        pod = self._pod(asked)
        if pod is not None and not is_detached(pod):  # repeated evictions read the pod as well
            self.record_ready(pod)

    def record_ready(self, pod: Object) -> None:
        """Record the number of Ready pods of the pod's workload, the pod included."""
        ready = self._ready_others(pod) + (is_ready(pod) and not is_terminating(pod))
        self._ready_before[pod["metadata"]["uid"]].append(ready)

    def _judge_bind(self, runtime: Runtime, asked: Asked) -> None:
        """Require that a Binding request has the pod's uid, and that no pod in the scheduling queue
        is claimed by a migration.
        """
        uid = asked.request.body["metadata"].get("uid")
        self._require(uid, f"{asked.pod} bound without its uid")
        if uid in runtime.mirror.claimed:
            claimed_and_queued = uid in runtime.queue
            self._require(not claimed_and_queued, f"{asked.pod} is claimed by a move, and queued")

    def _judge_event(self, asked: Asked) -> None:
        """Require that an Event about a bind names the node of the pod."""
        body = asked.request.body
        uid = body.get("regarding", {}).get("uid")
        if body.get("reason") != "Scheduled":
            return  # updates of a counter name no reason
        for pod in self._api.list(PODS, body["metadata"]["namespace"]):
            if pod["metadata"]["uid"] == uid:
                text, name = body["note"], pod["metadata"]["name"]
                node = node_of(pod)
                truth = node and f" to {node}" in text
                self._require(truth, f"{name} is on {node or 'no node'}: {text}")

    def _judge_eviction_uid(self, asked: Asked) -> None:
        uid = asked.request.body["deleteOptions"].get("preconditions", {}).get("uid")
        self._require(uid, f"eviction of {asked.pod} without its uid")

    def _judge_eviction(self, asked: Asked) -> None:
        self._judge_eviction_uid(asked)
        pod = self._pod(asked)
        if pod is None or not is_detached(pod) or self._is_excused:
            return
        wanted = self._count_desired(pod)
        if wanted and not self._is_outdated(pod, wanted):
            self._check_drain(asked, pod)
        self.judge_evicted(pod)

    def judge_evicted(self, pod: Object) -> None:
        """Require enough other Ready pods when a migration evicts a pod detached from its
        ReplicaSet.

        Enough is the number before the migration, or the desired replicas if fewer.
        """
        if self._is_excused:
            return
        wanted = self._count_desired(pod)
        ready, before = self._ready_others(pod), self._ready_before[pod["metadata"]["uid"]]
        self._require(
            ready >= min([wanted, *before]),
            f"{pod['metadata']['name']} evicted with {ready} others Ready, {wanted} wanted,"
            f" before: {before}",
        )

    @property
    def _is_excused(self) -> bool:
        """Return whether decisions may have been made before the last loss."""
        return self._api.clock.monotonic() <= self.excused_until

    def _is_outdated(self, pod: Object, wanted: int) -> bool:
        """Return whether a rollout takes pods from the detached pod's ReplicaSet."""
        note, namespace = _note(pod["metadata"]) or {}, pod["metadata"]["namespace"]
        owner = self._api.store.get(REPLICA_SETS, namespace, note.get("replicaSet", ""))
        return owner is not None and owner["spec"]["replicas"] < wanted

    def _check_drain(self, asked: Asked, pod: Object) -> None:
        """Record an eviction as hasty if no pod like it has been Ready on the target for long."""
        target, revision = (_note(pod["metadata"]) or {}).get("target"), labels_of(pod)
        replacements = [
            asked.at - self._ready_since[other["metadata"]["uid"]]
            for other in self._list_ready_others(pod)
            if node_of(other) == target
            and labels_of(other).get(TEMPLATE_HASH) == revision[MIGRATING_LABEL]
        ]
        if replacements and max(replacements) < DRAIN_DELAY:
            self.hasty.append(f"{asked.pod} evicted {max(replacements):.2f} s after another Ready")

    def _judge_detaching(self, asked: Asked) -> None:
        metadata = asked.request.body["metadata"]
        self._require(metadata.get("uid"), f"{asked.pod} detached without its uid")
        self._require(
            metadata.get("resourceVersion"), f"{asked.pod} detached without its resourceVersion"
        )
        note, pod = _note(metadata), self._pod(asked)
        owners = pod["metadata"].get("ownerReferences", ()) if pod else ()
        for owner in owners:
            self._require(
                note is not None
                and (note["replicaSet"], note["uid"]) == (owner["name"], owner["uid"]),
                f"{asked.pod} of {owner['name']} {owner['uid']} detached as {note}",
            )

    def _judge_reattaching(self, asked: Asked) -> None:
        self._require(
            asked.request.body["metadata"].get("uid"), f"{asked.pod} reattached without its uid"
        )

    def _notice(self, change: ObjectChange) -> None:
        """Require that a pod reattached to its ReplicaSet has the template hash and no migration
        annotation.
        """
        if change.resource is not PODS:
            return
        uid = change.object["metadata"]["uid"]
        if change.type == "DELETED" or not is_ready(change.object):
            self._ready_since.pop(uid, None)
        else:
            self._ready_since.setdefault(uid, loop_time())
        if change.type == "DELETED" or change.previous is None:
            return
        after, before = change.object["metadata"], change.previous["metadata"]
        labels, labels_before = after.get("labels", {}), before.get("labels", {})
        if (
            MIGRATING_LABEL in labels
            or MIGRATING_LABEL not in labels_before
            or _note(before) is None
        ):
            return
        self._require(
            labels.get(TEMPLATE_HASH) == labels_before[MIGRATING_LABEL],
            f"{after['name']} reattached with labels {labels}",
        )
        self._require(_note(after) is None, f"{after['name']} reattached, and its annotation left")

    def _pod(self, asked: Asked) -> Object | None:
        parts = asked.request.path.split("/")
        return self._api.store.get(PODS, parts[4], asked.pod) if asked.pod else None

    def _ready_others(self, pod: Object) -> int:
        return len(self._list_ready_others(pod))

    def _list_ready_others(self, pod: Object) -> list[Object]:
        """Return the other Ready pods of the workload, without detached ones."""
        metadata = pod["metadata"]
        app = metadata.get("labels", {}).get("app", "")
        others = self._api.list(PODS, metadata["namespace"], labels=f"app={app}")
        return [
            other
            for other in others
            if is_ready(other)
            and not is_terminating(other)
            and MIGRATING_LABEL not in other["metadata"]["labels"]
            and other["metadata"]["uid"] != metadata["uid"]
        ]

    def _count_desired(self, pod: Object) -> int:
        """Return the desired replicas of the pod's Deployment; 0 after the Deployment
        was deleted.
        """
        note, namespace = _note(pod["metadata"]) or {}, pod["metadata"]["namespace"]
        replica_set = self._api.store.get(REPLICA_SETS, namespace, note.get("replicaSet", ""))
        if replica_set is None or replica_set["metadata"]["uid"] != note["uid"]:
            return 0
        if is_terminating(replica_set):
            return 0
        [owner] = replica_set["metadata"]["ownerReferences"]
        deployment = self._api.store.get(DEPLOYMENTS, namespace, owner["name"])
        if deployment is None or is_terminating(deployment):
            return 0
        wanted: int = deployment["spec"]["replicas"]
        return wanted


def _note(metadata: Object) -> dict[str, str] | None:
    """Return the migration annotation of a pod detached from its ReplicaSet, decoded from JSON;
    None if absent.
    """
    text = metadata.get("annotations", {}).get(MOVE_ANNOTATION)
    return None if text is None else orjson.loads(text)


def is_detached(pod: Object) -> bool:
    return MIGRATING_LABEL in pod["metadata"].get("labels", {})


def _may_be_own(asked: Asked, response: Response) -> bool:
    """Return whether a refusal may be due to an earlier delivery of the same request."""
    return asked.kind == "bind" and response.status == _CONFLICT


@attrs.define(eq=False)
class WitnessedCluster(ClusterFront):
    """Cluster connection that has the witness check each request before it is sent."""

    witness: Witness
    #: returns the scheduler that sends
    sender: Callable[[], Runtime]

    async def request(self, request: Request, *, timeout: float) -> Response:
        runtime = self.sender()
        asked = self.witness.judge_request(request, runtime)
        try:
            response = await self.cluster.request(request, timeout=timeout)
        except OutcomeUnknown:
            self.witness.judge_lost_response(asked, runtime)
            raise
        else:
            if response.status >= _SERVER_ERROR or _may_be_own(asked, response):
                self.witness.judge_lost_response(asked, runtime)
            return response
        finally:
            asked.answered = loop_time()
