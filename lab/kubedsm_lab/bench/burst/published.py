"""What the paper of the rotating score cache published of its bursts: its Table 3.

200 pods, as ours, on five e2-standard-2 workers of GKE; means of three runs. By what the API has
written down, in whole seconds; evenness is of pods, over the nodes that got one.
"""

from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen
class Column:
    heading: str
    #: of ours, without its source if it is a time
    figure: str
    digits: int
    timed: bool = True

    def of(self, source: str) -> str:
        return f"{source}.{self.figure}" if self.timed else self.figure


COLUMNS = (
    Column("mean T_sched", "createdToBound.mean", 1),
    Column("p99", "createdToBound.p99", 1),
    Column("mean T_ready", "createdToReady.mean", 1),
    Column("p99", "createdToReady.p99", 1),
    Column("Jain", "onNodesUsed.pods.jain", 4, timed=False),
    Column("CV", "onNodesUsed.pods.cv", 3, timed=False),
)
TABLE_3: Mapping[str, Sequence[float]] = {
    "default": (1175.0, 2673.3, 4958.3, 8673.3, 0.9919, 0.090),
    "Koordinator": (816.7, 2000.0, 4856.7, 11670.0, 0.9806, 0.141),
    "YuniKorn": (1955.0, 4336.7, 11540.0, 26003.3, 0.8793, 0.370),
    "cache": (801.7, 2000.0, 4818.3, 8670.0, 0.9917, 0.091),
}
