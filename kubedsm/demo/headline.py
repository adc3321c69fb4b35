"""What is happening now, in words."""

from collections.abc import Sequence

from kubedsm.demo.disconnection import Disconnection
from kubedsm.demo.frame import Frame
from kubedsm.demo.moves_told import MoveTold
from kubedsm.thinking.words import counted

#: seconds that a move is told of: it is over in less, and a reader takes longer
HELD = 3.0


def headline(frame: Frame) -> str:
    """The first of these that there is: a move, a site that is away, new pods, what is missing."""
    if frame.moving or (frame.cut is None or not frame.cut.away):
        lately = [m for m in frame.moves if frame.seconds - m.began < HELD or m in frame.moving]
        if lately:
            return _of_moves(lately)
    if frame.cut is not None and frame.cut.begins <= frame.seconds < frame.cut.steady:
        return _of_site(frame.cut)
    if frame.just_bound:
        placed = sum(frame.just_bound.values())
        return f"the load changed: placed {counted(placed, 'new pod')}, {_where(frame)}"
    if frame.waiting:
        verb = "waits" if frame.waiting == 1 else "wait"
        return f"{counted(frame.waiting, 'pod')} {verb} for a node"
    if not any(service.share.total for service in frame.services):
        return "the services start"
    if frame.missing:
        lacking = ", ".join(f"{s.name} lacks {s.missing}" for s in frame.missing)
        return f"all is quiet; of the pods promised at the edge {lacking}"
    return "all is quiet, and every promise is kept"


def _of_moves(moves: Sequence[MoveTold]) -> str:
    now = [move for move in moves if move.state == "moving"] or moves
    # The one that a promise asks for says most; the others make room for it.
    first = next((move for move in now if "its promise lacks" in move.why), now[0])
    more = f" (and {counted(len(moves) - 1, 'move')} more)" if len(moves) > 1 else ""
    return line_of(first) + more


def _of_site(cut: Disconnection) -> str:
    if cut.away:
        nodes = ", ".join(cut.nodes)
        return f"site {cut.site} ({nodes}) is cut off: what runs there is left alone"
    settles = f"{cut.steady - cut.ends:.0f} s"
    return f"site {cut.site} is back, and left alone until it has been back for {settles}"


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
