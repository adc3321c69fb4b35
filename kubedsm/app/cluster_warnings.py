"""Warnings about annotations, configuration and response times, each logged once per cause."""

from collections.abc import Callable
from typing import NoReturn

import attrs
import structlog

from kubedsm.config.mismatches import (
    TOLD,
    list_unknown_sites,
    list_unmatched,
    missing_tiers,
    why_unmatched,
)
from kubedsm.config.services import EVERY_SERVICE
from kubedsm.events.controller import Controller, Handle
from kubedsm.events.event_writer import WorkloadEvents
from kubedsm.explain.event_notes import Note
from kubedsm.model.events import Change
from kubedsm.model.measured import Measured
from kubedsm.model.model import Tier, Workload
from kubedsm.planner.plurals import short_number
from kubedsm.process.log_throttle import LogThrottle

log = structlog.get_logger()

#: seconds between comparisons of configuration and cluster
PERIOD = 15.0
#: seconds before an unmatched key is reported
GRACE = 60.0


class IgnoredAnnotations:
    """Report invalid tenant annotations on pods by Events."""

    def __init__(self, handle: Handle) -> None:
        self._scheduler_name = handle.configuration.current.scheduler_name
        # A separate rate limiter: no tenant exhausts the log lines of other tenants.
        self._throttle = LogThrottle(handle.clock)
        self._recorder = handle.recorder

    def observe(self, change: Change) -> None:
        before, pod = change.pod_before, change.pod_after
        if pod is None or pod.wishes is None or pod.scheduler_name != self._scheduler_name:
            return
        if before is not None and before.wishes == pod.wishes:
            return
        for why in pod.wishes.ignored:
            if (
                self._throttle.count_suppressed("annotation ignored", f"{pod.workload} {why}")
                is not None
            ):
                self._recorder.record_event("AnnotationIgnored", pod, why)


@attrs.define
class MismatchWarnings(Controller):
    """Warn about edge and cloud tiers without nodes, and about keys of the configuration's
    `services` without a matching workload.

    A tier without nodes is reported immediately. A key is reported after `GRACE`, since workloads
    may follow the configuration. A formerly matching key is no warning: the workload may be scaled
    to zero.
    """

    #: callback for unmatched keys, and demand at unknown sites
    on_unmatched: Callable[[str], None]
    _missing: dict[Tier, str] = attrs.field(factory=dict, init=False)
    #: monotonic time at which a key became unmatched
    _since: dict[str, float] = attrs.field(factory=dict, init=False)
    #: reported keys; False: the end is reported as well
    _told: dict[str, bool] = attrs.field(factory=dict, init=False)
    #: previously matching keys
    _matched: set[str] = attrs.field(factory=set, init=False)
    #: monotonic time since which a site with demand is unknown
    _unknown: dict[str, float] = attrs.field(factory=dict, init=False)
    _told_sites: set[str] = attrs.field(factory=set, init=False)

    async def run(self) -> NoReturn:
        """Compare the configuration with the cluster until cancelled, once the mirror is synced."""
        while True:
            self._check_tiers()
            await self._check_services()
            self._check_sites()
            await self.clock.sleep(PERIOD)

    def _check_tiers(self) -> None:
        missing = missing_tiers(self.mirror.nodes(), self.configuration.current.tiers)
        for text in dict.fromkeys(t for tier, t in missing.items() if tier not in self._missing):
            log.warning("tier without nodes", error=text)
        for tier in self._missing.keys() - missing.keys():
            log.info("tier has nodes", tier=tier.value)
        self._missing = missing

    async def _check_services(self) -> None:
        services, now = self.configuration.current.services, self.clock.monotonic()
        keys = services.keys() - {EVERY_SERVICE}
        snapshot = self.mirror.snapshot()
        missed = list_unmatched(services, snapshot.census.shares)
        self._matched = (self._matched & keys) | (keys - set(missed))
        self._since = {key: self._since.get(key, now) for key in missed}
        self._told = {key: told for key, told in self._told.items() if key in keys}
        for key in sorted(self._told):
            if self._told[key] and key not in self._since:
                self._told[key] = False
                log.info("service matches", key=key)
        due = [key for key in missed if now - self._since[key] >= GRACE and key not in self._told]
        wrong: list[str] = []
        for key in due[:TOLD]:
            self._told[key] = True
            if key in self._matched:
                log.info("service no longer matches", key=key)
                continue
            wrong.append(why_unmatched(key, snapshot))
            log.warning("service without match", error=wrong[-1])
            await self.clock.sleep(0)  # the search for similar names takes time
        if wrong:
            self.on_unmatched("; ".join(wrong))

    def _check_sites(self) -> None:
        lines = list_unknown_sites(self.mirror.snapshot(), self.configuration.current)
        now = self.clock.monotonic()
        self._unknown = {site: self._unknown.get(site, now) for site in lines}
        due = {site for site, since in self._unknown.items() if now - since >= GRACE}
        for site in sorted(due - self._told_sites)[:TOLD]:
            log.warning("demand at an unknown site", error=lines[site])
            self.on_unmatched(lines[site])
        self._told_sites = due


@attrs.frozen(slots=True)
class SlowerEdges:
    """Warn about workloads whose requests take longer at the edge than in the cloud.

    `objective.qos_targets` decides the consequences.
    """

    events: WorkloadEvents

    def observe(self, change: Change) -> None:
        before, after = change.measured_before, change.measured_after
        if before is None or after is None:
            return
        for workload in sorted(before.slower ^ after.slower):
            note = _note_comparison(workload, after)
            log.info("edge compared", workload=str(workload), reason=note.reason, note=note.text)
            self.events.add_note(workload, note)


def _note_comparison(workload: Workload, sample: Measured) -> Note:
    answers = sample.answers.get(workload, {})
    times = " and ".join(
        f"{short_number(1000 * answers[tier].seconds)} ms {where}"
        for tier, where in ((Tier.EDGE, "at the edge"), (Tier.CLOUD, "in the cloud"))
        if tier in answers
    )
    reason, text = (
        "EdgeFasterAgain",
        f"Requests take {times}: the edge share follows the QoS target",
    )
    if workload in sample.slower:
        reason = "EdgeSlower"
        text = f"Requests take {times}: no more pods are migrated to the edge"
    elif len(answers) < len(Tier):
        reason = "EdgeNotCompared"
        text = "Response times are no longer measured: the edge share follows the QoS target"
    return Note(reason, text, warning=workload in sample.slower, action="Comparing")
