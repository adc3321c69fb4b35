"""What it costs to place by measured load, beside the same decisions without.

Nodes and workloads use what was drawn. Of the pods on the nodes some came since the sample.
"""

import random
import time
from typing import Any

import attrs

from kubedsm.model.events import MeasuredApplied, PodApplied
from kubedsm.model.measured import Measured, Usage
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, SchedulingRules
from kubedsm.objective.load import Capacity, LoadGoal
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm_lab.bench import rules
from kubedsm_lab.bench.telling import many, span, times_as_long

_GOAL = LoadGoal(capacity=(Capacity(net=125e6, disk=500e6),))
_POLICY = KubeDSM(lambda _: QosTarget(), Objective())
_REPEATS = 5
#: how many of the pods that wait come, and are bound, after the sample
_SINCE = 10


@attrs.frozen
class Beside:
    """Milliseconds of CPU, each the median of a few runs that took turns."""

    pods: int
    nodes: int
    #: pods that go elsewhere for it
    elsewhere: int
    with_ms: float
    without_ms: float

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "elsewhere": self.elsewhere,
            "withLoadMs": round(self.with_ms, 2),
            "withoutMs": round(self.without_ms, 2),
            "ratio": round(self.with_ms / self.without_ms, 2),
        }

    def sentence(self, kind: str) -> str:
        return (
            f"{many(self.pods, 'pod')}{kind} on {many(self.nodes, 'node')}: placed by measured load"
            f" in {span(self.with_ms / 1e3)}, where nothing is measured in"
            f" {span(self.without_ms / 1e3)}: {times_as_long(self.with_ms / self.without_ms)};"
            f" {self.elsewhere:,} went elsewhere for it."
        )


@attrs.frozen
class LoadResult:
    plain: Beside
    rules: Beside
    alone: Beside

    def as_json(self) -> dict[str, Any]:
        return {
            "plain": self.plain.as_json(),
            "rules": self.rules.as_json(),
            "alone": self.alone.as_json(),
        }

    @property
    def sentences(self) -> list[str]:
        return [
            self.plain.sentence(""),
            self.rules.sentence(" with rules about each other"),
            self.alone.sentence(" alone"),
            f"What nodes and pods use was drawn. Times are of CPU, medians of {_REPEATS} runs.",
        ]


def run(*, pods: int = 200, nodes: int = 1000, existing: int = 3000) -> LoadResult:
    """A batch of plain pods, the same with rules about each other, and a plain pod alone."""

    def beside(number: int, *plain: Any) -> Beside:
        return _beside(*rules.instance(number + _SINCE, nodes, existing, *plain))

    # Those of the tenth app that are there have rules about their like.
    plain = (_plain, 9)
    return LoadResult(beside(pods, *plain), beside(pods), beside(1, *plain))


def _plain(_app: str) -> SchedulingRules:
    return SchedulingRules()


def _beside(mirror: ClusterMirror, waiting: list[Pod]) -> Beside:
    names = [node.name for node in mirror.nodes()]
    drawn = random.Random(0)
    sample = Measured(
        1.0,
        {name: _used(drawn, 5000) for name in names},
        {workload: _used(drawn, 900) for workload in sorted({pod.workload for pod in waiting})},
    )
    mirror.apply(MeasuredApplied(sample))
    for pod in waiting[:_SINCE]:
        mirror.apply(PodApplied(attrs.evolve(pod, node_name=drawn.choice(names))))
    snapshot, pods = mirror.snapshot(), waiting[_SINCE:]
    policies = [_POLICY, attrs.evolve(_POLICY, load=_GOAL)]
    without, found = (policy.decide(snapshot, pods) for policy in policies)
    taken: list[list[float]] = [[], []]
    for _ in range(_REPEATS):
        for policy, times in zip(policies, taken, strict=True):
            began = time.process_time()
            policy.decide(snapshot, pods)
            times.append(time.process_time() - began)
    without_ms, with_ms = (1000 * sorted(times)[_REPEATS // 2] for times in taken)
    homes = zip(without.bindings, found.bindings, strict=True)
    elsewhere = sum(one.node != other.node for one, other in homes)
    return Beside(len(pods), len(names), elsewhere, with_ms, without_ms)


def _used(drawn: random.Random, millicores: float) -> Usage:
    share = drawn.random()
    return Usage(millicores * share, 2e10 * drawn.random(), 1e7 * drawn.random(), 1e7 * share)
