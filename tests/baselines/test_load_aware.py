"""The load-aware paper: its scheduler and its descheduler, on clusters as small as can be."""

import random
from statistics import pstdev

import attrs
import pytest

from kubedsm.model.measured import Measured, Usage
from kubedsm.model.model import Workload
from kubedsm.objective.load import Capacity, LoadGoal
from kubedsm.plugins.feasibility import Feasibility
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.load_aware import load_aware, one_eviction
from support.drawing import drawn_cases
from support.measured_loads import GOAL, busy, drawn_load, edge
from support.placement_instances import pod, resources, snapshot
from support.policy_clusters import TARGETS

#: kube-scheduler's scores do not tell these apart
ALIKE = [edge(f"n{i}", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(3)]
CPU = Usage(cpu=1000.0, memory=0.0)


def evicted(shot, goal=GOAL, stay=()):
    found = one_eviction(shot, goal, lambda p: "it stays" if p.name in stay else None)
    return found and found.name


def placed(number, nodes, sample, goal=GOAL, old=()):
    pods = [pod(f"new-{n}", "web", resources(), created=float(n)) for n in range(number)]
    shot = attrs.evolve(snapshot(nodes, [*old, *pods]), measured=sample)
    policy = InTurn(load_aware, *TARGETS, load=goal)
    return [b.node for b in policy.place(shot, pods, random.Random(0)).bindings]


def test_a_pod_goes_where_use_becomes_most_even_and_a_burst_counts_itself():
    sample = Measured(
        60.0,
        {"n0": Usage(1000.0, 0.0), "n1": Usage(0.0, 2.0 * 2**30), "n2": Usage(0.0, 0.0)},
        {Workload("shop", "Deployment", "web"): CPU},
    )
    assert placed(1, ALIKE, sample) == ["n1"]
    # The second counts the first, which makes n1 level: .25 beside .5 or .25 beside nothing.
    assert placed(2, ALIKE, sample)[1] in ("n1", "n2")
    idle = Measured(60.0, {n.name: Usage(0.0, 0.0) for n in ALIKE}, {})
    web = attrs.evolve(idle, workloads={Workload("shop", "Deployment", "web"): CPU})
    assert sorted(placed(3, ALIKE, web)) == ["n0", "n1", "n2"]
    assert placed(1, ALIKE, Measured()) == ["n0"]
    level = Measured(60.0, {n.name: Usage(500.0, 2**30) for n in ALIKE})
    assert placed(1, ALIKE, level) == ["n0"]


def test_the_papers_form_knows_no_guard_and_capacity_makes_a_difference():
    shot = busy(
        [edge("n0"), edge("n1")],
        {"p": ("n0", Usage(2000.0, 0.0))},
        other={"n1": Usage(1600.0, 3.6 * 2**30)},
    )
    assert evicted(shot) is None
    assert evicted(shot, attrs.evolve(GOAL, high_usage=float("inf"))) == "p"
    # Beside .25 of the network, .25 of cpu is even; without its size nothing is known of it.
    shot = busy(
        [edge("n0"), edge("n1")],
        {"p": ("n0", Usage(1000.0, 0.0, 25.0))},
        other={"n0": Usage(0.0, 2**30)},
    )
    goal = LoadGoal(capacity=(Capacity(net=100.0),))
    assert evicted(shot, goal) is None


@pytest.mark.parametrize("seed", drawn_cases(range(60)))
def test_the_descheduler_against_trying_every_pod_on_every_node(seed):
    shot, goal = drawn_load(seed)
    assert evicted(shot, goal) == _literally(shot, goal)


def _literally(shot, goal):
    """The paper's lines, in plain numbers."""
    sizes = {
        name: (node.allocatable.cpu, node.allocatable.memory, goal.capacity[0].net, None)
        for name, node in shot.nodes.items()
    }

    def ratios(name, more=(0.0,) * 4):
        use = attrs.astuple(shot.measured.nodes[name])
        parts = zip(use, more, sizes[name], strict=True)
        return [(x + p) / size for x, p, size in parts if size and x is not None]

    def score(found):
        return round((1 - pstdev(found)) * 100, 6)

    for name in sorted(shot.nodes, key=lambda n: (-round(pstdev(ratios(n)), 8), n)):
        gains = {}
        for p in sorted(shot.pods.values(), key=str):
            if shot.placed.get(p.uid) == name:
                more = attrs.astuple(shot.measured.workloads[p.workload])
                here = score(ratios(name))
                others = Feasibility.of(shot).without_pod(p.uid).feasible(p)
                found = {m: ratios(m, more) for m in others if m != name}
                gains[p.name] = max(
                    (score(r) - here for r in found.values() if max(r) <= goal.high_usage),
                    default=0.0,
                )
        best = max(gains.values(), default=0.0)
        if best > 0:
            return next(pod for pod, gain in gains.items() if gain == best)
    return None


def test_the_descheduler_takes_the_pod_of_greatest_gain_from_the_most_uneven_node():
    # n0 uses .5 of cpu alone, n1 .5 of memory; the larger of two on n0 evens out n1.
    shot = busy(
        [edge("n0"), edge("n1")],
        {"small": ("n0", Usage(500.0, 0.0)), "large": ("n0", Usage(1500.0, 0.0))},
        other={"n1": Usage(0.0, 1.5 * 2**30)},
    )
    assert evicted(shot) == "large"
    assert evicted(shot, stay=("large",)) == "small"
    assert evicted(shot, stay=("large", "small")) is None
    assert evicted(attrs.evolve(shot, measured=Measured())) is None
    # The most uneven node's pod would be as uneven anywhere: the next node's is looked at.
    shot = busy(
        [edge("n0"), edge("n1"), edge("n2")],
        {"hog": ("n0", Usage(3000.0, 0.0)), "some": ("n1", Usage(1000.0, 0.0))},
        other={"n1": Usage(200.0, 0.0)},
    )
    assert evicted(shot) == "some"


def test_a_node_of_which_nothing_is_known_counts_as_the_others_on_average():
    web = {Workload("shop", "Deployment", "web"): Usage(0.0, 0.0)}
    sample = Measured(60.0, {"n0": Usage(0.0, 4.0 * 2**30), "n1": Usage(0.0, 0.0)}, web)
    assert placed(1, ALIKE, sample) == ["n1"]
    assert placed(1, [ALIKE[0], ALIKE[2]], sample) == ["n0"]
    three = attrs.evolve(sample, nodes={**sample.nodes, "n1": Usage(0.0, 2.0 * 2**30)})
    worse = [edge("n1"), edge("n2"), edge("n0")]
    assert placed(1, worse, three) == ["n1"]
