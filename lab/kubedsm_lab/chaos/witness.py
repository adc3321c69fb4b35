"""Everything a scheduler asks of the API server, in order, and what no request of a move may break.

It stands in front of the emulated cluster, so that what is promised about each single call is
looked at wherever pods are moved, whatever else is looked at.
"""

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial

import attrs
import orjson

from kubedsm.app.assembly import Runtime
from kubedsm.kube.client.port import Cluster, OutcomeUnknown, Request, Response
from kubedsm.kube.wire.annotations import MOVE_ANNOTATION
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.emulator.actors.pod_state import is_ready, is_terminating
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Object
from kubedsm_lab.emulator.api.store import ObjectChange

TEMPLATE_HASH = "pod-template-hash"
#: the least status with which a write may have been applied and was not answered by success
_SERVER_ERROR = 500
#: seconds in which a scheduler has taken in a lost answer, and has not read the pod yet
_TAKEN_IN = 0.001


@attrs.define
class Asked:
    """A request, and when it was sent and answered, in seconds on the loop's clock."""

    request: Request
    at: float
    answered: float = math.inf

    @property
    def kind(self) -> str:
        """What it asks for, as far as moves go; the HTTP method for anything else."""
        method, path, body = self.request.method, self.request.path, self.request.body
        if method == "POST" and path.endswith("/eviction"):
            return "dry-run" if "dryRun" in body["deleteOptions"] else "evict"
        if method == "POST" and path.endswith("/binding"):
            return "bind"
        if method == "POST" and path.endswith("/events"):
            return "event"
        labels = body.get("metadata", {}).get("labels", {}) if method == "PATCH" else {}
        if MIGRATING_LABEL in labels:
            return "reattach" if labels[MIGRATING_LABEL] is None else "detach"
        return method

    @property
    def pod(self) -> str:
        """The name in its path, if it is about one pod."""
        plural, name, *_ = [*self.request.path.split("/")[5:7], "", ""]
        return name if plural == "pods" else ""


class Witness:
    """What was asked, and what was wrong about it."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.asked: list[Asked] = []
        self.wrong: list[str] = []
        #: on the clock: until then, what was lost just now may be unknown
        self.excused_until = 0.0
        #: by uid: how many pods of its app were Ready, it included, when it was last looked at
        self._ready_before: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=3))
        api.store.subscribe(self._notice)

    def of(self, *kinds: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.kind in kinds]

    def kinds(self, pod: str = "") -> list[str]:
        """In order; reads left out."""
        return [a.kind for a in self.asked if a.kind != "GET" and pod in ("", a.pod)]

    def before(self, cluster: Cluster, asks: Callable[[], Runtime]) -> "_Witnessed":
        """The cluster, with the witness in front of it; `asks` says what asks."""
        return _Witnessed(cluster, self, asks)

    def note(self, request: Request, runtime: Runtime) -> Asked:
        asked = Asked(request, asyncio.get_running_loop().time())
        self.asked.append(asked)
        judges: dict[str, Callable[[Asked], None]] = {
            "bind": partial(self._judge_bind, runtime),
            "evict": self._judge_eviction,
            "dry-run": self._judge_uid_of_eviction,
            "detach": self._judge_detaching,
            "reattach": self._judge_reattaching,
            "GET": self._look,
        }
        if asked.kind in judges:
            judges[asked.kind](asked)
        return asked

    def note_lost(self, asked: Asked, runtime: Runtime) -> None:
        """Judge the books of the scheduler once it has taken in that an answer is lost."""
        if asked.kind == "bind":
            asyncio.get_running_loop().call_later(_TAKEN_IN, self._judge_books, asked, runtime)

    def _judge_books(self, asked: Asked, runtime: Runtime) -> None:
        """The API server may hold the pod on the node: so must the mirror, until it has read it."""
        uid, node = asked.request.body["metadata"].get("uid"), asked.request.body["target"]["name"]
        pod = runtime.mirror.pod(uid)
        read = any(a.kind == "GET" and a.pod == asked.pod for a in self._answered_since(asked.at))
        if read or pod is None or pod.terminating or pod.finished or pod.node_name is not None:
            return
        self._require(
            runtime.mirror.snapshot().placed.get(uid) == node,
            f"{asked.pod} may be bound to {node}, where nothing is reserved for it any more",
        )

    def _answered_since(self, moment: float) -> Iterator[Asked]:
        for asked in reversed(self.asked):
            if asked.at < moment:
                return
            if asked.answered < math.inf:
                yield asked

    def _require(self, truth: object, otherwise: str) -> None:
        if not truth:
            self.wrong.append(otherwise)

    def _look(self, asked: Asked) -> None:
        pod = self._pod(asked)
        if pod is not None:
            ready = self._ready_others(pod) + (is_ready(pod) and not is_terminating(pod))
            self._ready_before[pod["metadata"]["uid"]].append(ready)

    def _judge_bind(self, runtime: Runtime, asked: Asked) -> None:
        """The replacement that a move has claimed is not the scheduler's to decide on."""
        uid = asked.request.body["metadata"].get("uid")
        self._require(uid, f"{asked.pod} bound without its uid")
        if runtime.mirror.claimant(uid) is not None:
            claimed_and_queued = uid in runtime.queue
            self._require(not claimed_and_queued, f"{asked.pod} is claimed by a move, and queued")

    def _judge_uid_of_eviction(self, asked: Asked) -> None:
        uid = asked.request.body["deleteOptions"].get("preconditions", {}).get("uid")
        self._require(uid, f"eviction of {asked.pod} without its uid")

    def _judge_eviction(self, asked: Asked) -> None:
        """A detached pod only goes when as many are Ready without it as before, or as wanted."""
        self._judge_uid_of_eviction(asked)
        pod = self._pod(asked)
        if pod is None or not _detached(pod):
            return
        if self._api.clock.monotonic() <= self.excused_until:
            return  # it was decided on before those that are missing were lost
        wanted = self._wanted(pod)
        ready, before = self._ready_others(pod), self._ready_before[pod["metadata"]["uid"]]
        self._require(
            ready >= min(wanted, *before),
            f"{asked.pod} evicted with {ready} others Ready, {wanted} wanted, before: {before}",
        )

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
        """What was detached and is a ReplicaSet's again is so without a trace."""
        if change.resource is not PODS or change.type == "DELETED" or change.previous is None:
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
        metadata = pod["metadata"]
        app = metadata.get("labels", {}).get("app", "")
        others = self._api.list(PODS, metadata["namespace"], labels=f"app={app}")
        return sum(
            is_ready(other)
            and not is_terminating(other)
            and MIGRATING_LABEL not in other["metadata"]["labels"]
            for other in others
            if other["metadata"]["uid"] != metadata["uid"]
        )

    def _wanted(self, pod: Object) -> int:
        """How many pods its Deployment wants; none once that, or the ReplicaSet, is gone."""
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
    """What a detached pod says of itself, if it does."""
    text = metadata.get("annotations", {}).get(MOVE_ANNOTATION)
    return None if text is None else orjson.loads(text)


def _detached(pod: Object) -> bool:
    return MIGRATING_LABEL in pod["metadata"].get("labels", {})


@attrs.frozen
class _Witnessed:
    cluster: Cluster
    witness: Witness
    asks: Callable[[], Runtime]

    async def request(self, request: Request, *, timeout: float) -> Response:
        runtime = self.asks()
        asked = self.witness.note(request, runtime)
        try:
            response = await self.cluster.request(request, timeout=timeout)
        except OutcomeUnknown:
            self.witness.note_lost(asked, runtime)
            raise
        else:
            if response.status >= _SERVER_ERROR:
                self.witness.note_lost(asked, runtime)
            return response
        finally:
            asked.answered = asyncio.get_running_loop().time()

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.cluster.stream(request, timeout=timeout)
