"""kube-scheduler's scoring with the rotating score cache of `score_cache`.

All nodes are filtered for each pod, and scored only without a cached ranking. Unlike
kube-scheduler, the policy always evaluates all nodes: a rotating subset (percentageOfNodesToScore)
would invalidate every ranking.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from kubedsm.model.model import Node, NodeName, Pod
from kubedsm_lab.baselines.in_turn import NodeUsage
from kubedsm_lab.baselines.kube_scheduler import scores, total_scores
from kubedsm_lab.baselines.score_cache import ScoreCache, Why

if TYPE_CHECKING:
    import random


@attrs.define
class CacheScheduler:
    """Scheduling policy that caches a ranking of nodes per pod class, and places each pod on the
    best remaining node.

    The cache key is the paper's equivalence class without schedulerName and runtime class: only one
    scheduler runs here, and admission has merged the runtime class into the pod. Replicas of two
    workloads with equal specs share one ranking, computed for the first of them.
    """

    cache: ScoreCache = attrs.field(factory=ScoreCache)
    #: cache lookups by outcome; pods with a single feasible node skip the lookup
    looks: Counter[Why] = attrs.field(factory=Counter, init=False)

    def __call__(
        self, pod: Pod, fitting: Sequence[Node], room: NodeUsage, _rng: "random.Random"
    ) -> Node:
        if len(fitting) == 1:
            return fitting[0]
        key, feasible = room.feasibility.equivalence(pod), frozenset(n.name for n in fitting)
        name, why = self.cache.take(key, feasible)
        self.looks[why] += 1
        if name is None:
            ranked = _ranked(pod, fitting, room)
            name = ranked[0]
            self.cache.seed(key, ranked)
        return room.nodes[name]


def _ranked(pod: Pod, fitting: Sequence[Node], room: NodeUsage) -> list[NodeName]:
    rated = zip(total_scores(scores(pod, fitting, room)), fitting, strict=True)
    return [node.name for _, node in sorted(rated, key=lambda each: (-each[0], each[1].name))]
