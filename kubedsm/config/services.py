"""QoS targets of workloads: entries for one workload, a namespace, a name, or all workloads.

For each field, the most specific matching entry with the field takes precedence. A
namespace takes precedence over a name, which its tenant chooses.
"""

import re
from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from kubedsm.config.documents import DocumentError, at
from kubedsm.config.fields import (
    LABEL,
    LABEL_VALUE,
    SUBDOMAIN,
    by_name,
    choice,
    duration,
    number,
    read_section,
    section,
    setting,
    text,
    validate_fields,
)
from kubedsm.model.model import Workload

Mode = Literal["surge", "recreate", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)
MODE = choice(*MODES)

#: requests/s of one workload
MOST_REQUESTS = 1_000_000
RATE = number(0, MOST_REQUESTS)
#: weights, or requests/s, by site
DEMAND = by_name(LABEL_VALUE, RATE)

#: wildcard key of `services`
EVERY_SERVICE = "*"
_KEY = re.compile(rf"\*|(?:{LABEL}|\*)/{SUBDOMAIN}|{LABEL}/\*")


@attrs.frozen(field_transformer=validate_fields)
class Service:
    """QoS target of a workload; absent fields are inherited from less specific entries."""

    qos: float | None = setting(None, number(0, 1))
    #: seconds
    latency_target: float | None = setting(
        None, duration("0s", "1m", instead="; a share of its pods is qos, such as 0.5")
    )
    weight: float | None = setting(None, number(0, 1000))
    mode: Mode | None = setting(None, MODE)
    #: requests/s
    rate: float | None = setting(None, RATE)
    #: proportions of the requests by the site of their users
    demand: Mapping[str, float] | None = setting(None, DEMAND)

    def __attrs_post_init__(self) -> None:
        if self.qos is not None and self.latency_target is not None:
            with at("latencyTarget"):
                raise DocumentError("qos says the same thing; only one of them may be given")
        if self.demand and not any(self.demand.values()):
            with at("demand"):
                raise DocumentError("no site has a weight above 0; {} means one pool")


def keys_for(workload: Workload) -> tuple[str, str, str, str]:
    """Return the `services` keys that match a workload, the most specific first."""
    namespace, name = workload.namespace, workload.name
    return f"{namespace}/{name}", f"{namespace}/*", f"*/{name}", EVERY_SERVICE


def entries_for(
    services: Mapping[str, Service], workload: Workload
) -> dict[str, tuple[str, Service]]:
    """Return, by field, the most specific `services` entry for a workload, with its key."""
    deciding: dict[str, tuple[str, Service]] = {}
    for key in keys_for(workload):
        entry = services.get(key)
        if entry is None:
            continue
        said = {name for name, value in attrs.asdict(entry).items() if value is not None}
        if {"qos", "latency_target"} & deciding.keys():
            said -= {"qos", "latency_target"}  # alternatives of each other
        for name in said - deciding.keys():
            deciding[name] = (key, entry)
    return deciding


def service_of(services: Mapping[str, Service], workload: Workload) -> Service:
    """Return the workload's combined `services` entry; unspecified fields are None."""
    deciding = entries_for(services, workload)
    return Service(**{name: getattr(entry, name) for name, (_, entry) in deciding.items()})


_NAME = text(_KEY, "namespace/name, namespace/*, */name or *")
#: an entry may be null
_SERVICE = attrs.evolve(
    section(Service), read=lambda value: read_section(Service, {} if value is None else value)
)
SERVICES = by_name(_NAME, _SERVICE)
