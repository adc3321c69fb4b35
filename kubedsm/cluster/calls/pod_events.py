"""The Events about a pod, as they were written for its users."""

import attrs
import msgspec

from kubedsm.cluster.calls.verbs import CONTROLLER, events_path
from kubedsm.cluster.client.api_errors import body_of
from kubedsm.cluster.client.port import Cluster, Request
from kubedsm.cluster.wire.errors import UNREADABLE, unreadable
from kubedsm.core.world.model import Pod


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str | None = None
    message: str | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    reporting_component: str | None = None


class _Events(msgspec.Struct, frozen=True):
    items: tuple[_Event, ...] | None = None


@attrs.frozen(slots=True)
class PodEvent:
    #: RFC 3339
    at: str
    reason: str
    message: str


async def events_about(cluster: Cluster, pod: Pod, *, timeout: float) -> list[PodEvent]:
    """What we wrote about the pod, oldest first. Raises WireError if that cannot be read."""
    query = {"fieldSelector": f"involvedObject.uid={pod.uid}"}
    body = body_of(
        await cluster.request(Request("GET", events_path(pod.namespace), query), timeout=timeout)
    )
    try:
        listed = msgspec.json.decode(body, type=_Events).items or ()
    except UNREADABLE as error:
        raise unreadable("EventList", error, body) from None
    ours = [
        PodEvent(e.event_time or e.last_timestamp or "", e.reason or "", e.message or "")
        for e in listed
        if e.reporting_component == CONTROLLER
    ]
    return sorted(ours, key=lambda event: event.at)
