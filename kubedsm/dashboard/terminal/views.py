"""Tables of `kubedsm watch`: services, sites, nodes, pods, migrations, news, status, namespaces."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import attrs
from rich.progress_bar import ProgressBar
from rich.text import Text

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, SiteRow, WorkloadRow
from kubedsm.dashboard.terminal.cells import (
    BAD,
    BAR,
    WARNING,
    Cell,
    age_cell,
    bar_cell,
    cores_of,
    count_cell,
    memory_of,
    milliseconds_cell,
    percent_cell,
    shorten,
    shorten_names,
    target_met,
    used_cell,
    word_cell,
)
from kubedsm.dashboard.terminal.seen import NodeUsage, ShareHistory, TypedSnapshot, news_text
from kubedsm.dashboard.terminal.summary import (
    MOVE_STATES,
    clock_of,
    describe_figures,
    describe_move,
    describe_wait,
    order_moves,
)
from kubedsm.model.model import Tier

View = Literal["services", "sites", "nodes", "pods", "migrations", "news", "status", "namespaces"]
#: characters of a trend, in narrow and in wide terminals; minimum width of the latter
_TREND, _LONG_TREND, _WIDE = 11, 20, 100
_TIERS: Mapping[Tier | None, int] = {Tier.EDGE: 0, Tier.CLOUD: 1}
#: order of pods: those that need attention first
_STATES = ("waiting", "gated", "not ready", "starting", "leaving", "ready")


class Heading(NamedTuple):
    text: str
    #: minimum width
    least: int = 0
    #: importance: the column with the lowest value is omitted first; None: never omitted
    use: int | None = None
    #: right-aligned
    number: bool = False


@attrs.frozen
class Scope:
    """Restriction of a table; an empty field restricts nothing."""

    namespace: str = ""
    #: tier and site, such as `edge north`
    site: str = ""
    node: str = ""
    workload: str = ""

    def has_name(self, name: str) -> bool:
        """Return True if the object `namespace/name` is in the namespace of the scope."""
        return not self.namespace or name.startswith(f"{self.namespace}/")


class Subject(NamedTuple):
    """Subject of an explanation by the scheduler."""

    kind: Literal["pod", "node", "workload", "move", "decision"]
    key: str


@attrs.frozen
class Entry:
    """Row of a table."""

    key: str
    cells: tuple[Cell, ...]
    #: text that is too long for a cell
    detail: str = ""
    #: what the scheduler can explain about the row
    subject: Subject | None = None
    #: table that the row leads to
    leads: tuple[View, Scope] | None = None

    def has_words(self, words: Iterable[str]) -> bool:
        """Return True if each of the lower-case words is part of the row's text."""
        shown = (cell.shown for cell in self.cells if not isinstance(cell.shown, ProgressBar))
        text = " ".join([self.key, self.detail, *map(str, shown)]).lower()
        return all(word in text for word in words)


@attrs.frozen
class Listing:
    """Table of a view: headings, and rows in the view's own order."""

    headings: Sequence[Heading]
    entries: Sequence[Entry]
    #: line that explains shortened names, if any
    legend: str = ""

    @cached_property
    def widths(self) -> Sequence[int]:
        """Widths of the columns over all rows: columns must not shift while scrolling."""
        cells = (
            [entry.cells[at].shown for entry in self.entries] for at in range(len(self.headings))
        )
        return [
            max((len(s) for s in some if not isinstance(s, ProgressBar)), default=0)
            for some in cells
        ]


class Source(NamedTuple):
    """Input of a table: rows, trends, the scheduler's time, and the terminal width."""

    seen: TypedSnapshot
    history: ShareHistory
    #: seconds since the epoch
    now: float
    width: int


def list_rows(view: View, source: Source, scope: Scope) -> Listing:
    """Return the table of a view, restricted to the scope."""
    return _LISTS[view](source, scope)


def _list_services(source: Source, scope: Scope) -> Listing:
    workloads = source.seen.workloads
    names = sorted(filter(scope.has_name, workloads), key=lambda n: (-workloads[n].missing, n))
    trend = _LONG_TREND if source.width >= _WIDE else _TREND
    headings = (
        Heading("service"),
        Heading("on edge", 7),
        Heading("share", 5, 4, number=True),
        Heading("target", 6, number=True),
        Heading("shortfall", 10),
        Heading("waiting", 7, 3, number=True),
        Heading("last 10 min", trend, 5),
        Heading("edge ms", 7, 2, number=True),
        Heading("cloud ms", 8, 1, number=True),
    )

    def entry(name: str, row: WorkloadRow) -> Entry:
        share = row.edge / row.total if row.total else None
        missing = Text("") if row.target is None else target_met(row.missing, row.total)
        return Entry(
            name,
            (
                word_cell(name, shorten(name, max(16, source.width - 50))),
                Cell(-row.edge, f"{row.edge} of {row.total}"),
                percent_cell(share),
                percent_cell(row.target),
                Cell(-row.missing, missing),
                count_cell(row.waiting),
                Cell(share or 0.0, source.history.draw_trend(name, source.now, trend)),
                milliseconds_cell(row.edge_answers),
                milliseconds_cell(row.cloud_answers),
            ),
            detail=f"{name} ({row.kind}): {row.ready} of {row.total} pods Ready,"
            f" weight {row.weight:g}{', slower at the edge' if row.edge_slower else ''}",
            subject=Subject("workload", name),
            leads=("pods", Scope(workload=name)),
        )

    return Listing(headings, [entry(name, workloads[name]) for name in names])


def _list_sites(source: Source, _: Scope) -> Listing:
    """List sites, edge before cloud: capacity, and for sites with demand the share served there."""
    seen = source.seen
    members: dict[tuple[int, str], list[str]] = defaultdict(list)
    for name, row in seen.nodes.items():
        members[_TIERS.get(row.tier, 2), name_site(row)].append(name)
    demand = {f"{Tier.EDGE.value} {row.site}".strip(): row for row in seen.status.sites}
    for site in demand:
        members.setdefault((0, site), [])
    headings = (
        Heading("site"),
        Heading("nodes", 5, number=True),
        Heading("unusual", 7, number=True),
        Heading("pods", 5, number=True),
        Heading("cpu", 4, number=True),
        Heading("", BAR, 2),
        Heading("memory", 6, 4, number=True),
        Heading("", BAR, 1),
        Heading("served there", 6, number=True),
        Heading("target", 6, 3, number=True),
        Heading("shortfall", 10),
    )
    # Without demand by site, the last three columns would be empty.
    columns = len(headings) if demand else len(headings) - 3

    def entry(site: str, nodes: Sequence[str], served: SiteRow | None) -> Entry:
        usage = [seen.usage[name] for name in nodes]
        rows = [seen.nodes[name] for name in nodes]
        cpu = sum(use.cpu for use in usage), sum(row.cpu for row in rows)
        memory = sum(use.memory for use in usage), sum(row.memory for row in rows)
        lost = sum(bool(row.state) for row in rows)
        reached = None if served is None else served.reached
        missing = Text("")
        if served is not None:
            missing = target_met(served.missing, served.replicas + served.missing)
        return Entry(
            site,
            (
                word_cell(site),
                count_cell(len(nodes)),
                count_cell(lost, BAD),
                count_cell(sum(use.pods.total() for use in usage)),
                used_cell(*cpu),
                bar_cell(*cpu),
                used_cell(*memory),
                bar_cell(*memory),
                percent_cell(reached),
                percent_cell(None if served is None else served.target),
                Cell(-(served.missing if served else 0), missing),
            )[:columns],
            detail=", ".join(
                f"{name} is {seen.nodes[name].state}" for name in nodes if seen.nodes[name].state
            ),
            leads=("nodes", Scope(site=site)),
        )

    return Listing(
        headings[:columns],
        [
            entry(site, sorted(nodes), demand.get(site))
            for (_, site), nodes in sorted(members.items())
        ],
    )


def name_site(node: NodeRow) -> str:
    """Return a node's tier and site, such as `edge north`."""
    return f"{node.tier.value if node.tier else 'none'} {node.site}".strip()


def _list_nodes(source: Source, scope: Scope) -> Listing:
    """List nodes, unusual states first, then edge before cloud."""
    seen = source.seen
    names = sorted(
        (name for name, row in seen.nodes.items() if scope.site in ("", name_site(row))),
        key=lambda n: (
            not seen.nodes[n].state,
            _TIERS.get(seen.nodes[n].tier, 2),
            seen.nodes[n].site,
            n,
        ),
    )
    short, legend = shorten_names(sorted(names), max(12, source.width // 4))
    headings = (
        Heading("node"),
        Heading("site", 7),
        Heading("state", 5, 6),
        Heading("cpu", 7, 5),
        Heading("", BAR, 2),
        Heading("memory", 12, 4),
        Heading("", BAR, 1),
        Heading("pods", 4, number=True),
        Heading("services", 8, 3, number=True),
    )

    def entry(name: str, row: NodeRow, use: NodeUsage) -> Entry:
        state = row.state or ("cordoned" if row.cordoned else "")
        cpu, memory = f"{cores_of(use.cpu)}/{cores_of(row.cpu)}", memory_of(use.memory, row.memory)
        services = ", ".join(f"{count} {each}" for each, count in use.pods.most_common())
        return Entry(
            name,
            (
                word_cell(name, short[name]),
                word_cell(name_site(row)),
                Cell(state, Text(state, style=BAD)),
                Cell(-use.cpu, cpu),
                bar_cell(use.cpu, row.cpu),
                Cell(-use.memory, memory),
                bar_cell(use.memory, row.memory),
                count_cell(use.pods.total()),
                count_cell(len(use.pods)),
            ),
            detail=f"{name}: {services or 'no pods'}",
            subject=Subject("node", name),
            leads=("pods", Scope(node=name)),
        )

    return Listing(headings, [entry(n, seen.nodes[n], seen.usage[n]) for n in names], legend)


def _list_pods(source: Source, scope: Scope) -> Listing:
    """List pods; pods that need attention come first."""
    seen = source.seen
    short, legend = shorten_names(sorted(seen.nodes), max(12, source.width // 5))
    room = max(20, source.width - 45)
    names = sorted(
        (
            name
            for name, row in seen.pods.items()
            if scope.has_name(name)
            and scope.node in ("", row.node)
            and scope.workload in ("", row.workload)
        ),
        key=lambda n: (_STATES.index(seen.pods[n].state), n),
    )
    headings = (
        Heading("pod", 20),
        Heading("state", 9),
        Heading("node", 8),
        Heading("site", 7, 1),
        Heading("age", 4, 2, number=True),
        Heading("cpu", 5, 0, number=True),
    )

    def entry(name: str, row: PodRow) -> Entry:
        node = seen.nodes.get(row.node)
        move = seen.moves.get(row.move)
        reason = describe_move(move, source.now) if move else ""
        if row.state == "waiting":
            reason = describe_wait(row.message, row.rules)
        plain = row.state == "ready"
        state = row.state if plain else Text(row.state, BAD if row.state == "waiting" else WARNING)
        return Entry(
            name,
            (
                word_cell(name, shorten(name, room)),
                Cell(_STATES.index(row.state), state),
                word_cell(row.node, short.get(row.node, row.node)),
                word_cell(name_site(node) if node else ""),
                age_cell(row.created, source.now),
                Cell(-row.cpu, cores_of(row.cpu)),
            ),
            detail=f"{name}: {reason}" if reason else "",
            subject=Subject("pod", name),
        )

    return Listing(headings, [entry(name, seen.pods[name]) for name in names], legend)


def _list_moves(source: Source, scope: Scope) -> Listing:
    seen = source.seen
    short, legend = shorten_names(sorted(seen.nodes), max(12, source.width // 5))
    room = max(20, source.width - 60)
    headings = (
        Heading("state", 9),
        Heading("step", 5, 2),
        Heading("pod", 16),
        Heading("from", 8),
        Heading("to", 8),
        Heading("age", 4, 1, number=True),
    )

    def entry(key: str, row: MoveRow) -> Entry:
        color = WARNING if row.state in ("failed", "rolled back") else ""
        return Entry(
            key,
            (
                Cell(MOVE_STATES.index(row.state), Text(row.state, color)),
                Cell(-row.done, f"{row.done}/{row.steps}" if row.steps else ""),
                word_cell(row.pod, shorten(row.pod, room)),
                word_cell(row.source, short.get(row.source, row.source)),
                word_cell(row.target, short.get(row.target, row.target)),
                age_cell(row.at, source.now),
            ),
            detail=f"{row.pod}: {describe_move(row, source.now)}",
            subject=Subject("pod", row.pod) if row.state == "proposed" else Subject("move", key),
        )

    keys = (key for key in order_moves(seen.moves) if scope.has_name(seen.moves[key].pod))
    return Listing(headings, [entry(key, seen.moves[key]) for key in keys], legend)


def _list_news(source: Source, scope: Scope) -> Listing:
    """List recent activity, latest first."""

    def entries() -> Iterator[Entry]:
        for key in sorted(source.seen.news, key=int, reverse=True):
            row = source.seen.news[key]
            if (about := row.pod or row.workload) and not scope.has_name(about):
                continue
            text, style = news_text(row), WARNING if row.warning else ""
            subject = (
                Subject("move", row.move) if row.move
                else Subject("decision", str(row.decision)) if row.decision
                else Subject("pod", row.pod) if row.pod
                else Subject("workload", row.workload) if row.workload
                else Subject("node", row.node) if row.node
                else None
            )  # fmt: skip
            first = shorten(text, max(20, source.width - 10))
            yield Entry(
                key,
                (Cell(-row.at, clock_of(row.at)), Cell(text, Text(first, style))),
                text,
                subject,
            )

    return Listing((Heading("time", 8), Heading("news")), list(entries()))


def _list_status(source: Source, _: Scope) -> Listing:
    """List violated health rules, notices and figures of the scheduler."""
    status, room = source.seen.status, max(20, source.width - 12)
    lines = [
        *(("problem", text, BAD) for text in status.troubles),
        *(("notice", text, "") for text in status.notices),
        *(("figure", text, "") for text in describe_figures(status)),
    ]
    return Listing(
        (Heading("kind", 7), Heading("text")),
        [
            Entry(str(at), (word_cell(kind), Cell(text, Text(shorten(text, room), color))), text)
            for at, (kind, text, color) in enumerate(lines)
        ],
    )


def _list_namespaces(source: Source, _: Scope) -> Listing:
    """List namespaces of services and pods, and first a row for all of them."""
    seen, found = source.seen, defaultdict[str, Counter[str]](Counter)
    for name, row in seen.workloads.items():
        for namespace in ("", name.partition("/")[0]):
            found[namespace].update(services=1, below=row.missing > 0)
    for name, pod in seen.pods.items():
        for namespace in ("", name.partition("/")[0]):
            found[namespace].update(pods=1, waiting=pod.state == "waiting")
    columns = ("services", "below", "pods", "waiting")
    titles = ("services", "below target", "pods", "waiting")
    return Listing(
        (Heading("namespace", 10), *(Heading(title, 8, number=True) for title in titles)),
        [
            Entry(
                name or "all",
                (
                    word_cell(name, name or "all"),
                    *(count_cell(found[name][each]) for each in columns),
                ),
                leads=("services", Scope(namespace=name)),
            )
            for name in sorted(found)
        ],
    )


_LISTS: Mapping[View, Callable[[Source, Scope], Listing]] = {
    "services": _list_services,
    "sites": _list_sites,
    "nodes": _list_nodes,
    "pods": _list_pods,
    "migrations": _list_moves,
    "news": _list_news,
    "status": _list_status,
    "namespaces": _list_namespaces,
}
