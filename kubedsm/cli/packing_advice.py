"""Packing advice for one snapshot: migrations that free capacity for pending pods, as JSON and
tables.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.cli.inputs import start_batch_deadline, start_deadline
from kubedsm.cli.migration_advice import close_away, list_stages
from kubedsm.cli.tables import print_timed
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.packing.pack import Packed
from kubedsm.optimizer.placing.decision import Binding
from kubedsm.planner.rebalancing_requests import migration_mode, suggestion_of
from kubedsm.terminal.fitted_table import table

if TYPE_CHECKING:
    from kubedsm.app.assembly import Runtime


@attrs.frozen(slots=True)
class PackAdvice:
    """Migrations that free capacity in a snapshot, and the pods that remain pending."""

    snapshot: Snapshot
    packed: Packed
    configuration: Configuration
    #: pods of this scheduler that remain pending
    waiting: tuple[Pod, ...]
    #: pods placed without any migration
    scheduled: tuple[Binding, ...] = ()

    async def carry_out(self, runtime: "Runtime") -> None:
        """Execute the packing migrations regardless of disruption cost, as approved by the user."""
        packed, policy = self.packed, self.configuration.policy
        found = suggestion_of(self.snapshot, policy, packed.split(), proven=packed.proven)
        if runtime.packer is not None:
            await runtime.packer.execute(runtime.mirror.snapshot(), found, packed.evicted)

    @property
    def words(self) -> str:
        """Describe the packing in a sentence: pods placed, migrated and evicted, and whether the
        result is proven optimal.
        """
        packed = self.packed
        if packed.better:
            return (
                f"Pods placed: {len(packed.awaited)}, still pending: {len(self.waiting)},"
                f" migrated: {len(packed.moves)}, evicted: {len(packed.evicted)}."
            )
        if not self.waiting and self.scheduled:
            return f"No migration is needed: all pending pods fit ({len(self.scheduled)})."
        if not self.waiting:
            return "No pod is pending."
        if packed.placed_proven:
            return "No migration frees capacity for a pending pod: proven."
        return "No migration was found that frees capacity for a pending pod; not proven."

    def as_json(self) -> dict[str, Any]:
        """Return the document of `kubedsm pack -o json`."""
        packed = self.packed
        return {
            "moves": [
                {
                    "pod": str(move.pod),
                    "from": move.source,
                    "to": move.target,
                    "stopover": move.stopover,
                    "kind": move.kind,
                    "mode": migration_mode(move.pod, self.configuration),
                }
                for move in packed.moves
            ],
            "order": [list(stage) for stage in list_stages(packed.legs)],
            "evicted": [str(pod) for pod in packed.evicted],
            "scheduled": [{"pod": str(pod), "node": node} for pod, node, _ in self.scheduled],
            "awaited": [{"pod": str(move.pod), "node": move.target} for move in packed.awaited],
            "waiting": [str(pod) for pod in self.waiting],
            "placed": [
                {"priority": priority, "before": before, "after": packed.after[priority]}
                for priority, before in packed.before.items()
            ],
            "certificates": [
                {**certificate.as_json(), "seconds": round(certificate.seconds, 3)}
                for certificate in packed.certificates
            ],
            "proven": packed.proven,
            "placedProven": packed.placed_proven,
            "outOfTime": packed.out_of_time,
        }


def advise(snapshot: Snapshot, configuration: Configuration) -> PackAdvice:
    """Compute migrations that free capacity for the snapshot's pending pods, within the time limit.

    Pods that the scheduler can place without a migration are placed first.
    """
    policy = configuration.policy
    waiting = snapshot.schedulable(snapshot.pods.values())
    scheduled = policy.decide_batch(snapshot, waiting, start_batch_deadline(configuration)).bindings
    snapshot = snapshot.with_placed({pod.uid: node for pod, node, _ in scheduled})
    seen, movable = close_away(snapshot, configuration)
    settings = configuration.optimiser
    packed = policy.pack_pods(
        seen,
        movable,
        start_deadline(settings.budget),
        tier_share=settings.tier_share,
        allow_evictions=settings.allow_evictions,
    )
    coming = {binding.pod.uid for binding in scheduled} | {m.pod.uid for m in packed.awaited}
    left = tuple(pod for pod in waiting if pod.uid not in coming)
    return PackAdvice(seen, packed, configuration, left, scheduled)


def report_packing(snapshot: Snapshot, configuration: Configuration, output: str) -> PackAdvice:
    """Print and return the migrations that free capacity in the cluster snapshot."""
    return print_timed(lambda: advise(snapshot, configuration), _packing_tables, output)


def _packing_tables(advice: PackAdvice, milliseconds: float) -> RenderableType:
    said, parts = advice.as_json(), list[RenderableType]()
    if said["moves"]:
        headings = ("pod", "from", "to", "kind", "mode")
        rows = ([str(move[heading]) for heading in headings] for move in said["moves"])
        parts.append(table(headings, rows, title="migrations"))
        parts.append(Text(f"order: {'; then '.join(', '.join(s) for s in said['order'])}"))
    if said["evicted"]:
        parts.append(Text(f"evicted first: {', '.join(said['evicted'])}"))
    if said["awaited"]:
        rows = ([come["pod"], come["node"]] for come in said["awaited"])
        parts.append(table(("pod", "node"), rows, title="placed"))
    if said["waiting"]:
        parts.append(table(("pod",), ([pod] for pod in said["waiting"]), title="still pending"))
    if said["scheduled"] and advice.waiting:
        pods = ", ".join(each["pod"] for each in said["scheduled"])
        parts.append(Text(f"placed without migrations: {pods}"))
    if said["certificates"] and (advice.packed.better or advice.waiting):
        parts.append(_certificates_table(said["certificates"]))
    took = f" Found in {milliseconds:.1f} ms." if parts else ""
    return Group(*parts, Text(f"{advice.words}{took}"))


def _certificates_table(certificates: Iterable[dict[str, Any]]) -> RenderableType:
    headings = ("goal", "reached", "at most", "proven")
    rows = (
        (
            f"{each['goal']} of {each['of']}" if each["of"] else each["goal"],
            f"{each['value']:g}",
            "unknown" if each["bound"] is None else f"{each['bound']:g}",
            "yes" if each["proven"] else "no",
        )
        for each in certificates
    )
    return table(headings, rows, title="certificates", numbers=headings[1:3])
