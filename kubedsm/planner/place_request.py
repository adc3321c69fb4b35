"""The question where a batch of pods goes that cannot be decided on in no time."""

from collections.abc import Callable

import attrs

from kubedsm.model.model import Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.requests import Known

#: what of the cluster the pods may have: the whole, or less while sites are away
View = Callable[[Snapshot], Snapshot]


def as_it_is(snapshot: Snapshot) -> Snapshot:
    return snapshot


@attrs.frozen(slots=True)
class Placing:
    """Why a pod was refused is not said: that is told of the nodes as they are by then."""

    decision: Decision
    refused: tuple[Pod, ...]
    #: those that may wait for room on the edge to come free
    held: tuple[Pod, ...]

    @classmethod
    def of(cls, decision: Decision, held: tuple[Pod, ...], snapshot: Snapshot) -> "Placing":
        refused = tuple(snapshot.pods[uid] for uid in decision.unplaced)
        return cls(attrs.evolve(decision, unplaced={}), refused, held)


@attrs.frozen(slots=True)
class PodsToPlace:
    """Asked of KubeDSM."""

    name = "placing"
    urgent = True
    uids: tuple[Uid, ...]
    #: seconds since the epoch
    at: float
    budget: float
    #: pods about to leave, for whose room on the edge these may wait
    leaving: frozenset[Uid] = frozenset()
    #: what can be sent to another process: a function of a module, or a method of a value
    view: View = as_it_is
    #: where in turn the search among the nodes of a large cloud begins
    start: int = 0

    def answered(self, known: Known) -> Placing:
        """Raise TypeError if the policy is another one."""
        policy = known.policy()
        if not isinstance(policy, KubeDSM):
            raise TypeError(f"{policy} is not thought about")
        snapshot = self.view(known.mirror.snapshot(self.at))
        pods = snapshot.schedulable(snapshot.pods[uid] for uid in self.uids if uid in snapshot.pods)
        deadline = known.deadline(self)
        decision, held = policy.decide_ahead(snapshot, pods, self.leaving, deadline, self.start)
        return Placing.of(decision, held, snapshot)
