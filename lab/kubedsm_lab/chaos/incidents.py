"""Incidents: changes of nodes, pods and owners during a scheduler's operation, temporary or
permanent.
"""

from collections.abc import Callable
from typing import Any

import attrs

from kubedsm_lab.chaos.hands import Hands
from kubedsm_lab.chaos.oracles import nodes_for
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import NODES, PODS

#: injection points of incidents: requests of migration steps, and the resulting events
STEPS = frozenset(
    {
        *("create-pods/binding", "create-pods/eviction"),
        *("patch-pods.detach", "patch-pods.reattach"),
        *("pods.ADDED", "pods.MODIFIED", "pods.DELETED"),
    }
)


@attrs.frozen
class Here:
    """Location of an incident: a pod, the pod's workload, and its current or target node."""

    hands: Hands
    pod: str
    node: str

    @property
    def app(self) -> str:
        """Return the workload of the pod: the pod's name up to the first dash."""
        return self.pod.partition("-")[0]


@attrs.frozen
class Incident:
    """Incident in the cluster: a function that makes a change, and a function that reverts the
    change, if the incident is temporary.
    """

    begin: Callable[[Here], Any]
    #: called with the result of `begin`; None for a permanent incident
    end: Callable[[Here, Any], object] | None = None
    #: whether a run cannot be judged unless the incident ends
    must_end: bool = False
    #: whether a tenant can cause the incident
    by_tenant: bool = False


def begin_incident(hands: Hands, what: str, pod: str, node: str) -> Callable[[], object] | None:
    """Start the named incident; return the function that ends the incident, or None if permanent.

    `pod` is the pod's name, optionally with namespace; without `node`, the pod's node or the last
    node is used.
    """
    name = pod.rpartition("/")[2]
    found = hands.api.store.get(PODS, hands.namespace, name)
    names = [node["metadata"]["name"] for node in hands.api.list(NODES)]
    where = node or (node_of(found) if found else "") or (names[-1] if names else "")
    here, incident = Here(hands, name, where), INCIDENTS[what]
    state, end = incident.begin(here), incident.end
    return None if end is None else lambda: end(here, state)


def _bind_elsewhere(here: Here) -> None:
    """Bind the pod as another scheduler would, to a different feasible node if there is one."""
    api = here.hands.api
    candidates = nodes_for(api, api.get(PODS, here.hands.namespace, here.pod))
    others = [name for name in candidates if name != here.node]
    here.hands.bind_pod(here.pod, [*others, here.node][0])


def _change_replicas(here: Here, replicas: Callable[[int], int]) -> int:
    """Scale the pod's workload; `replicas` computes the new number from the current one. Returns
    the previous number.
    """
    before = here.hands.count_replicas(here.app)
    here.hands.scale_workload(here.app, replicas(before))
    return before


def _scale_back(here: Here, before: int) -> None:
    here.hands.scale_workload(here.app, before)


_BUDGETS: dict[str, Callable[[Here], object]] = {
    "all": lambda here: here.hands.create_budget("all", here.app, minAvailable="100%"),
    "more": lambda here: here.hands.create_budget("more", here.app, minAvailable=99),
}
INCIDENTS: dict[str, Incident] = {
    "node-lost": Incident(
        lambda here: here.hands.lose_node(here.node),
        lambda here, _: here.hands.lose_node(here.node, lost=False),
    ),
    "node-deleted": Incident(
        lambda here: here.hands.remove_node(here.node),
        lambda here, node: here.hands.add_node(node),
    ),
    "node-cordoned": Incident(
        lambda here: here.hands.cordon_node(here.node),
        lambda here, _: here.hands.cordon_node(here.node, cordoned=False),
    ),
    "node-shrunk": Incident(
        lambda here: here.hands.resize_node(here.node, "1"),
        lambda here, before: here.hands.resize_node(here.node, before),
    ),
    "node-filled": Incident(
        lambda here: here.hands.fill_node(here.node, "filler"),
        lambda here, _: here.hands.delete_pod("filler"),
    ),
    "pod-deleted": Incident(lambda here: here.hands.delete_pod(here.pod), by_tenant=True),
    "pod-destroyed": Incident(
        lambda here: here.hands.delete_pod(here.pod, grace_seconds=0), by_tenant=True
    ),
    # As `kubectl drain` by an administrator.
    "pod-evicted": Incident(lambda here: here.hands.evict_pod(here.pod)),
    "pod-bound": Incident(_bind_elsewhere),
    "pod-held": Incident(
        lambda here: here.hands.hold_pod(here.pod),
        lambda here, _: here.hands.hold_pod(here.pod, held=False),
        by_tenant=True,
    ),
    "scaled-to-0": Incident(
        lambda here: _change_replicas(here, lambda _: 0), _scale_back, by_tenant=True
    ),
    # The additional pod may be mistaken for the replacement of a detached pod. I9 does not apply:
    # three slow migrations use up the limit of the namespace, which the neighbour shares.
    "one-more": Incident(
        lambda here: _change_replicas(here, lambda before: before + 1), _scale_back
    ),
    "rolled-out": Incident(lambda here: here.hands.roll_out(here.app), by_tenant=True),
    "undeployed": Incident(lambda here: here.hands.delete_workload(here.app), by_tenant=True),
    # No replacement is created, and no condition says why.
    "controllers-stopped": Incident(
        lambda here: here.hands.stop_controllers(),
        lambda here, _: here.hands.stop_controllers(stopped=False),
        must_end=True,
    ),
    "quota": Incident(
        lambda here: here.hands.forbid_more_pods(),
        lambda here, _: here.hands.allow_more_pods(),
        must_end=True,
    ),
    # Only make-before-break migrations are possible.
    "budget": Incident(
        _BUDGETS["all"],
        lambda here, _: here.hands.delete_budget("all"),
        must_end=True,
        by_tenant=True,
    ),
    "budget-forbids": Incident(
        _BUDGETS["more"],
        lambda here, _: here.hands.delete_budget("more"),
        must_end=True,
        by_tenant=True,
    ),
    # The API server refuses evictions of pods selected by two budgets.
    "two-budgets": Incident(
        lambda here: [_BUDGETS[name](here) for name in _BUDGETS],
        lambda here, _: list(map(here.hands.delete_budget, _BUDGETS)),
        must_end=True,
        by_tenant=True,
    ),
}


def list_incidents(point: str) -> list[tuple[str, bool]]:
    """Return the incidents possible at an injection point, each as (name, whether the incident ends
    during the run).
    """
    is_pending = point in ("create-pods/binding", "pods.ADDED")
    is_deleted = point == "pods.DELETED"
    return [
        (what, ends)
        for what, incident in INCIDENTS.items()
        if not (is_deleted and what.startswith("pod-")) and (is_pending or what != "pod-bound")
        for ends in (False, True)
        if (incident.end is not None if ends else not incident.must_end)
    ]
