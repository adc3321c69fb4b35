"""Decode scheduling rules, once for all pods with the same rules."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubedsm.config.documents import split_location
from kubedsm.kube.wire import schema
from kubedsm.kube.wire.pod_requests import FieldError
from kubedsm.model.model import (
    ClaimReference,
    Disk,
    HostPort,
    PodAffinityTerm,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Toleration,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement, Selector

T = TypeVar("T")
Pairs = tuple[tuple[str, str], ...]
#: key, operator, value, effect
Tolerated = tuple[str, str, str, str]

_AFFINITY = msgspec.json.Decoder(schema.Affinity)
_SPREAD = msgspec.json.Decoder(tuple[schema.TopologySpreadConstraint, ...])
_NO_AFFINITY = schema.PodAffinity()
_DEFAULT_RBD_POOL = "rbd"


class Demands(NamedTuple):
    """Rare demands of a pod, as the key of a cache."""

    ports: tuple[HostPort, ...] = ()
    claims: tuple[ClaimReference, ...] = ()
    disks: tuple[Disk, ...] = ()
    resource_claims: tuple[str, ...] = ()
    #: given with affinity or spread
    namespace: str = ""
    #: the pod's, given where affinity or spread name label keys
    labels: Pairs = ()
    #: spec.affinity and spec.topologySpreadConstraints in JSON; empty without
    affinity: bytes = b""
    spread: bytes = b""


_NO_DEMANDS = Demands()


@lru_cache(maxsize=1024)
def scheduling_rules(
    node_selector: Pairs, tolerations: tuple[Tolerated, ...], demands: Demands | None = None
) -> SchedulingRules:
    """Return the rules of a pod.

    Order and repetition are mostly insignificant: equivalent rules must compare equal.

    Raises FieldError.
    """
    demands = demands or _NO_DEMANDS
    affinity, spread, namespace = demands.affinity, demands.spread, demands.namespace
    asked = _decode_json(_AFFINITY, affinity, "spec.affinity") if affinity else schema.Affinity()
    own = dict(demands.labels)
    constraints = _decode_json(_SPREAD, spread, "spec.topologySpreadConstraints") if spread else ()
    near, far = asked.pod_affinity or _NO_AFFINITY, asked.pod_anti_affinity or _NO_AFFINITY
    hard, soft = (
        tuple(
            _read_spread(constraint, namespace, own)
            for constraint in constraints
            if (constraint.when_unsatisfiable == "DoNotSchedule") is required
        )
        for required in (True, False)
    )
    return SchedulingRules(
        node_selector=tuple(sorted(node_selector)),
        tolerations=tuple(Toleration(*given) for given in sorted(set(tolerations))),
        node_affinity=_node_affinity(asked.node_affinity),
        ports=tuple(
            sorted(set(demands.ports), key=lambda port: (port.port, port.protocol, port.ip))
        ),
        affinity=tuple(_read_term(term, namespace, own) for term in near.required or ()),
        anti_affinity=tuple(_read_term(term, namespace, own) for term in far.required or ()),
        spread=hard,
        claims=demands.claims,
        disks=demands.disks,
        resource_claims=demands.resource_claims,
        preferences=Preferences(
            tuple(_node_preferences(asked.node_affinity)),
            tuple(_affinity_preferences(near, namespace, own)),
            tuple(_affinity_preferences(far, namespace, own)),
            soft,
        ),
    )


def _decode_json(decoder: "msgspec.json.Decoder[T]", text: bytes, path: str) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        reason, inner = split_location(error)
        separator = "." if inner and not inner.startswith("[") else ""
        raise FieldError(f"{path}{separator}{inner}", reason) from None


def node_selector_terms(selector: schema.NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    return tuple(_node_selector_term(term) for term in selector.node_selector_terms or ())


def _node_selector_term(term: schema.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(_read_requirements(term.match_expressions or ())),
        tuple(_read_requirements(term.match_fields or ())),
    )


def _node_affinity(affinity: schema.NodeAffinity | None) -> tuple[NodeSelectorTerm, ...] | None:
    if affinity is None or affinity.required is None:
        return None
    return node_selector_terms(affinity.required)


def _node_preferences(
    affinity: schema.NodeAffinity | None,
) -> Iterator[tuple[int, NodeSelectorTerm]]:
    for term in (affinity.preferred if affinity else None) or ():
        yield term.weight, _node_selector_term(term.preference)


def _read_requirements(given: Iterable[schema.Requirement]) -> Iterator[Requirement]:
    for requirement in given:
        values = tuple(sorted(set(requirement.values or ())))
        yield Requirement(requirement.key, requirement.operator, values)


def selector_of(given: schema.LabelSelector | None, more: Iterable[Requirement] = ()) -> Selector:
    if given is None:
        return None
    pairs = (given.match_labels or {}).items()
    requirements = {Requirement(key, "In", (value,)) for key, value in pairs}
    requirements.update(_read_requirements(given.match_expressions or ()), more)
    return tuple(sorted(requirements))


def _require_same(
    keys: tuple[str, ...] | None, operator: str, own: dict[str, str]
) -> list[Requirement]:
    """Return a requirement with the pod's own value for each existing label."""
    return [Requirement(key, operator, (own[key],)) for key in keys or () if key in own]


def _read_term(
    term: schema.PodAffinityTerm, namespace: str, own: dict[str, str]
) -> PodAffinityTerm:
    keys = _require_same(term.match_label_keys, "In", own)
    keys += _require_same(term.mismatch_label_keys, "NotIn", own)
    namespaces = term.namespaces or ()
    if not namespaces and term.namespace_selector is None:
        namespaces = (namespace,)
    return PodAffinityTerm(
        term.topology_key,
        selector_of(term.label_selector, keys),
        tuple(sorted(set(namespaces))),
        selector_of(term.namespace_selector),
    )


def _affinity_preferences(
    affinity: schema.PodAffinity, namespace: str, own: dict[str, str]
) -> Iterator[tuple[int, PodAffinityTerm]]:
    for preferred in affinity.preferred or ():
        yield preferred.weight, _read_term(preferred.pod_affinity_term, namespace, own)


def _read_spread(
    constraint: schema.TopologySpreadConstraint, namespace: str, own: dict[str, str]
) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        selector=selector_of(
            constraint.label_selector, _require_same(constraint.match_label_keys, "In", own)
        ),
        namespace=namespace,
        min_domains=constraint.min_domains or 1,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
    )


def list_claims(
    volumes: Iterable[schema.PodVolume], namespace: str, pod_name: str
) -> Iterator[ClaimReference]:
    """Yield the persistent volume claims among a pod's volumes."""
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimReference(namespace, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            yield ClaimReference(namespace, f"{pod_name}-{volume.name}", ephemeral=True)


def list_disks(volumes: Iterable[schema.PodVolume]) -> Iterator[Disk]:
    """Yield the network disks referenced directly by a pod's volumes."""
    for volume in volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            yield _disk_of("gcePersistentDisk", gce, gce.get("pdName"))
        if (ebs := volume.aws_elastic_block_store) is not None:
            yield _disk_of("awsElasticBlockStore", ebs, ebs.get("volumeID"))
        if (iscsi := volume.iscsi) is not None:
            yield _disk_of("iscsi", iscsi, iscsi.get("iqn"))
        if (rbd := volume.rbd) is not None:
            # A common monitor identifies the same image.
            pool, image = rbd.get("pool") or _DEFAULT_RBD_POOL, rbd.get("image")
            for monitor in rbd.get("monitors") or ():
                yield _disk_of("rbd", rbd, monitor, pool, image)


def _disk_of(kind: str, source: schema.Unread, *identity: Any) -> Disk:
    return Disk(kind, tuple(map(str, identity)), read_only=source.get("readOnly") is True)
