"""Everything a scheduler asks of the API server, in order, and what no request of a move may break.

It stands in front of the emulated cluster in every test with a `World`, so that what is promised
about each single call is asserted wherever pods are moved, whatever the test is about.
"""

import asyncio
import math
from collections import defaultdict, deque

import attrs
import orjson

from kubedsm.emulator.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS

MIGRATING, TEMPLATE_HASH = "kubedsm.io/migrating", "pod-template-hash"
NOTE = "kubedsm.io/move"


@attrs.define
class Asked:
    """A request, and when it was sent and answered, in seconds on the loop's clock."""

    request: object
    at: float
    answered: float = math.inf

    @property
    def kind(self):
        """What it asks for, as far as moves go; the HTTP method for anything else."""
        method, path, body = self.request.method, self.request.path, self.request.body
        if method == "POST" and path.endswith("/eviction"):
            return "dry-run" if "dryRun" in body["deleteOptions"] else "evict"
        if method == "POST" and path.endswith("/binding"):
            return "bind"
        if method == "POST" and path.endswith("/events"):
            return "event"
        labels = body.get("metadata", {}).get("labels", {}) if method == "PATCH" else {}
        if MIGRATING in labels:
            return "reattach" if labels[MIGRATING] is None else "detach"
        return method

    @property
    def pod(self):
        """The name in its path, if it is about one pod."""
        parts = self.request.path.split("/")
        return parts[6] if parts[5:6] == ["pods"] and len(parts) > 6 else ""


class Witness:
    """What was asked, and what was wrong about it."""

    def __init__(self, api):
        self._api = api
        self.asked = []
        self.wrong = []
        #: what asks, while it runs
        self.runtime = None
        #: by uid: how many pods of its app were Ready, it included, when it was last looked at
        self._ready_before = defaultdict(lambda: deque(maxlen=3))
        api.store.subscribe(self._notice)

    def of(self, *kinds):
        return [asked for asked in self.asked if asked.kind in kinds]

    def kinds(self, pod=""):
        """In order; reads left out."""
        return [a.kind for a in self.asked if a.kind != "GET" and pod in ("", a.pod)]

    def before(self, cluster):
        """The cluster, with the witness in front of it."""
        return _Witnessed(cluster, self)

    def note(self, request):
        asked = Asked(request, asyncio.get_running_loop().time())
        self.asked.append(asked)
        judge = {
            "bind": self._judge_bind,
            "evict": self._judge_eviction,
            "dry-run": self._judge_uid_of_eviction,
            "detach": self._judge_detaching,
            "reattach": self._judge_reattaching,
            "GET": self._look,
        }.get(asked.kind)
        if judge is not None:
            judge(asked)
        return asked

    def _require(self, truth, otherwise):
        if not truth:
            self.wrong.append(otherwise)

    def _look(self, asked):
        pod = self._pod(asked)
        if pod is not None:
            ready = self._ready_others(pod) + (_is_ready(pod) and not _leaving(pod))
            self._ready_before[pod["metadata"]["uid"]].append(ready)

    def _judge_bind(self, asked):
        """The replacement that a move has claimed is not the scheduler's to decide on."""
        uid, runtime = asked.request.body["metadata"].get("uid"), self.runtime
        self._require(uid, f"{asked.pod} bound without its uid")
        claimed = runtime is not None and runtime.mirror.claimant(uid) is not None
        self._require(
            not (claimed and uid in runtime.queue), f"{asked.pod} is claimed by a move, and queued"
        )

    def _judge_uid_of_eviction(self, asked):
        uid = asked.request.body["deleteOptions"].get("preconditions", {}).get("uid")
        self._require(uid, f"eviction of {asked.pod} without its uid")

    def _judge_eviction(self, asked):
        """A detached pod only goes when as many are Ready without it as before, or as wanted."""
        self._judge_uid_of_eviction(asked)
        pod = self._pod(asked)
        if pod is None or not _detached(pod):
            return
        wanted = self._wanted(pod)
        ready, before = self._ready_others(pod), self._ready_before[pod["metadata"]["uid"]]
        self._require(
            ready >= min(wanted, *before),
            f"{asked.pod} evicted with {ready} others Ready, {wanted} wanted, before: {before}",
        )

    def _judge_detaching(self, asked):
        metadata = asked.request.body["metadata"]
        self._require(metadata.get("uid"), f"{asked.pod} detached without its uid")
        self._require(
            metadata.get("resourceVersion"), f"{asked.pod} detached without its resourceVersion"
        )
        note, pod = _note(metadata), self._pod(asked)
        owners = pod["metadata"].get("ownerReferences", ()) if pod else ()
        for owner in owners:
            self._require(
                (note["replicaSet"], note["uid"]) == (owner["name"], owner["uid"]),
                f"{asked.pod} of {owner['name']} {owner['uid']} detached as {note}",
            )

    def _judge_reattaching(self, asked):
        self._require(
            asked.request.body["metadata"].get("uid"), f"{asked.pod} reattached without its uid"
        )

    def _notice(self, change):
        """What was detached and is a ReplicaSet's again is so without a trace."""
        if change.resource is not PODS or change.type == "DELETED" or change.previous is None:
            return
        after, before = change.object["metadata"], change.previous["metadata"]
        labels, labels_before = after.get("labels", {}), before.get("labels", {})
        if MIGRATING in labels or MIGRATING not in labels_before or _note(before) is None:
            return
        self._require(
            labels.get(TEMPLATE_HASH) == labels_before[MIGRATING],
            f"{after['name']} reattached with labels {labels}",
        )
        self._require(_note(after) is None, f"{after['name']} reattached, and its annotation left")

    def _pod(self, asked):
        parts = asked.request.path.split("/")
        return self._api.store.get(PODS, parts[4], asked.pod) if asked.pod else None

    def _ready_others(self, pod):
        metadata = pod["metadata"]
        app = metadata.get("labels", {}).get("app", "")
        others = self._api.list(PODS, metadata["namespace"], labels=f"app={app}")
        return sum(
            _is_ready(other)
            and not _leaving(other)
            and MIGRATING not in other["metadata"]["labels"]
            for other in others
            if other["metadata"]["uid"] != metadata["uid"]
        )

    def _wanted(self, pod):
        """How many pods its Deployment wants; none once that, or the ReplicaSet, is gone."""
        note, namespace = _note(pod["metadata"]) or {}, pod["metadata"]["namespace"]
        replica_set = self._api.store.get(REPLICA_SETS, namespace, note.get("replicaSet", ""))
        if replica_set is None or replica_set["metadata"]["uid"] != note["uid"]:
            return 0
        if _leaving(replica_set):
            return 0
        [owner] = replica_set["metadata"]["ownerReferences"]
        deployment = self._api.store.get(DEPLOYMENTS, namespace, owner["name"])
        return 0 if deployment is None or _leaving(deployment) else deployment["spec"]["replicas"]


def _note(metadata):
    """What a detached pod says of itself, if it does."""
    text = metadata.get("annotations", {}).get(NOTE)
    return None if text is None else orjson.loads(text)


def _leaving(thing):
    return "deletionTimestamp" in thing["metadata"]


def _detached(pod):
    return MIGRATING in pod["metadata"].get("labels", {})


def _is_ready(pod):
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@attrs.frozen
class _Witnessed:
    cluster: object
    witness: Witness

    async def request(self, request, *, timeout):
        asked = self.witness.note(request)
        try:
            return await self.cluster.request(request, timeout=timeout)
        finally:
            asked.answered = asyncio.get_running_loop().time()

    def stream(self, request, *, timeout):
        return self.cluster.stream(request, timeout=timeout)
