"""Configuration of load-aware scheduling: the Prometheus server, its queries, and weights."""

import re
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import attrs

from kubedsm.config.documents import DocumentError, at, shown
from kubedsm.config.fields import (
    LABEL_KEY,
    LABEL_VALUE,
    Kind,
    by_name,
    duration,
    flag,
    number,
    section,
    setting,
    several,
    subsection,
    text,
    validate_fields,
)
from kubedsm.model.model import MOST_OF_A_NODE
from kubedsm.model.quantities import QuantityError, parse_units
from kubedsm.objective.load import Capacity, LoadGoal

#: placeholder of `loadAware.window` in a query
WINDOW = "$window"
#: characters of a query, and of a URL
_LONGEST = 4096

#: remedy for configurations containing credentials
_CREDENTIALS = (
    "credentials belong in the Secret kubedsm-prometheus, with the keys server, token and ca.crt"
)
_LOOPS = 'device!~"lo|veth.*|cni.*|flannel.*"'
QUERY = text(re.compile(rf"(?:\S[\S\s]{{0,{_LONGEST - 1}}})?"), "a PromQL query, or empty")
#: requests/s by workload and by the site at which they enter the cluster
DEMAND_QUERIES = {
    "ingress-nginx": (
        "sum by(exported_namespace,exported_service,namespace,service,controller_namespace,"
        f"controller_pod,node,site)(rate(nginx_ingress_controller_requests[{WINDOW}]))"
    ),
    "traefik": (
        "sum by(exported_service,service,namespace,pod,node,site)"
        f"(rate(traefik_service_requests_total[{WINDOW}]))"
    ),
    "linkerd": (
        "sum by(dst_namespace,dst_deployment,namespace,pod,node,site)"
        f'(rate(request_total{{direction="outbound",dst_deployment!=""}}[{WINDOW}]))'
    ),
}
_PROMETHEUS_LABEL = text(re.compile("[a-zA-Z_][a-zA-Z0-9_]{0,99}"), "a label of Prometheus")

_WITHOUT_UNIT = re.compile(r"(?P<amount>.*)B/s")
_SUFFIXES = (("G", 10**9), ("M", 10**6), ("k", 10**3), ("", 1))


def _per_second() -> Kind:
    """Field kind: bytes per second as a quantity with `B/s`, such as `125MB/s`."""
    what = "bytes a second, such as 125MB/s"

    def read_rate(value: object) -> int:
        match = _WITHOUT_UNIT.fullmatch(value) if isinstance(value, str) else None
        try:
            return parse_units(match["amount"] if match else None)
        except QuantityError:
            raise DocumentError(f"{shown(value)} is not {what}") from None

    def check_rate(value: int) -> None:
        if not 1 <= value <= MOST_OF_A_NODE:
            raise DocumentError(f"{shown(value)} bytes a second are no capacity of a node")

    def write_rate(value: int) -> str:
        return next(f"{value // size}{s}B/s" for s, size in _SUFFIXES if value % size == 0)

    schema = {"type": ["string", "null"], "pattern": "B/s$", "description": what}
    return Kind(check_rate, schema, read_rate, write_rate)


def _server_url() -> Kind:
    """Field kind: URL of an HTTP server such as Prometheus, or empty.

    Messages never repeat the URL, which may contain secrets.
    """
    what = "an address such as http://prometheus.monitoring:9090, or empty"

    def check_url(value: object) -> None:
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

    pattern = "^(?:https?://[!-~]+)?$"
    return Kind(check_url, {"type": ["string", "null"], "pattern": pattern, "description": what})


@attrs.frozen(field_transformer=validate_fields)
class NodeQueries:
    """PromQL queries for usage by node; an empty query is not sent."""

    #: millicores
    cpu: str = setting(
        f'sum by(instance)(rate(node_cpu_seconds_total{{mode!="idle"}}[{WINDOW}]))*1000', QUERY
    )
    #: bytes
    memory: str = setting(
        f"avg_over_time(node_memory_MemTotal_bytes[{WINDOW}])"
        f" - avg_over_time(node_memory_MemAvailable_bytes[{WINDOW}])",
        QUERY,
    )
    #: bytes/s, both
    net: str = setting(
        f"sum by(instance)(rate(node_network_receive_bytes_total{{{_LOOPS}}}[{WINDOW}])"
        f" + rate(node_network_transmit_bytes_total{{{_LOOPS}}}[{WINDOW}]))",
        QUERY,
    )
    disk: str = setting(
        f"sum by(instance)(rate(node_disk_read_bytes_total[{WINDOW}])"
        f" + rate(node_disk_written_bytes_total[{WINDOW}]))",
        QUERY,
    )


def _of_pods(value: str) -> str:
    return f"sum by(namespace,pod)({value})"


@attrs.frozen(field_transformer=validate_fields)
class PodQueries:
    """PromQL queries for usage by namespace and pod; an empty query is not sent."""

    cpu: str = setting(
        _of_pods(f'rate(container_cpu_usage_seconds_total{{container!=""}}[{WINDOW}])') + "*1000",
        QUERY,
    )
    memory: str = setting(
        _of_pods(f'avg_over_time(container_memory_working_set_bytes{{container!=""}}[{WINDOW}])'),
        QUERY,
    )
    #: per pod: containers share the network namespace
    net: str = setting(
        _of_pods(
            f"rate(container_network_receive_bytes_total[{WINDOW}])"
            f" + rate(container_network_transmit_bytes_total[{WINDOW}])"
        ),
        QUERY,
    )
    disk: str = setting(
        _of_pods(
            f'rate(container_fs_reads_bytes_total{{container!=""}}[{WINDOW}])'
            f' + rate(container_fs_writes_bytes_total{{container!=""}}[{WINDOW}])'
        ),
        QUERY,
    )


@attrs.frozen(field_transformer=validate_fields)
class Queries:
    node: NodeQueries = subsection(NodeQueries)
    pod: PodQueries = subsection(PodQueries)


@attrs.frozen(field_transformer=validate_fields)
class NodeCapacity:
    """Network and disk capacity in bytes/s of the nodes selected by labels."""

    node_selector: Mapping[str, str] = setting({}, by_name(LABEL_KEY, LABEL_VALUE))
    net: int | None = setting(None, _per_second())
    disk: int | None = setting(None, _per_second())


@attrs.frozen(field_transformer=validate_fields)
class LoadAware:
    """Configuration section of load-aware scheduling; disabled without a Prometheus URL.

    See `objective.load` and `app.load_monitor`.
    """

    #: writers of the ConfigMap must not choose files for transmission to a server
    REMOVED: ClassVar[Mapping[str, str]] = dict.fromkeys(("tokenFile", "caFile"), _CREDENTIALS)

    prometheus: str = setting("", _server_url())
    #: labels with the node of a series, by precedence
    node_label: tuple[str, ...] = setting(("node", "instance"), several(_PROMETHEUS_LABEL))
    #: seconds, both
    period: float = setting(30.0, duration("100ms", "1h"))
    window: float = setting(300.0, duration("1s", "24h"))
    weight: float = setting(1.0, number(0, 1000))
    move: bool = setting(False, flag())
    #: least gain, of a score of 100
    min_load_gain: float = setting(5.0, number(0.1, 100))
    #: fraction of a node's capacity
    high_usage: float = setting(0.85, number(0.01, 1))
    normalise: bool = setting(False, flag())
    queries: Queries = subsection(Queries)
    #: per resource, the first matching entry with that resource takes precedence
    capacity: tuple[NodeCapacity, ...] = setting((), several(section(NodeCapacity), least=0))

    @property
    def goal(self) -> LoadGoal | None:
        """Return the weights of measured load for the objective function; None without a Prometheus
        server.
        """
        if not self.prometheus:
            return None
        capacity = tuple(Capacity(c.node_selector, c.net, c.disk) for c in self.capacity)
        return LoadGoal(
            self.weight, self.high_usage, self.move, self.min_load_gain, self.normalise, capacity
        )

    def fill_window(self, query: str) -> str:
        """Substitute the measurement window into a PromQL query."""
        return query.replace(WINDOW, f"{round(self.window * 1000)}ms")


@attrs.frozen(field_transformer=validate_fields)
class AnswerQueries:
    """PromQL queries for response times of workloads; an empty query is not sent.

    Series are identified by namespace and pod, or by namespace, workload and tier.
    """

    #: seconds spent on requests, per second
    seconds: str = setting("", QUERY)
    #: requests answered, per second
    requests: str = setting("", QUERY)

    def __attrs_post_init__(self) -> None:
        if bool(self.seconds) != bool(self.requests):
            with at("requests" if self.seconds else "seconds"):
                raise DocumentError("empty: a response time needs both queries")
