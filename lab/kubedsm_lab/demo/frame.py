"""One picture of the run, as a value: whatever shows it has it from here."""

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from kubedsm.dashboard.rows import MoveRow
from kubedsm_lab.demo.disconnection import Disconnection
from kubedsm_lab.demo.observer import Migrations, NodeView, ServiceView
from kubedsm_lab.demo.standing import Standing
from kubedsm_lab.replay.summaries import Latency

#: of the replay beside: none, where it could not be compared with
Replay = Literal["none", "going on", "ready", "failed"]


@attrs.frozen(slots=True)
class Frame:
    #: when it began, in seconds since the epoch; how long it has gone on, and will
    epoch: float
    seconds: float
    duration: float
    #: what is going on, in words
    headline: str
    nodes: Sequence[NodeView]
    services: Sequence[ServiceView]
    bound: int
    waiting: int
    latency: Latency | None
    #: of the time so far: KubeDSM, and kube-scheduler on the same load
    ours: Standing
    theirs: Standing | None
    replay: Replay
    #: the moves begun so far, by key, oldest first
    moves: Mapping[str, MoveRow]
    migrations: Migrations
    #: None if no site is to be cut off
    cut: Disconnection | None = None
    #: it was ended before its time
    interrupted: bool = False

    def is_away(self, node: NodeView) -> bool:
        return self.cut is not None and self.cut.away and node.name in self.cut.nodes
