"""Current problems of cluster and scheduler for the page, as one sentence each."""

from collections.abc import Iterable, Iterator, Mapping

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow, PodRow, StatusRow
from kubedsm.dashboard.state.headline import Scenery, migration_route, nodes_by_site
from kubedsm.observability.reading import Reading
from kubedsm.planner.plurals import counted, named

#: permitted seconds of pending, and seconds for which failed migrations are reported
PATIENCE, REMEMBERED = 10.0, 300.0
#: milliseconds of event loop lag; every start has less
LATE = 500.0


def troubles(
    status: StatusRow, there: Scenery, runtime: Runtime, reading: Reading, tiers: Iterable[str]
) -> Iterator[str]:
    """Yield the current problems of cluster and scheduler; `tiers`: warnings about tiers without
    nodes.
    """
    if status.role == "standby" and not status.leader:
        yield "No scheduler is known to lead: no pod is scheduled, and none is migrated."
    if unknown := runtime.pause_switch.config_map.trouble:
        yield f"The pause switch cannot be read, so no migration begins: {_end_sentence(unknown)}"
    if status.refusal:
        yield f"The latest configuration is refused: {_end_sentence(status.refusal)}"
    for kind, watch in reading.watches.items():
        if watch.trouble:
            yield f"The mirror of {kind} may be outdated: {_end_sentence(watch.trouble)}"
    yield from (_end_sentence(text[:1].upper() + text[1:]) for text in tiers)
    yield from _node_troubles(there)
    refused = {n: pod for n, pod in there.waiting.items() if pod.rules or not status.dry_run}
    yield from _waiting_troubles(refused, reading.now)
    yield from _migration_troubles(there.moves.values(), reading.now)
    yield from _scheduler_troubles(status, reading)


def _node_troubles(there: Scenery) -> Iterator[str]:
    for site, names in nodes_by_site(there.nodes, "partitioned").items():
        yield f"Site {site} is partitioned ({named(sorted(names))}): its pods are left alone."
    for state in ("unreachable", "not ready"):
        names = sorted(name for name, node in there.nodes.items() if node.state == state)
        if len(names) == 1:
            yield f"Node {names[0]} is {state}."
        elif names:
            yield f"{len(names)} nodes are {state}: {named(names)}."


def _waiting_troubles(waiting: Mapping[str, PodRow], now: float) -> Iterator[str]:
    long = [name for name, pod in waiting.items() if pod.message and now - pod.created > PATIENCE]
    if long:
        first = waiting[long[0]]
        more = f", and {counted(len(long) - 1, 'pod')} more" if long[1:] else ""
        yield f"{long[0]}{more} cannot be scheduled: {_end_sentence(first.message)}"


def _migration_troubles(moves: Iterable[MoveRow], now: float) -> Iterator[str]:
    lost = [
        move
        for move in moves
        if move.state in ("failed", "rolled back") and now - move.ended < REMEMBERED
    ]
    if lost:
        last = max(lost, key=lambda move: move.ended)
        more = f"; so did {counted(len(lost) - 1, 'migration')} before" if lost[1:] else ""
        how = "failed" if last.state == "failed" else "was rolled back"
        yield f"The migration of {migration_route(last)} {how}: {last.reason.rstrip('.')}{more}."


def _scheduler_troubles(status: StatusRow, reading: Reading) -> Iterator[str]:
    if status.loop_lag is not None and status.loop_lag > LATE:
        yield f"The scheduler is slow: its event loop was up to {status.loop_lag:.0f} ms late."
    if reading.events_lost:
        yield f"{counted(reading.events_lost, 'Event')} could not be written; see the log."
    caught = {part: number for part, number in reading.caught.items() if number}
    if caught:
        parts = named([f"{number} in {part}" for part, number in caught.items()])
        yield f"Internal errors of the scheduler were caught, {parts}; see the log."


def _end_sentence(text: str) -> str:
    return f"{text.rstrip('.')}."
