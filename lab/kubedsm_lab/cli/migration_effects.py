"""Measured effects of migrations, as a report has them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from kubedsm.explain.client import get_if_understood
from kubedsm.explain.decision_record import ENTRIES
from kubedsm.explain.effects import Effect
from kubedsm.explain.facts import MigrationFacts
from kubedsm.process.clock import rfc3339


class _Moved(msgspec.Struct):
    at: str
    moves: list[MigrationFacts]


class _Decided(msgspec.Struct):
    decisions: list[_Moved]


async def effects_since(server: str, at: float, namespace: str) -> list[Effect] | None:
    """Request the measured effects on response times of migrations decided since `at`, in epoch
    seconds.

    Only pods of the namespace count. None if no scheduler answers.
    """
    found = await get_if_understood(server, "", _Decided, limit=str(ENTRIES))
    if found is None:
        return None
    since = rfc3339(at)
    moves = (move for each in found.decisions if each.at >= since for move in each.moves)
    own = (move.effect for move in moves if move.pod.startswith(f"{namespace}/"))
    return [effect for effect in own if effect is not None]


def summarize_effects(effects: Iterable[Effect]) -> dict[str, Any]:
    """Summarize the effects of migrations for a report; means are None if none was measured."""
    listed = list(effects)
    measured = [each for each in listed if each.measured is not None]

    def mean(changes: Iterable[float | None]) -> float | None:
        return sum(each or 0.0 for each in changes) / len(measured) if measured else None

    return {
        "moves": len(listed),
        "measured": len(measured),
        "expectedChange": mean(each.expected_change for each in measured),
        "measuredChange": mean(each.change for each in measured),
        "untold": dict(sorted(Counter(each.untold for each in listed if each.untold).items())),
    }
