"""The demo's live picture, its last one, and what it says where no picture can change in place."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubedsm.core.world.model import Resources
from kubedsm.demo.ending import TRY_NEXT, bound, ending, moved, of_cut, standings
from kubedsm.demo.frame import Frame
from kubedsm.demo.headline import headline, line_of
from kubedsm.demo.observer import NodeView, ServiceView
from loadgen.fitted_table import Column, FittedTable

#: Colours mean one thing each: what is promised is there, some of it is missing, much of it is.
KEPT, LACKS, LACKS_MORE = "green", "yellow", "red"
BAR = 8
#: moves that are listed where there is room
LAST_MOVES = 4
#: columns of a terminal below which words need more lines
NARROW = 60


class _Part(NamedTuple):
    what: RenderableType
    #: the part of least use goes first, where there is not room for all; None: never
    use: int | None = None


def render(frame: Frame, width: int, height: int, beside: str = "") -> RenderableType:
    """The picture as it goes on. `beside`: how to look at the same from elsewhere."""
    said = Text(headline(frame), style="bold")
    # So many lines whatever is said, so that the tables stay where they are.
    padding = (3 if width < NARROW else 2) - _lines(said, width)
    moves = [_hanging(f"{move.began:3.0f} s", line_of(move)) for move in frame.moves[-LAST_MOVES:]]
    parts = [
        _Part(Text(f"KubeDSM demo, emulated: {frame.seconds:.0f} s of {frame.duration:.0f} s")),
        _Part(said),
        *[_Part(Text(""), use=8)] * padding,
        _Part(Text(""), use=5),
        _Part(_nodes(frame)),
        _Part(Text(""), use=7),
        _Part(_services(frame)),
        _Part(Text(""), use=6),
        _Part(Text(standings(frame)), use=11),
        _Part(Text(f"{bound(frame)}\n{moved(frame)}"), use=9),
        *([_Part(Text(of_cut(frame)), use=10)] if frame.cut else []),
        *([_Part(Text(f"\n{beside}", style="dim"), use=4)] if beside else []),
        *([_Part(Text(""), use=2)] if moves else []),
        *(_Part(move, use=1) for move in moves),
    ]
    return Group(*_fitting(parts, width, height))


def _fitting(parts: Sequence[_Part], width: int, height: int) -> Sequence[RenderableType]:
    kept = [(part, _lines(part.what, width)) for part in parts]
    while sum(lines for _, lines in kept) > height:
        spare = [each for each in kept if each[0].use is not None]
        if not spare:
            break
        kept.remove(min(spare, key=lambda each: each[0].use or 0))
    return [part.what for part, _ in kept]


def _lines(what: RenderableType, width: int) -> int:
    console = Console(width=width, color_system=None)
    return len(console.render_lines(what, pad=False))


def _hanging(lead: str, said: str) -> RenderableType:
    """The lead, and what is said beside it and under itself."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column()
    made.add_row(f"  {lead}", said)
    return made


def summary(frame: Frame, width: int) -> RenderableType:
    """How it ended."""
    return Group(
        _nodes(frame),
        Text(""),
        _services(frame),
        Text(""),
        *(Text(sentence) for sentence in ending(frame)),
        Text("\nTry next:"),
        *(_to_try(command, shows, width) for command, shows in TRY_NEXT),
    )


def _to_try(command: str, shows: str, width: int) -> RenderableType:
    if width < NARROW:
        return Group(Text(f"  {command}"), Padding(shows, (0, 0, 0, 4)))
    longest = max(len(command) for command, _ in TRY_NEXT)
    return _hanging(f"{command:{longest}}", shows)


def _nodes(frame: Frame) -> FittedTable:
    nodes = frame.nodes
    return FittedTable(
        [
            Column("node", [node.name for node in nodes]),
            Column("tier", [_tier(frame, node) for node in nodes], least=7, use=3),
            Column("cpu", [f"{_cores(n.used)}/{_cores(n.allocatable)}" for n in nodes], 5),
            Column("", [_bar(n.used.cpu, n.allocatable.cpu) for n in nodes], BAR, use=2),
            Column("memory", [_memory(node) for node in nodes], 10),
            Column("", [_bar(n.used.memory, n.allocatable.memory) for n in nodes], BAR, use=1),
            Column("pods", [_pods(node) for node in nodes], least=20),
        ],
        look="plain",
    )


def _tier(frame: Frame, node: NodeView) -> Text:
    return Text("cut off", style=LACKS_MORE) if frame.is_away(node) else Text(node.tier)


def _cores(amounts: Resources) -> str:
    return f"{amounts.cpu / 1000:g}"


def _memory(node: NodeView) -> str:
    return f"{node.used.memory / 1e9:.1f}/{node.allocatable.memory / 1e9:g} GB"


def _pods(node: NodeView) -> str:
    return ", ".join(f"{count} {name}" for name, count in node.pods.items())


def _bar(used: int, of: int) -> ProgressBar:
    """Of load, which is neither good nor bad."""
    return ProgressBar(
        total=max(1, of),
        completed=used,
        width=BAR,
        style="grey35",
        complete_style="default",
        finished_style="default",
    )


def _services(frame: Frame) -> FittedTable:
    services = frame.services
    theirs = frame.theirs.shares if frame.theirs else {}
    columns = [
        Column("service", [service.name for service in services]),
        Column("load", [f"{s.rate:g}/s" for s in services], 5, use=1, number=True),
        Column("ready", [f"{s.share.total} of {s.pods}" for s in services], 8, use=3),
        Column("on edge", [str(s.share.edge) for s in services], 4, use=5, number=True),
        Column("edge share", [_now(s) for s in services], 4, number=True),
        Column("promise", [f"{s.promise:.2f}" for s in services], number=True),
        Column("", [_kept(s) for s in services], 7),
        Column(
            "KubeDSM so far",
            [_share(frame.ours.shares.get(s.name)) for s in services],
            use=4,
            number=True,
        ),
    ]
    if frame.replay != "none":
        shares = [_share(theirs.get(s.name)) for s in services]
        columns.append(Column("kube-scheduler so far", shares, use=2, number=True))
    return FittedTable(columns, look="plain")


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


def _now(service: ServiceView) -> str:
    return _share(service.share.ratio if service.share.total else None)


def _kept(service: ServiceView) -> Text:
    if not service.share.total:
        return Text("-")
    if not service.missing:
        return Text("kept", style=KEPT)
    return Text(f"lacks {service.missing}", style=LACKS if service.missing == 1 else LACKS_MORE)


class LineByLine:
    """Where no picture can change in place: each move when it begins, and a line every cycle."""

    EVERY = 5.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._due = 0.0
        self._moves = 0

    def __call__(self, frame: Frame) -> None:
        new, self._moves = frame.moves[self._moves :], len(frame.moves)
        for move in new:
            self._print(move.began, line_of(move))
        if frame.seconds >= self._due:
            self._due = frame.seconds + self.EVERY
            said = (headline(frame), bound(frame), moved(frame), standings(frame))
            self._print(frame.seconds, "; ".join(said))

    def _print(self, seconds: float, said: str) -> None:
        # A file has lines of any length; a terminal's are broken between words.
        whole = not self._console.is_terminal
        self._console.print(Text(f"{seconds:5.1f} s  {said}"), soft_wrap=whole)
