"""Implementation of `kubedsm record`: record a cluster under load, and report its measures."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubedsm.cli.cluster import find_scheduler
from kubedsm.cli.console import Stop, remark
from kubedsm.explain.client import get_if_understood
from kubedsm.explain.decision_record import ENTRIES
from kubedsm.explain.effects import Effect
from kubedsm.explain.facts import MigrationFacts
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.joining import greet
from kubedsm.process.clock import SystemClock, rfc3339
from kubedsm_lab.replay.answer import KEPT, answer, print_report
from kubedsm_lab.replay.following import Plan, follow_cluster, record_until_end
from kubedsm_lab.replay.measures import measures_of
from kubedsm_lab.replay.pictures import write_with_pictures
from kubedsm_lab.replay.provenance import render_report
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.report import Report, assemble_report, in_a_sentence, plain_tables
from kubedsm_lab.replay.runner import Outcome

#: kube-scheduler's name in pods
_DEFAULT_SCHEDULER = "default-scheduler"


async def record_load(
    cluster: ExplainedCluster,
    scenario: str,
    services: Sequence[str],
    policy: str | None,
    recorder: TimelineRecorder,
    plan: Plan,
    stop: Stop,
    server: str,
) -> Report:
    """Record the pods of a cluster under load until the plan's end or `stop`; return the report of
    measures.

    Effects of migrations are read from the scheduler at `server`, if it manages this cluster.
    The report names what the recording misses: lost watches, and load outside the recording.
    """
    clock, rng = SystemClock(), random.Random()
    missed: list[str] = []

    def report(what: str) -> None:
        remark(what)
        missed.append(what)

    version = await greet(cluster)
    async with follow_cluster(cluster, recorder, clock, rng, report):
        stop.heeded = True
        remark(f"recording {', '.join(services)} in namespace {recorder.namespace}")
        began = clock.wall()
        seen, answers = await record_until_end(recorder, plan, stop.asked, clock, report)
    effects = None
    if await find_scheduler(server, cluster) is not None:
        effects = await effects_since(server, began, recorder.namespace)
    unseen = set(seen.timeline.services) - {life.service for life in seen.timeline.lives}
    if unseen:
        known = "which are known by their label app, or their workload"
        report(f"no pods seen of {', '.join(sorted(unseen))}, {known}")
    run = Outcome(
        scenario,
        policy or _name_schedulers(recorder),
        1,
        measures_of(seen, answers),
        seen.timeline.placements(),
        seen.timeline.end,
    )
    row = run.as_json()
    if effects:
        row["moveEffects"] = summarize_effects(effects)
    emulated = recorder.emulated
    method = "recorded on an emulated cluster" if emulated else "measured on a cluster"
    gaps = f"; incomplete: {'; '.join(dict.fromkeys(missed))}" * bool(missed)
    measured = f"{method} (Kubernetes {version}), over its API{gaps}"
    return {"emulated": emulated, "measured": measured} | assemble_report(
        [row], [run.timeline_json()]
    )


def _name_schedulers(recorder: TimelineRecorder) -> str:
    """Return the names of the pods' schedulers, joined by `+`, for the report's policy column."""
    names = ("kube-scheduler" if s == _DEFAULT_SCHEDULER else s for s in recorder.schedulers)
    return "+".join(sorted(names)) or "nobody"


def publish_report(found: Report, out: Path | None, output: str) -> None:
    """Print the recording's measures as tables or JSON; with `out`, also write the report's
    directory.
    """
    said = answer(found)
    print_report(found, said, output)
    if out is not None:
        origin = f"{KEPT} {in_a_sentence(found)}"
        text = render_report(said, origin, plain_tables(found))
        write_with_pictures(found, out, "kubedsm record", text)


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
