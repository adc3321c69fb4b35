"""Headline of the dashboard: a one-line description of the scheduler's current activity."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.explain.decision import count_new_pods
from kubedsm.model.model import Tier
from kubedsm.planner.plurals import counted, named

#: seconds for which the headline displays the completion of a migration
HELD = 3.0


@attrs.frozen
class Scenery:
    """Dashboard rows of nodes, pods, workloads and migrations, as input of the headline."""

    nodes: Mapping[str, NodeRow]
    #: pending opted-in pods
    waiting: Mapping[str, PodRow]
    workloads: Mapping[str, WorkloadRow]
    moves: Mapping[str, MoveRow]
    #: schedulerName of opted-in pods
    ours: str = "kubedsm"


def headline(status: StatusRow, there: Scenery, placed: Mapping[Tier, int], now: float) -> str:
    """Describe the scheduler's most important current activity in one line.

    placed: recently bound pods. Precedence: another leader, unfinished migrations, partitioned
    sites, recently finished migrations, new pods, pending pods, missed QoS targets.
    """
    if status.role == "watching":
        return "watching the cluster; nothing is decided here"
    if status.role == "standby":
        leads = f"{status.leader} leads" if status.leader else "the leader is not known"
        return f"standby: {leads}"
    moves = there.moves.values()
    return (
        _describe_moving([move for move in moves if move.state == "moving"], moves, now)
        or _describe_away(there.nodes)
        or _describe_ended([move for move in moves if move.began and abs(now - move.ended) < HELD])
        or (f"scheduled {count_new_pods(placed)}" if sum(placed.values()) else "")
        or _describe_waiting(there.waiting)
        or _describe_idle(status, there)
    )


def _describe_moving(moving: Sequence[MoveRow], moves: Iterable[MoveRow], now: float) -> str:
    if not moving:
        return ""
    # The longest step determines the overall progress.
    first = min(moving, key=lambda move: move.since or now)
    decisions = {move.decision for move in moving}
    together = sum(move.decision in decisions for move in moves)
    of = migration_route(first) if together == 1 else f"{len(moving)} of {together}"
    took = int(now - first.since) if first.since else 0
    seconds = f", {took} s" if took else ""
    return f"migrating {of}: {first.step or first.purpose}{seconds}"


def migration_route(move: MoveRow) -> str:
    return f"{move.pod} from {move.source} to {move.target}"


def _describe_ended(lately: Sequence[MoveRow]) -> str:
    if not lately:
        return ""
    more = f" and {counted(len(lately) - 1, 'more migration')}" if len(lately) > 1 else ""
    return describe_migration(max(lately, key=lambda move: move.ended)) + more


def describe_migration(move: MoveRow) -> str:
    """Describe a migration in progress or finished, in one sentence."""
    if move.state in ("moving", "completed"):
        verb = "migrating" if move.state == "moving" else "migrated"
        return f"{verb} {migration_route(move)}: {move.purpose}"
    return f"migration {move.state}: {migration_route(move)} ({move.reason})"


def nodes_by_site(nodes: Mapping[str, NodeRow], state: str) -> dict[str, list[str]]:
    """Return the names of the nodes in the given state, by edge site."""
    sites: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.state == state:
            sites.setdefault(node.site, []).append(name)
    return sites


def _describe_away(nodes: Mapping[str, NodeRow]) -> str:
    for site, names in nodes_by_site(nodes, "partitioned").items():
        return f"site {site} ({named(sorted(names))}) is partitioned: its pods are left alone"
    for site in nodes_by_site(nodes, "stabilising"):
        return f"site {site} is reachable again; its stabilisation period has begun"
    return ""


def _describe_waiting(waiting: Mapping[str, PodRow]) -> str:
    if not waiting:
        return ""
    name = next((name for name, row in waiting.items() if row.message), "")
    if len(waiting) == 1:
        (name,) = waiting
        why = f": {waiting[name].message}" if waiting[name].message else ""
        return f"{name} waits for a node{why}"
    why = f"; {name}: {waiting[name].message}" if name else ""
    return f"{len(waiting)} pods wait for a node{why}"


def _describe_idle(status: StatusRow, there: Scenery) -> str:
    planned = sum(move.state == "planned" for move in there.moves.values())
    if planned:
        return f"{counted(planned, 'migration')} {'waits' if planned == 1 else 'wait'} to begin"
    proposed = sum(move.state == "proposed" for move in there.moves.values())
    if proposed:
        how = f": kubedsm approve {status.proposal}" if status.proposal else ""
        return f"{counted(proposed, 'migration')} proposed{how}"
    if not there.workloads:
        return f"no pod has schedulerName: {there.ours}"
    paused = "; migrations are paused" if status.paused else ""
    short = sum(row.missing > 0 for row in there.workloads.values())
    if short:
        which = f"{short} of {counted(len(there.workloads), 'service')}"
        return f"{which} below {'its' if short == 1 else 'their'} edge target{paused}"
    return f"idle: every QoS target is met{paused}"
