"""What comes of asking Prometheus everything once, with what it said before."""

from collections.abc import Callable, Iterable, Mapping

import attrs

from kubedsm.app.load_reading import OPTIONAL, Reading, read, usable
from kubedsm.app.prometheus import Answers, Failure, Vector
from kubedsm.config.load_aware import LoadAware
from kubedsm.explain.listener import LoadResult
from kubedsm.model.measured import Measured
from kubedsm.model.snapshot import Snapshot

#: periods after which what was measured says nothing about now
STALE = 3
NOTHING = "nothing there; with an empty query it is not asked for"
ELSEWHERE = "no series is of a node or pod of this cluster"
#: causes, and queries of each, that are told of
_TOLD = 3


@attrs.frozen
class Known:
    """What a query said that is of some use, and when, in seconds since the epoch."""

    query: str
    vector: Vector
    at: float


@attrs.frozen
class Round:
    #: by query, as all that follows
    known: Mapping[str, Known]
    results: Mapping[str, LoadResult]
    #: why something is of no use
    wrong: Mapping[str, str]
    measured: Measured

    @property
    def news(self) -> bool:
        """Whether any of what is known is of this round."""
        return any(each.at == self.measured.at for each in self.known.values())

    def in_a_line(self, missing: Iterable[str]) -> str:
        """Why these queries say nothing, and what comes of it; empty if there are none."""
        by_cause: dict[str, list[str]] = {}
        for name in sorted(missing):
            by_cause.setdefault(self.wrong.get(name, ""), []).append(name)
        causes = [
            f"{', '.join(names[:_TOLD])}{' and others' * (len(names) > _TOLD)}: {why}"
            for why, names in list(by_cause.items())[:_TOLD]
        ]
        placed = "" if self.measured.nodes else "; pods are placed by their requests"
        return f"{'; '.join(causes)}{placed}" if causes else ""


def taken_in(
    load: LoadAware,
    queries: Mapping[str, str],
    before: Mapping[str, Known],
    snapshot: Snapshot,
    now: Callable[[], float],
    answers: Answers,
) -> Round:
    """What the answers come to. Looks at values only, so that any thread may do it."""
    at, oldest = now(), STALE * load.period
    known = {
        name: was
        for name, was in before.items()
        if was.query == queries.get(name) and at - was.at <= oldest
    }
    results: dict[str, LoadResult] = {}
    wrong: dict[str, str] = {}
    for name, answer in answers.items():
        if isinstance(answer, Failure):
            results[name], wrong[name] = "failed", answer.reason
            continue
        vector, unusable = usable(answer, at, oldest)
        results[name], why = _heard(vector, unusable)
        if why:
            wrong[name] = why
        if vector or name in OPTIONAL:
            known[name] = Known(queries[name], vector, at)
    vectors = {name: each.vector for name, each in known.items()}
    reading = read(vectors, snapshot, load.node_label, at)
    for name in [name for name, each in known.items() if each.at == at and each.vector]:
        result, why = _placed(reading, name)
        if result is not None:
            results[name], wrong[name] = result, why
        if result == "empty" and name not in OPTIONAL:
            del known[name]
    answered = min((known[name].at for name in OPTIONAL if name in known), default=at)
    measured = attrs.evolve(reading.measured, window=load.window, answered=answered)
    return Round(known, results, wrong, measured)


def _heard(vector: Vector, unusable: str) -> tuple[LoadResult, str]:
    """What an answer is by itself, with what is wrong with it."""
    if unusable:
        return "partial" if vector else "empty", f"not used: {unusable}"
    return ("answered", "") if vector else ("empty", NOTHING)


def _placed(reading: Reading, name: str) -> tuple[LoadResult | None, str]:
    """What it is by what it is about; None if that is as it should be."""
    used, doubled = reading.used[name], reading.doubled[name]
    if doubled:
        why = f"not used: {doubled} that have several series"
        return "partial" if used else "empty", why
    return (None, "") if used else ("empty", ELSEWHERE)
