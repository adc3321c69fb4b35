"""The question why pods wait: what was decided about each, and what each node is for it now."""

import attrs
import msgspec

from kubedsm.core.world.model import Pod, Uid
from kubedsm.thinking.questions import Known
from kubedsm.why.answers import Explainer
from kubedsm.why.explanation import Explanation


@attrs.frozen(slots=True)
class PendingPods:
    """`told`: what is remembered of the decision about each, or only its name."""

    name = "explanation"
    urgent = False
    #: then nodes are told of no more pods
    budget = 5.0
    told: tuple[tuple[Uid, Explanation], ...]

    def answered(self, known: Known) -> bytes:
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
