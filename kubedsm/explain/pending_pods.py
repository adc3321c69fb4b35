"""The question why pods wait: what was decided about each, and what each node is for it now."""

import attrs
import msgspec

from kubedsm.explain.answers import Explainer
from kubedsm.explain.explanation import Explanation
from kubedsm.model.model import Pod, Uid
from kubedsm.planner.requests import PlanningContext


@attrs.frozen(slots=True)
class PendingPods:
    """`told`: what is remembered of the decision about each, or only its name."""

    name = "explanation"
    urgent = False
    #: then nodes are told of no more pods
    budget = 5.0
    told: tuple[tuple[Uid, Explanation], ...]

    def solve(self, known: PlanningContext) -> bytes:
        """The JSON of it, for it may be long."""
        snapshot, deadline = known.mirror.snapshot(), known.deadline(self)
        explainer = Explainer(snapshot, known.configuration().policy)
        present = (told for told in self.told if told[0] in snapshot.pods)
        said = [
            told if deadline.passed else _now(explainer, snapshot.pods[uid], told)
            for uid, told in present
        ]
        return msgspec.json.encode({"pending": said})


def _now(explainer: Explainer, pod: Pod, told: Explanation) -> Explanation:
    """Of a decision all stays as it was but the nodes."""
    if told.decided_at is None:
        return explainer.explain_now(pod)
    return msgspec.structs.replace(told, nodes=explainer.nodes(pod.uid), nodes_as_of="now")
