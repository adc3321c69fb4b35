"""Pictures of a demo that never ran."""

import attrs

from kubedsm.core.world.model import Resources, Share
from kubedsm.demo.frame import Frame
from kubedsm.demo.moves_told import MoveTold
from kubedsm.demo.observer import Migrations, NodeView, ServiceView
from kubedsm.demo.standing import Standing
from kubedsm.replay.summaries import Latency

GB = 10**9
#: with a name as long as they get
MOVE = MoveTold(
    "default/c-585657578-6gr4d", "cloud-1", "edge-1", "its promise lacks 3 pods of 6", 41.0
)
NODES = (
    NodeView("edge-1", "edge", Resources(5000, 5 * GB), Resources(5000, 5 * GB), {"a": 2, "c": 3}),
    NodeView("edge-2", "edge", Resources(4000, 4 * GB), Resources(), {}),
    NodeView(
        "cloud-1",
        "cloud",
        Resources(22000, 17 * GB),
        Resources(21500, 16_900_000_000),
        {"a": 10, "b": 5, "c": 10, "d": 2},
    ),
)
SERVICES = (
    ServiceView("a", 50, 10, 1.0, Share(10, 10)),
    ServiceView("b", 10, 2, 0.5, Share(0, 2)),
    ServiceView("c", 50, 10, 0.75, Share(5, 10)),
    ServiceView("d", 5, 1, 0.25, Share(0, 0)),
)
OURS = Standing(0.79, {"a": 1.0, "b": 0.5, "c": 0.75, "d": None}, 0.93)
THEIRS = Standing(0.6, {"a": 0.85, "b": 0.79, "c": 0.75, "d": 0.0}, 0.504)

FRAME = Frame(
    seconds=42.0,
    duration=60.0,
    nodes=NODES,
    services=SERVICES,
    bound=118,
    just_bound={},
    waiting=0,
    latency=Latency(0.012, 0.011, 0.0604),
    ours=OURS,
    theirs=THEIRS,
    replay="ready",
    moves=(attrs.evolve(MOVE, began=12.0, state="moved"), MOVE),
    migrations=Migrations(12),
)
