"""How things stand in all, in words and figures."""

from collections.abc import Mapping

from kubedsm.monitoring.reading import Reading
from kubedsm.page.rows import MoveRow, Row, StatusRow
from kubedsm.runtime.assembly import Runtime


def status_row(runtime: Runtime, reading: Reading, moves: Mapping[str, Row]) -> StatusRow:
    waiting = sum(
        pod.waits_for_node for pod in reading.snapshot.schedulable(reading.snapshot.pods.values())
    )
    moving = [m for m in moves.values() if isinstance(m, MoveRow) and m.state == "moving"]
    return StatusRow(
        headline=_headline(moving, waiting),
        paused=reading.paused,
        generation=reading.generation,
        refusal=runtime.configuration.refusal,
        waiting=waiting,
    )


def _headline(moving: list[MoveRow], waiting: int) -> str:
    if moving:
        return f"moving {len(moving)}: {moving[0].step}"
    if waiting:
        return f"{waiting} pods wait for a node"
    return "all is quiet"
