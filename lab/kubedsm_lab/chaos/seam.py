"""Recorder and fault injector between schedulers and the emulated cluster: numbers all requests and
watch events.
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
    loop_time,
    target_of,
)
from kubedsm_lab.chaos.perturbations import DELIVERIES, PERTURBATIONS, Perturbation
from kubedsm_lab.chaos.process import AWAY, INTERRUPTIONS, PROCESS, Process
from kubedsm_lab.emulator.front import Delivery, Faults, RequestFault
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes, Stream

CALL, WATCH = "call", "watch"
_FAULT = "FAULT"


@attrs.frozen(slots=True)
class Moment:
    """Entry in a chaos run's history: request, watch event, fault or remark, with its virtual time
    in seconds.
    """

    at: float
    who: str
    family: str
    point: str
    #: number at the injection point, from 0; -1 for a remark
    number: int
    #: human-readable description of the object
    about: str = ""

    @property
    def is_fault(self) -> bool:
        return self.point.startswith(_FAULT)

    def __str__(self) -> str:
        number = "" if self.number < 0 else f" #{self.number}"
        return f"{self.at:8.2f}  {self.who:11} {self.point}{number}  {self.about}".rstrip()


class Seam:
    """Recorder of a chaos run's history, shared by all schedulers; injects the run's only fault at
    the fault's injection point.
    """

    def __init__(self, routes: Routes, fault: Fault | None) -> None:
        self._routes = routes
        self.fault = fault
        self.history: list[Moment] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        #: perturbation since the fault
        self.perturbation: Perturbation | None = None
        #: called when the fault strikes for the first time
        self.on_strike: Callable[[], object] = lambda: None
        #: begins an incident, with the pod and the node of the injection point
        self.on_incident: Callable[[Fault, str, str], object] = lambda *_: None
        #: time of the first strike, and end of the fault
        self.struck: float | None = None
        self.ended = 0.0

    def record_moment(
        self, who: str, family: str, point: str, about: str = "", node: str = ""
    ) -> Fault | None:
        """Record a request or watch event in the history; return the run's fault if injected at
        this point.

        `node` is the target node of a Binding, or the pod's node.
        """
        number = self._counted[family, point]
        self._counted[family, point] += 1
        moment = Moment(loop_time(), who, family, point, number, about)
        self.history.append(moment)
        fault = self.fault
        if fault is None or fault.point != point or family not in _injection_families(fault.family):
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
        self.add_remark(who, f"{_FAULT} {fault}", about)
        if fault.family == WORLD:
            self.on_incident(fault, about, node)
            return None
        return fault

    def add_remark(self, who: str, what: str, about: str = "") -> None:
        """Add a comment to the run's history; no fault is injected there."""
        self.history.append(Moment(loop_time(), who, "", what, -1, about))

    def list_at(self, request: Request, revision: int) -> Response:
        """Return the API server's response to a list request as of an earlier revision."""
        query = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
        response = self._routes.handle(
            ApiRequest(
                method="GET",
                path=request.path,
                query=dict(request.query) | query,
                content_type=request.content_type,
                accept="application/json",
                body=b"",
            )
        )
        if isinstance(response, Stream):
            raise TypeError(f"{request.path} is a stream")
        return Response(response.status, response.body)


class ProcessSeam(Faults):
    """Cluster connection of one scheduler process: records all requests and injects faults."""

    def __init__(self, seam: Seam, who: str) -> None:
        self._seam = seam
        self._who = who
        self._process: Process
        #: unsent requests with the fault of each
        self._due: list[tuple[Request, Fault]] = []
        #: by moment: action after sending the request, or after the response
        self._then: dict[str, tuple[Request, Callable[[], object]]] = {}

    def attach(self, process: Process) -> None:
        """Register the scheduler process that uses this connection, before its start."""
        self._process = process
        process.at_send, process.at_response = self.at_send, self.at_response

    def kill(self) -> None:
        """Kill this connection's scheduler process as SIGKILL does (`Surroundings.kill`)."""
        self._process.kill()

    def list_at(self, request: Request, revision: int) -> Response:
        """Return a list response as of an earlier revision (`Surroundings.list_at`)."""
        self._seam.add_remark(self._who, f"listed as of revision {revision}", request.path)
        return self._seam.list_at(request, revision)

    def at_send(self, request: Request) -> None:
        """Record a request before sending, and start the process interruption that is due at this
        request, if any.
        """
        point, about = injection_point_of(request)
        fault = self._seam.record_moment(self._who, CALL, point, about, target_of(request))
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
        """Return the fault of a request that is being sent, if one is due (`Faults.on_request`)."""
        self._run_action("left", request)
        for due, fault in self._due:
            if due is request:
                self._due.remove((due, fault))
                return self._choose_outcome(fault.what, request)
        perturbation = self._perturbation
        return None if perturbation is None else perturbation.on_request(request)

    def _choose_outcome(self, what: str, request: Request) -> RequestFault | None:
        if what in OUTCOMES:
            return OUTCOMES[what]
        if what == "crash-after":
            self._then["after"] = request, self.kill
        else:
            self.kill()
        return CRASHES[what]

    def at_response(self, request: Request) -> None:
        """Run the process interruption that is due after this request's response, if any."""
        self._run_action("after", request)

    def _run_action(self, moment: str, request: Request) -> None:
        awaited, action = self._then.get(moment, (None, None))
        if awaited is request and action is not None:
            del self._then[moment]
            asyncio.get_running_loop().call_soon(action)

    @property
    def _perturbation(self) -> Perturbation | None:
        """Return the watch perturbation in effect for this scheduler process, if any."""
        found = self._seam.perturbation
        return found if found and (found.of_all or found.surroundings is self) else None

    def on_line(self, request: Request, line: bytes) -> Delivery | None:
        """Return the lines to deliver in place of a watch line if a fault is due at this event
        (`Faults.on_line`).
        """
        event = event_of(request, line)
        fault = self._seam.record_moment(self._who, WATCH, event.point, event.about, event.node)
        if fault is not None and fault.what in DELIVERIES:
            return DELIVERIES[fault.what](line)
        if fault is not None:
            self._seam.perturbation = PERTURBATIONS[fault.what](self)
            return self._seam.perturbation.replace_event(event)
        perturbation = self._perturbation
        return None if perturbation is None else perturbation.on_line(request, event)


def _injection_families(family: str) -> tuple[str, ...]:
    """Return the families of history entries (requests, watch events) at which faults of this
    family are injected.
    """
    return {PROCESS: (CALL,), WORLD: (CALL, WATCH)}.get(family, (family,))
