"""How pods get their node, and how they and other objects go."""

import pytest

from kubedsm_lab.emulator.api.patching import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, POD_DISRUPTION_BUDGETS, PODS
from support.api_cases import bind, budget, changes, pod, refused, run


def test_a_bound_pod_has_its_grace(api, clock):
    api.create(PODS, pod(), namespace="shop")
    bind(api)
    seen = changes(api)
    clock.seconds = 100
    going = api.delete(PODS, "shop", "a").object["metadata"]
    assert going["deletionTimestamp"] == "2026-01-01T00:02:10Z"
    assert going["deletionGracePeriodSeconds"] == 30
    # a later deletion can only shorten it
    assert api.delete(PODS, "shop", "a", grace_seconds=60).object["metadata"] == going
    assert api.delete(PODS, "shop", "a").object["metadata"] == going
    sooner = api.delete(PODS, "shop", "a", grace_seconds=5).object["metadata"]
    assert sooner["deletionTimestamp"] == "2026-01-01T00:01:45Z"
    assert sooner["generation"] == going["generation"] == 2
    # what a kubelet does when the containers are gone
    last = api.delete(PODS, "shop", "a", grace_seconds=0, uid=going["uid"]).object["metadata"]
    assert last["deletionTimestamp"] == "2026-01-01T00:01:40Z"
    assert [change.type for change in seen] == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


def test_finalizers_hold_a_deletion(api):
    given = {"metadata": {"name": "c", "finalizers": ["x/y"]}}
    api.create(CONFIGMAPS, given, namespace="shop")
    deletion = api.delete(CONFIGMAPS, "shop", "c")
    assert not deletion.gone
    more = {"metadata": {"finalizers": ["x/y", "x/z"]}}
    refused(422, lambda: api.patch(CONFIGMAPS, "shop", "c", more, MERGE_PATCH))
    seen = changes(api)
    api.patch(CONFIGMAPS, "shop", "c", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    assert [change.type for change in seen] == ["DELETED"]
    assert not api.exists(CONFIGMAPS, "shop", "c")


def guarded(api, allowed, policy=None, **status):
    made = budget()
    if policy is not None:
        made["spec"]["unhealthyPodEvictionPolicy"] = policy
    created = api.create(POD_DISRUPTION_BUDGETS, made, namespace="shop")
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 2,
        **status,
    }
    api.update(POD_DISRUPTION_BUDGETS, {**created, "status": status}, subresource="status")


def condition(status):
    [found] = status["conditions"]
    return found["status"], found["reason"]


def evict(api, name="a", **options):
    return api.evict("shop", name, {"metadata": {"name": name}, "deleteOptions": options})


def test_an_eviction_is_charged_to_the_budget(api):
    for name in ("a", "b"):
        api.create(PODS, pod(name), namespace="shop")
        run(api, name)
    allowed = {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"}
    guarded(api, allowed=1, conditions=[allowed])
    seen = changes(api)
    evict(api, gracePeriodSeconds=1)
    charged = api.get(POD_DISRUPTION_BUDGETS, "shop", "web")["status"]
    assert charged["disruptionsAllowed"] == 0
    assert condition(charged) == ("False", "InsufficientPods")
    assert list(charged["disruptedPods"]) == ["a"]
    states = [c.object for c in seen if c.resource is PODS]
    assert states[0]["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert states[1]["metadata"]["deletionGracePeriodSeconds"] == 1
    error = refused(429, lambda: evict(api, "b"))
    assert error.details == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 1 healthy pods and has 2 currently",
            }
        ]
    }
    assert "deletionTimestamp" not in api.get(PODS, "shop", "b")["metadata"]


def test_a_budget_that_its_controller_has_not_seen_yet_allows_nothing(api):
    api.create(PODS, pod(), namespace="shop")
    run(api)
    guarded(api, 1, observedGeneration=0)
    error = refused(429, lambda: evict(api))
    assert "is still being processed" in error.details["causes"][0]["message"]
    assert error.details["retryAfterSeconds"] == 10


def test_an_eviction_in_rehearsal_changes_nothing(api):
    api.create(PODS, pod(), namespace="shop")
    run(api)
    guarded(api, allowed=1)
    revision = api.store.revision
    evict(api, dryRun=["All"])
    api.evict("shop", "a", {"metadata": {"name": "a"}}, dry_run=True)
    assert api.store.revision == revision


BY_DEFAULT, ALWAYS = (None, "IfHealthyBudget"), ("AlwaysAllow",)
#: state of the pod, policies of its budget, healthy and desired pods; may the pod be evicted
UNGUARDED = [
    ("pending", (*BY_DEFAULT, *ALWAYS), (0, 1), True),
    ("terminating", (*BY_DEFAULT, *ALWAYS), (0, 1), True),
    ("unready", BY_DEFAULT, (1, 1), True),
    ("unready", BY_DEFAULT, (0, 1), False),
    ("unready", BY_DEFAULT, (0, 0), False),
    ("unready", ALWAYS, (0, 1), True),
    ("ready", (*BY_DEFAULT, *ALWAYS), (1, 1), False),
]


@pytest.mark.parametrize(
    ("state", "policy", "healthy", "goes"),
    [(state, policy, *more) for state, policies, *more in UNGUARDED for policy in policies],
)
def test_a_budget_that_allows_none_guards_healthy_pods(api, state, policy, healthy, goes):
    """As Kubernetes since 1.31; an eviction that the budget does not judge is not charged to it."""
    current, desired = healthy
    guarded(api, 0, policy, currentHealthy=current, desiredHealthy=desired)
    api.create(PODS, pod(), namespace="shop")
    if state == "pending":
        bind(api)
    else:
        run(api, ready=state != "unready")
    if state == "terminating":
        api.delete(PODS, "shop", "a")
    if goes:
        evict(api)
        assert "deletionTimestamp" in api.get(PODS, "shop", "a")["metadata"]
    else:
        refused(429, lambda: evict(api))
    assert api.get(POD_DISRUPTION_BUDGETS, "shop", "web")["status"].get("disruptedPods") is None


def test_an_eviction_that_is_refused_late_charges_nobody(api):
    api.create(PODS, pod(), namespace="shop")
    run(api)
    guarded(api, allowed=1)
    revision = api.store.revision
    refused(409, lambda: evict(api, preconditions={"uid": "other"}))
    refused(422, lambda: evict(api, propagationPolicy="Sideways"))
    refused(400, lambda: api.evict("shop", "a", {"metadata": {"name": "b"}}))
    refused(404, lambda: evict(api, "ghost"))
    assert api.store.revision == revision


def resized(api, resources, **more):
    container = {"name": "c", "resources": resources, "image": "other:2"}
    patch = {"spec": {"containers": [container]}, **more}
    return api.patch(PODS, "shop", "a", patch, STRATEGIC_MERGE_PATCH, subresource="resize")


@pytest.mark.parametrize("bound", [False, True])
def test_a_resize_changes_what_a_container_asks_for_and_nothing_else(api, *, bound):
    api.create(PODS, pod(), namespace="shop")
    if bound:
        bind(api)
    before = api.get(PODS, "shop", "a")
    after = resized(api, {"requests": {"cpu": "2"}}, metadata={"labels": {"app": "other"}})
    [container], [was] = after["spec"]["containers"], before["spec"]["containers"]
    assert container == {**was, "resources": {"requests": {"cpu": "2"}}}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    again = resized(api, {"requests": {"cpu": "2"}})
    assert again["metadata"] == after["metadata"]
