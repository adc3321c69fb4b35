"""Results of the demo, as sentences and as JSON."""

from collections.abc import Sequence
from typing import Any

from kubedsm.dashboard.rows import MoveRow, NodeRow
from kubedsm.dashboard.terminal.seen import NodeUsage
from kubedsm.planner.plurals import counted
from kubedsm_lab.demo.frame import Frame

#: commands and their purpose
TRY_NEXT = (
    ("kubedsm replay 1.5-.4", "six schedulers on the paper's load, side by side"),
    ("kubedsm suggest", "migrations suggested for your own cluster; executes none"),
)


def name_services(usage: NodeUsage) -> dict[str, int]:
    """Return the number of pods on a node by name of their service."""
    return {key.partition("/")[2]: count for key, count in sorted(usage.pods.items())}


def ending(frame: Frame) -> Sequence[str]:
    """Return sentences about the demo's results so far: QoS, migrations and binds."""
    said = [_describe_kept(frame), _summarise_moves(frame), _summarise_binds(frame)]
    if frame.interrupted:
        said.insert(0, f"Interrupted after {frame.seconds:.0f} of {frame.duration:.0f} s.")
    return [sentence for sentence in said if sentence]


def _describe_kept(frame: Frame) -> str:
    ours, theirs = frame.ours, frame.theirs
    if ours.edge_share is None or ours.kept is None:
        return "Not every service is up yet."
    said = (
        f"KubeDSM averaged an edge share of {ours.edge_share:.2f}"
        f" and met its QoS targets {ours.kept:.0%} of the time"
    )
    if theirs is not None and theirs.edge_share is not None and theirs.kept is not None:
        return (
            f"{said}; kube-scheduler, replayed on the same load, came to"
            f" {theirs.edge_share:.2f} and {theirs.kept:.0%}."
        )
    why = "failed" if frame.replay == "failed" else "has not ended yet"
    return f"{said}; kube-scheduler's replay of the same load {why}."


def _summarise_moves(frame: Frame) -> str:
    if not frame.migrations:
        return "No migration was necessary."
    text = counted(frame.migrations, "migration")
    if frame.taken_back:
        text += f", {frame.taken_back} rolled back"
    lost = round(frame.lost_pod_seconds, 3)
    if lost:
        return f"{text}; {lost:g} pod-seconds of capacity lost."
    return f"{text} without lost capacity: pods leave after replacements are Ready."


def _summarise_binds(frame: Frame) -> str:
    if frame.latency is None:
        return "No pod was bound."
    shown = frame.latency.milliseconds()
    waiting = f", {frame.waiting} waiting" if frame.waiting else ""
    return (
        f"{counted(frame.bound, 'pod')} bound{waiting}; created to bound: mean"
        f" {shown['mean']:.0f} ms, p99 {shown['p99']:.0f} ms (emulated cluster)."
    )


def as_json(frame: Frame) -> dict[str, Any]:
    """Return the demo's results so far for JSON output: edge shares, QoS, migrations and bind
    latencies.
    """
    theirs, services = {} if frame.theirs is None else frame.theirs.as_json(), frame.services
    return {
        "emulated": True,
        "seconds": round(frame.seconds, 1),
        "duration": frame.duration,
        "interrupted": frame.interrupted,
        "headline": frame.headline,
        "soFar": ending(frame),
        **frame.ours.as_json(),
        "lastEdgeShare": {
            name: round(row.edge / max(1, row.total), 4) for name, row in services.items()
        },
        "targets": {name: row.target for name, row in services.items()},
        "missing": {name: row.missing for name, row in services.items()},
        "replicas": {name: row.total for name, row in services.items()},
        "rates": dict(frame.rates),
        "nodes": [
            _node_json(name, row, frame.seen.usage[name]) for name, row in frame.nodes.items()
        ],
        "bound": frame.bound,
        "pending": frame.waiting,
        "moves": [_move_json(move, frame.epoch) for move in frame.moves.values()],
        "migrations": frame.migrations,
        "takenBack": frame.taken_back,
        "lostPodSeconds": round(frame.lost_pod_seconds, 3),
        "bindLatencyMs": None if frame.latency is None else frame.latency.milliseconds(),
        "kubeScheduler": {"replay": frame.replay, **theirs},
    }


def _node_json(name: str, row: NodeRow, usage: NodeUsage) -> dict[str, Any]:
    return {
        "name": name,
        "tier": str(row.tier),
        "cpu": {"used": usage.cpu / 1000, "allocatable": row.cpu / 1000},
        "memory": {"used": usage.memory, "allocatable": row.memory},
        "pods": name_services(usage),
    }


def _move_json(move: MoveRow, epoch: float) -> dict[str, Any]:
    return {
        "pod": move.pod,
        "from": move.source,
        "to": move.target,
        "why": move.purpose,
        "at": round(move.began - epoch, 1),
        "state": move.state,
        "reason": move.reason or None,
    }
