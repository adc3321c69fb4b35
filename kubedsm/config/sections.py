"""The sections of the document: what an operator may decide of each thing, and its defaults."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from kubedsm.config.documents import DocumentError, at, shown
from kubedsm.config.duration import format_duration
from kubedsm.config.fields import (
    LABEL,
    LABEL_KEY,
    LABEL_VALUE,
    SUBDOMAIN,
    by_name,
    checked,
    choice,
    document,
    duration,
    flag,
    kind,
    number,
    percentage,
    section,
    section_schema,
    several,
    structured,
    text,
    whole,
)
from kubedsm.config.load_aware import AnswerQueries
from kubedsm.config.services import MODE, MOST_REQUESTS, RATE, Mode
from kubedsm.model.model import Tiers
from kubedsm.model.sites import SITE_LABELS
from kubedsm.objective.objective import Kind as ObjectiveKind
from kubedsm.objective.qos_targets import ResponseTimes
from kubedsm.solvers.available import SolverKind

NAME = text(re.compile(SUBDOMAIN), "a name of lower-case letters, digits, - and .")
_NAMESPACE = text(re.compile(LABEL), "a namespace")
_LABEL_KEYS = several(LABEL_KEY)
_LABEL_VALUES = several(LABEL_VALUE)

#: whether moves are carried out, only reported, or not looked for
ApplyMode = Literal["apply", "suggest", "off"]
_APPLY_MODE = choice(*get_args(ApplyMode))


@attrs.frozen(field_transformer=checked)
class _TierLabels:
    """The document's form of `Tiers`, whose sets have no order to write them in."""

    label: tuple[str, ...] = attrs.field(default=Tiers().labels, metadata=_LABEL_KEYS)
    edge: tuple[str, ...] = attrs.field(default=("edge",), metadata=_LABEL_VALUES)
    cloud: tuple[str, ...] = attrs.field(default=("cloud",), metadata=_LABEL_VALUES)

    def __attrs_post_init__(self) -> None:
        for value in self.edge:
            if value in self.cloud:
                with at("cloud"):
                    raise DocumentError(f"{value!r} is a value of the edge tier already")


def _read_tiers(value: object) -> Tiers:
    given = structured(_TierLabels, value)
    return Tiers(given.label, frozenset(given.edge), frozenset(given.cloud))


def _tier_labels(tiers: Tiers) -> _TierLabels:
    return _TierLabels(tiers.labels, tuple(sorted(tiers.edge)), tuple(sorted(tiers.cloud)))


def _check_tiers(tiers: Tiers) -> None:
    _tier_labels(tiers)


TIERS = kind(
    _read_tiers,
    _check_tiers,
    lambda tiers: document(_tier_labels(tiers)),
    lambda: section_schema(_TierLabels),
)


@attrs.frozen(field_transformer=checked)
class SiteSettings:
    """See `core.world.sites` and `runtime.sites`."""

    #: none: no node is at a site
    label: tuple[str, ...] = attrs.field(default=SITE_LABELS, metadata=several(LABEL_KEY, least=0))
    #: seconds
    settle: float = attrs.field(default=120.0, metadata=duration("0s", "24h"))


@attrs.frozen(field_transformer=checked)
class BatchSettings:
    """When the window that gathers new pods closes, and how long is thought about them.

    Seconds; pods.
    """

    idle: float = attrs.field(default=0.005, metadata=duration("0s", "1m"))
    max: float = attrs.field(default=0.2, metadata=duration("0s", "1m"))
    size: int = attrs.field(default=256, metadata=whole(1, 10_000))
    budget: float = attrs.field(default=0.5, metadata=duration("10ms", "1m"))
    patience: float = attrs.field(default=60.0, metadata=duration("1s", "24h"))
    edge_wait: float = attrs.field(default=2.0, metadata=duration("0s", "1m"))

    def __attrs_post_init__(self) -> None:
        if self.max < self.idle:
            with at("max"):
                raise DocumentError(
                    f"{format_duration(self.max)} is shorter than idle,"
                    f" {format_duration(self.idle)}"
                )


@attrs.frozen(field_transformer=checked)
class EdgeSettings:
    #: a part of all
    headroom: float = attrs.field(default=0.0, metadata=percentage())


@attrs.frozen(field_transformer=checked)
class CloudSettings:
    """How much of a cloud of 100 nodes and more is looked at; see `core.placing.cloud_window`."""

    #: as kube-scheduler's percentageOfNodesToScore; 0: its formula
    percentage_of_nodes: int = attrs.field(default=100, metadata=whole(0, 100))


@attrs.frozen(field_transformer=checked)
class SuggesterSettings:
    mode: ApplyMode = attrs.field(default="apply", metadata=_APPLY_MODE)
    algorithm: Literal["exact", "paper"] = attrs.field(
        default="exact", metadata=choice("exact", "paper")
    )
    #: seconds, both
    period: float = attrs.field(default=3.0, metadata=duration("10ms", "24h"))
    budget: float = attrs.field(default=2.0, metadata=duration("10ms", "1m"))
    max_moves: int = attrs.field(default=6, metadata=whole(0, 1000))
    max_cloud_to_edge: int = attrs.field(default=5, metadata=whole(0, 1000))
    max_edge_reorder: int = attrs.field(default=3, metadata=whole(0, 1000))
    defragment: bool = attrs.field(default=False, metadata=flag())


@attrs.frozen(field_transformer=checked)
class OptimiserSettings:
    """When pods are moved for others that no node takes; see `runtime.packer`."""

    #: None: as the suggester's
    mode: ApplyMode | None = attrs.field(default=None, metadata=_APPLY_MODE)
    trigger: Literal["stuck"] = attrs.field(default="stuck", metadata=choice("stuck"))
    #: seconds, both
    delay: float = attrs.field(default=2.0, metadata=duration("100ms", "24h"))
    budget: float = attrs.field(default=10.0, metadata=duration("10ms", "10m"))
    #: of the budget, what is kept for the tiers of priority in equal parts
    tier_share: float = attrs.field(default=0.6, metadata=number(0, 1))
    allow_evictions: bool = attrs.field(default=False, metadata=flag())


@attrs.frozen(field_transformer=checked)
class MigrationSettings:
    mode: Mode = attrs.field(default="surge", metadata=MODE)
    max_concurrent: int = attrs.field(default=3, metadata=whole(1, 1000))
    max_per_node: int = attrs.field(default=3, metadata=whole(1, 1000))
    max_per_workload: int = attrs.field(default=3, metadata=whole(1, 1000))
    #: of a move, in seconds of a pod at the edge
    price: float = attrs.field(default=17.0, metadata=duration("0s", "24h"))
    #: seconds, all three
    cooldown: float = attrs.field(default=0.0, metadata=duration("0s", "24h"))
    drain_delay: float = attrs.field(default=2.0, metadata=duration("0s", "1h"))
    deadline: float = attrs.field(default=60.0, metadata=duration("100ms", "24h"))


@attrs.frozen(field_transformer=checked)
class SolverSettings:
    """Who is asked beyond the bounds of what can be compared, and for how long."""

    kind: SolverKind = attrs.field(default="highs", metadata=choice(*get_args(SolverKind)))
    #: seconds, for a batch of pods or one step of a suggestion
    budget: float = attrs.field(default=1.0, metadata=duration("10ms", "1m"))


@attrs.frozen(field_transformer=checked)
class ObjectiveSettings:
    """See `core.goals.objective`. Alpha, beta and gamma are of the kind `share`.

    The bounds keep sums of scores in nano-units within 64 bits.
    """

    kind: ObjectiveKind = attrs.field(default="share", metadata=choice(*get_args(ObjectiveKind)))
    alpha: float = attrs.field(default=1.0, metadata=number(0, 1000))
    beta: float = attrs.field(default=0.1, metadata=number(0, 1000))
    gamma: float = attrs.field(default=0.0, metadata=number(0, 1000))
    #: whether a workload weighs, beside its own weight, what it answers of all requests
    weight: Literal["equal", "traffic"] = attrs.field(
        default="equal", metadata=choice("equal", "traffic")
    )

    def __attrs_post_init__(self) -> None:
        if self.beta >= self.alpha:
            with at("beta"):
                raise DocumentError(f"{shown(self.beta)} is not below alpha, {shown(self.alpha)}")


@attrs.frozen(field_transformer=checked)
class TenantSettings:
    """What tenants may say of their own workloads, by annotations of their pods."""

    #: and at least what the operator promises the workload
    max_qos: float = attrs.field(default=0.0, metadata=number(0, 1))
    #: requests/s
    max_rate: float = attrs.field(default=float(MOST_REQUESTS), metadata=RATE)


@attrs.frozen(field_transformer=checked)
class Fairness:
    """Weights of namespaces; see `core.goals.fairness`."""

    per_namespace: bool = attrs.field(default=True, metadata=flag())
    #: the weights of those that do not weigh 1
    namespaces: Mapping[str, float] = attrs.field(
        default={}, metadata=by_name(_NAMESPACE, number(0, 1000))
    )


@attrs.frozen(field_transformer=checked)
class Latency:
    """Response times at the tiers, seconds: what turns a latency target into a QoS factor."""

    edge: float = attrs.field(default=0.02, metadata=duration("0s", "1m"))
    cloud: float = attrs.field(default=0.08, metadata=duration("0s", "1m"))
    #: which measure them, for each workload
    queries: AnswerQueries = attrs.field(default=AnswerQueries(), metadata=section(AnswerQueries))

    @property
    def times(self) -> ResponseTimes:
        return ResponseTimes(self.edge, self.cloud)
