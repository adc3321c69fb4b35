"""Node lifecycle controller: unreachable nodes, taints by condition, and taint evictions.

Also deletes the orphaned pods of deleted nodes. Implementation follows
k8s.io/kubernetes/pkg/controller/{nodelifecycle,tainteviction,podgc}.
"""

from collections import defaultdict
from collections.abc import Iterable

from kubedsm.model.model import Taint, Toleration
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller, Timing
from kubedsm_lab.emulator.api.object_state import (
    condition_of,
    conditions_of,
    find_condition,
    is_disconnected,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    new_condition,
    node_of,
    update_condition,
)
from kubedsm_lab.emulator.api.resources import NODES, PODS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.api.subresources import with_disruption_target
from kubedsm_lab.emulator.api.values import seconds

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
#: condition type and status → corresponding taint
_OF_CONDITION = {
    ("Ready", "False"): _NOT_READY,
    ("Ready", "Unknown"): _UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OURS = frozenset({*_OF_CONDITION.values(), _UNSCHEDULABLE})
_EVICTING = (_NOT_READY, _UNREACHABLE)
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
Zone = tuple[str, str]

#: seconds between node evictions: --node-eviction-rate, and the secondary rate
_NORMAL, _SLOW = 10.0, 100.0
#: --unhealthy-zone-threshold; and --large-cluster-size-threshold, for a zone
_UNHEALTHY, _LARGE = 0.55, 50
#: lost nodes up to which a zone is not partially disrupted
_FEW = 2


class NodeLifecycleController(Controller):
    """Controller of node conditions and taint evictions; keys are nodes and tainted pods."""

    def __init__(self, cache: Cache, timing: Timing) -> None:
        super().__init__(cache)
        self._timing = timing
        #: time of the last report of each disconnected node
        self._silent: dict[str, float] = {}
        #: unreachable nodes whose eviction was considered
        self._judged: set[str] = set()
        #: time from which a node of the zone may be given up
        self._next: dict[Zone, float] = {}
        #: deleted nodes, and when their pods are deleted
        self._lost: dict[str, float] = {}

    def subscribe(self) -> None:
        self.cache.on(NODES, self._node_changed)
        self.cache.on(PODS, self._pod_changed)

    def _node_changed(self, change: ObjectChange) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "DELETED":
            self._lost[name] = self.clock.monotonic() + self._timing.orphan_delay
        self.enqueue(("", name))
        before = change.previous
        if before is None or is_ready(before) != is_ready(change.object):
            # The proportion of unreachable nodes in a zone determines the eviction rate.
            while self._judged:
                self.enqueue(("", self._judged.pop()))

    def _pod_changed(self, change: ObjectChange) -> None:
        node = self.cache.get(NODES, ("", node_of(change.object)))
        if node is not None and change.type != "DELETED" and _no_execute(node):
            self.enqueue(key_of(change.object))

    def reconcile(self, key: Key) -> None:
        namespace, name = key
        if namespace:
            self._evict_where_tainted(key)
        elif (node := self.cache.get(NODES, key)) is None:
            self._delete_orphans(name)
        elif not self._mark_unreachable(node):
            self._update_taints(node)
            self._set_pods_unready(name)
            for pod in self.cache.pods_on(name):
                self.enqueue(key_of(pod))

    def _delete_orphans(self, node: str) -> None:
        """Delete all pods bound to a deleted Node without grace period, in place of the node's
        kubelet.
        """
        due = self._lost.get(node)
        if due is None or not self.has_come(due, ("", node)):
            return
        del self._lost[node]
        for pod in self.cache.pods_on(node):
            self.api.delete(PODS, *key_of(pod), grace_seconds=0, uid=pod["metadata"]["uid"])

    def _mark_unreachable(self, node: Object) -> bool:
        """Set the conditions of an unreachable node to Unknown; return whether they changed."""
        name, now = node["metadata"]["name"], self.clock.monotonic()
        if not is_disconnected(node):
            self._silent.pop(name, None)
            return False
        due = self._silent.setdefault(name, now) + self._timing.monitor_grace
        known = conditions_of(node["status"])
        ready = find_condition(known, "Ready")
        if (ready and ready["status"] == "Unknown") or not self.has_come(due, ("", name)):
            return False
        at = self.now()
        for kind in ("Ready", *_PRESSURES):
            before = find_condition(known, kind)
            last = node["metadata"]["creationTimestamp"]
            reason, text = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            if before is not None:
                last = before.get("lastHeartbeatTime", last)
                reason, text = "NodeStatusUnknown", "Kubelet stopped posting node status."
            unknown = new_condition(kind, "Unknown", at, reason, text)
            known = update_condition(known, {**unknown, "lastHeartbeatTime": last})
        self.write_status(NODES, node, {**node["status"], "conditions": known})
        return True

    def _update_taints(self, node: Object) -> None:
        taints = node["spec"].get("taints") or []
        wanted = self._list_taints(node, taints)
        if wanted != taints:
            spec = {name: value for name, value in node["spec"].items() if name != "taints"}
            if wanted:
                spec["taints"] = wanted
            self.api.update(NODES, {**node, "spec": spec})

    def _list_taints(self, node: Object, taints: list[Object]) -> list[Object]:
        keys = [
            _OF_CONDITION[state]
            for condition in conditions_of(node["status"])
            if (state := (condition["type"], condition["status"])) in _OF_CONDITION
        ]
        identities = [(key, "NoSchedule") for key in keys]
        if node["spec"].get("unschedulable"):
            identities.append((_UNSCHEDULABLE, "NoSchedule"))
        present = {(taint["key"], taint["effect"]): taint for taint in taints}
        evicting = [(key, "NoExecute") for key in keys if key in _EVICTING]
        given_up = any((key, "NoExecute") in present for key in _EVICTING)
        if evicting and self._may_give_up(node, again=given_up):
            identities += evicting
        kept = [
            taint
            for taint in taints
            if taint["key"] not in _OURS or (taint["key"], taint["effect"]) in identities
        ]
        now = self.now()
        added = [
            {"key": key, "effect": effect, "timeAdded": now}
            for key, effect in identities
            if (key, effect) not in present
        ]
        return [*kept, *added]

    def _may_give_up(self, node: Object, *, again: bool) -> bool:
        """Return whether the eviction rate limit of the node's zone permits evicting the node's
        pods now.

        With `again`, the node's pods are being evicted already.
        """
        name = node["metadata"]["name"]
        self._judged.add(name)
        intervals = eviction_intervals(self.cache.all(NODES))
        if all(interval is None for interval in intervals.values()):
            return False
        zone, now = zone_of(node), self.clock.monotonic()
        interval = intervals[zone]
        if again or interval is None:
            return again
        if not self.has_come(self._next.get(zone, now), ("", name)):
            return False
        self._next[zone] = now + interval
        return True

    def _set_pods_unready(self, name: str) -> None:
        """Set the Ready condition of an unreachable node's pods to False."""
        node = self.cache.get(NODES, ("", name))
        ready = node and condition_of(node, "Ready")
        if not ready or ready["status"] == "True":
            return
        unready = {"status": "False", "lastTransitionTime": self.now()}
        for pod in self.cache.pods_on(name):
            if is_ready(pod) and not is_finished(pod):
                marked = [
                    c | unready if c["type"] == "Ready" else c for c in conditions_of(pod["status"])
                ]
                self.write_status(PODS, pod, {**pod["status"], "conditions": marked})

    def _evict_where_tainted(self, key: Key) -> None:
        pod = self.cache.get(PODS, key)
        if pod is None or is_terminating(pod) or is_finished(pod):
            return
        node = self.cache.get(NODES, ("", node_of(pod)))
        moment = None if node is None else _eviction_moment(pod, node)
        if moment is None:
            return
        if not self.has_passed(moment, key):
            return
        message = "Taint manager: deleting due to NoExecute taint"
        doomed = with_disruption_target(pod, self.now(), "DeletionByTaintManager", message)
        self.write_status(PODS, pod, doomed["status"])
        self.api.delete(PODS, *key, uid=pod["metadata"]["uid"])


def _no_execute(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]


def _eviction_moment(pod: Object, node: Object) -> float | None:
    """Return the Unix time at which the node's NoExecute taints evict the pod; None if never."""
    moments = []
    for taint in _no_execute(node):
        added = seconds(taint["timeAdded"]) if taint.get("timeAdded") else 0.0
        tolerated = [t for t in pod["spec"].get("tolerations") or () if _tolerates(t, taint)]
        limits = [t["tolerationSeconds"] for t in tolerated if "tolerationSeconds" in t]
        if not tolerated:
            moments.append(0.0)
        elif limits:
            moments.append(added + max(0, min(limits)))
    return min(moments, default=None)


def _tolerates(toleration: Object, taint: Object) -> bool:
    fields = toleration.keys() & {"key", "operator", "value", "effect"}
    given = Taint(taint["key"], taint.get("value", ""), taint["effect"])
    return Toleration(**{name: toleration[name] for name in fields}).tolerates(given)


def zone_of(node: Object) -> Zone:
    labels = labels_of(node)
    return (
        labels.get("topology.kubernetes.io/region", ""),
        labels.get("topology.kubernetes.io/zone", ""),
    )


def eviction_intervals(nodes: Iterable[Object]) -> dict[Zone, float | None]:
    """Return the seconds between NoExecute taints on unreachable nodes, by zone.

    None means that no node of the zone is tainted. If no node is healthy in any zone, none is
    tainted anywhere: the control plane itself is likely partitioned. Source: ComputeZoneState and
    handleDisruption of k8s.io/kubernetes/pkg/controller/nodelifecycle.
    """
    zones = defaultdict[Zone, list[bool]](list)
    for node in nodes:
        zones[zone_of(node)].append(is_ready(node))
    if not any(ready for of_zone in zones.values() for ready in of_zone):
        return dict.fromkeys(zones)
    return {zone: _eviction_interval(of_zone) for zone, of_zone in zones.items()}


def _eviction_interval(ready: list[bool]) -> float | None:
    lost = ready.count(False)
    if lost == len(ready) or lost <= _FEW or lost / len(ready) < _UNHEALTHY:
        return _NORMAL
    return _SLOW if len(ready) > _LARGE else None
