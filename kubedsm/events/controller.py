"""Handle that the controllers of one scheduler share, as kube-scheduler's `framework.Handle`."""

import asyncio

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.explain.listener import Listener
from kubedsm.kube.client.port import Cluster
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor


@attrs.frozen(slots=True)
class Handle:
    """Access of a scheduler's controllers to their cluster, and to the observers of their activity.

    `timeout`: seconds of each API request.
    """

    cluster: Cluster
    mirror: ClusterMirror
    configuration: CurrentConfiguration
    clock: Clock
    #: set once all objects of the cluster are listed
    synced: asyncio.Event
    recorder: EventRecorder
    listener: Listener
    supervisor: Supervisor
    throttle: LogThrottle
    timeout: float


@attrs.define(eq=False, repr=False)
class Controller:
    """Base class of controllers: its properties are the fields of the handle."""

    handle: Handle

    @property
    def cluster(self) -> Cluster:
        return self.handle.cluster

    @property
    def mirror(self) -> ClusterMirror:
        return self.handle.mirror

    @property
    def configuration(self) -> CurrentConfiguration:
        return self.handle.configuration

    @property
    def clock(self) -> Clock:
        return self.handle.clock

    @property
    def synced(self) -> asyncio.Event:
        return self.handle.synced

    @property
    def recorder(self) -> EventRecorder:
        return self.handle.recorder

    @property
    def listener(self) -> Listener:
        return self.handle.listener

    @property
    def supervisor(self) -> Supervisor:
        return self.handle.supervisor

    @property
    def throttle(self) -> LogThrottle:
        return self.handle.throttle

    @property
    def timeout(self) -> float:
        return self.handle.timeout
