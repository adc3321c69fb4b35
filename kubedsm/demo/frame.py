"""One picture of the run, as a value: whatever shows it has it from here."""

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from kubedsm.demo.disconnection import Disconnection
from kubedsm.demo.moves_told import MoveTold
from kubedsm.demo.observer import Migrations, NodeView, ServiceView
from kubedsm.demo.standing import Standing
from kubedsm.replay.summaries import Latency

#: of the replay beside: none, where it could not be compared with
Replay = Literal["none", "going on", "ready", "failed"]


@attrs.frozen(slots=True)
class Frame:
    seconds: float
    duration: float
    nodes: Sequence[NodeView]
    services: Sequence[ServiceView]
    bound: int
    #: of these, within the last moment, by tier
    just_bound: Mapping[str, int]
    waiting: int
    latency: Latency | None
    #: of the time so far: KubeDSM, and kube-scheduler on the same load
    ours: Standing
    theirs: Standing | None
    replay: Replay
    #: the moves begun so far, oldest first
    moves: Sequence[MoveTold]
    migrations: Migrations
    #: None if no site is to be cut off
    cut: Disconnection | None = None
    #: it was ended before its time
    interrupted: bool = False

    @property
    def missing(self) -> Sequence[ServiceView]:
        """The services of which the promise is not kept now."""
        return [service for service in self.services if service.missing]

    @property
    def moving(self) -> Sequence[MoveTold]:
        return [move for move in self.moves if move.state == "moving"]

    def is_away(self, node: NodeView) -> bool:
        return self.cut is not None and self.cut.away and node.name in self.cut.nodes
