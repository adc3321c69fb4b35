"""Frames of the demo with made-up values."""

import msgspec

from kubedsm.dashboard.rows import MoveRow
from kubedsm.dashboard.state.headline import describe_migration
from kubedsm.model.model import Share
from kubedsm_lab.demo.frame import Frame, Migrations, SchedulerResult, ServiceView
from kubedsm_lab.demo.tables import NodeLine
from kubedsm_lab.replay.measures import Latency

GB = 10**9
#: with a name as long as they get
MOVE = MoveRow(
    pod="default/c-585657578-6gr4d",
    workload="default/c",
    source="cloud-1",
    target="edge-1",
    kind="cloud-to-edge",
    purpose="3 of 6 pods missing at the edge",
    state="moving",
    at=40.5,
    began=41.0,
)
BEFORE = msgspec.structs.replace(MOVE, began=12.0, state="completed")
NODES = (
    NodeLine("edge-1", "edge", "", (5000, 5000), (5 * GB, 5 * GB), {"a": 2, "c": 3}),
    NodeLine("edge-2", "edge", "", (0, 4000), (0, 4 * GB), {}),
    NodeLine(
        "cloud-1",
        "cloud",
        "",
        (21500, 22000),
        (16_900_000_000, 17 * GB),
        {"a": 10, "b": 5, "c": 10, "d": 2},
    ),
)
SERVICES = (
    ServiceView("a", 50, 10, 1.0, Share(10, 10)),
    ServiceView("b", 10, 2, 0.5, Share(0, 2)),
    ServiceView("c", 50, 10, 0.75, Share(5, 10)),
    ServiceView("d", 5, 1, 0.25, Share(0, 0)),
)
OURS = SchedulerResult(0.79, {"a": 1.0, "b": 0.5, "c": 0.75, "d": None}, 0.93)
THEIRS = SchedulerResult(0.6, {"a": 0.85, "b": 0.79, "c": 0.75, "d": 0.0}, 0.504)

FRAME = Frame(
    epoch=0.0,
    seconds=42.0,
    duration=60.0,
    headline=describe_migration(MOVE),
    nodes=NODES,
    services=SERVICES,
    bound=118,
    waiting=0,
    latency=Latency(0.012, 0.011, 0.0604),
    ours=OURS,
    theirs=THEIRS,
    replay="ready",
    moves={"plan-1/c": BEFORE, "plan-2/c": MOVE},
    migrations=Migrations(12),
)
