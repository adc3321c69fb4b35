"""The row of a pod: above all its STATUS, which is worked out and not a field of the pod."""

from typing import Any

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.http.durations import age
from kubedsm_lab.emulator.http.printer import AGE, NAME, NONE, Column, Printer, age_of

_COLUMNS = (
    NAME,
    Column("Ready", description="Ready containers / containers."),
    Column("Status", description="The phase, or what keeps the pod from it."),
    Column("Restarts", description="Restarts of its containers, and when the last one was."),
    AGE,
    Column("IP", wide=True, description="The pod's own address."),
    Column("Node", wide=True, description="The node that it is bound to."),
    Column("Nominated Node", wide=True, description="The node that preemption made room on."),
    Column("Readiness Gates", wide=True, description="Readiness gates that are met / all."),
)


def _cells(pod: Object, now: float) -> list[Any]:
    spec, status = pod["spec"], pod.get("status", {})
    statuses = status.get("containerStatuses", [])
    # sidecars (restartable init containers) count as containers, other init containers do not
    sidecars = {
        container["name"]
        for container in spec.get("initContainers", ())
        if container.get("restartPolicy") == "Always"
    }
    sidecar_statuses = [
        container
        for container in status.get("initContainerStatuses", ())
        if container["name"] in sidecars
    ]
    ready = sum(1 for container in [*statuses, *sidecar_statuses] if container.get("ready"))
    containers = len(spec.get("containers", ())) + len(sidecars)
    return [
        pod["metadata"]["name"],
        f"{ready}/{containers}",
        pod_status(pod),
        _restarts([*statuses, *sidecar_statuses], now),
        age_of(pod, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_status(pod: Object) -> str:
    """The one word that `kubectl get pods` shows, by the rules of kube-apiserver's printer.

    The phase, overruled in turn by the status's reason, by what its init containers or containers
    wait for or ended with, and by its deletion.
    """
    status = pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    phase = status.get("phase", "")
    word: str = status.get("reason") or phase
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    initializing = _initializing(pod)
    if initializing and conditions.get("Initialized", {}).get("status") != "True":
        word = initializing
    else:
        word = _container_word(status.get("containerStatuses", ()), word)
        running = any(
            container.get("ready") and "running" in container.get("state", {})
            for container in status.get("containerStatuses", ())
        )
        if word == "Completed" and running:
            is_ready = conditions.get("Ready", {}).get("status") == "True"
            word = "Running" if is_ready else "NotReady"
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return word


def _container_word(statuses: Any, word: str) -> str:
    # the first container has the last word
    for container in reversed(statuses):
        state = container.get("state", {})
        if reason := state.get("waiting", {}).get("reason"):
            word = reason
        elif "terminated" in state:
            word = _ended(state["terminated"])
    return word


def _ended(terminated: Object) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Object) -> str:
    """What the first unfinished init container is doing; empty if all are done."""
    containers = {c["name"]: c for c in pod["spec"].get("initContainers", ())}
    statuses = pod.get("status", {}).get("initContainerStatuses", ())
    for index, container in enumerate(statuses):
        state = container.get("state", {})
        sidecar = containers.get(container["name"], {}).get("restartPolicy") == "Always"
        if state.get("terminated", {}).get("exitCode") == 0 or (
            sidecar and container.get("started")
        ):
            continue
        if "terminated" in state:
            return f"Init:{_ended(state['terminated'])}"
        reason = state.get("waiting", {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(containers)}"
    return ""


def _restarts(statuses: list[Object], now: float) -> str:
    count = sum(container.get("restartCount", 0) for container in statuses)
    ends = [
        finished
        for container in statuses
        if (finished := container.get("lastState", {}).get("terminated", {}).get("finishedAt"))
    ]
    return f"{count} ({age(max(ends), now)} ago)" if count and ends else str(count)


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = {gate["conditionType"] for gate in spec.get("readinessGates", ())}
    if not gates:
        return NONE
    true = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
    return f"{len(gates & true)}/{len(gates)}"


POD_PRINTER = Printer(_COLUMNS, _cells)
