"""Objects that select pods of their namespace by labels: PodDisruptionBudgets and Services."""

import attrs

from kubedsm.model.model import Pod
from kubedsm.model.selectors import Selector, selects


@attrs.frozen(slots=True)
class Selecting:
    namespace: str
    name: str
    selector: Selector

    def covers(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and selects(self.selector, pod.labels)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@attrs.frozen(slots=True)
class Budget(Selecting):
    """PodDisruptionBudget with the numbers of its status."""

    #: pods that must stay healthy, and pods that it covers
    desired: int = 0
    expected: int = 0
    #: disruptions allowed at present
    allowed: int = 0

    @property
    def never_allows(self) -> bool:
        """Return True if no disruption is allowed even with every pod healthy."""
        return 0 < self.expected <= self.desired


@attrs.frozen(slots=True)
class Service(Selecting):
    #: True if requests prefer endpoints of the same zone or node
    prefers_zone: bool = False
    #: True if the selector has a template hash, so that a migrated pod leaves the Service
    by_template: bool = False
