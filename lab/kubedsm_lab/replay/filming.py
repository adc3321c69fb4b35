"""A film of a run in virtual time: what a viewer of it would have seen, message by message.

It is looked between two moments, when nothing more happens at the one and nothing yet at the other:
so that a run goes the same way whether it is filmed or not.
"""

import math
from typing import TypeVar

import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.recording import Recording
from kubedsm.dashboard.rows import Changes, Snapshot, encode_message
from kubedsm.dashboard.state.scene import Scene
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import Clock, VirtualClock

M = TypeVar("M", Snapshot, Changes)
#: seconds from one picture to the next at least, and how many there are at most
PICTURE, MOST = 0.25, 3600


class Camera:
    """Takes the film of one run."""

    def __init__(self) -> None:
        #: hears what happens in the run
        self.scene = Scene(VirtualClock())
        self._film: Recording | None = None
        self._runtime: Runtime | None = None
        #: by the loop's time: when the next picture is due, and the last
        self._due = self._ends = math.inf
        self._every = PICTURE
        #: what the loop's time is counted from, in seconds since the epoch
        self._epoch = 0.0

    def film(self, runtime: Runtime, clock: Clock, begins: float, seconds: float) -> None:
        """Take pictures from that moment on, for so long."""
        self._runtime, self._epoch = runtime, clock.wall() - clock.monotonic()
        self._due, self._ends = begins, begins + seconds
        self._every = max(PICTURE, seconds / MOST)

    def passing(self, then: float) -> None:
        """Take a picture, if one is due before that moment, until which all stays as it is."""
        if then <= self._due or self._runtime is None:
            return
        changes = self.scene.look(self._runtime, Leadership(), self._at(self._due))
        if self._film is None:
            self._film = Recording(_in_order(self.scene.snapshot()), span=math.inf)
        elif changes is not None:
            self._film.add(_in_order(changes))
        self._due += self._every * math.ceil((then - self._due) / self._every)

    def lines(self) -> bytes:
        """All that was seen, a message a line; the last one says how long nothing more changed."""
        if self._film is None:
            return b""
        end = Changes(self._film.version + 1, self._at(self._ends), {})
        return b"\n".join((*self._film.lines(), encode_message(end)))

    def _at(self, moment: float) -> float:
        return round(self._epoch + moment, 3)


def _in_order(message: M) -> M:
    """The same, whatever order its rows came in: so the same run is the same film."""
    rows = {table: dict(sorted(some.items())) for table, some in message.rows.items()}
    return msgspec.structs.replace(message, rows=rows)
