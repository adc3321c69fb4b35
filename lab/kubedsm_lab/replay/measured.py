"""The means of a report, to be looked up by scenario and policy."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from kubedsm_lab.replay.presets import PAPER_SCENARIOS
from kubedsm_lab.replay.published import THE_PAPERS, Published

Row = Mapping[str, Any]


@attrs.frozen
class Measured:
    rows: Mapping[tuple[str, str], Row]
    #: what stands beside it
    published: Published = THE_PAPERS

    @classmethod
    def of(cls, means: Iterable[Row], published: Published = THE_PAPERS) -> "Measured":
        return cls({(row["scenario"], row["policy"]): row for row in means}, published)

    @property
    def scenarios(self) -> list[str]:
        """Those of the paper that were played."""
        return [name for name in PAPER_SCENARIOS if self.has(name)]

    def has(self, scenario: str) -> bool:
        return any(name == scenario for name, _ in self.rows)

    def played(self, policies: Iterable[str]) -> list[str]:
        """Those of the policies that were played in the paper's scenarios."""
        played = {policy for scenario, policy in self.rows if scenario in PAPER_SCENARIOS}
        return [name for name in policies if name in played]

    def row(self, scenario: str, policy: str) -> Row | None:
        return self.rows.get((scenario, policy))

    def value(self, scenario: str, policy: str, key: str) -> float | None:
        row = self.row(scenario, policy)
        return None if row is None else row[key]

    def longer(
        self,
        scenario: str,
        policy: str,
        reference: str,
        service: str | None = None,
        part: str = "mean",
    ) -> float | None:
        """Percent of the reference's response time that the policy's is longer; None if unknown.

        service: that of all requests without one. part: `mean`, or `network` for what of it the
        network takes.
        """
        ours, theirs = (self._time(scenario, name, service, part) for name in (policy, reference))
        return None if ours is None or theirs is None else 100 * (ours / theirs - 1)

    def _time(self, scenario: str, policy: str, service: str | None, part: str) -> float | None:
        row = self.row(scenario, policy)
        if row is None:
            return None
        times = row["overallLatencyMs"] if service is None else row["latencyMs"].get(service)
        return None if times is None else times[part]


def mean(values: Sequence[float | None]) -> float | None:
    """Of what is known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def percent(value: float | None) -> str:
    # adding 0 takes the sign of a zero that something below it was rounded to
    return "-" if value is None else f"{round(value, 1) + 0.0:+.1f} %"
