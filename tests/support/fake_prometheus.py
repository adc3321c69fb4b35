"""Fake Prometheus in this process, in virtual time, with responses set by a test."""

import asyncio

import attrs

from kubedsm.app.prometheus import Failure, Sample

DOWN = Failure("Connection refused", unreachable=True)


@attrs.define
class FakePrometheus:
    clock: object
    #: by query, values by labels; or a failure; what is not here is empty
    said: dict = attrs.field(factory=dict)
    #: of all queries
    failure: Failure = None
    #: seconds that an answer takes, and by which samples are old
    delay: float = 0.0
    age: float = 0.0
    #: when it was asked, whom, and what
    asked: list = attrs.field(factory=list)

    async def ask(self, whom, queries, seconds, most, then):
        self.asked.append((self.clock.monotonic(), whom, dict(queries)))
        if self.delay:
            await asyncio.sleep(self.delay)
        return then({name: self.failure or self._vector(name) for name in queries})

    def _vector(self, name):
        said = self.said.get(name, {})
        if isinstance(said, Failure):
            return said
        at = self.clock.wall() - self.age
        series = said.items() if isinstance(said, dict) else said
        return tuple(Sample(dict(labels), value, at) for labels, value in series)
