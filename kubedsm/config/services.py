"""QoS targets of workloads: configuration entries by workload, kind, namespace, name or label, or
for all workloads.

For each field, the most specific matching entry with the field takes precedence. A
namespace takes precedence over names and labels, which its tenant chooses. Workloads that end, such
as Jobs, target nothing unless an entry names the workload, its kind or a label.
"""

import re
from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from kubedsm.config.calendar import FREEZES, WINDOWS, Freeze, Window
from kubedsm.config.documents import DocumentError, at
from kubedsm.config.fields import (
    LABEL,
    LABEL_VALUE,
    SUBDOMAIN,
    VALUE,
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
from kubedsm.model.model import ENDING_KINDS, Workload

Mode = Literal["surge", "recreate", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)
MODE = choice(*MODES)

#: requests/s of one workload
MOST_REQUESTS = 1_000_000
RATE = number(0, MOST_REQUESTS)
#: weights, or requests/s, by site
DEMAND = by_name(LABEL_VALUE, RATE)

#: part of the edge pods by failure domain
RESILIENCE = by_name(text(re.compile("site"), "site"), number(0, 1))

#: wildcard key of `services`
EVERY_SERVICE = "*"
_KIND = "[A-Z][A-Za-z]{0,62}"
_LABELLED = rf"(?:{SUBDOMAIN}/)?{VALUE}=(?:{VALUE})?"
_KEY = re.compile(rf"\*|(?:{LABEL}|\*)/{SUBDOMAIN}|{LABEL}/\*|(?:{LABEL}/)?{_KIND}|{_LABELLED}")
#: fields of entries for labels; others are looked up where no pod is at hand
BY_LABEL = ("qos", "weight")


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
    #: part of the targeted edge pods that the loss of any one site must leave
    resilience: Mapping[str, float] | None = setting(None, RESILIENCE)
    #: instead of `migration.windows`; none: at any time
    windows: tuple[Window, ...] | None = setting(None, WINDOWS)
    #: in addition to `migration.freezes`
    freezes: tuple[Freeze, ...] | None = setting(None, FREEZES)

    def __attrs_post_init__(self) -> None:
        if self.qos is not None and self.latency_target is not None:
            with at("latencyTarget"):
                raise DocumentError("qos says the same thing; only one of them may be given")
        if self.demand and not any(self.demand.values()):
            with at("demand"):
                raise DocumentError("no site has a weight above 0; {} means one pool")


_NO_LABELS: Mapping[str, str] = {}
#: default entries of kinds
ENDING = dict.fromkeys(ENDING_KINDS, Service(qos=0.0))


def is_label_key(key: str) -> bool:
    return "=" in key


def keys_for(workload: Workload, labels: Mapping[str, str] = _NO_LABELS) -> tuple[str, ...]:
    """Return the `services` keys that match a workload, the most specific first.

    labels: those of its pods; among several labels the first in alphabetical order decides.
    """
    namespace, kind, name = workload
    own, wide = (f"{namespace}/{name}", f"{namespace}/{kind}"), f"{namespace}/*"
    chosen = (f"*/{name}", *(f"{key}={value}" for key, value in sorted(labels.items())), kind)
    if kind in ENDING:
        return *own, *chosen, wide, EVERY_SERVICE
    return *own, wide, *chosen, EVERY_SERVICE


def entries_for(
    services: Mapping[str, Service],
    workload: Workload,
    labels: Mapping[str, str] = _NO_LABELS,
) -> dict[str, tuple[str, Service]]:
    """Return, by field, the most specific `services` entry for a workload, with its key."""
    deciding: dict[str, tuple[str, Service]] = {}
    entries = (
        (key, entry)
        for key in keys_for(workload, labels)
        for entry in (services.get(key), ENDING.get(key))
        if entry is not None
    )
    for key, entry in entries:
        values = attrs.asdict(entry, recurse=False)
        said = {name for name, value in values.items() if value is not None}
        if {"qos", "latency_target"} & deciding.keys():
            said -= {"qos", "latency_target"}  # alternatives of each other
        for name in said - deciding.keys():
            deciding[name] = (key, entry)
    return deciding


def service_of(services: Mapping[str, Service], workload: Workload) -> Service:
    """Return the workload's combined `services` entry; unspecified fields are None."""
    deciding = entries_for(services, workload)
    return Service(**{name: getattr(entry, name) for name, (_, entry) in deciding.items()})


_NAME = text(_KEY, "namespace/name, namespace/*, */name, Kind, namespace/Kind, label=value or *")
#: an entry may be null
_SERVICE = attrs.evolve(
    section(Service), read=lambda value: read_section(Service, {} if value is None else value)
)
SERVICES = by_name(_NAME, _SERVICE)
