"""Whether a pod may be moved, judged on the objects an API server has, where nothing else acts."""

import attrs
import pytest

from kubedsm.execution.migration_calls import Accepted, Fate, fate
from kubedsm.kube.calls.reads import LiveOwner
from kubedsm.kube.client.port import Conflict
from kubedsm.model.model import Uid
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from plans.events import PodGone
from plans.migration import MoveMode
from plans.steps import Step, StepKind
from support.still import LABELS, Still

SURGE, RECREATE = MoveMode.SURGE, MoveMode.RECREATE


async def test_what_the_move_needs_is_read_from_the_objects():
    for mode, keep in ((SURGE, 3), (RECREATE, 1)):
        still = Still()
        accepted = await still.check(mode)
        assert accepted == Accepted(7, 45, keep, accepted.found)
        assert accepted.found.owner_uid == still.owner["uid"]


@pytest.mark.parametrize("mode", [SURGE, RECREATE])
async def test_another_pod_of_that_name_is_not_the_one_to_be_moved(mode):
    still = Still()
    earlier = attrs.evolve(still.known(), uid=Uid("earlier"))
    assert await still.step_calls.check(earlier, mode) == "the pod is gone"


async def test_another_pod_of_that_name_is_not_detached_though_the_watch_has_not_told():
    still, told = Still(), []
    earlier = attrs.evolve(still.known(), uid=Uid("earlier"))
    step = Step(1, StepKind.DETACH, earlier.uid, "e1", 10.0, move="m")
    await still.step_calls.detach(step, earlier, None, lambda: True, told.append)
    assert told == [PodGone("earlier")]
    assert not still.known().detached


#: what becomes of another pod of the workload, so that it is no longer one that is Ready and stays
LOST = {
    "Ready no more": lambda still, name: still.ready("False", name),
    "of unknown readiness, as on a lost node": lambda still, name: still.ready("Unknown", name),
    "terminating": Still.leaves,
    "detached": Still.detach,
    "another app's": lambda still, name: still.patch(
        (PODS, name), {"metadata": {"labels": {"app": "other"}}}
    ),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_only_pods_that_are_ready_and_stay_count_as_the_others(lost):
    still = Still()
    assert (await still.read_owner()).ready_others == 2
    lost(still, still.others[0])
    assert (await still.read_owner()).ready_others == 1
    assert (await still.check(SURGE)).ready_to_keep == 2
    assert isinstance(await still.check(RECREATE), Accepted)
    lost(still, still.others[1])
    assert await still.check(RECREATE) == "it is the last Ready pod of its owner"


async def test_pods_of_another_deployment_that_match_the_selector_are_no_others():
    """A canary has the labels of the stable version, and one more."""
    still = Still()
    still.owner = {**still.owner, "name": "canary-h1", "uid": "another"}
    still.new_pod("canary")
    assert (await still.read_owner()).ready_others == 2


def namesake(still, resource, name):
    """Another owner of the same name."""
    old = still.api.get(resource, "default", name)
    still.remove((resource, name))
    kept = {"ownerReferences": old["metadata"].get("ownerReferences")}
    still.create(resource, name, spec=old["spec"], **{k: v for k, v in kept.items() if v})


def collected(still, resource, name):
    """An owner that is deleted with its pods, but for the one that is asked about."""
    still.remove((resource, name))
    for other in still.others:
        still.api.delete(PODS, "default", other, grace_seconds=0)


def goes(still, resource, name):
    still.patch((resource, name), {"metadata": {"finalizers": ["example.com/stay"]}})
    still.api.delete(resource, "default", name)


GONE = {
    "ReplicaSet gone": lambda s: collected(s, REPLICA_SETS, "web-h1"),
    "Deployment gone": lambda s: collected(s, DEPLOYMENTS, "web"),
    "another ReplicaSet of that name": lambda s: namesake(s, REPLICA_SETS, "web-h1"),
    "another Deployment of that name": lambda s: namesake(s, DEPLOYMENTS, "web"),
    "ReplicaSet about to go": lambda s: goes(s, REPLICA_SETS, "web-h1"),
    "Deployment about to go": lambda s: goes(s, DEPLOYMENTS, "web"),
}


@pytest.mark.parametrize("happens", GONE.values(), ids=GONE)
async def test_an_owner_that_is_gone_or_another_one_is_none(happens):
    still = Still()
    happens(still)
    assert (await still.read_owner()).gone
    assert await still.check(SURGE) == "its owner is gone"


@pytest.mark.parametrize("owner", [(REPLICA_SETS, "web-h1"), (DEPLOYMENTS, "web")])
async def test_an_owner_that_is_not_found_though_its_pods_run_is_not_taken_for_gone(owner):
    still = Still()
    still.remove(owner)
    with pytest.raises(Conflict, match="is not found, but its pod web-"):
        await still.read_owner()
    assert (await still.check(SURGE)).startswith("it cannot be checked: ")


async def test_the_owner_of_a_detached_pod_is_known_by_the_uid_it_notes():
    still = Still()
    still.detach(still.pod)
    assert not (await still.read_owner()).gone
    still.detach(still.pod, uid="another")
    assert (await still.read_owner()).gone


REFUSED = {
    "rolling out": (
        lambda s: s.status(s.top, updatedReplicas=1), "Deployment", "its owner is rolling out",
    ),
    "a change nobody has looked at yet": (
        lambda s: s.patch(s.top, {"spec": {"replicas": 2}}), "Deployment",
        "its owner is rolling out",
    ),
    "revisions differ": (
        lambda s: s.status(s.top, currentRevision="a", updateRevision="b"), "StatefulSet",
        "its owner is rolling out",
    ),
    "scaled down": (
        lambda s: s.status(s.top, replicas=4, updatedReplicas=4), "Deployment",
        "its owner is scaling down",
    ),
    "a quota is used up": (
        lambda s: s.status((REPLICA_SETS, "web-h1"), conditions=[
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]),
        "Deployment", "its owner cannot create pods: exceeded quota",
    ),
    "two budgets": (
        lambda s: (s.budget(1), s.budget(1, "too")), "Deployment", "several PodDisruptionBudgets",
    ),
    "the pod that is leaving": (
        lambda s: s.leaves(s.pod), "Deployment", "the pod is not Ready, or already leaving",
    ),
    "the pod of unknown readiness": (
        lambda s: s.ready("Unknown", s.pod), "Deployment",
        "the pod is not Ready, or already leaving",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", [SURGE, RECREATE])
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
async def test_a_move_is_refused_in_either_mode(case, mode):
    happens, kind, reason = case
    still = Still(kind)
    happens(still)
    assert (await still.check(mode)).startswith(reason)


async def test_a_budget_that_allows_nothing_refuses_only_to_break_before_it_is_made_good():
    still = Still()
    still.budget(0)
    assert await still.check(RECREATE) == "PodDisruptionBudget web allows no disruption"
    assert isinstance(await still.check(SURGE), Accepted)
    still.status((POD_DISRUPTION_BUDGETS, "web"), disruptionsAllowed=1)
    assert isinstance(await still.check(RECREATE), Accepted)


async def test_a_service_that_selects_by_template_hash_refuses_only_to_detach():
    still = Still()
    still.create(SERVICES, "web", spec={"selector": LABELS, "ports": [{"port": 80}]})
    assert "selects by pod-template-hash" in await still.check(SURGE)
    assert isinstance(await still.check(RECREATE), Accepted)


async def test_a_pod_of_a_stateful_set_is_recreated_and_never_detached():
    still = Still("StatefulSet")
    assert "ReplicaSet can be detached" in await still.check(SURGE)
    assert isinstance(await still.check(RECREATE), Accepted)


OWNER = LiveOwner(gone=False, wanted=3, owner_wants=3, ready_others=2)
FATES = {
    "the owner needs it": ({}, False, Fate.REATTACH),
    "the owner is gone": ({"gone": True}, False, Fate.EVICT),
    "the owner has enough without it": ({"ready_others": 3}, False, Fate.EVICT),
    "a scale-down made it one too many": ({"wanted": 2, "owner_wants": 2}, False, Fate.EVICT),
    "enough, and a budget keeps it": ({"ready_others": 3}, True, Fate.REATTACH),
    "a rollout, not Ready yet": ({"owner_wants": 0}, False, Fate.WAIT),
    "a rollout, Ready": ({"owner_wants": 0, "ready_others": 3}, False, Fate.EVICT),
    "a rollout, Ready, and a budget": ({"owner_wants": 0, "ready_others": 3}, True, Fate.REATTACH),
}


@pytest.mark.parametrize("case", FATES.values(), ids=FATES)
async def test_what_is_right_for_a_detached_pod_that_has_no_move_any_more(case):
    state, eviction_refused, right = case
    assert fate(attrs.evolve(OWNER, **state), eviction_refused=eviction_refused) is right
