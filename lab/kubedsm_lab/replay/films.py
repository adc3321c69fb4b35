"""Recordings of replays for the web page, which plays two recordings in parallel.

A frame is taken between two moments, after the first and before the second. Recording therefore
does not influence a run.
"""

import math
from typing import TypeVar

import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.recording import Recording
from kubedsm.dashboard.rows import Changes, Snapshot, encode_message, list_tables
from kubedsm.dashboard.state.scene import Scene
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import Clock
from kubedsm_lab.replay.virtual_time import VirtualClock

M = TypeVar("M", Snapshot, Changes)
#: minimum seconds between two frames, and maximum number of frames
PICTURE, MOST = 0.25, 3600


class Camera:
    """Recorder of a replay's frames (state of nodes, pods and migrations), as messages for the web
    page.
    """

    def __init__(self) -> None:
        #: listener of the scheduler
        self.scene = Scene(VirtualClock())
        self._film: Recording | None = None
        self._runtime: Runtime | None = None
        #: loop times of the next frame and of the last one
        self._due = self._ends = math.inf
        self._every = PICTURE
        #: origin of the loop time, as a Unix timestamp
        self._epoch = 0.0

    def film(self, runtime: Runtime, clock: Clock, begins: float, seconds: float) -> None:
        """Start recording frames of a scheduler at loop time `begins`, for `seconds`."""
        self._runtime, self._epoch = runtime, clock.wall() - clock.monotonic()
        self._due, self._ends = begins, begins + seconds
        self._every = max(PICTURE, seconds / MOST)

    def passing(self, then: float) -> None:
        """Record a frame if one is due before loop time `then`, to which the virtual clock is about
        to jump.
        """
        if then <= self._due or self._runtime is None:
            return
        changes = self.scene.look(self._runtime, Leadership(), self._at(self._due))
        if self._film is None:
            self._film = Recording(_sort_rows(self.scene.snapshot()), span=math.inf)
        elif changes is not None:
            self._film.add(_sort_rows(changes))
        self._due += self._every * math.ceil((then - self._due) / self._every)

    def lines(self) -> bytes:
        """Return the recorded messages, one per line; the last one marks the recording's end."""
        if self._film is None:
            return b""
        end = Changes(self._film.version + 1, self._at(self._ends), {})
        return b"\n".join((*self._film.lines(), encode_message(end)))

    def _at(self, moment: float) -> float:
        return round(self._epoch + moment, 3)


def _sort_rows(message: M) -> M:
    """Return the page's message with sorted rows, so that recordings of identical runs are
    identical.
    """
    rows = {table: dict(sorted(some.items())) for table, some in list_tables(message.rows)}
    return msgspec.structs.replace(message, rows=rows)
