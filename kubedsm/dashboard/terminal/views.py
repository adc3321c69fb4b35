"""Tables of `kubedsm watch`: services, sites, nodes, pods, migrations, news, status, namespaces."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any, Literal, NamedTuple

import attrs
from rich.console import RenderableType
from rich.text import Text

from kubedsm.dashboard.rows import MoveRow, NewsRow, NodeRow, PodRow, SiteRow, WorkloadRow
from kubedsm.dashboard.state.headline import migration_route
from kubedsm.dashboard.terminal.cells import (
    BAD,
    BAR,
    WARNING,
    bar,
    format_age,
    format_cores,
    format_memory,
    shorten,
    shorten_names,
    target_met,
)
from kubedsm.dashboard.terminal.seen import NodeUsage, ShareHistory, TypedSnapshot, news_text
from kubedsm.dashboard.terminal.summary import (
    clock_of,
    describe_figures,
    describe_move,
    order_moves,
)
from kubedsm.explain.explanation import Link
from kubedsm.model.model import Tier
from kubedsm.planner.plurals import short_number

View = Literal["services", "sites", "nodes", "pods", "migrations", "news", "status", "namespaces"]
#: characters of a trend, in narrow and in wide terminals; minimum width of the latter
_TREND, _LONG_TREND, _WIDE = 11, 20, 100
_TIERS: Mapping[Tier | None, int] = {Tier.EDGE: 0, Tier.CLOUD: 1}
#: order of pods: those that need attention first
_STATES = ("waiting", "gated", "not ready", "starting", "leaving", "ready")
#: states that are coloured
_COLOURS = {"waiting": BAD, "problem": BAD, "failed": WARNING, "rolled back": WARNING}


@attrs.frozen
class Heading:
    """Column of a table: its heading, and the form of its values."""

    text: str
    #: visible form of a value; unknown values, None, are empty
    form: Callable[[Any], RenderableType] = str
    #: minimum width
    least: int = 0
    #: importance: the column with the lowest value is omitted first; None: never omitted
    use: int | None = None
    #: right-aligned
    number: bool = False

    def show(self, value: Any) -> RenderableType:
        return "" if value is None else self.form(value)


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


@attrs.frozen
class Entry:
    """Row of a table: a value for each column, a number, text, or used and available amount."""

    key: str
    values: tuple[Any, ...]
    #: text that is too long for a cell
    detail: str = ""
    #: what the scheduler can explain about the row
    subject: Link | None = None
    #: table that the row leads to
    leads: tuple[View, Scope] | None = None

    def has_words(self, words: Iterable[str]) -> bool:
        """Return True if each of the lower-case words is part of the row's text."""
        texts = (value for value in self.values if isinstance(value, str))
        text = " ".join((self.key, self.detail, *texts)).lower()
        return all(word in text for word in words)

    def order(self, column: int) -> tuple[float, str]:
        """Return the sort key of a value: greatest numbers or parts first, unknown ones last."""
        match self.values[column]:
            case None:
                return inf, ""
            case str() as text:
                return 0.0, text
            case (used, of):
                return -used / max(1, of), ""
            case number:
                return -number, ""


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
        widths = [0] * len(self.headings)
        for at, heading in enumerate(self.headings):
            texts = (entry.values[at] for entry in self.entries)
            shown = (str(heading.form(text)) for text in texts if isinstance(text, str))
            widths[at] = max(map(len, shown), default=0)
        return widths


class Source(NamedTuple):
    """Input of a table: rows, trends, the scheduler's time, and the terminal width."""

    seen: TypedSnapshot
    history: ShareHistory
    #: seconds since the epoch
    now: float
    width: int

    def shorten_nodes(self, least: int = 12) -> tuple[Callable[[str], str], str]:
        """Return a function that shortens names of nodes, and a line that explains short names."""
        short, legend = shorten_names(sorted(self.seen.nodes), max(least, self.width // 5))
        return lambda name: short.get(name, name), legend

    def shorten_to(self, beside: int) -> Callable[[str], str]:
        """Return a function that shortens text next to columns of a total width."""
        return partial(shorten, width=max(16, self.width - beside))


def _number(text: str, form: str = "", use: int | None = None, least: int = 0) -> Heading:
    """Return the column of a number in Python's format; zeros are empty without a format."""
    show = (lambda value: format(value, form)) if form else (lambda value: str(value or ""))
    return Heading(text, show, least or len(text), use, number=True)


def _bar(use: int) -> Heading:
    return Heading("", lambda amounts: bar(*amounts), BAR, use)


def _show_state(state: str) -> Text:
    return Text(state, _COLOURS.get(state, ""))


_SHORTFALL = Heading("shortfall", lambda missing: target_met(*missing), 10)


def _list_services(source: Source, scope: Scope) -> Listing:
    workloads, trend = source.seen.workloads, _LONG_TREND if source.width >= _WIDE else _TREND
    headings = (
        Heading("service", source.shorten_to(50)),
        Heading("on edge", lambda share: "{} of {}".format(*share), 8),
        _number("share", ".0%", 4),
        _number("target", ".0%"),
        _SHORTFALL,
        _number("waiting", use=3),
        Heading("last 10 min", least=trend, use=5),
        Heading("edge ms", short_number, 7, 2, number=True),
        Heading("cloud ms", short_number, 8, 1, number=True),
    )
    # Without measured response times, the last two columns would be empty.
    measured = any(row.edge_answers or row.cloud_answers for row in workloads.values())
    columns = len(headings) if measured else len(headings) - 2

    def entry(name: str, row: WorkloadRow) -> Entry:
        slower = ", slower at the edge" if row.edge_slower else ""
        return Entry(
            name,
            (
                name,
                (row.edge, row.total),
                row.edge / row.total if row.total else None,
                row.target,
                None if row.target is None else (row.missing, row.total),
                row.waiting,
                source.history.draw_trend(name, source.now, trend),
                row.edge_answers,
                row.cloud_answers,
            )[:columns],
            f"{name} ({row.kind}): {row.ready} of {row.total} pods Ready, weight {row.weight:g}"
            f"{slower}",
            Link("workload", name),
            ("pods", Scope(workload=name)),
        )

    names = sorted(filter(scope.has_name, workloads), key=lambda n: (-workloads[n].missing, n))
    return Listing(headings[:columns], [entry(name, workloads[name]) for name in names])


def _list_sites(source: Source, _: Scope) -> Listing:
    """List sites, edge before cloud: capacity, and for sites with demand the share served there."""
    seen = source.seen
    members: dict[tuple[int, str], list[str]] = defaultdict(list)
    for name, row in sorted(seen.nodes.items()):
        members[_TIERS.get(row.tier, 2), name_site(row)].append(name)
    demand = {f"{Tier.EDGE.value} {row.site}".strip(): row for row in seen.status.sites}
    for site in demand:
        members.setdefault((0, site), [])
    part = Heading("cpu", lambda amounts: f"{amounts[0] / max(1, amounts[1]):.0%}", 4, number=True)
    headings = (
        Heading("site"),
        _number("nodes"),
        Heading("unusual", lambda count: Text(str(count or ""), BAD), 7, number=True),
        _number("pods", least=5),
        part,
        _bar(2),
        attrs.evolve(part, text="memory", use=4),
        _bar(1),
        _number("served there", ".0%", least=6),
        _number("target", ".0%", 3),
        _SHORTFALL,
    )
    # Without demand by site, the last three columns would be empty.
    columns = len(headings) if demand else len(headings) - 3

    def entry(site: str, nodes: Sequence[str], served: SiteRow | None) -> Entry:
        usage, rows = [seen.usage[name] for name in nodes], [seen.nodes[name] for name in nodes]
        cpu = sum(use.cpu for use in usage), sum(row.cpu for row in rows)
        memory = sum(use.memory for use in usage), sum(row.memory for row in rows)
        unusual = [
            f"{name} is {seen.nodes[name].state}" for name in nodes if seen.nodes[name].state
        ]
        reached: tuple[Any, ...] = (None, None, None)
        if served is not None:
            missing = served.missing, served.replicas + served.missing
            reached = served.reached, served.target, missing
        pods = sum(use.pods.total() for use in usage)
        values = (site, len(nodes), len(unusual), pods, cpu, cpu, memory, memory, *reached)
        leads: tuple[View, Scope] = "nodes", Scope(site=site)
        return Entry(site, values[:columns], ", ".join(unusual), leads=leads)

    found = sorted(members.items())
    return Listing(
        headings[:columns], [entry(site, nodes, demand.get(site)) for (_, site), nodes in found]
    )


def name_site(node: NodeRow) -> str:
    """Return a node's tier and site, such as `edge north`."""
    return f"{node.tier.value if node.tier else 'none'} {node.site}".strip()


def _list_nodes(source: Source, scope: Scope) -> Listing:
    """List nodes, unusual states first, then edge before cloud."""
    nodes, (short, legend) = source.seen.nodes, source.shorten_nodes(20)
    headings = (
        Heading("node", short),
        Heading("site", least=7),
        Heading("state", lambda state: Text(state, BAD), 5, 6),
        Heading("cpu", lambda amounts: "/".join(map(format_cores, amounts)), 7, 5),
        _bar(2),
        Heading("memory", lambda amounts: format_memory(*amounts), 12, 4),
        _bar(1),
        _number("pods"),
        _number("services", use=3),
    )

    def entry(name: str, row: NodeRow, use: NodeUsage) -> Entry:
        cpu, memory = (use.cpu, row.cpu), (use.memory, row.memory)
        services = ", ".join(f"{count} {each}" for each, count in use.pods.most_common())
        numbers = use.pods.total(), len(use.pods)
        return Entry(
            name,
            (name, name_site(row), row.state, cpu, cpu, memory, memory, *numbers),
            f"{name}: {services or 'no pods'}",
            Link("node", name),
            ("pods", Scope(node=name)),
        )

    names = sorted(
        (name for name, row in nodes.items() if scope.site in ("", name_site(row))),
        key=lambda n: (not nodes[n].state, _TIERS.get(nodes[n].tier, 2), nodes[n].site, n),
    )
    return Listing(headings, [entry(n, nodes[n], source.seen.usage[n]) for n in names], legend)


def _list_pods(source: Source, scope: Scope) -> Listing:
    """List pods; pods that need attention come first."""
    seen, (short, legend) = source.seen, source.shorten_nodes()
    headings = (
        Heading("pod", source.shorten_to(45), 20),
        Heading("state", _show_state, 9),
        Heading("node", short, 8),
        Heading("site", least=7, use=1),
        Heading("age", format_age, 4, 2, number=True),
        Heading("cpu", format_cores, 5, 0, number=True),
    )
    sites = {name: name_site(node) for name, node in seen.nodes.items()}

    def entry(name: str, row: PodRow) -> Entry:
        move = seen.moves.get(row.move)
        reason = describe_move(move, source.now) if move else row.message
        if row.state == "waiting":
            by = f" ({', '.join(row.rules)})" if row.rules else ""
            reason = f"{row.message or 'no attempt yet'}{by}"
        site, age = sites.get(row.node, ""), source.now - row.created
        return Entry(
            name,
            (name, row.state, row.node, site, age, row.cpu),
            f"{name}: {reason}" if reason else "",
            Link("pod", name),
        )

    found = (
        (name, row)
        for name, row in seen.pods.items()
        if scope.has_name(name)
        and scope.node in ("", row.node)
        and scope.workload in ("", row.workload)
    )
    order = sorted(found, key=lambda each: (_STATES.index(each[1].state), each[0]))
    return Listing(headings, [entry(name, row) for name, row in order], legend)


def _list_moves(source: Source, scope: Scope) -> Listing:
    moves, (short, legend) = source.seen.moves, source.shorten_nodes()
    headings = (
        Heading("state", _show_state, 9),
        Heading("step", lambda steps: "{}/{}".format(*steps), 5, 2),
        Heading("pod", source.shorten_to(60), 16),
        Heading("from", short, 8),
        Heading("to", short, 8),
        Heading("age", format_age, 4, 1, number=True),
    )

    def entry(key: str, row: MoveRow) -> Entry:
        steps = (row.done, row.steps) if row.steps else None
        return Entry(
            key,
            (row.state, steps, row.pod, row.source, row.target, source.now - row.at),
            f"{migration_route(row)}: {describe_move(row, source.now)}",
            Link("move", key),
        )

    keys = (key for key in order_moves(moves) if scope.has_name(moves[key].pod))
    return Listing(headings, [entry(key, moves[key]) for key in keys], legend)


def _list_news(source: Source, scope: Scope) -> Listing:
    """List recent activity, latest first."""
    news, short = source.seen.news, source.shorten_to(10)
    shown = [key for key in sorted(news, key=int, reverse=True) if _is_about(news[key], scope)]
    texts = {key: news_text(news[key]) for key in shown}
    warnings = {texts[key] for key in shown if news[key].warning}
    headings = (
        Heading("time", clock_of, 8),
        Heading("news", lambda text: Text(short(text), WARNING if text in warnings else "")),
    )
    return Listing(
        headings,
        [
            Entry(
                key, (news[key].at, texts[key]), texts[key], next(_list_subjects(news[key]), None)
            )
            for key in shown
        ],
    )


def _is_about(row: NewsRow, scope: Scope) -> bool:
    about = row.pod or row.workload
    return not about or scope.has_name(about)


def _list_subjects(row: NewsRow) -> Iterator[Link]:
    """Yield the subjects of recent activity, the most telling first."""
    subjects = (
        Link("move", row.move),
        Link("decision", str(row.decision or "")),
        Link("pod", row.pod),
        Link("workload", row.workload),
        Link("node", row.node),
    )
    yield from (subject for subject in subjects if subject.key)


def _list_status(source: Source, _: Scope) -> Listing:
    """List violated health rules, notices and figures of the scheduler."""
    status = source.seen.status
    lines = [
        *(("problem", text) for text in status.troubles),
        *(("notice", text) for text in status.notices),
        *(("figure", text) for text in describe_figures(status)),
    ]
    headings = Heading("kind", _show_state, 7), Heading("text", source.shorten_to(12))
    return Listing(
        headings, [Entry(str(at), (kind, text), text) for at, (kind, text) in enumerate(lines)]
    )


def _list_namespaces(source: Source, _: Scope) -> Listing:
    """List namespaces of services and pods, and first a row for all of them."""
    found = defaultdict[str, Counter[str]](Counter)
    for name, row in source.seen.workloads.items():
        for namespace in ("", name.partition("/")[0]):
            found[namespace].update({"services": 1, "below target": row.missing > 0})
    for name, pod in source.seen.pods.items():
        for namespace in ("", name.partition("/")[0]):
            found[namespace].update(pods=1, waiting=pod.state == "waiting")
    columns = ("services", "below target", "pods", "waiting")
    return Listing(
        (Heading("namespace", least=10), *(_number(title, least=8) for title in columns)),
        [
            Entry(
                name,
                (name or "all", *(found[name][each] for each in columns)),
                leads=("services", Scope(namespace=name)),
            )
            for name in sorted(found)
        ],
    )


LISTS: Mapping[View, Callable[[Source, Scope], Listing]] = {
    "services": _list_services,
    "sites": _list_sites,
    "nodes": _list_nodes,
    "pods": _list_pods,
    "migrations": _list_moves,
    "news": _list_news,
    "status": _list_status,
    "namespaces": _list_namespaces,
}
