"""The KubeDSM paper's ten scenarios: edge ratios and response times."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubedsm.config.settings import Configuration
from kubedsm_lab.comparison.experiment import Asked, Experiment, Found, Part, of_titles
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.replay import evaluation, files, plots, presets
from kubedsm_lab.replay.progress import progress
from kubedsm_lab.replay.report import EMULATED, report
from kubedsm_lab.replay.runner import carry_out, spread
from kubedsm_lab.replay.sections import made
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.sources import recipe, runs
from kubedsm_lab.replay.standings import Standing
from kubedsm_lab.replay.variants import CONTENDERS
from kubedsm_lab.replay.world import Setup

_EVEN, _WAITING = "deviation of edge shares", "mean wait for a node"
#: of edge shares, and of times, which depend more on chance
_NOISE, _OF_TIMES = 0.005, 0.02
#: what is less than these tells nothing
_DIGITS = 3
_NAME = "paper"
#: of the tables of docs/evaluation.md
SHOWN = (
    "Edge ratio",
    "Share of the optimum",
    "Response times by scenario",
    "Response times by policy",
    "What it cost",
)


def _run(asked: Asked) -> Found:
    seeds = range(1, 1 + (presets.FULL_SEEDS if asked.full else presets.REDUCED_SEEDS))
    setup = Setup(paper_cluster(), PAPER_SERVICES, Configuration())
    scenarios = [recipe(name, *of) for name, of in presets.PAPER_SCENARIOS.items()]
    planned = runs(scenarios, asked.policies or presets.MAIN_POLICIES, seeds, setup)
    outcomes = spread(carry_out, planned, asked.jobs)
    found = report(list(progress(_NAME, outcomes, len(planned))))
    about = f"{EMULATED.capitalize()}; runs of each scenario and policy: {len(seeds)}"
    results = msgspec.Raw(files.as_json(found))
    tables = made(of_titles(evaluation.SECTIONS, SHOWN), found["means"])
    part = Part(asked.full, about, standings(found["means"]), tables, results)
    return Found(part, plots.pictures(found))


def standings(means: Sequence[Mapping[str, Any]]) -> list[Standing]:
    """Of means over the scenarios."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in means:
        rows.setdefault(row["policy"], []).append(row)

    def standing(what: str, unit: str, *keys: str, less: bool = True) -> Standing:
        values = {}
        for policy, played in rows.items():
            found = [_at(row, keys) for row in played]
            known = [value for value in found if value is not None]
            if len(known) == len(found):
                values[policy] = round(statistics.fmean(known), _DIGITS)
        return Standing(what, unit, less, values, _OF_TIMES if unit else _NOISE)

    return [
        standing("edge ratio", "", "edgeRatio", less=False),
        standing("share of the best edge ratio there is", "", "optimumShare", less=False),
        standing(_EVEN, "", "std"),
        standing("mean response time", "ms", "overallLatencyMs", "mean"),
        standing("p95 of response times", "ms", "overallLatencyMs", "p95"),
        standing("of response times, the network", "ms", "overallLatencyMs", "network"),
        standing(_WAITING, "s", "pendingSeconds", "mean"),
        standing("pod-seconds lost to moves", "", "lostPodSeconds"),
        standing("services that one node's death takes whole", "", "onOneNode", "avoidable"),
    ]


def _at(row: Mapping[str, Any], keys: Sequence[str]) -> float | None:
    value: Any = row
    for key in keys:
        value = value[key]
    return None if value is None else float(value)


_REASONS = {
    _EVEN: "KubeDSM goes for the mean edge share, for which the service with the dearest pods pays."
    " The paper's suggester leaves some of the edge ratio. A policy that puts little on the edge is"
    " even by that alone.",
    _WAITING: "A pod waits up to 2 s for room on the edge that others are about to leave"
    " (`batch.edgeWait`) before it goes to the cloud; no other policy knows of that room.",
}
PAPER = Experiment(
    _NAME,
    "Edge and cloud: the KubeDSM paper's scenarios",
    "emulated, response times modelled",
    _REASONS,
    _run,
    tuple(CONTENDERS),
)
