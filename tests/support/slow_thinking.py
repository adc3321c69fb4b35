"""Answers that take their time, as a worker process's do."""

import asyncio

import attrs

from kubedsm.runtime.deciding import Deciding
from kubedsm.thinking.questions import NoAnswerError


@attrs.define
class SlowThinker:
    """Answers after a while, or not at all, as things were when it was asked."""

    thinker: object
    seconds: float
    #: so often it does not answer
    silent: int = 0
    asked: list = attrs.field(factory=list)
    #: called while it thinks
    meanwhile: object = None

    async def ask(self, question):
        self.asked.append(question)
        answer = await self.thinker.ask(question)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile(answer)
        await asyncio.sleep(self.seconds)
        if self.silent:
            self.silent -= 1
            raise NoAnswerError("it ended")
        return answer

    async def run(self):
        pass


def hard(monkeypatch, prefix="hard"):
    """Pods whose names begin so are never decided on at once."""
    at_once = Deciding.at_once

    def hardly(deciding, stage, pods):
        if any(pod.name.startswith(prefix) for pod in pods):
            return None
        return at_once(deciding, stage, pods)

    monkeypatch.setattr(Deciding, "at_once", hardly)


def slow_batches(runtime, seconds, **more):
    """Have what is hard thought about for so long."""
    thoughts = runtime._scheduler.thoughts
    thoughts.thinker = SlowThinker(thoughts.thinker, seconds, **more)
    return thoughts.thinker
