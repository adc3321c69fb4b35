"""What an operator changes while the scheduler runs: its configuration, and the pause switch."""

import asyncio
import random
from pathlib import Path

from kubedsm.app.configuration_source import (
    ConfigMapConfiguration,
    ConfigurationFile,
    ConfigurationNews,
)
from kubedsm.app.pause_switch import PauseSwitch
from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.config_map import ConfigMapName, FollowedConfigMap
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor


class FollowedConfiguration:
    """The pause switch is in the ConfigMap that is the `source`; else in `kubedsm`."""

    def __init__(
        self,
        source: Path | ConfigMapName | None,
        namespace: str,
        cluster: Cluster,
        clock: Clock,
        rng: random.Random,
        configuration: CurrentConfiguration,
        recorder: EventRecorder,
        said: SaidByCause,
    ) -> None:
        name = source if isinstance(source, ConfigMapName) else ConfigMapName(namespace, "kubedsm")
        self.config_map = FollowedConfigMap(cluster, name, clock, rng)
        self._recorder = recorder
        self._file: ConfigurationFile | None = None
        self._is_source = isinstance(source, ConfigMapName)
        news = ConfigurationNews(configuration, clock)
        if isinstance(source, ConfigMapName):
            refused = recorder.configuration_refused
            self.config_map.observe(ConfigMapConfiguration(name, news, refused).take)
        elif source is not None:
            self._file = ConfigurationFile(source, news)
        self.pause_switch = PauseSwitch(self.config_map, said, recorder.pause_switch_refused)

    async def run(self, supervisor: Supervisor) -> None:
        """Follow what there is to follow, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(supervisor.keep("config map", self.config_map.run))
            if self._file is not None:
                tasks.create_task(supervisor.keep("configuration", self._file.run))

    def tell_unmatched(self, text: str) -> None:
        """Say on the ConfigMap that it names services which are not there."""
        found = self.config_map.found
        if found is not None and self._is_source:
            self._recorder.services_unmatched(found, text)
