"""Hypothetical changes of a what-if request, parsed from the query of the URL."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TypeVar

import attrs

from kubedsm.config.duration import DurationError, format_duration, parse_duration
from kubedsm.config.settings import Configuration
from kubedsm.model.model import NodeName, Workload
from kubedsm.model.quantities import QuantityError, parse_millis, parse_units
from kubedsm.model.sites import sites_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.planner.hypothesis import Hypothesis

V = TypeVar("V")

#: limits of one request: replicas added to or removed from a workload, and in all; nodes added;
#: changes of one kind
MOST, MOST_IN_ALL, MOST_NODES, MOST_CHANGES = 100, 500, 100, 100
#: longest latency target in seconds, as in `services`
LONGEST = 60.0
#: a `+` in a URL is a space
_NUMBER = re.compile(r"[-+ ]?[0-9]{1,4}", re.ASCII)
#: kinds of changes
CHANGES = (
    "drain", "lose", "lose-site", "cordon", "add", "qos", "latency", "replicas", "requests",
)  # fmt: skip


class BadRequestError(ValueError):
    """Error: invalid what-if request; the message is one line."""


def parse_what_if(
    query: Iterable[tuple[str, str]], snapshot: Snapshot, configuration: Configuration
) -> Hypothesis:
    """Parse changes such as `drain=edge-1`, `add=edge-1:3`, `lose-site=north`, `qos=shop/cart:0.8`,
    `latency=shop/cart:60ms`, `replicas=shop/cart:+2` and `requests=shop/cart:cpu=500m,memory=1Gi`.

    Raises BadRequestError for what is unknown, out of bounds, or given twice.
    """
    given: dict[str, list[str]] = {}
    for key, value in query:
        if key not in CHANGES:
            known = ", ".join(CHANGES)
            raise BadRequestError(f"{_shorten_text(key)}: unknown; changes are {known}")
        given.setdefault(key, []).append(value)
        if len(given[key]) > MOST_CHANGES:
            raise BadRequestError(f"{key}: more than {MOST_CHANGES} are given")
    return _Parser(given, snapshot, configuration).parse()


@attrs.frozen
class _Parser:
    """Parser of the changes of one request, by kind."""

    given: Mapping[str, Sequence[str]]
    snapshot: Snapshot
    configuration: Configuration

    def parse(self) -> Hypothesis:
        replicas = tuple(each for each in self._of_workloads("replicas", _parse_number) if each[1])
        if sum(abs(number) for _, number in replicas) > MOST_IN_ALL:
            raise BadRequestError(f"replicas: more than {MOST_IN_ALL} in all")
        qos = {str(name): factor for name, factor in self._of_workloads("qos", _parse_factor)}
        added = _split_pairs("add", self.given.get("add", ()), self.snapshot.nodes, "node")
        return Hypothesis(
            qos=tuple(qos.items()),
            latency=tuple(self._parse_latency(qos)),
            replicas=replicas,
            requests=tuple(self._of_workloads("requests", _parse_requests)),
            drained=self._of_nodes("drain"),
            lost=self._of_nodes("lose") | self._nodes_of_sites(),
            cordoned=self._of_nodes("cordon"),
            added=tuple((NodeName(name), _parse_nodes(name, text)) for name, text in added),
        )

    def _of_workloads(
        self, what: str, parse: Callable[[str, str], V]
    ) -> Iterator[tuple[Workload, V]]:
        workloads = {str(each): each for each in self.snapshot.census.shares}
        given = self.given.get(what, ())
        for name, text in _split_pairs(what, given, workloads, "opted-in workload"):
            yield workloads[name], parse(name, text)

    def _parse_latency(self, qos: Collection[str]) -> Iterator[tuple[str, float]]:
        edge, cloud = self.configuration.latency.edge, self.configuration.latency.cloud
        for workload, seconds in self._of_workloads("latency", _parse_latency):
            if edge >= cloud:
                bounds = f"{format_duration(edge)}, below latency.cloud, {format_duration(cloud)}"
                raise BadRequestError(f"latency: needs latency.edge, {bounds}")
            if str(workload) in qos:
                raise BadRequestError(f"latency: {workload} has a qos, too; give only one")
            yield str(workload), seconds

    def _of_nodes(self, what: str) -> frozenset[NodeName]:
        names = self.given.get(what, ())
        for name in names:
            _require_known(what, name, self.snapshot.nodes, "node")
        return frozenset(map(NodeName, names))

    def _nodes_of_sites(self) -> frozenset[NodeName]:
        wanted = self.given.get("lose-site", ())
        sites = sites_of(self.snapshot.nodes.values(), self.configuration.site.label)
        for site in wanted:
            _require_known("lose-site", site, sites, "edge site")
        return frozenset(node.name for site in wanted for node in sites[site])


def _require_known(what: str, name: str, known: Collection[str], kind: str) -> None:
    if name not in known:
        raise BadRequestError(f"{what}: no {kind} is called {_shorten_text(name)}")


def _split_pairs(
    what: str, given: Sequence[str], known: Collection[str], kind: str
) -> Iterator[tuple[str, str]]:
    seen = set[str]()
    for each in given:
        name, colon, text = each.partition(":")
        if not colon:
            form = "node" if kind == "node" else "namespace/name"
            raise BadRequestError(f"{what}: {_shorten_text(each)} is not {form}:value")
        _require_known(what, name, known, kind)
        if name in seen:
            raise BadRequestError(f"{what}: {name} is given twice")
        seen.add(name)
        yield name, text


def _parse_factor(name: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not (isfinite(factor) and 0 <= factor <= 1):
        raise BadRequestError(f"qos: {name}: {_shorten_text(text)} is not between 0 and 1")
    return factor


def _parse_latency(name: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise BadRequestError(f"latency: {name}: {' '.join(str(error).split())}") from None
    if seconds > LONGEST:
        raise BadRequestError(f"latency: {name}: {_shorten_text(text)} is above 1m")
    return seconds


def _parse_number(name: str, text: str) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else MOST + 1
    if not -MOST <= number <= MOST:
        raise BadRequestError(
            f"replicas: {name}: {_shorten_text(text)} is not between -{MOST} and +{MOST}"
        )
    return number


def _parse_nodes(name: str, text: str) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else 0
    if not 1 <= number <= MOST_NODES:
        raise BadRequestError(
            f"add: {name}: {_shorten_text(text)} is not between 1 and {MOST_NODES}"
        )
    return number


def _parse_requests(name: str, text: str) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for part in text.split(","):
        resource, equals, quantity = part.strip().partition("=")
        if not equals or resource not in ("cpu", "memory") or resource in amounts:
            form = f"{_shorten_text(part)} is not cpu=500m or memory=1Gi, each once"
            raise BadRequestError(f"requests: {name}: {form}")
        try:
            parse = parse_millis if resource == "cpu" else parse_units
            amounts[resource] = parse(quantity)
        except QuantityError as error:
            why = " ".join(str(error).split())
            raise BadRequestError(f"requests: {name}: {resource}: {why}") from None
    return amounts


def _shorten_text(text: str) -> str:
    return " ".join(text[:60].split()) or "nothing"
