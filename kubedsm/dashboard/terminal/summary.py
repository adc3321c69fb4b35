"""Lines around a table of `kubedsm watch`: health above, current activity below."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

import msgspec
from rich.console import RenderableType
from rich.text import Text

from kubedsm.dashboard.rows import MoveRow, StatusRow
from kubedsm.dashboard.state.headline import migration_route
from kubedsm.dashboard.terminal.cells import (
    BAD,
    GOOD,
    WARNING,
    count_lines,
    shorten_names,
)
from kubedsm.dashboard.terminal.seen import TypedSnapshot, news_text
from kubedsm.observability.health_rules import EdgeCapacity, State
from kubedsm.planner.plurals import counted

#: part of the terminal's lines for reasons of the state
_REASONS = 5
_COLOURS: Mapping[State, str] = {"healthy": GOOD, "degraded": WARNING, "down": BAD}
#: unusual modes of the suggester
_MODES = {"suggest": "migrations are only proposed", "off": "nothing is migrated"}
#: order of migrations: those in progress first
UNFINISHED = ("moving", "planned", "proposed")
MOVE_STATES = (*UNFINISHED, "failed", "rolled back", "completed", "dropped")


def describe_health(
    seen: TypedSnapshot, where: str, away: str, width: int, height: int
) -> Sequence[RenderableType]:
    """Return the header: process, state with headline and reasons, and free edge capacity.

    Reasons beyond a fifth of the terminal's height are only counted. away: why updates are missing.
    """
    status = seen.status
    edge = EdgeCapacity(
        0, status.edge_cpu, status.edge_cpu_free, status.edge_memory, status.edge_memory_free
    )
    named = f" {status.cluster} at {where}" if status.cluster else f" at {where}"
    lines = [
        Text(f"KubeDSM{named}{_describe_role(status)}", "dim"),
        *([Text(f"{away}; this is the last state; retrying", BAD)] if away else []),
        Text.assemble((status.state, f"bold {_COLOURS[status.state]}"), f": {status.headline}"),
    ]
    reasons = [Text(each, WARNING) for each in (*status.troubles, *status.notices)]
    room, shown = height // _REASONS, 0
    for reason in reasons:
        room -= count_lines(reason, width)
        if room < 0 and shown:
            break
        shown += 1
    left = len(reasons) - shown
    lines += reasons[:shown]
    lines += [Text(f"and {counted(left, 'more reason')}: press 7", "dim")] if left else []
    if status.proposal:
        lines.append(Text(f"to approve the migrations: kubedsm approve {status.proposal}"))
    return [*lines, Text(str(edge))] if edge.cpu else lines


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


def describe_figures(status: StatusRow) -> Iterator[str]:
    """Yield figures of the scheduler itself, a sentence each."""
    yield f"{counted(status.bound, 'pod')} bound"
    yield f"{counted(status.moves_done, 'migration')} completed"
    if status.bind_p50 is not None and status.bind_p99 is not None:
        yield f"bind latency: p50 {status.bind_p50:.0f} ms, p99 {status.bind_p99:.0f} ms"
    if status.loop_lag is not None:
        yield f"event loop lag {status.loop_lag:.0f} ms"
    if status.share_deviation is not None:
        yield f"standard deviation of edge shares {status.share_deviation:.3f}"


def list_activity(seen: TypedSnapshot, now: float, width: int, height: int) -> Sequence[Text]:
    """Return lines about unfinished migrations, then recent activity, that fit the height."""
    short, _ = shorten_names(sorted(seen.nodes), max(12, width // 5))
    moves = (seen.moves[key] for key in order_moves(seen.moves))
    news = (seen.news[key] for key in sorted(seen.news, key=int, reverse=True))
    lines = chain(
        (_move_line(move, short, now) for move in moves if move.state in UNFINISHED),
        (
            Text(f"{clock_of(row.at)}  {news_text(row)}", WARNING if row.warning else "")
            for row in news
        ),
    )
    found = []
    for line in lines:
        height -= count_lines(line, width)
        if height < 0:
            break
        found.append(line)
    return found


def _move_line(move: MoveRow, short: Mapping[str, str], now: float) -> Text:
    source, target = (short.get(name, name) for name in (move.source, move.target))
    route = migration_route(msgspec.structs.replace(move, source=source, target=target))
    lead = f"{move.done}/{move.steps}" if move.state == "moving" else move.state
    return Text(f"{lead:8}  {route}: {describe_move(move, now)}")


def order_moves(moves: Mapping[str, MoveRow]) -> list[str]:
    """Return keys of migrations: in progress, planned, proposed, failed, completed."""
    return sorted(moves, key=lambda key: (MOVE_STATES.index(moves[key].state), -moves[key].at))


def describe_move(move: MoveRow, now: float) -> str:
    """Describe a migration's step if in progress, the reason if failed, else its purpose."""
    if move.state == "moving":
        since = f", {now - move.since:.0f} s" if move.since else ""
        return f"{move.step or move.purpose}{since}"
    return move.reason or move.helped or move.purpose


def clock_of(at: float) -> str:
    """Format seconds since the epoch as local time."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
