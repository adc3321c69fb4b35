"""Cluster IPs and node ports: given out once, kept for a Service's life.

Source: k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go, for one IPv4 family.
"""

import ipaddress
from collections.abc import Iterable

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import Object

_CLUSTER_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
#: below are the addresses of the cluster's own services, kubernetes and DNS
_FIRST_OFFSET = 256
_NODE_PORTS = range(30_000, 32_768)


def with_addresses(service: Object, others: Iterable[Object], previous: Object | None) -> Object:
    """The Service with its addresses: those it had before, those it asks for, or free ones.

    Raises ApiError (500) when there is none left.
    """
    spec = service["spec"]
    kind = spec["type"]
    if kind == "ExternalName":
        return service
    before = (previous or {}).get("spec") or {}
    taken = [other["spec"] for other in others]
    address = spec.get("clusterIP") or before.get("clusterIP")
    if not address:
        address = _free_address({other.get("clusterIP") for other in taken})
    addressed = {
        **spec,
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": spec.get("ipFamilies") or ["IPv4"],
        "ipFamilyPolicy": spec.get("ipFamilyPolicy") or "SingleStack",
    }
    if kind in ("NodePort", "LoadBalancer") and spec.get("ports"):
        addressed["ports"] = _with_node_ports(spec["ports"], before.get("ports") or (), taken)
    return {**service, "spec": addressed}


def _free_address(taken: set[str | None]) -> str:
    for offset in range(_FIRST_OFFSET, _CLUSTER_NETWORK.num_addresses - 1):
        address = str(_CLUSTER_NETWORK[offset])
        if address not in taken:
            return address
    raise _exhausted(f"every address of {_CLUSTER_NETWORK} is taken")


def _free_port(used: set[int | None]) -> int:
    for port in _NODE_PORTS:
        if port not in used:
            return port
    raise _exhausted("every node port is taken")


def _exhausted(why: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {why}")


def _with_node_ports(
    ports: list[Object], before: Iterable[Object], taken: list[Object]
) -> list[Object]:
    mine = {port.get("port"): port.get("nodePort") for port in before}
    used = {port.get("nodePort") for spec in taken for port in spec.get("ports") or ()}
    used |= {port.get("nodePort") for port in ports}
    numbered = []
    for port in ports:
        number = port.get("nodePort") or mine.get(port.get("port"))
        if not number:
            number = _free_port(used)
            used.add(number)
        numbered.append({**port, "nodePort": number})
    return numbered
