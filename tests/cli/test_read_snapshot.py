"""A cluster is read once: what cannot be seen ends it with a line, however it is refused."""

import random

import attrs
import pytest

from kubedsm.cli.cluster import read_snapshot
from kubedsm.config.settings import Configuration
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.port import ClusterError, OutcomeUnknown, Response
from kubedsm.kube.wire.errors import WireError
from kubedsm.process.clock import VirtualClock
from support.answering_cluster import refusal

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@attrs.frozen
class Server:
    """Has nothing, and answers for one kind as it is told to."""

    plural: str
    answer: Response | Exception

    async def request(self, request, *, timeout):
        if request.path.endswith(f"/{self.plural}"):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        return Response(200, b'{"metadata": {"resourceVersion": "5"}, "items": []}')


async def read(plural, answer):
    cluster = ExplainedCluster(Server(plural, answer), "https://10.0.0.1")
    return await read_snapshot(cluster, Configuration(), VirtualClock(), random.Random(1))


@pytest.mark.parametrize("plural", ["nodes", "pods"])
@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (refusal(403, "you cannot list"), "no right to list {}"),
        (refusal(404, "no such path"), "serves no {} at"),
        (refusal(500, "etcd is away"), "etcd is away"),
        (refusal(410, "too old"), "too old"),
        (Response(200, b'{"items": 3}'), "items: expected"),
        (Response(200, b"<html>Sign in</html>"), "Sign in"),
        (OutcomeUnknown("GET: no answer within 10 s"), "no answer within 10 s"),
    ],
)
async def test_what_must_be_seen_and_cannot_ends_it_at_once(plural, answer, line):
    with pytest.raises((ClusterError, WireError), match=line.format(plural)):
        await read(plural, answer)


async def test_what_need_not_be_seen_is_done_without_and_that_is_said(capsys):
    snapshot = await read("storageclasses", refusal(403, "you cannot list"))
    assert not snapshot.nodes
    said = capsys.readouterr().err
    assert said.startswith("kubedsm: decided without knowing them: no right to list storageclasses")
    assert len(said.splitlines()) == 1
