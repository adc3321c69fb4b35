"""Which service gets the edge, and why: the paper's rates, and equal ones for all services."""

from collections.abc import Iterator

from kubedsm_lab.emulator.paper import SERVICES
from kubedsm_lab.replay.measured import Measured
from kubedsm_lab.replay.presets import (
    EQUAL_COEFFICIENTS,
    EQUAL_RATE_POLICIES,
    EQUAL_RATE_SCENARIOS,
    PAPER_SCENARIOS,
    VARIANT_SCENARIO,
    equal_rates,
)
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Table
from loadgen.generators import PAPER_COEFFICIENTS, PAPER_REQUESTS


def worth_of_a_pod(measured: Measured) -> Table:
    """How many pods are asked for on average, and what part of a service's share each GB holds.

    Nothing unless equal rates were played.
    """
    times, _ = PAPER_SCENARIOS[VARIANT_SCENARIO]
    lines = []
    for service in SERVICES:
        cores, gigabytes = PAPER_REQUESTS[service]["cpu"], PAPER_REQUESTS[service]["memory"] / 1e9
        cells = [number(cores, 0), number(gigabytes, 2)]
        for coefficients in (PAPER_COEFFICIENTS, EQUAL_COEFFICIENTS):
            pods = times * coefficients[service]
            cells += [number(pods, 1), *(number(1 / pods / r, 2) for r in (cores, gigabytes))]
        lines.append([service.upper(), *cells])
    columns = ["pods", "share a core", "share a GB"]
    equal = [f"{column}, equal rates" for column in columns]
    return ["service", "cores", "GB", *columns, *equal], lines if shares(measured)[1] else []


def shares(measured: Measured) -> Table:
    """Edge shares by service under the generator's rates and under equal ones."""
    names = [*(service.upper() for service in SERVICES), "edge ratio"]
    lines = []
    for scenario in EQUAL_RATE_SCENARIOS:
        for policy in measured.played(EQUAL_RATE_POLICIES):
            if measured.row(equal_rates(scenario), policy):
                both = (scenario, equal_rates(scenario))
                cells = [cell for name in both for cell in _shares(measured, name, policy)]
                lines.append([f"{scenario}, {policy}", *cells])
    return ["scenario, policy", *names, *(f"{n}, equal rates" for n in names)], lines


def _shares(measured: Measured, scenario: str, policy: str) -> Iterator[str]:
    row = measured.row(scenario, policy) or {"shares": {}, "edgeRatio": None}
    yield from (number(row["shares"].get(service), 3) for service in SERVICES)
    yield number(row["edgeRatio"], 3)
