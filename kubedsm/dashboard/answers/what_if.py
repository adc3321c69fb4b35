"""What would be done if other things were promised, or workloads had more pods: asked, and told."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import msgspec

from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.answers.answer import (
    Answer,
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
from kubedsm.planner.what_if import Placed, WhatIfResponse, promising

#: replicas that can be added to one workload, and in all; workloads that can be changed at once
MOST, MOST_IN_ALL, MOST_WORKLOADS = 100, 500, 100
#: A `+` in a URL is a space.
_NUMBER = re.compile(r"[+ ]?[0-9]{1,4}", re.ASCII)
#: rows of pods and moves that are shown
_SHOWN = 50


class BadQuestionError(ValueError):
    """It cannot be asked like that: what is wrong, in a line."""


class Changed(NamedTuple):
    """What is to be imagined: QoS factors by keys of `services`, and pods more."""

    qos: tuple[tuple[str, float], ...]
    replicas: tuple[tuple[Workload, int], ...]


def changed(
    qos: Sequence[str], replicas: Sequence[str], workloads: Mapping[str, Workload]
) -> Changed:
    """What these say: `shop/cart:0.8`, `shop/cart:+2`. Raises BadQuestionError."""
    factors = tuple((name, _factor(name, text)) for name, text in _said("qos", qos, workloads))
    more = tuple(
        (workloads[name], number)
        for name, text in _said("replicas", replicas, workloads)
        if (number := _number(name, text))
    )
    if sum(number for _, number in more) > MOST_IN_ALL:
        raise BadQuestionError(f"replicas: more than {MOST_IN_ALL} in all")
    return Changed(factors, more)


def _said(
    what: str, given: Sequence[str], workloads: Mapping[str, Workload]
) -> Iterator[tuple[str, str]]:
    if len(given) > MOST_WORKLOADS:
        raise BadQuestionError(f"{what}: more than {MOST_WORKLOADS} workloads")
    known = set[str]()
    for each in given:
        name, colon, text = each.rpartition(":")
        if not colon:
            raise BadQuestionError(f"{what}: {_short(each)} is not namespace/name:number")
        if name not in workloads:
            raise BadQuestionError(f"{what}: no pods of ours are of a workload {_short(name)}")
        if name in known:
            raise BadQuestionError(f"{what}: {name} is given twice")
        known.add(name)
        yield name, text


def _factor(name: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not (isfinite(factor) and 0 <= factor <= 1):
        raise BadQuestionError(f"qos: {name}: {_short(text)} is not between 0 and 1")
    return factor


def _number(name: str, text: str) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= number <= MOST:
        raise BadQuestionError(f"replicas: {name}: {_short(text)} is not between +0 and +{MOST}")
    return number


def _short(text: str) -> str:
    return " ".join(text[:60].split()) or "nothing"


def told(imagined: WhatIfResponse, asked: Changed, configuration: Configuration) -> Answer:
    """`configuration`: the one in force."""
    return Answer(
        "What would be done",
        tuple(_lines(imagined, configuration)),
        tuple(_sections(imagined, asked, configuration)),
    )


def _lines(imagined: WhatIfResponse, configuration: Configuration) -> Iterator[Words]:
    moves, missing = len(imagined.moves), _missing(imagined)
    kept = "every promise is kept"
    if missing:
        kept = f"{counted(missing, 'pod')} of what is promised would be missing at the edge"
    if moves:
        yield (f"{counted(moves, 'pod')} would be moved; then {kept}.",)
    else:
        yield (f"Nothing would be moved, and {kept}.",)
    stuck = [placed for placed in imagined.placed if not placed.node]
    if stuck:
        yield (f"{counted(len(stuck), 'pod')} would wait, for want of a node.",)
    settings = configuration.suggester
    if moves >= settings.max_moves:
        yield (f"No more than {settings.max_moves} are moved at a time; others may follow.",)
    if settings.mode != "apply":
        yield (f"suggester.mode is {settings.mode}: moves are not made without being asked for.",)
    if imagined.cut_short:
        yield ("Pods had to be placed meanwhile, so this was not thought through.",)
    elif not imagined.proven:
        yield ("There may be better moves: they were looked for as long as for a suggestion.",)


def _missing(imagined: WhatIfResponse) -> int:
    return sum(max(0, each.wanted - each.then.edge) for each in imagined.shares.values())


def _sections(
    imagined: WhatIfResponse, asked: Changed, configuration: Configuration
) -> Iterator[Section]:
    headings = ("workload", "at the edge now", "then", "promised then")
    shares = (
        (
            workload_link(workload),
            f"{each.now.edge} of {each.now.total}",
            f"{each.then.edge} of {each.then.total}",
            f"{each.wanted} ({percent(each.promise)})",
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
        yield Section("Moves", table=table(("pod", "from", "to", "what for"), rows))
    if any(each.node for each in imagined.placed):
        yield Section("Pods that would be placed", table=_where(imagined.placed))
    stuck = [each for each in imagined.placed if not each.node]
    if stuck:
        why = ((each.pod, each.message) for each in stuck[:_SHOWN])
        yield Section("Pods that would wait", table=table(("pod", "why"), why))
    if imagined.left:
        left = ((pod_link(each.pod), each.message) for each in imagined.left[:_SHOWN])
        yield Section("Left where they are", table=table(("pod", "why"), left), folded=True)
    if asked.qos:
        yield Section(
            "Lines for the ConfigMap",
            (("In config.yaml, these take the place of the same keys of services.",),),
            code=_lines_of(asked, configuration),
            folded=True,
        )


def _where(placed: Sequence[Placed]) -> Table | None:
    counts = Counter((each.workload, each.node) for each in placed if each.node)
    return table(
        ("workload", "pods", "node"),
        (
            (workload_link(workload), str(number), node_link(node))
            for (workload, node), number in sorted(counts.items())
        ),
    )


def _lines_of(asked: Changed, configuration: Configuration) -> str:
    services = promising(configuration, dict(asked.qos)).services
    said = {name: write_section(services[name]) for name, _ in asked.qos}
    return msgspec.yaml.encode({"services": said}).decode()
