"""A frame as JSON: `-o json`, and whatever else shows one."""

from typing import Any

from kubedsm.dashboard.rows import MoveRow
from kubedsm_lab.demo.disconnection import Disconnection
from kubedsm_lab.demo.ending import ending
from kubedsm_lab.demo.frame import Frame
from kubedsm_lab.demo.observer import NodeView
from kubedsm_lab.demo.standing import rounded


def as_json(frame: Frame) -> dict[str, Any]:
    """Shares are time means, but the last ones; latencies are from created to bound."""
    theirs = {} if frame.theirs is None else frame.theirs.as_json()
    return {
        "emulated": True,
        "seconds": round(frame.seconds, 1),
        "duration": frame.duration,
        "interrupted": frame.interrupted,
        "headline": frame.headline,
        "soFar": ending(frame),
        **frame.ours.as_json(),
        "lastEdgeShare": {s.name: round(s.share.ratio, 4) for s in frame.services},
        "promises": {s.name: s.promise for s in frame.services},
        "missing": {s.name: s.missing for s in frame.services},
        "replicas": {s.name: s.pods for s in frame.services},
        "rates": {s.name: s.rate for s in frame.services},
        "nodes": [_node(node, away=frame.is_away(node)) for node in frame.nodes],
        "bound": frame.bound,
        "pending": frame.waiting,
        "moves": [_move(frame, move) for move in frame.moves.values()],
        "migrations": frame.migrations.begun,
        "takenBack": frame.migrations.taken_back,
        "lostPodSeconds": round(frame.migrations.lost_pod_seconds, 3),
        "bindLatencyMs": None if frame.latency is None else frame.latency.milliseconds(),
        "kubeScheduler": {"replay": frame.replay, **theirs},
        **({"disconnect": _cut(frame.cut)} if frame.cut else {}),
    }


def _node(node: NodeView, *, away: bool) -> dict[str, Any]:
    return {
        "name": node.name,
        "tier": node.tier,
        "away": away,
        "cpu": {"used": node.used.cpu / 1000, "allocatable": node.allocatable.cpu / 1000},
        "memory": {"used": node.used.memory, "allocatable": node.allocatable.memory},
        "pods": dict(node.pods),
    }


def _move(frame: Frame, move: MoveRow) -> dict[str, Any]:
    return {
        "pod": move.pod,
        "from": move.source,
        "to": move.target,
        "why": move.purpose,
        "at": round(move.began - frame.epoch, 1),
        "state": move.state,
        "reason": move.reason or None,
    }


def _cut(cut: Disconnection) -> dict[str, Any]:
    return {
        "site": cut.site,
        "from": cut.begins,
        "to": cut.ends,
        "servingShare": rounded(cut.serving),
        "lowestServingShare": rounded(cut.lowest),
        "evicted": cut.evicted,
        "moves": cut.moves,
    }
