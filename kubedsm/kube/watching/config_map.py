"""Reflector of one ConfigMap: configuration, pause switch, or migration requests."""

import random
from collections.abc import Callable
from typing import NoReturn

import structlog

from kubedsm.kube.client.port import Cluster, ObjectName
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.wire.decoding import ConfigMap, watch_config_map
from kubedsm.process.clock import Clock

log = structlog.get_logger()


class FollowedConfigMap:
    def __init__(
        self,
        cluster: Cluster,
        name: ObjectName,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.name = name
        #: last reported state
        self.found: ConfigMap | None = None
        self._observers: list[Callable[[ConfigMap | None], None]] = []
        #: number of malformed states at the last readable state
        self._unread = 0
        self._reflector = Reflector(
            cluster,
            watch_config_map(name.namespace, name.name),
            clock,
            rng,
            self._update_state,
            self._note_list,
            log.warning,
        )

    def observe(self, observer: Callable[[ConfigMap | None], None]) -> None:
        """Register a callback for the ConfigMap's current and every later state; the argument is
        None while the ConfigMap is absent.
        """
        self._observers.append(observer)

    async def run(self) -> NoReturn:
        """List and watch the ConfigMap until cancelled."""
        await self._reflector.run()

    @property
    def known(self) -> bool:
        """Return True if `found` is the current state of the ConfigMap, as far as the API server
        reports it.
        """
        return self._reflector.following and not self._unreadable

    @property
    def trouble(self) -> str:
        """Return the current or last error of list or watch; empty if there is none."""
        return self._reflector.statistics.trouble

    @property
    def _unreadable(self) -> bool:
        return self._reflector.statistics.malformed > self._unread

    def _update_state(self, found: ConfigMap | None) -> None:
        self._unread = self._reflector.statistics.malformed
        self.found = found
        for observer in self._observers:
            observer(found)

    def _note_list(self) -> None:
        if self.found is None and not self._unreadable:
            self._update_state(None)
