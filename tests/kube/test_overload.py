"""Requests to an overloaded API server: asked again when it wants, and within their time limit."""

from itertools import pairwise

import attrs
import pytest

from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import (
    TIMEOUT,
    DisruptionBudgetExceeded,
    ServerError,
    TooManyRequests,
)
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.front import Faults, RequestFault
from support.worlds import CLOUD, emulated

CALLS = {
    "read": lambda front, pod: reads.get_pod(front, "default", pod.name),
    "bind": lambda front, pod: writes.bind(front, pod, "c1", annotations={}, labels={}),
    "evict": writes.evict,
    "patch": lambda front, pod: writes.annotate(front, pod, {"a": "b"}, {}),
    "condition": lambda front, pod: writes.set_pod_condition(
        front, pod, "Unschedulable", "no node", since=0.0
    ),
    "event": lambda front, pod: writes.create_event(
        front, writes.Regarding.of(pod), reason="R", action="A", note="n", instance="i", at=0.0
    ),
}


@attrs.define
class Overload(Faults):
    """Refuses requests on some paths for `seconds` of virtual time; notes when each is sent."""

    clock: object
    fault: RequestFault
    seconds: float
    path: str = ""
    sent: list = attrs.field(factory=list)

    def on_request(self, request):
        if not request.path.endswith(self.path) or "watch" in request.query:
            return None
        self.sent.append(self.clock.monotonic())
        return self.fault if self.sent[-1] - self.sent[0] < self.seconds else None

    @property
    def pauses(self):
        return [round(later - earlier) for earlier, later in pairwise(self.sent)]


def refusal(status, seconds, **how):
    return RequestFault(answer(status, "TooManyRequests", retry_after=seconds), **how)


async def waiting_pod(world):
    world.create_pod("a")
    return await reads.get_pod(world.connect(), "default", "a")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_request_refused_by_flow_control_is_sent_again_when_the_server_asks_for_it(call):
    async with emulated(CLOUD) as world:
        overload = Overload(world.clock, refusal(429, 3), seconds=5)
        await call(world.connect(overload), await waiting_pod(world))
        assert overload.pauses == [3, 3]


@pytest.mark.parametrize("call", ["bind", "evict", "patch", "condition", "event"])
@pytest.mark.parametrize("seconds", [int(TIMEOUT), 3600])
async def test_a_write_waits_no_longer_than_its_time_limit(call, seconds):
    async with emulated(CLOUD) as world:
        overload = Overload(world.clock, refusal(429, seconds), seconds=TIMEOUT + 1)
        began = world.clock.monotonic()
        with pytest.raises(TooManyRequests):
            await CALLS[call](world.connect(overload), await waiting_pod(world))
        assert world.clock.monotonic() - began == pytest.approx(TIMEOUT, abs=0.1)
        assert len(overload.sent) == 1


async def test_a_write_whose_outcome_is_unknown_is_never_sent_twice():
    """Its caller learns of the refusal only when the server may be asked again."""
    async with emulated(CLOUD) as world:
        overload = Overload(world.clock, refusal(503, 3, applied=True), seconds=1)
        pod = await waiting_pod(world)
        began = world.clock.monotonic()
        with pytest.raises(ServerError):
            await CALLS["event"](world.connect(overload), pod)
        assert world.clock.monotonic() - began == pytest.approx(3, abs=0.1)
        assert len(world.events("R")) == len(overload.sent) == 1


async def test_a_budget_that_refuses_an_eviction_is_no_overload():
    """The API server asks for 10 s while the budget's controller has not processed the budget."""
    budget = answer(429, "TooManyRequests", cause="DisruptionBudget", retry_after=10)
    async with emulated(CLOUD) as world:
        overload, pod = Overload(world.clock, RequestFault(budget), 60), await waiting_pod(world)
        began = world.clock.monotonic()
        with pytest.raises(DisruptionBudgetExceeded):
            await writes.evict(world.connect(overload), pod)
        assert world.clock.monotonic() - began < 1


@pytest.mark.parametrize(("seconds", "least"), [(3, 3), (3600, TIMEOUT)])
async def test_a_pod_is_bound_soon_after_an_overload_ends(seconds, least):
    async with emulated(CLOUD) as world:
        overload = Overload(world.clock, refusal(429, seconds), seconds=10, path="/binding")
        async with world.scheduler(faults=overload):
            world.create_pod("a")
            await world.until_bound(1, 15)
        assert all(least <= pause <= least + 1 for pause in overload.pauses)
