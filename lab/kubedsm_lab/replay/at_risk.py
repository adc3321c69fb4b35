"""How many services the death of one node would have taken whole, on average over a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources
from kubedsm.plugins.plugins import rejection
from kubedsm_lab.replay.timeline import Timeline


@attrs.frozen
class AtRisk:
    """Time means, of services of two or more Ready pods that had all of these on one node."""

    services: float = 0.0
    #: of these, such that another node of the tier had room for a pod of theirs
    avoidable: float = 0.0

    @classmethod
    def of(cls, timeline: Timeline, nodes: Sequence[Node], samples: Mapping[str, Pod]) -> "AtRisk":
        """From the beginning of the scenario to its end; `samples`: a pod of each service."""
        by_name = {node.name: node for node in nodes}
        free = {node.name: node.allocatable for node in nodes}
        ready: dict[str, Counter[NodeName]] = {name: Counter() for name in timeline.services}
        changes = _changes(timeline, samples)
        services = avoidable = 0.0
        for moment, until in pairwise([*sorted(changes), timeline.end]):
            for service, name, more, held in changes[moment]:
                ready[service][name] += more
                free[name] -= held
            seconds = max(0.0, until - max(0.0, moment))
            if not seconds:
                continue
            for service, where in ready.items():
                on = +where
                if len(on) == 1 and on.total() > 1:
                    (name,) = on
                    services += seconds
                    avoidable += seconds * _avoidable(samples[service], by_name[name], nodes, free)
        if timeline.end <= 0:
            return cls()
        return cls(services / timeline.end, avoidable / timeline.end)


def _changes(
    timeline: Timeline, samples: Mapping[str, Pod]
) -> dict[float, list[tuple[str, NodeName, int, Resources]]]:
    """By moment: the service, the node, how many more Ready pods, and what more they hold."""
    found: dict[float, list[tuple[str, NodeName, int, Resources]]] = {}
    for life in timeline.lives:
        if life.node is None or life.bound is None:
            continue
        requests, nothing = samples[life.service].requests, Resources()
        steps = [(life.bound, 0, requests)]
        if life.gone is not None:
            steps.append((life.gone, 0, nothing - requests))
        for since, until in life.served:
            steps += [(since, 1, nothing), (until, -1, nothing)]
        for moment, more, held in steps:
            found.setdefault(moment, []).append((life.service, life.node, more, held))
    return {moment: each for moment, each in found.items() if moment < timeline.end}


def _avoidable(
    pod: Pod, source: Node, nodes: Sequence[Node], free: Mapping[NodeName, Resources]
) -> bool:
    return any(
        node.tier is source.tier
        and node.name != source.name
        and rejection(pod.pod_class, node, free[node.name]) is None
        for node in nodes
    )
