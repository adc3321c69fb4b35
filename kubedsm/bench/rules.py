"""What rules of pods about pods cost: a batch that is full of them, and one pod on many nodes.

Beside both, the literal rules are asked of every pod on every node, in plain Python: of a sample of
them, since all would take hours.
"""

import itertools
import random
import time
from functools import partial
from typing import Any

import attrs

from kubedsm.bench import instances
from kubedsm.bench.instances import DisagreementError, fastest, timed
from kubedsm.bench.literal.rules import literal_rule
from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.placing.immediate import immediate_schedule
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.world.model import (
    Node,
    NodeName,
    Pod,
    PodAffinityTerm,
    Resources,
    SchedulingRules,
    SpreadConstraint,
    Tier,
    Workload,
)
from kubedsm.core.world.selectors import Requirement
from kubedsm.core.world.snapshot import Snapshot

_GI = 2**30
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_ZONES, _APPS = 5, 10
#: one node in so many is on the edge
_EDGE = 5
_REPEATS = 5
#: questions put to the literal rules
_ASKED = 40


@attrs.frozen
class RulesResult:
    """Milliseconds; each the best of a few runs, the literal ones scaled from a sample."""

    pods: int
    nodes: int
    existing: int
    placed: int
    decision_ms: float
    literal_decision_ms: float
    feasibility_nodes: int
    #: reading nodes and pods, once for all classes
    index_ms: float
    feasibility_ms: float
    literal_feasibility_ms: float

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "existing": self.existing,
            "placed": self.placed,
            "decisionMs": round(self.decision_ms, 1),
            "literalRulesMs": round(self.literal_decision_ms),
            "ratio": round(self.literal_decision_ms / self.decision_ms, 1),
            "feasibility": {
                "nodes": self.feasibility_nodes,
                "indexMs": round(self.index_ms, 1),
                "oneClassMs": round(self.feasibility_ms, 3),
                "literalRulesMs": round(self.literal_feasibility_ms),
                "ratio": round(self.literal_feasibility_ms / self.feasibility_ms, 1),
            },
        }


def instance(pods: int, nodes: int, existing: int, seed: int = 0) -> tuple[Snapshot, list[Pod]]:
    """Nodes of five zones, pods of ten apps on them, and pods of these apps that wait.

    Each of those that wait wants its app even over the zones, and no two of its app on a node.
    """
    rng = random.Random(seed)
    made = [_node(index) for index in range(nodes)]
    free = {node.name: node.allocatable for node in made}
    there = []
    turns = itertools.cycle(rng.sample(made, len(made)))
    for index in range(existing):
        pod, node = _pod("old", index, SchedulingRules()), next(turns)
        there.append(attrs.evolve(pod, node_name=node.name))
        free[node.name] -= pod.requests
    waiting = [_pod("new", index, _strict(index % _APPS)) for index in range(pods)]
    return instances.snapshot(made, (*there, *waiting), free), waiting


def _node(index: int) -> Node:
    name = NodeName(f"n-{index:05}")
    labels = {_HOST: name, _ZONE: f"zone-{index % _ZONES}"}
    tier = Tier.CLOUD if index % _EDGE else Tier.EDGE
    return Node(name, labels, Resources(8000, 32 * _GI, 110), tier=tier)


def _pod(prefix: str, index: int, rules: SchedulingRules) -> Pod:
    app, name = f"app-{index % _APPS}", f"{prefix}-{index:05}"
    workload, requests = Workload("shop", "Deployment", app), Resources(500, _GI, 1)
    return instances.pod(name, workload, requests, rules, created=float(index), labels={"app": app})


def _strict(app: int) -> SchedulingRules:
    own = (Requirement("app", "In", (f"app-{app}",)),)
    return SchedulingRules(
        anti_affinity=(PodAffinityTerm(_HOST, own, ("shop",)),),
        spread=(SpreadConstraint(_ZONE, 1, own, "shop"),),
    )


def run(
    *, pods: int = 200, nodes: int = 500, existing: int = 3000, feasibility_nodes: int = 5000
) -> RulesResult:
    """Time both, and check every placed pod by the literal rules with the others in place.

    Raises DisagreementError if one is rejected.
    """
    snapshot, waiting = instance(pods, nodes, existing)
    decision, seconds = fastest(
        lambda: immediate_schedule(snapshot, waiting, lambda _: Promise(), Objective()), _REPEATS
    )
    after = attrs.evolve(
        snapshot,
        placed={**snapshot.placed, **{b.pod.uid: b.node for b in decision.bindings}},
    )
    for binding in decision.bindings:
        rule = literal_rule(after, binding.pod, after.nodes[binding.node])
        if rule is not None:
            raise DisagreementError(f"{binding.pod} on {binding.node}: rejected by {rule}")
    wide, newcomers = instance(1, feasibility_nodes, existing)
    _, index_seconds = fastest(lambda: Feasibility.of(wide), _REPEATS)
    feasibility_seconds = min(
        timed(partial(Feasibility.of(wide).feasible, newcomers[0]))[1] for _ in range(_REPEATS)
    )
    return RulesResult(
        pods=pods,
        nodes=nodes,
        existing=existing,
        placed=len(decision.bindings),
        decision_ms=1000 * seconds,
        literal_decision_ms=pods * nodes * _literal_ms(snapshot, waiting),
        feasibility_nodes=feasibility_nodes,
        index_ms=1000 * index_seconds,
        feasibility_ms=1000 * feasibility_seconds,
        literal_feasibility_ms=feasibility_nodes * _literal_ms(wide, newcomers),
    )


def _literal_ms(snapshot: Snapshot, pods: list[Pod]) -> float:
    """What the literal rules take for one pod on one node, the mean over a sample."""
    nodes = list(snapshot.nodes.values())
    began = time.perf_counter()
    for index in range(_ASKED):
        literal_rule(snapshot, pods[index % len(pods)], nodes[index * len(nodes) // _ASKED])
    return 1000 * (time.perf_counter() - began) / _ASKED
