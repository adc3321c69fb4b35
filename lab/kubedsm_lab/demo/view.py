"""Terminal views of the demo: live display, summary, and log lines for a plain terminal."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kubedsm.dashboard.state.headline import describe_migration
from kubedsm.dashboard.terminal.cells import count_lines, target_met
from kubedsm.terminal.console import Console
from kubedsm.terminal.fitted_table import Column, FittedTable
from kubedsm_lab.demo.frame import Frame, ServiceView
from kubedsm_lab.demo.results import TRY_NEXT, ending
from kubedsm_lab.demo.tables import NARROW, Part, fit_parts, hang, nodes_table

#: most migrations listed
LAST_MOVES = 4


def render(frame: Frame, width: int, height: int, beside: str = "") -> RenderableType:
    """Return the live display of a frame for a terminal, with commands that show the cluster."""
    said = Text(frame.headline, style="bold")
    # A fixed number of lines keeps the tables in place.
    padding = (3 if width < NARROW else 2) - count_lines(said, width)
    moves = [
        hang(f"  {move.began - frame.epoch:3.0f} s", describe_migration(move))
        for move in list(frame.moves.values())[-LAST_MOVES:]
    ]
    parts = [
        Part(Text(f"KubeDSM demo, emulated: {frame.seconds:.0f} s of {frame.duration:.0f} s")),
        Part(said),
        *[Part(Text(""), use=8)] * padding,
        Part(Text(""), use=5),
        Part(nodes_table(frame.nodes)),
        Part(Text(""), use=7),
        Part(_services_table(frame)),
        Part(Text(""), use=6),
        *(Part(Text(sentence), use=9) for sentence in ending(frame)),
        *([Part(Text(f"\n{beside}", style="dim"), use=4)] if beside else []),
        *([Part(Text(""), use=2)] if moves else []),
        *(Part(move, use=1) for move in moves),
    ]
    return Group(*fit_parts(parts, width, height))


def summary(frame: Frame, width: int) -> RenderableType:
    """Return the final summary: tables of nodes and services, and the results in sentences."""
    return Group(
        nodes_table(frame.nodes),
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
    return hang(f"  {command:{longest}}", shows)


def _services_table(frame: Frame) -> FittedTable:
    services = frame.services
    theirs = frame.theirs.shares if frame.theirs else {}
    columns = [
        Column("service", [service.name for service in services]),
        Column("load", [f"{s.rate:g}/s" for s in services], 5, use=1, number=True),
        Column("ready", [f"{s.share.total} of {s.pods}" for s in services], 8, use=3),
        Column("on edge", [str(s.share.edge) for s in services], 4, use=5, number=True),
        Column("edge share", [_format_current(s) for s in services], 4, number=True),
        Column("target", [f"{s.qos_target:.2f}" for s in services], number=True),
        Column("", [target_met(s.missing, s.share.total) for s in services], 7),
        Column(
            "KubeDSM mean",
            [_format_share(frame.ours.shares.get(s.name)) for s in services],
            use=4,
            number=True,
        ),
    ]
    if frame.replay != "none":
        shares = [_format_share(theirs.get(s.name)) for s in services]
        columns.append(Column("kube-scheduler mean", shares, use=2, number=True))
    return FittedTable(columns, look="plain")


def _format_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


def _format_current(service: ServiceView) -> str:
    return _format_share(service.share.ratio if service.share.total else None)


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
