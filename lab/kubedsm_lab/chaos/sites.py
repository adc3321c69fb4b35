"""Names for calls and for events of watches: those that are alike have the same."""

from typing import Any

import attrs
import orjson

from kubedsm.kube.client.port import Request
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.emulator.http.request_info import attributes_of


@attrs.frozen(slots=True)
class Event:
    """A line of a watch. Keys are namespace and name."""

    #: such as pods.MODIFIED
    site: str
    plural: str
    type: str
    key: tuple[str, str]
    object: dict[str, Any]
    line: bytes

    @property
    def about(self) -> str:
        return "/".join(part for part in self.key if part)

    @property
    def node(self) -> str:
        """Of a pod that has one."""
        return str(self.object.get("spec", {}).get("nodeName", ""))

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


def call_site(request: Request) -> tuple[str, str]:
    """Its kind, such as create-pods/binding or patch-pods.detach, and what it is about."""
    asked = attributes_of(request.method, request.path, request.query)
    if asked.path:
        return f"get-{asked.path.strip('/')}", ""
    site = f"{asked.verb}-{asked.described}{_purpose(request)}"
    if asked.verb == "list" and asked.namespace:
        site += ".of-namespace"
    return site, "/".join(part for part in (asked.namespace, asked.name) if part)


def target_of(request: Request) -> str:
    """The node that a binding names."""
    body = request.body if isinstance(request.body, dict) else {}
    return str(body.get("target", {}).get("name", ""))


def _purpose(request: Request) -> str:
    """Of a call whose path does not tell what it is for."""
    if request.query.get("limit") == "1":
        return ".greeting"
    body = request.body if isinstance(request.body, dict) else {}
    if body.get("deleteOptions", {}).get("dryRun"):
        return ".dry-run"
    metadata = body.get("metadata", {}) if request.method == "PATCH" else {}
    labels = metadata.get("labels") or {}
    if MIGRATING_LABEL in labels:
        return ".reattach" if labels[MIGRATING_LABEL] is None else ".detach"
    return ""


def event_of(request: Request, line: bytes) -> Event:
    """What a line of the watch says; a bookmark is about nothing."""
    read = orjson.loads(line)
    plural = request.path.rpartition("/")[2]
    thing = read["object"]
    metadata = thing.get("metadata", {})
    key = (metadata.get("namespace", ""), metadata.get("name", ""))
    return Event(f"{plural}.{read['type']}", plural, read["type"], key, thing, line)
