"""What-if requests: migrations that different QoS targets, additional replicas or the loss of an
edge site would cause.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import msgspec

from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration
from kubedsm.explain.explanation import (
    Explanation,
    Section,
    Table,
    Words,
    node_link,
    percent,
    pod_link,
    table,
    workload_link,
)
from kubedsm.model.model import Workload
from kubedsm.planner.plurals import counted
from kubedsm.planner.what_if import Placed, WhatIfResponse, assume_qos_factors

#: limits of one request: replicas added to a workload, and in all; workloads changed
MOST, MOST_IN_ALL, MOST_WORKLOADS = 100, 500, 100
#: a `+` in a URL is a space
_NUMBER = re.compile(r"[+ ]?[0-9]{1,4}", re.ASCII)
#: rows shown of pods and migrations
_SHOWN = 50


class BadRequestError(ValueError):
    """Error: invalid what-if request; the message is one line."""


class Changes(NamedTuple):
    """Hypothetical changes in a what-if request: workloads' QoS factors, additional replicas, and
    lost edge sites.
    """

    qos: tuple[tuple[str, float], ...]
    replicas: tuple[tuple[Workload, int], ...]
    lost: frozenset[str] = frozenset()


def parse_what_if(
    qos: Sequence[str],
    replicas: Sequence[str],
    workloads: Mapping[str, Workload],
    lost: Sequence[str] = (),
    sites: Collection[str] = (),
) -> Changes:
    """Parse changes such as `shop/cart:0.8` and `shop/cart:+2`, and names of lost sites, among the
    existing ones. Raise BadRequestError.
    """
    factors = tuple(
        (name, _parse_factor(name, text)) for name, text in _split_pairs("qos", qos, workloads)
    )
    more = tuple(
        (workloads[name], number)
        for name, text in _split_pairs("replicas", replicas, workloads)
        if (number := _parse_number(name, text))
    )
    if sum(number for _, number in more) > MOST_IN_ALL:
        raise BadRequestError(f"replicas: more than {MOST_IN_ALL} in all")
    for site in lost:
        if site not in sites:
            raise BadRequestError(f"lost: no edge node is at a site {_shorten_text(site)}")
    return Changes(factors, more, frozenset(lost))


def _split_pairs(
    what: str, given: Sequence[str], workloads: Mapping[str, Workload]
) -> Iterator[tuple[str, str]]:
    if len(given) > MOST_WORKLOADS:
        raise BadRequestError(f"{what}: more than {MOST_WORKLOADS} workloads")
    known = set[str]()
    for each in given:
        name, colon, text = each.rpartition(":")
        if not colon:
            raise BadRequestError(f"{what}: {_shorten_text(each)} is not namespace/name:number")
        if name not in workloads:
            raise BadRequestError(f"{what}: no opted-in workload is called {_shorten_text(name)}")
        if name in known:
            raise BadRequestError(f"{what}: {name} is given twice")
        known.add(name)
        yield name, text


def _parse_factor(name: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not (isfinite(factor) and 0 <= factor <= 1):
        raise BadRequestError(f"qos: {name}: {_shorten_text(text)} is not between 0 and 1")
    return factor


def _parse_number(name: str, text: str) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= number <= MOST:
        raise BadRequestError(
            f"replicas: {name}: {_shorten_text(text)} is not between +0 and +{MOST}"
        )
    return number


def _shorten_text(text: str) -> str:
    return " ".join(text[:60].split()) or "nothing"


def explain_what_if(
    imagined: WhatIfResponse, changes: Changes, configuration: Configuration
) -> Explanation[None]:
    """Explain in sentences and tables the migrations that the hypothetical changes would cause."""
    return Explanation(
        "What would be done",
        tuple(_describe_result(imagined, changes, configuration)),
        tuple(_list_sections(imagined, changes, configuration)),
    )


def _describe_result(
    imagined: WhatIfResponse, changes: Changes, configuration: Configuration
) -> Iterator[Words]:
    moves, missing = len(imagined.moves), _count_missing(imagined)
    met = "every QoS target is met"
    if missing:
        met = f"{counted(missing, 'pod')} would be missing at the edge"
    if changes.lost:
        without = f"Without {', '.join(sorted(changes.lost))}"
        again = sum(each.node != "" for each in imagined.placed)
        yield (f"{without}, {counted(again, 'pod')} would be scheduled again.",)
    if moves:
        yield (f"{counted(moves, 'pod')} would be migrated; then {met}.",)
    else:
        yield (f"Nothing would be migrated, and {met}.",)
    stuck = [placed for placed in imagined.placed if not placed.node]
    if stuck:
        yield (f"{counted(len(stuck), 'pod')} would wait: no node is feasible.",)
    settings = configuration.suggester
    if moves >= settings.max_moves:
        yield (f"No more than {settings.max_moves} are migrated at a time; others may follow.",)
    if settings.mode != "apply":
        yield (f"suggester.mode is {settings.mode}: migrations need an approval.",)
    if imagined.cut_short:
        yield ("New pods interrupted the search, so the result is not complete.",)
    elif not imagined.proven:
        yield ("There may be better migrations: the search is limited as for a suggestion.",)


def _count_missing(imagined: WhatIfResponse) -> int:
    return sum(max(0, each.wanted - each.then.edge) for each in imagined.shares.values())


def _list_sections(
    imagined: WhatIfResponse, changes: Changes, configuration: Configuration
) -> Iterator[Section]:
    headings = ("workload", "at the edge now", "then", "target then")
    shares = (
        (
            workload_link(workload),
            f"{each.now.edge} of {each.now.total}",
            f"{each.then.edge} of {each.then.total}",
            f"{each.wanted} ({percent(each.qos_target)})",
        )
        for workload, each in imagined.shares.items()
    )
    yield Section("Edge shares", table=table(headings, shares))
    if imagined.moves:
        rows = (
            (
                m.pod if m.added else pod_link(m.pod),
                node_link(m.source),
                node_link(m.target),
                m.purpose,
            )
            for m in imagined.moves[:_SHOWN]
        )
        yield Section("Migrations", table=table(("pod", "from", "to", "reason"), rows))
    if any(each.node for each in imagined.placed):
        yield Section("Pods that would be scheduled", table=_placements_table(imagined.placed))
    stuck = [each for each in imagined.placed if not each.node]
    if stuck:
        why = ((each.pod, each.message) for each in stuck[:_SHOWN])
        yield Section("Pods that would wait", table=table(("pod", "why"), why))
    if imagined.left:
        left = ((pod_link(each.pod), each.message) for each in imagined.left[:_SHOWN])
        yield Section("Pods not migrated", table=table(("pod", "why"), left), folded=True)
    if changes.qos:
        yield Section(
            "Lines for the ConfigMap",
            (("In config.yaml, these replace the same keys of services.",),),
            code=_config_lines(changes, configuration),
            folded=True,
        )


def _placements_table(placed: Sequence[Placed]) -> Table | None:
    counts = Counter((each.workload, each.node) for each in placed if each.node)
    return table(
        ("workload", "pods", "node"),
        (
            (workload_link(workload), str(number), node_link(node))
            for (workload, node), number in sorted(counts.items())
        ),
    )


def _config_lines(changes: Changes, configuration: Configuration) -> str:
    services = assume_qos_factors(configuration, dict(changes.qos)).services
    said = {name: write_section(services[name]) for name, _ in changes.qos}
    return msgspec.yaml.encode({"services": said}).decode()
