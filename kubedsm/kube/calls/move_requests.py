"""Requests to move pods, on the scheduler's ConfigMap, and the Events that answer them."""

import msgspec

from kubedsm.kube.calls.verbs import MERGE, WrittenEvent, our_events
from kubedsm.kube.client.api_errors import body_of
from kubedsm.kube.client.paths import CORE, path_of
from kubedsm.kube.client.port import Cluster, Request
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.kube.wire.live_schema import Items
from kubedsm.kube.wire.move_request import (
    ANSWER_ANNOTATION,
    REQUEST_ANNOTATION,
    RequestAnswer,
    answer_in,
)


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Event(WrittenEvent, frozen=True):
    metadata: _Metadata


async def create_config_map(
    cluster: Cluster, namespace: str, name: str, *, timeout: float
) -> ConfigMap:
    """Make an empty one. Raises Conflict if there is one, NotFound without that namespace."""
    path, body = path_of(CORE, namespace, "configmaps"), {"metadata": {"name": name}}
    return decoding.config_map(
        body_of(await cluster.request(Request("POST", path, body=body), timeout=timeout))
    )


async def put_request(
    cluster: Cluster, found: ConfigMap, request: str | None, *, timeout: float
) -> None:
    """Have the request stand on the ConfigMap, or none.

    Raises Conflict if it has changed since it was found.
    """
    identity = found.identity
    metadata = {
        "uid": identity.uid,
        "resourceVersion": identity.resource_version,
        "annotations": {REQUEST_ANNOTATION: request},
    }
    path = path_of(CORE, identity.namespace, "configmaps", identity.name)
    body_of(
        await cluster.request(
            Request("PATCH", path, {}, {"metadata": metadata}, MERGE), timeout=timeout
        )
    )


async def answers_to(
    cluster: Cluster, about: ConfigMap, request: str, *, timeout: float
) -> list[RequestAnswer]:
    """What a scheduler has answered to a request. Raises WireError if that cannot be read."""
    identity = about.identity
    written = await our_events(
        cluster, identity.namespace, identity.uid, Items[_Event], timeout=timeout
    )
    said = [
        answer_in((event.metadata.annotations or {}).get(ANSWER_ANNOTATION, ""))
        for event in written
    ]
    return [answer for answer in said if answer is not None and answer.request == request]
