"""Live configuration from a file or a ConfigMap, and the pause switch.

A valid document takes effect at once. For an invalid or missing document only the reason is
reported, once; the last valid configuration stays in effect.
"""

import random
from functools import partial
from pathlib import Path
from typing import NoReturn

import attrs
import structlog

from kubedsm.app.pause_switch import PauseSwitch
from kubedsm.config.current import CurrentConfiguration, in_a_line
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import KEY, list_deprecated, text_at
from kubedsm.events.controller import Handle
from kubedsm.kube.calls.reads import get_config_map
from kubedsm.kube.client.port import Cluster, ObjectName
from kubedsm.kube.watching.config_map import FollowedConfigMap
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Work

log = structlog.get_logger()

#: seconds between two polls of a file; reading waits for an unchanged period
POLL = 0.5


async def find_document_in(cluster: Cluster, name: ObjectName) -> tuple[str | None, str]:
    """Return the configuration document in the ConfigMap, None without one, and the source's name
    for messages. Raises ClusterError.
    """
    found = await get_config_map(cluster, name)
    return None if found is None else found.data.get(KEY), f"ConfigMap {name}, {KEY}"


@attrs.define
class ConfigurationNews:
    """Applies changed configuration documents to the running scheduler, and logs whether each is
    accepted or refused.
    """

    configuration: CurrentConfiguration
    clock: Clock
    #: last warnings about deprecated keys
    _deprecated: list[str] = attrs.field(factory=list, init=False)

    def apply_document(self, text: str | bytes, source: str) -> str:
        """Apply a configuration document; if refused for a new reason, return the reason."""
        before = self.configuration.refusal
        try:
            changed = self.configuration.replace(text, source, self.clock.wall())
        except DocumentError:
            return self._log_refusal(before)
        deprecated = list_deprecated(text)
        for line in deprecated if deprecated != self._deprecated else ():
            log.warning("configuration key deprecated", key=line, source=source)
        self._deprecated = deprecated
        if changed or before:
            log.info(
                "configuration applied",
                generation=self.configuration.generation,
                changed=in_a_line(changed) or "nothing",
                source=source,
            )
        return ""

    def note_missing(self, why: str) -> str:
        """Record that the configuration document is missing; return the reason if new."""
        before = self.configuration.refusal
        self.configuration.refuse(why)
        return self._log_refusal(before)

    def _log_refusal(self, before: str) -> str:
        why = self.configuration.refusal
        if why == before:
            return ""
        log.warning("configuration refused", error=why, kept=self.configuration.generation)
        return why


@attrs.define
class ConfigurationFile:
    """Poller of a configuration file, including a mounted ConfigMap that the kubelet exchanges by
    symbolic link.
    """

    path: Path
    news: ConfigurationNews

    async def run(self) -> NoReturn:
        """Poll the configuration file until cancelled."""
        read: object = None
        before = file_state(self.path)
        while True:
            await self.news.clock.sleep(POLL)
            now = file_state(self.path)
            if now == before != read:
                self._read_file()
                read = now
            before = now

    def _read_file(self) -> None:
        try:
            text, source = text_at(self.path)
        except DocumentError as error:
            self.news.note_missing(str(error))
        else:
            self.news.apply_document(text, source)


def file_state(path: Path) -> object:
    """Return a fingerprint of the file, different after each change or replacement."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


class LiveConfiguration:
    """Follow the configuration source (a file or ConfigMap), and the pause switch.

    The pause switch is in the source's ConfigMap, or else in `kubedsm`.
    """

    def __init__(
        self,
        handle: Handle,
        source: Path | ObjectName | None,
        namespace: str,
        rng: random.Random,
    ) -> None:
        recorder = handle.recorder
        self._is_source = isinstance(source, ObjectName)
        name = source if isinstance(source, ObjectName) else ObjectName(namespace, "kubedsm")
        self.config_map = FollowedConfigMap(handle.cluster, name, handle.clock, rng)
        #: followed by the loop that takes requests
        self.approvals = FollowedConfigMap(handle.cluster, name.approvals, handle.clock, rng)
        self._recorder = recorder
        self._news = ConfigurationNews(handle.configuration, handle.clock)
        #: last existing state of the ConfigMap, for Events
        self._last: ConfigMap | None = None
        if self._is_source:
            self.config_map.observe(self._apply_state)
        self.pause_switch = PauseSwitch(
            self.config_map, handle.throttle, partial(recorder.record_event, "PauseSwitchRefused")
        )
        self.loops: list[tuple[str, Work]] = [("config map", self.config_map.run)]
        if isinstance(source, Path):
            self.loops.append(("configuration", ConfigurationFile(source, self._news).run))

    def report_unmatched(self, text: str) -> None:
        """Write an Event on the ConfigMap: keys of its `services` section name workloads that do
        not exist.
        """
        found = self.config_map.found
        if found is not None and self._is_source:
            self._recorder.record_event("ServicesUnmatched", found, text)

    def _apply_state(self, found: ConfigMap | None) -> None:
        source = f"ConfigMap {self.config_map.name}"
        if found is None:
            why = self._news.note_missing(f"{source}: not there")
        elif KEY not in found.data:
            why = self._news.note_missing(f"{source}: has no key {KEY}")
        else:
            why = self._news.apply_document(found.data[KEY], f"{source}, {KEY}")
        self._last = found or self._last
        if why and self._last is not None:
            self._recorder.record_event("ConfigurationRefused", self._last, why)
