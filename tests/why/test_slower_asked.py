"""What a running scheduler says of edges that are slower, to who asks it."""

import pytest

from kubedsm.clock import VirtualClock
from kubedsm.configuration.settings import Configuration
from kubedsm.core.world.events import MeasuredApplied
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.thinking.questions import InProcess, Known
from kubedsm.why.client import slower_at_edge
from kubedsm.why.explainer import Decisions
from kubedsm.why.record import DecisionRecord
from kubedsm.why.server import Diagnostics
from support.answers import WEB, sample
from support.processes import free_port

pytestmark = [pytest.mark.asyncio, pytest.mark.http]


async def test_it_is_known_to_a_suggestion_made_elsewhere():
    mirror, configuration = ClusterMirror(), Configuration()
    policy = configuration.policy
    decisions = Decisions(DecisionRecord(VirtualClock()), mirror, lambda: policy)
    known = Known(mirror, (), lambda: configuration, lambda: policy, VirtualClock())
    async with Diagnostics(decisions, InProcess(known), port=0) as served:
        assert await slower_at_edge(served.url) == frozenset()
        for at in (30.0, 60.0):
            mirror.apply(MeasuredApplied(sample(at, 300, 200)))
        assert await slower_at_edge(served.url) == {WEB}


async def test_without_a_scheduler_nothing_is_known():
    assert await slower_at_edge(f"http://127.0.0.1:{free_port()}") == frozenset()
