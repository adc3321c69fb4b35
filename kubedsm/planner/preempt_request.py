"""The question how a pod that no node takes gets room."""

from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Pod, Resources, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.preemption import Budget, Preemption, PreemptionSearch
from kubedsm.planner.requests import Known

#: seconds that a search for victims may take
BUDGET = 0.5


@attrs.frozen(slots=True)
class Room:
    #: that asks for it
    pod: Pod
    #: a node that takes it once those are gone that go anyway
    coming: NodeName | None = None
    #: what to evict, nothing perhaps
    found: Preemption | None = None
    #: whether evictions would make room anywhere, if that was asked
    helps: bool = False


@attrs.frozen(slots=True)
class RoomFor:
    """On the node that is named, if one is; else wherever it is best.

    Without budgets it is only asked whether anything helps.
    """

    name = "preemption"
    urgent = True
    budget = BUDGET
    pod: Pod
    #: what is held for it and for pods that matter less: free to it
    held: Mapping[NodeName, Resources]
    #: pods that are as good as gone
    leaving: frozenset[Uid]
    budgets: tuple[Budget, ...] | None = None
    shunned: frozenset[NodeName] = frozenset()
    node: NodeName | None = None
    #: whether the edge is better for a pod that it is promised to, as for kube-scheduler it is not
    promised: bool = True

    def answered(self, known: Known) -> Room:
        pod, snapshot = self.pod, with_free(known.mirror.snapshot(), self.held)
        policy = known.configuration().policy
        search = PreemptionSearch(
            snapshot,
            pod,
            policy.qos_targets_in(snapshot) if self.promised else None,
            policy.objective,
            self.leaving,
            known.followed,
            self.budgets or (),
            known.deadline(self),
        )
        if self.node is not None:
            found = search.on(self.node)
            enough = found is not None and not found.victims
            return Room(pod, None if enough else search.room_to_come(), found)
        coming = search.room_to_come()
        if coming is not None:
            return Room(pod, coming)
        if self.budgets is None:
            return Room(pod, helps=search.helps())
        return Room(pod, found=search.best(self.shunned))


def with_free(snapshot: Snapshot, more: Mapping[NodeName, Resources]) -> Snapshot:
    """The same with so much more room on these nodes, as far as they are there."""
    free = snapshot.free
    there = {name: free[name] + room for name, room in more.items() if name in free}
    return attrs.evolve(snapshot, free={**free, **there}) if there else snapshot
