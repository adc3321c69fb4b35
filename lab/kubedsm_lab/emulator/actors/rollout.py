"""Rollout arithmetic of a Deployment: revisions, template hashes and sizes of its ReplicaSets.

Implementation follows k8s.io/kubernetes/pkg/controller/deployment (rolling.go, sync.go).
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kubedsm_lab.emulator.actors.ownership import controller_reference
from kubedsm_lab.emulator.api.object_state import annotations_of, labels_of
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, Object

#: alphabet without vowels, 0, 1 and 3, to avoid words
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def canonical(value: Any) -> Any:
    """Remove empty values from a pod template, so that an empty map equals an absent one."""
    if isinstance(value, dict):
        return {k: kept for k, v in value.items() if (kept := canonical(v)) not in _EMPTY}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value


_EMPTY: tuple[Any, ...] = (None, {}, [])


def template_hash(template: Any, collisions: int = 0) -> str:
    """Return the pod-template-hash label of a template; a higher `collisions` count gives another
    hash.
    """
    text = json.dumps([canonical(template), collisions], sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def wanted(obj: Object) -> int:
    replicas: int = obj["spec"].get("replicas", 1)
    return replicas


def resolved(value: int | str, total: int, *, up: bool) -> int:
    """Convert maxSurge or maxUnavailable to a number of pods, given the replicas `total`;
    percentages are rounded up or down.
    """
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if up else share // 100


def is_rolling(deployment: Object) -> bool:
    kind: str = deployment["spec"].get("strategy", {}).get("type", "RollingUpdate")
    return kind == "RollingUpdate"


def _limits(deployment: Object) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable of the Deployment, in pods."""
    if not is_rolling(deployment) or wanted(deployment) == 0:
        return 0, 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    replicas = wanted(deployment)
    surge = resolved(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = resolved(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        # Rounding must not block a rollout.
        unavailable = 1
    return surge, min(unavailable, replicas)


def max_surge(deployment: Object) -> int:
    return _limits(deployment)[0]


def max_unavailable(deployment: Object) -> int:
    return _limits(deployment)[1]


def new_size(deployment: Object, new: Object, everything: Sequence[Object]) -> int:
    """Return the next size of the new ReplicaSet in a rolling update."""
    target, current = wanted(deployment), wanted(new)
    if current >= target or not is_rolling(deployment):
        return target
    room = target + max_surge(deployment) - sum(map(wanted, everything))
    return current + max(0, min(room, target - current))


def old_sizes(deployment: Object, new: Object, old: Sequence[Object]) -> dict[str, int]:
    """Return the new sizes of old ReplicaSets that shrink in this step, by name.

    Unavailable pods are removed first, then available ones as maxUnavailable permits, oldest
    ReplicaSets first.
    """
    if not any(map(wanted, old)):
        return {}
    everything = [*old, new]
    min_available = wanted(deployment) - max_unavailable(deployment)
    new_unavailable = wanted(new) - _available(new)
    may_go = sum(map(wanted, everything)) - min_available - new_unavailable
    if may_go <= 0:
        return {}
    sizes = {rs["metadata"]["name"]: wanted(rs) for rs in old}
    before = dict(sizes)
    for rs in old:
        useless = max(0, wanted(rs) - _available(rs))
        gone = min(may_go, useless)
        sizes[rs["metadata"]["name"]] -= gone
        may_go -= gone
    spare = sum(map(_available, everything)) - min_available
    for rs in old:
        name = rs["metadata"]["name"]
        gone = max(0, min(spare, sizes[name]))
        sizes[name] -= gone
        spare -= gone
    return {name: size for name, size in sizes.items() if size != before[name]}


def _available(replica_set: Object) -> int:
    available: int = replica_set["status"].get("availableReplicas", 0)
    return available


@attrs.frozen
class Share:
    """Size of a ReplicaSet, and the maximum size that its Deployment had then, for proportional
    scaling.
    """

    name: str
    size: int
    created: str
    #: maximum size of the Deployment when the ReplicaSet got its size
    most: int


def proportional_sizes(shares: Sequence[Share], replicas: int, surge: int) -> Mapping[str, int]:
    """Distribute a size change over ReplicaSets in proportion; the largest gets the remainder."""
    allowed = replicas + surge if replicas > 0 else 0
    to_add = allowed - sum(share.size for share in shares)
    if to_add == 0:
        return {share.name: share.size for share in shares}
    # Among equals the newest grows first, and the oldest shrinks first.
    by_age = sorted(shares, key=lambda share: share.created, reverse=to_add > 0)
    ordered = sorted(by_age, key=lambda share: -share.size)
    sizes: dict[str, int] = {}
    added = 0
    for share in ordered:
        part = _part(share, replicas, surge)
        part = min(part, to_add - added) if to_add > 0 else max(part, to_add - added)
        sizes[share.name] = share.size + part
        added += part
    largest = ordered[0].name
    sizes[largest] = max(0, sizes[largest] + to_add - added)
    return sizes


def _part(share: Share, replicas: int, surge: int) -> int:
    if replicas == 0:
        return -share.size
    ideal = share.size * (replicas + surge) / share.most
    return math.floor(ideal + 0.5) - share.size


HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MOST = "deployment.kubernetes.io/max-replicas"
_WHOLE = re.compile("[0-9]{1,18}")
#: annotations not inherited by ReplicaSets
_NOT_INHERITED = frozenset(
    {REVISION, _DESIRED, _MOST, "kubectl.kubernetes.io/last-applied-configuration"}
)


@attrs.frozen
class Family:
    """Deployment with its ReplicaSets; `old` is ordered by age, oldest first."""

    deployment: Object
    #: ReplicaSet of the current template
    new: Object | None
    old: list[Object]

    @property
    def everything(self) -> list[Object]:
        return [*self.old, self.new] if self.new else self.old


def replica_set_of(deployment: Object, revision: int) -> Object:
    """Return a new ReplicaSet of the Deployment's current template, with 0 replicas."""
    spec, name = deployment["spec"], deployment["metadata"]["name"]
    template, selector = spec["template"], spec["selector"]
    patience = spec.get("minReadySeconds", 0)
    suffix = template_hash(template, deployment["status"].get("collisionCount", 0))
    labels = {**labels_of(template), HASH_LABEL: suffix}
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-{suffix}",
            "labels": labels,
            "annotations": {
                **inherit_annotations(deployment),
                **sizing_annotations(deployment),
                REVISION: str(revision),
            },
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": 0,
            **({"minReadySeconds": patience} if patience else {}),
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def has_template(replica_set: Object, template: Object) -> bool:
    """Return whether the ReplicaSet's pod template equals the given one, ignoring the
    pod-template-hash label.
    """
    own = replica_set["spec"]["template"]
    labels = {name: v for name, v in labels_of(own).items() if name != HASH_LABEL}
    own = {**own, "metadata": {**own["metadata"], "labels": labels}}
    return own == template or canonical(own) == canonical(template)


def revision_of(replica_set: Object) -> int:
    return _number(replica_set, REVISION)


def _number(replica_set: Object, annotation: str) -> int:
    """Parse the number in a ReplicaSet's annotation; 0 if missing or malformed."""
    text = annotations_of(replica_set).get(annotation, "")
    return int(text) if _WHOLE.fullmatch(text) else 0


def inherit_annotations(deployment: Object) -> dict[str, str]:
    annotations = annotations_of(deployment).items()
    return {name: value for name, value in annotations if name not in _NOT_INHERITED}


def sizing_annotations(deployment: Object) -> dict[str, str]:
    """Return the annotations desired-replicas and max-replicas of a ReplicaSet."""
    replicas = wanted(deployment)
    return {_DESIRED: str(replicas), _MOST: str(replicas + max_surge(deployment))}


def is_scaled(family: Family) -> bool:
    """Return whether the Deployment was scaled since its ReplicaSets were sized."""
    desired = str(wanted(family.deployment))
    return any(
        annotations_of(rs).get(_DESIRED, desired) != desired
        for rs in family.everything
        if wanted(rs)
    )


def share_of(replica_set: Object, replicas: int) -> Share:
    metadata = replica_set["metadata"]
    most = _number(replica_set, _MOST)
    return Share(
        metadata["name"],
        wanted(replica_set),
        metadata["creationTimestamp"],
        most or replica_set["status"].get("replicas", 0) or max(1, replicas),
    )
