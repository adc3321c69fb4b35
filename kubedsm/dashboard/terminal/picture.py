"""All there is to be seen, in one picture: how things stand in words, nodes, promises, moves, news.

Of what there is not room for, that is shown which somebody has to know of.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import attrs
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.dashboard.rows import MoveRow, NewsRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.dashboard.state.headline import moved_from_to
from kubedsm.dashboard.terminal.fitting import NARROW, Part, fitting, hanging, lines
from kubedsm.dashboard.terminal.news_lines import text_of
from kubedsm.dashboard.terminal.rows_seen import Seen
from kubedsm.dashboard.terminal.tables import (
    LACKS,
    LACKS_MORE,
    NodeLine,
    bar,
    kept,
    nodes_table,
    shorten,
    shorten_names,
)
from kubedsm.model.model import Tier
from kubedsm.planner.plurals import counted
from kubedsm.terminal.fitted_table import Column, FittedTable

#: news and waiting pods that are rendered at the most
MOST = 8
#: lines that troubles leave to the sections, and lines from which on blank ones part them
_LEAST, _ROOMY = 12, 30
#: lines of a terminal below which nothing is said in figures about the scheduler
_SMALL = 20
#: rows of a list that are measured; no terminal shows more
_MEASURED = 100
#: of the suggester, if it is not the usual one
_MODES = {"suggest": "moves are only proposed", "off": "nothing is moved"}
_TIERS: Mapping[Tier | None, int] = {Tier.EDGE: 0, Tier.CLOUD: 1}


@attrs.frozen
class _Section:
    """A table or list of which as many rows are shown as there is room for."""

    #: lines of each row
    heights: Sequence[int]
    #: rows that are shown before any section shows more
    least: int
    #: lines beside the rows
    beside: int
    #: renders the first rows, with a line for what is left out
    rendered: Callable[[int], Sequence[RenderableType]]

    def height(self, rows: int) -> int:
        """Return the lines that so many rows take, with the line for those left out."""
        left_out = rows < len(self.heights)
        return self.beside + sum(self.heights[:rows]) + left_out if rows else 0


def picture(seen: Seen, now: float, where: str, away: str, width: int, height: int) -> Group:
    """Render all that fits into the terminal.

    now: seconds since the epoch, by the scheduler's clock. away: why nothing new is heard.
    """
    status, proposal = seen.status, seen.status.proposal
    said = Text(status.headline, style="bold")
    top = [
        Part(Text(f"KubeDSM at {where}{_role(status)}", style="dim")),
        Part(said),
        *([Part(Text(""), use=9)] * ((3 if width < NARROW else 2) - lines(said, width))),
        *([Part(Text(f"{away}; this is how it was", style=LACKS_MORE))] if away else []),
        *(
            Part(Text(trouble, style=LACKS), use=20 if at else None)
            for at, trouble in enumerate(status.troubles)
        ),
        *(
            [Part(Text(f"to have it moved: kubedsm approve {proposal}"), use=19)]
            if proposal
            else []
        ),
    ]
    figures = (
        []
        if status.role == "watching" or height < _SMALL
        else [Text(_figures(status), style="dim")]
    )
    shown = fitting(top, width, max(1, height - _LEAST))
    room = height - sum(lines(each, width) for each in (*shown, *figures))
    # Blank lines only where there is room for them.
    blank = [Text("")] if height >= _ROOMY else []
    short, explained = shorten_names(sorted(seen.nodes), max(12, width // 5))
    sections = [
        _nodes(seen, short, explained, width),
        _workloads(seen.workloads, width),
        _listed("moves", [*_moves(seen.moves, short, now)], "migration", width),
        _listed("waiting for a node", [*_waiting(seen.pods)], "reason to wait", width),
        attrs.evolve(_listed("lately", [*_news(seen.news)], "", width), least=0),
    ]
    sections = [attrs.evolve(each, beside=each.beside + len(blank)) for each in sections]
    for section, rows in zip(sections, _allot(sections, room), strict=True):
        if rows:
            shown = [*shown, *blank, *section.rendered(rows)]
    # Last of all a guard: what does not fit in spite of that would scroll the picture away.
    parts = [*(Part(each) for each in shown), *(Part(each, use=0) for each in figures)]
    return Group(*fitting(parts, width, height))


def _allot(sections: Sequence[_Section], room: int) -> Sequence[int]:
    """Return the rows of each section: one of each, the least of each, then one more of each."""
    rows = [0] * len(sections)

    def fits(at: int, number: int) -> bool:
        wanted = [number if other == at else rows[other] for other in range(len(rows))]
        taken = sum(each.height(of) for each, of in zip(sections, wanted, strict=True))
        return number <= len(sections[at].heights) and taken <= room

    for most in (1, 2, 3):
        for at, section in enumerate(sections):
            number = min(most, section.least)
            rows[at] = number if fits(at, number) else rows[at]
    growing = True
    while growing:
        growing = False
        for at, number in enumerate(rows):
            # A line for one that is left out takes as much as that one.
            more = next((n for n in (number + 1, number + 2) if fits(at, n)), number)
            growing = growing or more > number
            rows[at] = more
    return rows


def _role(status: StatusRow) -> str:
    """What is to be known beside the address."""
    said = {
        "leading": "leading",
        "standby": f"standby, {status.leader or 'another one'} leads",
        "alone": "",
        "watching": "",  # its headline says so
    }[status.role]
    more = [
        said,
        "dry run" if status.dry_run else "",
        "moving is paused" if status.paused else "",
        _MODES.get(status.mode, ""),
    ]
    return "".join(f", {each}" for each in more if each)


def _listed(title: str, items: Sequence[RenderableType], noun: str, width: int) -> _Section:
    """Return a list under a title. noun: names those left out; empty if nobody asks for them."""

    def rendered(rows: int) -> Sequence[RenderableType]:
        left = len(items) - rows if noun else 0
        return [Text(title, style="bold"), *items[:rows], *_more(left, noun)]

    heights = [lines(item, width) for item in items[:_MEASURED]]
    return _Section([*heights, *[1] * (len(items) - len(heights))], 1, 1, rendered)


def _nodes(seen: Seen, short: Mapping[str, str], explained: str, width: int) -> _Section:
    """Those that are not as usual first of all, if there is not room for all; edge before cloud.

    short: names that fit; explained: a line on what was cut from them, if anything.
    """
    here: dict[str, list[PodRow]] = {name: [] for name in seen.nodes}
    for pod in seen.pods.values():
        if pod.node in here:
            here[pod.node].append(pod)
    touched = {
        name
        for move in seen.moves.values()
        if move.state == "moving"
        for name in (move.source, move.target)
    }
    order = sorted(
        seen.nodes, key=lambda n: (_TIERS.get(seen.nodes[n].tier, 2), seen.nodes[n].site, n)
    )
    urgent = sorted(order, key=lambda n: (not seen.nodes[n].state, n not in touched))
    legend = [Text(explained, style="dim")] if explained else []

    def rendered(rows: int) -> Sequence[RenderableType]:
        first = set(urgent[:rows])
        shown = [_line(short[n], seen.nodes[n], here[n]) for n in order if n in first]
        return [nodes_table(shown, width), *_more(len(order) - rows, "node"), *legend]

    beside = 1 + sum(lines(each, width) for each in legend)
    return _Section([1] * len(order), 3, beside, rendered)


def _line(name: str, node: NodeRow, here: Sequence[PodRow]) -> NodeLine:
    tier = node.tier.value if node.tier else "none"
    pods = Counter(pod.workload.partition("/")[2] or pod.workload for pod in here)
    return NodeLine(
        name,
        f"{tier} {node.site}".strip(),
        node.state,
        (sum(pod.cpu for pod in here), node.cpu),
        (sum(pod.memory for pod in here), node.memory),
        dict(sorted(pods.items())),
    )


def _workloads(workloads: Mapping[str, WorkloadRow], width: int) -> _Section:
    """Those of which more is missing first."""
    order = sorted(workloads, key=lambda name: (-workloads[name].missing, name))

    def rendered(rows: int) -> Sequence[RenderableType]:
        shown = [workloads[name] for name in order[:rows]]
        names = [shorten(name, max(20, width - 40)) for name in order[:rows]]
        columns = [
            Column("workload", names),
            Column("on edge", [f"{row.edge} of {row.total}" for row in shown], 8),
            Column("", [bar(row.edge, row.total) for row in shown], 8, use=1),
            Column("waiting", [str(row.waiting or "") for row in shown], number=True, use=2),
        ]
        if any(row.promise is not None for row in shown):
            targets = ["" if row.promise is None else f"{row.promise:.0%}" for row in shown]
            columns[3:3] = [
                Column("target", targets, number=True),
                Column("", [_met(row) for row in shown], 7),
            ]
        return [FittedTable(columns, look="plain"), *_more(len(order) - rows, "workload")]

    return _Section([1] * len(order), 3, 1, rendered)


def _met(row: WorkloadRow) -> Text:
    return Text("") if row.promise is None else kept(row.missing, row.total)


def _more(number: int, what: str) -> list[RenderableType]:
    return [Text(f"and {counted(number, f'more {what}')}", style="dim")] if number else []


def _moves(
    moves: Mapping[str, MoveRow], short: Mapping[str, str], now: float
) -> Iterator[RenderableType]:
    """Those under way, then those to come, then those that ended badly, as far as there is room."""
    order = ("moving", "planned", "proposed", "failed", "taken back")
    found = sorted(
        (move for move in moves.values() if move.state in order),
        key=lambda move: (order.index(move.state), -move.at),
    )
    for move in found:
        source, target = (short.get(name, name) for name in (move.source, move.target))
        where = moved_from_to(msgspec.structs.replace(move, source=source, target=target))
        if move.state == "moving":
            since = f", {now - move.since:.0f} s" if move.since else ""
            yield _item(f"{move.done}/{move.steps}", f"{where}: {move.step}{since}")
        elif move.state in ("planned", "proposed"):
            yield _item(move.state, f"{where}: {move.purpose}")
        else:
            yield _item(Text(move.state, style=LACKS), f"{where}: {move.reason}")


def _waiting(pods: Mapping[str, PodRow]) -> Iterator[RenderableType]:
    """Those for which the same is said, at once."""
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, pod in pods.items():
        if pod.state == "waiting" and not pod.scheduler:
            alike.setdefault((pod.message, pod.rules), []).append(name)
    for (message, rules), names in alike.items():
        first = min(names)
        who = first if len(names) == 1 else f"{first} and {len(names) - 1} more"
        by = f" ({', '.join(rules)})" if rules else ""
        yield hanging(f"  {who}", f"{message or 'not tried yet'}{by}")


def _news(news: Mapping[str, NewsRow]) -> Iterator[RenderableType]:
    """The last first."""
    for key in islice(sorted(news, key=int, reverse=True), MOST):
        row = news[key]
        yield _item(clock_of(row.at), Text(text_of(row), style=LACKS if row.warning else ""))


def _item(lead: str | Text, said: str | Text) -> RenderableType:
    return hanging(Text("  ").append(lead), said)


def clock_of(at: float) -> str:
    """As a clock on the wall says it here."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")


def _figures(status: StatusRow) -> str:
    said = [
        f"{counted(status.bound, 'pod')} bound",
        f"{counted(status.moves_done, 'move')} made",
    ]
    if status.bind_p50 is not None and status.bind_p99 is not None:
        said.append(f"seen to bound: p50 {status.bind_p50:.0f} ms, p99 {status.bind_p99:.0f} ms")
    if status.loop_lag is not None:
        said.append(f"event loop late by {status.loop_lag:.0f} ms")
    return "; ".join(said)
