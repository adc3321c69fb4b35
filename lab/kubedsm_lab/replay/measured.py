"""Results of an evaluation by scenario and policy."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm_lab.replay.presets import PAPER_SCENARIOS, REFERENCE
from kubedsm_lab.replay.report import Report
from kubedsm_lab.replay.tables import Row, mean


@attrs.frozen
class Measured:
    """Mean results of a report by scenario and policy."""

    rows: Mapping[tuple[str, str], Row]
    #: results of each seed
    runs: Sequence[Row]

    @classmethod
    def of(cls, found: Report) -> "Measured":
        return cls({(row["scenario"], row["policy"]): row for row in found["means"]}, found["runs"])

    @property
    def scenarios(self) -> list[str]:
        """Return the scenarios of the KubeDSM paper for which this report has results."""
        return [name for name in PAPER_SCENARIOS if self.has(name)]

    def has(self, scenario: str) -> bool:
        return any(name == scenario for name, _ in self.rows)

    def list_played(self, policies: Iterable[str]) -> list[str]:
        """Return those of the given policies that have results for the paper's scenarios."""
        played = {policy for scenario, policy in self.rows if scenario in PAPER_SCENARIOS}
        return [name for name in policies if name in played]

    def row(self, scenario: str, policy: str) -> Row | None:
        return self.rows.get((scenario, policy))

    def value(self, scenario: str, policy: str, key: str) -> float | None:
        row = self.row(scenario, policy)
        return None if row is None else row[key]

    def values(self, policy: str, key: str) -> list[float | None]:
        """Return the policy's results for one measure, such as edgeRatio, one per scenario."""
        return [self.value(scenario, policy, key) for scenario in self.scenarios]

    def overall(self, policy: str, key: str) -> float | None:
        """Return the policy's mean of one measure over all scenarios; None if a scenario has no
        value.
        """
        values = self.values(policy, key)
        return None if None in values else mean(values)

    def longer(
        self,
        scenario: str,
        policy: str,
        service: str | None = None,
        part: str = "mean",
    ) -> float | None:
        """Return by how many percent the policy's response latency exceeds kube-scheduler's.

        `service=None` covers all requests; `part` is `mean`, or `network` for the network's share.
        """
        ours, theirs = (
            self._response_time(scenario, name, service, part) for name in (policy, REFERENCE)
        )
        return None if ours is None or theirs is None else 100 * (ours / theirs - 1)

    def mean_longer(
        self, policy: str, service: str | None = None, part: str = "mean"
    ) -> float | None:
        """Return by how many percent the policy's response latency exceeds kube-scheduler's, as the
        mean over all scenarios.
        """
        return mean(self.longer(name, policy, service, part) for name in self.scenarios)

    def _response_time(
        self, scenario: str, policy: str, service: str | None, part: str
    ) -> float | None:
        row = self.row(scenario, policy)
        if row is None:
            return None
        times = row["overallLatencyMs"] if service is None else row["latencyMs"].get(service)
        return None if times is None else times[part]
