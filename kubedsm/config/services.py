"""What is promised to which workload: entries for one of them, a namespace, a name, or all.

Of the entries that speak for a workload, the most specific one that says a thing decides it. A
namespace comes before a name: the name is its tenant's to choose.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import attrs

from kubedsm.config.documents import DocumentError, at
from kubedsm.config.fields import (
    LABEL,
    SUBDOMAIN,
    checked,
    choice,
    document,
    duration,
    kind,
    mapping,
    number,
    section_schema,
    structured,
)
from kubedsm.model.model import Workload

Mode = Literal["surge", "recreate", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)
MODE = choice(*MODES)

#: requests/s of one workload
MOST_REQUESTS = 1_000_000
RATE = number(0, MOST_REQUESTS)

#: the key of `services` that speaks for every workload
EVERY_SERVICE = "*"
_KEY = re.compile(rf"\*|(?:{LABEL}|\*)/{SUBDOMAIN}|{LABEL}/\*")


@attrs.frozen(field_transformer=checked)
class Service:
    """What is promised to a workload; what is left out is as in the next less specific entry."""

    qos: float | None = attrs.field(default=None, metadata=number(0, 1))
    #: seconds
    latency_target: float | None = attrs.field(default=None, metadata=duration("0s", "1m"))
    weight: float | None = attrs.field(default=None, metadata=number(0, 1000))
    mode: Mode | None = attrs.field(default=None, metadata=MODE)
    #: requests/s
    rate: float | None = attrs.field(default=None, metadata=RATE)

    def __attrs_post_init__(self) -> None:
        if self.qos is not None and self.latency_target is not None:
            with at("latencyTarget"):
                raise DocumentError("qos says the same thing; only one of them may be given")


def keys_for(workload: Workload) -> tuple[str, str, str, str]:
    """The keys of the entries that speak for the workload, the most specific first."""
    namespace, name = workload.namespace, workload.name
    return f"{namespace}/{name}", f"{namespace}/*", f"*/{name}", EVERY_SERVICE


def entries_for(
    services: Mapping[str, Service], workload: Workload
) -> dict[str, tuple[str, Service]]:
    """By field, the entry that decides it for the workload, with its key."""
    deciding: dict[str, tuple[str, Service]] = {}
    for key in keys_for(workload):
        entry = services.get(key)
        if entry is None:
            continue
        said = {name for name, value in attrs.asdict(entry).items() if value is not None}
        if {"qos", "latency_target"} & deciding.keys():
            said -= {"qos", "latency_target"}  # they say the same thing
        for name in said - deciding.keys():
            deciding[name] = (key, entry)
    return deciding


def service_of(services: Mapping[str, Service], workload: Workload) -> Service:
    """All that is said of the workload; what nobody says is None."""
    deciding = entries_for(services, workload)
    return Service(**{name: getattr(entry, name) for name, (_, entry) in deciding.items()})


def _read(value: object) -> dict[str, Service]:
    services = {}
    for key, given in mapping(value).items():
        with at(key):
            services[key] = structured(Service, {} if given is None else given)
    return services


def _check(services: Mapping[str, Service]) -> None:
    for key in services:
        if not (isinstance(key, str) and _KEY.fullmatch(key)):
            with at(key):
                raise DocumentError("neither namespace/name, nor namespace/*, */name or *")


def _write(services: Mapping[str, Service]) -> dict[str, Any]:
    return {key: document(service) for key, service in services.items()}


def _schema() -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^(?:{_KEY.pattern})$"},
        "additionalProperties": section_schema(Service),
    }


SERVICES = kind(_read, _check, _write, _schema)
