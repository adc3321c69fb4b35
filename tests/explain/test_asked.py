"""What a running scheduler tells other commands: edges that are slower, and what moves brought."""

import asyncio

import pytest
from aiohttp import ClientTimeout, web

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import Configuration
from kubedsm.explain import client
from kubedsm.explain.client import answering
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.facts import Answering
from kubedsm.explain.server import Diagnostics
from kubedsm.explain.subjects import Explanations, Subject
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.sites import NOTHING_AWAY
from kubedsm.planner.requests import InProcessPlanner, PlanningContext
from kubedsm.process.http_limits import AddressUnavailableError
from kubedsm_lab.cli.recording_session import effects_since
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.answers import WEB, sample
from support.loopback import Server
from support.processes import free_port

pytestmark = pytest.mark.http


def explanations_of(decisions, thinker=None):
    return Explanations(decisions, thinker, lambda: NOTHING_AWAY, lambda: None, lambda _: None)


@pytest.fixture
def served():
    """Unless it is entered it serves nothing."""
    mirror, configuration = ClusterMirror(), Configuration()
    policy = configuration.policy
    decisions = Decisions(DecisionRecord(VirtualClock()), mirror, CurrentConfiguration())
    known = PlanningContext(mirror, (), lambda: configuration, lambda: policy, VirtualClock())
    explanations = explanations_of(decisions, InProcessPlanner(known))
    return decisions, Diagnostics(explanations, port=0)


async def test_edges_that_are_slower_are_known_elsewhere_and_what_is_wanted_must_be_served(served):
    decisions, diagnostics = served
    async with diagnostics:
        assert await answering(diagnostics.url) == Answering(frozenset())
        for at in (30.0, 60.0):
            decisions.mirror.apply(MeasuredApplied(sample(at, 300, 200)))
        assert await answering(diagnostics.url) == Answering(frozenset({WEB}))
    decisions, diagnostics = served
    async with diagnostics:
        port = int(diagnostics.url.rpartition(":")[2])
        with pytest.raises(AddressUnavailableError, match=f":{port}: Address already in use"):
            async with Diagnostics(explanations_of(decisions), port, mandatory=web.Application()):
                pass


async def test_without_a_scheduler_nothing_is_known_and_another_server_tells_nothing():
    nobody = f"http://127.0.0.1:{free_port()}"
    assert await answering(nobody) is None
    assert await effects_since(nobody, 0.0, "shop") is None
    effect = {"expected": {"before": 0.08, "after": 0.06}, "together": 0}
    moves = [{"at": "9", "pod": "shop/web", "effect": effect}]

    async def answer(_):
        return web.json_response({"decisions": [{"at": "9", "moves": moves}], "slower": [3]})

    async with Server(answer) as other:
        assert await effects_since(other.url, 0.0, "shop") is None
        assert await answering(other.url) is None
        effect["together"] = 2
        assert len(await effects_since(other.url, 0.0, "shop")) == 1


async def test_whoever_listens_and_says_nothing_is_not_waited_for(monkeypatch):
    assert client._TIMEOUT.sock_read == client.SILENCE <= 5
    monkeypatch.setattr(client, "_TIMEOUT", ClientTimeout(sock_read=0.02))
    monkeypatch.setattr(client, "_PATIENT", ClientTimeout(sock_read=0.03))

    async def silent(_):
        await asyncio.Event().wait()

    async with Server(silent) as other:
        with pytest.raises(client.SilentError, match=r"has not responded for 0\.03 s"):
            await client.explain(other.url, Subject("pod", "web"))
        with pytest.raises(client.SilentError, match=r"has not responded for 0\.02 s"):
            await answering(other.url)
