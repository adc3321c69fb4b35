"""What is happening now, in words."""

from kubedsm.demo.frame import Frame
from kubedsm.demo.moves_told import MoveTold, counted

#: seconds that a move is told of: it is over in less, and a reader takes longer
HELD = 3.0


def headline(frame: Frame) -> str:
    told = [move for move in frame.moves if frame.seconds - move.began < HELD]
    told = [*frame.moving, *(move for move in told if move not in frame.moving)]
    if told:
        # The one that a promise asks for says most; the others make room for it.
        first = next((move for move in told if "its promise lacks" in move.why), told[0])
        more = f" (and {counted(len(told) - 1, 'move')} more)" if len(told) > 1 else ""
        return line_of(first) + more
    if frame.cut is not None and frame.cut.away:
        nodes = ", ".join(frame.cut.nodes)
        return f"site {frame.cut.site} ({nodes}) is cut off: what runs there is left alone"
    if frame.just_bound:
        placed = sum(frame.just_bound.values())
        return f"the load changed: placed {counted(placed, 'new pod')}, {_where(frame)}"
    if frame.waiting:
        verb = "waits" if frame.waiting == 1 else "wait"
        return f"{counted(frame.waiting, 'pod')} {verb} for a node"
    if not any(service.share.total for service in frame.services):
        return "the services start"
    if frame.missing:
        lacking = (
            f"the promise of {s.name} lacks {counted(s.missing, 'pod')}" for s in frame.missing
        )
        return f"all is quiet; {', '.join(lacking)}"
    return "all is quiet, and every promise is kept"


def _where(frame: Frame) -> str:
    parts = {"edge": "at the edge", "cloud": "in the cloud"}
    said = [f"{n} {parts[tier]}" for tier in parts if (n := frame.just_bound.get(tier))]
    return " and ".join(said)


def line_of(move: MoveTold) -> str:
    """What is to be said of a move."""
    why = f": {move.why}" if move.why else ""
    if move.state in ("moving", "moved"):
        return f"{move.state} {move.where}{why}"
    return f"{move.state}: the move of {move.where} ({move.reason})"
