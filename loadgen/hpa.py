"""Autoscaler benchmark with closed-loop clients on a real service: FIND searches for an overload,
HOLD measures the recovery from this overload.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.terminal.fitted_table import table
from loadgen.driver import Clients, ClosedLoop, Connect
from loadgen.measures import Outcome, RequestRecorder
from loadgen.recovery import (
    FIND,
    FIND_SECONDS,
    HOLD_SECONDS,
    WINDOW_SECONDS,
    Recovery,
    Sla,
    Window,
    clients_to_hold,
    ok_rate,
    recovery,
)

_OK = 200


@attrs.frozen
class Plan:
    url: str
    #: concurrent clients of the stages of FIND; a single number skips FIND
    find: Sequence[int] = FIND
    find_seconds: float = FIND_SECONDS
    hold_seconds: float = HOLD_SECONDS
    window_seconds: float = WINDOW_SECONDS
    sla: Sla = attrs.field(factory=Sla)
    #: consecutive good windows of a recovery
    streak: int = 1
    #: see `Clients`
    timeout: float = 15.0
    max_rate: float | None = None


@attrs.frozen
class Played:
    """Results of an autoscaler benchmark: measurement windows of the stages FIND (search for an
    overload) and HOLD (recovery).

    Windows start in seconds from the beginning of FIND, or of HOLD without FIND.
    """

    plan: Plan
    stages: tuple[tuple[int, Window], ...] = ()
    windows: tuple[Window, ...] = ()
    #: stopped before the end; the incomplete window is left out
    interrupted: bool = False

    @property
    def clients(self) -> int | None:
        """Return the number of concurrent clients during the recovery stage HOLD; None if the
        search for this number (FIND) was interrupted.
        """
        if len(self.plan.find) == 1:
            return self.plan.find[0]
        found = clients_to_hold(self.stages, self.plan.sla)
        return None if self.interrupted and not self.windows else found

    @property
    def recovery(self) -> Recovery | None:
        """Return the service's recovery from the overload, as mode and seconds; None if the
        recovery stage HOLD was interrupted before.
        """
        found = recovery(self.windows, self.plan.sla, self.plan.streak)
        return found if found.mode == "recovered" or not self.interrupted else None

    @property
    def ok_rate(self) -> float | None:
        return ok_rate(self.windows, self.plan.sla)

    @property
    def p99s(self) -> list[float]:
        """Return the p99 latency in seconds of each measurement window of the recovery stage HOLD,
        without windows that lack responses.
        """
        return [window.p99 for window in self.windows if window.p99 is not None]

    def as_json(self) -> dict[str, Any]:
        sla, p99s, found = self.plan.sla, self.p99s, self.recovery

        def window_json(window: Window) -> dict[str, Any]:
            return {**attrs.asdict(window), "good": window.good(sla)}

        return {
            "url": self.plan.url,
            "sla": attrs.asdict(sla),
            "streak": self.plan.streak,
            "interrupted": self.interrupted,
            "find": [
                {"clients": clients, **window_json(window)} for clients, window in self.stages
            ],
            "hold": {
                "clients": self.clients,
                "windows": [window_json(window) for window in self.windows],
                "maxP99": max(p99s, default=None),
                "meanP99": sum(p99s) / len(p99s) if p99s else None,
                "okRate": self.ok_rate,
                "recovery": None if found is None else attrs.asdict(found),
            },
        }


async def play(
    plan: Plan,
    connect: Connect,
    stop: asyncio.Event,
    tell: Callable[[int, Window], None] = lambda *_: None,
) -> Played:
    """Run the autoscaler benchmark: search for the number of clients that overloads the service
    (FIND), then hold the load (HOLD). `tell` is called with each window's clients and measurements.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def window(number: int, seconds: float) -> Window | None:
        outcomes: list[Outcome] = []
        recorder = RequestRecorder([plan.url], outcomes.append)
        clients = Clients(number, seconds, plan.timeout, plan.max_rate)
        start = loop.time() - began
        await ClosedLoop(plan.url, connect, recorder, clients).drive(stop)
        if stop.is_set():
            return None
        seen = window_of(outcomes, start, loop.time() - began - start)
        tell(number, seen)
        return seen

    played, number = Played(plan), plan.find[0]
    for number in plan.find if len(plan.find) > 1 else ():
        if (seen := await window(number, plan.find_seconds)) is None:
            return attrs.evolve(played, interrupted=True)
        played = attrs.evolve(played, stages=(*played.stages, (number, seen)))
        if not seen.good(plan.sla):
            break
    for _ in range(math.ceil(plan.hold_seconds / plan.window_seconds)):
        if (seen := await window(number, plan.window_seconds)) is None:
            return attrs.evolve(played, interrupted=True)
        played = attrs.evolve(played, windows=(*played.windows, seen))
    return played


def window_of(outcomes: Sequence[Outcome], start: float, seconds: float) -> Window:
    """Summarise the requests of one measurement window; responses with a status other than 200 are
    errors.

    Timeouts have latencies as well.
    """
    latencies = [outcome.latency for outcome in outcomes if outcome.timed]
    errors = sum(outcome.status != _OK for outcome in outcomes)
    return Window.of(start, seconds, len(outcomes), latencies, errors)


def hpa_report(played: Played) -> RenderableType:
    sla = played.plan.sla
    headings = ("clients", "from", "for", "requests", "errors", "p99", "SLA")
    shown = table(
        ("", *headings),
        [
            *(("FIND", *_window_cells(clients, window, sla)) for clients, window in played.stages),
            *(("HOLD", *_window_cells(played.clients, window, sla)) for window in played.windows),
        ],
        title=f"{played.plan.url} (times in s)",
        numbers=headings,
        least=("requests", "for"),
        look="compact",
        above_line=len(played.stages),
    )
    return Group(shown, *(Text(line) for line in _list_remarks(played)))


def line_of(clients: int, window: Window, sla: Sla) -> str:
    """Format one window's measurements as a line of text."""
    _, start, _, requests, errors, p99, verdict = _window_cells(clients, window, sla)
    seen = f"requests {requests}, errors {errors}, p99 {p99} s: {verdict}"
    return f"{start} s: clients {clients}, {seen}"


def _window_cells(clients: int | None, window: Window, sla: Sla) -> list[str]:
    return [
        str(clients),
        f"{window.start:.0f}",
        f"{window.seconds:.1f}",
        str(window.requests),
        str(window.errors),
        "-" if window.p99 is None else f"{window.p99:.3f}",
        "good" if window.good(sla) else "bad",
    ]


def _list_remarks(played: Played) -> list[str]:
    lines, p99s, found = [], played.p99s, played.recovery
    if played.interrupted:
        lines.append("Stopped before its end; the window that was cut short is left out.")
    if played.ok_rate is not None:
        good = f"HOLD, clients {played.clients}: {played.ok_rate:.0%} of the windows are good"
        if p99s:
            good += f", p99 at most {max(p99s):.3f} s, on average {sum(p99s) / len(p99s):.3f} s"
        lines.append(f"{good}.")
    if found is not None:
        lines.append(
            {
                "recovered": f"Time to recover: {found.seconds:.1f} s.",
                "no_degradation": "No window was bad: there was nothing to recover from.",
                "no_recovery_within_hold": "Not recovered: it takes longer than HOLD.",
            }[found.mode]
        )
    return lines
