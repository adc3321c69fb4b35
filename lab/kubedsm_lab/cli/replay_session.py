"""Implementation of `kubedsm replay`: runs, report and page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from kubedsm.config.settings import Configuration, load_file
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.cli.replay import ReplayOptions
from kubedsm_lab.emulator.cluster_file import load as load_cluster
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.output_files import folder_for
from kubedsm_lab.replay import functions, presets
from kubedsm_lab.replay.answer import answer, policy_title, print_report
from kubedsm_lab.replay.evaluation import other_than_the_papers, render_text
from kubedsm_lab.replay.findings import Preset
from kubedsm_lab.replay.hpa import experiment as hpa
from kubedsm_lab.replay.judgement import experiment as judgement
from kubedsm_lab.replay.load_aware import experiment as load_aware
from kubedsm_lab.replay.packing import experiment as packing
from kubedsm_lab.replay.pictures import write_with_pictures
from kubedsm_lab.replay.provenance import describe_runs
from kubedsm_lab.replay.report import report
from kubedsm_lab.replay.runner import Outcome, Workers, carry_out, choose_workers, run_all
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.services import load as load_services
from kubedsm_lab.replay.single_file import one_file
from kubedsm_lab.replay.sites import experiment as sites
from kubedsm_lab.replay.sources import runs, sources
from kubedsm_lab.replay.variants import BASELINES, contender
from kubedsm_lab.replay.world import Run, Setup

DEFAULT_POLICIES = (KUBEDSM, *BASELINES)
_PACKING = "packing"
#: presets with clusters, pods and policies of their own
EXPERIMENTS: Mapping[str, Preset[Any]] = {
    _PACKING: packing.PRESET,
    "load-aware": load_aware.PRESET,
    "hpa": hpa.PRESET,
    "judgement": judgement.PRESET,
    "sites": sites.PRESET,
    functions.NAME: functions.PRESET,
}
#: runs that a page has room for
_FILMED = 2


def run_replay(options: ReplayOptions) -> None:
    """Run a preset experiment or scenarios, as the options request, and print the report."""
    _check_usage(options)
    preset, out, page = options.preset, options.out, options.page
    workers = choose_workers(options.jobs, options.executor)
    if preset is not None and preset in EXPERIMENTS:
        _run_experiment(EXPERIMENTS[preset], options, workers)
        return
    setup = _make_setup(options)
    names, chosen = options.policies, sources(options.scenarios)
    for name in names:
        contender(name, setup.service_names)
    default_seeds = presets.FULL_SEEDS if options.full else presets.REDUCED_SEEDS
    numbers = range(1, 1 + (options.seeds or default_seeds))
    if preset:
        plan = presets.full if options.full else presets.reduced
        planned = (presets.closed if options.closed_loop else plan)(numbers, setup)
        planned = [run for run in planned if not names or run.policy in names]
        if other_than_the_papers(setup):
            planned = [run for run in planned if not run.setup.rest]
    else:
        planned = runs(chosen, names or DEFAULT_POLICIES, numbers, setup)
    _make_folders(out, page and page.parent)
    if page is not None:
        planned = _film_first(planned)
    outcomes = run_all("replaying", carry_out, planned, workers)
    found = report(outcomes)
    # The full preset also has other loads and autoscalers than the paper's.
    said = answer(found, presets.PAPER_SCENARIOS if preset else None)
    print_report(found, said, options.output)
    if page is not None:
        _write_page(outcomes, page)
    if out is not None:
        title = "kubedsm replay" + (f" --preset {preset}" if preset else "")
        text = render_text(found, other_than_the_papers(setup), whole=bool(preset))
        origin = options.cluster_name, options.services_path
        told = describe_runs(said, text, planned, setup, *origin)
        write_with_pictures(found, out, title, told)


def _run_experiment(experiment: Preset[Any], options: ReplayOptions, workers: Workers) -> None:
    plan = experiment.full if options.full else experiment.short
    if options.seeds is not None:
        plan = attrs.evolve(plan, seeds=options.seeds)
    if options.preset == _PACKING:
        limits = options.seconds or plan.limits
        plan = attrs.evolve(plan, limits=limits, solver=options.solver, out=options.out)
    _make_folders(options.out)
    experiment.run(plan, workers).publish(str(options.preset), options.out, options.output)


def _film_first(planned: Sequence[Run]) -> list[Run]:
    """Mark the runs to record for the page: those of the first two policies on the first scenario
    and seed.
    """
    first = planned[0]
    shown = [run for run in planned if (run.name, run.seed) == (first.name, first.seed)][:_FILMED]
    return [attrs.evolve(run, filmed=any(run is each for each in shown)) for run in planned]


def _write_page(outcomes: Sequence[Outcome], path: Path) -> None:
    filmed = [outcome for outcome in outcomes if outcome.film]
    run = f"{filmed[0].scenario}, seed {filmed[0].seed}"
    about = f"{run}, emulated: {answer(report(filmed))}"
    films = {policy_title(each.policy): each.film for each in filmed}
    write_whole(path, one_file(f"kubedsm replay {run}", about, films))


def _make_folders(*folders: Path | None) -> None:
    for folder in filter(None, folders):
        folder_for(folder)


def _check_usage(options: ReplayOptions) -> None:
    preset = options.preset
    files = options.services_path, options.config_path
    others = options.policies, options.paced, options.closed_loop, options.cluster_name != "paper"
    if bool(options.scenarios) == bool(preset):
        raise click.UsageError("give scenarios, or --preset: one of the two")
    if options.full and not preset:
        raise click.UsageError("--full needs --preset")
    if options.page is not None and preset:
        raise click.UsageError("--page needs a scenario, not --preset")
    if (options.solver or options.seconds) and preset != _PACKING:
        raise click.UsageError("--solver and --seconds need --preset packing")
    if any((*files, *others)) and preset in EXPERIMENTS:
        raise click.UsageError(f"--preset {preset} has clusters, pods and policies of its own")


def _make_setup(options: ReplayOptions) -> Setup:
    name, services, config = options.cluster_name, options.services_path, options.config_path
    return Setup(
        paper_cluster() if name == "paper" else load_cluster(name),
        load_services(services) if services else PAPER_SERVICES,
        load_file(config) if config else Configuration(),
        paced=options.paced,
        closed_loop=options.closed_loop,
    )
