"""New pods go to nodes that have their images, of nodes that are otherwise equal."""

from collections import Counter

import attrs
import pytest

from kubedsm.model.images import image_locality_score
from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support.placement_instances import node, pod, resources, snapshot

MIB = 2**20
IMAGE = "web:1"


@pytest.mark.parametrize(
    ("present", "containers", "score"),
    [
        ([], 1, 0),
        ([(23 * MIB, 1.0)], 1, 0),
        ([(1000 * MIB, 1.0)], 1, 100),
        ([(2000 * MIB, 1.0)], 1, 100),
        ([(1000 * MIB, 0.5)], 1, 48),
        ([(1000 * MIB, 1.0)], 2, 49),
        ([(40 * MIB, 0.5), (250 * MIB, 0.5)], 2, 6),
    ],
)
def test_scores_are_those_of_kube_scheduler(present, containers, score):
    assert image_locality_score(present, containers) == score


def placed(pods, nodes, **how):
    shot = snapshot(nodes, pods)
    decision = immediate_schedule(shot, pods, lambda _: QosTarget(), Objective(), **how)
    return Counter(binding.node for binding in decision.bindings)


def having(name, *images, tier=Tier.EDGE, size=500 * MIB):
    return attrs.evolve(node(name, tier), images=dict.fromkeys(images, size))


def waiting(number, image=IMAGE, service="web"):
    made = pod(f"web-{number}", service, resources(0.5, 0.5))
    return attrs.evolve(made, images=(image,))


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("tier", [Tier.EDGE, Tier.CLOUD])
def test_a_pod_goes_to_the_node_with_its_image(at, tier):
    nodes = [having(f"n{n}", *[IMAGE] * (n == at), "other:1", tier=tier) for n in range(6)]
    assert placed([waiting(0)], nodes) == {f"n{at}": 1}


def test_an_image_under_the_name_of_the_container_runtime_counts():
    nodes = [having(f"n{n}", *["docker.io/library/web:1"] * (n == 4), "other:1") for n in range(6)]
    assert placed([waiting(0)], nodes) == {"n4": 1}


@pytest.mark.parametrize("images", [(), (IMAGE,), ("other:1",)])
def test_nothing_changes_where_all_nodes_have_or_lack_the_image(images):
    pods = [waiting(n, service=f"web-{n % 3}") for n in range(7)]
    bare = [attrs.evolve(each, images=()) for each in pods]
    nodes = [having(f"n{n}", *images, tier=Tier(("edge", "cloud")[n % 2])) for n in range(8)]
    assert placed(pods, nodes) == placed(bare, nodes)
