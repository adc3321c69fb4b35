"""Results as tables for people."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kubedsm.bench.soak.verdict import SoakResult
from kubedsm.commands.offline import OfflinePlacement
from kubedsm.core.goals.objective import NANO
from kubedsm.core.rules.fit import unschedulable_message


def placement_tables(placement: OfflinePlacement, milliseconds: float) -> RenderableType:
    decision = placement.decision
    bindings = Table(title="bindings", title_justify="left")
    for heading in ("pod", "node", "tier"):
        bindings.add_column(heading, overflow="fold")
    for pod, node, tier in decision.bindings:
        bindings.add_row(str(pod), node, tier.value)
    parts: list[RenderableType] = [bindings if decision.bindings else Text("Nothing to bind.")]
    waiting = Table(title="unplaced", title_justify="left")
    waiting.add_column("pod")
    waiting.add_column("why")
    for uid, rejections in decision.unplaced.items():
        waiting.add_row(str(placement.snapshot.pods[uid]), unschedulable_message(rejections))
    for unreadable in placement.unreadable:
        waiting.add_row(unreadable.name, unreadable.reason)
    if waiting.row_count:
        parts.append(waiting)
    shares = Table(title="edge share", title_justify="left")
    for heading in ("workload", "before", "after"):
        shares.add_column(heading, justify="left" if heading == "workload" else "right")
    for workload, after in decision.shares_after.items():
        before = decision.shares_before[workload]
        shares.add_row(
            str(workload), f"{before.edge}/{before.total}", f"{after.edge}/{after.total}"
        )
    if shares.row_count:
        parts.append(shares)
    proven = "proven optimal" if decision.proven else "not proven optimal"
    parts.append(
        Text(
            f"QoS {decision.score_before / NANO:.3f} -> {decision.score_after / NANO:.3f}, "
            f"{proven}, decided in {milliseconds:.1f} ms"
        )
    )
    return Group(*parts)


def bench_table(rows: dict[str, Any]) -> Table:
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("measured", justify="right")
    for what, measured in _flat(rows, ""):
        shown = f"{measured:,.3f}" if isinstance(measured, float) else str(measured)
        table.add_row(what, shown)
    return table


def soak_table(result: SoakResult) -> RenderableType:
    table = Table()
    for heading in ("promise", "measured", "kept"):
        table.add_column(heading, overflow="fold")
    for promise in result.promises:
        table.add_row(promise.what, promise.measured, "yes" if promise.kept else "NO")
    moves = ", ".join(f"{times} {outcome}" for outcome, times in result.moves.items())
    warnings = ", ".join(f"{times} x {what}" for what, times in result.log.warnings.most_common(5))
    minutes = (result.ended - result.started) / 60
    facts = (
        f"In {minutes:.1f} minutes on an emulated cluster: {result.workloads} workloads,"
        f" {result.bound} pods bound, {result.namespaces_deleted} namespaces deleted;"
        f" moves: {moves or 'none'}; warnings: {warnings or 'none'}."
    )
    verdict = "Every promise was kept." if result.kept else "A promise was broken."
    return Group(Text(facts), table, Text(verdict))


def _flat(rows: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in rows.items():
        name = f"{prefix}{key}"
        flat += _flat(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
    return flat
