"""Table of the experiments of `kubedsm compare`: how each is run, shown and ranked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import attrs
import msgspec
import orjson
import structlog

from kubedsm.config.settings import Configuration
from kubedsm_lab.baselines.registry import CACHE_SCHEDULER, KUBEDSM, POLICIES
from kubedsm_lab.bench.burst import contenders as burst
from kubedsm_lab.bench.burst import result as burst_result
from kubedsm_lab.bench.burst.bare_loop import FOREVER
from kubedsm_lab.bench.burst.policy_process import BATCHED
from kubedsm_lab.bench.burst.run import Plan as BurstPlan
from kubedsm_lab.bench.nodes import contenders as nodes
from kubedsm_lab.bench.nodes import result as nodes_result
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.replay import evaluation, presets
from kubedsm_lab.replay.findings import Findings
from kubedsm_lab.replay.hpa import experiment as hpa
from kubedsm_lab.replay.load_aware import experiment as load_aware
from kubedsm_lab.replay.load_aware.application import GRAPHS
from kubedsm_lab.replay.packing import experiment as packing
from kubedsm_lab.replay.pictures import draw_report
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.report import EMULATED, encode_report, report
from kubedsm_lab.replay.runner import Workers, carry_out, run_all, show_progress
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.sources import recipe, runs
from kubedsm_lab.replay.tables import Section
from kubedsm_lab.replay.world import Setup


@attrs.frozen
class Experiment:
    #: about/NAME.md describes it
    name: str
    title: str
    #: emulated, modelled or computed
    how: str
    #: runs the experiment in full size or as a quick look
    run: Callable[[bool, Workers], Findings]
    #: explanation why KubeDSM is behind, by prefix of a measurement's name
    reasons: Mapping[str, str] = attrs.field(factory=dict)


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """Stored results of one experiment of `kubedsm compare`: method, rankings, tables
    and pictures.
    """

    full: bool
    #: how it was run
    about: str
    rankings: Sequence[Ranking]
    tables: Sequence[Section]
    #: JSON
    results: msgspec.Raw
    #: names of files
    pictures: Sequence[str] = ()


#: pods of a burst given to a scheduler all at once: better than any scheduler of the papers has it
_BATCHED = tuple(f"{name}{BATCHED}" for name in (REFERENCE, CACHE_SCHEDULER))
#: policies of the short experiment; other policies are variants of these, or place by tiers
_LOOK_POLICIES = (KUBEDSM, REFERENCE, CACHE_SCHEDULER, *_BATCHED, "random")


def _run_burst(full: bool, _workers: Workers) -> Findings:
    plan = BurstPlan(
        schedulers=(*POLICIES, *_BATCHED) if full else _LOOK_POLICIES,
        pods=200,
        rounds=11 if full else 3,
        patience=120.0,
        image="pause",
    )
    result = asyncio.run(burst.run(plan, structlog.get_logger().warning, FOREVER))
    return Findings(
        method=result.about,
        sections=burst_result.sections(result),
        rankings=burst_result.rankings(result),
        results=orjson.dumps(result.as_json()),
    )


def _run_hpa(full: bool, workers: Workers) -> Findings:
    # Six seeds are the minimum for a confidence interval of the median.
    plan = hpa.PRESET.short if full else attrs.evolve(hpa.PRESET.short, seeds=6)
    return hpa.PRESET.run(plan, workers)


def _run_nodes(full: bool, _workers: Workers) -> Findings:
    counts, pods, rounds = ((100, 1000, 5000), 1000, 3) if full else ((100, 1000), 200, 1)
    with show_progress("nodes", len(counts) * rounds * len(nodes.contenders())) as advance:
        result = nodes.run(counts, pods, rounds, advance)
    # Decision times are not comparable: scores written in plain Python are slower.
    ranked = nodes_result.rankings(result)
    return Findings(
        method=result.about,
        sections=nodes_result.sections(result),
        rankings=[one for one in ranked if not one.what.startswith("decision time")],
        results=orjson.dumps(result.as_json()),
    )


def _run_paper(full: bool, workers: Workers) -> Findings:
    seeds = range(1, 1 + (presets.FULL_SEEDS if full else presets.REDUCED_SEEDS))
    setup = Setup(paper_cluster(), PAPER_SERVICES, Configuration())
    scenarios = [recipe(name, *demand) for name, demand in presets.PAPER_SCENARIOS.items()]
    planned = runs(scenarios, presets.MAIN_POLICIES, seeds, setup)
    found = report(run_all("paper", carry_out, planned, workers))
    return Findings(
        method=f"{EMULATED.capitalize()}; runs of each scenario and policy: {len(seeds)}",
        sections=evaluation.sections(found),
        rankings=evaluation.rankings(found["means"]),
        results=encode_report(found),
        draw=lambda: draw_report(found),
    )


def _run_load_aware(full: bool, workers: Workers) -> Findings:
    look = load_aware.Plan(list(GRAPHS)[:1], (50,), seeds=1)
    return load_aware.PRESET.run(load_aware.PRESET.short if full else look, workers)


def _run_packing(full: bool, workers: Workers) -> Findings:
    # The number of seeds in docs/explanation/packing.md, or a short experiment.
    plan = attrs.evolve(packing.PRESET.short, seeds=4 if full else 1)
    return packing.PRESET.run(plan, workers)


_TEXTS = msgspec.toml.decode(
    (files(__package__) / "about" / "experiments.toml").read_bytes(), type=dict[str, dict[str, Any]]
)
EXPERIMENTS: Sequence[Experiment] = tuple(
    Experiment(name, run=run, **_TEXTS[name])
    for name, run in (
        ("burst", _run_burst),
        ("hpa", _run_hpa),
        ("nodes", _run_nodes),
        ("paper", _run_paper),
        ("load-aware", _run_load_aware),
        ("packing", _run_packing),
    )
)
