"""What is wrong, each in a sentence; nothing if nothing is."""

from collections.abc import Iterable, Iterator, Mapping

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow, PodRow, StatusRow
from kubedsm.dashboard.state.headline import Scenery, moved_from_to, sites_in
from kubedsm.observability.reading import Reading
from kubedsm.planner.plurals import counted, named

#: seconds for which a pod may wait, and for which a move that did not end well is told of
PATIENCE, REMEMBERED = 10.0, 300.0
#: milliseconds by which the event loop may be late: it is by less at every start
LATE = 500.0


def troubles(
    status: StatusRow, there: Scenery, runtime: Runtime, reading: Reading, tiers: Iterable[str]
) -> Iterator[str]:
    """`tiers`: what there is to be said of those that no node is of."""
    if status.role == "standby" and not status.leader:
        yield "No scheduler leads, as far as is known: no pod is placed, and none is moved."
    if unknown := runtime.pause_switch.config_map.trouble:
        yield f"It is not known whether moves are paused, so none is begun: {_end(unknown)}"
    if status.refusal:
        yield f"The configuration that was given last is refused: {_end(status.refusal)}"
    for kind, watch in reading.watches.items():
        if watch.trouble:
            yield f"What is known of {kind} may be old: {_end(watch.trouble)}"
    yield from (_sentence(text) for text in tiers)
    yield from _nodes(there)
    refused = {n: pod for n, pod in there.waiting.items() if pod.rules or not status.dry_run}
    yield from _waiting(refused, reading.now)
    yield from _moves(there.moves.values(), reading.now)
    yield from _own(status, reading)


def _nodes(there: Scenery) -> Iterator[str]:
    for site, names in sites_in(there.nodes, "cut off").items():
        yield f"Site {site} is cut off ({named(sorted(names))}): what runs there is left alone."
    for state in ("unreachable", "not ready"):
        names = sorted(name for name, node in there.nodes.items() if node.state == state)
        if names:
            what = f"Node {names[0]} is" if len(names) == 1 else f"{len(names)} nodes are"
            which = "" if len(names) == 1 else f": {named(names)}"
            yield f"{what} {state}{which}."


def _waiting(waiting: Mapping[str, PodRow], now: float) -> Iterator[str]:
    long = [name for name, pod in waiting.items() if pod.message and now - pod.created > PATIENCE]
    if long:
        first = waiting[long[0]]
        more = f", and {counted(len(long) - 1, 'pod')} more" if long[1:] else ""
        yield f"{long[0]}{more} cannot be placed: {_end(first.message)}"


def _moves(moves: Iterable[MoveRow], now: float) -> Iterator[str]:
    lost = [
        move
        for move in moves
        if move.state in ("failed", "taken back") and now - move.ended < REMEMBERED
    ]
    if lost:
        last = max(lost, key=lambda move: move.ended)
        more = f"; so did {counted(len(lost) - 1, 'move')} before" if lost[1:] else ""
        how = "was taken back" if last.state == "taken back" else "failed"
        yield f"The move of {moved_from_to(last)} {how}: {last.reason.rstrip('.')}{more}."


def _own(status: StatusRow, reading: Reading) -> Iterator[str]:
    if status.loop_lag is not None and status.loop_lag > LATE:
        yield f"The scheduler is slow: its event loop was up to {status.loop_lag:.0f} ms late."
    if reading.events_lost:
        yield f"{counted(reading.events_lost, 'Event')} could not be written; see the log."
    caught = {part: number for part, number in reading.caught.items() if number}
    if caught:
        parts = named([f"{number} in {part}" for part, number in caught.items()])
        yield f"Mistakes of the scheduler's own were caught, {parts}; see the log."


def _sentence(said: str) -> str:
    return _end(said[:1].upper() + said[1:])


def _end(said: str) -> str:
    return f"{said.rstrip('.')}."
