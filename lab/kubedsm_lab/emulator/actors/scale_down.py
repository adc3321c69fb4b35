"""Which pods a scale-down takes first.

Source: `ActivePodsWithRanks` in k8s.io/kubernetes/pkg/controller.
"""

import math
from collections.abc import Iterable, Mapping

from kubedsm_lab.emulator.actors.pod_state import annotations_of, is_ready, node_of, ready_since
from kubedsm_lab.emulator.api.moments import seconds
from kubedsm_lab.emulator.api.resources import Object

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS = 1e9
#: below every magnitude of an age
_SHORTEST = -2


def deletion_order(pods: Iterable[Object], on_node: Mapping[str, int], now: float) -> list[Object]:
    """The pods, the first to delete first.

    Unassigned before assigned, Pending before Unknown before Running, not ready before ready,
    lower deletion cost, more pods of the same owner on its node (`on_node`), ready for a shorter
    time, more restarts, younger; then by uid. Times are compared by the order of magnitude of the
    age (powers of two) as Kubernetes does, `now` being seconds since the epoch.
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
            _SHORTEST if since is None else _magnitude(now - since),
            -_restarts(pod),
            _magnitude(now - seconds(metadata["creationTimestamp"])),
            metadata["uid"],
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Object) -> int:
    text = annotations_of(pod).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        # The API server lets anything through here; the controller takes it for the default.
        return 0


def _magnitude(age: float) -> int:
    return int(math.log2(age * _NANOSECONDS)) if age > 0 else -1


def _restarts(pod: Object) -> int:
    statuses = pod["status"].get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)
