"""Where scenarios come from: files, or the paper's recipe by name, such as `1.5-.4`."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from kubedsm.config.documents import (
    SCENARIO,
    STDIN,
    DocumentError,
    content,
    mistaken,
)
from kubedsm.config.yaml_text import parsed_all
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import PAPER_COEFFICIENTS, normal
from loadgen.scenario import Scenario, ScenarioError, load

_NORMAL = re.compile(r"([0-9]*\.?[0-9]+)-([0-9]*\.?[0-9]+)", re.ASCII)


@attrs.frozen
class Source:
    #: what it is called in the results
    name: str
    #: where it came from, as it was given
    given: str
    #: the scenario of each seed; one in a file is the same for all
    scenario: Callable[[int], Scenario]
    #: drawn by the paper's recipe, and not from a file
    drawn: bool = False


def sources(given: Sequence[str]) -> list[Source]:
    """A source each: a file if there is one, else the paper's `MEAN-SIGMA`.

    Raises ScenarioError.
    """
    stems = ["stdin" if text == STDIN else Path(text).stem for text in given]
    found = []
    for text, stem in zip(given, stems, strict=True):
        if given.count(text) > 1:
            raise ScenarioError("given twice", source=text)
        match = _NORMAL.fullmatch(text)
        if match is not None and not Path(text).exists():
            found.append(recipe(text, float(match[1]), float(match[2])))
        elif not Path(text).exists():
            raise ScenarioError(
                "neither a file nor MEAN-SIGMA, such as 1.5-.4: a demand of about 1.5 times what"
                " the edge holds, .4 its deviation",
                source=text,
            )
        else:
            found.append(_file(text, stem if stems.count(stem) == 1 else text))
    return found


def recipe(
    name: str,
    mean: float,
    sigma: float,
    coefficients: Mapping[str, float] = PAPER_COEFFICIENTS,
) -> Source:
    """Demand about `mean` times what the edge holds, `sigma` its deviation; drawn by the seed.

    coefficients: the replicas of each service that are one time what the edge holds.
    """

    def scenario(seed: int) -> Scenario:
        return normal(mean, sigma, seed=seed, coefficients=coefficients)

    return Source(name, name, scenario, drawn=True)


def scenario_in(path: str | Path) -> Scenario:
    """Raises ScenarioError, which says what the file is instead if that is known."""
    try:
        return load(path)
    except ScenarioError:
        said: list[Any] = []
        with suppress(DocumentError):
            said = parsed_all(content(path))
        if why := next(filter(None, (mistaken(each, SCENARIO) for each in said)), ""):
            raise ScenarioError(why, source=str(path)) from None
        raise


def _file(path: str, name: str) -> Source:
    scenario = scenario_in(path)
    return Source(name, path, lambda _seed: scenario)


def runs(
    chosen: Iterable[Source], policies: Sequence[str], seeds: Sequence[int], setup: Setup
) -> list[Run]:
    """Scenario by scenario, policy by policy, seed by seed.

    Raises ScenarioError if a scenario is about a service that the setup does not have.
    """
    found = []
    for source in chosen:
        scenarios = {seed: source.scenario(seed) for seed in seeds}
        for scenario in scenarios.values():
            _check_services(scenario, source.given, setup)
        found += [
            Run(source.name, scenarios[seed], policy, seed, setup)
            for policy in policies
            for seed in seeds
        ]
    return found


def _check_services(scenario: Scenario, given: str, setup: Setup) -> None:
    known = setup.service_names
    for index, service in enumerate(scenario.services):
        if service not in known:
            reason = f"no service {service!r} among {', '.join(known)}"
            raise ScenarioError(reason, f"apis[{index}].name", given)
