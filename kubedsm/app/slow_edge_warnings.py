"""Tells of workloads that the edge has become slower for than the cloud, and no longer is.

What comes of it is decided by `core.goals.slower_edge`.
"""

import attrs
import structlog

from kubedsm.events.workload_events import WorkloadEvents
from kubedsm.explain.event_notes import Note
from kubedsm.model.change import Change
from kubedsm.model.measured import Measured
from kubedsm.model.model import Tier, Workload

log = structlog.get_logger()

ACTION = "Comparing"


@attrs.frozen(slots=True)
class SlowerEdges:
    events: WorkloadEvents

    def observe(self, change: Change) -> None:
        """Take note of a sample, or that nothing is known any more."""
        before, after = change.measured_before, change.measured_after
        if before is None or after is None:
            return
        for workload in sorted(before.slower ^ after.slower):
            note = _note(workload, after)
            log.info("edge compared", workload=str(workload), reason=note.reason, note=note.text)
            self.events.noted(workload, note)


def _note(workload: Workload, sample: Measured) -> Note:
    answers = sample.answers.get(workload, {})
    times = " and ".join(
        f"{1000 * answers[tier].seconds:.3g} ms {where}"
        for tier, where in ((Tier.EDGE, "at the edge"), (Tier.CLOUD, "in the cloud"))
        if tier in answers
    )
    if workload in sample.slower:
        text = f"Requests take {times}: no more pods are brought to the edge"
        return Note("EdgeSlower", text, warning=True, action=ACTION)
    if len(answers) < len(Tier):
        text = "It is no longer measured: the edge is filled as promised"
        return Note("EdgeNotCompared", text, action=ACTION)
    text = f"Requests take {times}: the edge is filled as promised"
    return Note("EdgeFasterAgain", text, action=ACTION)
