"""All there is to be seen, in one picture: how things stand in words, nodes, promises, moves, news.

Of what there is not room for, that is shown which somebody has to know of.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.core.world.model import Tier
from kubedsm.page.rows import MoveRow, NewsRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.page.seen.headline import moved_from_to
from kubedsm.page.terminal.fitting import NARROW, Part, fitting, hanging, lines
from kubedsm.page.terminal.news_lines import text_of
from kubedsm.page.terminal.rows_seen import Seen
from kubedsm.page.terminal.tables import LACKS, LACKS_MORE, NodeLine, bar, kept, nodes_table
from kubedsm.thinking.words import counted
from loadgen.fitted_table import Column, FittedTable

#: of each list, so many at the most
MOST = 8
#: of the suggester, if it is not the usual one
_MODES = {"suggest": "moves are only proposed", "off": "nothing is moved"}
_TIERS: Mapping[Tier | None, int] = {Tier.EDGE: 0, Tier.CLOUD: 1}


def picture(seen: Seen, now: float, where: str, away: str, width: int, height: int) -> Group:
    """now: seconds since the epoch, by the scheduler's clock. away: why nothing new is heard."""
    status, proposal = seen.status, seen.status.proposal
    said = Text(status.headline, style="bold")
    nodes = _nodes(seen, max(3, height // 3))
    workloads = _workloads(seen.workloads, max(3, height // 4))
    parts = [
        Part(Text(f"KubeDSM at {where}{_role(status)}", style="dim")),
        Part(said),
        *([Part(Text(""), use=9)] * ((3 if width < NARROW else 2) - lines(said, width))),
        *([Part(Text(f"{away}; this is how it was", style=LACKS_MORE))] if away else []),
        *(Part(Text(trouble, style=LACKS), use=20) for trouble in status.troubles),
        *(
            [Part(Text(f"to have it moved: kubedsm approve {proposal}"), use=19)]
            if proposal
            else []
        ),
        *_section(nodes, 8, 14),
        *_section(workloads, 7, 13),
        *_listed("moves", [*_moves(seen.moves, now)], 6, 12),
        *_listed("waiting for a node", [*_waiting(seen.pods)], 5, 11),
        *_listed("lately", [*_news(seen.news)], 4, 2),
        *([] if status.role == "watching" else [Part(Text(_figures(status), style="dim"), use=3)]),
    ]
    return Group(*fitting(parts, width, height))


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


def _section(tables: Sequence[RenderableType], blank: int, use: int) -> list[Part]:
    return [Part(Text(""), use=blank), *(Part(table, use=use) for table in tables)]


def _listed(title: str, rows: Sequence[RenderableType], blank: int, use: int) -> list[Part]:
    """Under a title; where it is too high the last of them goes first, and the title at last."""
    if not rows:
        return []
    return [
        Part(Text(""), use=blank),
        Part(Text(title, style="bold"), use=use + 1),
        *(Part(row, use=use if not at else 1) for at, row in enumerate(rows)),
    ]


def _nodes(seen: Seen, room: int) -> list[RenderableType]:
    """Those that are not as usual first of all, if there is not room for all; edge before cloud."""
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
    first = sorted(order, key=lambda n: (not seen.nodes[n].state, n not in touched))[:room]
    shown = [name for name in order if name in set(first)]
    table = nodes_table([_line(name, seen.nodes[name], here[name]) for name in shown])
    return [table, *_more(len(order) - len(shown), "node")]


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


def _workloads(workloads: Mapping[str, WorkloadRow], room: int) -> list[RenderableType]:
    """Those of which more is missing first."""
    order = sorted(workloads, key=lambda name: (-workloads[name].missing, name))[:room]
    rows = [workloads[name] for name in order]
    if not rows:
        return []
    table = FittedTable(
        [
            Column("workload", order),
            Column("on edge", [f"{row.edge} of {row.total}" for row in rows], 8),
            Column("", [bar(row.edge, row.total) for row in rows], 8, use=1),
            Column("promise", [f"{row.promise:.2f}" for row in rows], number=True, use=3),
            Column("", [kept(row.missing, row.total) for row in rows], 7),
            Column("waiting", [str(row.waiting or "") for row in rows], number=True, use=2),
        ],
        look="plain",
    )
    return [table, *_more(len(workloads) - len(order), "workload")]


def _more(number: int, what: str) -> list[RenderableType]:
    return [Text(f"and {counted(number, f'more {what}')}", style="dim")] if number else []


def _moves(moves: Mapping[str, MoveRow], now: float) -> Iterator[RenderableType]:
    """Those under way, then those to come, then those that ended badly, as far as there is room."""
    order = ("moving", "planned", "proposed", "failed", "taken back")
    found = sorted(
        (move for move in moves.values() if move.state in order),
        key=lambda move: (order.index(move.state), -move.at),
    )
    for move in islice(found, MOST):
        where = moved_from_to(move)
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
    for (message, rules), names in islice(alike.items(), MOST):
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
