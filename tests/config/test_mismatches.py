"""What a configuration speaks of and a cluster has not."""

import pytest

from kubedsm.cli.inputs import mirror_of
from kubedsm.config.mismatches import list_mismatches
from kubedsm.config.settings import load
from kubedsm.kube.wire import dump as dumps
from support.dumps import dump_of, node, pod

EDGE, CLOUD = node("e1", "edge"), node("c1", "cloud")
LABEL = "kubectl label node NAME kubedsm.io/tier"


def said_of(*items, text=""):
    configuration = load(text, "test")
    snapshot = mirror_of(dumps.read(dump_of(*items), "dump"), configuration).snapshot()
    return list(list_mismatches(snapshot, configuration))


PODS = (
    pod("video"),
    pod("job", namespace="batch"),
    pod("theirs", scheduler="default-scheduler", namespace="legacy"),
)
NOTHING = "matches no workload that has pods"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("shop/video", None),
        ("shop/*", None),
        ("*/video", None),
        ("*", None),
        ("shop/vido", f"{NOTHING}; did you mean shop/video?"),
        ("shpo/video", f"{NOTHING}; did you mean shop/video?"),
        ("bathc/*", f"{NOTHING}; did you mean batch/*?"),
        ("*/vidoe", f"{NOTHING}; did you mean */video?"),
        ("shop/cart", NOTHING),
        ("legacy/*", "matches only pods that are not ours: they need schedulerName: kubedsm"),
        ("legacy/theirs", "matches only pods that are not ours: they need schedulerName: kubedsm"),
    ],
)
def test_a_key_of_services_that_matches_nothing_is_told_with_the_nearest_that_does(key, said):
    found = said_of(EDGE, CLOUD, *PODS, text=f"services: {{'{key}': {{qos: 0.5}}}}")
    assert found == ([] if said is None else [f"services.{key} {said}"])


def test_of_many_keys_the_first_are_told_and_the_others_counted():
    keys = ", ".join(f"shop/s{number}x: {{qos: 1}}" for number in range(13))
    *told, counted = said_of(EDGE, CLOUD, text=f"services: {{{keys}}}")
    assert len(told) == 10
    assert counted == "3 more keys of services match no workload that has pods"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((EDGE, CLOUD), []),
        ((EDGE,), [f"no node is cloud, so what the edge does not take waits: {LABEL}=cloud"]),
        ((CLOUD,), [f"no node is edge, so every pod goes to the cloud: {LABEL}=edge"]),
        ((node("n1", "other"),), [f"no node is edge or cloud, so no pod is placed: {LABEL}=edge"]),
    ],
)
def test_a_tier_without_nodes_is_told_with_how_to_have_one(nodes, said):
    assert said_of(*nodes) == said
