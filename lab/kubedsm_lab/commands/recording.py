"""`kubedsm record`: what happens on a cluster under load, judged as a replay is."""

import random
from collections.abc import Sequence
from pathlib import Path

import click

from kubedsm.commands.console import Stop, log_to, print_json, remark, until_interrupted
from kubedsm.commands.inputs import (
    configuration_at,
)
from kubedsm.commands.on_cluster import find_scheduler
from kubedsm.explain.client import effects_since
from kubedsm.explain.effects import Effect, summarize_effects
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.paths import is_name
from kubedsm.kube.joining import TIMEOUT, greet
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.whole_files import folder_for
from kubedsm_lab.replay.answer import KEPT, answer, printed
from kubedsm_lab.replay.comparing import compared
from kubedsm_lab.replay.files import write
from kubedsm_lab.replay.following import Plan, followed, recorded
from kubedsm_lab.replay.measures import measures_of
from kubedsm_lab.replay.provenance import Provenance, told, typed
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.report import Report, assembled, in_a_sentence, plain_tables, tables
from kubedsm_lab.replay.runner import Outcome
from kubedsm_lab.replay.sources import scenario_in

#: what kube-scheduler is called in pods
_DEFAULT_SCHEDULER = "default-scheduler"


def record(
    folders: tuple[Path, ...],
    *,
    scenario_path: Path | None,
    requests_path: Path | None,
    policy: str | None,
    seconds: float | None,
    namespace: str,
    compare: bool,
    server: str,
    config_path: str | None,
    kubeconfig_path: Path | None,
    context: str | None,
    out: Path | None,
    output: str,
) -> None:
    if bool(folders) != compare or compare == bool(scenario_path):
        raise click.UsageError("give --scenario, or --compare and folders: one of the two")
    if out is not None:
        folder_for(out)
    if scenario_path is None:
        _show(compared(folders), out, output)
        return
    if not is_name(namespace):
        raise click.UsageError(f"--namespace: {namespace!r} is not such a name")
    if requests_path is not None and requests_path.exists() and requests_path.stat().st_size:
        raise click.ClickException(f"{requests_path}: is of load that has ended before")
    scenario = scenario_in(scenario_path)
    log_to(level="ERROR")
    configuration = configuration_at(config_path)
    length = scenario.duration if seconds is None else seconds
    recorder = TimelineRecorder(scenario.services, configuration.tiers, namespace)
    plan, stop = Plan(length, requests_path), Stop()
    reports: list[Report] = []

    async def recording() -> None:
        clock, rng = SystemClock(), random.Random()
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            asked = ExplainedCluster(cluster, cluster.server)
            version = await greet(asked, timeout=TIMEOUT)
            async with followed(asked, recorder, clock, rng, remark):
                stop.heeded = True
                remark(f"recording {', '.join(scenario.services)} in namespace {namespace}")
                began = clock.wall()
                seen, answers = await recorded(recorder, plan, stop.asked, clock, remark)
            brought = None
            if await find_scheduler(server, asked) is not None:
                brought = await effects_since(server, began, namespace)
        outcome = Outcome(
            scenario_path.stem,
            policy or _schedulers(recorder),
            1,
            measures_of(seen, answers),
            seen.timeline.placements(),
            seen.timeline.end,
        )
        _say_unseen(seen)
        reports.append(_report(outcome, brought, version, emulated=recorder.emulated))
        # Without an await: a signal does not end it any more.
        _show(reports[0], out, output)

    until_interrupted(recording(), stop)
    if not reports:
        raise click.Abort


def _schedulers(recorder: TimelineRecorder) -> str:
    """Of the pods, as policies are called."""
    names = ("kube-scheduler" if s == _DEFAULT_SCHEDULER else s for s in recorder.schedulers)
    return "+".join(sorted(names)) or "nobody"


def _say_unseen(seen: Record) -> None:
    unseen = set(seen.timeline.services) - {life.service for life in seen.timeline.lives}
    if unseen:
        known = "which are known by their label app, or their workload"
        remark(f"no pods seen of {', '.join(sorted(unseen))}, {known}")


def _report(
    outcome: Outcome, brought: Sequence[Effect] | None, version: str, *, emulated: bool
) -> Report:
    """`brought`: the effects of moves, if a scheduler told them."""
    what = "recorded on an emulated cluster" if emulated else "measured on a cluster"
    measured = f"{what} (Kubernetes {version}), over its API"
    how = {"emulated": emulated, "measured": measured}
    run = outcome.as_json()
    if brought:
        run["moveEffects"] = summarize_effects(brought)
    return how | assembled([run], [outcome.timeline_json()])


def _show(found: Report, out: Path | None, output: str) -> None:
    if output == "json":
        print_json(found)
    else:
        printed(answer(found), Console())
        Console().print(tables(found))
    if out is not None:
        made = Provenance(typed(), f"{KEPT} {in_a_sentence(found)}")
        write(found, out, "kubedsm record", told(answer(found), made, plain_tables(found)))
