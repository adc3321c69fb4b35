"""What is different where nothing is written: decisions are told, and never come true.

What was decided about a pod holds as if it were carried out: its room is taken, until somebody else
binds the pod, or it is gone. So the same is not decided again and again.
"""

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.execution.limits import Limits

#: seconds: a bind is waited for as long as the process lives
NEVER = 1e9
WAITING = Limits(bind_deadline=NEVER)


def only_said(configuration: Configuration) -> Configuration:
    """The same, under which running pods are left where they are: what would be moved is said."""
    packing = "suggest" if configuration.packing_mode == "apply" else configuration.packing_mode
    suggester = configuration.suggester
    if suggester.mode == "apply":
        suggester = attrs.evolve(suggester, mode="suggest")
    return attrs.evolve(
        configuration,
        suggester=suggester,
        optimiser=attrs.evolve(configuration.optimiser, mode=packing),
        preemption="disabled",
    )
