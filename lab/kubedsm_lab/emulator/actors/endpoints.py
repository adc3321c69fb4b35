"""The endpoints controller: for each Service with a selector, the addresses of its pods.

The rules are those of k8s.io/kubernetes/pkg/controller/endpoint.
"""

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.pod_state import (
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    node_of,
)
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import ENDPOINTS, PODS, SERVICES, Object
from kubedsm_lab.emulator.api.store import ObjectChange

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"


class EndpointsController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on(SERVICES, lambda change: self.enqueue(key_of(change.object)))
        cache.on(PODS, self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        before, after = change.previous, change.object
        if change.type == "MODIFIED" and before and _matters(before) == _matters(after):
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
            new = {"apiVersion": "v1", "kind": "Endpoints"}
            metadata = {"name": key[1], "labels": labels}
            filled = {**new, "metadata": metadata} | ({"subsets": subsets} if subsets else {})
            self.api.create(ENDPOINTS, filled, namespace=key[0])
        elif current.get("subsets", []) != subsets or labels_of(current) != labels:
            changed = {name: value for name, value in current.items() if name != "subsets"}
            changed["metadata"] = {**current["metadata"], "labels": labels}
            if subsets:
                changed["subsets"] = subsets
            self.api.update(ENDPOINTS, changed)

    def _subsets(self, service: Object) -> list[Object]:
        """Addresses, by address, grouped by the ports they serve on."""
        unready_too = service["spec"].get("publishNotReadyAddresses", False)
        groups: dict[tuple[tuple[str, int, str], ...], Object] = {}
        pods = [
            pod
            for pod in self.cache.in_namespace(PODS, key_of(service)[0])
            if _selects(service, pod)
            and pod["status"].get("podIP")
            and not (is_finished(pod) or is_terminating(pod))
        ]
        for pod in sorted(pods, key=lambda pod: str(pod["status"]["podIP"])):
            ports = _ports(service, pod)
            field = "addresses" if unready_too or is_ready(pod) else "notReadyAddresses"
            groups.setdefault(ports, {}).setdefault(field, []).append(_address(pod))
        return [
            {**group, "ports": [_port(*port) for port in ports]} if ports else group
            for ports, group in sorted(groups.items(), key=lambda item: item[0])
        ]


def _selects(service: Object, pod: Object) -> bool:
    selector = service["spec"].get("selector")
    return bool(selector) and selector.items() <= labels_of(pod).items()


def _matters(pod: Object) -> tuple[object, ...]:
    return (
        pod["status"].get("podIP"),
        is_ready(pod),
        is_terminating(pod),
        is_finished(pod),
        pod["metadata"].get("labels"),
    )


def _ports(service: Object, pod: Object) -> tuple[tuple[str, int, str], ...]:
    """(name, number on the pod, protocol) of each port of the service that the pod has."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named_port(pod, target, protocol)
        if number is not None:
            found.append((port.get("name", ""), number, protocol))
    return tuple(found)


def _named_port(pod: Object, name: str, protocol: str) -> int | None:
    return next(
        (
            port["containerPort"]
            for container in pod["spec"]["containers"]
            for port in container.get("ports") or ()
            if port.get("name") == name and port.get("protocol", "TCP") == protocol
        ),
        None,
    )


def _port(name: str, number: int, protocol: str) -> Object:
    return {**({"name": name} if name else {}), "port": number, "protocol": protocol}


def _address(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {
        "ip": pod["status"]["podIP"],
        "nodeName": node_of(pod),
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
