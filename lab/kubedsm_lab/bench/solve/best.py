"""The best that there is, as far as it is known."""

from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Uid

#: of points of QoS: what comes of adding them up
ROUNDING = 1e-6


@attrs.frozen(slots=True)
class Reach:
    """What was found, and what nothing is more than."""

    found: float
    bound: float

    @property
    def proven(self) -> bool:
        return self.bound - self.found <= ROUNDING * max(1.0, abs(self.found))


@attrs.frozen(slots=True)
class Best:
    #: pods placed, of the highest priority first; none where nothing waits
    placed: tuple[Reach, ...]
    #: points, of the workloads of the batch, or else of all; of the highest level first
    qos: tuple[Reach, ...]
    #: of CPU time
    seconds: float
    #: where the pods that are moved go
    targets: Mapping[Uid, NodeName] = attrs.field(factory=dict)

    @property
    def proven(self) -> bool:
        return all(reach.proven for reach in (*self.placed, *self.qos))
