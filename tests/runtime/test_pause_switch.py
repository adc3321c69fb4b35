"""The pause switch: what is read, and that what cannot be read stops all moves."""

import orjson
import pytest

from kubedsm.clock import VirtualClock
from kubedsm.cluster.client.port import OutcomeUnknown, Response, Unreachable
from kubedsm.runtime.pause_switch import PauseSwitch
from kubedsm.said_by_cause import SaidByCause

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Answering:
    def __init__(self, answer):
        self.answer = answer

    async def request(self, request, *, timeout):
        assert timeout == 3.0
        assert request.path == "/api/v1/namespaces/kube-system/configmaps/kubedsm"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def stream(self, request, *, timeout):
        raise AssertionError("nobody watches here")


def switch(**data):
    return Response(200, orjson.dumps({"metadata": {"name": "kubedsm"}, "data": data}))


def status(code, reason):
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}
    return Response(code, orjson.dumps(body))


@pytest.mark.parametrize(
    ("answer", "paused"),
    [
        (switch(paused="true"), True),
        (switch(paused=" True\n"), True),
        (switch(paused="false"), False),
        (switch(paused=""), False),
        (switch(other="true"), False),
        (status(404, "NotFound"), False),
        (status(401, "Unauthorized"), True),
        (status(403, "Forbidden"), True),
        (status(429, "TooManyRequests"), True),
        (status(500, "InternalError"), True),
        (Response(200, b"<html>"), True),
        (Response(200, b'{"data": ["true"]}'), True),
        (Unreachable("refused"), True),
        (OutcomeUnknown("timed out"), True),
    ],
)
async def test_nothing_moves_unless_it_is_known_that_it_may(answer, paused):
    said = SaidByCause(VirtualClock())
    assert await PauseSwitch(Answering(answer), "kube-system", 3.0, said)() is paused
