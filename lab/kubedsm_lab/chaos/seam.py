"""The one place through which every call and every watch event of a run passes.

It counts them by site, keeps their history, and has the fault strike at its moment.
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
    """Something that passed: a call, an event, a fault; `at` in seconds of virtual time."""

    at: float
    who: str
    family: str
    site: str
    #: which of its site, counted from 0; -1 for what is only told
    number: int
    #: what it is about, for people
    about: str = ""

    @property
    def is_fault(self) -> bool:
        return self.site.startswith(_STRUCK)

    def __str__(self) -> str:
        number = "" if self.number < 0 else f" #{self.number}"
        return f"{self.at:8.2f}  {self.who:11} {self.site}{number}  {self.about}".rstrip()


class Seam:
    """Where the fault strikes, if there is one."""

    def __init__(self, routes: Routes, fault: Fault | None) -> None:
        self._routes = routes
        self.fault = fault
        self.history: list[Moment] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        #: what goes on after it has struck; of the whole cluster, whichever process asks
        self.perturbation: Perturbation | None = None
        #: called when the fault strikes first
        self.on_strike: Callable[[], object] = lambda: None
        #: has an incident happen, of the pod and at the node that it is about
        self.on_incident: Callable[[Fault, str, str], object] = lambda *_: None
        #: when the fault struck first, and last
        self.struck: float | None = None
        self.ended = 0.0

    def of(self, who: str) -> "ProcessSeam":
        """The seam as one process has it."""
        return ProcessSeam(self, who)

    def passes(
        self, who: str, family: str, site: str, about: str = "", node: str = ""
    ) -> Fault | None:
        """Note that it passes. Returns the fault if it strikes here, at what passes.

        `node`: which it is about, beside what is known of the pod that it is about.
        """
        number = self._counted[family, site]
        self._counted[family, site] += 1
        moment = Moment(_now(), who, family, site, number, about)
        self.history.append(moment)
        fault = self.fault
        if fault is None or fault.site != site or family not in _seen_at(fault.family):
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
        """Keep in the history what no fault can strike at."""
        self.history.append(Moment(_now(), who, "", what, -1, about))

    def listed_at(self, request: Request, revision: int) -> Response:
        """The answer of an API server that lags so far behind."""
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
    """Faults of one process."""

    def __init__(self, seam: Seam, who: str) -> None:
        self._seam = seam
        self._who = who
        self._process: Process
        #: of requests that have not left yet, what becomes of them
        self._due: list[tuple[Request, Fault]] = []
        #: what happens when a request has left, or its answer was heard
        self._then: dict[str, tuple[Request, Callable[[], object]]] = {}

    def attach(self, process: Process) -> None:
        """To be called before it starts."""
        self._process = process
        process.at_send, process.at_answer = self.at_send, self.at_answer

    def kill(self) -> None:
        """As `Surroundings.kill`."""
        self._process.kill()

    def now(self) -> float:
        """Seconds of virtual time."""
        return _now()

    def listed_at(self, request: Request, revision: int) -> Response:
        """The answer of an API server that lags so far behind."""
        self._seam.tell(self._who, f"listed as of revision {revision}", request.path)
        return self._seam.listed_at(request, revision)

    def at_send(self, request: Request) -> None:
        """Count a call that is about to leave; as long as the process is stopped, it does not."""
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
        """As `Faults.on_request`."""
        self._do("left", request)
        for due, fault in self._due:
            if due is request:
                self._due.remove((due, fault))
                return self._outcome(fault.what, request)
        going_on = self._going_on
        return None if going_on is None else going_on.on_request(request)

    def _outcome(self, what: str, request: Request) -> RequestFault | None:
        if what in OUTCOMES:
            return OUTCOMES[what]
        if what == "crash-after":
            self._then["after"] = request, self.kill
        else:
            self.kill()
        return CRASHES[what]

    def at_answer(self, request: Request) -> None:
        """Have happen what does when the process has gone on with the answer."""
        self._do("after", request)

    def _do(self, moment: str, request: Request) -> None:
        awaited, action = self._then.get(moment, (None, None))
        if awaited is request and action is not None:
            del self._then[moment]
            asyncio.get_running_loop().call_soon(action)

    @property
    def _going_on(self) -> Perturbation | None:
        """What disturbs this process since the fault has struck."""
        going_on = self._seam.perturbation
        concerned = going_on is not None and (going_on.of_all or going_on.surroundings is self)
        return going_on if concerned else None

    def on_line(self, request: Request, line: bytes) -> Delivery | None:
        """As `Faults.on_line`."""
        event = event_of(request, line)
        fault = self._seam.passes(self._who, WATCH, event.site, event.about, event.node)
        if fault is not None:
            self._seam.perturbation = perturbation(fault.what, self)
            return self._seam.perturbation.strike(event)
        going_on = self._going_on
        return None if going_on is None else going_on.on_line(request, event)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _seen_at(family: str) -> tuple[str, ...]:
    """Where the faults of a family strike: a process is disturbed at its calls."""
    return {PROCESS: (CALL,), WORLD: (CALL, WATCH)}.get(family, (family,))
