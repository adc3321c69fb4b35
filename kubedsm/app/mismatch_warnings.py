"""Warnings of what the configuration speaks of and the cluster has not.

A tier without nodes is told at once; a key of `services` that matches nothing, when it has done so
for a while: workloads may come after their configuration. Each is told once, and when it is over. A
key that has matched before is no warning: its workload may rest.
"""

from collections.abc import Callable
from typing import NoReturn

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.mismatches import TOLD, missing_tiers, unmatched, why_unmatched
from kubedsm.config.services import EVERY_SERVICE
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier
from kubedsm.process.clock import Clock

log = structlog.get_logger()

#: seconds between two looks
PERIOD = 15.0
#: seconds that a key may match nothing before it is told
GRACE = 60.0


@attrs.define
class MismatchWarnings:
    mirror: ClusterMirror
    configuration: CurrentConfiguration
    clock: Clock
    #: hears of keys that match nothing, for those who wrote them
    on_unmatched: Callable[[str], None]
    _missing: dict[Tier, str] = attrs.field(factory=dict, init=False)
    #: on the clock: since when these keys match nothing
    _since: dict[str, float] = attrs.field(factory=dict, init=False)
    #: of these it was told that they match nothing; and, False, that this is over
    _told: dict[str, bool] = attrs.field(factory=dict, init=False)
    #: they have matched at some time
    _matched: set[str] = attrs.field(factory=set, init=False)

    async def run(self) -> NoReturn:
        """Look for ever, once all is known."""
        while True:
            self._look_at_tiers()
            await self._look_at_services()
            await self.clock.sleep(PERIOD)

    def _look_at_tiers(self) -> None:
        missing = missing_tiers(self.mirror.nodes(), self.configuration.current.tiers)
        for text in dict.fromkeys(t for tier, t in missing.items() if tier not in self._missing):
            log.warning("tier without nodes", error=text)
        for tier in self._missing.keys() - missing.keys():
            log.info("tier has nodes", tier=tier.value)
        self._missing = missing

    async def _look_at_services(self) -> None:
        services, now = self.configuration.current.services, self.clock.monotonic()
        keys = services.keys() - {EVERY_SERVICE}
        if not keys:
            return
        snapshot = self.mirror.snapshot()
        missed = unmatched(services, snapshot.shares())
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
                log.info("service matches nothing any more", key=key)
                continue
            wrong.append(why_unmatched(key, snapshot))
            log.warning("service matches nothing", error=wrong[-1])
            await self.clock.sleep(0)  # to look for names that are alike takes its time
        if wrong:
            self.on_unmatched("; ".join(wrong))
