"""Endpoints controller: addresses of the pods behind each Service with a selector.

Implementation follows k8s.io/kubernetes/pkg/controller/endpoint.
"""

from typing import Any

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller, is_relevant
from kubedsm_lab.emulator.api.object_state import (
    is_active,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    node_of,
)
from kubedsm_lab.emulator.api.resources import ENDPOINTS, PODS, SERVICES, Object
from kubedsm_lab.emulator.api.store import ObjectChange

#: fields of each port, hashable to group addresses
_Ports = tuple[tuple[tuple[str, Any], ...], ...]
_MANAGED_BY = "endpoints.kubernetes.io/managed-by"


class EndpointsController(Controller):
    def subscribe(self) -> None:
        self.follow(SERVICES)
        self.cache.on(PODS, self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        before, after = change.previous, change.object
        if not (is_relevant(change) or (before and _address_of(before) != _address_of(after))):
            return
        for service in self.cache.in_namespace(SERVICES, after["metadata"]["namespace"]):
            if any(_selects(service, pod) for pod in (before, after) if pod):
                self.enqueue(key_of(service))

    def reconcile(self, key: Key) -> None:
        service = self.cache.get(SERVICES, key)
        current = self.cache.get(ENDPOINTS, key)
        if service is None:
            if current is not None and _MANAGED_BY in labels_of(current):
                self.api.delete(ENDPOINTS, *key, uid=current["metadata"]["uid"])
            return
        if is_terminating(service) or not service["spec"].get("selector"):
            return
        labels = {**labels_of(service), _MANAGED_BY: "endpoint-controller"}
        subsets = self._subsets(service)
        if current is None:
            new = {"metadata": {"name": key[1], "labels": labels}, "subsets": subsets}
            self.api.create(ENDPOINTS, _without_empty_subsets(new), namespace=key[0])
        elif current.get("subsets", []) != subsets or labels_of(current) != labels:
            metadata = {**current["metadata"], "labels": labels}
            changed = {**current, "metadata": metadata, "subsets": subsets}
            self.api.update(ENDPOINTS, _without_empty_subsets(changed))

    def _subsets(self, service: Object) -> list[Object]:
        """Return the sorted Endpoints subsets of a Service, grouped by container ports."""
        unready_too = service["spec"].get("publishNotReadyAddresses", False)
        groups: dict[_Ports, Object] = {}
        pods = [
            pod
            for pod in self.cache.in_namespace(PODS, key_of(service)[0])
            if _selects(service, pod) and _address_of(pod) and is_active(pod)
        ]
        for pod in sorted(pods, key=_address_of):
            ports = _ports(service, pod)
            field = "addresses" if unready_too or is_ready(pod) else "notReadyAddresses"
            groups.setdefault(ports, {}).setdefault(field, []).append(_address(pod))
        return [
            {**group, "ports": [{k: v for k, v in port if v} for port in ports]} if ports else group
            for ports, group in sorted(groups.items(), key=lambda item: item[0])
        ]


def _without_empty_subsets(endpoints: Object) -> Object:
    return {name: value for name, value in endpoints.items() if name != "subsets" or value}


def _selects(service: Object, pod: Object) -> bool:
    selector = service["spec"].get("selector")
    return bool(selector) and selector.items() <= labels_of(pod).items()


def _address_of(pod: Object) -> str:
    address: str = pod["status"].get("podIP", "")
    return address


def _ports(service: Object, pod: Object) -> _Ports:
    """Return name, container port and protocol of each matching service port."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _find_port(pod, target, protocol)
        if number is not None:
            entry = {"name": port.get("name", ""), "port": number, "protocol": protocol}
            found.append(tuple(entry.items()))
    return tuple(found)


def _find_port(pod: Object, name: str, protocol: str) -> int | None:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                number: int = port["containerPort"]
                return number
    return None


def _address(pod: Object) -> Object:
    identity = {field: pod["metadata"][field] for field in ("namespace", "name", "uid")}
    target = {"kind": "Pod", **identity}
    return {"ip": _address_of(pod), "nodeName": node_of(pod), "targetRef": target}
