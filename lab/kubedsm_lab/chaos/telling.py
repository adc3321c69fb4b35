"""Of all that happened in a run, what somebody has to read who wants to know why it went wrong."""

import re
from collections.abc import Iterable, Iterator

from kubedsm_lab.chaos.seam import Moment
from kubedsm_lab.chaos.story import Outcome

_NAME = re.compile(r"[\w.-]+")
#: what differs between two failures of the same sort: numbers, ends of names, who it was
_PARTICULAR = re.compile(r"\bkubedsm-[\d-]+|-[0-9a-z]{8,10}-[0-9a-z]{5}\b|[0-9a-f-]{36}|[\d.]+")


def told(outcome: Outcome) -> list[str]:
    """The shortest history: from where the fault struck, and of whom something is wrong with."""
    lines = [str(moment) for moment in _concerning(outcome)]
    lines += [f"{app}: {placed}" for app, placed in outcome.end.items()]
    return lines + [f"BROKEN {violation}" for violation in outcome.violations]


def alike(violations: Iterable[str]) -> frozenset[str]:
    """What the same goes wrong by has in common, whoever and whenever it was."""
    return frozenset(_PARTICULAR.sub("#", violation) for violation in violations)


def _concerning(outcome: Outcome) -> Iterator[Moment]:
    history = outcome.history
    struck = next((n for n, moment in enumerate(history) if moment.is_fault), 0)
    since = history[max(0, struck - 1) :]
    named = {name for text in outcome.violations for name in _NAME.findall(text)}
    concerned = {part for moment in since for part in _parts(moment) if _is_of(part, named)}
    for moment in since:
        parts = _parts(moment)
        if moment.is_fault or not moment.family or not concerned or concerned & parts:
            yield moment


def _parts(moment: Moment) -> set[str]:
    return set(moment.about.split("/")[1:])


def _is_of(part: str, named: set[str]) -> bool:
    """Whether it is one of these, or a pod or ReplicaSet of one of these workloads."""
    pieces = part.split("-")
    return any("-".join(pieces[:count]) in named for count in range(1, len(pieces) + 1))
