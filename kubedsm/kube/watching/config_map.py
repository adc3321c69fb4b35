"""A ConfigMap as it is now, by list and watch: the scheduler's own, for all that is read in it."""

import random
from collections.abc import Callable
from typing import NoReturn, Self

import attrs
import structlog

from kubedsm.kube.calls.permissions import APPROVALS
from kubedsm.kube.client.paths import is_name
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.watching.watched import config_map
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.process.clock import Clock

log = structlog.get_logger()


@attrs.frozen(slots=True)
class ConfigMapName:
    namespace: str
    name: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Raise ValueError if it is none."""
        namespace, _, name = text.partition("/")
        if not (is_name(namespace) and is_name(name)):
            raise ValueError(f"{text} is no namespace and name, such as kubedsm/kubedsm")
        return cls(namespace, name)

    @property
    def approvals(self) -> "ConfigMapName":
        """The ConfigMap next to the configuration where proposals are approved.

        An object of its own, since whoever may patch annotations may patch the data as well.
        """
        return ConfigMapName(self.namespace, f"{self.name}{APPROVALS}")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class FollowedConfigMap:
    def __init__(
        self,
        cluster: Cluster,
        name: ConfigMapName,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.name = name
        #: as it was told last
        self.found: ConfigMap | None = None
        self._observers: list[Callable[[ConfigMap | None], None]] = []
        #: states that could not be read, when one could be
        self._unread = 0
        self._reflector = Reflector(
            cluster,
            config_map(name.namespace, name.name),
            clock,
            rng,
            self._changed,
            self._listed,
            log.warning,
        )

    def observe(self, observer: Callable[[ConfigMap | None], None]) -> None:
        """Have it called with each state, with the first one too; None: there is none."""
        self._observers.append(observer)

    async def run(self) -> NoReturn:
        """Follow it for ever."""
        await self._reflector.run()

    @property
    def known(self) -> bool:
        """Whether it is now as `found` says, as far as the API server tells us anything."""
        return self._reflector.following and not self._unreadable

    @property
    def trouble(self) -> str:
        """What is wrong with following it now, or was last; empty if nothing is."""
        return self._reflector.statistics.trouble

    @property
    def _unreadable(self) -> bool:
        return self._reflector.statistics.malformed > self._unread

    def _changed(self, found: ConfigMap | None) -> None:
        self._unread = self._reflector.statistics.malformed
        self.found = found
        for observer in self._observers:
            observer(found)

    def _listed(self) -> None:
        if self.found is None and not self._unreadable:
            self._changed(None)
