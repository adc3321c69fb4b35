"""Terminal views of the demo: live display, summary, and log lines for a plain terminal."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kubedsm.dashboard.state.headline import describe_migration
from kubedsm.dashboard.terminal.cells import (
    BAR,
    bar,
    count_lines,
    format_cores,
    format_memory,
    target_met,
)
from kubedsm.terminal.console import Console
from kubedsm.terminal.fitted_table import Column, FittedTable
from kubedsm_lab.demo.frame import Frame
from kubedsm_lab.demo.results import TRY_NEXT, ending, name_services
from kubedsm_lab.replay.tables import number

#: most migrations listed
LAST_MOVES = 4
#: terminal width below which text requires additional lines
NARROW = 60


class Part(NamedTuple):
    """Optional part of a terminal picture, with its importance."""

    what: RenderableType
    #: the part of least use is left out first; None: never
    use: int | None = None


def _fit_parts(parts: Sequence[Part], width: int, height: int) -> Sequence[RenderableType]:
    """Return the parts of a terminal picture that fit on the screen; among equally important parts,
    the first is omitted first.
    """
    kept = [(part, count_lines(part.what, width)) for part in parts]
    while sum(number for _, number in kept) > height:
        spare = [each for each in kept if each[0].use is not None]
        if not spare:
            break
        kept.remove(min(spare, key=lambda each: each[0].use or 0))
    return [part.what for part, _ in kept]


def _hang(lead: RenderableType, text: RenderableType) -> RenderableType:
    """Return a two-column layout: a lead, and next to it text with a hanging indentation."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column()
    made.add_row(lead, text)
    return made


def render(frame: Frame, width: int, height: int, beside: str = "") -> RenderableType:
    """Return the live display of a frame for a terminal, with commands that show the cluster."""
    said = Text(frame.headline, style="bold")
    # A fixed number of lines keeps the tables in place.
    padding = (3 if width < NARROW else 2) - count_lines(said, width)
    moves = [
        _hang(f"  {move.began - frame.epoch:3.0f} s", describe_migration(move))
        for move in list(frame.moves.values())[-LAST_MOVES:]
    ]
    parts = [
        Part(Text(f"KubeDSM demo, emulated: {frame.seconds:.0f} s of {frame.duration:.0f} s")),
        Part(said),
        *[Part(Text(""), use=8)] * padding,
        Part(Text(""), use=5),
        Part(_nodes_table(frame)),
        Part(Text(""), use=7),
        Part(_services_table(frame)),
        Part(Text(""), use=6),
        *(Part(Text(sentence), use=9) for sentence in ending(frame)),
        *([Part(Text(f"\n{beside}", style="dim"), use=4)] if beside else []),
        *([Part(Text(""), use=2)] if moves else []),
        *(Part(move, use=1) for move in moves),
    ]
    return Group(*_fit_parts(parts, width, height))


def summary(frame: Frame, width: int) -> RenderableType:
    """Return the final summary: tables of nodes and services, and the results in sentences."""
    return Group(
        _nodes_table(frame),
        Text(""),
        _services_table(frame),
        Text(""),
        *(Text(sentence) for sentence in ending(frame)),
        Text("\nTry next:"),
        *(_to_try(command, shows, width) for command, shows in TRY_NEXT),
    )


def _to_try(command: str, shows: str, width: int) -> RenderableType:
    if width < NARROW:
        return Group(Text(f"  {command}"), Padding(shows, (0, 0, 0, 4)))
    longest = max(len(command) for command, _ in TRY_NEXT)
    return _hang(f"  {command:{longest}}", shows)


def _nodes_table(frame: Frame) -> FittedTable:
    nodes = frame.nodes
    usage = [frame.seen.usage[name] for name in nodes]
    cpu = [(used.cpu, row.cpu) for used, row in zip(usage, nodes.values(), strict=True)]
    memory = [(used.memory, row.memory) for used, row in zip(usage, nodes.values(), strict=True)]
    pods = (name_services(used).items() for used in usage)
    return FittedTable(
        [
            Column("node", list(nodes)),
            Column("tier", [str(row.tier) for row in nodes.values()], least=7, use=4),
            Column("cpu", ["/".join(map(format_cores, each)) for each in cpu], 5, use=5),
            Column("", [bar(*each) for each in cpu], BAR, use=2),
            Column("memory", [format_memory(*each) for each in memory], 12, use=3),
            Column("", [bar(*each) for each in memory], BAR, use=1),
            Column("pods", [", ".join(f"{n} {name}" for name, n in each) for each in pods]),
        ],
        look="plain",
    )


def _services_table(frame: Frame) -> FittedTable:
    services, rows = frame.services, frame.services.values()
    theirs = frame.theirs.shares if frame.theirs else {}
    shares = [row.edge / row.total if row.total else None for row in rows]
    columns = [
        Column("service", list(services)),
        Column("load", [f"{frame.rates[name]:g}/s" for name in services], 5, use=1, number=True),
        Column("ready", [f"{row.ready} of {row.total}" for row in rows], 8, use=3),
        Column("on edge", [str(row.edge) for row in rows], 4, use=5, number=True),
        Column("edge share", [number(each, 2) for each in shares], 4, number=True),
        Column("target", [number(row.target, 2) for row in rows], number=True),
        Column("", [target_met(row.missing, row.total) for row in rows], 7),
        Column(
            "KubeDSM mean",
            [number(frame.ours.shares.get(name), 2) for name in services],
            use=4,
            number=True,
        ),
        Column(
            "kube-scheduler mean",
            [number(theirs.get(name), 2) for name in services],
            use=2,
            number=True,
        ),
    ]
    return FittedTable(columns, look="plain")


class LineByLine:
    """Log output for a terminal without cursor movement: one line per migration and per cycle."""

    EVERY = 5.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._due = 0.0
        self._told: set[str] = set()

    def __call__(self, frame: Frame) -> None:
        for key, move in frame.moves.items():
            if key not in self._told:
                self._told.add(key)
                self._print_line(move.began - frame.epoch, describe_migration(move))
        if frame.seconds >= self._due:
            self._due = frame.seconds + self.EVERY
            self._print_line(frame.seconds, " ".join((f"{frame.headline}.", *ending(frame))))

    def _print_line(self, seconds: float, said: str) -> None:
        # A file has lines of any length; a terminal's are broken between words.
        whole = not self._console.is_terminal
        self._console.print(Text(f"{seconds:5.1f} s  {said}"), soft_wrap=whole)
