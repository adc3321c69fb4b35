"""Kubelets of all nodes: pod admission, start, stop and status reports.

A pod that is bound to a missing or NotReady node stays unchanged. So does a pod on a disconnected
node: its containers run on, but its kubelet neither receives nor reports anything.
"""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.images import names_of, with_tag
from kubedsm.model.model import Resources
from kubedsm.model.quantities import parse_millis, parse_units
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller, Timing
from kubedsm_lab.emulator.api.object_state import (
    annotations_of,
    claims_of,
    conditions_of,
    controller_of,
    find_condition,
    is_bound,
    is_disconnected,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    new_condition,
    node_of,
    requests_of,
    update_condition,
)
from kubedsm_lab.emulator.api.resources import (
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    Object,
)
from kubedsm_lab.emulator.api.statuses import pod_condition
from kubedsm_lab.emulator.api.store import ObjectChange


@attrs.frozen
class Containers:
    """State of a pod's containers, represented by the first running container."""

    ready: bool = True
    restarts: int = 0
    #: reason and message of the waiting state; empty if the containers run
    waits_for: str = ""
    message: str = ""


#: running containers after the start delay
UP = Containers()


class ContainerRuntime:
    """Container runtime without processes: containers run as soon as started, and stop at once."""

    def begin(self, pod: Object, changed: Callable[[], None]) -> None:
        """Start the pod's containers; `changed` is called whenever the container state or the
        progress of stopping changes.
        """

    def of(self, uid: str) -> Containers:  # noqa: ARG002 - runtimes with processes need it
        """Return the state of the pod's containers: readiness, restarts, waiting reason."""
        return UP

    def end(self, uid: str, grace: float) -> bool:  # noqa: ARG002 - as above
        """Stop the pod's containers within `grace` seconds; return whether all have stopped.

        May be called again, also for an unknown pod; the earliest deadline counts.
        """
        return True

    def output(self, pod: Object, container: str) -> bytes | None:  # noqa: ARG002 - as above
        """Return the log of the pod's container; None if the container has no process."""
        return None


#: a pod annotated with "true" here runs and never becomes ready
NEVER_READY = "emulator.kubedsm.io/never-ready"
#: number of pod addresses in 10.244.0.0/16
_ADDRESSES = 2**16 - 2
_COMPLETED = {"reason": "PodCompleted"}


@attrs.define
class _Admitted:
    """Pod that its kubelet admitted, with the resources reserved on the node."""

    node: str
    spec: Object
    requests: Resources
    #: times on the monotonic clock
    starts: float
    stops: float | None = None
    #: whether its containers run and are ready
    serves: bool = False
    #: last reported container state
    containers: Containers = UP


class Kubelet(Controller):
    """Kubelets of all nodes as one controller; keys without namespace are those of nodes.

    A pod runs `timing.start_delay` after its binding is observed and stops within
    `timing.stop_delay`; the `runtime` may take longer. Pods that the runtime does not run become
    Ready after the `initialDelaySeconds` of their probes, and those of Jobs succeed after
    `timing.job_duration`, or the seconds of the command `sleep`.

    With `timing.pull_speed`, a node pulls the images that its status.images lacks before it starts
    a pod, and then reports them; sizes are those that any node reports.
    """

    def __init__(self, cache: Cache, runtime: ContainerRuntime, timing: Timing) -> None:
        super().__init__(cache)
        self._runtime = runtime
        self._timing = timing
        self._admitted: dict[str, _Admitted] = {}
        self._used: dict[str, Resources] = {}
        self._next_address = 0
        self._disconnected: set[str] = set()
        #: ends of the pulls of images, by node
        self._pulls: dict[tuple[str, str], float] = {}

    def subscribe(self) -> None:
        self.cache.on(PODS, self._pod_changed)
        self.cache.on(NODES, self._node_changed)
        self.cache.on(PERSISTENT_VOLUME_CLAIMS, self._claim_changed)

    def _claim_changed(self, change: ObjectChange) -> None:
        namespace, name = key_of(change.object)
        for pod in self.cache.in_namespace(PODS, namespace):
            if node_of(pod) and name in claims_of(pod):
                self.enqueue(key_of(pod))

    def _pod_changed(self, change: ObjectChange) -> None:
        pod = change.object
        if change.type == "DELETED" or is_finished(pod):
            self._release_pod(pod["metadata"]["uid"])
        elif node_of(pod):
            self.enqueue(key_of(pod))

    def _node_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            return
        node = change.object
        self.enqueue(key_of(node))
        before = change.previous
        if before is None or _is_reachable(before) != _is_reachable(node):
            for pod in self.cache.pods_on(node["metadata"]["name"]):
                self.enqueue(key_of(pod))

    def serving(self) -> frozenset[str]:
        """Return the uids of pods whose containers run and are ready, even if the reported status
        is outdated.
        """
        return frozenset(uid for uid, admitted in self._admitted.items() if admitted.serves)

    def reconcile(self, key: Key) -> None:
        namespace, name = key
        if not namespace:
            self._register_node(name)
            return
        pod = self.cache.get(PODS, key)
        if pod is None or not node_of(pod):
            return
        node = self.cache.get(NODES, ("", node_of(pod)))
        if node is None or not _is_reachable(node):
            return
        if is_terminating(pod):
            self._stop_pod(pod)
        elif not is_finished(pod):
            self._run_pod(pod, node)

    # Node registration and heartbeats.

    def _register_node(self, name: str) -> None:
        """Report a new or reconnected node as Ready."""
        node = self.cache.get(NODES, ("", name))
        if node is not None and is_disconnected(node):
            self._disconnected.add(name)
            return
        back = name in self._disconnected
        self._disconnected.discard(name)
        known = [] if node is None else conditions_of(node["status"])
        if node is None or (find_condition(known, "Ready") and not back):
            return
        now = self.now()
        status = node["status"]
        text = "kubelet is posting ready status"
        ready = new_condition("Ready", "True", now, "KubeletReady", text)
        # Unknown conditions other than Ready are dropped: no component reads them.
        kept = [each for each in known if each["status"] != "Unknown" or each["type"] == "Ready"]
        reported = {
            **status,
            "conditions": update_condition(kept, {**ready, "lastHeartbeatTime": now}),
        }
        self.write_status(NODES, node, reported)

    # Pod lifecycle.

    def _run_pod(self, pod: Object, node: Object) -> None:
        uid = pod["metadata"]["uid"]
        admitted = self._admitted.get(uid)
        if admitted is None:
            requests = requests_of(pod)
            refused = self._reject_pod(requests, node)
            if refused is not None:
                self.write_status(PODS, pod, {**pod["status"], **refused})
                return
            starts = self._pull_images(pod, node) + self._timing.start_delay
            admitted = _Admitted(node_of(pod), pod["spec"], requests, starts)
            self._admitted[uid] = admitted
            used = self._used.get(admitted.node, Resources())
            self._used[admitted.node] = used + requests
            self._runtime.begin(pod, lambda: self.enqueue(key_of(pod)))
        elif admitted.spec is not pod["spec"]:
            # A resize takes effect at once; the status has no part in it.
            requests = requests_of(pod)
            self._used[admitted.node] += requests - admitted.requests
            admitted.spec, admitted.requests = pod["spec"], requests
        if not (self.has_come(admitted.starts, key_of(pod)) and self._has_volumes(pod)):
            return
        self._report_images(node)
        if _is_startless(pod):
            self.write_status(PODS, pod, _start_error_status(pod, self.now()))
            return
        containers = self._runtime.of(uid)
        ready = containers.ready and annotations_of(pod).get(NEVER_READY) != "true"
        if containers is UP:
            ready = self.has_come(admitted.starts + _probe_delay(pod), key_of(pod)) and ready
        admitted.serves = ready
        reported = is_ready(pod) == ready and admitted.containers == containers
        if pod["status"].get("phase") != "Running" or not reported:
            pod = self.write_status(PODS, pod, self._running(pod, node, containers, ready=ready))
            admitted.containers = containers
        ends = admitted.starts + _sleep_seconds(pod, self._timing.job_duration)
        of_job = (controller_of(pod) or {}).get("kind") == JOBS.kind
        if containers is UP and of_job and self.has_come(ends, key_of(pod)):
            self.write_status(PODS, pod, _success_status(pod, self.now()))

    def _pull_images(self, pod: Object, node: Object) -> float:
        """Begin to pull the images that the node lacks; return the time at which all are there."""
        ends = self.clock.monotonic()
        name = node["metadata"]["name"]
        if not self._timing.pull_speed or "images" not in node["status"]:
            return ends
        present = {each for image in node["status"]["images"] for each in image["names"]}
        for container in pod["spec"]["containers"]:
            image = names_of(with_tag(container["image"]))[-1]
            if image in present:
                continue
            pull = self._image_sizes().get(image, 0) / self._timing.pull_speed
            ends = max(ends, self._pulls.setdefault((name, image), self.clock.monotonic() + pull))
        return ends

    def _image_sizes(self) -> dict[str, int]:
        """Return the bytes of each image that any node reports."""
        return {
            name: image["sizeBytes"]
            for node in self.cache.all(NODES)
            for image in node["status"].get("images") or ()
            for name in image["names"]
        }

    def _report_images(self, node: Object) -> None:
        """Add the images whose pull has ended to the node's status."""
        name, now = node["metadata"]["name"], self.clock.monotonic()
        ended = [key for key, ends in self._pulls.items() if key[0] == name and ends <= now]
        if not ended:
            return
        sizes = self._image_sizes()
        pulled = [{"names": [image], "sizeBytes": sizes.get(image, 0)} for _, image in ended]
        for key in ended:
            del self._pulls[key]
        current = self.cache.get(NODES, ("", name)) or node
        images = [*current["status"].get("images", ()), *pulled]
        self.write_status(NODES, current, {**current["status"], "images": images})

    def _has_volumes(self, pod: Object) -> bool:
        """Return whether every volume claim of the pod is bound."""
        namespace = pod["metadata"]["namespace"]
        claims = (
            self.cache.get(PERSISTENT_VOLUME_CLAIMS, (namespace, name)) for name in claims_of(pod)
        )
        return all(claim is not None and is_bound(claim) for claim in claims)

    def _reject_pod(self, requests: Resources, node: Object) -> Object | None:
        """Return a Failed status if the node lacks capacity for the pod; None if admitted."""
        used = self._used.get(node["metadata"]["name"], Resources())
        room = _amounts(node["status"].get("allocatable") or {})
        for name, asked in (("pods", requests.pods), *requests.items()):
            if asked and used.amount(name) + asked > room.get(name, 0):
                return {
                    "phase": "Failed",
                    "reason": f"OutOf{name}",
                    "message": (
                        "Pod was rejected: Node didn't have enough resource: "
                        f"{name}, requested: {asked}, used: {used.amount(name)}, "
                        f"capacity: {room.get(name, 0)}"
                    ),
                    "startTime": self.now(),
                }
        return None

    def _running(self, pod: Object, node: Object, run: Containers, *, ready: bool) -> Object:
        now, before = self.now(), pod["status"]
        address, started = before.get("podIP") or self._address(), before.get("startTime", now)
        node_address = _address_of(node)
        host = {"hostIP": node_address, "hostIPs": [{"ip": node_address}]} if node_address else {}
        containers = pod["spec"]["containers"]
        reported = {
            "phase": "Running",
            "conditions": _pod_conditions(pod, now, ready=ready),
            **host,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": started,
            "containerStatuses": [
                _container_status(container, run, started, ready=ready) for container in containers
            ],
        }
        kept = {k: v for k, v in before.items() if k not in ("hostIP", "hostIPs")}
        return reported | {name: v for name, v in kept.items() if name not in reported}

    def _address(self) -> str:
        self._next_address = self._next_address % _ADDRESSES + 1
        high, low = divmod(self._next_address, 256)
        return f"10.244.{high}.{low}"

    def _stop_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        uid, now = metadata["uid"], self.clock.monotonic()
        grace = metadata.get("deletionGracePeriodSeconds", 0)
        admitted = self._admitted.get(uid)
        if admitted is not None and pod["status"].get("phase") == "Running":
            stops = now + min(float(grace), self._timing.stop_delay)
            admitted.stops = stops if admitted.stops is None else min(stops, admitted.stops)
            ended = self._runtime.end(uid, float(grace))
            if not (self.has_come(admitted.stops, key_of(pod)) and ended):
                return
        self.api.delete(PODS, *key_of(pod), grace_seconds=0, uid=uid)

    def _release_pod(self, uid: str) -> None:
        admitted = self._admitted.pop(uid, None)
        if admitted is not None:
            self._used[admitted.node] -= admitted.requests
            self._runtime.end(uid, 0.0)


def _is_startless(pod: Object) -> bool:
    """Return whether no container of the pod can start: images have no files in /nonexistent."""
    commands = [(each.get("command") or [""])[0] for each in pod["spec"]["containers"]]
    return all(command.startswith("/nonexistent/") for command in commands)


def _start_error_status(pod: Object, now: str) -> Object:
    """Return the Failed status of a pod that is never restarted, and whose command is missing."""
    error = {"exitCode": 128, "reason": "StartError", "startedAt": now, "finishedAt": now}
    containers = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "started": False,
            "state": {"terminated": error},
        }
        for each in pod["spec"]["containers"]
    ]
    return {**pod["status"], "phase": "Failed", "containerStatuses": containers}


def _is_reachable(node: Object) -> bool:
    return is_ready(node) and not is_disconnected(node)


def _probe_delay(pod: Object) -> float:
    """Return the seconds from the start of a pod's containers to their first successful probes."""
    return max(
        sum(
            float((container.get(probe) or {}).get("initialDelaySeconds") or 0)
            for probe in ("startupProbe", "readinessProbe")
        )
        for container in pod["spec"]["containers"]
    )


def _sleep_seconds(pod: Object, otherwise: float) -> float:
    """Return the duration of a pod that only runs `sleep`, in seconds."""
    container = pod["spec"]["containers"][0]
    match [*(container.get("command") or ()), *(container.get("args") or ())]:
        case ["sleep", duration] if duration.removesuffix("s").isdecimal():
            return float(duration.removesuffix("s"))
    return otherwise


def _success_status(pod: Object, now: str) -> Object:
    """Return the status of a pod whose containers have all succeeded."""
    status = pod["status"]
    over = {
        "PodReadyToStartContainers": {},
        **dict.fromkeys(("Ready", "ContainersReady"), _COMPLETED),
    }
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": now}
    return {
        **status,
        "phase": "Succeeded",
        "conditions": [
            pod_condition(c["type"], "False", now, **over[c["type"]]) if c["type"] in over else c
            for c in conditions_of(status)
        ],
        "containerStatuses": [
            {
                **each,
                "state": {"terminated": {**ended, "startedAt": status.get("startTime")}},
                "ready": False,
                "started": False,
            }
            for each in status["containerStatuses"]
        ],
    }


def _amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    return {
        name: parse_millis(quantity) if name == "cpu" else parse_units(quantity)
        for name, quantity in quantities.items()
    }


def _address_of(node: Object) -> str:
    addresses = node["status"].get("addresses") or ()
    return next((a.get("address", "") for a in addresses if a.get("type") == "InternalIP"), "")


def _pod_conditions(pod: Object, now: str, *, ready: bool) -> list[Object]:
    """Return the pod's conditions with those that the kubelet sets; those of other writers stay."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    unready = {
        "reason": "ContainersNotReady",
        "message": f"containers with unready status: [{' '.join(names)}]",
    }
    flags = {
        "PodReadyToStartContainers": True,
        "Initialized": True,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": True,
    }
    conditions = conditions_of(pod["status"])
    for kind, flag in flags.items():
        reported = pod_condition(kind, str(flag), now, **({} if flag else unready))
        conditions = update_condition(conditions, reported)
    return conditions


def _container_status(container: Object, run: Containers, started: str, *, ready: bool) -> Object:
    waiting = {"waiting": {"reason": run.waits_for, "message": run.message}}
    return {
        "name": container["name"],
        "state": waiting if run.waits_for else {"running": {"startedAt": started}},
        "lastState": {},
        "ready": ready,
        "restartCount": run.restarts,
        "image": container.get("image", ""),
        "imageID": "",
        "started": not run.waits_for,
    }
