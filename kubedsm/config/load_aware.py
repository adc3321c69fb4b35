"""What an operator may decide of placing by measured load: whom to ask, what, what it weighs."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

import attrs

from kubedsm.config.documents import DocumentError, at, shown
from kubedsm.config.fields import (
    LABEL_KEY,
    LABEL_VALUE,
    Kind,
    by_name,
    checked,
    duration,
    flag,
    kind,
    number,
    section,
    several,
    text,
)
from kubedsm.model.model import MOST_OF_A_NODE
from kubedsm.model.quantities import QuantityError, parse_units
from kubedsm.objective.load import Capacity, LoadGoal

#: in a query, what `loadAware.window` is put in place of
WINDOW = "$window"
#: characters of a query, and of a URL
_LONGEST = 4096

#: the remedy for configurations that name credentials
_CREDENTIALS = (
    "credentials belong in the Secret kubedsm-prometheus, with the keys server, token and ca.crt"
)
_LOOPS = 'device!~"lo|veth.*|cni.*|flannel.*"'
_QUERY = text(re.compile(rf"(?:\S[\S\s]{{0,{_LONGEST - 1}}})?"), "a PromQL query, or empty")
_PROMETHEUS_LABEL = text(re.compile("[a-zA-Z_][a-zA-Z0-9_]{0,99}"), "a label of Prometheus")

_WITHOUT_UNIT = re.compile(r"(?P<amount>.*)B/s")
_SUFFIXES = (("G", 10**9), ("M", 10**6), ("k", 10**3), ("", 1))


def _per_second() -> Kind:
    """Bytes a second, a quantity with `B/s` behind it: `125MB/s`."""
    what = "bytes a second, such as 125MB/s"

    def read(value: object) -> int:
        match = _WITHOUT_UNIT.fullmatch(value) if isinstance(value, str) else None
        try:
            return parse_units(match["amount"] if match else None)
        except QuantityError:
            raise DocumentError(f"{shown(value)} is not {what}") from None

    def check(value: int) -> None:
        if not 1 <= value <= MOST_OF_A_NODE:
            raise DocumentError(f"{shown(value)} bytes a second are no capacity of a node")

    def write(value: int) -> str:
        return next(f"{value // size}{s}B/s" for s, size in _SUFFIXES if value % size == 0)

    def schema() -> dict[str, Any]:
        return {"type": ["string", "null"], "pattern": "B/s$", "description": what}

    return kind(read, check, write, schema)


def _url() -> Kind:
    """Of a server that speaks HTTP; nothing of a bad one is repeated, for there may be secrets."""
    what = "an address such as http://prometheus.monitoring:9090, or empty"

    def check(value: object) -> None:
        if value == "":
            return
        try:
            url = urlsplit(value if isinstance(value, str) else "")
            odd = url.scheme not in ("http", "https") or not url.hostname or url.port == 0
            odd = odd or bool(url.query or url.fragment) or len(str(value)) > _LONGEST
            odd = odd or not re.fullmatch(r"[!-~]+", str(value))
        except ValueError:
            odd = True
        if odd:
            raise DocumentError(f"not {what}")
        if "@" in url.netloc:
            raise DocumentError(f"a ConfigMap is no place for a password: {_CREDENTIALS}")

    def schema() -> dict[str, Any]:
        return {
            "type": ["string", "null"],
            "pattern": "^(?:https?://[!-~]+)?$",
            "description": what,
        }

    return kind(lambda value: value, check, lambda value: value, schema)


@attrs.frozen(field_transformer=checked)
class NodeQueries:
    """Each a vector by node; empty: not asked for."""

    #: millicores
    cpu: str = attrs.field(
        default=f'sum by(instance)(rate(node_cpu_seconds_total{{mode!="idle"}}[{WINDOW}]))*1000',
        metadata=_QUERY,
    )
    #: bytes
    memory: str = attrs.field(
        default=f"avg_over_time(node_memory_MemTotal_bytes[{WINDOW}])"
        f" - avg_over_time(node_memory_MemAvailable_bytes[{WINDOW}])",
        metadata=_QUERY,
    )
    #: bytes/s, both
    net: str = attrs.field(
        default=f"sum by(instance)(rate(node_network_receive_bytes_total{{{_LOOPS}}}[{WINDOW}])"
        f" + rate(node_network_transmit_bytes_total{{{_LOOPS}}}[{WINDOW}]))",
        metadata=_QUERY,
    )
    disk: str = attrs.field(
        default=f"sum by(instance)(rate(node_disk_read_bytes_total[{WINDOW}])"
        f" + rate(node_disk_written_bytes_total[{WINDOW}]))",
        metadata=_QUERY,
    )


def _of_pods(value: str) -> str:
    return f"sum by(namespace,pod)({value})"


@attrs.frozen(field_transformer=checked)
class PodQueries:
    """The same by namespace and pod."""

    cpu: str = attrs.field(
        default=_of_pods(f'rate(container_cpu_usage_seconds_total{{container!=""}}[{WINDOW}])')
        + "*1000",
        metadata=_QUERY,
    )
    memory: str = attrs.field(
        default=_of_pods(
            f'avg_over_time(container_memory_working_set_bytes{{container!=""}}[{WINDOW}])'
        ),
        metadata=_QUERY,
    )
    #: of a pod, not of its containers
    net: str = attrs.field(
        default=_of_pods(
            f"rate(container_network_receive_bytes_total[{WINDOW}])"
            f" + rate(container_network_transmit_bytes_total[{WINDOW}])"
        ),
        metadata=_QUERY,
    )
    disk: str = attrs.field(
        default=_of_pods(
            f'rate(container_fs_reads_bytes_total{{container!=""}}[{WINDOW}])'
            f' + rate(container_fs_writes_bytes_total{{container!=""}}[{WINDOW}])'
        ),
        metadata=_QUERY,
    )


@attrs.frozen(field_transformer=checked)
class Queries:
    node: NodeQueries = attrs.field(default=NodeQueries(), metadata=section(NodeQueries))
    pod: PodQueries = attrs.field(default=PodQueries(), metadata=section(PodQueries))


@attrs.frozen(field_transformer=checked)
class NodeCapacity:
    """What no Node object says: bytes/s of the nodes that have all these labels."""

    node_selector: Mapping[str, str] = attrs.field(
        default={}, metadata=by_name(LABEL_KEY, LABEL_VALUE)
    )
    net: int | None = attrs.field(default=None, metadata=_per_second())
    disk: int | None = attrs.field(default=None, metadata=_per_second())


@attrs.frozen(field_transformer=checked)
class LoadAware:
    """See `core.goals.load` and `runtime.load_monitor`. Off without a URL."""

    #: whoever may change a ConfigMap must not name files whose content is sent somewhere
    REMOVED: ClassVar[Mapping[str, str]] = dict.fromkeys(("tokenFile", "caFile"), _CREDENTIALS)

    prometheus: str = attrs.field(default="", metadata=_url())
    #: those by which series of nodes name them: the first that one has
    node_label: tuple[str, ...] = attrs.field(
        default=("node", "instance"), metadata=several(_PROMETHEUS_LABEL)
    )
    #: seconds, both
    period: float = attrs.field(default=30.0, metadata=duration("100ms", "1h"))
    window: float = attrs.field(default=300.0, metadata=duration("1s", "24h"))
    weight: float = attrs.field(default=1.0, metadata=number(0, 1000))
    move: bool = attrs.field(default=False, metadata=flag())
    #: of the score's 100
    min_load_gain: float = attrs.field(default=5.0, metadata=number(0.1, 100))
    #: a part of what a node has
    high_usage: float = attrs.field(default=0.85, metadata=number(0.01, 1))
    normalise: bool = attrs.field(default=False, metadata=flag())
    queries: Queries = attrs.field(default=Queries(), metadata=section(Queries))
    #: the first that speaks for a node and says it decides
    capacity: tuple[NodeCapacity, ...] = attrs.field(
        default=(), metadata=several(section(NodeCapacity), least=0)
    )

    @property
    def goal(self) -> LoadGoal | None:
        """How measured load counts; None if nobody is asked for it."""
        if not self.prometheus:
            return None
        capacity = tuple(Capacity(c.node_selector, c.net, c.disk) for c in self.capacity)
        return LoadGoal(
            self.weight, self.high_usage, self.move, self.min_load_gain, self.normalise, capacity
        )

    def asked(self, query: str) -> str:
        """The query as Prometheus is asked it."""
        return query.replace(WINDOW, f"{round(self.window * 1000)}ms")


@attrs.frozen(field_transformer=checked)
class AnswerQueries:
    """By namespace and pod, or by namespace, workload and tier; empty: not asked for."""

    #: spent answering, a second
    seconds: str = attrs.field(default="", metadata=_QUERY)
    #: answered, a second
    requests: str = attrs.field(default="", metadata=_QUERY)

    def __attrs_post_init__(self) -> None:
        for name, given, other in (
            ("seconds", self.seconds, self.requests),
            ("requests", self.requests, self.seconds),
        ):
            if other and not given:
                with at(name):
                    raise DocumentError("empty: a response time needs both queries")
