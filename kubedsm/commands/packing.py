"""`kubedsm pack`: what would make room for the pods that wait, if all others could be moved."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.app.assembly import Runtime
from kubedsm.commands import offline
from kubedsm.commands.advising import stages
from kubedsm.commands.console import log_to, print_json, remark
from kubedsm.commands.electing import election_of
from kubedsm.commands.handing_over import Handing
from kubedsm.commands.inputs import (
    configuration_at,
    read_dump,
)
from kubedsm.commands.on_cluster import Errand, ask_cluster
from kubedsm.config.settings import Configuration
from kubedsm.explain.client import Answering
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.model.model import Pod
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.packing.pack import Packed, split_parts
from kubedsm.optimizer.placing.decision import Binding
from kubedsm.planner.pack_request import Packing, suggestion_of
from kubedsm.planner.suggest_request import kept_by, migration_of, reason_to_stay
from kubedsm.solvers.available import lacking
from kubedsm.terminal.console import Console
from kubedsm.terminal.fitted_table import table


@attrs.frozen(slots=True)
class PackAdvice:
    """A packing, and whom it leaves waiting."""

    snapshot: Snapshot
    packed: Packed
    configuration: Configuration
    #: those of ours that wait all the same
    waiting: tuple[Pod, ...]
    #: those that get a node without that, by being scheduled
    scheduled: tuple[Binding, ...] = ()

    async def carry_out(self, runtime: Runtime) -> None:
        """Whatever it costs: whoever asks for it has seen that."""
        packed, policy = self.packed, self.configuration.policy
        parts = list(split_parts(packed.legs, packed.awaited, packed.evicted))
        found = suggestion_of(self.snapshot, policy, packed, parts)
        if runtime.packer is not None:
            packing = Packing(found, packed.evicted, packed.certificates)
            await runtime.packer.making.carry_out(runtime.mirror.snapshot(), packing)

    @property
    def words(self) -> str:
        """What it comes to, and how sure that is."""
        packed = self.packed
        if packed.better:
            return (
                f"Pods that get a node: {len(packed.awaited)}, left waiting: {len(self.waiting)},"
                f" moved: {len(packed.moves)}, evicted: {len(packed.evicted)}."
            )
        if not self.waiting and self.scheduled:
            number = len(self.scheduled)
            return f"Nothing has to be moved: the nodes take all pods that wait ({number})."
        if not self.waiting:
            return "No pod waits for a node."
        if packed.placed_proven:
            return "Moving pods makes room for none of those that wait: proven."
        return "Nothing was found that makes room for any of those that wait; not proven."

    def as_json(self) -> dict[str, Any]:
        packed = self.packed
        return {
            "moves": [
                {
                    "pod": str(move.pod),
                    "from": move.source,
                    "to": move.target,
                    "stopover": move.stopover,
                    "kind": move.kind,
                    "mode": migration_of(move.pod, self.configuration),
                }
                for move in packed.moves
            ],
            "order": [list(stage) for stage in stages(packed.legs)],
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
        }


def advise(snapshot: Snapshot, configuration: Configuration) -> PackAdvice:
    """How this snapshot would be packed; it takes as long as the optimiser may think.

    For those pods only that are left waiting when the others are scheduled.
    """
    policy = configuration.policy
    waiting = snapshot.schedulable(snapshot.pods.values())
    scheduled = policy.decide(snapshot, waiting, offline.batch_deadline(configuration)).bindings
    snapshot = snapshot.with_placed({pod.uid: node for pod, node, _ in scheduled})
    away = Away.seen(snapshot, configuration.site.label)
    kept, seen = kept_by(away), away.left_alone(snapshot) if away else snapshot
    settings = configuration.optimiser
    packed = policy.pack(
        seen,
        lambda pod: kept(pod) or reason_to_stay(pod, configuration),
        offline.within(settings.budget),
        tier_share=settings.tier_share,
        allow_evictions=settings.allow_evictions,
    )
    coming = {binding.pod.uid for binding in scheduled} | {m.pod.uid for m in packed.awaited}
    left = tuple(pod for pod in waiting if pod.uid not in coming)
    return PackAdvice(seen, packed, configuration, left, scheduled)


def pack(
    dump_path: str | None,
    config_path: str | None,
    kubeconfig_path: Path | None,
    context: str | None,
    server: str,
    carry_out: bool,
    config_map: ConfigMapName,
    wait: float,
    output: str,
    **elect: Any,
) -> None:
    if dump_path is not None and carry_out:
        raise click.UsageError("--apply needs a cluster, not a dump")
    log_to(level="ERROR")
    configuration, election = configuration_at(config_path), election_of(**elect)
    if said := lacking(configuration.solver.kind):
        remark(said)

    def said_of(snapshot: Snapshot, _: Answering | None = None) -> Errand | None:
        advice = _say(snapshot, configuration, output)
        return Errand(advice.carry_out) if carry_out and advice.packed.better else None

    if dump_path is not None:
        said_of(offline.snapshot_of(read_dump(dump_path), configuration))
    else:
        handing = Handing(config_map, wait, server)
        sys.exit(ask_cluster(kubeconfig_path, context, configuration, election, handing, said_of))


def _say(snapshot: Snapshot, configuration: Configuration, output: str) -> PackAdvice:
    started = time.perf_counter()
    advice = advise(snapshot, configuration)
    elapsed = 1000 * (time.perf_counter() - started)
    if output == "json":
        print_json(advice.as_json() | {"elapsedMs": round(elapsed, 3)})
    else:
        Console().print(_tables(advice, elapsed))
    return advice


def _tables(advice: PackAdvice, milliseconds: float) -> RenderableType:
    said, parts = advice.as_json(), list[RenderableType]()
    if said["moves"]:
        headings = ("pod", "from", "to", "kind", "mode")
        rows = ([str(move[heading]) for heading in headings] for move in said["moves"])
        parts.append(table(headings, rows, title="moves"))
        parts.append(Text(f"order: {'; then '.join(', '.join(s) for s in said['order'])}"))
    if said["evicted"]:
        parts.append(Text(f"evicted before: {', '.join(said['evicted'])}"))
    if said["awaited"]:
        rows = ([come["pod"], come["node"]] for come in said["awaited"])
        parts.append(table(("pod", "node"), rows, title="get a node"))
    if said["waiting"]:
        parts.append(table(("pod",), ([pod] for pod in said["waiting"]), title="wait all the same"))
    if said["scheduled"] and advice.waiting:
        parts.append(Text(f"need no move: {', '.join(each['pod'] for each in said['scheduled'])}"))
    if said["certificates"] and (advice.packed.better or advice.waiting):
        parts.append(_certificates(said["certificates"]))
    return Group(*parts, Text(f"{advice.words} Found in {milliseconds:.1f} ms."))


def _certificates(certificates: Iterable[dict[str, Any]]) -> RenderableType:
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
    return table(headings, rows, title="how sure", numbers=headings[1:3])
