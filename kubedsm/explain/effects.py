"""Whether a move helped: what it was expected to bring, and what it brought.

Both of the mean response time of the service that it is of. Seconds, all times.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

import attrs

from kubedsm.explain.explanation import EffectAnswer
from kubedsm.model.measured import Answers
from kubedsm.model.model import Share, Tier
from kubedsm.objective.qos_targets import ResponseTimes


@attrs.frozen(slots=True)
class Response:
    """What a service answered in, as measured in one sample."""

    #: a request of any tier, so that each counts by how many it answers
    whole: float
    tiers: Mapping[Tier, float]

    @classmethod
    def of(cls, answers: Mapping[Tier, Answers]) -> Self:
        """Raise ZeroDivisionError if there are no requests."""
        rate = sum(each.rate for each in answers.values())
        whole = sum(each.rate * each.seconds for each in answers.values()) / rate
        return cls(whole, {tier: answers[tier].seconds for tier in Tier if tier in answers})

    def as_json(self) -> dict[str, float]:
        return {"all": self.whole, **{tier.value: each for tier, each in self.tiers.items()}}


@attrs.frozen(slots=True)
class Effect:
    """Of one move."""

    #: by the service's shares and by what the tiers were known to answer in when it began
    expected: tuple[float, float]
    #: before it began, and wholly after it ended; None if that is not known
    measured: tuple[Response, Response] | None = None
    #: why it is not
    untold: str = ""
    #: of how many moves of the service that were under way at one time
    together: int = 1

    @property
    def change(self) -> float | None:
        """By how much longer the mean answer took then, for each of the moves."""
        if self.measured is None:
            return None
        before, after = self.measured
        return (after.whole - before.whole) / self.together

    def __str__(self) -> str:
        of = f" of {self.together} moves together" if self.together > 1 else ""
        expected = f"expected{of} {_change(*self.expected)} ms"
        if self.measured is None:
            return f"{expected}; not measured: {self.untold}"
        before, after = self.measured
        tiers = [
            f"{tier} {_change(before.tiers[tier], after.tiers[tier])}"
            for tier in Tier
            if tier in before.tiers and tier in after.tiers
        ]
        by_tier = f" ({', '.join(tiers)})" if len(tiers) > 1 else ""
        return f"{expected}; measured {_change(before.whole, after.whole)} ms{by_tier}"

    def as_json(self) -> dict[str, Any]:
        """In seconds; `measured` is null where `untold` says why."""
        measured = None
        if self.measured is not None:
            measured = _around(*(response.as_json() for response in self.measured))
        return {
            "expected": _around(*self.expected),
            "measured": measured,
            "untold": self.untold or None,
            "together": self.together,
        }


def _around(before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after}


def expected(times: ResponseTimes, share: Share, more: int) -> tuple[float, float]:
    """The mean response time of a service, and that with so many more pods on the edge."""

    def mean(part: float) -> float:
        return part * times.edge + (1 - part) * times.cloud

    return mean(share.ratio), mean(attrs.evolve(share, edge=share.edge + more).ratio)


def summed_up(effects: Iterable[EffectAnswer]) -> dict[str, Any]:
    """What moves brought together, for a report: of their effects, as `/decisions` has them.

    The means are of the moves whose effect was measured, an equal part each of what was done
    together; None if there are none.
    """
    listed = list(effects)
    told = [(each, each.measured) for each in listed if each.measured is not None]

    def mean(changes: Iterable[float]) -> float | None:
        return sum(changes) / len(told) if told else None

    return {
        "moves": len(listed),
        "measured": len(told),
        "expectedChange": mean(
            (each.expected.after - each.expected.before) / each.together for each, _ in told
        ),
        "measuredChange": mean(
            (brought.after.all - brought.before.all) / each.together for each, brought in told
        ),
        "untold": dict(sorted(Counter(each.untold for each in listed if each.untold).items())),
    }


def _change(before: float, after: float) -> str:
    return f"{_milliseconds(before)} -> {_milliseconds(after)}"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"
