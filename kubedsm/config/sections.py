"""Sections of the configuration document as attrs classes, with their defaults."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from kubedsm.config.calendar import FREEZES, WINDOWS, Freeze, Window
from kubedsm.config.documents import DocumentError, at, shown
from kubedsm.config.duration import format_duration
from kubedsm.config.fields import (
    LABEL,
    LABEL_KEY,
    LABEL_VALUE,
    SUBDOMAIN,
    Kind,
    by_name,
    choice,
    did_you_mean,
    duration,
    flag,
    number,
    percentage,
    read_section,
    section_schema,
    setting,
    several,
    subsection,
    text,
    validate_fields,
    whole,
    write_section,
)
from kubedsm.config.load_aware import DEMAND_QUERIES, QUERY, AnswerQueries
from kubedsm.config.services import MODE, MOST_REQUESTS, RATE, Mode
from kubedsm.model.model import Tiers
from kubedsm.model.sites import SITE_LABELS
from kubedsm.objective.objective import Kind as ObjectiveKind
from kubedsm.objective.qos_targets import ResponseTimes
from kubedsm.solvers.available import SolverKind

NAME = text(re.compile(SUBDOMAIN), "a name of lower-case letters, digits, - and .")
_NAMESPACE = text(re.compile(LABEL), "a namespace")
_NEAR_A_NAME = re.compile("[A-Za-z-]+")
_LABEL_KEYS = several(LABEL_KEY)
_LABEL_VALUES = several(LABEL_VALUE)

#: whether moves are carried out, only reported, or not looked for
ApplyMode = Literal["apply", "suggest", "off"]
_APPLY_MODE = choice(*get_args(ApplyMode))


@attrs.frozen(field_transformer=validate_fields)
class _TierLabels:
    """Configured node labels that define the edge and cloud tiers, as written in the document."""

    label: tuple[str, ...] = setting(Tiers().labels, _LABEL_KEYS)
    edge: tuple[str, ...] = setting(("edge",), _LABEL_VALUES)
    cloud: tuple[str, ...] = setting(("cloud",), _LABEL_VALUES)

    def __attrs_post_init__(self) -> None:
        for value in self.edge:
            if value in self.cloud:
                with at("cloud"):
                    raise DocumentError(f"{value!r} is a value of the edge tier already")


def _read_tiers(value: object) -> Tiers:
    given = read_section(_TierLabels, value)
    return Tiers(given.label, frozenset(given.edge), frozenset(given.cloud))


def _write_tiers(tiers: Tiers) -> dict[str, object]:
    labels = _TierLabels(tiers.labels, tuple(sorted(tiers.edge)), tuple(sorted(tiers.cloud)))
    return write_section(labels)


#: writing validates
TIERS = Kind(_write_tiers, section_schema(_TierLabels), _read_tiers, _write_tiers)


@attrs.frozen(field_transformer=validate_fields)
class SiteSettings:
    """Configuration section of edge sites: node label that names the site, and waiting time after a
    network partition.
    """

    #: none: no node is at a site
    label: tuple[str, ...] = setting(SITE_LABELS, several(LABEL_KEY, least=0))
    #: seconds
    settle: float = setting(120.0, duration("0s", "24h"))
    #: query, or a name in `DEMAND_QUERIES`; empty: demand is not measured
    demand: str = setting("", QUERY)
    #: query of seconds by `source` and `destination`; empty: latencies are not measured
    latency: str = setting("", QUERY)

    def __attrs_post_init__(self) -> None:
        # A mistyped name is a valid query: a difference of two metrics.
        near = did_you_mean(self.demand, DEMAND_QUERIES)
        if near and self.demand not in DEMAND_QUERIES and _NEAR_A_NAME.fullmatch(self.demand):
            with at("demand"):
                raise DocumentError(f"{shown(self.demand)} is the name of no query{near}")

    @property
    def demand_query(self) -> str:
        return DEMAND_QUERIES.get(self.demand, self.demand)


@attrs.frozen(field_transformer=validate_fields)
class BatchSettings:
    """Configuration section of pod batches: time window and solving time in seconds, maximum size
    in pods.
    """

    idle: float = setting(0.005, duration("0s", "1m"))
    max: float = setting(0.2, duration("0s", "1m"))
    size: int = setting(256, whole(1, 10_000))
    budget: float = setting(1.5, duration("10ms", "1m"))
    patience: float = setting(60.0, duration("1s", "24h"))
    edge_wait: float = setting(2.0, duration("0s", "1m"))
    migration_wait: float = setting(60.0, duration("0s", "10m"))

    def __attrs_post_init__(self) -> None:
        if self.max < self.idle:
            with at("max"):
                raise DocumentError(
                    f"{format_duration(self.max)} is shorter than idle,"
                    f" {format_duration(self.idle)}"
                )


@attrs.frozen(field_transformer=validate_fields)
class EdgeSettings:
    #: a part of all
    headroom: float = setting(0.0, percentage())


@attrs.frozen(field_transformer=validate_fields)
class CloudSettings:
    """Configuration section of cloud sampling: percentage of cloud nodes evaluated for a batch.

    See `optimizer.placing.cloud`.
    """

    #: equivalent of kube-scheduler's percentageOfNodesToScore; 0: adaptive formula
    percentage_of_nodes: int = setting(100, whole(0, 100))


@attrs.frozen(field_transformer=validate_fields)
class SuggesterSettings:
    mode: ApplyMode = setting("apply", _APPLY_MODE)
    algorithm: Literal["exact", "paper"] = setting("exact", choice("exact", "paper"))
    #: seconds, both
    period: float = setting(3.0, duration("10ms", "24h"))
    budget: float = setting(10.0, duration("10ms", "10m"))
    max_moves: int = setting(6, whole(0, 1000))
    max_cloud_to_edge: int = setting(5, whole(0, 1000))
    max_edge_reorder: int = setting(3, whole(0, 1000))
    defragment: bool = setting(False, flag())


@attrs.frozen(field_transformer=validate_fields)
class OptimiserSettings:
    """Configuration section of capacity packing: migrations that make pending pods fit."""

    #: None: as the suggester's
    mode: ApplyMode | None = setting(None, _APPLY_MODE)
    trigger: Literal["stuck"] = setting("stuck", choice("stuck"))
    #: seconds, both
    delay: float = setting(2.0, duration("100ms", "24h"))
    budget: float = setting(60.0, duration("10ms", "10m"))
    #: fraction of the budget reserved, in equal parts, for priority tiers
    tier_share: float = setting(0.6, number(0, 1))
    allow_evictions: bool = setting(False, flag())


_COUNT = whole(0, 10_000)


@attrs.frozen(field_transformer=validate_fields)
class BudgetSettings:
    """Configuration section of migration budgets: how many migrations may begin in any hour or day;
    None: no limit.
    """

    workload_per_hour: int | None = setting(None, _COUNT)
    workload_per_day: int | None = setting(None, _COUNT)
    cluster_per_hour: int | None = setting(None, _COUNT)
    cluster_per_day: int | None = setting(None, _COUNT)

    @property
    def limited(self) -> bool:
        """Return True if any migration budget is set."""
        return any(value is not None for value in attrs.astuple(self))


@attrs.frozen(field_transformer=validate_fields)
class MigrationSettings:
    mode: Mode = setting("surge", MODE)
    max_concurrent: int = setting(3, whole(1, 1000))
    max_per_node: int = setting(3, whole(1, 1000))
    max_per_workload: int = setting(3, whole(1, 1000))
    #: of a move, in seconds of a pod at the edge
    price: float = setting(17.0, duration("0s", "24h"))
    #: seconds, all three
    cooldown: float = setting(0.0, duration("0s", "24h"))
    drain_delay: float = setting(2.0, duration("0s", "1h"))
    deadline: float = setting(60.0, duration("100ms", "24h"))
    pre_pull: bool = setting(False, flag())
    #: none: at any time
    windows: tuple[Window, ...] = setting((), WINDOWS)
    freezes: tuple[Freeze, ...] = setting((), FREEZES)
    budget: BudgetSettings = subsection(BudgetSettings)


@attrs.frozen(field_transformer=validate_fields)
class SolverSettings:
    """Configuration section of the integer-programming solver, which is used for problems too large
    for exact search.
    """

    kind: SolverKind = setting("highs", choice(*get_args(SolverKind)))
    #: seconds, for a batch of pods or one step of a suggestion
    budget: float = setting(3.0, duration("10ms", "1m"))


@attrs.frozen(field_transformer=validate_fields)
class ObjectiveSettings:
    """Configuration section of the QoS objective function: formula, parameters, and fairness among
    namespaces.

    See `objective.objective`. All parameters belong to the kind `share`. The bounds keep
    sums of scores in nano-units within 64 bits.
    """

    kind: ObjectiveKind = setting("share", choice(*get_args(ObjectiveKind)))
    alpha: float = setting(1.0, number(0, 1000))
    beta: float = setting(0.1, number(0, 1000))
    gamma: float = setting(0.0, number(0, 1000))
    evenness: float = setting(0.65, number(0, 1))
    #: traffic: weights are multiplied by the share of answered requests
    weight: Literal["equal", "traffic"] = setting("equal", choice("equal", "traffic"))

    def __attrs_post_init__(self) -> None:
        if self.beta >= self.alpha:
            with at("beta"):
                raise DocumentError(f"{shown(self.beta)} is not below alpha, {shown(self.alpha)}")


@attrs.frozen(field_transformer=validate_fields)
class TenantSettings:
    """Configuration section of tenants: limits on the QoS target and request rate that users may
    set by annotations on their pods.
    """

    #: upper bound, but never below the operator's own target
    max_qos: float = setting(0.0, number(0, 1))
    #: requests/s
    max_rate: float = setting(float(MOST_REQUESTS), RATE)


@attrs.frozen(field_transformer=validate_fields)
class Fairness:
    """Configuration section of namespace fairness: weights of namespaces.

    See `objective.qos_targets`.
    """

    per_namespace: bool = setting(True, flag())
    #: namespaces with weights other than 1
    namespaces: Mapping[str, float] = setting({}, by_name(_NAMESPACE, number(0, 1000)))


_LATENCY = duration("0s", "1m")


@attrs.frozen(field_transformer=validate_fields)
class Latency:
    """Configuration section of response times by tier and between sites, in seconds."""

    edge: float = setting(0.02, duration("0s", "1m"))
    cloud: float = setting(0.08, duration("0s", "1m"))
    #: from another site; None: the mean of edge and cloud
    neighbour: float | None = setting(None, _LATENCY)
    #: from the users' site to a serving site; in both directions unless both are given
    matrix: Mapping[str, Mapping[str, float]] = setting(
        {}, by_name(LABEL_VALUE, by_name(LABEL_VALUE, _LATENCY))
    )
    #: measured response times per workload
    queries: AnswerQueries = subsection(AnswerQueries)

    @property
    def times(self) -> ResponseTimes:
        return ResponseTimes(self.edge, self.cloud)

    @property
    def between_sites(self) -> float:
        """Latency from another site, without an entry in the matrix."""
        return (self.edge + self.cloud) / 2 if self.neighbour is None else self.neighbour

    @property
    def pairs(self) -> dict[tuple[str, str], float]:
        """Latencies of the matrix in seconds, by the users' site and the serving site, in both
        directions.
        """
        given = {(a, b): time for a, row in self.matrix.items() for b, time in row.items()}
        return {(b, a): time for (a, b), time in given.items()} | given
