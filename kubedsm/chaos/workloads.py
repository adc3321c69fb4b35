"""What users do while something goes wrong. Each takes its course whatever the scheduler does."""

from collections.abc import Awaitable, Callable

import attrs

from kubedsm.chaos.stage import Stage
from kubedsm.configuration.settings import Configuration, load
from kubedsm.emulator.api.resources import NODES, Object
from kubedsm.emulator.paper import node
from kubedsm.runtime.leader_election import LeaseTimes

#: moves are free, and soon: whether they pay is another matter
CONFIGURATION = load(
    """
suggester: {period: 1s}
migration: {price: 0s, cooldown: 1s, drainDelay: 1s, deadline: 10s}
""",
    "chaos",
)
EDGE, CLOUD = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")


@attrs.frozen
class Workload:
    name: str
    course: Callable[[Stage], Awaitable[None]]
    nodes: tuple[Object, ...] = (EDGE, CLOUD)
    configuration: Configuration = CONFIGURATION
    #: schedulers, and of which one leads if there are several
    schedulers: int = 1

    @property
    def times(self) -> LeaseTimes | None:
        """Of the election, if there is one."""
        return LeaseTimes() if self.schedulers > 1 else None


async def _burst(stage: Stage) -> None:
    """More pods at once than the edge holds, and one that fits nowhere."""
    stage.deploy("web", 5)
    stage.deploy("huge", 1, cpu="64")


async def _scaling(stage: Stage) -> None:
    """Up, beyond the edge, and down again."""
    stage.deploy("web", 2)
    stage.deploy("shop", 1)
    await stage.clock.sleep(2.0)
    stage.scale("web", 6)
    await stage.clock.sleep(5.0)
    stage.scale("web", 1)


async def _cloud_to_edge(stage: Stage) -> None:
    """The edge opens when all have settled in the cloud."""
    stage.deploy("web", 2)
    await stage.clock.sleep(4.0)
    stage.api.create(NODES, EDGE)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("burst", _burst),
        Workload("scaling", _scaling),
        Workload("cloud-to-edge", _cloud_to_edge, nodes=(CLOUD,)),
    )
}
