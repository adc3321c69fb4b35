"""Where a configuration comes from while the scheduler runs: a file, or a ConfigMap.

A good one holds at once. Of a bad one, or none, only the reason is told, and told once; the last
good one goes on holding.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration, in_a_line
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import KEY, text_at
from kubedsm.kube.calls.verbs import get_config_map
from kubedsm.kube.client.port import Cluster, NotFound
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.process.clock import Clock

log = structlog.get_logger()

#: seconds between two looks at a file; what differs is read when it has stayed so for one of them
POLL = 0.5
TIMEOUT = 10.0


async def said_in(cluster: Cluster, name: ConfigMapName) -> tuple[str, str]:
    """The configuration's text in the ConfigMap, and what to call its source.

    If there is none, that is said, and the defaults hold. Raises ClusterError, WireError.
    """
    source = f"ConfigMap {name}, {KEY}"
    try:
        found = await get_config_map(cluster, name.namespace, name.name, timeout=TIMEOUT)
    except NotFound:
        found = None
    if found is None or KEY not in found.data:
        log.warning("no configuration, the defaults hold", source=source)
        return "", source
    return found.data[KEY], source


@attrs.define
class ConfigurationNews:
    """What becomes of a document that is to hold from now on."""

    configuration: CurrentConfiguration
    clock: Clock

    def given(self, text: str | bytes, source: str) -> str:
        """Have it hold; why it does not, if that is news, in one line."""
        before = self.configuration.refusal
        try:
            changed = self.configuration.replace(text, source, self.clock.wall())
        except DocumentError:
            return self._news(before)
        if changed or before:
            log.info(
                "configuration taken",
                generation=self.configuration.generation,
                changed=in_a_line(changed) or "nothing",
                source=source,
            )
        return ""

    def missing(self, why: str) -> str:
        """There is none any more; why, if that is news."""
        before = self.configuration.refusal
        self.configuration.refuse(why)
        return self._news(before)

    def _news(self, before: str) -> str:
        why = self.configuration.refusal
        if why == before:
            return ""
        log.warning("configuration refused", error=why, kept=self.configuration.generation)
        return why


@attrs.define
class ConfigMapConfiguration:
    name: ConfigMapName
    news: ConfigurationNews
    #: hears why the configuration in the ConfigMap does not hold
    on_refused: Callable[[ConfigMap, str], None]
    _last: ConfigMap | None = attrs.field(default=None, init=False)

    def take(self, found: ConfigMap | None) -> None:
        """Have the configuration hold that is in the ConfigMap, if there is one."""
        if found is not None:
            self._last = found
        source = f"ConfigMap {self.name}"
        if found is None:
            why = self.news.missing(f"{source}: not there")
        elif KEY not in found.data:
            why = self.news.missing(f"{source}: has no key {KEY}")
        else:
            why = self.news.given(found.data[KEY], f"{source}, {KEY}")
        if why and self._last is not None:
            self.on_refused(self._last, why)


@attrs.define
class ConfigurationFile:
    """A file, a mounted one too: where a ConfigMap is mounted, a link to it is exchanged."""

    path: Path
    news: ConfigurationNews

    async def run(self) -> NoReturn:
        """Follow it for ever."""
        read: object = None
        before = _state(self.path)
        while True:
            await self.news.clock.sleep(POLL)
            now = _state(self.path)
            if now == before != read:
                self._read()
                read = now
            before = now

    def _read(self) -> None:
        try:
            text, source = text_at(self.path)
        except DocumentError as error:
            self.news.missing(str(error))
        else:
            self.news.given(text, source)


def _state(path: Path) -> object:
    """Differs when the file does, or another is in its place."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
