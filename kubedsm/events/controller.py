"""Handle that the controllers of one scheduler share, as kube-scheduler's `framework.Handle`."""

import asyncio
from operator import attrgetter
from typing import Any, ClassVar

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
    """Access of a scheduler's controllers to their cluster, and to the observers of their
    activity.
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


def _of_handle(name: str) -> Any:
    """Return a property of controllers whose value is the handle's attribute of that name."""
    return property(attrgetter(f"handle.{name}"))


@attrs.define(eq=False, repr=False)
class Controller:
    """Base class of controllers: they have the attributes of the handle."""

    handle: Handle

    cluster: ClassVar[Cluster] = _of_handle("cluster")
    mirror: ClassVar[ClusterMirror] = _of_handle("mirror")
    configuration: ClassVar[CurrentConfiguration] = _of_handle("configuration")
    clock: ClassVar[Clock] = _of_handle("clock")
    synced: ClassVar[asyncio.Event] = _of_handle("synced")
    recorder: ClassVar[EventRecorder] = _of_handle("recorder")
    listener: ClassVar[Listener] = _of_handle("listener")
    supervisor: ClassVar[Supervisor] = _of_handle("supervisor")
    throttle: ClassVar[LogThrottle] = _of_handle("throttle")
