"""Which nodes a real kube-scheduler 1.36 accepted, on recorded clusters, pod by pod."""

import pytest

from kubedsm.kube.wire import decoding
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.plugins.feasibility import Feasibility
from support.recorded import KUBE_SCHEDULER, recorded

CLUSTERS = recorded(KUBE_SCHEDULER)


def read_pod(shown):
    metadata = shown["metadata"]
    return decoding.pod({**shown, "metadata": {**metadata, "uid": f"uid-{metadata['name']}"}})


def snapshot_of(cluster):
    mirror = ClusterMirror()
    for shown in cluster["nodes"]:
        mirror.apply(NodeApplied(decoding.node(shown)))
    for shown in cluster["existing"]:
        mirror.apply(PodApplied(read_pod(shown)))
    return mirror.snapshot()


def test_all_of_the_recording_is_there():
    pods = sum(len(cluster["cases"]) for cluster in CLUSTERS)
    verdicts = sum(len(cluster["cases"]) * len(cluster["nodes"]) for cluster in CLUSTERS)
    assert (len(CLUSTERS), pods, verdicts) == (12, 464, 2284)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: f"setup-{cluster['setup']}")
def test_the_nodes_that_kube_scheduler_accepted_and_no_others(cluster):
    feasibility = Feasibility.of(snapshot_of(cluster))
    differences = []
    for case in cluster["cases"]:
        pod = read_pod(case["pod"])
        accepted = feasibility.feasible(pod)
        if accepted != sorted(case["feasible"]):
            differences.append((str(pod), accepted, case["feasible"]))
        refused = feasibility.rejections(pod, tier=False)
        assert set(accepted).isdisjoint(refused)
        assert set(accepted) | set(refused) == {node.name for node in feasibility.nodes}
    assert differences == []
