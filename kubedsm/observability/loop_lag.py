"""How late the event loop is: so long all that goes on in this process waits for its turn."""

from collections.abc import Callable

import structlog

from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause

log = structlog.get_logger()

#: seconds from one look to the next
LOOK = 0.05
#: seconds; a turn of the loop that takes longer is told. Shorter ones come at every start
TOLD = 0.5


async def watch_the_loop(clock: Clock, *hearing: Callable[[float], object]) -> None:
    """Measure it, until cancelled; all who listen hear of each look, in seconds."""
    said = SaidByCause(clock)
    while True:
        due = clock.monotonic() + LOOK
        await clock.sleep(LOOK)
        late = max(0.0, clock.monotonic() - due)
        for hear in hearing:
            hear(late)
        more = said.count_suppressed("event loop", "late") if late > TOLD else None
        if more is not None:
            log.warning("event loop late", milliseconds=round(1000 * late), more=more)
