"""`kubedsm bench rules`: cost of hard topology spread and anti-affinity.

Each decision is timed next to the same pods without rules. Tests compare the rules with a literal
form that loops over all other pods.
"""

import itertools
import random
from collections.abc import Callable, Sequence
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
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.report import Report, format_duration, format_ratio, measure_fastest

_GI = 2**30
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_ZONES, _APPS = 5, 10
#: One node in `_EDGE` is an edge node.
_EDGE = 5
_REPEATS = 5

Rules = Callable[[str], SchedulingRules]


def even(app: str) -> SchedulingRules:
    """Spread the app's pods over the zones."""
    return SchedulingRules(spread=(SpreadConstraint(_ZONE, 1, _select_app(app), "shop"),))


def apart(app: str) -> SchedulingRules:
    """Keep the app's pods on different nodes."""
    return SchedulingRules(anti_affinity=(PodAffinityTerm(_HOST, _select_app(app), ("shop",)),))


def both(app: str) -> SchedulingRules:
    return attrs.evolve(even(app), anti_affinity=apart(app).anti_affinity)


def _no_rules(_app: str) -> SchedulingRules:
    return SchedulingRules()


def _select_app(app: str) -> tuple[Requirement, ...]:
    return (Requirement("app", "In", (app,)),)


@attrs.frozen
class Case:
    """A batch of pending pods on a cluster with other pods."""

    name: str
    pods: int
    nodes: int
    existing: int
    rules: Rules = both
    apps: int = _APPS
    #: rules of the last app's existing pods, which restrict new pods, too
    existing_rules: Rules = _no_rules

    def build(self) -> tuple[ClusterMirror, list[Pod]]:
        """Return the cluster, and the pending pods."""
        mirror, names = ClusterMirror(), []
        for index in range(self.nodes):
            node = _make_node(index)
            names.append(node.name)
            mirror.apply(NodeApplied(node))
        turns = itertools.cycle(random.Random(0).sample(names, len(names)))
        for index in range(self.existing):
            app = f"app-{index % _APPS}"
            rules = self.existing_rules if index % _APPS == _APPS - 1 else _no_rules
            pod = _make_pod("old", index, app, rules(app))
            mirror.apply(PodApplied(attrs.evolve(pod, node_name=next(turns))))
        waiting = []
        for index in range(self.pods):
            app = f"app-{index % self.apps}"
            waiting.append(_make_pod("new", index, app, self.rules(app)))
            mirror.apply(PodApplied(waiting[-1]))
        return mirror, waiting


CASES = (
    Case("mixed", 200, 500, 3000),
    Case("even", 500, 1000, 10_000, even, 1, both),
    Case("apart", 50, 1000, 10_000, apart, 1, both),
)
_ABOUT = {
    "mixed": "both rules",
    "even": "spread",
    "apart": "anti-affinity",
}


def run(cases: Sequence[Case]) -> Report:
    figures = {case.name: _measure_case(case) for case in cases}
    headings = ("pods", "nodes", "others", "placed", "decision", "without rules", "ratio")
    rows = [
        (
            _ABOUT[case.name],
            *(f"{of[name]:,}" for name in ("pods", "nodes", "existing", "placed")),
            format_duration(of["decisionMs"] / 1e3),
            format_duration(of["withoutRulesMs"] / 1e3),
            format_ratio(of["ratio"]),
        )
        for case in cases
        for of in [figures[case.name]]
    ]
    shown = table(("batch", *headings), rows, numbers=headings)
    return Report(figures, [shown], [f"CPU time, the best of {_REPEATS} runs."])


def _measure_case(case: Case) -> dict[str, Any]:
    decision, seconds = _time_decision(case)
    _, plain_seconds = _time_decision(attrs.evolve(case, rules=_no_rules, existing_rules=_no_rules))
    return {
        "pods": case.pods,
        "nodes": case.nodes,
        "existing": case.existing,
        "placed": len(decision.bindings),
        "decisionMs": round(1000 * seconds, 1),
        "withoutRulesMs": round(1000 * plain_seconds, 1),
        "ratio": round(seconds / plain_seconds, 2),
    }


def _time_decision(case: Case) -> tuple[Decision, float]:
    """Return the decision and its CPU seconds; a pod changes before each run."""
    mirror, waiting = case.build()
    touched = itertools.cycle(mirror.pods())

    def decide() -> Decision:
        pod = next(touched)
        mirror.apply(PodApplied(attrs.evolve(pod, ready=not pod.ready)))
        return immediate_schedule(mirror.snapshot(), waiting, lambda _: QosTarget(), Objective())

    return measure_fastest(decide, _REPEATS)


def _make_node(index: int) -> Node:
    name = NodeName(f"n-{index:05}")
    tier = Tier.CLOUD if index % _EDGE else Tier.EDGE
    labels = {"kubedsm.io/tier": tier.value, _HOST: name, _ZONE: f"zone-{index % _ZONES}"}
    return Node(name, labels, Resources(8000, 32 * _GI, 110))


def _make_pod(prefix: str, index: int, app: str, rules: SchedulingRules) -> Pod:
    name = f"{prefix}-{index:05}"
    workload, requests = Workload("shop", "Deployment", app), Resources(500, _GI, 1)
    return instances.pod(name, workload, requests, rules, created=float(index), labels={"app": app})
