"""What is going on, in words: by the rows, and so the same wherever they are shown."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.model.model import Tier
from kubedsm.planner.plurals import counted, named

#: seconds for which a move is told of at least: it may be over in less, and a reader takes longer
HELD = 3.0


@attrs.frozen
class Scenery:
    """The rows that there are, as far as words are made of them."""

    nodes: Mapping[str, NodeRow]
    #: of pods of ours, those that wait for a node
    waiting: Mapping[str, PodRow]
    workloads: Mapping[str, WorkloadRow]
    moves: Mapping[str, MoveRow]
    #: the name of our scheduler
    ours: str = "kubedsm"


def headline(status: StatusRow, there: Scenery, placed: Mapping[Tier, int], now: float) -> str:
    """The first of these that there is. placed: pods that were bound a moment ago.

    Who decides elsewhere, moves, sites that are away, moves that were, new pods, pods that wait,
    what is missing.
    """
    if status.role == "watching":
        return "the cluster is followed; nothing is decided here"
    if status.role == "standby":
        leads = f"{status.leader} leads" if status.leader else "it is not known who leads"
        return f"standing by: {leads}"
    moves = there.moves.values()
    return (
        _moving([move for move in moves if move.state == "moving"], moves, now)
        or _away(there.nodes)
        or _moved([move for move in moves if move.began and now - move.ended < HELD])
        or _placed(placed)
        or _waiting(there.waiting)
        or _quiet(status, there)
    )


def _moving(moving: Sequence[MoveRow], moves: Iterable[MoveRow], now: float) -> str:
    if not moving:
        return ""
    # The one whose step takes the longest is what all waits for.
    first = min(moving, key=lambda move: move.since or now)
    decisions = {move.decision for move in moving}
    together = sum(move.decision in decisions for move in moves)
    of = moved_from_to(first) if together == 1 else f"{len(moving)} of {together}"
    took = int(now - first.since) if first.since else 0
    seconds = f", {took} s" if took else ""
    return f"moving {of}: {first.step or first.purpose}{seconds}"


def moved_from_to(move: MoveRow) -> str:
    return f"{move.pod} from {move.source} to {move.target}"


def _moved(lately: Sequence[MoveRow]) -> str:
    if not lately:
        return ""
    more = f" (and {counted(len(lately) - 1, 'move')} more)" if len(lately) > 1 else ""
    return line_of(max(lately, key=lambda move: move.ended)) + more


def line_of(move: MoveRow) -> str:
    """What is to be said of a move that has begun."""
    if move.state in ("moving", "completed"):
        said = "moving" if move.state == "moving" else "moved"
        return f"{said} {moved_from_to(move)}: {move.purpose}"
    return f"{move.state}: the move of {moved_from_to(move)} ({move.reason})"


def sites_in(nodes: Mapping[str, NodeRow], state: str) -> dict[str, list[str]]:
    """The sites of which nodes are in that state, each with these."""
    sites: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.state == state:
            sites.setdefault(node.site, []).append(name)
    return sites


def _away(nodes: Mapping[str, NodeRow]) -> str:
    for site, names in sites_in(nodes, "cut off").items():
        return f"site {site} ({named(sorted(names))}) is cut off: what runs there is left alone"
    for site in sites_in(nodes, "settling"):
        return f"site {site} is back, and left alone until it has been back for a while"
    return ""


def _placed(placed: Mapping[Tier, int]) -> str:
    return f"placed {new_pods(placed)}" if sum(placed.values()) else ""


def new_pods(by_tier: Mapping[Tier, int]) -> str:
    """How many there are, and where."""
    where = {Tier.EDGE: "at the edge", Tier.CLOUD: "in the cloud"}
    there = {where[tier]: number for tier in where if (number := by_tier.get(tier))}
    said = counted(sum(by_tier.values()), "new pod")
    if len(there) == 1:
        return f"{said} {next(iter(there))}"
    return f"{said}, " + " and ".join(f"{number} {place}" for place, number in there.items())


def _waiting(waiting: Mapping[str, PodRow]) -> str:
    if not waiting:
        return ""
    name = next((name for name, row in waiting.items() if row.message), "")
    if len(waiting) == 1:
        (name,) = waiting
        why = f": {waiting[name].message}" if waiting[name].message else ""
        return f"{name} waits for a node{why}"
    why = f"; {name}: {waiting[name].message}" if name else ""
    return f"{len(waiting)} pods wait for a node{why}"


def _quiet(status: StatusRow, there: Scenery) -> str:
    planned = sum(move.state == "planned" for move in there.moves.values())
    if planned:
        return f"{counted(planned, 'move')} {'waits' if planned == 1 else 'wait'} to begin"
    proposed = sum(move.state == "proposed" for move in there.moves.values())
    if proposed:
        how = f": kubedsm approve {status.proposal}" if status.proposal else ""
        return f"{counted(proposed, 'move')} would be worth it{how}"
    if not there.workloads:
        return f"no pod asks for schedulerName: {there.ours}"
    quiet = "all is quiet, and moves are paused" if status.paused else "all is quiet"
    short = sum(row.missing > 0 for row in there.workloads.values())
    if short:
        which = f"{short} of {counted(len(there.workloads), 'service')}"
        paused = "; moves are paused" if status.paused else ""
        return f"degraded: {which} below {'its' if short == 1 else 'their'} edge target{paused}"
    return (
        f"{quiet}; every promise is kept"
        if status.paused
        else f"{quiet}, and every promise is kept"
    )
