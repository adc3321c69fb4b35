"""What rules of pods about pods cost: a batch that is full of them, and one pod on many nodes.

Beside both, the literal rules are asked of every pod on every node, in plain Python: of a sample of
them, since all would take hours.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs

from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import (
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
from kubedsm.model.selectors import Requirement
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.plugins.feasibility import Feasibility
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import DisagreementError, fastest, timed
from kubedsm_lab.bench.literal.rules import literal_rule
from kubedsm_lab.bench.telling import extrapolated, many, span, times_as_long

_GI = 2**30
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_ZONES, _APPS = 5, 10
#: one node in so many is on the edge
_EDGE = 5
_REPEATS = 5
#: questions put to the literal rules
_ASKED = 40


@attrs.frozen
class Decided:
    """Milliseconds of CPU: the best of a few runs, of the literal rules scaled from a sample."""

    pods: int
    nodes: int
    existing: int
    placed: int
    decision_ms: float
    literal_ms: float

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "existing": self.existing,
            "placed": self.placed,
            "decisionMs": round(self.decision_ms, 1),
            "literalRulesMs": round(self.literal_ms),
            "literalRulesAsked": _ASKED,
            "ratio": round(self.literal_ms / self.decision_ms, 1),
        }

    def sentence(self, of: str) -> str:
        return (
            f"{many(self.pods, 'pod')} of {of}, on {many(self.nodes, 'node')} beside"
            f" {self.existing:,} others: {self.placed:,} placed in {span(self.decision_ms / 1e3)};"
            f" {_literally(self.literal_ms, self.pods * self.nodes)}:"
            f" {times_as_long(self.literal_ms / self.decision_ms)}."
        )


@attrs.frozen
class RulesResult:
    """Milliseconds of CPU; each the best of a few runs, the literal ones scaled from a sample."""

    #: pods of ten apps that want to be even and apart
    mixed: Decided
    #: of one app: even over the zones; apart
    even: Decided
    apart: Decided
    feasibility_nodes: int
    #: looking at the cluster after a pod has changed, once for all classes
    index_ms: float
    feasibility_ms: float
    literal_feasibility_ms: float

    def as_json(self) -> dict[str, Any]:
        return {
            **self.mixed.as_json(),
            "even": self.even.as_json(),
            "apart": self.apart.as_json(),
            "feasibility": {
                "nodes": self.feasibility_nodes,
                "indexMs": round(self.index_ms, 1),
                "oneClassMs": round(self.feasibility_ms, 3),
                "literalRulesMs": round(self.literal_feasibility_ms),
                "literalRulesAsked": _ASKED,
                "ratio": round(self.literal_feasibility_ms / self.feasibility_ms, 1),
            },
        }

    @property
    def sentences(self) -> list[str]:
        nodes, ms = self.feasibility_nodes, self.feasibility_ms
        return [
            self.mixed.sentence("apps that want to be even over zones and apart on nodes"),
            self.even.sentence("one app that wants to be even over zones"),
            self.apart.sentence("one app that wants to be apart on nodes"),
            (
                f"Which of {many(nodes, 'node')} take a pod was found in {span(ms / 1e3)}, after"
                f" {span(self.index_ms / 1e3)} once for all pods that wait;"
                f" {_literally(self.literal_feasibility_ms, nodes)}:"
                f" {times_as_long(self.literal_feasibility_ms / ms)}."
            ),
            f"Times are of CPU, the best of {_REPEATS} runs.",
        ]


def _literally(ms: float, questions: int) -> str:
    sampled = extrapolated(_ASKED, questions, "questions")
    return f"asking the rules each time takes {span(ms / 1e3)}{sampled}"


def instance(
    pods: int,
    nodes: int,
    existing: int,
    made: Callable[[str], SchedulingRules] | None = None,
    apps: int = _APPS,
) -> tuple[ClusterMirror, list[Pod]]:
    """Nodes of five zones, pods of ten apps on them, and pods of so many of these that wait.

    made: the rules of the pods of an app that wait; both of `_even` and `_apart` by default. Those
    of the last app that are there have both.
    """
    mirror = ClusterMirror()
    names = []
    for index in range(nodes):
        node = _node(index)
        names.append(node.name)
        mirror.apply(NodeApplied(node))
    turns = itertools.cycle(random.Random(0).sample(names, len(names)))
    for index in range(existing):
        app = f"app-{index % _APPS}"
        ruled = made is not None and index % _APPS == _APPS - 1
        pod = _pod("old", index, app, _strict(app) if ruled else SchedulingRules())
        mirror.apply(PodApplied(attrs.evolve(pod, node_name=next(turns))))
    waiting = []
    for index in range(pods):
        app = f"app-{index % apps}"
        waiting.append(_pod("new", index, app, (made or _strict)(app)))
        mirror.apply(PodApplied(waiting[-1]))
    return mirror, waiting


def _node(index: int) -> Node:
    name = NodeName(f"n-{index:05}")
    tier = Tier.CLOUD if index % _EDGE else Tier.EDGE
    labels = {"kubedsm.io/tier": tier.value, _HOST: name, _ZONE: f"zone-{index % _ZONES}"}
    return Node(name, labels, Resources(8000, 32 * _GI, 110))


def _pod(prefix: str, index: int, app: str, rules: SchedulingRules) -> Pod:
    name = f"{prefix}-{index:05}"
    workload, requests = Workload("shop", "Deployment", app), Resources(500, _GI, 1)
    return instances.pod(name, workload, requests, rules, created=float(index), labels={"app": app})


def _strict(app: str) -> SchedulingRules:
    return attrs.evolve(_even(app), anti_affinity=_apart(app).anti_affinity)


def _even(app: str) -> SchedulingRules:
    return SchedulingRules(spread=(SpreadConstraint(_ZONE, 1, _own(app), "shop"),))


def _apart(app: str) -> SchedulingRules:
    return SchedulingRules(anti_affinity=(PodAffinityTerm(_HOST, _own(app), ("shop",)),))


def _own(app: str) -> tuple[Requirement, ...]:
    return (Requirement("app", "In", (app,)),)


def run(
    *,
    pods: int = 200,
    nodes: int = 500,
    existing: int = 3000,
    feasibility_nodes: int = 5000,
    alike: tuple[int, int, int, int] = (500, 50, 1000, 10_000),
) -> RulesResult:
    """Time both, and check every placed pod by the literal rules with the others in place.

    alike: how many pods of one app want to be even, how many to be apart, on how many nodes, and
    beside how many others.

    Raises DisagreementError if one is rejected.
    """
    wide, newcomers = instance(1, feasibility_nodes, existing)
    seen = _seen(wide)
    _, index_seconds = fastest(lambda: Feasibility.of(next(seen)), _REPEATS)
    snapshot = next(seen)
    feasibility_seconds = min(
        timed(partial(Feasibility.of(snapshot).feasible, newcomers[0]))[1] for _ in range(_REPEATS)
    )
    even, apart, among, beside = alike
    return RulesResult(
        mixed=_decided(*instance(pods, nodes, existing)),
        even=_decided(*instance(even, among, beside, _even, apps=1)),
        apart=_decided(*instance(apart, among, beside, _apart, apps=1)),
        feasibility_nodes=feasibility_nodes,
        index_ms=1000 * index_seconds,
        feasibility_ms=1000 * feasibility_seconds,
        literal_feasibility_ms=feasibility_nodes * _literal_ms(snapshot, newcomers),
    )


def _seen(mirror: ClusterMirror) -> Iterator[Snapshot]:
    """The cluster, again and again: each time another pod has changed."""
    for pod in itertools.cycle(mirror.pods()):
        mirror.apply(PodApplied(attrs.evolve(pod, ready=not pod.ready)))
        yield mirror.snapshot()


def _decided(mirror: ClusterMirror, waiting: list[Pod]) -> Decided:
    seen = _seen(mirror)

    def decision() -> Decision:
        return immediate_schedule(next(seen), waiting, lambda _: QosTarget(), Objective())

    found, seconds = fastest(decision, _REPEATS)
    snapshot = next(seen)
    homes = {binding.pod.uid: binding.node for binding in found.bindings}
    after = attrs.evolve(snapshot, placed={**snapshot.placed, **homes})
    for binding in found.bindings:
        rule = literal_rule(after, binding.pod, after.nodes[binding.node])
        if rule is not None:
            raise DisagreementError(f"{binding.pod} on {binding.node}: rejected by {rule}")
    pods, nodes = len(waiting), len(snapshot.nodes)
    return Decided(
        pods=pods,
        nodes=nodes,
        existing=len(snapshot.placed),
        placed=len(homes),
        decision_ms=1000 * seconds,
        literal_ms=pods * nodes * _literal_ms(snapshot, waiting),
    )


def _literal_ms(snapshot: Snapshot, pods: list[Pod]) -> float:
    """What the literal rules take for one pod on one node, the mean over a sample."""
    nodes = list(snapshot.nodes.values())
    began = time.process_time()
    for index in range(_ASKED):
        literal_rule(snapshot, pods[index % len(pods)], nodes[index * len(nodes) // _ASKED])
    return 1000 * (time.process_time() - began) / _ASKED
