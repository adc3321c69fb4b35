"""Handle of controllers that are tested without the rest of a scheduler."""

import asyncio
import random

from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.controller import Handle
from kubedsm.explain.listener import Listener
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor


class SilentRecorder:
    """Recorder that writes no Events, and keeps the calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def handle_of(clock, *, cluster=None, mirror=None, configuration=None, recorder=None, timeout=10.0):
    return Handle(
        cluster,
        mirror or ClusterMirror(),
        configuration or CurrentConfiguration(),
        clock,
        asyncio.Event(),
        recorder or SilentRecorder(),
        Listener(),
        Supervisor(clock, random.Random(0)),
        LogThrottle(clock),
        timeout,
    )
