"""Whether a pod may be moved, judged on the objects an API server has, where nothing else acts."""

import random

import attrs
import orjson
import pytest

from kubedsm.clock import VirtualClock
from kubedsm.cluster.calls import live
from kubedsm.cluster.calls.live import LiveOwner
from kubedsm.cluster.wire.decoding import pod as read
from kubedsm.cluster.wire.move_mark import MOVE_ANNOTATION
from kubedsm.configuration.current import CurrentConfiguration
from kubedsm.core.world.model import Uid
from kubedsm.emulator.api.api_server import ApiServer
from kubedsm.emulator.api.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
)
from kubedsm.emulator.front import EmulatedFront
from kubedsm.emulator.http.routes import Routes
from kubedsm.runtime.step_calls import Accepted, StepCalls
from kubedsm.runtime.step_checks import Fate, fate
from kubedsm.said_by_cause import SaidByCause
from plans.events import PodGone
from plans.migration import MoveMode
from plans.steps import Step, StepKind

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

MERGE = "application/merge-patch+json"
SURGE, RECREATE = MoveMode.SURGE, MoveMode.RECREATE
CONTAINER = {"name": "c", "image": "pause"}
LABELS = {"app": "web", "pod-template-hash": "h1"}


class Still:
    """A workload of three Ready pods on node c1, which stays as it is until a test changes it."""

    def __init__(self, kind="Deployment"):
        self.clock = VirtualClock()
        self.api = ApiServer(self.clock, random.Random(0))
        self.front = EmulatedFront(Routes(self.api), self.clock)
        spec = {
            "replicas": 3,
            "minReadySeconds": 7,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}},
        }
        if kind == "StatefulSet":
            owner = self.create(STATEFUL_SETS, "web", spec={**spec, "serviceName": "web"})
            self.top = (STATEFUL_SETS, "web")
        else:
            above = self.create(DEPLOYMENTS, "web", spec=spec)
            self.top = (DEPLOYMENTS, "web")
            owner = self.create(
                REPLICA_SETS, "web-h1", spec=spec, ownerReferences=[_reference(kind, above)]
            )
            kind = "ReplicaSet"
        self.owner = _reference(kind, owner)
        self.status(self.top, observedGeneration=1, replicas=3, updatedReplicas=3)
        self.pod, *self.others = [self.new_pod(f"web-{n}") for n in range(3)]

    def create(self, resource, name, *, spec, labels=None, **metadata):
        thing = {
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}, **metadata},
            "spec": spec,
        }
        return self.api.create(resource, thing, namespace="default")

    def new_pod(self, name):
        spec = {"containers": [CONTAINER], "nodeName": "c1", "terminationGracePeriodSeconds": 45}
        self.create(PODS, name, spec=spec, labels=LABELS, ownerReferences=[self.owner])
        self.ready("True", name)
        return name

    def ready(self, status, name):
        self.status((PODS, name), conditions=[{"type": "Ready", "status": status}])

    def status(self, of, **status):
        resource, name = of
        patch = {"status": status}
        self.api.patch(resource, "default", name, patch, MERGE, subresource="status")

    def patch(self, of, patch):
        resource, name = of
        self.api.patch(resource, "default", name, patch, MERGE)

    def remove(self, of):
        resource, name = of
        self.api.delete(resource, "default", name, propagation="Orphan", grace_seconds=0)
        if self.api.exists(resource, "default", name):
            self.patch(of, {"metadata": {"finalizers": None}})

    def budget(self, allowed, name="web"):
        selector = {"matchLabels": {"app": "web"}}
        self.create(POD_DISRUPTION_BUDGETS, name, spec={"maxUnavailable": 1, "selector": selector})
        self.status((POD_DISRUPTION_BUDGETS, name), disruptionsAllowed=allowed)

    def detach(self, name, uid=None):
        owner = {"replicaSet": self.owner["name"], "uid": uid or self.owner["uid"]}
        note = owner | {"plan": "p", "target": "e1", "since": "1"}
        metadata = {
            "labels": {"pod-template-hash": None, "kubedsm.io/migrating": "h1"},
            "annotations": {MOVE_ANNOTATION: orjson.dumps(note).decode()},
            "ownerReferences": None,
        }
        self.patch((PODS, name), {"metadata": metadata})

    def known(self):
        """The pod as the mirror has it."""
        return read(orjson.dumps(self.api.get(PODS, "default", self.pod)))

    async def check(self, mode):
        step_calls = StepCalls(
            self.front, self.clock, 10.0, CurrentConfiguration(), SaidByCause(self.clock)
        )
        return await step_calls.check(self.known(), "c1", mode)

    async def read_owner(self):
        found = await live.read_pod(self.front, self.known(), timeout=10)
        return await live.read_owner(self.front, found, timeout=10)


def _reference(kind, owner):
    metadata = owner["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def leaves(still, name):
    still.patch((PODS, name), {"metadata": {"finalizers": ["example.com/stay"]}})
    still.api.delete(PODS, "default", name, grace_seconds=30)


async def test_what_the_move_needs_is_read_from_the_objects():
    assert await Still().check(SURGE) == Accepted(min_ready=7, grace=45, ready_to_keep=3)
    assert await Still().check(RECREATE) == Accepted(min_ready=7, grace=45, ready_to_keep=1)


@pytest.mark.parametrize("mode", [SURGE, RECREATE])
async def test_another_pod_of_that_name_is_not_the_one_to_be_moved(mode):
    still = Still()
    earlier = attrs.evolve(still.known(), uid=Uid("earlier"))
    step_calls = StepCalls(
        still.front, still.clock, 10.0, CurrentConfiguration(), SaidByCause(still.clock)
    )
    assert await step_calls.check(earlier, "c1", mode) == "the pod is gone"


async def test_another_pod_of_that_name_is_not_detached_though_the_watch_has_not_told():
    still, told = Still(), []
    earlier = attrs.evolve(still.known(), uid=Uid("earlier"))
    step_calls = StepCalls(
        still.front, still.clock, 10.0, CurrentConfiguration(), SaidByCause(still.clock)
    )
    step = Step(1, StepKind.DETACH, earlier.uid, "e1", 10.0, move="m")
    await step_calls.detach(step, earlier, lambda: True, told.append)
    assert told == [PodGone("earlier")]
    assert not still.known().detached


#: what becomes of another pod of the workload, so that it is no longer one that is Ready and stays
LOST = {
    "Ready no more": lambda still, name: still.ready("False", name),
    "of unknown readiness, as on a lost node": lambda still, name: still.ready("Unknown", name),
    "terminating": leaves,
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


def namesake(still, resource, name):
    """Another owner of the same name."""
    old = still.api.get(resource, "default", name)
    still.remove((resource, name))
    kept = {"ownerReferences": old["metadata"].get("ownerReferences")}
    still.create(resource, name, spec=old["spec"], **{k: v for k, v in kept.items() if v})


def goes(still, resource, name):
    still.patch((resource, name), {"metadata": {"finalizers": ["example.com/stay"]}})
    still.api.delete(resource, "default", name)


GONE = {
    "ReplicaSet gone": lambda s: s.remove((REPLICA_SETS, "web-h1")),
    "Deployment gone": lambda s: s.remove((DEPLOYMENTS, "web")),
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
        "its owner is about to delete pods",
    ),
    "a quota is used up": (
        lambda s: s.status((REPLICA_SETS, "web-h1"), conditions=[
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]),
        "Deployment", "its owner cannot create pods: exceeded quota",
    ),
    "two budgets": (
        lambda s: (s.budget(1), s.budget(1, "too")), "Deployment", "several budgets cover it",
    ),
    "the pod on its way": (
        lambda s: leaves(s, s.pod), "Deployment", "the pod is not Ready, or on its way already",
    ),
    "the pod of unknown readiness": (
        lambda s: s.ready("Unknown", s.pod), "Deployment",
        "the pod is not Ready, or on its way already",
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
    assert await still.check(RECREATE) == "budget web allows no disruption"
    assert isinstance(await still.check(SURGE), Accepted)
    still.status((POD_DISRUPTION_BUDGETS, "web"), disruptionsAllowed=1)
    assert isinstance(await still.check(RECREATE), Accepted)


async def test_a_service_that_selects_by_template_hash_refuses_only_to_detach():
    still = Still()
    still.create(SERVICES, "web", spec={"selector": LABELS, "ports": [{"port": 80}]})
    assert "selects by template hash" in await still.check(SURGE)
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
