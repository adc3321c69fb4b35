"""The Events about a pod, as they were written for its users."""

import attrs

from kubedsm.kube.calls.verbs import WrittenEvent, our_events
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.wire.live_schema import Items
from kubedsm.model.model import Pod


class _Event(WrittenEvent, frozen=True):
    reason: str | None = None
    message: str | None = None
    event_time: str | None = None
    last_timestamp: str | None = None


@attrs.frozen(slots=True)
class PodEvent:
    #: RFC 3339
    at: str
    reason: str
    message: str


async def events_about(cluster: Cluster, pod: Pod, *, timeout: float) -> list[PodEvent]:
    """What we wrote about the pod, oldest first. Raises WireError if that cannot be read."""
    written = await our_events(cluster, pod.namespace, pod.uid, Items[_Event], timeout=timeout)
    ours = [
        PodEvent(e.event_time or e.last_timestamp or "", e.reason or "", e.message or "")
        for e in written
    ]
    return sorted(ours, key=lambda event: event.at)
