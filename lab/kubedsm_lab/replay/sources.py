"""Sources of load scenarios: files, or the paper's random scenario by name, such as `1.5-.4`."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from kubedsm.config.documents import (
    SCENARIO,
    STDIN,
    DocumentError,
    content,
    explain_mistake,
)
from kubedsm.config.yaml_text import parse_all_yaml
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import normal
from loadgen.scenario import Scenario, ScenarioError, load

_NORMAL = re.compile(r"([0-9]*\.?[0-9]+)-([0-9]*\.?[0-9]+)", re.ASCII)


@attrs.frozen
class Source:
    #: name in the results
    name: str
    #: argument of the command
    given: str
    #: scenario by seed; a file has one for all seeds
    scenario: Callable[[int], Scenario]


def sources(given: Sequence[str]) -> list[Source]:
    """Parse scenario arguments into sources: names of files, or `MEAN-SIGMA` for the paper's random
    scenario. Raises ScenarioError.
    """
    stems = ["stdin" if text == STDIN else Path(text).stem for text in given]
    found = []
    for text, stem in zip(given, stems, strict=True):
        if given.count(text) > 1:
            raise ScenarioError("given twice", source=text)
        if Path(text).exists():
            scenario = scenario_in(text)
            name = stem if stems.count(stem) == 1 else text
            found.append(Source(name, text, _always_return(scenario)))
        elif match := _NORMAL.fullmatch(text):
            found.append(recipe(text, float(match[1]), float(match[2])))
        else:
            raise ScenarioError(
                "neither a file nor MEAN-SIGMA, such as 1.5-.4: a demand of about 1.5 times what"
                " the edge holds, .4 its deviation",
                source=text,
            )
    return found


def _always_return(scenario: Scenario) -> Callable[[int], Scenario]:
    return lambda _seed: scenario


def recipe(name: str, mean: float, sigma: float) -> Source:
    """Return the paper's random scenario: a total demand of `mean` times the edge nodes' capacity,
    varied randomly with the deviation `sigma`.
    """
    return Source(name, name, lambda seed: normal(mean, sigma, seed=seed))


def scenario_in(path: str | Path) -> Scenario:
    """Read a load scenario in DrStress's format from a file.

    Raises ScenarioError; for a file of another kind the message names that kind.
    """
    try:
        return load(path)
    except ScenarioError:
        documents: list[Any] = []
        with suppress(DocumentError):
            documents = parse_all_yaml(content(path))
        if why := next(filter(None, (explain_mistake(each, SCENARIO) for each in documents)), ""):
            raise ScenarioError(why, source=str(path)) from None
        raise


def runs(
    chosen: Iterable[Source], policies: Sequence[str], seeds: Sequence[int], setup: Setup
) -> list[Run]:
    """Return the runs of a replay: one per scenario, policy and seed, in this order.

    Raises ScenarioError for a scenario of a service that the setup lacks.
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
