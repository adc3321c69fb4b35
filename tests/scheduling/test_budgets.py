"""Decisions have a deadline, and pods that a batch leaves are decided on later."""

import asyncio

import attrs
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model.deadline import PATIENT_SHARE, URGENT_SHARE, Deadline
from kubedsm.optimizer.placing import immediate
from support.pod_rules import HOST, spread
from support.worlds import CLOUD, EDGE, emulated

CONFIGURATION = Configuration()
#: pods that look at each other
SPREAD = spread("web", 5, HOST)


@attrs.define
class Observed:
    """The configured policy; the deadlines it was given, and one that is always long past."""

    hasty: bool = False
    late: int = 0
    deadlines: list = attrs.field(factory=list)
    #: at each batch, how often others on the loop had their turn since another
    turns: list = attrs.field(factory=list)
    _had: int = 0

    def place(self, snapshot, pods, rng, deadline):
        self.deadlines.append(deadline)
        self.turns.append(self._had)
        asyncio.get_running_loop().call_soon(self._take_turn)
        given = Deadline(lambda: 2.0) if self.hasty else deadline
        decision = CONFIGURATION.policy.place(snapshot, pods, rng, given)
        self.late += len(decision.late)
        return decision

    def _take_turn(self):
        self._had += 1

    def suggest(self, snapshot, movable, deadline, lasting):
        self.deadlines.append(deadline)
        return CONFIGURATION.policy.suggest(snapshot, movable, deadline, lasting)


async def test_pods_beyond_what_one_batch_decides_on_are_decided_on_later(monkeypatch):
    monkeypatch.setattr(immediate, "MOST_RULED", 1)
    policy = Observed(hasty=True)
    async with emulated(EDGE, CLOUD) as world, world.scheduler(policy=policy):
        await world.bring_up("web", 5, within=30, **SPREAD)
        assert policy.late >= 4
        assert not world.events("FailedScheduling")


@pytest.mark.parametrize("which", ["batch", "suggester"])
async def test_time_for_a_decision_is_what_is_configured(which):
    policy = Observed()
    async with emulated(EDGE, CLOUD) as world, world.scheduler(policy=policy):
        await world.bring_up("web", 5, within=2)
        deadline = policy.deadlines[0]
        budget = CONFIGURATION.batch.budget
        if which == "suggester":
            before = len(policy.deadlines)
            await world.until(lambda: len(policy.deadlines) > before, 30)
            deadline, budget = policy.deadlines[-1], CONFIGURATION.suggester.budget
        begun = deadline.time_left()
        await asyncio.sleep(budget / 2)
        assert begun - deadline.time_left() == pytest.approx(budget / 2)
        share = PATIENT_SHARE if which == "suggester" else URGENT_SHARE
        assert deadline.seconds == pytest.approx(budget * share)


async def test_others_get_their_turn_between_batches():
    batch = attrs.evolve(CONFIGURATION.batch, size=2, idle=0.0)
    policy = Observed()
    async with emulated(
        EDGE, CLOUD, configuration=attrs.evolve(CONFIGURATION, batch=batch)
    ) as world:
        world.deploy("web", 12)
        await world.until(lambda: len(world.pods()) == 12, 5)
        async with world.scheduler(policy=policy):
            await world.until_bound(12, 5)
    assert policy.turns == list(range(len(policy.turns)))
    assert len(policy.turns) >= 6
