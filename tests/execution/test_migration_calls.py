"""The calls of a move's steps, each alone: how often they are made, and when no more."""

import asyncio

import attrs
import pytest
from msgspec.structs import replace

from kubedsm.execution.migration_calls import Accepted, Fate, fate
from kubedsm.kube.calls import writes
from kubedsm.kube.calls.reads import LiveOwner
from kubedsm.kube.client.port import Conflict, Invalid, Unreachable
from kubedsm.kube.wire.annotations import MoveMark
from kubedsm.model.model import Uid
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from kubedsm_lab.emulator.front import EmulatedFront, Faults, RequestFault
from kubedsm_lab.emulator.http.routes import Routes
from plans.events import CallRefused, OutcomeLost, PodGone
from plans.migration import MoveMode
from plans.steps import Step, StepKind, StepState
from support.faults import OUTCOMES
from support.still import LABELS, Still

MARK = MoveMark("web-h1", "u", "p", "e1", "1")


class Noted(Faults):
    """Notes each request, and may refuse some."""

    def __init__(self, fault=lambda _: None):
        self.requests, self.fault = [], fault

    def on_request(self, request):
        self.requests.append(request)
        return self.fault(request)

    def writes(self):
        return [request for request in self.requests if request.method != "GET"]


def asked(kind, pod, deadline=1000.0):
    step = Step(1, kind, pod.uid, "", deadline, move="m", state=StepState.ASKED)
    return replace(step, deadline=deadline)


class Called:
    """One call of a workload that stays as it is, until its step is over."""

    def __init__(self, fault=lambda _: None):
        self.still, self.noted, self.told = Still(), Noted(fault), []
        self.still.front = EmulatedFront(
            Routes(self.still.api), self.still.clock, faults=self.noted
        )
        # Budgets say nothing of a pod that is Pending.
        self.still.status((PODS, self.still.pod), phase="Running")
        self.pod = self.still.known()
        self.wanted = True

    async def during(self, call, seconds):
        calling = asyncio.create_task(call(lambda: self.wanted, self.told.append))
        await asyncio.wait([calling], timeout=seconds)
        self.wanted = False
        await calling

    def evicts(self, ready_to_keep=2):
        step = asked(StepKind.EVICT, self.pod)
        accepted = Accepted(min_ready=0.0, grace=0.0, ready_to_keep=ready_to_keep, found=None)
        return lambda *asks: self.still.step_calls.evict(step, self.pod, accepted, *asks)

    def detaches(self):
        step = asked(StepKind.DETACH, self.pod)
        return lambda *asks: self.still.step_calls.detach(step, self.pod, None, *asks)

    def restores(self):
        step = asked(StepKind.RESTORE, self.pod)
        return lambda *asks: self.still.step_calls.restore(step, self.pod, None, *asks)


async def test_an_eviction_waits_longer_and_longer_for_a_budget_that_refuses_it():
    called = Called()
    called.still.budget(0)
    await called.during(called.evicts(), 31)
    assert called.told == []
    # at 0, 1, 3, 7, 15 and 31 seconds
    assert len(called.noted.writes()) in (5, 6)


async def test_an_eviction_is_sent_once_the_budget_allows_it():
    called = Called()
    called.still.budget(0)
    evicting = asyncio.create_task(called.during(called.evicts(), 8))
    await asyncio.sleep(5)
    assert not called.still.known().terminating
    allows = {"disruptionsAllowed": 1, "observedGeneration": 1}
    called.still.status((POD_DISRUPTION_BUDGETS, "web"), **allows)
    await evicting
    assert called.told == []
    gone = not called.still.api.exists(PODS, "default", called.still.pod)
    assert gone or called.still.known().terminating


async def test_nothing_is_evicted_while_too_few_others_are_ready():
    called = Called()
    called.still.ready("False", called.still.others[0])
    await called.during(called.evicts(), 60)
    assert called.noted.writes() == []


async def test_a_pod_that_changes_on_the_way_of_its_eviction_is_read_again_first():
    """Another leader may have given it back meanwhile: only what was read may be evicted."""
    called = Called()

    def change(request):
        if request.method == "POST" and len(called.noted.writes()) == 1:
            labels = {"labels": {"kubedsm.io/tier": "edge"}}
            called.still.patch((PODS, called.still.pod), {"metadata": labels})

    called.noted.fault = change
    evicting = asyncio.create_task(called.during(called.evicts(), 3))
    await asyncio.sleep(0.5)
    assert len(called.noted.writes()) == 1
    assert not called.still.known().terminating
    await evicting
    assert called.told == []
    gone = not called.still.api.exists(PODS, "default", called.still.pod)
    assert gone or called.still.known().terminating


async def test_a_pod_that_changes_on_the_way_of_its_detaching_stays_with_its_owner():
    called = Called()

    def change(request):
        if request.method == "PATCH":
            labels = {"labels": {"kubedsm.io/tier": "edge"}}
            called.still.patch((PODS, called.still.pod), {"metadata": labels})

    called.noted.fault = change
    await called.during(called.detaches(), 5)
    assert [type(each) for each in called.told] == [CallRefused]
    assert not called.still.known().detached


@pytest.mark.parametrize("call", [Called.evicts, Called.detaches], ids=["eviction", "detaching"])
async def test_what_is_over_when_its_objects_were_read_is_not_sent(call):
    called = Called()
    called.noted.fault = lambda request: setattr(called, "wanted", False)
    await called.during(call(called), 5)
    assert called.noted.writes() == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("lost", OutcomeLost),
        ("lost-applied", OutcomeLost),
        ("503", OutcomeLost),
        ("unreachable", CallRefused),
        ("403", CallRefused),
        ("409", CallRefused),
    ],
)
async def test_only_what_was_not_applied_for_sure_refuses_a_detaching(outcome, told):
    called = Called(lambda request: OUTCOMES[outcome] if request.method == "PATCH" else None)
    await called.during(called.detaches(), 5)
    assert [type(event) for event in called.told] == [told]
    assert called.told[0].reason.startswith("detaching: ")


async def test_a_pod_that_cannot_be_read_is_looked_for_ever_more_rarely():
    called = Called(lambda _: RequestFault(Unreachable("refused")))
    await called.during(called.restores(), 63)
    assert called.told == []
    # at 0, 1, 3, 7, 15, 31, 47 and 63 seconds
    assert len(called.noted.requests) in (7, 8)


async def test_a_restoring_that_is_over_does_nothing_more():
    called = Called()
    called.still.detach(called.still.pod)
    called.wanted = False
    await called.during(called.restores(), 5)
    assert called.noted.requests == []


async def test_a_replacement_is_not_awaited_when_pod_and_owner_are_gone():
    """As after the deletion of their namespace: no live read of the pod can tell whose it was."""
    called = Called()
    accepted = await called.still.check(MoveMode.RECREATE)
    for name in (called.still.pod, *called.still.others):
        called.still.api.delete(PODS, "default", name, grace_seconds=0)
    called.still.remove(called.still.top)
    called.noted.requests.clear()
    step = asked(StepKind.AWAIT_REPLACEMENT, called.pod)
    awaits = called.still.step_calls.await_replacement
    await called.during(lambda *asks: awaits(step, called.pod, accepted, *asks), 10)
    assert called.told == [CallRefused(step.id, "the owner is gone")]
    assert len(called.noted.requests) <= 3


#: of rights and quotas; of a webhook that names no status; of a ValidatingAdmissionPolicy
DENIALS = ("403", "400", "422")


@pytest.mark.parametrize("denial", DENIALS)
async def test_an_eviction_that_is_denied_is_refused_at_once(denial):
    called = Called(lambda request: OUTCOMES[denial] if request.method == "POST" else None)
    await called.during(called.evicts(), 0.5)
    assert [type(event) for event in called.told] == [CallRefused]


#: by what each of the budgets of the pod allows
BUDGETS = {"a budget": [0], "two budgets": [1, 1]}


@pytest.mark.parametrize("denial", [*DENIALS, *BUDGETS])
async def test_a_detached_pod_that_cannot_be_evicted_is_given_back(denial):
    called = Called(lambda request: OUTCOMES.get(denial) if request.method == "POST" else None)
    called.still.detach(called.still.pod)
    called.still.new_pod("web-3")  # enough without it
    for number, allowed in enumerate(BUDGETS.get(denial, ())):
        called.still.budget(allowed, f"budget-{number}")
    await called.during(called.restores(), 10)
    assert [request.method for request in called.noted.writes()] == ["POST", "PATCH"]
    assert not called.still.known().detached


WRITES = {
    "detach": lambda *at: writes.detach(*at, "h1", MARK),
    "reattach": lambda *at: writes.reattach(*at, "h1", "web", "u1"),
    "annotate": lambda *at: writes.annotate(*at, {"a": "b"}, {}),
    "evict": writes.evict,
    "bind": lambda *at: writes.bind(*at, "n1", annotations={}, labels={}),
    "condition": lambda *at: writes.set_pod_condition(*at, "r", "m", since=0.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_no_write_reaches_another_pod_of_the_name(write):
    still = Still()
    known = still.known()
    with pytest.raises((Conflict, Invalid)):
        await write(still.front, attrs.evolve(known, uid=Uid("earlier")))
    assert still.known().resource_version == known.resource_version


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
