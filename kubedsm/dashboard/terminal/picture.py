"""Terminal picture of the scheduler: headline, nodes, QoS targets, migrations, recent activity.

With insufficient space, the parts requiring attention take precedence.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Self

import attrs
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.dashboard.rows import (
    MoveRow,
    NewsRow,
    NodeRow,
    PodRow,
    SiteRow,
    Snapshot,
    StatusRow,
    WorkloadRow,
)
from kubedsm.dashboard.state.headline import migration_route
from kubedsm.dashboard.terminal.tables import (
    BAD,
    NARROW,
    WARNING,
    NodeLine,
    Part,
    bar,
    count_lines,
    fit_parts,
    hang,
    nodes_table,
    shorten,
    shorten_names,
    target_met,
)
from kubedsm.model.model import Tier
from kubedsm.planner.plurals import counted
from kubedsm.process.clock import rfc3339
from kubedsm.terminal.fitted_table import Column, FittedTable

#: news and waiting pods render_rows at the most
MOST = 8
#: minimum lines for sections below problems; minimum terminal height for blank lines
_LEAST, _ROOMY = 12, 30
#: minimum terminal height for the scheduler's statistics
_SMALL = 20
#: maximum number of measured list rows; no terminal displays more
_MEASURED = 100
#: unusual modes of the suggester
_MODES = {"suggest": "migrations are only proposed", "off": "nothing is migrated"}
_TIERS: Mapping[Tier | None, int] = {Tier.EDGE: 0, Tier.CLOUD: 1}


@attrs.frozen
class TypedSnapshot:
    """Snapshot of the dashboard's rows, with a typed field for each table."""

    #: seconds since the epoch
    at: float
    status: StatusRow
    nodes: Mapping[str, NodeRow] = attrs.field(factory=dict)
    pods: Mapping[str, PodRow] = attrs.field(factory=dict)
    workloads: Mapping[str, WorkloadRow] = attrs.field(factory=dict)
    moves: Mapping[str, MoveRow] = attrs.field(factory=dict)
    news: Mapping[str, NewsRow] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        tables: dict[str, Any] = {table: rows for table, rows in snapshot.rows.items() if rows}
        status = tables.pop("status", {}).get("now", StatusRow(headline=""))
        return cls(snapshot.at, status, **tables)


class NewsCursor:
    """Position in the rows of recent activity, to display each row only once."""

    def __init__(self) -> None:
        self._run = ""
        self._last = -1

    def since(self, snapshot: Snapshot) -> Iterator[NewsRow]:
        """Yield the activity rows not yet displayed, oldest first; numbering restarts with the
        process.
        """
        if snapshot.run != self._run:
            self._run, self._last = snapshot.run, -1
        rows = snapshot.rows.get("news", {})
        for number in sorted(int(key) for key in rows if int(key) > self._last):
            row = rows[str(number)]
            if isinstance(row, NewsRow):
                self._last = number
                yield row


def news_line(row: NewsRow) -> str:
    return f"{rfc3339(row.at)}  {'warning: ' if row.warning else ''}{news_text(row)}"


def news_text(row: NewsRow) -> str:
    """Format a recent-activity row as text, followed by the object's name unless mentioned."""
    about = row.pod or row.node or row.workload
    return row.text if about in row.text else f"{row.text} ({about})"


def news_json(row: NewsRow) -> dict[str, Any]:
    """Convert a recent-activity row to JSON fields, with the time as RFC 3339."""
    return {**msgspec.to_builtins(row), "at": rfc3339(row.at)}


@attrs.frozen
class _Section:
    """Section of the terminal picture: a table or list that shows as many rows as fit."""

    #: lines of each row
    heights: Sequence[int]
    #: rows shown before any section shows more
    least: int
    #: lines besides the rows
    beside: int
    #: renders the first rows, with a line for the others
    render_rows: Callable[[int], Sequence[RenderableType]]

    def height(self, rows: int) -> int:
        """Return the number of lines for the rows, including the line about omitted rows."""
        left_out = rows < len(self.heights)
        return self.beside + sum(self.heights[:rows]) + left_out if rows else 0


def render_picture(
    seen: TypedSnapshot, now: float, where: str, away: str, width: int, height: int
) -> Group:
    """Render the scheduler's state as lines that fit into the terminal.

    now: seconds since the epoch, by the scheduler's clock. away: why updates are missing.
    """
    status, proposal = seen.status, seen.status.proposal
    state = "" if status.state == "healthy" else f"{status.state}: "
    said = Text.assemble((state, BAD), (status.headline, "bold"))
    top = [
        Part(Text(f"KubeDSM at {where}{_describe_role(status)}", style="dim")),
        Part(said),
        *([Part(Text(""), use=9)] * ((3 if width < NARROW else 2) - count_lines(said, width))),
        *([Part(Text(f"{away}; this is the last state", style=BAD))] if away else []),
        *(
            Part(Text(trouble, style=WARNING), use=20 if at else None)
            for at, trouble in enumerate((*status.troubles, *status.notices))
        ),
        *(
            [Part(Text(f"to approve the migrations: kubedsm approve {proposal}"), use=19)]
            if proposal
            else []
        ),
    ]
    figures = (
        []
        if status.role == "watching" or height < _SMALL
        else [Text(_describe_figures(status), style="dim")]
    )
    shown = fit_parts(top, width, max(1, height - _LEAST))
    room = height - sum(count_lines(each, width) for each in (*shown, *figures))
    # Blank lines only with sufficient height.
    blank = [Text("")] if height >= _ROOMY else []
    short, explained = shorten_names(sorted(seen.nodes), max(12, width // 5))
    sections = [
        _nodes_section(seen, short, explained, width),
        _workloads_section(seen.workloads, width),
        *([_sites_section(status.sites)] if status.sites else []),
        _list_section("migrations", [*_list_moves(seen.moves, short, now)], "migration", width),
        _list_section("waiting for a node", [*_list_waiting(seen.pods)], "reason to wait", width),
        attrs.evolve(_list_section("lately", [*_list_news(seen.news)], "", width), least=0),
    ]
    sections = [attrs.evolve(each, beside=each.beside + len(blank)) for each in sections]
    for section, rows in zip(sections, _allot_rows(sections, room), strict=True):
        if rows:
            shown = [*shown, *blank, *section.render_rows(rows)]
    # Safeguard: surplus lines would scroll the picture away.
    parts = [*(Part(each) for each in shown), *(Part(each, use=0) for each in figures)]
    return Group(*fit_parts(parts, width, height))


def _allot_rows(sections: Sequence[_Section], room: int) -> Sequence[int]:
    """Distribute `room` terminal lines over sections: one each, then the minimum, then in turn."""
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
            # The line about a single omitted row takes the same space as the row.
            more = next((n for n in (number + 1, number + 2) if fits(at, n)), number)
            growing = growing or more > number
            rows[at] = more
    return rows


def _describe_role(status: StatusRow) -> str:
    """Describe the scheduler's role (leading or standby), and modes such as dry run or pause."""
    said = {
        "leading": "leading",
        "standby": f"standby, {status.leader or 'another process'} leads",
        "alone": "",
        "watching": "",  # visible in the headline
    }[status.role]
    more = [
        said,
        "dry run" if status.dry_run else "",
        "migrations are paused" if status.paused else "",
        _MODES.get(status.mode, ""),
    ]
    return "".join(f", {each}" for each in more if each)


def _list_section(title: str, items: Sequence[RenderableType], noun: str, width: int) -> _Section:
    """Build a titled list section of the terminal picture.

    noun: designation of omitted items; empty for silent omission.
    """

    def render_rows(rows: int) -> Sequence[RenderableType]:
        left = len(items) - rows if noun else 0
        return [Text(title, style="bold"), *items[:rows], *_count_others(left, noun)]

    heights = [count_lines(item, width) for item in items[:_MEASURED]]
    return _Section([*heights, *[1] * (len(items) - len(heights))], 1, 1, render_rows)


def _nodes_section(
    seen: TypedSnapshot, short: Mapping[str, str], explained: str, width: int
) -> _Section:
    """Build the nodes section, edge before cloud; unusual states come first if space is limited.

    short: shortened names; explained: a line about omitted parts of names, if any.
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

    def render_rows(rows: int) -> Sequence[RenderableType]:
        first = set(urgent[:rows])
        shown = [_node_line(short[n], seen.nodes[n], here[n]) for n in order if n in first]
        return [nodes_table(shown, width), *_count_others(len(order) - rows, "node"), *legend]

    beside = 1 + sum(count_lines(each, width) for each in legend)
    return _Section([1] * len(order), 3, beside, render_rows)


def _node_line(name: str, node: NodeRow, here: Sequence[PodRow]) -> NodeLine:
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


def _workloads_section(workloads: Mapping[str, WorkloadRow], width: int) -> _Section:
    """Build the workloads section, sorted by the number of pods missing at the edge."""
    order = sorted(workloads, key=lambda name: (-workloads[name].missing, name))

    def render_rows(rows: int) -> Sequence[RenderableType]:
        shown = [workloads[name] for name in order[:rows]]
        names = [shorten(name, max(20, width - 40)) for name in order[:rows]]
        columns = [
            Column("workload", names),
            Column("on edge", [f"{row.edge} of {row.total}" for row in shown], 8),
            Column("", [bar(row.edge, row.total) for row in shown], 8, use=1),
            Column("waiting", [str(row.waiting or "") for row in shown], number=True, use=2),
        ]
        if any(row.target is not None for row in shown):
            targets = ["" if row.target is None else f"{row.target:.0%}" for row in shown]
            columns[3:3] = [
                Column("target", targets, number=True),
                Column("", [_target_cell(row) for row in shown], 9),
            ]
        return [FittedTable(columns, look="plain"), *_count_others(len(order) - rows, "workload")]

    return _Section([1] * len(order), 3, 1, render_rows)


def _sites_section(sites: Sequence[SiteRow]) -> _Section:
    """Build the section of sites with demand, sorted by the number of missing replicas."""
    order = sorted(sites, key=lambda row: (-row.missing, row.site))

    def render_rows(rows: int) -> Sequence[RenderableType]:
        shown = order[:rows]
        columns = [
            Column("site", [row.site or "(no site)" for row in shown]),
            Column("served there", [f"{row.reached:.0%}" for row in shown], number=True),
            Column("target", [f"{row.target:.0%}" for row in shown], number=True, use=1),
            Column("replicas", [str(row.replicas) for row in shown], number=True, use=2),
            Column("", [target_met(row.missing, row.replicas + row.missing) for row in shown], 9),
        ]
        return [FittedTable(columns, look="plain"), *_count_others(len(order) - rows, "site")]

    return _Section([1] * len(order), 3, 1, render_rows)


def _target_cell(row: WorkloadRow) -> Text:
    return Text("") if row.target is None else target_met(row.missing, row.total)


def _count_others(number: int, what: str) -> list[RenderableType]:
    return [Text(f"and {counted(number, f'more {what}')}", style="dim")] if number else []


def _list_moves(
    moves: Mapping[str, MoveRow], short: Mapping[str, str], now: float
) -> Iterator[RenderableType]:
    """Yield terminal lines about migrations: in progress, then planned, then failed."""
    order = ("moving", "planned", "proposed", "failed", "rolled back")
    found = sorted(
        (move for move in moves.values() if move.state in order),
        key=lambda move: (order.index(move.state), -move.at),
    )
    for move in found:
        source, target = (short.get(name, name) for name in (move.source, move.target))
        where = migration_route(msgspec.structs.replace(move, source=source, target=target))
        if move.state == "moving":
            since = f", {now - move.since:.0f} s" if move.since else ""
            yield _list_item(f"{move.done}/{move.steps}", f"{where}: {move.step}{since}")
        elif move.state in ("planned", "proposed"):
            yield _list_item(move.state, f"{where}: {move.purpose}")
        else:
            yield _list_item(Text(move.state, style=WARNING), f"{where}: {move.reason}")


def _list_waiting(pods: Mapping[str, PodRow]) -> Iterator[RenderableType]:
    """Yield terminal lines about pending pods, grouped by message."""
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, pod in pods.items():
        if pod.state == "waiting" and not pod.scheduler:
            alike.setdefault((pod.message, pod.rules), []).append(name)
    for (message, rules), names in alike.items():
        first = min(names)
        subject = first if len(names) == 1 else f"{first} and {len(names) - 1} more"
        by = f" ({', '.join(rules)})" if rules else ""
        yield hang(f"  {subject}", f"{message or 'no attempt yet'}{by}")


def _list_news(news: Mapping[str, NewsRow]) -> Iterator[RenderableType]:
    """Yield terminal lines about recent scheduler activity, latest first."""
    for key in islice(sorted(news, key=int, reverse=True), MOST):
        row = news[key]
        yield _list_item(
            clock_of(row.at), Text(news_text(row), style=WARNING if row.warning else "")
        )


def _list_item(lead: str | Text, said: str | Text) -> RenderableType:
    return hang(Text("  ").append(lead), said)


def clock_of(at: float) -> str:
    """Format seconds since the epoch as local time."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")


def _describe_figures(status: StatusRow) -> str:
    said = [
        f"{counted(status.bound, 'pod')} bound",
        f"{counted(status.moves_done, 'migration')} completed",
    ]
    if status.bind_p50 is not None and status.bind_p99 is not None:
        said.append(f"bind latency: p50 {status.bind_p50:.0f} ms, p99 {status.bind_p99:.0f} ms")
    if status.loop_lag is not None:
        said.append(f"event loop lag {status.loop_lag:.0f} ms")
    return "; ".join(said)
