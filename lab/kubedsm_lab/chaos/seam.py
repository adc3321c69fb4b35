"""Seam: the point of control that every request and every watch event of a run passes.

The seam counts requests and events by injection point, records the history, and injects the fault.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

import attrs

from kubedsm.kube.client.port import Request, Response
from kubedsm_lab.chaos.faults import (
    CRASHES,
    LASTING,
    OUTCOMES,
    WORLD,
    Fault,
    event_of,
    injection_point_of,
    target_of,
)
from kubedsm_lab.chaos.perturbations import Perturbation, perturbation
from kubedsm_lab.chaos.process import AWAY, INTERRUPTIONS, PROCESS, Process
from kubedsm_lab.emulator.front import Delivery, Faults, RequestFault
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes, Stream

CALL, WATCH = "call", "watch"
_STRUCK = "FAULT"


@attrs.frozen(slots=True)
class Moment:
    """Entry of the history: a request, event, fault or log line; `at`: seconds of virtual time."""

    at: float
    who: str
    family: str
    point: str
    #: number at its injection point, from 0; -1 for log lines
    number: int
    #: object, for display
    about: str = ""

    @property
    def is_fault(self) -> bool:
        return self.point.startswith(_STRUCK)

    def __str__(self) -> str:
        number = "" if self.number < 0 else f" #{self.number}"
        return f"{self.at:8.2f}  {self.who:11} {self.point}{number}  {self.about}".rstrip()


class Seam:
    """Seam of a run. `fault`: the run's fault, if any."""

    def __init__(self, routes: Routes, fault: Fault | None) -> None:
        self._routes = routes
        self.fault = fault
        self.history: list[Moment] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        #: perturbation of the cluster that the fault has started
        self.perturbation: Perturbation | None = None
        #: called when the fault first strikes
        self.on_strike: Callable[[], object] = lambda: None
        #: triggers an incident; arguments: fault, pod and node
        self.on_incident: Callable[[Fault, str, str], object] = lambda *_: None
        #: times of the first and the last strike
        self.struck: float | None = None
        self.ended = 0.0

    def of(self, who: str) -> "ProcessSeam":
        """Return the seam of one process."""
        return ProcessSeam(self, who)

    def passes(
        self, who: str, family: str, point: str, about: str = "", node: str = ""
    ) -> Fault | None:
        """Record a passing request or event. Returns the fault if it strikes this one.

        `node`: target node, unless the pod `about` shows it.
        """
        number = self._counted[family, point]
        self._counted[family, point] += 1
        moment = Moment(_now(), who, family, point, number, about)
        self.history.append(moment)
        fault = self.fault
        if fault is None or fault.point != point or family not in _families_of(fault.family):
            return None
        if self.struck is None:
            strikes = number == fault.at
        else:
            strikes = fault.lasting and fault.family != WORLD and moment.at <= self.struck + LASTING
        if not strikes:
            return None
        if self.struck is None:
            self.struck = moment.at
            self.on_strike()
        self.ended = moment.at
        self.tell(who, f"{_STRUCK} {fault}", about)
        if fault.family == WORLD:
            self.on_incident(fault, about, node)
            return None
        return fault

    def tell(self, who: str, what: str, about: str = "") -> None:
        """Record an entry that is no injection point."""
        self.history.append(Moment(_now(), who, "", what, -1, about))

    def list_at(self, request: Request, revision: int) -> Response:
        """List as of an earlier revision, like an API server that is behind."""
        query = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
        answer = self._routes.handle(
            ApiRequest(
                method="GET",
                path=request.path,
                query=dict(request.query) | query,
                content_type=request.content_type,
                accept="application/json",
                body=b"",
            )
        )
        if isinstance(answer, Stream):
            raise TypeError(f"{request.path} is a stream")
        return Response(answer.status, answer.body)


class ProcessSeam(Faults):
    """Fault injection for one process."""

    def __init__(self, seam: Seam, who: str) -> None:
        self._seam = seam
        self._who = who
        self._process: Process
        #: requests to be sent, with the fault of each
        self._due: list[tuple[Request, Fault]] = []
        #: actions due when a request has left, or its response has arrived
        self._then: dict[str, tuple[Request, Callable[[], object]]] = {}

    def attach(self, process: Process) -> None:
        """Observe a process, before its start."""
        self._process = process
        process.at_send, process.at_answer = self.at_send, self.at_answer

    def kill(self) -> None:
        """See `Surroundings.kill`."""
        self._process.kill()

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return _now()

    def list_at(self, request: Request, revision: int) -> Response:
        """See `Surroundings.list_at`."""
        self._seam.tell(self._who, f"listed as of revision {revision}", request.path)
        return self._seam.list_at(request, revision)

    def at_send(self, request: Request) -> None:
        """Count a request before it is sent."""
        fault = self._seam.passes(self._who, CALL, *injection_point_of(request), target_of(request))
        if fault is None:
            return
        if fault.family != PROCESS:
            self._due.append((request, fault))
            return
        interruption = INTERRUPTIONS[fault.what]
        if interruption.end is not None:
            asyncio.get_running_loop().call_later(AWAY, interruption.end, self._process)
            self._seam.ended += AWAY
        begin = partial(interruption.begin, self._process)
        if interruption.moment == "before":
            begin()
        else:
            self._then[interruption.moment] = request, begin

    def on_request(self, request: Request) -> RequestFault | None:
        """See `Faults.on_request`."""
        self._run_action("left", request)
        for due, fault in self._due:
            if due is request:
                self._due.remove((due, fault))
                return self._begin_outcome(fault.what, request)
        going_on = self._going_on
        return None if going_on is None else going_on.on_request(request)

    def _begin_outcome(self, what: str, request: Request) -> RequestFault | None:
        if what in OUTCOMES:
            return OUTCOMES[what]
        if what == "crash-after":
            self._then["after"] = request, self.kill
        else:
            self.kill()
        return CRASHES[what]

    def at_answer(self, request: Request) -> None:
        """Run the action that follows the response."""
        self._run_action("after", request)

    def _run_action(self, moment: str, request: Request) -> None:
        awaited, action = self._then.get(moment, (None, None))
        if awaited is request and action is not None:
            del self._then[moment]
            asyncio.get_running_loop().call_soon(action)

    @property
    def _going_on(self) -> Perturbation | None:
        """Return the perturbation of this process, if any."""
        going_on = self._seam.perturbation
        concerned = going_on is not None and (going_on.of_all or going_on.surroundings is self)
        return going_on if concerned else None

    def on_line(self, request: Request, line: bytes) -> Delivery | None:
        """See `Faults.on_line`."""
        event = event_of(request, line)
        fault = self._seam.passes(self._who, WATCH, event.point, event.about, event.node)
        if fault is not None:
            self._seam.perturbation = perturbation(fault.what, self)
            return self._seam.perturbation.strike(event)
        going_on = self._going_on
        return None if going_on is None else going_on.on_line(request, event)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _families_of(family: str) -> tuple[str, ...]:
    """Return the families of injection points for a family of faults."""
    return {PROCESS: (CALL,), WORLD: (CALL, WATCH)}.get(family, (family,))
