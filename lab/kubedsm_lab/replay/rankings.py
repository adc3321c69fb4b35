"""Rankings of policies by one measurement each, and tables of such rankings."""

import enum
import math
from collections.abc import Mapping, Sequence

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.tables import UNKNOWN, Table

#: digits of a measurement
_DIGITS = 4
#: percent above which a difference is shown as a multiple
_TIMES = 100


class Place(enum.Enum):
    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"


@attrs.frozen
class Difference:
    """Difference between KubeDSM's measurement and that of the best other policy."""

    other: str
    ours: float
    theirs: float
    place: Place

    @property
    def by(self) -> float:
        """Return KubeDSM's measurement minus the best competitor's, in the measurement's unit."""
        return self.ours - self.theirs

    @property
    def percent(self) -> float | None:
        """Return the difference in percent of the best competitor's measurement; None if the latter
        is 0.
        """
        return 100 * self.by / abs(self.theirs) if self.theirs else None

    def shown(self, unit: str) -> str:
        by = f"{self.by:+.{_DIGITS}g} {unit}".rstrip() if self.by else "0"
        if not self.by or self.percent is None:
            return by
        if self.percent >= _TIMES:
            return f"{by} ({self.ours / self.theirs:.1f} times)"
        return f"{by} ({self.percent:+.1f} %)"


@attrs.frozen
class Ranking:
    """Ranking of policies by one measurement, such as p95 latency in ms."""

    #: name of the measurement
    what: str
    #: such as `ms`; empty for a share or an index
    unit: str
    less_is_better: bool
    #: finite values by policy
    values: Mapping[str, float] = attrs.field()
    #: relative difference within which two policies are level
    noise: float = 0.0
    #: policy that is compared with the best of the others
    ours: str = KUBEDSM

    @values.validator
    def _finite(self, _: object, values: Mapping[str, float]) -> None:
        if not all(map(math.isfinite, values.values())):
            raise ValueError(f"{self.what}: a figure is not finite")

    @property
    def ranked(self) -> list[str]:
        """Return the policies in order of the measurement, best first."""
        return sorted(self.values, key=self.values.__getitem__, reverse=not self.less_is_better)

    @property
    def can_differ(self) -> bool:
        """Return whether any two policies have different values."""
        return len(set(self.values.values())) > 1

    @property
    def winners(self) -> list[str]:
        """Return the best policy and all policies that differ from the best by no more than the
        noise.
        """
        return [name for name in self.ranked if self._is_level(name, self.ranked[0])]

    @property
    def difference(self) -> Difference | None:
        """Return the difference between KubeDSM and the best competitor; None if either has no
        value.
        """
        others = [name for name in self.ranked if name != self.ours]
        if not others or self.ours not in self.values:
            return None
        best, better = others[0], self.ranked[0] == self.ours
        place = Place.AHEAD if better else Place.BEHIND
        if self._is_level(self.ours, best):
            place = Place.LEVEL
        return Difference(best, self.values[self.ours], self.values[best], place)

    def _is_level(self, one: str, other: str) -> bool:
        both = self.values[one], self.values[other]
        return abs(both[0] - both[1]) <= self.noise * max(map(abs, both))

    def shown(self, value: float) -> str:
        return f"{_format_figure(value)} {self.unit}".rstrip()


def _format_figure(value: float) -> str:
    """Format a number with four significant digits."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (_DIGITS - 1) else f"{value:.{_DIGITS}g}"


def ours_and_best(rankings: Sequence[Ranking]) -> Table:
    """Return a table with one line per measurement: KubeDSM's value, the best competitor's, and the
    difference.
    """
    lines = [
        [
            each.what,
            f"{each.ours}: {each.shown(found.ours)}",
            f"{found.other}: {each.shown(found.theirs)}",
            found.shown(each.unit),
            found.place.value,
        ]
        for each in rankings
        if (found := each.difference) is not None
    ]
    return ["figure", "KubeDSM", "best other", "difference", "KubeDSM is"], lines


def everyone(rankings: Sequence[Ranking]) -> Table:
    """Return a table with one line per measurement and one column per policy; the best values are
    bold.
    """
    names = list(dict.fromkeys(name for each in rankings for name in each.values))
    lines = [
        [
            f"{each.what}, {each.unit}".removesuffix(", "),
            *(_mark_winner(each, name) for name in names),
            f"{100 * each.noise:.3g} %",
        ]
        for each in rankings
        if each.values
    ]
    return ["figure", *names, "level within"], lines


def _mark_winner(ranking: Ranking, name: str) -> str:
    if name not in ranking.values:
        return UNKNOWN
    shown = _format_figure(ranking.values[name])
    return f"**{shown}**" if name in ranking.winners else shown
