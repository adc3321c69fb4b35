"""Migration advice for one cluster snapshot: suggested migrations as JSON and as tables."""

from collections.abc import Iterable
from typing import Any

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.cli.console import progress
from kubedsm.cli.inputs import start_deadline
from kubedsm.cli.tables import (
    list_unproven,
    name_workloads,
    print_timed,
    refer_to_packing,
    shares_table,
)
from kubedsm.config.settings import Configuration
from kubedsm.explain.migration_outcome import move_as_json
from kubedsm.model.deadline import NO_DEADLINE, OUT_OF_TIME, Deadline
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.lasting import ASSUMED
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import ClusterScore, Leg, Suggestion
from kubedsm.planner.rebalancing_requests import configured_movable, migration_mode
from kubedsm.terminal.fitted_table import table


@attrs.frozen(slots=True)
class Advice:
    """Suggested migrations for one cluster snapshot, with their execution order."""

    snapshot: Snapshot
    suggestion: Suggestion
    configuration: Configuration
    #: pods, in stages of concurrent migrations
    order: tuple[tuple[str, ...], ...]
    #: the search ended before the deadline
    complete: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the document of `kubedsm suggest -o json`."""
        suggestion = self.suggestion
        return {
            "id": suggestion.id or None,
            "moves": [
                {**move_as_json(move), "mode": migration_mode(move.pod, self.configuration)}
                for move in suggestion.moves
            ],
            "order": [list(stage) for stage in self.order],
            "awaited": [{"pod": str(a.pod), "node": a.target} for a in suggestion.awaited],
            "score": {"before": _score(suggestion.before), "after": _score(suggestion.after)},
            "rejected": [{"pod": str(r.pod), "reason": r.reason} for r in suggestion.rejected],
            "proven": suggestion.proven,
            "complete": self.complete,
            "outOfTime": suggestion.out_of_time,
            "certificates": [each.as_json() for each in suggestion.certificates],
            "limits": _limits(self.configuration),
        }


def _limits(configuration: Configuration) -> dict[str, Any]:
    """Return as JSON the configured limits that bound the suggested migrations."""
    suggester = configuration.suggester
    return {
        "maxMoves": suggester.max_moves,
        "maxCloudToEdge": suggester.max_cloud_to_edge,
        "maxEdgeReorder": suggester.max_edge_reorder,
        "priceSeconds": configuration.migration.price,
        "lastingSeconds": ASSUMED,
        "headroom": configuration.edge.headroom,
    }


def _score(score: ClusterScore) -> dict[str, Any]:
    names = name_workloads(score.shares)
    return {
        "qos": score.qos / NANO,
        "edgeShare": {names[w]: round(share.ratio, 6) for w, share in score.shares.items()},
        "fragmentation": score.fragmentation,
    }


def close_away(snapshot: Snapshot, configuration: Configuration) -> tuple[Snapshot, Movable]:
    """Return the snapshot with unavailable edge sites closed, and the function that decides why a
    pod must not be migrated.
    """
    away = Away.from_snapshot(snapshot, configuration.site.label)
    seen = away.close_waiting(snapshot) if away else snapshot
    return seen, configured_movable(configuration, snapshot.surroundings, away)


def advise(
    snapshot: Snapshot, configuration: Configuration, deadline: Deadline = NO_DEADLINE
) -> Advice:
    """Return suggested migrations for the snapshot; at the deadline, the best found so far."""
    suggestion = configuration.policy.suggest(*close_away(snapshot, configuration), deadline)
    complete = suggestion.proven or not deadline.passed
    return Advice(snapshot, suggestion, configuration, list_stages(suggestion.legs), complete)


def report_advice(
    snapshot: Snapshot, configuration: Configuration, output: str, budget: float
) -> Advice:
    """Print and return the suggested migrations for the cluster snapshot."""

    def plan() -> Advice:
        with progress("planning migrations", budget):
            return advise(snapshot, configuration, start_deadline(budget))

    return print_timed(plan, advice_tables, output)


def list_stages(legs: Iterable[Leg]) -> tuple[tuple[str, ...], ...]:
    """Group migration steps into stages (topological generations) that can execute concurrently."""
    stage: dict[str, int] = {}
    found: list[list[Leg]] = []
    for leg in legs:
        stage[leg.name] = 1 + max((stage[name] for name in leg.needs), default=-1)
        if stage[leg.name] == len(found):
            found.append([])
        found[stage[leg.name]].append(leg)
    for each in found:
        each.sort(key=lambda leg: (leg.move.group, leg.name))
    return tuple(tuple(map(_describe_leg, each)) for each in found)


def _describe_leg(leg: Leg) -> str:
    pod = str(leg.move.pod)
    return pod if leg.move.stopover is None else f"{pod} to {leg.target}"


def advice_tables(advice: Advice, milliseconds: float) -> RenderableType:
    """Return tables of migrations, edge shares and rejected migrations, and the QoS score."""
    said, moves = advice.as_json(), advice.suggestion.moves
    parts: list[RenderableType] = []
    if said["moves"]:
        headings = ("pod", "from", "to", "kind", "mode", "group", "QoS")
        rows = (
            (*(str(move[heading]) for heading in headings[:-1]), f"{move['gain']:+.3f}")
            for move in said["moves"]
        )
        least = ("group", "mode", "kind")
        parts.append(table(headings, rows, title="migrations", numbers=("QoS",), least=least))
        parts += [Text(f"{m.pod} migrates {m.purpose}") for m in moves if m.evens]
        steps = "; then ".join(", ".join(stage) for stage in advice.order)
        parts.append(Text(f"order: {steps}"))
        parts.append(Text(f"proposal {advice.suggestion.id}"))
    else:
        parts.append(Text("No migration has a benefit that exceeds its cost."))
    before, after = advice.suggestion.before, advice.suggestion.after
    if before.shares:
        parts.append(shares_table(before.shares, after.shares))
    if said["rejected"]:
        rejected = ((entry["pod"], entry["reason"]) for entry in said["rejected"])
        parts.append(table(("pod", "why"), rejected, title="rejected"))
    proven = f"{'proven' if advice.suggestion.proven else 'not proven'} optimal within the limits"
    parts.append(
        Text(
            f"QoS {before.qos / NANO:.3f} -> {after.qos / NANO:.3f}, {proven}, "
            f"found in {milliseconds:.1f} ms"
        )
    )
    if not advice.complete:
        parts.append(Text("Time limit reached: the best so far. A longer --budget may find more."))
    if advice.suggestion.out_of_time:
        parts.append(Text(f"Cut short: {OUT_OF_TIME}."))
    parts += list_unproven(advice.suggestion.certificates)
    if price := advice.configuration.migration.price:
        parts.append(
            Text(
                f"The benefit of a migration has to exceed its price, {price:g} pod-seconds:"
                f" its QoS in pods at the edge, for the {ASSUMED:g} s that it is assumed to last."
            )
        )
    pending = advice.snapshot.schedulable(advice.snapshot.pods.values())
    parts += refer_to_packing(len(pending) - len(advice.suggestion.awaited))
    return Group(*parts)
