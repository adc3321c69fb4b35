"""Batches whose pods have rules about each other: apart, even over zones, or all in one."""

import random
from collections.abc import Iterator

import attrs

from kubedsm.model.model import (
    Node,
    Pod,
    PodAffinityTerm,
    SchedulingRules,
    SpreadConstraint,
    Workload,
)
from kubedsm.model.selectors import Requirement
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.solve.instances import Instance, batches

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_ZONES = 3


def ruled(seed: int) -> Iterator[Instance]:
    """Those of `batches`, of which nothing runs, and some workloads have a rule, without end."""
    return map(_with_rules, batches(seed))


def _with_rules(drawn: Instance) -> Instance:
    rng = random.Random(f"ruled {drawn.name}")
    shift = rng.randrange(_ZONES)
    nodes = [
        _in_zone(node, f"zone-{(at + shift) % _ZONES}")
        for at, node in enumerate(drawn.snapshot.nodes.values())
    ]
    workloads = sorted({pod.workload for pod in drawn.batch})
    added = {workload: _rules(workload, rng.randrange(6)) for workload in workloads}
    pods = tuple(_ruled(pod, added[pod.workload]) for pod in drawn.batch)
    free = {node.name: node.allocatable for node in nodes}
    return attrs.evolve(
        drawn,
        name=f"ruled {drawn.name}",
        snapshot=instances.snapshot(nodes, pods, free),
        batch=pods,
    )


def _in_zone(node: Node, zone: str) -> Node:
    return attrs.evolve(node, labels={**node.labels, HOST: node.name, ZONE: zone})


def _ruled(pod: Pod, added: SchedulingRules) -> Pod:
    rules = attrs.evolve(
        pod.pod_class.rules,
        affinity=added.affinity,
        anti_affinity=added.anti_affinity,
        spread=added.spread,
    )
    return attrs.evolve(
        pod,
        pod_class=attrs.evolve(pod.pod_class, rules=rules),
        labels={"app": pod.workload.name},
    )


def _rules(workload: Workload, sort: int) -> SchedulingRules:
    own, namespace = (Requirement("app", "In", (workload.name,)),), workload.namespace
    match sort:
        case 0:
            return SchedulingRules(anti_affinity=(PodAffinityTerm(HOST, own, (namespace,)),))
        case 1:
            return SchedulingRules(spread=(SpreadConstraint(ZONE, 1, own, namespace),))
        case 2:
            return SchedulingRules(affinity=(PodAffinityTerm(ZONE, own, (namespace,)),))
    return SchedulingRules()
