"""Effect of a migration on its service's mean response time: expected and measured, in seconds."""

from collections.abc import Mapping
from typing import Annotated, Generic, Self, TypeVar

import msgspec

from kubedsm.model.measured import Answers
from kubedsm.model.model import Share, Tier
from kubedsm.objective.qos_targets import ResponseTimes
from kubedsm.planner.plurals import short_number

T = TypeVar("T")


class Around(msgspec.Struct, Generic[T], frozen=True):
    """Pair of values, such as response times, before and after a decision or migration."""

    before: T
    after: T


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """Mean response time of a service in seconds: over all requests, and by tier."""

    all: float
    edge: float | None = None
    cloud: float | None = None

    @classmethod
    def of(cls, answers: Mapping[Tier, Answers]) -> Self:
        """Average over tiers by request rate. Raise ZeroDivisionError without requests."""
        rate = sum(each.rate for each in answers.values())
        whole = sum(each.rate * each.seconds for each in answers.values()) / rate
        return cls(whole, **{tier.value: each.seconds for tier, each in answers.items()})


class Effect(msgspec.Struct, frozen=True):
    """Expected and measured effect of one migration on the service's mean response time."""

    #: from the edge share and the tiers' response times known when the migration began
    expected: Around[float]
    #: before the migration began, and entirely after it ended; None if not measured
    measured: Around[Response] | None = None
    #: reason why the effect was not measured
    untold: str | None = None
    #: simultaneous migrations of the same service
    together: Annotated[int, msgspec.Meta(ge=1)] = 1

    @property
    def change(self) -> float | None:
        """Measured change of the mean response time in seconds, divided equally among simultaneous
        migrations of a service.
        """
        if self.measured is None:
            return None
        return (self.measured.after.all - self.measured.before.all) / self.together

    @property
    def expected_change(self) -> float:
        """Expected change of the mean response time in seconds, divided equally among simultaneous
        migrations of a service.
        """
        return (self.expected.after - self.expected.before) / self.together

    def __str__(self) -> str:
        together = f" of {self.together} migrations together" if self.together > 1 else ""
        expected = (
            f"expected{together} {_format_change(self.expected.before, self.expected.after)} ms"
        )
        if self.measured is None:
            return f"{expected}; not measured: {self.untold}"
        before, after = self.measured.before, self.measured.after
        pairs = [("edge", before.edge, after.edge), ("cloud", before.cloud, after.cloud)]
        tiers = [
            f"{tier} {_format_change(was, now)}"
            for tier, was, now in pairs
            if was is not None and now is not None
        ]
        by_tier = f" ({', '.join(tiers)})" if len(tiers) > 1 else ""
        return f"{expected}; measured {_format_change(before.all, after.all)} ms{by_tier}"


def expect_change(times: ResponseTimes, share: Share, more: int) -> Around[float]:
    """Return the expected mean response time now, and with `more` pods added to the edge."""
    return Around(times.mean(share), times.mean(Share(share.edge + more, share.total)))


def _format_change(before: float, after: float) -> str:
    return f"{short_number(1000 * before)} -> {short_number(1000 * after)}"
