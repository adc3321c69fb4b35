"""Services of a replay: the paper's, or those of a YAML or JSON file.

The file:

    services:
    - {name: cart, cpu: 500m, memory: 256Mi, replicas: {min: 1, max: 10}, targetRate: 5}

with optional `concurrency` (1) and `serviceTime`. The autoscaler keeps each pod at the target rate,
in requests a second. By default, a pod can serve twice that.
"""

from fractions import Fraction
from pathlib import Path

import attrs
import msgspec

from kubedsm.config.documents import SERVICES as SERVICES_FILE
from kubedsm.config.documents import DocumentError, at, content, reading
from kubedsm.config.duration import DurationError, format_duration, parse_duration
from kubedsm.config.yaml_text import parse_yaml
from kubedsm.model.quantities import QuantityError, parse_millis
from kubedsm_lab.documents import convert_to
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.resources import SERVICES as SERVICE_RESOURCE
from kubedsm_lab.emulator.cluster_file import check_creatable
from kubedsm_lab.emulator.paper import NAMESPACE, SERVICES, service_objects
from kubedsm_lab.replay.workload_model import Server

#: target of the autoscaler as a part of a pod's capacity
UTILISATION = 0.5
_SERVER = Server(concurrency=1, service_time=UTILISATION / 5)
_RESOURCES = (DEPLOYMENTS, SERVICE_RESOURCE, HORIZONTAL_POD_AUTOSCALERS)


@attrs.frozen
class ServiceSpec:
    name: str
    #: quantities
    cpu: str
    memory: str
    #: bounds of the autoscaler
    replicas: tuple[int, int] = (1, 10)
    #: target of the autoscaler: requests a second of a pod, a quantity
    target_rate: str = "5"
    server: Server = _SERVER

    def objects(self, stabilization_seconds: int) -> list[tuple[Resource, Object]]:
        """Return the service's Kubernetes objects in order of creation."""
        made = service_objects(
            self.name,
            self.cpu,
            self.memory,
            replicas=self.replicas,
            target=self.target_rate,
            stabilization_seconds=stabilization_seconds,
        )
        return list(zip(_RESOURCES, made, strict=True))


PAPER_SERVICES = tuple(
    ServiceSpec(name, str(demand.cores), demand.memory) for name, demand in SERVICES.items()
)


class _Replicas(msgspec.Struct, forbid_unknown_fields=True):
    min: int = 1
    max: int = 10


class _Entry(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    cpu: str | int | float
    memory: str | int | float
    replicas: _Replicas = msgspec.field(default_factory=_Replicas)
    target_rate: str | int | float = 5
    concurrency: int = 1
    service_time: str = ""


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    services: list[_Entry]


def load(path: str | Path) -> tuple[ServiceSpec, ...]:
    """Read the services of a replay from a YAML or JSON file. Raises DocumentError."""
    with reading(path):
        entries = convert_to(parse_yaml(content(path), SERVICES_FILE), _Document).services
        if not entries:
            raise DocumentError("empty", ("services",))
        places = [f"services[{index}]" for index in range(len(entries))]
        specs = []
        for place, entry in zip(places, entries, strict=True):
            with at(place):
                specs.append(_make_spec(entry))
        names = [spec.name for spec in specs]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise DocumentError(f"{name!r} occurs twice", (f"services[{index}]", "name"))
        check_creatable(
            ((place,), resource, one, NAMESPACE)
            for place, spec in zip(places, specs, strict=True)
            for resource, one in spec.objects(0)
        )
    return tuple(specs)


def _make_spec(entry: _Entry) -> ServiceSpec:
    amounts = {"cpu": entry.cpu, "memory": entry.memory, "targetRate": entry.target_rate}
    thousandths = {}
    for field, amount in amounts.items():
        try:
            thousandths[field] = parse_millis(amount)
        except QuantityError as error:
            raise DocumentError(str(error), (field,)) from None
        if not thousandths[field]:
            raise DocumentError("must be above 0", (field,))
    least, most = entry.replicas.min, entry.replicas.max
    if not 1 <= least <= most:
        raise DocumentError(f"1 <= min <= max must hold, not {least} and {most}", ("replicas",))
    if entry.concurrency < 1:
        raise DocumentError(f"{entry.concurrency} is not at least 1", ("concurrency",))
    rate = float(Fraction(thousandths["targetRate"], 1000))
    seconds = UTILISATION * entry.concurrency / rate
    if entry.service_time:
        seconds = _parse_seconds(entry.service_time)
    return ServiceSpec(
        entry.name,
        str(entry.cpu),
        str(entry.memory),
        (least, most),
        str(entry.target_rate),
        Server(entry.concurrency, seconds),
    )


def _parse_seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise DocumentError(str(error), ("serviceTime",)) from None
    if not seconds:
        raise DocumentError(f"{format_duration(seconds)} is not above 0", ("serviceTime",))
    return seconds
