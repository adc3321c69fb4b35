"""PriorityClasses, and what pods get of them."""

from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import PODS, PRIORITY_CLASSES
from support.api_cases import pod, refused

GOLD = {"metadata": {"name": "gold"}, "value": 1000, "preemptionPolicy": "Never"}
DEFAULT = {"metadata": {"name": "usual"}, "value": -7, "globalDefault": True}


def priority(api, **spec):
    """What a new pod has: class, priority, preemption policy."""
    created = api.create(PODS, pod(**spec), namespace="shop")["spec"]
    return created.get("priorityClassName"), created["priority"], created["preemptionPolicy"]


def test_a_cluster_starts_with_the_two_of_the_system(api):
    found = {c["metadata"]["name"]: c["value"] for c in api.list(PRIORITY_CLASSES)}
    assert found == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    error = refused(403, lambda: api.delete(PRIORITY_CLASSES, "", "system-node-critical"))
    assert error.message == (
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
        "this is a system priority class and cannot be deleted"
    )


def test_a_pod_gets_what_its_class_says(api):
    api.create(PRIORITY_CLASSES, GOLD)
    assert priority(api, priorityClassName="gold") == ("gold", 1000, "Never")
    api.delete(PRIORITY_CLASSES, "", "gold")
    refused(403, lambda: priority(api, priorityClassName="gold"))


def test_a_pod_without_a_class_gets_the_default_one(api):
    assert priority(api) == (None, 0, "PreemptLowerPriority")
    api.create(PRIORITY_CLASSES, GOLD)
    api.create(PRIORITY_CLASSES, DEFAULT)
    again = pod(metadata={"name": "b"})
    spec = api.create(PODS, again, namespace="shop")["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", -7)


def test_there_is_one_default_at_most(api):
    api.create(PRIORITY_CLASSES, DEFAULT)
    api.create(PRIORITY_CLASSES, GOLD)
    made_default = {"globalDefault": True}
    for write in (
        lambda: api.create(PRIORITY_CLASSES, {**DEFAULT, "metadata": {"name": "other"}}),
        lambda: api.patch(PRIORITY_CLASSES, "", "gold", made_default, MERGE_PATCH),
    ):
        error = refused(403, write)
        assert "PriorityClass usual is already marked as default" in error.message
    api.patch(PRIORITY_CLASSES, "", "usual", {"description": "still the default"}, MERGE_PATCH)
