"""How many pods each ReplicaSet of a Deployment should have: arithmetic only.

The rules are those of k8s.io/kubernetes/pkg/controller/deployment (rolling.go, sync.go).
"""

import math
from collections.abc import Mapping, Sequence

import attrs

from kubedsm_lab.emulator.api.resources import Object


def wanted(obj: Object) -> int:
    replicas: int = obj["spec"].get("replicas", 1)
    return replicas


def resolved(value: int | str, total: int, *, up: bool) -> int:
    """An int-or-percentage as a number of pods."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if up else share // 100


def is_rolling(deployment: Object) -> bool:
    kind: str = deployment["spec"].get("strategy", {}).get("type", "RollingUpdate")
    return kind == "RollingUpdate"


def _limits(deployment: Object) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods."""
    if not is_rolling(deployment) or wanted(deployment) == 0:
        return 0, 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    replicas = wanted(deployment)
    surge = resolved(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = resolved(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        # Rounding must not leave a rollout that can never move.
        unavailable = 1
    return surge, min(unavailable, replicas)


def max_surge(deployment: Object) -> int:
    return _limits(deployment)[0]


def max_unavailable(deployment: Object) -> int:
    return _limits(deployment)[1]


def new_size(deployment: Object, new: Object, everything: Sequence[Object]) -> int:
    """The size of the ReplicaSet of the current template, one step further in a rollout."""
    target, current = wanted(deployment), wanted(new)
    if current >= target or not is_rolling(deployment):
        return target
    room = target + max_surge(deployment) - sum(map(wanted, everything))
    return current + max(0, min(room, target - current))


def old_sizes(deployment: Object, new: Object, old: Sequence[Object]) -> dict[str, int]:
    """By name, the sizes of the older ReplicaSets that shrink in this step.

    First what is not available anyway, then what availability permits; oldest first.
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
    """A ReplicaSet where a Deployment is scaled in the middle of a rollout."""

    name: str
    size: int
    created: str
    #: the most pods the Deployment could have when the ReplicaSet got its size
    most: int


def proportional_sizes(shares: Sequence[Share], replicas: int, surge: int) -> Mapping[str, int]:
    """Sizes that spread what a scaling adds or takes in proportion; the largest gets the rest."""
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
