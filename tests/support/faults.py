"""What may go wrong with a call or a watch, and when."""

import asyncio

import orjson

from kubedsm.cluster.client.port import OutcomeUnknown, Response, Unreachable
from kubedsm.emulator.front import RequestFault


def answer(status, reason, body=None):
    content = {"kind": "Status", "status": "Failure", "reason": reason, "code": status}
    return Response(status, orjson.dumps(content) if body is None else body)


class FaultAt:
    """Disturb the n-th request, or the n-th watch line; count what comes by."""

    def __init__(self, *, request=None, fault=None, line=None, delivery=None):
        self.request_at, self.fault = request, fault
        self.line_at, self.delivery = line, delivery
        self.requests = self.lines = 0
        self.struck = asyncio.Event()

    def on_request(self, request):
        self.requests += 1
        if self.requests - 1 == self.request_at:
            self.struck.set()
            return self.fault
        return None

    def on_line(self, request, line):
        self.lines += 1
        if self.lines - 1 == self.line_at:
            self.struck.set()
            return self.delivery(line)
        return None


OUTCOMES = {
    "unreachable": RequestFault(Unreachable("refused")),
    "lost": RequestFault(OutcomeUnknown("timed out")),
    "lost-applied": RequestFault(OutcomeUnknown("timed out"), applied=True),
    "reset-applied": RequestFault(OutcomeUnknown("reset"), applied=True),
    "400": RequestFault(answer(400, "BadRequest")),
    "401": RequestFault(answer(401, "Unauthorized")),
    "403": RequestFault(answer(403, "Forbidden")),
    "404": RequestFault(answer(404, "NotFound")),
    "409": RequestFault(answer(409, "Conflict")),
    "410": RequestFault(answer(410, "Expired")),
    "422": RequestFault(answer(422, "Invalid")),
    "429": RequestFault(answer(429, "TooManyRequests")),
    "500-applied": RequestFault(answer(500, "InternalError"), applied=True),
    "503": RequestFault(answer(503, "ServiceUnavailable")),
    "html": RequestFault(answer(502, "", b"<html>Bad Gateway</html>")),
    "empty": RequestFault(answer(200, "", b"")),
}
