"""How things stand in all, in words and figures."""

from collections.abc import Iterable

import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import Role, StatusRow
from kubedsm.dashboard.state.headline import Scenery, headline
from kubedsm.dashboard.state.troubles import troubles
from kubedsm.dashboard.state.work_heard import WorkHeard
from kubedsm.observability.reading import Leadership, Reading


def status_row(
    runtime: Runtime,
    leadership: Leadership | None,
    reading: Reading,
    there: Scenery,
    work: WorkHeard,
    tiers: Iterable[str],
) -> StatusRow:
    """leadership: None where nothing is decided. tiers: see `troubles`."""
    migrator, states = runtime.migrator, [move.state for move in there.moves.values()]
    proposed = None if migrator is None else migrator.proposed
    status = StatusRow(
        headline="",
        role=_role(leadership),
        leader="" if leadership is None else leadership.leader,
        paused=reading.paused and runtime.pause_switch.config_map.known,
        dry_run=runtime.dry_run,
        mode=runtime.configuration.current.suggester.mode,
        proposal=proposed.id if proposed is not None else "",
        generation=reading.generation,
        configured=reading.configured_at,
        refusal=runtime.configuration.refusal,
        bind_p50=work.latency(0.5),
        bind_p99=work.latency(0.99),
        loop_lag=work.loop_lag,
        batches=work.batches,
        bound=work.bound,
        moves_done=work.moves_done,
        waiting=len(there.waiting),
        moving=states.count("moving"),
        planned=states.count("planned"),
    )
    if not runtime.synced.is_set():
        wrong = tuple(troubles(status, there, runtime, reading, ()))
        return msgspec.structs.replace(status, headline="listing the cluster", troubles=wrong)
    return msgspec.structs.replace(
        status,
        headline=headline(status, there, work.lately(reading.snapshot.nodes), reading.now),
        troubles=tuple(troubles(status, there, runtime, reading, tiers)),
    )


def _role(leadership: Leadership | None) -> Role:
    if leadership is None:
        return "watching"
    if not leadership.leading:
        return "standby"
    return "leading" if leadership.holder else "alone"
