"""What runs on the cluster: the services of a replay, the paper's or those of a file.

The file, YAML or JSON:

    services:
    - {name: cart, cpu: 500m, memory: 256Mi, replicas: {min: 1, max: 10}, targetRate: 5}

with `concurrency` (1) and `serviceTime` where wanted. The target is what the autoscaler keeps each
pod at, in requests a second; unless told otherwise that is half of what a pod can serve.
"""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import msgspec
import yaml

from kubedsm.clock import SystemClock
from kubedsm.configuration.duration import DurationError, format_duration, parse_duration
from kubedsm.core.world.quantities import QuantityError, millis
from kubedsm.emulator.api.api_server import ApiServer
from kubedsm.emulator.api.errors import ApiError
from kubedsm.emulator.api.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, Object, Resource
from kubedsm.emulator.api.resources import SERVICES as SERVICE_RESOURCE
from kubedsm.emulator.paper import NAMESPACE, SERVICES, service_objects
from kubedsm.replay.workload_model import Server

#: of what a pod can serve, what the autoscaler keeps it at
UTILISATION = 0.5
_SERVER = Server(concurrency=1, service_time=UTILISATION / 5)
_RESOURCES = (DEPLOYMENTS, SERVICE_RESOURCE, HORIZONTAL_POD_AUTOSCALERS)


class ServicesFileError(ValueError):
    """The file does not describe services: one line with the file, the place and the reason."""


@attrs.frozen
class ServiceSpec:
    name: str
    #: quantities
    cpu: str
    memory: str
    #: the autoscaler's bounds
    replicas: tuple[int, int] = (1, 10)
    #: requests a second of a pod, a quantity
    target_rate: str = "5"
    server: Server = _SERVER

    def objects(self, stabilization_seconds: int) -> list[tuple[Resource, Object]]:
        """What to create, in this order."""
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


class _Mistake(Exception):
    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)


def load(path: str | Path) -> tuple[ServiceSpec, ...]:
    """The services that the file describes. Raises ServicesFileError."""
    try:
        entries = _entries(_decoded(Path(path)))
        specs = tuple(_spec(entry, f"services[{index}]") for index, entry in enumerate(entries))
        _check_with_api_server(specs)
    except _Mistake as mistake:
        raise ServicesFileError(f"{path}: {mistake}") from None
    return specs


def _decoded(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _Mistake("", error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _Mistake("", "not UTF-8 text") from None
    except RecursionError:
        raise _Mistake("", "nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _Mistake(place, f"not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _Mistake("", f"not YAML: {' '.join(str(error).split())}") from None


def _entries(document: Any) -> list[_Entry]:
    try:
        entries = msgspec.convert(document, _Document).services
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        reason = reason[:1].lower() + reason[1:]
        raise _Mistake(place.strip("`").removeprefix("$").lstrip("."), reason) from None
    if not entries:
        raise _Mistake("services", "empty")
    return entries


def _spec(entry: _Entry, place: str) -> ServiceSpec:
    amounts = {"cpu": entry.cpu, "memory": entry.memory, "targetRate": entry.target_rate}
    thousandths = {}
    for field, amount in amounts.items():
        try:
            thousandths[field] = millis(amount)
        except QuantityError as error:
            raise _Mistake(f"{place}.{field}", str(error)) from None
        if not thousandths[field]:
            raise _Mistake(f"{place}.{field}", "must be above 0")
    least, most = entry.replicas.min, entry.replicas.max
    if not 1 <= least <= most:
        raise _Mistake(f"{place}.replicas", f"1 <= min <= max must hold, not {least} and {most}")
    if entry.concurrency < 1:
        raise _Mistake(f"{place}.concurrency", f"{entry.concurrency} is not at least 1")
    rate = float(Fraction(thousandths["targetRate"], 1000))
    seconds = UTILISATION * entry.concurrency / rate
    if entry.service_time:
        seconds = _seconds(entry.service_time, f"{place}.serviceTime")
    return ServiceSpec(
        entry.name,
        str(entry.cpu),
        str(entry.memory),
        (least, most),
        str(entry.target_rate),
        Server(entry.concurrency, seconds),
    )


def _seconds(text: str, place: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise _Mistake(place, str(error)) from None
    if not seconds:
        raise _Mistake(place, f"{format_duration(seconds)} is not above 0")
    return seconds


def _check_with_api_server(specs: tuple[ServiceSpec, ...]) -> None:
    """What the emulated API server would refuse is refused now: names, numbers, doubles."""
    api = ApiServer(SystemClock(), random.Random(0))
    seen: set[str] = set()
    for index, spec in enumerate(specs):
        place = f"services[{index}]"
        if spec.name in seen:
            raise _Mistake(f"{place}.name", f"{spec.name!r} occurs twice")
        seen.add(spec.name)
        for resource, obj in spec.objects(0):
            try:
                api.create(resource, obj, namespace=NAMESPACE, dry_run=True)
            except ApiError as error:
                causes = (error.details or {}).get("causes") or ()
                reasons = [f"{cause['field']}: {cause['message']}" for cause in causes]
                raise _Mistake(place, "; ".join(reasons) or error.message) from None
