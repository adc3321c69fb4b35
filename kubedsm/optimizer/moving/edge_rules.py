"""Rules between pods that no choice of migrations can change.

The verdict on a node depends on the other migrations. Here are only the verdicts of nodes and fixed
pods, and pairs of pods that can never share a node. `move_order` checks complete migration sets.
"""

from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import (
    Node,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Toleration,
    Uid,
)
from kubedsm.model.node_index import Mask
from kubedsm.model.snapshot import Snapshot
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.plugins.scene import speaks_of_others

#: Mask of nodes, N, and two items that exclude each other there.
Clash = tuple[Mask, int, int]

_NO_RULES = SchedulingRules()
_TOLERANT = (Toleration(operator="Exists"),)


@attrs.frozen(eq=False)
class EdgeRules:
    #: with all running pods
    feasibility: Feasibility
    #: without movable pods
    _staying: Feasibility
    #: without any pod
    _empty: Feasibility
    _open_to: dict[EquivalenceClass, Mask] = attrs.field(factory=dict)
    _clashes: dict[tuple[Uid, ...], list[Clash]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, movable: Iterable[Pod]) -> "EdgeRules | None":
        """Return the rules; None if no rule between pods concerns our pods."""
        classes = snapshot.census.classes
        if not any(c.rules.anti_affinity or speaks_of_others(c) for c in classes):
            return None
        by_class = {(id(p.pod_class), p.scheduler_name): p for p in snapshot.pods.values()}
        if not any(
            pod.pod_class.rules.anti_affinity
            or (pod.scheduler_name == snapshot.scheduler_name and speaks_of_others(pod.pod_class))
            for pod in by_class.values()
        ):
            return None
        return cls(
            Feasibility.of(snapshot),
            Feasibility.of(snapshot.without(pod.uid for pod in movable)),
            Feasibility.of(snapshot.without(snapshot.placed)),
        )

    def look(self, pod: Pod) -> EquivalenceClass:
        """Return the equivalence class towards other pods, nodes and volume claims aside."""
        seen = self.feasibility.equivalence(pod)
        rules = _NO_RULES
        if speaks_of_others(pod.pod_class):
            rules = attrs.evolve(seen.rules, preferences=_NO_RULES.preferences, claims=())
        return attrs.evolve(seen, pod_class=PodClass(Resources(), rules))

    def open_to(self, pod: Pod) -> Mask:
        """Return the nodes that may accept the pod for some positions of the movable pods.

        Capacity aside. Affinity and spread are left out: other pods may come near.
        """
        kind = self.feasibility.equivalence(pod)
        if kind not in self._open_to:
            rules = attrs.evolve(pod.pod_class.rules, affinity=(), spread=())
            self._open_to[kind] = self._staying.taking(_with_rules(pod, rules))
        return self._open_to[kind]

    def clashes(
        self, pods: Sequence[Pod], nodes: Sequence[Node], deadline: Deadline
    ) -> list[Clash]:
        """Return the pairs of items, one pod each, that cannot share a node, and on which nodes.

        Nodes with equal topology labels are alike. After the deadline the list is incomplete: every
        migration is checked again.
        """
        known = tuple(pod.uid for pod in pods)
        if known not in self._clashes:
            self._clashes[known] = self._find_clashes(pods, nodes, deadline)
        return self._clashes[known]

    def _find_clashes(
        self, pods: Sequence[Pod], nodes: Sequence[Node], deadline: Deadline
    ) -> list[Clash]:
        repelling = [_repels_pods(pod) for pod in pods]
        if not any(repelling):
            return []
        keys = {term.topology_key for p in pods for term in p.pod_class.rules.anti_affinity}
        alike: dict[frozenset[str], list[int]] = {}
        for at, node in enumerate(nodes):
            alike.setdefault(frozenset(keys & node.labels.keys()), []).append(at)
        found: list[Clash] = []
        for positions in alike.values():
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[positions] = True
            name = nodes[positions[0]].name
            for there, resident in enumerate(pods):
                if deadline.passed:
                    return found
                occupied = self._empty.with_pod(resident, name)
                found += [
                    (mask, coming, there)
                    for coming, pod in enumerate(pods)
                    if (repelling[coming] or repelling[there])
                    and occupied.rejection(
                        _with_rules(pod, _exclusive_rules(pod)), name, tier=False
                    )
                ]
        return found


def _repels_pods(pod: Pod) -> bool:
    rules = pod.pod_class.rules
    return bool(rules.anti_affinity or rules.ports or rules.disks)


def _exclusive_rules(pod: Pod) -> SchedulingRules:
    rules = pod.pod_class.rules
    return SchedulingRules(
        tolerations=_TOLERANT,
        ports=rules.ports,
        anti_affinity=rules.anti_affinity,
        disks=rules.disks,
    )


def _with_rules(pod: Pod, rules: SchedulingRules) -> Pod:
    """Return the pod without requests and with only these rules."""
    return attrs.evolve(pod, pod_class=PodClass(Resources(), rules))


def taking_no_room(pod: Pod) -> Pod:
    return _with_rules(pod, pod.pod_class.rules)
