"""What may become of the world at a step of a plan, whoever does it: for good, or for a while."""

from collections.abc import Callable

import attrs

from kubedsm_lab.chaos.hands import NAMESPACE, Hands
from kubedsm_lab.chaos.oracles import nodes_for
from kubedsm_lab.emulator.actors.pod_state import node_of
from kubedsm_lab.emulator.api.resources import NODES, PODS

#: calls that steps make, and events that show what came of them
STEPS = frozenset(
    {
        "create-pods/binding",
        "create-pods/eviction",
        "patch-pods.detach",
        "patch-pods.reattach",
        "pods.ADDED",
        "pods.MODIFIED",
        "pods.DELETED",
    }
)
#: what begins it; returns what ends it, if anything does
Incident = Callable[["Here"], Callable[[], object] | None]


@attrs.frozen
class Here:
    """What a step is about: a pod, its workload, the node where it is or is to be."""

    hands: Hands
    pod: str
    node: str

    @property
    def app(self) -> str:
        """Workloads have names without a dash, and their pods theirs and a dash before all else."""
        return self.pod.partition("-")[0]


def incident(hands: Hands, what: str, pod: str, node: str) -> Callable[[], object] | None:
    """Have it happen, where that can be; returns what ends it. `pod`: namespace and name."""
    name = pod.rpartition("/")[2]
    there = hands.api.store.get(PODS, NAMESPACE, name)
    where = node or (node_of(there) if there else "") or _any_node(hands)
    return INCIDENTS[what](Here(hands, name, where))


def _any_node(hands: Hands) -> str:
    names = [node["metadata"]["name"] for node in hands.api.list(NODES)]
    return str(names[-1]) if names else ""


def _node_lost(here: Here) -> Callable[[], object]:
    here.hands.lose_node(here.node)
    return lambda: here.hands.regain_node(here.node)


def _node_deleted(here: Here) -> Callable[[], object]:
    node = here.hands.remove_node(here.node)
    return lambda: here.hands.add_node(node)


def _node_cordoned(here: Here) -> Callable[[], object]:
    here.hands.cordon(here.node)
    return lambda: here.hands.cordon(here.node, cordoned=False)


def _node_shrunk(here: Here) -> Callable[[], object]:
    before = here.hands.resize_node(here.node, "1")
    return lambda: here.hands.resize_node(here.node, before)


def _node_filled(here: Here) -> Callable[[], object]:
    """As a DaemonSet does, which asks no scheduler of ours."""
    here.hands.fill_node(here.node, "filler")
    return lambda: here.hands.delete_pod("filler")


def _pod_deleted(here: Here) -> None:
    here.hands.delete_pod(here.pod)


def _pod_destroyed(here: Here) -> None:
    here.hands.delete_pod(here.pod, grace_seconds=0)


def _pod_bound(here: Here) -> None:
    """By another scheduler, elsewhere if there is room."""
    api = here.hands.api
    roomy = nodes_for(api, api.get(PODS, NAMESPACE, here.pod))
    others = [name for name in roomy if name != here.node]
    here.hands.bind(here.pod, [*others, here.node][0])


def _pod_held(here: Here) -> Callable[[], object]:
    here.hands.hold_pod(here.pod)
    return lambda: here.hands.hold_pod(here.pod, held=False)


def _scaled_to_0(here: Here) -> Callable[[], object]:
    before = here.hands.replicas(here.app)
    here.hands.scale(here.app, 0)
    return lambda: here.hands.scale(here.app, before)


def _one_more(here: Here) -> Callable[[], object]:
    """A pod that may be taken for a replacement: before there is one, or beside it."""
    before = here.hands.replicas(here.app)
    here.hands.scale(here.app, before + 1)
    return lambda: here.hands.scale(here.app, before)


def _rolled_out(here: Here) -> None:
    here.hands.roll_out(here.app)


def _undeployed(here: Here) -> None:
    here.hands.undeploy(here.app)


def _controllers_stopped(here: Here) -> Callable[[], object]:
    """No replacement comes, and nobody says why."""
    here.hands.stop_controllers()
    return here.hands.start_controllers


def _quota(here: Here) -> Callable[[], object]:
    """No pod more than there are."""
    here.hands.forbid_more_pods()
    return here.hands.allow_more_pods


def _budget(here: Here) -> Callable[[], object]:
    """As many as are wanted have to stay: moves that make before they break are allowed."""
    here.hands.budget("all", here.app, minAvailable="100%")
    return lambda: here.hands.drop_budget("all")


def _budget_forbids(here: Here) -> Callable[[], object]:
    here.hands.budget("more", here.app, minAvailable=99)
    return lambda: here.hands.drop_budget("more")


def _two_budgets(here: Here) -> Callable[[], object]:
    """What they cover cannot be evicted at all."""
    ends = _budget(here), _budget_forbids(here)
    return lambda: [end() for end in ends]


INCIDENTS: dict[str, Incident] = {
    "node-lost": _node_lost,
    "node-deleted": _node_deleted,
    "node-cordoned": _node_cordoned,
    "node-shrunk": _node_shrunk,
    "node-filled": _node_filled,
    "pod-deleted": _pod_deleted,
    "pod-destroyed": _pod_destroyed,
    "pod-bound": _pod_bound,
    "pod-held": _pod_held,
    "scaled-to-0": _scaled_to_0,
    "one-more": _one_more,
    "rolled-out": _rolled_out,
    "undeployed": _undeployed,
    "controllers-stopped": _controllers_stopped,
    "quota": _quota,
    "budget": _budget,
    "budget-forbids": _budget_forbids,
    "two-budgets": _two_budgets,
}
#: those that nothing ends
FINAL = frozenset({"pod-deleted", "pod-destroyed", "pod-bound", "rolled-out", "undeployed"})
#: those that nothing could be asked of if they did not end
PASSING = frozenset({"controllers-stopped", "quota", "budget", "budget-forbids", "two-budgets"})


#: those that a tenant can bring about
BY_TENANTS = frozenset(
    {what for what in INCIDENTS if what.startswith(("pod-", "budget", "one-", "two-", "scaled-"))}
    | {"rolled-out", "undeployed"}
) - {"pod-bound"}


def incidents(site: str) -> list[tuple[str, bool]]:
    """Those that can happen there, and whether they last for a while only."""
    waits = site in ("create-pods/binding", "pods.ADDED")
    gone = site == "pods.DELETED"
    return [
        (what, passing)
        for what in INCIDENTS
        if not (gone and what.startswith("pod-")) and (waits or what != "pod-bound")
        for passing in (False, True)
        if not (what in FINAL if passing else what in PASSING)
    ]
