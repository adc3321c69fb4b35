"""What a rule says of nodes."""

import attrs

from kubedsm.model.node_index import Mask


@attrs.frozen(slots=True)
class Rejection:
    """The rule that rejected a node, under its plugin's name, and why."""

    rule: str
    reasons: tuple[str, ...]
    #: it is about the pod, and so no node will do
    everywhere: bool = False


@attrs.frozen(slots=True, eq=False)
class RejectedNodes:
    """Nodes that a rule rejects, all for the same reasons."""

    nodes: Mask
    reasons: tuple[str, ...]
    #: a pod that comes may end it
    mendable: bool = False
