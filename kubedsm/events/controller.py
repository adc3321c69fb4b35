"""Handle that the controllers of one scheduler share, as kube-scheduler's `framework.Handle`."""

import asyncio
from typing import Generic, TypeVar

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.explain.listener import Listener
from kubedsm.kube.client.port import Cluster
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor

T = TypeVar("T")


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


class _OfHandle(Generic[T]):
    """Attribute of controllers whose value is the handle's of the same name."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, controller: "Controller", _: type) -> T:
        value: T = getattr(controller.handle, self._name)
        return value


@attrs.define(eq=False, repr=False)
class Controller:
    """Base class of controllers: they have the attributes of the handle."""

    handle: Handle

    cluster = _OfHandle[Cluster]()
    mirror = _OfHandle[ClusterMirror]()
    configuration = _OfHandle[CurrentConfiguration]()
    clock = _OfHandle[Clock]()
    synced = _OfHandle[asyncio.Event]()
    recorder = _OfHandle[EventRecorder]()
    listener = _OfHandle[Listener]()
    supervisor = _OfHandle[Supervisor]()
    throttle = _OfHandle[LogThrottle]()
    timeout = _OfHandle[float]()
