"""The admission policy that holds the right to patch pods: ours go through, hostile ones do not."""

import asyncio
import copy
from functools import cache

import orjson
import pytest

from kubedsm_lab.emulator.access.rbac import User
from kubedsm_lab.emulator.api.policies import list_denials
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS, RESOURCE_QUOTAS
from support.manifests import MANIFESTS, documents
from support.move_scenes import (
    LARGE_CLOUD,
    is_detached,
    migrating,
    open_edge,
    quiet,
    settle_on_cloud,
)

FILE = MANIFESTS / "components" / "guarded-patches" / "policy.yaml"
OURS = "system:serviceaccount:kubedsm:kubedsm"
POD = {
    "metadata": {
        "name": "web-1",
        "labels": {"app": "web", "pod-template-hash": "h1"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}],
    },
    "spec": {"schedulerName": "kubedsm", "containers": [{"name": "c", "image": "web:1"}]},
}
DETACHED = {
    **POD,
    "metadata": {"name": "web-1", "labels": {"app": "web", "kubedsm.io/migrating": "h1"}},
}


@cache
def policy():
    return documents(FILE)[0]["spec"]


def denials(before, after, user, subresource=""):
    return list(list_denials(policy(), before, after, User(user).info, subresource))


class PatchesOfPods:
    """In front of the routes: what each PATCH of a pod itself made of it."""

    def __init__(self, world):
        self.seen = []
        self._routes, self._api = world.cluster.routes, world.api

    def handle(self, request):
        parts = request.path.split("/")
        if request.method != "PATCH" or parts[-2] != "pods":
            return self._routes.handle(request)
        before = self._api.store.get(PODS, parts[-3], parts[-1])
        answer = self._routes.handle(request)
        if answer.status == 200:
            self.seen.append((before, orjson.loads(answer.body)))
        return answer


async def test_all_that_we_patch_goes_through():
    """Roll back a migration, complete one, change a node's tier, and orphan a pod for the GC."""
    async with migrating(LARGE_CLOUD) as world:
        world.cluster.routes = patches = PatchesOfPods(world)
        async with world.scheduler():
            await settle_on_cloud(world, "web", 1)
            world.quota(pods="1")
            open_edge(world)
            await world.until(lambda: any(map(is_detached, world.pods())), 10)
            await world.until(lambda: not any(map(is_detached, world.pods())), 5)
            await quiet(world, 20)
            world.api.delete(RESOURCE_QUOTAS, "default", "quota")
            await world.until(lambda: world.placed("web") == {"e1": 1}, 60)
            await quiet(world)
            away = {"metadata": {"labels": {"kubedsm.io/tier": "cloud"}}}
            world.patch(NODES, "e1", away)
            await asyncio.sleep(10)
    async with migrating(LARGE_CLOUD) as world:
        world.cluster.routes = orphaning = PatchesOfPods(world)
        async with world.scheduler():
            await settle_on_cloud(world, "web", 2)
            world.budget("web", maxUnavailable=1)
            open_edge(world)
            await world.until(lambda: any(map(is_detached, world.pods())), 10)
            world.api.delete(DEPLOYMENTS, "default", "web")
            await world.until(lambda: not world.pods(), 60)
    kinds = {tuple(map(is_detached, pair)) for pair in patches.seen}
    # Taken, given back, marked with another tier.
    assert kinds == {(False, True), (True, False), (False, False)}
    owners = [["ownerReferences" in each["metadata"] for each in pair] for pair in orphaning.seen]
    assert [False, True] in owners
    for before, after in (*patches.seen, *orphaning.seen):
        assert denials(before, after, OURS) == []


def changed(pod, *path, to):
    """The pod with another value there; `...` for none."""
    made = copy.deepcopy(pod)
    *above, last = path
    part = made
    for step in above:
        part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
    if to is ...:
        del part[last]
    else:
        part[last] = to
    return made


IMAGE = ("spec", "containers", 0, "image")
LABELS, ANNOTATIONS = ("metadata", "labels"), ("metadata", "annotations")
HASH = "pod-template-hash"
OWNERS = ("metadata", "ownerReferences")
#: the ReplicaSet that the detached pod is from
GONE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-h1", "uid": "u"}
WITH_STATUS = "together with its status"
SPEC, OWNER, LABEL = "nothing in its spec", "whose a pod is", "of the labels"
RETURN, NOTE, OPTED_IN = "comes back from there", "of the annotations", "whose schedulerName"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (POD, changed(POD, *IMAGE, to="miner:1"), SPEC),
        (POD, changed(POD, "spec", "activeDeadlineSeconds", to=1), SPEC),
        (POD, changed(POD, "spec", "tolerations", to=[{"operator": "Exists"}]), SPEC),
        (POD, changed(POD, "metadata", "ownerReferences", to=...), OWNER),
        (DETACHED, changed(DETACHED, "metadata", "ownerReferences", to=[]), OWNER),
        (POD, changed(POD, *OWNERS, to=[*POD["metadata"]["ownerReferences"], GONE]), OWNER),
        (DETACHED, changed(DETACHED, *OWNERS, to=[{**GONE, "name": "web-h2"}]), OWNER),
        (DETACHED, changed(DETACHED, *OWNERS, to=[{**GONE, "controller": True}]), OWNER),
        (DETACHED, changed(DETACHED, *OWNERS, to=[{**GONE, "kind": "Deployment"}]), OWNER),
        (DETACHED, changed(DETACHED, *OWNERS, to=[GONE, GONE]), OWNER),
        (POD, changed(POD, "metadata", "finalizers", to=["evil.example/stay"]), "finalizers"),
        (POD, changed(POD, *LABELS, "app", to="bank"), LABEL),
        (POD, changed(POD, *LABELS, "app", to=...), LABEL),
        (POD, changed(POD, *LABELS, "kubedsm.io.evil", to="1"), LABEL),
        (POD, changed(POD, *LABELS, HASH, to=...), RETURN),
        (POD, changed(POD, *LABELS, HASH, to="h2"), RETURN),
        (POD, changed(POD, *LABELS, to={"app": "web", "kubedsm.io/migrating": "h2"}), RETURN),
        (DETACHED, changed(DETACHED, *LABELS, to={"app": "web", HASH: "h2"}), RETURN),
        (DETACHED, changed(DETACHED, *LABELS, HASH, to="h1"), RETURN),
        (
            POD,
            changed(POD, *ANNOTATIONS, "cluster-autoscaler.kubernetes.io/safe-to-evict", to="true"),
            NOTE,
        ),
        (
            changed(POD, *ANNOTATIONS, "a", to="1"),
            changed(POD, *ANNOTATIONS, to={}),
            NOTE,
        ),
        (
            changed(POD, "spec", "schedulerName", to="default-scheduler"),
            changed(
                changed(POD, "spec", "schedulerName", to="default-scheduler"),
                *LABELS, "kubedsm.io/tier", to="edge",
            ),
            OPTED_IN,
        ),
    ],
)  # fmt: skip
def test_hostile_patches_are_refused(before, after, why):
    (denial,) = denials(before, after, OURS)
    assert why in denial
    # What others may do is not its matter.
    for user in ("alice", "system:serviceaccount:kubedsm:default", f"{OURS}2"):
        assert denials(before, after, user) == []
    assert denials(before, after, "system:serviceaccount:scheduling:kubedsm") == [denial]


STATUS = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ((*LABELS, "app"), "bank", LABEL),
        ((*LABELS, HASH), "stolen", RETURN),
        ((*LABELS, "kubedsm.io/tier"), "edge", WITH_STATUS),
        ((*ANNOTATIONS, "kubedsm.io/move"), "{}", WITH_STATUS),
        (("metadata", "finalizers"), ["evil.example/hold"], "finalizers"),
    ],
)
def test_a_status_takes_no_metadata_with_it(path, value, why):
    after = changed(changed(POD, "status", to=STATUS), *path, to=value)
    assert any(why in denial for denial in denials(POD, after, OURS, "status"))
    assert denials(POD, after, "alice", "status") == []


def test_the_scheduler_writes_conditions_nominations_and_its_own_labels_and_annotations():
    after = changed(POD, "status", to={**STATUS, "nominatedNodeName": "e1"})
    assert denials(POD, after, OURS, "status") == []
    other = changed(POD, "spec", "schedulerName", to="other")
    assert denials(other, changed(other, "status", to=STATUS), OURS, "status")
    bare = {"metadata": {"name": "a"}, "spec": POD["spec"]}
    for path, value in (
        ((*LABELS, "kubedsm.io/tier"), "edge"),
        ((*ANNOTATIONS, "controller.kubernetes.io/pod-deletion-cost"), "-100"),
        ((*ANNOTATIONS, "kubedsm.io/move"), "{}"),
    ):
        marked = changed(bare, *path, to=value)
        assert denials(bare, marked, OURS) == denials(marked, bare, OURS) == []
