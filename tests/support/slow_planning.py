"""Delayed planner responses, as of a worker process."""

import asyncio

import attrs

from kubedsm.planner.requests import NoResponseError
from kubedsm.scheduling.scheduling_cycle import Scheduler


@attrs.define
class SlowPlanner:
    """Planner wrapper that delays responses, or drops them."""

    planner: object
    #: a number, or a function that draws one
    seconds: object
    #: so often it does not answer
    silent: int = 0
    asked: list = attrs.field(factory=list)
    #: called while it thinks
    meanwhile: object = None

    async def solve(self, question):
        self.asked.append(question)
        answer = await self.planner.solve(question)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile(answer)
        await asyncio.sleep(self.seconds() if callable(self.seconds) else self.seconds)
        if self.silent:
            self.silent -= 1
            raise NoResponseError("it ended")
        return answer

    async def run(self):
        pass


def hard(monkeypatch):
    """Make immediate decisions fail for pods whose names begin with `hard`."""
    decide_inline = Scheduler.decide_inline

    def hardly(deciding, stage, pods):
        if any(pod.name.startswith("hard") for pod in pods):
            return None
        return decide_inline(deciding, stage, pods)

    monkeypatch.setattr(Scheduler, "decide_inline", hardly)


def slow_migrations(runtime, seconds=0.0, **more):
    """Delay the planner's responses about migrations and packings."""
    runtime.migrator.planner = SlowPlanner(runtime.planner, seconds, **more)
    return runtime.migrator.planner


def slow_batches(runtime, seconds, **more):
    """Delay the planner's responses about batches."""
    batches = runtime.planned_batches
    batches.planner = SlowPlanner(batches.planner, seconds, **more)
    return batches.planner


# what makes the answer of a slow planner stale


def cordon_target(world, move):
    world.cordon(move.target)


def pause(world, _answer):
    world.runtime.migrator.paused = lambda: True


def switch_off(world, _answer):
    world.runtime.configuration.replace("suggester: {mode: 'off'}", "test", 0.0)
