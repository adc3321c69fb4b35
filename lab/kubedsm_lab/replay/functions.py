"""`kubedsm replay --preset functions`: serverless applications, drawn from published statistics.

Source of all distributions: Shahrad et al., "Serverless in the Wild" (USENIX ATC 2020), which
describes two weeks of Azure Functions in July 2019. The trace itself is not part of this project.
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.findings import Findings, Preset
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.report import encode_report, report
from kubedsm_lab.replay.runner import Outcome, Workers, carry_out, run_all
from kubedsm_lab.replay.services import UTILISATION, ServiceSpec
from kubedsm_lab.replay.tables import (
    WORDS,
    Row,
    Table,
    fill_sections,
    lookup,
    mean,
    number,
    with_interval,
)
from kubedsm_lab.replay.workload_model import Server
from kubedsm_lab.replay.world import Run, Setup, seed_rng
from loadgen.scenario import Api, Interval, Scenario

POLICIES = (KUBEDSM, "paper-suggester", "no-migration", REFERENCE)
NAME = "functions"
APPLICATIONS = 16
#: pods of an application: those of the paper's services
LEAST_PODS, MOST_PODS = 1, 10
#: seconds that stand for an hour of the day
HOUR, HOURS = 60.0, 24
#: Burr distribution of an application's allocated memory: c, k, and scale in MiB
_BURR = (11.652, 0.221, 107.083)
#: log-normal distribution of a function's mean execution time in seconds; 96% take less than a
#: minute
_EXECUTION, _LONGEST, _SHORTEST = (-0.38, 2.36), 60.0, 0.001
#: quantiles of the daily invocations of applications: once an hour, once a minute, and eight
#: orders of magnitude from once in two weeks on
_INVOCATIONS = ((0.0, 1 / 14), (0.45, 24.0), (0.81, 1440.0), (1.0, 1e8 / 14))
#: half of the peak's invocations come at any hour
_DAILY = 1 / 3
#: memory and cores of the platform's instances
_INSTANCE_MIB, _INSTANCE_CORES = 1536, 1
#: two thirds of the mean request of all pods fit on the edge
_CLUSTER = ClusterSpec(
    (
        *(node(f"edge-{index}", "edge", "4", "1Gi") for index in (1, 2, 3)),
        node("cloud-1", "cloud", "64", "64Gi"),
    )
)


@attrs.frozen
class Application:
    """Serverless application: memory in MiB, execution time in seconds, mean rate in requests/s."""

    memory: int
    seconds: float
    rate: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Application":
        """Draw an application; memory, execution time and rate are independent."""
        shape, exponent, scale = _BURR
        memory = scale * ((1 - rng.random()) ** (-1 / exponent) - 1) ** (1 / shape)
        # Box and Muller's method: no version of Python changes `Random.random`.
        normal = math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(math.tau * rng.random())
        seconds = math.exp(_EXECUTION[0] + _EXECUTION[1] * normal)
        seconds = min(_LONGEST, max(_SHORTEST, seconds))
        rate = invocations_per_day(rng.random()) / 86400
        # The peak of the day keeps the greatest number of pods as busy as the autoscaler allows.
        greatest = MOST_PODS * UTILISATION / seconds / (1 + _DAILY)
        return cls(min(_INSTANCE_MIB, round(memory)), seconds, min(rate, greatest))

    def service(self, name: str) -> ServiceSpec:
        millicores = math.ceil(1000 * _INSTANCE_CORES * self.memory / _INSTANCE_MIB)
        return ServiceSpec(
            name,
            f"{millicores}m",
            f"{self.memory}Mi",
            (LEAST_PODS, MOST_PODS),
            f"{max(1, round(1000 * UTILISATION / self.seconds))}m",
            Server(1, self.seconds),
        )

    def load(self, name: str, rng: random.Random) -> Api:
        """Draw a day of Poisson arrivals whose rate follows a daily curve with a random peak."""
        peak = HOURS * rng.random()
        counts = (
            _draw_poisson(
                self.rate * HOUR * (1 + _DAILY * math.cos(math.tau * (hour - peak) / HOURS)), rng
            )
            for hour in range(HOURS)
        )
        intervals = tuple(Interval.of(count / HOUR, HOUR) for count in counts)
        return Api(name, f"http://{name}/", intervals)


def invocations_per_day(quantile: float) -> float:
    """Return the daily invocations that a part of the applications does not exceed, interpolated
    between the published quantiles on a logarithmic scale.
    """
    (below, least), (above, most) = next(
        (first, second)
        for first, second in itertools.pairwise(_INVOCATIONS)
        if quantile <= second[0]
    )
    part = (quantile - below) / (above - below)
    return float(least * (most / least) ** part)


def _draw_poisson(expected: float, rng: random.Random) -> int:
    """Draw a Poisson-distributed count: events of a Poisson process of rate 1 until `expected`."""
    count, time = 0, -math.log(1 - rng.random())
    while time <= expected:
        count += 1
        time -= math.log(1 - rng.random())
    return count


def draw_run(seed: int, policy: str) -> Run:
    """Return the run of a policy on the applications and the day of load that a seed draws."""
    rng = seed_rng(seed, "functions")
    drawn = {f"app-{n:02}": Application.draw(rng) for n in range(1, APPLICATIONS + 1)}
    services = tuple(each.service(name) for name, each in drawn.items())
    scenario = Scenario(tuple(each.load(name, rng) for name, each in drawn.items()))
    return Run(NAME, scenario, policy, seed, Setup(_CLUSTER, services, stabilization_seconds=60))


@attrs.frozen
class Plan:
    seeds: int


def run(plan: Plan, workers: Workers) -> Findings:
    planned = [draw_run(seed, each) for each in POLICIES for seed in range(1, plan.seeds + 1)]
    outcomes = run_all(NAME, carry_out, planned, workers)
    found = report(outcomes)
    return Findings(
        method=f"{WORDS[NAME]['method']}; seeds 1 to {plan.seeds}",
        sections=fill_sections(NAME, TABLES, outcomes),
        results=encode_report(found),
        answer=answer(outcomes),
        origin=WORDS[NAME]["origin"],
    )


PRESET = Preset(Plan(seeds=3), Plan(seeds=20), run)

#: heading, digits, and place of each figure
_FIGURES = (
    ("edge ratio", 3, ("edgeRatio",)),
    ("std", 3, ("std",)),
    ("network ms", 1, ("overallLatencyMs", "network")),
    ("migrations", 1, ("migrations",)),
    ("lost pod-s", 2, ("lostPodSeconds",)),
    ("wait s", 3, ("pendingSeconds", "mean")),
)


def _tabulate(outcomes: Sequence[Outcome], *, paired: bool) -> Table:
    """Return means over the seeds with their intervals; `paired`: of the differences to the
    reference policy on the same seed.
    """
    rows: dict[str, dict[int, Row]] = {}
    for each in outcomes:
        rows.setdefault(each.policy, {})[each.seed] = each.as_json()
    lines = []
    for policy, by_seed in rows.items():
        if paired and policy == REFERENCE:
            continue
        cells = []
        for _, digits, keys in _FIGURES:
            values = [
                ours - (theirs or 0.0)
                for seed, row in by_seed.items()
                if (ours := lookup(row, keys)) is not None
                and (theirs := lookup(rows[REFERENCE][seed], keys) if paired else 0.0) is not None
            ]
            cells.append(with_interval(values, digits, "({} to {})"))
        lines.append([policy, *cells])
    return ["", *(heading for heading, _, _ in _FIGURES)], lines


TABLES: Mapping[str, Callable[[Sequence[Outcome]], Table]] = {
    "Means": partial(_tabulate, paired=False),
    "Differences to kube-scheduler": partial(_tabulate, paired=True),
}


def answer(outcomes: Sequence[Outcome]) -> str:
    ratios = {
        policy: mean(each.measures.edge_ratio for each in outcomes if each.policy == policy)
        for policy in (KUBEDSM, REFERENCE)
    }
    ours, theirs = (number(value, 3) for value in ratios.values())
    return (
        f"KubeDSM kept {ours} of the pods of {APPLICATIONS} serverless applications at the edge,"
        f" {REFERENCE} {theirs}."
    )
