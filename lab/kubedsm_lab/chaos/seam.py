"""Recorder and fault injector between schedulers and the emulated cluster: numbers all requests and
watch events.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence

import attrs

from kubedsm.kube.client.port import Request, Response
from kubedsm_lab.chaos.faults import (
    CALL,
    CRASHES,
    LASTING,
    OUTCOMES,
    PROCESS,
    WATCH,
    WORLD,
    Fault,
    event_of,
    injection_point_of,
    loop_time,
    target_of,
)
from kubedsm_lab.chaos.perturbations import DELIVERIES, PERTURBATIONS, Perturbation
from kubedsm_lab.chaos.process import AWAY, INTERRUPTIONS, Interruption, Process
from kubedsm_lab.emulator.front import Delivery, Faults, RequestFault
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes, Stream

_FAULT = "FAULT"
#: seconds by which a watch delivers an applied write late whose response was lost: until then only
#: the reservation shows that the capacity is in use
BEHIND_ANSWER = 0.5


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

    def tells_of(self, fault: Fault) -> bool:
        """Return whether the entry records a strike of the fault."""
        return self.point == f"{_FAULT} {fault}"

    def __str__(self) -> str:
        number = "" if self.number < 0 else f" #{self.number}"
        return f"{self.at:8.2f}  {self.who:11} {self.point}{number}  {self.about}".rstrip()


class Seam:
    """Recorder of a chaos run's history, shared by all schedulers; injects each of the run's faults
    at the fault's injection point.
    """

    def __init__(self, routes: Routes, faults: Sequence[Fault]) -> None:
        self._routes = routes
        self.faults = faults
        self.history: list[Moment] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        #: perturbations since the faults
        self.perturbations: list[Perturbation] = []
        #: called when a fault strikes for the first time
        self.on_strike: Callable[[], object] = lambda: None
        #: begins an incident, with the pod and the node of the injection point
        self.on_incident: Callable[[Fault, str, str], object] = lambda *_: None
        #: time of each fault's first strike, and end of the last fault
        self.struck: dict[Fault, float] = {}
        self.ended = 0.0

    def record_moment(
        self, who: str, family: str, point: str, about: str = "", node: str = ""
    ) -> list[Fault]:
        """Record a request or watch event in the history; return the run's faults that are injected
        at this point, in the run's order.

        `node` is the target node of a Binding, or the pod's node.
        """
        number = self._counted[family, point]
        self._counted[family, point] += 1
        moment = Moment(loop_time(), who, family, point, number, about)
        self.history.append(moment)
        due = [fault for fault in self.faults if self._strikes(fault, moment)]
        for fault in due:
            if fault not in self.struck:
                self.struck[fault] = moment.at
                self.on_strike()
            self.extend_fault(0.0)
            self.add_remark(who, f"{_FAULT} {fault}", about)
            if fault.family == WORLD:
                self.on_incident(fault, about, node)
        return [fault for fault in due if fault.family != WORLD]

    def _strikes(self, fault: Fault, moment: Moment) -> bool:
        families = _injection_families(fault.family)
        if fault.point != moment.point or moment.family not in families:
            return False
        struck = self.struck.get(fault)
        if struck is None:
            return moment.number == fault.at
        return fault.lasting and fault.family != WORLD and moment.at <= struck + LASTING

    def extend_fault(self, seconds: float) -> None:
        """Record that a fault lasts for some seconds from now."""
        self.ended = max(self.ended, loop_time() + seconds)

    @property
    def has_struck(self) -> bool:
        """Return whether the run has faults, and all of them were injected."""
        return bool(self.faults) and len(self.struck) == len(self.faults)

    def add_remark(self, who: str, what: str, about: str = "") -> None:
        """Add a comment to the run's history; no fault is injected there."""
        self.history.append(Moment(loop_time(), who, "", what, -1, about))

    @property
    def hides_changes(self) -> bool:
        """True while a watch perturbation makes a scheduler process miss changes."""
        return any(perturbation.hides for perturbation in self.perturbations)

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
        #: pods of applied writes without response, whose next event is late
        self._unanswered: set[str] = set()
        #: by moment: action after sending the request, or after the response
        self._then: list[tuple[str, Request, Callable[[], object]]] = []

    def attach(self, process: Process) -> None:
        """Register the scheduler process that uses this connection, before its start."""
        self._process = process
        process.at_send, process.at_response = self.at_send, self.at_response

    @property
    def over(self) -> bool:
        return self._process.over

    def kill(self) -> None:
        """Kill this connection's scheduler process as SIGKILL does."""
        self._process.kill()

    def list_at(self, request: Request, revision: int) -> Response:
        """Return a list response as of an earlier revision, as from an outdated API server."""
        self._seam.add_remark(self._who, f"listed as of revision {revision}", request.path)
        return self._seam.list_at(request, revision)

    def at_send(self, request: Request) -> None:
        """Record a request before sending, and start the process interruptions that are due at this
        request, if any.
        """
        point, about = injection_point_of(request)
        self._take_due(request)  # a retry whose first attempt did not leave the process
        for fault in self._seam.record_moment(self._who, CALL, point, about, target_of(request)):
            interruption = INTERRUPTIONS.get(fault.what)
            if interruption is not None:
                self._interrupt(interruption, request)
            if interruption is None or interruption.delivery is not None:
                self._due.append((request, fault))

    def _interrupt(self, interruption: Interruption, request: Request) -> None:
        due = self._schedule_end(interruption)

        def begin() -> None:
            interruption.begin(self._process)
            if loop_time() >= due:  # another pause delayed the response past the end
                self._schedule_end(interruption)

        if interruption.moment == "before":
            begin()
        else:
            self._then.append((interruption.moment, request, begin))

    def _schedule_end(self, interruption: Interruption) -> float:
        """Schedule the end of an interruption, if it has one; return its time in seconds."""
        if interruption.end is None:
            return math.inf
        asyncio.get_running_loop().call_later(AWAY, interruption.end, self._process)
        self._seam.extend_fault(AWAY)
        return loop_time() + AWAY

    def _take_due(self, request: Request) -> list[Fault]:
        """Remove and return the faults of a request, in the run's order."""
        due = [fault for requested, fault in self._due if requested is request]
        self._due = [(other, fault) for other, fault in self._due if other is not request]
        return due

    def on_request(self, request: Request) -> RequestFault | None:
        """Return the fault of a request that is being sent, if one is due (`Faults.on_request`).

        The later of two faults replaces a fault that lasts a minute.
        """
        self._run_actions("left", request)
        if due := self._take_due(request):
            return self._choose_outcome(due[-1].what, request)
        found = (perturbation.on_request(request) for perturbation in self._perturbations)
        return next((fault for fault in found if fault is not None), None)

    def _choose_outcome(self, what: str, request: Request) -> RequestFault | None:
        if what in OUTCOMES:
            if OUTCOMES[what].applied:
                self._unanswered.add(injection_point_of(request)[1])
            return OUTCOMES[what]
        if what in INTERRUPTIONS:
            return INTERRUPTIONS[what].delivery
        if what == "crash-after":
            self._then.append(("after", request, self.kill))
        else:
            self.kill()
        return CRASHES[what]

    def at_response(self, request: Request) -> None:
        """Run the process interruptions that are due after this request's response, if any."""
        self._run_actions("after", request)

    def _run_actions(self, moment: str, request: Request) -> None:
        for action in list(self._then):
            if action[0] == moment and action[1] is request:
                self._then.remove(action)
                asyncio.get_running_loop().call_soon(action[2])

    @property
    def _perturbations(self) -> list[Perturbation]:
        """Return the watch perturbations in effect for this scheduler process, the first fault's
        first.
        """
        return [p for p in self._seam.perturbations if p.of_all or p.process is self]

    def on_line(self, request: Request, line: bytes) -> Delivery | None:
        """Return the lines to deliver in place of a watch line if a fault is due at this event
        (`Faults.on_line`).
        """
        event = event_of(request, line)
        before = self._perturbations
        due = self._seam.record_moment(self._who, WATCH, event.point, event.about, event.node)
        for fault in due:
            if fault.what in DELIVERIES:
                return DELIVERIES[fault.what](line)
            perturbation = PERTURBATIONS[fault.what](self)
            self._seam.perturbations.append(perturbation)
            return perturbation.replace_event(event)
        found = (perturbation.on_line(request, event) for perturbation in before)
        delivery = next((delivery for delivery in found if delivery is not None), None)
        if delivery is None and event.plural == "pods" and event.about in self._unanswered:
            self._unanswered.remove(event.about)
            return Delivery((line,), delay=BEHIND_ANSWER)
        return delivery


def _injection_families(family: str) -> tuple[str, ...]:
    """Return the families of history entries (requests, watch events) at which faults of this
    family are injected.
    """
    return {PROCESS: (CALL,), WORLD: (CALL, WATCH)}.get(family, (family,))
